import { createHash } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { ForgetResult } from '../../src/mirror/forget.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import type { RetentionPolicy } from '../../src/config/config.ts';
import type { SweepResult } from '../../src/mirror/sweep-result.ts';
import { resolveState } from '../../src/state/resolved-state.ts';
import { mirrorOnce } from '../journeys/harness.ts';
import {
  ORG,
  PROJECT,
  VOLATILE,
  begin,
  bodies,
  isEqual as isEqualBody,
  open,
  sweep,
  sync,
  temporaryDirectory,
  testClock,
} from './fixture.ts';

const HOUR = 3_600_000;

function isEqual(_source: string, kind: Kind, one: string, other: string): boolean {
  return isEqualBody(kind, one, other);
}

async function forget(mirror: Mirror, policy: RetentionPolicy, sources?: string[]): Promise<ForgetResult> {
  return await mirror.retention.forget({ policy, isEqual, ...(sources === undefined ? {} : { sources }) });
}

/** Every record as of a run, byte for byte. */
function stateAt(mirror: Mirror, run: number, source?: string): string[] {
  const filter = source === undefined ? {} : { sources: [source] };
  const records = [...mirror.records.readAt(run, filter)];
  expect([...mirror.records.keysAt(run, filter)].map(({ id }) => id)).toEqual(records.map(({ id }) => id));
  return records.map((record) => JSON.stringify(record));
}

function sql(path: string, statement: string): unknown[] {
  const file = new Database(path, { readonly: true });
  const rows = file.prepare(statement).raw().all();
  file.close();
  return rows;
}

const role = (id: string, name: string): string => `{"id":"${id}","name":"${name}"}`;

/** Nine runs of one source: changes, a removal, a return, a record that only the forgotten runs had. */
async function someHistory(): Promise<Mirror> {
  const clock = testClock();
  const mirror = open({ clock });
  const states = [
    [role('a', '1'), role('gone', 'x')],
    [role('a', '2'), role('gone', 'x'), role('brief', 'y')],
    [role('a', '3')],
    [role('a', '4'), role('back', 'z')],
    [role('a', '4')],
    [role('a', '4'), role('back', 'z')],
    [role('a', '5'), role('back', 'z')],
    [role('a', '4'), role('back', 'zz')],
    [role('a', '6'), role('back', 'z')],
  ];
  for (const state of states) {
    clock.move(HOUR);
    await sync(mirror, 'roles', ORG, state);
  }
  return mirror;
}

/** Makes a mirror once, and gives each caller a closed copy of its file. */
function copies(make: () => Promise<Mirror>): () => Promise<string> {
  let made: Promise<Buffer> | null = null;
  const bytes = async (): Promise<Buffer> => {
    const mirror = await make();
    mirror.close();
    return readFileSync(mirror.path);
  };
  return async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    writeFileSync(path, await (made ??= bytes()));
    return path;
  };
}

const copyOfHistory = copies(someHistory);

const copyOfForgotten = copies(async () => {
  const mirror = await someHistory();
  mirror.snapshots.pin('six', 6);
  await forget(mirror, { last: 3 });
  await forget(mirror, { last: 2 });
  expect((await mirror.verify()).problems).toEqual([]);
  return mirror;
});

const NOW = Date.parse('2030-01-01T00:00:00.000Z');

