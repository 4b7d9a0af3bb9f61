/**
 * The command after each backup, such as restic or rclone: a program with its arguments, never a shell. Its environment is
 * ours, so that it finds what it reads there, without anything that the configuration takes for a secret.
 */
import type { ChildProcess } from 'node:child_process';
import type { Config } from '../config/config.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { aborted } from '../core/aborted.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import {
  type ProgramEnd,
  closeOutput,
  endProgram,
  endText,
  programEnd,
  startProgram,
  startError,
} from '../core/program.ts';
import type { Secret } from '../core/secret.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** What must not reach the command. */
export interface Withheld {
  /** Names of the variables that secrets come from. */
  readonly variables: readonly string[];
  /** A variable with one of these values is not passed on either, whatever its name. */
  readonly secrets: readonly Secret[];
}

/** No program does without them, wherever else they are referred to. */
const ALWAYS = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];
/** All secrets of a configuration, and the variables that they come from. */
export function withheldBy(config: Config): Withheld {
  return { variables: config.secretVariables, secrets: config.knownSecrets };
}

/** What is handed on of an environment. Tidemark's own variables are not. */
export function hookEnvironment(env: Environment, { variables, secrets }: Withheld): Record<string, string> {
  const values = secrets.map((secret) => secret.reveal()).filter((value) => value !== '');
  const handed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || name.startsWith('TIDEMARK_')) continue;
    if (variables.includes(name) && !ALWAYS.includes(name)) continue;
    if (values.some((secret) => value.includes(secret))) continue;
    handed[name] = value;
  }
  return handed;
}

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
  /** Why it failed; null if it did not. */
  readonly error: TidemarkError | null;
}

/** Time between asking the program to end and killing it. */
const END_GRACE_MS = 5000;
/** How long to wait for its last output: a background process that it started may keep it open. */
const OUTPUT_GRACE_MS = 500;
/** Characters of the program's last output that are kept. */
const TAIL_CHARACTERS = 2000;

/** Runs the command to its end. Never throws: a failure is part of the result, and the backup is valid anyway. */
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
    // Ends early once the program has ended.
    const grace = clock.sleep(END_GRACE_MS, over.signal).catch(() => undefined);
    await endProgram(child, ended, grace);
    return failed(program, why);
  }
  const end = await ended;
  if (end.error !== null)
    return failed(program, `could not be started: ${startError(end.error, end.error.message)}`);
  if (end.code === 0) return null;
  return failed(program, endText(end) + lastLine(tail, options.withheld.secrets));
}

async function endOf(child: ChildProcess, clock: Clock): Promise<ProgramEnd> {
  const closed = new AbortController();
  child.once('close', () => closed.abort());
  const end = await programEnd(child);
  // Ends early once its output is closed.
  if (!closed.signal.aborted) await clock.sleep(OUTPUT_GRACE_MS, closed.signal).catch(() => undefined);
  closeOutput(child);
  return end;
}

/** Replaces `{file}` and the like in the arguments in one pass, so that text in a path is never taken for a placeholder. */
function filled(command: readonly string[], paths: HookPaths): string[] {
  return command.map((word) =>
    word.replaceAll(/\{(file|manifest|directory)\}/g, (_all, name: keyof HookPaths) => paths[name]),
  );
}

function environmentOf({ env, withheld, paths }: HookOptions): Record<string, string> {
  return {
    ...hookEnvironment(env, withheld),
    TIDEMARK_BACKUP_FILE: paths.file,
    TIDEMARK_BACKUP_MANIFEST: paths.manifest,
    TIDEMARK_BACKUP_DIRECTORY: paths.directory,
  };
}

/** Its own secrets are none of ours: an address with a password, and the like, it may print. */
function lastLine(tail: string, secrets: readonly Secret[]): string {
  const line = tail
    .split('\n')
    .map((each) => each.trim())
    .filter((each) => each !== '')
    .at(-1);
  return line === undefined ? '' : `: ${maskedMessage(line, secrets).slice(0, 300)}`;
}

function failed(program: string, why: string): TidemarkError {
  return new TidemarkError('file_system', `the command after the backup (${program}) ${why}`, {
    hint: 'the backup itself is complete; start the command by hand to see what it needs (`backup.command`)',
  });
}
