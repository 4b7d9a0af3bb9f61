/**
 * `npm run migrations:check`: ends with 1 when src/mirror/schema/ holds changes that no migration in drizzle/ has.
 * drizzle-kit generates into a copy; what it adds there is what is missing.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { packageFile } from '../../src/core/package-root.ts';

/** Names of the migrations that drizzle-kit would add for this schema. */
export function missingMigrations(schema: string): string[] {
  const root = packageFile();
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-migrations-'));
  try {
    const out = join(directory, 'drizzle');
    cpSync(packageFile('drizzle'), out, { recursive: true });
    const before = new Set(readdirSync(out));
    const kit = packageFile('node_modules', 'drizzle-kit', 'bin.cjs');
    const options = [
      `--dialect=sqlite`,
      `--schema=${schema}`,
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
  const missing = missingMigrations('./src/mirror/schema/*.ts');
  if (missing.length > 0) {
    process.stderr.write(
      'src/mirror/schema/ has changes without a migration: run `npm run migrations:generate`\n',
    );
    process.exitCode = 1;
  }
}
