/**
 * Whether another program altered the schema that the migrations made: a comparison that reads an altered view or table could say
 * that nothing changed. Checked whenever a mirror is opened, except for the views of kinds, which only people read (`kind-views.ts`).
 */
import { TidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import type { Logger } from '../core/logger.ts';
import { type Connection, damagedMirror, sqliteCode, transact } from './database.ts';
import { alteredObjects, isAsMigrated } from './migrations.ts';

/**
 * For readers: tables and views have to be as the migrations make them. Objects that another program added do no harm, and an index
 * changes no result.
 * @throws TidemarkError `mirror_corrupt`
 */
export function requireSchema(connection: Connection, path: string): void {
  if (isAsMigrated(connection)) return;
  const altered = alteredObjects(connection).filter(({ type }) => type !== 'index');
  const [first, ...more] = altered;
  if (first === undefined) return;
  const what = `another program altered it: ${first.message}${more.length === 0 ? '' : `, and ${more.length} more`}`;
  if (altered.some((each) => !isRestorable(connection, each))) throw damagedMirror(path, what);
  throw new TidemarkError('mirror_corrupt', `${path} is damaged: ${what}`, {
    hint: 'the next command that writes, such as `tidemark sync`, creates it again; then `tidemark verify` says whether anything else was altered',
  });
}

/**
 * For writers: creates views and indexes again that are missing or not as the migrations make them.
 * @returns what was created, such as `view all_revisions`
 * @throws TidemarkError `mirror_corrupt` if a table is not as they make it: its rows cannot be restored
 */
export function restoreSchema(connection: Connection, path: string): string[] {
  if (isAsMigrated(connection)) return [];
  const altered = alteredObjects(connection);
  const lost = altered.find((each) => !isRestorable(connection, each));
  if (lost !== undefined) throw damagedMirror(path, `another program altered it: ${lost.message}`);
  if (altered.length === 0) return [];
  transact(connection, () => {
    for (const each of altered) {
      const type = typeInPlaceOf(connection, each.name);
      if (type !== undefined) connection.exec(`DROP ${type.toUpperCase()} "${each.name}"`);
      try {
        connection.exec(each.sql);
      } catch (error) {
        // Two rows have the same key.
        if (sqliteCode(error)?.startsWith('SQLITE_CONSTRAINT') !== true) throw error;
        throw damagedMirror(
          path,
          `another program altered it: ${each.message}, and its rows contradict it`,
          error,
        );
      }
    }
  });
  return altered.map(({ type, name }) => `${type} ${name}`);
}

interface Restored {
  readonly path: string;
  takeRestored(): readonly string[];
}

/** Logs what opening a mirror created again. */
export function warnOfRestored<T extends Restored>(mirror: T, log: Logger): T {
  const text = takeRestoredText(mirror);
  if (text !== null) log.warn({ code: 'mirror_corrupt' }, text);
  return mirror;
}

/** The warning about what opening a mirror created again; null if nothing, and from the second call on. */
export function takeRestoredText(mirror: Restored): string | null {
  const restored = mirror.takeRestored();
  if (restored.length === 0) return null;
  return `another program changed ${mirror.path}: ${restored.join(', ')} was not as it should be, and was created again; what was compared, or read by SQL, until now may be wrong: run \`tidemark verify\``;
}

/** True if it can be created again without losing rows: neither it nor what has its name now is a table. */
export function isRestorable(
  connection: Connection,
  { type, name }: { readonly type: string; readonly name: string },
): boolean {
  return type !== 'table' && typeInPlaceOf(connection, name) !== 'table';
}

function typeInPlaceOf(connection: Connection, name: string): string | undefined {
  return connection
    .prepare<[string], string>(
      `SELECT type FROM sqlite_master WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view', 'index')`,
    )
    .pluck()
    .get(name);
}

/**
 * Makes this connection read by the views that the migrations make, whatever another program put in their place: otherwise `verify`
 * would report an altered view as lost rows. Lasts until the end of the connection's transaction.
 */
export function shadowAlteredViews(connection: Connection): void {
  if (isAsMigrated(connection)) return;
  for (const { type, sql } of alteredObjects(connection))
    if (type === 'view') connection.exec(sql.replace(/^CREATE VIEW/, 'CREATE TEMP VIEW'));
}

/** The error for a mirror with a trigger; null if it has none. No migration makes one, and it would change what is written. */
export function foreignTrigger(connection: Connection, path: string): TidemarkError | null {
  const names = connection
    .prepare<[], string>(`SELECT name FROM sqlite_master WHERE type = 'trigger'`)
    .pluck();
  const [first, ...more] = names.all();
  if (first === undefined) return null;
  const others = more.length === 0 ? '' : ` and ${more.length} more`;
  const statements = [first, ...more].map((name) => `DROP TRIGGER "${name.replaceAll('"', '""')}";`);
  return new TidemarkError(
    'mirror_corrupt',
    `${path} is damaged: another program added the trigger ${JSON.stringify(first)}${others}, which would change what is written`,
    {
      hint: `nothing is written until it is gone: \`sqlite3 ${shellWord(path)} ${shellWord(statements.join(' '))}\`, then \`tidemark verify\` says whether it changed anything`,
    },
  );
}
