/** Runs a command to its end and tells what it cost. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { nodeFlags } from '../test/tools/node-flags.ts';

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
  /** Called with the process id once it runs. */
  readonly onStart?: (pid: number) => void;
}

/** One run of `node ARGS` as a whole process. Rejects unless it ends with one of `exitCodes`. */
export function measure(args: readonly string[], options: MeasureOptions = {}): Promise<Cost> {
  return measureCommand(process.execPath, [...nodeFlags(), ...args], options);
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
  if (child.pid !== undefined) options.onStart?.(child.pid);
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
function moduleOf(probe: string): string {
  const source = readFileSync(new URL(probe, import.meta.url), 'utf8');
  return `data:text/javascript,${encodeURIComponent(stripTypeScriptTypes(source))}`;
}

/** One run of `node ARGS` with a probe loaded before it, and what the probe told. */
async function measureWith<Told>(
  probe: string,
  args: readonly string[],
  options: MeasureOptions,
): Promise<Cost & Told> {
  const scratch = mkdtempSync(join(tmpdir(), 'tidemark-bench-probe-'));
  const told = join(scratch, 'probe.json');
  try {
    const cost = await measure(['--import', moduleOf(probe), ...args], {
      ...options,
      env: { ...options.env, BENCH_PROBE: told, BENCH_PROGRAM: args[0] ?? '' },
    });
    return { ...cost, ...(JSON.parse(readFileSync(told, 'utf8')) as Told) };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** One run of `node ARGS` that also tells its peak memory and its longest event-loop block. */
export function measureProbed(args: readonly string[], options: MeasureOptions = {}): Promise<ProbedCost> {
  return measureWith<Omit<ProbedCost, keyof Cost>>('probe.ts', args, options);
}

export interface WritesCost extends Cost {
  /** Rows that all its connections changed. */
  readonly rows: number;
  /** Bytes that it wrote, to files, sockets and pipes; null where the system does not tell. */
  readonly written: number | null;
  readonly peakBytes: number;
}

/** One run of `node ARGS` that also tells what it wrote. */
export function measureWrites(args: readonly string[], options: MeasureOptions = {}): Promise<WritesCost> {
  return measureWith<Omit<WritesCost, keyof Cost>>('writes-probe.ts', args, options);
}

export interface ProcessPeaks extends Cost {
  /** The largest resident size of each process, the command's own first; empty where there is no /proc. */
  readonly peaks: readonly number[];
}

const LOOK_MS = 10;

/** One run of `node ARGS` that also tells the peaks of its process and of its children. */
export async function measurePeaks(
  args: readonly string[],
  options: MeasureOptions = {},
): Promise<ProcessPeaks> {
  const peaks = new Map<number, number>();
  // The system keeps the peak: what is missed is how much it grew within the last look.
  const look = (pid: number): void => {
    const read = (file: string): string => readFileSync(`/proc/${pid}/${file}`, 'utf8');
    try {
      const peak = Number(/^VmHWM:\s+(\d+)/m.exec(read('status'))?.[1]) * 1024;
      // None while it ends.
      if (peak > 0) peaks.set(pid, peak);
      read(`task/${pid}/children`).trim().split(' ').filter(Boolean).map(Number).forEach(look);
    } catch {
      // It has ended, or there is no /proc.
    }
  };
  let timer: NodeJS.Timeout | undefined;
  try {
    const cost = await measure(args, {
      ...options,
      onStart: (pid) => (timer = setInterval(look, LOOK_MS, pid)),
    });
    return { ...cost, peaks: [...peaks.values()] };
  } finally {
    clearInterval(timer);
  }
}

/** One run of `node ARGS`, a command that reads a mirror: also from the opened mirror to the answer. */
export function measureLook(
  args: readonly string[],
  options: MeasureOptions = {},
): Promise<Cost & { readonly lookMs: number }> {
  return measureWith<{ readonly lookMs: number }>('look-probe.ts', args, options);
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
