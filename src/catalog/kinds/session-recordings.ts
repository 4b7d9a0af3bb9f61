/** Session recordings of a project (interface.md: Session recording). */
import { DEFAULT_LISTING, defineKind } from '../definition.ts';
import { RECORDING, owned, verbs, volatile } from '../fields.ts';
import { neverRestored } from '../restore-rules.ts';

const recordingsPath = '/api/projects/:project_id/session_recordings/';

export const sessionRecordings = defineKind({
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
});
