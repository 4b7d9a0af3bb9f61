/** The thread that ends its process, beside a main thread that nothing else can interrupt. */
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { expect, inject, it } from 'vitest';
import { LIMITS } from '../../src/cli/mcp-sql.ts';
import type { WatchdogLimits } from '../../src/core/watchdog-worker.ts';

const GENEROUS: WatchdogLimits = { ms: 120_000, residentBytes: 64 * 1024 ** 3 };

/** What a process with these limits ends with, that blocks its main thread and asks for a megabyte every other millisecond. */
function ended(limits: Partial<WatchdogLimits>): { signal: string | null; stderr: string } {
  const worker = join(dirname(inject('program')), 'watchdog-worker.js');
  const program = `const kept = [];
    new (require('node:worker_threads').Worker)(process.argv[1], { workerData: JSON.parse(process.argv[2]) });
    const pause = new Int32Array(new SharedArrayBuffer(4));
    setTimeout(() => { for (;;) { kept.push(Buffer.alloc(1e6, 1)); Atomics.wait(pause, 0, 0, 2); } });`;
  const { signal, stderr } = spawnSync(
    process.execPath,
    ['-e', program, worker, JSON.stringify({ ...GENEROUS, ...limits })],
    { encoding: 'utf8' },
  );
  return { signal, stderr };
}

it('ends a process that runs too long', () => {
  expect(ended({ ms: 300 })).toEqual({
    signal: 'SIGKILL',
    stderr: 'tidemark: stopped: it took longer than 0.3 s\n',
  });
});

it('ends a process that takes too much memory', () => {
  expect(ended({ residentBytes: 200 * 1024 ** 2 })).toEqual({
    signal: 'SIGKILL',
    stderr: 'tidemark: stopped: it took more than 200 MB of memory\n',
  });
});

it('gives a query of an MCP client 10 s, as its description says', () => {
  expect(LIMITS.ms).toBe(10_000);
});
