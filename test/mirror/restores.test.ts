import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { openMirror } from '../../src/mirror/open.ts';
import type { RestoreStart } from '../../src/mirror/restore-store.ts';
import { diffRuns } from '../../src/state/mirror-diff.ts';
import { restoresWithin } from '../../src/state/period.ts';
import { isEqual, open, ORG, sync, testClock } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const START: RestoreStart = {
  source: 'production',
  planHash: 'abc',
  plan: '{"schema":"tidemark.plan/1"}',
  from: 'latest',
  approved: { maxRemovals: 3 },
  startedAt: '2026-03-01T12:00:00.000Z',
  steps: [
    { n: 1, outcome: 'planned', inverse: { action: 'remove' }, errorCode: null, error: null },
    { n: 2, outcome: 'blocked', inverse: null, errorCode: null, error: 'no value' },
  ],
};
const AT = '2026-03-01T12:00:01.000Z';

function mapping(oldId: string, newId: string, restore: number) {
  return {
    source: 'production',
    kind: 'roles',
    oldScope: ORG,
    oldId,
    newScope: ORG,
    newId,
    restore,
    at: AT,
  } as const;
}

describe('restores of a period', () => {
  it('are read by source and time, without their plans', () => {
    const mirror = open();
    const begun = (source: string, minute: number): number =>
      mirror.restores.begin({ ...START, source, startedAt: `2026-03-01T12:0${minute}:00.000Z` });
    const [first, , running] = [begun('production', 0), begun('staging', 2), begun('production', 4)];
    mirror.restores.finish(first, 'complete', '2026-03-01T12:01:00.000Z');
    const between = (from: number, to: number): unknown[] =>
      mirror.restores
        .between('production', `2026-03-01T12:0${from}:00.000Z`, `2026-03-01T12:0${to}:00.000Z`)
        .map(({ restore }) => restore);
    expect(between(0, 9)).toEqual([running, first]);
    expect(between(1, 3)).toEqual([first]);
    expect(between(2, 3)).toEqual([]);
    const [row] = mirror.restores.between('production', '', AT);
    const { plan, ...rest } = mirror.restores.get(first)!;
    expect(plan).toBe(START.plan);
    expect(row).toStrictEqual(rest);

    const period = { since: { at: '' }, until: { at: '2026-03-01T12:09:00.000Z' }, notes: [] };
    const sources = ['staging', 'production'];
    // Nobody applies the others any more.
    expect(
      restoresWithin(mirror, { period, sources }).map(({ restore, outcome }) => [restore, outcome]),
    ).toEqual([
      [first, 'complete'],
      [2, 'interrupted'],
      [running, 'interrupted'],
    ]);
  });
});

