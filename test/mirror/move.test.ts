import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { addToRestored } from '../../src/mirror/backup.ts';
import { compareMoved, makeMovedMirror, readMirrorFacts } from '../../src/mirror/move.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { open, ORG, PROJECT, sync, temporaryDirectory, testClock, type TestClock } from './fixture.ts';

const FACTS = { at: '2026-03-02T00:00:00.000Z', actor: { by: 'ann@here', via: 'ann@here' } };
const BACK = { ...FACTS, at: '2026-03-03T00:00:00.000Z' };
const SOURCES = ['acme', 'beta', 'core'];

/** What a mirror says of a source after each of its runs, in words that no move may change: no number of a run. */
function history(mirror: Mirror, source: string): unknown[] {
  const runs = mirror.runs.list({ source, limit: 1000 }).toReversed();
  return runs.map((run) => {
    const { startedAt, finishedAt, outcome, added, changed, removed, unchanged } = run;
    const state = [...mirror.records.readAt(run.run, { sources: [source] })].map(
      ({ kind, scope, id, body }) => ({
        ...{ kind, scope, id, body },
      }),
    );
    return { startedAt, finishedAt, outcome, added, changed, removed, unchanged, state };
  });
}

/** A restore that found a record under another id. */
function recreate(mirror: Mirror, source: string, clock: TestClock): void {
  const at = new Date(clock.now()).toISOString();
  const plan = JSON.stringify({ adopted: [{ kind: 'roles', live_id: 'r1', by: 'natural_key' }] });
  const place = { source, kind: 'roles', oldScope: ORG, newScope: ORG } as const;
  const restore = mirror.restores.begin({
    ...{ source, planHash: 'abc', plan, from: 'latest', approved: {}, startedAt: at, steps: [] },
    mappings: [{ ...place, oldId: 'gone', newId: 'r1', at }],
  });
  mirror.restores.finish(restore, 'complete', at);
}

