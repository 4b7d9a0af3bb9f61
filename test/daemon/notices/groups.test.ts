/** Grouping: by rule and by random histories, then over real mirrors whose process dies at any point. */
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { NOTICE_EVENTS } from '../../../src/config/notice-events.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import {
  batchMessage,
  batchOf,
  draftDueAt,
  draftsOf,
  isKept,
  type NoticeGroup,
  overBeforeSent,
  type PendingEvent,
} from '../../../src/daemon/notices/groups.ts';
import {
  linesOf,
  type Message,
  messageOf,
  noticeDocument,
  noticeOf,
} from '../../../src/daemon/notices/message.ts';
import { createNotifier, type Notifier } from '../../../src/daemon/notices/notifier.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { open } from '../../mirror/fixture.ts';
import { pagerduty, webhook } from './channel.ts';
import { receiver } from './receiver.ts';
import { createSend } from '../../../src/daemon/notices/sending.ts';
import { openPoster } from '../../../src/api/post.ts';
import { NO_PROXIES } from '../../../src/config/proxy.ts';
import { job } from './seen.ts';

const START = Date.parse('2026-03-01T12:00:00.000Z');
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const CHANNEL = { on: NOTICE_EVENTS, severity: 'low' } as const;
const TIMES = { waitMs: 30 * SECOND, intervalMs: 5 * MINUTE };

let numbers = 0;

function event(
  source: string,
  name: 'run_failed' | 'run_recovered' | 'key_refused' | 'verify_failed' | 'verify_recovered',
  at: number,
  cause = 'http://a',
  subject = 'run',
): PendingEvent {
  numbers += 1;
  const of = { at: new Date(at).toISOString(), source, subject, event: name } as const;
  const severity = name.endsWith('_recovered') ? 'low' : 'high';
  const about = noticeOf(of, { severity, title: `${source}: ${name}`, job: 'sync' });
  return { mirror: source, notice: numbers, id: `id-${numbers}`, source, cause, about };
}

/** A channel that sends what is due at each time at which it looks. */
class Simulated {
  groups: readonly NoticeGroup[] = [];
  pending: PendingEvent[] = [];
  readonly over: PendingEvent[] = [];
  readonly sent: {
    readonly at: number;
    readonly events: readonly PendingEvent[];
    readonly group: NoticeGroup;
  }[] = [];

  look(now: number): void {
    for (;;) {
      this.groups = this.groups.filter((group) => isKept(group, now));
      const over = overBeforeSent(this.groups, this.pending, CHANNEL);
      this.over.push(...over);
      this.pending = this.pending.filter((each) => !over.includes(each));
      const draft = draftsOf(this.groups, this.pending, CHANNEL).find(
        (each) => draftDueAt(each, TIMES) <= now,
      );
      if (draft === undefined) return;
      const { events, group } = batchOf(draft, now);
      if (group === null) throw new Error('not grouped');
      this.groups = [...this.groups.filter((each) => each !== draft.before), group];
      this.pending = this.pending.filter((each) => !events.includes(each));
      this.sent.push({ at: now, events, group });
      const keys = this.groups.flatMap(({ failing, key }) => (Object.keys(failing).length > 0 ? [key] : []));
      expect(new Set(keys).size, 'an incident is of one group').toBe(keys.length);
    }
  }
}

const failingIn = (groups: readonly NoticeGroup[]): string[] =>
  groups.flatMap(({ failing }) => Object.keys(failing)).sort();

