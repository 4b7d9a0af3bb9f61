import { describe, expect, it } from 'vitest';
import { type JsonValue, parseLossless } from '../../src/core/json.ts';
import type { RecordChange } from '../../src/diff/change.ts';
import {
  type FormChange,
  type FormFacts,
  type ValueThen,
  formExplainer,
} from '../../src/diff/form-change.ts';

const scope = { organization_id: 'o' };
const form = (change: FormChange['change'], field = '/region'): FormChange => ({
  ...{ kind: 'proxy_records', field, change, before: [], after: [], runs: [2] },
});
const changeOf = (id: string, from: JsonValue | undefined, to: JsonValue | undefined): RecordChange => ({
  ...{ kind: 'proxy_records', scope, id, name: id, change: 'changed' },
  fields: [{ path: '/region', ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }],
});
/** Ids of the records whose change the form explains. */
function explained(
  change: FormChange['change'],
  changes: readonly RecordChange[],
  facts: Partial<FormFacts> = {},
): string[] {
  const known = form(change);
  const explain = formExplainer(changes, {
    forms: [known],
    bothSides: () => changes.length,
    isManaged: () => false,
    valuesThen: () => [],
    ...facts,
  });
  return changes.flatMap((each) => {
    const [field] = each.fields;
    return field !== undefined && explain(each, field) === known ? [each.id] : [];
  });
}
const ids = (count: number): string[] => Array.from({ length: count }, (_, n) => `p${n}`);
const gained = (count: number, to: JsonValue = 'eu'): RecordChange[] =>
  ids(count).map((id) => changeOf(id, undefined, to));
const lost = (count: number, from: JsonValue = 'eu'): RecordChange[] =>
  ids(count).map((id) => changeOf(id, from, undefined));

describe('a value told as another type', () => {
  const isSame = (one: JsonValue, other: JsonValue): boolean =>
    explained('retyped', [changeOf('p', one, other)]).length === 1;

  it.each([
    ['8', '"8"'],
    ['1.10', '"1.1"'],
    ['12345678901234567890', '"12345678901234567890"'],
    ['true', '"True"'],
    ['false', '0'],
    ['"eu"', '["eu"]'],
    ['{"a":1}', '"{\\"a\\": 1.0}"'],
    ['[]', '"[]"'],
  ])('%s is %s, either way', (one, other) => {
    expect(isSame(parseLossless(one), parseLossless(other))).toBe(true);
    expect(isSame(parseLossless(other), parseLossless(one))).toBe(true);
  });

  it.each([
    ['8', '"9"'],
    ['12345678901234567890', '"12345678901234567891"'],
    ['true', '"false"'],
    ['true', '0'],
    ['true', '2'],
    ['"eu"', '["us"]'],
    ['"eu"', '["eu","us"]'],
    ['null', '""'],
    ['null', '"null"'],
    ['null', '0'],
    ['"8"', '"08"'],
    ['1', '"true"'],
    ['{"a":1}', '"{\\"a\\":2}"'],
    ['{}', '[]'],
  ])('%s is not %s, either way', (one, other) => {
    expect(isSame(parseLossless(one), parseLossless(other))).toBe(false);
    expect(isSame(parseLossless(other), parseLossless(one))).toBe(false);
  });
});

describe('a field that every record gained or lost', () => {
  it.each([
    ['gained', gained(5), 5],
    ['lost', lost(5), 5],
    ['gained, few records', gained(4), 0],
    ['lost, few records', lost(4), 0],
    ['gained as null, few records', gained(2, null), 2],
    ['lost where it was null, few records', lost(2, null), 2],
    ['gained as null by the only record', gained(1, null), 0],
  ] as const)('%s', (name, changes, count) => {
    expect(explained(name.startsWith('lost') ? 'lost' : 'gained', changes)).toEqual(ids(count));
  });

  it('is drift where people set it, and where some records did not change so', () => {
    for (const [sort, changes] of [
      ['gained', gained(9)],
      ['gained', gained(9, null)],
      ['lost', lost(9)],
    ] as const) {
      expect(explained(sort, changes, { isManaged: (_kind, field) => field === '/region' })).toEqual([]);
      expect(explained(sort, changes, { bothSides: () => 10 })).toEqual([]);
      expect(explained(sort, changes, { bothSides: () => null })).toEqual([]);
    }
  });

  it('is drift in the records where it became another value since, one of either side held at a time', () => {
    const thenOf = (id: string, value: JsonValue): ValueThen => ({ kind: 'proxy_records', scope, id, value });
    const then = [
      thenOf('a', 'x'),
      thenOf('p0', 'eu'),
      thenOf('p2', 'us'),
      thenOf('p21', 'x'),
      thenOf('p3', 'eu'),
    ];
    // The order in which the diff names its changes is not that of the mirror.
    const changes = gained(6).toReversed();
    expect(explained('gained', changes, { valuesThen: () => then })).toEqual(['p5', 'p4', 'p3', 'p1', 'p0']);
  });
});
