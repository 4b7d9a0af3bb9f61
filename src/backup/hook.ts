/**
 * The command after each backup, such as restic or rclone: a program with its arguments, never a shell. It inherits our
 * environment, without the secrets of the configuration.
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

/** What the command must not inherit. */
export interface Withheld {
  /** Names of variables with secrets. */
  readonly variables: readonly string[];
  /** Any variable whose value contains one of these is withheld too. */
  readonly secrets: readonly Secret[];
}

/** Passed on even if the configuration refers to them: every program needs them. */
const ALWAYS = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];

/** All secrets of a configuration, and the variables that they come from. */
export function withheldBy(config: Config): Withheld {
  return { variables: config.secretVariables, secrets: config.knownSecrets };
}

/** The part of an environment that the command inherits: without secrets, and without Tidemark's own variables. */
export function hookEnvironment(env: Environment, { variables, secrets }: Withheld): Record<string, string> {
  const values = secrets.map((secret) => secret.reveal()).filter((value) => value !== '');
  const inherited: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined || name.startsWith('TIDEMARK_')) continue;
    if (variables.includes(name) && !ALWAYS.includes(name)) continue;
    if (values.some((secret) => value.includes(secret))) continue;
    inherited[name] = value;
  }
  return inherited;
}

interface HookPaths {
  readonly file: string;
  readonly manifest: string;
  readonly directory: string;
}

export interface HookOptions {
  readonly command: readonly string[];
  readonly paths: HookPaths;
  /** The environment of this process. */
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

/** The time between asking the program to end and killing it. */
const END_GRACE_MS = 5000;
/** How long to wait for the last output: a background process may keep it open. */
const OUTPUT_GRACE_MS = 500;
/** How many characters of the output are kept. */
const TAIL_CHARACTERS = 2000;

/** Runs the command. Never throws: a failure is part of the result, since the backup itself is valid. */
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
    // `over` ends it early.
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
  // Ends early if the output is closed.
  if (!closed.signal.aborted) await clock.sleep(OUTPUT_GRACE_MS, closed.signal).catch(() => undefined);
  closeOutput(child);
  return end;
}

/** Replaces placeholders such as `{file}` in one pass, so that text in a path is never taken for a placeholder. */
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

/** The last line of the output, after `: `. Masked, since the program may print secrets, such as an address with a password. */
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
