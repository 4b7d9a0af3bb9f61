/** What restores created again between two runs, joined: chains, records that hang from one, what is no such record. */
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import type { RecordFilter } from '../../src/mirror/record-filter.ts';
import { compareRecords } from '../../src/diff/change.ts';
import { parseLossless } from '../../src/core/json.ts';
import { compareStates } from '../../src/state/compare.ts';
import type { StateFilter } from '../../src/state/filter.ts';
import { openMirrorState } from '../../src/state/mirror-diff.ts';
import { RecreatedBetween, recreatedIn } from '../../src/state/recreated.ts';
import { otherIds, recordBlame, recordLog, renewalsOf } from '../../src/diff/history.ts';
import { otherIdText } from '../../src/report/notes.ts';
import { idChangesAt, recordHistory } from '../../src/state/record-history.ts';
import { begin, open, ORG, scan, sweep, sync, testClock } from '../mirror/fixture.ts';

const AT = '2026-03-01T12:00:01.000Z';

/** A restore that created, or only recognised, the second of each pair. */
function restore(
  mirror: Mirror,
  pairs: readonly { kind: Kind; ids: [string, string]; scopes?: [Scope, Scope] }[],
  isRecognised = false,
): number {
  const number = mirror.restores.begin({
    source: 'production',
    planHash: 'abc',
    plan: '{}',
    from: 'latest',
    approved: {},
    startedAt: AT,
    steps: pairs.map((_pair, index) => ({
      n: index + 1,
      outcome: 'planned',
      inverse: null,
      errorCode: null,
      error: null,
    })),
  });
  const rows = mirror.restores.steps(number);
  mirror.restores.journal(
    pairs.map(({ kind, ids: [oldId, newId], scopes: [oldScope, newScope] = [ORG, ORG] }, index) => ({
      row: { ...rows[index]!, outcome: 'applied', newId: isRecognised ? null : newId },
      mappings: [{ source: 'production', kind, oldScope, oldId, newScope, newId, restore: number, at: AT }],
    })),
  );
  return number;
}

function changes(mirror: Mirror, from: number, to: number, ids?: readonly string[]): string[] {
  const runs = { from: mirror.runs.get(from)!, to: mirror.runs.get(to)! };
  const again = RecreatedBetween.runs(mirror, runs, definitionOf);
  const filter = ids === undefined ? {} : { ids, followsIds: true };
  const between = mirror.records.changesBetween(from, to, { ...filter, sources: ['production'] });
  return [...again.joined(between)].flatMap(({ kind, scope, id, before, after }) => {
    const side = (body: string | undefined): Parameters<typeof compareRecords>[1] =>
      body === undefined ? undefined : { kind, scope, id, body: parseLossless(body) };
    const change = compareRecords(definitionOf(kind), side(before), side(after), 'default');
    if (change === null) return [];
    const { created_again: told } = again.withRecreation(change);
    const how = told === undefined ? '' : ` ${told.was} ${told.restore}${told.is_recognised ? '?' : ''}`;
    const paths = change.change === 'changed' ? change.fields.map(({ path }) => path) : [];
    return [`${kind} ${id} ${change.change}${how} ${paths.join(' ')}`.trim()];
  });
}

const role = (id: string, name = 'A'): string => JSON.stringify({ id, name });
const below = (role_id: string): Scope => ({ ...ORG, role_id });
const membership = (id: string, role_id: string): string => JSON.stringify({ id, role_id, user_uuid: 'u1' });

