/** Which backup of another mirror is meant where the configured one was begun without history. */
import { backupToName } from '../../src/backup/known-backups.ts';
import { describe, expect, it } from 'vitest';
import { begunByMistake, earlierBackups, newestBackup, originOf } from '../../src/backup/earlier.ts';
import type { Backup } from '../../src/backup/list.ts';
import type { BackupManifest } from '../../src/backup/manifest.ts';
import { backupName } from '../../src/backup/name.ts';
import { directoryTarget } from '../../src/backup/targets/directory.ts';
import type { Config } from '../../src/config/config.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { begin, open, testClock } from '../mirror/fixture.ts';

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
    isOfOtherVersion: false,
    ...{ madeAt: new Date(at).toISOString(), isEncrypted: false, bytes: 1, state, reason: null, manifest },
  };
}

/** Newest first, as they are listed. */
const listed = (...made: readonly Made[]): Backup[] => made.toSorted((a, b) => b.day - a.day).map(backup);
const origin = { id: 'own', begun: new Date(START + 5 * DAY).toISOString() };

it.each<[string, readonly Made[], number | null]>([
  ['its own backups are no reason', [{ day: 1, mirror: 'own', runs: 3 }], null],
  ['another mirror that began later is none', [{ day: 6, mirror: 'other', runs: 9 }], null],
  ['nor a damaged backup', [{ day: 1, mirror: 'other', runs: 9, state: 'damaged' }], null],
  [
    'the newest of a mirror that has one from before, also one made since',
    [
      { day: 1, mirror: 'other', runs: 7 },
      { day: 3, mirror: 'other', runs: 9 },
      { day: 7, mirror: 'other', runs: 11 },
    ],
    11,
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
  const found = earlierBackups(listed(...made), origin);
  expect(found.map(({ run }) => run)).toEqual(runs === null ? [] : [runs]);
});

it('of any time, before the mirror has a run', () => {
  const found = earlierBackups(listed({ day: 9, mirror: 'other', runs: 4 }), { id: 'own', begun: null });
  expect(found).toMatchObject([{ source: 'production', run: 4 }]);
});

describe('where there is no mirror', () => {
  const replaced = { day: 1, mirror: 'replaced', runs: 1000 };
  const missing = { day: 9, mirror: 'missing', runs: 200 };

  it.each<[string, readonly (readonly Made[])[], string, number]>([
    ['of two mirrors in one directory', [[replaced, missing]], '/0', 200],
    ['of the first of two directories', [[missing], [replaced]], '/0', 200],
    ['of the second', [[replaced], [missing]], '/1', 200],
    ['that both have: of the first', [[missing], [missing]], '/0', 200],
    ['that is whole', [[replaced], [{ ...missing, state: 'damaged' }]], '/0', 1000],
    ['of a configured source', [[replaced], [{ ...missing, sources: ['staging'] }]], '/0', 1000],
  ])('the newest backup is meant, %s', (_name, directories, address, run) => {
    const all = directories.map((made, index) => ({ address: `/${index}`, backups: listed(...made) }));
    const found = newestBackup(all, new Set(['production']));
    expect(found).toMatchObject({ address, run, source: 'production' });
  });
});

describe('a mirror that has had runs of production since day 5', () => {
  const begunOn5 = async (): Promise<Mirror> => {
    const clock = testClock();
    clock.move(START + 5 * DAY - clock.now());
    const mirror = open({ clock });
    await begin(mirror).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    return mirror;
  };
  const both = ['production', 'staging'];

  it.each<[string, readonly Made[], readonly string[], string | null]>([
    [
      'is whole beside one of other sources',
      [{ day: 1, mirror: 'other', runs: 9, sources: ['staging'] }],
      ['production'],
      null,
    ],
    [
      'is whole where a source is added of which another mirror has backups since',
      [{ day: 7, mirror: 'other', runs: 9, sources: ['staging'] }],
      both,
      null,
    ],
    ['was begun without history', [{ day: 1, mirror: 'other', runs: 9 }], ['production'], 'production'],
    [
      'was so too where its source is configured no longer',
      [{ day: 1, mirror: 'other', runs: 9 }],
      ['staging'],
      'production',
    ],
  ])('%s', async (_name, made, sources, of) => {
    const mirror = await begunOn5();
    const config = { sources: sources.map((name) => ({ name })), mirror: mirror.path } as unknown as Config;
    const earlier = earlierBackups(listed(...made), originOf(mirror));
    const problem = begunByMistake(config, [{ address: '/backups', earlier }], mirror);
    if (of === null) expect(problem).toBeNull();
    else
      expect(problem).toMatchObject({
        message: expect.stringMatching(
          `the mirror was begun at 2026-03-06T00:00:.* has backups of ${of} from another mirror`,
        ) as string,
        since: mirror.runs.firstStartedAt('production'),
      });
  });

  it.each<[string, readonly (readonly Made[])[], string, number]>([
    [
      'the newest of it',
      [[{ day: 1, mirror: 'other', runs: 9 }], [{ day: 2, mirror: 'other', runs: 8 }]],
      '/1',
      8,
    ],
    [
      'that of the mirror with the longest history',
      [[{ day: 4, mirror: 'begun by mistake', runs: 2 }], [{ day: 2, mirror: 'true', runs: 40 }]],
      '/1',
      40,
    ],
  ])('of several targets, names %s', async (_name, targets, address, run) => {
    const mirror = await begunOn5();
    const config = { sources: [{ name: 'production' }], mirror: mirror.path } as unknown as Config;
    for (const order of [1, -1]) {
      const earlier = targets
        .map((made, index) => ({
          address: `/${index}`,
          earlier: earlierBackups(listed(...made), originOf(mirror)),
        }))
        .toSorted((a, b) => order * (a.address < b.address ? -1 : 1));
      const message = begunByMistake(config, earlier, mirror)?.message;
      expect(message).toContain(`although ${address} has backups`);
      expect(message).toContain(`(run ${run})`);
    }
  });
});

it('the backup to restore is named where the targets have some of several mirrors', () => {
  const backup = (mirror: string, day: number) => ({
    mirror,
    name: `${mirror}${day}`,
    madeAt: `2026-03-0${day}T00:00:00.000Z`,
  });
  const target = (owner: string | null, ...byMirror: ReturnType<typeof backup>[]) => ({ owner, byMirror });
  expect(backupToName([])).toBe('latest');
  // `latest` is of this one.
  expect(backupToName([target('a', backup('a', 1)), target('a', backup('a', 2))])).toBe('latest');
  // Of which mirror the only ones are is not known.
  expect(backupToName([target(null, backup('b', 3))])).toBe('latest');
  const shared = [
    target(null, backup('b', 3)),
    target('a', backup('a', 1), backup('b', 2)),
    target('a', backup('a', 2)),
  ];
  expect(backupToName(shared)).toBe('a2');
  expect(backupToName(shared, 'b')).toBe('b3');
  expect(backupToName(shared, 'c')).toBeNull();
  // The only ones, and of another mirror.
  expect(backupToName([target('a', backup('b', 3))])).toBeNull();
});
