/** Two hours of a daemon's life with everything going wrong in turn: no tick is lost, none runs twice, nothing grows. */
import { writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import type { JobObserver } from '../../src/daemon/jobs/observers.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { respond } from '../journeys/service.ts';
import { Rig } from './rig.ts';

const MINUTE = 60_000;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

interface Size {
  readonly heap: number;
  readonly handles: number;
}

async function size(): Promise<Size> {
  // Connections that were kept alive are no leak: their end takes a turn of the loop.
  await new Promise((resolve) => setImmediate(resolve));
  collect();
  const handles = process.getActiveResourcesInfo().filter((name) => !/TCP|Timeout|TLS/.test(name));
  return { heap: process.memoryUsage().heapUsed, handles: handles.length };
}

describe('a soak', () => {
  it('of two hours with faults', async () => {
    const rig = await Rig.create(
      {
        sync: '*/2 * * * *',
        drift: '7 * * * *',
        verify: '*/20 * * * *',
        forget: '33 * * * *',
        drill: '50 11 * * *',
      },
      'retention: { keepLast: 10 }',
    );
    const { service, clock } = rig;
    const fault = { status: 0 as number, slow: false, key: 'good-key' };
    service.quirks.push(({ headers }, response) => {
      if (headers.authorization !== `Bearer ${fault.key}`)
        return respond(
          response,
          401,
          '{"type":"authentication_error","code":"authentication_failed","detail":"no"}',
        );
      if (fault.status === 429)
        return respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '20' });
      return fault.status > 0 && respond(response, fault.status, '{"detail":"broken"}');
    });
    service.quirks.push(({ path, query }, response) => {
      const list = service.lists.get(path);
      if (!fault.slow || list === undefined) return false;
      rig.heldAnswers += 1;
      void clock.sleep(3_000).then(() => {
        rig.heldAnswers -= 1;
        respond(response, 200, service.page(path, list, query));
      });
      return true;
    });
    const told: string[] = [];
    const observer: JobObserver = {
      name: 'test',
      recorded: ({ row }) => void told.push(`${row.job} ${row.outcome}`),
    };
    const from = clock.now();
    await rig.start({ observers: [observer] });
    let turn = 0;
    const change = (): void => service.set('domains', [{ id: 'd1', domain: `d${(turn += 1)}.example` }]);

    // A quarter of an hour each; the last of a kind is followed by a quarter in which all is well.
    const quarters: readonly (() => void | Promise<void>)[] = [
      change,
      () => void (fault.status = 503),
      () => void (fault.status = 429),
      () => {
        fault.status = 0;
        fault.key = 'another-key';
      },
      () => {
        writeFileSync(rig.keyFile, 'another-key');
        fault.slow = true;
      },
      async () => {
        fault.slow = false;
        change();
        while (rig.view.running().length > 0) await rig.advance(1_000);
        const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'restore', clock });
        await rig.advanceMinutes(5);
        other.close();
      },
      () => {
        rig.onOpen = (mode) => {
          if (mode === 'write') throw new TidemarkError('disk_full', 'the disk is full');
        };
      },
      () => {
        rig.onOpen = () => undefined;
        change();
      },
    ];
    const sizes: Size[] = [];
    for (const begin of quarters) {
      const until = clock.monotonicMs() + 15 * MINUTE;
      await begin();
      await rig.advance(until - clock.monotonicMs());
      sizes.push(await size());
    }

    const jobs = rig.jobs({ name: 'sync' });
    const ticks = new Set<number>();
    for (let at = from + MINUTE; at <= clock.now(); at += 2 * MINUTE) ticks.add(at);
    // Each tick was begun once, skipped, or fell while the disk was full: then it stands in the log alone.
    const begun = jobs
      .filter(({ trigger }) => trigger === 'schedule')
      .map(({ startedAt }) => Math.floor(Date.parse(startedAt) / (2 * MINUTE)) * 2 * MINUTE);
    expect(new Set(begun).size).toBe(begun.length);
    const [schedule] = rig.view.schedules();
    const unwritten = rig.lines.filter(
      ({ message, facts }) => facts['job'] === 0 && message.startsWith('sync'),
    ).length;
    expect(begun.length + (schedule?.skippedTicks ?? 0) + unwritten).toBe(ticks.size);
    expect(schedule?.missedTicks).toBe(0);

    const byOutcome = Object.groupBy(jobs, ({ outcome }) => outcome);
    // Partly done is a run in whose middle a fault came or went: the machine's pace decides whether there is one.
    expect(
      Object.keys(byOutcome)
        .filter((outcome) => outcome !== 'partial')
        .sort(),
    ).toEqual(['done', 'failed', 'refused']);
    expect(byOutcome.partial?.length ?? 0).toBeLessThanOrEqual(4);
    expect(jobs.at(-1)?.outcome).toBe('done');
    expect(jobs.filter(({ finishedAt }) => finishedAt === null)).toEqual([]);
    expect(rig.view.problems()).toEqual([]);
    const others = rig.jobs().filter(({ name }) => name !== 'sync');
    expect([...new Set(others.map(({ name }) => name))].sort()).toEqual([
      'drift',
      'drill',
      'forget',
      'verify',
    ]);
    expect(others.filter(({ outcome }) => outcome === 'failed' || outcome === 'running')).toEqual([]);

    // Whoever is reported hears of each job once.
    expect(new Set(told).size).toBe(told.length);
    expect(told).toHaveLength(rig.jobs().length);
    // Each problem is reported when it comes, not at each run that it spoils.
    expect(rig.loud().filter((line) => line.startsWith('sync failed')).length).toBeLessThanOrEqual(4);
    expect(rig.loud().filter((line) => line.includes('was refused')).length).toBe(1);

    const [, early] = sizes;
    const last = sizes.at(-1);
    expect((last?.heap ?? 0) - (early?.heap ?? 0)).toBeLessThan(8 * 1024 * 1024);
    expect(last?.handles).toBeLessThanOrEqual((early?.handles ?? 0) + 1);
  });
});
