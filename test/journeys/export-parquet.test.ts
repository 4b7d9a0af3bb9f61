/** Parquet as another program reads it, and the history as NDJSON and Parquet. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { world } from './comparison.ts';
import { environment, program, scratch, tidemark } from './harness.ts';
import { FakeService, ORG } from './service.ts';

async function ask(sql: string): Promise<unknown[]> {
  const database = await DuckDBInstance.create();
  const connection = await database.connect();
  try {
    return (await connection.runAndReadAll(sql)).getRowObjectsJson();
  } finally {
    connection.closeSync();
    database.closeSync();
  }
}

async function mirrored(): Promise<{ directory: string; env: Record<string, string> }> {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const sync = async (): Promise<void> => {
    const ended = await tidemark(['sync'], { env });
    expect(ended.code, ended.stdout + ended.stderr).toBe(0);
  };
  const domain = (id: string, name: string, more = {}): object => ({ id, domain: name, ...more });
  service.set('domains', [
    domain('d1', 'one.example', { is_verified: false, big: 1 }),
    domain('d2', 'β.example'),
  ]);
  await sync();
  service.set('domains', [
    domain('d1', 'one.example', { is_verified: true, verified_at: '2026-03-01T10:00:00.123Z' }),
  ]);
  await sync();
  return { directory, env };
}

/** Standard output as bytes. */
function bytesOf(args: readonly string[], env: Record<string, string>): Buffer {
  const ended = spawnSync(process.execPath, [program, ...args], { env: { ...process.env, ...env } });
  expect(ended.status, ended.stderr.toString()).toBe(0);
  return ended.stdout;
}

function runEnd(mirror: Database.Database, run: number): string {
  return (
    mirror.prepare<[number], string>('SELECT finished_at FROM runs WHERE run = ?').pluck().get(run) ?? ''
  );
}

/** As DuckDB's JSON has a big integer. */
function ms(time: string): string {
  return String(Date.parse(time));
}

function timesIn(file: string): Promise<unknown[]> {
  return ask(
    `SELECT id, epoch_ms(first_seen_at) AS first, epoch_ms(last_changed_at) AS last FROM '${file}' ORDER BY id`,
  );
}

it('a view has times with another offset in UTC, to the millisecond as in Parquet, and what is no time as it is', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const times = [
    ['2026-08-29T23:30:00-08:00', '2026-08-30T07:30:00.000Z'],
    ['2026-08-30T08:37:48.045678+02:00', '2026-08-30T06:37:48.045Z'],
    ['2026-08-30T08:59:59.9999999+02:00', '2026-08-30T06:59:59.999Z'],
    ['2026-08-29T23:30:00.123456Z'],
    ['2026-08-29'],
    ['on Monday +99:99'],
    ['on Monday: +0200', undefined, null],
    ['on Monday: +02', undefined, null],
    ['on Monday 4.0456 +02:00'],
    ['2026-02-30T00:00:00Z', undefined, null],
    ['2026-02-30T00:00:00+02:00', undefined, null],
    ['2026-08-29T23:30:00+0200', '2026-08-29T21:30:00.000Z'],
    ['2026-08-29T23:30:00+02', '2026-08-29T21:30:00.000Z'],
    ['2026-08-29T23:30:00.1234567-0030', '2026-08-30T00:00:00.123Z'],
    ['2026-08-29T23:30:00,5+0200', '2026-08-29T21:30:00.500Z'],
    ['2026-08-29t23:30:00,123456789+02', '2026-08-29T21:30:00.123Z'],
    ['2026-08-29 23:30+14:00', '2026-08-29T09:30:00.000Z'],
    ['2026-08-29t23:30z'],
    // Not times: SQLite, or `parseTime`, would take each for one.
    ...[
      '2026-08-29T24:00:00+02:00',
      '2026-08-29T23:30:00 +02:00',
      '2026-08-29T23:30:00 +0200',
      '2026-08-29  23:30:00+02:00',
      '2026-08-29T 23:30:00+02:00',
      '2026-08-29T23:30:00+15:00',
      '2026-08-29T23:30:00+02:60',
      '2026-08-29T23:30:60+02:00',
      '2026-08-29T23:60+02:00',
      '2026-08-29T23:30:00.1234x+02:00',
      '2026-08-29T23:30:00.1.2+02:00',
      '2026-08-29T23:30:00.1234567890+02:00',
      '2026-08-29T23:30.5+02:00',
      '2026-08-29T23+02:00',
      '2026-08-29+02:00',
      '20260829T233000+0200',
      '2026-08-29T2330+02:00',
      '23:30:00+02:00',
    ].map((text) => [text, undefined, null]),
  ].map(([received = '', shown = received, instant = shown]) => ({
    received,
    shown,
    instant: instant === null ? Number.NaN : Date.parse(instant),
  }));
  service.set(
    'domains',
    times.map(({ received }, index) => ({
      id: `d${10 + index}`,
      domain: `d${index}.example`,
      verified_at: received,
    })),
  );
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const shown = mirror.prepare('SELECT verified_at FROM domains ORDER BY id').pluck().all();
  mirror.close();
  expect(shown).toEqual(times.map((each) => each.shown));
  const file = join(directory, 'domains.parquet');
  writeFileSync(file, bytesOf(['export', '--format', 'parquet', '--kind', 'domains'], env));
  expect(await ask(`SELECT epoch_ms(verified_at) AS ms FROM '${file}' ORDER BY id`)).toEqual(
    times.map(({ instant }) => ({ ms: Number.isNaN(instant) ? null : String(instant) })),
  );
});

