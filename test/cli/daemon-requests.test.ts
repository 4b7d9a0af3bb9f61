/** Requests of the command line to a daemon of another version. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon } from '../../src/cli/daemon-requests.ts';
import { Secret } from '../../src/core/secret.ts';

/** A daemon that answers each body like that. */
async function daemon(answers: (body: Readonly<Record<string, unknown>>) => [number, object]) {
  const seen: unknown[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => (text += chunk.toString()));
    request.on('end', () => {
      const body = JSON.parse(text) as Record<string, unknown>;
      seen.push(body);
      const [status, document] = answers(body);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(document));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { seen, url };
}

describe('a daemon', () => {
  const wanted = { job: 'sync', sources: ['a'], full: false, kinds: null };
  const actor = { by: 'ann', via: 'root@here' };

  it('of an earlier version, which does not know who asks, is asked once more without that', async () => {
    const queued = { schema: 'tidemark.queued/1', queued: [{ source: 'a', request: 7, behind: [] }] };
    const { seen, url } = await daemon((body) =>
      'by' in body ? [400, { error: { code: 'usage', message: 'not known' } }] : [202, queued],
    );
    const asked = await ask(url);
    expect(asked).toMatchObject([{ source: 'a', request: 7 }]);
    expect(seen).toEqual([{ ...wanted, ...actor }, wanted]);
  });

  it('that refuses for another reason is believed', async () => {
    const { seen, url } = await daemon(() => [400, { error: { code: 'usage', message: 'no such source' } }]);
    await expect(ask(url)).rejects.toMatchObject({ code: 'usage', message: /no such source/ });
    expect(seen).toHaveLength(2);
  });

  function ask(url: string): ReturnType<typeof askDaemon> {
    const card = { url, pid: 1, token: new Secret('t') };
    return askDaemon(card as never, new AbortController().signal, { ...wanted, ...actor });
  }
});
