/** The requests of a careless administrator of the demo, as data. */
import type { Kind } from '../../catalog/kinds.ts';
import { type JsonObject, isJsonObject } from '../../core/json.ts';
import { valueText } from '../value-text.ts';
import { demoConfiguration, KITTIWAKE_ID } from './demo.ts';
import type { SeedRecord } from './seed.ts';

interface CarelessAction {
  readonly method: 'POST' | 'PATCH' | 'DELETE';
  readonly path: string;
  /** Sent as JSON, if there is one. */
  readonly body?: JsonObject;
  /** For people: one sentence in the past tense. */
  readonly says: string;
}

/**
 * The requests, in order, with the ids of `demoSeed`. They need a key with every permission. Each causes a difference
 * that a diff finds. Removals and changes can be restored through the API (recreated exports need their secrets), and
 * additions can be removed.
 */
export function carelessAdmin(): readonly CarelessAction[] {
  const records = demoConfiguration().records.filter((each) => each.scope.organization_id === KITTIWAKE_ID);
  const organization = `/api/organizations/${KITTIWAKE_ID}/`;
  const named = (kind: Kind, field: string, value: string): JsonObject =>
    find(records, kind, field, value).body;
  const exportPath = (name: string): string =>
    `${organization}batch_exports/${idOf(named('batch_exports', 'name', name))}/`;
  const removed = ['Events → S3 (cold storage)', 'Persons → Snowflake', 'Billing events → Postgres'];
  const role = named('roles', 'name', 'Compliance & Datenschutz');
  const membership = records.findLast((each) => each.scope.role_id === idOf(role));
  const member = memberNamed(records, 'Owen');
  return [
    ...removed.map((name): CarelessAction => ({
      method: 'DELETE',
      path: exportPath(name),
      says: `deleted the batch export "${name}"`,
    })),
    {
      method: 'PATCH',
      path: organization,
      body: { enforce_2fa: false },
      says: 'switched off two-factor enforcement for everybody',
    },
    {
      method: 'PATCH',
      path: `${organization}members/${member}/`,
      body: { level: 8 },
      says: 'made Owen Prys-Jones an administrator',
    },
    {
      method: 'PATCH',
      path: exportPath('Checkout funnel → S3'),
      body: {
        destination: { type: 'S3', config: { bucket_name: 'test-bucket-do-not-use', region: 'us-east-1' } },
      },
      says: 'sent the checkout funnel to a test bucket',
    },
    {
      method: 'POST',
      path: `${exportPath('Events → BigQuery')}pause/`,
      body: {},
      says: 'paused the export "Events → BigQuery"',
    },
    {
      method: 'DELETE',
      path: `${organization}roles/${idOf(role)}/role_memberships/${idOf(membership?.body ?? {})}/`,
      says: 'took somebody out of the role "Compliance & Datenschutz"',
    },
    {
      method: 'PATCH',
      path: `${organization}pipeline_destinations/${idOf(named('pipeline_destinations', 'name', 'Salesforce leads'))}/`,
      body: { config_schema: [{ key: 'endpoint', name: 'Endpoint', type: 'string', required: false }] },
      says: 'cut down the settings of the destination "Salesforce leads"',
    },
    {
      method: 'PATCH',
      path: `${organization}domains/${idOf(named('domains', 'domain', 'kittiwake.no.example'))}/`,
      body: { jit_provisioning_enabled: true },
      says: 'let anybody at kittiwake.no.example join by signing in',
    },
    {
      method: 'POST',
      path: `${organization}domains/`,
      body: { domain: 'kittiwake-holiday-raffle.example', jit_provisioning_enabled: true },
      says: 'added the domain kittiwake-holiday-raffle.example',
    },
    {
      method: 'POST',
      path: `${organization}invites/`,
      body: { target_email: 'someone@kittiwake-holiday-raffle.example', level: 8 },
      says: 'invited a stranger as administrator',
    },
  ];
}

function find(records: readonly SeedRecord[], kind: Kind, field: string, value: string): SeedRecord {
  const found = records.find((each) => each.kind === kind && each.body[field] === value);
  if (found === undefined) throw new Error(`the demo has no ${kind} whose ${field} is ${value}`);
  return found;
}

function memberNamed(records: readonly SeedRecord[], firstName: string): string {
  for (const { kind, body } of records) {
    const user = body['user'];
    if (kind === 'members' && isJsonObject(user) && user['first_name'] === firstName)
      return valueText(user['uuid']);
  }
  throw new Error(`the demo has no member called ${firstName}`);
}

function idOf(body: JsonObject): string {
  const id = body['id'];
  if (typeof id !== 'string' && typeof id !== 'number') throw new Error('a record of the demo has no id');
  return String(id);
}