it('a view and Parquet have the same text of what is documented as text and is of another type', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const values = ['"1.10"', '1.10', '1e3', 'true', '12345678901234567890', '{"a":1.10}', '"null"', 'null'];
  service.set(
    'domains',
    values.map((value, index) => `{"id":"d${index}","domain":"d${index}.example","saml_acs_url":${value}}`),
  );
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const texts = values.map((value) => (value === 'null' ? null : value.replaceAll(/^"|"$/g, '')));
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  expect(mirror.prepare('SELECT saml_acs_url FROM domains ORDER BY id').pluck().all()).toEqual(texts);
  mirror.close();
  const file = join(directory, 'domains.parquet');
  writeFileSync(file, bytesOf(['export', '--format', 'parquet', '--kind', 'domains'], env));
  expect(await ask(`SELECT saml_acs_url AS text FROM '${file}' ORDER BY id`)).toEqual(
    texts.map((text) => ({ text })),
  );
});

it('a number is a name in the view and in Parquet, and what is neither text nor number is none', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  service.lists.set('/api/organizations/', [`{"id":"${ORG}","name":1.10}`]);
  const names = ['2024', '1.10', 'true', '{"a":1}'];
  service.set(
    'domains',
    names.map((name, index) => `{"id":"d${index}","domain":${name}}`),
  );
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const shown = ['2024', '1.10', null, null];
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  expect(mirror.prepare('SELECT name FROM domains ORDER BY id').pluck().all()).toEqual(shown);
  expect(mirror.prepare('SELECT DISTINCT organization FROM domains').pluck().all()).toEqual(['1.10']);
  mirror.close();
  const file = join(directory, 'domains.parquet');
  writeFileSync(file, bytesOf(['export', '--format', 'parquet', '--kind', 'domains'], env));
  expect(await ask(`SELECT name, organization FROM '${file}' ORDER BY id`)).toEqual(
    shown.map((name) => ({ name, organization: '1.10' })),
  );
});

it('a record without a name has none in any table', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const named = (paused: boolean): object[] =>
    ['', null, 'Nightly'].map((name, index) => ({ id: `b${index}`, name, paused }));
  for (const paused of [true, false]) {
    service.set('batch_exports', named(paused));
    expect((await tidemark(['sync'], { env })).code).toBe(0);
  }
  const names = [null, null, 'Nightly'];
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const shown = (table: string): unknown[] =>
    mirror.prepare(`SELECT name FROM ${table} ORDER BY id`).pluck().all();
  expect(shown('batch_exports')).toEqual(names);
  expect(shown("changes WHERE kind = 'batch_exports' AND run = 2")).toEqual(names);
  mirror.close();
  const kind = ['--kind', 'batch_exports', '--format'];
  for (const [file, ...history] of [['now.parquet'], ['history.parquet', '--history', '--since', 'run:1']]) {
    const path = join(directory, file ?? '');
    writeFileSync(path, bytesOf(['export', ...history, ...kind, 'parquet'], env));
    expect(await ask(`SELECT name FROM '${path}' ORDER BY id`), file).toEqual(
      names.map((name) => ({ name })),
    );
  }
  const lines = bytesOf(['export', '--history', '--since', 'run:1', ...kind, 'ndjson'], env).toString();
  expect([...lines.matchAll(/"name":([^,]+),"run"/g)].map(([, name]) => name)).toEqual(
    names.map((name) => JSON.stringify(name)),
  );
  const changes = bytesOf(['changes', ...kind, 'csv'], env).toString();
  expect([...changes.matchAll(/,b\d,(\w*),changed,\/paused,/g)].map(([, name]) => name)).toEqual([
    '',
    '',
    'Nightly',
  ]);
});

