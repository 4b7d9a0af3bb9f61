/** What an undo takes for the effect of a request without an answer, and what it leaves to a person. */
import { describe, expect, it } from 'vitest';
import { definitionOf, fillPath } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { restoreExitCode } from '../../src/restore/apply/report.ts';
import { storedPlan } from '../../src/restore/plan/stored-plan.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { type Answers, LookedUpRestores, lookUpAnswers } from '../../src/restore/undo/unanswered.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import type { FaultRule } from '../faults/fault-rules.ts';
import { SOURCE } from './apply-source.ts';
import { altered, nativeWorld, startRig, without, type PlanChanges, type Rig } from './apply-rig.ts';

/** A restore of one record was killed when it was about to send its creation, of which `sent` is the body. */
async function killed(now: string, kind: Kind = 'roles') {
  const rig = await startRig();
  const native = (await nativeWorld(rig)).filter(
    (each) => each.kind !== 'role_memberships' || each.kind === kind,
  );
  const lost = recordOf(native, kind);
  rig.put(without(native, ({ id }) => id === lost.id));
  const clock = new FakeClock({ epochMs: Date.parse(now) });
  let sent: JsonObject = {};
  const client = new Proxy(rig.client(), {
    get: (target, name) => {
      if (name === 'create') {
        return (_target: unknown, body: string) => {
          sent = JSON.parse(body) as JsonObject;
          return Promise.reject(new Error('killed'));
        };
      }
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  await expect(rig.apply(rig.plan(native), { client, clock })).rejects.toThrow('killed');
  const path = fillPath(definitionOf(kind).path, lost.scope);
  return { rig, clock, path, sent, body: lost.body as JsonObject };
}

function recordOf(records: readonly ParsedRecord[], kind: Kind): ParsedRecord {
  const found = records.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`there is none of ${kind}`);
  return found;
}

/** A restore was applied, and killed before the end of its reading back. Returns the digests that it had read. */
async function unread(
  rig: Rig,
  desired: readonly ParsedRecord[],
  changes?: PlanChanges,
): Promise<(string | null)[]> {
  const report = await rig.apply(rig.plan(desired, changes));
  expect(report.outcome).toBe('complete');
  const { restores } = rig.mirror();
  const rows = restores.steps(report.restore);
  restores.journal(rows.map((row) => ({ row: { ...row, verified: null, digest: null } })));
  return rows.map(({ digest }) => digest);
}

async function answers(
  rig: Rig,
  clock: FakeClock,
): Promise<{ found: Answers; restores: LookedUpRestores; restore: number }> {
  const { restores: stored, acceptances } = rig.mirror();
  const [row] = stored.list();
  if (row === undefined) throw new Error('there is no restore');
  const restores = new LookedUpRestores(stored);
  const found = await lookUpAnswers({
    ...{ row, plan: storedPlan(row), restores, acceptances, source: SOURCE, reader: rig.client().reader },
    ...{ clock, log: silentLogger, secrets: NO_SECRETS, desired: () => undefined, concurrency: 2 },
    signal: new AbortController().signal,
  });
  return { found, restores, restore: row.restore };
}

const missing = { kind: 'answer', status: 404, body: { detail: 'Not found.' } } as const;
const emptyList = { count: 0, next: null, previous: null, results: [] };

/** The sandbox's clock. */
const NOW = '2026-07-01T12:00:00.000Z';

const writes = (rig: Rig): number => rig.proxy.requests.filter(({ method }) => method !== 'GET').length;

/** The step is left as it was, for a later look: by an undo and by --resume, and nothing more than `from` writes were sent. */
async function expectUnknown(rig: Rig, clock: FakeClock, from: number): Promise<void> {
  const { found, restores, restore } = await answers(rig, clock);
  expect(found).toMatchObject({ gone: 0, outcome: 'interrupted' });
  expect(found.unknown[0]?.message).toContain('could not be looked up');
  expect(restores.steps(restore)).toMatchObject([{ outcome: 'sent' }]);
  const resumed = await rig.apply(storedPlan(rig.mirror().restores.list()[0]!), { restore });
  expect(resumed.steps).toMatchObject([{ outcome: 'sent' }]);
  expect(writes(rig)).toBe(from);
}

describe('a creation without an answer', () => {
  it('of which there is nothing had no effect; that is recorded only when asked for', async () => {
    const { rig, clock } = await killed(NOW);
    const from = writes(rig);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 0, notDone: 1, unknown: [], notes: [], outcome: 'interrupted' });
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'planned' }]);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'sent' }]);
    restores.record(restore, found.outcome);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'planned' }]);
    expect(rig.mirror().restores.get(restore)?.outcome).toBe('interrupted');
    expect(writes(rig)).toBe(from);
  });

  it('is found as it was sent, with its new id', async () => {
    const { rig, clock, path, body } = await killed(NOW);
    const made = await rig.running.call('POST', path, { name: body['name'] ?? null });
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 1, notDone: 0, unknown: [], outcome: 'complete' });
    const { id } = made.json;
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'applied', newId: id, verified: true }]);
    expect(restores.idMap(SOURCE.name).at(-1)).toMatchObject({ restore, newId: id });
    expect(rig.mirror().restores.idMap(SOURCE.name).at(-1)?.restore).not.toBe(restore);
  });

  it.each([
    ['other content', NOW, true, 'is not as the restore sent it'],
    ['a time long after the request', '2026-01-01T00:00:00.000Z', false, 'but it was created at'],
  ])('is not certain of a namesake with %s', async (_name, at, change, said) => {
    const { rig, clock, path, body } = await killed(at);
    const name = body['name'] as string;
    await rig.running.call('POST', path, { name: change ? name.toLowerCase() : name });
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 0, notDone: 0, outcome: 'interrupted' });
    expect(found.unknown[0]?.message).toContain(said);
    expect(found.unknown[0]?.message).toContain('the restore or somebody else may have created it');
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'sent', newId: null }]);
  });

  it('of a kind that does not show when a record was created is certain for two minutes only', async () => {
    const { rig, clock, path, sent } = await killed(NOW, 'domains');
    expect((await rig.running.call('POST', path, sent)).status).toBe(201);
    expect((await answers(rig, clock)).found).toMatchObject({ done: 1, unknown: [] });
    clock.advance(121_000);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 0, notDone: 0, outcome: 'interrupted' });
    expect(found.unknown[0]?.message).toContain('but it does not show when it was created');
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'sent', newId: null, digest: null }]);
  });

  it.each([
    [NOW, 1],
    ['2026-01-01T00:00:00.000Z', 0],
  ])('of a role membership sent at %s is held against when the member got the role', async (at, done) => {
    const { rig, clock, path, sent } = await killed(at, 'role_memberships');
    expect((await rig.running.call('POST', path, sent)).status).toBe(201);
    clock.advance(600_000);
    const { found } = await answers(rig, clock);
    expect(found).toMatchObject({ done, notDone: 0 });
    expect(found.unknown).toHaveLength(1 - done);
    if (done === 0) expect(found.unknown[0]?.message).toContain('but it was created at');
  });

  it('is not read back once a field was set that its request did not contain', async () => {
    const { rig, clock, path, sent } = await killed(NOW, 'domains');
    const { json } = await rig.running.call('POST', path, sent);
    const own = `${path}${json['id'] as string}/`;
    expect((await rig.running.call('POST', `${own}verify/`, {})).status).toBe(200);
    const set = await rig.running.call('PATCH', own, { jit_provisioning_enabled: true });
    expect(set.status).toBe(200);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 1, outcome: 'interrupted' });
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'applied', newId: json['id'], digest: null }]);
  });

  it('is not known while the service is away', async () => {
    const { rig, clock } = await killed(NOW);
    rig.proxy.setRules([{ fault: { kind: 'answer', status: 403, body: { detail: 'no' } } }]);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found.unknown[0]?.message).toMatch(/^its answer was lost, and it could not be looked up: /);
    restores.record(restore, found.outcome);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'sent', error: null }]);
  });
});

