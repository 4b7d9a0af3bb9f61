import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { connect } from '../../src/mirror/database.ts';
import { ORG, begin, open, scan, sweep, sync } from './fixture.ts';

/** A run that makes the roles be these. */
async function roles(mirror: Mirror, ...records: object[]): Promise<string[]> {
  return await changesOf(mirror, 'roles', records);
}

async function changesOf(mirror: Mirror, kind: Kind, records: readonly object[]): Promise<string[]> {
  const { run } = await sync(
    mirror,
    kind,
    ORG,
    records.map((record) => JSON.stringify(record)),
  );
  return told(mirror, run);
}

function told(mirror: Mirror, run: number): string[] {
  return mirror.runs
    .schemaChanges({ run })
    .map(({ field, change, before, after }) =>
      `${change} ${field} ${before.join('|')}>${after.join('|')}`.trim(),
    );
}

async function expectSound(mirror: Mirror): Promise<void> {
  expect((await mirror.verify()).problems).toEqual([]);
}

describe('changes of the contract', () => {
  it('are none in the first run of a kind, nor in one that changes nothing', async () => {
    const mirror = open();
    expect(await roles(mirror, { id: 'a', name: 'A' })).toEqual([]);
    expect(await roles(mirror, { id: 'a', name: 'A' })).toEqual([]);
    expect(await roles(mirror, { id: 'a', name: 'B' }, { id: 'b', name: 'B' })).toEqual([]);
    await expectSound(mirror);
  });

  it('name fields that were gained, lost and retyped, with the source and the run', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', name: 'A', level: 1 }, { id: 'b', name: 'B', level: 2 });
    await roles(mirror, { id: 'a', title: 'A', level: '1' }, { id: 'b', title: 'B', level: 2 });
    expect(mirror.runs.schemaChanges()).toEqual([
      {
        run: 2,
        source: 'production',
        kind: 'roles',
        field: '/level',
        change: 'retyped',
        before: ['number'],
        after: ['number', 'string'],
      },
      {
        run: 2,
        source: 'production',
        kind: 'roles',
        field: '/name',
        change: 'lost',
        before: ['string'],
        after: [],
      },
      {
        run: 2,
        source: 'production',
        kind: 'roles',
        field: '/title',
        change: 'gained',
        before: [],
        after: ['string'],
      },
    ]);
    expect(mirror.runs.schemaChanges({ source: 'elsewhere' })).toEqual([]);
    expect(mirror.runs.schemaChanges({ sinceRun: 3 })).toEqual([]);
    expect(mirror.runs.schemaChanges({ sinceRun: 2 })).toHaveLength(3);
    await expectSound(mirror);
    const file = connect(mirror.path, { isReadonly: false });
    file.exec(`UPDATE schema_changes SET "before" = '["str', "after" = '{}' WHERE field = '/title'`);
    file.close();
    expect(told(mirror, 2)).toContain('gained /title unknown>unknown');
    const message = 'the types of /title of roles, which run 2 found changed, cannot be read';
    expect((await mirror.verify()).problems).toMatchObject([{ kind: 'index', message, run: 2 }]);
  });

  it.each<[string, object[][], string[][]]>([
    [
      'a field that some records still carry is not lost',
      [
        [
          { id: 'a', x: 1 },
          { id: 'b', x: 1 },
        ],
        [{ id: 'a' }, { id: 'b', x: 1 }],
      ],
      [[], []],
    ],
    [
      'what is lost and comes back is gained again',
      [[{ id: 'a', x: 1 }], [{ id: 'a' }], [{ id: 'a', x: 1 }]],
      [[], ['lost /x number>'], ['gained /x >number']],
    ],
    [
      'a record that comes and goes with a field of its own is reported once',
      [[{ id: 'a' }], [{ id: 'a' }, { id: 'b', x: 1 }], [{ id: 'a' }], [{ id: 'a' }, { id: 'b', x: 1 }]],
      [[], ['gained /x >number'], [], []],
    ],
    [
      'a kind that empties loses nothing, and what returns is not news',
      [[{ id: 'a', x: 1 }], [], [{ id: 'a', x: 1 }], [], [{ id: 'c', x: 2 }]],
      [[], [], [], [], []],
    ],
    [
      'all records replaced by others without the field: lost',
      [
        [
          { id: 'a', x: 1 },
          { id: 'b', x: 1 },
        ],
        [{ id: 'c' }],
      ],
      [[], ['lost /x number>']],
    ],
    [
      'null is not a type: neither on its way in nor on its way out',
      [[{ id: 'a', x: null }], [{ id: 'a', x: 'text' }], [{ id: 'a', x: null }], [{ id: 'a', x: 'text' }]],
      [[], [], [], []],
    ],
    [
      'null between two types hides no change',
      [[{ id: 'a', x: 1 }], [{ id: 'a', x: null }], [{ id: 'a', x: 'text' }]],
      [[], [], ['retyped /x number>string']],
    ],
    [
      'a type that comes and goes with its record is reported once, and the way back is not news',
      [
        [{ id: 'a', x: 1 }],
        [
          { id: 'a', x: 1 },
          { id: 'b', x: 's' },
        ],
        [{ id: 'a', x: 1 }],
        [
          { id: 'a', x: 1 },
          { id: 'b', x: 's' },
        ],
      ],
      [[], ['retyped /x number>number|string'], [], []],
    ],
    [
      'a type given up is forgotten: coming back it is reported again',
      [[{ id: 'a', x: 1 }], [{ id: 'a', x: 's' }], [{ id: 'a', x: 1 }]],
      [[], ['retyped /x number>string'], ['retyped /x string>number']],
    ],
    [
      'keys of any name',
      [
        [{ id: 'a' }],
        [{ id: 'a', 'a/b~': 1, ['__proto__']: 2, '': 3, '\ud800': 4, '*': 5 }],
        [{ id: 'a', '\ud800': 5 }],
      ],
      [
        [],
        ['gained /*', 'gained /', 'gained /__proto__', 'gained /a~1b~0', 'gained /\ufffd']
          .map((text) => `${text} >number`)
          .sort(),
        ['lost /* number>', 'lost / number>', 'lost /__proto__ number>', 'lost /a~1b~0 number>'].sort(),
      ],
    ],
  ])('%s', async (_name, states, expected) => {
    const mirror = open();
    for (const [index, state] of states.entries()) {
      expect((await roles(mirror, ...state)).toSorted(), `run ${index + 1}`).toEqual(expected[index]);
    }
    await expectSound(mirror);
  });

  it('look into documented objects, and not below', async () => {
    const mirror = open();
    const member = (user: unknown): object => ({ user, level: 1 });
    await changesOf(mirror, 'members', [member({ uuid: 'u', email: 'a@x', hedgehog_config: {} })]);
    expect(
      await changesOf(mirror, 'members', [member({ uuid: 'u', mail: 'a@x', hedgehog_config: { a: 1 } })]),
    ).toEqual(['lost /user/email string>', 'gained /user/mail >string']);
    await expectSound(mirror);
  });

  it('name an object that went, not each of its members, nor a null one at all', async () => {
    const mirror = open();
    const invite = (created_by: unknown): object => ({ id: 'i', created_by });
    await changesOf(mirror, 'invites', [invite({ id: 1, email: 'a@x' })]);
    expect(await changesOf(mirror, 'invites', [invite(null)])).toEqual([]);
    expect(await changesOf(mirror, 'invites', [invite({ id: 1, email: 'a@x' })])).toEqual([]);
    expect(await changesOf(mirror, 'invites', [{ id: 'i' }])).toEqual(['lost /created_by object>']);
    expect(await changesOf(mirror, 'invites', [invite({ id: 1, email: 'a@x' })])).toEqual([
      'gained /created_by >object',
    ]);
    await expectSound(mirror);
  });

  it('do not look into objects with keys of anybody’s choice', async () => {
    const mirror = open();
    await changesOf(mirror, 'plugins', [{ id: 1, metrics: { a: 1 } }]);
    expect(await changesOf(mirror, 'plugins', [{ id: 1, metrics: { b: 1 } }])).toEqual([]);
  });

  it('stop at five hundred fields, and say so once', async () => {
    const mirror = open();
    const wide = (from: number): object =>
      Object.fromEntries([
        ['id', 'a'],
        ...Array.from({ length: 600 }, (_, n) => [`k${n + from}`, 1]),
      ]) as object;
    expect(await roles(mirror, wide(0))).toEqual(['unwatched * >']);
    await expectSound(mirror);
    // What is not watched stays unwatched: 499 of those that are go, none comes in their place.
    const second = await roles(mirror, wide(600));
    expect(new Set(second.map((line) => line.split(' ')[0]))).toEqual(new Set(['lost']));
    expect(second).toHaveLength(499);
    expect(await roles(mirror, wide(1200))).toEqual([]);
    await expectSound(mirror);
    const rows = mirror.query(`SELECT count(*) FROM field_shapes`).rows[0]?.[0] as number;
    expect(rows).toBeLessThan(10);
  });

  it('count what a collection holds that the run did not read', async () => {
    const mirror = open();
    const other = { organization_id: 'o2' };
    await sync(mirror, 'roles', ORG, ['{"id":"a","x":1}']);
    await sync(mirror, 'roles', other, ['{"id":"b","x":1}']);
    const { run } = await sync(mirror, 'roles', other, ['{"id":"b"}']);
    expect(told(mirror, run)).toEqual([]);
    const last = await sync(mirror, 'roles', ORG, ['{"id":"a"}']);
    expect(told(mirror, last.run)).toEqual(['lost /x number>']);
  });

  it('keep sources apart', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', x: 1 });
    const source = { name: 'staging', baseUrl: 'https://staging.example.com' };
    await sync(mirror, 'roles', ORG, ['{"id":"a"}'], { source });
    const { run } = await sync(mirror, 'roles', ORG, ['{"id":"a","x":1}'], { source });
    expect(mirror.runs.schemaChanges()).toMatchObject([
      { run, source: 'staging', field: '/x', change: 'gained' },
    ]);
    await expectSound(mirror);
  });

  it('count volatile members as well, though they make no revision', async () => {
    const mirror = open();
    const texts = ['{"id":"r","viewed":true}', '{"id":"r","viewed":1}', '{"id":"r"}'];
    const found: string[][] = [];
    for (const text of texts) {
      const { run } = await sync(mirror, 'session_recordings', { project_id: '1' }, [text]);
      found.push(told(mirror, run));
    }
    expect(found).toEqual([[], ['retyped /viewed boolean>number'], ['lost /viewed number>']]);
    await expectSound(mirror);
  });
});

