/** Which backup of another mirror is meant where the configured one was begun without history. */
import { expect, it } from 'vitest';
import { earlierBackups } from '../../src/backup/earlier.ts';
import type { Backup } from '../../src/backup/list.ts';
import type { BackupManifest } from '../../src/backup/manifest.ts';
import { backupName } from '../../src/backup/name.ts';
import { directoryTarget } from '../../src/backup/targets/directory.ts';

const DAY = 86_400_000;
const START = Date.UTC(2026, 2, 1);

interface Made {
  readonly day: number;
  readonly mirror: string;
  readonly runs: number;
  readonly sources?: readonly string[];
  readonly state?: Backup['state'];
}

function backup({ day, mirror, runs, sources = ['production'], state = 'whole' }: Made): Backup {
  const at = START + day * DAY;
  const name = backupName(at, runs, false);
  const manifest = {
    mirror,
    sources: sources.map((source) => ({ source })),
    checked: { runs },
  } as unknown as BackupManifest;
  return {
    ...{ name, target: directoryTarget('/backups'), path: `/backups/${name}`, run: runs, fence: null },
    ...{ madeAt: new Date(at).toISOString(), isEncrypted: false, bytes: 1, state, reason: null, manifest },
  };
}

/** Newest first, as they are listed. */
const listed = (...made: readonly Made[]): Backup[] => made.toSorted((a, b) => b.day - a.day).map(backup);
const origin = { id: 'own', begun: new Map([['production', new Date(START + 5 * DAY).toISOString()]]) };

it.each<[string, readonly Made[], number | null]>([
  ['its own backups are no reason', [{ day: 1, mirror: 'own', runs: 3 }], null],
  ['another mirror that began later is none', [{ day: 6, mirror: 'other', runs: 9 }], null],
  ['nor one of other sources', [{ day: 1, mirror: 'other', runs: 9, sources: ['staging'] }], null],
  ['nor a damaged backup', [{ day: 1, mirror: 'other', runs: 9, state: 'damaged' }], null],
  [
    'the newest from before',
    [
      { day: 1, mirror: 'other', runs: 7 },
      { day: 3, mirror: 'other', runs: 9 },
      { day: 7, mirror: 'other', runs: 11 },
    ],
    9,
  ],
  [
    'of several mirrors that with the longest history, however old its newest backup is',
    [
      { day: 2, mirror: 'true', runs: 40 },
      { day: 4, mirror: 'begun by mistake', runs: 2 },
    ],
    40,
  ],
])('%s', (_name, made, runs) => {
  const found = earlierBackups(listed(...made), origin).filter(({ source }) => source === 'production');
  expect(found.map(({ run }) => run)).toEqual(runs === null ? [] : [runs]);
});

it('of any time, before the mirror has a run of the source', () => {
  const found = earlierBackups(listed({ day: 9, mirror: 'other', runs: 4 }), { id: 'own', begun: new Map() });
  expect(found).toMatchObject([{ source: 'production', run: 4 }]);
});
