/** Projects and proxy records. interface.md shows no payload for either; wire-notes.md, Restore and Values, guides. */
import { createHash } from 'node:crypto';
import type { FieldDefinition } from '../../catalog/definition.ts';
import { writable } from '../../catalog/fields.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { valueText } from '../value-text.ts';
import { invalid } from '../wire-error.ts';
import type { KindRules } from './kind-rules.ts';

/** Settings of a project with what a new one has. */
const PROJECT_SETTINGS: readonly { readonly field: FieldDefinition; readonly initial: JsonValue }[] = [
  { field: writable('name', 'string', 'Display name.'), initial: '' },
  { field: writable('product_description', 'string', 'What the product is.'), initial: null },
  { field: writable('timezone', 'string', 'Zone of its reports.'), initial: 'UTC' },
  { field: writable('week_start_day', 'integer', 'First day of the week.'), initial: null },
  { field: writable('app_urls', 'array', 'Addresses where the toolbar may open.'), initial: [] },
  { field: writable('recording_domains', 'array', 'Pages that may be recorded.'), initial: null },
  { field: writable('anonymize_ips', 'boolean', 'Whether addresses are dropped.'), initial: false },
  { field: writable('completed_snippet_onboarding', 'boolean', 'Whether it was set up.'), initial: false },
  { field: writable('test_account_filters', 'array', 'What counts as internal traffic.'), initial: [] },
  { field: writable('data_attributes', 'array', 'Attributes that name elements.'), initial: ['data-attr'] },
  { field: writable('autocapture_opt_out', 'boolean', 'Whether clicks are left out.'), initial: null },
  {
    field: writable('capture_console_log_opt_in', 'boolean', 'Whether console lines are kept.'),
    initial: null,
  },
  { field: writable('capture_performance_opt_in', 'boolean', 'Whether timings are kept.'), initial: null },
  {
    field: writable('session_recording_opt_in', 'boolean', 'Whether sessions are recorded.'),
    initial: false,
  },
  { field: writable('session_recording_sample_rate', 'any', 'Share that is recorded.'), initial: null },
  {
    field: writable(
      'session_recording_minimum_duration_milliseconds',
      'integer',
      'Shorter ones are dropped.',
    ),
    initial: null,
  },
  { field: writable('surveys_opt_in', 'boolean', 'Whether surveys are shown.'), initial: null },
  { field: writable('heatmaps_opt_in', 'boolean', 'Whether heat maps are kept.'), initial: null },
  { field: writable('access_control', 'boolean', 'Whether the project is private.'), initial: false },
  { field: writable('slack_incoming_webhook', 'string', 'Address that accepts messages.'), initial: null },
  { field: writable('extra_settings', 'any', 'Anything else.'), initial: null },
];

export const projects: KindRules = {
  order: { by: 'creation' },
  request: {
    fields: PROJECT_SETTINGS.map(({ field }) => field),
    required: ['name'],
    notNull: ['timezone', 'app_urls', 'anonymize_ips', 'access_control'],
    checks: {},
  },
  create: (transaction, scope, accepted) => {
    const settings = PROJECT_SETTINGS.map(({ field, initial }) => [field.name, initial] as const);
    return {
      body: {
        id: transaction.nextNumber('projects'),
        uuid: transaction.uuid(),
        organization: scope.organization_id ?? '',
        api_token: transaction.token('svc_'),
        ...Object.fromEntries(settings),
        ...accepted,
        is_demo: false,
        ingested_event: false,
        created_at: transaction.nowText,
        updated_at: transaction.nowText,
        secret_api_token: null,
        secret_api_token_backup: null,
        live_events_token: '',
      },
    };
  },
  update: (transaction, target, accepted) => ({
    ...target.body,
    ...accepted,
    updated_at: transaction.nowText,
  }),
  remove: (transaction, target) => transaction.discardScope('project_id', target.id),
  recordActions: {
    reset_token: (transaction, target) => {
      const changed: JsonObject = {
        ...target.body,
        api_token: transaction.token('svc_'),
        updated_at: transaction.nowText,
      };
      transaction.save('projects', target.scope, changed, target.note);
      return 'record';
    },
  },
  present: (reading, _scope, { body }) =>
    'live_events_token' in body ? { ...body, live_events_token: liveToken(body, reading.now) } : body,
};

const HOUR_MS = 60 * 60 * 1000;

/** Moves by itself, as on real deployments; by the hour, so that two readings of one state can be compared. */
function liveToken(project: JsonObject, now: number): string {
  const seed = `${JSON.stringify(project['id'])} ${Math.floor(now / HOUR_MS)}`;
  return `live_${createHash('sha256').update(seed).digest('base64url')}`;
}

export const proxyRecords: KindRules = {
  order: { by: 'newest', field: 'created_at' },
  request: {
    fields: [writable('domain', 'string', 'The proxy serves under this name.')],
    required: ['domain'],
    notNull: [],
    checks: {},
  },
  create: (transaction, scope, accepted) => {
    const domain = valueText(accepted['domain']);
    if (transaction.bodies('proxy_records', scope).some((each) => each['domain'] === domain)) {
      throw invalid('domain', 'unique', 'proxy record with this domain already exists.');
    }
    return {
      body: {
        id: transaction.uuid(),
        domain,
        target_cname: `${transaction.token('').toLowerCase().slice(0, 16)}.proxy.svc.example`,
        status: 'waiting',
        message: null,
        created_at: transaction.nowText,
        updated_at: transaction.nowText,
        created_by: transaction.user()['id'] ?? null,
      },
    };
  },
  // wire-notes.md, Restore: only `domain`, immutable after creation.
  update: (_transaction, target, accepted) => {
    if ('domain' in accepted && accepted['domain'] !== target.body['domain']) {
      throw invalid('domain', 'invalid', 'The domain of a proxy record cannot be changed.');
    }
    return target.body;
  },
};
