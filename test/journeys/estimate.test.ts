import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { pagesFor, waitFor } from '../../src/doctor/estimate.ts';
import { Deployment } from '../profiles/deployment.ts';
import { commandLine } from './command-line.ts';
import { type Ended, environment, scratch } from './harness.ts';
import { FakeService, forbidden, ORG } from './service.ts';

interface EstimateJson {
  readonly schema: string;
  readonly what: string;
  readonly sources: readonly {
    readonly from: string;
    readonly requests: number;
    readonly minutes: number;
    readonly bytes: number;
    readonly steps: number | null;
    readonly asked: number;
    readonly guessed: readonly string[];
    readonly collections: readonly {
      readonly kind: string;
      readonly requests: number;
      readonly basis: string;
    }[];
  }[];
}

/** An estimate is good for a decision when the truth is within this factor, either way. */
const FACTOR = 1.25;

function expectNear(estimated: number, real: number, factor = FACTOR): void {
  expect(estimated / real, `${estimated} against ${real}`).toBeLessThan(factor);
  expect(real / estimated, `${estimated} against ${real}`).toBeLessThan(factor);
}

function runner(url: string, more: Readonly<Record<string, string>> = {}) {
  const directory = scratch();
  const env: Record<string, string> = environment(url, directory, more);
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
  const estimated = async (...args: string[]) => {
    const { code, stdout, stderr } = await run('estimate', ...args, '--json');
    expect(code, stdout + stderr).toBe(0);
    const document = JSON.parse(stdout) as EstimateJson;
    expect(document.schema).toBe('tidemark.estimate/1');
    return document.sources[0]!;
  };
  return { env, run, estimated };
}

describe('an estimate against what it then costs', () => {
  it('is near before the first sync, by a look; nearer afterwards, by the mirror, and asks nothing', async () => {
    const far = await Deployment.start();
    const { run, estimated } = runner(far.url, {
      TIDEMARK_PROFILE: 'posthog',
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: '20',
    });
    const cost = async (...args: string[]): Promise<{ requests: number; bytes: number }> => {
      const before = { requests: far.seen.length, bytes: far.bytes };
      const { code, stderr } = await run(...args);
      expect(code, stderr).toBe(0);
      return { requests: far.seen.length - before.requests, bytes: far.bytes - before.bytes };
    };
    const first = await estimated();
    expect(first.from).toBe('probe');
    expect(first.asked).toBe(far.seen.length);
    // The recordings say nowhere how many there are.
    expect(first.guessed.join()).toContain('session_recordings');
    const real = await cost('sync', '--quiet');
    expectNear(first.requests, real.requests, 1.6);

    const asked = far.seen.length;
    for (const [args, command] of [
      [['sync'], ['sync', '--quiet']],
      [
        ['sync', '--full'],
        ['sync', '--quiet', '--full'],
      ],
      [['diff'], ['diff', 'latest', 'live', '--quiet']],
      [
        ['sync', '--kind', 'members'],
        ['sync', '--quiet', '--kind', 'members'],
      ],
    ] as const) {
      const before = far.seen.length;
      const guess = await estimated(...args);
      expect(guess.from).toBe('mirror');
      expect(far.seen.length).toBe(before);
      const truth = await cost(...command);
      expectNear(guess.requests, truth.requests);
      expectNear(guess.bytes, truth.bytes, 1.6);
    }
    expect(far.seen.length).toBeGreaterThan(asked);
  });

  it('counts pages as the service cuts them, and one request for what is denied', async () => {
    const service = await FakeService.start();
    service.pageCap = 30;
    service.set(
      'members',
      Array.from({ length: 200 }, (_each, n) => ({ id: `m${n}`, user: { uuid: `u${n}` } })),
    );
    service.quirks.push(
      ({ path }, response) => path.endsWith('/plugins/') && forbidden(response, 'plugin:read'),
    );
    const { run, estimated } = runner(service.url);
    const guess = await estimated();
    const looked = service.seen.length;
    await run('sync', '--quiet');
    expectNear(guess.requests, service.seen.length - looked);
    const again = await estimated();
    expect(again.collections.find(({ kind }) => kind === 'plugins')).toMatchObject({ requests: 1 });
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
  });
});

