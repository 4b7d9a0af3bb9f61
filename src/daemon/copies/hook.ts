/** The command after each copy, such as restic or rclone: a program with its arguments, never a shell. */
import type { ChildProcess } from 'node:child_process';
import { aborted } from '../../core/aborted.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import {
  type ProgramEnd,
  closeOutput,
  endProgram,
  endText,
  programEnd,
  startProgram,
  startTrouble,
} from '../program.ts';
import { type Environment, type Withheld, handedOn } from './hook-environment.ts';

interface HookPaths {
  readonly file: string;
  readonly manifest: string;
  readonly directory: string;
}

export interface HookOptions {
  readonly command: readonly string[];
  readonly paths: HookPaths;
  /** Of this process. */
  readonly env: Environment;
  readonly withheld: Withheld;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface HookResult {
  readonly outcome: 'done' | 'failed';
  readonly seconds: number;
  /** Why it failed; null where it did not. */
  readonly error: TidemarkError | null;
}

/** Between asking the program to end and ending it. */
const END_GRACE_MS = 5000;
/** For its last words to arrive; what it left running in the background may hold its output open for ever. */
const OUTPUT_GRACE_MS = 500;
/** Of what the program said last; the rest is not kept. */
const TAIL_CHARACTERS = 2000;

/** Runs the command to its end. Never throws: a failure is its result, and the copy stands whatever it is. */
export async function runHook(options: HookOptions): Promise<HookResult> {
  const { clock } = options;
  const begun = clock.monotonicMs();
  const error = await failureOf(options);
  const seconds = Math.round(clock.monotonicMs() - begun) / 1000;
  return { outcome: error === null ? 'done' : 'failed', seconds, error };
}

async function failureOf(options: HookOptions): Promise<TidemarkError | null> {
  const { clock, signal, timeoutMs } = options;
  const [program = '', ...args] = filled(options.command, options.paths);
  if (signal.aborted) return failed(program, 'was not started: Tidemark is ending');
  const child = startProgram(program, args, {
    cwd: options.paths.directory,
    env: environmentOf(options),
    stdin: 'ignore',
  });
  let tail = '';
  const keep = (text: string): void => void (tail = (tail + text).slice(-TAIL_CHARACTERS));
  child.stdout?.setEncoding('utf8').on('data', keep);
  child.stderr?.setEncoding('utf8').on('data', keep);
  const over = new AbortController();
  const ended = endOf(child, clock).finally(() => over.abort());
  const why = await Promise.race([
    ended.then(() => null),
    clock.sleep(timeoutMs, over.signal).then(
      () => `took longer than ${timeoutMs / 1000} s and was ended`,
      () => null,
    ),
    aborted(signal, over.signal).then(() => 'was ended: Tidemark is ending'),
  ]);
  if (why !== null) {
    const grace = clock.sleep(END_GRACE_MS, over.signal).catch(() => undefined);
    await endProgram(child, ended, grace);
    return failed(program, why);
  }
  const end = await ended;
  if (end.error !== null)
    return failed(program, `could not be started: ${startTrouble(end.error, end.error.message)}`);
  if (end.code === 0) return null;
  return failed(program, endText(end) + lastLine(tail));
}

async function endOf(child: ChildProcess, clock: Clock): Promise<ProgramEnd> {
  const closed = new AbortController();
  child.once('close', () => closed.abort());
  const end = await programEnd(child);
  if (!closed.signal.aborted) await clock.sleep(OUTPUT_GRACE_MS, closed.signal).catch(() => undefined);
  closeOutput(child);
  return end;
}

/** `{file}` and its like in the arguments, in one go: what a path holds is never taken for another one. */
function filled(command: readonly string[], paths: HookPaths): string[] {
  return command.map((word) =>
    word.replaceAll(/\{(file|manifest|directory)\}/g, (_all, name: keyof HookPaths) => paths[name]),
  );
}

function environmentOf({ env, withheld, paths }: HookOptions): Record<string, string> {
  return {
    ...handedOn(env, withheld),
    TIDEMARK_COPY: paths.file,
    TIDEMARK_COPY_MANIFEST: paths.manifest,
    TIDEMARK_COPY_DIRECTORY: paths.directory,
  };
}

function lastLine(tail: string): string {
  const line = tail
    .split('\n')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .at(-1);
  return line === undefined ? '' : `: ${line.slice(0, 300)}`;
}

function failed(program: string, why: string): TidemarkError {
  return new TidemarkError('file_system', `the command after the copy (${program}) ${why}`, {
    hint: 'the copy itself is whole; start the command by hand to see what it needs (`copies.command`)',
  });
}
