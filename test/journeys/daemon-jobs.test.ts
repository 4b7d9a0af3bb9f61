/** Jobs in processes of their own: whatever becomes of such a process, the daemon stays, and none of them outlives it. */
import type { ChildProcess } from 'node:child_process';
import { readdirSync, readFileSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type Ended,
  childOf,
  childrenOf,
  environment,
  program,
  runProgram,
  scratch,
  start,
  startHere,
  tidemark,
} from './harness.ts';
import { FakeService, respond } from './service.ts';

class Story {
  readonly service: FakeService;
  readonly directory = scratch();
  readonly env: Record<string, string>;
  isHeld = false;
  /** Of the process that starts those of the jobs. */
  #pid = 0;
  /** Its children that are not of this test. */
  #others: readonly number[] = [];
  #text: () => string = () => '';

  private constructor(service: FakeService, more: Readonly<Record<string, string>>) {
    this.service = service;
    this.env = environment(service.url, this.directory, {
      TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
      TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *',
      ...more,
    });
    service.quirks.push(({ path }) => this.isHeld && path.endsWith('/members/'));
  }

  static async create(more: Readonly<Record<string, string>> = {}): Promise<Story> {
    return new Story(await FakeService.start(), more);
  }

  /** Begins the daemon in this process: its jobs have processes of their own. */
  start(args: readonly string[] = []): { stop(): Promise<Ended> } {
    this.#others = childrenOf(process.pid);
    const { ended, stop, stderr } = startHere(['daemon', ...args], { env: this.env, isOneProcess: false });
    this.#pid = process.pid;
    this.#text = stderr;
    return {
      stop: () => {
        stop();
        return ended;
      },
    };
  }