describe('a creation without an answer in a record that was removed since', () => {
  async function inRole() {
    const killedRig = await killed(NOW, 'role_memberships');
    const role = killedRig.path.replace('role_memberships/', '');
    return { ...killedRig, role, from: writes(killedRig.rig) };
  }

  it('is not there any more: an undo has nothing to take back, and a resumed restore sends nothing', async () => {
    const { rig, clock, role, from } = await inRole();
    expect((await rig.running.call('DELETE', role)).status).toBe(204);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({
      done: 0,
      notDone: 0,
      gone: 1,
      unknown: [],
      notes: [],
      outcome: 'failed',
    });
    const message: unknown = expect.stringMatching(/^it does not exist: its role .+ was removed/);
    const error = { code: 'not_found', message };
    expect(restores.steps(restore)).toMatchObject([
      { outcome: 'failed', newId: null, errorCode: error.code, error: error.message },
    ]);
    const plan = storedPlan(rig.mirror().restores.list()[0]!);
    for (let time = 0; time < 2; time += 1) {
      const resumed = await rig.apply(plan, { restore });
      expect(resumed.steps).toMatchObject([{ outcome: 'failed', error }]);
      expect(restoreExitCode(resumed, false)).toBe(3);
    }
    expect(writes(rig)).toBe(from);
  });

  it.each([
    ['is there', 200],
    ['cannot be read', 403],
    ['is not answered for', 503],
  ])('is not known where only its list is missing, and the record %s', async (_name, status) => {
    const { rig, clock, role, from } = await inRole();
    const answer = (code: number) => ({ kind: 'answer', status: code, body: { detail: 'no' } }) as const;
    rig.proxy.setRules([
      { method: 'GET', path: /role_memberships/, fault: answer(404) },
      ...(status === 200 ? [] : [{ method: 'GET', path: new RegExp(`${role}$`), fault: answer(status) }]),
    ]);
    await expectUnknown(rig, clock, from);
  });

  it.each<[string, Kind, (organization: string) => FaultRule[]]>([
    ['everything, as at a wrong address', 'role_memberships', () => [{ fault: missing }]],
    [
      'all that is in an organization which the key does not see any more',
      'role_memberships',
      (organization) => [{ path: new RegExp(organization), fault: missing }],
    ],
    [
      'an organization that is not listed either',
      'roles',
      (organization) => [
        { path: new RegExp(organization), fault: missing },
        { path: /organizations\/$/, fault: { kind: 'answer', status: 200, body: emptyList } },
      ],
    ],
  ])('is not known where the answer is 404 for %s', async (_name, kind, rules) => {
    const { rig, clock, path } = await killed(NOW, kind);
    const from = writes(rig);
    const [organization = ''] = /organizations\/[^/]+\//.exec(path) ?? [];
    rig.proxy.setRules(rules(organization));
    await expectUnknown(rig, clock, from);
  });
});