describe('what was created again between two runs', () => {
  it('is one change, over an id that no run ever saw, whichever of its ids is asked for', async () => {
    const mirror = open();
    const first = await sync(mirror, 'roles', ORG, [role('r1'), role('x1')]);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
    restore(mirror, [{ kind: 'roles', ids: ['r2', 'r3'] }]);
    const second = await sync(mirror, 'roles', ORG, [role('r3'), role('x2')]);
    const whole = ['roles x1 removed', 'roles x2 added', 'roles r3 changed r1 2 /id'];
    expect(changes(mirror, first.run, second.run).sort()).toEqual(whole.sort());
    for (const id of ['r1', 'r2', 'r3'])
      expect(changes(mirror, first.run, second.run, [id])).toEqual(['roles r3 changed r1 2 /id']);
    expect(
      recreatedIn(mirror, { from: mirror.runs.get(first.run)!, to: mirror.runs.get(second.run)! }),
    ).toEqual([{ kind: 'roles', restore: 2, records: 1 }]);
  });

  it('came after an id that a run saw, where none saw the one that the restore replaced', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('r1')]);
    const away = await sync(mirror, 'roles', ORG, []);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
    restore(mirror, [{ kind: 'roles', ids: ['r2', 'r3'] }]);
    const back = await sync(mirror, 'roles', ORG, [role('r3')]);
    expect(changes(mirror, away.run, back.run)).toEqual(['roles r3 added r1 2']);
    const [row] = mirror.records.find('roles', 'r3');
    const { idChanges } = recordHistory(mirror, row!, back.run, definitionOf);
    expect(renewalsOf(idChanges)).toMatchObject([{ was: 'r1', id: 'r3', restore: 2 }]);
  });

  it('is still named by its old id: that is no change of the record, and a difference once it was read since', async () => {
    const mirror = open();
    const places = (...projects: number[]) => projects.map((id) => ({ id, level: 1 }));
    const invite = (projects: number[], level: number) =>
      JSON.stringify({ id: 'i1', level, private_project_access: places(...projects) });
    const exported = (name: string) => JSON.stringify({ id: 'e1', name, team_id: 2 });
    await sync(mirror, 'projects', ORG, [role('2')]);
    await sync(mirror, 'batch_exports', ORG, [exported('A')]);
    const first = await sync(mirror, 'invites', ORG, [invite([2, 3], 1)]);
    restore(mirror, [{ kind: 'projects', ids: ['2', '5'] }]);
    await sync(mirror, 'projects', ORG, [role('5')]);
    await sync(mirror, 'batch_exports', ORG, [exported('B')]);
    const last = await sync(mirror, 'invites', ORG, [invite([3, 2], 8)]);
    const runs = { from: first.run, to: last.run };
    const again = new RecreatedBetween(mirror, 'production', runs, definitionOf);
    const joined = [...again.joined(mirror.records.changesBetween(first.run, last.run))];
    expect(joined.find(({ id }) => id === 'e1')?.before).toBe(exported('A'));
    const at = (run: number) =>
      openMirrorState(mirror, 'production', { ref: '', run, at: '', isLatest: false });
    const fieldsBetween = async (from: number, to: number, filter: StateFilter = {}) => {
      const { changes: found } = await compareStates({
        ...{ from: at(from), to: at(to), filter, mode: 'default', fields: [], mirror },
        ...{ definitions: definitionOf, idMap: mirror.restores.idMap('production') },
        ...{ leaveOut: new Map(), isExcluded: () => false },
      });
      return found.map((each) => (each.change === 'changed' ? each.fields : each.change));
    };
    // Each of these runs read one kind.
    expect(await fieldsBetween(2, 4)).toEqual([[{ path: '/id', from: '2', to: '5' }]]);
    const moved = { path: '/team_id', from: 5, to: 2 };
    expect(await fieldsBetween(2, 5)).toEqual([[{ path: '/name', from: 'A', to: 'B' }, moved]]);
    const level = { path: '/level', from: 1, to: 8 };
    const old = { place: '/private_project_access/[id=2]', to: { id: 2, level: 1 } };
    const now = { place: '/private_project_access/[id=5]', from: { id: 5, level: 1 } };
    expect(await fieldsBetween(3, 6)).toMatchObject([[level, now, old]]);
    // Run 5 did not read the invites.
    expect(await fieldsBetween(3, 5, { kinds: ['invites'] })).toEqual([]);
    // The same the other way round.
    const back = { path: '/team_id', from: 2, to: 5 };
    expect(await fieldsBetween(5, 2)).toEqual([[{ path: '/name', from: 'B', to: 'A' }, back]]);
    const without = { place: '/private_project_access/[id=2]', from: { id: 2, level: 1 } };
    const withIt = { place: '/private_project_access/[id=5]', to: { id: 5, level: 1 } };
    expect(await fieldsBetween(6, 3)).toMatchObject([[{ path: '/level', from: 8, to: 1 }, without, withIt]]);
    expect(await fieldsBetween(5, 3, { kinds: ['invites'] })).toEqual([]);
  });

  it('is still named by its old id, in a list whose removals are held or that was not read again: a difference', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    const exported = (id: string, name = id) => JSON.stringify({ id, name, team_id: 2 });

    await sync(mirror, 'projects', ORG, [role('2')]);
    await sync(mirror, 'batch_exports', ORG, [exported('e1'), exported('e2')]);
    clock.move(60_000);
    restore(mirror, [{ kind: 'projects', ids: ['2', '5'] }]);
    await sync(mirror, 'projects', ORG, [role('5')]);
    const held = async (outcome: 'held' | 'failed', ...seen: string[]): Promise<void> => {
      const run = begin(mirror);
      const stage = run.stage('batch_exports', ORG);
      stage.accept(seen.map((body) => scan('batch_exports', body)));
      if (outcome === 'held') await stage.decideAbsent('hold');
      const sweeps = [sweep('batch_exports', ORG, seen.length, { outcome })];
      await run.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
    };
    const idMap = mirror.restores.idMap('production');
    const between = async (from: number, to: number): Promise<string[]> => {
      const isLatest = (run: number): boolean => run === mirror.runs.latest('production')?.run;
      const at = (run: number) =>
        openMirrorState(mirror, 'production', { ref: '', run, at: '', isLatest: isLatest(run) });
      const { changes: found, stale } = await compareStates({
        ...{ from: at(from), to: at(to), filter: { kinds: ['batch_exports'] }, mode: 'default', fields: [] },
        ...{ definitions: definitionOf, idMap, mirror },
        ...{ leaveOut: new Map(), isExcluded: () => false },
      });
      const shown = found.map((each) => {
        const paths = each.change === 'changed' ? each.fields.map(({ path }) => path) : [];
        return `${each.id} ${each.change} ${paths.join(' ')}`;
      });
      return [...(stale ?? []).map(({ side }) => `stale ${side}`), ...shown];
    };
    // The list shows e1, as it was; e2 was last read before the project got its new id.
    await held('held', exported('e1'));
    expect(await between(2, 4)).toEqual(['stale to', 'e1 changed /team_id']);
    expect(await between(4, 2)).toEqual(['stale from', 'e1 changed /team_id']);
    // The list that was read before cannot be read any more.
    await held('failed');
    expect(await between(2, 5)).toEqual(['stale to', 'e1 changed /team_id']);
    // Last read before the project got its new id.
    expect(await between(2, 3)).toEqual(['stale to']);
    // The removal is made: of the runs before, nothing else is known.
    await sync(mirror, 'batch_exports', ORG, [exported('e1')]);
    expect(await between(2, 6)).toEqual(['e1 changed /team_id', 'e2 removed ']);
    expect(await between(2, 4)).toEqual(['stale to', 'e1 changed /team_id']);
    // What is held after it was read since is a difference too.
    await sync(mirror, 'batch_exports', ORG, [exported('e1'), exported('e3')]);
    await held('held', exported('e3'));
    expect(await between(2, 8)).toEqual(['stale to', 'e1 changed /team_id', 'e2 removed ', 'e3 added ']);
  });

  it('is found by each of its ids, and nothing of another kind or source that has one of them', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('1')]);
    await sync(mirror, 'invites', ORG, [role('2')]);
    await sync(mirror, 'roles', ORG, []);
    restore(mirror, [{ kind: 'roles', ids: ['1', '2'] }]);
    await sync(mirror, 'roles', ORG, [role('2')]);
    const found = (filter: RecordFilter): string[] =>
      [...mirror.records.history(filter)].map(
        ({ run, kind, id, change }) => `${run} ${kind} ${id} ${change}`,
      );
    const whole = ['1 roles 1 initial', '3 roles 1 removed', '4 roles 2 recreated'];
    expect(found({ ids: ['1'], followsIds: true })).toEqual(whole);
    expect(found({ ids: ['2'], kinds: ['roles'], followsIds: true })).toEqual(whole);
    expect(found({ ids: ['1'] })).toEqual(whole.slice(0, 2));
    expect(changes(mirror, 1, 3, ['2'])).toEqual(['roles 1 removed', 'invites 2 added']);
    const names = ({ kind, id }: { kind: string; id: string }): string => `${kind} ${id}`;
    expect([...mirror.records.changesBetween(0, 4, { ids: ['1'], followsIds: true })].map(names)).toEqual([
      'roles 2',
    ]);
  });

  it('takes what hangs from it along, and tells what was only recognised', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('r1')]);
    const first = await sync(mirror, 'role_memberships', below('r1'), [membership('m1', 'r1')]);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }], true);
    const ids: [string, string] = ['m1', 'm2'];
    restore(mirror, [{ kind: 'role_memberships', ids, scopes: [below('r1'), below('r2')] }]);
    await sync(mirror, 'roles', ORG, [role('r2')]);
    await sync(mirror, 'role_memberships', below('r1'), []);
    const last = await sync(mirror, 'role_memberships', below('r2'), [membership('m2', 'r2')]);
    const runs = { from: first.run, to: last.run };
    const again = new RecreatedBetween(mirror, 'production', runs, definitionOf);
    expect(again.counts()).toEqual([
      { kind: 'roles', restore: 1, records: 1 },
      { kind: 'role_memberships', restore: 2, records: 1 },
    ]);
    const joined = [...again.joined(mirror.records.changesBetween(first.run, last.run))];
    expect(joined.map(({ id, scope }) => `${id} ${scope.role_id ?? ''}`).sort()).toEqual(['m2 r2', 'r2 ']);
    // The role that it names is the same one.
    expect(joined.find(({ id }) => id === 'm2')?.before).toBe(membership('m1', 'r2'));
    const told = again.withRecreation({
      kind: 'roles',
      scope: ORG,
      id: 'r2',
      name: 'A',
      change: 'changed',
      fields: [],
    });
    expect(told.created_again).toEqual({
      ...{ was: 'r1', restore: 1, by: 'ann@here', via: 'ann@here' },
      is_recognised: true,
    });

    // Looks at its collection are those at the one where it stood then.
    const [row] = mirror.records.find('role_memberships', 'm2');
    const history = recordHistory(mirror, row!, last.run, definitionOf);
    expect(history.revisions.map(({ change }) => change)).toEqual(['added', 'removed', 'added']);
    expect(history.sightingBefore(last.run)?.run).toBe(last.run - 1);
  });

  it('leaves apart what both runs show, and what goes without coming back', async () => {
    const mirror = open();
    const first = await sync(mirror, 'roles', ORG, [role('r1'), role('s1')]);
    restore(mirror, [
      { kind: 'roles', ids: ['r1', 'r2'] },
      { kind: 'roles', ids: ['s1', 's2'] },
    ]);
    const second = await sync(mirror, 'roles', ORG, [role('r1'), role('r2')]);
    expect(changes(mirror, first.run, second.run).sort()).toEqual([
      'roles r2 added r1 1',
      'roles s1 removed',
    ]);
    const third = await sync(mirror, 'roles', ORG, [role('r2')]);
    expect(changes(mirror, second.run, third.run)).toEqual(['roles r1 removed']);
    // Under the new id it was there all the time.
    const [row] = mirror.records.find('roles', 'r2');
    const { revisions, idChanges } = recordHistory(mirror, row!, third.run, definitionOf);
    expect(revisions.map(({ run, change }) => `${run} ${change}`)).toEqual(['2 added', '1 added']);
    expect(renewalsOf(idChanges)).toEqual([
      { was: 'r1', id: 'r2', restore: 1, by: 'ann@here', via: 'ann@here' },
    ]);
  });
});

