import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { diffExitCode } from '../../src/diff/change.ts';
import { compareTexts } from '../../src/catalog/order.ts';
import {
  type CompareOptions,
  type RecordState,
  sortRecords,
  stepsOverStates,
} from '../../src/diff/states.ts';
import { diffStates } from './diff-states.ts';

const here: Scope = { organization_id: 'o1' };
const record = (kind: Kind, id: string, body: string | object, scope: Scope = here): RecordState => ({
  kind,
  scope,
  id,
  body: typeof body === 'string' ? body : JSON.stringify(body),
});
const diff = (from: RecordState[], to: RecordState[], options: Partial<CompareOptions> = {}) =>
  diffStates(
    { reference: { ref: 'run:1' }, records: from },
    { reference: { ref: 'run:2' }, records: to },
    { mode: 'default', ...options },
  );

it.each([
  [{ side: 'to' as const }, 3],
  [{ side: 'from' as const }, 0],
  [{ side: 'from' as const, is_partial: true as const }, 3],
])('an old reading in %j ends in %i', (stale, code) => {
  const document = diff([record('roles', 'a', {})], [record('roles', 'a', {})]);
  const entry = { kind: 'roles' as const, scope: here, reason: 'incomplete in run 1', ...stale };
  expect(diffExitCode({ ...document, stale: [entry] })).toBe(code);
});

describe('diffStates', () => {
  it('finds what was added, removed and changed, and counts the rest', () => {
    const document = diff(
      [
        record('roles', 'a', { name: 'A' }),
        record('roles', 'b', { name: 'B' }),
        record('domains', 'd', { domain: 'x.example' }),
      ],
      [
        record('roles', 'b', { name: 'B2' }),
        record('roles', 'c', { name: 'C' }),
        record('domains', 'd', { domain: 'x.example' }),
      ],
    );
    expect(document).toEqual({
      schema: 'tidemark.diff/1',
      from: { ref: 'run:1' },
      to: { ref: 'run:2' },
      compared: { collections: 2, records: 4 },
      skipped: [],
      changes: [
        {
          kind: 'roles',
          scope: here,
          id: 'a',
          name: 'A',
          change: 'removed',
          fields: [{ path: '/name', from: 'A' }],
        },
        {
          kind: 'roles',
          scope: here,
          id: 'b',
          name: 'B2',
          change: 'changed',
          fields: [{ path: '/name', from: 'B', to: 'B2' }],
        },
        {
          kind: 'roles',
          scope: here,
          id: 'c',
          name: 'C',
          change: 'added',
          fields: [{ path: '/name', to: 'C' }],
        },
      ],
      summary: { added: 1, removed: 1, changed: 1, unchanged: 1 },
    });
    expect(diffExitCode(document)).toBe(2);
  });

  it('takes other text with the same values for the same record', () => {
    const document = diff(
      [record('roles', 'a', '{"n":1.10,"m":[]}')],
      [record('roles', 'a', '{ "m": [], "n": 1.1 }')],
    );
    expect(document.summary.unchanged).toBe(1);
    expect(diffExitCode(document)).toBe(0);
  });

  it('keeps the same id in two scopes apart', () => {
    const elsewhere: Scope = { organization_id: 'o2' };
    const document = diff(
      [record('plugins', '1', { name: 'a' })],
      [record('plugins', '1', { name: 'a' }, elsewhere)],
    );
    expect(document.changes.map(({ change, scope }) => [change, scope])).toEqual([
      ['removed', here],
      ['added', elsewhere],
    ]);
  });

  it('leaves out on both sides what could not be read on one', () => {
    const skipped = [{ kind: 'domains' as const, scope: {}, reason: 'not offered' }];
    const document = diff(
      [record('roles', 'r', {}), record('domains', 'd', {})],
      [record('roles', 'r', {})],
      { skipped },
    );
    expect(document.changes).toEqual([]);
    expect(document.skipped).toEqual(skipped);
    expect(document.compared).toEqual({ collections: 1, records: 1 });
    expect(diffExitCode(document)).toBe(3);
  });

  it('leaves out only the collections that a skip names', () => {
    const elsewhere: Scope = { organization_id: 'o2' };
    const document = diff([record('domains', 'd', {}), record('domains', 'e', {}, elsewhere)], [], {
      skipped: [{ kind: 'domains', scope: here, reason: 'denied' }],
    });
    expect(document.changes.map(({ id }) => id)).toEqual(['e']);
  });

  it('is an error when it compared nothing, unless collections were compared and empty', () => {
    const skipped = [{ kind: 'domains' as const, scope: {}, reason: 'the key lacks organization:read' }];
    const nothing = diff([record('domains', 'd', {})], [], { skipped });
    expect(diffExitCode(nothing)).toBe(1);
    const empty = diffStates(
      { reference: { ref: 'a' }, records: [], collections: [{ kind: 'domains', scope: here }] },
      { reference: { ref: 'b' }, records: [] },
      { mode: 'default' },
    );
    expect(diffExitCode(empty)).toBe(0);
  });

  it.each([
    ['out of order', ['b', 'a']],
    ['a repeated record', ['a', 'a']],
  ])('refuses a side with %s instead of inventing differences', (_name, ids) => {
    expect(() =>
      diff(
        ids.map((id) => record('roles', id, {})),
        [],
      ),
    ).toThrow(/out of order or repeats/);
  });

  it('names the record whose body is not JSON', () => {
    expect(() => diff([record('roles', 'a', '{')], [record('roles', 'a', '{}')])).toThrow(
      /body of roles "a" is not JSON/,
    );
  });

  it('narrows to fields, at, below and above the named place', () => {
    const from = [
      record('batch_exports', 'a', { destination: { type: 'S3', config: { x: 1 } }, paused: false }),
    ];
    const to = [
      record('batch_exports', 'a', { destination: { type: 'S3', config: { x: 2 } }, paused: true }),
    ];
    const paths = (field: string): string[] =>
      diff(from, to, { fields: [field] }).changes.flatMap(({ fields }) => fields.map(({ path }) => path));
    expect(paths('/destination')).toEqual(['/destination/config/x']);
    expect(paths('/destination/config/x/deep')).toEqual(['/destination/config/x']);
    expect(paths('/dest')).toEqual([]);
    expect(() => diff(from, to, { fields: ['paused'] })).toThrow(/not a JSON pointer/);
  });

  it('stops reading both sides when the caller throws or stops', () => {
    let isClosed = false;
    function* records(): Generator<RecordState> {
      try {
        yield record('roles', 'a', '{');
        yield record('roles', 'b', {});
      } finally {
        isClosed = true;
      }
    }
    expect(() =>
      diffStates(
        { reference: { ref: 'a' }, records: records() },
        { reference: { ref: 'b' }, records: [] },
        { mode: 'all' },
      ),
    ).toThrow();
    expect(isClosed).toBe(true);
  });

  it('names records by their definition, else by id', () => {
    const names = diff(
      [],
      sortRecords([
        record('members', 'u', { user: { email: 'jo@example.com' } }),
        record('roles', 'r', { name: '' }),
        record('plugins', '5', { name: 7 }),
      ]),
    ).changes.map(({ name }) => name);
    expect(names).toEqual(['r', 'jo@example.com', '7']);
  });
});

