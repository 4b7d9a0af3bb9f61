import { existsSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { ORG, PROJECT, VOLATILE, begin, bodies, open, scan, sweep, sync, testClock } from './fixture.ts';

const role = (id: string, name: string): string => `{"id":"${id}","name":"${name}"}`;
const recording = (id: string, clicks: number, viewed = false): string =>
  `{"id":"${id}","click_count":${clicks},"viewed":${viewed},"ongoing":false}`;

/** Rows that tell whether anything was written. */
function tableOf(path: string, sql: string): unknown[] {
  const file = new Database(path, { readonly: true });
  const rows = file.prepare(sql).all();
  file.close();
  return rows;
}

describe('a run', () => {
  it('keeps every record exactly as it came', async () => {
    const mirror = open();
    const texts = [
      '{ "id": "a", "big": 12345678901234567890, "price": 1.10, "none": null, "empty": "" }',
      '{"id":"b/../%2F c","__proto__":{"x":1},"text":"\\ud83d\\ude00 \\u0000 \u202e"}',
      '{"id":"","nested":{"a":[{},[],null]}}',
      '{"id":"ü😀","n":-0,"e":1E400}',
    ];
    await sync(mirror, 'roles', ORG, texts);
    expect(Object.values(bodies(mirror, 'roles')).sort()).toEqual([...texts].sort());
    await sync(mirror, 'roles', ORG, texts);
    expect(mirror.runs.get(2)).toMatchObject({ added: 0, changed: 0, removed: 0, unchanged: 4 });
  });

  it('counts what it added, changed, removed and found as it was', async () => {
    const mirror = open();
    const first = await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B'), role('c', 'C')]);
    expect(first).toMatchObject({ run: 1, added: 3, changed: 0, removed: 0, unchanged: 0 });
    const second = await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B2'), role('d', 'D')]);
    expect(second).toMatchObject({ run: 2, added: 1, changed: 1, removed: 1, unchanged: 1 });
    expect(bodies(mirror, 'roles')).toEqual({ a: role('a', 'A'), b: role('b', 'B2'), d: role('d', 'D') });
    expect(mirror.runs.collections()).toMatchObject([
      {
        kind: 'roles',
        scope: ORG,
        records: 3,
        lastRun: 2,
        lastCompleteRun: 2,
        lastFullRun: 2,
        lastOutcome: 'complete',
      },
    ]);
    expect(mirror.runs.sweeps(2)).toMatchObject([
      { kind: 'roles', added: 1, changed: 1, removed: 1, unchanged: 1, held: 0 },
    ]);
    expect([...mirror.records.removed()]).toEqual([
      { source: 'production', kind: 'roles', scope: ORG, id: 'c', run: 2, at: '2026-03-01T12:00:00.000Z' },
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('shows nothing before it is published', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    stage.accept([scan('roles', role('b', 'B'))]);
    run.stage('members', ORG);
    expect(bodies(mirror, 'roles')).toEqual({ a: role('a', 'A') });
    expect(mirror.runs.collections()).toHaveLength(1);
    expect(mirror.runs.latest('production')).toMatchObject({ run: 1 });
    expect(mirror.runs.get(2)).toMatchObject({ outcome: 'running', finishedAt: null });
    await run.publish({ outcome: 'partial', sweeps: [sweep('roles', ORG, 1)], requests: 3, retries: 1 });
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['a', 'b']);
    expect(mirror.runs.latest('production')).toMatchObject({
      run: 2,
      outcome: 'partial',
      requests: 3,
      retries: 1,
    });
  });

  it('writes no record row when nothing changed, and the file grows by at most one page', async () => {
    const mirror = open();
    const texts = Array.from({ length: 500 }, (_, i) => recording(`r${i}`, i));
    await sync(mirror, 'session_recordings', PROJECT, texts);
    const size = statSync(mirror.path).size;
    const rows = `SELECT (SELECT total(record * run) FROM records) AS a, (SELECT count(*) FROM revisions) AS b`;
    const before = tableOf(mirror.path, rows);
    for (let i = 0; i < 5; i += 1) {
      const at = statSync(mirror.path).size;
      expect(await sync(mirror, 'session_recordings', PROJECT, texts)).toMatchObject({ unchanged: 500 });
      expect(statSync(mirror.path).size - at).toBeLessThanOrEqual(8192);
    }
    expect(tableOf(mirror.path, rows)).toEqual(before);
    expect(statSync(mirror.path).size - size).toBeLessThanOrEqual(2 * 8192);
  });

  it('spans pages, batches and kinds: twelve thousand records, half of them changed later', async () => {
    const mirror = open();
    const run = begin(mirror);
    const stage = run.stage('session_recordings', PROJECT);
    for (let page = 0; page < 12; page += 1) {
      stage.accept(
        Array.from({ length: 1000 }, (_, i) =>
          scan('session_recordings', recording(`r${page * 1000 + i}`, i)),
        ),
      );
    }
    await run.publish({
      outcome: 'complete',
      sweeps: [sweep('session_recordings', PROJECT, 12_000)],
      requests: 12,
      retries: 0,
    });
    const again = begin(mirror);
    const second = again.stage('session_recordings', PROJECT);
    second.accept(
      Array.from({ length: 6000 }, (_, i) => scan('session_recordings', recording(`r${i}`, -1 - i))),
    );
    for await (const { id } of second.absent()) second.remove(id);
    expect(await again.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 })).toMatchObject({
      changed: 6000,
      removed: 6000,
    });
    expect([...mirror.records.read()]).toHaveLength(6000);
    const numbers = tableOf(
      mirror.path,
      'SELECT count(DISTINCT record) AS n, max(record) AS top FROM all_revisions',
    );
    expect(numbers).toEqual([{ n: 12_000, top: 12_000 }]);
    expect([...mirror.records.readAt(1)]).toHaveLength(12_000);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('that failed leaves its row, its sweeps and no record', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    stage.accept([scan('roles', role('b', 'B'))]);
    stage.remove('a');
    const error = new TidemarkError('unauthorized', 'the key was refused');
    const published = await run.publish({
      outcome: 'failed',
      sweeps: [
        sweep('roles', ORG, 1),
        sweep('members', ORG, 0, {
          outcome: 'denied',
          mode: null,
          error: { code: 'forbidden', message: 'no' },
        }),
      ],
      requests: 2,
      retries: 0,
      error,
    });
    expect(published).toMatchObject({ run: 2, added: 0, removed: 0, root: null });
    expect(bodies(mirror, 'roles')).toEqual({ a: role('a', 'A') });
    expect(mirror.runs.get(2)).toMatchObject({
      outcome: 'failed',
      errorCode: 'unauthorized',
      error: 'the key was refused',
    });
    expect(mirror.runs.latest('production')).toMatchObject({ run: 1 });
    expect(mirror.runs.collections()).toMatchObject([
      { kind: 'roles', records: 1, lastRun: 2, lastCompleteRun: 1 },
      {
        kind: 'members',
        records: 0,
        lastOutcome: 'denied',
        lastErrorCode: 'forbidden',
        lastCompleteRun: null,
      },
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('can be abandoned, and another begun', async () => {
    const mirror = open();
    const run = begin(mirror);
    run.stage('roles', ORG).accept([scan('roles', role('a', 'A'))]);
    expect(() => begin(mirror)).toThrow(expect.objectContaining({ code: 'internal' }));
    run.abandon({ code: 'interrupted', message: 'stopped by the user' });
    expect(existsSync(`${mirror.path}-stage`)).toBe(false);
    expect(mirror.runs.get(1)).toMatchObject({
      outcome: 'failed',
      errorCode: 'interrupted',
      error: 'stopped by the user',
    });
    expect(() => run.stage('roles', ORG)).toThrow(expect.objectContaining({ code: 'internal' }));
    expect(await sync(mirror, 'roles', ORG, [role('a', 'A')])).toMatchObject({ run: 2, added: 1 });
  });

  it('keeps sources apart', async () => {
    const mirror = open();
    const other = { source: { name: 'staging', baseUrl: 'https://staging.example.com' } };
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    await sync(mirror, 'roles', ORG, [role('a', 'other')], other);
    await sync(mirror, 'roles', ORG, [], other);
    expect([...mirror.records.read()]).toMatchObject([{ source: 'production', id: 'a' }]);
    expect(mirror.runs.latest('staging')).toMatchObject({ run: 3 });
    expect(mirror.records.find('roles', 'a', { sources: ['production'] })[0]).toMatchObject({
      body: role('a', 'A'),
      isRemoved: false,
    });
    expect(mirror.records.find('roles', 'a', { sources: ['staging'] })[0]).toMatchObject({
      body: null,
      isRemoved: true,
      run: 3,
    });
    expect((await mirror.verify()).problems).toEqual([]);
  });
});

describe('a page', () => {
  it('with a record that is not JSON is refused whole', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    // The scanner checks structure, not every token: this one passes it.
    const broken = scan('roles', '{"id":"c","x":nul}');
    const page = [scan('roles', role('a', 'A')), scan('roles', role('b', 'B')), broken];
    expect(() => stage.accept(page)).toThrow(SyntaxError);
    expect(stage.counts()).toEqual({ added: 0, changed: 0, unchanged: 0, distinct: 0 });
    expect([...stage.absent()].map(({ id }) => id)).toEqual(['a']);
    expect(stage.accept(page.slice(0, 2))).toMatchObject({
      fresh: 2,
      known: 1,
      distinct: 2,
      added: 1,
      unchanged: 1,
    });
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['a', 'b']);
  });

  it.each([
    [
      'new, then other text',
      [],
      [role('x', '1'), role('x', '2')],
      role('x', '2'),
      { added: 1, changed: 0, unchanged: 0 },
    ],
    [
      'as it was, then changed',
      [role('x', '1')],
      [role('x', '1'), role('x', '2')],
      role('x', '2'),
      { added: 0, changed: 1, unchanged: 0 },
    ],
    [
      'changed, then as it was',
      [role('x', '1')],
      [role('x', '2'), role('x', '1')],
      role('x', '1'),
      { added: 0, changed: 0, unchanged: 1 },
    ],
    [
      'changed twice',
      [role('x', '1')],
      [role('x', '2'), role('x', '3')],
      role('x', '3'),
      { added: 0, changed: 1, unchanged: 0 },
    ],
  ])('%s: of a record that comes twice the later text wins', async (_name, before, page, body, counts) => {
    for (const isSplit of [false, true]) {
      const mirror = open();
      await sync(mirror, 'roles', ORG, before);
      const run = begin(mirror);
      const stage = run.stage('roles', ORG);
      const scanned = page.map((text) => scan('roles', text));
      if (isSplit) for (const one of scanned) stage.accept([one]);
      else expect(stage.accept(scanned)).toMatchObject({ fresh: 1, distinct: 1 });
      expect(stage.counts()).toEqual({ ...counts, distinct: 1 });
      await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
      expect(bodies(mirror, 'roles')).toEqual({ x: body });
      expect((await mirror.verify()).problems).toEqual([]);
    }
  });

  it('of a second pass counts its own distinct keys, and the marks of the first stay', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B'), role('c', 'C')]);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    stage.startPass();
    stage.accept([role('a', 'A'), role('b', 'B2'), role('n', 'N')].map((text) => scan('roles', text)));
    expect(stage.counts()).toEqual({ added: 1, changed: 1, unchanged: 1, distinct: 3 });
    stage.startPass();
    expect(stage.counts().distinct).toBe(0);
    const second = stage.accept(
      [role('a', 'A'), role('a', 'A'), role('n', 'N')].map((text) => scan('roles', text)),
    );
    expect(second).toMatchObject({ fresh: 2, known: 2, distinct: 2, added: 1, changed: 1, unchanged: 1 });
    expect([...stage.absent()].map(({ id }) => id)).toEqual(['c']);
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    expect(bodies(mirror, 'roles')).toMatchObject({ b: role('b', 'B2'), n: role('n', 'N') });
  });
});

describe('what differs', () => {
  it('in volatile members only is replaced in place, without a revision', async () => {
    const mirror = open();
    const [before, after] = [recording('x', 1, false), recording('x', 1, true)];
    await sync(mirror, 'session_recordings', PROJECT, [before]);
    expect(await sync(mirror, 'session_recordings', PROJECT, [after])).toMatchObject({
      changed: 0,
      unchanged: 1,
    });
    expect(bodies(mirror, 'session_recordings')).toEqual({ x: after });
    const row = mirror.records.find('session_recordings', 'x', { sources: ['production'] })[0];
    expect(row).toMatchObject({ run: 1 });
    expect(mirror.records.revisions(row!)).toHaveLength(1);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('in volatile members keeps the older revisions readable', async () => {
    const mirror = open();
    await sync(mirror, 'session_recordings', PROJECT, [recording('x', 1)]);
    await sync(mirror, 'session_recordings', PROJECT, [recording('x', 2)]);
    await sync(mirror, 'session_recordings', PROJECT, [recording('x', 2, true)]);
    await sync(mirror, 'session_recordings', PROJECT, [recording('x', 2, false)]);
    expect(bodies(mirror, 'session_recordings', 1)).toEqual({ x: recording('x', 1) });
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('in layout only writes nothing', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"x","a":1}']);
    expect(await sync(mirror, 'roles', ORG, ['{"a":1, "id":"x"}'])).toMatchObject({
      changed: 0,
      unchanged: 1,
    });
    expect(bodies(mirror, 'roles')).toEqual({ x: '{"id":"x","a":1}' });
  });

  it('in the text of a number is kept as a rewritten revision, which counts as unchanged', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"x","a":1.10}']);
    expect(await sync(mirror, 'roles', ORG, ['{"id":"x","a":1.1}'])).toMatchObject({
      changed: 0,
      unchanged: 1,
    });
    expect(bodies(mirror, 'roles')).toEqual({ x: '{"id":"x","a":1.1}' });
    expect(bodies(mirror, 'roles', 1)).toEqual({ x: '{"id":"x","a":1.10}' });
    const revisions = mirror.records.revisions(
      mirror.records.find('roles', 'x', { sources: ['production'] })[0]!,
    );
    expect(revisions.map(({ change }) => change)).toEqual(['rewritten', 'added']);
    expect((await mirror.verify()).problems).toEqual([]);
  });
});

describe('when the volatile fields of a kind change', () => {
  const wider = { volatileFields: new Map([...VOLATILE, ['roles', new Set(['note'])] as const]) };
  const noted = (note: string, name = 'A'): string => `{"id":"x","name":"${name}","note":"${note}"}`;

  it('an older revision keeps its hash: the move becomes a rewritten revision', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [noted('1')]);
    const equal = { ...wider, isEqual: (): boolean => true };
    expect(await sync(mirror, 'roles', ORG, [noted('1')], equal)).toMatchObject({ unchanged: 1 });
    await sync(mirror, 'roles', ORG, [noted('2')], equal);
    const revisions = mirror.records.revisions(
      mirror.records.find('roles', 'x', { sources: ['production'] })[0]!,
    );
    expect(revisions.map(({ run, change }) => ({ run, change }))).toEqual([
      { run: 3, change: 'rewritten' },
      { run: 1, change: 'added' },
    ]);
    // From here on the revision is made under the new rule, and the move stays in place.
    await sync(mirror, 'roles', ORG, [noted('3')], equal);
    expect(
      mirror.records.revisions(mirror.records.find('roles', 'x', { sources: ['production'] })[0]!),
    ).toHaveLength(2);
    expect(bodies(mirror, 'roles')).toEqual({ x: noted('3') });
    expect(bodies(mirror, 'roles', 1)).toEqual({ x: noted('1') });
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('a field that is volatile no longer makes revisions again', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [noted('1')], wider);
    await sync(mirror, 'roles', ORG, [noted('2')], wider);
    expect(await sync(mirror, 'roles', ORG, [noted('2')])).toMatchObject({ changed: 0, unchanged: 1 });
    expect(await sync(mirror, 'roles', ORG, [noted('3')])).toMatchObject({ changed: 1 });
    expect((await mirror.verify()).problems).toEqual([]);
  });
});

describe('absent records', () => {
  it('stay without a verdict, whatever the sweep', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B')]);
    const run = begin(mirror);
    run.stage('roles', ORG).accept([scan('roles', role('a', 'A'))]);
    await run.publish({ outcome: 'partial', sweeps: [], requests: 1, retries: 0 });
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['a', 'b']);
  });

  it('return under their old number and go on with their history', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const { record } = mirror.records.find('roles', 'a', { sources: ['production'] })[0]!;
    await sync(mirror, 'roles', ORG, []);
    expect(mirror.records.find('roles', 'a', { sources: ['production'] })[0]).toMatchObject({
      record,
      isRemoved: true,
      run: 2,
    });
    expect(await sync(mirror, 'roles', ORG, [role('a', 'B'), role('z', 'Z')])).toMatchObject({ added: 2 });
    const back = mirror.records.find('roles', 'a', { sources: ['production'] })[0]!;
    expect(back).toMatchObject({ record, isRemoved: false, run: 3 });
    expect(mirror.records.revisions(back)).toEqual([
      {
        run: 3,
        id: 'a',
        collection: back.collection,
        at: '2026-03-01T12:00:00.000Z',
        change: 'added',
        body: role('a', 'B'),
      },
      {
        run: 2,
        id: 'a',
        collection: back.collection,
        at: '2026-03-01T12:00:00.000Z',
        change: 'removed',
        body: null,
      },
      {
        run: 1,
        id: 'a',
        collection: back.collection,
        at: '2026-03-01T12:00:00.000Z',
        change: 'added',
        body: role('a', 'A'),
      },
    ]);
    expect([...mirror.records.removed()]).toEqual([]);
    expect(bodies(mirror, 'roles', 2)).toEqual({});
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it('that are held remember the first run that missed them, until seen, kept or removed', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    await sync(
      mirror,
      'roles',
      ORG,
      ['a', 'b', 'c', 'd'].map((id) => role(id, id)),
    );
    const miss = async (verdict: 'hold' | 'keep', seen: string[]): Promise<unknown[]> => {
      clock.move(3_600_000);
      const run = begin(mirror);
      const stage = run.stage('roles', ORG);
      stage.accept(seen.map((id) => scan('roles', role(id, id))));
      const absent = [...stage.absent()];
      for (const { id } of absent) stage[verdict](id);
      await run.publish({
        outcome: 'partial',
        sweeps: [sweep('roles', ORG, seen.length, { outcome: 'held' })],
        requests: 1,
        retries: 0,
      });
      return absent;
    };
    const since = { run: 2, at: '2026-03-01T13:00:00.000Z' };
    expect(await miss('hold', ['a'])).toEqual(['b', 'c', 'd'].map((id) => ({ id, heldSince: null })));
    expect(mirror.runs.sweeps(2)).toMatchObject([{ outcome: 'held', held: 3, removed: 0 }]);
    expect(await miss('hold', ['a', 'b'])).toEqual(['c', 'd'].map((id) => ({ id, heldSince: since })));
    expect(await miss('keep', ['b', 'd'])).toEqual([
      { id: 'a', heldSince: null },
      { id: 'c', heldSince: since },
    ]);
    expect(await miss('hold', [])).toEqual(['a', 'b', 'c', 'd'].map((id) => ({ id, heldSince: null })));
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['a', 'b', 'c', 'd']);
  });

  it('that a later walk of the same run sees are not removed', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B')]);
    const run = begin(mirror);
    const stage = run.stage('roles', ORG);
    for (const { id } of stage.absent()) stage.remove(id);
    stage.startPass();
    stage.accept([scan('roles', role('b', 'B'))]);
    expect(await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 })).toMatchObject({
      removed: 1,
    });
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['b']);
  });

  it('of a collection that went with its parent all become tombstones', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B')]);
    const run = begin(mirror);
    await run.retire('roles', ORG);
    await run.publish({ outcome: 'failed', sweeps: [], requests: 1, retries: 0 });
    // A failed run removes nothing.
    expect(mirror.runs.collections()).toMatchObject([{ records: 2, retiredRun: null }]);
    const second = begin(mirror);
    await second.retire('roles', ORG);
    expect(await second.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 })).toMatchObject({
      removed: 2,
    });
    expect(mirror.runs.collections()).toMatchObject([{ records: 0, retiredRun: 3, lastOutcome: 'complete' }]);
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    expect(mirror.runs.collections()).toMatchObject([{ records: 1, retiredRun: null }]);
    expect((await mirror.verify()).problems).toEqual([]);
  });
});