  /** Begins the daemon as a process of its own, whose log has what the processes of its jobs log. */
  startProcess(entry?: string): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
    let text = '';
    const { child, ended } = start(['daemon'], { env: this.env, ...(entry === undefined ? {} : { entry }) });
    child.stderr?.on('data', (chunk: string) => (text += chunk));
    onTestFinished(() => void child.kill('SIGKILL'));
    this.#pid = child.pid ?? 0;
    this.#others = [];
    this.#text = () => text;
    return { child, ended };
  }

  lines(): Record<string, unknown>[] {
    const whole = this.#text()
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'));
    return whole.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  async until(isSo: () => boolean): Promise<void> {
    for (let tries = 0; !isSo(); tries += 1) {
      if (tries > 2000) throw new Error(`it never came: ${this.#text()}`);
      await delay(10);
    }
  }

  count(message: RegExp): number {
    return this.lines().filter(({ msg }) => message.test(String(msg))).length;
  }

  said(message: RegExp, times = 1): Promise<void> {
    return this.until(() => this.count(message) >= times);
  }

  /** The process of the job that waits for an answer of the service. */
  async jobAtWork(): Promise<number> {
    const before = this.service.seen.filter(({ url }) => url.includes('/members/')).length;
    await this.until(
      () => this.service.seen.filter(({ url }) => url.includes('/members/')).length > before || before > 0,
    );
    return childOf(this.#pid, this.#others);
  }

  /** Of the latest run, which is under way. */
  async recordsSoFar(): Promise<number> {
    const { stdout } = await tidemark(['runs', '--json'], { env: this.env });
    const { runs } = JSON.parse(stdout) as { runs: { progress?: { records: number } }[] };
    return runs[0]?.progress?.records ?? 0;
  }

  async ask(target: string, body?: object): Promise<{ readonly status: number; readonly text: string }> {
    const card = JSON.parse(readFileSync(join(this.directory, 'mirror.db.daemon'), 'utf8')) as {
      url: string;
      token: string;
    };
    const headers = { authorization: `Bearer ${card.token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
    const answer = await fetch(card.url + target, { headers, ...sent });
    return { status: answer.status, text: await answer.text() };
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

describe('the process of a job', () => {
  it('says that the program is gone, where that is why it ended', async () => {
    const story = await Story.create();
    const entry = join(story.directory, 'main.js');
    symlinkSync(program, entry);
    const { child, ended } = story.startProcess(entry);
    await story.said(/^sync is done/);
    unlinkSync(entry);
    expect((await story.ask('/api/v1/runs', { job: 'sync' })).status).toBe(202);
    await story.said(/^sync failed: its process ended with 1 before the job was done/);
    const { hint } = story.lines().find(({ msg }) => String(msg).startsWith('sync failed')) ?? {};
    expect(hint).toBe(
      `nothing published before is lost, and the next start continues; the program at ${entry} is no longer there or was replaced: restart the daemon`,
    );
    child.kill('SIGTERM');
    await ended;
  });

  it('killed in the middle of a sync: the job fails with a clear line, the daemon answers, the next one goes on', async () => {
    const story = await Story.create();
    story.isHeld = true;
    const daemon = story.start();
    const job = await story.jobAtWork();
    expect((await story.ask('/healthz')).status).toBe(200);
    const { text } = await story.ask('/api/v1/status');
    expect(text).toContain('"requests"');
    // It tells the daemon twice a second what it has read so far.
    while ((await story.recordsSoFar()) === 0) await delay(50);
    process.kill(job, 'SIGKILL');
    await story.said(/^sync failed: its process was ended by SIGKILL before the job was done/);
    const failed = story.lines().find(({ msg }) => String(msg).startsWith('sync failed'));
    expect(failed).toMatchObject({ level: 50, job: 1, source: 'default', code: 'internal' });
    expect(String(failed?.['hint'])).toContain('nothing published before is lost');
    expect((await story.ask('/healthz')).status).toBe(200);
    story.isHeld = false;
    expect((await story.ask('/api/v1/runs', { job: 'sync' })).status).toBe(202);
    await story.said(/^sync is done again/);
    expect((await daemon.stop()).code).toBe(0);
    const runs = await tidemark(['runs', '--json'], { env: story.env });
    expect(JSON.parse(runs.stdout)).toMatchObject({
      runs: [{ outcome: 'complete' }, { outcome: 'failed', error: { code: 'interrupted' } }],
    });
  });

  it('gives up when the daemon is killed outright, and leaves no lock behind', async () => {
    const story = await Story.create();
    story.isHeld = true;
    const daemon = story.startProcess();
    const job = await story.jobAtWork();
    daemon.child.kill('SIGKILL');
    // Its own end of the daemon's stderr closes with it.
    await daemon.ended;
    await story.until(() => !isAlive(job));
    story.isHeld = false;
    expect((await tidemark(['sync', '--quiet'], { env: story.env })).code).toBe(0);
  });

  it('is told to stop by a daemon that gets SIGTERM, and ends its run in order within the grace', async () => {
    // At 0.7 of the grace the job is told; it would be killed at its end.
    const story = await Story.create({ TIDEMARK_DAEMON_SHUTDOWN_GRACE_MS: '12000' });
    story.isHeld = true;
    const daemon = story.startProcess();
    const job = await story.jobAtWork();
    daemon.child.kill('SIGTERM');
    const { code, stderr } = await daemon.ended;
    expect(code, stderr).toBe(0);
    expect(isAlive(job)).toBe(false);
    expect(story.count(/^SIGTERM received: the daemon stops$/)).toBe(1);
    expect(story.count(/^stopping: sync is given time to end/)).toBe(1);
    expect(story.count(/^sync was interrupted/)).toBe(1);
    expect(story.lines().at(-1)).toMatchObject({ level: 30, msg: 'daemon stopped' });
    // Only the process of the job writes this: a run whose process was killed at the end of the grace has another error.
    const shown = await tidemark(['runs', 'show', '1', '--json'], { env: story.env });
    expect(JSON.parse(shown.stdout)).toMatchObject({
      outcome: 'failed',
      error: {
        code: 'interrupted',
        message: 'the run was interrupted; what was published before is untouched',
      },
    });
    expect((await tidemark(['status'], { env: story.env })).stdout).not.toContain('never ended');
  });

  it('is ended with the daemon when it does not give up within the grace', async () => {
    const story = await Story.create({ TIDEMARK_DAEMON_SHUTDOWN_GRACE_MS: '600' });
    story.isHeld = true;
    const daemon = story.start();
    const job = await story.jobAtWork();
    process.kill(job, 'SIGSTOP');
    expect((await daemon.stop()).code).toBe(0);
    expect(isAlive(job)).toBe(false);
    expect(story.count(/^sync was interrupted/)).toBe(1);
    expect(story.lines().at(-1)).toMatchObject({ msg: 'daemon stopped' });
  });

  it('does every job, and logs in its name', async () => {
    const backups = scratch();
    const story = await Story.create({ TIDEMARK_BACKUP_TARGETS: backups });
    let isFirst = true;
    story.service.quirks.push(({ path }, response) => {
      if (!isFirst || !path.endsWith('/members/')) return false;
      isFirst = false;
      return respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '0' });
    });
    const daemon = story.startProcess();
    await story.said(/^backup is done/);
    expect(readdirSync(backups)).toHaveLength(2);
    for (const job of ['drift', 'verify', 'forget', 'drill']) {
      expect((await story.ask('/api/v1/runs', { job })).status).toBe(202);
    }
    await story.said(/^drill (is done|is partly done)/);
    for (const job of ['drift', 'verify', 'forget'])
      expect(story.count(new RegExp(`^${job} is done`))).toBe(1);
    expect(story.lines().find(({ task }) => task === 'sync')).toMatchObject({
      level: 40,
      job: 1,
      source: 'default',
      msg: expect.stringContaining('asks for fewer requests') as string,
    });
    const { text } = await story.ask('/metrics');
    expect(Number(/^tidemark_requests_total\{source="default"\} (\d+)/m.exec(text)?.[1])).toBe(
      story.service.seen.length,
    );
    daemon.child.kill('SIGTERM');
    expect((await daemon.ended).stderr).not.toContain('test-key-of-some-length');
  });

  it('does nothing under a wrong configuration: the daemon goes on by the one in force', async () => {
    const story = await Story.create();
    const file = join(story.directory, 'tidemark.yaml');
    const text = [
      `mirror: ${join(story.directory, 'mirror.db')}`,
      'sources:',
      `  - { name: a, baseUrl: "${story.service.url}", apiKey: some-key, rate: { perMinute: 0, perHour: 0 } }`,
      'schedules: { sync: { cron: "0 0 1 1 *" } }',
      'http: { listen: "127.0.0.1:0" }',
    ].join('\n');
    writeFileSync(file, text, { mode: 0o600 });
    // Nothing is due.
    expect((await tidemark(['sync', '--quiet', '--config', file], { env: story.env })).code).toBe(0);
    const daemon = story.start(['--config', file]);
    await story.said(/^daemon started/);
    writeFileSync(file, 'sources: 7\n');
    expect((await story.ask('/api/v1/runs', { job: 'sync' })).status).toBe(202);
    await story.said(/^sync is done/);
    expect(story.count(/^the old configuration stays active/)).toBe(1);
    expect((await daemon.stop()).code).toBe(0);
  });

  it('is not a command for people', async () => {
    const story = await Story.create();
    const called = await runProgram(['daemon-job'], { env: story.env });
    expect(called).toMatchObject({ code: 4 });
    expect(called.stderr).toContain('what the daemon starts for its jobs');
    expect((await tidemark(['--help'], { env: story.env })).stdout).not.toContain('daemon-job');
  });
});

describe('tidemark config check', () => {
  it('refuses a schedule that never comes', async () => {
    const story = await Story.create({ TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 31 2 *' });
    const checked = await tidemark(['config', 'check'], { env: story.env });
    expect(checked).toMatchObject({ code: 4 });
    expect(checked.stderr).toContain('never comes');
  });
});
