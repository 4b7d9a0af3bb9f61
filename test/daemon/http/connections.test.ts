/** Whoever opens many connections and says little takes nothing away from the others. */
import { type AddressInfo, connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Secret } from '../../../src/core/secret.ts';
import { createBoundedServer } from '../../../src/server/http-server.ts';
import { createSandbox } from '../../../src/server/sandbox.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { World } from './world.ts';
import { smallDemo } from '../../server/small-demo.ts';

/** Connections that send the beginning of a request and no more; each that is dropped is opened again. */
class HalfSent {
  readonly #open = new Set<Socket>();
  readonly #port: number;
  readonly #text: string;
  #isOver = false;
  opened = 0;

  constructor(url: string, text: string) {
    this.#port = Number(new URL(url).port);
    this.#text = text;
    onTestFinished(() => this.end());
  }

  async open(count: number): Promise<void> {
    await Promise.all(Array.from({ length: count }, () => this.#one()));
  }

  #one(): Promise<void> {
    const socket = connect(this.#port, '127.0.0.1');
    this.#open.add(socket);
    this.opened += 1;
    socket.on('error', () => undefined);
    return new Promise((resolve) => {
      socket.once('connect', () => socket.write(this.#text, () => resolve()));
      socket.once('close', () => {
        resolve();
        this.#open.delete(socket);
        if (!this.#isOver) void this.#one();
      });
    });
  }

  end(): void {
    this.#isOver = true;
    for (const socket of this.#open) socket.destroy();
  }
}

/**
 * Milliseconds of the answer in the middle. A starved server lets every probe wait; a single slow answer may be the
 * machine's.
 */
async function usualWait(url: string, count: number, headers: Record<string, string> = {}): Promise<number> {
  const waits: number[] = [];
  for (let each = 0; each < count; each += 1) {
    const begun = performance.now();
    // A connection of its own each time, as a probe has.
    const answer = await fetch(url, {
      headers: { connection: 'close', ...headers },
      signal: AbortSignal.timeout(5_000),
    });
    expect(answer.status).toBe(200);
    await answer.text();
    waits.push(performance.now() - begun);
  }
  return waits.sort((a, b) => a - b)[Math.floor(count / 2)] ?? Infinity;
}

describe('half-sent requests, renewed whenever they are dropped', () => {
  it.each([
    [230, 'no whole head', 'GET / HTTP/1.1\r\nHost: local'],
    [1000, 'no whole head', 'GET / HTTP/1.1\r\nHost: local'],
    [1000, 'nothing at all', ''],
    [230, 'no body', 'POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n'],
  ])('%i with %s leave /healthz to those who ask', async (count, _name, text) => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret('a-token-of-some-length') });
    const halfSent = new HalfSent(url, text);
    await halfSent.open(count);
    expect(await usualWait(`${url}/healthz`, 40)).toBeLessThan(1000);
    expect(halfSent.opened).toBeGreaterThan(200);
  });

  it('the same of the sandbox and serve', async () => {
    const sandbox = await createSandbox({
      clock: systemClock,
      seed: smallDemo(),
      keys: [{ key: 'k', permissions: 'all' }],
    });
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    await new HalfSent(url, 'GET / HTTP/1.1\r\nHost: local').open(900);
    expect(await usualWait(`${url}/api/organizations/`, 9, { authorization: 'Bearer k' })).toBeLessThan(1000);
  });
});

it('a request that arrived while the process stood still is answered', async () => {
  const server = createBoundedServer((_incoming, outgoing) => void outgoing.end('done'));
  onTestFinished(() => void server.close());
  // Nothing of the connection is read before this ends.
  server.once('connection', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4_000));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://127.0.0.1:${port}/`);
  expect([answer.status, await answer.text()]).toEqual([200, 'done']);
});

it('200 requests that are being answered are answered, whatever comes after them', async () => {
  const world = await World.create();
  const { url } = await world.listen({ token: new Secret('a-token-of-some-length') });
  const halfSent = new HalfSent(url, 'GET / HTTP/1.1\r\nHost: local');
  const answers = Array.from({ length: 150 }, () => fetch(`${url}/login`));
  await halfSent.open(300);
  expect((await Promise.all(answers)).every(({ status }) => status === 200)).toBe(true);
});
