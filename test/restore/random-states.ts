/** Random organizations, and what can happen to them between a snapshot and its restore. */
import fc from 'fast-check';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { idText } from '../../src/diff/match-records.ts';
import { record } from './states.ts';

const ORGS = ['o1', 'o2'];

/** One state: every reference leads somewhere. */
export const state: fc.Arbitrary<ParsedRecord[]> = fc
  .record({
    organizations: fc.integer({ min: 1, max: 2 }),
    projects: fc.integer({ min: 0, max: 3 }),
    roles: fc.integer({ min: 0, max: 3 }),
    members: fc.integer({ min: 1, max: 4 }),
    others: fc.integer({ min: 0, max: 3 }),
    salt: fc.array(fc.nat(1000), { minLength: 8, maxLength: 8 }),
  })
  .map((size) => ORGS.slice(0, size.organizations).flatMap((org) => organizationOf(org, size)));

function organizationOf(
  org: string,
  size: { projects: number; roles: number; members: number; others: number; salt: number[] },
): ParsedRecord[] {
  const scope = { organization_id: org };
  const pick = (n: number): number => size.salt[n % size.salt.length]!;
  const times = (count: number): number[] => Array.from({ length: count }, (_unused, n) => n);
  const base = ORGS.indexOf(org) * 100;
  const made = (kind: Kind, id: string, body: object, at: object = scope): ParsedRecord =>
    record(kind, id, { id, ...body }, at);
  const member = (n: number): object => ({ uuid: `${org}-u${n}`, email: `u${n}@${org}.example` });
  return [
    record('organizations', org, {
      id: org,
      name: `Org ${org}`,
      enforce_2fa: pick(0) % 2 === 0,
      membership_level: 15,
    }),
    ...times(size.projects).map((n) =>
      record(
        'projects',
        String(base + n),
        { id: base + n, name: `P${n}`, timezone: `zone ${pick(n)}`, week_start_day: null },
        scope,
      ),
    ),
    ...times(size.members).map((n) =>
      record(
        'members',
        `${org}-u${n}`,
        { id: `${org}-m${n}`, user: member(n), level: n === 0 ? 15 : [1, 8, 15][pick(n) % 3] },
        scope,
      ),
    ),
    ...times(size.roles).flatMap((n) => [
      made('roles', `${org}-r${n}`, { name: `R${n}`, created_at: 'then' }),
      ...times(size.members)
        .filter((m) => (pick(n) >> m) % 2 === 0)
        .map((m) =>
          made(
            'role_memberships',
            `${org}-rm${n}-${m}`,
            { role_id: `${org}-r${n}`, user: member(m) },
            { ...scope, role_id: `${org}-r${n}` },
          ),
        ),
    ]),
    ...times(size.others).flatMap((n) => [
      made('invites', `${org}-i${n}`, {
        target_email: `new${n}@${org}.example`,
        level: [1, 8][pick(n) % 2],
        message: [null, '', 'hi'][pick(n) % 3],
        is_expired: false,
        private_project_access: size.projects === 0 ? [] : [{ id: base, level: 'admin' }],
      }),
      made('domains', `${org}-d${n}`, {
        domain: `d${n}.${org}.example`,
        is_verified: pick(n) % 2 === 0,
        sso_enforcement: pick(n) % 2 === 0 ? 'saml' : '',
        saml_entity_id: [null, '', 'e'][pick(n) % 3],
      }),
      record(
        'pipeline_destinations',
        String(base + n),
        {
          id: base + n,
          plugin_type: 'source',
          name: `C${n}`,
          tag: [null, '', 'v1'][pick(n + 1) % 3],
          config_schema: { keep: 'x', n: pick(n) },
          organization_id: org,
          metrics: { moves: pick(n) },
        },
        scope,
      ),
      ...(size.projects === 0
        ? []
        : [
            made('batch_exports', `${org}-b${n}`, {
              team_id: base + (n % size.projects),
              name: `B${n}`,
              model: 'events',
              destination: { type: 'NoOp', config: { bucket: `b${pick(n)}` } },
              interval: ['hour', 'day'][pick(n) % 2],
              paused: pick(n + 2) % 2 === 0,
              last_paused_at: [null, '2026-01-01T00:00:00Z'][pick(n) % 2],
              latest_runs: [],
            }),
          ]),
      made('proxy_records', `${org}-x${n}`, { domain: `e${n}.${org}.example`, status: 'valid' }),
    ]),
  ];
}

export interface Event {
  readonly at: number;
  readonly what: 'lose' | 'alter' | 'churn' | 'rename' | 'remake' | 'add' | 'swap';
  readonly value: number;
}

export const events: fc.Arbitrary<Event[]> = fc.array(
  fc.record({
    at: fc.nat(),
    what: fc.constantFrom('lose', 'alter', 'churn', 'rename', 'remake', 'add', 'swap' as const),
    value: fc.nat(50),
  }),
  { maxLength: 12 },
);

