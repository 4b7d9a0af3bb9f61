/** Where the code of a worker lies, a thread or a process: an entry of its own beside the built program, or its source in a checkout. */
import { existsSync } from 'node:fs';
import { packageFile } from './package-root.ts';

/**
 * The file of a worker, e.g. `mirror/checkpoint-worker`. The source counts where the program itself runs from sources, and
 * where nothing was built: Node strips its types.
 */
export function workerFile(worker: string): string {
  const built = packageFile('dist', `${worker.slice(worker.lastIndexOf('/') + 1)}.js`);
  const isBuilt = !import.meta.url.endsWith('.ts') && existsSync(built);
  return isBuilt ? built : packageFile('src', ...`${worker}.ts`.split('/'));
}
