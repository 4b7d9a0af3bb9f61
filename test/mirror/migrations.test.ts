import { createHash } from 'node:crypto';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { packageFile } from '../../src/core/package-root.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { translated } from '../../src/mirror/database.ts';
import {
  SCHEMA_DIGEST,
  migrate,
  schemaDifferences,
  schemaDigest,
  shippedMigrations,
} from '../../src/mirror/migrations.ts';
import { missingMigrations } from '../tools/check-migrations.ts';
import { ORG, bodies, open, sync, temporaryDirectory } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

describe('the migrations', () => {
  it('hold everything that the schema has', () => {
    expect(missingMigrations('mirror')).toEqual([]);
  });

  it('are found missing by the check when the schema moves on', () => {
    const schema = join(temporaryDirectory(), 'schema.ts');
    const directory = packageFile('src', 'mirror', 'schema');
    const originals = readdirSync(directory).map((file) =>
      relative(join(schema, '..'), join(directory, file)),
    );
    writeFileSync(
      schema,
      `import { integer, sqliteTable } from '${packageFile('node_modules', 'drizzle-orm', 'sqlite-core')}';
${originals.map((original) => `export * from '${original}';`).join('\n')}
export const extra = sqliteTable('extra', { id: integer('id').primaryKey() });`,
    );
    expect(missingMigrations('mirror', relative(packageFile(), schema))).toEqual([
      expect.stringMatching(/_missing\.sql$/),
    ]);
  });

  it('keep every table with a composite or text key free of a second b-tree', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const file = new Database(path);
    const tables = file
      .prepare<[], { name: string; wr: number }>(
        `SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'`,
      )
      .all();
    const doubled = tables.filter(({ name, wr }) => {
      if (wr === 1 || name.startsWith('sqlite_')) return false;
      const columns = file.pragma(`table_info("${name}")`) as { pk: number; type: string }[];
      const keys = columns.filter(({ pk }) => pk > 0);
      return keys.length !== 1 || keys[0]?.type.toLowerCase() !== 'integer';
    });
    expect(doubled).toEqual([]);
    file.close();
  });
});

describe('the views of kinds', () => {
  const columnsOf = (path: string, kind: string): Record<string, string> => {
    const file = new Database(path, { readonly: true });
    const columns = file.pragma(`table_info("${kind}")`) as { name: string; type: string }[];
    file.close();
    return Object.fromEntries(columns.map(({ name, type }) => [name, type]));
  };

  it('have every documented field as a typed column, and no secret', () => {
    const mirror = open();
    const shared = ['id', 'name', 'source', 'organization_id', 'organization', 'project_id'];
    for (const { kind, fields, scope } of CATALOG) {
      const columns = columnsOf(mirror.path, kind);
      expect(Object.keys(columns), kind).toEqual(
        expect.arrayContaining([...shared, ...scope, 'first_seen_at', 'last_changed_at', 'body']),
      );
      for (const { name, type, isSecret } of fields) {
        if (isSecret && name !== 'id') expect(columns, `${kind}.${name}`).not.toHaveProperty(name);
        else expect(columns, `${kind}.${name}`).toHaveProperty(name);
        if (type === 'boolean') expect(columns[name]).toBe('INT');
        if (type === 'number') expect(columns[name]).toBe('REAL');
        if (type === 'timestamp') expect(columns[name]).toBe('TEXT');
      }
      // Of any type as received: without one.
      const untyped = fields.filter(({ type }) => type === 'any').map(({ name }) => name);
      for (const [name, type] of Object.entries(columns))
        if (!untyped.includes(name)) expect([`${kind}.${name}`, type]).not.toContain('');
    }
    expect(Object.values(columnsOf(mirror.path, 'changes'))).not.toContain('');
    expect(columnsOf(mirror.path, 'projects')).not.toHaveProperty('secret_api_token');
    expect(columnsOf(mirror.path, 'members')).toMatchObject({ id: 'TEXT', field_id: 'TEXT', name: 'TEXT' });
  });

  it('are made again when the catalog describes others, and dropped with their kind', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    mirror.close();
    const file = new Database(mirror.path);
    const text = file
      .prepare<[], string>(`SELECT sql FROM sqlite_master WHERE name = 'roles'`)
      .pluck()
      .get()!;
    const older = `SELECT r.remote_id AS old FROM records r`;
    const digest = createHash('sha256').update(older).digest('hex').slice(0, 16);
    const made = (name: string): string => `CREATE VIEW ${name} AS /* from the catalog ${digest} */ ${older}`;
    file.exec(`DROP VIEW roles; ${made('roles')}; ${made('former_kind')}`);
    file.close();
    // Whoever reads takes them as they are: a Tidemark made them, if another one.
    expect((await open({ path: mirror.path, mode: 'read' }).verify()).problems).toEqual([]);
    open({ path: mirror.path }).close();
    const again = new Database(mirror.path, { readonly: true });
    expect(again.prepare(`SELECT sql FROM sqlite_master WHERE name = 'roles'`).pluck().get()).toBe(text);
    expect(again.prepare(`SELECT 1 FROM sqlite_master WHERE name = 'former_kind'`).get()).toBeUndefined();
    again.close();
    expect((await open({ path: mirror.path }).verify()).problems).toEqual([]);
  });

  it.each([
    ['missing', 'DROP VIEW roles', ['view roles is missing']],
    [
      'altered',
      `DROP VIEW roles; CREATE VIEW roles AS /* from the catalog 0123456789abcdef */ SELECT 1 AS id`,
      ['view roles is not as it should be'],
    ],
    [
      'replaced',
      'DROP VIEW roles; CREATE VIEW roles AS SELECT 1 AS id',
      ['view roles does not belong there', 'view roles is missing'],
    ],
  ])('are found %s by a verification, and made again', async (how, sql, messages) => {
    const mirror = open();
    mirror.close();
    alterFile(mirror.path, sql);
    expect((await open({ path: mirror.path, mode: 'read' }).verify()).problems).toEqual(
      messages.map((message) => ({
        kind: 'schema',
        message,
        remedy:
          'the views are created again when this result is recorded, or else by the next command that writes, such as `tidemark sync`',
      })),
    );
    const writer = open({ path: mirror.path });
    expect(writer.takeRestored()).toEqual(how === 'missing' ? [] : ['view roles']);
    expect((await writer.verify()).problems).toEqual([]);
  });
});

