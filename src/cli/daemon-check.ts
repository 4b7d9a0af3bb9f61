/** `tidemark daemon --check`: asks the living daemon of this mirror whether it does what it is there for. */
import { existsSync } from 'node:fs';
import type { HttpConfig } from '../config/config.ts';
import { mirrorConfigs, namesOf } from '../config/mirrors.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError, type ExitCode, EXIT } from '../core/errors.ts';
import { listeningAt } from '../core/local-url.ts';
import { locateMirrors, readLoadedConfig } from '../wire.ts';
import { type CommandContext, print, printReason } from './context.ts';
import { daemonUnreachable } from './daemon-effects.ts';
import { Agent, request } from 'node:http';
import { hostname } from 'node:os';
import { type DaemonLockfile, findDaemon, INSTANCE_HEADER, instanceOf } from '../daemon/lockfile.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';

/** Shorter than what container engines and Kubernetes give a probe by our own manifests. */
const TIMEOUT_MS = 8000;
const LARGEST_CHARACTERS = 1_000_000;
/** Under NODE_USE_ENV_PROXY the global agent would ask HTTP_PROXY, and take its word for the daemon's. */
const NO_PROXY = new Agent({ proxyEnv: {} });
/** As the first line of the text, or `state` of the document, with the status that goes with it. */
const STATUS_BY_STATE: Readonly<Record<string, number>> = {
  ok: 200,
  degraded: 200,
  starting: 503,
  failing: 503,
};

/**
 * Prints what `/readyz` says. Exit 0 for `ok`, `degraded` and `starting`, 1 for `failing`: a daemon that is busy with its
 * first sync is well, and a container engine that takes it for ill would only end what it waits for.
 * @throws TidemarkError `unreachable` where no daemon is running on this mirror, or it does not answer
 */
export async function daemonCheck(context: CommandContext): Promise<ExitCode> {
  const { mirrors, names, mistake, http } = mirrorsToAsk(context);
  const looker = { pid: context.pid, host: hostname(), now: systemClock.now() };
  // A daemon of many mirrors is beside each of them, but not beside one that could not be taken.
  const card = mirrors.reduce<DaemonLockfile | null>(
    (found, mirror) => found ?? findDaemon(mirror, looker),
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
  /** What is wrong with the configuration: a daemon that runs works on without it, and says so itself. */
  readonly mistake: TidemarkError | null;
  /** Where it listens, if it runs; null if the configuration cannot be read. */
  readonly http: Pick<HttpConfig, 'host' | 'port'> | null;
}

/** @throws TidemarkError `unreachable` where the configuration does not tell where a mirror is */
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
      {
        cause: error,
        ...(hint === undefined ? {} : { hint }),
      },
    );
  }
}

/** What fails, out of the answer in either form. */
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

interface Answering {
  readonly url: string;
  /** Its state; null if it answers only who has a token. */
  readonly state: string | null;
}

/**
 * The daemon that answers where this one would listen; null if none does. It is not known to be this one: that is proved with the
 * token beside the mirror, and a token is not sent to somebody unknown.
 */
async function daemonAt(
  { host, port }: Pick<HttpConfig, 'host' | 'port'>,
  signal: AbortSignal,
): Promise<Answering | null> {
  if (port === 0) return null;
  const { url } = listeningAt(host, { address: host, port, family: '' });
  try {
    const answer = await get(new URL('/readyz', url), { accept: 'text/plain' }, signal);
    const [state = ''] = answer.text.split('\n', 1);
    if (answer.instance !== undefined && STATUS_BY_STATE[state] === answer.status) return { url, state };
    return answer.status === 401 && isRefusal(answer.text) ? { url, state: null } : null;
  } catch {
    // Nobody listens there: no daemon runs.
    return null;
  }
}

/** Whether it is how a daemon with `http.token` answers without one. */
function isRefusal(text: string): boolean {
  try {
    return (JSON.parse(text) as { error?: { code?: unknown } }).error?.code === 'unauthorized';
  } catch {
    // No JSON: somebody else's.
    return false;
  }
}

/** Nothing beside the mirror says where its daemon is, but one answers. */
function withoutLockfile(
  { url, state }: Answering,
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

/** @throws Error where there is no answer in time, or one that does not end */
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
    // No JSON: the caller says so.
    return undefined;
  }
}

function unreachable(card: DaemonLockfile, why: string, cause?: unknown): TidemarkError {
  return daemonUnreachable(card, why, {
    cause,
    hint: 'see its log; `http.listen` sets the address where it answers',
  });
}
