/** Runs the real command line as its users do, in this process or in one of its own: its output and exit code. */
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { inject, onTestFinished } from 'vitest';
import { begin, commandLine, type Ended, type Running } from './command-line.ts';

/** The program as it ships, built once for all tests (`test/tools/build-program.ts`). */
export const program = inject('program');

export type { Ended };

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** In place of the program: a link to it. */
  readonly entry?: string;
  /**
   * Options for Node itself, before the program: those that it ships with (`nodeFlags`) where the test is about memory. With
   * another growth factor V8 does not accept the code that Node brings compiled, 50 ms of the processor at each start.
   */
  readonly node?: readonly string[];
}

function inheritedEnvironment(): Record<string, string> {
  const { PATH = '', TMPDIR = tmpdir() } = process.env;
  return { PATH, TMPDIR, TZ: 'UTC' };
}

/** Starts `tidemark ARGS`; the caller may kill it. */
export function start(
  args: readonly string[],
  options: RunOptions = {},
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [...(options.node ?? []), options.entry ?? program, ...args], {
    env: { ...inheritedEnvironment(), ...options.env },
    cwd: options.cwd ?? tmpdir(),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
  return { child, ended };
}

/** Runs `tidemark ARGS` to its end, in this process: `runProgram` where the process itself is what the test is about. */
export function tidemark(
  args: readonly string[],
  { env = {}, cwd = tmpdir() }: Pick<RunOptions, 'env' | 'cwd'> = {},
): Promise<Ended> {
  return commandLine(args, { env: { ...inheritedEnvironment(), ...env }, cwd });
}

/** How long a command that was told to stop may take; longer than the grace of any daemon here that holds on to its job. */
const STOPPED_MS = 60_000;

/**
 * Begins `tidemark ARGS` in this process, which saves its start and those of its jobs: for what runs until it is stopped, where no
 * signal and no death of a process is what the test is about. It is stopped with the test, which fails if it goes on.
 */
export function startHere(
  args: readonly string[],
  {
    env = {},
    cwd = tmpdir(),
    ...more
  }: Pick<RunOptions, 'env' | 'cwd'> & { readonly isOneProcess?: boolean } = {},
): Running {
  const running = begin(args, { ...more, env: { ...inheritedEnvironment(), ...env }, cwd });
  onTestFinished(async () => {
    running.stop();
    await running.ended;
  }, STOPPED_MS);
  return running;
}

/** Runs `tidemark ARGS` to its end, as a process of its own. */
export function runProgram(args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  return start(args, options).ended;
}

/** The child processes that `parent` has now, from Linux's /proc: `pgrep` is not on every machine. */
export function childrenOf(parent: number | undefined): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        // "PID (NAME) STATE PPID …": the name may hold anything, parentheses too.
        const afterName = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/s, '');
        return Number(afterName.trim().split(' ')[1]) === parent;
      } catch {
        return false; // It ended meanwhile.
      }
    })
    .map(Number);
}

/** The only one, apart from `others`: what this process began for other tests may not have ended yet. */
export function childOf(parent: number | undefined, others: readonly number[] = []): number {
  const children = childrenOf(parent).filter((pid) => !others.includes(pid));
  if (children.length !== 1) throw new Error(`${parent} has ${children.length} children instead of one`);
  return Number(children[0]);
}

/** A directory that goes with the test. */
export function scratch(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const mirrors = new Map<string, Buffer>();

/** A mirror at `path` as `make` makes it: once for each `name`, and by copy from then on. The service must hold the same each time. */
export async function mirrorOnce(name: string, path: string, make: () => Promise<void>): Promise<void> {
  const made = mirrors.get(name);
  if (made === undefined) {
    await make();
    mirrors.set(name, readFileSync(path));
  } else writeFileSync(path, made, { mode: 0o600 });
}

/** Waits for the next second to begin: a schedule of each second is then due again, however fast the command before it was. */
export const nextSecond = (): Promise<void> => setTimeout(1000 - (Date.now() % 1000));

/** The environment of one source against `url` with its mirror in `directory`; unlimited, as the service is ours. */
export function environment(
  url: string,
  directory: string,
  more: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return {
    TIDEMARK_BASE_URL: url,
    TIDEMARK_API_KEY: 'test-key-of-some-length',
    TIDEMARK_MIRROR: join(directory, 'mirror.db'),
    TIDEMARK_RATE_PER_MINUTE: '0',
    TIDEMARK_RATE_PER_HOUR: '0',
    ...more,
  };
}
