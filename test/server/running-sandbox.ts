/** A sandbox on loopback for one test, and a client that sends paths and bytes exactly as given. */
import { request, type IncomingHttpHeaders } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type JsonObject, parseLossless } from '../../src/core/json.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { valueText } from '../../src/server/value-text.ts';
import { createChance } from '../../src/server/seed/chance.ts';
import { FakeClock } from '../faults/fake-clock.ts';

export const KEY = 'test-key';
/** After everything in the demo. */
export const NOW_MS = Date.UTC(2026, 6, 1, 12);

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The body parsed losslessly. Throws where it is not JSON object. */
  readonly json: JsonObject;
}

export interface CallOptions {
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as it is, instead of a value as JSON. */
  readonly raw?: string | Uint8Array;
}

export interface RunningSandbox {
  readonly sandbox: Awaited<ReturnType<typeof createSandbox>>;
  readonly url: string;
  readonly clock: FakeClock;
  readonly call: (method: string, path: string, body?: unknown, options?: CallOptions) => Promise<Answer>;
}

/** Closed when the test ends, or as `finished` says. Ids are the same in every run. */
export async function startSandbox(
  options: Partial<Parameters<typeof createSandbox>[0]> = {},
  finished: (end: () => Promise<void>) => void = onTestFinished,
): Promise<RunningSandbox> {
  const clock = new FakeClock({ epochMs: NOW_MS });
  const chance = createChance(99);
  const sandbox = await createSandbox({
    clock,
    random: () => chance.between(0, 2 ** 31) / (2 ** 31 + 1),
    keys: [{ key: KEY, permissions: 'all' }],
    seed: 'empty',
    ...options,
  });
  finished(() => sandbox.close());
  const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
  return { sandbox, url, clock, call: (...call) => send(url, ...call) };
}

function send(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  options: CallOptions = {},
): Promise<Answer> {
  const key = options.key === undefined ? KEY : options.key;
  const payload = options.raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        hostname,
        port,
        method,
        path,
        // A connection each: the server shares the test's thread, and closes an idle one during long work.
        agent: false,
        headers: {
          ...(key === null ? {} : { authorization: `Bearer ${key}` }),
          ...(payload === undefined
            ? {}
            : {
                'content-type': 'application/json',
                ...(options.headers?.['transfer-encoding'] === undefined
                  ? { 'content-length': Buffer.byteLength(payload) }
                  : {}),
              }),
          ...options.headers,
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          resolve({
            status: incoming.statusCode ?? 0,
            headers: incoming.headers,
            text,
            get json() {
              return parseLossless(text) as JsonObject;
            },
          });
        });
      },
    );
    outgoing.on('error', reject);
    outgoing.end(payload);
  });
}

/** Creates an organization with one project; the key's user owns it. */
export async function withOrganization(
  running: RunningSandbox,
  name = 'Harbor',
): Promise<{ id: string; path: string; projectId: string }> {
  const created = await running.call('POST', '/api/organizations/', { name });
  const id = created.json['id'] as string;
  const path = `/api/organizations/${id}/`;
  const project = await running.call('POST', `${path}projects/`, { name: 'Web' });
  return { id, path, projectId: valueText(project.json['id']) };
}

/** A directory that is gone when the test ends. */
export function scratchDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-sandbox-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The `results` of a list answer. */
export function resultsOf(answer: Answer): JsonObject[] {
  return answer.json['results'] as JsonObject[];
}
