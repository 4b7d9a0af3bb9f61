/** `tidemark daemon --check`: asks the living daemon of this mirror whether it does what it is there for. */
import { Agent, request } from 'node:http';
import { hostname } from 'node:os';
import { systemClock } from '../core/clock.ts';
import { type ExitCode, EXIT, TidemarkError } from '../core/errors.ts';
import { type DaemonLockfile, findDaemon, INSTANCE_HEADER, instanceOf } from '../daemon/lockfile.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { readConfig } from '../wire.ts';
import { print, printReason, type CommandContext } from './context.ts';
import { daemonUnreachable } from './daemon-effects.ts';

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
  const { mirror } = readConfig(context, context.options, 'unused');
  const card = findDaemon(mirror, { pid: context.pid, host: hostname(), now: systemClock.now() });
  if (card === null) {
    throw new TidemarkError('unreachable', `no daemon is running on ${mirror}, or this user may not see it`, {
      hint: 'start one with `tidemark daemon`; ask as the user that it runs as, with the same configuration',
    });
  }
  const isJson = context.options.json === true;
  const accept = isJson ? 'application/json' : 'text/plain';
  const { status, instance, text } = await readiness(card, accept, context.signal);
  if (status !== 200 && status !== 503) throw unreachable(card, `it answered ${status}`);
  if (instance !== instanceOf(card.token.reveal()))
    throw unreachable(card, `what answers at ${card.url ?? ''} is not this daemon`);
  const state = isJson ? stateIn(text) : text.split('\n', 1)[0];
  if (state === undefined || STATUS_BY_STATE[state] !== status)
    throw unreachable(card, 'its answer says nothing of its health');
  const lines = text.trimEnd().split('\n');
  await print(
    context,
    `${isJson ? text.trim() : lines.map((line) => escapeControlCharacters(line)).join('\n')}\n`,
  );
  if (state !== 'failing') return EXIT.done;
  printReason(context, failingReason(text, isJson));
  return EXIT.failed;
}

/** What fails, out of the answer in either form. */
function failingReason(text: string, isJson: boolean): string[] {
  const head = 'the daemon is not healthy:';
  if (!isJson) return [head, ...text.split('\n').filter((line) => line.startsWith('  failing: '))];
  const reasonsIn = ({ reasons = [], sources = [] }: Readiness): string[] => [
    ...reasons.filter(({ state }) => state === 'failing').map(({ message }) => `  failing: ${message}`),
    ...sources.flatMap(reasonsIn),
  ];
  return [head, ...reasonsIn(JSON.parse(text) as Readiness)];
}

/** The part of `tidemark.health/1` with the failures. */
interface Readiness {
  readonly reasons?: readonly { readonly state: string; readonly message: string }[];
  readonly sources?: readonly Readiness[];
}

function readiness(
  card: DaemonLockfile,
  accept: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly instance: string | undefined; readonly text: string }> {
  const { url, token } = card;
  if (url === null) throw unreachable(card, 'it answers no HTTP');
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(unreachable(card, error.message, error));
    const headers = { accept, authorization: `Bearer ${token.reveal()}` };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const sent = request(new URL('/readyz', url), { agent: NO_PROXY, headers, signal: limit }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
        if (text.length > LARGEST_CHARACTERS) answer.destroy(new Error('its answer does not end'));
      });
      answer.on('error', fail);
      const instance = [answer.headers[INSTANCE_HEADER.toLowerCase()] ?? []].flat()[0];
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, instance, text }));
    });
    sent.on('error', (error) =>
      fail(limit.aborted && !signal.aborted ? new Error(`no answer within ${TIMEOUT_MS / 1000} s`) : error),
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