describe('the journal of restores', () => {
  it.each([
    ['taken out', 'DELETE FROM id_map', 'is gone: its hash is left'],
    ['altered', `UPDATE id_map SET old_id = 'x'`, 'is not as it was written by its restore'],
    [
      'put in',
      `INSERT INTO id_map SELECT source, kind, old_scope, old_id, new_scope, 'r9', restore, at FROM id_map WHERE new_id = 'r3'`,
      'was inserted by another program: it has no hash',
    ],
    ['taken out with its seal', `DELETE FROM row_seals WHERE "set" = 'id_map' AND member <> ''`, null],
  ])('makes verify miss a row of the id map that was %s', async (_name, statement, what) => {
    const mirror = open();
    // One that the plan found under another id, one that a step created, and one that replaces the row of another.
    const restore = mirror.restores.begin({ ...START, mappings: [mapping('r1', 'r2', 0)] });
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([{ row: row!, mappings: [mapping('r0', 'r3', restore)] }]);
    mirror.restores.journal([{ row: row!, mappings: [mapping('r1', 'r3', restore)] }]);
    mirror.restores.finish(restore, 'complete', AT);
    expect((await mirror.verify()).problems).toEqual([]);
    const file = new Database(mirror.path);
    if (what === null) file.exec('DELETE FROM id_map');
    expect(file.prepare(statement).run().changes).toBeGreaterThan(0);
    file.close();
    const told = (await mirror.verify()).problems.map(({ id, message }) => [id, message]);
    expect(told.length).toBeGreaterThan(0);
    for (const [id, message] of told) {
      if (what === null)
        expect(message).toBe('the hashes of the id map are not all there, or not as they were made');
      else {
        expect(id).toMatch(/^r[239]$/);
        expect(message).toBe(`the earlier id of a record of production ${what}`);
      }
    }
  });

  it('has the new ids too: verify misses rows of the id map that went with all their seals', async () => {
    const mirror = open();
    for (const name of ['A', 'B']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
    const desired = { kind: 'roles', scope: ORG, id: 'r0', digest: 'd' };
    const plan = JSON.stringify({
      steps: [
        { n: 1, kind: 'roles', desired, request: { kind: 'roles' } },
        // An invite is no new id of the member.
        { n: 2, kind: 'members', desired, request: { kind: 'invites' } },
        { n: 3, kind: 'roles', desired, request: { kind: 'roles' } },
      ],
      adopted: [
        { kind: 'roles', live_id: 'r2', by: 'natural_key' },
        { kind: 'roles', live_id: 'r7', by: 'id_map' },
      ],
    });
    const steps = [1, 2, 3].map((n) => ({ ...START.steps[0]!, n }));
    const restore = mirror.restores.begin({ ...START, plan, steps, mappings: [mapping('r1', 'r2', 0)] });
    const [first, second, third] = mirror.restores.steps(restore);
    mirror.restores.journal([
      { row: { ...first!, outcome: 'applied', newId: 'r3' }, mappings: [mapping('r0', 'r3', restore)] },
      { row: { ...second!, outcome: 'applied', newId: 'i1' } },
      { row: { ...third!, outcome: 'failed' } },
    ]);
    expect((await mirror.verify()).problems, 'while it runs').toEqual([]);
    mirror.restores.finish(restore, 'partial', AT);
    await mirror.retention.forget({ policy: { last: 1 }, isEqual: (_source, ...given) => isEqual(...given) });
    expect((await mirror.verify()).problems).toEqual([]);
    alterFile(mirror.path, `DELETE FROM id_map; DELETE FROM row_seals WHERE "set" = 'id_map'`);
    const message = 'the earlier id of a record of production is gone, with its hash: restore 1 has it';
    expect((await mirror.verify()).problems).toEqual([
      { kind: 'chain', message, recordKind: 'roles', id: 'r3' },
      { kind: 'chain', message, recordKind: 'roles', id: 'r2' },
    ]);
  });

  it('does not begin with a journal that another program wrote', async () => {
    const mirror = open();
    const file = new Database(mirror.path);
    const steps = `(1, 1, 'applied', '[]', 1), (1, 2, 'applied', '[]', 1)`;
    file.exec(`INSERT INTO restore_steps (restore, step, outcome, differences, attempts) VALUES ${steps}`);
    file.close();
    expect(() => mirror.restores.begin(START)).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt', hint: '`tidemark verify` names them' }),
    );
    const message =
      '2 rows of the journal are of restore 1, which is neither in the mirror nor in the audit log';
    expect((await mirror.verify()).problems).toEqual([{ kind: 'chain', message, about: 'restores' }]);
  });

  it('names others who resumed it, once each', () => {
    const mirror = open();
    const restore = mirror.restores.begin(START);
    mirror.restores.finish(restore, 'partial', AT);
    mirror.restores.resume(restore);
    mirror.restores.finish(restore, 'partial', AT);
    expect(mirror.restores.resumedBy(restore)).toEqual([]);
    mirror.close();
    for (const by of ['bea', 'carl', 'bea']) {
      const actor = { by, via: 'root@there' };
      const other = openMirror(mirror.path, { mode: 'write', command: 'test', clock: testClock(), actor });
      other.restores.resume(restore);
      other.restores.finish(restore, 'partial', AT);
      other.close();
    }
    expect(open({ path: mirror.path, mode: 'read' }).restores.resumedBy(restore)).toEqual([
      { by: 'bea', via: 'root@there' },
      { by: 'carl', via: 'root@there' },
    ]);
  });

  it('keeps a restore, its steps as they go and the new ids, and outlives the process', () => {
    const mirror = open();
    const restore = mirror.restores.begin(START);
    expect(restore).toBe(1);
    expect(mirror.restores.steps(restore).map(({ outcome }) => outcome)).toEqual(['planned', 'blocked']);
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([
      {
        row: {
          ...row!,
          outcome: 'applied',
          status: 201,
          newId: 'r2',
          verified: false,
          differences: [{ path: '/name', from: 'A', to: 'B' }],
          attempts: 1,
          sentAt: AT,
          endedAt: AT,
        },
        mappings: [mapping('r1', 'r2', restore)],
      },
    ]);
    mirror.close();

    const again = open({ path: mirror.path });
    expect(again.restores.get(restore)).toMatchObject({
      ...mirrorFacts(),
      outcome: 'interrupted',
      finishedAt: null,
    });
    expect(again.restores.steps(restore)[0]).toMatchObject({
      outcome: 'applied',
      newId: 'r2',
      verified: false,
      differences: [{ path: '/name', from: 'A', to: 'B' }],
      inverse: { action: 'remove' },
    });
    expect(again.restores.idMap('production')).toEqual([mapping('r1', 'r2', restore)]);
    expect(again.restores.idMap('elsewhere')).toEqual([]);
    again.restores.resume(restore);
    expect(again.restores.get(restore)?.outcome).toBe('running');
    again.restores.finish(restore, 'complete', AT);
    expect(again.restores.list()).toMatchObject([{ restore, outcome: 'complete', finishedAt: AT }]);
  });

  it.each([
    ['a restore', (mirror: ReturnType<typeof open>) => mirror.restores.finish(9, 'failed', AT)],
    ['a restore', (mirror: ReturnType<typeof open>) => mirror.restores.resume(9)],
  ])('refuses %s that there is not', (_name, ask) => {
    expect(() => ask(open())).toThrow(expect.objectContaining({ code: 'reference_unknown' }) as Error);
  });

  it('writes all steps of a call, or none', () => {
    const mirror = open();
    const restore = mirror.restores.begin(START);
    const [row] = mirror.restores.steps(restore);
    const rows = [{ row: { ...row!, outcome: 'sent' as const } }, { row: { ...row!, n: 77 } }];
    expect(() => mirror.restores.journal(rows)).toThrow(
      expect.objectContaining({ code: 'reference_unknown' }) as Error,
    );
    expect(mirror.restores.steps(restore)[0]?.outcome).toBe('planned');
  });
});

