/**
 * Serves one organization with N domains, and takes what a restore sends: GET and PATCH of one domain, from memory, as
 * fast as a server can, so that what is measured is the client. `node bench/restore-server.ts COUNT` prints its URL.
 * POST /break?changes=N takes it back to its beginning with N domains altered, spread over the list. GET /steps tells
 * what was asked of single domains since it was last asked: how often, by method, and the time from the first to the last.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

const total = Number(process.argv[2] ?? 100_000);
const organization = '0190f000-0000-7000-8000-000000000001';
const collection = `/api/organizations/${organization}/domains/`;

interface Domain {
  id: string;
  saml_entity_id: string;
  [field: string]: unknown;
}

function domain(index: number): Domain {
  // About 800 bytes, as records of the other sections.
  return {
    id: `0190f000-0000-7000-8000-${index.toString(16).padStart(12, '0')}`,
    domain: `team-${index}.harbor.example`,
    is_verified: true,
    verified_at: '2026-01-01T00:00:00Z',
    verification_challenge: `challenge-${index}`,
    jit_provisioning_enabled: index % 2 === 0,
    sso_enforcement: 'saml',
    has_saml: true,
    saml_entity_id: `https://idp.harbor.example/${index}`,
    saml_acs_url: `https://idp.harbor.example/${index}/acs`,
    saml_x509_cert: `-----BEGIN CERTIFICATE-----${'MIIC'.repeat(110)}-----END CERTIFICATE-----`,
  };
}

let domains: Domain[] = [];
const byId = new Map<string, Domain>();

function begin(changes: number): void {
  domains = Array.from({ length: total }, (_each, index) => domain(index));
  const every = changes === 0 ? Infinity : Math.floor(total / changes);
  for (let index = 0, made = 0; made < changes; index += every, made += 1) {
    domains[index]!.saml_entity_id = `https://careless.example/${index}`;
  }
  byId.clear();
  for (const each of domains) byId.set(each.id, each);
}
begin(0);

let steps = { first: 0, last: 0, byMethod: {} as Record<string, number> };

function answer(response: ServerResponse, status: number, body: unknown): void {
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': text.length }).end(text);
}

function list(response: ServerResponse, url: URL, records: readonly object[]): void {
  const limit = Math.min(1000, Number(url.searchParams.get('limit') ?? 100));
  const from = Number(url.searchParams.get('offset') ?? 0);
  const next =
    from + limit < records.length
      ? `${url.origin}${url.pathname}?limit=${limit}&offset=${from + limit}`
      : null;
  const results = records.slice(from, from + limit);
  answer(response, 200, { count: records.length, next, previous: null, results });
}

async function bodyOf(request: IncomingMessage): Promise<object> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as object;
}

async function one(request: IncomingMessage, response: ServerResponse, id: string): Promise<void> {
  const { method = '' } = request;
  const found = byId.get(id);
  steps.byMethod[method] = (steps.byMethod[method] ?? 0) + 1;
  if (steps.first === 0) steps.first = performance.now();
  if (method === 'PATCH' && found !== undefined) Object.assign(found, await bodyOf(request));
  answer(response, found === undefined ? 404 : 200, found ?? { detail: 'Not found.' });
  steps.last = performance.now();
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', `http://${request.headers.host ?? 'localhost'}`);
  const { pathname } = url;
  if (pathname === '/break') {
    begin(Number(url.searchParams.get('changes')));
    response.writeHead(204).end();
  } else if (pathname === '/steps') {
    answer(response, 200, { byMethod: steps.byMethod, ms: steps.last - steps.first });
    steps = { first: 0, last: 0, byMethod: {} };
  } else if (pathname === '/api/organizations/') {
    list(response, url, [{ id: organization, name: 'Harbor', teams: [] }]);
  } else if (pathname === collection) {
    list(response, url, domains);
  } else if (pathname.startsWith(collection)) {
    await one(request, response, pathname.slice(collection.length, -1));
  } else if (pathname.startsWith(`/api/organizations/${organization}/`)) {
    list(response, url, []);
  } else {
    answer(response, 404, { type: 'invalid_request', code: 'not_found', detail: 'Not found.', attr: null });
  }
}

const server = createServer((request, response) => void serve(request, response));
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${port}`, collection })}\n`);
});
