/**
 * The program bundled for a test of the docs, as `build.ts` bundles it for users: its pages start it some hundred times, and
 * from the sources each start takes five times as long.
 */
import { globSync, mkdirSync, mkdtempSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Bundles into a new directory below node_modules, so that what stays outside is found from there. */
export async function bundle(): Promise<{ readonly directory: string; readonly program: string }> {
  const cache = join(root, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const directory = mkdtempSync(join(cache, 'tidemark-docs-'));
  const workers = globSync('src/**/*-worker.ts', { cwd: root }).map(
    (file) => [basename(file, '.ts'), join(root, file)] as const,
  );
  await build({
    entryPoints: { main: join(root, 'src/main.ts'), ...Object.fromEntries(workers) },
    outdir: directory,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22',
    external: ['better-sqlite3'],
    logLevel: 'error',
    banner: {
      js: "import { createRequire as createTidemarkRequire } from 'node:module'; const require = createTidemarkRequire(import.meta.url);",
    },
  });
  return { directory, program: join(directory, 'main.js') };
}