describe('grouping', () => {
  it('by random outages: each event in one message, in order, and the end of each told once, but for what was over before', () => {
    const step = fc.record({
      source: fc.integer({ min: 0, max: 12 }),
      afterMs: fc.constantFrom(0, SECOND, 20 * SECOND, 3 * MINUTE, 40 * MINUTE, 3 * 3_600_000),
      cause: fc.constantFrom('http://a', 'http://b'),
      isRefused: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const channel = new Simulated();
        const failing = new Map<string, string>();
        const all: PendingEvent[] = [];
        let now = START;
        const passes = (ms: number): void => {
          for (const until = now + ms; now < until;) {
            now = Math.min(until, now + 10 * SECOND);
            channel.look(now);
          }
        };
        for (const { source, afterMs, cause, isRefused } of steps) {
          passes(afterMs);
          const name = `s${source}`;
          const known = failing.get(name);
          const next =
            known === undefined
              ? event(name, isRefused ? 'key_refused' : 'run_failed', now, cause)
              : event(name, 'run_recovered', now, known);
          if (known === undefined) failing.set(name, cause);
          else failing.delete(name);
          all.push(next);
          channel.pending.push(next);
        }
        passes(2 * 3_600_000);
        const told = channel.sent.flatMap(({ events }) => events);
        expect([...told, ...channel.over].map(({ id }) => id).sort()).toEqual(all.map(({ id }) => id).sort());
        for (const name of new Set(all.map(({ source }) => source))) {
          const own = (events: readonly PendingEvent[]) =>
            events.filter(({ source }) => source === name).map(({ id }) => id);
          const over = own(channel.over);
          expect(own(told)).toEqual(own(all).filter((id) => !over.includes(id)));
          expect(over.length % 2, 'a failure and its end').toBe(0);
        }
        // What the channel was told last of each source is true, and no source is in two groups.
        expect(failingIn(channel.groups)).toEqual([...failing.keys()].sort());
        for (const name of failing.keys()) failing.delete(name);
        // A first message waits no longer than the time for it.
        for (const { at, events, group } of channel.sent) {
          if (group.messages > 1) continue;
          expect(at - Math.min(...events.map(({ about }) => Date.parse(about.at)))).toBeLessThanOrEqual(
            TIMES.waitMs + 10 * SECOND,
          );
        }
      }),
      { numRuns: 150 },
    );
  });

  it('tells an outage of 300 sources in a few messages, and its end in one', () => {
    const channel = new Simulated();
    let now = START;
    const pass = (name: 'run_failed' | 'run_recovered'): void => {
      for (let source = 0; source < 300; source += 1) {
        channel.pending.push(event(`s${source}`, name, now));
        now += 6 * SECOND;
        channel.look(now);
      }
    };
    pass('run_failed');
    for (const until = now + 60 * MINUTE; now < until; now += 10 * SECOND) channel.look(now);
    const during = channel.sent.length;
    // At half a minute, then 5, 15 and 35 minutes later.
    expect(during).toBeLessThanOrEqual(5);
    expect(channel.sent[0]?.events).toHaveLength(5);
    expect(failingIn(channel.groups)).toHaveLength(300);
    pass('run_recovered');
    channel.look(now);
    expect(channel.sent.length - during).toBeLessThanOrEqual(2);
    expect(channel.groups.filter((group) => isKept(group, now))).toEqual([]);
  });

  it('begins another group for an outage weeks after a source that still fails', () => {
    const old = new Simulated();
    old.pending.push(event('s1', 'run_failed', START));
    old.look(START + MINUTE);
    const later = START + 14 * 24 * 60 * MINUTE;
    old.pending.push(event('s2', 'run_failed', later), event('s3', 'run_failed', later));
    old.look(later + MINUTE);
    expect(old.sent.map(({ group }) => group.key)).toEqual(['tidemark/s1/run', 'tidemark/s2/run']);
    old.pending.push(event('s1', 'run_recovered', later + 2 * MINUTE));
    old.look(later + 2 * MINUTE);
    expect(old.sent.at(-1)?.group).toMatchObject({ key: 'tidemark/s1/run', failing: {} });
  });

  it('ends no incident that is open for others: who fails again, and gave its key, comes back into it', () => {
    const channel = new Simulated();
    const tell = (at: number, ...events: readonly PendingEvent[]): void => {
      channel.pending.push(...events);
      for (let now = at; now <= at + 2 * 3_600_000; now += 10 * SECOND) channel.look(now);
    };
    tell(START, event('a', 'run_failed', START), event('b', 'run_failed', START));
    const [first, second, third, last] = [3, 6, 9, 12].map((hours) => START + hours * 3_600_000);
    tell(first!, event('a', 'run_recovered', first!));
    // For another reason, and hours later: else it would be a group of its own.
    tell(second!, event('a', 'key_refused', second!, 'http://other'));
    tell(third!, event('a', 'run_recovered', third!));
    expect(failingIn(channel.groups)).toEqual(['b']);
    tell(last!, event('b', 'run_recovered', last!));
    expect(channel.sent.map(({ group }) => [group.key, Object.keys(group.failing)])).toEqual([
      ['tidemark/a/run', ['a', 'b']],
      ['tidemark/a/run', ['b']],
      ['tidemark/a/run', ['b', 'a']],
      ['tidemark/a/run', ['b']],
      ['tidemark/a/run', []],
    ]);
  });

  it('keeps causes apart: another service, another event, this machine', () => {
    const channel = new Simulated();
    channel.pending.push(
      event('s1', 'run_failed', START),
      event('s2', 'run_failed', START, 'http://b'),
      event('s3', 'key_refused', START),
      event('s4', 'run_failed', START, 'this machine'),
      event('s5', 'run_failed', START),
    );
    channel.look(START + MINUTE);
    expect(channel.sent.map(({ events }) => events.map(({ source }) => source))).toEqual([
      ['s1', 's5'],
      ['s2'],
      ['s3'],
      ['s4'],
    ]);
  });
});

