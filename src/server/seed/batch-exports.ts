/** The demo's batch exports, with secrets that the service keeps to itself. */
import type { Scope } from '../../catalog/definition.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { type Chance, daysBefore, exactNumber } from './chance.ts';
import type { SeedRecord } from './seed.ts';

interface SeedExport {
  readonly name: string;
  readonly type: string;
  readonly interval: string;
  readonly model?: string;
  readonly isPaused?: boolean;
  readonly query?: string;
}

const KITTIWAKE: readonly SeedExport[] = [
  { name: 'Events → S3 (cold storage)', type: 'S3', interval: 'hour' },
  { name: 'Events → S3 (Frankfurt mirror)', type: 'S3', interval: 'hour' },
  { name: 'Persons → Snowflake', type: 'Snowflake', interval: 'day', model: 'persons' },
  { name: 'Events → Snowflake', type: 'Snowflake', interval: 'hour' },
  { name: 'Events → BigQuery', type: 'BigQuery', interval: 'hour' },
  { name: 'Persons → BigQuery', type: 'BigQuery', interval: 'day', model: 'persons' },
  {
    name: 'Billing events → Postgres',
    type: 'Postgres',
    interval: 'every 5 minutes',
    query: "SELECT event, properties.amount AS amount FROM events WHERE event = 'invoice_paid'",
  },
  { name: 'Events → Redshift', type: 'Redshift', interval: 'day' },
  { name: 'Clickstream → HTTP collector', type: 'HTTP', interval: 'hour' },
  {
    name: 'Checkout funnel → S3',
    type: 'S3',
    interval: 'day',
    query: "SELECT * FROM events WHERE event LIKE 'checkout%'",
  },
  { name: 'GDPR erasure log → S3', type: 'S3', interval: 'week' },
  { name: 'Feature usage → Postgres', type: 'Postgres', interval: 'day' },
  { name: 'Mobile events → S3', type: 'S3', interval: 'hour' },
  { name: 'Abgleich Lagerbestand → Redshift', type: 'Redshift', interval: 'day' },
  { name: '日次レポート → BigQuery', type: 'BigQuery', interval: 'day' },
  { name: 'Session starts → BigQuery', type: 'BigQuery', interval: 'hour' },
  { name: 'Experiment exposures → Snowflake', type: 'Snowflake', interval: 'hour' },
  { name: 'Web vitals → S3', type: 'S3', interval: 'day' },
  { name: 'Errors → HTTP collector', type: 'HTTP', interval: 'every 5 minutes' },
  { name: 'Surveys → Postgres', type: 'Postgres', interval: 'day' },
  { name: 'Marketing touchpoints → Redshift', type: 'Redshift', interval: 'day' },
  { name: 'Persons → Postgres (CRM)', type: 'Postgres', interval: 'hour', model: 'persons' },
  { name: 'Événements facturés → S3', type: 'S3', interval: 'week' },
  { name: 'Old warehouse (retired)', type: 'Redshift', interval: 'day', isPaused: true },
  { name: 'Load test sink', type: 'NoOp', interval: 'hour', isPaused: true },
  { name: 'Persons → S3 (audit)', type: 'S3', interval: 'week', model: 'persons' },
];

const TERN: readonly SeedExport[] = [
  { name: 'Bestellungen → S3', type: 'S3', interval: 'day' },
  { name: 'Kunden → Postgres', type: 'Postgres', interval: 'day', model: 'persons' },
];

function s3(chance: Chance, slug: string): JsonObject {
  return {
    bucket_name: `kittiwake-${slug}`,
    region: chance.pick(['eu-central-1', 'eu-north-1', 'us-east-1']),
    prefix: 'svc/events/{year}/{month}/',
    compression: chance.pick(['zstd', 'gzip', null]),
    file_format: 'Parquet',
    encryption: null,
    exclude_events: [],
    include_events: null,
    max_file_size_mb: exactNumber('512.50'),
    aws_access_key_id: `AKIA${chance.token('', 16).toUpperCase()}`,
    aws_secret_access_key: chance.token('', 40),
  };
}

function database(chance: Chance, slug: string): JsonObject {
  return {
    host: `${slug}.db.kittiwake.example`,
    port: 5432,
    database: 'analytics',
    schema: 'public',
    table_name: 'svc_events',
    user: 'svc_writer',
    has_self_signed_cert: false,
    password: chance.token('', 24),
  };
}

