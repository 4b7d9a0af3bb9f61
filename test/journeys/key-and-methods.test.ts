import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService, ORG, respond } from './service.ts';

const KEY = 'phx_a-secret-key-0123456789';

/** A second origin that nobody should ever talk to. */
async function bystander(): Promise<{ url: string; seen: unknown[] }> {
  const seen: unknown[] = [];
  const server = createServer((request, response) => {
    seen.push(request.headers);
    response.end('{"count":0,"next":null,"previous":null,"results":[]}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

describe('the key', () => {
  it('goes to its origin only, whatever the answers point to', async () => {
    const other = await bystander();
    const service = await FakeService.start();
    const path = `/api/organizations/${ORG}/domains/`;
    service.pageCap = 2;
    service.set('domains', [{ id: 'a' }, { id: 'b' }, { id: 'c' }]);
    service.quirks.push(({ path: asked, query }, response) => {
      if (asked === path)
        return respond(
          response,
          200,
          service.page(path, service.lists.get(path)!, query).replaceAll(service.url, other.url),
        );
      if (asked.endsWith('/plugins/')) return respond(response, 307, '', { location: `${other.url}/api/` });
      return false;
    });
    const env = { ...environment(service.url, scratch()), TIDEMARK_API_KEY: KEY };
    const { stdout } = await tidemark(['sync', '--json'], { env });
    expect(JSON.parse(stdout)).toMatchObject({ runs: [{ outcome: 'partial' }] });
    expect(stdout).toContain('"redirected"');
    const exported = (await tidemark(['export', '--kind', 'domains'], { env })).stdout;
    expect(exported.trimEnd().split('\n')).toHaveLength(3); // `next` elsewhere is read on the configured origin
    expect(other.seen).toEqual([]);
  });

  it('appears nowhere in what a service echoes in another form', async () => {
    const service = await FakeService.start();
    const bearer = Buffer.from(`Bearer ${KEY}`);
    const forms: Readonly<Record<string, string>> = {
      plugins: `${KEY.slice(0, 9)}\u001b[0m${KEY.slice(9)}`,
      domains: bearer.toString('base64'),
      roles: Array.from(KEY, (each) => `%${each.charCodeAt(0).toString(16)}`).join(''),
      invites: Array.from(KEY, (each) => `${each}\u200b`).join(''),
      members: `${KEY.slice(0, 4)}\u001b]0;t\u0007${KEY.slice(4)}`,
    };
    service.quirks.push(({ path }, response) => {
      const form = forms[path.split('/').at(-2) ?? ''];
      return form === undefined ? false : respond(response, 400, JSON.stringify({ detail: `bad ${form}` }));
    });
    const directory = scratch();
    const env = { ...environment(service.url, directory), TIDEMARK_API_KEY: KEY };
    for (const args of [
      ['sync', '--log-level', 'debug'],
      ['sync', '--json'],
      ['status', '--json'],
      ['runs', 'show', '1'],
    ]) {
      const { stdout, stderr } = await tidemark(args, { env });
      if (args[0] !== 'status') expect(stdout + stderr).toContain('[secret]');
      for (const form of [KEY, bearer.toString('base64').slice(0, 20), '%70%68%78'])
        expect(stdout + stderr, args.join(' ')).not.toContain(form);
    }
    for (const name of readdirSync(directory)) {
      const bytes = readFileSync(join(directory, name));
      for (const form of [KEY, bearer.toString('base64'), '%70%68%78'])
        expect(bytes.includes(form), name).toBe(false);
    }
  });

  it('appears nowhere: not in output, logs, errors, or any file', async () => {
    const service = await FakeService.start();
    service.quirks.push(
      ({ path, headers }, response) =>
        // A server that echoes what it was sent, as some debug pages do.
        path.endsWith('/plugins/') &&
        respond(
          response,
          400,
          JSON.stringify({
            type: 'validation_error',
            code: 'x',
            detail: `bad ${headers.authorization}`,
            attr: null,
          }),
        ),
    );
    const directory = scratch();
    const env = { ...environment(service.url, directory), TIDEMARK_API_KEY: KEY };
    for (const args of [
      ['sync', '--log-level', 'debug'],
      ['sync', '--json'],
      ['status', '--json'],
      ['runs', 'show', '1'],
      ['export'],
      ['config', 'check'],
      ['sync', '--config', KEY],
      ['catalog'],
    ]) {
      const { stdout, stderr } = await tidemark(args, { env });
      if (args.includes(KEY)) continue;
      expect(stdout + stderr, args.join(' ')).not.toContain(KEY);
    }
    for (const file of readdirSync(directory))
      expect(readFileSync(join(directory, file)).includes(KEY), file).toBe(false);
    expect(service.seen.every(({ headers }) => headers.authorization === `Bearer ${KEY}`)).toBe(true);
    expect(service.seen.every(({ url }) => !url.includes(KEY))).toBe(true);
  });
});

describe('reading commands', () => {
  it('send nothing but GET', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    for (const args of [
      ['sync'],
      ['sync', '--full'],
      ['status'],
      ['runs'],
      ['export'],
      ['verify'],
      ['catalog'],
      ['config', 'check'],
    ]) {
      expect((await tidemark(args, { env })).code, args.join(' ')).toBe(0);
    }
    expect(service.seen.length).toBeGreaterThan(20);
    expect(service.seen.filter(({ method }) => method !== 'GET')).toEqual([]);
  });
});
