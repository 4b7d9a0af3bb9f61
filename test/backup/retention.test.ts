import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Backup } from '../../src/backup/list.ts';
import type { BackupManifest } from '../../src/backup/manifest.ts';
import { backupName } from '../../src/backup/name.ts';
import { directoryTarget } from '../../src/backup/targets/directory.ts';
import { backupsToRemove } from '../../src/backup/writer.ts';

const DAY = 86_400_000;
const START = Date.UTC(2026, 2, 1);

function backup(at: number, run: number, mirror = 'm', state: Backup['state'] = 'whole'): Backup {
  const name = backupName(at, run, false);
  return {
    name,
    target: directoryTarget('/backups'),
    path: `/backups/${name}`,
    madeAt: new Date(at).toISOString(),
    run,
    fence: null,
    isEncrypted: false,
    bytes: 1,
    state,
    reason: null,
    isOfOtherVersion: false,
    manifest: state === 'unlisted' ? null : ({ mirror } as BackupManifest),
  };
}

const days = (count: number, mirror = 'm'): Backup[] =>
  Array.from({ length: count }, (_unused, day) => backup(START + day * DAY, day + 1, mirror));

describe('retention of backups', () => {
  it('goes by the rules of history', () => {
    const gone = backupsToRemove(days(10), { daily: 3 }, { mirror: 'm', justMade: null });
    expect(gone.map(({ run }) => run)).toEqual([7, 6, 5, 4, 3, 2, 1]);
  });

  it('leaves the backups of another mirror alone', () => {
    const both = [...days(3, 'm'), ...days(3, 'other').map((each) => ({ ...each, name: `${each.name}2` }))];
    const gone = backupsToRemove(both, { last: 1 }, { mirror: 'm', justMade: null });
    expect(gone.map(({ manifest }) => manifest?.mirror)).toEqual(['m', 'm']);
  });

  it('never takes the newest whole one, nor what is not whole', () => {
    const backups = [
      ...days(3),
      backup(START + 8 * DAY, 8, 'm', 'damaged'),
      backup(START + 9 * DAY, 9, 'm', 'unlisted'),
      backup(START + 9 * DAY, 10, 'm', 'gone'),
    ];
    const gone = backupsToRemove(backups, { last: 1 }, { mirror: 'm', justMade: null });
    expect(gone.map(({ run }) => run)).toEqual([2, 1]);
  });

  it('never takes the one that was just made, though the clock stepped back', () => {
    const made = backup(START - 30 * DAY, 11);
    const gone = backupsToRemove([...days(3), made], { last: 1 }, { mirror: 'm', justMade: made.name });
    expect(gone.map(({ run }) => run)).toEqual([2, 1]);
  });

  it('keeps one at least, whatever there is and whatever the rules are', () => {
    const rules = fc
      .record({ last: fc.nat(5), daily: fc.nat(5), monthly: fc.nat(3), withinMs: fc.nat(5 * DAY) })
      .filter((policy) => Object.values(policy).some((value) => value > 0));
    const backups = fc
      .uniqueArray(fc.nat(400), { minLength: 1 })
      .map((at) => at.map((day, run) => backup(START + day * (DAY / 3), run)));
    fc.assert(
      fc.property(backups, rules, (all, policy) => {
        const gone = backupsToRemove(all, policy, { mirror: 'm', justMade: null });
        const newest = all.toSorted((a, b) => (a.madeAt < b.madeAt ? 1 : -1))[0]!;
        expect(gone).not.toContain(newest);
        expect(new Set(gone).size).toBe(gone.length);
        expect(all.length - gone.length).toBeGreaterThanOrEqual(Math.min(all.length, policy.last));
      }),
    );
  });
});