describe('the message of a group', () => {
  const messagesOf = (events: readonly PendingEvent[]): Message[] =>
    events.map(({ notice, about }) => messageOf(notice, about, 'low'));
  const options = { publicUrl: 'https://tidemark.example', configured: 40 };

  it('names the outage, how many sources, the first of them, and why', () => {
    const events = Array.from({ length: 25 }, (_each, index) => event(`s${index}`, 'run_failed', START));
    const [draft] = draftsOf([], events, CHANNEL);
    const batch = batchOf(draft!, START);
    const message = batchMessage(batch, messagesOf(events), options);
    expect(message.title).toBe('25 of 40 sources at http://a: the sync failed');
    expect(linesOf(message)).toEqual(['s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 15 more: run_failed']);
    expect(message).toMatchObject({
      event: 'run_failed',
      severity: 'high',
      source: '',
      link: 'https://tidemark.example/',
    });
    const document = noticeDocument(message) as {
      readonly group: { readonly events: { readonly id: string }[] };
    };
    expect(document).toMatchObject({
      schema: 'tidemark.notice/1',
      source: null,
      count: 25,
      group: { key: 'tidemark/s0/run', more: 0 },
    });
    expect(new Set(document.group.events.map(({ id }) => id)).size).toBe(25);
    // Another event of some is told apart.
    const refused = events.slice(0, 3).map(({ source }) => event(source, 'key_refused', START + MINUTE));
    const [changed] = draftsOf([batch.group!], refused, CHANNEL);
    const other = batchMessage(batchOf(changed!, START), messagesOf(refused), options);
    expect(other.title).toBe('22 of 40 sources at http://a: the sync failed; 3: the service refused the key');
    // Some work again, others not.
    const better = events.slice(0, 10).map(({ source }) => event(source, 'run_recovered', START + MINUTE));
    const [partly] = draftsOf([batch.group!], better, CHANNEL);
    const second = batchMessage(batchOf(partly!, START), messagesOf(better), options);
    expect(second.title).toBe('10 sources at http://a: the sync works again; 15 of 25 not yet');
    expect(second).toMatchObject({ isResolved: false, incidents: ['tidemark/s0/run'] });
    expect(linesOf(second).at(-1)).toMatch(/^reported before, and not over: s10, .* and 5 more$/);
    const rest = events.slice(10).map(({ source }) => event(source, 'run_recovered', START + MINUTE));
    const [end] = draftsOf([partly!.after], rest, CHANNEL);
    const last = batchMessage(batchOf(end!, START), messagesOf(rest), options);
    expect(last).toMatchObject({
      title: '25 sources at http://a: the sync works again',
      isResolved: true,
      severity: 'low',
      hint: null,
      incidents: ['tidemark/s0/run'],
    });
  });

  it('says that mirrors do not match their audit logs, or their hashes', () => {
    const titles = (subject: string): string[] => {
      const of = (name: 'verify_failed' | 'verify_recovered', at: number): PendingEvent[] =>
        ['s1', 's2'].map((source) => event(source, name, at, 'http://a', subject));
      const [failed, recovered] = [of('verify_failed', START), of('verify_recovered', START + MINUTE)];
      const [draft] = draftsOf([], failed, CHANNEL);
      const batch = batchOf(draft!, START);
      const [end] = draftsOf([batch.group!], recovered, CHANNEL);
      return [
        batchMessage(batch, messagesOf(failed), options).title,
        batchMessage(batchOf(end!, START), messagesOf(recovered), options).title,
      ];
    };
    expect(titles('audit_log')).toEqual([
      '2 of 40 sources at http://a: the mirror does not match its audit log',
      '2 sources at http://a: the mirror matches its audit log again',
    ]);
    expect(titles('verify')).not.toEqual(titles('audit_log'));
  });

  it('of one source and one event is what it would be by itself', () => {
    const only = event('s1', 'run_failed', START);
    const [draft] = draftsOf([], [only], CHANNEL);
    const [own] = messagesOf([only]);
    expect(batchMessage(batchOf(draft!, START), [own!], options)).toEqual({ ...own, id: only.id });
  });

  it('of ends that are assumed says that nothing may have been wrong', () => {
    const of = (subject: string, whys: readonly string[]): string => {
      const ends = whys.map((why, index) => {
        const [own] = [event(`s${index}`, 'verify_recovered', START, 'http://a', subject)];
        return { own, title: `s${index}: it matches its audit log; ${why}` };
      });
      const [draft] = draftsOf(
        [],
        ends.map(({ own }) => own),
        CHANNEL,
      );
      const messages = messagesOf(ends.map(({ own }) => own)).map((each, index) => ({
        ...each,
        title: ends[index]!.title,
        isAssumed: true,
      }));
      return batchMessage(batchOf(draft!, START), messages, options).title;
    };
    const cut = 'the daemon before ended without writing down what it had reported';
    expect(of('audit_log', [cut, cut])).toBe(
      `2 sources at http://a: the mirror matches its audit log; ${cut}`,
    );
    expect(of('audit_log', [cut, 'the mirror was replaced'])).toBe(
      '2 sources at http://a: all is well; it is not known whether anything else was reported',
    );
  });

  it('of ends without a beginning ends the incident of each source', () => {
    const ends = ['s1', 's2'].map((source) => event(source, 'run_recovered', START));
    const [draft] = draftsOf([], ends, CHANNEL);
    expect(batchOf(draft!, START).incidents).toEqual(['tidemark/s1/run', 'tidemark/s2/run']);
    const documentOf = (assumed: readonly boolean[]): object => {
      const messages = messagesOf(ends).map((each, index) => ({ ...each, isAssumed: assumed[index]! }));
      return noticeDocument(batchMessage(batchOf(draft!, START), messages, options));
    };
    expect(documentOf([true, true])).toMatchObject({ is_assumed: true });
    // One of them was reported.
    expect(documentOf([false, true])).toMatchObject({
      is_assumed: false,
      group: { events: [{ is_assumed: false }, { is_assumed: true }] },
    });
  });
});

