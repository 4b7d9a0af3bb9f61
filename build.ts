/**
 * Bundles the program into `dist/` for the container and the package: one entry, a chunk per command, so that start-up
 * loads little. Native code stays outside: better-sqlite3 brings its own binaries. Workers (`NAME-worker.ts`), threads and
 * processes, are started by file name, so each is an entry of its own. The manual page is written beside them.
 */
import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { build } from 'esbuild';
import { manPage } from './src/cli/man-page.ts';
import { programVersion } from './src/core/version.ts';

const workers = globSync('src/**/*-worker.ts').map((file) => [basename(file, '.ts'), file] as const);

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: { main: 'src/main.ts', ...Object.fromEntries(workers) },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  chunkNames: 'chunks/[name]-[hash]',
  external: ['better-sqlite3'],
  minifyWhitespace: true,
  minifySyntax: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
  // Some dependencies are CommonJS and call require for Node's own modules.
  banner: {
    js: "import { createRequire as createTidemarkRequire } from 'node:module'; const require = createTidemarkRequire(import.meta.url);",
  },
});

mkdirSync('dist/man');
writeFileSync('dist/man/tidemark.1', manPage(programVersion()));
