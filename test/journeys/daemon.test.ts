/** The daemon as its users meet it: its process and signals, its file, and the command line beside it. */
import type { ChildProcess } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { type Ended, childOf, environment, scratch, start, startHere, tidemark } from './harness.ts';
import { FakeService, respond } from './service.ts';

interface Story {
  readonly service: FakeService;
  readonly directory: string;
  readonly env: Record<string, string>;
}

async function story(more: Readonly<Record<string, string>> = {}): Promise<Story> {
  const service = await FakeService.start();
  service.set('roles', []);
  const directory = scratch();
  const env = environment(service.url, directory, {
    TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
    TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *',
    ...more,
  });
  return { service, directory, env };
}

/** What the log of a daemon says. */
interface Told {
  /** Log lines so far. */
  lines(): Record<string, unknown>[];
  /** Waits until a line's message fits. */
  said(message: RegExp): Promise<void>;
}

/** A daemon as a process of its own, as are its jobs. */
function daemon(
  env: Record<string, string>,
  args: readonly string[] = [],
): Told & { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
  const { child, ended } = start(['daemon', ...args], { env });
  let text = '';
  child.stderr?.on('data', (chunk: string) => (text += chunk));
  onTestFinished(() => void child.kill('SIGKILL'));
  return { child, ended, ...toldBy(() => text, ended) };
}

/** A daemon in this process, as are its jobs. */
function daemonHere(
  env: Record<string, string>,
  args: readonly string[] = [],
): Told & Pick<ReturnType<typeof startHere>, 'reload'> & { stop(): Promise<Ended> } {
  const { ended, stderr, stop, reload } = startHere(['daemon', ...args], { env });
  return {
    reload,
    stop: () => {
      stop();
      return ended;
    },
    ...toldBy(stderr, ended),
  };
}

function toldBy(text: () => string, ended: Promise<Ended>): Told {
  let isOver = false;
  void ended.then(() => (isOver = true));
  const lines = (): Record<string, unknown>[] =>
    text()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const said = async (message: RegExp): Promise<void> => {
    for (let tries = 0; tries < 1000; tries += 1) {
      if (lines().some(({ msg }) => message.test(String(msg)))) return;
      if (isOver) break;
      await delay(10);
    }
    throw new Error(`the daemon never said ${String(message)}: ${text()}`);
  };
  return { lines, said };
}

