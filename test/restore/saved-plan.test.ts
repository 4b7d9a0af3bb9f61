/** A plan that was saved and read back is applied while neither live nor the desired state has changed (design.md, invariant 5). */
import { expect, it } from 'vitest';
import { desiredOf } from '../../src/cli/plan.ts';
import type { RestoreSession } from '../../src/cli/restore-session.ts';
import type { SecretRule } from '../../src/config/config.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, parseLossless } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import { type ParsedRecord, recordName } from '../../src/diff/change.ts';
import { idText } from '../../src/diff/match-records.ts';
import { changedSincePlan } from '../../src/restore/apply/moved.ts';
import { readyStep, type StepContext } from '../../src/restore/apply/ready-step.ts';
import { isExecutable, planDocument, readPlan, type PlanInput } from '../../src/restore/plan/plan.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import { demoConfiguration } from '../../src/server/seed/demo.ts';
import { planState } from './apply-rig.ts';
import { inputOf, organization, posthog, record, svc, svcWritable, type Changes } from './states.ts';

const DEMO: readonly ParsedRecord[] = demoConfiguration().records.map(({ kind, scope, body, id }) => ({
  ...{ kind, scope, body: parseLossless(JSON.stringify(body)) },
  id: id ?? idText(svc(kind).idPath.reduce<JsonValue>((value, part) => (value as JsonObject)[part]!, body)),
}));

/** The demo as a deployment with these definitions answers: the text of a query within `schema`. */
function answered(definitions: PlanInput['definitions']): ParsedRecord[] {
  return DEMO.map((record) => {
    const body = { ...(record.body as JsonObject) };
    for (const { name, shownAt } of definitions(record.kind).fields) {
      const query = shownAt === undefined ? undefined : (body['svcql_query'] ?? body['hogql_query']);
      if (query === undefined || query === null) continue;
      delete body['svcql_query'];
      body['schema'] = { [name]: query, fields: [] };
    }
    return { ...record, body };
  });
}

/** One record of every kind, and of the exports one of each type and each with a query. */
function samples(records: readonly ParsedRecord[]): ParsedRecord[] {
  const seen = new Set<string>();
  return records.filter(({ kind, body }) => {
    const { destination, schema = null } = body as JsonObject;
    const type = isJsonObject(destination ?? null) ? idText((destination as JsonObject)['type']!) : '';
    const key = `${kind} ${type} ${schema !== null}`;
    const isNew = !seen.has(key);
    seen.add(key);
    return isNew;
  });
}

const FOO = { type: 'Foo', config: { url: 'https://evil.example' } };
const VALUES: readonly (JsonValue | undefined)[] = [
  ...['other', '', null, true, false, parseLossless('7'), parseLossless('1.50'), [], ['x']],
  ...[{}, { a: 'b' }, FOO, { ...FOO, type: 'S3' }, undefined],
];

/** The record with one member of another value, or without it, or without one member of that. */
function* damaged({ body, ...record }: ParsedRecord, names: readonly string[]): Iterable<ParsedRecord> {
  const whole = body as JsonObject;
  const without = (from: JsonObject, name: string): JsonObject =>
    Object.fromEntries(Object.entries(from).filter(([each]) => each !== name));
  for (const name of names) {
    for (const value of VALUES)
      yield {
        ...record,
        body: { ...without(whole, name), ...(value === undefined ? {} : { [name]: value }) },
      };
    const inside = getOwn(whole, name) ?? null;
    if (!isJsonObject(inside)) continue;
    for (const each of Object.keys(inside))
      yield { ...record, body: { ...whole, [name]: without(inside, each) } };
    yield { ...record, body: { ...whole, [name]: { ...inside, added: 'x' } } };
  }
}

/** Secrets of every place that may hold one, for the record by its name. */
function rulesFor(definitions: PlanInput['definitions'], record: ParsedRecord): SecretRule[] {
  const { kind } = record;
  const { fields, naturalKey } = definitions(kind);
  const pointers = fields.flatMap(({ name, isSecret, secretPointers }) => [
    ...(isSecret ? [`/${name}`] : []),
    ...secretPointers.filter((each) => !each.includes('*')).map((each) => `/${name}${each}`),
  ]);
  const name = naturalKey.find((pointer) => pointer === '/name');
  return [
    {
      kind,
      match: name === undefined ? {} : { [name]: recordName(definitions(kind), record.body, record.id) },
      values: Object.fromEntries(pointers.map((each) => [each, new Secret(`secret of ${each}`)])),
    },
  ];
}

const LOOSE: NonNullable<Changes['options']> = {
  limits: { maxShare: 1, minRecords: 1_000_000 },
  createOrganizations: true,
  inviteMissing: true,
  prune: { maxRemovals: 1000 },
};

