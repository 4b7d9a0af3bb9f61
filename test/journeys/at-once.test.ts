/** Commands that several schedulers, or people, start at the same moment. */
import { expect, it } from 'vitest';
import { environment, runProgram, scratch } from './harness.ts';
import { FakeService } from './service.ts';

it('three `daemon --once`: one works, the others leave it to that one, and cron mails nothing', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  const all = await Promise.all([0, 1, 2].map(() => runProgram(['daemon', '--once', '--quiet'], { env })));
  for (const each of all) expect(each).toMatchObject({ code: 0, stderr: '' });
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
