/** The installed git: its arguments as a list, an environment of its own, a time limit, and its errors in one line. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Environment, hookEnvironment, type Withheld } from '../backup/hook.ts';
import { maskedMessage } from '../config/known-secrets.ts';
import { TidemarkError } from '../core/errors.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { endText, runProgram } from '../core/program.ts';
import type { Secret } from '../core/secret.ts';

/** What of the user's own settings for git is handed on: how it reaches a remote, and where its configuration is. */
const HANDED_ON =
  /^GIT_(?:SSH|SSH_COMMAND|SSH_VARIANT|SSL_\w+|ASKPASS|PROXY_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM))$/;

/** For git itself, whatever the repository's configuration says: no hooks, no signing, nothing left running in the background. */
const SETTINGS = [
  ['core.hooksPath', '/dev/null'],
  ['core.fsmonitor', 'false'],
  ['gc.autoDetach', 'false'],
  ['maintenance.autoDetach', 'false'],
  ['user.useConfigOnly', 'true'],
  ['protocol.ext.allow', 'never'],
  ['advice.diverging', 'false'],
] as const;

/** A remote may be slow, and a large clone large. */
const TIMEOUT_MS = 10 * 60_000;
const END_GRACE_MS = 5000;
/** Of what it says to stderr. */
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
  /** For this address only. */
  readonly token: { readonly value: Secret; readonly address: string } | null;
}

interface GitRun {
  readonly input?: Iterable<string | Uint8Array>;
  /** Exit codes that are an answer. */
  readonly answers?: readonly number[];
  /** Names what failed: `the repository could not be cloned`. */
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

export function gitIn(directory: string, options: GitOptions): RunGit {
  const env = environmentOf(options);
  return async (args, { input = [], answers = [], failure, hint } = {}) => {
    const chunks: Buffer[] = [];
    let said = '';
    const end = await runProgram('git', args, {
      cwd: directory,
      env,
      input,
      onStdout: (chunk) => void chunks.push(chunk),
      onStderr: (chunk) => void (said = lastLines(said + chunk.toString('utf8'))),
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
    throw new TidemarkError('git', `${what}: ${reasonIn(said, options.withheld.secrets) ?? endText(end)}`, {
      hint: hint ?? 'run git in that directory as the same user to see more; nothing was changed',
      cause: said,
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
    // Not on the command line, which every user of the machine can read; never to where an answer redirects.
    settings.push([`http.${originOf(token.address)}.extraHeader`, `Authorization: Basic ${credentials}`]);
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

/** GitHub takes this name with a token; GitLab, Gitea and Bitbucket take any, or the one in the address. */
function userOf(address: string): string {
  const named = URL.parse(address)?.username ?? '';
  return named === '' ? 'x-access-token' : decodeURIComponent(named);
}

function originOf(address: string): string {
  return `${URL.parse(address)?.origin ?? ''}/`;
}

/** Without a line that is cut: a secret in it may be. */
function lastLines(said: string): string {
  if (said.length <= STDERR_CHARACTERS) return said;
  const kept = said.slice(-STDERR_CHARACTERS);
  return kept.slice(kept.search(/[\r\n]|$/));
}

/** The line that says why: the first that git marks so, else the last one. A remote may answer with the token that it got. */
function reasonIn(said: string, secrets: readonly Secret[]): string | null {
  const lines = said
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const marked = lines.find((line) => /^(?:fatal|error|! \[|remote: (?:error|fatal))/i.test(line));
  const line = marked ?? lines.at(-1);
  if (line === undefined) return null;
  const plain = maskedMessage(line.replace(/^(?:fatal|error): /, ''), secrets);
  return escapeControlCharacters(plain).slice(0, 400);
}