function mirrorFacts() {
  const { source, planHash, plan, from, approved, startedAt } = START;
  return { source, planHash, plan, from, approved, startedAt, undoes: null };
}

describe('a record that was created again', () => {
  it('goes on with its history under the new id, and back from the old one; the mirror verifies, forget too', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"A"}']);
    const second = await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"B"}']);
    await sync(mirror, 'roles', ORG, []);
    const restore = mirror.restores.begin(START);
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([{ row: row!, mappings: [mapping('r1', 'r2', restore)] }]);
    const last = await sync(mirror, 'roles', ORG, ['{"id":"r2","name":"B"}']);

    const told = (id: string): string[] => {
      const [found] = mirror.records.find('roles', id);
      return mirror.records.revisions(found!).map((each) => `${each.run} ${each.change} ${each.id}`);
    };
    const history = ['4 added r2', '3 removed r1', '2 changed r1', '1 added r1'];
    expect(told('r2')).toEqual(history);
    expect(told('r1')).toEqual(history);
    // What the service said of each run stands as it was.
    const diff = diffRuns(
      mirror,
      { ref: 'a', run: second.run },
      { ref: 'b', run: last.run },
      { mode: 'default', filter: {} },
    );
    expect(diff.summary).toMatchObject({ added: 1, removed: 1 });
    expect((await mirror.verify()).problems).toEqual([]);

    await mirror.retention.forget({ policy: { last: 1 }, isEqual: (_source, ...given) => isEqual(...given) });
    expect(told('r2')[0]).toBe('4 added r2');
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('is followed once where ids lead back', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"A"}', '{"id":"r2","name":"A"}']);
    const restore = mirror.restores.begin(START);
    const [row] = mirror.restores.steps(restore);
    mirror.restores.journal([
      { row: row!, mappings: [mapping('r1', 'r2', restore)] },
      { row: row!, mappings: [mapping('r2', 'r1', restore)] },
    ]);
    const [found] = mirror.records.find('roles', 'r1');
    expect(mirror.records.revisions(found!).length).toBeLessThanOrEqual(2);
  });
});