const ALTERED: Readonly<Partial<Record<Kind, (value: number) => JsonObject>>> = {
  organizations: (value) => ({ enforce_2fa: value % 2 === 0 }),
  projects: (value) => ({ timezone: `other ${value}`, week_start_day: value }),
  members: (value) => ({ level: [1, 8, 15][value % 3]! }),
  invites: (value) => ({ level: 15, message: `m${value}` }),
  domains: (value) => ({ saml_entity_id: `x${value}` }),
  pipeline_destinations: (value) => ({ tag: `t${value}`, config_schema: { keep: 'y' } }),
  batch_exports: (value) => ({ interval: 'week', paused: value % 2 === 0 }),
};

/** The state after these events. Losing a parent loses its children. */
export function happened(records: readonly ParsedRecord[], list: readonly Event[]): ParsedRecord[] {
  let live = records.map((each) => ({ ...each }));
  for (const [n, { at, what, value }] of list.entries()) {
    const index = at % live.length;
    const target = live[index]!;
    const set = (body: JsonObject): void => {
      live[index] = { ...target, body: { ...(target.body as JsonObject), ...body } };
    };
    /** A name that the service takes once, for this record; nothing where another one has it. */
    const rename = (field: string, name: string): void => {
      const isTaken = live.some(
        ({ kind, scope, body }) =>
          kind === target.kind &&
          (kind === 'domains' || scope.organization_id === target.scope.organization_id) &&
          idText((body as JsonObject)[field] ?? null).toLowerCase() === name.toLowerCase(),
      );
      if (!isTaken) set({ [field]: name });
    };
    if (what === 'alter') set(ALTERED[target.kind]?.(value) ?? {});
    else if (what === 'churn')
      set({ created_at: `c${value}`, latest_runs: [{ id: value }], status: `s${value}`, metrics: value });
    else if (what === 'rename' && target.kind === 'roles')
      rename('name', `R${value % 4}${value % 5 === 0 ? '' : `x${n}`}`);
    else if (what === 'rename' && target.kind === 'domains')
      rename('domain', `d${value % 3}.${ORGS[value % 2]}.example${value % 5 === 0 ? '' : `.x${n}`}`);
    else if (what === 'rename' && target.kind === 'batch_exports') set({ name: `B${value % 4}` });
    else if (what === 'swap') swapNames(live, target, value);
    else if (target.kind === 'organizations' || isOwner(target)) continue;
    else if (what === 'lose') live = without(live, target);
    else if (what === 'remake' && !['members', 'projects', 'roles'].includes(target.kind)) {
      const id = /^\d+$/.test(target.id) ? String(500 + n) : `${target.id}-again${n}`;
      const ownId = /^\d+$/.test(target.id) ? 500 + n : id;
      live[index] = { ...target, id, body: { ...(target.body as JsonObject), id: ownId } };
    } else if (what === 'add' && target.kind === 'roles') {
      live.push({ ...target, id: `extra${n}`, body: { id: `extra${n}`, name: `Extra ${n}` } });
    }
  }
  return live;
}

/** Two records of a kind and an organization take each other's names. */
function swapNames(live: ParsedRecord[], one: ParsedRecord, value: number): void {
  const field = { roles: 'name', domains: 'domain', batch_exports: 'name' }[one.kind as string];
  const others = live.filter(
    ({ kind, scope, id }) =>
      kind === one.kind && scope.organization_id === one.scope.organization_id && id !== one.id,
  );
  const other = others[value % Math.max(1, others.length)];
  if (field === undefined || other === undefined) return;
  const nameOf = ({ body }: ParsedRecord): JsonObject => ({ [field]: (body as JsonObject)[field]! });
  const named = (record: ParsedRecord, name: JsonObject): void => {
    live[live.indexOf(record)] = { ...record, body: { ...(record.body as JsonObject), ...name } };
  };
  const name = nameOf(other);
  named(other, nameOf(one));
  named(one, name);
}

function isOwner(target: ParsedRecord): boolean {
  return target.kind === 'members' && target.id.endsWith('-u0');
}

function without(live: readonly ParsedRecord[], gone: ParsedRecord): ParsedRecord[] {
  const teams = gone.kind === 'projects' ? gone.id : null;
  return live.filter((each) => {
    const body = each.body as JsonObject;
    if (each === gone) return false;
    if (gone.kind === 'roles' && each.scope.role_id === gone.id) return false;
    if (gone.kind === 'members' && each.kind === 'role_memberships')
      return (body['user'] as JsonObject)['uuid'] !== gone.id;
    return !(teams !== null && each.kind === 'batch_exports' && JSON.stringify(body['team_id']) === teams);
  });
}
