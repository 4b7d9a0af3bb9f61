import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { createReplica } from '../../../src/server/replica/replica.ts';
import { World } from './world.ts';
import { smallDemo } from '../../server/small-demo.ts';

describe('the replica beside the dashboard', () => {
  it('answers under the source and, being the only one, without it; by its own tokens, not by that of the daemon', async () => {
    const world = await World.create(
      { TIDEMARK_KINDS_INCLUDE: 'organizations,domains' },
      undefined,
      smallDemo,
    );
    await world.sync();
    const made: string[] = [];
    const { url } = await world.listen({
      token: new Secret('token-of-the-daemon'),
      replica: (source, pathPrefix) => {
        made.push(`${source} ${pathPrefix}`);
        return createReplica({
          mirrorPath: world.mirrorPath,
          openMirror: () =>
            openMirror(world.mirrorPath, { mode: 'read', command: 'replica', clock: world.clock }),
          source,
          definitionOf,
          tokens: () => [new Secret('token-of-the-replica')],
          pathPrefix,
          clock: world.clock,
          log: silentLogger,
        });
      },
    });
    const call = async (path: string, token: string, method = 'GET'): Promise<Response> =>
      fetch(url + path, { method, headers: { authorization: `Bearer ${token}` } });
    for (const base of ['/replica/default', '/replica']) {
      const answer = await call(`${base}/api/organizations/`, 'token-of-the-replica');
      expect([base, answer.status]).toEqual([base, 200]);
      const page = (await answer.json()) as { count: number; results: { id: string }[] };
      expect(page.count).toBe(2);
      const one = await call(
        `${base}/api/organizations/${page.results[0]?.id ?? ''}/`,
        'token-of-the-replica',
      );
      expect(await one.json()).toEqual(page.results[0]);
      expect((await call(`${base}/api/organizations/`, 'token-of-the-daemon')).status).toBe(401);
      expect((await call(`${base}/api/organizations/`, 'token-of-the-replica', 'POST')).status).toBe(405);
    }
    expect((await call('/replica/nobody/api/organizations/', 'token-of-the-replica')).status).toBe(404);
    expect((await call('/api/v1/status', 'token-of-the-replica')).status).toBe(401);
    expect(made).toEqual(['default /replica/default', 'default /replica']);
  });

  it('is not there unless the daemon has one', async () => {
    const world = await World.create();
    const { url } = await world.listen();
    expect((await fetch(`${url}/replica/api/organizations/`)).status).toBe(404);
  });

  it('is not there without a token of its own, whoever asks', async () => {
    const world = await World.create();
    const token = 'token-of-the-daemon';
    for (const own of [null, new Secret(token)]) {
      const { url } = await world.listen({ token: own, replica: () => null });
      for (const path of ['/replica/api/organizations/', '/replica/default/api/organizations/']) {
        const answer = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
        expect(answer.status).toBe(404);
        expect(await answer.json()).toMatchObject({
          error: { message: expect.stringContaining('has no separate token') as string },
        });
      }
    }
  });
});
