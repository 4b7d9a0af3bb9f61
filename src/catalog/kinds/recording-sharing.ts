/** Sharing of a recording (interface.md: Sharing configuration of a recording). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { owned } from '../fields.ts';
import { neverRestored } from '../restore-rules.ts';

const sharingPath = '/api/projects/:project_id/session_recordings/:recording_id/sharing/';

export const recordingSharing = defineKind({
  kind: 'recording_sharing',
  title: { one: 'recording sharing', many: 'recording sharings' },
  path: sharingPath,
  // design.md, JSON documents: its scope is the project, and its id is that of the recording.
  scope: ['project_id'],
  discovery: { from: 'session_recordings' },
  reading: 'each',
  idPath: [],
  idType: 'string',
  idParameter: 'recording_id',
  naturalKey: [],
  nameFrom: [],
  permission: {
    read: 'sharing_configuration:read',
    write: 'sharing_configuration:write',
    isDocumented: true,
  },
  operations: [
    {
      method: 'GET',
      path: sharingPath,
      role: 'retrieve',
      action: null,
      permission: 'sharing_configuration:read',
    },
  ],
  hasDocumentedFields: true,
  fields: [
    owned('created_at', 'timestamp', 'When sharing was set up.'),
    owned('enabled', 'boolean', 'Whether anybody with the link can watch.', { severity: 'critical' }),
    owned('access_token', 'string', 'The secret part of the link.', { isSecret: true, severity: 'high' }),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: neverRestored('the API cannot write it'),
});
