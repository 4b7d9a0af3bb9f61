/** One request of the command line to the daemon on this machine, with the token from its private file. */
import { request } from 'node:http';
import { TidemarkError } from '../core/errors.ts';
import type { PresenceCard } from '../daemon/presence.ts';
import { daemonUnreachable } from './daemon-unreachable.ts';

/** As `POST /api/v1/runs` takes it. */
export interface RunsRequest {
  readonly job: string;
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  readonly kinds: readonly string[] | null;
}

const TIMEOUT_MS = 10_000;

/**
 * Asks for runs.
 * @throws TidemarkError `unreachable` where nobody answers, `usage` with the daemon's own words where it refuses
 */
export async function askDaemon(card: PresenceCard, signal: AbortSignal, wanted: RunsRequest): Promise<void> {
  if (card.url === null) throw daemonUnreachable(card, 'it answers no HTTP');
  const { status, text } = await post(
    new URL('/api/v1/runs', card.url),
    card,
    signal,
    JSON.stringify(wanted),
  );
  if (status === 202) return;
  if (status === 401 || status === 403 || status === 404 || status >= 500)
    throw daemonUnreachable(card, `it answered ${status}`);
  throw new TidemarkError(
    'usage',
    `the daemon (pid ${card.pid}) refused: ${wordsOf(text) ?? `status ${status}`}`,
  );
}

function post(
  url: URL,
  card: PresenceCard,
  signal: AbortSignal,
  body: string,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => reject(daemonUnreachable(card, error.message, { cause: error }));
    const sent = request(
      url,
      {
        method: 'POST',
        headers: {
          authorization: `Bearer ${card.token.reveal()}`,
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
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
    sent.end(body);
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