/** A mirror of three sources with numbers drawn from a seed: records that come, change, go and return, and people's work. */
async function shared(clock: TestClock, seed: number): Promise<Mirror> {
  const mirror = open({ clock });
  let state = seed;
  const draw = (below: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
  for (let run = 0; run < 12; run += 1) {
    clock.move(60_000);
    const name = SOURCES[run < 3 ? run : draw(3)] ?? '';
    const ids = Array.from({ length: 6 }, (_none, index) => index).filter(() => draw(3) > 0);
    const bodies = ids.map((id) => `{"id":"r${id}","name":"${name} ${draw(3)}","n":12345678901234567890}`);
    await sync(mirror, 'roles', ORG, bodies, { source: { name, baseUrl: 'https://svc.example.com' } });
    if (draw(3) === 0)
      await sync(mirror, 'session_recordings', PROJECT, ['{"id":"s1","viewed":false}'], {
        source: { name, baseUrl: 'https://svc.example.com' },
      });
    if (run === 1) mirror.snapshots.pin('early', 1);
    if (run === 2) recreate(mirror, name, clock);
  }
  return mirror;
}

describe('a move of a mirror', () => {
  it.each([1, 2, 3, 4, 5])('keeps every state and the history, there and back (seed %i)', async (seed) => {
    const clock = testClock();
    const whole = await shared(clock, seed);
    const before = new Map(SOURCES.map((source) => [source, history(whole, source)]));
    const root = whole.runs.list({ limit: 1 })[0]?.root ?? '';
    const path = whole.path;
    whole.close();
    const directory = temporaryDirectory();
    const parts = SOURCES.map((source) => ({ path: join(directory, `${source}.db`), sources: [source] }));
    for (const { path: made, sources } of parts) {
      makeMovedMirror(made, [{ path, sources }], FACTS);
      compareMoved(made, [{ path, sources }]);
      const mirror = open({ path: made, mode: 'read', clock });
      expect(await mirror.verify()).toMatchObject({ problems: [] });
      expect(mirror.runs.sources()).toEqual(sources);
      expect(history(mirror, sources[0] ?? '')).toEqual(before.get(sources[0] ?? ''));
      expect(mirror.findSeal(root)).toMatchObject({ status: 'replaced', how: 'move' });
      mirror.close();
    }
    const joined = join(directory, 'whole.db');
    makeMovedMirror(joined, parts, BACK);
    compareMoved(joined, parts);
    const mirror = open({ path: joined, mode: 'write', clock });
    const { problems, notes } = await mirror.verify();
    expect(problems).toEqual([]);
    // Each move once, with the roots of all of its files.
    expect(notes).toHaveLength(2);
    const [away, back] = notes.map(({ message }) =>
      message.split('; the root hash of the mirror until then was '),
    );
    expect(away?.[0]).toBe(
      `a file from which this one comes was made by \`mirror move\` on ${FACTS.at} by ann@here`,
    );
    expect(back?.[0]).toBe(`this file was made by \`mirror move\` on ${BACK.at} by ann@here`);
    expect(away?.[1]).toMatch(new RegExp(`^${root}, from then on [0-9a-f]{64}(, [0-9a-f]{64}){2}$`));
    const now = mirror.runs.list({ limit: 1 })[0]?.root ?? '';
    const each = SOURCES.map((source) => `[0-9a-f]{64} \\(${source}\\)`).join(', ');
    expect(back?.[1]).toMatch(new RegExp(`^${each}, from then on ${now}$`));
    for (const source of SOURCES) expect(history(mirror, source)).toEqual(before.get(source));
    expect(mirror.findSeal(root)).toMatchObject({ status: 'replaced', how: 'move' });
    // Goes on as any mirror does.
    await sync(mirror, 'roles', ORG, [], { source: { name: 'acme', baseUrl: 'https://svc.example.com' } });
    expect(await mirror.verify()).toMatchObject({ problems: [] });
    readMirrorFacts(parts[0]?.path ?? '', ({ mark }) =>
      expect(mark).toMatchObject({ rootBefore: root, isUntouched: true }),
    );
  });

  it('of several into one takes along which restore was reported as interrupted, and says no run by a number that it has no more', async () => {
    const clock = testClock();
    const plan = JSON.stringify({ from: { ref: 'baseline', run: 1 } });
    const start = { planHash: 'abc', plan, from: 'baseline', approved: {}, steps: [] };
    const parts: { path: string; sources: string[] }[] = [];
    for (const [name, restores] of [
      ['acme', 2],
      ['beta', 1],
    ] as const) {
      const mirror = open({ clock });
      clock.move(60_000);
      await sync(mirror, 'roles', ORG, ['{"id":"r1"}'], {
        source: { name, baseUrl: 'https://svc.example.com' },
      });
      const startedAt = new Date(clock.now()).toISOString();
      for (let n = 0; n < restores; n += 1) mirror.restores.begin({ ...start, source: name, startedAt });
      const about = { source: name, since: startedAt };
      mirror.daemon.recordNotices({
        states: [
          { ...about, subject: 'restore', state: 'interrupted', detail: { restore: restores } },
          { ...about, subject: 'schema', state: 'reported', detail: { run: 1 } },
          { ...about, subject: 'fresh', state: 'overdue', detail: {} },
        ],
        ...{ cleared: [], notices: [] },
      });
      expect(mirror.restores.plannedRun(1)).toBe(1);
      expect([...mirror.auditLog()].toReversed().map(({ subject }) => subject)).toMatchObject(
        Array.from({ length: restores }, () => ({ about: 'restore', isRenumbered: false })),
      );
      const state = { ref: 'run:1', run: 1, at: startedAt };
      const baseline = { ref: 'baseline', run: 1, at: startedAt, name: 'base' };
      if (name === 'beta') {
        const of = { source: name, kind: 'roles', scope: ORG, id: 'r1', path: '', fingerprint: 'f' } as const;
        const accepted = { ...of, reason: 'known', acceptedAt: startedAt };
        mirror.acceptances.add(accepted, undefined, { change: 'added', baseline, state });
        const [own] = mirror.acceptances.list();
        expect(mirror.acceptances.measured(own!)).toEqual({ change: 'added', baseline, state });
      }
      const { path } = mirror;
      const root = mirror.runs.list()[0]?.root ?? '';
      mirror.close();
      const actor = { by: 'ann', via: 'root@here' };
      const backup = { name: `${name}.zst`, run: 1, root, madeAt: startedAt, sources: [name] };
      addToRestored(path, { states: [], entry: { actor, at: startedAt, backup } });
      parts.push({ path, sources: [name] });
    }
    const joined = join(temporaryDirectory(), 'whole.db');
    makeMovedMirror(joined, parts, FACTS);
    compareMoved(joined, parts);
    const mirror = open({ path: joined, clock });
    const detailOf = (source: string): unknown[] =>
      mirror.daemon.noticeStates(source).map(({ subject, detail }) => [subject, detail]);
    expect(detailOf('acme')).toEqual([
      ['fresh', {}],
      ['restore', { restore: 2 }],
      ['schema', { run: 1 }],
    ]);
    expect(detailOf('beta')).toEqual([
      ['fresh', {}],
      ['restore', { restore: 3 }],
      ['schema', { run: 2 }],
    ]);
    expect(mirror.restores.list({ source: 'beta' })).toMatchObject([{ restore: 3 }]);
    const [accepted] = mirror.acceptances.list();
    const at = accepted?.acceptedAt;
    const measured = {
      change: 'added',
      baseline: { ref: 'baseline', at, name: 'base' },
      state: { ref: at, at },
    };
    expect(mirror.acceptances.measured(accepted!)).toEqual(measured);
    expect([...mirror.auditLog()].find(({ action }) => action === 'accept')).toMatchObject({
      subject: { measured },
    });
    const startedAt = new Date(clock.now()).toISOString();
    const again = mirror.restores.begin({ ...start, source: 'beta', startedAt });
    const said = [...mirror.auditLog()].toReversed().map(({ subject }) => subject);
    const renumbered = said.flatMap((subject) =>
      subject.about === 'restore' ? [[subject.restore, subject.isRenumbered]] : [],
    );
    expect(new Map(renumbered as [number, boolean][])).toEqual(
      new Map([...[1, 2, 3].map((restore) => [restore, true] as const), [again, false]]),
    );
    expect(said.flatMap((subject) => (subject.about === 'backup' ? [subject.run] : []))).toEqual([1, 2]);
    expect(mirror.restoredBackups()[0]).toMatchObject({ name: 'beta.zst', run: 2 });
    expect(await mirror.verify()).toMatchObject({ problems: [] });
  });
});
