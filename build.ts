/**
 * Bundles the program into `dist/` for the container and the package: one entry, a chunk per command, so that start-up
 * loads little. Native code stays outside: better-sqlite3 brings its own binaries. Workers (`NAME-worker.ts`), threads and
 * processes, are started by file name, so each is an entry of its own. The manual page is written beside them.
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { COMMANDS } from './src/cli/command-table.ts';
import { manPage } from './src/cli/man.ts';
import { programVersion } from './src/core/package-root.ts';

/** Bundles the program into `directory`, which is emptied first. */
export async function buildProgram(directory: string): Promise<void> {
  const workers = globSync('src/**/*-worker.ts', { cwd: import.meta.dirname }).map(
    (file) => [basename(file, '.ts'), join(import.meta.dirname, file)] as const,
  );
  rmSync(directory, { recursive: true, force: true });
  const { metafile } = await build({
    metafile: true,
    entryPoints: { main: join(import.meta.dirname, 'src/main.ts'), ...Object.fromEntries(workers) },
    outdir: directory,
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
    logLevel: 'warning',
    // Some dependencies are CommonJS and call require for Node's own modules.
    banner: {
      js: "import { createRequire as createTidemarkRequire } from 'node:module'; const require = createTidemarkRequire(import.meta.url);",
    },
  });
  mkdirSync(join(directory, 'man'));
  writeFileSync(join(directory, 'man/tidemark.1'), manPage(programVersion(), COMMANDS));
  writeFileSync(join(directory, 'THIRD-PARTY-LICENSES.txt'), licensesOf(metafile));
}

/** The licenses of the packages in the bundle: most of them have to go with every copy of the code. */
function licensesOf({ inputs }: Metafile): string {
  const packages = Object.keys(inputs).flatMap(
    (path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [],
  );
  return [...new Set(packages)]
    .sort()
    .map((path) => {
      const directory = join(import.meta.dirname, path);
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
