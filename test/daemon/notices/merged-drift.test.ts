/** Drift of one source among several, and of several: what is new is named, first and in time. */
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import type { NoticeEvent } from '../../../src/config/notice-events.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import type { FindingSummary } from '../../../src/daemon/jobs/summaries.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { linesOf, type Message } from '../../../src/daemon/notices/message.ts';
import { createNotifier } from '../../../src/daemon/notices/notifier.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { open } from '../../mirror/fixture.ts';
import { webhook } from './channel.ts';
import { driftJob, finding, job } from './seen.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

const ADMIN = finding('admin', {
  severity: 'critical',
  kind: 'members',
  id: 'm1',
  name: null,
  path: '/level',
});
const TWO_FACTORS = finding('2fa', {
  severity: 'critical',
  kind: 'organizations',
  name: 'Kittiwake',
  path: '/enforce_2fa',
});
const EXPORT = finding('export', { severity: 'high' });
const NAME = finding('name', { severity: 'medium', name: 'Hourly', path: '/name' });

/** A daemon with one mirror of two sources at the same service. */
function daemon(on?: readonly NoticeEvent[]) {
  const clock = new FakeClock({ epochMs: Date.parse('2026-03-01T12:00:00.000Z') });
  const mirror = open({ clock });
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-drift-news-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const sent: Message[] = [];
  const channels = [webhook('hook', 'http://hook', on === undefined ? {} : { on })];
  const options = {
    owner: null,
    channels: () => channels,
    lookup: () => ({ definitionsOf: () => definitionOf, sourceOf: () => undefined }),
    sources: () => ['production', 'staging'].map((name) => ({ name, origin: 'http://service' })),
    times: () => ({ waitMs: 30 * SECOND, intervalMs: 5 * MINUTE }),
    file: () => join(directory, 'notices'),
    publicUrl: () => 'https://tidemark.example',
    mirror: () => mirror,
    openWriter: <T>(work: (opened: Mirror) => T) => Promise.resolve(work(mirror)),
    clock,
    random: () => 0.5,
    log: silentLogger,
    send: (_channel: ChannelConfig, message: Message) => Promise.resolve(void sent.push(message)),
  };
  const deliveries = new Deliveries(options);
  const notifier = createNotifier({ ...options, deliveries });
  return {
    compares: (findings: readonly FindingSummary[], source = 'production') => {
      const severities = { critical: 0, high: 0, medium: 0, low: 0 };
      for (const { severity } of findings) severities[severity] += 1;
      const row = driftJob(findings);
      const summary = { ...row.summary, severities };
      return notifier.afterJob({ ...job('drift', 'done', { summary }), source });
    },
    /** What is sent until then. */
    after: async (ms: number) => {
      sent.length = 0;
      for (let passed = 0; passed < ms; passed += 10 * SECOND) {
        clock.advance(10 * SECOND);
        await deliveries.deliverDue(new AbortController().signal);
      }
      return sent.map((message) => ({ ...message, text: linesOf(message) }));
    },
  };
}

it('of one source reads as if there were no groups, and does not wait for an interval', async () => {
  const { compares, after } = daemon();
  await compares([ADMIN]);
  expect(await after(20 * SECOND)).toEqual([]);
  expect(await after(10 * SECOND)).toMatchObject([{ event: 'drift_new', source: 'production', group: null }]);
  await compares([TWO_FACTORS]);
  expect(await after(20 * SECOND)).toEqual([]);
  expect(await after(10 * SECOND)).toMatchObject([
    {
      event: 'drift_new',
      source: 'production',
      title: 'production: 1 new finding of drift (1 critical)',
      text: ['critical: organizations Kittiwake: /enforce_2fa'],
      link: 'https://tidemark.example/drift',
      findings: [{ fingerprint: '2fa' }],
      incidents: ['tidemark/production/drift'],
      isResolved: false,
      group: null,
    },
    {
      event: 'drift_resolved',
      source: 'production',
      title: 'production: 1 finding of drift is no longer open (1 critical); 1 still open (1 critical)',
      findings: [{ fingerprint: 'admin' }],
      incidents: ['tidemark/production/drift'],
      isResolved: false,
      group: null,
    },
  ]);
  await compares([TWO_FACTORS, NAME]);
  expect(await after(30 * SECOND)).toMatchObject([
    { event: 'drift_new', findings: [{ fingerprint: 'name' }] },
  ]);
  await compares([]);
  expect(await after(10 * SECOND)).toMatchObject([
    { event: 'drift_resolved', isResolved: true, group: null },
  ]);
});

