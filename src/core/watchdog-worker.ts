/**
 * A thread that ends its process if that ran too long, is too large, or is orphaned. For work that blocks the main
 * thread and cannot be interrupted otherwise, such as a query in SQLite. The signal cannot be caught, but work that
 * only reads leaves nothing to clean up.
 */
import { writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { realPause } from './clock.ts';

export interface WatchdogLimits {
  readonly ms: number;
  readonly residentBytes: number;
}

const CHECKED_MS = 50;
const STDERR = 2;
const MEGABYTE = 1024 * 1024;

const { ms, residentBytes } = workerData as WatchdogLimits;
const parent = process.ppid;
for (let waited = 0; waited < ms; waited += CHECKED_MS) {
  await realPause(CHECKED_MS);
  if (process.memoryUsage.rss() > residentBytes)
    end(`it took more than ${Math.round(residentBytes / MEGABYTE)} MB of memory`);
  if (process.ppid !== parent) end('nobody waits for it');
}
end(`it took longer than ${ms / 1000} s`);

function end(why: string): void {
  writeSync(STDERR, `tidemark: stopped: ${why}\n`);
  process.kill(process.pid, 'SIGKILL');
}
