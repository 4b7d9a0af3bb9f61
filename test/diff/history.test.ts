import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { type HistoryRevision, type SeenAt, recordBlame, recordLog } from '../../src/diff/history.ts';

const definition = definitionOf('batch_exports');
const at = (run: number): string => `2026-03-${String(run).padStart(2, '0')}T00:00:00.000Z`;
const sighting = (run: number): SeenAt => ({ run, at: at(run) });

/** Newest first, as the mirror reads them; written here oldest first. */
function history(...revisions: [run: number, change: HistoryRevision['change'], body: object | null][]) {
  return revisions
    .map(([run, change, body]) => ({
      run,
      at: at(run),
      change,
      body: body === null ? null : JSON.stringify(body),
    }))
    .reverse();
}

/** The whole collection was listed in these runs. */
const looks =
  (...runs: number[]) =>
  (before: number): SeenAt | null => {
    const last = runs.filter((run) => run < before).at(-1);
    return last === undefined ? null : sighting(last);
  };
const everyRun = looks(1, 2, 3, 4, 5, 6, 7, 8, 9);
const options = { mode: 'default', sightingBefore: everyRun } as const;

describe('log', () => {
  it('tells additions, changes, removals and returns, newest first, each with its window', () => {
    const entries = recordLog(
      definition,
      history(
        [2, 'added', { id: 'x', name: 'a' }],
        [4, 'changed', { id: 'x', name: 'b' }],
        [6, 'removed', null],
        [8, 'added', { id: 'x', name: 'c' }],
      ),
      options,
    );
    expect(entries).toEqual([
      {
        run: 8,
        at: at(8),
        change: 'added',
        last_seen_before: sighting(7),
        fields: [
          { path: '/id', to: 'x' },
          { path: '/name', to: 'c' },
        ],
        returned: [{ path: '/name', from: 'b', to: 'c' }],
      },
      {
        run: 6,
        at: at(6),
        change: 'removed',
        last_seen_before: sighting(5),
        fields: [
          { path: '/id', from: 'x' },
          { path: '/name', from: 'b' },
        ],
      },
      {
        run: 4,
        at: at(4),
        change: 'changed',
        last_seen_before: sighting(3),
        fields: [{ path: '/name', from: 'a', to: 'b' }],
      },
      {
        run: 2,
        at: at(2),
        change: 'added',
        last_seen_before: sighting(1),
        fields: [
          { path: '/id', to: 'x' },
          { path: '/name', to: 'a' },
        ],
      },
    ]);
  });

  it.each([
    ['nobody looked before the first revision', looks(), 2, null],
    ['a run in between looked at the whole collection', looks(3), 5, sighting(3)],
    ['no run in between did: the revision itself was the last sight', looks(1), 5, sighting(2)],
    ['later looks do not count', looks(7), 5, sighting(2)],
  ])('window: %s', (_name, sightingBefore, run, expected) => {
    const entries = recordLog(
      definition,
      history([2, 'added', { name: 'a' }], [5, 'changed', { name: 'b' }]),
      {
        ...options,
        sightingBefore,
      },
    );
    expect(entries.find((entry) => entry.run === run)!.last_seen_before).toEqual(expected);
  });

  it('leaves out what changed nothing that is compared', () => {
    const revisions = history(
      [1, 'added', { name: 'a', latest_runs: [1] }],
      [2, 'rewritten', { latest_runs: [1], name: 'a' }],
      [3, 'changed', { name: 'a', latest_runs: [2] }],
    );
    expect(recordLog(definition, revisions, options).map(({ run }) => run)).toEqual([1]);
    expect(recordLog(definition, revisions, { ...options, mode: 'all' }).map(({ run }) => run)).toEqual([
      3, 1,
    ]);
  });

  it('keeps absent, null and empty apart', () => {
    const bodies = [{}, { name: null }, { name: '' }, {}];
    const entries = recordLog(
      definition,
      history(
        ...bodies.map((body, i): [number, 'added' | 'changed', object] => [
          i + 1,
          i === 0 ? 'added' : 'changed',
          body,
        ]),
      ),
      options,
    );
    expect(entries.map(({ fields }) => fields)).toEqual([
      [{ path: '/name', from: '' }],
      [{ path: '/name', from: null, to: '' }],
      [{ path: '/name', to: null }],
      [],
    ]);
  });

  it('says which body is damaged', () => {
    const revisions = [{ run: 3, at: at(3), change: 'added' as const, body: '{' }];
    expect(() => recordLog(definition, revisions, options)).toThrow(/run 3 is not JSON/);
  });
});

