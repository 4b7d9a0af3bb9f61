/** What holds for every operation: keys, methods, lists, bodies, addresses. */
import { connect } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLogger } from '../../src/core/logger.ts';
import { KITTIWAKE_ID, TERN_ID } from '../../src/server/seed/demo.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { KEY, resultsOf, startSandbox, withOrganization } from './running-sandbox.ts';
import { smallDemo } from './small-demo.ts';

describe('the log', () => {
  it('has each request at debug, without its key and query', async () => {
    const lines: string[] = [];
    const log = createLogger('debug', { write: (line: string) => lines.push(line) });
    const { call } = await startSandbox({ log });
    await call('POST', '/api/organizations/', { name: 'Harbor' });
    await call('GET', '/api/organizations/?limit=1');
    await call('DELETE', '/api/organizations/none/', undefined, { key: 'wrong' });
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { msg: 'request answered', method: 'POST', path: '/api/organizations/', status: 201 },
      { msg: 'request answered', method: 'GET', path: '/api/organizations/', status: 200 },
      { msg: 'request answered', method: 'DELETE', path: '/api/organizations/none/', status: 401 },
    ]);
    expect(lines.join('')).not.toMatch(/test-key|wrong|limit|Harbor/);
  });
});

describe('keys', () => {
  it.each([
    ['no header', null, {}, 'not_authenticated'],
    ['another scheme', null, { authorization: 'Basic dGVzdC1rZXk=' }, 'not_authenticated'],
    ['a scheme without a key', null, { authorization: 'Bearer ' }, 'not_authenticated'],
    ['an unknown key', 'wrong', {}, 'authentication_failed'],
  ])('refuses %s with 401', async (_name, key, headers, code) => {
    const { call } = await startSandbox();
    const answer = await call('GET', '/api/organizations/', undefined, { key, headers });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    expect(answer.json).toMatchObject({ type: 'authentication_error', code, attr: null });
  });

  it('takes a write permission for the read one, and no other kind for it', async () => {
    const { call } = await startSandbox({ keys: [{ key: KEY, permissions: ['organization:write'] }] });
    const { status } = await call('GET', '/api/organizations/');
    expect(status).toBe(200);
    const created = await call('POST', '/api/organizations/', { name: 'Harbor' });
    const path = `/api/organizations/${created.json['id'] as string}/`;
    const plugins = await call('GET', `${path}plugins/`);
    expect(plugins.status).toBe(403);
    expect(plugins.json['detail']).toBe("API key missing required scope 'plugin:read'");
    expect((await call('GET', `${path}roles/`)).status).toBe(200);
    expect((await call('GET', `${path}projects/`)).json['detail']).toContain("'project:read'");
  });

  it('asks batch_export:read for logs, which the document leaves open', async () => {
    const { call } = await startSandbox({ keys: [{ key: KEY, permissions: ['organization:read'] }] });
    const logs = await call('GET', '/api/organizations/x/batch_exports/y/logs/');
    expect(logs.json['detail']).toBe("API key missing required scope 'batch_export:read'");
  });

  it('keeps a limited key to its organizations, by every path', async () => {
    const { call } = await startSandbox({
      seed: smallDemo(),
      keys: [{ key: KEY, permissions: 'all', organizations: [TERN_ID] }],
    });
    const listed = await call('GET', '/api/organizations/');
    expect(resultsOf(listed).map((each) => each['id'])).toEqual([TERN_ID]);
    expect(listed.json['count']).toBe(1);
    for (const path of [
      `/api/organizations/${KITTIWAKE_ID}/`,
      `/api/organizations/${KITTIWAKE_ID}/members/`,
      '/api/projects/1/session_recordings/',
    ]) {
      expect((await call('GET', path)).status).toBe(403);
    }
    expect((await call('DELETE', `/api/organizations/${KITTIWAKE_ID}/`)).status).toBe(403);
    expect((await call('GET', '/api/projects/4/session_recordings/')).status).toBe(200);
    expect((await call('GET', '/api/projects/99/session_recordings/')).status).toBe(404);
  });

  it('does not start without a key', async () => {
    const options = { clock: new FakeClock(), keys: [], seed: 'empty' } as const;
    await expect(createSandbox(options)).rejects.toMatchObject({ code: 'usage' });
  });
});