describe('a record whose earlier id returned', () => {
  /** The record as its pages and commands have it, newest first; and how they name its other ids. */
  function told(mirror: Mirror, id: string, until = mirror.runs.latest('production')!.run): string[][] {
    const [row] = mirror.records.find('roles', id);
    const history = recordHistory(mirror, row!, until, definitionOf);
    const options = { mode: 'default', sightingBefore: history.sightingBefore } as const;
    const log = recordLog(definitionOf('roles'), history.revisions, options).map((entry) => {
      const { run, change, fields, created_again: again, returned } = entry;
      const paths = change === 'changed' ? fields.map(({ path }) => path) : [];
      const word = returned === undefined ? change : 'returned';
      return [run, word, again === undefined ? [] : `by ${again.restore}`, paths].flat().join(' ');
    });
    expect(idChangesAt(mirror, row!, until, definitionOf)).toEqual(history.idChanges);
    const others = otherIds(history.idChanges, id).map(
      (each) => `${each.isLater ? 'later' : 'before'} ${each.id}: ${otherIdText(each)}`,
    );
    return [log, others];
  }
  const roles = async (mirror: Mirror, ...bodies: readonly string[]): Promise<number> =>
    (await sync(mirror, 'roles', ORG, [...bodies])).run;

  /** r1 was removed (run 2), created again as r2 (3), and is there again (4) in place of r2. */
  async function returned(): Promise<Mirror> {
    const mirror = open();
    await roles(mirror, role('r1'));
    await roles(mirror);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
    await roles(mirror, role('r2'));
    await roles(mirror, role('r1'));
    return mirror;
  }

  it('has what happened under both, in the order of runs, by either id', async () => {
    const mirror = await returned();
    await roles(mirror, role('r1', 'B'));
    const log = ['5 changed /name', '4 changed /id', '3 returned by 1', '2 removed', '1 added'];
    const by = 'created again by restore 1 (ann@here)';
    expect(told(mirror, 'r1')).toEqual([log, [`before r2: ${by}, until an earlier id was back in run 4`]]);
    expect(told(mirror, 'r2')).toEqual([log, ['later r1: back in run 4', `before r1: ${by}`]]);
    const [row] = mirror.records.find('roles', 'r1');
    const { revisions, idChanges, sightingBefore } = recordHistory(mirror, row!, 5, definitionOf);
    const asked = { mode: 'default', sightingBefore, isDeep: false } as const;
    expect(
      recordBlame(definitionOf('roles'), revisions, asked).map(
        ({ path, value, since }) => `${path} ${JSON.stringify(value)} ${since.run}`,
      ),
    ).toEqual(['/id "r1" 4', '/name "B" 5']);
    expect(renewalsOf(idChanges)).toMatchObject([{ was: 'r1', id: 'r2', restore: 1, until: { run: 4 } }]);
    // The changes of the run have it as one change too, by no restore.
    expect(changes(mirror, 3, 4)).toEqual(['roles r1 changed /id']);
    expect(recreatedIn(mirror, { from: mirror.runs.get(3)!, to: mirror.runs.get(4)! })).toEqual([]);
  });

  it('was not back as of an earlier run, and may go again', async () => {
    const mirror = await returned();
    const by = 'created again by restore 1 (ann@here)';
    const then = [['3 returned by 1', '2 removed', '1 added'], [`later r2: ${by}`]];
    expect(told(mirror, 'r1', 3)).toEqual(then);
    expect(told(mirror, 'r2', 1)[0]).toEqual(['1 added']);
    // A field that came back as it was has not changed since.
    const [row] = mirror.records.find('roles', 'r2');
    const { revisions, sightingBefore } = recordHistory(mirror, row!, 3, definitionOf);
    const blame = recordBlame(definitionOf('roles'), revisions, {
      mode: 'default',
      sightingBefore,
      isDeep: false,
    });
    expect(blame.map(({ path, since }) => `${path} ${since.run}`)).toEqual(['/id 3', '/name 1']);
    await roles(mirror);
    const log = ['5 removed', '4 changed /id', '3 returned by 1', '2 removed', '1 added'];
    expect(told(mirror, 'r1')[0]).toEqual(log);
    expect(told(mirror, 'r2')[0]).toEqual(log);
  });

  it('is followed through a chain of restores, also to the first of three ids and from there to a fourth', async () => {
    const mirror = open();
    await roles(mirror, role('r1'));
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
    await roles(mirror, role('r2'));
    restore(mirror, [{ kind: 'roles', ids: ['r2', 'r3'] }]);
    await roles(mirror, role('r3'));
    await roles(mirror);
    await roles(mirror, role('r1', 'B'));
    const log = ['5 returned', '4 removed', '3 changed by 2 /id', '2 changed by 1 /id', '1 added'];
    for (const id of ['r1', 'r2', 'r3']) expect(told(mirror, id)[0], id).toEqual(log);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r4'] }]);
    await roles(mirror, role('r4', 'B'));
    for (const id of ['r1', 'r2', 'r3', 'r4'])
      expect(told(mirror, id)[0], id).toEqual(['6 changed by 3 /id', ...log]);
    expect(told(mirror, 'r1')[1]![0]).toBe('later r4: created again by restore 3 (ann@here)');
    // A middle one that returns was given by no restore then.
    await roles(mirror, role('r2', 'B'));
    expect(told(mirror, 'r2')[0]!.slice(0, 2)).toEqual(['7 changed /id', '6 changed by 3 /id']);
    expect(changes(mirror, 6, 7)).toEqual(['roles r2 changed /id']);
  });

  it('is another record than the new one while both are there, unless that one goes unchanged', async () => {
    const mirror = open();
    await roles(mirror, role('r1'));
    await roles(mirror);
    restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
    await roles(mirror, role('r2'));
    await roles(mirror, role('r1'), role('r2'));
    expect(told(mirror, 'r1')).toEqual([['4 returned', '2 removed', '1 added'], []]);
    const [log, others] = told(mirror, 'r2');
    expect(log).toEqual(['3 returned by 1', '2 removed', '1 added']);
    expect(others).toEqual(['before r1: created again by restore 1 (ann@here)']);
    // The removal was confirmed by a later run.
    await roles(mirror, role('r1', 'B'));
    const joined = ['5 changed /name', '4 changed /id', '3 returned by 1', '2 removed', '1 added'];
    for (const id of ['r1', 'r2']) expect(told(mirror, id)[0], id).toEqual(joined);
  });

  it('has a history of its own where both changed', async () => {
    const mirror = await returned();
    await roles(mirror, role('r1'), role('r2'));
    await roles(mirror, role('r1', 'B'), role('r2', 'C'));
    await roles(mirror, role('r1', 'B'));
    expect(told(mirror, 'r1')[0]!.slice(0, 2)).toEqual(['6 changed /name', '4 changed /id']);
    expect(told(mirror, 'r2')[0]!.slice(0, 3)).toEqual(['7 removed', '6 changed /name', '5 returned']);
  });
});