describe('blame', () => {
  const since = (revisions: HistoryRevision[], more: object = {}): Record<string, number> =>
    Object.fromEntries(
      recordBlame(definition, revisions, { ...options, isDeep: false, ...more }).map((field) => [
        field.path,
        field.since.run,
      ]),
    );

  it('names the run that saw each value first without a break', () => {
    const revisions = history(
      [1, 'added', { name: 'a', interval: 'hour', paused: false }],
      [2, 'changed', { name: 'b', interval: 'hour', paused: true }],
      [3, 'changed', { name: 'a', interval: 'hour', paused: true, model: 'events' }],
    );
    expect(since(revisions)).toEqual({ '/interval': 1, '/model': 3, '/name': 3, '/paused': 2 });
    const [interval, , name] = recordBlame(definition, revisions, { ...options, isDeep: false });
    expect(interval!.last_seen_before).toBeNull();
    expect(name).toEqual({ path: '/name', value: 'a', since: sighting(3), last_seen_before: sighting(2) });
  });

  it('begins again where the record had been away, and tells of a removed one what it was', () => {
    const gone = history([1, 'added', { name: 'a' }], [3, 'removed', null]);
    expect(since(gone)).toEqual({ '/name': 1 });
    expect(since([...history([5, 'added', { name: 'a' }]), ...gone])).toEqual({ '/name': 5 });
    expect(recordBlame(definition, [], { ...options, isDeep: false })).toEqual([]);
  });

  it('goes on through an absence that a restore ended, and takes references by the new ids', () => {
    const [old, now] = [
      { id: 'r0', team: 'old' },
      { id: 'r1', team: 'new' },
    ];
    const revisions = history(
      [1, 'added', { ...old, name: 'a' }],
      [2, 'changed', { ...old, name: 'b' }],
      [3, 'removed', null],
      [4, 'added', { ...now, name: 'b' }],
      [5, 'changed', { ...now, name: 'c' }],
    ).map((each) => {
      const again = { was: 'r0', restore: 1, by: 'ann', id: 'r1' };
      const before = JSON.stringify({ id: 'r0', team: 'new', name: 'b' });
      return each.run === 4 ? { ...each, created_again: again, before } : each;
    });
    expect(since(revisions)).toEqual({ '/id': 4, '/name': 5, '/team': 1 });
    expect(since(revisions.slice(1))).toEqual({ '/id': 4, '/name': 2, '/team': 1 });
  });

  it('goes into objects when asked to, and takes an array as one value', () => {
    const destination = (bucket: string, list: number[]) => ({
      destination: { type: 'S3', config: { bucket, list, 'a/b': {}, none: null } },
    });
    const revisions = history(
      [1, 'added', destination('x', [1])],
      [2, 'changed', destination('y', [1])],
      [3, 'changed', destination('y', [1, 2])],
    );
    expect(since(revisions)).toEqual({ '/destination': 3 });
    expect(since(revisions, { isDeep: true })).toEqual({
      '/destination/config/a~1b': 1,
      '/destination/config/bucket': 2,
      '/destination/config/list': 3,
      '/destination/config/none': 1,
      '/destination/type': 1,
    });
  });

  it('agrees with the log: a field is as old as the last entry that touched it', () => {
    const body = fc.dictionary(
      fc.constantFrom('name', 'paused', 'interval', 'x'),
      fc.constantFrom(1, 2, null),
      {
        maxKeys: 4,
      },
    );
    fc.assert(
      fc.property(fc.array(fc.option(body, { freq: 5 }), { minLength: 1, maxLength: 8 }), (bodies) => {
        const revisions = bodies
          .map((value, index) => ({
            run: index + 1,
            at: at(index + 1),
            change: value === null ? ('removed' as const) : ('changed' as const),
            body: value === null ? null : JSON.stringify(value),
          }))
          .filter(
            ({ body: text }, index, all) => text !== null || (index > 0 && all[index - 1]!.body !== null),
          )
          .reverse();
        if ((revisions[0]?.body ?? null) === null) return;
        const entries = recordLog(definition, revisions, options);
        for (const field of recordBlame(definition, revisions, { ...options, isDeep: true })) {
          const entry = entries.find(({ fields }) => fields.some(({ path }) => path === field.path));
          expect(field.since.run).toBe(entry!.run);
        }
      }),
    );
  });
});
