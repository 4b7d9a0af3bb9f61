import { dirname } from 'node:path';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { loadConfig } from '../../src/config/load.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { MatchedIds } from '../../src/diff/match-records.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { RecreatedIds } from '../../src/mirror/recreated-ids.ts';
import { driftBetween } from '../../src/state/drift.ts';
import { openMirrorState } from '../../src/state/mirror-diff.ts';
import { resolveState } from '../../src/state/resolved-state.ts';
import { IdHistories, RecreatedReferences, soleIds } from '../../src/state/recreated-ids.ts';
import type { LoadedState } from '../../src/state/state.ts';
import { open, ORG, sync } from '../mirror/fixture.ts';

const ids = new MatchedIds();
ids.pair('projects', '2', '6');
ids.pair('projects', '9007199254740993', '9007199254740995');
ids.pair('roles', 'r1', 'r2');
ids.pair('organizations', 'o1', 'o2');
const references = new RecreatedReferences(definitionOf, ids);

describe('references to records that were created again', () => {
  const cases = [
    [
      'a number stays one, all else as it stands',
      'batch_exports',
      '{ "team_id":2, "id":2, "max": 1.10 }',
      '{ "team_id":6, "id":2, "max": 1.10 }',
    ],
    ['a text stays one', 'batch_exports', '{"team_id":"2"}', '{"team_id":"6"}'],
    [
      'digits beyond doubles',
      'batch_exports',
      '{"team_id":9007199254740993}',
      '{"team_id":9007199254740995}',
    ],
    [
      'every element',
      'invites',
      '{"private_project_access":[{"id":2,"level":"a"},{"id":3},{"id":2}]}',
      '{"private_project_access":[{"id":6,"level":"a"},{"id":3},{"id":6}]}',
    ],
    [
      'a parent by the name of its parameter',
      'plugins',
      '{"id":2,"organization_id":"o1"}',
      '{"id":2,"organization_id":"o2"}',
    ],
    ['what is no id stays', 'batch_exports', '{"team_id":{"id":2}}', '{"team_id":{"id":2}}'],
    ['null stays', 'role_memberships', '{"role_id":null}', '{"role_id":null}'],
    [
      'of the kind that is named only',
      'role_memberships',
      '{"role_id":"o1","user_uuid":"r1"}',
      '{"role_id":"o1","user_uuid":"r1"}',
    ],
    ['another id stays', 'role_memberships', '{"role_id":"r3"}', '{"role_id":"r3"}'],
  ] as const;
  it.each(cases)('%s', (_what, kind, body, expected) => {
    expect(references.renamed({ kind, body })).toBe(expected);
  });
});

/** A mirror whose baseline is its first run: an invite to projects 2 and 3. */
async function baselined(): Promise<Mirror> {
  const mirror = open();
  await sync(mirror, 'projects', ORG, [project(2), project(3)]);
  await sync(mirror, 'invites', ORG, [invite([{ id: 2, level: 1 }])]);
  mirror.snapshots.pinBaseline('agreed', 2);
  return mirror;
}

const project = (id: number): string => JSON.stringify({ id, name: `P${id === 6 || id === 8 ? 2 : id}` });
const invite = (private_project_access: object[], target_email = 'a@example.com'): string =>
  JSON.stringify({ id: 'i1', target_email, private_project_access });

/** A restore that created the project again, and the run after it. */
async function createdAgain(mirror: Mirror, ids: [number, number], body: string): Promise<void> {
  const [oldId, newId] = ids.map(String) as [string, string];
  const places = { source: 'production', kind: 'projects', oldScope: ORG, newScope: ORG } as const;
  const restore = mirror.restores.begin({
    ...{ source: 'production', planHash: 'abc', plan: '{}', from: 'latest', approved: {} },
    startedAt: '2026-03-01T12:00:01.000Z',
    steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
  });
  const [row] = mirror.restores.steps(restore);
  mirror.restores.journal([
    {
      row: { ...row!, outcome: 'applied', newId },
      mappings: [{ ...places, oldId, newId, restore, at: '2026-03-01T12:00:01.000Z' }],
    },
  ]);
  await sync(mirror, 'projects', ORG, [project(ids[1]), project(3)]);
  await sync(mirror, 'invites', ORG, [body]);
}

function stateOf(mirror: Mirror, ref: string): LoadedState {
  return openMirrorState(mirror, 'production', resolveState(mirror, ref, { now: 0, source: 'production' }));
}

async function driftOf(mirror: Mirror) {
  const config = loadConfig({
    env: { TIDEMARK_BASE_URL: 'http://127.0.0.1:9', TIDEMARK_MIRROR: mirror.path },
    cwd: dirname(mirror.path),
    keys: 'unused',
  });
  const [from, to] = [stateOf(mirror, 'baseline'), stateOf(mirror, 'latest')];
  const extent = { source: 'production', filter: { kinds: ['invites' as const] }, mode: 'default' as const };
  return await driftBetween(onlyMirrorConfig(config), mirror, { from, to }, true, {
    ...extent,
    fields: [],
    now: 0,
  });
}

async function accept(mirror: Mirror): Promise<void> {
  for (const { fingerprint, kind, scope, id, path, place = path } of (await driftOf(mirror)).open)
    mirror.acceptances.add({
      ...{ source: 'production', kind, scope, id, fingerprint, path: place },
      ...{ reason: 'wanted', acceptedAt: '2026-03-01T12:00:00.000Z' },
    });
}

