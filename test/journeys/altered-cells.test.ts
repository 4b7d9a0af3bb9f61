/** Each column of the mirror with a value that Tidemark never writes there: damage that is named, never a defect. */
import { copyFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { asTidemarkError } from '../../src/core/errors.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { ORGANIZATION, only, Story } from './restore-story.ts';

/** A small mirror with a row in every table. */
async function filled(): Promise<Story> {
  const story = await Story.start(only('organizations', 'batch_exports', 'domains'));
  const [changed, lost] = (await story.list('batch_exports')).map(({ id }) => String(id));
  await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:1', '--baseline');
  await story.call('PATCH', `${ORGANIZATION}batch_exports/${changed ?? ''}/`, { name: 'Renamed' });
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${lost ?? ''}/`);
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'drift', 'accept', 'batch_exports', changed ?? '', '--reason', 'agreed');
  story.supplySecrets('secret');
  await story.run('restore', 'run:1', '--kind', 'batch_exports', '--id', lost ?? '', '--apply', '--yes');
  for (const more of [[], [], [], ['--kind', 'domains']])
    await story.expectRun(0, 'sync', '--quiet', ...more);
  await story.expectRun(0, 'forget', '--keep-last', '3');
  await story.expectRun(0, 'verify');
  const file = new Database(story.file('mirror.db'));
  for (const table of tablesOf(file)) {
    const columns = columnsOf(file, table);
    if (file.prepare(`SELECT 1 FROM "${table}"`).get() !== undefined) continue;
    const values = columns.map(({ type }) => (type === 'TEXT' ? `'{}'` : type === 'BLOB' ? `x'00'` : '1'));
    file.exec(
      `INSERT INTO "${table}" (${columns.map(({ name }) => `"${name}"`).join()}) VALUES (${values.join()})`,
    );
  }
  file.pragma('wal_checkpoint(TRUNCATE)');
  file.close();
  return story;
}

interface Column {
  readonly name: string;
  readonly type: string;
}

function tablesOf(file: Database.Database): string[] {
  return file
    .prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*'`)
    .pluck()
    .all();
}

function columnsOf(file: Database.Database, table: string): Column[] {
  return file
    .prepare<[string], Column>('SELECT name, upper(type) AS type FROM pragma_table_info(?)')
    .all(table);
}

/** SQL of values that no column of the type has; those that a column refuses, or had, are left out. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  TEXT: [`x'00ff'`, 'NULL', `'{"'`],
  BLOB: [`'text'`, 'NULL', `x'00ff'`],
  INTEGER: [`x'00ff'`, 'NULL', `'text'`],
};

/** What docs/security.md says that `verify` does not cover; all rows of a kind in `field_shapes`; and a row that no run has sealed. */
const NOT_COVERED =
  /^(?:(?:checks|held_records|jobs|schedules|intervals|notices|notice_\w+|schema_changes|replaced_roots|field_shape_bases|__drizzle_migrations|carried_sweeps)\..*|collections\.(?:page_cap|retired_run)|sources\.(?:base_url|moved_from|moved_run)|records\.(?:volatile|last_name)|(?:field_shapes|sealing_rules)\.kind)$/;

/** What commands read beside records. */
const READ =
  /^(?:runs|sources|collections|snapshots|acceptances|audit_log|forgets|restores|fingerprint_key)$/;
const READERS = [['drift'], ['runs'], ['audit'], ['status'], ['forget', '--keep-last', '1', '--dry-run']];

it('verify finds an altered value in every column, and no command that reads it reports a defect of Tidemark', async () => {
  const story = await filled();
  const path = story.file('mirror.db');
  copyFileSync(path, story.file('whole.db'));
  const verify = async (): Promise<string[]> => {
    const mirror = openMirror(path, { mode: 'read', command: 'test', clock: systemClock });
    try {
      return (await mirror.verify()).problems.map((problem) => JSON.stringify(problem));
    } finally {
      mirror.close();
    }
  };
  const known = new Set(await verify());
  const untold: string[] = [];
  // One connection for all: each new one would read the schema again.
  const file = new Database(path);
  onTestFinished(() => void file.close());
  file.pragma('foreign_keys = OFF');
  file.prepare('ATTACH ? AS whole').run(story.file('whole.db'));
  const cells = tablesOf(file).flatMap((table) =>
    columnsOf(file, table).flatMap(({ name, type }) =>
      (VALUES[type] ?? []).map((value) => ({ table, name, value })),
    ),
  );
  expect(cells.length).toBeGreaterThan(500);
  for (const [index, { table, name, value }] of cells.entries()) {
    if (!isAltered(file, { table, name, value })) continue;
    const what = `${table}.${name} = ${value}`;
    try {
      const problems = await verify();
      if (problems.every((problem) => known.has(problem)) && !NOT_COVERED.test(`${table}.${name}`))
        untold.push(`${what}: verify finds nothing`);
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      if (code !== 'mirror_version') untold.push(`${what}: verify ends with ${code}: ${message}`);
    }
    // One of the commands for each, in turn: all of them with each would take minutes.
    const command = READERS[index % READERS.length] ?? [];
    if (READ.test(table)) {
      const { stderr } = await story.run(...command);
      if (stderr.includes('defect of Tidemark')) untold.push(`${what}: ${command.join(' ')}: ${stderr}`);
    }
    takeBack(file, table);
  }
  expect(new Set(await verify())).toEqual(known);
  expect(untold).toEqual([]);
}, 600_000);

/** Alters one row, or as many as have the same value; false where the column does not take it, or has it. */
function isAltered(
  file: Database.Database,
  { table, name, value }: { readonly table: string; readonly name: string; readonly value: string },
): boolean {
  try {
    const { changes } = file
      .prepare(
        `UPDATE "${table}" SET "${name}" = ${value} WHERE "${name}" IS NOT ${value} AND "${name}" IS (SELECT max("${name}") FROM "${table}")`,
      )
      .run();
    return changes > 0;
  } catch (error) {
    if (error instanceof Database.SqliteError) return false;
    throw error;
  }
}

/** The table's rows are again as they were. */
function takeBack(file: Database.Database, table: string): void {
  const columns = columnsOf(file, table).map(({ name }) => `"${name}"`);
  file.exec(
    `BEGIN; DELETE FROM "${table}"; INSERT INTO "${table}" (${columns.join()}) SELECT ${columns.join()} FROM whole."${table}"; COMMIT`,
  );
}