describe('estimate', () => {
  it('of a restore and of a sync counts what is gone though the mirror holds its removal back', async () => {
    const far = await Deployment.start();
    const { run, estimated } = runner(far.url, {
      TIDEMARK_PROFILE: 'posthog',
      TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing',
    });
    const proxies = Array.from({ length: 30 }, (_each, n) => ({
      ...{ ...far.state.proxies[0], id: `0190dddd-0000-7000-8000-0000000000${n + 10}` },
      domain: `e${n}.harbor.example.com`,
    }));
    far.state.proxies.push(...proxies);
    await run('sync', '--quiet');
    far.state.proxies.splice(0);
    expect((await run('sync', '--quiet')).code).toBe(3);
    const cost = async (...args: string[]): Promise<number> => {
      const before = far.seen.length;
      const { code, stderr } = await run(...args);
      expect([0, 3], stderr).toContain(code);
      return far.seen.length - before;
    };
    const sync = await estimated('sync');
    expectNear(sync.requests, await cost('sync', '--quiet'));
    const { steps, requests } = await estimated('restore');
    expect(steps).toBe(31);
    const { stdout } = await run('estimate', 'restore');
    expect(stdout).toContain('31 removals');
    expectNear(requests, await cost('restore', 'latest', '--apply', '--yes'));
  });

  it('tells minutes at the configured rate', async () => {
    const service = await FakeService.start();
    const roles = Array.from({ length: 100 }, (_each, n) => ({ id: `role-${n}`, name: `Role ${n}` }));
    service.set('roles', roles);
    for (const { id } of roles)
      service.lists.set(`/api/organizations/${ORG}/roles/${id}/role_memberships/`, []);
    const { run, estimated, env } = runner(service.url);
    await run('sync', '--quiet');
    env['TIDEMARK_RATE_PER_MINUTE'] = '20';
    const { minutes, requests } = await estimated();
    expect(minutes).toBeGreaterThanOrEqual(Math.floor(requests / 20) - 1);
    expect(minutes).toBeLessThan(requests / 20 + 2);
  });

  it('tells minutes at the limit that a kind has of its own, which `config check` shows, over restarts', async () => {
    const far = await Deployment.start();
    const { run, estimated, env } = runner(far.url, {
      TIDEMARK_PROFILE: 'posthog',
      TIDEMARK_RATE_PER_MINUTE: '480',
      TIDEMARK_RATE_PER_HOUR: '4800',
      TIDEMARK_RECORDINGS_SHARING_PER_RUN: 'all',
    });
    await run('sync', '--quiet');
    const asked = far.seen.filter(({ path }) => path.includes('/session_recordings/')).length;
    const usual = await estimated('sync', '--full');
    expect(usual.minutes).toBeLessThan(2);
    env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
      session_recordings: { rate: { perMinute: 5, perHour: 0 } },
    });
    const slow = await estimated('sync', '--full');
    expect(slow.requests).toBe(usual.requests);
    const own = slow.collections.filter(({ kind }) => kind.includes('recording'));
    const requests = own.reduce((sum, each) => sum + each.requests, 0);
    expect(slow.minutes).toBeGreaterThanOrEqual(Math.floor((requests - 1) / 5));
    expect((await run('estimate')).stdout).toContain(
      '480 a minute and 4,800 an hour, session_recordings 5 a minute',
    );
    expect((await run('config', 'check')).stdout).toContain('; session_recordings at most 5 a minute');
    // What the first sync sent still counts, in another process, for the limit by the hour.
    env['TIDEMARK_DEFINITIONS'] = JSON.stringify({
      session_recordings: { rate: { perMinute: 0, perHour: asked } },
    });
    env['TIDEMARK_RETRY_ATTEMPTS'] = '1';
    env['TIDEMARK_RETRY_MAX_WAIT_SECONDS'] = '1';
    const { code, stdout } = await run('sync', '--kind', 'session_recordings', '--json');
    expect(code, stdout).not.toBe(0);
    expect(stdout).toContain('definitions.session_recordings.rate.perHour of the source');
  });

  it.each(['./mirror.db', './{source}.db'])(
    'warns where the schedule does not fit into the hour of a key, in %s; so does `config check`',
    async (mirror) => {
      const service = await FakeService.start();
      const cwd = scratch();
      const run = (...args: string[]): Promise<Ended> => commandLine(args, { env: {}, cwd });
      const configure = (perHour: number, cron: string, otherKey = 'test-key'): void => {
        const source = (name: string, key: string): string =>
          `  - { name: ${name}, baseUrl: "${service.url}", apiKey: ${key}, rate: { perMinute: 0, perHour: ${perHour} } }`;
        const lines = [`mirror: "${mirror}"`, `schedules: { sync: { cron: "${cron}" } }`, 'sources:'];
        writeFileSync(
          join(cwd, 'tidemark.yaml'),
          [...lines, source('acme', 'test-key'), source('beta', otherKey)].join('\n'),
        );
      };
      configure(0, '*/20 * * * *');
      expect((await run('sync', '--quiet')).code).toBe(0);
      const { stdout } = await run('estimate', '--json');
      const { sources } = JSON.parse(stdout) as { sources: { requests: number }[] };
      const each = sources[0]!.requests;
      const six = { rate: { needed_per_hour: 6 * each }, warnings: [] };
      expect(sources).toMatchObject([six, six]);

      configure(6 * each, '*/20 * * * *');
      expect((await run('estimate')).stdout).not.toContain('warning');
      configure(6 * each - 1, '*/20 * * * *');
      const warning = `warning: schedules.sync: 3 syncs in an hour at about ${2 * each} requests (acme ${each}, beta ${each}, with one key) need ${6 * each}, rate.perHour allows ${6 * each - 1}; sync less often, `;
      for (const args of [['estimate', '--source', 'acme'], ['estimate']])
        expect((await run(...args)).stdout).toContain(warning);
      expect((await run('config', 'check')).stdout.split(warning)).toHaveLength(2);
      expect((await run('estimate', '--kind', 'members')).stdout).not.toContain('warning');
      configure(6 * each - 1, '*/30 * * * *');
      expect((await run('estimate')).stdout).not.toContain('warning');
      // One is too many already: to sync less often would not help.
      configure(2 * each - 1, '0 4 * * *');
      const alone = `schedules.sync: one sync needs about ${2 * each} requests (acme ${each}, beta ${each}, with one key), and rate.perHour allows ${2 * each - 1}: it is partial, and lists below others, such as role_memberships, may never be read; raise rate.perHour or retry.maxWaitSeconds, `;
      expect((await run('estimate')).stdout).toContain(alone);
      configure(3 * each, '*/20 * * * *', 'another-key');
      expect((await run('config', 'check')).stdout).not.toContain('in an hour');
    },
  );

  it('of a restore counts what changed since, and leaves out what is never written', async () => {
    const service = await FakeService.start();
    service.set('domains', [
      { id: 'a', domain: 'a' },
      { id: 'b', domain: 'b' },
    ]);
    const { run, estimated } = runner(service.url);
    await run('sync', '--quiet');
    service.set('domains', [
      { id: 'a', domain: 'a', sso_enforcement: 'saml' },
      { id: 'b', domain: 'b' },
    ]);
    await run('sync', '--quiet');
    const { steps, collections } = await estimated('restore', '--from', 'run:1');
    expect(steps).toBe(1);
    expect(collections.map(({ kind }) => kind)).not.toContain('session_recordings');
    const { stdout } = await run('estimate', 'restore', '--from', 'run:1');
    expect(stdout).toContain('1 step at 3 requests');
  });

  it('is 5 where the key is refused and no run tells', async () => {
    const far = await Deployment.start();
    const { run } = runner(far.url, { TIDEMARK_API_KEY: 'another-key' });
    expect((await run('estimate')).code).toBe(5);
  });

  it.each([
    [['estimate', 'snyc'], 'sync, diff, restore'],
    [['estimate', 'sync', '--from', 'run:1'], '--from'],
    [['estimate', 'diff', '--full'], '--full'],
    [['estimate', '--kind', 'member'], 'members'],
  ])('refuses %j', async (args, words) => {
    const { run } = runner('http://127.0.0.1:1');
    const { code, stderr } = await run(...args);
    expect(code).toBe(4);
    expect(stderr).toContain(words);
  });
});