const CONFIG_BY_TYPE: Readonly<Record<string, (chance: Chance, slug: string) => JsonObject>> = {
  S3: s3,
  Postgres: database,
  Redshift: (chance, slug) => ({ ...database(chance, slug), port: 5439, properties_data_type: 'super' }),
  Snowflake: (chance, slug) => ({
    account: 'kw-eu1',
    database: 'ANALYTICS',
    schema: 'PUBLIC',
    warehouse: 'LOADING_WH',
    table_name: slug.toUpperCase().replaceAll('-', '_'),
    user: 'SVC',
    role: null,
    authentication_type: 'password',
    password: chance.token('', 24),
  }),
  BigQuery: (chance, slug) => ({
    project_id: 'kittiwake-dwh',
    project_number: exactNumber('9007199254740993'),
    dataset_id: 'svc',
    table_id: slug.replaceAll('-', '_'),
    use_json_type: true,
    client_email: 'svc@kittiwake-dwh.iam.example',
    private_key: `-----BEGIN PRIVATE KEY-----\n${chance.token('', 64)}\n-----END PRIVATE KEY-----\n`,
    private_key_id: chance.token('', 40),
    token_uri: 'https://oauth2.example/token',
  }),
  HTTP: (chance) => ({ url: 'https://collect.kittiwake.example/v1', token: chance.token('', 32) }),
  NoOp: () => ({}),
};

function run(batchExportId: string, hoursAgo: number, chance: Chance): JsonValue {
  const count = chance.between(1_000, 900_000);
  const status = chance.pick(['Completed', 'Completed', 'Completed', 'FailedRetryable', 'Cancelled']);
  const hour = 3_600_000;
  return {
    id: chance.uuid(),
    status,
    records_completed: status === 'Completed' ? count : null,
    latest_error: status === 'FailedRetryable' ? 'Connection to the destination timed out' : null,
    data_interval_start: daysBefore(0, (hoursAgo + 1) * hour),
    data_interval_end: daysBefore(0, hoursAgo * hour),
    cursor: null,
    created_at: daysBefore(0, hoursAgo * hour - 60_000),
    finished_at: daysBefore(0, hoursAgo * hour - 240_000),
    last_updated_at: daysBefore(0, hoursAgo * hour - 240_000),
    records_total_count: count,
    batch_export: batchExportId,
  };
}

function exportRecords(
  scope: Scope,
  exports: readonly SeedExport[],
  teamIds: readonly number[],
  chance: Chance,
): SeedRecord[] {
  return exports.map((each, index) => {
    const id = chance.uuid();
    const slug = each.name
      .toLowerCase()
      .replaceAll(/[^a-z0-9]+/g, '-')
      .replaceAll(/^-|-$/g, '');
    const config = CONFIG_BY_TYPE[each.type]?.(chance, slug) ?? {};
    const query = each.query ?? null;
    // Oldest first, the last two in another project than the main one.
    const teamId = teamIds[index >= exports.length - 2 ? teamIds.length - 1 : 0] ?? null;
    return {
      kind: 'batch_exports',
      scope,
      body: {
        id,
        team_id: teamId,
        name: each.name,
        model: each.model ?? 'events',
        destination: { type: each.type, config },
        interval: each.interval,
        paused: each.isPaused ?? false,
        created_at: daysBefore(400 - index * 14, chance.between(0, 9e6)),
        last_updated_at: daysBefore(chance.between(1, 30)),
        last_paused_at: each.isPaused === true ? daysBefore(45) : null,
        start_at: index % 3 === 0 ? daysBefore(390 - index * 14) : null,
        end_at: index % 7 === 6 ? daysBefore(-365) : null,
        latest_runs: each.isPaused === true ? [] : [1, 2, 3].map((hoursAgo) => run(id, hoursAgo, chance)),
        svcql_query: query,
        schema: query === null ? null : { svcql_query: query, fields: [] },
      },
    };
  });
}

/** @param teamIds projects of the organization, the main one first */
export function kittiwakeExports(scope: Scope, teamIds: readonly number[], chance: Chance): SeedRecord[] {
  return exportRecords(scope, KITTIWAKE, teamIds, chance);
}

export function ternExports(scope: Scope, teamIds: readonly number[], chance: Chance): SeedRecord[] {
  return exportRecords(scope, TERN, teamIds, chance);
}
