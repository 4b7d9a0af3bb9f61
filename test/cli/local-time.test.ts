import { describe, expect, it, onTestFinished } from 'vitest';
import { localTime, withLocalTimes } from '../../src/core/wording.ts';
import { environment, runProgram, scratch, tidemark } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

describe('times in text', () => {
  it.each([
    ['UTC', '2026-03-01T07:00:00.123Z', '2026-03-01T07:00:00Z'],
    ['Europe/Berlin', '2026-03-01T07:00:00.123Z', '2026-03-01T08:00:00+01:00'],
    ['Europe/Berlin', '2026-07-01T23:30:00Z', '2026-07-02T01:30:00+02:00'],
    ['America/St_Johns', '2026-03-01T01:00:00.999Z', '2026-02-28T21:30:00-03:30'],
    ['Asia/Kathmandu', '2026-03-01T07:00:00Z', '2026-03-01T12:45:00+05:45'],
  ])('%s: %s is %s', (zone, at, expected) => {
    process.env['TZ'] = zone;
    try {
      expect(localTime(at)).toBe(expected);
      expect(withLocalTimes(`after ${at}, or "2026-13-01T00:00:00Z"`)).toBe(
        `after ${expected}, or "2026-13-01T00:00:00Z"`,
      );
    } finally {
      process.env['TZ'] = 'UTC';
    }
  });

  it(
    'are local, with --utc in UTC, are references, and documents have UTC',
    { timeout: 60_000 },
    async () => {
      const service = await FakeService.start();
      service.set('roles', [{ id: 'r1', name: 'Auditors' }]);
      process.env['TZ'] = 'Europe/Berlin';
      onTestFinished(() => void (process.env['TZ'] = 'UTC'));
      const env = environment(service.url, scratch());
      const text = async (...args: string[]): Promise<string> => (await tidemark(args, { env })).stdout;
      await text('sync');
      await text('sync');
      const [local = ''] = /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00/.exec(await text('runs')) ?? [];
      // The zone is the process's: it is set before anything else is loaded.
      const [utc = ''] =
        /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/.exec((await runProgram(['runs', '--utc'], { env })).stdout) ?? [];
      const [started = ''] = /\d{4}-\d\d-\d\dT[\d:.]+Z/.exec(await text('runs', '--json')) ?? [];
      expect(started).toMatch(/\.\d{3}Z$/);
      expect(utc).toBe(`${started.slice(0, 19)}Z`);
      expect(Date.parse(local)).toBe(Date.parse(utc));
      for (const args of [
        ['diff', 'run:1', 'latest'],
        ['runs', 'show', '1'],
        ['changes'],
        ['snapshots', 'pin', 'a'],
      ]) {
        const shown = await text(...args);
        expect(shown, args.join(' ')).toMatch(/T\d\d:\d\d:\d\d\+0[12]:00/);
        expect(shown, args.join(' ')).not.toMatch(/T\d\d:\d\d:[\d.]+Z/);
      }
      expect(await text('diff', 'run:1', 'latest', '--format', 'markdown')).toMatch(/T\d\d:\d\d:[\d.]+Z/);
      const { code, stderr } = await tidemark(['changes', '--since', local], { env });
      expect([code, stderr]).toEqual([0, '']);

      // A hint holds the instant, whoever wrote it.
      service.set('roles', []);
      const held = await tidemark(['sync', '--json'], { env });
      expect(held.stdout).toMatch(/a run after \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ confirms it/);
      expect((await tidemark(['sync'], { env })).stderr).toMatch(
        /a run after \S+T\d\d:\d\d:\d\d\+0[12]:00 confirms it/,
      );
    },
  );
});
