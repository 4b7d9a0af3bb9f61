/** Every event that reports something lasting, and its end: alone and of several sources, to all channels that programs read. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPoster } from '../../../src/api/post.ts';
import type { Severity } from '../../../src/catalog/definition.ts';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { ENDED_BY, NOTICE_EVENTS, type NoticeEvent } from '../../../src/config/notice-events.ts';
import { NO_PROXIES } from '../../../src/config/proxy.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { noticeDocument, noticeOf } from '../../../src/daemon/notices/message.ts';
import { createSend, type Send } from '../../../src/daemon/notices/sending.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { open } from '../../mirror/fixture.ts';
import { command, opsgenie, pagerduty, webhook } from './channel.ts';
import { receiver } from './receiver.ts';

const SECOND = 1000;
const TIMES = { waitMs: 30 * SECOND, intervalMs: 300 * SECOND };

/** What each of these events is about. */
const SUBJECTS: Partial<Record<NoticeEvent, string>> = {
  run_failed: 'run',
  run_partial: 'run',
  key_refused: 'run',
  sync_overdue: 'fresh',
  removals_held: 'removals',
  restore_interrupted: 'restore',
  drift_new: 'drift',
  drift_changed: 'drift',
  mirror_gone: 'mirror',
  verify_failed: 'verify',
  drill_fell: 'drill',
  backup_failed: 'job:backup',
  backup_overdue: 'backup',
  job_failed: 'job:git',
};
const OPENINGS = NOTICE_EVENTS.filter((event) => ENDED_BY[event] !== undefined);

interface DaemonOptions {
  readonly severity?: Severity;
  /**
   * False where so many notices are sent that starting a program for each would be most of the work: then what it would be
   * given is kept here.
   */
  readonly startsProgram?: boolean;
}