it('of one source of a group names what is new, and counts what is no longer open', async () => {
  const { compares, after } = daemon();
  await compares([ADMIN]);
  await compares([EXPORT], 'staging');
  expect(await after(30 * SECOND)).toMatchObject([
    {
      event: 'drift_new',
      severity: 'critical',
      title: '2 of 2 sources at http://service: 2 new findings of drift (1 critical, 1 high)',
      text: [
        'production: 1 new finding of drift (1 critical)',
        'staging: 1 new finding of drift (1 high)',
        'production: critical: members m1: /level',
        'staging: high: batch_exports Nightly: /paused',
      ],
    },
  ]);
  await compares([NAME, TWO_FACTORS]);
  expect(await after(20 * SECOND)).toEqual([]);
  expect(await after(10 * SECOND)).toMatchObject([
    {
      event: 'drift_new',
      severity: 'critical',
      title: 'production: 2 new findings of drift (1 critical, 1 medium); 1 no longer open',
      text: [
        'reported before, and not over: staging',
        'critical: organizations Kittiwake: /enforce_2fa',
        'medium: batch_exports Hourly: /name',
      ],
      link: 'https://tidemark.example/drift',
      count: 2,
      severities: { critical: 1, high: 0, medium: 1, low: 0 },
      findings: [{ fingerprint: '2fa' }, { fingerprint: 'name' }],
      incidents: ['tidemark/production/drift'],
      isResolved: false,
      group: { failing: ['production', 'staging'] },
    },
  ]);
  await compares([NAME]);
  await compares([], 'staging');
  expect(await after(15 * MINUTE)).toMatchObject([
    { event: 'drift_resolved', isResolved: false, group: { failing: ['production'] } },
  ]);
  await compares([]);
  expect(await after(10 * SECOND)).toMatchObject([
    { event: 'drift_resolved', isResolved: true, incidents: ['tidemark/production/drift'] },
  ]);
});

it('says of several sources what is new before what is no longer open, without what came and went', async () => {
  const { compares, after } = daemon();
  await compares([EXPORT]);
  await compares([EXPORT], 'staging');
  await after(30 * SECOND);
  await compares([EXPORT, NAME]);
  await compares([NAME, finding('other', { id: 'b2', name: 'Weekly' })], 'staging');
  await compares([EXPORT, finding('other', { id: 'b2', name: 'Weekly' })]);
  expect(await after(4 * MINUTE)).toEqual([]);
  expect(await after(MINUTE)).toMatchObject([
    {
      event: 'drift_new',
      title: '2 of 2 sources at http://service: 3 new findings of drift (3 medium); 1 no longer open',
      text: [
        'production: 1 new finding of drift (1 medium)',
        'staging: 2 new findings of drift (2 medium); 1 no longer open',
        'production: medium: batch_exports Weekly: /paused',
        'staging: medium: batch_exports Hourly: /name',
        'staging: medium: batch_exports Weekly: /paused',
      ],
    },
  ]);
});

it.each([undefined, ['drift_new'] as const])(
  'worse than what was reported does not wait for the interval: %s',
  async (on) => {
    const { compares, after } = daemon(on);
    await compares([EXPORT]);
    await compares([EXPORT], 'staging');
    expect(await after(30 * SECOND)).toHaveLength(1);
    await compares([EXPORT, NAME]);
    expect(await after(4 * MINUTE)).toEqual([]);
    expect(await after(MINUTE)).toMatchObject([{ event: 'drift_new', findings: [{ fingerprint: 'name' }] }]);
    await compares([EXPORT, NAME, TWO_FACTORS]);
    expect(await after(30 * SECOND)).toMatchObject([
      { event: 'drift_new', title: 'production: 1 new finding of drift (1 critical)' },
    ]);
    await compares([EXPORT, TWO_FACTORS], 'staging');
    expect(await after(10 * MINUTE)).toEqual([]);
  },
);
