import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import Database from 'better-sqlite3';
import { getTableConfig } from 'drizzle-orm/sqlite-core';
import { describe, expect, it } from 'vitest';
import { packageFile } from '../../src/core/package-root.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { kindTable } from '../../src/mirror/kind-table.ts';
import { translated } from '../../src/mirror/database.ts';
import { migrate, schemaDifferences, shippedMigrations } from '../../src/mirror/migrations.ts';
import { missingMigrations } from '../tools/check-migrations.ts';
import { ORG, bodies, open, sync, temporaryDirectory } from './fixture.ts';

describe('the migrations', () => {
  it('hold everything that the schema has', () => {
    expect(missingMigrations('./src/mirror/schema/*.ts')).toEqual([]);
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
    expect(missingMigrations(relative(packageFile(), schema))).toEqual([
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

  it('give every kind its table with every documented field', () => {
    const mirror = open();
    const file = new Database(mirror.path, { readonly: true });
    for (const definition of CATALOG) {
      const columns = file.pragma(`table_xinfo("${definition.kind}")`) as { name: string }[];
      const expected = getTableConfig(kindTable(definition.kind)).columns.map(({ name }) => name);
      expect(columns.map(({ name }) => name)).toEqual(expected);
      expect(expected).toEqual(
        expect.arrayContaining([
          '_record',
          '_collection',
          '_remote_id',
          '_run',
          'body',
          ...definition.fields.map((f) => f.name),
        ]),
      );
    }
    file.close();
  });
});

describe('the schema check', () => {
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
    expect(file.prepare('SELECT _remote_id FROM roles').pluck().all()).toEqual(['r1']);
    expect(file.pragma('foreign_keys', { simple: true })).toBe(1);
    file.close();
    const copy = `${path}.before-${all.length - 1}`;
    expect((statSync(copy).mode & 0o777).toString(8)).toBe('600');
    expect(bodies(open({ path: copy, mode: 'read' }), 'roles')).toEqual({ r1: '{"id":"r1"}' });
    // For this version it is now a newer mirror.
    expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'mirror_newer' }));
  });

  it.each([
    ['breaks off', { sql: [...next.sql, 'CREATE TABLE nonsense'] }, 'internal'],
    ['leaves references without their row', { sql: ['DELETE FROM sources'] }, 'mirror_corrupt'],
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
