/** The recipes of docs/sql.md on a mirror of two sources that see one service, and on its indexes. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { systemClock } from '../../src/core/clock.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { commandLine } from '../journeys/command-line.ts';
import { world } from '../journeys/comparison.ts';
import { forbidden } from '../journeys/service.ts';
import { openMirrorToRead } from './mirror-answer.ts';

const page = readFileSync(new URL('../../docs/sql.md', import.meta.url), 'utf8');
const recipes = new Map(
  [...page.matchAll(/^### (\d+)\. .*\n\n```sql\n([^]*?)```/gm)].map(([, number = '', sql = '']) => [
    Number(number),
    sql,
  ]),
);

const directory = mkdtempSync(join(tmpdir(), 'tidemark-recipes-'));
const SOURCES = ['first', 'second'];

async function mirrorOf(url: string, sources: readonly string[]): Promise<string> {
  const mirror = join(directory, `${sources.length}.db`);
  const config = join(directory, `${sources.length}.yaml`);
  const rate = '{ perMinute: 0, perHour: 0 }';
  const rows = sources.map(
    (name) =>
      `  - { name: ${name}, baseUrl: "${url}", apiKey: sandbox-key, rate: ${rate}, kinds: { exclude: [session_recordings] } }`,
  );
  writeFileSync(config, `mirror: ${mirror}\nsources:\n${rows.join('\n')}\n`);
  const ended = await commandLine(['sync', '--quiet', '--config', config], { env: {}, cwd: directory });
  expect(ended.code, ended.stderr).toBe(0);
  return mirror;
}

let one = '';
let two = '';
beforeAll(async () => {
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: [{ key: 'sandbox-key', permissions: 'all' }],
    seed: 'demo',
  });
  try {
    const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    one = await mirrorOf(url, SOURCES.slice(0, 1));
    two = await mirrorOf(url, SOURCES);
  } finally {
    await sandbox.close();
  }
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

describe('the recipes', () => {
  it('are numbered without a gap', () => {
    expect([...recipes.keys()]).toEqual(Array.from({ length: recipes.size }, (_each, index) => index + 1));
    expect(recipes.size).toBeGreaterThanOrEqual(10);
  });

  it.each([1, 2, 3, 4, 5, 7])(
    '%i: two sources that see the same give each row twice, and no row more',
    (number) => {
      const sql = recipes.get(number) ?? '';
      const once = openMirrorToRead(one, sql).rows;
      expect(once.length).toBeGreaterThan(0);
      expect(openMirrorToRead(two, sql).rows.toSorted()).toEqual([...once, ...once].toSorted());
    },
  );

  it('10: a kind that one source never read completely has no oldest time', () => {
    const sql = recipes.get(10) ?? '';
    const copy = join(directory, 'unread.db');
    const from = new Database(two, { readonly: true });
    from.exec(`VACUUM INTO '${copy}'`);
    from.close();
    const altered = new Database(copy);
    altered.exec(`UPDATE collections SET last_complete_at = NULL, last_complete_run = NULL
      WHERE kind = 'roles' AND source = (SELECT id FROM sources WHERE name = 'second')`);
    altered.close();
    const oldest = (path: string): string[] =>
      openMirrorToRead(path, sql)
        .rows.filter((row) => row.startsWith('roles | '))
        .map((row) => row.split(' | ').at(-1) ?? '');
    expect(oldest(two)).toEqual([expect.stringMatching(/^20/)]);
    expect(oldest(copy)).toEqual(['']);
  });

  it('say where data is sent also beside an export whose destination is text, as of a service that masks it', async () => {
    const { service, directory: place, expectRun } = await world();
    service.set('batch_exports', [
      { id: 'e1', name: 'a', paused: false, destination: { type: 'S3', config: { bucket_name: 'b' } } },
      { id: 'e2', name: 'b', paused: true, destination: 'hidden' },
    ]);
    await expectRun(0, 'sync', '--quiet');
    const { rows } = openMirrorToRead(join(place, 'mirror.db'), recipes.get(6) ?? '');
    expect(rows).toEqual([' |  | 1 | 1', 'S3 | b | 1 | 0']);
  });

  it('begin with no comment, which sqlite3 takes for an option when the query is its argument', () => {
    const blocks = [...page.matchAll(/^```sql\n([^]*?)```/gm)].map(([, sql = '']) => sql);
    expect(blocks.filter((sql) => /^--(?! (?:DuckDB|Grafana)\n)/.test(sql))).toEqual([]);
  });

  it('join without giving a row twice, although a member of two organizations is two rows with one id', () => {
    const sql = /who has which role:\n\n```sql\n([^]*?)```/.exec(page)?.[1] ?? '';
    const { rows } = openMirrorToRead(two, sql);
    const memberships = openMirrorToRead(two, 'SELECT id FROM role_memberships').rows.length;
    expect(rows).toHaveLength(memberships);
    const onIdAlone = sql.replace('m.organization_id = p.organization_id AND ', '');
    expect(openMirrorToRead(two, onIdAlone).rows.length).toBeGreaterThan(memberships);
  });

  it('join the materialized changes with the same result as the view, and compute them once', () => {
    const sql = (/out of the join[^]*?```sql\n([^]*?)```/.exec(page)?.[1] ?? '').replace(
      "'changed'",
      "'initial'",
    );
    const { rows } = openMirrorToRead(two, sql);
    expect(rows.length).toBeGreaterThan(0);
    expect(openMirrorToRead(two, sql.replace('MATERIALIZED', 'NOT MATERIALIZED')).rows).toEqual(rows);
    expect(openMirrorToRead(two, `EXPLAIN QUERY PLAN ${sql}`).rows.join('\n')).toMatch(/MATERIALIZE c$/m);
  });

  it.each(CATALOG.map(({ kind }) => kind))(
    '%s: ids are unique within the columns that the page names',
    (kind) => {
      const within: Partial<Record<Kind, string>> = {
        organizations: 'source',
        session_recordings: 'source, project_id',
        recording_sharing: 'source, project_id',
        role_memberships: 'source, role_id',
      };
      const columns = within[kind] ?? 'source, organization_id';
      const twice = `SELECT id FROM ${kind} GROUP BY ${columns}, id HAVING count(*) > 1`;
      expect(openMirrorToRead(two, twice).rows).toEqual([]);
    },
  );

  it('12: has the rows whose removals are held, which the view lists until they are accepted', async () => {
    const sql = recipes.get(12) ?? '';
    const { service, expectRun, directory: own } = await world();
    const mirror = join(own, 'mirror.db');
    const domains = Array.from({ length: 12 }, (_each, n) => ({ id: `d${n + 10}`, domain: `${n}.example` }));
    service.set('domains', domains);
    await expectRun(0, 'sync', '--quiet');
    expect(openMirrorToRead(mirror, sql).rows).toEqual([]);
    service.set('domains', []);
    await expectRun(3, 'sync', '--quiet');
    const { rows } = openMirrorToRead(mirror, sql);
    expect(rows.map((row) => row.split(' | ').slice(0, -1).toSpliced(2, 2))).toEqual(
      domains.map(({ id, domain }) => ['default', 'domains', id, domain, '0', '2']),
    );
    expect(openMirrorToRead(mirror, 'SELECT id FROM domains').rows).toHaveLength(12);
    const outcome = `SELECT last_outcome, last_complete_run, last_full_run FROM collections WHERE kind = 'domains'`;
    expect(openMirrorToRead(mirror, outcome).rows).toEqual(['held | 2 | 1']);
    await expectRun(0, 'sync', '--quiet', '--accept-removals', '12');
    expect(openMirrorToRead(mirror, sql).rows).toEqual([]);
    expect(openMirrorToRead(mirror, `SELECT id FROM gone WHERE kind = 'domains'`).rows).toHaveLength(12);
  });

  it('13: says of the list of roles whether it was read, or why not', async () => {
    const sql = recipes.get(13) ?? '';
    const { service, expectRun, directory: own } = await world();
    const mirror = join(own, 'mirror.db');
    await expectRun(0, 'sync', '--quiet');
    const refuse: (typeof service.quirks)[number] = ({ path }, response) =>
      path.endsWith('/roles/') && forbidden(response, 'organization:read');
    service.quirks.push(refuse);
    await expectRun(3, 'sync', '--quiet');
    await expectRun(5, 'sync', '--quiet', '--kind', 'roles');
    service.quirks.pop();
    await expectRun(0, 'sync', '--quiet', '--kind', 'domains');
    const rows = openMirrorToRead(mirror, sql).rows.map((row) => row.split(' | ').slice(1));
    expect(rows.map(([source, , result, records]) => [source, result, records])).toEqual([
      ['default', 'not read: access denied', '0'],
      ['default', 'not read: access denied', '0'],
      ['default', 'read completely', '0'],
    ]);
    expect(rows[0]?.at(-1)).toContain("missing required scope 'organization:read'");

    const kept = `SELECT run, kind, outcome, result, records FROM run_lists WHERE kind IN ('roles', 'domains') ORDER BY run, kind`;
    expect(openMirrorToRead(mirror, kept).rows).toEqual([
      '1 | domains | complete | read completely | 2',
      '1 | roles | complete | read completely | 0',
      '2 | domains | complete | read completely | 2',
      '2 | roles | denied | not read: access denied | 0',
      '3 | roles | denied | not read: access denied | 0',
      '4 | domains | complete | read completely | 2',
    ]);
    // Of runs that retention drops, the last row of each list is left.
    await expectRun(0, 'forget', '--keep-last', '1');
    expect(openMirrorToRead(mirror, kept).rows).toEqual([
      '1 | domains | complete | read completely | 2',
      '1 | roles | complete | read completely | 0',
      '3 | roles | denied | not read: access denied | ',
      '4 | domains | complete | read completely | 2',
    ]);
    const columns = openMirrorToRead(mirror, `SELECT name, type FROM pragma_table_info('run_lists')`).rows;
    expect(columns.filter((row) => !/ \| (?:INTEGER|TEXT)$/.test(row))).toEqual([]);
    const documented = /\| column of `run_lists`[^]*?\n\n/.exec(page)?.[0] ?? '';
    expect(
      columns.map((row) => row.split(' | ')[0]).filter((name) => !documented.includes(`\`${name}\``)),
    ).toEqual([]);
  });

  it('of several mirrors: finds who is in two of them, and can write none', () => {
    const [, attach = '', query = ''] = /```sql\n(ATTACH [^;]*);\n([^]*?)```/.exec(page) ?? [];
    const database = new Database(one, { readonly: true });
    try {
      database.exec(attach.replace('data/globex.db', two));
      const rows = database.prepare<[], { email: string; sources: string }>(query).all();
      expect(rows).toContainEqual({
        email: 'abdul.rahman.siddiqui@kittiwake.example',
        sources: 'first,second',
      });
      expect(rows).toHaveLength(
        openMirrorToRead(two, `SELECT DISTINCT user ->> '$.email' FROM members`).rows.length,
      );
      expect(() => database.exec('DELETE FROM globex.runs')).toThrow(/readonly/);
    } finally {
      database.close();
    }
  });

  it('8: costs what changed in that time, not what there is', () => {
    const sql = recipes.get(8) ?? '';
    const { rows } = openMirrorToRead(one, `EXPLAIN QUERY PLAN ${sql}`);
    const plan = rows.map((row) => row.split(' | ').at(-1) ?? '');
    // Runs, collections, the constant list of families (m) and a single text with halves of surrogate pairs (h) are read, and
    // revisions found by their run.
    const read = plan.filter((step) => step.startsWith('SCAN') && !step.includes('CONSTANT ROW'));
    expect(read.filter((step) => !/^SCAN (n|l|runs|changes|f|m|h)\b/.test(step))).toEqual([]);
    expect(plan).toContain('SEARCH r USING INDEX records_run (run=?)');
    expect(plan).toContain('SEARCH v USING PRIMARY KEY (run=?)');
  });
});
