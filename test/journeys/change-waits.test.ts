/** Commands that change the mirror for a moment wait while another process, such as the daemon's sync, holds it. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { Story } from './restore-story.ts';

it('drift accept, drift unaccept and snapshots wait until the mirror is free', async () => {
  const story = await Story.start();
  const held = { command: 'daemon sync', pid: 12, host: 'here', since: '2026-03-01T08:00:00.000Z' };
  const lock = acquireWriterLock(story.file('mirror.db'), held);
  let ended = 0;
  const running = [
    ['snapshots', 'pin', 'one', 'run:1'],
    ['snapshots', 'pin', 'two', 'run:1', '--baseline'],
    ['snapshots', 'unpin', 'none'],
    ['snapshots', 'baseline', 'none'],
    ['drift', 'accept', 'roles', 'none', '--reason', 'known'],
    ['drift', 'unaccept', 'roles', 'none'],
  ].map(async (args) => {
    const result = await story.run(...args);
    ended += 1;
    return result;
  });
  await delay(2_000);
  expect(ended).toBe(0);
  lock.release();
  const results = await Promise.all(running);
  expect(results.filter(({ stderr }) => stderr.includes('run the command again'))).toEqual([]);
  // What the others name is not there: they looked.
  expect(results.map(({ code }) => code)).toEqual([0, 0, 4, 4, 4, 4]);
});