describe('paths and methods', () => {
  it.each([
    '/',
    '/api/',
    '/api/organizations',
    '/api/organizations//',
    '/api/nothing/',
    '/api/personal_api_keys/@current/',
    '/api/organizations/%zz/',
  ])('answers 404 to %s', async (path) => {
    const { call } = await startSandbox();
    const answer = await call('GET', path);
    expect(answer.status).toBe(404);
    expect(answer.json).toMatchObject({ type: 'invalid_request', code: 'not_found', attr: null });
  });

  it('answers 405 with what is allowed', async () => {
    const { call } = await startSandbox();
    const answer = await call('PUT', '/api/organizations/x/', {});
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toBe('GET, PATCH, DELETE, HEAD, OPTIONS');
    expect(answer.json['detail']).toBe('Method "PUT" not allowed.');
    expect((await call('GET', '/api/organizations/x/invites/bulk/')).headers.allow).toBe('POST, OPTIONS');
  });

  it('answers OPTIONS without a key and HEAD as GET without the body', async () => {
    const { call } = await startSandbox();
    const options = await call('OPTIONS', '/api/organizations/', undefined, { key: null });
    expect([options.status, options.headers.allow, options.text]).toEqual([
      204,
      'GET, POST, HEAD, OPTIONS',
      '',
    ]);
    const get = await call('GET', '/api/organizations/');
    const head = await call('HEAD', '/api/organizations/');
    expect([head.status, head.text]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(String(get.text.length));
    expect((await call('HEAD', '/api/organizations/', undefined, { key: null })).status).toBe(401);
  });

  it.each(['a/b', '..', '.', '%2F', 'a b', '%', '?x#y', 'bulk', '\u{1F426}', '__proto__', "';--"])(
    'addresses the one record whose id is %j',
    async (id) => {
      const running = await startSandbox();
      const { path, projectId } = await withOrganization(running);
      const scope = { project_id: projectId };
      running.sandbox.store.write('session_recordings', scope, { id, start_url: 'this one' });
      running.sandbox.store.write('session_recordings', scope, { id: 'other', start_url: 'not this' });
      const encoded = encodeURIComponent(id).replaceAll('.', '%2E');
      const at = `/api/projects/${projectId}/session_recordings/${encoded}/`;
      expect((await running.call('GET', at)).json).toEqual({ id, start_url: 'this one' });
      expect((await running.call('GET', `${at}sharing/`)).json['enabled']).toBe(false);
      expect((await running.call('DELETE', at)).status).toBe(204);
      const left = await running.call('GET', `/api/projects/${projectId}/session_recordings/`);
      expect(resultsOf(left).map((each) => each['id'])).toEqual(['other']);
      expect((await running.call('DELETE', `${path}roles/${encoded}/`)).status).toBe(404);
    },
  );

  it('does not resolve dots in a path', async () => {
    const { call } = await startSandbox({ seed: smallDemo() });
    const path = `/api/organizations/${KITTIWAKE_ID}/members/../`;
    expect((await call('GET', path)).status).toBe(405); // the member called "..", who has no GET
    expect((await call('GET', `/api/organizations/x/../`)).status).toBe(404);
  });

  it('answers a broken Host header in its own shape', async () => {
    const { url } = await startSandbox();
    const { port } = new URL(url);
    const socket = connect(Number(port), '127.0.0.1');
    const text = await new Promise<string>((resolve, reject) => {
      let received = '';
      socket.on('data', (chunk) => (received += chunk.toString()));
      socket.on('close', () => resolve(received));
      socket.on('error', reject);
      socket.write('GET /api/organizations/ HTTP/1.1\r\nHost: a b/c@d\r\nConnection: close\r\n\r\n');
    });
    expect(text).toMatch(/^HTTP\/1\.1 400/);
    expect(text).toContain('"type":"validation_error"');
  });
});

describe('lists', () => {
  async function withRoles(
    count: number,
    options: Parameters<typeof startSandbox>[0] = {},
  ): Promise<{ running: Awaited<ReturnType<typeof startSandbox>>; path: string }> {
    const running = await startSandbox({ pageSize: { default: 4, max: 6 }, ...options });
    const { path } = await withOrganization(running);
    for (let n = 0; n < count; n += 1) await running.call('POST', `${path}roles/`, { name: `role ${n}` });
    return { running, path: `${path}roles/` };
  }

  it('gives absolute addresses of the pages before and after', async () => {
    const { running, path } = await withRoles(10);
    const first = await running.call('GET', path);
    expect([first.json['count'], resultsOf(first).length, first.json['previous']]).toEqual([10, 4, null]);
    expect(first.json['next']).toBe(`${running.url}${path}?limit=4&offset=4`);
    const second = await running.call('GET', `${path}?offset=4&x=1`);
    expect(second.json['next']).toBe(`${running.url}${path}?offset=8&x=1&limit=4`);
    expect(second.json['previous']).toBe(`${running.url}${path}?x=1&limit=4`);
    const last = await running.call('GET', `${path}?offset=8&limit=4`);
    expect([resultsOf(last).length, last.json['next']]).toEqual([2, null]);
  });

  it.each([
    ['limit=0', 4, 0],
    ['limit=rubbish&offset=rubbish', 4, 0],
    ['limit=-3&offset=-1', 4, 0],
    ['limit=99999999999999999999', 4, 0],
    ['limit=500', 6, 0],
    ['limit=2&offset=9', 1, 9],
    ['offset=500', 0, 500],
  ])('takes ?%s', async (query, received, offset) => {
    const { running, path } = await withRoles(10);
    const answer = await running.call('GET', `${path}?${query}`);
    const names = resultsOf(answer).map((each) => each['name']);
    expect(names).toEqual(Array.from({ length: received }, (_none, index) => `role ${offset + index}`));
    expect(answer.json['count']).toBe(10);
  });

  it('believes forwarded headers of the proxies that are named, where they are host names, and nobody else’s', async () => {
    const named = await withRoles(5, { trustedProxies: ['10.0.0.0/8', '127.0.0.1'] });
    const strange = await withRoles(5, { trustedProxies: ['10.0.0.0/8'] });
    const forged = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'svc.example' };
    const answer = await strange.running.call('GET', strange.path, undefined, { headers: forged });
    expect(answer.json['next']).toBe(`${strange.running.url}${strange.path}?limit=4&offset=4`);
    const { running, path } = named;
    const through = async (headers: Record<string, string>): Promise<unknown> =>
      (await running.call('GET', path, undefined, { headers })).json['next'];
    expect(await through({ 'x-forwarded-proto': 'https', 'x-forwarded-host': 'svc.example, inner' })).toBe(
      `https://svc.example${path}?limit=4&offset=4`,
    );
    expect(await through({ 'x-forwarded-host': 'evil.example/"<' })).toBe(
      `${running.url}${path}?limit=4&offset=4`,
    );
  });

  it('answers 404 for a list whose parent is not there', async () => {
    const running = await startSandbox();
    const { path } = await withOrganization(running);
    for (const missing of [
      '/api/organizations/none/members/',
      `${path}roles/none/role_memberships/`,
      '/api/projects/none/session_recordings/',
      '/api/organizations/none/plugins/unused/',
    ]) {
      expect((await running.call('GET', missing)).status, missing).toBe(404);
    }
  });
});

