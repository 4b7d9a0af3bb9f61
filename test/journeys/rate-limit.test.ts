/** One rate limit over all processes that use a mirror: measured where it counts, at the service. */
import { once } from 'node:events';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as realDelay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch, start, startHere, tidemark } from './harness.ts';
import { FakeService, ORG, respond } from './service.ts';

const PER_MINUTE = 20;
/** More than a process needs from its start to its first requests on a machine at rest. */
const LONG_ENOUGH_MS = 3_000;

async function limitedService() {
  const service = await FakeService.start();
  // One more request each: one sync by itself asks for more than the limit allows.
  const roles = Array.from({ length: PER_MINUTE }, (_each, n) =>
    JSON.stringify({ id: `r${n}`, name: `role ${n}` }),
  );
  service.lists.set(`/api/organizations/${ORG}/roles/`, roles);
  for (const n of roles.keys())
    service.lists.set(`/api/organizations/${ORG}/roles/r${n}/role_memberships/`, []);
  const env = environment(service.url, scratch());
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  expect((await tidemark(['snapshots', 'pin', 'start'], { env })).code).toBe(0);
  expect((await tidemark(['snapshots', 'baseline', 'start'], { env })).code).toBe(0);
  const arrivals: number[] = [];
  const enough = new EventTarget();
  service.quirks.push(() => {
    arrivals.push(performance.now());
    if (arrivals.length === PER_MINUTE) enough.dispatchEvent(new Event('used up'));
    return false;
  });
  const worst = (): number =>
    Math.max(0, ...arrivals.map((from) => arrivals.filter((at) => at >= from && at < from + 60_000).length));
  const begun = performance.now();
  return {
    /** For as long as it took until the limit was used up, and some more: on a busy machine all take longer. */
    untilMoreWouldHaveCome: () => realDelay(LONG_ENOUGH_MS + (arrivals.at(-1) ?? begun) - begun),
    env: { ...env, TIDEMARK_RATE_PER_MINUTE: `${PER_MINUTE}` },
    worst,
    usedUp: () => (arrivals.length >= PER_MINUTE ? Promise.resolve() : once(enough, 'used up')),
  };
}

async function killed(processes: readonly ReturnType<typeof start>[]): Promise<void> {
  for (const { child } of processes) child.kill('SIGKILL');
  await Promise.all(processes.map(({ ended }) => ended));
}

