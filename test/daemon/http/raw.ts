/** Requests by the byte, as no client of ours would send them. */
import { connect } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Sends the lines of a head, then the body as it is, and reads until the server is done. */
export async function rawCall(url: string, head: readonly string[], body = ''): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const lines = head.some((line) => /^host:/i.test(line)) ? head : [...head, `Host: ${hostname}:${port}`];
  const socket = connect(Number(port), hostname);
  let text = '';
  socket.setEncoding('utf8');
  socket.on('data', (part: string) => (text += part));
  socket.write(`${[...lines, 'Connection: close', '', ''].join('\r\n')}${body}`);
  await new Promise<void>((resolve, reject) => {
    socket.once('close', () => resolve());
    // A server that answers before it has read everything may reset the rest.
    socket.once('error', (error) => (text === '' ? reject(error) : resolve()));
  });
  const end = text.indexOf('\r\n\r\n');
  const [first = '', ...rest] = text.slice(0, end).split('\r\n');
  const headers = Object.fromEntries(
    rest.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  );
  return { status: Number(first.split(' ')[1]), headers, body: text.slice(end + 4) };
}

/** A body in the chunks of `Transfer-Encoding: chunked`. */
export function chunked(...parts: readonly string[]): string {
  return [...parts, ''].map((part) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`).join('');
}
