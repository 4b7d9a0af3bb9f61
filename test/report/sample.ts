/** A diff with something of everything: all three changes, several kinds, hostile texts, secrets, odd values. */
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { type RecordState, sortRecords } from '../../src/diff/states.ts';
import { diffStates } from '../diff/diff-states.ts';

export const SECRET = 'tok_3f9a8c1e77';
export const HOSTILE = '<script>alert(1)</script>"\'&`|@everyone\u001b[31m\u202eevil';
export const INVITE_ID = 'b7c0ffee-1111-4222-8333-444455556666';
export const ORGANIZATION = '01890000-aaaa-7000-8000-000000000001';
const inOrganization: Scope = { organization_id: ORGANIZATION };
const inProject: Scope = { project_id: '12' };

export function state(kind: Kind, scope: Scope, id: string, body: object | string): RecordState {
  return { kind, scope, id, body: typeof body === 'string' ? body : JSON.stringify(body) };
}

const exportBody = {
  id: 'x',
  team_id: 12,
  model: 'events',
  interval: 'hour',
  paused: false,
  start_at: null,
  end_at: null,
};
const before: RecordState[] = [
  state('organizations', {}, ORGANIZATION, {
    id: ORGANIZATION,
    name: 'Harbor Analytics',
    enforce_2fa: true,
    teams: [{ id: 12, name: 'Web' }],
    updated_at: '2026-02-01',
  }),
  state('batch_exports', inOrganization, 'be-1', {
    ...exportBody,
    id: 'be-1',
    name: 'Nightly S3',
    destination: { type: 'S3', config: { bucket_name: 'harbor-events', password: SECRET } },
  }),
  state('batch_exports', inOrganization, 'be-2', {
    ...exportBody,
    id: 'be-2',
    name: 'Snowflake hourly',
    destination: { type: 'Snowflake', config: { database: 'PROD', schema: 'EVENTS' } },
    svcql_query: `SELECT ${Array.from({ length: 60 }, (_unused, i) => `properties.column_${i}`).join(', ')} FROM events`,
  }),
  state('invites', inOrganization, INVITE_ID, { id: INVITE_ID, target_email: 'mira@example.com', level: 1 }),
  state('members', inOrganization, 'u-1', {
    id: 'm-1',
    user: { uuid: 'u-1', email: 'jo@example.com' },
    level: 8,
    last_login: 'a',
  }),
  state('members', inOrganization, 'u-2', {
    id: 'm-2',
    user: { uuid: 'u-2', email: 'li@example.com' },
    level: 1,
    last_login: 'a',
  }),
  state('recording_sharing', inProject, 'r-1', {
    enabled: false,
    access_token: SECRET,
    created_at: '2026-01-01',
  }),
  state('plugins', inOrganization, '7', '{"id":7,"name":"Counter","limit":12345678901234567890,"rate":1.10}'),
];
const after: RecordState[] = [
  state('organizations', {}, ORGANIZATION, {
    id: ORGANIZATION,
    name: 'Harbor Analytics',
    enforce_2fa: false,
    teams: [
      { id: 11, name: 'Docs' },
      { id: 12, name: 'Website' },
    ],
    updated_at: '2026-03-01',
  }),
  state('batch_exports', inOrganization, 'be-2', {
    ...exportBody,
    id: 'be-2',
    name: 'Snowflake hourly',
    paused: true,
    destination: { type: 'Snowflake', config: { database: 'STAGING', schema: 'EVENTS' } },
    svcql_query: `SELECT ${Array.from({ length: 61 }, (_unused, i) => `properties.column_${i}`).join(', ')} FROM events`,
  }),
  state('domains', inOrganization, 'd-1', {
    id: 'd-1',
    domain: HOSTILE,
    jit_provisioning_enabled: true,
    sso_enforcement: '',
  }),
  state('invites', inOrganization, INVITE_ID, { id: INVITE_ID, target_email: 'mira@example.com', level: 15 }),
  state('members', inOrganization, 'u-1', {
    id: 'm-1',
    user: { uuid: 'u-1', email: 'jo@example.com' },
    level: 15,
    last_login: 'b',
  }),
  state('members', inOrganization, 'u-2', {
    id: 'm-2',
    user: { uuid: 'u-2', email: 'li@example.com' },
    level: 1,
    last_login: 'b',
  }),
  state('recording_sharing', inProject, 'r-1', {
    enabled: true,
    access_token: `${SECRET}2`,
    created_at: '2026-01-01',
  }),
  state(
    'plugins',
    inOrganization,
    '7',
    '{"id":7,"name":"Counter","limit":12345678901234567891,"rate":1.1,"description":""}',
  ),
];

/** Baseline to live, with a collection that could not be read. */
export function sampleDiff(): DiffDocument {
  return diffStates(
    { reference: { ref: 'baseline', run: 41, at: '2026-03-01T07:00:00.000Z' }, records: sortRecords(before) },
    { reference: { ref: 'live', at: '2026-03-02T07:00:00.000Z' }, records: sortRecords(after) },
    {
      mode: 'default',
      skipped: [{ kind: 'roles', scope: inOrganization, reason: 'the key lacks organization:read' }],
    },
  );
}

export const sampleOptions = {
  definitions: definitionOf,
  title: 'Configuration drift',
  generatedAt: '2026-03-02T07:00:01.000Z',
  parentName: (kind: Kind, id: string) =>
    kind === 'organizations' && id === ORGANIZATION ? 'Harbor Analytics' : undefined,
  notes: ['2 findings accepted, 1 ignored by rule'],
};

/** A diff of one record of this kind that was changed from the one body text to the other. */
export function diffOf(kind: Kind, from: string, to: string): DiffDocument {
  return diffStates(
    { reference: { ref: 'run:1' }, records: [state(kind, inOrganization, 'x-1', from)] },
    { reference: { ref: 'run:2' }, records: [state(kind, inOrganization, 'x-1', to)] },
    { mode: 'all' },
  );
}

/** `diffOf` by values. */
export function diffOfValue(from: unknown, to: unknown): DiffDocument {
  return diffOf('batch_exports', JSON.stringify({ name: from }), JSON.stringify({ name: to }));
}

export function emptyDiff(): DiffDocument {
  const records = [state('domains', inOrganization, 'd', { id: 'd' })];
  return diffStates(
    { reference: { ref: 'run:1' }, records },
    { reference: { ref: 'run:2' }, records },
    { mode: 'default' },
  );
}
