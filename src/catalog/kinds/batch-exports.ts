/** Batch exports (interface.md: Batch export, Batch export run; Endpoints: Batch exports). */
import { type SecretsNeeded, DEFAULT_LISTING, defineKind } from '../definition.ts';
import { action, owned, verbs, volatile, writable } from '../fields.ts';
import { PLAIN_RESTORE } from '../restore-rules.ts';

const BATCH_EXPORT = { read: 'batch_export:read', write: 'batch_export:write' };

const batchExportsPath = '/api/organizations/:organization_id/batch_exports/';

/** The secrets that each type of destination needs (config/profiles/posthog.yaml, batch_exports). */
const SECRETS_BY_DESTINATION: SecretsNeeded = {
  by: '/type',
  byText: {
    S3: [['/config/aws_access_key_id'], ['/config/aws_secret_access_key']],
    Snowflake: [['/config/user'], ['/config/password', '/config/private_key']],
    Postgres: [['/config/user'], ['/config/password']],
    Redshift: [['/config/user'], ['/config/password']],
    BigQuery: [
      ['/config/private_key'],
      ['/config/private_key_id'],
      ['/config/client_email'],
      ['/config/token_uri'],
    ],
    HTTP: [['/config/token']],
    NoOp: [],
  },
};

export const batchExports = defineKind({
  kind: 'batch_exports',
  title: { one: 'batch export', many: 'batch exports' },
  path: batchExportsPath,
  scope: ['organization_id'],
  discovery: { from: 'organizations' },
  reading: 'list',
  idPath: ['id'],
  idType: 'uuid',
  idParameter: 'id',
  naturalKey: ['/team_id', '/name'],
  nameFrom: ['/name'],
  permission: { ...BATCH_EXPORT, isDocumented: true },
  operations: [
    ...verbs(batchExportsPath, 'id', ['list', 'create', 'retrieve', 'update', 'remove'], BATCH_EXPORT),
    action('POST', batchExportsPath, ':id/backfill/', BATCH_EXPORT.write),
    action('GET', batchExportsPath, ':id/logs/', null),
    action('POST', batchExportsPath, ':id/pause/', BATCH_EXPORT.write),
    action('POST', batchExportsPath, ':id/unpause/', BATCH_EXPORT.write),
  ],
  hasDocumentedFields: true,
  fields: [
    owned('id', 'uuid', 'Identifier of the export.'),
    // Marked neither writable nor response only, and no request of the API has it. A profile may make it writable.
    owned('team_id', 'integer', 'Project whose data is exported.', { severity: 'high' }),
    writable('name', 'string', 'Display name.', { severity: 'low' }),
    writable('model', 'string', 'What is exported: events or persons.', {
      severity: 'high',
      values: ['events', 'persons'],
    }),
    writable('destination', 'object', 'Where it goes: type and config.', {
      severity: 'high',
      // wire-notes.md, Secrets: keys, passwords, private keys and tokens are omitted on read.
      secretPointers: [
        '/config/aws_access_key_id',
        '/config/aws_secret_access_key',
        '/config/user',
        '/config/password',
        '/config/private_key',
        '/config/private_key_passphrase',
        '/config/private_key_id',
        '/config/client_email',
        '/config/token',
        '/config/token_uri',
      ],
      secretsNeeded: SECRETS_BY_DESTINATION,
    }),
    writable('interval', 'string', 'How often it runs.', { severity: 'high' }),
    writable('paused', 'boolean', 'Whether the export is paused.', { severity: 'critical' }),
    owned('created_at', 'timestamp', 'When the export was created.'),
    volatile('last_updated_at', 'timestamp', 'When the export last moved.'),
    writable('last_paused_at', 'timestamp', 'When it was last paused.', { severity: 'low' }),
    writable('start_at', 'timestamp', 'No runs are triggered before this time.'),
    writable('end_at', 'timestamp', 'No runs are triggered after this time.'),
    volatile('latest_runs', 'array', 'The latest runs with status and counts.'),
    // wire-notes.md, Secrets: it may never be returned; then its text is in the read-only `schema`.
    writable('svcql_query', 'string', 'Query that selects what is exported.', {
      severity: 'high',
      shownAt: '/schema/svcql_query',
    }),
    owned('schema', 'any', 'Columns that the query yields.'),
  ],
  references: [{ pointer: '/team_id', kind: 'projects', target: '/id' }],
  listing: DEFAULT_LISTING,
  family: null,
  restore: {
    ...PLAIN_RESTORE,
    // wire-notes.md, Restore: created paused, since otherwise the schedule starts at once; paused before other changes,
    // unpaused after them.
    state: {
      field: 'paused',
      onCreation: true,
      actions: [
        { value: true, action: 'pause', order: 'before', alsoSets: ['last_paused_at'] },
        // wire-notes.md, Restore: unpausing sets it too.
        { value: false, action: 'unpause', order: 'after', alsoSets: ['last_paused_at'] },
      ],
    },
  },
});
