/**
 * Bundles the program into `dist/` for the container and the package: one entry, a chunk per command, so that start-up
 * loads little. Native code stays outside: better-sqlite3 brings its own binaries. Workers (`NAME-worker.ts`), threads and
 * processes, are started by file name, so each is an entry of its own. The manual page is written beside them.
 */
import { globSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { basename } from 'node:path';
import type { Plugin } from 'esbuild';
import { build } from 'esbuild';
import { manPage } from './src/cli/man-page.ts';
import { programVersion } from './src/core/version.ts';

const workers = globSync('src/**/*-worker.ts').map((file) => [basename(file, '.ts'), file] as const);

/**
 * Node's own modules, taken as they are instead of imported: for an import Node reads every one of their members, and with
 * that loads what hides behind some of them (of `process` the standard streams, of `util` a comparison of texts), some
 * 10 ms at each start. Commander's way to start subcommands that are programs of their own waits until it is used: never.
 */
const builtins: Plugin = {
  name: 'builtins',
  setup(bundle) {
    bundle.onResolve({ filter: /^[a-z:_/]+$/ }, ({ path, kind, importer }) => {
      if (!isBuiltin(path) || kind !== 'import-statement') return undefined;
      const isUnused = /child_process$/.test(path) && /[/\\]commander[/\\]/.test(importer);
      return { path, namespace: isUnused ? 'unused' : 'builtin' };
    });
    bundle.onLoad({ filter: /./, namespace: 'builtin' }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
    bundle.onLoad({ filter: /./, namespace: 'unused' }, ({ path }) => ({
      contents: `module.exports = new Proxy({}, { get: (_target, name) => process.getBuiltinModule(${JSON.stringify(path)})[name] });`,
    }));
  },
};

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
  plugins: [builtins],
  // Some dependencies are CommonJS and call require for Node's own modules.
  banner: {
    js: "import { createRequire as createTidemarkRequire } from 'node:module'; const require = createTidemarkRequire(import.meta.url);",
  },
});

mkdirSync('dist/man');
writeFileSync('dist/man/tidemark.1', manPage(programVersion()));
