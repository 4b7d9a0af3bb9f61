import {
  appendFileSync,
  copyFileSync,
  existsSync,
  readdirSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { temporaryPlace } from '../../src/core/temporary-place.ts';
import { openMirror, takePrivateCopy } from '../../src/mirror/open.ts';
import { temporaryDirectory, testClock } from './fixture.ts';

const copies = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('tidemark-copy-'));

/** A file in WAL mode with a row in its log only. */
function writing(): { path: string; database: Database.Database; close: () => void } {
  const path = join(temporaryDirectory(), 'mirror.db');
  const database = new Database(path);
  database.pragma('journal_mode = WAL');
  database.pragma('wal_autocheckpoint = 0');
  database.exec(`CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)`);
  return { path, database, close: () => void database.close() };
}

function rows(path: string): unknown {
  const copy = new Database(path);
  try {
    expect(copy.pragma('integrity_check', { simple: true })).toBe('ok');
    return copy.prepare('SELECT n FROM t ORDER BY n').pluck().all();
  } finally {
    copy.close();
  }
}

const noPause = (): void => undefined;

describe('a private copy', () => {
  it('is the committed state with the log, and goes when it is discarded', () => {
    const { path, close } = writing();
    const copy = takePrivateCopy(path);
    expect(rows(copy.path)).toEqual([1]);
    expect(basename(copy.path)).toBe('mirror.db');
    copy.discard();
    expect(existsSync(dirname(copy.path))).toBe(false);
    close();
  });

  it('is taken again when the log was carried over into the file meanwhile', () => {
    const { path, database, close } = writing();
    let taken = 0;
    const copy = takePrivateCopy(path, {
      pause: noPause,
      copyFile: (from, to) => {
        copyFileSync(from, to);
        taken += 1;
        if (taken > 1) return;
        // Between the log and the file, a whole life of the log: carried over, begun again, with more in it.
        database.exec('INSERT INTO t VALUES (2)');
        database.pragma('wal_checkpoint(TRUNCATE)');
        database.exec('INSERT INTO t VALUES (3)');
      },
    });
    expect(taken).toBeGreaterThan(2);
    expect(rows(copy.path)).toEqual([1, 2, 3]);
    copy.discard();
    close();
  });

  it('leaves out what is appended to the log while it is copied', () => {
    const { path, close } = writing();
    const copy = takePrivateCopy(path, {
      pause: noPause,
      copyFile: (from, to) => {
        copyFileSync(from, to);
        if (from.endsWith('-wal')) appendFileSync(to, Buffer.alloc(5000, 7));
      },
    });
    expect(rows(copy.path)).toEqual([1]);
    copy.discard();
    close();
  });

  it('is refused of a file that never stands still, and nothing of it stays', () => {
    const { path, close } = writing();
    const before = copies();
    let size = 0;
    const take = () =>
      takePrivateCopy(path, {
        pause: () => {
          size += 1;
          writeFileSync(`${path}-wal`, Buffer.alloc(64, size));
        },
        copyFile: copyFileSync,
      });
    expect(take).toThrow(expect.objectContaining({ code: 'mirror_locked', isRetryable: true }));
    expect(copies()).toEqual(before);
    close();
  });

  it('says which disk is full: the one that the copy is for', () => {
    const { path, close } = writing();
    const before = copies();
    const take = () =>
      takePrivateCopy(path, {
        pause: () => undefined,
        copyFile: () => {
          throw Object.assign(new Error('no space left'), { code: 'ENOSPC', syscall: 'copyfile' });
        },
      });
    expect(take).toThrow(`${temporaryPlace()} could not be written: the disk is full`);
    expect(take).toThrow(expect.objectContaining({ code: 'disk_full' }));
    expect(copies()).toEqual(before);
    close();
  });
});

it('is not what a mirror that is open for writing reads', () => {
  const path = join(temporaryDirectory(), 'mirror.db');
  const mirror = openMirror(path, { mode: 'write', command: 'test', clock: testClock() });
  const before = copies();
  // Another file is in its place, and the index of its log cannot be opened.
  for (const each of [path, `${path}-shm`]) renameSync(each, `${each}.away`);
  copyFileSync(`${path}.away`, path);
  symlinkSync(join(dirname(path), 'none', 'none'), `${path}-shm`);
  expect(() => mirror.runs.sources()).toThrow(TidemarkError);
  expect(copies()).toEqual(before);
  unlinkSync(`${path}-shm`);
  for (const each of [path, `${path}-shm`]) renameSync(`${each}.away`, each);
  expect(mirror.runs.sources()).toEqual([]);
  mirror.close();
});
