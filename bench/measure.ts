/** Runs a command to its end and tells what it cost. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Cost {
  readonly wallMs: number;
  readonly peakBytes: number;
  readonly longestBlockMs: number;
  readonly stdout: string;
}

const probe = fileURLToPath(new URL('probe.ts', import.meta.url));

/** One run of `node ARGS` as a whole process. Rejects unless it ends with one of `exitCodes`. */
export async function measure(
  args: readonly string[],
  options: {
    readonly env?: Record<string, string>;
    readonly withProbe?: boolean;
    readonly exitCodes?: readonly number[];
  } = {},
): Promise<Cost> {
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-probe-'));
  const report = join(scratch, 'probe.json');
  try {
    const startedAt = performance.now();
    const child = spawn(
      process.execPath,
      [...(options.withProbe === true ? ['--import', probe] : []), ...args],
      {
        env: { PATH: process.env['PATH'], HOME: process.env['HOME'], BENCH_PROBE: report, ...options.env },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const stdout: Buffer[] = [];
    const stderr: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    const wallMs = performance.now() - startedAt;
    if (!(options.exitCodes ?? [0]).includes(code ?? -1)) {
      throw new Error(
        `${args.join(' ')} ended with ${code}: ${Buffer.concat(stderr).toString()}${Buffer.concat(stdout).toString()}`,
      );
    }
    const probed =
      options.withProbe === true
        ? (JSON.parse(readFileSync(report, 'utf8')) as { peakBytes: number; longestBlockMs: number })
        : { peakBytes: 0, longestBlockMs: 0 };
    return { wallMs, ...probed, stdout: Buffer.concat(stdout).toString() };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The middle value. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
