/**
 * Serves one organization, one project and N session recordings of about 800 bytes, newest first, from memory: as fast
 * as a server can be, so that what is measured is the client. `node bench/page-server.ts COUNT` prints its URL.
 * GET /requests tells the requests by path since it was last asked; POST /change?share=S alters that share of the
 * recordings.
 */
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const total = Number(process.argv[2] ?? 100_000);
const organization = '0190f000-0000-7000-8000-000000000001';

function uuid(index: number): string {
  // Spread like random UUIDs, yet the same in every run.
  const mixed = (Math.imul(index + 1, 2_654_435_761) >>> 0).toString(16).padStart(8, '0');
  return `${mixed}-7a3c-4d1e-9b2f-${String(index).padStart(12, '0')}`;
}

function recording(index: number, generation: number): string {
  const start = new Date(Date.UTC(2026, 0, 1) + (total - index) * 1000).toISOString();
  return JSON.stringify({
    id: uuid(index),
    distinct_id: `user-${index % 5000}`,
    viewed: index % 3 === 0,
    recording_duration: 61.5 + (index % 900),
    active_seconds: 30.25 + (index % 300),
    inactive_seconds: 31.25 + generation,
    start_time: start,
    end_time: start.replace('2026', '2027'),
    click_count: index % 50,
    keypress_count: index % 70,
    mouse_activity_count: index % 900,
    console_log_count: index % 11,
    console_warn_count: index % 5,
    console_error_count: index % 3,
    start_url: `https://app.harbor.example/dashboards/${index % 400}?tab=overview`,
    person: {
      id: index % 5000,
      name: `Person ${index % 5000}`,
      distinct_ids: [`user-${index % 5000}`],
      properties: {
        email: `person${index % 5000}@harbor.example`,
        browser: 'Firefox',
        os: 'Linux',
        city: 'Rotterdam',
        plan: 'enterprise',
        referrer: 'https://www.harbor.example/pricing',
      },
      created_at: '2025-03-01T09:30:00Z',
      uuid: uuid(index % 5000),
    },
    storage: 'object_storage',
    snapshot_source: 'web',
    ongoing: false,
  });
}

let bytes = Buffer.alloc(0);
let offsets = new Float64Array(0);

function fill(generation: (index: number) => number): void {
  const parts: Buffer[] = [];
  offsets = new Float64Array(total + 1);
  let at = 0;
  for (let from = 0; from < total; from += 5000) {
    let text = '';
    for (let index = from; index < Math.min(total, from + 5000); index += 1) {
      const record = `${recording(index, generation(index))},`;
      at += record.length; // ASCII only: characters are bytes
      offsets[index + 1] = at;
      text += record;
    }
    parts.push(Buffer.from(text, 'latin1'));
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

let requests: Record<string, number> = {};
const server = createServer((request, response) => {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? 'localhost'}`);
  if (request.method === 'POST') {
    const every = Math.round(1 / Number(url.searchParams.get('share')));
    fill((index) => (index % every === 0 ? 1 : 0));
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
    send(
      response,
      Buffer.from(`{"count":${total},"next":${next},"previous":null,"results":[`),
      bytes.subarray(offsets[from], Math.max(offsets[from]!, offsets[to]! - 1)),
      Buffer.from(']}'),
    );
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
