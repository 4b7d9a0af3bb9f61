/** An HTTP proxy on loopback that takes every host for one port of this machine, and writes down what it was asked. */
import { createServer, request, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

interface Asked {
  /** `CONNECT host:port`, or method and whole URL of a request that is passed on. */
  readonly what: string;
  readonly authorization: string | undefined;
  readonly headers: IncomingMessage['headers'];
}

export class ConnectProxy {
  readonly asked: Asked[] = [];
  /** What it answers in place of a tunnel; `silent` for nothing. */
  answer: number | 'silent' | null = null;
  #to = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((incoming, outgoing) => this.#forward(incoming, outgoing));
    this.#server.on('connect', (incoming, socket: Socket) => this.#tunnel(incoming, socket));
    this.#server.on('connection', (socket) => this.#sockets.add(socket));
  }

  /** @param to port of this machine that it connects to, whatever it is asked for */
  static async start(to: number): Promise<ConnectProxy> {
    const proxy = new ConnectProxy();
    proxy.#to = to;
    await new Promise<void>((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    onTestFinished(async () => {
      for (const socket of proxy.#sockets) socket.destroy();
      await new Promise((resolve) => proxy.#server.close(resolve));
    });
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** @param credentials `user:password` */
  url(credentials = ''): string {
    return `http://${credentials === '' ? '' : `${credentials}@`}127.0.0.1:${this.port}`;
  }

  #note(incoming: IncomingMessage): void {
    const { method = '', url = '', headers } = incoming;
    this.asked.push({ what: `${method} ${url}`, authorization: headers['proxy-authorization'], headers });
  }

  #tunnel(incoming: IncomingMessage, socket: Socket): void {
    this.#note(incoming);
    socket.on('error', () => undefined);
    if (this.answer === 'silent') return;
    if (this.answer !== null) {
      socket.end(`HTTP/1.1 ${this.answer} no\r\ncontent-length: 0\r\n\r\n`);
      return;
    }
    const onward = connect(this.#to, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 connected\r\n\r\n');
      socket.pipe(onward).pipe(socket);
    });
    this.#sockets.add(onward);
    onward.on('error', () => socket.destroy());
  }

  #forward(incoming: IncomingMessage, outgoing: ServerResponse): void {
    this.#note(incoming);
    const { pathname, search } = new URL(incoming.url ?? '');
    const { method } = incoming;
    // The server behind it knows itself by this name only.
    const headers = { ...incoming.headers, host: `127.0.0.1:${this.#to}` };
    const onward = request(
      { port: this.#to, method, path: `${pathname}${search}`, headers },
      (answer: IncomingMessage) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(outgoing);
      },
    );
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  }
}
