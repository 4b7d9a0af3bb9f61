/** Loaded into a measured process with `--import`: tells its peak memory and longest event-loop block when it ends. */
import { writeFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';

const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
process.on('exit', () => {
  const file = process.env['BENCH_PROBE'];
  if (file === undefined) return;
  writeFileSync(
    file,
    JSON.stringify({ peakBytes: process.resourceUsage().maxRSS * 1024, longestBlockMs: delay.max / 1e6 }),
  );
});
