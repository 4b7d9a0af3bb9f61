import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { KINDS } from '../../src/catalog/kinds.ts';
import { withoutFallbackPointers } from '../../src/catalog/shown-fields.ts';
import { type JsonObject, type JsonValue, parseLossless } from '../../src/core/json.ts';
import { comparedMembers, compareBodies } from '../../src/diff/compare.ts';
import { equalValues, canonicalNumber } from '../../src/diff/canonical.ts';
import { resolvePointer, splitPointer } from '../../src/core/json-pointer.ts';
import { testDefinition } from './arbitraries.ts';

const compare = (from: string, to: string, mode: 'default' | 'managed' | 'all' = 'default') =>
  JSON.parse(
    JSON.stringify(compareBodies(testDefinition, parseLossless(from), parseLossless(to), mode)),
  ) as unknown;

describe('compareBodies', () => {
  it.each([
    ['absent and null', '{}', '{"a":null}', [{ path: '/a', to: null }]],
    ['null and empty', '{"a":null}', '{"a":""}', [{ path: '/a', from: null, to: '' }]],
    ['null and absent', '{"a":null}', '{}', [{ path: '/a', from: null }]],
    ['empty object and empty array', '{"a":{}}', '{"a":[]}', [{ path: '/a', from: {}, to: [] }]],
    ['a number and its text', '{"a":1}', '{"a":"1"}', [{ path: '/a', from: 1, to: '1' }]],
    ['false and absent', '{"a":false}', '{}', [{ path: '/a', from: false }]],
    ['a nested member', '{"a":{"b":{"c":1}}}', '{"a":{"b":{"c":2}}}', [{ path: '/a/b/c', from: 1, to: 2 }]],
    ['escaped names', '{"a/b":{"~":1}}', '{"a/b":{"~":2}}', [{ path: '/a~1b/~0', from: 1, to: 2 }]],
    ['an array without ids', '{"a":[1,2]}', '{"a":[2,1]}', [{ path: '/a', from: [1, 2], to: [2, 1] }]],
    [
      '__proto__ as a name',
      '{"__proto__":{"x":1}}',
      '{"__proto__":{"x":2}}',
      [{ path: '/__proto__/x', from: 1, to: 2 }],
    ],
    ['a name of the prototype that only one has', '{}', '{"toString":1}', [{ path: '/toString', to: 1 }]],
  ])('tells apart %s', (_name, from, to, expected) => {
    expect(compare(from, to)).toEqual(expected);
  });

  it.each([
    ['numbers spelled differently', '{"a":1.10,"b":1e2,"c":-0,"d":0.5}', '{"a":1.1,"b":100,"c":0,"d":5E-1}'],
    ['keys in another order', '{"a":1,"b":{"c":1,"d":2}}', '{"b":{"d":2,"c":1},"a":1}'],
    ['volatile members', '{"moving":1}', '{"moving":2}'],
    ['an unordered array turned round', '{"set":[1,{"a":1},"x"]}', '{"set":["x",1,{"a":1.0}]}'],
    [
      'an unordered array with ids turned round',
      '{"set":[{"id":1},{"id":2}]}',
      '{"set":[{"id":2},{"id":1}]}',
    ],
  ])('finds nothing between %s', (_name, from, to) => {
    expect(compare(from, to)).toEqual([]);
  });

  // A field mapping of a component: column names that elsewhere are a user's, or move by themselves.
  const mapping = {
    email: '{person.email}',
    first_name: '{person.first}',
    updated_at: '{event.time}',
    id: 1,
    uuid: 'u',
  };
  it.each([
    ['pipeline_destinations', 'config', 'first_name'],
    ['pipeline_destinations', 'config', 'updated_at'],
    ['plugins', 'config_schema', 'first_name'],
    ['projects', 'settings', 'updated_at'],
    ['roles', 'user', 'first_name'],
    ['organizations', 'metadata', 'email'],
  ] as const)('sees every member of what %s hold in %s: %s', (kind, field, name) => {
    const definition = definitionOf(kind);
    const places: ((value: JsonObject) => JsonValue)[] = [
      (each) => each,
      (each) => ({ user: each }),
      (each) => [each],
    ];
    for (const [index, put] of places.entries()) {
      for (const value of ['{person.other}', null, undefined]) {
        const other = { ...mapping, [name]: value } as JsonObject;
        if (value === undefined) Reflect.deleteProperty(other, name);
        const changes = compareBodies(
          definition,
          { [field]: put(mapping) },
          { [field]: put(other) },
          'default',
        );
        const below = ['', '/user', '/0'][index] ?? '';
        expect(changes.map(({ path }) => path)).toEqual([`/${field}${below}/${name}`]);
      }
    }
  });

  it('in fields of no known shape finds whatever differs', () => {
    const names = fc.constantFrom(
      'email',
      'first_name',
      'uuid',
      'updated_at',
      'user',
      'members',
      'created_by',
      'id',
    );
    const nested = fc.letrec<{ value: JsonValue }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(1, 2, null, 'a'),
        fc.array(tie('value'), { maxLength: 2 }),
        fc.dictionary(names, tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    })).value;
    const kinds = fc.constantFrom(...KINDS);
    fc.assert(
      fc.property(kinds, nested, nested, (kind, config, other) => {
        const changes = compareBodies(definitionOf(kind), { config }, { config: other }, 'default');
        expect(changes.length === 0).toBe(equalValues(config, other));
      }),
    );
  });

  it('reads a query that only the schema shows as the field that it is, with the words of a request', () => {
    const exports = definitionOf('batch_exports');
    const body = (query: string | null): JsonObject => ({ id: 'e', schema: { svcql_query: query } });
    const paths = (from: JsonObject, to: JsonObject, mode: 'default' | 'managed' | 'all'): string[] =>
      compareBodies(exports, from, to, mode).map(({ path }) => path);
    const [one, two] = [body('SELECT 1'), body('SELECT 2')];
    expect(paths(one, two, 'managed')).toEqual(['/svcql_query']);
    expect(paths(one, two, 'default')).toEqual(['/svcql_query']);
    expect(paths(one, two, 'all')).toEqual(['/schema/svcql_query']);
    expect(compareBodies(exports, body(null), one, 'managed')).toEqual([
      { path: '/svcql_query', to: 'SELECT 1' },
    ]);
    expect(comparedMembers(exports, one, 'managed')).toEqual([['svcql_query', 'SELECT 1']]);
    expect(compareBodies(withoutFallbackPointers(exports), one, two, 'managed')).toEqual([]);
  });

  it('keeps integers beyond 2^53 apart', () => {
    const changes = compareBodies(
      testDefinition,
      parseLossless('{"a":12345678901234567890}'),
      parseLossless('{"a":12345678901234567891}'),
      'default',
    );
    expect(JSON.stringify(changes)).toBe(
      '[{"path":"/a","from":12345678901234567890,"to":12345678901234567891}]',
    );
  });

  it('matches elements by id and points to them by their index in TO, in FROM where removed', () => {
    const from = '{"list":[{"id":1,"n":"a"},{"id":2,"n":"b"},{"id":3,"n":"c"}]}';
    const to = '{"list":[{"id":9,"n":"z"},{"id":2,"n":"B"},{"id":3,"n":"c"}]}';
    expect(compare(from, to)).toEqual([
      { path: '/list/1/n', place: '/list/[id=2]/n', from: 'b', to: 'B' },
      { path: '/list/0', place: '/list/[id=1]', from: { id: 1, n: 'a' } },
      { path: '/list/0', place: '/list/[id=9]', to: { id: 9, n: 'z' } },
    ]);
  });

  it('says where a moved element stands in FROM', () => {
    expect(compare('{"list":[{"id":1},{"id":2,"n":1}]}', '{"list":[{"id":2,"n":2}]}')).toEqual([
      { path: '/list/0/n', from_path: '/list/1/n', place: '/list/[id=2]/n', from: 1, to: 2 },
      { path: '/list/0', place: '/list/[id=1]', from: { id: 1 } },
    ]);
  });

  it('tells elements of an ordered array that stand elsewhere, and what changed in them by itself', () => {
    const [one, two] = [{ id: 1 }, { id: 2 }];
    expect(compare(JSON.stringify({ list: [one, two] }), JSON.stringify({ list: [two, one] }))).toEqual([
      { path: '/list', from: [one, two], to: [two, one], moved: [{ from: 1, to: 0 }] },
    ]);
    const elements = (...ids: number[]): object[] => ids.map((id) => ({ id, n: 0 }));
    const from = elements(1, 2, 3, 4, 5);
    const to = [{ id: 9, n: 0 }, ...elements(2, 3), { id: 5, n: 7 }, ...elements(1)];
    expect(compare(JSON.stringify({ list: from }), JSON.stringify({ list: to }))).toEqual([
      { path: '/list/3/n', from_path: '/list/4/n', place: '/list/[id=5]/n', from: 0, to: 7 },
      { path: '/list/3', place: '/list/[id=4]', from: from[3] },
      { path: '/list/0', place: '/list/[id=9]', to: to[0] },
      { path: '/list', from, to, moved: [{ from: 0, to: 4 }] },
    ]);
  });

  it.each([
    ['an id twice', '[{"id":1},{"id":1}]'],
    ['an element without id', '[{"id":1},{}]'],
    ['an id that is null', '[{"id":null}]'],
    ['an element that is not an object', '[{"id":1},7]'],
  ])('compares by value an array with %s', (_name, list) => {
    expect(compare('{"list":[{"id":5}]}', `{"list":${list}}`)).toEqual([
      { path: '/list', from: [{ id: 5 }], to: JSON.parse(list) as unknown },
    ]);
  });

  it('takes the id "7" and the id 7 for two elements', () => {
    expect(compare('{"list":[{"id":"7"}]}', '{"list":[{"id":7}]}')).toEqual([
      { path: '/list/0', place: '/list/[id="7"]', from: { id: '7' } },
      { path: '/list/0', place: '/list/[id=7]', to: { id: 7 } },
    ]);
  });

  it('lets only writable fields count when managed, and everything when all', () => {
    const from = '{"name":"a","owned":1,"moving":1,"unknown":1}';
    const to = '{"name":"b","owned":2,"moving":2,"unknown":2}';
    const paths = (mode: 'default' | 'managed' | 'all'): string[] =>
      (compare(from, to, mode) as { path: string }[]).map(({ path }) => path);
    expect(paths('managed')).toEqual(['/name']);
    expect(paths('default')).toEqual(['/name', '/owned', '/unknown']);
    expect(paths('all')).toEqual(['/moving', '/name', '/owned', '/unknown']);
  });

  it('does not call a writable field managed that moves by itself', () => {
    const component = definitionOf('plugins');
    const field = { ...component.fields.find(({ name }) => name === 'metrics')!, isWritable: true };
    const definition = changedDefinition(component, { fields: [field] });
    expect(compareBodies(definition, { metrics: 1 }, { metrics: 2 }, 'managed')).toEqual([]);
  });

  it('compares bodies that are no objects as a whole', () => {
    expect(compareBodies(testDefinition, [1], [2], 'default')).toEqual([{ path: '', from: [1], to: [2] }]);
    expect(compareBodies(testDefinition, [1], [2], 'managed')).toEqual([]);
  });

  it('goes 5,000 levels deep', () => {
    const nested = (leaf: number): JsonObject => {
      let value: JsonValue = leaf;
      for (let i = 0; i < 2_500; i += 1) value = { a: [value] };
      return { name: value };
    };
    expect(compareBodies(testDefinition, nested(1), nested(1), 'default')).toEqual([]);
    expect(
      compareBodies(testDefinition, nested(1), nested(2), 'default').map(({ path }) => path.length),
    ).toEqual(['/name/a'.length]);
  });

  it('follows objects as deep as they go', () => {
    const nested = (leaf: number): JsonObject => {
      let value: JsonValue = leaf;
      for (let i = 0; i < 3_000; i += 1) value = { a: value };
      return { name: value };
    };
    const [change] = compareBodies(testDefinition, nested(1), nested(2), 'default');
    expect(change).toEqual({ path: `/name${'/a'.repeat(3_000)}`, from: 1, to: 2 });
  });

  it('compares 1 MB texts and lone surrogates by code units', () => {
    const long = 'x'.repeat(1_000_000);
    expect(compareBodies(testDefinition, { name: long }, { name: `${long}y` }, 'default')).toHaveLength(1);
    expect(equalValues('\ud800', '\ud801')).toBe(false);
    expect(equalValues('\ud800', '\ufffd')).toBe(false);
    expect(equalValues('é', 'e\u0301')).toBe(false);
  });
});

describe('canonicalNumber', () => {
  it.each([
    ['1.10', '11e-1'],
    ['100', '1e2'],
    ['1e2', '1e2'],
    ['0.00', '0'],
    ['-0', '0'],
    ['-1.5E+3', '-15e2'],
    ['1e400', '1e400'],
    ['10e99999999999999999999', '1e100000000000000000000'],
  ])('of %s is %s', (text, expected) => {
    expect(canonicalNumber(text)).toBe(expected);
  });
});

describe('pointers', () => {
  it.each(['a', '/~', '/~2', '#/a'])('refuses %s', (text) => {
    expect(() => splitPointer(text)).toThrow(RangeError);
  });

  it('resolves members and indexes, and nothing of the prototype', () => {
    const body = parseLossless('{"a/b":[{"~":0}],"":1}');
    expect(resolvePointer(body, '/a~1b/0/~0')).toBe(0);
    expect(resolvePointer(body, '/')).toBe(1);
    expect(resolvePointer(body, '')).toBe(body);
    for (const missing of ['/toString', '/a~1b/00', '/a~1b/-', '/a~1b/1', '/a~1b/length', '/x/y']) {
      expect(resolvePointer(body, missing)).toBeUndefined();
    }
  });
});
