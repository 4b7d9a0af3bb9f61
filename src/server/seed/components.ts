/** The demo's pipeline components. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { type Chance, exactNumber } from './chance.ts';
import type { SeedRecord } from './seed.ts';

interface SeedFamily {
  readonly kind: Kind;
  readonly methods: readonly string[];
  readonly names: readonly string[];
}

const FAMILIES: readonly SeedFamily[] = [
  {
    kind: 'pipeline_destinations',
    methods: ['composeWebhook'],
    names: [
      'Webhook to Lagerhaus',
      'Customer.io sync',
      'Slack: #releases',
      'Salesforce leads',
      'HubSpot contacts',
      'Intercom events',
      'Braze audiences',
      'Zapier bridge',
      'PubSub fan-out',
      'RudderStack relay',
      'Mailjet — welcome series',
      'Kafka (eu-north)',
    ],
  },
  {
    kind: 'pipeline_frontend_apps',
    methods: [],
    names: ['Cookie banner', 'Pineapple mode 🍍', 'Feedback widget', 'Early access list', 'Bug reporter'],
  },
  {
    kind: 'pipeline_import_apps',
    methods: ['runEveryMinute'],
    names: ['Stripe importer', 'Zendesk tickets', 'Redshift import', 'S3 CSV import'],
  },
  {
    kind: 'pipeline_transformations',
    methods: ['processEvent'],
    names: [
      'GeoIP enrichment',
      'Drop internal traffic',
      'Property filter (DSGVO)',
      'URL normaliser',
      'Timestamp parser',
      'Downsample heartbeat',
      'Currency normaliser €→¢',
      'Schema enforcer',
    ],
  },
  { kind: 'plugins', methods: [], names: ['Unreleased: replay tagger', 'Sandbox probe', 'Legacy taxonomy'] },
];

const SOURCES = ['repository', 'custom', 'source', 'inline', 'local'];

function configSchema(name: string): JsonValue {
  return [
    { key: 'endpoint', name: 'Endpoint', type: 'string', required: true, default: '' },
    {
      key: 'sample_rate',
      name: 'Sample rate',
      type: 'number',
      default: exactNumber('1.10'),
      required: false,
    },
    { markdown: `**${name}** – settings` },
    { key: 'token', name: 'Token', type: 'string', secret: true, required: false },
  ];
}

function componentBody(
  id: number,
  name: string,
  owner: { readonly id: string; readonly name: string },
  methods: readonly string[],
  chance: Chance,
): JsonObject {
  const type = chance.pick(SOURCES);
  const slug = name.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  const isRepository = type === 'repository';
  return {
    id,
    plugin_type: type,
    name,
    description: id % 5 === 0 ? null : `${name}, set up by the data team`,
    url: isRepository ? `https://code.example/svc-plugins/${slug}` : null,
    icon: id % 3 === 0 ? null : `https://static.svc.example/icons/${slug}.png`,
    config_schema: configSchema(name),
    tag: isRepository ? `v1.${id % 7}.${id % 4}` : null,
    latest_tag: isRepository ? `v1.${(id % 7) + 1}.0` : null,
    is_global: false,
    organization_id: owner.id,
    organization_name: owner.name,
    capabilities: { jobs: [], methods: [...methods], scheduled_tasks: [] },
    metrics: methods.length === 0 ? {} : { events_seen: 'sum', last_batch: 'max' },
    public_jobs:
      id % 6 === 0 ? { 'Export historical events': { payload: { dateFrom: { type: 'date' } } } } : {},
    svc_function_migration_available: id % 2 === 0 ? 'true' : 'false',
  };
}

/** Every family, then plugins that belong to none. Ids go up from `firstId`. */
export function componentRecords(
  owner: { readonly id: string; readonly name: string },
  firstId: number,
  chance: Chance,
): SeedRecord[] {
  const scope: Scope = { organization_id: owner.id };
  let id = firstId - 1;
  return FAMILIES.flatMap(({ kind, names, methods }) =>
    names.map((name) => {
      id += 1;
      return { kind, scope, body: componentBody(id, name, owner, methods, chance) };
    }),
  );
}

/** The small organization's: one of them global, so that the other organization sees it too. */
export function sharedComponentRecords(
  owner: { readonly id: string; readonly name: string },
  firstId: number,
  chance: Chance,
): SeedRecord[] {
  const scope: Scope = { organization_id: owner.id };
  const shared = componentBody(firstId, 'Bot detector', owner, ['processEvent'], chance);
  const own = componentBody(firstId + 1, 'Versand-Webhook', owner, ['composeWebhook'], chance);
  return [
    { kind: 'pipeline_transformations', scope, body: { ...shared, is_global: true } },
    { kind: 'pipeline_destinations', scope, body: own },
  ];
}
