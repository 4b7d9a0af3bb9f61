/**
 * Bundles the program into `dist/` for the container and the package: one entry, and chunks that are loaded with the commands
 * that need them. Native code stays outside: better-sqlite3 brings its own binaries. Workers (`NAME-worker.ts`), threads and
 * processes, are started by file name, so each is an entry of its own. The manual page is written beside them.
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type OutputChunk, rolldown } from 'rolldown';
import { COMMANDS } from './src/cli/command-table.ts';
import { manPage } from './src/cli/man.ts';
import { programVersion } from './src/core/package-root.ts';

/**
 * What this many of the commands and workers load is one chunk. Left alone, the bundler makes one for each set of modules that
 * are loaded together, and `status` waits longer for Node to find and link a hundred files than for all that it does itself.
 */
const SHARED_CHUNKS = [
  { name: 'shared', minShareCount: 35, priority: 2 },
  { name: 'common', minShareCount: 12, priority: 1 },
];

/** Bundles the program into `directory`, which is emptied first. */
export async function buildProgram(directory: string): Promise<void> {
  const workers = globSync('src/**/*-worker.ts', { cwd: import.meta.dirname }).map(
    (file) => [basename(file, '.ts'), join(import.meta.dirname, file)] as const,
  );
  rmSync(directory, { recursive: true, force: true });
  const bundle = await rolldown({
    input: { main: join(import.meta.dirname, 'src/main.ts'), ...Object.fromEntries(workers) },
    platform: 'node',
    transform: { target: 'node22' },
    external: [/^better-sqlite3/],
    onLog: (level, log, handle) => {
      // A module that one command loads late and another one at once.
      if (log.code !== 'INEFFECTIVE_DYNAMIC_IMPORT') handle(level, log);
    },
  });
  const { output } = await bundle.write({
    dir: directory,
    format: 'esm',
    chunkFileNames: 'chunks/[name]-[hash].js',
    codeSplitting: { groups: SHARED_CHUNKS },
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    sourcemap: true,
    sourcemapExcludeSources: true,
  });
  await bundle.close();
  const chunks = output.filter((each) => each.type === 'chunk');
  mkdirSync(join(directory, 'man'));
  writeFileSync(join(directory, 'man/tidemark.1'), manPage(programVersion(), COMMANDS));
  writeFileSync(join(directory, 'THIRD-PARTY-LICENSES.txt'), licensesOf(chunks));
}

/** The licenses of the packages in the bundle: most of them have to go with every copy of the code. */
function licensesOf(chunks: readonly OutputChunk[]): string {
  const packages = chunks
    .flatMap(({ moduleIds }) => moduleIds)
    .flatMap((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []);
  return [...new Set(packages)]
    .sort()
    .map((directory) => {
      const { name, version, license } = JSON.parse(
        readFileSync(join(directory, 'package.json'), 'utf8'),
      ) as Record<string, string>;
      const files = globSync(['LICEN[CS]E*', 'licen[cs]e*'], { cwd: directory }).sort();
      const texts = files.map((file) => readFileSync(join(directory, file), 'utf8').trim());
      return [`${name} ${version} (${license})`, ...texts].join('\n\n');
    })
    .join(`\n\n${'-'.repeat(80)}\n\n`);
}

if (import.meta.main) await buildProgram(join(import.meta.dirname, 'dist'));