describe('a step that was answered and not read back', () => {
  it('that created in a record that was removed since is not there any more', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lost = recordOf(native, 'role_memberships');
    rig.put(without(native, ({ id }) => id === lost.id));
    const lists = { method: 'GET', path: /role_memberships/ };
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    // The first one is the look before the write.
    rig.proxy.setRules([{ ...lists, nth: [2, 3, 4, 5, 6, 7, 8], fault }]);
    const plan = rig.plan(native);
    const { restore, steps } = await rig.apply(plan);
    expect(steps).toMatchObject([{ outcome: 'applied', verified: null }]);
    rig.proxy.setRules([]);
    const role = fillPath(definitionOf('role_memberships').path, lost.scope).replace('role_memberships/', '');
    expect((await rig.running.call('DELETE', role)).status).toBe(204);
    const resumed = await rig.apply(plan, { restore });
    expect(resumed).toMatchObject({ outcome: 'partial', steps: [{ outcome: 'applied', verified: false }] });
    expect(resumed.steps[0]?.error?.message).toMatch(/^it does not exist: its role .+ was removed/);
  });

  it('that created is read back, unless a field was set that its request did not contain', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lost = recordOf(native, 'domains');
    rig.put(without(native, ({ id }) => id === lost.id));
    const digests = await unread(rig, native);
    const before = await answers(rig, new FakeClock());
    expect(before.found).toMatchObject({ readBack: 1, outcome: 'complete' });
    expect(before.restores.steps(before.restore).map(({ digest }) => digest)).toEqual(digests);

    const [{ newId } = { newId: null }] = before.restores.steps(before.restore);
    const own = `${fillPath(definitionOf('domains').path, lost.scope)}${newId}/`;
    expect((await rig.running.call('POST', `${own}verify/`, {})).status).toBe(200);
    expect((await rig.running.call('PATCH', own, { jit_provisioning_enabled: true })).status).toBe(200);
    const { found, restores, restore } = await answers(rig, new FakeClock());
    expect(found).toMatchObject({ readBack: 0, outcome: 'partial' });
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'applied', verified: null, digest: null }]);
  });

  it('that changed is read back, unless something else changed in the record', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const changed = recordOf(native, 'batch_exports');
    const wanted = altered(native, ({ id }) => id === changed.id, { interval: 'week' });
    const digests = await unread(rig, wanted);
    expect(digests).toHaveLength(1);
    const before = await answers(rig, new FakeClock());
    expect(before.found).toMatchObject({ readBack: 1, outcome: 'complete' });
    expect(before.restores.steps(before.restore).map(({ digest }) => digest)).toEqual(digests);

    const own = `${fillPath(definitionOf('batch_exports').path, changed.scope)}${changed.id}/`;
    expect((await rig.running.call('PATCH', own, { name: 'by hand' })).status).toBe(200);
    const { found, restores, restore } = await answers(rig, new FakeClock());
    expect(found).toMatchObject({ readBack: 0, outcome: 'partial' });
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'applied', verified: null, digest: null }]);
  });

  it('that removed says nothing of a record that is there again', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const member = native.findLast(({ kind }) => kind === 'members');
    if (member === undefined) throw new Error('there is no member');
    const isTheirs = ({ kind, id, body }: ParsedRecord): boolean =>
      (kind === 'members' && id === member.id) ||
      (kind === 'role_memberships' && JSON.stringify(body).includes(member.id));
    await unread(
      rig,
      native.filter((each) => !isTheirs(each)),
      { options: { prune: { maxRemovals: 9 } } },
    );
    rig.put([...rig.live(), member]);
    const { found, restores, restore } = await answers(rig, new FakeClock());
    expect(found.outcome).toBe('partial');
    expect(restores.steps(restore).at(-1)).toMatchObject({
      ...{ outcome: 'applied', verified: null, errorCode: null, error: null },
    });
    rig.put(rig.live().filter(({ id }) => id !== member.id));
    expect((await answers(rig, new FakeClock())).found.outcome).toBe('complete');
  });
});
