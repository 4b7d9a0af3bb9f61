/**
 * Serves one organization, one project and N session recordings of about 800 bytes, newest first, from memory: as fast
 * as a server can be, so that what is measured is the client. `node bench/page-server.ts COUNT [beyond-latin-1]` prints its URL;
 * with the second word, names that take two bytes a character once they are read. POST /delay?ms=N makes each page wait.
 * GET /requests tells the requests by path since it was last asked; POST /change?share=S&times=N puts it N changes after
 * its beginning, each of which altered another such share of the recordings, spread over the whole list.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { recording } from './recording.ts';

const total = Number(process.argv[2] ?? 100_000);
const city = process.argv[3] === 'beyond-latin-1' ? '東京' : 'Rotterdam';
const organization = '0190f000-0000-7000-8000-000000000001';

let bytes = Buffer.alloc(0);
let offsets = new Float64Array(0);

function fill(generation: (index: number) => number): void {
  const parts: Buffer[] = [];
  offsets = new Float64Array(total + 1);
  let at = 0;
  for (let from = 0; from < total; from += 5000) {
    let text = '';
    for (let index = from; index < Math.min(total, from + 5000); index += 1) {
      const record = `${recording(index, generation(index), total - index, city)},`;
      at += Buffer.byteLength(record);
      offsets[index + 1] = at;
      text += record;
    }
    parts.push(Buffer.from(text));
  }
  bytes = Buffer.concat(parts);
}
fill(() => 0);

function send(response: ServerResponse, ...chunks: Buffer[]): void {
  const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': length });
  response.cork();
  for (const chunk of chunks) response.write(chunk);
  response.end();
  response.uncork();
}

function list(response: ServerResponse, records: object[]): void {
  send(
    response,
    Buffer.from(JSON.stringify({ count: records.length, next: null, previous: null, results: records })),
  );
}

/** Before each page, as a service far away or busy has it. */
let delayMs = 0;

let requests: Record<string, number> = {};
const server = createServer((request, response) => {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? 'localhost'}`);
  if (url.pathname === '/delay') {
    delayMs = Number(url.searchParams.get('ms'));
    response.writeHead(204).end();
    return;
  }
  if (request.method === 'POST') {
    const every = Math.round(1 / Number(url.searchParams.get('share')));
    const times = Number(url.searchParams.get('times'));
    fill((index) => (index % every < times ? 1 : 0));
    response.writeHead(204).end();
    return;
  }
  if (url.pathname === '/requests') {
    response.end(JSON.stringify(requests));
    requests = {};
    return;
  }
  requests[url.pathname] = (requests[url.pathname] ?? 0) + 1;
  if (url.pathname === '/api/organizations/') {
    list(response, [{ id: organization, name: 'Harbor', teams: [{ id: 1, name: 'Web' }] }]);
    return;
  }
  if (url.pathname.endsWith('/session_recordings/')) {
    const limit = Math.min(1000, Number(url.searchParams.get('limit') ?? 100));
    const from = Math.min(total, Number(url.searchParams.get('offset') ?? 0));
    const to = Math.min(total, from + limit);
    const next =
      to < total ? JSON.stringify(`${url.origin}${url.pathname}?limit=${limit}&offset=${to}`) : 'null';
    const page = (): void =>
      send(
        response,
        Buffer.from(`{"count":${total},"next":${next},"previous":null,"results":[`),
        bytes.subarray(offsets[from], Math.max(offsets[from]!, offsets[to]! - 1)),
        Buffer.from(']}'),
      );
    if (delayMs === 0) page();
    else setTimeout(page, delayMs);
    return;
  }
  if (url.pathname.startsWith(`/api/organizations/${organization}/`)) {
    list(response, url.pathname.endsWith('/projects/') ? [{ id: 1, name: 'Web' }] : []);
    return;
  }
  response
    .writeHead(404, { 'content-type': 'application/json' })
    .end('{"type":"invalid_request","code":"not_found","detail":"Not found.","attr":null}');
});
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}`, bytes: bytes.length })}\n`);
});
