/** Syncs that a command made beside the daemon, as they are reported. */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { manualSyncs } from '../../../src/daemon/jobs/manual-sync.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { world } from '../../journeys/comparison.ts';

it('are each one after the last known, or those from the last one of all kinds on', async () => {
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  const syncs = [[], [], ['--kind', 'domains'], ['--kind', 'members']];
  for (const more of syncs) await found.expectRun(0, 'sync', ...more);
  const mirror = openMirror(join(found.directory, 'mirror.db'), {
    mode: 'read',
    command: 'test',
    clock: systemClock,
  });
  onTestFinished(() => mirror.close());
  const [{ source } = { source: '' }] = mirror.runs.list({ limit: 1 });
  const after = (known: number | null) =>
    manualSyncs(mirror, source, known).map(({ run, kinds, isFollowed }) => [run, kinds, isFollowed]);
  const ofKinds = [
    [3, ['domains'], true],
    [4, ['members'], false],
  ];
  expect(after(null)).toEqual([[2, null, true], ...ofKinds]);
  expect(after(0)).toEqual([[1, null, true], [2, null, true], ...ofKinds]);
  expect(after(2)).toEqual(ofKinds);
  expect(after(4)).toEqual([]);
});