it('a view and Parquet have NULL where a number, a boolean or a time is of another type', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  service.set('members', [
    { id: 'x1', user: { uuid: 'u1', email: 'a@one.example' }, level: '8', joined_at: 1767225600 },
    { id: 'x2', user: { uuid: 'u2', email: 'b@one.example' }, level: true, has_social_auth: 1 },
    { id: 'x3', user: { uuid: 'u3', email: 'c@one.example' }, level: 8.0, has_social_auth: true },
  ]);
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const columns = 'level, joined_at, has_social_auth';
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const shown = mirror.prepare(`SELECT ${columns} FROM members ORDER BY id`).raw().all();
  mirror.close();
  const none = [null, null, null];
  expect(shown).toEqual([none, none, [8, null, 1]]);
  const file = join(directory, 'members.parquet');
  writeFileSync(file, bytesOf(['export', '--format', 'parquet', '--kind', 'members'], env));
  expect(await ask(`SELECT ${columns} FROM '${file}' ORDER BY id`)).toEqual(
    [none, none, ['8', null, true]].map(([level, joined_at, has_social_auth]) => ({
      ...{ level, joined_at, has_social_auth },
    })),
  );
});

it('an id is the text that `show` takes in every table, also of kinds whose ids are numbers', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const ids = ['103', '"x103"', '"0105"', '12345678901234567890'];
  for (const kind of ['plugins', 'pipeline_destinations'])
    service.set(
      kind,
      ids.map((id) => `{"id":${id},"name":"GeoIP"}`),
    );
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const texts = ids.map((id) => ({ id: id.replaceAll('"', '') })).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const history = join(directory, 'history.parquet');
  writeFileSync(history, bytesOf(['export', '--history', '--format', 'parquet'], env));
  for (const kind of ['plugins', 'pipeline_destinations']) {
    expect(mirror.prepare(`SELECT id FROM ${kind} ORDER BY id`).all()).toEqual(texts);
    expect(mirror.prepare(`SELECT id FROM ${kind} WHERE id = 103`).all()).toEqual([{ id: '103' }]);
    const table = join(directory, `${kind}.parquet`);
    writeFileSync(table, bytesOf(['export', '--format', 'parquet', '--kind', kind], env));
    const joined = `SELECT t.id FROM '${table}' t JOIN '${history}' h ON h.kind = '${kind}' AND h.id = t.id ORDER BY t.id`;
    expect(await ask(joined)).toEqual(texts);
  }
  mirror.close();
  const shown = await tidemark(['show', 'plugins', '0105', '--json'], { env });
  expect(JSON.parse(shown.stdout)).toMatchObject({ id: '0105' });
});

