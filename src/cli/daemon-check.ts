/** `tidemark daemon --check`: asks the daemon of this mirror for its health. */
import { existsSync } from 'node:fs';
import type { HttpConfig } from '../config/config.ts';
import { mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { asTidemarkError, TidemarkError, type ExitCode, EXIT } from '../core/errors.ts';
import { listeningAt } from '../core/local-url.ts';
import { locateMirrors, readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printReason } from './context.ts';
import { daemonOf, daemonUnreachable } from './daemon-effects.ts';
import { Agent, request } from 'node:http';
import { type DaemonLockfile, INSTANCE_HEADER, instanceOf } from '../daemon/lockfile.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';

/** Shorter than the timeout of the probes in our container manifests. */
const TIMEOUT_MS = 8000;
const LARGEST_CHARACTERS = 1_000_000;
/** With NODE_USE_ENV_PROXY the global agent would ask HTTP_PROXY instead of the daemon. */
const NO_PROXY = new Agent({ proxyEnv: {} });
/** The HTTP status for each state; the state is the first line of the text, or `state` of the document. */
const STATUS_BY_STATE: Readonly<Record<string, number>> = {
  ok: 200,
  degraded: 200,
  starting: 503,
  failing: 503,
};

/**
 * Prints the answer of `/readyz`. Exit 0 for `ok`, `degraded` and `starting`, 1 for `failing`: during its first sync a daemon is not
 * unhealthy, and a container engine that restarted it would only interrupt that sync.
 * @throws TidemarkError `unreachable` if no daemon runs on this mirror, or it does not answer
 */
export async function daemonCheck(context: CommandContext): Promise<ExitCode> {
  const { mirrors, names, mistake, http } = mirrorsToAsk(context);
  // A daemon of several mirrors has a file beside each, except beside one that it could not lock.
  const card = mirrors.reduce<DaemonLockfile | null>(
    (found, mirror) => found ?? daemonOf(context, mirror),
    null,
  );
  if (card === null) {
    const answering = http === null ? null : await daemonAt(http, context.signal);
    if (answering !== null) throw withoutLockfile(answering, names, mirrors);
    const none = `no daemon is running on ${names}, or this user may not see it`;
    throw new TidemarkError('unreachable', mistake === null ? none : `${none}; ${mistake.message}`, {
      cause: mistake,
      hint:
        mistake === null
          ? 'start one with `tidemark daemon`; ask as the user that it runs as, with the same configuration'
          : 'correct the configuration, then start one with `tidemark daemon`',
    });
  }
  if (card.isOnce)
    throw new TidemarkError(
      'unreachable',
      `no daemon is running on ${names}: a call of \`daemon --once\` is running (process ${card.pid} on ${card.host}, since ${card.since})`,
      { hint: '`tidemark status` shows what such calls keep; `pings` report when they fail or stop' },
    );
  const isJson = context.options.json === true;
  const accept = isJson ? 'application/json' : 'text/plain';
  const { status, instance, text } = await readiness(card, accept, context.signal);
  if (status !== 200 && status !== 503) throw unreachable(card, `it answered ${status}`);
  if (instance !== instanceOf(card.token.reveal()))
    throw unreachable(card, `what answers at ${card.url ?? ''} is not this daemon`);
  const state = isJson ? stateIn(text) : text.split('\n', 1)[0];
  if (state === undefined || STATUS_BY_STATE[state] !== status)
    throw unreachable(card, 'its answer does not include its health');
  const lines = text.trimEnd().split('\n');
  await print(
    context,
    `${isJson ? text.trim() : lines.map((line) => escapeControlCharacters(line)).join('\n')}\n`,
  );
  if (state !== 'failing') return EXIT.done;
  printReason(context, failingReason(text, isJson));
  return EXIT.failed;
}

interface MirrorsToAsk {
  readonly mirrors: readonly string[];
  /** The mirrors in a sentence. */
  readonly names: string;
  /** The mistake in the configuration: a running daemon continues without it, and reports it itself. */
  readonly mistake: TidemarkError | null;
  /** Where the daemon would listen; null if the configuration cannot be read. */
  readonly http: Pick<HttpConfig, 'host' | 'port'> | null;
}

/** @throws TidemarkError `unreachable` if the configuration does not say where a mirror is */
function mirrorsToAsk(context: CommandContext): MirrorsToAsk {
  const { options } = context;
  let mistake: TidemarkError;
  try {
    const loaded = readLoadedConfig(context, options, 'unused');
    const mirrors = mirrorConfigs(loaded).map(({ mirror }) => mirror);
    return { mirrors, names: loaded.mirrorPath, mistake: null, http: loaded.http };
  } catch (error) {
    mistake = asTidemarkError(error);
    if (mistake.code !== 'config_invalid' && mistake.code !== 'config_missing') throw error;
  }
  try {
    const mirrors = locateMirrors(context, options);
    if (mirrors.length === 0) throw mistake;
    return { mirrors, names: namesOf(mirrors), mistake, http: null };
  } catch (error) {
    const { message, hint } = asTidemarkError(error);
    throw new TidemarkError(
      'unreachable',
      `no daemon can be found without the path of its mirror: ${message}`,
      { cause: error, hint },
    );
  }
}

/** The failures in the answer, which is text or JSON. */
function failingReason(text: string, isJson: boolean): string[] {
  const head = 'the daemon is not healthy:';
  if (!isJson) return [head, ...failingLines(text.split('\n'))];
  const reasonsIn = ({ source, reasons = [], sources = [] }: Readiness): string[] => [
    ...reasons
      .filter(({ state }) => state === 'failing')
      .map(({ message }) => `  failing: ${source === undefined ? '' : `${source}: `}${message}`),
    ...sources.flatMap(reasonsIn),
  ];
  return [head, ...reasonsIn(JSON.parse(text) as Readiness)];
}

/** In the text, the line of a source (`NAME: STATE`) comes before its reasons, which are indented. */
function failingLines(lines: readonly string[]): string[] {
  let source = '';
  return lines.flatMap((line) => {
    const name = /^(\S.*): (?:ok|degraded|starting|failing)$/.exec(line)?.[1];
    if (name !== undefined) source = `${name}: `;
    return line.startsWith(FAILING) ? [`${FAILING}${source}${line.slice(FAILING.length)}`] : [];
  });
}

const FAILING = '  failing: ';

/** The part of `tidemark.health/1` with the failures. */
interface Readiness {
  readonly source?: string;
  readonly reasons?: readonly { readonly state: string; readonly message: string }[];
  readonly sources?: readonly Readiness[];
}

interface UnknownDaemon {
  readonly url: string;
  /** Its state; null if it requires a token. */
  readonly state: string | null;
}

/**
 * The daemon that answers at the configured address; null if none does. It may be the daemon of another mirror: only the token beside
 * the mirror could prove that it is this one, and the token is not sent to an unknown program.
 */
async function daemonAt(
  { host, port }: Pick<HttpConfig, 'host' | 'port'>,
  signal: AbortSignal,
): Promise<UnknownDaemon | null> {
  if (port === 0) return null;
  const { url } = listeningAt(host, { address: host, port, family: '' });
  try {
    const answer = await get(new URL('/readyz', url), { accept: 'text/plain' }, signal);
    const [state = ''] = answer.text.split('\n', 1);
    if (answer.instance !== undefined && STATUS_BY_STATE[state] === answer.status) return { url, state };
    return answer.status === 401 && isRefusal(answer.text) ? { url, state: null } : null;
  } catch {
    // Nothing listens there.
    return null;
  }
}

/** True for the answer of a daemon with `http.token` to a request without it. */
function isRefusal(text: string): boolean {
  try {
    return (JSON.parse(text) as { error?: { code?: unknown } }).error?.code === 'unauthorized';
  } catch {
    // Not JSON: another program.
    return false;
  }
}

/** The error if there is no file of a daemon beside the mirror, but one answers at the configured address. */
function withoutLockfile(
  { url, state }: UnknownDaemon,
  names: string,
  mirrors: readonly string[],
): TidemarkError {
  const away = mirrors.find((mirror) => !existsSync(mirror));
  const answers = `a daemon answers at ${url}${state === null ? '' : ` with ${state}`}`;
  if (away === undefined)
    return new TidemarkError(
      'unreachable',
      `no daemon is running on ${names}, or this user may not see it; ${answers}`,
      {
        hint: 'ask as the user that it runs as, with the same configuration. If the volume of its mirror is away and another mirror is in its place, move that one away and mount the volume. If it is the daemon of another mirror, start one for this with an `http.listen` of its own',
      },
    );
  return new TidemarkError(
    'unreachable',
    `${answers}, but ${away} and the daemon's file beside it are missing: is the volume mounted?`,
    {
      hint: 'mount the volume that the mirror belongs to, or put the file back: a restart of the daemon begins a new mirror instead, without history. If it is the daemon of another mirror, start one for this with an `http.listen` of its own',
    },
  );
}

async function readiness(
  card: DaemonLockfile,
  accept: string,
  signal: AbortSignal,
): Promise<ReadinessAnswer> {
  const { url, token } = card;
  if (url === null) throw unreachable(card, 'it answers no HTTP');
  try {
    return await get(new URL('/readyz', url), { accept, authorization: `Bearer ${token.reveal()}` }, signal);
  } catch (error) {
    throw unreachable(card, error instanceof Error ? error.message : String(error), error);
  }
}

interface ReadinessAnswer {
  readonly status: number;
  readonly instance: string | undefined;
  readonly text: string;
}

/** @throws Error if there is no answer in time, or one that is too long */
function get(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<ReadinessAnswer> {
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const sent = request(url, { agent: NO_PROXY, headers, signal: limit }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > LARGEST_CHARACTERS) answer.destroy(new Error('its answer does not end'));
      });
      answer.on('error', reject);
      const instance = [answer.headers[INSTANCE_HEADER.toLowerCase()] ?? []].flat()[0];
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, instance, text }));
    });
    sent.on('error', (error) =>
      reject(limit.aborted && !signal.aborted ? new Error(`no answer within ${TIMEOUT_MS / 1000} s`) : error),
    );
    sent.end();
  });
}

/** The state of a health document; undefined for anything else. */
function stateIn(text: string): string | undefined {
  try {
    const { schema, state } = JSON.parse(text) as Record<string, unknown>;
    return schema === 'tidemark.health/1' && typeof state === 'string' ? state : undefined;
  } catch {
    // Not JSON: the caller reports it.
    return undefined;
  }
}

function unreachable(card: DaemonLockfile, why: string, cause?: unknown): TidemarkError {
  return daemonUnreachable(card, why, {
    cause,
    hint: 'see its log; `http.listen` sets the address where it answers',
  });
}