/** Mirrors of their own for some sources, and the process that delivers their notices. */
class Process {
  readonly deliveries: Deliveries;
  readonly notifiers: ReadonlyMap<string, Notifier>;

  constructor(
    mirrors: ReadonlyMap<string, Mirror>,
    options: {
      readonly clock: FakeClock;
      readonly channels: readonly ChannelConfig[];
      readonly file: string;
      readonly send: (channel: ChannelConfig, message: Message) => Promise<void>;
      readonly mayWrite?: (source: string) => boolean;
    },
  ) {
    const { clock, channels, file, send, mayWrite = () => true } = options;
    this.deliveries = new Deliveries({
      channels: () => channels,
      sources: () => [...mirrors.keys()].map((name) => ({ name, origin: 'http://service' })),
      times: () => TIMES,
      file: () => file,
      publicUrl: () => null,
      clock,
      random: () => 0.5,
      log: silentLogger,
      send,
    });
    this.notifiers = new Map(
      [...mirrors].map(([owner, mirror]) => [
        owner,
        createNotifier({
          owner,
          mirror: () => mirror,
          openWriter: (work) =>
            mayWrite(owner)
              ? Promise.resolve(work(mirror))
              : Promise.reject(new TidemarkError('mirror_locked', 'the process died')),
          lookup: () => ({ definitionsOf: () => definitionOf, sourceOf: () => undefined }),
          channels: () => channels,
          clock,
          log: silentLogger,
          deliveries: this.deliveries,
        }),
      ]),
    );
  }

