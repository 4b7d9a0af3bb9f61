/**
 * A bare Node server that holds a few answers in memory and sends them: as fast as Node can. `node bench/bare-server.ts
 * URL…` fetches them from there, prints its own URL, and answers the same paths with the same bytes and content type.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const answers = new Map<string, Buffer>();
for (const address of process.argv.slice(2)) {
  const { pathname, search } = new URL(address);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address} answered ${answer.status}`);
  answers.set(pathname + search, Buffer.from(await answer.arrayBuffer()));
}
const server = createServer((request, response) => {
  const answer = answers.get(request.url ?? '');
  if (answer === undefined) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': answer.length });
  response.end(answer);
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
});