/** As `apply` does with a saved plan. @returns how many requests it would send */
async function check(
  desired: readonly ParsedRecord[],
  live: readonly ParsedRecord[],
  definitions: PlanInput['definitions'],
  rules: readonly SecretRule[],
  changes: Changes = { options: LOOSE },
): Promise<number> {
  const secrets = configuredSecrets(rules);
  const wanted = { ...planState(desired), reference: { ref: 'latest' } };
  const input = inputOf(wanted, planState(live), { ...changes, definitions, secrets });
  const plan = readPlan(JSON.stringify(planDocument(planRestore(input))));
  const session = {
    context: {},
    source: { name: 'demo', secrets: rules },
    mirror: null,
    definitions,
    open: () =>
      Promise.resolve({
        collections: () => [],
        records: ({ kinds }: { readonly kinds: readonly string[] }) =>
          desired
            .filter(({ kind }) => kinds.includes(kind))
            .map((record) => ({ ...record, body: JSON.stringify(record.body) })),
      }),
  } as unknown as RestoreSession;
  const lookup = await desiredOf(session, plan);
  expect(changedSincePlan(plan, planState(live), definitions, lookup)).toEqual([]);
  const context = { definitions, secrets, desired: lookup, newIdOf: () => '1' } as unknown as StepContext;
  for (const step of plan.steps.filter(isExecutable)) readyStep(context, step, step.request!);
  return plan.steps.filter(isExecutable).length;
}

it.each([
  ['svc', svc],
  ['svc-writable', svcWritable],
  ['posthog', posthog],
])('with the profile %s', { timeout: 120_000 }, async (_profile, definitions) => {
  const all = answered(definitions);
  let sent = 0;
  const failed: string[] = [];
  for (const record of samples(all)) {
    const others = all.filter(
      ({ kind, id }) => id !== record.id && ['organizations', 'projects', 'teams'].includes(kind),
    );
    const rules = rulesFor(definitions, record);
    const names = definitions(record.kind).fields.map(({ name }) => name);
    const damages = [...damaged(record, names)].map((each) => [each]);
    for (const live of [...damages, []]) {
      sent += await check([...others, record], [...others, ...live], definitions, rules).catch(
        (error: unknown) => {
          const { message } = error as Error;
          failed.push(`${record.kind} ${record.id}: ${message}: ${JSON.stringify(live)}`);
          return 0;
        },
      );
    }
  }
  expect(failed).toEqual([]);
  expect(sent).toBeGreaterThan(100);
});

it.each([null, 'SELECT 2'])('with a password in the query that `schema` shows, live: %j', async (now) => {
  const destination = { type: 'NoOp', config: {} };
  const made = (query: string): ParsedRecord =>
    record('batch_exports', 'b1', { id: 'b1', name: 'B', destination, schema: { hogql_query: query } });
  const wanted = made("SELECT * FROM s3('https://ada:pw@store.example/')");
  const live = now === null ? [] : [made(now)];
  expect(await check([organization, wanted], [organization, ...live], posthog, [])).toBe(1);
});

it('of a component that the state has among the plugins, with a secret configured for its family', async () => {
  const wanted = record('plugins', '12', { id: 12, name: 'GeoIP', config_schema: { token: '********' } });
  const live = record('pipeline_destinations', '12', { id: 12, name: 'GeoIP', config_schema: { a: 1 } });
  const values = { '/config_schema/token': new Secret('s') };
  const rules = [{ kind: 'pipeline_destinations', match: {}, values }] as const;
  expect(await check([organization, wanted], [organization, live], posthog, rules)).toBe(1);
});

it('of an export with an accepted name that is kept, which a rule of secrets has: rules name what the state has', async () => {
  const made = (name: string, interval: string): ParsedRecord =>
    record('batch_exports', 'b1', {
      id: 'b1',
      name,
      interval,
      destination: { type: 'S3', config: { bucket_name: 'b' } },
    });
  const values = Object.fromEntries(
    ['aws_access_key_id', 'aws_secret_access_key'].map((name) => [
      `/destination/config/${name}`,
      new Secret(name),
    ]),
  );
  const rules = [{ kind: 'batch_exports' as const, match: { '/name': 'Accepted' }, values }];
  const [wanted, live] = [made('Nightly', 'day'), made('Other', 'day')];
  (live.body as JsonObject)['destination'] = FOO;
  const finding = {
    kind: live.kind,
    scope: live.scope,
    id: live.id,
    change: 'changed',
    path: '/name',
    from: 'Nightly',
  } as const;
  const accepted = [
    {
      finding: { ...finding, to: 'Other' },
      acceptance: { by: 'ada', acceptedAt: '2026-01-01T00:00:00Z', reason: 'r' },
      changedSince: { run: 2, accepted: { ...finding, to: 'Accepted' } },
    },
  ];
  const changes = { accepted, options: { ...LOOSE, keepsAccepted: true } } as unknown as Changes;
  expect(await check([organization, wanted], [organization, live], posthog, rules, changes)).toBe(1);
});