  async ends(outcome: 'failed' | 'done', names: Iterable<string> = this.notifiers.keys()): Promise<void> {
    for (const name of names) {
      const why = outcome === 'failed' ? { errorCode: 'unreachable', error: 'no route' } : {};
      await this.notifiers.get(name)?.afterJob(job('sync', outcome, { source: name, ...why }));
    }
  }

  dueAt(): number | null {
    const times = [...this.notifiers.values()].flatMap(
      ({ outbox }) => this.deliveries.nextDueAt(outbox) ?? [],
    );
    return times.length === 0 ? null : Math.min(...times);
  }

  deliver(): Promise<void> {
    return this.deliveries.deliverDue(new AbortController().signal);
  }
}

function rig(names: readonly string[]) {
  const clock = new FakeClock({ epochMs: START });
  const mirrors = new Map(names.map((name) => [name, open({ clock })]));
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-groups-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return { clock, mirrors, file: join(directory, 'notices') };
}

const NAMES = ['a', 'b', 'c', 'd', 'e', 'f'];

describe('delivery in groups', () => {
  it('opens one incident, and ends it, by a real service of incidents', async () => {
    const { clock, mirrors, file } = rig(NAMES);
    const far = await receiver({ status: 202 });
    const poster = openPoster(() => NO_PROXIES);
    onTestFinished(() => poster.close());
    const send = createSend({ poster, clock, log: silentLogger, env: {} });
    const channels = [pagerduty(far.url), webhook('hook', `${far.url}/hook`)];
    const never = new AbortController().signal;
    const living = new Process(mirrors, {
      clock,
      channels,
      file,
      send: (channel, message) => send(channel, message, never),
    });
    await living.ends('failed');
    await living.deliver();
    expect(far.received).toEqual([]);
    expect(living.dueAt()).toBe(START + 30 * SECOND);
    clock.advance(30 * SECOND);
    await living.deliver();
    const bodies = (path: string) =>
      far.received
        .filter((each) => each.path === path)
        .map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    expect(bodies('/v2/enqueue')).toMatchObject([
      {
        event_action: 'trigger',
        dedup_key: 'tidemark/a/run',
        payload: { source: 'a, b, c, d, e, f', severity: 'error' },
      },
    ]);
    expect(bodies('/hook')).toMatchObject([
      {
        event: 'run_failed',
        title: '6 of 6 sources at http://service: the sync failed',
        group: { failing: NAMES },
      },
    ]);
    await living.ends('done', NAMES.slice(1));
    clock.advance(MINUTE);
    await living.deliver();
    expect(bodies('/hook')).toHaveLength(1);
    await living.ends('done', ['a']);
    await living.deliver();
    expect(bodies('/v2/enqueue').at(-1)).toMatchObject({
      event_action: 'resolve',
      dedup_key: 'tidemark/a/run',
    });
    expect(bodies('/hook')).toHaveLength(2);
    expect(bodies('/hook').at(-1)).toMatchObject({
      event: 'run_recovered',
      group: { failing: [], sources: NAMES },
    });
    expect(living.dueAt()).toBeNull();
    for (const mirror of mirrors.values()) expect(mirror.daemon.pendingDeliveries()).toEqual([]);
  });

  it.each(['before it is sent', 'while it is sent', 'before the mirrors know', 'while the mirrors are told'])(
    'survives a process that dies %s: nothing is lost, and the receiver knows what came twice',
    async (point) => {
      const { clock, mirrors, file } = rig(NAMES);
      const received: Message[] = [];
      const channels = [webhook('hook', 'http://hook')];
      let isDead = false;
      let written = 0;
      const dying = new Process(mirrors, {
        clock,
        channels,
        file,
        send: (_channel, message) => {
          if (point === 'before it is sent') isDead = true;
          if (isDead) return new Promise(() => undefined);
          received.push(message);
          isDead = point !== 'while the mirrors are told';
          return point === 'while it is sent' ? new Promise(() => undefined) : Promise.resolve();
        },
        mayWrite: () => !isDead && (received.length === 0 || (written += 1) <= 3),
      });
      await dying.ends('failed');
      clock.advance(30 * SECOND);
      const over = dying.deliver();
      await new Promise((resolve) => setTimeout(resolve, 50));
      void over;
      const left = [...mirrors.values()].filter(({ daemon }) => daemon.pendingDeliveries().length > 0).length;
      expect(left).toBe(point === 'while the mirrors are told' ? 3 : 6);
      const next = new Process(mirrors, {
        clock,
        channels,
        file,
        send: (_channel, message) => {
          received.push(message);
          return Promise.resolve();
        },
      });
      clock.advance(MINUTE);
      await next.deliver();
      const isRepeated = point === 'while it is sent';
      expect(received).toHaveLength(isRepeated ? 2 : 1);
      expect(new Set(received.map(({ id }) => id)).size).toBe(1);
      expect(received.at(-1)?.group?.failing).toEqual(NAMES);
      for (const mirror of mirrors.values()) expect(mirror.daemon.pendingDeliveries()).toEqual([]);
      await next.ends('done');
      await next.deliver();
      expect(received.at(-1)).toMatchObject({ isResolved: true, incidents: ['tidemark/a/run'] });
    },
  );

  it('goes on without its file: what is pending is in the mirrors', async () => {
    const { clock, mirrors, file } = rig(NAMES);
    const received: Message[] = [];
    const options = {
      clock,
      channels: [webhook('hook', 'http://hook')],
      file,
      send: (_channel: ChannelConfig, message: Message) => Promise.resolve(void received.push(message)),
    };
    const first = new Process(mirrors, options);
    await first.ends('failed');
    clock.advance(MINUTE);
    await first.deliver();
    writeFileSync(file, readFileSync(file, 'utf8').replace('run_failed', 'run_broken'));
    const second = new Process(mirrors, options);
    await second.ends('done');
    clock.advance(MINUTE);
    await second.deliver();
    expect(received.map(({ event: name }) => name)).toEqual(['run_failed', 'run_recovered']);
    expect(received.at(-1)?.incidents).toEqual(NAMES.map((name) => `tidemark/${name}/run`));
  });

  it('keeps to the rate of a channel, and sends each event by itself where that is wanted', async () => {
    const { clock, mirrors, file } = rig(NAMES);
    const received: string[] = [];
    const living = new Process(mirrors, {
      clock,
      channels: [webhook('each', 'http://hook', { group: false, perMinute: 2 })],
      file,
      send: (_channel, message) => Promise.resolve(void received.push(message.source)),
    });
    await living.ends('failed');
    await living.deliver();
    expect(received).toEqual(['a', 'b']);
    expect(living.dueAt()).toBe(START + MINUTE);
    clock.advance(MINUTE);
    await living.deliver();
    clock.advance(MINUTE);
    await living.deliver();
    expect(received).toEqual(NAMES);
    expect(living.dueAt()).toBeNull();
  });

  it('tells at the end of `daemon --once` without waiting', async () => {
    const { clock, mirrors, file } = rig(NAMES);
    const received: Message[] = [];
    const living = new Process(mirrors, {
      clock,
      channels: [webhook('hook', 'http://hook')],
      file,
      send: (_channel, message) => Promise.resolve(void received.push(message)),
    });
    await living.ends('failed');
    await living.deliveries.deliverDue(new AbortController().signal, { isLast: true });
    expect(received.map(({ group }) => group?.sources)).toEqual([NAMES]);
  });
});
