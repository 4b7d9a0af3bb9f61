/**
 * `npm run migrations:check`: ends with 1 when a schema holds changes that no migration has: src/mirror/schema/ and drizzle/
 * (SQLite), src/fleet/registry/schema.ts and drizzle-fleet/ (PostgreSQL). drizzle-kit generates into a copy; what it adds there
 * is what is missing.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { packageFile } from '../../src/core/package-root.ts';

const DATABASES = {
  mirror: { dialect: 'sqlite', schema: './src/mirror/schema/*.ts', migrations: 'drizzle' },
  fleet: { dialect: 'postgresql', schema: './src/fleet/registry/schema.ts', migrations: 'drizzle-fleet' },
} as const;

/**
 * Names of the migrations that drizzle-kit would add.
 * @param schema in place of the database's own
 */
export function missingMigrations(database: keyof typeof DATABASES, schema?: string): string[] {
  const { dialect, migrations, schema: own } = DATABASES[database];
  const root = packageFile();
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-migrations-'));
  try {
    const out = join(directory, 'drizzle');
    cpSync(packageFile(migrations), out, { recursive: true });
    const before = new Set(readdirSync(out));
    const kit = packageFile('node_modules', 'drizzle-kit', 'bin.cjs');
    const options = [
      `--dialect=${dialect}`,
      `--schema=${schema ?? own}`,
      `--out=${relative(root, out)}`,
      '--name=missing',
    ];
    const result = spawnSync(process.execPath, [kit, 'generate', ...options], {
      cwd: root,
      encoding: 'utf8',
    });
    if (result.status !== 0) throw new Error(`drizzle-kit failed: ${result.stderr}${result.stdout}`);
    return readdirSync(out).filter((name) => !before.has(name));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  for (const database of ['mirror', 'fleet'] as const) {
    if (missingMigrations(database).length === 0) continue;
    const { schema } = DATABASES[database];
    process.stderr.write(`${schema} has changes without a migration: run \`npm run migrations:generate\`\n`);
    process.exitCode = 1;
  }
}
