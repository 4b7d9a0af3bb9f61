/**
 * A scripted HTTP server on 127.0.0.1: a function answers each request, with everything that a service can do wrong.
 * It records what it was sent.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface RecordedRequest {
  readonly method: string;
  /** Path and query exactly as they arrived. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What a script says of one request. */
export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Text, bytes, or any value to be sent as JSON. */
  readonly body?: unknown;
  /** Ends the connection after this many bytes of the body, with a Content-Length that promises all of it. */
  readonly cutAfter?: number;
  /** Resets the connection instead of answering. */
  readonly reset?: true;
  /** Never answers; `headers`: sends headers and then nothing. */
  readonly hang?: 'all' | 'headers';
  /** Content-Length to claim instead of the true one. */
  readonly contentLength?: number;
  /** Waited for before anything is sent. */
  readonly gate?: Promise<void>;
}

export type Script = (request: RecordedRequest, nth: number) => Reply;

export interface FaultServer {
  /** `http://127.0.0.1:PORT` */
  readonly url: string;
  readonly requests: readonly RecordedRequest[];
  setScript(script: Script): void;
  close(): Promise<void>;
}

/** Starts a server whose every request `script` answers; `nth` counts from 1. */
export async function startFaultServer(script: Script): Promise<FaultServer> {
  const requests: RecordedRequest[] = [];
  let current = script;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const recorded: RecordedRequest = {
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      };
      requests.push(recorded);
      const reply = current(recorded, requests.length);
      void (reply.gate ?? Promise.resolve()).then(() => sendReply(response, reply));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    setScript: (next) => (current = next),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Sends a reply with its faults. */
export function sendReply(response: ServerResponse, reply: Reply): void {
  if (response.destroyed) return;
  const socket = response.socket;
  if (reply.reset === true) {
    socket?.resetAndDestroy();
    return;
  }
  if (reply.hang === 'all') return;
  const body = bytesOf(reply.body);
  const isJson = typeof reply.body !== 'string' && !Buffer.isBuffer(reply.body);
  response.writeHead(reply.status ?? 200, {
    ...(isJson ? { 'content-type': 'application/json' } : {}),
    ...(reply.status === 204 ? {} : { 'content-length': String(reply.contentLength ?? body.length) }),
    ...reply.headers,
  });
  if (reply.hang === 'headers') {
    response.flushHeaders();
    return;
  }
  if (reply.cutAfter !== undefined) {
    response.write(body.subarray(0, reply.cutAfter), () => socket?.destroy());
    return;
  }
  // Written past node's own check where the claimed length is the fault.
  if (reply.contentLength !== undefined && reply.contentLength !== body.length) {
    response.flushHeaders();
    socket?.end(body);
    return;
  }
  response.end(body);
}

function bytesOf(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === 'string') return Buffer.from(body);
  return body === undefined ? Buffer.alloc(0) : Buffer.from(JSON.stringify(body));
}
