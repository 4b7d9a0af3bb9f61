/** What the daemon says of how fresh the copy is: only a complete run of all kinds counts, whatever came after it. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { type Receiver, receiver } from '../daemon/notices/receiver.ts';
import { type Ended, scratch, start, startHere } from './harness.ts';
import { commandLine } from './command-line.ts';
import { FakeService, respond } from './service.ts';
import { alterFile } from '../tools/alter.ts';

interface Health {
  readonly state: string;
  readonly reasons: readonly { readonly code: string; readonly message: string; readonly hint: string }[];
  readonly sources: readonly {
    readonly last_complete_at: string | null;
    readonly reasons: readonly { readonly code: string }[];
  }[];
}

interface Status {
  readonly sources: readonly {
    readonly state: string;
    readonly last_complete_run: { readonly run: number; readonly finished_at: string } | null;
    readonly last_run: { readonly run: number; readonly kinds: readonly string[] | null };
  }[];
}

interface Job {
  readonly trigger: string;
  readonly by: string | null;
  readonly via: string | null;
  readonly outcome: string;
}

class Story {
  readonly service: FakeService;
  readonly told: Receiver;
  readonly pinged: Receiver;
  readonly directory = scratch();
  readonly mirror = join(this.directory, 'mirror.db');
  readonly env = { KEY: 'some-test-key' };
  #text: () => string = () => '';
  #stop: () => void = () => undefined;
  #ended: Promise<Ended> | null = null;

  private constructor(service: FakeService, told: Receiver, pinged: Receiver) {
    this.service = service;
    this.told = told;
    this.pinged = pinged;
    writeFileSync(
      join(this.directory, 'tidemark.yaml'),
      [
        'mirror: ./mirror.db',
        'sources:',
        `  - { name: a, baseUrl: "${service.url}", apiKey: "\${KEY}", rate: { perMinute: 0, perHour: 0 } }`,
        'schedules: { sync: { cron: "0 0 1 1 *" }, drift: { cron: "off" }, verify: { cron: "off" }, drill: { cron: "off" } }',
        'http: { listen: "127.0.0.1:0" }',
        `notices: [{ name: hook, type: webhook, url: "${told.url}" }]`,
        `pings: [{ start: "${pinged.url}/start", success: "${pinged.url}/success", fail: "${pinged.url}/fail" }]`,
      ].join('\n'),
    );
  }

  static async create(): Promise<Story> {
    return new Story(
      await FakeService.start(),
      await receiver({ status: 200 }),
      await receiver({ status: 200 }),
    );
  }

  /** Begins the daemon: in this process, as are its jobs. */
  start(): void {
    const running = startHere(['daemon'], { env: this.env, cwd: this.directory });
    [this.#ended, this.#stop, this.#text] = [running.ended, running.stop, running.stderr];
  }

  /** Begins the daemon as a process of its own, which can be killed. */
  startProcess(): { readonly kill: () => Promise<void> } {
    let text = '';
    const { child, ended } = start(['daemon'], { env: this.env, cwd: this.directory });
    child.stderr?.on('data', (chunk: string) => (text += chunk));
    onTestFinished(() => void child.kill('SIGKILL'));
    this.#text = () => text;
    const kill = async (): Promise<void> => {
      child.kill('SIGKILL');
      await ended;
    };
    return { kill };
  }

  async stop(): Promise<void> {
    this.#stop();
    expect((await this.#ended)?.code).toBe(0);
  }

  lines(level: number, message: RegExp): string[] {
    return this.#text()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as { level: number | string; msg: string })
      .filter((line) => rank(line.level) >= level && message.test(line.msg))
      .map(({ msg }) => msg);
  }

  async until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    // On a busy machine a process alone takes seconds to begin.
    const endsAt = performance.now() + 120_000;
    while (!(await isSo())) {
      if (performance.now() > endsAt) throw new Error(`it never came: ${this.#text()}`);
      await delay(10);
    }
  }

  async get(path: string): Promise<string> {
    const card = JSON.parse(readFileSync(`${this.mirror}.daemon`, 'utf8')) as { url: string; token: string };
    const answer = await fetch(card.url + path, { headers: { authorization: `Bearer ${card.token}` } });
    return answer.text();
  }

  async post(path: string, content: object): Promise<Response> {
    const card = JSON.parse(readFileSync(`${this.mirror}.daemon`, 'utf8')) as { url: string; token: string };
    const headers = { authorization: `Bearer ${card.token}`, 'content-type': 'application/json' };
    return fetch(card.url + path, { method: 'POST', headers, body: JSON.stringify(content) });
  }

  async health(): Promise<Health> {
    return JSON.parse(await this.get('/readyz')) as Health;
  }

  async cli(...args: string[]): Promise<Ended> {
    return commandLine(args, { env: this.env, cwd: this.directory });
  }

  async status(): Promise<Status['sources'][number]> {
    const { stdout } = await this.cli('status', '--json');
    return (JSON.parse(stdout) as Status).sources[0]!;
  }

  /** When the last complete run ended, as three places say it. */
  async lastComplete(): Promise<string[]> {
    const metrics = await this.get('/metrics');
    const seconds =
      /tidemark_last_success_timestamp_seconds\{source="a"\} (\S+)/.exec(metrics)?.[1] ?? 'none';
    return [
      (await this.health()).sources[0]?.last_complete_at ?? 'none',
      (await this.status()).last_complete_run?.finished_at ?? 'none',
      seconds === 'none' ? seconds : new Date(Number(seconds) * 1000).toISOString(),
    ];
  }

  async jobs(name: string): Promise<readonly Job[]> {
    return (JSON.parse(await this.get(`/api/v1/jobs?name=${name}`)) as { jobs: Job[] }).jobs;
  }

  /** Events of all notices that are written down, delivered or not. */
  pending(): string[] {
    const mirror = openMirror(this.mirror, { mode: 'read', command: 'test', clock: systemClock });
    try {
      const deliveries = mirror.daemon.deliveries(20);
      return deliveries.map(({ about }) => about.event).toReversed();
    } finally {
      mirror.close();
    }
  }

  events(): string[] {
    return this.told.received.map(({ body }) => (JSON.parse(body) as { event: string }).event);
  }

  pings(): string[] {
    return this.pinged.received.map(({ path }) => path);
  }
}

function rank(level: number | string): number {
  return typeof level === 'number' ? level : ({ warn: 40, error: 50, fatal: 60 }[level] ?? 30);
}

/** Past the program: what a disk, or the time, might have done to the file. */
function tamper(path: string, statement: string): void {
  alterFile(path, statement);
}

describe('how fresh the copy is', () => {
  it('follows complete runs of all kinds alone, and retention does not forget the last of them', async () => {
    const story = await Story.create();
    let isDenied = false;
    story.service.quirks.push(
      ({ path }, response) =>
        isDenied && path.endsWith('/members/') && respond(response, 403, '{"detail":"no"}'),
    );
    story.start();
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    const first = (await story.health()).sources[0]?.last_complete_at ?? '';
    expect(first).toMatch(/Z$/);
    expect(new Set(await story.lastComplete())).toEqual(new Set([first]));
    isDenied = true;
    expect((await story.cli('sync')).code).toBe(3);
    await story.until(() => story.events().length === 1);
    // It narrows itself to what still works.
    expect((await story.cli('sync', '--kind', 'roles')).code).toBe(0);
    await story.until(() => story.lines(0, /^sync is done/).length === 2);
    await delay(100);
    expect(story.events()).toEqual(['run_partial']);
    expect(story.pings()).toEqual(['/start', '/success', '/start', '/fail']);
    expect(new Set(await story.lastComplete())).toEqual(new Set([first]));
    const health = await story.health();
    expect(health.state).toBe('degraded');
    expect(health.sources[0]?.reasons.map(({ code }) => code)).toEqual(['run_partial']);
    expect(await story.status()).toMatchObject({
      state: 'partial',
      last_run: { run: 3, kinds: ['roles'] },
      last_complete_run: { run: 1 },
    });
    const { stdout: text } = await story.cli('status');
    expect(text).toMatch(/^ {2}last run: 3, complete \(roles only\), /m);
    expect(text).toMatch(/^ {2}last complete run: 1, /m);

    expect((await story.cli('sync')).code).toBe(3);
    const forgotten = await story.cli('forget', '--keep-last', '1');
    expect(forgotten.code, forgotten.stderr).toBe(0);
    expect(forgotten.stdout).toMatch(/ +1 +a +\S+Z +complete\n/);
    expect(new Set(await story.lastComplete())).toEqual(new Set([first]));

    isDenied = false;
    expect((await story.cli('sync')).code).toBe(0);
    await story.until(() => story.events().length === 2);
    expect(story.events()).toEqual(['run_partial', 'run_recovered']);
    expect((await story.health()).state).toBe('ok');
    await story.stop();
  });

  it('a first sync that was narrowed is no complete one', async () => {
    const story = await Story.create();
    expect((await story.cli('sync', '--kind', 'roles')).code).toBe(0);
    expect(await story.status()).toMatchObject({ state: 'partial', last_complete_run: null });
    story.start();
    // Nothing of all kinds was ever read: it does not wait for January.
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    expect(await story.status()).toMatchObject({ state: 'whole', last_complete_run: { run: 2 } });
    await story.stop();
  });
});

describe('how sound the copy is', () => {
  it('follows the latest verification, the command line made it or the daemon', async () => {
    const story = await Story.create();
    story.service.set('members', [{ id: 'm', user: { uuid: 'u' } }]);
    story.start();
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    expect(await story.get('/metrics')).not.toMatch(/^tidemark_verify_problems\b/m);
    expect((await story.cli('verify')).code).toBe(0);
    expect(await story.get('/metrics')).toMatch(/^tidemark_verify_problems\{source=""\} 0$/m);
    expect(await story.jobs('verify')).toMatchObject([
      { trigger: 'request', by: commandActor().by, outcome: 'done', summary: { problems: 0 } },
    ]);

    tamper(
      story.mirror,
      `CREATE TABLE kept AS SELECT record, hash FROM records; UPDATE records SET hash = zeroblob(32) WHERE hash IS NOT NULL`,
    );
    const found = await story.cli('verify');
    expect(found.code).toBe(1);
    expect(found.stderr).toMatch(
      /^tidemark: the contents of \S+ do not match the stored hashes: \d+ problems\n/,
    );
    const bad = await story.health();
    expect([bad.state, bad.reasons.map(({ code }) => code)]).toEqual(['degraded', ['verify_failed']]);
    expect(await story.get('/metrics')).toMatch(/^tidemark_verify_problems\{source=""\} [1-9]/m);
    expect((await story.cli('sync')).code).toBe(0);
    expect((await story.health()).reasons.map(({ code }) => code)).toEqual(['verify_failed']);
    expect(story.pending()).toEqual(['verify_failed']);

    tamper(
      story.mirror,
      `UPDATE records SET hash = k.hash FROM kept k WHERE k.record = records.record; DROP TABLE kept`,
    );
    expect((await story.cli('verify')).code).toBe(0);
    expect((await story.health()).state).toBe('ok');
    expect(story.pending()).toEqual(['verify_failed', 'verify_recovered']);
    await story.stop();
  });

  it('is kept without a daemon too, and a mirror in use is not a failure of the verification', async () => {
    const story = await Story.create();
    expect((await story.cli('sync')).code).toBe(0);
    expect((await story.cli('status')).stdout).toMatch(/Verified +Not yet/);
    expect((await story.cli('verify')).code).toBe(0);
    expect((await story.cli('status')).stdout).toMatch(/Verified +Yes .*revisions? match/);
    const writer = openMirror(story.mirror, { mode: 'write', command: 'sync', clock: systemClock });
    onTestFinished(() => writer.close());
    const { code, stderr } = await story.cli('verify');
    expect([code, writer.daemon.jobs({ name: 'verify' }).length]).toEqual([0, 1]);
    expect(stderr).toMatch(/^tidemark: `tidemark status` will not know of this verification: .* is held by /);
  });
});

describe('the jobs of the daemon', () => {
  it('are kept with who asked for them, in whatever way', async () => {
    const story = await Story.create();
    story.start();
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    for (const [job, by] of [
      ['verify', 'Ada'],
      ['sync', 'request of Bea'],
      ['sync', commandActor().by],
      ['forget', null],
    ] as const) {
      const before = (await story.jobs(job)).length;
      const { status } = await story.post('/api/v1/runs', { job, ...(by === null ? {} : { by }) });
      expect(status).toBe(202);
      await story.until(async () => {
        const jobs = await story.jobs(job);
        return jobs.length > before && jobs[0]?.outcome === 'done';
      });
    }
    for (const more of [[], ['--as', 'Cem (vm)']]) expect((await story.cli('sync', ...more)).code).toBe(0);
    const asked = async (name: string): Promise<unknown[]> =>
      (await story.jobs(name)).map(({ trigger, by, via }) => [trigger, by, via]);
    expect(await asked('verify')).toEqual([['request', 'Ada', 'token@http']]);
    expect(await asked('forget')).toEqual([['request', 'token@http', 'token@http']]);
    const user = commandActor().by;
    expect(await asked('sync')).toEqual([
      ['request', 'Cem (vm)', user],
      ['request', user, user],
      ['request', user, 'token@http'],
      ['request', 'request of Bea', 'token@http'],
      ['overdue', null, null],
    ]);
    const { stdout } = await story.cli('runs');
    expect(stdout.match(/request of .*$/gm)).toEqual([
      `request of Cem (vm) (${user})`,
      `request of ${user}`,
      `request of ${user} (token@http)`,
      'request of request of Bea (token@http)',
    ]);
    await story.stop();
  });
});

describe('a mirror that goes away under the daemon', () => {
  it('is reported once, is not begun again but by a restart, and is followed when it is back', async () => {
    const story = await Story.create();
    story.start();
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    const aside = join(story.directory, 'aside.db');
    const take = (): void => {
      for (const end of ['-wal', '-shm']) rmSync(`${story.mirror}${end}`, { force: true });
      renameSync(story.mirror, aside);
    };
    take();
    const health = await story.health();
    expect(health.state).toBe('failing');
    expect(health.reasons[0]).toMatchObject({ code: 'mirror_unreadable' });
    expect(health.reasons[0]?.hint).toMatch(/restore a copy of the file/);
    const asked = await story.cli('sync');
    expect(asked.code).toBe(1);
    await story.until(() => story.events().length > 0);
    expect(existsSync(story.mirror)).toBe(false);
    expect(story.events()).toEqual(['mirror_gone']);
    // Besides what the configuration reports of its URLs.
    expect(story.lines(40, /^(?!tidemark\.yaml)/)).toEqual([
      `the mirror is gone: ${story.mirror} is not there any more`,
    ]);

    renameSync(aside, story.mirror);
    expect((await story.health()).state).not.toBe('failing');
    expect((await story.cli('sync')).code).toBe(0);
    await story.until(() => story.events().length > 1);
    expect(story.events()).toEqual(['mirror_gone', 'mirror_back']);
    expect(story.lines(0, /^the mirror is there again/)).toHaveLength(1);

    take();
    await story.health();
    await story.stop();
    story.start();
    await story.until(() => story.lines(0, /^sync is done/).length === 1);
    expect(story.lines(0, /^there is no mirror: a new one is created/)).toHaveLength(1);
    expect(existsSync(story.mirror)).toBe(true);
    await story.stop();
  });

  it.each([
    ['kill', (story: Story) => story.startProcess().kill],
    [
      'stop',
      (story: Story) => {
        story.start();
        return () => story.stop();
      },
    ],
  ] as const)(
    'and whose daemon ends meanwhile (%s) is reported as back by the next one, once',
    async (_how, begin) => {
      const story = await Story.create();
      const end = begin(story);
      await story.until(() => story.lines(0, /^sync is done/).length === 1);
      const aside = join(story.directory, 'aside');
      mkdirSync(aside);
      const move = (from: string, to: string): void => {
        for (const name of ['mirror.db', 'mirror.db-wal', 'mirror.db-shm'])
          if (existsSync(join(from, name))) renameSync(join(from, name), join(to, name));
      };
      move(story.directory, aside);
      expect((await story.health()).state).toBe('failing');
      expect((await story.cli('sync')).code).toBe(1);
      await story.until(() => story.events().includes('mirror_gone'));
      await end();
      move(aside, story.directory);

      story.start();
      await story.until(() => story.lines(0, /^daemon started/).length === 1);
      expect((await story.cli('sync')).code).toBe(0);
      await story.until(
        () => story.events().includes('mirror_back') && story.events().includes('run_recovered'),
      );
      expect((await story.cli('sync')).code).toBe(0);
      await story.stop();
      expect(existsSync(`${story.mirror}.daemon`)).toBe(false);
      story.start();
      await story.until(() => story.lines(0, /^daemon started/).length === 1);
      expect((await story.cli('sync')).code).toBe(0);
      await story.stop();
      const events = ['mirror_back', 'mirror_gone', 'run_recovered', 'sync_on_time'];
      expect(story.events().toSorted()).toEqual(events);
    },
  );
});
