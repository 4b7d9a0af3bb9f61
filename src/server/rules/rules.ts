/** The sandbox's rules of every kind; the type holds that none is missing. */
import type { Kind } from '../../catalog/definition.ts';
import { invites, members, roleMemberships, roles } from './access.ts';
import { batchExports } from './batch-exports.ts';
import type { KindRules } from './kind-rules.ts';
import { domains, organizations } from './organizations.ts';
import {
  pipelineDestinations,
  pipelineFrontendApps,
  pipelineImportApps,
  pipelineTransformations,
  plugins,
} from './pipeline.ts';
import { projects, proxyRecords } from './projects.ts';
import { recordingSharing, sessionRecordings } from './recordings.ts';

export const RULES: Readonly<Record<Kind, KindRules>> = {
  organizations,
  projects,
  roles,
  role_memberships: roleMemberships,
  members,
  invites,
  domains,
  pipeline_destinations: pipelineDestinations,
  pipeline_frontend_apps: pipelineFrontendApps,
  pipeline_import_apps: pipelineImportApps,
  pipeline_transformations: pipelineTransformations,
  plugins,
  batch_exports: batchExports,
  proxy_records: proxyRecords,
  session_recordings: sessionRecordings,
  recording_sharing: recordingSharing,
};
