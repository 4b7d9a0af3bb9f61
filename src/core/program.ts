/** A program that the configuration names, run with its arguments, never by a shell: how it begins and ends. */
import { spawn, type ChildProcess } from 'node:child_process';
import { Readable } from 'node:stream';
import { aborted } from './aborted.ts';
import { abortReason } from './clock.ts';

interface ProgramPlace {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** `pipe` for one that is handed something to read. */
  readonly stdin: 'pipe' | 'ignore';
}

export interface ProgramEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it could not be started; null where it ran. */
  readonly error: NodeJS.ErrnoException | null;
}

export function startProgram(
  program: string,
  args: readonly string[],
  { cwd, env, stdin }: ProgramPlace,
): ChildProcess {
  return spawn(program, args, {
    cwd,
    env,
    stdio: [stdin, 'pipe', 'pipe'],
    // A group of its own, so that what it starts ends with it.
    detached: true,
  });
}

/** Not when its output is closed: what it left running in the background may hold that open forever. */
export function programEnd(child: ChildProcess): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => resolve({ code: null, signal: null, error }));
    child.once('exit', (code, signal) => resolve({ code, signal, error: null }));
  });
}

/** Takes nothing more of what it says. */
export function closeOutput(child: ChildProcess): void {
  child.stdout?.destroy();
  child.stderr?.destroy();
}

/** E.g. `ended with exit code 3`. */
export function endText({ code, signal }: ProgramEnd): string {
  return code === null ? `ended by ${signal ?? 'a signal'}` : `ended with exit code ${code}`;
}

/** `there is no such program`, or why else it could not be started. */
export function startError(error: NodeJS.ErrnoException, otherwise: string): string {
  return error.code === 'ENOENT' ? 'there is no such program' : otherwise;
}

/**
 * Ends it with everything that it started: asked first, then by force.
 * @param ended of `programEnd`
 * @param grace resolves when it had enough time to exit on its own
 */
export async function endProgram(
  child: ChildProcess,
  ended: Promise<unknown>,
  grace: Promise<unknown>,
): Promise<void> {
  signalGroup(child, 'SIGTERM');
  await Promise.race([ended, grace]);
  // What it started may outlive it.
  signalGroup(child, 'SIGKILL');
  await ended;
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    // It is gone already.
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

interface ProgramRun extends Omit<ProgramPlace, 'stdin'> {
  /** What it is given to read. */
  readonly input: Iterable<string | Uint8Array>;
  readonly onStdout: (chunk: Buffer) => void;
  readonly onStderr: (chunk: Buffer) => void;
  /** True to have everything that it wrote to stdout, however long it takes within the limit. */
  readonly needsOutput: boolean;
  readonly timeoutMs: number;
  /** Between asking it to end and ending it. */
  readonly graceMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs a program to its end, or ends it with everything that it started.
 * @returns null where its time was over
 * @throws the abort reason where the signal was aborted; what `input` throws
 */
export async function runProgram(
  program: string,
  args: readonly string[],
  run: ProgramRun,
): Promise<ProgramEnd | null> {
  const { input, signal, timeoutMs, graceMs, needsOutput } = run;
  signal.throwIfAborted();
  const child = startProgram(program, args, { ...run, stdin: 'pipe' });
  child.stdout?.on('data', run.onStdout);
  child.stderr?.on('data', run.onStderr);
  const output = new Promise<void>((resolve) => child.stdout?.once('close', resolve));
  const exited = programEnd(child);
  const ended = exited.then(async (end) => {
    if (needsOutput && end.error === null) await output;
    closeOutput(child);
    return end;
  });
  // One that does not read what it is given is not a failure.
  const source = Readable.from(input);
  child.stdin?.on('error', () => source.destroy());
  const isInputBroken = new Promise<Error>((resolve) => source.once('error', resolve));
  if (child.stdin !== null) source.pipe(child.stdin);
  // Not the Clock's: it guards a real process.
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const first = await Promise.race([ended, isInputBroken, aborted(limit).then(() => null)]);
  if (first !== null && !(first instanceof Error)) return first;
  await endProgram(child, exited, aborted(AbortSignal.timeout(graceMs)));
  closeOutput(child);
  if (first instanceof Error) throw first;
  if (signal.aborted) throw abortReason(signal);
  return null;
}