describe('forgetting', () => {
  it('a kept run without changes of its own counts those that it took over: their drift is still to be looked for', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    for (const state of [[role('a', '1')], [role('a', '2')], [role('a', '2')]]) {
      clock.move(HOUR);
      await sync(mirror, 'roles', ORG, state);
    }
    mirror.snapshots.pin('one', 1);
    expect(mirror.runs.hasChangesAfter('production', 1)).toBe(true);
    expect(mirror.runs.hasChangesAfter('production', 2)).toBe(false);
    expect((await forget(mirror, { last: 1 })).forgotten.map(({ run, into }) => [run, into])).toEqual([
      [2, 3],
    ]);
    expect(mirror.runs.get(3)).toMatchObject({ added: 0, changed: 0, removed: 0 });
    expect(mirror.runs.hasChangesAfter('production', 1)).toBe(true);
    expect(mirror.runs.hasChangesAfter('production', 3)).toBe(false);
    expect(mirror.runs.changing({ runs: [1, 3], kinds: ['roles'] })).toEqual([1, 3]);
  });

  it('merges what forgotten runs did into the next kept one, and leaves nothing of what only they showed', async () => {
    const mirror = await someHistory();
    mirror.snapshots.pin('four', 4);
    mirror.snapshots.pin('six', 6);
    const before = [4, 6, 9].map((run) => stateAt(mirror, run));
    const result = await forget(mirror, { last: 1 });
    expect(result.kept.map(({ run }) => run)).toEqual([9, 6, 4]);
    expect(result.forgotten.map(({ run, into }) => [run, into])).toEqual([
      [8, 9],
      [7, 9],
      [5, 6],
      [3, 4],
      [2, 4],
      [1, 4],
    ]);
    expect(result.done).toMatchObject({ forget: 1, revisions: 13 });
    expect([4, 6, 9].map((run) => stateAt(mirror, run))).toEqual(before);
    expect(mirror.runs.list().map(({ run }) => run)).toEqual([9, 6, 4]);
    const changes = (id: string): unknown =>
      mirror.records
        .revisions(mirror.records.find('roles', id, { sources: ['production'] })[0]!)
        .map(({ run, change }) => [run, change]);
    expect(changes('a')).toEqual([
      [9, 'changed'],
      [4, 'added'],
    ]);
    // Away in run 5 and back in run 6: nobody can see that any longer.
    expect(changes('back')).toEqual([[4, 'added']]);
    expect(mirror.records.find('roles', 'brief')).toEqual([]);
    expect(mirror.records.find('roles', 'gone')).toEqual([]);
    expect([...mirror.records.removed()]).toEqual([]);
    expect(sql(mirror.path, `SELECT DISTINCT run FROM all_revisions UNION SELECT run FROM sweeps`)).toEqual([
      [4],
      [6],
      [9],
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('keeps tombstones that a kept run is before, and lets their records return under their number', async () => {
    const mirror = await someHistory();
    mirror.snapshots.pin('one', 1);
    await forget(mirror, { last: 1 });
    expect([...mirror.records.removed()]).toMatchObject([{ id: 'gone', run: 9 }]);
    const { record } = mirror.records.find('roles', 'gone', { sources: ['production'] })[0]!;
    await sync(mirror, 'roles', ORG, [role('a', '6'), role('gone', 'again')]);
    expect(mirror.records.find('roles', 'gone', { sources: ['production'] })[0]).toMatchObject({
      record,
      run: 10,
      isRemoved: false,
    });
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('does nothing where there is nothing to forget, and refuses an empty policy', async () => {
    const mirror = await someHistory();
    const { root } = mirror.runs.latest('production')!;
    expect(await forget(mirror, { last: 9 })).toMatchObject({ done: null, forgotten: [] });
    await expect(forget(mirror, {})).rejects.toMatchObject({ code: 'usage' });
    expect(mirror.retention.forgets()).toEqual([]);
    expect(mirror.runs.latest('production')?.root).toBe(root);
  });

  it('plans without a change, also on a mirror that is open for reading', async () => {
    const mirror = await someHistory();
    mirror.close();
    const reader = open({ path: mirror.path, mode: 'read' });
    expect(reader.retention.plan({ policy: { last: 2 } }).forgotten).toHaveLength(7);
    await expect(forget(reader, { last: 2 })).rejects.toMatchObject({ code: 'internal' });
    expect(reader.runs.list()).toHaveLength(9);
  });

  it('waits for a run that is under way', async () => {
    const mirror = await someHistory();
    const run = begin(mirror);
    await expect(forget(mirror, { last: 1 })).rejects.toMatchObject({
      code: 'mirror_locked',
      message: expect.stringContaining('a run') as string,
    });
    run.abandon({ code: 'interrupted', message: 'stopped' });
    expect((await forget(mirror, { last: 1 })).done).toMatchObject({ forget: 1 });
  });

  it('holds everybody else off while it works', async () => {
    const mirror = await someHistory();
    const forgetting = forget(mirror, { last: 1 });
    expect(() => mirror.snapshots.pin('now', 9)).toThrow(expect.objectContaining({ code: 'mirror_locked' }));
    await expect(forget(mirror, { last: 1 })).rejects.toMatchObject({ code: 'mirror_locked' });
    expect(() => begin(mirror)).toThrow();
    await forgetting;
    expect(mirror.snapshots.pin('now', 9)).toMatchObject({ run: 9 });
  });

  it('keeps when a collection was last whole, though that run is gone', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    // A complete run of all kinds would be kept.
    await sync(mirror, 'roles', ORG, [role('a', '1')], { kinds: ['roles'] });
    const at = mirror.runs.collections()[0]?.lastCompleteAt;
    for (let n = 0; n < 2; n += 1) {
      clock.move(HOUR);
      const run = begin(mirror);
      const denied = { outcome: 'denied', error: { code: 'forbidden', message: 'no' } } as const;
      const sweeps = [sweep('roles', ORG, 0, { ...denied, mode: null, pages: 0, count: null })];
      await run.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
    }
    await forget(mirror, { last: 1 });
    expect(mirror.runs.get(1)).toBeUndefined();
    expect(at).toBeTypeOf('string');
    expect(mirror.runs.collections()).toMatchObject([
      {
        records: 1,
        lastCompleteRun: 1,
        lastCompleteAt: at,
        lastFullAt: at,
        lastOutcome: 'denied',
        lastRun: 3,
      },
    ]);
  });

  it('keeps since when a removal is held', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await sync(mirror, 'roles', ORG, [role('a', '1')]);
    for (let n = 0; n < 3; n += 1) {
      clock.move(HOUR);
      const run = begin(mirror);
      run.stage('roles', ORG).hold('a');
      await run.publish({ outcome: 'partial', sweeps: [], requests: 1, retries: 0 });
    }
    const at = mirror.runs.get(2)?.finishedAt;
    await forget(mirror, { last: 1 });
    const run = begin(mirror);
    expect([...run.stage('roles', ORG).absent()]).toEqual([{ id: 'a', heldSince: { run: 4, at } }]);
    run.abandon({ code: 'interrupted', message: 'stopped' });
  });

  it('looks at the named sources only', async () => {
    const mirror = open();
    const other = { source: { name: 'other', baseUrl: 'https://other.example.com' } };
    for (let n = 0; n < 3; n += 1) {
      await sync(mirror, 'roles', ORG, [role('a', `${n}`)]);
      await sync(mirror, 'roles', ORG, [role('a', `${n} again`)]);
      await sync(mirror, 'roles', ORG, [role('a', `${n}`)], other);
    }
    const before = [3, 6, 9].map((run) => stateAt(mirror, run));
    const result = await forget(mirror, { last: 1 }, ['production']);
    // All of the other source's runs stay, and what they show beside it.
    expect(result.kept.map(({ run, reasons }) => [run, reasons])).toEqual([
      [8, ['latest', 'last']],
      [5, ['beside run:6']],
      [2, ['beside run:3']],
    ]);
    expect(mirror.runs.list().map(({ run }) => run)).toEqual([9, 8, 6, 5, 3, 2]);
    expect([3, 6, 9].map((run) => stateAt(mirror, run))).toEqual(before);
    expect(mirror.retention.forgets()).toMatchObject([
      {
        sources: ['production'],
        runs: [
          [1, 1],
          [4, 4],
          [7, 7],
        ],
        runCount: 3,
      },
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('keeps what a kept run had last seen of a collection, and when', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    const denied = { outcome: 'denied', mode: null, pages: 0, count: null } as const;
    const run = async (...sweeps: SweepResult[]): Promise<void> => {
      clock.move(HOUR);
      await begin(mirror).publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
    };
    await run(sweep('roles', ORG, 0), sweep('domains', ORG, 0));
    await run(sweep('roles', ORG, 0, { ...denied, error: { code: 'forbidden', message: 'no' } }));
    await run(sweep('domains', ORG, 0));
    await run(sweep('roles', ORG, 0), sweep('domains', ORG, 0));
    mirror.snapshots.pin('three', 3);
    const before = mirror.runs.sweepsAsOf('production', 3);
    expect(before.find(({ kind }) => kind === 'roles')).toMatchObject({
      lastRun: 2,
      outcome: 'denied',
      errorCode: 'forbidden',
      readRun: 1,
      completeRun: 1,
    });
    const { id } = mirror.runs.collections().find(({ kind }) => kind === 'roles')!;
    const look = mirror.runs.lastFullSweep(id, 4);
    expect(look).toMatchObject({ run: 1 });
    await forget(mirror, { last: 1 });
    expect(mirror.runs.list().map((row) => row.run)).toEqual([4, 3]);
    expect(mirror.runs.sweepsAsOf('production', 3)).toEqual(before);
    expect(mirror.runs.lastFullSweep(id, 4)).toEqual(look);
    expect((await mirror.verify()).problems).toEqual([]);
    // Run 4 looked at everything itself: nothing is left to carry.
    mirror.snapshots.unpin('three');
    await forget(mirror, { last: 1 });
    expect(sql(mirror.path, `SELECT count(*) FROM carried_sweeps`)).toEqual([[0]]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('tells where a dropped run went, through the runs that went after it', async () => {
    const mirror = await someHistory();
    const other = { source: { name: 'other', baseUrl: 'https://other.example.com' } };
    mirror.snapshots.pin('four', 4);
    await forget(mirror, { last: 1 });
    expect(mirror.retention.forgottenRun(2)).toMatchObject({ run: 2, into: 4 });
    mirror.snapshots.unpin('four');
    await sync(mirror, 'roles', ORG, [role('x', '1')], other);
    await forget(mirror, { last: 1 });
    const [first, second] = mirror.retention.forgets();
    expect(mirror.retention.forgottenRun(2)).toEqual({ run: 2, at: first?.at, into: 9 });
    expect(mirror.retention.forgottenRun(4)).toEqual({ run: 4, at: second?.at, into: 9 });
    expect(mirror.retention.forgottenRun(9)).toBeUndefined();
    expect(mirror.retention.forgottenRun(99)).toBeUndefined();
    expect(() => resolveState(mirror, 'run:2', { now: NOW })).toThrow(
      expect.objectContaining({
        code: 'reference_unknown',
        message: `run 2 was dropped by retention on ${first?.at ?? ''}`,
        hint: expect.stringContaining('run:9') as string,
      }),
    );
  });

  it('says of a run that is kept beside another one what it no longer shows', async () => {
    const mirror = open();
    const of = (name: string) => ({ source: { name, baseUrl: 'https://svc.example.com' } });
    for (const name of ['a', 'b', 'a', 'b', 'a', 'b'])
      await sync(mirror, 'roles', ORG, [role('r', 'x')], of(name));
    await forget(mirror, { last: 1 });
    expect(mirror.runs.list().map(({ run }) => run)).toEqual([6, 5, 4]);
    expect([4, 5, 6].map((run) => mirror.retention.sourcesForgottenAt(run))).toEqual([['a'], [], []]);
    expect(resolveState(mirror, 'run:4', { now: NOW }).note).toMatch(
      /^retention dropped what a held as of run 4/,
    );
    expect(resolveState(mirror, 'run:5', { now: NOW }).note).toBeUndefined();
    expect(() => resolveState(mirror, 'run:4', { source: 'a', now: NOW })).toThrow(
      expect.objectContaining({ message: 'what source a held as of run 4 was dropped by retention' }),
    );
  });

  it('makes one change of what a field gained and lost, and none where nothing is left of it', async () => {
    const mirror = open();
    const text = (more: string): string => `{"id":"a","name":"A"${more}}`;
    const steps = [
      '',
      ',"brief":1',
      '',
      ',"stays":1,"turns":1',
      ',"stays":1,"turns":"1"',
      ',"stays":1,"turns":"1"',
    ];
    for (const more of steps) await sync(mirror, 'roles', ORG, [text(more)]);
    expect(mirror.runs.schemaChanges()).toHaveLength(5);
    mirror.snapshots.pin('one', 1);
    await forget(mirror, { last: 1 });
    expect(
      mirror.runs.schemaChanges().map(({ run, field, change, after }) => [run, field, change, after]),
    ).toEqual([
      [6, '/stays', 'gained', ['number']],
      [6, '/turns', 'gained', ['string']],
    ]);
  });

  it('takes hashes along to a run from which another rule holds', async () => {
    const mirror = open();
    const kind: Kind = 'roles';
    const body = (seen: number): string => `{"id":"a","name":"A","seen":${seen}}`;
    await sync(mirror, kind, ORG, [body(1), '{"id":"b","seen":1}']);
    const volatileFields = new Map([...VOLATILE, [kind, new Set(['seen'])] as const]);
    await sync(mirror, kind, ORG, [body(1), '{"id":"b","seen":1}'], { volatileFields });
    await sync(mirror, kind, ORG, [body(2), '{"id":"b","seen":1}'], { volatileFields });
    const state = stateAt(mirror, 3);
    await forget(mirror, { last: 1 });
    expect(stateAt(mirror, 3)).toEqual(state);
    expect((await mirror.verify()).problems).toEqual([]);
    expect(sql(mirror.path, `SELECT run FROM sealing_rules WHERE kind = 'roles'`)).toEqual([[3]]);
    const next = await sync(mirror, kind, ORG, [body(3), '{"id":"b","seen":1}'], { volatileFields });
    expect(next).toMatchObject({ added: 0, changed: 0, unchanged: 2 });
    expect((await mirror.verify()).problems).toEqual([]);
  });
});

describe('the seals after forgetting', () => {
  it('say what replaced a root that somebody noted', async () => {
    const mirror = await someHistory();
    const noted = new Map(mirror.runs.list().map(({ run, root }) => [run, root]));
    const first = await forget(mirror, { last: 3 });
    expect(first.done).toMatchObject({ rootBefore: noted.get(9), rootAfter: mirror.runs.get(9)?.root });
    expect(first.done?.rootAfter).not.toBe(first.done?.rootBefore);
    await sync(mirror, 'roles', ORG, [role('a', '7')]);
    const second = await forget(mirror, { last: 1 });
    expect(mirror.retention.forgets()).toMatchObject([
      { forget: 1, policy: { last: 3 }, runs: [[1, 6]], tipRun: 9, rootBefore: noted.get(9) },
      { forget: 2, policy: { last: 1 }, runs: [[7, 9]], tipRun: 10, rootAfter: second.done?.rootAfter },
    ]);
    for (const [run, root] of noted) {
      const found = sql(mirror.path, `SELECT forget, run FROM replaced_roots WHERE root = x'${root ?? ''}'`);
      expect(found).toEqual([[1, run]]);
    }
    const { problems, notes } = await mirror.verify();
    expect(problems).toEqual([]);
    expect(notes.map(({ message }) => message)).toEqual([
      expect.stringMatching(
        /^retention dropped runs 1–6 on 2026-03-01T21:00:00.000Z by ann@here \(keep last 3\); the root hash of run 9 /,
      ),
      expect.stringMatching(/^retention dropped runs 7–9 on .* \(keep last 1\); the root hash of run 10 /),
    ]);
    expect(notes[0]?.message).toContain(noted.get(9));
  });

  it.each([
    ['a body', `UPDATE records SET body = replace(body, '6', '7') WHERE remote_id = 'a'`],
    ['an earlier body', `UPDATE revisions SET body = body || x'00' WHERE body IS NOT NULL`],
    ['a hash', `UPDATE revisions SET hash = zeroblob(32) WHERE run = 6`],
    ['a change', `UPDATE revisions SET change = 2 WHERE change = 1`],
    ['the last forget taken out', `DELETE FROM forgets WHERE forget = 2`],
    ['the first forget taken out', `DELETE FROM forgets WHERE forget = 1`],
    ['all forgets taken out', `DELETE FROM forgets`],
    ['the time of a forget', `UPDATE forgets SET at = '2020-01-01T00:00:00.000Z' WHERE forget = 1`],
    ['a policy', `UPDATE forgets SET policy = '{"last":1}' WHERE forget = 1`],
    ['the runs that went', `UPDATE forgets SET runs = '[[1,2]]' WHERE forget = 2`],
    ['the root before', `UPDATE forgets SET root_before = zeroblob(32) WHERE forget = 1`],
    ['the root after', `UPDATE forgets SET root_after = zeroblob(32) WHERE forget = 1`],
    ['the last root after', `UPDATE forgets SET root_after = zeroblob(32) WHERE forget = 2`],
    ['a replaced root', `UPDATE replaced_roots SET root = zeroblob(32) WHERE run = 2`],
    ['a replaced root taken out', `DELETE FROM replaced_roots WHERE run = 2`],
    ['where the chain begins', `UPDATE runs SET previous_root = NULL WHERE run = 6`],
    ['a run taken out', `DELETE FROM runs WHERE run = 6`],
    ['where a run went', `UPDATE replaced_roots SET into_run = 9 WHERE run = 2 AND forget = 1`],
    ['a pin', `UPDATE snapshots SET run = 9`],
  ])('show that somebody changed %s', async (_name, statement) => {
    const path = await copyOfForgotten();
    const file = new Database(path);
    expect(file.prepare(statement).run().changes).toBeGreaterThan(0);
    file.close();
    expect((await open({ path, mode: 'read' }).verify()).problems).not.toEqual([]);
  });

  it.each([
    ['a hash', `UPDATE revisions SET hash = zeroblob(32) WHERE run = 1`, /run 1/],
    ['a revision', `DELETE FROM revisions WHERE run = 2`, /run 2/],
    [
      'an earlier body',
      `UPDATE revisions SET body = body || x'00' WHERE body IS NOT NULL AND encoding = 1`,
      /./,
    ],
    ['a current body', `UPDATE records SET body = replace(body, '6', '7') WHERE remote_id = 'a'`, /record/],
  ])('are not laid over %s that somebody changed', async (_name, statement, said) => {
    const path = await copyOfHistory();
    const file = new Database(path);
    expect(file.prepare(statement).run().changes).toBeGreaterThan(0);
    file.close();
    const again = open({ path });
    await expect(forget(again, { last: 1 })).rejects.toMatchObject({
      code: 'mirror_corrupt',
      message: expect.stringMatching(said) as string,
    });
    expect(again.runs.list()).toHaveLength(9);
    expect(again.retention.forgets()).toEqual([]);
  });
});

describe('the space', () => {
  /** Text that does not compress. */
  const noise = (seed: number, outputLength: number): string =>
    createHash('shake256', { outputLength }).update(String(seed)).digest('base64url');

  async function bigHistory(padding: number, runs: number): Promise<Mirror> {
    const path = join(temporaryDirectory(), 'mirror.db');
    await mirrorOnce(`history of ${runs} runs with ${padding} bytes`, path, async () => {
      const mirror = open({ path });
      for (let n = 0; n < runs; n += 1) {
        const texts = Array.from(
          { length: 300 },
          (_, i) => `{"id":"r${i}","pad":"${noise(n * 300 + i, padding)}"}`,
        );
        await sync(mirror, 'roles', ORG, texts);
      }
      mirror.close();
    });
    return open({ path });
  }

  it.each([
    ['small', 300, 5],
    // Beyond what is rebuilt without a worker thread.
    ['large', 6000, 3],
  ])('of a %s mirror returns once a reader has read to its end', async (_name, padding, runs) => {
    const mirror = await bigHistory(padding, runs);
    const before = statSync(mirror.path).size;
    const expected = [...open({ path: mirror.path, mode: 'read' }).records.readAt(2)].length;
    const reading = open({ path: mirror.path, mode: 'read' }).records.readAt(2);
    reading.next();
    const result = await forget(mirror, { last: 1 });
    expect(result.cleanupError).toMatchObject({ code: 'mirror_locked', isRetryable: true });
    expect([...reading]).toHaveLength(expected - 1);
    expect(await forget(mirror, { last: 1 })).toMatchObject({ done: null, cleanupError: null });
    expect(statSync(`${mirror.path}-wal`).size).toBe(0);
    mirror.close();
    const after = statSync(mirror.path).size;
    expect(after).toBeLessThan(before * 0.6);
    expect((await open({ path: mirror.path }).verify()).problems).toEqual([]);
  });

  it('is reported, and not taken when the disk is too full to rebuild the file', async () => {
    const mirror = await bigHistory(300, 5);
    const full = await mirror.retention.forget({ policy: { last: 1 }, isEqual, freeBytes: () => 1000 });
    expect(full.cleanupError).toMatchObject({
      code: 'disk_full',
      message: expect.stringMatching(/was not rebuilt/) as string,
    });
    expect(full.done).toMatchObject({ forget: 1 });
    expect(full.bytesAfter).toBeGreaterThan(full.bytesBefore * 0.9);
    // The next one gives it back, though it has nothing to forget.
    const next = await forget(mirror, { last: 1 });
    expect(next).toMatchObject({ done: null, cleanupError: null });
    expect(next.bytesAfter).toBeLessThan(next.bytesBefore * 0.6);
    expect(next.bytesAfter).toBe(statSync(mirror.path).size);
  });

  it('needs no room to rebuild the file again where nothing was dropped since', async () => {
    const mirror = await bigHistory(300, 5);
    const forgetWithoutRoom = async (last: number) =>
      await mirror.retention.forget({ policy: { last }, isEqual, freeBytes: () => 0 });
    expect(await forgetWithoutRoom(5)).toMatchObject({ done: null, cleanupError: null });
    expect(await forget(mirror, { last: 2 })).toMatchObject({ done: { forget: 1 }, cleanupError: null });
    expect(await forgetWithoutRoom(2)).toMatchObject({ done: null, cleanupError: null });
    expect(await forgetWithoutRoom(1)).toMatchObject({
      done: { forget: 2 },
      cleanupError: { code: 'disk_full' },
    });
    mirror.close();
    const again = open({ path: mirror.path });
    const isFull = { policy: { last: 1 }, isEqual, freeBytes: () => 0 };
    expect(await again.retention.forget(isFull)).toMatchObject({
      done: null,
      cleanupError: { code: 'disk_full' },
    });
    expect(await forget(again, { last: 1 })).toMatchObject({ done: null, cleanupError: null });
    expect(await again.retention.forget(isFull)).toMatchObject({ done: null, cleanupError: null });
    expect((await again.verify()).problems).toEqual([]);
  });
});

interface Step {
  source: 'a' | 'b';
  kind: Kind;
  records: Record<string, { text: number; seen: number; spelling: number }>;
  isSeenVolatile: boolean;
  isPinned: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  source: fc.constantFrom('a', 'b'),
  kind: fc.constantFrom<Kind>('session_recordings', 'roles'),
  records: fc.dictionary(
    fc.constantFrom('1', '2', '3'),
    fc.record({ text: fc.nat({ max: 2 }), seen: fc.nat({ max: 1 }), spelling: fc.nat({ max: 1 }) }),
    { noNullPrototype: true },
  ),
  isSeenVolatile: fc.boolean(),
  isPinned: fc.constantFrom(false, false, true),
});

/** Few contents, so that records come back to what they were; equal values in two spellings; a volatile member. */
async function play(
  mirror: Mirror,
  { source, kind, records, isSeenVolatile }: Step,
): ReturnType<typeof sync> {
  const scope: Scope = kind === 'roles' ? ORG : PROJECT;
  const volatile = isSeenVolatile ? ['viewed'] : [];
  return await sync(
    mirror,
    kind,
    scope,
    Object.entries(records).map(
      ([id, { text, seen, spelling }]) =>
        `{"id":"${id}","n":${text}${spelling === 1 ? '.0' : ''},"viewed":${seen},"pad":"${'lorem '.repeat(20)}"}`,
    ),
    {
      source: { name: source, baseUrl: 'https://svc.example.com' },
      volatileFields: new Map([...VOLATILE, [kind, new Set(volatile)] as const]),
    },
  );
}

describe('any history, any retention', () => {
  it('shows every kept run as before, verifies, and goes on', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 2, maxLength: 12 }),
        fc.array(step, { maxLength: 3 }),
        fc.record({ last: fc.integer({ min: 1, max: 3 }), hourly: fc.nat({ max: 3 }) }),
        async (steps, later, policy) => {
          const clock = testClock();
          const mirror = open({ clock });
          const advance = async (one: Step): Promise<void> => {
            clock.move(HOUR / 2);
            const { run } = await play(mirror, one);
            if (one.isPinned) mirror.snapshots.pin(`pin-${run}`, run);
          };
          const forgetAndLook = async (): Promise<void> => {
            const { kept } = mirror.retention.plan({ policy });
            const own = kept.map(({ run, source }) => stateAt(mirror, run, source));
            const pinned = mirror.snapshots.list().map(({ run }) => stateAt(mirror, run));
            const removed = new Set([...mirror.records.removed()].map(({ id, source }) => `${source} ${id}`));
            await forget(mirror, policy);
            expect(kept.map(({ run, source }) => stateAt(mirror, run, source))).toEqual(own);
            expect(mirror.snapshots.list().map(({ run }) => stateAt(mirror, run))).toEqual(pinned);
            for (const { id, source, at } of mirror.records.removed()) {
              expect(removed).toContain(`${source} ${id}`);
              expect(at).not.toBe('');
            }
            expect((await mirror.verify()).problems).toEqual([]);
            expect(
              sql(mirror.path, `SELECT count(*) FROM all_revisions WHERE run NOT IN (SELECT run FROM runs)`),
            ).toEqual([[0]]);
          };
          for (const one of steps) await advance(one);
          await forgetAndLook();
          for (const one of later) await advance(one);
          const current = [...mirror.records.read()].map(({ body }) => body);
          await forgetAndLook();
          expect([...mirror.records.read()].map(({ body }) => body)).toEqual(current);
          mirror.close();
        },
      ),
      { numRuns: 8 },
    );
  });

  it('says of every kept run what had been seen of each collection, as before', async () => {
    const outcome = fc.constantFrom('complete', 'incomplete', 'held', 'denied', 'failed');
    const seen = fc.record({
      source: fc.constantFrom('a', 'b'),
      run: fc.constantFrom('complete', 'partial', 'partial', 'failed'),
      sweeps: fc.array(fc.tuple(outcome, fc.constantFrom('full', 'head', null)), { maxLength: 3 }),
      kinds: fc.shuffledSubarray<Kind>(['roles', 'domains', 'members'], { minLength: 1 }),
      isPinned: fc.boolean(),
      forgets: fc.constantFrom(0, 0, 1, 2),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(seen, { minLength: 3, maxLength: 10 }), async (steps) => {
        const clock = testClock();
        const mirror = open({ clock });
        for (const { source, run, sweeps, kinds, isPinned, forgets } of steps) {
          clock.move(HOUR);
          const results = sweeps.flatMap(([result, mode], index) => {
            const kind = kinds[index];
            return kind === undefined ? [] : [sweep(kind, ORG, 0, { outcome: result, mode })];
          });
          const begun = begin(mirror, { source: { name: source, baseUrl: 'https://svc.example.com' } });
          const published = await begun.publish({
            outcome: run,
            sweeps: results,
            requests: 1,
            retries: 0,
          });
          if (isPinned && published.root !== null)
            mirror.snapshots.pin(`pin-${published.run}`, published.run);
          if (forgets === 0) continue;
          const { kept } = mirror.retention.plan({ policy: { last: forgets } });
          // A source of which nothing was published by then has no state that a run of another one could show.
          const shown = kept.flatMap(({ run: number, source: own, reasons }) =>
            (reasons.every((reason) => reason.startsWith('beside ')) ? [own] : ['a', 'b'])
              .filter(
                (name) => mirror.runs.list({ source: name, isPublished: true, upTo: number }).length > 0,
              )
              .map((name) => [name, number] as const),
          );
          const asOf = (): unknown =>
            shown.map(([name, number]) =>
              mirror.runs.sweepsAsOf(name, number).sort((x, y) => (x.kind < y.kind ? -1 : 1)),
            );
          const before = asOf();
          await forget(mirror, { last: forgets });
          expect(asOf()).toEqual(before);
        }
        expect((await mirror.verify()).problems).toEqual([]);
        mirror.close();
      }),
      { numRuns: 8 },
    );
  });

  it('keeps a long history exact, small and quick to read', async () => {
    const mirror = open();
    const body = (n: number): string => `{"id":"x","pad":"${'lorem ipsum '.repeat(60)}","n":${n}}`;
    for (let n = 1; n <= 200; n += 1) await sync(mirror, 'roles', ORG, [body(n)]);
    for (const n of [10, 64, 100, 150]) mirror.snapshots.pin(`n${n}`, n);
    await forget(mirror, { last: 30 });
    for (const n of [10, 64, 100, 150, 171, 200]) expect(bodies(mirror, 'roles', n)).toEqual({ x: body(n) });
    expect((await mirror.verify()).problems).toEqual([]);
    const [[bytes] = []] = sql(mirror.path, `SELECT sum(length(body)) FROM revisions`) as number[][];
    expect(bytes).toBeLessThan(34 * 100);
  });
});