describe('a finding that names a record which a restore creates again', () => {
  const cases = [
    // An array whose elements cannot be matched is compared as one value.
    [
      'in its value',
      [
        { id: 2, level: 1 },
        { id: 2, level: 8 },
      ],
      [
        [6, 1],
        [6, 8],
      ],
      [
        [8, 1],
        [8, 8],
      ],
    ],
    ['in its path', [{ id: 2, level: 8 }], [[6, 8]], [[8, 8]]],
  ] as const;
  it.each(cases)('stays accepted, %s', async (_where, changed, once, twice) => {
    const access = (pairs: typeof once): object[] => pairs.map(([id, level]) => ({ id, level }));
    const mirror = await baselined();
    await sync(mirror, 'invites', ORG, [invite([...changed])]);
    expect((await driftOf(mirror)).open).toHaveLength(1);
    await accept(mirror);
    for (const [ids, pairs] of [
      [[2, 6], once],
      [[6, 8], twice],
    ] as const) {
      await createdAgain(mirror, [...ids], invite(access(pairs as typeof once)));
      const found = await driftOf(mirror);
      expect(found.open).toEqual([]);
      expect(found.accepted).toHaveLength(1);
      expect(found.stale).toEqual([]);
    }
    // With another value it is open again.
    await sync(mirror, 'invites', ORG, [invite([{ id: 8, level: 15 }])]);
    expect((await driftOf(mirror)).open.length).toBeGreaterThan(0);
  });

  it('an element that the baseline has not stays accepted, and one that is open has its earlier fingerprints', async () => {
    const mirror = open();
    await sync(mirror, 'projects', ORG, [project(2), project(3)]);
    await sync(mirror, 'invites', ORG, [invite([{ id: 3, level: 1 }])]);
    mirror.snapshots.pinBaseline('agreed', 2);
    await sync(mirror, 'invites', ORG, [
      invite([
        { id: 3, level: 1 },
        { id: 2, level: 1 },
      ]),
    ]);
    const [before, ...others] = (await driftOf(mirror)).open;
    expect(others).toEqual([]);
    const again = invite([
      { id: 3, level: 1 },
      { id: 6, level: 1 },
    ]);
    await createdAgain(mirror, [2, 6], again);
    const { open: found, earlier } = await driftOf(mirror);
    expect(found).toHaveLength(1);
    expect(found[0]?.fingerprint).not.toBe(before?.fingerprint);
    expect(earlier(found[0]!)).toMatchObject([{ fingerprint: before?.fingerprint }]);
    await accept(mirror);
    await createdAgain(mirror, [6, 8], again.replace('"id":6', '"id":8'));
    expect(await driftOf(mirror)).toMatchObject({ open: [], accepted: [{}], stale: [] });
  });

  const pair = (id: number): object[] => [
    { id, level: 1 },
    { id, level: 8 },
  ];

  it('is open where its value names the new one, and the service has the old one again beside it', async () => {
    const mirror = await baselined();
    await sync(mirror, 'invites', ORG, [invite(pair(2))]);
    await accept(mirror);
    await createdAgain(mirror, [2, 6], invite(pair(2)));
    await sync(mirror, 'projects', ORG, [project(2), project(6), project(3)]);
    expect(await driftOf(mirror)).toMatchObject({ open: [], accepted: [{}] });
    await sync(mirror, 'invites', ORG, [invite(pair(6))]);
    const found = await driftOf(mirror);
    expect(found).toMatchObject({ open: [{ reopened: { because: 'value' } }], accepted: [] });
    expect(found.earlier(found.open[0]!)).toEqual([]);
  });

  it('is open where its value names an id that was replaced before it was accepted', async () => {
    const mirror = await baselined();
    await createdAgain(mirror, [2, 6], invite(pair(6)));
    await accept(mirror);
    expect(await driftOf(mirror)).toMatchObject({ open: [], accepted: [{}] });
    await createdAgain(mirror, [6, 8], invite(pair(2)));
    expect(await driftOf(mirror)).toMatchObject({ open: [{ reopened: { because: 'value' } }], accepted: [] });
  });

  it('is tried only under the ids before restores of what it names, later ones as earlier ones', async () => {
    const mirror = await baselined();
    await createdAgain(mirror, [2, 6], invite([{ id: 6, level: 1 }]));
    await createdAgain(mirror, [6, 8], invite([{ id: 3, level: 8 }]));
    const [from, to] = [stateOf(mirror, 'baseline'), stateOf(mirror, 'latest')];
    const idMap = mirror.restores.idMap('production');
    const histories = new IdHistories(idMap, soleIds(new RecreatedIds(idMap), from, to));
    const before = (kind: Kind, id: string): object[][] =>
      histories.before((ids) => void ids.renamed(kind, id)).map((ids) => [...ids.pairs()]);
    expect(before('projects', '3')).toEqual([]);
    expect(before('roles', '2')).toEqual([]);
    for (const id of ['2', '6', '8'])
      expect(before('projects', id)).toEqual([
        [{ kind: 'projects', from: '8', to: '6' }],
        [
          { kind: 'projects', from: '6', to: '2' },
          { kind: 'projects', from: '8', to: '2' },
        ],
      ]);
  });
});