it('counts the list of a role that is gone as compared only with a state that had it', async () => {
  const mirror = open();
  // Not of all kinds: such a run asks for every list that it knows of.
  const OF_ROLES = { kinds: ['roles', 'role_memberships'] } as const;
  await sync(mirror, 'roles', ORG, [role('r1')], OF_ROLES);
  const first = await sync(mirror, 'role_memberships', below('r1'), [membership('m1', 'r1')], OF_ROLES);
  const run = begin(mirror, OF_ROLES);
  for (const { id } of run.stage('roles', ORG).absent()) run.stage('roles', ORG).remove(id);
  await run.retire('role_memberships', below('r1'));
  const ended = { outcome: 'complete', sweeps: [sweep('roles', ORG, 0)], requests: 1, retries: 0 } as const;
  const away = await run.publish(ended);
  restore(mirror, [{ kind: 'roles', ids: ['r1', 'r2'] }]);
  const ids: [string, string] = ['m1', 'm2'];
  restore(mirror, [{ kind: 'role_memberships', ids, scopes: [below('r1'), below('r2')] }]);
  await sync(mirror, 'roles', ORG, [role('r2')], OF_ROLES);
  const back = await sync(mirror, 'role_memberships', below('r2'), [membership('m2', 'r2')], OF_ROLES);
  const compared = async (from: number, to: number): Promise<unknown> => {
    const at = (number: number): ReturnType<typeof openMirrorState> =>
      openMirrorState(mirror, 'production', { ref: '', run: number, at: '', isLatest: number === back.run });
    const states = { from: at(from), to: at(to), mirror, idMap: mirror.restores.idMap('production') };
    const facts = { filter: {}, mode: 'default', fields: [], definitions: definitionOf } as const;
    return (await compareStates({ ...states, ...facts, leaveOut: new Map(), isExcluded: () => false }))
      .compared;
  };
  expect(await compared(first.run, away.run)).toEqual({ collections: 2, records: 2 });
  expect(await compared(away.run, back.run)).toEqual({ collections: 2, records: 2 });
  expect(await compared(first.run, back.run)).toEqual({ collections: 2, records: 2 });
});