describe('tidemark daemon', () => {
  it('syncs, does what the command line asks for, and leaves with 0', async () => {
    const { service, directory, env } = await story();
    const running = daemon(env);
    await running.said(/^sync is done/);
    const card = JSON.parse(readFileSync(join(directory, 'mirror.db.daemon'), 'utf8')) as {
      token: string;
      url: string;
    };

    service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    const followed = await tidemark(['sync'], { env });
    expect(followed).toMatchObject({ code: 0 });
    expect(followed.stderr).toContain(
      `the daemon (pid ${running.child.pid}) is running the sync; showing its progress`,
    );
    expect(followed.stdout).toMatch(/^run 2 of default: complete/);
    expect(followed.stdout).toMatch(/domains +1 +1 +1/);
    const { stdout: listed } = await tidemark(['runs'], { env });
    const { by } = commandActor();
    expect(listed.split('\n')[1]).toMatch(new RegExp(` request of ${by}$`));
    const askers = [
      { run: 2, trigger: 'request', by },
      { run: 1, trigger: 'sync', by: null },
    ];
    const { stdout: asJson } = await tidemark(['runs', '--json'], { env });
    expect(JSON.parse(asJson)).toMatchObject({ runs: askers });
    const { stdout: one } = await tidemark(['runs', 'show', '2', '--json'], { env });
    expect(JSON.parse(one)).toMatchObject({ run: 2, trigger: 'request', by });
    const jobs = await (await fetch(`${card.url}/api/v1/jobs?name=sync`)).json();
    expect(jobs).toMatchObject({
      jobs: [
        { run: 2, trigger: 'request', by },
        { run: 1, trigger: 'overdue', by: null },
      ],
    });

    service.quirks.push(({ path }, response) => path.endsWith('/members/') && respond(response, 403, '{}'));
    const json = await tidemark(['sync', '--kind', 'members', '--json'], { env });
    expect(json.code).toBe(5);
    expect(json.stderr).not.toContain('showing its progress');
    const [run] = (JSON.parse(json.stdout) as { runs: { sweeps: { kind: string; outcome: string }[] }[] })
      .runs;
    expect(run?.sweeps.filter(({ kind }) => kind === 'members')).toMatchObject([{ outcome: 'denied' }]);

    const second = await tidemark(['daemon'], { env });
    expect(second).toMatchObject({ code: 1 });
    expect(second.stderr).toContain('another daemon is running on this mirror');
    const tick = await tidemark(['daemon', '--once'], { env });
    expect(tick.code, tick.stderr).toBe(0);
    const line = JSON.parse(tick.stderr) as { level: number; msg: string };
    expect(line.level).toBe(30);
    expect(line.msg).toMatch(/^another daemon is running on this mirror .+: it does what is due/);
    expect((await tidemark(['daemon', '--once', '--quiet'], { env })).stderr).toBe('');

    running.child.kill('SIGTERM');
    const { code, stdout, stderr } = await running.ended;
    expect({ code, stdout }).toEqual({ code: 0, stdout: '' });
    expect(stderr).not.toContain(card.token);
    expect(stderr).not.toContain('test-key-of-some-length');
    expect(existsSync(join(directory, 'mirror.db.daemon'))).toBe(false);
    const triggers = running.lines().filter(({ msg }) => msg === 'sync began');
    expect(triggers).toMatchObject([
      { trigger: 'overdue', source: 'default', job: 1 },
      { trigger: 'request', job: 2 },
      { trigger: 'request', job: 3 },
    ]);
  });

  it('tells status, runs and the API what a sync under way has read so far', async () => {
    const { service, env } = await story();
    const held: (() => void)[] = [];
    service.quirks.push(({ path }, response) => {
      if (!path.endsWith('/members/') || held.length > 0) return false;
      held.push(() =>
        respond(response, 200, JSON.stringify({ count: 0, next: null, previous: null, results: [] })),
      );
      return true;
    });
    const running = daemonHere(env);
    while (held.length === 0) await delay(10);
    // What a job in a process of its own tells the daemon, test/journeys/daemon-jobs.test.ts looks at.
    type Run = { outcome: string; requests: number; progress?: { records: number; pages: number } };
    const lastRun = async (): Promise<Run | undefined> =>
      (JSON.parse((await tidemark(['runs', '--json'], { env })).stdout) as { runs: Run[] }).runs[0];
    let run = await lastRun();
    while ((run?.progress?.records ?? 0) === 0) run = await lastRun();
    expect(run).toMatchObject({ outcome: 'running' });
    expect(run?.requests).toBeGreaterThan(1);
    expect(run?.progress?.pages).toBeGreaterThan(0);
    const text = await tidemark(['status'], { env });
    expect(text.stdout).toMatch(/read so far: \d+ records? in \d+ pages?, \d+ requests?\n/);
    expect(text.stdout).toContain('→ wait until run 1, which is under way, has ended');
    expect(text.stderr).toMatch(
      /^tidemark: no run of default was published yet\n {2}→ wait until run 1, which is under way, has ended/,
    );
    const document = JSON.parse((await tidemark(['status', '--json'], { env })).stdout) as {
      sources: { last_run: Run }[];
    };
    // Other lists go on while this one is held: each later answer has at least the number of the one before.
    const inStatus = document.sources[0]?.last_run.requests ?? 0;
    expect(inStatus).toBeGreaterThanOrEqual(run?.requests ?? Infinity);
    const table = (await tidemark(['runs'], { env })).stdout;
    const inRuns = Number(/running +(\d+) +schedule/.exec(table)?.[1]);
    expect(inRuns).toBeGreaterThanOrEqual(inStatus);
    const alone = (await tidemark(['runs', 'show', '1'], { env })).stdout;
    expect(alone).toMatch(/^run 1 of default: running, since .*\nread so far: \d+ records? in \d+ pages?/);
    expect(alone).toContain('published when it ends');
    const shown = JSON.parse((await tidemark(['runs', 'show', '1', '--json'], { env })).stdout) as Run;
    expect(shown.requests).toBeGreaterThanOrEqual(inRuns);
    expect(shown.progress?.pages).toBeGreaterThan(0);
    held[0]?.();
    await running.said(/^sync is done/);
    expect(await lastRun()).not.toHaveProperty('progress');
  });

  it('on every address is asked through loopback, and its log has a URL to open', async () => {
    const { directory, env } = await story({
      TIDEMARK_HTTP_LISTEN: '0.0.0.0:0',
      TIDEMARK_HTTP_TOKEN: 'a-token-of-some-length-at-least-32-characters',
    });
    const running = daemonHere(env);
    await running.said(/^sync is done/);
    const { url } = JSON.parse(readFileSync(join(directory, 'mirror.db.daemon'), 'utf8')) as { url: string };
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(running.lines()).toContainEqual(
      expect.objectContaining({ msg: 'the daemon listens', url, on: 'every address' }),
    );
    expect(await tidemark(['daemon', '--check'], { env })).toMatchObject({ code: 0 });
    expect((await tidemark(['sync'], { env })).stderr).toContain('is running the sync');
  });

  it('two that ask at once for different kinds, behind a sync at work, are each told of their own run', async () => {
    const { service, env } = await story();
    const held: (() => void)[] = [];
    let isHeld = true;
    service.quirks.push(({ path }, response) => {
      if (!isHeld || !path.endsWith('/members/')) return false;
      held.push(() =>
        respond(response, 200, JSON.stringify({ count: 0, next: null, previous: null, results: [] })),
      );
      return true;
    });
    const running = daemonHere(env);
    await running.said(/^sync began/);
    while (held.length === 0) await delay(10);
    const asked = ['domains', 'projects', 'domains'].map((kind) => {
      const quiet = kind === 'projects' ? ['--quiet'] : [];
      return { kind, ...startHere(['sync', '--kind', kind, '--json', ...quiet], { env }) };
    });
    const queued = async (): Promise<unknown[]> => {
      const { url } = JSON.parse(readFileSync(`${env['TIDEMARK_MIRROR'] ?? ''}.daemon`, 'utf8')) as {
        url: string;
      };
      const status = (await (await fetch(`${url}/api/v1/status`)).json()) as {
        daemon: { queued: unknown[] };
      };
      return status.daemon.queued;
    };
    // The two that ask for the same wait for the same.
    while (asked.some(({ kind, stderr }) => kind !== 'projects' && stderr() === '')) await delay(10);
    while ((await queued()).length < 2) await delay(20);
    isHeld = false;
    for (const release of held) release();
    const runs = new Map<string, Set<number>>();
    for (const { kind, ended } of asked) {
      const { code, stdout, stderr } = await ended;
      expect({ kind, code }).toEqual({ kind, code: 0 });
      const [run] = (
        JSON.parse(stdout) as { runs: { run: number; sweeps: { kind: string; outcome: string }[] }[] }
      ).runs;
      const read = (run?.sweeps ?? [])
        .filter(({ outcome }) => outcome === 'complete')
        .map((sweep) => sweep.kind);
      expect(read).toContain(kind);
      expect(read).not.toContain('members');
      expect(read).not.toContain(kind === 'domains' ? 'projects' : 'domains');
      runs.set(kind, (runs.get(kind) ?? new Set()).add(run?.run ?? 0));
      expect(stderr.split('\n').filter((line) => /is running a sync/.test(line))).toHaveLength(
        kind === 'projects' ? 0 : 1,
      );
    }
    expect([...runs.values()].map(({ size }) => size)).toEqual([1, 1]);
    expect([...runs.values()].flatMap((each) => [...each]).sort()).toEqual([2, 3]);
    expect((await running.stop()).code).toBe(0);
  });

  it('serves records unmasked to nobody but who has the token of the replica', async () => {
    const { env, directory } = await story({ TIDEMARK_HTTP_TOKEN: 'token-of-the-pages' });
    const file = join(directory, 'replica-token');
    const path = '/replica/api/organizations/';
    const statusFor = async (url: string, token: string): Promise<number> =>
      (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).status;
    const urlOf = (): string =>
      (JSON.parse(readFileSync(join(directory, 'mirror.db.daemon'), 'utf8')) as { url: string }).url;
    const running = daemonHere({ ...env, TIDEMARK_REPLICA_TOKEN_FILE: file });
    await running.said(/^sync is done/);
    const closed = await fetch(urlOf() + path, { headers: { authorization: 'Bearer token-of-the-pages' } });
    expect(closed.status).toBe(404);
    expect(await closed.text()).toContain('replica.tokenFile gave no token');
    writeFileSync(file, 'token-of-the-replica\n', { mode: 0o600 });
    running.reload();
    await running.said(/^configuration reloaded/);
    expect(await statusFor(urlOf(), 'token-of-the-pages')).toBe(401);
    expect(await statusFor(urlOf(), 'token-of-the-replica')).toBe(200);
    expect((await running.stop()).code).toBe(0);
  });

  it('killed outright, it leaves a mirror that the command line and the next daemon go on with', async () => {
    const { service, env, directory } = await story();
    const isHeld = { is: true };
    service.quirks.push(({ path }) => isHeld.is && path.endsWith('/members/'));
    const running = daemon(env);
    await running.said(/^sync began/);
    while (!service.seen.some(({ url }) => url.includes('/members/'))) await delay(10);
    running.child.kill('SIGKILL');
    await running.ended;
    expect(existsSync(join(directory, 'mirror.db.daemon'))).toBe(true);
    isHeld.is = false;
    const own = await tidemark(['sync'], { env });
    expect(own.code).toBe(0);
    // The process of the job noticed that nobody waits for it any more, and gave its run up in order.
    expect(own.stderr).not.toContain('its process died');
    expect(own.stderr).not.toContain('following');
    const next = daemonHere(env);
    await next.said(/^daemon started/);
    expect(next.lines().map(({ msg }) => msg)).toContain(
      'sync was cut short: its process died, or its end could not be written down',
    );
    expect((await next.stop()).code).toBe(0);
  });

  it('told to stop in a sync that a command follows, lets it end, and the command shows its run', async () => {
    const { service, env } = await story();
    // Nothing is due.
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const running = daemon(env);
    await running.said(/^daemon started/);
    service.quirks.push(() => {
      service.quirks.splice(0);
      running.child.kill('SIGTERM');
      return false;
    });
    const followed = await tidemark(['sync'], { env });
    expect(followed.code, followed.stderr).toBe(0);
    expect(followed.stdout).toMatch(/^run 2 of default: complete/);
    expect((await running.ended).code).toBe(0);
  });

  it('killed outright in a sync that a command follows, the command fails with 1 and says so once', async () => {
    const { service, env } = await story();
    // Nothing is due.
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    const running = daemon(env);
    await running.said(/^daemon started/);
    const asked = new Promise<void>((resolve) => {
      // Never answered: the sync stays at work.
      service.quirks.push(() => {
        resolve();
        return true;
      });
    });
    const following = startHere(['sync'], { env });
    await asked;
    running.child.kill('SIGKILL');
    const { code, stderr } = await following.ended;
    expect(code, stderr).toBe(1);
    const text = `the daemon (pid ${running.child.pid}) ended before the sync did`;
    expect(stderr.split(text), stderr).toHaveLength(2);
  });

  it('killed outright as it looks for drift of what a sync changed, the next one does', async () => {
    const { service, env } = await story({ TIDEMARK_SCHEDULES_DRIFT_CRON: '0 0 1 1 *' });
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'pin', 'start'], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'baseline', 'start'], { env })).code).toBe(0);
    service.set('domains', [{ id: 'd1', domain: 'harbor.example' }]);
    const killed = daemon(env);
    await killed.said(/^daemon started/);
    const asking = startHere(['sync', '--quiet'], { env });
    await killed.said(/^drift began/);
    killed.child.kill('SIGKILL');
    await Promise.all([killed.ended, asking.ended]);
    const next = daemonHere(env);
    await next.said(/^drift is done/);
    expect((await next.stop()).code).toBe(0);
    const last = await tidemark(['daemon', '--once'], { env });
    expect(last.code, last.stderr).toBe(0);
    expect(last.stderr).toContain('nothing is due');
  });

  it('a stop ends it within the grace while the service does not answer, a second SIGTERM at once', async () => {
    const { service, env } = await story({ TIDEMARK_DAEMON_SHUTDOWN_GRACE_MS: '900' });
    service.quirks.push(({ path }) => path.endsWith('/members/'));
    const running = daemonHere(env);
    while (!service.seen.some(({ url }) => url.includes('/members/'))) await delay(10);
    const began = performance.now();
    // What SIGTERM does.
    expect((await running.stop()).code).toBe(0);
    expect(performance.now() - began).toBeLessThan(3_000);

    const impatient = daemon({ ...env, TIDEMARK_DAEMON_SHUTDOWN_GRACE_MS: '60000' });
    await impatient.said(/^sync began/);
    impatient.child.kill('SIGTERM');
    await impatient.said(/^stopping/);
    const job = childOf(impatient.child.pid);
    impatient.child.kill('SIGTERM');
    expect((await impatient.ended).code).toBe(130);
    while (existsSync(`/proc/${job}`)) await delay(10);

    // Nothing was ever mirrored whole: the next one does not wait for its schedule.
    const next = daemonHere(env);
    await next.said(/^sync began/);
    expect((await next.stop()).code).toBe(0);
  });

  it('SIGUSR1, at which Node opens a debugger, does nothing', async () => {
    const { env } = await story();
    const running = daemon(env);
    await running.said(/^daemon started/);
    running.child.kill('SIGUSR1');
    await running.said(/^sync is done/);
    running.child.kill('SIGTERM');
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(stderr).not.toContain('Debugger');
  });

  it('SIGHUP reads the configuration again; a wrong one changes nothing', async () => {
    const { service, directory } = await story();
    const file = join(directory, 'tidemark.yaml');
    const text = (cron: string): string =>
      [
        `mirror: ${join(directory, 'mirror.db')}`,
        'sources:',
        `  - { name: a, baseUrl: "${service.url}", apiKey: "\${KEY}", rate: { perMinute: 0, perHour: 0 } }`,
        `schedules: { sync: { cron: "${cron}" } }`,
      ].join('\n');
    writeFileSync(file, text('0 0 1 1 *'));
    // Nothing is due.
    expect(
      (await tidemark(['sync', '--quiet', '--config', file], { env: { KEY: 'some-test-key' } })).code,
    ).toBe(0);
    const running = daemon({ KEY: 'some-test-key' }, ['--config', file, '--no-http']);
    await running.said(/^daemon started/);
    running.child.kill('SIGHUP');
    await running.said(/^configuration read again: nothing changed/);
    writeFileSync(file, text('61 * * * *'));
    running.child.kill('SIGHUP');
    await running.said(/^the old configuration stays active: .*61/);
    writeFileSync(file, text('* 62 * * *'));
    running.child.kill('SIGHUP');
    await running.said(/^the old configuration stays active: .*62/);
    writeFileSync(file, text('*/2 * * * * *'));
    running.child.kill('SIGHUP');
    await running.said(/^the configuration is right again/);
    await running.said(/^sync began/);
    running.child.kill('SIGINT');
    expect((await running.ended).code).toBe(0);
  });

  it('--once does what is due and says how it went', async () => {
    const { service, env } = await story();
    for (const text of ['sync is done', 'nothing is due']) {
      const once = await tidemark(['daemon', '--once'], { env });
      expect(once.code, once.stderr).toBe(0);
      expect(once.stderr).toContain(`"${text}"`);
    }
    expect(service.seen.filter(({ url }) => url.startsWith('/api/organizations/?')).length).toBe(1);
  });

  it('--once --quiet says for a mail what failed, and nothing else', async () => {
    const { service: narrow, env: own } = await story();
    narrow.quirks.push(
      ({ path }, response) =>
        /\/(members|plugins)\/$/.test(path) && respond(response, 403, '{"detail":"no"}'),
    );
    const partial = await tidemark(['daemon', '--once', '--quiet'], { env: own });
    expect(partial.stderr).toMatch(
      /^tidemark: warning: default: sync is partly done: \d+ of \d+ collections did not complete\n {2}members \(.+\).*: denied: .+\n {2}→ give the key the permissions organization_member:read, plugin:read, or exclude .+\n$/,
    );
    const { service, env } = await story();
    service.quirks.push((_request, response) => respond(response, 403, '{"detail":"no"}'));
    const once = await tidemark(['daemon', '--once', '--quiet'], { env });
    expect(once.code).toBe(5);
    expect(once.stderr).toMatch(/^tidemark: default: sync was refused by the service: .+\n {2}→ .+\n$/);
  });
});
