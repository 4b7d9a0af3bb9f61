/** A daemon with a mirror for each source: outages, kills, HTTP over all mirrors. */
import type { ChildProcess } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startFauxqs } from 'fauxqs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Receiver, receiver } from '../daemon/notices/receiver.ts';
import { childOf, childrenOf, type Ended, scratch, start, startHere, tidemark } from './harness.ts';
import { FakeService, respond } from './service.ts';

class Story {
  readonly service: FakeService;
  readonly directory = scratch();
  readonly names: readonly string[];
  /** The service answers 503 to everything. */
  isDown = false;
  /** Keys of sources whose roles it never answers. */
  readonly held = new Set<string>();
  #ended: Promise<Ended> | null = null;
  #stop: () => void = () => undefined;
  #text: () => string = () => '';

  private constructor(service: FakeService, count: number) {
    this.service = service;
    this.names = Array.from({ length: count }, (_each, index) => `s${String(index + 1).padStart(2, '0')}`);
    service.quirks.push((_request, response) => {
      if (!this.isDown) return false;
      respond(response, 503, '{"detail":"down for maintenance"}');
      return true;
    });
    service.quirks.push(({ path, headers }) => path.endsWith('/roles/') && this.held.has(keyOf(headers)));
  }

  /** The requests that are held now were sent with these keys. */
  asking(): readonly string[] {
    return this.service.seen
      .filter(({ url }) => url.includes('/roles/'))
      .map(({ headers }) => keyOf(headers));
  }

  static async create(count: number, more: readonly string[] = [], ofSource = ''): Promise<Story> {
    const story = new Story(await FakeService.start(), count);
    const rest =
      'kinds: { include: [organizations, roles] }, retry: { attempts: 1 }, rate: { perMinute: 0, perHour: 0 }';
    const sources = story.names.map(
      (name) =>
        `  - { name: ${name}, baseUrl: "${story.service.url}", apiKey: key-of-${name}, ${rest}${ofSource} }`,
    );
    const lines = [
      'mirror: ./data/{source}.db',
      'sources:',
      ...sources,
      'schedules: { sync: { cron: "0 0 1 1 *" }, drift: { cron: "off" }, verify: { cron: "off" }, drill: { cron: "off" } }',
      'http: { listen: "127.0.0.1:0", triggerToken: trigger-token-of-some-length }',
      ...more,
    ];
    writeFileSync(join(story.directory, 'tidemark.yaml'), lines.join('\n'), { mode: 0o600 });
    return story;
  }