/** A daemon with a mirror for each source, and receivers of its notices. */
async function daemon(names: readonly string[], { startsProgram = true, ...more }: DaemonOptions = {}) {
  const clock = new FakeClock({ epochMs: Date.parse('2026-03-01T12:00:00.000Z') });
  const mirrors = new Map(names.map((name) => [name, open({ clock })]));
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-ends-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const said = join(directory, 'said');
  const [pager, genie, hook] = [await receiver({ status: 202 }), await receiver(), await receiver()];
  const channels: readonly ChannelConfig[] = [
    { ...pagerduty(pager.url), ...more },
    { ...opsgenie(genie.url), ...more },
    { ...webhook('hook', hook.url), ...more },
    { ...command('siren', ['/bin/sh', '-c', `cat >> ${said}`]), ...more },
  ];
  const poster = openPoster(() => NO_PROXIES);
  onTestFinished(() => poster.close());
  const sendOut = createSend({ poster, clock, log: silentLogger, env: { PATH: process.env['PATH'] } });
  const send: Send = async (channel, message, signal) => {
    if (channel.type === 'command' && !startsProgram)
      appendFileSync(said, `${JSON.stringify(noticeDocument(message))}\n`);
    else await sendOut(channel, message, signal);
  };
  let files = 0;
  const begin = (times: typeof TIMES | null) => {
    const deliveries = new Deliveries({
      channels: () => channels,
      sources: () => names.map((name) => ({ name, origin: 'http://service' })),
      times: () => times,
      file: () => join(directory, `notices-${files}`),
      publicUrl: () => null,
      clock,
      random: () => 0.5,
      log: silentLogger,
      send,
    });
    const openWriter = (mirror: Mirror) => {
      return <T>(work: (opened: Mirror) => T): Promise<T> => Promise.resolve(work(mirror));
    };
    const outboxes = [...mirrors].map(([owner, mirror]) =>
      deliveries.add({ owner, mirror: () => mirror, openWriter: openWriter(mirror), log: silentLogger }),
    );
    return { deliveries, outboxes };
  };
  let living = begin(TIMES);
  const documents = (text: string) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map(
        (line) =>
          JSON.parse(line) as { event: string; severity: string; group: { failing: string[] } | null },
      );
  const record = (
    event: NoticeEvent,
    subject: string,
    drift: { readonly found?: Record<string, number>; readonly left?: Record<string, number> } = {},
    of: readonly string[] = names,
  ): void => {
    const at = new Date(clock.now()).toISOString();
    const none = { critical: 0, high: 0, medium: 0, low: 0 };
    const isDrift = subject === 'drift' && event !== 'source_removed';
    const left = { ...none, ...drift.left };
    for (const name of of) {
      const notice = noticeOf(
        { at, source: ['mirror', 'verify', 'backup'].includes(subject) ? '' : name, subject, event },
        {
          severity: 'high',
          title: `${name}: ${event}`,
          ...(!isDrift
            ? {}
            : {
                severities: { ...none, ...(drift.found ?? { high: 1 }) },
                stillOpen: event === 'drift_resolved' ? left : null,
                isResolved: event === 'drift_resolved' && Object.values(left).every((count) => count === 0),
              }),
        },
      );
      mirrors.get(name)?.daemon.recordNotices({
        states: [],
        cleared: [],
        notices: [{ notice, channels: channels.map((channel) => channel.name) }],
      });
    }
    for (const outbox of living.outboxes) outbox.changed();
    clock.advance(SECOND);
  };
  return {
    /** Another process that knows nothing of the groups of the one before. */
    restart: (times: typeof TIMES | null = TIMES) => {
      files += 1;
      living = begin(times);
    },
    record,
    /** Reports this of each of these sources, and waits until all is sent. */
    report: async (...what: Parameters<typeof record>) => {
      record(...what);
      clock.advance(3_600_000);
      await living.deliveries.deliverDue(new AbortController().signal);
    },
    /** What was sent since the last call: `ACTION KEY` of the services of incidents, and the documents. */
    sent: () => {
      const pages = pager.received.splice(0).map(({ body }) => {
        const { event_action, dedup_key } = JSON.parse(body) as Record<string, string>;
        return `${event_action} ${dedup_key}`;
      });
      const alerts = genie.received.splice(0).map(({ path, body }) => {
        const closed = /^\/v2\/alerts\/(.*)\/close\?/.exec(path)?.[1];
        return closed === undefined
          ? `trigger ${(JSON.parse(body) as { alias: string }).alias}`
          : `resolve ${decodeURIComponent(closed)}`;
      });
      const hooks = documents(
        hook.received
          .splice(0)
          .map(({ body }) => body.trim())
          .join('\n'),
      );
      const commands = documents(readFileSync(said, 'utf8'));
      rmSync(said);
      expect(alerts).toEqual(pages);
      expect(commands).toEqual(hooks);
      return {
        pages,
        told: hooks.map(({ event, group }) => `${event} ${group?.failing.join(' ') ?? ''}`.trim()),
      };
    },
  };
}

const keysOf = (names: readonly string[], subject: string): string[] =>
  names.map((name) => `tidemark/${name}/${subject}`);

