/** Half of a surrogate pair in a record: tables with JSON in their columns can be read by DuckDB even so. */
import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { world } from './comparison.ts';
import { ORG } from './service.ts';

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

const exported = (id: string, text: string): string =>
  `{"id":"${id}","name":"${text}","destination":{"type":"S3","config":{"note":"${text} \\ud83d\\ude00 \\\\ud800"}}}`;

it('half of a surrogate pair is U+FFFD in the JSON of columns, and as received in the body', async () => {
  const { service, directory, expectRun } = await world();
  service.set('batch_exports', [exported('b1', 'a'), exported('b2', 'b')]);
  await expectRun(0, 'sync', '--quiet');
  service.set('batch_exports', [exported('b1', String.raw`\ud800`), exported('b2', 'b')]);
  await expectRun(0, 'sync', '--quiet');
  const [table, history] = [join(directory, 'table.parquet'), join(directory, 'history.parquet')];
  await expectRun(0, 'export', '--kind', 'batch_exports', '--output', table);
  await expectRun(0, 'export', '--history', '--output', history);

  const whole = [
    { id: 'b1', name: '�', note: '� 😀 \\ud800' },
    { id: 'b2', name: 'b', note: 'b 😀 \\ud800' },
  ];
  const columns = `id, name, destination ->> '$.config.note' AS note`;
  expect(await ask(`SELECT ${columns} FROM '${table}' ORDER BY id`)).toEqual(whole);
  const changes = `unnest(CAST(changes::JSON AS JSON[])) AS t(c)`;
  expect(
    await ask(
      `SELECT c ->> '$.to' AS value FROM '${history}', ${changes} WHERE kind = 'batch_exports' ORDER BY 1`,
    ),
  ).toEqual([{ value: '�' }, { value: '� 😀 \\ud800' }]);

  await expect(ask(`SELECT body ->> '$.id' AS id FROM '${table}'`)).rejects.toThrow('low surrogate');
  expect(
    await ask(`SELECT try_cast(body AS JSON) ->> '$.id' AS id, body FROM '${table}' ORDER BY name`),
  ).toEqual([
    { id: 'b2', body: exported('b2', 'b') },
    { id: null, body: exported('b1', String.raw`\ud800`) },
  ]);

  const csv = join(directory, 'table.csv');
  await expectRun(0, 'export', '--kind', 'batch_exports', '--output', csv);
  const text = readFileSync(csv, 'utf8');
  expect(text).toContain('""note"":""� 😀 \\\\ud800""');
  const found = await expectRun(0, 'changes', '--format', 'csv', '--since', 'run:1');
  expect(found.stdout).toContain('"""�""');
});

it('U+0000 is U+FFFD in the columns of Parquet and CSV, as in views, and as received in the body', async () => {
  const { service, directory, expectRun } = await world();
  service.set('batch_exports', [exported('b1', 'a')]);
  await expectRun(0, 'sync', '--quiet');
  const received = exported('b1', String.raw`n\u0000l \\u0000`);
  service.set('batch_exports', [received]);
  await expectRun(0, 'sync', '--quiet');
  const [table, history] = [join(directory, 'table.parquet'), join(directory, 'history.parquet')];
  await expectRun(0, 'export', '--kind', 'batch_exports', '--output', table);
  await expectRun(0, 'export', '--history', '--output', history);
  const name = 'n\ufffdl \\u0000';
  expect(await ask(`SELECT name, destination ->> '$.config.note' AS note, body FROM '${table}'`)).toEqual([
    { name, note: `${name} 😀 \\ud800`, body: received },
  ]);
  expect(
    await ask(
      `SELECT name, c ->> '$.to' AS value FROM '${history}', unnest(CAST(changes::JSON AS JSON[])) AS t(c) ORDER BY 2`,
    ),
  ).toEqual([
    { name, value: name },
    { name, value: `${name} 😀 \\ud800` },
  ]);
  const csv = await expectRun(0, 'export', '--kind', 'batch_exports', '--format', 'csv');
  const changes = await expectRun(0, 'changes', '--format', 'csv', '--since', 'run:1');
  for (const { stdout } of [csv, changes]) expect(stdout).not.toMatch(/\0|n\\u0000l/);
  expect(csv.stdout).toContain(name);
});

it('the columns of views are UTF-8, and the JSON in them has U+FFFD for each half', async () => {
  const { service, directory, env, expectRun } = await world();
  const halves = String.raw`\uD83Da \udc00\ud83d \uD83D\uDE00 \ud55c \\ud800 \u0000 \\u0000`;
  const times = String.raw`"created_at":"\ud800","end_at":"2026-03-01T10:00:00+02:00"`;
  service.set('organizations', [{ id: ORG, name: 'Harbor' }]);
  service.set('batch_exports', [exported('b1', halves).replace('{', `{${times},`)]);
  await expectRun(0, 'sync', '--quiet');
  service.set('batch_exports', []);
  service.set('plugins', [`{"id":"p1","name":"${halves}"}`, String.raw`{"id":"p2","name":"nul\u0000after"}`]);
  await expectRun(0, 'sync', '--quiet', '--accept-removals', '1');

  const database = new Database(env['TIDEMARK_MIRROR'] ?? join(directory, 'mirror.db'), { readonly: true });
  const invalid = database
    .prepare<[], { name: string }>(`SELECT name FROM sqlite_master WHERE type = 'view'`)
    .all()
    .flatMap(({ name: view }) => {
      const columns = (database.pragma(`table_info("${view}")`) as { name: string }[]).map(
        ({ name }) => name,
      );
      const hex = columns
        .map((name) => `iif(typeof("${name}") = 'text', hex("${name}"), '') AS "${name}"`)
        .join(', ');
      return database
        .prepare<[], Record<string, string>>(`SELECT ${hex} FROM "${view}"`)
        .all()
        .flatMap((row) =>
          Object.entries(row).flatMap(([name, value]) =>
            isUtf8(Buffer.from(value, 'hex')) ? [] : [`${view}.${name}`],
          ),
        );
    });
  expect(invalid).toEqual([]);
  const name = '\ufffda \ufffd\ufffd 😀 한 \\ud800 \ufffd \\u0000';
  expect(database.prepare('SELECT name, body FROM plugins').all()).toEqual([
    { name, body: `{"id":"p1","name":"${halves}"}` },
    { name: 'nul\ufffdafter', body: String.raw`{"id":"p2","name":"nul\u0000after"}` },
  ]);
  expect(
    database
      .prepare(`SELECT name FROM changes WHERE kind IN ('plugins', 'batch_exports') ORDER BY run, id`)
      .pluck()
      .all(),
  ).toEqual([name, name, name, 'nul\ufffdafter']);
  expect(database.prepare('SELECT name FROM gone').pluck().all()).toEqual([name]);
  database.close();
});