describe('order of texts', () => {
  it('is that of UTF-8 bytes, as SQLite sorts', () => {
    const texts = ['', 'a', 'ab', 'b', '\u00e9', '\uffff', '\ud83d\ude00', '\uff5e', 'A', '\u{10ffff}'];
    const byBytes = texts.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(texts.toSorted(compareTexts)).toEqual(byBytes);
  });
});

describe('a record of which the other side cannot tell', () => {
  const from = [record('roles', 'a', { name: 'A' }), record('roles', 'b', { name: 'B' })];
  const to = [record('roles', 'b', { name: 'B' }), record('roles', 'c', { name: 'C' })];

  it.each([
    ['added', ['a removed'], { added: 0, removed: 1, changed: 0, unchanged: 1 }],
    ['removed', ['c added'], { added: 1, removed: 0, changed: 0, unchanged: 1 }],
  ])('%s: is neither a change nor counted', (hidden, changes, summary) => {
    const asked: string[] = [];
    const document = diff(from, to, {
      isUnknown: ({ id }, change) => {
        asked.push(`${id} ${change}`);
        return change === hidden;
      },
    });
    expect(document.changes.map(({ id, change }) => `${id} ${change}`)).toEqual(changes);
    expect(document.summary).toEqual(summary);
    expect(document.compared.records).toBe(2);
    expect(asked).toEqual(['a removed', 'c added']);
  });
});

it('goes in steps: whoever runs it can let other things happen, and the document is the same', () => {
  const records = Array.from({ length: 5000 }, (_, n) => record('roles', String(n).padStart(5, '0'), { n }));
  const steps = stepsOverStates(
    { reference: { ref: 'a' }, records },
    { reference: { ref: 'b' }, records },
    { mode: 'default' },
  );
  let turns = 0;
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) turns += 1;
  expect(turns).toBe(5);
  expect(step.value.summary.unchanged).toBe(5000);
});
