/** Versions of records that another program swapped with their hashes: each body matches, and only the root hash of the run says whose it was. */
import { expect, it } from 'vitest';
import { Story } from './restore-story.ts';

/** Two records of a kind of run 1 become each other. */
function swap(kind: string): string {
  const set = ['body', 'hash', 'volatile'].map(
    (column) => `${column} = (SELECT p.${column} FROM pair p WHERE p.record <> records.record)`,
  );
  return `CREATE TEMP TABLE pair AS SELECT r.* FROM records r JOIN collections c ON c.id = r.collection
      WHERE c.kind = '${kind}' AND r.run = 1 ORDER BY r.record LIMIT 2;
    UPDATE records SET ${set.join(', ')} WHERE record IN (SELECT record FROM pair)`;
}

const UNLIKE = 'the changes of run 1, or what identifies their records, do not match its root hash';

it.each(['members', 'batch_exports'])(
  'are not what is restored, or compared with: %s',
  async (kind) => {
    const story = await Story.start();
    await story.createExport('Later');
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'base', 'run:1', '--baseline');
    const own = ['--kind', kind];
    const commands: readonly (readonly string[])[] = [
      ['restore', 'baseline', ...own],
      ['restore', 'run:2', ...own],
      ['restore', 'latest', ...own],
      ['drift', '--live', ...own],
      ['diff', 'baseline', 'live', ...own],
      ['drill', 'baseline'],
    ];
    for (const args of commands) expect((await story.run(...args)).code, args.join(' ')).not.toBe(1);
    story.alter(swap(kind));
    for (const args of commands) {
      const { stderr, stdout } = await story.expectRun(1, ...args);
      expect(stderr + stdout, args.join(' ')).toContain(UNLIKE);
    }
    expect((await story.expectRun(1, 'restore', 'baseline', ...own, '--apply', '--yes')).stderr).toContain(
      UNLIKE,
    );
    expect(story.writes()).toEqual([]);

    await story.expectRun(1, 'verify');
    const warning = /the last verification .* found \d+ problems? in /;
    for (const args of [
      ['restore', 'baseline', ...own],
      ['drift', '--live'],
    ])
      expect((await story.expectRun(1, ...args)).stderr, args.join(' ')).toMatch(warning);
  },
  60_000,
);