describe('the counts', () => {
  it('follow any sequence of runs exactly, pages that repeat and break included', async () => {
    const value = fc.constantFrom<unknown>(null, true, 1, 's', [], {}, { email: 'x' });
    const body = fc.dictionary(fc.constantFrom('user', 'a', 'b', '__proto__', '\udfff'), value, {
      maxKeys: 4,
    });
    const page = fc.record({
      records: fc.array(fc.tuple(fc.constantFrom('1', '2', '3', '4'), body), { maxLength: 5 }),
      isBroken: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(page, { maxLength: 3 }), { minLength: 1, maxLength: 5 }),
        async (runs) => {
          const mirror = open();
          for (const pages of runs) {
            const run = begin(mirror);
            const stage = run.stage('roles', ORG);
            for (const { records, isBroken } of pages) {
              const scanned = records.map(([id, rest]) => scan('roles', JSON.stringify({ ...rest, id })));
              if (isBroken) {
                const broken = [...scanned, scan('roles', '{"id":"9","x":tru}')];
                expect(() => stage.accept(broken)).toThrow(SyntaxError);
              } else stage.accept(scanned);
            }
            for (const { id } of stage.absent()) stage.remove(id);
            await run.publish({
              outcome: 'complete',
              sweeps: [sweep('roles', ORG, 0)],
              requests: 1,
              retries: 0,
            });
            expect((await mirror.verify()).problems).toEqual([]);
          }
          mirror.close();
        },
      ),
      { numRuns: 25 },
    );
  });

  it('cost a no-change run nothing, and a failed one', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', name: 'A' });
    const counts = (): unknown => mirror.query('SELECT * FROM field_shapes').rows;
    const before = counts();
    await roles(mirror, { id: 'a', name: 'A' });
    const run = begin(mirror);
    run.stage('roles', ORG).accept([scan('roles', '{"id":"b","y":1}')]);
    await run.publish({ outcome: 'failed', sweeps: [], requests: 1, retries: 0 });
    expect(counts()).toEqual(before);
    expect(mirror.runs.schemaChanges()).toEqual([]);
  });

  it('of a mirror that has none yet are made by the next run, which tells nothing', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', x: 1 }, { id: 'b', x: 1 });
    tamper(mirror, `DELETE FROM field_shapes`);
    expect((await mirror.verify()).problems).toEqual([]);
    expect(await roles(mirror, { id: 'a' }, { id: 'b', x: 1 })).toEqual([]);
    await expectSound(mirror);
    expect(await roles(mirror, { id: 'a' }, { id: 'b' })).toEqual(['lost /x number>']);
  });

  it('that are wrong are named by verify, and counted again once they contradict a run', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', x: 1 }, { id: 'b', x: 1 });
    tamper(mirror, `UPDATE field_shapes SET records = 0 WHERE field = '/x'`);
    expect((await mirror.verify()).problems).toEqual([
      {
        kind: 'index',
        message: 'roles of production has 2 records with /x of type number, but the stored count is 0',
        recordKind: 'roles',
      },
    ]);
    await roles(mirror, { id: 'a' }, { id: 'b', x: 1 });
    await expectSound(mirror);
  });

  it('survive a stored body that is not JSON any more', async () => {
    const mirror = open();
    await roles(mirror, { id: 'a', x: 1 }, { id: 'b', x: 1 });
    tamper(mirror, `UPDATE records SET body = '{' WHERE remote_id = 'b'`);
    expect(await roles(mirror, { id: 'a', x: 2 })).toEqual([]);
    const problems = (await mirror.verify()).problems.map(({ kind, message }) => `${kind}: ${message}`);
    // The history keeps what was damaged; the counts are those of what is left.
    expect(problems).toEqual(['revision: an earlier version does not match its hash']);
  });
});

function tamper(mirror: Mirror, statement: string): void {
  const connection = connect(mirror.path, { isReadonly: false });
  connection.exec(statement);
  connection.close();
}

describe('counts that another catalog made', () => {
  it('are made again: the members of an object that is documented since are no news', async () => {
    const mirror = open();
    const member = { user: { uuid: 'u1', email: 'a@example.com' }, level: 1 };
    await changesOf(mirror, 'members', [member]);
    // As a catalog that did not document `user` would have left them.
    const file = connect(mirror.path, { isReadonly: false });
    file.exec(
      `DELETE FROM field_shapes WHERE field LIKE '/user/%'; UPDATE field_shape_bases SET objects = '[]'`,
    );
    file.close();
    expect(await changesOf(mirror, 'members', [{ ...member, level: 8 }])).toEqual([]);
    await expectSound(mirror);
    expect(
      await changesOf(mirror, 'members', [{ ...member, user: { uuid: 'u1', mail: 'a@example.com' } }]),
    ).toEqual(['lost /user/email string>', 'gained /user/mail >string']);
    await expectSound(mirror);
  });
});
