/** Session recordings and their sharing (interface.md: Session recording, Sharing configuration of a recording). */
import { type ResourceDefinition, DEFAULT_LISTING } from './definition.ts';
import { owned, verbs, volatile } from './fields.ts';
import { neverRestored } from './restore-rules.ts';

const RECORDING = { read: 'session_recording:read', write: 'session_recording:write' };

const recordingsPath = '/api/projects/:project_id/session_recordings/';

export const sessionRecordings: ResourceDefinition = {
  kind: 'session_recordings',
  title: { one: 'session recording', many: 'session recordings' },
  path: recordingsPath,
  scope: ['project_id'],
  discovery: { from: 'projects' },
  reading: 'feed',
  idPath: ['id'],
  idType: 'string',
  idParameter: 'id',
  naturalKey: ['/id'],
  nameFrom: ['/person/name', '/distinct_id'],
  permission: { ...RECORDING, isDocumented: true },
  operations: verbs(recordingsPath, 'id', ['list', 'retrieve', 'remove'], RECORDING),
  hasDocumentedFields: true,
  fields: [
    owned('id', 'string', 'Identifier of the recording.'),
    owned('distinct_id', 'string', 'Identifier of the recorded user.'),
    volatile('viewed', 'boolean', "Whether the key's own user watched it."),
    owned('recording_duration', 'number', 'Length in seconds.'),
    owned('active_seconds', 'number', 'Seconds with activity.'),
    owned('inactive_seconds', 'number', 'Seconds without activity.'),
    owned('start_time', 'timestamp', 'When it begins.'),
    owned('end_time', 'timestamp', 'When it ends.'),
    owned('click_count', 'integer', 'Clicks.'),
    owned('keypress_count', 'integer', 'Key presses.'),
    owned('mouse_activity_count', 'integer', 'Mouse events.'),
    owned('console_log_count', 'integer', 'Console lines.'),
    owned('console_warn_count', 'integer', 'Console warnings.'),
    owned('console_error_count', 'integer', 'Console errors.'),
    owned('start_url', 'string', 'First page.'),
    owned('person', 'object', 'The recorded person: id, name, properties and more.'),
    owned('storage', 'string', 'Where the service keeps it.'),
    owned('snapshot_source', 'string', 'What recorded it.'),
    volatile('ongoing', 'boolean', 'Whether it is still being recorded.'),
  ],
  references: [],
  listing: DEFAULT_LISTING,
  family: null,
  restore: neverRestored('recordings are what users did: they cannot be created or changed'),
};

const sharingPath = '/api/projects/:project_id/session_recordings/:recording_id/sharing/';

export const recordingSharing: ResourceDefinition = {
  kind: 'recording_sharing',
  title: { one: 'recording sharing', many: 'recording sharings' },
  path: sharingPath,
  // design.md, JSON documents: its scope is the project, its id the recording's.
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
  restore: neverRestored('the interface offers no way to write it'),
};
