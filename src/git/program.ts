/** Runs the installed git, with an environment of its own and a time limit; reports its errors in one line. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Environment, hookEnvironment, type Withheld } from '../backup/hook.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { TidemarkError } from '../core/errors.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { endText, runProgram } from '../core/program.ts';
import type { Secret } from '../core/secret.ts';

/** The user's own variables that git gets: how to reach a remote, and where its configuration is. */
const HANDED_ON =
  /^GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|ASKPASS|PROXY_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM))$/;

/** Settings that override the configuration of the repository: no hooks, and nothing is left running in the background. */
const SETTINGS = [
  ['core.hooksPath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['gc.autoDetach', 'false'],
  ['maintenance.autoDetach', 'false'],
  ['user.useConfigOnly', 'true'],
  ['protocol.ext.allow', 'never'],
  ['advice.diverging', 'false'],
] as const;

/** Long enough for a slow remote and a large repository. */
const TIMEOUT_MS = 10 * 60_000;
const END_GRACE_MS = 5000;
/** How much of stderr is kept. */
const STDERR_CHARACTERS = 8000;

/** The top of the work tree that a directory is in, without asking git; null if it is in none. */
export function workTreeOf(directory: string): string | null {
  if (existsSync(join(directory, '.git'))) return directory;
  const above = dirname(directory);
  return above === directory ? null : workTreeOf(above);
}

export interface GitOptions {
  readonly env: Environment;
  readonly withheld: Withheld;
  readonly signal: AbortSignal;
  /** Sent only to this address. */
  readonly token: { readonly value: Secret; readonly address: string } | null;
}

interface GitRun {
  readonly input?: Iterable<string | Uint8Array>;
  /** Exit codes besides 0 that are not failures. */
  readonly answers?: readonly number[];
  /** The error message, such as `the repository could not be cloned`. */
  readonly failure?: string;
  readonly hint?: string;
}

interface GitAnswer {
  readonly code: number;
  readonly stdout: string;
  readonly bytes: Buffer;
}

/** Runs git in `directory`. @throws TidemarkError `git`, `timeout` */
export type RunGit = (args: readonly string[], run?: GitRun) => Promise<GitAnswer>;

/** A function that runs git in `directory`. */
export function gitIn(directory: string, options: GitOptions): RunGit {
  const env = environmentOf(options);
  return async (args, { input = [], answers = [], failure, hint } = {}) => {
    const chunks: Buffer[] = [];
    let stderr = '';
    const end = await runProgram('git', args, {
      cwd: directory,
      env,
      input,
      onStdout: (chunk) => void chunks.push(chunk),
      onStderr: (chunk) => void (stderr = lastLines(stderr + chunk.toString('utf8'))),
      needsOutput: true,
      timeoutMs: TIMEOUT_MS,
      graceMs: END_GRACE_MS,
      signal: options.signal,
    });
    const what = failure ?? `\`git ${args[0] ?? ''}\` failed`;
    if (end === null)
      throw new TidemarkError('timeout', `${what}: git took longer than ${TIMEOUT_MS / 60_000} minutes`, {
        hint: 'nothing was committed; the next run tries again',
        isRetryable: true,
      });
    if (end.error !== null) {
      const isMissing = end.error.code === 'ENOENT';
      throw new TidemarkError(
        'git',
        isMissing
          ? 'git is not installed, or not on the PATH'
          : `git could not be started: ${end.error.code ?? ''}`,
        { hint: 'install git 2.31 or later on this machine, or in the image' },
      );
    }
    const bytes = Buffer.concat(chunks);
    const code = end.code ?? -1;
    if (code === 0 || answers.includes(code)) return { code, bytes, stdout: bytes.toString('utf8') };
    throw new TidemarkError('git', `${what}: ${reasonIn(stderr, options.withheld.secrets) ?? endText(end)}`, {
      hint: hint ?? 'run git in that directory as the same user to see more; nothing was changed',
      cause: stderr,
    });
  };
}

function environmentOf({ env, withheld, token }: GitOptions): Record<string, string> {
  const own = Object.entries(hookEnvironment(env, withheld)).filter(
    ([name]) => (!name.startsWith('GIT_') || HANDED_ON.test(name)) && name !== 'SSH_ASKPASS',
  );
  const settings: (readonly [string, string])[] = [...SETTINGS];
  if (token !== null) {
    const credentials = Buffer.from(`${userOf(token.address)}:${token.value.reveal()}`).toString('base64');
    // Not on the command line, which every user of the machine can read. Redirects are off: the token must not go elsewhere.
    const origin = URL.parse(token.address)?.origin ?? '';
    settings.push([`http.${origin}/.extraHeader`, `Authorization: Basic ${credentials}`]);
    settings.push(['http.followRedirects', 'false']);
  }
  return {
    ...Object.fromEntries(own),
    LC_ALL: 'C',
    GIT_TERMINAL_PROMPT: '0',
    SSH_ASKPASS_REQUIRE: 'never',
    GIT_OPTIONAL_LOCKS: '0',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
  };
}

/** GitHub expects this name with a token; GitLab, Gitea and Bitbucket accept any, or the one in the address. */
function userOf(address: string): string {
  const named = URL.parse(address)?.username ?? '';
  return named === '' ? 'x-access-token' : decodeURIComponent(named);
}

/** Drops the line at the cut: part of a secret in it would not be recognized. */
function lastLines(stderr: string): string {
  if (stderr.length <= STDERR_CHARACTERS) return stderr;
  const kept = stderr.slice(-STDERR_CHARACTERS);
  return kept.slice(kept.search(/[\r\n]|$/));
}

/** The first line that git marks as an error, else the last line. Masked: a remote may repeat the token that it got. */
function reasonIn(stderr: string, secrets: readonly Secret[]): string | null {
  const lines = stderr
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const marked = lines.find((line) => /^(?:fatal|error|! \[|remote: (?:error|fatal))/i.test(line));
  const line = marked ?? lines.at(-1);
  if (line === undefined) return null;
  const plain = maskedMessage(line.replace(/^(?:fatal|error): /, ''), secrets);
  return escapeControlCharacters(plain).slice(0, 400);
}