describe('the reckoning', () => {
  const now = 1_000_000_000;
  it.each([
    ['a burst within the window', 480, { perMinute: 480, perHour: 4800 }, [], 0],
    ['one more waits a minute', 481, { perMinute: 480, perHour: 4800 }, [], 60_000],
    ['the hour’s window after ten minutes', 4801, { perMinute: 480, perHour: 4800 }, [], 3_600_000],
    ['no limit', 100_000, { perMinute: 0, perHour: 0 }, [], 0],
    [
      'what was asked a moment ago counts',
      1,
      { perMinute: 2, perHour: 0 },
      [now - 50_000, now - 10_000],
      10_000,
    ],
    ['what was asked long ago does not', 1, { perMinute: 2, perHour: 0 }, [now - 500_000, now - 400_000], 0],
    ['nothing', 0, { perMinute: 1, perHour: 1 }, [], 0],
  ])('%s', (_name, requests, rate, recent, expected) => {
    expect(waitFor(requests, rate, recent, now)).toBe(expected);
  });

  it.each([
    [0, 500, null, 1],
    [500, 500, null, 1],
    [501, 500, null, 3],
    [200, 500, 30, 11],
  ])('%i records in pages of %i, cap %s, are %i pages', (records, pageSize, cap, expected) => {
    expect(pagesFor(records, pageSize, cap)).toBe(expected);
  });
});
