/**
 * Bundles the program into `dist/` for the container and the package: one entry, a chunk per command, so that start-up
 * loads little. Native code stays outside: better-sqlite3 brings its own binaries.
 */
import { rmSync } from 'node:fs';
import { build } from 'esbuild';

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: { main: 'src/main.ts', 'checkpoint-worker': 'src/mirror/checkpoint-worker.ts' },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node22',
  chunkNames: 'chunks/[name]-[hash]',
  external: ['better-sqlite3'],
  sourcemap: true,
  sourcesContent: false,
  legalComments: 'linked',
  // Some dependencies are CommonJS and call require for Node's own modules.
  banner: {
    js: "import { createRequire as createTidemarkRequire } from 'node:module'; const require = createTidemarkRequire(import.meta.url);",
  },
});
