import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, respond } from './service.ts';

interface Sweep {
  readonly kind: string;
  readonly outcome: string;
  readonly records: number;
  readonly removed: number;
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** A record whose field nests so deep, the record itself being one level. */
const deep = (id: string, levels: number): string =>
  `{"id":"${id}","created_at":"2026-01-02T00:00:00Z","metrics":${'['.repeat(levels)}1.10${']'.repeat(levels)}}`;

async function world() {
  const service = await FakeService.start();
  service.set('plugins', [`{"id":"p1","name":"first"}`, `{"id":"p2","name":"second"}`]);
  service.set('domains', [`{"id":"d1","domain":"a.example"}`]);
  const cwd = scratch();
  const env = environment(service.url, cwd);
  const run = (...args: string[]) => commandLine(args, { env, cwd });
  const sync = async () => {
    const { code, stdout, stderr } = await run('sync', '--json');
    expect(stdout, stderr).not.toBe('');
    const { sweeps } = (JSON.parse(stdout) as { runs: { sweeps: Sweep[] }[] }).runs[0]!;
    return { code, stderr, sweep: (kind: string) => sweeps.find((each) => each.kind === kind)! };
  };
  const bodies = async (kind: string): Promise<string[]> =>
    (await run('export', '--kind', kind)).stdout.split('\n').filter((line) => line !== '');
  return { service, run, sync, bodies };
}

describe('a record that SQLite cannot hold', () => {
  it.each([
    ['999 levels below the record', 999, true],
    ['1,000', 1000, false],
    ['1,001', 1001, false],
    ['5,000', 5000, false],
    ['100,000', 100_000, false],
  ])('%s', async (_name, levels, isKept) => {
    const { service, run, sync, bodies } = await world();
    expect((await sync()).code).toBe(0);
    // Both what the mirror holds and what it never saw; beside them a change and a new record.
    service.set('plugins', [
      deep('p1', levels),
      deep('p3', levels),
      `{"id":"p2","name":"changed"}`,
      `{"id":"p4"}`,
    ]);
    service.set('domains', [`{"id":"d2","domain":"b.example"}`]);
    const { code, sweep } = await sync();
    expect(code).toBe(3);
    const plugins = await bodies('plugins');
    const ids = plugins.map((line) => (JSON.parse(line) as { id: string }).id);
    expect((await bodies('domains')).join()).toContain('b.example');
    expect(plugins.join()).toContain('"changed"');
    expect(ids).toContain('p4');
    if (isKept) {
      expect(sweep('plugins')).toMatchObject({ outcome: 'complete', error: null });
      expect(ids).toEqual(['p1', 'p2', 'p3', 'p4']);
    } else {
      expect(sweep('plugins')).toMatchObject({ outcome: 'incomplete', removed: 0 });
      expect(sweep('plugins').error?.message).toBe(
        '2 plugins cannot be kept: "p1" nests more than 1000 levels deep; "p3" nests more than 1000 levels deep',
      );
      // Its earlier revision stands.
      expect(ids).toEqual(['p1', 'p2', 'p4']);
      expect(plugins[0]).toContain('"first"');
      expect(await run('verify')).toMatchObject({ code: 0 });
    }
    const compared = await run('diff', 'run:1', 'live');
    expect(compared.code, compared.stderr).toBe(isKept ? 2 : 3);
    // What could not be read is reported, not taken for gone.
    if (!isKept) expect(compared.stdout + compared.stderr).toContain('1000 levels');
    expect(compared.stdout + compared.stderr).not.toMatch(/defect of Tidemark|RangeError|call stack/);
    const looked = await run('doctor');
    expect(looked.code).toBe(isKept ? 0 : 3);
    if (!isKept) expect(looked.stdout).toContain('1000 levels');
    const planned = await run('restore', 'run:1');
    expect(planned.stdout + planned.stderr).not.toMatch(/defect of Tidemark|RangeError|call stack/);
    expect([2, 3]).toContain(planned.code);
    expect(planned.stdout).toContain('d1');
  });

  it.each([
    [
      'NUL and lone surrogates in strings and names',
      String.raw`{"id":"x","a\u0000b":"\ud800","s":"c\u0000\udfff"}`,
    ],
    ['numbers without measure', `{"id":"x","name":1e400,"level":${'9'.repeat(5000)},"a":-0,"b":1E-400}`],
    ['one name twice', '{"id":"x","name":"a","name":[1],"__proto__":{"id":"y"},"":null}'],
    ['a million brackets in a string', JSON.stringify({ id: 'x', name: '['.repeat(1_000_000) })],
    [
      'every field of another type',
      '{"id":"x","name":{"a":[]},"url":7,"is_global":"maybe","organization_id":[]}',
    ],
    [
      'a hundred thousand members',
      `{"id":"x",${Array.from({ length: 100_000 }, (_each, n) => `"m${n}":${n}`).join()}}`,
    ],
  ])('whatever else a record holds, it ends no run: %s', async (_name, record) => {
    const { service, sync, bodies } = await world();
    service.set('plugins', [record, '{"id":"p9"}']);
    const { code, sweep } = await sync();
    expect({ code, plugins: sweep('plugins').outcome }).toEqual({ code: 0, plugins: 'complete' });
    const kept = await bodies('plugins');
    expect(kept).toHaveLength(2);
    expect(kept.join('\n')).toContain(record);
  });
});

describe('a record that is no JSON', () => {
  it('is named, and nothing of its text is quoted', async () => {
    const { service, sync, run } = await world();
    const broken = '{"id":"p9","t":tok_S3cr3tValue}';
    service.quirks.push(
      ({ path }, response) =>
        path.includes('/plugins/') &&
        respond(response, 200, `{"count":1,"next":null,"previous":null,"results":[${broken}]}`),
    );
    const { code, stderr, sweep } = await sync();
    expect(code).toBe(3);
    expect(sweep('plugins')).toMatchObject({ outcome: 'failed', removed: 0 });
    expect(sweep('plugins').error?.message).toBe('the plugin "p9" is not valid JSON: unexpected token');
    const shown = await run('runs', 'show', 'latest', '--log-level', 'trace');
    expect(stderr + shown.stdout + shown.stderr).not.toContain('tok_');
  });
});

describe('the text of a run', () => {
  it('writes nothing that acts on a terminal, whatever a record is called', async () => {
    const { service, run } = await world();
    service.set('plugins', [deep(String.raw`p\u009b2J\u202eevil\u0007`, 2000)]);
    const { code, stdout, stderr } = await run('sync');
    expect(code).toBe(3);
    expect(stdout + stderr).toContain('\\u{009b}2J\\u{202e}evil');
    expect(stdout + stderr).not.toMatch(/[^\t\n\x20-\x7e\u00a0-\u200a\u2010-\u2027\u2030-\uffef]/);
  });
});

describe('ids that no text can tell apart', () => {
  it('are no ids: counted and named, and the list is not whole', async () => {
    const { service, sync, bodies } = await world();
    service.set('plugins', [String.raw`{"id":"a\ud800"}`, String.raw`{"id":"a\udfff"}`, '{"id":"b"}']);
    const { code, sweep } = await sync();
    expect(code).toBe(3);
    expect(sweep('plugins')).toMatchObject({ outcome: 'incomplete', records: 1, removed: 0 });
    expect(sweep('plugins').error?.message).toBe('the list of plugins: 2 records have no usable id (id)');
    expect(await bodies('plugins')).toHaveLength(1);
  });

  it('a pair of surrogates is an id like any other', async () => {
    const { service, sync, bodies } = await world();
    service.set('plugins', [String.raw`{"id":"a\ud83d\ude00"}`, '{"id":"b"}']);
    expect((await sync()).code).toBe(0);
    expect((await bodies('plugins')).map((line) => (JSON.parse(line) as { id: string }).id)).toEqual([
      'a😀',
      'b',
    ]);
  });
});

describe('text that JSON.parse takes', () => {
  it('SQLite takes, too, if it is short: the stage does not ask about it', () => {
    const database = new Database(':memory:');
    const isJson = database.prepare<[string], number>('SELECT json_valid(?)').pluck();
    const parts = [
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"a"',
      '"',
      '\\',
      '\\u',
      'd800',
      '0',
      '-',
      '1',
      '.',
      'e',
      'E',
    ].concat(
      [
        '+',
        'true',
        'null',
        ' ',
        '\n',
        '\t',
        '\r',
        '\u00a0',
        '東',
        '😀',
        '\u2028',
        '\u0000',
        '\u007f',
        '\ufeff',
        '\f',
      ],
      ['/', '*', "'", 'NaN', 'Infinity', '1e999', '00', '0x1', '\\n', '\\x'],
    );
    const soup = fc.array(fc.constantFrom(...parts), { maxLength: 7 }).map((found) => found.join(''));
    const text = fc.oneof(
      fc.json(),
      soup,
      soup.map((inner) => `{"a":"${inner}"}`),
      soup.map((inner) => `[${inner}]`),
    );
    const isParsed = (each: string): boolean => {
      try {
        JSON.parse(each);
        return true;
      } catch {
        return false;
      }
    };
    fc.assert(
      fc.property(text, (each) => {
        expect(!isParsed(each) || isJson.get(each) === 1).toBe(true);
      }),
      { numRuns: 2000 },
    );
    const deepest = '['.repeat(999) + ']'.repeat(999);
    expect(isJson.get(deepest)).toBe(1);
    database.close();
  });
});
