/** The recipes of docs/sql.md for other programs. What this machine lacks is skipped by name; nothing is downloaded. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { commandLine } from '../journeys/command-line.ts';
import { world } from '../journeys/comparison.ts';
import { madeDemo } from '../tools/made-demo.ts';
import { type Block, blocksOf } from './markdown.ts';
import { type Answer, checkTable, openMirrorToRead } from './mirror-answer.ts';
import { freePort } from './programs.ts';

const PAGE = blocksOf(readFileSync(new URL('../../docs/sql.md', import.meta.url), 'utf8'));

/** The recipes for a program, by how they begin. */
function recipes(begin: string): Block[] {
  const found = PAGE.filter(({ text }) => text.startsWith(begin));
  if (found.length === 0) throw new Error(`docs/sql.md has no recipe that begins with ${begin}`);
  return found;
}

const directory = mkdtempSync(join(tmpdir(), 'tidemark-sql-tools-'));
const demo = join(directory, 'data', 'demo');
const mirror = join(demo, 'mirror.db');
const program = inject('program');
const env = { PATH: process.env['PATH'] ?? '', TIDEMARK_MIRROR: mirror };

beforeAll(async () => {
  cpSync((await madeDemo()).directory, demo, { recursive: true });
  for (const [file, ...since] of [['history.parquet'], ['new.parquet', '--since', 'run:1']]) {
    const history = ['export', '--history', ...since, '--format', 'parquet'];
    const parquet = execFileSync(process.execPath, [program, ...history], {
      cwd: directory,
      env,
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 100_000_000,
    });
    writeFileSync(join(directory, file ?? ''), parquet);
  }
  for (const output of [
    ['--format', 'parquet', '--output', join(directory, 'tables')],
    ['--kind', 'members', '--output', join(directory, 'members.csv')],
  ])
    expect(await commandLine(['export', ...output], { cwd: directory, env })).toMatchObject({ code: 0 });
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('DuckDB', () => {
  /** Undefined where its binary does not exist for this platform, or an extension is not installed. */
  async function ask(text: string): Promise<Answer | undefined> {
    const duckdb = await import('@duckdb/node-api').catch(() => undefined);
    if (duckdb === undefined) return undefined;
    const database = await duckdb.DuckDBInstance.create(':memory:', {
      autoinstall_known_extensions: 'false',
    });
    const connection = await database.connect();
    try {
      await connection.run(`SET file_search_path = '${directory}'`);
      if (text.includes('TYPE sqlite')) {
        const isThere = await connection.run('LOAD sqlite').catch(() => undefined);
        if (isThere === undefined) return undefined;
      }
      const statements = text.replace('data/demo/mirror.db', mirror).split(';');
      for (const statement of statements.slice(0, -1)) await connection.run(statement);
      const result = await connection.runAndReadAll(statements.at(-1) ?? '');
      const shown = (cell: unknown): string =>
        cell === null ? '' : typeof cell === 'string' ? cell : JSON.stringify(cell);
      return {
        columns: result.columnNames(),
        rows: result.getRowsJson().map((row) => row.map(shown).join(' | ')),
      };
    } finally {
      connection.closeSync();
      database.closeSync();
    }
  }

  it.for(recipes('-- DuckDB').map((block) => ({ block, line: block.line })))(
    'answers line $line',
    async ({ block }, { skip }) => {
      const answer = await ask(block.text);
      if (answer === undefined) skip('DuckDB, or its extension for SQLite, is not installed here');
      else checkTable(block, answer);
    },
  );

  it('names what the configuration leaves out by now', async ({ skip }) => {
    const { env: own, directory: place, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    const excluding = { cwd: place, env: { ...own, TIDEMARK_KINDS_EXCLUDE: 'domains' } };
    expect(await commandLine(['sync', '--quiet'], excluding)).toMatchObject({ code: 0 });
    const to = join(directory, 'excluding');
    const exported = await commandLine(['export', '--format', 'parquet', '--output', to], excluding);
    expect(exported).toMatchObject({ code: 0 });
    const [recipe] = recipes('-- DuckDB').filter(({ text }) => text.includes('not_read'));
    const answer = await ask((recipe?.text ?? '').replace('tables/', 'excluding/'));
    if (answer === undefined) skip('DuckDB is not installed here');
    expect(answer?.rows).toEqual(['domains | 1 | the configuration excludes the kind']);
  });

  it('has all revisions after a load of what is new, also a second time', async ({ skip }) => {
    const [load] = recipes('-- DuckDB').filter(({ text }) => text.includes("'new.parquet'"));
    const [create = '', insert = '', count = ''] = load?.text.split(';') ?? [];
    const before = `${create} WHERE run <= 1`;
    const [whole, first, once, twice] = await Promise.all(
      [[create], [before], [before, insert], [before, insert, insert]].map((statements) =>
        ask([...statements, count].join(';')),
      ),
    );
    if (whole === undefined) skip('DuckDB is not installed here');
    expect(first).not.toEqual(whole);
    expect([once, twice]).toEqual([whole, whole]);
  });
});

it('pandas reads a view', ({ skip }) => {
  if (spawnSync('python3', ['-c', 'import pandas'], { stdio: 'ignore' }).status !== 0)
    skip('pandas is not installed here');
  const [{ text }] = recipes('import sqlite3') as [Block];
  const printed = execFileSync('python3', ['-c', text], { cwd: directory, env, encoding: 'utf8' });
  expect(printed).toMatch(/^Tern & Söhne +1 +5\n/m);
});

it('Python reads half of a surrogate pair from a body with the `text_factory` of the page', ({ skip }) => {
  const version = 'import sqlite3; assert sqlite3.sqlite_version_info >= (3, 38)';
  if (spawnSync('python3', ['-c', version], { stdio: 'ignore' }).status !== 0)
    skip('Python with SQLite 3.38 is not installed here');
  const [{ text }] = recipes('import sqlite3') as [Block];
  const factory = /^mirror\.text_factory = .*$/m.exec(text)?.[0] ?? '';
  const ask = (set: string) =>
    spawnSync(
      'python3',
      [
        '-c',
        `import sqlite3\nmirror = sqlite3.connect(':memory:')\n${set}\nbody = r'{"name":"a\\ud800"}'\nprint(ascii(mirror.execute("SELECT ? ->> '$.name'", [body]).fetchone()))`,
      ],
      { encoding: 'utf8' },
    );
  expect(ask('').stderr).toContain('Could not decode to UTF-8');
  expect(ask(factory).stdout).toMatch(/^\('a(?:\\ufffd)+',\)\n$/);
});

it('Datasette shows the views', async ({ skip }) => {
  const [{ text }] = recipes('datasette') as [Block];
  const [name = '', ...args] = text.trim().split(' ');
  if (spawnSync(name, ['--version'], { stdio: 'ignore' }).status !== 0)
    skip('Datasette is not installed here');
  const port = await freePort();
  const child = spawn(name, [...args, '--port', String(port)], { cwd: directory, env, stdio: 'ignore' });
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  });
  const url = `http://127.0.0.1:${port}/mirror/batch_exports.json?_shape=array&paused=1`;
  for (let attempt = 0; ; attempt += 1) {
    const answer = await fetch(url).catch(() => undefined);
    if (answer !== undefined) {
      expect(await answer.json()).toContainEqual(expect.objectContaining({ name: 'Events → BigQuery' }));
      return;
    }
    if (attempt > 100) throw new Error('Datasette does not answer');
    await sleep(100);
  }
});

it('Grafana gets a series for its range of time', () => {
  const [block] = recipes('-- Grafana') as [Block];
  const within = (from: string, to: string): Answer =>
    openMirrorToRead(mirror, block.text.replace('${__from:date:iso}', from).replace('${__to:date:iso}', to));
  checkTable(block, within('2000-01-01T00:00:00.000Z', '2100-01-01T00:00:00.000Z'));
  expect(within('2000-01-01T00:00:00.000Z', '2001-01-01T00:00:00.000Z').rows).toEqual([]);
});
