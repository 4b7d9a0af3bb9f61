/** Starts and ends programs that the configuration names, with their arguments and never by a shell. */
import { spawn, type ChildProcess } from 'node:child_process';
import { Readable } from 'node:stream';
import { aborted } from './aborted.ts';
import { abortReason } from './clock.ts';
import { systemCodeOf } from './errors.ts';

interface ProgramPlace {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** `pipe` if the program is given input. */
  readonly stdin: 'pipe' | 'ignore';
}

export interface ProgramEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it could not be started; null if it ran. */
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
    // A process group of its own, so that everything it starts can be ended with it.
    detached: true,
  });
}

/** Waits for the exit, not for the end of the output, which processes left in the background may keep open forever. */
export function programEnd(child: ChildProcess): Promise<ProgramEnd> {
  return new Promise((resolve) => {
    child.once('error', (error: NodeJS.ErrnoException) => resolve({ code: null, signal: null, error }));
    child.once('exit', (code, signal) => resolve({ code, signal, error: null }));
  });
}

/** Stops reading the program's output. */
export function closeOutput(child: ChildProcess): void {
  child.stdout?.destroy();
  child.stderr?.destroy();
}

/** E.g. `ended with exit code 3`. */
export function endText({ code, signal }: ProgramEnd): string {
  return code === null ? `ended by ${signal ?? 'a signal'}` : `ended with exit code ${code}`;
}

/** Why a program could not be started, such as `there is no such program`. */
export function startError(error: NodeJS.ErrnoException, otherwise: string): string {
  return error.code === 'ENOENT' ? 'there is no such program' : otherwise;
}

/**
 * Ends the program and everything that it started, first by request, then by force.
 * @param ended the promise of `programEnd`
 * @param grace resolves when the program has had enough time to exit
 */
export async function endProgram(
  child: ChildProcess,
  ended: Promise<unknown>,
  grace: Promise<unknown>,
): Promise<void> {
  signalGroup(child, 'SIGTERM');
  await Promise.race([ended, grace]);
  // Processes that it started may still be running.
  signalGroup(child, 'SIGKILL');
  await ended;
}

function signalGroup(child: ChildProcess, name: NodeJS.Signals): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    // It has already ended.
    if (systemCodeOf(error) !== 'ESRCH') throw error;
  }
}

interface ProgramRun extends Omit<ProgramPlace, 'stdin'> {
  /** The text for its stdin. */
  readonly input: Iterable<string | Uint8Array>;
  readonly onStdout: (chunk: Buffer) => void;
  readonly onStderr: (chunk: Buffer) => void;
  /** True to wait for the end of its stdout, within the time limit. */
  readonly needsOutput: boolean;
  readonly timeoutMs: number;
  /** The time between the request to end and ending it by force. */
  readonly graceMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs a program to its end, or ends it and everything that it started.
 * @returns null if its time was over
 * @throws the abort reason if the signal was aborted; what `input` throws
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
  // It is not a failure if the program does not read its input.
  const source = Readable.from(input);
  child.stdin?.on('error', () => source.destroy());
  const isInputBroken = new Promise<Error>((resolve) => source.once('error', resolve));
  if (child.stdin !== null) source.pipe(child.stdin);
  // Not a timer of Clock, because it guards a real process.
  const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const first = await Promise.race([ended, isInputBroken, aborted(limit).then(() => null)]);
  if (first !== null && !(first instanceof Error)) return first;
  await endProgram(child, exited, aborted(AbortSignal.timeout(graceMs)));
  closeOutput(child);
  if (first instanceof Error) throw first;
  if (signal.aborted) throw abortReason(signal);
  return null;
}
