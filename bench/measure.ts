/** Runs a command to its end and tells what it cost. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Cost {
  /** From the start of the process to its end. */
  readonly wallMs: number;
  readonly stdout: string;
}

export interface ProbedCost extends Cost {
  /** The largest resident size of the process. */
  readonly peakBytes: number;
  readonly longestBlockMs: number;
}

export interface MeasureOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Exit codes that count as success; 0 when nothing is said. */
  readonly exitCodes?: readonly number[];
  readonly cwd?: string;
}

/** One run of `node ARGS` as a whole process. Rejects unless it ends with one of `exitCodes`. */
export function measure(args: readonly string[], options: MeasureOptions = {}): Promise<Cost> {
  return measureCommand(process.execPath, args, options);
}

/** The same for any command, e.g. GNU diff. */
export async function measureCommand(
  command: string,
  args: readonly string[],
  options: MeasureOptions = {},
): Promise<Cost> {
  const startedAt = performance.now();
  const child = spawn(command, args, {
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ...options.env },
    cwd: options.cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk));
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const wallMs = performance.now() - startedAt;
  const text = Buffer.concat(stdout).toString();
  if (!(options.exitCodes ?? [0]).includes(code ?? -1)) {
    throw new Error(
      `${[command, ...args].join(' ')} ended with ${code}: ${Buffer.concat(stderr).toString()}${text}`,
    );
  }
  return { wallMs, stdout: text };
}

// As JavaScript: Node's own compiler for types would take 10 MB in the process that is measured.
const probe = `data:text/javascript,${encodeURIComponent(
  stripTypeScriptTypes(readFileSync(new URL('probe.ts', import.meta.url), 'utf8')),
)}`;

/** One run of `node ARGS` that also tells its peak memory and its longest event-loop block. */
export async function measureProbed(
  args: readonly string[],
  options: MeasureOptions = {},
): Promise<ProbedCost> {
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-probe-'));
  const told = join(scratch, 'probe.json');
  try {
    const cost = await measure(['--import', probe, ...args], {
      ...options,
      env: { ...options.env, BENCH_PROBE: told },
    });
    const { peakBytes, longestBlockMs } = JSON.parse(readFileSync(told, 'utf8')) as Omit<
      ProbedCost,
      keyof Cost
    >;
    return { ...cost, peakBytes, longestBlockMs };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The middle value; of an even number of values the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  const [low = Number.NaN, high = Number.NaN] = [sorted[Math.ceil(half) - 1], sorted[Math.floor(half)]];
  return (low + high) / 2;
}

/** The median of the ratios round by round: both sides of a round ran in turn, so a slow minute cancels out. */
export function medianRatio(values: readonly number[], against: readonly number[]): number {
  return median(values.map((value, round) => value / (against[round] ?? Number.NaN)));
}
