/** Secrets of records are in the column `body` only, also those of projects that an organization lists. */
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { world } from './comparison.ts';
import { ORG } from './service.ts';

const TEAMS =
  '[{"id":1,"api_token":"phc_first","price":1.10,"name":"half \\ud800"},"phc",{"api_token":"phc_a","id":12345678901234567890,"api_token":"phc_b","secret_api_token":"phs_c"},null,[{"id":2}]]';

it('an organization has its projects without their keys, in the view and in Parquet', async () => {
  const { service, directory, expectRun } = await world();
  service.lists.set('/api/organizations/', [
    `{"id":"${ORG}","name":"Harbor","teams":${TEAMS}}`,
    '{"id":"0190b6f2-0000-7000-8000-000000000002","name":"None","teams":null}',
  ]);
  expect((await expectRun(3, 'sync')).stdout).toContain('organizations');
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const rows = mirror
    .prepare<[], { teams: string | null; body: string }>(
      'SELECT teams, body FROM organizations ORDER BY name',
    )
    .all();
  mirror.close();
  const file = join(directory, 'organizations.parquet');
  await expectRun(0, 'export', '--kind', 'organizations', '--format', 'parquet', '--output', file);
  const database = await DuckDBInstance.create();
  const connection = await database.connect();
  const read = await connection.runAndReadAll(`SELECT teams FROM '${file}' ORDER BY name`);
  const inFile = read.getRowObjectsJson().map(({ teams }) => teams);
  connection.closeSync();
  database.closeSync();
  const shown =
    '[{"id":1,"price":1.10,"name":"half \ufffd"},"phc",{"id":12345678901234567890},null,[{"id":2}]]';
  expect(rows[0]?.body).toContain('phc_first');
  const plain = (text: unknown): unknown => String(text).replaceAll('\\ufffd', '\ufffd');
  expect(rows.map(({ teams }) => (teams === null ? null : plain(teams)))).toEqual([shown, null]);
  expect(inFile.map((teams) => (teams === null ? null : plain(teams)))).toEqual([shown, null]);
});