describe('the rate limit of one key', () => {
  it('holds over commands at the same time, whether they write the mirror or read it', async () => {
    const { env, worst, usedUp, untilMoreWouldHaveCome } = await limitedService();
    // Two processes, and commands in this one: each of them has its own connection to what counts the requests.
    const running = [['sync'], ['restore', 'baseline']].map((args) => start(args, { env }));
    for (const args of [['diff', 'latest', 'live'], ['doctor'], ['drift', '--live']])
      startHere(args, { env });
    await usedUp();
    await untilMoreWouldHaveCome();
    await killed(running);
    expect(worst()).toBe(PER_MINUTE);
  });

  it('holds over kill -9 and a restart at once, also while the killed one waits', async () => {
    const { env, worst, usedUp, untilMoreWouldHaveCome } = await limitedService();
    const running = [start(['sync'], { env })];
    await usedUp();
    await killed(running);
    for (const args of [['sync'], ['doctor']]) startHere(args, { env });
    await untilMoreWouldHaveCome();
    expect(worst()).toBe(PER_MINUTE);
  });

  it('counts what init and doctor sent before the directory of the mirror was there', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, join(directory, 'data'), {
      TIDEMARK_RATE_PER_MINUTE: '10000',
    });
    const shared = join(tmpdir(), `tidemark-${process.getuid?.()}`);
    const args = ['init', '--url', service.url, '--key-env', 'TIDEMARK_API_KEY'];
    expect((await tidemark(args, { env, cwd: directory })).code).toBe(0);
    expect((await tidemark(['doctor', '--json'], { env })).code).toBe(0);
    expect(existsSync(join(directory, 'data'))).toBe(false);
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const { stdout } = await tidemark(['estimate', '--json'], { env });
    const { sources } = JSON.parse(stdout) as { sources: { rate: { used: number } }[] };
    expect(sources).toMatchObject([{ rate: { used: service.seen.length } }]);
    expect(statSync(shared).mode & 0o777).toBe(0o700);
    expect(readdirSync(shared)).toEqual([]);
  });

  it('that leaves room for a part of the lists in each run lets runs read all of them in turn', async () => {
    const service = await FakeService.start();
    const ids = Array.from({ length: 9 }, (_each, n) => `r${n}`);
    service.set(
      'roles',
      ids.map((id) => ({ id, name: id })),
    );
    const list = (id: string): string => `/api/organizations/${ORG}/roles/${id}/role_memberships/`;
    for (const id of ids) service.lists.set(list(id), []);
    const ROOM = 4;
    const read: string[] = [];
    service.quirks.push(({ path }, response) => {
      if (!path.endsWith('/role_memberships/')) return false;
      if (read.length < ROOM * (runs + 1)) {
        read.push(path);
        return false;
      }
      return respond(response, 429, '{"detail":"Request was throttled."}', { 'retry-after': '3' });
    });
    const env = environment(service.url, scratch(), { TIDEMARK_RETRY_MAX_WAIT_SECONDS: '1' });
    let runs = 0;
    // Three, and one more for what was on its way when the first refusal came: such a list is read again.
    for (; runs < 3 || (runs < 4 && new Set(read).size < ids.length); runs += 1) {
      const { code } = await tidemark(['sync', '--quiet'], { env });
      expect(code).toBe(3);
      // The next one asks for nothing before.
      await realDelay(3_000);
    }
    expect(new Set(read)).toEqual(new Set(ids.map(list)));
  });

  it.each([
    ['', '60000'],
    [', also without limits', '0'],
  ])(
    'holds the pause that a 429 asked for (Retry-After) in the next process too%s',
    async (_case, perHour) => {
      const service = await FakeService.start();
      const env = environment(service.url, scratch(), { TIDEMARK_RATE_PER_HOUR: perHour });
      expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
      service.quirks.push((_request, response) =>
        respond(response, 429, '{"detail":"busy"}', { 'retry-after': '3600' }),
      );
      const failed = await tidemark(['sync'], { env });
      expect(failed.code).toBe(1);
      expect(failed.stderr).toMatch(/it asks to wait 3600 s, until \d{4}-\d\d-\d\dT\d\d:\d\d/);
      const sent = service.seen.length;
      const ended = await tidemark(['sync'], { env });
      expect(ended.code, ended.stderr).toBe(1);
      expect(ended.stderr).toMatch(
        /no sync of default was begun: the service asked to wait until \d{4}-\S+ \(429 or 503\)\n +→ sync again then; `tidemark sync --source default --ignore-pause` tries now/,
      );
      const waits =
        /→ the next sync of default waits: the service asked to wait until \S+ \(429 or 503\): sync it then; `tidemark sync/;
      const { stderr, stdout } = await tidemark(['status'], { env });
      expect([stdout, stderr]).toEqual([expect.stringMatching(waits), expect.stringMatching(waits)]);
      expect(stdout, 'not "until …, 10 s ago"').not.toMatch(/\(429 or 503\), /);
      expect(service.seen).toHaveLength(sent);
      // One that comes to nothing leaves the pause.
      const other = openMirror(env['TIDEMARK_MIRROR'] ?? '', {
        ...{ mode: 'write', command: 'test', clock: systemClock, host: hostname(), pid: process.pid },
      });
      expect((await tidemark(['sync', '--ignore-pause'], { env })).code).not.toBe(0);
      other.close();
      expect((await tidemark(['sync'], { env })).stderr).toContain('no sync of default was begun');
      expect(service.seen).toHaveLength(sent);
      const tried = await tidemark(['sync', '--ignore-pause'], { env });
      expect(tried.stderr).toMatch(/it asks to wait 3600 s/);
      const again = service.seen.length;
      expect(again).toBeGreaterThan(sent);
      expect((await tidemark(['sync'], { env })).code).toBe(1);
      expect(service.seen).toHaveLength(again);
    },
  );

  it('of a service that asks to wait for an hour: a live comparison leads to what says until when', async () => {
    const service = await FakeService.start();
    const cwd = scratch();
    const env = environment(service.url, cwd);
    const run = async (...args: string[]): Promise<string> => {
      const { stdout, stderr } = await commandLine(args, { env, cwd });
      return stdout + stderr;
    };
    await run('sync');
    await run('snapshots', 'pin', 'start', '--baseline');
    service.quirks.push((_request, response) =>
      respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '3600' }),
    );
    for (const _round of ['refused', 'paused']) {
      const drift = await run('drift', '--live');
      expect(drift).toContain('`tidemark status` shows until when');
      expect(drift).not.toContain('tidemark doctor');
    }
    expect(await run('status')).toMatch(/asked .* until/);
  });

  it('that is used up for the hour: sync says until when, and begins no run', async () => {
    const service = await FakeService.start();
    const cwd = scratch();
    const configure = (perHour: number): void => {
      const source = (name: string): string =>
        `  - { name: ${name}, baseUrl: "${service.url}", apiKey: test-key, rate: { perMinute: 0, perHour: ${perHour} } }`;
      const lines = ['mirror: ./mirror.db', 'sources:', source('acme'), source('beta')];
      writeFileSync(join(cwd, 'tidemark.yaml'), lines.join('\n'));
    };
    const run = (...args: string[]) => commandLine(args, { env: {}, cwd });
    const refused = (name: string): RegExp =>
      new RegExp(
        `no sync of ${name} was begun: rate.perHour is used up until \\d\\d:\\d\\d:\\d\\dZ\\n +→ sync again then`,
      );
    configure(1000);
    expect((await run('sync', '--source', 'acme')).code).toBe(0);
    const each = service.seen.length;
    // The first of two sources with this key uses the hour up.
    configure(2 * each);
    const first = await run('sync', '--json');
    expect(first.code, first.stderr).toBe(3);
    expect(first.stderr).toMatch(refused('beta'));
    const { runs: synced, errors } = JSON.parse(first.stdout) as { runs: object[]; errors: object[] };
    expect(synced).toMatchObject([{ source: 'acme' }]);
    const message = expect.stringMatching(/^no sync of beta was begun: /) as string;
    expect(errors).toEqual([
      { source: 'beta', code: 'throttled', message, hint: 'sync again then, or raise it' },
    ]);
    const second = await run('sync');
    expect(second.code).toBe(1);
    for (const name of ['acme', 'beta']) expect(second.stderr).toMatch(refused(name));
    const json = await run('sync', '--source', 'acme', '--json');
    expect(json.code).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ schema: 'tidemark.error/1', code: 'throttled' });
    expect(service.seen).toHaveLength(2 * each);
    const { runs } = JSON.parse((await run('runs', '--json')).stdout) as { runs: object[] };
    expect(runs).toMatchObject([{ source: 'acme' }, { source: 'acme' }]);
  });
});