  /** Begins the daemon: in this process, as are its jobs unless they have processes of their own. */
  start({ isOneProcess = true } = {}): ReturnType<typeof startHere> {
    const running = startHere(['daemon'], { cwd: this.directory, isOneProcess });
    [this.#ended, this.#stop, this.#text] = [running.ended, running.stop, running.stderr];
    return running;
  }

  /** Begins the daemon as a process of its own, which can be killed. */
  startProcess(): { readonly child: ChildProcess; readonly kill: () => Promise<void> } {
    let text = '';
    const { child, ended } = start(['daemon'], { cwd: this.directory });
    child.stderr?.on('data', (chunk: string) => (text += chunk));
    onTestFinished(() => void child.kill('SIGKILL'));
    this.#text = () => text;
    const kill = async (): Promise<void> => {
      child.kill('SIGKILL');
      await ended;
    };
    return { child, kill };
  }

  lines(): Record<string, unknown>[] {
    const whole = this.#text()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'));
    return whole.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  said(message: RegExp): Record<string, unknown>[] {
    return this.lines().filter(({ msg }) => message.test(String(msg)));
  }

  async until(isSo: () => boolean): Promise<void> {
    for (let tries = 0; !isSo(); tries += 1) {
      if (tries > 2400) throw new Error(`it never came: ${this.#text().slice(-4000)}`);
      // Each look parses the whole log.
      await delay(50);
    }
  }

  /** Ends the daemon in order. */
  async stop(): Promise<void> {
    this.#stop();
    expect((await this.#ended)?.code).toBe(0);
  }

  run(...args: string[]): Promise<Ended> {
    return tidemark(args, { cwd: this.directory });
  }

  async json(target: string): Promise<Record<string, unknown>> {
    const { status, text } = await this.ask(target);
    expect(status, text).toBe(200);
    return JSON.parse(text) as Record<string, unknown>;
  }

  async ask(
    target: string,
    body?: object,
    token?: string,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const card = JSON.parse(
      readFileSync(join(this.directory, 'data', `${this.names[0]}.db.daemon`), 'utf8'),
    ) as {
      url: string;
      token: string;
    };
    const headers = { authorization: `Bearer ${token ?? card.token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(card.url + target, { headers, ...sent });
    return { status: answer.status, text: await answer.text() };
  }
}

function keyOf(headers: { readonly authorization?: string | undefined }): string {
  return (headers.authorization ?? '').replace('Bearer ', '');
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** What this process has open, as the system names it: the path of a file, or the kind and number. By descriptor. */
function descriptors(): ReadonlyMap<string, string> {
  const open = readdirSync('/proc/self/fd').flatMap((descriptor): [string, string][] => {
    try {
      return [[descriptor, readlinkSync(`/proc/self/fd/${descriptor}`)]];
    } catch {
      return []; // It was that of the directory.
    }
  });
  return new Map(open);
}

/** Something may be open for a moment. */
const ENOUGH = { timeout: 20_000, interval: 50 };

interface GroupDocument {
  readonly id: string;
  readonly event: string;
  readonly title: string;
  readonly source: string | null;
  readonly group: {
    readonly key: string;
    readonly sources: readonly string[];
    readonly failing: readonly string[];
    readonly events: readonly { readonly id: string; readonly event: string; readonly source: string }[];
  } | null;
}

/** What a webhook was told, each document once. */
function told(hook: Receiver): readonly GroupDocument[] {
  const all = hook.received.map(({ body }) => JSON.parse(body) as GroupDocument);
  return [...new Map(all.map((document) => [document.id, document])).values()];
}

/** Names of the sources for which an event was told, as often as it was. */
function sourcesTold(hook: Receiver, event: string): readonly string[] {
  return told(hook)
    .flatMap((document) => document.group?.events ?? [{ ...document, source: document.source ?? '' }])
    .filter((each) => each.event === event)
    .map(({ source }) => source)
    .sort();
}

describe('an outage of many sources', () => {
  it('is reported in a few notices and ended once, even if the daemon is killed in the middle', async () => {
    const hook = await receiver('hang');
    const story = await Story.create(8, [
      'daemon: { slots: 4, noticeWait: 3s, noticeInterval: 6s }',
      `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]`,
    ]);
    story.isDown = true;
    const first = story.startProcess();
    await hook.came(1);
    await first.kill();
    hook.answers = [{ status: 200 }];
    story.start();
    // What was being sent, which may be of all sources already, comes again, under the same id.
    const ofFirst = (): number => {
      const ids = hook.received.map(({ headers }) => headers['idempotency-key']);
      return ids.filter((id) => id === ids[0]).length;
    };
    await story.until(() => ofFirst() > 1 && sourcesTold(hook, 'run_failed').length >= 8);
    expect(ofFirst()).toBe(2);
    expect(sourcesTold(hook, 'run_failed')).toEqual(story.names);
    const ofOutage = (): GroupDocument[] => told(hook).filter(({ event }) => event.startsWith('run_'));
    const during = ofOutage().length;
    expect(during).toBeLessThanOrEqual(4);
    story.isDown = false;
    expect((await story.ask('/api/v1/runs', { job: 'sync' })).status).toBe(202);
    await story.until(() => sourcesTold(hook, 'run_recovered').length >= 8);
    expect(sourcesTold(hook, 'run_recovered')).toEqual(story.names);
    expect(ofOutage().length - during).toBeLessThanOrEqual(3);
    const last = ofOutage().at(-1);
    expect(last).toMatchObject({ event: 'run_recovered', source: null, group: { failing: [] } });
    expect(last?.title).toMatch(/^8 sources at http:\/\/127\.0\.0\.1:\d+: the sync works again$/);
    // One incident from the first word to the last.
    expect(new Set(ofOutage().flatMap(({ group }) => group?.key ?? [])).size).toBe(1);
    // What the killed daemon may have reported from memory ends too: once for each source, in a few notices.
    for (const event of ['mirror_back', 'sync_on_time'] as const) {
      await story.until(() => sourcesTold(hook, event).length >= 8);
      expect(sourcesTold(hook, event)).toEqual(story.names);
      expect(told(hook).filter((each) => each.event === event).length).toBeLessThanOrEqual(3);
    }
    // Nothing is told again.
    await story.until(() => story.said(/^delivered a notice/).length >= told(hook).length);
    await story.stop();
    const count = hook.received.length;
    story.start();
    await story.until(() => story.said(/^daemon started/).length === 1);
    await delay(500);
    expect(hook.received).toHaveLength(count);
  });
});

describe('a daemon that is killed outright', () => {
  it('while jobs of several mirrors are at work, is followed by one that does all of them, each once', async () => {
    const story = await Story.create(4, ['daemon: { slots: 3 }']);
    for (const name of story.names.slice(0, 3)) story.held.add(`key-of-${name}`);
    const first = story.startProcess();
    await story.until(() => new Set(story.asking()).size >= 3);
    const children = childrenOf(first.child.pid);
    expect(children).toHaveLength(3);
    await first.kill();
    await story.until(() => !children.some(isAlive));
    story.held.clear();
    story.start();
    await story.until(() => story.said(/^sync is done/).length >= 4);
    for (const name of story.names) {
      const { jobs } = await story.json(`/api/v1/jobs?source=${name}`);
      const outcomes = (jobs as { outcome: string; name: string }[]).map(({ outcome }) => outcome);
      expect(outcomes, name).toEqual(story.names.indexOf(name) < 3 ? ['done', 'interrupted'] : ['done']);
      const { runs } = await story.json(`/api/v1/runs?source=${name}`);
      expect((runs as { outcome: string }[]).filter(({ outcome }) => outcome === 'complete')).toHaveLength(1);
    }
    await story.stop();
    const verified = await story.run('verify', '--quiet');
    expect(verified.code, verified.stderr).toBe(0);
  });
});

describe('the process of a job', () => {
  it('is killed if it does not end at its time limit; jobs of other mirrors run meanwhile', async () => {
    const story = await Story.create(2, ['daemon: { slots: 2, jobTimeout: 6s }']);
    const [hanging, other] = story.names;
    // Nothing is due.
    expect((await story.run('sync', '--quiet')).code).toBe(0);
    const daemon = story.start({ isOneProcess: false });
    await story.until(() => story.said(/^daemon started/).length > 0);
    const others = childrenOf(process.pid);
    expect((await story.ask('/api/v1/runs', { job: 'verify', sources: [hanging] })).status).toBe(202);
    await story.until(() => childrenOf(process.pid).some((pid) => !others.includes(pid)));
    const job = childOf(process.pid, others);
    // It does not even hear that it is to end.
    process.kill(job, 'SIGSTOP');
    expect((await story.ask('/api/v1/runs', { job: 'sync', sources: [other] })).status).toBe(202);
    await story.until(() => story.said(/^sync is done/).length > 0);
    // The daemon looks once a minute, and whenever it reads its configuration again.
    const looking = setInterval(() => daemon.reload(), 1000);
    onTestFinished(() => clearInterval(looking));
    await story.until(() => story.said(/^verify failed/).length > 0);
    expect(isAlive(job)).toBe(false);
    expect(story.said(/^verify failed/)).toMatchObject([{ source: hanging, code: 'timeout' }]);
    expect(String(story.said(/^verify failed/)[0]?.['msg'])).toContain('was ended after');
    clearInterval(looking);
    expect((await story.ask('/api/v1/runs', { job: 'verify', sources: [hanging] })).status).toBe(202);
    await story.until(() => story.said(/^verify is done/).length > 0);
    await story.stop();
  });
});

describe('HTTP over many mirrors', () => {
  it('has the dashboard at its root, whatever the client accepts', async () => {
    const story = await Story.create(2);
    story.start();
    await story.until(() => story.said(/^daemon started/).length > 0);
    const { status, text } = await story.ask('/');
    expect([status, text.includes('<h1')], text).toEqual([200, true]);
    await story.stop();
  });

  it('answers for all from memory, for one from its mirror, and starts syncs by the token for webhooks', async () => {
    const before = descriptors();
    const opened = (): string[] =>
      [...descriptors()].filter(([each, what]) => before.get(each) !== what).map(([, what]) => what);
    const story = await Story.create(6, ['daemon: { slots: 4 }']);
    const data = join(story.directory, 'data');
    story.start();
    await story.until(() => story.said(/^sync is done/).length >= 6);
    let status = await story.json('/api/v1/status');
    // What is known is read again a moment after each job.
    for (let tries = 0; tries < 500 && (status['sources'] as unknown[]).length < 6; tries += 1) {
      await delay(20);
      status = await story.json('/api/v1/status');
    }
    const all = status['sources'] as Record<string, unknown>[];
    expect(all.map(({ source }) => source)).toEqual(story.names);
    expect(all[0]).toMatchObject({ state: 'whole', schema_changes: null, collections: null, records: 1 });
    const one = await story.json('/api/v1/status?source=s04');
    expect(one['sources']).toMatchObject([{ source: 's04', schema_changes: [], collections: [{}, {}] }]);
    // Each connection has the log of its file open: as soon as all jobs have ended, not more are open than readers are kept, and
    // no lock and no log of requests is.
    const kept = story.names.flatMap((name) => [`${name}.db-shm`, `${name}.db-wal`]);
    await expect
      .poll(
        () =>
          opened()
            .filter((path) => path.startsWith(data) && !path.endsWith('.db'))
            .sort(),
        ENOUGH,
      )
      .toEqual(['s01.db.daemon-lock', ...kept].map((name) => join(data, name)).sort());
    // Those that listen, the service and the daemon, and both ends of few connections: fewer than one is left of each sync.
    await expect
      .poll(() => opened().filter((what) => what.startsWith('socket:')).length, ENOUGH)
      .toBeLessThan(12);
    // All in all. SQLite keeps up to four of a mirror itself: a closed connection's, while another has the file open.
    await expect.poll(() => opened().length, ENOUGH).toBeLessThan(60);

    const { runs } = await story.json('/api/v1/runs?limit=5');
    const times = (runs as { started_at: string; source: string }[]).map(({ started_at: at }) => at);
    expect(times).toHaveLength(5);
    expect(times).toEqual(times.toSorted().reverse());
    const everyRun = await story.json('/api/v1/runs?limit=100');
    expect(
      (everyRun['runs'] as { started_at: string }[]).slice(0, 5).map(({ started_at: at }) => at),
    ).toEqual(times);
    expect((everyRun['runs'] as unknown[]).length).toBe(6);
    expect((await story.ask('/api/v1/runs?limit=101')).status).toBe(400);
    expect((await story.ask('/api/v1/runs/1')).status).toBe(400);
    expect(await story.json('/api/v1/runs/1?source=s04')).toMatchObject({ run: 1, source: 's04' });
    const { jobs } = await story.json('/api/v1/jobs?limit=3&name=sync');
    expect(jobs).toMatchObject([{ name: 'sync' }, { name: 'sync' }, { name: 'sync' }]);
    expect((await story.ask('/api/v1/jobs?name=syncs')).status).toBe(400);
    expect((await story.ask('/api/v1/drift')).status).toBe(404);

    const metrics = (await story.ask('/metrics')).text;
    expect(metrics.match(/^tidemark_last_success_timestamp_seconds\{source="s\d+"\} /gm)).toHaveLength(6);
    expect(metrics.match(/^tidemark_baseline_set\{source="s\d+"\} 0$/gm)).toHaveLength(6);
    expect(metrics).toContain('tidemark_health_state{source="",state="ok"} 1');
    expect(metrics).toContain('tidemark_mirror_readable 1');
    expect(await story.json('/readyz')).toMatchObject({ state: 'ok', slots: { count: 4, used: 0 } });

    const token = 'trigger-token-of-some-length';
    expect((await story.ask('/api/v1/status', undefined, token)).status).toBe(403);
    const triggered = await story.ask('/api/v1/runs?source=s03&source=s05&kind=roles', {}, token);
    expect(triggered.status, triggered.text).toBe(202);
    expect((JSON.parse(triggered.text) as { requests: number[] }).requests).toHaveLength(2);
    expect((await story.ask('/api/v1/runs?source=s99', {}, token)).status).toBe(400);
    expect((await story.ask('/api/v1/runs', { job: 'verify' }, token)).status).toBe(403);
    await story.until(() => story.said(/^sync is done/).length >= 8);
    expect(
      story
        .said(/^sync is done/)
        .slice(6)
        .map(({ source }) => source)
        .sort(),
    ).toEqual(['s03', 's05']);

    await story.stop();
    await expect.poll(() => opened().filter((path) => path.startsWith(story.directory)), ENOUGH).toEqual([]);

    // Findings of some: counts of all, documents page by page.
    for (const name of story.names.slice(0, 3)) {
      expect((await story.run('snapshots', 'pin', 'base', '--source', name)).code).toBe(0);
      expect((await story.run('snapshots', 'baseline', 'base', '--source', name)).code).toBe(0);
    }
    story.service.set('roles', [{ id: 'r1', name: 'New' }]);
    story.start();
    await story.until(() => story.said(/^daemon started/).length > 0);
    const sources = story.names.slice(0, 3);
    expect((await story.ask('/api/v1/runs', { job: 'sync', sources })).status).toBe(202);
    await story.until(() => story.said(/^sync is done/).length >= 3);
    let drift: Record<string, unknown> = {};
    for (
      let tries = 0;
      tries < 500 && (drift['documents'] as unknown[] | undefined)?.length !== 2;
      tries += 1
    ) {
      await delay(20);
      const { status: code, text } = await story.ask('/api/v1/drift?limit=2');
      drift = code === 200 ? (JSON.parse(text) as Record<string, unknown>) : {};
    }
    expect(drift).toMatchObject({ schema: 'tidemark.reports/1', errors: [], next: 's02' });
    const later = (await story.ask('/metrics')).text;
    expect(later.match(/^tidemark_baseline_set\{source="s\d+"\} 1$/gm)).toHaveLength(3);
    const counts = drift['sources'] as { source: string; open: number | null }[];
    expect(counts.filter(({ open: findings }) => findings === 1).map(({ source }) => source)).toEqual(
      sources,
    );
    expect(counts.filter(({ open: findings }) => findings === null)).toHaveLength(3);
    const rest = await story.json('/api/v1/drift?limit=2&after=s02');
    expect(rest).toMatchObject({ documents: [{ schema: 'tidemark.drift/1' }], next: null });
    await story.stop();
  });
});

describe('a mirror that cannot be read, among several', () => {
  it('is named in errors of the status and the runs of the sources that were asked for', async () => {
    const story = await Story.create(3);
    story.start();
    await story.until(() => story.said(/^sync is done/).length >= 3);
    await story.stop();
    writeFileSync(join(story.directory, 'data', 's02.db'), 'no database '.repeat(1000));
    story.start();
    await story.until(() => story.said(/^daemon started/).length > 0);
    for (const path of ['status', 'runs']) {
      const { text } = await story.ask(`/api/v1/${path}?source=s01&source=s02`);
      expect(JSON.parse(text), path).toMatchObject({
        errors: [{ source: 's02', code: expect.stringMatching(/^mirror_/) as string }],
      });
    }
    const both = await story.json('/api/v1/status?source=s01&source=s03');
    expect(both).not.toHaveProperty('errors');
    expect((both['sources'] as { source: string }[]).map(({ source }) => source)).toEqual(['s01', 's03']);
    await story.stop();
  });
});

describe('backups of many mirrors', () => {
  it('are made by the daemon below the name of each source, in a directory and in S3, and can be restored', async () => {
    const server = await startFauxqs({ port: 0, logger: false });
    onTestFinished(() => server.stop());
    server.createBucket('backups');
    const query = `?endpoint=http://127.0.0.1:${server.port}&region=us-east-1`;
    const address = `s3://backups/all${query}`;
    const story = await Story.create(2, [
      'backup: { targets: [./backups, "' + address + '"], every: 0s, keepLast: 2 }',
    ]);
    // The client of S3 takes its credentials from the process.
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    onTestFinished(() => void vi.unstubAllEnvs());
    mkdirSync(join(story.directory, 'backups'));
    story.start();
    await story.until(() => story.said(/^backup is done/).length >= 2);
    for (let round = 0; round < 2; round += 1) {
      story.service.set('roles', [{ id: 'r1', name: `Round ${round}` }]);
      expect((await story.ask('/api/v1/runs', { job: 'sync', sources: ['s02'] })).status).toBe(202);
      await story.until(() => story.said(/^backup is done/).length >= 3 + round);
    }
    const health = await story.json('/readyz');
    expect(health, JSON.stringify(health)).toMatchObject({ state: 'ok' });
    await story.stop();
    const listed = JSON.parse((await story.run('backup', 'list', '--json')).stdout) as {
      backups: { source?: string; path: string; is_complete?: boolean }[];
    };
    const paths = listed.backups.map(({ path }) => path);
    for (const name of story.names) {
      const count = name === 's02' ? 2 : 1;
      expect(
        paths.filter((path) => path.includes(`/backups/${name}/`) && !path.startsWith('s3:')),
        name,
      ).toHaveLength(count);
      expect(
        paths.filter((path) => path.startsWith(`s3://backups/all/${name}/`)),
        name,
      ).toHaveLength(count);
    }
    expect((await story.run('backup', 'verify', '--quiet')).code).toBe(0);
    // On an empty machine, with the address as the lost configuration had it.
    const empty = { env: {}, cwd: scratch() };
    for (const place of [join(story.directory, 'backups'), address]) {
      const [path = '', query = ''] = place.split(/(?=\?)/);
      const below = `'?${path}/s01${query.replaceAll(/[?&]/g, '[?&]')}'?`;
      const list = await tidemark(['backup', 'list', place, '--json'], empty);
      expect(list.code).toBe(4);
      const { message, hint } = JSON.parse(list.stdout) as { message: string; hint: string };
      expect(message).toContain('in these places below it, one for each source: s01, s02');
      expect(hint).toMatch(new RegExp(`^\`tidemark backup list ${below}\` lists those of s01$`));
      const words = ['--to', 'x.db', '--identity', 'age.key'];
      const restored = await tidemark(['backup', 'restore', place, ...words], empty);
      expect(restored.code).toBe(4);
      expect(restored.stderr).toMatch(
        new RegExp(
          `one for each source: s01, s02\n.*\`tidemark backup restore ${below} ${words.join(' ')}\``,
        ),
      );
    }
    // As docs/backup.md says: with the files that a reader leaves beside it.
    for (const end of ['', '-wal', '-shm']) {
      const path = join(story.directory, 'data', `s02.db${end}`);
      if (existsSync(path)) renameSync(path, `${path}.lost`);
    }
    const newest =
      paths
        .filter((path) => path.startsWith('s3://backups/all/s02/'))
        .toSorted()
        .at(-1) ?? '';
    // The place of a source, or a backup in it, says which source is meant; the target itself does not.
    const byPlace = ['--to', join(story.directory, 'by-place.db')];
    const directory = await story.run(
      'backup',
      'restore',
      join(story.directory, 'backups', 's02'),
      ...byPlace,
    );
    expect(directory.code, directory.stderr).toBe(0);
    expect(directory.stdout).toContain('sources in it: s02');
    const above = await story.run('backup', 'restore', join(story.directory, 'backups'), '--to', 'x.db');
    expect(above.code).toBe(4);
    expect(above.stderr).toContain('one for each source: s01, s02');
    const to = join(story.directory, 'data', 's02.db');
    const restored = await story.run('backup', 'restore', `${newest}${query}`, '--to', to);
    expect(restored.code, restored.stderr).toBe(0);
    expect((await story.run('export', '--source', 's02', '--kind', 'roles')).stdout).toContain('Round 1');
  });

  it('are refused for another source, and of a copy elsewhere say which source is meant', async () => {
    const section = 'backup: { targets: [./backups] }';
    const story = await Story.create(2, [section]);
    mkdirSync(join(story.directory, 'backups'));
    expect((await story.run('sync', '--quiet')).code).toBe(0);
    expect((await story.run('backup', 'create', '--quiet')).code).toBe(0);
    const directory = join(story.directory, 'backups', 's01');
    const name = readdirSync(directory).find((each) => each.endsWith('.zst')) ?? '';
    const file = join(directory, name);
    const restore = (...words: string[]) =>
      story.run('backup', 'restore', file, '--to', join(story.directory, 'r', 'f.db'), ...words);
    const refused = async (): Promise<void> => {
      const { code, stdout, stderr } = await restore('--source', 's02');
      expect([code, stdout]).toEqual([4, '']);
      expect(stderr).toContain('this is a backup of s01, not of s02\n');
      expect(stderr).toContain('restore it with --source s01');
      expect(existsSync(join(story.directory, 'r'))).toBe(false);
    };
    await refused();
    const config = join(story.directory, 'tidemark.yaml');
    writeFileSync(config, readFileSync(config, 'utf8').replace(section, ''));
    const { code, stdout, stderr } = await restore();
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('sources in it: s01\n');
    expect(stdout).not.toContain('the configuration has');
    rmSync(join(story.directory, 'r'), { recursive: true });
    // Without its manifest, only what is in it says that.
    for (const each of readdirSync(directory)) if (each !== name) rmSync(join(directory, each));
    await refused();
    expect((await restore('--source', 's01')).code).toBe(0);
  });
});

it('status counts a source in its first sync as starting, as the daemon does, however short the schedule is', async () => {
  const story = await Story.create(2);
  const file = join(story.directory, 'tidemark.yaml');
  // Late after six seconds.
  const often = readFileSync(file, 'utf8').replace('"0 0 1 1 *"', '"*/5 * * * * *", jitter: 0s');
  writeFileSync(file, often);
  story.held.add('key-of-s02');
  story.start();
  await story.until(() => story.asking().includes('key-of-s02'));
  await delay(7_000);
  const { sources } = JSON.parse((await story.ask('/readyz')).text) as {
    sources: { source: string; state: string; allowed_age_seconds: number; reasons: object[] }[];
  };
  expect(sources[1]?.allowed_age_seconds).toBeLessThan(7);
  expect(sources[1]).toMatchObject({
    state: 'starting',
    reasons: [{ code: 'first_sync', message: 'the first sync is under way' }],
  });
  const status = await story.run('status');
  expect(status.stdout).toMatch(/^2 sources with mirrors of their own: [^.]*\b1 starting\b/);
  expect(status.stdout).toMatch(/^s02 +Not yet /m);
  expect((await story.run('daemon', '--check')).stdout).toContain('s02: starting');
  await story.stop();
});

it('a sync that a daemon cannot do, as the mirror is gone, says how to bring it back', async () => {
  const story = await Story.create(2);
  story.start();
  await story.until(() => story.said(/^sync is done/).length === 2);
  for (const end of ['', '-wal', '-shm']) {
    const path = join(story.directory, 'data', `s02.db${end}`);
    if (existsSync(path)) renameSync(path, join(story.directory, `away${end}`));
  }
  const { code, stderr } = await story.run('sync', '--source', 's02');
  expect(code, stderr).not.toBe(0);
  expect(stderr).toContain('mount the volume that it belongs to');
  expect(stderr).not.toContain('see the log of the daemon');
  await story.until(() => story.said(/the mirror is gone/).length > 0);
  const ready = await story.ask('/readyz');
  expect(ready.text).toContain('mount the volume that it belongs to');
  expect(ready.text).not.toMatch(/there is no mirror|`tidemark sync` first/);
  await story.stop();
});

it('status calls sources fine that are fresh and not verified yet', async () => {
  const story = await Story.create(2);
  story.start();
  await story.until(() => story.said(/^sync is done/).length === 2);
  await vi.waitFor(async () => {
    const { stdout } = await story.run('status');
    expect(stdout).toMatch(/^2 sources with mirrors of their own: 2 fine, not verified yet\.\n/);
  }, ENOUGH);
  await story.json('/api/v1/status');
  await story.ask('/api/v1/runs', { job: 'verify', sources: ['s01'] });
  await vi.waitFor(async () => {
    const { stdout } = await story.run('status');
    expect(stdout).toMatch(/own: 2 fine, of which 1 not verified yet\.\n/);
    expect(stdout).not.toContain('no daemon');
  }, ENOUGH);
  await story.stop();
  const unserved = await story.run('status');
  expect(unserved.stdout).toContain(
    '\nNext: no daemon is running; `tidemark daemon` starts what is scheduled\n',
  );
});
