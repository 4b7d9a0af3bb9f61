/** A daemon with a mirror for each source, as a process of its own: outages, kills, HTTP over all mirrors. */
import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Receiver, receiver } from '../daemon/notices/receiver.ts';
import { type Ended, scratch, start } from './harness.ts';
import { FakeService, respond } from './service.ts';

class Story {
  readonly service: FakeService;
  readonly directory = scratch();
  readonly names: readonly string[];
  /** The service answers 503 to everything. */
  isDown = false;
  child: ChildProcess | null = null;
  ended: Promise<Ended> | null = null;
  #text = '';

  private constructor(service: FakeService, count: number) {
    this.service = service;
    this.names = Array.from({ length: count }, (_each, index) => `s${String(index + 1).padStart(2, '0')}`);
    service.quirks.push((_request, response) => {
      if (!this.isDown) return false;
      respond(response, 503, '{"detail":"down for maintenance"}');
      return true;
    });
  }

  static async create(count: number, more: readonly string[] = []): Promise<Story> {
    const story = new Story(await FakeService.start(), count);
    const rest =
      'kinds: { include: [organizations, roles] }, retry: { attempts: 1 }, rate: { perMinute: 0, perHour: 0 }';
    const sources = story.names.map(
      (name) => `  - { name: ${name}, baseUrl: "${story.service.url}", apiKey: key-of-${name}, ${rest} }`,
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

  start(): ChildProcess {
    this.#text = '';
    const { child, ended } = start(['daemon'], { cwd: this.directory });
    child.stderr?.on('data', (chunk: string) => (this.#text += chunk));
    onTestFinished(() => void child.kill('SIGKILL'));
    [this.child, this.ended] = [child, ended];
    return child;
  }

  lines(): Record<string, unknown>[] {
    const whole = this.#text.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'));
    return whole.map((line) => JSON.parse(line) as Record<string, unknown>);
  }

  said(message: RegExp): Record<string, unknown>[] {
    return this.lines().filter(({ msg }) => message.test(String(msg)));
  }

  async until(isSo: () => boolean): Promise<void> {
    for (let tries = 0; !isSo(); tries += 1) {
      if (tries > 6000) throw new Error(`it never came: ${this.#text.slice(-4000)}`);
      await delay(20);
    }
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
  it('is a few notices and one end, though the daemon is killed in the middle', async () => {
    const hook = await receiver('hang');
    const story = await Story.create(20, [
      'daemon: { slots: 4, noticeWait: 3s, noticeInterval: 6s }',
      `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]`,
    ]);
    story.isDown = true;
    const first = story.start();
    await hook.came(1);
    first.kill('SIGKILL');
    await story.ended;
    hook.answers = [{ status: 200 }];
    story.start();
    await story.until(() => sourcesTold(hook, 'run_failed').length >= 20);
    // What was being sent came again, under the same id.
    const ids = hook.received.map(({ headers }) => headers['idempotency-key']);
    expect(ids.filter((id) => id === ids[0])).toHaveLength(2);
    expect(sourcesTold(hook, 'run_failed')).toEqual(story.names);
    const during = told(hook).length;
    expect(during).toBeLessThanOrEqual(5);
    story.isDown = false;
    expect((await story.ask('/api/v1/runs', { job: 'sync' })).status).toBe(202);
    await story.until(() => sourcesTold(hook, 'run_recovered').length >= 20);
    expect(sourcesTold(hook, 'run_recovered')).toEqual(story.names);
    expect(told(hook).length - during).toBeLessThanOrEqual(4);
    const last = told(hook).at(-1);
    expect(last).toMatchObject({ event: 'run_recovered', source: null, group: { failing: [] } });
    expect(last?.title).toMatch(/^20 sources at http:\/\/127\.0\.0\.1:\d+: the sync works again$/);
    // One incident from the first word to the last.
    expect(new Set(told(hook).flatMap(({ group }) => group?.key ?? [])).size).toBe(1);
    story.child?.kill('SIGTERM');
    expect((await story.ended)?.code).toBe(0);
    // Nothing is told again.
    const count = hook.received.length;
    story.start();
    await story.until(() => story.said(/^daemon started/).length === 1);
    await delay(500);
    expect(hook.received).toHaveLength(count);
  }, 180_000);
});
