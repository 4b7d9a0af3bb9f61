/** A program that the configuration names, run with its arguments, never by a shell: how it begins and ends. */
import { spawn, type ChildProcess } from 'node:child_process';

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

/** Not when its output is closed: what it left running in the background may hold that open for ever. */
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

/** `there is no such program`, or what else stood in the way of starting it. */
export function startError(error: NodeJS.ErrnoException, otherwise: string): string {
  return error.code === 'ENOENT' ? 'there is no such program' : otherwise;
}

/**
 * Ends it with all that it started: asked first, then by force.
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
