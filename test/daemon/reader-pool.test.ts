/** Readers that stay open over many mirrors: never more than the limit, and none is closed that somebody reads. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { RESTORE_HINT } from '../../src/core/hints.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { DaemonEffects } from '../../src/daemon/effects.ts';
import { MirrorConnections, ReaderPool } from '../../src/daemon/mirror-access.ts';
import { ActiveProblems } from '../../src/daemon/problems.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { temporaryDirectory } from '../mirror/fixture.ts';
import { alterFile } from '../tools/alter.ts';

/** As many as are kept open, and some more. */
const COUNT = 40;
const MOST = 32;

function world() {
  const directory = temporaryDirectory();
  const clock = new FakeClock();
  const pool = new ReaderPool();
  const open = new Set<Mirror>();
  const all = Array.from({ length: COUNT }, (_each, index) => {
    const path = join(directory, `s${index}.db`);
    openMirror(path, { mode: 'write', command: 'test', clock }).close();
    const effects = {
      clock,
      openMirror: (_config: Config, mode: 'read' | 'write', command: string): Mirror => {
        const mirror = openMirror(path, { mode, command, clock });
        open.add(mirror);
        const close = mirror.close.bind(mirror);
        mirror.close = () => {
          open.delete(mirror);
          close();
        };
        return mirror;
      },
    } as unknown as DaemonEffects;
    const config = { mirror: path, sources: [{ name: 'a' }] } as unknown as Config;
    return new MirrorConnections(effects, new ActiveProblems(clock, silentLogger), () => config, { pool });
  });
  onTestFinished(() => {
    for (const each of all) each.closeReader();
  });
  return { pool, open, all };
}

describe('the readers of many mirrors', () => {
  it('stay open up to the limit; those that were not used for the longest time are closed', () => {
    const { pool, open, all } = world();
    const first = all[0]?.reader();
    for (const each of all.slice(1, MOST)) each.reader();
    expect(open.size).toBe(MOST);
    // Used again: the second one is the oldest now.
    expect(all[0]?.reader()).toBe(first);
    all[MOST]?.reader();
    expect([open.size, pool.size]).toEqual([MOST, MOST]);
    expect(all[0]?.reader()).toBe(first);
    const second = all[1]?.reader();
    expect(second?.runs.sources()).toEqual([]);
    expect(open.size).toBe(MOST);
  });

  it('do not go on with a view that another program put in the place of one', () => {
    const [connections] = world().all;
    const reader = connections?.reader();
    expect(connections?.reader()).toBe(reader);
    alterFile(reader?.path ?? '', 'DROP VIEW all_revisions; CREATE VIEW all_revisions AS SELECT 1 AS run');
    expect(() => connections?.reader()).toThrow(expect.objectContaining({ code: 'mirror_corrupt' }));
  });

  it('are not closed while somebody may be reading them, and are when that is over', () => {
    const { pool, open, all } = world();
    for (const each of all.slice(0, 10)) each.reader();
    const release = pool.hold();
    const read = all.map((each) => each.reader());
    expect(open.size).toBe(COUNT);
    for (const mirror of read) expect(mirror.runs.sources()).toEqual([]);
    release();
    all[0]?.reader();
    expect(open.size).toBe(MOST);
    for (const each of all) each.closeReader();
    expect([open.size, pool.size]).toEqual([0, 0]);
  });
});

it.each([
  ['own.db.zst', '`tidemark backup restore own.db.zst --to '],
  ['latest', '`tidemark backup restore latest --to '],
  [null, 'look for a backup of it (`tidemark backup list`; the known ones are of other mirrors)'],
])('a mirror that is gone is reported with the backup to restore: %s', (backup, advice) => {
  const mirror = join(temporaryDirectory(), 'mirror.db');
  const clock = new FakeClock();
  openMirror(mirror, { mode: 'write', command: 'test', clock }).close();
  const problems = new ActiveProblems(clock, silentLogger);
  const config = { mirror, sources: [{ name: 'a' }] } as unknown as Config;
  const effects = { clock } as unknown as DaemonEffects;
  const backupToName = (): string | null => backup;
  const connections = new MirrorConnections(effects, problems, () => config, { backupToName });
  expect(connections.isThere()).toBe(true);
  rmSync(mirror);
  expect(connections.isThere()).toBe(false);
  const [problem] = problems.all();
  expect(problem?.error.hint).toContain(
    `if it is lost, ${backup === null ? '' : 'restore a backup ('}${advice}`,
  );
  expect(() => connections.reader()).toThrow('the mirror is gone');
  // The process of a job does not know the backups.
  const damaged = new TidemarkError('mirror_corrupt', 'damaged', { hint: `keep it, and ${RESTORE_HINT}` });
  const { code, hint } = connections.naming(damaged);
  expect(code).toBe('mirror_corrupt');
  expect(hint).toContain(`keep it, and ${backup === null ? '' : 'restore a backup ('}${advice}`);
  if (backup !== null) expect(hint).toContain(' --to ./restored/mirror.db --source a`)');
});
