/** Loaded into a measured process with `--import`: tells its peak memory and longest event-loop block when it ends. */
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const file = process.env['BENCH_PROBE'];
// Worker threads load it too, but the command's own loop is what is asked for; their memory is in the process's peak.
if (file !== undefined && isMainThread) {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  process.on('exit', () => {
    const peakBytes = process.resourceUsage().maxRSS * 1024;
    writeFileSync(file, JSON.stringify({ peakBytes, longestBlockMs: delay.max / 1e6 }));
  });
}
