/**
 * The HTTP server under the daemon, `serve` and `sandbox`: Node's, with limits that keep one caller from taking it away from
 * the others. What waits for its client (an incomplete head, a body that does not arrive, an idle connection) gives way to
 * newcomers, the oldest first; what is being answered does not.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { addressGroup } from './client-address.ts';

/** Answers a request. `isCrowded`: as many as may be are being answered already, so a refusal is due. */
type HttpHandler = (incoming: IncomingMessage, outgoing: ServerResponse, isCrowded: boolean) => void;

/** A cookie, a token and a search: no request has more. */
const MAX_HEADER_BYTES = 16 * 1024;
/**
 * Until all headers are there, and until all of the request is. Longer than this process may stand still on a busy machine: Node
 * answers 408 for the time that passed, before it reads what arrived meanwhile. Slow clients keep nobody out (`Connections`).
 */
const HEADERS_TIMEOUT_MS = 60_000;
const REQUEST_TIMEOUT_MS = 120_000;
/** A connection on which nothing moves, a reader that stopped reading among them. */
const IDLE_TIMEOUT_MS = 30_000;
/** As long as an idle one: a client that reuses a connection just as it is closed gets an error, after any pause of the process. */
const KEEP_ALIVE_MS = IDLE_TIMEOUT_MS;
/** How often connections are looked at for these limits. */
const LIMITS_CHECKED_MS = 1_000;
/** Requests that are being answered at once: each may hold an answer in memory. */
const MAX_ANSWERS = 200;
/**
 * Connections of one address, and of all together. One that waits costs some 10 kB, less than dropping it and taking in the
 * one that comes in its place.
 */
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
      // What still waits for its body is not an answer yet, and must not keep others from theirs.
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
  /** The request that is being read or answered; null before the first one and between two. */
  request: IncomingMessage | null;
}

/** True while a body that was announced is not complete. */
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
    // Many may be taken in at once, before anything is read from any of them: the heads that are already here are read in
    // the turn of the loop after this one, and only then is it known which connections are without.
    setImmediate(() => setImmediate(() => this.#review()));
  }

  begin(incoming: IncomingMessage): void {
    const connection = this.#known.get(incoming.socket);
    if (connection !== undefined) connection.request = incoming;
  }

  /** Requests that arrived completely and are not answered yet. */
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

  /** Drops what is over the limits: of each address its oldest waiting ones, in all those of the address with most. */
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
    // Those in use only if no other one is left.
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
