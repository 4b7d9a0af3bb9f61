import { createServer, type AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { createWriteClient, type WriteClient, type WriteOutcome } from '../../src/api/write-client.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { RateLimits } from '../../src/config/config.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { silentLogger, type Logger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { startFaultServer, type FaultServer, type Reply, type Script } from '../faults/fault-server.ts';

const KEY = 'phx_very-secret-key';
const scope = { organization_id: 'org/1' };
const exports = { definition: definitionOf('batch_exports'), scope };
const organization = '/api/organizations/org%2F1/batch_exports/';
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

function clientTo(
  url: string,
  options: { clock?: FakeClock; rate?: Partial<RateLimits>; log?: Logger } = {},
): WriteClient {
  const client = createWriteClient({
    baseUrl: new URL(url),
    apiKey: new Secret(KEY),
    rate: { perMinute: 0, perHour: 0, concurrency: 2, ...options.rate },
    retry: { attempts: 4, maxWaitSeconds: 300 },
    timeouts: { headersMs: 300, bodyMs: 300, totalMs: 1000 },
    userAgent: 'test',
    clock: options.clock ?? new FakeClock(),
    random: () => 0.5,
    log: options.log ?? silentLogger,
  });
  open.push(client);
  return client;
}

async function serve(script: Script | Reply): Promise<FaultServer> {
  const server = await startFaultServer(typeof script === 'function' ? script : () => script);
  open.push(server);
  return server;
}

function errorOf(outcome: WriteOutcome): TidemarkError {
  if (outcome.outcome !== 'refused' && outcome.outcome !== 'unknown') throw new Error('expected a failure');
  return outcome.error;
}

describe('what is sent', () => {
  const recording = async (send: (client: WriteClient) => Promise<WriteOutcome>, reply: Reply) => {
    const server = await serve(reply);
    const outcome = await send(clientTo(`${server.url}/behind/proxy`));
    expect(server.requests).toHaveLength(1);
    return { outcome, request: server.requests[0]! };
  };

  it.each([
    [
      'create',
      (client: WriteClient) => client.create(exports, '{"a":1}'),
      'POST',
      organization,
      '{"a":1}',
      { status: 201, body: { id: 'e1' } },
    ],
    [
      'update',
      (client: WriteClient) => client.update({ ...exports, id: '..' }, '{"b":12345678901234567890}'),
      'PATCH',
      `${organization}%2E%2E/`,
      '{"b":12345678901234567890}',
      { status: 200, body: { id: '..' } },
    ],
    [
      'act',
      (client: WriteClient) => client.act({ ...exports, id: 'e1' }, 'pause', '{}'),
      'POST',
      `${organization}e1/pause/`,
      '{}',
      { status: 200 },
    ],
    [
      'remove',
      (client: WriteClient) => client.remove({ ...exports, id: 'e1' }),
      'DELETE',
      `${organization}e1/`,
      '',
      { status: 204 },
    ],
    [
      'an alternative path',
      (client: WriteClient) =>
        client.create({ ...exports, path: '/api/projects/7/batch_exports/' }, '{"a":1}'),
      'POST',
      '/api/projects/7/batch_exports/',
      '{"a":1}',
      { status: 201, body: { id: 'e1' } },
    ],
  ] as const)('%s: method, path and body byte for byte', async (_name, send, method, path, body, reply) => {
    const { outcome, request } = await recording(send, reply);
    expect(outcome).toMatchObject({ outcome: 'done', status: reply.status });
    expect(request).toMatchObject({ method, path: `/behind/proxy${path}`, body });
    expect(request.headers.authorization).toBe(`Bearer ${KEY}`);
    if (body !== '') expect(request.headers['content-type']).toBe('application/json');
  });

  it('is nothing for an operation that the interface does not have', async () => {
    const server = await serve({ status: 200 });
    const client = clientTo(server.url);
    const members = { definition: definitionOf('members'), scope };
    expect(() => client.create(members, '{}')).toThrow(/no create for members/);
    expect(() => client.act({ ...exports, id: 'e' }, 'explode', '{}')).toThrow(/no explode/);
    expect(server.requests).toEqual([]);
  });
});

describe('an answer', () => {
  it.each([
    ['"e9"', 'e9'],
    ['12345678901234567890', '12345678901234567890'],
    ['7', '7'],
    ['1e5', '1e5'],
    ['null', null],
  ])('gives the new id digit by digit: %s', async (text, id) => {
    const server = await serve({ status: 201, body: `{"id":${text},"d":1.10}` });
    expect(await clientTo(server.url).create(exports, '{}')).toEqual({ outcome: 'done', status: 201, id });
  });

  it('gives the user as the id of a member', async () => {
    const server = await serve({ body: { id: 'membership', user: { uuid: 'u1' }, level: 8 } });
    const target = { definition: definitionOf('members'), scope, id: 'u1' };
    expect(await clientTo(server.url).update(target, '{"level":8}')).toMatchObject({ id: 'u1' });
  });

  it.each([
    ['a web page', { body: '<html>sign in</html>', headers: { 'content-type': 'text/html' } }],
    ['broken JSON', { body: '{"id":"e1"' }],
    ['another record', { body: { id: 'e2' } }],
  ] as const)('with status 200 and %s proves nothing', async (_name, reply) => {
    const server = await serve(reply);
    const outcome = await clientTo(server.url).update({ ...exports, id: 'e1' }, '{}');
    expect(outcome).toMatchObject({ outcome: 'unknown', error: { code: 'malformed' } });
    expect(server.requests).toHaveLength(1);
  });
});

describe('a refusal', () => {
  it('names the field, and is not tried again', async () => {
    const body = {
      type: 'validation_error',
      code: 'invalid',
      detail: 'Not a valid string.',
      attr: 'destination__type',
    };
    const server = await serve({ status: 400, body });
    const outcome = await clientTo(server.url).create(exports, '{}');
    expect(outcome).toMatchObject({
      outcome: 'refused',
      error: { code: 'rejected', status: 400, field: 'destination__type' },
    });
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [405, 'rejected'],
    [409, 'rejected'],
  ])('%i is %s: certainly nothing was done', async (status, code) => {
    const server = await serve({ status, body: { detail: `no; Bearer ${KEY}` } });
    const outcome = await clientTo(server.url).remove({ ...exports, id: 'e1' });
    expect(outcome).toMatchObject({ outcome: 'refused', error: { code, status } });
    expect(errorOf(outcome).message).not.toContain(KEY);
    expect(server.requests).toHaveLength(1);
  });

  it('by redirect is not followed: the key and the body stay', async () => {
    const elsewhere = await serve({ status: 200 });
    const server = await serve({ status: 307, headers: { location: `${elsewhere.url}/steal` } });
    const outcome = await clientTo(server.url).create(exports, '{}');
    expect(outcome).toMatchObject({ outcome: 'refused', error: { code: 'redirected' } });
    expect(elsewhere.requests).toEqual([]);
  });
});

describe('a write that certainly was not processed', () => {
  it('is sent again after 429, when the service allows it', async () => {
    const clock = new FakeClock();
    const server = await serve((_request, nth) =>
      nth === 1
        ? { status: 429, headers: { 'retry-after': '62' }, body: {} }
        : { status: 201, body: { id: 'e1' } },
    );
    const client = clientTo(server.url, { clock });
    expect(await client.create(exports, '{}')).toMatchObject({ outcome: 'done', id: 'e1' });
    expect(server.requests).toHaveLength(2);
    expect(clock.sleeps.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThanOrEqual(62_000);
    expect(client.stats()).toMatchObject({ requests: 2, retries: 1, throttled: 1 });
  });

  it('keeps an id that is a secret out of the log', async () => {
    const server = await serve((_request, nth) =>
      nth % 2 === 1 ? { status: 429, body: {} } : { status: 204 },
    );
    const lines: string[] = [];
    const log = {
      ...silentLogger,
      debug: (facts: object) => void lines.push(JSON.stringify(facts)),
    } as Logger;
    const client = clientTo(server.url, { log });
    const scope = { organization_id: 'o1' };
    await client.remove({ definition: definitionOf('invites'), scope, id: 'sign-up-link' });
    await client.remove({ definition: definitionOf('domains'), scope, id: 'd1' });
    expect(server.requests[1]?.path).toBe('/api/organizations/o1/invites/sign-up-link/');
    expect(lines.join()).toContain('/api/organizations/o1/invites/[secret]/');
    expect(lines.join()).toContain('/api/organizations/o1/domains/d1/');
    expect(lines.join()).not.toContain('sign-up-link');
  });

  it('is refused where 429 never ends', async () => {
    const server = await serve({ status: 429, body: {} });
    const outcome = await clientTo(server.url).create(exports, '{}');
    expect(outcome).toMatchObject({ outcome: 'refused', error: { code: 'throttled' } });
    expect(server.requests).toHaveLength(4);
  });

  it('is tried again while nobody listens, and then refused', async () => {
    const port = await freePort();
    const client = clientTo(`http://127.0.0.1:${port}`);
    const outcome = await client.create(exports, '{}');
    expect(outcome).toMatchObject({ outcome: 'refused', error: { code: 'unreachable' } });
    expect(client.stats().requests).toBe(4);
  });
});

describe('a write that may have been processed is never sent twice', () => {
  const sends = {
    create: (client: WriteClient) => client.create(exports, '{}'),
    update: (client: WriteClient) => client.update({ ...exports, id: 'e1' }, '{}'),
    act: (client: WriteClient) => client.act({ ...exports, id: 'e1' }, 'unpause', '{}'),
    remove: (client: WriteClient) => client.remove({ ...exports, id: 'e1' }),
  };
  const replies: Record<string, [Reply, string]> = {
    '500 after the work was done': [
      { status: 500, body: { detail: 'A server error occurred.' } },
      'server_error',
    ],
    '502 from something in between': [{ status: 502, body: '<html>' }, 'server_error'],
    '503 with Retry-After': [{ status: 503, headers: { 'retry-after': '1' }, body: {} }, 'server_error'],
    '408': [{ status: 408, body: {} }, 'timeout'],
    'a reset': [{ reset: true }, 'unreachable'],
    'an answer that is cut': [{ status: 201, body: { id: 'e1' }, cutAfter: 4 }, 'unreachable'],
    'no answer at all': [{ hang: 'all' }, 'timeout'],
  };
  for (const [name, [reply, code]] of Object.entries(replies)) {
    it.each(Object.entries(sends))(`${name}: %s`, async (_method, send) => {
      const server = await serve(reply);
      const outcome = await send(clientTo(server.url));
      expect(outcome).toMatchObject({ outcome: 'unknown', error: { code } });
      expect(server.requests).toHaveLength(1);
    });
  }

  it('interrupted in flight is unknown, interrupted before is thrown', async () => {
    const abort = new AbortController();
    const server = await serve(() => {
      abort.abort(new TidemarkError('interrupted', 'Ctrl-C'));
      return { hang: 'all' };
    });
    const client = clientTo(server.url);
    const outcome = await client.create(exports, '{}', { signal: abort.signal });
    expect(outcome).toMatchObject({ outcome: 'unknown', error: { code: 'interrupted' } });
    await expect(client.create(exports, '{}', { signal: abort.signal })).rejects.toThrow('Ctrl-C');
    expect(server.requests).toHaveLength(1);
  });
});

describe('reads and writes', () => {
  it('share one limiter', async () => {
    const clock = new FakeClock();
    const server = await serve((request) =>
      request.method === 'GET' ? { body: { id: 'e1' } } : { status: 200, body: { id: 'e1' } },
    );
    const client = clientTo(server.url, { clock, rate: { perMinute: 2 } });
    await client.reader.retrieve(exports.definition, scope, 'e1');
    await client.update({ ...exports, id: 'e1' }, '{}');
    expect(clock.sleeps).toEqual([]);
    await client.reader.retrieve(exports.definition, scope, 'e1');
    expect(clock.sleeps.reduce((sum, ms) => sum + ms, 0)).toBeGreaterThanOrEqual(60_000);
    expect(client.stats()).toMatchObject({ requests: 3 });
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
