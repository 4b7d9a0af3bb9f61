/**
 * The version of the registry's schema: the number of migrations in `drizzle-fleet/` that were applied. Drizzle reads
 * the files; they are applied here, in one transaction under a lock, so that two programs at once apply them once.
 */
import { and, eq, getTableName, or, sql } from 'drizzle-orm';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { boolean, integer, pgSchema, type PgTable, text } from 'drizzle-orm/pg-core';
import { TidemarkError } from '../../core/errors.ts';
import { packageFile } from '../../core/package-root.ts';
import type { Connections, Database, Transaction } from './connection.ts';
import { querySchema, queueVersions, registrySchema, schemaVersions } from './schema.ts';

interface Migration {
  readonly sql: readonly string[];
  readonly hash: string;
}

/**
 * The oldest schema version whose programs can work with the newest schema of this program. It need not change for
 * migrations that only add tables, views, and columns with a default.
 */
const COMPATIBLE_FROM = 1;

/** Number of the PostgreSQL advisory lock, which all programs of a cluster share: "TDMK". */
const LOCK = 0x54444d4b;

/** The role that may read the views and nothing else. */
export const READER_ROLE = 'tidemark_reader';

interface SchemaState {
  /** 0 if there is no registry. */
  readonly version: number;
  /** The version that this program needs. */
  readonly latest: number;
}

/** @internal */
export function shippedMigrations(): readonly Migration[] {
  return readMigrationFiles({ migrationsFolder: packageFile('drizzle-fleet') });
}

/**
 * The schema's version.
 * @throws TidemarkError `registry_newer` if this program is too old for it, `registry_version` if it was made by other
 * migrations
 */
export async function schemaState(
  db: Database | Transaction,
  place: string,
  all: readonly Migration[] = shippedMigrations(),
): Promise<SchemaState> {
  const latest = all.length;
  if (!(await hasTables(db))) return { version: 0, latest };
  const applied = await db.select().from(schemaVersions).orderBy(schemaVersions.version);
  const newest = applied.at(-1);
  if (newest === undefined) return { version: 0, latest };
  if (newest.version > latest && newest.compatibleFrom > latest) {
    throw new TidemarkError(
      'registry_newer',
      `the registry ${place} was changed by a newer Tidemark (schema ${newest.version}, this one works up to ${latest})`,
      { hint: 'update Tidemark on this machine' },
    );
  }
  const isKnown = applied.every(({ hash, version }) => version > latest || all[version - 1]?.hash === hash);
  if (!isKnown || applied.length !== newest.version) {
    throw new TidemarkError(
      'registry_version',
      `the registry ${place} was made by another version of Tidemark`,
      {
        hint: 'use the version that made it, or another database',
      },
    );
  }
  return { version: newest.version, latest };
}

/**
 * Brings the schema up to date. Programs of the previous version continue to work (`COMPATIBLE_FROM`).
 * @returns the versions before and after
 */
export async function migrate(
  { db, place }: Connections,
  all: readonly Migration[] = shippedMigrations(),
  compatibleFrom: number = COMPATIBLE_FROM,
): Promise<{ readonly from: number; readonly to: number }> {
  return db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${LOCK})`);
    const { version } = await schemaState(tx, place, all);
    if (version >= all.length) return { from: version, to: version };
    for (const [index, migration] of all.entries()) {
      if (index < version) continue;
      for (const statement of migration.sql) await apply(tx, statement);
      await tx.insert(schemaVersions).values({ version: index + 1, hash: migration.hash, compatibleFrom });
    }
    await grantReader(tx);
    return { from: version, to: all.length };
  });
}

async function apply(tx: Transaction, statement: string): Promise<void> {
  // A user without the right to create schemas has them created by an administrator.
  const schema = /^\s*CREATE SCHEMA "(\w+)"/.exec(statement)?.[1];
  if (schema !== undefined) {
    const found = await tx.select().from(namespaces).where(eq(namespaces.name, schema));
    if (found.length > 0) return;
  }
  await tx.execute(sql.raw(statement));
}

// PostgreSQL's own tables. Functions such as to_regclass may answer from a cache that is older than the lock.
const catalog = pgSchema('pg_catalog');
const tables = catalog.table('pg_tables', { schema: text('schemaname'), name: text('tablename') });
const namespaces = catalog.table('pg_namespace', { name: text('nspname') });
const roles = catalog.table('pg_roles', {
  name: text('rolname'),
  isSuperuser: boolean('rolsuper'),
  mayCreateRoles: boolean('rolcreaterole'),
});

async function hasTables(
  db: Database | Transaction,
  { schemaName }: { readonly schemaName: string } = registrySchema,
  table: PgTable = schemaVersions,
): Promise<boolean> {
  const isTable = and(eq(tables.schema, schemaName), eq(tables.name, getTableName(table)));
  return (await db.select().from(tables).where(isTable)).length > 0;
}

/** The schema of pg-boss (queue.ts), with the table in which it keeps its version. */
export const queueSchema = pgSchema('tidemark_queue');
const queueVersion = queueSchema.table('version', { version: integer('version').notNull() });

/**
 * Checks the version of the queue's schema, if there is a queue.
 * @throws TidemarkError `registry_newer` if it is newer than `own`, and not known to be compatible with it
 * (`noteQueueVersion`)
 */
export async function checkQueueVersion(db: Database, place: string, own: number): Promise<void> {
  if (!(await hasTables(db, queueSchema, queueVersion))) return;
  const [row] = await db
    .select({ version: queueVersion.version, compatibleFrom: queueVersions.compatibleFrom })
    .from(queueVersion)
    .leftJoin(queueVersions, eq(queueVersions.version, queueVersion.version));
  if (row === undefined || row.version <= own || (row.compatibleFrom ?? row.version) <= own) return;
  throw new TidemarkError(
    'registry_newer',
    `the queue of the registry ${place} was changed by a newer Tidemark (pg-boss schema ${row.version}, this one works up to ${own})`,
    { hint: 'update Tidemark on this machine' },
  );
}

/** Records which older programs can work with this version of the queue's schema. */
export async function noteQueueVersion(db: Database, version: number, compatibleFrom: number): Promise<void> {
  await db
    .insert(queueVersions)
    .values({ version, compatibleFrom })
    .onConflictDoUpdate({ target: queueVersions.version, set: { compatibleFrom } });
}

/**
 * Lets the reader role read the views, and creates it if this user may. Otherwise an administrator has to create and
 * grant it; until then, `fleet sql` is limited by its own checks and by read-only transactions.
 */
async function grantReader(tx: Transaction): Promise<void> {
  const role = sql.identifier(READER_ROLE);
  const schema = sql.identifier(querySchema.schemaName);
  const known = await tx
    .select()
    .from(roles)
    .where(or(eq(roles.name, sql`current_user`), eq(roles.name, READER_ROLE)));
  if (!known.some(({ name }) => name === READER_ROLE)) {
    if (!known.some((own) => own.isSuperuser === true || own.mayCreateRoles === true)) return;
    await tx.execute(sql`create role ${role} nologin`);
    await tx.execute(sql`grant ${role} to current_user`);
  }
  await tx.execute(sql`grant usage on schema ${schema} to ${role}`);
  await tx.execute(sql`grant select on all tables in schema ${schema} to ${role}`);
}
