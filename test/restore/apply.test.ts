import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { Secret } from '../../src/core/secret.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import type { ApplyEvents } from '../../src/restore/apply/ready-step.ts';
import { restoreExitCode, type RestoreReport } from '../../src/restore/apply/report.ts';
import { readResumable } from '../../src/restore/apply/resume.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import type { FaultRule } from '../faults/fault-rules.ts';
import { SOURCE } from './apply-source.ts';
import { altered, counts, nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

let native: ParsedRecord[] = [];

const isKind = (kind: string) => (record: ParsedRecord) => record.kind === kind;
const body = (record: ParsedRecord | undefined): JsonObject => record?.body as JsonObject;

/** A sandbox from which that is gone, and the plan that brings it back. */
async function damaged(live: (records: ParsedRecord[]) => ParsedRecord[]) {
  if (native.length === 0) native = await nativeWorld(await startRig());
  const rig = await startRig(live(native));
  return { rig, plan: rig.plan(native) };
}

/** Everything is back once, a second plan has nothing to send. */
/** @param exit 3 where a creation was sent twice: the first may be done late, and a person should look */
function expectRestored(rig: Rig, report: RestoreReport, exit: 0 | 3 = 0): void {
  expect(report.steps.filter(({ verified }) => verified !== true)).toEqual([]);
  expect(report.outcome).toBe('complete');
  expect(restoreExitCode(report, false)).toBe(exit);
  expect(counts(rig.live())).toEqual(counts(native));
  expect(rig.plan(native).steps).toEqual([]);
}

describe('a plan is applied', () => {
  it('level by level, a child under the new id of its parent, and a second plan is empty', async () => {
    const { rig, plan } = await damaged((all) =>
      without(all, ({ kind }) => ['roles', 'projects', 'batch_exports', 'invites'].includes(kind)),
    );
    const report = await rig.apply(plan);
    // The settings of two components, and the new keys of two projects, are left to a person.
    expect(report.by_hand).toHaveLength(4);
    expectRestored(rig, report, 3);
    const posts = rig.proxy.requests.filter(({ method }) => method === 'POST').map(({ path }) => path);
    const role = report.steps.find(({ kind }) => kind === 'roles')?.new_id;
    expect(posts.filter((path) => path.includes(`/roles/${role}/role_memberships/`)).length).toBeGreaterThan(
      0,
    );
    const firstMembership = posts.findIndex((path) => path.includes('role_memberships'));
    const lastRole = posts.findLastIndex((path) => path.endsWith('/roles/'));
    expect(firstMembership).toBeGreaterThan(lastRole);
  });

  it('one that changes, pauses and removes: only changed managed fields are sent', async () => {
    const { rig } = await damaged((all) =>
      altered(
        altered(all, isKind('projects'), { timezone: 'Mars/Olympus' }),
        ({ kind, body: is }) => kind === 'batch_exports' && (is as JsonObject)['paused'] === false,
        {
          paused: true,
        },
      ),
    );
    await rig.running.call('POST', `/api/organizations/${native[0]?.id}/roles/`, { name: 'Extra' });
    const report = await rig.apply(rig.plan(native, { options: { prune: { maxRemovals: 1 } } }));
    expectRestored(rig, report);
    const writes = rig.proxy.requests.filter(({ method }) => method !== 'GET');
    expect(writes.filter(({ method }) => method === 'DELETE')).toHaveLength(1);
    expect(writes.filter(({ path }) => path.endsWith('/unpause/'))).toHaveLength(1);
    const patches = writes
      .filter(({ method }) => method === 'PATCH')
      .map(({ body: sent }) => JSON.parse(sent) as object);
    expect(patches.every((sent) => Object.keys(sent).join() === 'timezone')).toBe(true);
  });

  it('journals before each request and after each answer, and keeps new ids for later plans', async () => {
    const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
    const seen: string[] = [];
    const events: ApplyEvents = {
      started: (restore, steps) => seen.push(`${restore}: ${steps}`),
      stepStarted: ({ n }) => seen.push(`> ${n}`),
      stepEnded: ({ n }, { outcome }) => seen.push(`< ${n} ${outcome}`),
      sending: ({ n }) => seen.push(`! ${n}`),
      sent: () => undefined,
      lookingUp: () => seen.push('?'),
    };
    const report = await rig.apply(plan, { events, concurrency: 1 });
    expect(seen.slice(0, 4)).toEqual([`1: ${plan.steps.length}`, '> 1', '! 1', '< 1 applied']);
    const rows = rig.mirror().restores.steps(report.restore);
    expect(
      rows.every(
        ({ outcome, attempts, status }) => outcome === 'applied' && attempts === 1 && status === 201,
      ),
    ).toBe(true);
    const known = rig.mirror().restores.idMap('production');
    expect(known.map(({ oldId, newId }) => `${oldId} ${newId}`).sort()).toEqual(
      report.steps.map(({ id, new_id: newId }) => `${id} ${newId}`).sort(),
    );
    expect(JSON.stringify(rows)).not.toContain('phx_');
  });
});

describe('a record that somebody made again by hand', () => {
  it('goes into the id map when the plan that found it is applied', async () => {
    const { rig } = await damaged((all) =>
      altered(without(all, isKind('roles')), isKind('projects'), { timezone: 'X' }),
    );
    const [lost] = native.filter(isKind('roles'));
    const path = `/api/organizations/${native[0]?.id}/roles/`;
    const again = await rig.running.call('POST', path, { name: body(lost)['name'] as string });
    const plan = rig.plan(native);
    expect(plan.adopted.map(({ desired_id }) => desired_id)).toContain(lost?.id);
    expect(rig.mirror().restores.idMap(SOURCE.name)).toEqual([]);
    await rig.apply(plan);
    const id = again.json['id'];
    expect(rig.mirror().restores.idMap(SOURCE.name)).toContainEqual(
      expect.objectContaining({ kind: 'roles', oldId: lost?.id, newId: id, oldScope: lost?.scope }),
    );
    expect(rig.plan(native).adopted).toContainEqual(
      expect.objectContaining({ desired_id: lost?.id, live_id: id, by: 'id_map' }),
    );
  });
});

describe('what the service can do to a write', () => {
  const onRole = (nth: number, fault: FaultRule['fault'], rest: Partial<FaultRule> = {}): FaultRule => ({
    method: 'POST',
    path: /\/roles\/$/,
    nth,
    fault,
    ...rest,
  });
  const refusal = { type: 'validation_error', code: 'invalid', detail: 'No.', attr: 'name' };

  it.each<[string, FaultRule, (0 | 3)?]>([
    ['500 after the work was done', onRole(1, { kind: 'cut', afterBytes: 0 })],
    ['500 without the work', onRole(1, { kind: 'answer', status: 500, body: {} })],
    ['502 twice without the work', onRole(1, { kind: 'answer', status: 502, body: {} }, { nth: [1, 2] }), 3],
    ['a connection cut before', onRole(1, { kind: 'reset' }), 3],
    ['a connection cut after', onRole(1, { kind: 'reset-after' })],
    ['an answer cut in the middle', onRole(1, { kind: 'cut', afterBytes: 20 })],
    [
      'an answer that is a login page',
      onRole(1, { kind: 'replace', body: '<html>hello</html>', contentType: 'text/html' }),
    ],
    ['an answer without an id', onRole(1, { kind: 'replace', body: '' })],
    ['no answer in time', onRole(1, { kind: 'hang' }), 3],
    ['429', onRole(1, { kind: 'answer', status: 429, headers: { 'retry-after': '2' }, body: {} })],
    ['all answers lost', onRole(1, { kind: 'reset-after' }, { nth: [1, 2, 3, 4] })],
  ])('%s: everything is there once', async (_name, rule, exit) => {
    const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
    rig.proxy.setRules([rule]);
    const report = await rig.apply(plan);
    rig.proxy.setRules([]);
    expectRestored(rig, report, exit);
  });

  it.each([
    ['a lost answer to a change', /projects\/\d+\/$/, { timezone: 'X' }, 'projects', 'PATCH'],
    ['a lost answer to an action', /unpause\/$/, { paused: true }, 'batch_exports', 'POST'],
  ] as const)('%s: looked up, not sent again', async (_name, path, change, kind, method) => {
    const { rig, plan } = await damaged((all) => altered(all, isKind(kind), change));
    rig.proxy.setRules([{ method, path, nth: 1, fault: { kind: 'reset-after' } }]);
    const report = await rig.apply(plan, { concurrency: 1 });
    expectRestored(rig, report);
    const sent = rig.proxy.requests.filter((each) => each.method === method && path.test(each.path));
    expect(sent).toHaveLength(plan.steps.filter((step) => step.kind === kind).length);
  });

  it.each([
    [400, refusal, 'rejected', 3],
    [409, refusal, 'rejected', 3],
    [403, { detail: 'no' }, 'forbidden', 3],
  ])(
    '%i: that step fails, its children are skipped with the reason, the rest goes on',
    async (status, answer, code, exit) => {
      const { rig, plan } = await damaged((all) =>
        without(all, ({ kind }) => kind === 'roles' || kind === 'proxy_records'),
      );
      rig.proxy.setRules([onRole(1, { kind: 'answer', status, body: answer })]);
      const report = await rig.apply(plan, { concurrency: 1 });
      const failed = report.steps.filter(({ outcome }) => outcome === 'failed');
      expect(failed).toMatchObject([{ kind: 'roles', status, error: { code } }]);
      const skipped = report.steps.filter(({ outcome }) => outcome === 'skipped');
      expect(skipped.every(({ error }) => error?.message.includes(`step ${failed[0]?.n}`))).toBe(true);
      expect(
        report.steps.filter(({ kind, outcome }) => kind === 'proxy_records' && outcome === 'applied').length,
      ).toBeGreaterThan(0);
      expect(report.outcome).toBe('partial');
      expect(restoreExitCode(report, false)).toBe(exit);
      // What failed is tried again, what it held up follows.
      rig.proxy.setRules([]);
      const { row, plan: approved } = readResumable(rig.mirror(), 'production');
      expectRestored(rig, await rig.apply(approved, { restore: row.restore }));
    },
  );

  it('everything refused is exit 5, and a dead service leaves the rest for a resume', async () => {
    const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
    rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status: 401, body: { detail: 'no' } } }]);
    const report = await rig.apply(plan, { concurrency: 1 });
    expect(restoreExitCode(report, false)).toBe(5);
    expect(report.summary).toMatchObject({ failed: 1, open: plan.steps.length - 1 });
    rig.proxy.setRules([]);
    expectRestored(rig, await rig.apply(plan, { restore: report.restore }));
  });

  it('fields that the service ignores or normalises are reported, and the restore is not called complete', async () => {
    const { rig, plan } = await damaged((all) => altered(all, isKind('projects'), { timezone: 'X' }));
    rig.proxy.setRules([
      {
        method: 'GET',
        path: /projects\/\d+\/$/,
        nth: [2],
        fault: { kind: 'rewrite', json: (is) => ({ ...(is as object), timezone: 'UTC+0' }) },
      },
    ]);
    const report = await rig.apply(plan, { concurrency: 1 });
    expect(report.steps[0]).toMatchObject({
      outcome: 'applied',
      verified: false,
      differences: [{ path: '/timezone', from: 'UTC+0' }],
    });
    expect(report.outcome).toBe('partial');
    expect(restoreExitCode(report, false)).toBe(3);
  });
});