describe('Parquet', () => {
  it('has the columns of the view with their types, and the exact body', async () => {
    const { directory, env } = await mirrored();
    const tree = join(directory, 'tables');
    expect((await tidemark(['export', '--format', 'parquet', '--output', tree], { env })).code).toBe(0);
    const file = join(tree, 'domains.parquet');
    expect(
      await ask(
        `SELECT id, name, organization_id, organization, is_verified, epoch_ms(verified_at) AS ms, body FROM '${file}'`,
      ),
    ).toEqual([
      {
        id: 'd1',
        name: 'one.example',
        organization_id: ORG,
        organization: 'Harbor',
        is_verified: true,
        ms: String(Date.parse('2026-03-01T10:00:00.123Z')),
        body: '{"id":"d1","domain":"one.example","is_verified":true,"verified_at":"2026-03-01T10:00:00.123Z"}',
      },
    ]);
    const types = await ask(
      `SELECT column_name AS name, column_type AS type FROM (DESCRIBE SELECT * FROM '${file}')`,
    );
    expect(types).toContainEqual({ name: 'has_saml', type: 'BOOLEAN' });
    const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
    onTestFinished(() => void mirror.close());
    const columns = mirror.prepare("SELECT name FROM pragma_table_info('domains')").pluck().all();
    expect(types.map((column) => (column as { name: string }).name)).toEqual(columns);
    for (const name of ['first_seen_at', 'last_changed_at'])
      expect(types).toContainEqual({ name, type: 'TIMESTAMP WITH TIME ZONE' });
    const seen = { first: runEnd(mirror, 1), last: runEnd(mirror, 2) };
    expect(
      mirror.prepare('SELECT first_seen_at AS first, last_changed_at AS last FROM domains').all(),
    ).toEqual([seen]);
    expect(await timesIn(file)).toEqual([{ id: 'd1', first: ms(seen.first), last: ms(seen.last) }]);
    // A kind without a record is a file with columns and no row.
    expect(
      await ask(`SELECT count(*) AS n, count(level) AS l FROM '${join(tree, 'invites.parquet')}'`),
    ).toEqual([{ n: '0', l: '0' }]);
    const stdout = bytesOf(['export', '--format', 'parquet', '--kind', 'domains', '--at', 'run:1'], env);
    const past = join(directory, 'past.parquet');
    writeFileSync(past, stdout);
    expect(await ask(`SELECT id, is_verified FROM '${past}'`)).toEqual([
      { id: 'd1', is_verified: false },
      { id: 'd2', is_verified: null },
    ]);
    expect(await timesIn(past)).toEqual(
      ['d1', 'd2'].map((id) => ({ id, first: ms(seen.first), last: ms(seen.first) })),
    );
  });

  it('is not read back, and is one kind on stdout', async () => {
    const { directory, env } = await mirrored();
    const file = join(directory, 'a.parquet');
    writeFileSync(file, 'PAR1');
    const read = await tidemark(['diff', `file:${file}`, 'latest'], { env });
    expect([read.code, read.stderr]).toEqual([4, expect.stringContaining('is Parquet')]);
    const all = await tidemark(['export', '--format', 'parquet'], { env });
    expect([all.code, all.stderr]).toEqual([4, expect.stringContaining('Parquet on stdout holds one kind')]);
  });
});

