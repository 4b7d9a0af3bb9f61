/** A command that writes to the service waits while another process, such as the daemon's sync, holds the mirror. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { Story } from './restore-story.ts';

it.each([
  ['restore --apply', ['restore', 'run:1', '--kind', 'roles', '--apply', '--yes']],
  ['restore --resume', ['restore', '--resume', '1', '--yes']],
  ['restore --abandon', ['restore', '--abandon', '1', '--yes']],
  ['undo --apply', ['undo', '1', '--apply', '--yes']],
])('%s waits until the mirror is free, and says for whom', async (_name, args) => {
  const story = await Story.start();
  const since = '2026-03-01T08:00:00.000Z';
  const lock = acquireWriterLock(story.file('mirror.db'), {
    command: 'daemon sync',
    pid: 12,
    host: 'here',
    since,
  });
  let isOver = false;
  const running = story.run(...args).finally(() => (isOver = true));
  await delay(1_500);
  expect(isOver).toBe(false);
  lock.release();
  const { stderr } = await running;
  expect(stderr).toContain(
    `is held by \`daemon sync\` (pid 12 on here) since ${since}: waiting until it is free, for an hour at most`,
  );
  expect(stderr).not.toContain('wait until it has ended, then run the command again');
});
