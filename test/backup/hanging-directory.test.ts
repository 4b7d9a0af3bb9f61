/** A directory on a network disk that hangs: what asks the system about it gets no answer, and what asks at once stands still. */
import type * as Files from 'node:fs';
import type * as FilesLater from 'node:fs/promises';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type * as Catalog from '../../src/backup/known-backups.ts';
import type * as Work from '../../src/backup/work.ts';
import type * as Directory from '../../src/backup/targets/directory.ts';
import type * as BackupCommands from '../../src/cli/backup.ts';
import type * as DoctorBackups from '../../src/cli/doctor-backups.ts';
import type { Config, TargetConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/core/clock.ts';
import type * as CommandLine from '../journeys/command-line.ts';
import type * as Fixture from './fixture.ts';

const disk = { path: '/hanging/backups', stoodStill: [] as string[], asked: [] as string[] };
/** Name of a file that cannot be read to its end, in a directory that can be listed. */
const HANGING_FILE = 'tidemark-20990101T000000Z-run1.db.zst.json';

vi.doMock('node:fs', async (original) => {
  const real = await original<typeof Files>();
  const standing = (name: 'existsSync' | 'statSync' | 'readdirSync' | 'accessSync') => {
    return (path: unknown, ...rest: unknown[]): unknown => {
      if (String(path).startsWith(disk.path)) disk.stoodStill.push(`${name} ${String(path)}`);
      return (real[name] as (...all: unknown[]) => unknown)(path, ...rest);
    };
  };
  const names = ['existsSync', 'statSync', 'readdirSync', 'accessSync'] as const;
  return { ...real, ...Object.fromEntries(names.map((name) => [name, standing(name)])) };
});

vi.doMock('node:fs/promises', async (original) => {
  const real = await original<typeof FilesLater>();
  const hanging = (name: 'stat' | 'statfs' | 'readdir' | 'access' | 'mkdir' | 'readFile') => {
    return async (path: unknown, ...rest: unknown[]): Promise<unknown> => {
      const isHanging = String(path).startsWith(disk.path) || String(path).endsWith(HANGING_FILE);
      if (!isHanging || (name !== 'readFile' && String(path).endsWith(HANGING_FILE)))
        return await (real[name] as (...all: unknown[]) => Promise<unknown>)(path, ...rest);
      disk.asked.push(`${name} ${String(path)}`);
      return await new Promise(() => undefined);
    };
  };
  const names = ['stat', 'statfs', 'readdir', 'access', 'mkdir', 'readFile'] as const;
  return { ...real, ...Object.fromEntries(names.map((name) => [name, hanging(name)])) };
});

let modules: typeof Catalog &
  typeof Work &
  typeof BackupCommands &
  typeof Directory &
  typeof DoctorBackups &
  typeof Fixture &
  typeof CommandLine;

// Files of one worker share their modules: those that are loaded already have the real functions, and the next file is to have them.
beforeAll(async () => {
  vi.resetModules();
  modules = {
    ...(await import('../../src/backup/known-backups.ts')),
    ...(await import('../../src/backup/work.ts')),
    ...(await import('../../src/backup/targets/directory.ts')),
    ...(await import('../../src/cli/backup.ts')),
    ...(await import('../../src/cli/doctor-backups.ts')),
    ...(await import('./fixture.ts')),
    ...(await import('../journeys/command-line.ts')),
  };
});
afterAll(() => {
  vi.doUnmock('node:fs');
  vi.doUnmock('node:fs/promises');
  vi.resetModules();
});

const HANGING: TargetConfig = { type: 'directory', path: disk.path, retention: null };

it.each<[string, TargetConfig]>([
  ['', HANGING],
  ['the one of a source in it', { ...HANGING, path: `${disk.path}/one`, within: disk.path }],
])('never stops the process that shows backups, nor doctor %s', async (_which, target) => {
  const { BackupCatalog, checkTargets, targetOwners, setting } = modules;
  const { mirror } = await setting();
  disk.asked = [];
  const shown = await new BackupCatalog(systemClock).look([target], mirror);
  expect(shown).toEqual([]);
  expect(disk.asked, 'it was looked at').toHaveLength(1);
  const stop = new AbortController();
  const config = { backup: { targets: [target] }, mirror: mirror.path } as unknown as Config;
  const known = { owners: targetOwners(mirror, config), isMirrorAway: false };
  const checked = checkTargets(config, known, stop.signal);
  await expect.poll(() => disk.asked).toHaveLength(2);
  stop.abort(new Error('stopped'));
  await expect(checked).rejects.toThrow('stopped');
  expect(disk.stoodStill).toEqual([]);
});

it('status names it, and for how long it was waited for', async () => {
  const { commandLine, setting } = modules;
  const { mirror, home } = await setting();
  const env = {
    TIDEMARK_BASE_URL: 'http://127.0.0.1:1',
    TIDEMARK_API_KEY: 'test-key-of-some-length',
    TIDEMARK_MIRROR: mirror.path,
    TIDEMARK_BACKUP_TARGETS: disk.path,
  };
  const { stdout, stderr } = await commandLine(['status'], { env, cwd: home });
  expect(stdout, stderr).toContain(`Backups: not readable: ${disk.path}: it has not answered for 3 s`);
});

/** The times that a directory is waited for are over soon, but a minute not before it is reported that it is waited for. */
function hurriedClock() {
  let endMinute = (): void => undefined;
  const minute = new Promise<void>((resolve) => (endMinute = resolve));
  const sleep = async (ms: number): Promise<void> => {
    // Not at once: what has answered already is not late.
    await (ms === 60_000 ? minute : systemClock.sleep(10));
  };
  return { clock: { ...systemClock, sleep }, endMinute };
}

it.each(['the directory', 'a manifest in it, which tells whether it lost its backups'])(
  'is given up after a minute, and the directory that answers has the backup before that: %s',
  async (what) => {
    const { createBackup, never, setting } = modules;
    const { home, directory, mirror } = await setting();
    const workDirectory = join(home, 'work');
    const listed = join(home, 'listed');
    for (const path of [workDirectory, listed]) mkdirSync(path);
    writeFileSync(join(listed, HANGING_FILE), '');
    const path = what === 'the directory' ? disk.path : listed;
    const { clock, endMinute } = hurriedClock();
    const waiting: unknown[] = [];
    const work = { mirrorPath: mirror.path, workDirectory, recipients: [], owner: 'test' };
    const targets = [path, directory].map((each): TargetConfig => ({ ...HANGING, path: each }));
    const { stored } = await createBackup(
      { ...work, targets, mustHaveSome: [listed] },
      {
        clock,
        signal: never,
        onProgress: ({ phase, target = '' }) => {
          // Where no time is left, it may also be reported while no directory has answered yet.
          if (phase !== 'waiting' || target.includes(' or ')) return;
          waiting.push([target, readdirSync(directory).length]);
          if (target === path) endMinute();
        },
      },
    );
    expect(stored.map(({ error }) => error?.code ?? null)).toEqual(['timeout', null]);
    expect(stored[0]).toMatchObject({ path: null, isEmptied: false });
    expect(waiting, 'with the backup and its manifest in the directory').toEqual([[path, 2]]);
    expect(readdirSync(listed)).toEqual([HANGING_FILE]);
  },
);

it('is given up after a minute where it is only listed', async () => {
  const { directoryTarget, listWaiting } = modules;
  const { clock, endMinute } = hurriedClock();
  let said = '';
  const stderr = { write: (text: string) => ((said += text), true) };
  const listing = listWaiting({ stderr, options: {} } as never, directoryTarget(disk.path), clock);
  await expect.poll(() => said).toContain(`waiting for an answer of ${disk.path}`);
  endMinute();
  await expect(listing).rejects.toMatchObject({
    code: 'timeout',
    message: `${disk.path} has not answered for 60 s`,
  });
});

it('does not keep a backup that failed from ending', async () => {
  const { never, setting } = modules;
  const { with: writer } = await setting();
  const { clock, endMinute } = hurriedClock();
  endMinute();
  const made = writer({ backups: { targets: [HANGING] }, clock, hereWith: clock }).make(never);
  await expect(made).rejects.toMatchObject({ code: 'timeout' });
});
