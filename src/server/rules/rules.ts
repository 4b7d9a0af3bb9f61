/** The rules of the sandbox for every kind: own ones, or plain ones that follow from the catalog. */
import { createHash } from 'node:crypto';
import { CATALOG } from '../../catalog/catalog.ts';
import type { FieldDefinition } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { writable } from '../../catalog/fields.ts';
import { pipelineDestinations as documented } from '../../catalog/kinds/pipeline-components.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { valueText } from '../value-text.ts';
import { invalid } from '../wire-error.ts';
import { invites, members, roleMemberships, roles } from './access.ts';
import { batchExports } from './batch-exports.ts';
import type { KindRules } from './kind-rules.ts';
import { domains, organizations } from './organizations.ts';
import { acceptBody, type RequestRules } from './request-rules.ts';

// Projects and proxy records. interface.md shows no payload for either; see wire-notes.md, Restore and Values.

/** Settings of a project, with their values in a new one. */
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

const projects: KindRules = {
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

/** Volatile, as on real deployments, but it changes only every hour, so that two readings of one state can be compared. */
function liveToken(project: JsonObject, now: number): string {
  const seed = `${JSON.stringify(project['id'])} ${Math.floor(now / HOUR_MS)}`;
  return `live_${createHash('sha256').update(seed).digest('base64url')}`;
}

const proxyRecords: KindRules = {
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

// Pipeline components (interface.md: Pipeline component). One row is in several lists (wire-notes.md, Lists): `plugins`
// shows every component of the organization, a family those that were created through it, and both show global
// components of other organizations.

// interface.md shows no payload for three of the families: they have the fields of the documented one.
const request: RequestRules = {
  fields: documented.fields.filter((field) => field.isWritable),
  required: ['plugin_type'],
  notNull: ['is_global'],
  checks: {},
};

function componentRules(kind: Kind, family: Omit<NonNullable<KindRules['view']>, 'table'>): KindRules {
  return {
    order: { by: 'creation' },
    request,
    view: { table: 'components', ...family },
    isShared: (body) => body['is_global'] === true,
    create: (transaction, scope, accepted) => {
      const organizationId = scope.organization_id ?? '';
      const organization = transaction.body('organizations', {}, organizationId);
      const body: JsonObject = {
        id: transaction.nextNumber('components'),
        plugin_type: accepted['plugin_type'] ?? '',
        name: accepted['name'] ?? null,
        description: accepted['description'] ?? null,
        url: null,
        icon: accepted['icon'] ?? null,
        config_schema: accepted['config_schema'] ?? {},
        tag: accepted['tag'] ?? null,
        latest_tag: accepted['tag'] ?? null,
        is_global: accepted['is_global'] ?? false,
        organization_id: organizationId,
        organization_name: organization?.['name'] ?? null,
        capabilities: accepted['capabilities'] ?? {},
        metrics: accepted['metrics'] ?? {},
        public_jobs: accepted['public_jobs'] ?? {},
        svc_function_migration_available: 'false',
      };
      // A field that was sent as null stays null, even if the default is an empty object.
      return { body: { ...body, ...accepted }, note: family.note ?? {} };
    },
    update: (_transaction, target, accepted) => ({ ...target.body, ...accepted }),
    recordActions: {
      update_source: (transaction, target, body) => {
        const accepted = acceptBody(request, body, 'update');
        transaction.save(kind, target.scope, { ...target.body, ...accepted }, target.note);
        return 'nothing';
      },
      upgrade: (transaction, target, body) => {
        acceptBody(request, body, 'update');
        const latest = target.body['latest_tag'];
        if (typeof latest === 'string') {
          transaction.save(kind, target.scope, { ...target.body, tag: latest }, target.note);
        }
        return 'nothing';
      },
    },
  };
}

function familyRules(kind: Kind): KindRules {
  return componentRules(kind, { note: { family: kind }, shows: (note) => note.family === kind });
}

const pipelineDestinations = familyRules('pipeline_destinations');
const pipelineFrontendApps = familyRules('pipeline_frontend_apps');
const pipelineImportApps = familyRules('pipeline_import_apps');
const pipelineTransformations = familyRules('pipeline_transformations');
const plugins = componentRules('plugins', { shows: () => true });

// Session recordings and their sharing can be read, and recordings can be removed (interface.md: Session recordings).

const sessionRecordings: KindRules = {
  order: { by: 'newest', field: 'start_time' },
  request: null,
  remove: (transaction, target) => transaction.discard('recording_sharing', target.scope, target.id),
};

const recordingSharing: KindRules = {
  order: { by: 'creation' },
  request: null,
  // Every recording has one; those of unshared recordings are computed, since a project may have a hundred thousand.
  implied: (reading, scope, id) => {
    const recording = reading.body('session_recordings', scope, id);
    if (recording === undefined) return undefined;
    return {
      created_at: recording['start_time'] ?? null,
      enabled: false,
      access_token: createHash('sha256').update(`sharing ${id}`).digest('base64url').slice(0, 30),
    };
  },
};

/** The rules of a kind without own ones: writable fields are accepted, an id is assigned, and creation needs the natural key. */
function plainRules(definition: ResourceDefinition): KindRules {
  const { kind, fields, idPath, idType, naturalKey } = definition;
  const order = { by: 'creation' } as const;
  if (definition.operation('create') === undefined && definition.operation('update') === undefined)
    return { order, request: null };
  const taken = fields.filter(({ isWritable }) => isWritable);
  const [idField = 'id'] = idPath;
  return {
    order,
    request: {
      fields: taken,
      required: taken.map(({ name }) => name).filter((name) => naturalKey.includes(`/${name}`)),
      notNull: [],
      checks: {},
    },
    create: (transaction, _scope, accepted) => ({
      body: {
        [idField]: idType === 'integer' ? transaction.nextNumber(kind) : transaction.uuid(),
        ...Object.fromEntries(taken.map(({ name }) => [name, null])),
        ...accepted,
      },
    }),
    update: (_transaction, target, accepted) => ({ ...target.body, ...accepted }),
  };
}

const OWN_RULES: Readonly<Partial<Record<Kind, KindRules>>> = {
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

export const RULES = Object.fromEntries(
  CATALOG.map((definition) => [definition.kind, OWN_RULES[definition.kind] ?? plainRules(definition)]),
) as Readonly<Record<Kind, KindRules>>;