describe('bodies', () => {
  it.each([
    ['no JSON', '{"name":', {}, 400, 'parse_error'],
    ['no UTF-8', Uint8Array.of(0x22, 0xff, 0x22), {}, 400, 'parse_error'],
    ['nesting without end', '['.repeat(400_000), {}, 400, 'parse_error'],
    [
      'a form',
      'name=x',
      { 'content-type': 'application/x-www-form-urlencoded' },
      415,
      'unsupported_media_type',
    ],
    ['a list', '[]', {}, 400, 'invalid'],
    ['a number', '10000000000000000000', {}, 400, 'invalid'],
    ['too much', `{"name":"${'x'.repeat(5_000_000)}"}`, {}, 413, 'request_too_large'],
    [
      'too much without saying how much',
      `{"name":"${'x'.repeat(5_000_000)}"}`,
      { 'transfer-encoding': 'chunked' },
      413,
      'request_too_large',
    ],
  ])('refuses %s', async (_name, raw, headers, status, code) => {
    const { call, sandbox } = await startSandbox();
    const answer = await call('POST', '/api/organizations/', undefined, { raw, headers });
    expect(answer.status).toBe(status);
    expect(answer.json['code']).toBe(code);
    expect([...sandbox.snapshot()]).toEqual([]);
  });

  it.each([
    ['a missing field', { interval: 'hour', destination: { type: 'S3' } }, 'name', 'required'],
    ['null where a value is needed', { name: null }, 'name', 'null'],
    ['blank', { name: ' ' }, 'name', 'blank'],
    ['a wrong type', { name: 5 }, 'name', 'invalid'],
    ['a value outside the set', { name: 'n', model: 'cats' }, 'model', 'invalid_choice'],
    ['a missing inner field', { name: 'n', destination: { config: {} } }, 'destination__type', 'required'],
    [
      'a wrong inner type',
      { name: 'n', destination: { type: 'S3', config: [] } },
      'destination__config',
      'not_a_dict',
    ],
    [
      'a wrong boolean',
      { name: 'n', destination: { type: 'S3' }, interval: 'hour', paused: 'no' },
      'paused',
      'invalid',
    ],
    [
      'a wrong time',
      { name: 'n', destination: { type: 'S3' }, interval: 'hour', start_at: 'soon' },
      'start_at',
      'invalid',
    ],
  ])('names the field for %s', async (_name, body, attr, code) => {
    const running = await startSandbox();
    const { path } = await withOrganization(running);
    const answer = await running.call('POST', `${path}batch_exports/`, body);
    expect(answer.status).toBe(400);
    expect(answer.json).toMatchObject({ type: 'validation_error', attr, code });
  });

  it('ignores response-only and unknown members', async () => {
    const running = await startSandbox();
    const { path, id } = await withOrganization(running);
    const answer = await running.call('PATCH', path, { id: 'mine', slug: 'mine', created_at: null, wish: 1 });
    expect(answer.status).toBe(200);
    expect(answer.json).toMatchObject({ id, slug: 'harbor' });
    expect(answer.json).not.toHaveProperty('wish');
  });

  it('keeps null, absent and empty apart in a PATCH', async () => {
    const running = await startSandbox();
    const { path } = await withOrganization(running);
    const made = await running.call('POST', `${path}domains/`, { domain: 'a.example', saml_entity_id: 'e' });
    const at = `${path}domains/${made.json['id'] as string}/`;
    expect((await running.call('PATCH', at, {})).json['saml_entity_id']).toBe('e');
    expect((await running.call('PATCH', at, { saml_entity_id: '' })).json['saml_entity_id']).toBe('');
    expect((await running.call('PATCH', at, { saml_entity_id: null })).json['saml_entity_id']).toBe(null);
  });
});

