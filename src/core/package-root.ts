/** This package: its version, and its files, which are found from `src/` and from the bundled `dist/`. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Absolute path of a file that ships with the package, e.g. `packageFile('drizzle')`. */
export function packageFile(...parts: string[]): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('package.json not found above the program');
    directory = parent;
  }
  return join(directory, ...parts);
}

/** Read once for a process: it is the version of the code that runs, whatever is installed meanwhile. */
let version: string | null = null;

/** E.g. `0.1.0`. */
export function programVersion(): string {
  version ??= (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version;
  return version;
}

/** Where a program that runs from sources finds built workers; null until somebody builds them. */
let builtWorkers: string | null = null;

/**
 * From now on, a program that runs from sources starts the workers of the program built in `directory`: from their sources
 * each would load, and strip of its types, everything that it imports, a second of the processor.
 * @internal
 */
export function useWorkersOf(directory: string): void {
  builtWorkers = directory;
}

/**
 * The file of a worker, e.g. `mirror/checkpoint-worker`. Beside the running program where that was built, whose parts
 * are in `chunks/`; the source, whose types Node strips, where the program runs from sources (but see `useWorkersOf`).
 */
export function workerFile(worker: string): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const isSource = import.meta.url.endsWith('.ts');
  const directory = isSource ? builtWorkers : basename(here) === 'chunks' ? dirname(here) : here;
  const built = directory === null ? null : join(directory, `${basename(worker)}.js`);
  return built !== null && existsSync(built) ? built : packageFile('src', ...`${worker}.ts`.split('/'));
}