describe('the history', () => {
  it('is a line for each revision, with the fields that changed', async () => {
    const { directory, env } = await mirrored();
    const text = bytesOf(['export', '--history', '--kind', 'domains'], env).toString();
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ id, run, change }) => [id, run, change])).toEqual([
      ['d1', 1, 'initial'],
      ['d1', 2, 'changed'],
      ['d2', 1, 'initial'],
      ['d2', 2, 'removed'],
    ]);
    expect(lines[1]).toMatchObject({
      name: 'one.example',
      changes: [
        { path: '/big', from: 1 },
        { path: '/is_verified', from: false, to: true },
        { path: '/verified_at', to: '2026-03-01T10:00:00.123Z' },
      ],
      body: { is_verified: true },
    });
    expect(lines[3]).toMatchObject({ name: 'β.example', changes: null, body: null });

    const file = join(directory, 'history.parquet');
    writeFileSync(file, bytesOf(['export', '--history', '--format', 'parquet', '--kind', 'domains'], env));
    const rows = await ask(
      `SELECT source, kind, organization_id, id, name, run, change, changes, body FROM '${file}'`,
    );
    expect(rows).toHaveLength(4);
    expect(rows[1]).toMatchObject({
      run: '2',
      change: 'changed',
      changes: JSON.stringify(lines[1]?.['changes']),
    });
    expect(readFileSync(file).subarray(-4).toString()).toBe('PAR1');
  });

  it('has the organization and project of one in its own rows, as the view `changes` and the tables', async () => {
    const { directory, env } = await mirrored();
    const file = join(directory, 'history.parquet');
    writeFileSync(file, bytesOf(['export', '--history', '--format', 'parquet'], env));
    const columns = 'kind, id, organization_id, project_id';
    const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
    const viewed = mirror.prepare(`SELECT ${columns} FROM changes WHERE run = 1 ORDER BY kind, id`).all();
    mirror.close();
    expect(await ask(`SELECT ${columns} FROM '${file}' WHERE run = 1 ORDER BY kind, id`)).toEqual(viewed);
    expect(viewed).toContainEqual({ kind: 'organizations', id: ORG, organization_id: ORG, project_id: null });
    expect(viewed).toContainEqual({ kind: 'projects', id: '1', organization_id: ORG, project_id: '1' });
  });

  it('has the organization of recordings and their sharing, which is that of the project, as every other place has it', async () => {
    const { service, expectRun, directory, env } = await world();
    const list = '/api/projects/1/session_recordings/';
    service.lists.set(list, ['{"id":"r1"}', '{"id":"r2"}']);
    for (const id of ['r1', 'r2']) service.objects.set(`${list}${id}/sharing/`, '{"enabled":true}');
    await expectRun(0, 'sync', '--quiet');
    service.lists.set(list, ['{"id":"r1","viewed":true,"distinct_id":"d"}']);
    await expectRun(0, 'sync', '--quiet', '--full');
    const columns = 'run, kind, id, organization_id, project_id';
    const of = "kind IN ('session_recordings', 'recording_sharing')";
    const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
    const viewed = mirror
      .prepare<[], Record<string, unknown>>(
        `SELECT ${columns} FROM changes WHERE ${of} ORDER BY kind, id, run`,
      )
      .all();
    const gone = mirror.prepare(`SELECT ${columns} FROM gone ORDER BY kind, id, run`).all();
    mirror.close();
    expect(viewed.map((row) => row['organization_id'])).toEqual(Array(7).fill(ORG));
    expect(gone).toEqual(viewed.filter(({ id, run }) => id === 'r2' && run === 2));
    const file = join(directory, 'history.parquet');
    writeFileSync(file, bytesOf(['export', '--history', '--format', 'parquet'], env));
    const inFile = `SELECT CAST(run AS INTEGER) AS run, kind, id, organization_id, project_id FROM '${file}'`;
    expect(await ask(`${inFile} WHERE ${of} ORDER BY kind, id, run`)).toEqual(viewed);
    const { stdout } = await expectRun(0, 'export', '--history', '--kind', 'session_recordings');
    for (const line of stdout.trimEnd().split('\n')) {
      expect(JSON.parse(line)).toMatchObject({ organization_id: ORG, scope: { project_id: '1' } });
    }
    const csv = await expectRun(0, 'changes', '--format', 'csv');
    expect(csv.stdout).toContain(`,session_recordings,${ORG},1,,r1,`);
    expect(csv.stdout).toContain(`,recording_sharing,${ORG},1,,r2,`);
  });

  it('has of each change what `log` has: the place of an element by its id, its pointer before, and moves', async () => {
    const { service, expectRun } = await world();
    const domain = (steps: readonly object[]): object => ({ id: 'd1', domain: 'one.example', steps });
    const [a, b, c] = ['a', 'b', 'c'].map((id) => ({ id, on: true }));
    service.set('domains', [domain([a!, b!, c!])]);
    await expectRun(0, 'sync', '--quiet');
    service.set('domains', [domain([{ id: 'c', on: false }, a!, b!])]);
    await expectRun(0, 'sync', '--quiet');
    const { stdout } = await expectRun(0, 'export', '--history', '--id', 'd1');
    const history = stdout
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { changes: object[] | null }).changes);
    const log = await expectRun(0, 'log', 'domains', 'd1', '--json');
    const { revisions } = JSON.parse(log.stdout) as { revisions: { run: number; fields: object[] }[] };
    expect(history[1]).toEqual(revisions.find(({ run }) => run === 2)?.fields);
    expect(history[1]).toContainEqual({
      ...{ path: '/steps/0/on', place: '/steps/[id=c]/on', from_path: '/steps/2/on' },
      ...{ from: true, to: false },
    });
    expect(history[1]?.some((change) => 'moved' in change)).toBe(true);
  });

  it('goes to the file that --output names', async () => {
    const { directory, env } = await mirrored();
    const file = join(directory, 'all.parquet');
    const history = ['export', '--history', '--kind', 'domains', '--format'];
    const written = await tidemark([...history, 'parquet', '--output', file], { env });
    expect([written.code, written.stdout]).toEqual([0, '']);
    expect(written.stderr).toContain(`4 revisions written to ${file}`);
    expect(await ask(`SELECT change, count(*) AS n FROM '${file}' GROUP BY 1 ORDER BY 1`)).toEqual([
      { change: 'changed', n: '1' },
      { change: 'initial', n: '2' },
      { change: 'removed', n: '1' },
    ]);
    const lines = join(directory, 'all.ndjson');
    expect((await tidemark([...history, 'ndjson', '--output', lines], { env })).code).toBe(0);
    expect(readFileSync(lines)).toEqual(bytesOf([...history, 'ndjson'], env));
    const json = await tidemark([...history, 'ndjson', '--output', lines, '--json'], { env });
    expect(JSON.parse(json.stdout)).toMatchObject({ format: 'ndjson', written: 1, file: 'all.ndjson' });
    const directoryToo = await tidemark([...history, 'parquet', '--output', join(directory, 'x')], { env });
    expect([directoryToo.code, directoryToo.stderr]).toEqual([
      4,
      expect.stringContaining('--history is one file'),
    ]);
  });

  it('a file name as --output is that file: one kind in it, and a refusal for several', async () => {
    const { directory, env } = await mirrored();
    const file = join(directory, 'domains.parquet');
    const several = await tidemark(['export', '--format', 'parquet', '--output', file], { env });
    expect([several.code, existsSync(file)]).toEqual([4, false]);
    expect(several.stderr).toContain('names one file, and Parquet has one for each kind');
    const args = ['export', '--format', 'parquet', '--kind', 'domains', '--output', file];
    expect((await tidemark(args, { env })).code).toBe(0);
    expect(await ask(`SELECT id FROM '${file}'`)).toEqual([{ id: 'd1' }]);
    // A directory that has such a name already goes on as one.
    const tables = join(directory, 'tables.csv');
    mkdirSync(tables);
    const into = ['export', '--format', 'csv', '--kind', 'domains', '--output', tables];
    expect((await tidemark(into, { env })).code).toBe(0);
    expect(existsSync(join(tables, 'domains.csv'))).toBe(true);
  });

  it('in parts, each since the last run of the one before, is the whole history', async () => {
    const { service, env, expectRun, directory } = await world({ TIDEMARK_KINDS_EXCLUDE: 'members' });
    const linesOf = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await expectRun(0, 'export', '--history', ...args);
      return stdout.split('\n').filter((line) => line !== '');
    };
    const domain = (id: string, more = {}): object => ({ id, domain: `${id}.example`, ...more });
    const states = [
      [domain('d1'), domain('d2'), domain('d3')],
      [domain('d1', { is_verified: true }), domain('d3')],
      [domain('d1', { is_verified: true }), domain('d3')], // nothing changes
      [domain('d1', { is_verified: false }), domain('d2'), domain('d4')],
      [domain('d1', { is_verified: false }), domain('d2', { is_verified: true })],
    ];
    const parts: string[][] = [];
    for (const [index, state] of states.entries()) {
      service.set('domains', state);
      // From the second run on, members are read for the first time.
      if (index === 1) delete env['TIDEMARK_KINDS_EXCLUDE'];
      await expectRun(0, 'sync', '--quiet');
      const last = Math.max(...parts.flat().map((line) => (JSON.parse(line) as { run: number }).run));
      parts.push(await linesOf(...(index === 0 ? [] : ['--since', `run:${last}`])));
    }
    const whole = await linesOf();
    expect(parts.flat().toSorted()).toEqual(whole.toSorted());
    expect(parts.map((part) => part.length)).toEqual([5, 4, 0, 4, 2]);
    expect(new Set(whole.map((line) => (JSON.parse(line) as { change: string }).change))).toEqual(
      new Set(['initial', 'first_read', 'added', 'changed', 'removed']),
    );
    // The same of any two parts of a range, by any reference.
    const ends = new Database(join(directory, 'mirror.db'), { readonly: true });
    const after = (run: number): string => new Date(Date.parse(runEnd(ends, run)) + 1).toISOString();
    for (const run of [1, 2, 4]) {
      const since = await linesOf('--since', `run:${run}`);
      expect(since.toSorted()).toEqual(parts.slice(run).flat().toSorted());
      expect(await linesOf('--since', after(run))).toEqual(since);
    }
    ends.close();

    const file = join(directory, 'new.parquet');
    const since = ['export', '--history', '--since'];
    const written = await expectRun(
      0,
      ...since,
      'run:3',
      '--kind',
      'domains',
      '--output',
      file,
      '--format',
      'parquet',
    );
    expect(written.stderr).toContain('6 revisions written to ');
    expect(await ask(`SELECT min(run) AS first, count(*) AS n FROM '${file}'`)).toEqual([
      { first: '4', n: '6' },
    ]);
    const none = await expectRun(0, ...since, 'latest', '--output', file, '--format', 'parquet');
    expect(none.stderr).toContain('no run since latest changed anything: the export is empty');
    expect(await ask(`SELECT count(*) AS n FROM '${file}'`)).toEqual([{ n: '0' }]);
    expect((await expectRun(4, ...since, 'run:9')).stderr).toContain('there is no run 9');
    expect((await expectRun(4, 'export', '--since', 'run:3')).stderr).toContain('add --history');
  });

  it.each([
    ['--at', 'run:1'],
    ['--output', 'x'],
    ['--format', 'yaml'],
  ])('takes no %s %s', async (flag, value) => {
    const { env } = await mirrored();
    expect((await tidemark(['export', '--history', flag, value], { env })).code).toBe(4);
  });
});