describe.each([
  ['alone', ['a']],
  ['of several sources', ['a', 'b', 'c']],
] as const)('the end of an incident, %s', (_how, names) => {
  it('has the key under which it was opened', async () => {
    const far = await daemon(names, { startsProgram: false });
    for (const event of OPENINGS) {
      const subject = SUBJECTS[event]!;
      await far.report(event, subject);
      expect(far.sent()).toEqual({
        pages: [`trigger tidemark/a/${subject}`],
        told: [names.length === 1 ? event : `${event} ${names.join(' ')}`],
      });
      await far.report(ENDED_BY[event]!, subject);
      expect(far.sent()).toEqual({ pages: [`resolve tidemark/a/${subject}`], told: [ENDED_BY[event]] });
      await far.report(event, subject);
      expect(far.sent().pages).toEqual([`trigger tidemark/a/${subject}`]);
      await far.report('source_removed', subject);
      expect(far.sent()).toEqual({ pages: [`resolve tidemark/a/${subject}`], told: ['source_removed'] });
    }
  });

  it('opens nothing where this daemon has opened nothing', async () => {
    const far = await daemon(names, { startsProgram: false });
    for (const event of OPENINGS) {
      const subject = SUBJECTS[event]!;
      for (const end of [ENDED_BY[event]!, 'source_removed'] as const) {
        const ends = {
          pages: keysOf(names, subject).map((key) => `resolve ${key}`),
          told: [end],
        };
        await far.report(end, subject);
        expect(far.sent()).toEqual(ends);
        // Nor does it change anything for the one after it.
        await far.report(end, subject);
        expect(far.sent()).toEqual(ends);
      }
    }
  });

  it('that was opened by source ends each of them', async () => {
    const far = await daemon(names, { startsProgram: false });
    for (const event of OPENINGS) {
      const subject = SUBJECTS[event]!;
      far.restart(null);
      await far.report(event, subject);
      const keys = keysOf(names, subject);
      expect(far.sent().pages).toEqual(keys.map((key) => `trigger ${key}`));
      far.restart();
      await far.report(ENDED_BY[event]!, subject);
      expect(far.sent().pages).toEqual(keys.map((key) => `resolve ${key}`));
    }
  });

  it('comes before what begins after it, though both are pending', async () => {
    const far = await daemon(names);
    far.record('run_recovered', 'run');
    await far.report('run_failed', 'run');
    expect(far.sent().pages).toEqual([
      ...keysOf(names, 'run').map((key) => `resolve ${key}`),
      'trigger tidemark/a/run',
    ]);
    await far.report('run_recovered', 'run');
    expect(far.sent().pages.at(-1)).toBe('resolve tidemark/a/run');
  });

  it('is not sent where it came before the notice was sent, nor is the notice', async () => {
    const far = await daemon(names, { startsProgram: false });
    for (const event of OPENINGS) {
      const subject = SUBJECTS[event]!;
      far.record(event, subject);
      await far.report(ENDED_BY[event]!, subject);
      // What begins after it is.
      await far.report(event, subject);
      expect(far.sent()).toEqual({
        pages: [`trigger tidemark/a/${subject}`],
        told: [names.length === 1 ? event : `${event} ${names.join(' ')}`],
      });
      await far.report(ENDED_BY[event]!, subject);
      expect(far.sent()).toEqual({ pages: [`resolve tidemark/a/${subject}`], told: [ENDED_BY[event]] });
    }
  });

  it('of drift is told once nothing is open that the channel gets', async () => {
    const far = await daemon(names, { severity: 'high' });
    await far.report('drift_new', 'drift', { found: { critical: 1, medium: 2 } });
    expect(far.sent().pages).toEqual(['trigger tidemark/a/drift']);
    await far.report('drift_resolved', 'drift', { found: { critical: 1 }, left: { medium: 2 } });
    expect(far.sent().pages).toEqual(['resolve tidemark/a/drift']);
  });

  it('of drift is not told while something is open, though nobody knows who opened it', async () => {
    const far = await daemon(names);
    await far.report('drift_resolved', 'drift', { found: { low: 1 }, left: { high: 1 } });
    expect(far.sent().pages).toEqual(keysOf(names, 'drift').map((key) => `trigger ${key}`));
    await far.report('drift_resolved', 'drift', { found: { high: 1 } });
    expect(far.sent().pages).toEqual(keysOf(names, 'drift').map((key) => `resolve ${key}`));
  });
});

it('an end that nobody waits for leaves open what has failed of other sources under its key', async () => {
  const far = await daemon(['a', 'b']);
  await far.report('run_failed', 'run');
  await far.report('run_recovered', 'run', {}, ['a']);
  // As after a kill: once more, whatever was reported.
  await far.report('run_recovered', 'run', {}, ['a']);
  expect(far.sent().pages).not.toContainEqual(expect.stringContaining('resolve'));
  await far.report('run_recovered', 'run', {}, ['b']);
  expect(far.sent().pages).toEqual(['resolve tidemark/a/run']);
});
