/** One table per kind with its current records: see `kind-table.ts`. */
import { kindTable } from '../kind-table.ts';

export const organizations = kindTable('organizations');
export const projects = kindTable('projects');
export const roles = kindTable('roles');
export const roleMemberships = kindTable('role_memberships');
export const members = kindTable('members');
export const invites = kindTable('invites');
export const domains = kindTable('domains');
export const pipelineDestinations = kindTable('pipeline_destinations');
export const pipelineFrontendApps = kindTable('pipeline_frontend_apps');
export const pipelineImportApps = kindTable('pipeline_import_apps');
export const pipelineTransformations = kindTable('pipeline_transformations');
export const plugins = kindTable('plugins');
export const batchExports = kindTable('batch_exports');
export const proxyRecords = kindTable('proxy_records');
export const sessionRecordings = kindTable('session_recordings');
export const recordingSharing = kindTable('recording_sharing');