describe('secrets', () => {
  it('are resolved when they are sent, and stand neither in the journal nor in the report', async () => {
    const password = 'correct-horse-battery';
    const destination = { type: 'Postgres', config: { host: 'db', database: 'd', schema: 's' } };
    if (native.length === 0) native = await nativeWorld(await startRig());
    const desired = altered(native, isKind('batch_exports'), { destination });
    const rig = await startRig(without(desired, isKind('batch_exports')));
    const secrets = configuredSecrets([
      {
        kind: 'batch_exports',
        match: { '/destination/type': 'Postgres' },
        values: {
          '/destination/config/password': new Secret(password),
          '/destination/config/user': new Secret('exporter'),
        },
      },
    ]);
    const report = await rig.apply(rig.plan(desired, { secrets }), { secrets });
    expect(report.steps.filter(({ outcome }) => outcome !== 'applied')).toEqual([]);
    expect(rig.proxy.requests.some(({ body: sent }) => sent.includes(password))).toBe(true);
    const path = rig.mirrorPath;
    rig.mirror().close();
    const kept = [path, `${path}-wal`]
      .filter((each) => existsSync(each))
      .map((each) => readFileSync(each, 'latin1'));
    expect(kept.join('').includes(password)).toBe(false);
    expect(JSON.stringify(report)).not.toContain(password);
  });
});

