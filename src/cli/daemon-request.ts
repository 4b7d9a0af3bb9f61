/** What the command line asks the daemon on this machine, with the token from its private file. */
import { Agent, request } from 'node:http';
import { TidemarkError } from '../core/errors.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import { daemonUnreachable } from './daemon-unreachable.ts';

/** As `POST /api/v1/runs` takes it. */
interface RunsRequest {
  readonly job: string;
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  readonly kinds: readonly string[] | null;
}

/** A job that the daemon has put into its queue. */
export interface QueuedRequest {
  readonly source: string | null;
  /** By which it is found again. */
  readonly request: number;
  /** What is at work and waits before it, by the names of the jobs. */
  readonly behind: readonly string[];
}

/** What became of a request, as `tidemark.request/1` tells it. */
export interface RequestState {
  readonly state: 'waiting' | 'running' | 'ended';
  /** Of the job in the mirror; null for one that has not begun, or never did. */
  readonly number: number | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

interface DaemonAnswer {
  readonly status: number;
  readonly text: string;
}

const TIMEOUT_MS = 10_000;
/** Under NODE_USE_ENV_PROXY the global agent would take the token to HTTP_PROXY, also on the way to this machine. */
const NO_PROXY = new Agent({ proxyEnv: {} });

/**
 * Asks for runs.
 * @throws TidemarkError `unreachable` where nobody answers, `throttled` where too much waits there, `usage` where it refuses
 *   otherwise, both with the daemon's own words
 */
export async function askDaemon(
  card: DaemonLockfile,
  signal: AbortSignal,
  wanted: RunsRequest,
): Promise<readonly QueuedRequest[]> {
  const answer = await call(card, signal, 'POST', '/api/v1/runs', JSON.stringify(wanted));
  if (answer.status === 202) return queuedIn(answer, card);
  if (answer.status === 401 || answer.status === 403 || answer.status === 404 || answer.status >= 500)
    throw daemonUnreachable(card, `it answered ${answer.status}`);
  throw new TidemarkError(
    // It is busy, which is no mistake of whoever asks.
    answer.status === 429 ? 'throttled' : 'usage',
    `the daemon (pid ${card.pid}) refused: ${wordsOf(answer.text) ?? `status ${answer.status}`}`,
  );
}

/**
 * What became of a request; null where the daemon knows it no longer.
 * @throws TidemarkError `unreachable` where nobody answers
 */
export async function lookUpRequest(
  card: DaemonLockfile,
  signal: AbortSignal,
  request: number,
): Promise<RequestState | null> {
  const { status, text } = await call(card, signal, 'GET', `/api/v1/requests/${request}`, null);
  if (status === 404) return null;
  if (status !== 200) throw daemonUnreachable(card, `it answered ${status}`);
  const { state, number, error } = documentIn(text, card) as unknown as RequestState;
  return { state, number, error };
}

function queuedIn({ text }: DaemonAnswer, card: DaemonLockfile): QueuedRequest[] {
  const { queued } = documentIn(text, card);
  if (!Array.isArray(queued)) throw daemonUnreachable(card, 'its answer is not understood');
  return (queued as (Omit<QueuedRequest, 'behind'> & { behind?: { job: string }[] })[]).map(
    ({ source, request, behind = [] }) => {
      if (typeof request !== 'number')
        throw daemonUnreachable(card, 'it is of another version, and gives requests no number');
      return { source, request, behind: behind.map(({ job }) => job) };
    },
  );
}

function documentIn(text: string, card: DaemonLockfile): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw daemonUnreachable(card, 'its answer is no JSON', { cause: error });
  }
}

function call(
  card: DaemonLockfile,
  signal: AbortSignal,
  method: 'GET' | 'POST',
  path: string,
  body: string | null,
): Promise<DaemonAnswer> {
  if (card.url === null) return Promise.reject(daemonUnreachable(card, 'it answers no HTTP'));
  const url = new URL(path, card.url);
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(daemonUnreachable(card, error.message, { cause: error }));
    const sent = request(
      url,
      {
        method,
        agent: NO_PROXY,
        headers: {
          authorization: `Bearer ${card.token.reveal()}`,
          ...(body === null
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        },
        signal,
        timeout: TIMEOUT_MS,
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => (text += chunk));
        answer.on('error', fail);
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      },
    );
    sent.on('timeout', () => sent.destroy(new Error('no answer in time')));
    sent.on('error', fail);
    sent.end(body ?? undefined);
  });
}

/** The message of an error document, however it is wrapped. */
function wordsOf(text: string): string | undefined {
  try {
    const body = JSON.parse(text) as { message?: unknown; error?: { message?: unknown } };
    const message = body.message ?? body.error?.message;
    return typeof message === 'string' ? message : undefined;
  } catch {
    // Not ours: the status has to do.
    return undefined;
  }
}
