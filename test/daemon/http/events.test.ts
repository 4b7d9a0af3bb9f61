/** The event stream, read by a real client: activity, heartbeats, limits, and an end. */
import { type IncomingMessage, request } from 'node:http';
import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Secret } from '../../../src/core/secret.ts';
import type { RunningJob } from '../../../src/daemon/view.ts';
import { World } from './world.ts';

const TOKEN = 'a-token-of-some-length';
const CLIENT = { authorization: `Bearer ${TOKEN}`, accept: 'text/event-stream' };

function syncing(records: number): RunningJob {
  const roles = { kind: 'roles', records, expected: 10, lists: 0, failed: 0, pending: 1 } as const;
  const progress = { requests: 3, waitingUntil: null, records, pages: 2, isLocal: false, kinds: [roles] };
  const [name, trigger, startedAt] = ['sync', 'schedule', '2026-03-01T07:00:00.000Z'] as const;
  return { job: 7, name, source: 'default', trigger, startedAt, progress };
}

/** A stream, read piece by piece; `until` resolves with all that came once it fits. */
async function open(url: string): Promise<{
  status: number;
  until: (pattern: RegExp) => Promise<string>;
  ended: Promise<string>;
  destroy: () => void;
}> {
  const outgoing = request(`${url}/api/v1/events`, { headers: CLIENT });
  outgoing.on('error', () => undefined);
  outgoing.end();
  const [answer] = (await once(outgoing, 'response')) as [IncomingMessage];
  onTestFinished(() => void outgoing.destroy());
  let text = '';
  const waiting = new Set<() => void>();
  answer.setEncoding('utf8');
  answer.on('data', (piece: string) => {
    text += piece;
    for (const look of waiting) look();
  });
  const ended = new Promise<string>((resolve) => {
    answer.on('end', () => resolve('end'));
    answer.on('error', ({ message }) => resolve(message));
  });
  return {
    status: answer.statusCode ?? 0,
    ended,
    destroy: () => outgoing.destroy(),
    until: (pattern) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (!pattern.test(text)) return;
          waiting.delete(look);
          resolve(text);
        };
        waiting.add(look);
        look();
      }),
  };
}

describe('the stream of events', () => {
  it('begins with what is, follows it kind by kind, and says nothing twice', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const stream = await open(url);
    expect(stream.status).toBe(200);
    await stream.until(/"running":\[\]/);
    world.runningShown = [syncing(4)];
    await stream.until(/"records":4/);
    world.runningShown = [syncing(9)];
    const text = await stream.until(/"records":9/);
    const events = [...text.matchAll(/^event: activity\ndata: (.*)$/gm)].map(
      ([, data = '']) => JSON.parse(data) as object,
    );
    expect(events).toHaveLength(3);
    expect(events[2]).toMatchObject({
      schema: 'tidemark.activity/1',
      running: [{ job: 7, progress: { records: 9, kinds: [{ kind: 'roles', records: 9, expected: 10 }] } }],
      queued: [],
    });
  });

  it('keeps a quiet connection alive by comments, and ends after a while, so that the session is checked again', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const stream = await open(url);
    await stream.until(/"running"/);
    world.clock.passedMs += 11_000;
    await stream.until(/^: /m);
    world.clock.passedMs += 16 * 60_000;
    expect(await stream.ended).toBe('end');
  });

  it('needs the token, knows no parameter, and answers HEAD without a stream', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const headers = { accept: 'text/event-stream' };
    expect((await fetch(`${url}/api/v1/events`, { headers })).status).toBe(401);
    expect((await fetch(`${url}/api/v1/events?x=1`, { headers: CLIENT })).status).toBe(400);
    const head = await fetch(`${url}/api/v1/events`, { method: 'HEAD', headers: CLIENT });
    expect([head.status, head.headers.get('content-type'), await head.text()]).toEqual([
      200,
      'text/event-stream',
      '',
    ]);
  });

  it('is open so often and no more; who leaves makes room', async () => {
    const world = await World.create();
    const { url } = await world.listen({ token: new Secret(TOKEN) });
    const streams = await Promise.all(Array.from({ length: 40 }, () => open(url)));
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]));
    const refused = await fetch(`${url}/api/v1/events`, { headers: CLIENT });
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30']);
    streams[0]?.destroy();
    await expect
      .poll(async () => {
        const again = await open(url);
        if (again.status !== 200) again.destroy();
        return again.status;
      })
      .toBe(200);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });

  it('ends cleanly, and at once, when the server closes', async () => {
    const world = await World.create();
    const http = await world.listen({ token: new Secret(TOKEN) });
    const streams = await Promise.all([open(http.url), open(http.url)]);
    await Promise.all(streams.map(({ until }) => until(/"running"/)));
    const before = performance.now();
    await http.close();
    expect(performance.now() - before).toBeLessThan(900);
    expect(await Promise.all(streams.map(({ ended }) => ended))).toEqual(['end', 'end']);
  });
});