describe('a masked secret that the plan shows and nothing sends', () => {
  it('is reported when the record is read back: the step is not called as planned', async () => {
    const config = { account: 'a', user: 'u', password: '********', private_key: '********' };
    if (native.length === 0) native = await nativeWorld(await startRig());
    const desired = altered(native, isKind('batch_exports'), { destination: { type: 'Snowflake', config } });
    const rig = await startRig(without(desired, isKind('batch_exports')));
    // One of the two is enough to make the export, and is all that is known.
    const values = { '/destination/config/private_key': new Secret('-----BEGIN') };
    const secrets = configuredSecrets([{ kind: 'batch_exports', match: {}, values }]);
    const report = await rig.apply(rig.plan(desired, { secrets }), { secrets });
    const created = report.steps.filter(({ action }) => action === 'create');
    expect(created.length).toBeGreaterThan(0);
    for (const { outcome, verified, differences } of created) {
      expect([outcome, verified]).toEqual(['applied', false]);
      expect(differences.map(({ path }) => path)).toEqual(['/destination/config/password']);
    }
    expect(restoreExitCode(report, false)).toBe(3);
  });
});

describe('live moved since the plan', () => {
  it('a record that was changed, one that is gone, one that was made by hand: nothing is sent to them', async () => {
    const { rig, plan } = await damaged((all) =>
      without(altered(all, isKind('projects'), { timezone: 'X' }), isKind('proxy_records')),
    );
    const organization = `/api/organizations/${native[0]?.id}`;
    const [one] = native.filter(isKind('projects'));
    await rig.running.call('PATCH', `${organization}/projects/${one?.id}/`, { timezone: 'Y' });
    const [proxied] = native.filter(isKind('proxy_records'));
    await rig.running.call('POST', `${organization}/proxy_records/`, { domain: body(proxied)['domain'] });
    const report = await rig.apply(plan);
    const moved = report.steps.filter(({ error }) => error?.code === 'moved');
    expect(moved.map(({ kind }) => kind).sort()).toEqual(['projects', 'proxy_records']);
    expect(moved.every(({ outcome }) => outcome === 'failed')).toBe(true);
    expect(moved.find(({ kind }) => kind === 'projects')?.error?.message).toContain('timezone');
    const sent = rig.proxy.requests.filter(({ method }) => method !== 'GET');
    expect(sent.some(({ path }) => path.endsWith(`/projects/${one?.id}/`))).toBe(false);
  });

  it('one that the list did not show, and that is there after all, is not made twice', async () => {
    const { rig, plan } = await damaged((all) => without(all, isKind('batch_exports')));
    rig.put(native);
    rig.proxy.setRules([
      {
        method: 'GET',
        path: /\/batch_exports\/(\?|$)/,
        fault: { kind: 'rewrite', json: () => ({ count: 0, next: null, previous: null, results: [] }) },
      },
    ]);
    const report = await rig.apply(plan);
    const created = report.steps.filter(({ n }) => plan.steps[n - 1]?.action === 'create');
    expect(created.length).toBeGreaterThan(0);
    for (const { outcome, error } of created) {
      expect([outcome, error?.code]).toEqual(['failed', 'moved']);
      expect(error?.message).toContain('exists after all');
    }
    expect(rig.proxy.requests.filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(counts(rig.live())).toEqual(counts(native));
  });

  it('nor one that an earlier restore had made again', async () => {
    const { rig } = await damaged((all) => without(all, isKind('proxy_records')));
    await rig.apply(rig.plan(native));
    const made = rig.live();
    rig.put(without(made, isKind('proxy_records')));
    const plan = rig.plan(native);
    rig.put(made);
    rig.proxy.setRules([
      {
        method: 'GET',
        path: /\/proxy_records\/(\?|$)/,
        fault: { kind: 'rewrite', json: () => ({ count: 0, next: null, previous: null, results: [] }) },
      },
    ]);
    const from = rig.proxy.requests.length;
    const report = await rig.apply(plan);
    expect(report.steps.map(({ error }) => error?.code)).toEqual(plan.steps.map(() => 'moved'));
    expect(rig.proxy.requests.slice(from).filter(({ method }) => method !== 'GET')).toEqual([]);
  });

  it('all of it moved: exit 6', async () => {
    const { rig, plan } = await damaged((all) => altered(all, isKind('projects'), { timezone: 'X' }));
    rig.put(without(rig.live(), isKind('projects')));
    const report = await rig.apply(plan);
    expect(report.outcome).toBe('failed');
    expect(restoreExitCode(report, false)).toBe(6);
    expect(rig.proxy.requests.filter(({ method }) => method !== 'GET')).toEqual([]);
  });
});

describe('interrupted', () => {
  it('steps in flight end, nothing else begins, and a resume does the rest', async () => {
    const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
    const stop = new AbortController();
    let open = (): void => undefined;
    rig.proxy.setRules([
      {
        method: 'POST',
        nth: 1,
        fault: { kind: 'gate', until: new Promise<void>((resolve) => (open = resolve)) },
      },
    ]);
    const applying = rig.apply(plan, { signal: stop.signal, concurrency: 1, clock: systemClock });
    await expect.poll(() => rig.proxy.requests.some(({ method }) => method === 'POST')).toBe(true);
    stop.abort();
    open();
    const report = await applying;
    expect(report.outcome).toBe('interrupted');
    expect(restoreExitCode(report, true)).toBe(130);
    expect(report.summary).toMatchObject({ applied: 1, open: plan.steps.length - 1 });
    rig.proxy.setRules([]);
    expectRestored(rig, await rig.apply(plan, { restore: report.restore }));
  });

  it.each([
    ['the service is lost', { kind: 'reset' }],
    ['the key is revoked', { kind: 'answer', status: 401, body: { detail: 'no' } }],
  ] as const)(
    'is one that ends half-way because %s, with the exit code of a failed step',
    async (_, fault) => {
      const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
      const others = Array.from({ length: 200 }, (_each, index) => index + 2);
      rig.proxy.setRules([{ method: 'POST', nth: others, fault }]);
      const report = await rig.apply(plan, { concurrency: 1 });
      expect(report.outcome).toBe('interrupted');
      expect(report.summary.applied).toBe(1);
      expect(report.summary.open).toBeGreaterThan(0);
      expect(restoreExitCode(report, false)).toBe(3);
      rig.proxy.setRules([]);
      expect((await rig.apply(plan, { restore: report.restore })).outcome).toBe('complete');
    },
  );

  it('is one that is resumed with a revoked key: with the exit code of a refused key, stopped at once', async () => {
    const { rig, plan } = await damaged((all) => without(all, isKind('roles')));
    const answer = { kind: 'answer', status: 401, body: { detail: 'no' } } as const;
    const others = Array.from({ length: 200 }, (_each, index) => index + 2);
    rig.proxy.setRules([{ method: 'POST', nth: others, fault: { kind: 'reset' } }]);
    const { restore } = await rig.apply(plan, { concurrency: 4 });
    rig.proxy.setRules([{ fault: answer }]);
    const from = rig.proxy.requests.length;
    const report = await rig.apply(plan, { restore, concurrency: 1 });
    expect(report.stopped_by).toBe('unauthorized');
    expect(restoreExitCode(report, false)).toBe(5);
    expect(rig.proxy.requests.length - from).toBe(1);
    rig.proxy.setRules([]);
    expect((await rig.apply(plan, { restore })).outcome).toBe('complete');
  });
});