describe('the schema check', () => {
  it('knows the digest of what the migrations make', () => {
    const mirror = open();
    mirror.close();
    const file = new Database(mirror.path);
    expect(schemaDigest(file)).toBe(SCHEMA_DIGEST);
    file.close();
  });

  it('names what is missing, different or too much', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    mirror.close();
    const file = new Database(mirror.path);
    expect(schemaDifferences(file)).toEqual([]);
    file.exec('DROP TABLE snapshots; CREATE TABLE stray (x);');
    file.exec('DROP VIEW removed_records; CREATE VIEW removed_records AS SELECT 1');
    expect(schemaDifferences(file).sort()).toEqual([
      'table snapshots is missing',
      'table stray does not belong there',
      'view removed_records is not as it should be',
    ]);
    file.close();
  });
});

describe('upgrading an older mirror', () => {
  const next = {
    hash: 'next',
    sql: ['ALTER TABLE snapshots ADD COLUMN note TEXT', 'CREATE TABLE extra (id INTEGER PRIMARY KEY)'],
  };

  async function olderMirror(): Promise<string> {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
    mirror.close();
    return mirror.path;
  }

  it('applies what is new, keeps a copy from before, and loses nothing', async () => {
    const path = await olderMirror();
    const all = [...shippedMigrations(), next];
    const file = new Database(path);
    migrate(file, path, all);
    expect(file.pragma('user_version', { simple: true })).toBe(all.length);
    expect(schemaDifferences(file, all)).toEqual([]);
    expect(file.prepare('SELECT id FROM roles').pluck().all()).toEqual(['r1']);
    expect(file.pragma('foreign_keys', { simple: true })).toBe(1);
    file.close();
    const copy = `${path}.before-${all.length - 1}`;
    expect((statSync(copy).mode & 0o777).toString(8)).toBe('600');
    expect(bodies(open({ path: copy, mode: 'read' }), 'roles')).toEqual({ r1: '{"id":"r1"}' });
    // For this version it is now a newer mirror.
    expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'mirror_newer' }));
  });

  it.each([
    ['breaks off', { hash: 'next', sql: [...next.sql, 'CREATE TABLE nonsense'] }, 'internal'],
    ['leaves references without their row', { hash: 'next', sql: ['DELETE FROM sources'] }, 'mirror_corrupt'],
  ])('that %s leaves it as it was', async (_name, migration, code) => {
    const path = await olderMirror();
    const file = new Database(path);
    const all = [...shippedMigrations(), migration];
    expect(() => translated(path, () => migrate(file, path, all))).toThrow(expect.objectContaining({ code }));
    file.close();
    expect(bodies(open({ path }), 'roles')).toEqual({ r1: '{"id":"r1"}' });
  });

  it('does not trust a schema that somebody changed', async () => {
    const path = await olderMirror();
    const file = new Database(path);
    file.exec('DROP VIEW removed_records');
    expect(() => migrate(file, path, [...shippedMigrations(), next])).toThrow(
      expect.objectContaining({
        code: 'mirror_corrupt',
        message: expect.stringContaining('removed_records') as string,
      }),
    );
    expect(file.pragma('user_version', { simple: true })).toBe(shippedMigrations().length);
    file.close();
  });
});
