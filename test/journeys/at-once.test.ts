/** Commands that several schedulers, or people, start at the same moment. */
import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { environment, runProgram, scratch } from './harness.ts';
import { FakeService } from './service.ts';

it('three `daemon --once`: one works, the others leave it to that one, and cron mails nothing', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  const all = await Promise.all([0, 1, 2].map(() => runProgram(['daemon', '--once', '--quiet'], { env })));
  for (const each of all) expect(each).toMatchObject({ code: 0, stderr: '' });
});

it('a `daemon --once` whose forerunner ends while it looks at who that is does what is due', async () => {
  const service = await FakeService.start();
  const dir = scratch();
  const env = environment(service.url, dir);
  const mirror = join(dir, 'mirror.db');
  const forerunner = acquireWriterLock(`${mirror}.daemon`, {
    command: 'daemon',
    pid: process.pid,
    host: hostname(),
    since: '2026-01-01T00:00:00.000Z',
  });
  const running = runProgram(['daemon', '--once', '--quiet'], { env });
  await sleep(1_500);
  forerunner.release();
  expect(await running).toMatchObject({ code: 0, stderr: '' });
  expect(existsSync(mirror)).toBe(true);
});

it('two `sync`: the second one waits, or says who works', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  const all = await Promise.all([0, 1].map(() => runProgram(['sync', '--quiet'], { env })));
  expect(all.map(({ code }) => code)).toContain(0);
  for (const { code, stderr } of all)
    if (code !== 0) {
      expect(code).toBe(1);
      expect(stderr).toMatch(/mirror\.db is held by `sync` \(pid \d+ on \S+\) since /);
    }
});

it('three `init`: one writes the configuration, the others leave it as it is', async () => {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = { PATH: process.env['PATH'] ?? '', HOME: cwd, KEY: 'test-key' };
  const names = ['a', 'b', 'c'];
  const all = await Promise.all(
    names.map((name) =>
      runProgram(['init', '--url', service.url, '--key-env', 'KEY', '--name', name], { env, cwd }),
    ),
  );
  expect(all.map(({ code }) => code).sort()).toEqual([0, 4, 4]);
  for (const { code, stderr } of all)
    if (code === 4) expect(stderr).toContain('tidemark.yaml exists already and was not changed');
});
