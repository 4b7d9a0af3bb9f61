/** Requests of the command line to a daemon of another version. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { askDaemon, daemonNowIn } from '../../src/cli/daemon-requests.ts';
import { WaitNotes } from '../../src/cli/sync-by-daemon.ts';
import { Secret } from '../../src/core/secret.ts';
import { assessHealth } from '../../src/daemon/health/health.ts';
import { NOTHING_READ } from '../../src/daemon/health/health-facts.ts';
import { statusDocument } from '../../src/daemon/http/documents.ts';
import type { RunningJob } from '../../src/daemon/view.ts';

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

it('that a sync waits is said every half minute, with the job that it waits for', () => {
  const notes = new WaitNotes(0);
  const waiting = { state: 'waiting', behind: [{ job: 'sync', source: 'a' }] } as const;
  const said = [29_000, 30_000, 31_000, 59_900, 60_000].map((at) => notes.textAt(waiting, at));
  expect(said).toEqual([
    null,
    'this sync has waited for 30 s, now for the sync of a in the daemon',
    null,
    null,
    'this sync has waited for 60 s, now for the sync of a in the daemon',
  ]);
  expect(notes.textAt({ state: 'running', behind: [] }, 300_000)).toBeNull();
  expect(notes.textAt(null, 300_000)).toBeNull();
  expect(notes.textAt({ state: 'waiting' }, 300_000)).toMatch(/for 5 min, now for its turn$/);
  expect(notes.textAt({ state: 'waiting', behind: [{ job: 'backup', source: null }] }, 330_000)).toMatch(
    /, now for the backup in the daemon$/,
  );
});

describe('what a daemon does now', () => {
  const startedAt = '2026-03-01T12:00:00.000Z';
  const sync = { name: 'sync', source: 'a', trigger: 'schedule' } as const;
  const running: readonly RunningJob[] = [
    { ...sync, job: 7, startedAt, progress: null, silentMs: 90_000, waitsFor: null },
    {
      ...{ job: 8, name: 'backup', source: null, trigger: 'after_run', startedAt, progress: null },
      ...{ silentMs: null, waitsFor: 's3://bucket' },
    },
  ];

  it('is read as it is sent, with how long a service has been silent and what a job waits for', () => {
    const facts = {
      ...NOTHING_READ,
      now: 0,
      startedAt,
      configProblem: null,
      problems: [],
      mirrorProblem: null,
    };
    const lastJobs = { verifications: [], damaged: [] };
    const snapshot = { now: 0, lastJobs, health: assessHealth(facts), pending: [] };
    const dueAt = '2026-03-01T12:30:00.000Z';
    const paused = [{ source: 'a', until: '2026-03-01T12:29:30.000Z' }];
    const schedule = {
      ...{ cron: '*/5 * * * *', zone: 'UTC', sources: ['a'] },
      ...{ intervalMs: 300_000, skippedTicks: 0, missedTicks: 0 },
    };
    const document = statusDocument(
      {
        ...{ startedAt, mirrorPath: 'm.db', sources: [], stats: () => [] },
        ...{
          schedules: () => [
            { ...schedule, schedule: 'forget' as const, dueAt },
            { ...schedule, schedule: 'sync' as const, dueAt, paused },
          ],
          running: () => running,
          queued: () => [{ ...sync, since: startedAt, waitsFor: 'b' }],
          configProblem: () => null,
        },
      },
      snapshot as never,
    );
    const { states, ...now } = daemonNowIn(JSON.parse(JSON.stringify(document)));
    expect(now).toEqual({
      running,
      queued: [{ ...sync, since: startedAt, waitsFor: 'b' }],
      pauses: [{ dueAt, paused }],
      wrong: [],
    });
    expect(states.size).toBe(0);
  });

  it('is nothing where it is not understood', () => {
    const nothing = { states: new Map(), running: [], queued: [], pauses: [], wrong: [] };
    expect(daemonNowIn(null)).toEqual(nothing);
    const odd = {
      health: { sources: [{ source: 'a', state: 'odd' }] },
      running: [{ name: 'sync' }],
      queued: 7,
    };
    expect(daemonNowIn({ daemon: odd })).toEqual(nothing);
    const reasons = [{ code: 'stale' }];
    const health = { reasons: [{ code: 'daemon_problem' }], sources: [{ source: 'a', reasons }] };
    expect(daemonNowIn({ daemon: { health } }).wrong).toEqual(['daemon_problem', 'stale a']);
  });
});
