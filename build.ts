/**
 * Bundles the program into `dist/` for the container and the package: one entry, a chunk per command, so that start-up
 * loads little. Native code stays outside: better-sqlite3 brings its own binaries. Workers (`NAME-worker.ts`), threads and
 * processes, are started by file name, so each is an entry of its own. The manual page is written beside them.
 */
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { build, type BuildOptions, type CodeSplittingGroup, type RolldownOutput } from 'rolldown';
import { COMMANDS } from './src/cli/command-table.ts';
import { manPage } from './src/cli/man.ts';
import { programVersion } from './src/core/package-root.ts';

type ModuleGraph = Parameters<Exclude<CodeSplittingGroup['name'], string>>[1];

const MAIN = join(import.meta.dirname, 'src/main.ts');
const PROGRAM = join(import.meta.dirname, 'src/cli/program.ts');
/** Threads and processes of their own. They may run beside others, and so stay small. */
const WORKERS = globSync('src/**/*-worker.ts', { cwd: import.meta.dirname }).map((path) =>
  join(import.meta.dirname, path),
);

/**
 * Node takes a millisecond to find and link a file, and without these groups a command would be made of 110. What every
 * start loads is together, and what most commands share is. Of both, what a worker loads is apart: it would load the rest too.
 */
const GROUPS: CodeSplittingGroup[] = [
  {
    name: (module, graph) => (isOfEachStart(module, graph) ? chunkName('start', module, graph) : null),
    debugName: 'start',
    priority: 1,
  },
  // The entries that share a module are, above all, commands.
  {
    name: (module, graph) => chunkName('common', module, graph),
    debugName: 'common',
    minShareCount: 20,
  },
];

/** `main.ts` checks Node's version first, with what any version can load: so what it imports stays out. */
function isOfEachStart(module: string, graph: ModuleGraph): boolean {
  return importsOf(PROGRAM, graph).has(module) && !importsOf(MAIN, graph).has(module);
}

function chunkName(group: string, module: string, graph: ModuleGraph): string {
  const workers = WORKERS.filter((worker) => importsOf(worker, graph).has(module));
  return [group, ...workers.map((worker) => basename(worker, '-worker.ts'))].join('-');
}

/** `module` and what it imports, other than on demand. */
function importsOf(module: string, graph: ModuleGraph, found = new Set<string>()): Set<string> {
  if (found.has(module)) return found;
  found.add(module);
  for (const imported of graph.getModuleInfo(module)?.importedIds ?? []) importsOf(imported, graph, found);
  return found;
}

/** How everything is bundled that Node runs: the program, and those that tests start and kill. */
export function bundle(
  paths: readonly string[],
  directory: string,
  output: BuildOptions['output'] = {},
): Promise<RolldownOutput> {
  return build({
    input: [...paths],
    platform: 'node',
    transform: { target: 'node22' },
    // bowser: the AWS SDK loads it in browsers only.
    external: ['better-sqlite3', 'bowser'],
    preserveEntrySignatures: 'allow-extension',
    logLevel: 'warn',
    // Modules that a command loads on demand and another needs at once.
    checks: { ineffectiveDynamicImport: false },
    output: { dir: directory, format: 'esm', ...output },
  });
}

/**
 * Bundles the program into `directory`. What was in it is replaced at the end: a command that cron starts meanwhile finds the
 * program of before.
 */
export async function buildProgram(directory: string): Promise<void> {
  const [made, old] = [`${directory}.new-${process.pid}`, `${directory}.old-${process.pid}`];
  try {
    await buildInto(made);
    if (existsSync(directory)) renameSync(directory, old);
    renameSync(made, directory);
  } finally {
    for (const left of [made, old]) rmSync(left, { recursive: true, force: true });
  }
}

/** @param directory not there yet */
async function buildInto(directory: string): Promise<void> {
  const { output } = await bundle([MAIN, ...WORKERS], directory, {
    chunkFileNames: 'chunks/[name]-[hash].js',
    // The names stay, for stack traces.
    minify: { compress: true, mangle: false, codegen: true },
    // Annotations are for other bundlers.
    comments: { legal: true, annotation: false, jsdoc: false },
    // The maps are not in the package: no file names one.
    sourcemap: 'hidden',
    sourcemapExcludeSources: true,
    codeSplitting: { includeDependenciesRecursively: false, groups: GROUPS },
  });
  // npx and npm link make the file executable only when they make the link.
  chmodSync(join(directory, 'main.js'), 0o755);
  mkdirSync(join(directory, 'man'));
  writeFileSync(join(directory, 'man/tidemark.1'), manPage(programVersion(), COMMANDS));
  writeFileSync(join(directory, 'THIRD-PARTY-LICENSES.txt'), licensesOf(output));
}

/**
 * The licenses of the packages in the bundle: most of them have to go with every copy of the code. Each text once, however its lines
 * are wrapped, below the packages that it is of, with their own lines of copyright.
 */
function licensesOf(output: RolldownOutput['output']): string {
  const modules = output.flatMap((part) => (part.type === 'chunk' ? part.moduleIds : []));
  const packages = modules.flatMap((path) => /^\/.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? []);
  const licensed = [...new Set(packages)].sort().map((path) => {
    const { name, version, license } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as Record<
      string,
      string
    >;
    const files = globSync(['LICEN[CS]E*', 'licen[cs]e*'], { cwd: path }).sort();
    const lines = files.flatMap((file) => readFileSync(join(path, file), 'utf8').trim().split(/\r?\n/));
    const own = lines.filter((line) => COPYRIGHT.test(line)).map((line) => line.trim());
    const text = lines
      .filter((line) => !COPYRIGHT.test(line) && !TITLE.test(line))
      .join('\n')
      .trim();
    return { heading: [`${name} ${version} (${license})`, ...own].join('\n  '), text };
  });
  return [...Map.groupBy(licensed, ({ text }) => text.toLowerCase().replace(/[^a-z0-9]+/g, ' ')).values()]
    .map((same) => `${same.map(({ heading }) => heading).join('\n')}\n\n${same[0]!.text}`)
    .join(`\n\n${'-'.repeat(80)}\n\n`);
}

/** Lines that are of one package. */
const COPYRIGHT = /^\s*copyright\s+(?:\(c\)|©|\d)/i;
/** The name of a license, which the package's line has. */
const TITLE = /^\W*(?:the )?(?:MIT|ISC) licen[cs]e\b[^a-z]*(?:\(MIT\))?\W*$/i;

if (import.meta.main) await buildProgram(join(import.meta.dirname, 'dist'));
