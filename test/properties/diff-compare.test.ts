/** What must hold of the comparison for any two bodies. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type JsonObject, type JsonValue, setOwn } from '../../src/core/json.ts';
import { canonicalText, valueDigest, equalValues } from '../../src/diff/canonical.ts';
import { type FieldChange, compareBodies } from '../../src/diff/compare.ts';
import { resolvePointer } from '../../src/core/json-pointer.ts';
import { patchOperations } from '../../src/report/patch.ts';
import { body, bodyPair, json, reversedKeys, testDefinition } from '../diff/arbitraries.ts';
import { applyPatch } from '../diff/json-patch.ts';

const modes = ['default', 'managed', 'all'] as const;
const runs = { numRuns: 150 };

function patched(from: JsonObject, fields: readonly FieldChange[]): JsonValue | undefined {
  const operations = patchOperations({
    kind: 'batch_exports',
    scope: {},
    id: 'x',
    name: 'x',
    change: 'changed',
    fields,
  });
  return applyPatch(from, operations);
}

describe('comparison', () => {
  it('finds nothing between a body and itself, in every mode', () => {
    fc.assert(
      fc.property(body, fc.constantFrom(...modes), (value, mode) => {
        expect(compareBodies(testDefinition, value, value, mode)).toEqual([]);
        expect(compareBodies(testDefinition, value, reversedKeys(value), mode)).toEqual([]);
      }),
      runs,
    );
  });

  it('is complete: its changes replayed on FROM give TO', () => {
    fc.assert(
      fc.property(bodyPair, ([from, to]) => {
        const result = patched(from, compareBodies(testDefinition, from, to, 'all'));
        // Equal by the comparison: the order of an unordered array is no content.
        expect(compareBodies(testDefinition, result!, to, 'all')).toEqual([]);
        const ordered = (value: JsonValue): JsonValue => ({ ...(value as JsonObject), set: null });
        expect(equalValues(ordered(result!), ordered(to))).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('says the same whatever the order of keys', () => {
    fc.assert(
      fc.property(bodyPair, ([from, to]) => {
        const straight = compareBodies(testDefinition, from, to, 'default');
        const turned = compareBodies(testDefinition, reversedKeys(from), reversedKeys(to), 'default');
        expect(turned.map(({ path }) => path)).toEqual(straight.map(({ path }) => path));
      }),
      runs,
    );
  });

  it('is symmetric: turned round it names the same number of places with the sides swapped', () => {
    fc.assert(
      fc.property(bodyPair, ([from, to]) => {
        const forth = compareBodies(testDefinition, from, to, 'all');
        const back = compareBodies(testDefinition, to, from, 'all');
        const sides = (change: FieldChange, first: 'from' | 'to', second: 'from' | 'to'): string =>
          `${valueDigest(change[first])} ${valueDigest(change[second])}`;
        expect(back.map((change) => sides(change, 'to', 'from')).sort()).toEqual(
          forth.map((change) => sides(change, 'from', 'to')).sort(),
        );
      }),
      runs,
    );
  });

  it('reports only places that exist, with the value that stands there', () => {
    fc.assert(
      fc.property(bodyPair, ([from, to]) => {
        for (const change of compareBodies(testDefinition, from, to, 'all')) {
          const side = change.to === undefined ? from : to;
          const found = resolvePointer(side, change.path);
          expect(found).toBeDefined();
          expect(equalValues(found!, (change.to === undefined ? change.from : change.to)!)).toBe(true);
          if (change.from !== undefined && change.to !== undefined) {
            expect(equalValues(change.from, change.to)).toBe(false);
            expect(resolvePointer(from, change.from_path ?? change.path)).toBe(change.from);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  it('leaves volatile members out by default, and all but writable ones when managed', () => {
    fc.assert(
      fc.property(bodyPair, ([from, to]) => {
        const top = (mode: (typeof modes)[number]): Set<string | undefined> =>
          new Set(compareBodies(testDefinition, from, to, mode).map(({ path }) => path.split('/')[1]));
        expect(top('default').has('moving')).toBe(false);
        for (const name of top('managed')) expect(['name', 'set', 'list']).toContain(name);
        for (const name of top('default')) expect(top('all').has(name)).toBe(true);
      }),
      runs,
    );
  });

  it('finds a member that appears, whatever its name', () => {
    fc.assert(
      fc.property(body, fc.string(), json, (from, name, value) => {
        fc.pre(!Object.hasOwn(from, name));
        const to: JsonObject = {};
        for (const member of Object.keys(from)) setOwn(to, member, from[member]!);
        setOwn(to, name, value);
        const changes = compareBodies(testDefinition, from, to, 'all');
        expect(changes).toHaveLength(1);
        expect(changes[0]!.from).toBeUndefined();
        expect(Object.hasOwn(changes[0]!, 'from')).toBe(false);
        expect(changes[0]!.to).toBe(value);
      }),
      runs,
    );
  });
});

describe('canonical text', () => {
  it('is equal exactly when the values are', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(canonicalText(a) === canonicalText(b)).toBe(equalValues(a, b));
        expect(canonicalText(reversedKeys(a))).toBe(canonicalText(a));
      }),
      runs,
    );
  });
});