describe('limits and failures', () => {
  it('answers 429 with whole seconds, and serves again when they have passed', async () => {
    const { call, clock } = await startSandbox({ rate: { perMinute: 2 } });
    await call('GET', '/api/organizations/');
    clock.advance(20_400);
    await call('GET', '/api/organizations/');
    const refused = await call('GET', '/api/organizations/');
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '40']);
    expect(refused.json).toEqual({
      type: 'throttled_error',
      code: 'throttled',
      detail: 'Request was throttled. Expected available in 40 seconds.',
      attr: null,
    });
    clock.advance(40_000);
    expect((await call('GET', '/api/organizations/')).status).toBe(200);
    expect((await call('GET', '/api/organizations/')).status).toBe(429);
  });

  it('answers a defect with 500, tells nothing of it, and logs it', async () => {
    const lines: unknown[] = [];
    const note = (facts: Record<string, unknown>, message: string): void =>
      void lines.push({ ...facts, message });
    const log = {
      error: note,
      warn: note,
      info: note,
      debug: note,
      trace: note,
      isLevelEnabled: () => true,
      child: () => log,
    };
    const running = await startSandbox({ log });
    running.sandbox.store.list = () => {
      throw new Error('a secret detail');
    };
    const answer = await running.call('GET', '/api/organizations/?x=1');
    expect(answer.status).toBe(500);
    expect(answer.text).toBe(
      '{"type":"server_error","code":"error","detail":"A server error occurred.","attr":null}',
    );
    const path = '/api/organizations/';
    expect(lines).toMatchObject([
      { method: 'GET', path, err: { message: 'a secret detail' } },
      { method: 'GET', path, status: 500 },
    ]);
  });

  it('says that a port is taken', async () => {
    const first = await startSandbox();
    const second = await createSandbox({
      clock: new FakeClock(),
      keys: [{ key: KEY, permissions: 'all' }],
      seed: 'empty',
    });
    onTestFinished(() => second.close());
    const port = Number(new URL(first.url).port);
    await expect(second.listen({ host: '127.0.0.1', port })).rejects.toMatchObject({
      code: 'port_in_use',
      message: `port ${port} of 127.0.0.1 is taken by another program`,
    });
    await expect(second.listen({ host: '203.0.113.7', port: 0 })).rejects.toMatchObject({ code: 'usage' });
  });

  it('closes while an upload hangs', async () => {
    const { url, sandbox } = await startSandbox();
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write(
      `POST /api/organizations/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n`,
    );
    // The interim answer says that the request is in hand.
    await new Promise((resolve) => socket.once('data', resolve));
    await sandbox.close();
    expect([...sandbox.snapshot()]).toEqual([]);
    socket.destroy();
  });
});
