/** The version and the files of this package, both for `src/` and the bundled `dist/`. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The absolute path of a file of the package, e.g. `packageFile('drizzle')`. */
export function packageFile(...parts: string[]): string {
  let directory = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('package.json not found above the program');
    directory = parent;
  }
  return join(directory, ...parts);
}

/** Read once per process: the version of the running code, whatever is installed later. */
let version: string | null = null;

/** E.g. `0.1.0`. */
export function programVersion(): string {
  version ??= (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version;
  return version;
}

/** The directory with built workers for a program that runs from sources; null until they are built. */
let builtWorkers: string | null = null;

/**
 * From now on, a program that runs from sources starts the workers built in `directory`. From sources, each worker
 * would have to load everything that it imports and strip its types, which takes a second of processor time.
 * @internal
 */
export function useWorkersOf(directory: string): void {
  builtWorkers = directory;
}

/**
 * The file of a worker, e.g. `mirror/checkpoint-worker`. For a built program it is next to the program, whose parts are
 * in `chunks/`. For a program that runs from sources it is the source file (but see `useWorkersOf`).
 */
export function workerFile(worker: string): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const isSource = import.meta.url.endsWith('.ts');
  const directory = isSource ? builtWorkers : basename(here) === 'chunks' ? dirname(here) : here;
  const built = directory === null ? null : join(directory, `${basename(worker)}.js`);
  return built !== null && existsSync(built) ? built : packageFile('src', ...`${worker}.ts`.split('/'));
}
