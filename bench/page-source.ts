/** Starts the page server in a process of its own, and the environment in which a command reads from it. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { here } from './section.ts';

export interface PageSource extends AsyncDisposable {
  readonly url: string;
  /** Bytes of JSON that the recordings are. */
  readonly bytes: number;
  /** Requests by path since it was last asked. */
  requests(): Promise<ReadonlyMap<string, number>>;
  /** What it serves from now on is `times` changes from its beginning, each of another such share of the recordings. */
  change(share: number, times?: number): Promise<void>;
  /** Each page of recordings waits as long from now on. */
  delay(ms: number): Promise<void>;
}

export const RECORDINGS_PATH = '/api/projects/1/session_recordings/';

/** `beyondLatin1`: with names for which V8 takes two bytes a character of a page. */
export async function startPageSource(
  count: number,
  options: { readonly beyondLatin1?: boolean } = {},
): Promise<PageSource> {
  const names = options.beyondLatin1 === true ? ['beyond-latin-1'] : [];
  const child = spawn(process.execPath, [here('page-server.ts'), String(count), ...names], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for await (const line of createInterface({ input: child.stdout })) {
    const { url, bytes } = JSON.parse(line) as { url: string; bytes: number };
    return {
      url,
      bytes,
      requests: async () =>
        new Map(Object.entries((await (await fetch(`${url}/requests`)).json()) as Record<string, number>)),
      change: async (share, times = 1) => {
        await fetch(`${url}/change?share=${share}&times=${times}`, { method: 'POST' });
      },
      delay: async (ms) => {
        await fetch(`${url}/delay?ms=${ms}`, { method: 'POST' });
      },
      [Symbol.asyncDispose]: async () => {
        child.kill();
        await ended;
      },
    };
  }
  throw new Error('the page server did not start');
}

/** Pages as large as the server gives; no rate limit, since the service is ours; no sharing, which is a request each. */
export function environment(source: Pick<PageSource, 'url'>, mirror: string): Record<string, string> {
  return {
    TIDEMARK_BASE_URL: source.url,
    TIDEMARK_API_KEY: 'bench',
    TIDEMARK_MIRROR: mirror,
    TIDEMARK_RATE_PER_MINUTE: '0',
    TIDEMARK_RATE_PER_HOUR: '0',
    TIDEMARK_PAGE_SIZE: '1000',
    TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0',
  };
}
