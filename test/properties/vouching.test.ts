/**
 * A comparison that a filter narrows says of the lists that it depends on what the comparison of everything says of them: of those
 * of its kinds, and of those that lead there.
 */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { collectionKey, definitionOf } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { CollectionKey, RecordKey } from '../../src/catalog/order.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { compareStates } from '../../src/state/compare.ts';
import { selectsRecord, type StateFilter } from '../../src/state/filter.ts';
import type { Coverage, LoadedState } from '../../src/state/state.ts';

const RECORDS: readonly RecordKey[] = [
  { kind: 'organizations', scope: {}, id: 'a' },
  { kind: 'organizations', scope: {}, id: 'b' },
  ...['a', 'b'].flatMap((organization): RecordKey[] => [
    { kind: 'roles', scope: { organization_id: organization }, id: `${organization}1` },
    {
      kind: 'role_memberships',
      scope: { organization_id: organization, role_id: `${organization}1` },
      id: `${organization}2`,
    },
    { kind: 'members', scope: { organization_id: organization }, id: `${organization}3` },
  ]),
];
const COLLECTIONS: readonly CollectionKey[] = [
  ...new Map(RECORDS.map(({ kind, scope }) => [collectionKey({ kind, scope }), { kind, scope }])).values(),
];
const ORDER: readonly Kind[] = ['organizations', 'roles', 'role_memberships', 'members'];

/** Written down here, not asked of the catalog. */
const ABOVE: Readonly<Partial<Record<Kind, readonly Kind[]>>> = {
  roles: ['organizations'],
  members: ['organizations'],
  role_memberships: ['organizations', 'roles'],
};

type Reading = 'read' | 'stale' | 'partial' | 'denied' | 'unasked';

function coverageOf(reading: Reading): Coverage {
  switch (reading) {
    case 'read':
      return { how: 'read' };
    case 'stale':
      return { how: 'read', stale: 'denied' };
    case 'partial':
      return { how: 'read', stale: 'cut', isPartial: true };
    case 'denied':
      return { how: 'unread', reason: 'denied', code: 'forbidden' };
    case 'unasked':
      return { how: 'left_out', reason: 'outside what the configuration names' };
  }
}

function stateOf(ref: string, readings: readonly Reading[]): LoadedState {
  const byKey = new Map(
    COLLECTIONS.map((each, index) => [collectionKey(each), coverageOf(readings[index] ?? 'read')]),
  );
  const records = RECORDS.toSorted(
    (one, other) => ORDER.indexOf(one.kind) - ORDER.indexOf(other.kind),
  ).filter((each) => byKey.get(collectionKey(each))?.how === 'read');
  const state: LoadedState = {
    ...{ reference: { ref }, source: 'here', resolvedState: null },
    collections: () => COLLECTIONS,
    coverage: (kind, scope) => byKey.get(collectionKey({ kind, scope })) ?? { how: 'absent' },
    unknownIn: () => null,
    records: (filter) =>
      records
        .filter((record) => selectsRecord(filter, record))
        .map((record) => ({ ...record, body: JSON.stringify({ id: record.id }) })),
    projectsOf: () => [],
    checked: () => state,
    close: () => undefined,
  };
  return state;
}

interface Vouching {
  readonly skipped: readonly string[];
  readonly stale: readonly string[];
}

async function vouching(
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  filter: StateFilter,
): Promise<Vouching | null> {
  try {
    const document = await compareStates({
      ...{ ...sides, filter, mode: 'default', fields: [], definitions: definitionOf },
      ...{ leaveOut: new Map(), isExcluded: () => false, idMap: [] },
    });
    return {
      skipped: document.skipped.map((each) => collectionKey(each)).sort(),
      stale: (document.stale ?? []).map((each) => `${each.side} ${collectionKey(each)}`).sort(),
    };
  } catch (error) {
    // Nothing was compared: an error vouches for nothing.
    if (error instanceof TidemarkError) return null;
    throw error;
  }
}

const reading = fc.constantFrom<Reading>('read', 'read', 'read', 'stale', 'partial', 'denied', 'unasked');
const readings = fc.array(reading, { minLength: COLLECTIONS.length, maxLength: COLLECTIONS.length });

it('a filtered answer is as sure as the unfiltered one of the lists that it depends on', async () => {
  await fc.assert(
    fc.asyncProperty(
      ...([readings, readings, fc.subarray([...ORDER], { minLength: 1 })] as const),
      fc.constantFrom<readonly string[] | null>(null, ['a'], ['b']),
      async (then, now, kinds, organizations) => {
        const sides = { from: stateOf('one', then), to: stateOf('two', now) };
        const within = organizations === null ? {} : { organizations };
        const found = await vouching(sides, { ...within, kinds });
        const all = await vouching(sides, within);
        if (found === null || all === null) return;
        const asked = new Set([...kinds, ...kinds.flatMap((kind) => ABOVE[kind] ?? [])]);
        const keys = new Set(COLLECTIONS.filter(({ kind }) => asked.has(kind)).map(collectionKey));
        expect(found).toEqual({
          skipped: all.skipped.filter((key) => keys.has(key)),
          stale: all.stale.filter((key) => keys.has(key.slice(key.indexOf(' ') + 1))),
        });
      },
    ),
    { numRuns: 500 },
  );
});
