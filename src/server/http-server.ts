/**
 * The HTTP server of the daemon, `serve` and `sandbox`: that of Node, with limits that keep one caller from blocking
 * the others. Connections that wait for their client (an incomplete head, a body that does not arrive, an idle
 * connection) are closed for new ones, the oldest first; those with a request that is being answered are not.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { addressGroup } from './client-address.ts';

/** Answers a request. `isCrowded`: the limit of simultaneous answers is reached, so it has to refuse. */
type HttpHandler = (incoming: IncomingMessage, outgoing: ServerResponse, isCrowded: boolean) => void;

/** Enough for a cookie, a token and a search. */
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * The limits for receiving the headers, and the entire request. Longer than this process may be suspended on a busy
 * machine: Node answers 408 after that time, before it reads what arrived meanwhile. Slow clients block nobody
 * (`Connections`).
 */
const HEADERS_TIMEOUT_MS = 60_000;
const REQUEST_TIMEOUT_MS = 120_000;
/** For a connection without any traffic, including one whose client stopped reading. */
const IDLE_TIMEOUT_MS = 30_000;
/** Not shorter than for other idle connections: a client that reuses a connection just as it is closed gets an error. */
const KEEP_ALIVE_MS = IDLE_TIMEOUT_MS;
/** How often connections are checked for these limits. */
const LIMITS_CHECKED_MS = 1_000;
/** Requests that are answered at the same time: each may have an answer in memory. */
const MAX_ANSWERS = 200;
/** Connections of one address, and of all. A waiting connection takes about 10 kB, less than closing it and opening another. */
const MAX_CONNECTIONS_PER_ADDRESS = 1_000;
const MAX_CONNECTIONS = 2_000;

/** A server that does not listen yet. */
export function createBoundedServer(handle: HttpHandler): Server {
  const connections = new Connections();
  let answers = 0;
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: LIMITS_CHECKED_MS,
    },
    (incoming, outgoing) => {
      answers += 1;
      connections.begin(incoming);
      // Requests that wait for their body do not count, so that they cannot block others.
      const isCrowded = answers > MAX_ANSWERS && connections.countAnswered() > MAX_ANSWERS;
      outgoing.once('close', () => {
        answers -= 1;
        connections.end(incoming.socket);
      });
      handle(incoming, outgoing, isCrowded);
    },
  );
  server.timeout = IDLE_TIMEOUT_MS;
  server.on('connection', (socket) => connections.add(socket));
  return server;
}

interface Connection {
  readonly address: string;
  /** The request that is being read or answered; null between requests. */
  request: IncomingMessage | null;
}

/** True while the body of a request is not complete. */
function isAwaited({ complete, headers }: IncomingMessage): boolean {
  const isAnnounced =
    headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
  return isAnnounced && !complete;
}

class Connections {
  /** In the order in which they began to wait. */
  readonly #known = new Map<Socket, Connection>();
  readonly #countByAddress = new Map<string, number>();
  #isReviewDue = false;

  add(socket: Socket): void {
    const address = addressGroup(socket.remoteAddress ?? '');
    this.#known.set(socket, { address, request: null });
    const count = (this.#countByAddress.get(address) ?? 0) + 1;
    this.#countByAddress.set(address, count);
    socket.once('close', () => this.#remove(socket, address));
    if (count <= MAX_CONNECTIONS_PER_ADDRESS && this.#known.size <= MAX_CONNECTIONS) return;
    if (this.#isReviewDue) return;
    this.#isReviewDue = true;
    // Many connections may be accepted at once, before anything is read from them. Heads that have arrived are read in
    // the next turn of the event loop: only then is it known which connections wait.
    setImmediate(() => setImmediate(() => this.#review()));
  }

  begin(incoming: IncomingMessage): void {
    const connection = this.#known.get(incoming.socket);
    if (connection !== undefined) connection.request = incoming;
  }

  /** The number of requests that arrived completely and are not answered yet. */
  countAnswered(): number {
    let count = 0;
    for (const { request } of this.#known.values()) if (request !== null && !isAwaited(request)) count += 1;
    return count;
  }

  end(socket: Socket): void {
    const connection = this.#known.get(socket);
    if (connection === undefined) return;
    connection.request = null;
    this.#known.delete(socket);
    this.#known.set(socket, connection);
  }

  /** Closes connections over the limits, the oldest waiting ones first: of each address, then of the address with the most. */
  #review(): void {
    this.#isReviewDue = false;
    for (const [address, count] of this.#countByAddress)
      this.#drop(address, count - MAX_CONNECTIONS_PER_ADDRESS);
    while (this.#known.size > MAX_CONNECTIONS) {
      const [[address] = ['']] = [...this.#countByAddress].sort(([, one], [, other]) => other - one);
      this.#drop(address, 1);
    }
  }

  #drop(address: string, surplus: number): void {
    if (surplus <= 0) return;
    let left = surplus;
    // Connections in use only if there are no others.
    for (const isBeingAnswered of [false, true]) {
      for (const [socket, connection] of this.#known) {
        if (left === 0) return;
        if (connection.address !== address) continue;
        if ((connection.request?.complete === true) !== isBeingAnswered) continue;
        this.#remove(socket, address);
        socket.destroy();
        left -= 1;
      }
    }
  }

  #remove(socket: Socket, address: string): void {
    if (!this.#known.delete(socket)) return;
    const count = (this.#countByAddress.get(address) ?? 0) - 1;
    if (count > 0) this.#countByAddress.set(address, count);
    else this.#countByAddress.delete(address);
  }
}
