/**
 * The file with the code of a worker, a thread or a process: a separate entry of the built program, or its source in
 * a checkout.
 */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { packageFile } from './package-root.ts';

/**
 * The file of a worker, e.g. `mirror/checkpoint-worker`. Beside the running program where that was built, whose parts
 * are in `chunks/`; the source, whose types Node strips, where the program runs from sources.
 */
export function workerFile(worker: string): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const built = join(basename(here) === 'chunks' ? dirname(here) : here, `${basename(worker)}.js`);
  const isBuilt = !import.meta.url.endsWith('.ts') && existsSync(built);
  return isBuilt ? built : packageFile('src', ...`${worker}.ts`.split('/'));
}