describe('records that are asked for one by one', () => {
  it('are due in the order never, longest ago', async () => {
    const mirror = open();
    await sync(
      mirror,
      'session_recordings',
      PROJECT,
      ['a', 'b', 'c', 'd'].map((id) => recording(id, 1)),
    );
    const due = (limit: number): string[] =>
      mirror.records.dueForCheck('production', 'recording_sharing', PROJECT, limit).map(({ id }) => id);
    expect(due(10)).toEqual(['d', 'c', 'b', 'a']);
    const check = async (ids: readonly string[]): Promise<void> => {
      const run = begin(mirror);
      const stage = run.stage('recording_sharing', PROJECT);
      for (const id of ids) {
        stage.accept([{ ...scan('recording_sharing', `{"enabled":true}`), id }]);
        stage.markChecked(id);
      }
      await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    };
    await check(['d', 'c', 'b']);
    expect(due(10)).toEqual(['a', 'b', 'c', 'd']);
    await check(['b']);
    expect(due(3)).toEqual(['a', 'c', 'd']);
    expect(due(10)).toEqual(['a', 'c', 'd', 'b']);
    expect(
      mirror.records
        .dueForCheck('production', 'recording_sharing', PROJECT, 10)
        .map(({ checkedRun }) => checkedRun),
    ).toEqual([0, 2, 2, 3]);
    expect(mirror.records.dueForCheck('production', 'recording_sharing', { project_id: '2' }, 10)).toEqual(
      [],
    );
    expect((await mirror.verify()).problems).toEqual([]);
  });
});
