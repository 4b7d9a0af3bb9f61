/**
 * A reverse proxy on 127.0.0.1 in front of any http origin, which does to chosen requests what networks and services
 * do. It records everything that it was sent.
 */
import { createServer, request as forward, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRuleBook, type Fault, type FaultRule } from './fault-rules.ts';
import { type RecordedRequest, type Reply, sendReply } from './fault-server.ts';

export interface ProxiedRequest extends RecordedRequest {
  /** What was done to it; null where it passed untouched. */
  readonly fault: Fault['kind'] | null;
}

export interface FaultProxy {
  /** `http://127.0.0.1:PORT`, with the origin's own path prefix if it has one. */
  readonly url: string;
  readonly requests: readonly ProxiedRequest[];
  /** Replaces all rules; their counting starts from 1. */
  setRules(rules: readonly FaultRule[]): void;
  close(): Promise<void>;
}

export interface FaultProxyOptions {
  readonly rules?: readonly FaultRule[];
  /** For rules with a probability. */
  readonly seed?: number;
}

interface OriginAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Starts a proxy in front of `origin` (`http://host:port`). */
export async function startFaultProxy(origin: string, options: FaultProxyOptions = {}): Promise<FaultProxy> {
  const target = new URL(origin);
  const requests: ProxiedRequest[] = [];
  const book = createRuleBook(options.seed ?? 1);
  book.set(options.rules ?? []);

  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const method = request.method ?? '';
      const path = request.url ?? '';
      const fault = book.pick(method, path);
      const body = Buffer.concat(chunks);
      const recorded = { method, path, headers: request.headers, body: body.toString('utf8') };
      requests.push({ ...recorded, fault: fault?.kind ?? null });
      answer(recorded, body, fault, response).catch(() => response.socket?.destroy());
    });
  });

  const ask = (recorded: RecordedRequest, path: string, body: Buffer): Promise<OriginAnswer> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = target;
      const outgoing = forward(
        { hostname, port, method: recorded.method, path, headers: recorded.headers },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
          incoming.on('error', reject);
          incoming.on('end', () =>
            resolve({
              status: incoming.statusCode ?? 502,
              headers: incoming.headers,
              body: Buffer.concat(chunks),
            }),
          );
        },
      );
      outgoing.on('error', reject);
      outgoing.end(body);
    });

  const answer = async (
    recorded: RecordedRequest,
    body: Buffer,
    fault: Fault | null,
    response: ServerResponse,
  ): Promise<void> => {
    const refusal = fault === null ? null : refusalOf(fault);
    if (refusal !== null) {
      sendReply(response, refusal);
      return;
    }
    if (fault?.kind === 'gate') {
      fault.reached?.();
      await fault.until;
    }
    const given = await ask(recorded, movedPath(recorded.path, fault), body);
    if (fault?.kind === 'reset-after') sendReply(response, { reset: true });
    else if (fault?.kind === 'cut') sendReply(response, cutReply(given, fault.afterBytes));
    else pass(response, changed(given, fault, recorded.path));
  };

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${target.pathname.replace(/\/$/, '')}`,
    requests,
    setRules: (rules) => book.set(rules),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** What is answered without asking the origin; null where it is asked. */
function refusalOf(fault: Fault): Reply | null {
  switch (fault.kind) {
    case 'answer':
      return fault;
    case 'redirect':
      return { status: fault.status ?? 302, headers: { location: fault.location }, body: '' };
    case 'reset':
      return { reset: true };
    case 'hang':
      return { hang: 'all' };
    default:
      return null;
  }
}

function movedPath(path: string, fault: Fault | null): string {
  const url = new URL(path, 'http://proxy.invalid');
  const offset = Number(url.searchParams.get('offset') ?? 0);
  if (fault?.kind === 'cap') {
    const limit = Number(url.searchParams.get('limit') ?? fault.rows);
    url.searchParams.set('limit', String(Math.min(limit, fault.rows)));
  } else if (fault?.kind === 'first-page') {
    url.searchParams.delete('offset');
  } else if (fault?.kind === 'shift' && offset > 0) {
    url.searchParams.set('offset', String(Math.max(0, offset + fault.rows)));
  } else {
    return path;
  }
  return path.split('?')[0]! + url.search;
}

function cutReply({ status, headers, body }: OriginAnswer, cutAfter: number): Reply {
  return {
    status,
    body,
    headers: { 'content-type': headers['content-type'] ?? 'application/json' },
    cutAfter,
  };
}

function changed(given: OriginAnswer, fault: Fault | null, path: string): OriginAnswer {
  if (fault?.kind === 'replace') {
    const contentType = fault.contentType ?? given.headers['content-type'] ?? 'application/json';
    const headers = { ...given.headers, 'content-type': contentType };
    return { ...given, headers, body: Buffer.from(fault.body) };
  }
  if (fault?.kind !== 'rewrite' || given.body.length === 0) return given;
  const body = fault.json(JSON.parse(given.body.toString('utf8')), path);
  return { ...given, body: Buffer.from(JSON.stringify(body)) };
}

function pass(response: ServerResponse, { status, headers, body }: OriginAnswer): void {
  if (response.destroyed) return;
  response.writeHead(status, headersFor(headers, status, body.length));
  response.end(body);
}

/** The origin's headers without those that speak of its own connection. */
function headersFor(headers: IncomingHttpHeaders, status: number, length: number): IncomingHttpHeaders {
  const own = ['connection', 'keep-alive', 'transfer-encoding', 'content-length'];
  const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => !own.includes(name)));
  return status === 204 ? kept : { ...kept, 'content-length': String(length) };
}
