import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { restoreWorkDirectory } from '../../src/mirror/open.ts';
import { writerOf } from '../../src/mirror/lock.ts';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { asMirrorError } from '../../src/mirror/database.ts';
import { openMirror, openMirrorAsItIs } from '../../src/mirror/open.ts';
import { ORG, begin, bodies, open, sync, temporaryDirectory, testClock } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const ROLE = '{"id":"r1","name":"Admins"}';

function modeOf(path: string): string {
  return (statSync(path).mode & 0o777).toString(8);
}

describe('opening a mirror for writing', () => {
  it('makes the directory and files that only the owner can read, whatever the umask', async () => {
    const before = process.umask(0);
    try {
      const path = join(temporaryDirectory(), 'deep', 'down', 'mirror.db');
      const mirror = open({ path });
      const run = begin(mirror);
      run.stage('roles', ORG);
      const files = readdirSync(join(path, '..'));
      expect(files).toEqual(
        expect.arrayContaining([
          'mirror.db',
          'mirror.db-wal',
          'mirror.db-shm',
          'mirror.db-lock',
          'mirror.db-stage',
        ]),
      );
      for (const file of files) expect(`${file} ${modeOf(join(path, '..', file))}`).toBe(`${file} 600`);
      await run.publish({ outcome: 'complete', sweeps: [], requests: 0, retries: 0 });
    } finally {
      process.umask(before);
    }
  });

  it('tightens a file that others could read', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    writeFileSync(path, '');
    chmodSync(path, 0o644);
    open({ path });
    expect(modeOf(path)).toBe('600');
  });

  it('reports a file that goes away before SQLite has made its log as a missing mirror', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const connection = new Database(path);
    renameSync(path, `${path}.aside`);
    let thrown: unknown = null;
    try {
      connection.prepare('SELECT count(*) FROM runs').get();
    } catch (error) {
      thrown = error;
    }
    connection.close();
    expect(thrown).toMatchObject({ code: 'SQLITE_IOERR_FSTAT' });
    expect(asMirrorError(thrown, path)).toMatchObject({
      code: 'mirror_missing',
      message: `${path} is not there any more`,
    });
  });

  it('sets the pages, the log and the checks that the layout counts on', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const file = new Database(path);
    expect(file.pragma('page_size', { simple: true })).toBe(8192);
    expect(file.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(file.pragma('auto_vacuum', { simple: true })).toBe(0);
    expect(file.pragma('application_id', { simple: true })).toBe(0x54444d4b);
    file.close();
  });

  it.each([
    ['text', (path: string) => writeFileSync(path, 'dear diary, '.repeat(500))],
    [
      "somebody else's database",
      (path: string) => {
        alterFile(path, 'CREATE TABLE diary (entry TEXT); INSERT INTO diary VALUES (1)');
      },
    ],
    [
      "somebody else's empty database with a mark",
      (path: string) => {
        const other = new Database(path);
        other.pragma('application_id = 77');
        other.pragma('user_version = 3');
        other.close();
      },
    ],
  ])('refuses %s and leaves it as it was', (_name, make) => {
    const path = join(temporaryDirectory(), 'mirror.db');
    make(path);
    const before = readFileSync(path);
    for (const mode of ['write', 'read'] as const) {
      expect(() => open({ path, mode })).toThrow(expect.objectContaining({ code: 'mirror_foreign' }));
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it.each(['write', 'read'] as const)('refuses a directory for what it is (%s)', (mode) => {
    const path = join(temporaryDirectory(), 'mirror.db');
    mkdirSync(path);
    expect(() => open({ path, mode })).toThrow(
      expect.objectContaining({
        code: 'file_system',
        message: `${path} is a directory, and the mirror is a file`,
        hint: expect.stringContaining(join(path, 'mirror.db')) as string,
      }),
    );
    expect(existsSync(`${path}-lock`)).toBe(false);
  });

  it.each(['write', 'read'] as const)('refuses a path that leads through a file (%s)', (mode) => {
    const file = join(temporaryDirectory(), 'file');
    writeFileSync(file, '');
    for (const path of [join(file, 'mirror.db'), join(file, 'deeper', 'mirror.db')]) {
      expect(() => open({ path, mode })).toThrow(
        expect.objectContaining({
          code: mode === 'read' ? 'mirror_missing' : 'file_system',
          // The directory's own name is random, and may look like one.
          message: expect.toSatisfy(
            (message: string) => !/E[A-Z]{4}/.test(message.replaceAll(file, '')),
          ) as string,
        }),
      );
    }
  });

  it('says what to do about a damaged file, and not to verify when that is what found it', async () => {
    const mirror = open();
    const roles = Array.from({ length: 500 }, (_, i) => `{"id":"r${i}","pad":"${'x'.repeat(300)}"}`);
    await sync(mirror, 'roles', ORG, roles);
    mirror.close();
    truncateSync(mirror.path, 5 * 8192);
    writeFileSync(`${mirror.path}.before-3`, '');
    const failure = (command: string): unknown => {
      try {
        const reader = open({ path: mirror.path, mode: 'read', command });
        return [...reader.records.read()];
      } catch (error) {
        return error;
      }
    };
    const found = failure('export');
    expect(found).toMatchObject({
      code: 'mirror_corrupt',
      hint: expect.stringMatching(/`tidemark verify`/) as string,
    });
    expect(found).toMatchObject({ hint: expect.stringContaining(`${mirror.path}.before-3`) as string });
    expect(failure('verify')).toMatchObject({
      code: 'mirror_corrupt',
      hint: expect.stringMatching(
        /^restore a backup \(`tidemark backup restore latest --to \S+`\), or move the mirror away/,
      ) as string,
    });
  });

  it('refuses a mirror of a newer version and leaves it as it was', async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const mirror = open({ path });
    await sync(mirror, 'roles', ORG, [ROLE]);
    mirror.close();
    const file = new Database(path);
    file.pragma('user_version = 99');
    file.close();
    const before = readFileSync(path);
    for (const mode of ['write', 'read'] as const) {
      expect(() => open({ path, mode })).toThrow(expect.objectContaining({ code: 'mirror_newer' }));
    }
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('refuses a mirror that was made with other migrations and leaves it as it was', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const file = new Database(path);
    file.pragma('journal_mode = DELETE');
    file.exec("UPDATE __drizzle_migrations SET hash = 'another'");
    file.close();
    const before = readFileSync(path);
    for (const mode of ['write', 'read'] as const)
      expect(() => open({ path, mode })).toThrow(expect.objectContaining({ code: 'mirror_version' }));
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('begins again after a process died while making the file', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const half = new Database(path);
    half.pragma('page_size = 8192');
    half.pragma('journal_mode = WAL');
    half.close();
    expect(open({ path }).runs.list()).toEqual([]);
  });

  it('gives the lock back when it fails', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    writeFileSync(path, 'dear diary, '.repeat(500));
    expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'mirror_foreign' }));
    writeFileSync(path, '');
    expect(open({ path }).runs.list()).toEqual([]);
  });

  it('ends a run whose process died, and deletes its stage', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const first = open({ path });
    begin(first).stage('roles', ORG);
    first.close();
    expect(existsSync(`${path}-stage`)).toBe(true);
    const second = open({ path });
    expect(second.runs.list()).toMatchObject([
      { run: 1, outcome: 'failed', errorCode: 'interrupted', finishedAt: null },
    ]);
    expect(existsSync(`${path}-stage`)).toBe(false);
  });

  it('deletes what a restore of a backup left that was killed in its place', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const directory = restoreWorkDirectory(path);
    mkdirSync(directory);
    writeFileSync(join(directory, 'backup.db'), 'records');
    open({ path });
    expect(existsSync(directory)).toBe(false);
  });
});

describe('opening a mirror for reading', () => {
  it('says what to do when there is none, and makes none', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    expect(() => open({ path, mode: 'read' })).toThrow(
      expect.objectContaining({
        code: 'mirror_missing',
        hint: expect.stringContaining('tidemark sync') as string,
      }),
    );
    expect(existsSync(path)).toBe(false);
  });

  it('works while somebody writes, and sees the last published run', async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const writer = open({ path });
    await sync(writer, 'roles', ORG, [ROLE]);
    const reader = open({ path, mode: 'read' });
    const run = begin(writer);
    run.stage('roles', ORG);
    expect(bodies(reader, 'roles')).toEqual({ r1: ROLE });
    expect(reader.runs.latest('production')).toMatchObject({ run: 1 });
    await run.publish({ outcome: 'complete', sweeps: [], requests: 0, retries: 0 });
  });

  it('cannot begin a run', async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    await sync(open({ path }), 'roles', ORG, [ROLE]);
    expect(() => begin(open({ path, mode: 'read' }))).toThrow(expect.objectContaining({ code: 'internal' }));
  });

  it('gives an iteration one snapshot, though runs are published meanwhile', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [ROLE, '{"id":"r2","name":"old"}']);
    const records = mirror.records.read();
    expect(records.next().value).toMatchObject({ id: 'r1' });
    await sync(mirror, 'roles', ORG, ['{"id":"r2","name":"new"}', '{"id":"r3"}']);
    expect([...records].map(({ body }) => body)).toEqual(['{"id":"r2","name":"old"}']);
    expect(bodies(mirror, 'roles')).toEqual({ r2: '{"id":"r2","name":"new"}', r3: '{"id":"r3"}' });
  });

  it('can be left in the middle of an iteration', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [ROLE, '{"id":"r2"}']);
    await sync(mirror, 'roles', ORG, ['{"id":"r3"}']);
    for (const record of mirror.records.readAt(1)) {
      expect(record.id).toBe('r1');
      break;
    }
    await sync(mirror, 'roles', ORG, [ROLE]);
    expect(Object.keys(bodies(mirror, 'roles'))).toEqual(['r1']);
  });
});

/** What follows runs without the rights of root, which ignores the modes of files. */
async function asNobody(work: () => void | Promise<void>): Promise<void> {
  const { geteuid, seteuid } = process;
  const before = geteuid?.();
  if (before === 0) seteuid?.(65534);
  try {
    await work();
  } finally {
    if (before === 0) seteuid?.(0);
  }
}

describe('a mirror on a read-only disk', () => {
  it('can be read, from a private copy that is deleted afterwards', async () => {
    const directory = temporaryDirectory();
    const path = join(directory, 'mirror.db');
    const writer = open({ path });
    await sync(writer, 'roles', ORG, [ROLE]);
    writer.close();
    chmodSync(path, 0o444);
    chmodSync(directory, 0o555);
    const copies = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('tidemark-copy-'));
    const before = copies();
    await asNobody(() => {
      const reader = open({ path, mode: 'read' });
      expect(bodies(reader, 'roles')).toEqual({ r1: ROLE });
      expect(reader.runs.list()).toHaveLength(1);
      expect(readdirSync(directory).sort()).toEqual(['mirror.db', 'mirror.db-lock']);
      // However much is read at once, it is copied once.
      const iteration = reader.records.read();
      expect(iteration.next().value).toMatchObject({ id: 'r1' });
      expect(copies()).toHaveLength(before.length + 1);
      iteration.return?.();
      expect(copies()).toHaveLength(before.length + 1);
      reader.close();
    });
    expect(copies()).toEqual(before);
    chmodSync(directory, 0o755);
  });

  it('cannot be opened for writing, and says so', async () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o555);
    await asNobody(() => {
      for (const path of [join(directory, 'mirror.db'), join(directory, 'deep', 'mirror.db')]) {
        expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'read_only' }));
      }
    });
    chmodSync(directory, 0o755);
  });
});

describe('the writer lock', () => {
  it('names who holds it, where and since when', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const clock = testClock();
    const first = open({ path, command: 'sync', clock });
    clock.move(60_000);
    expect(() =>
      openMirror(path, { mode: 'write', command: 'daemon', clock, host: 'there', pid: 1 }),
    ).toThrow(
      expect.objectContaining({
        code: 'mirror_locked',
        message: `${path} is held by \`sync\` (pid 4711 on here) since 2026-03-01T12:00:00.000Z`,
        isRetryable: true,
      }),
    );
    first.close();
    expect(open({ path, command: 'daemon', clock }).runs.list()).toEqual([]);
  });

  it.each(['the file', 'its directory', 'a file that is still to be made'])(
    'is the same one through a link to %s',
    (what) => {
      const directory = temporaryDirectory();
      const elsewhere = temporaryDirectory();
      const path = join(directory, 'mirror.db');
      const isDirectory = what === 'its directory';
      const link = join(elsewhere, 'link');
      symlinkSync(isDirectory ? directory : path, link);
      const name = isDirectory ? join(link, 'mirror.db') : link;
      if (what === 'the file') open({ path }).close();
      const first = open({ path: name });
      expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'mirror_locked' }));
      expect(() => open({ path: name })).toThrow(expect.objectContaining({ code: 'mirror_locked' }));
      expect(readdirSync(elsewhere)).toEqual(['link']);
      expect(first.path).toBe(path);
      first.close();
      const second = open({ path });
      expect(() => open({ path: name })).toThrow(expect.objectContaining({ code: 'mirror_locked' }));
      expect(open({ path: name, mode: 'read' }).runs.list()).toEqual([]);
      second.close();
    },
  );

  it('does not take a file of somebody else for its own', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    writeFileSync(`${path}-lock`, 'my notes '.repeat(300));
    // The mirror is not damaged: `mirror_foreign` would say so.
    const hint = expect.stringContaining('delete it while no Tidemark is running') as string;
    expect(() => open({ path })).toThrow(expect.objectContaining({ code: 'file_system', hint }));
    expect(() => writerOf(path)).toThrow(expect.objectContaining({ code: 'file_system', hint }));
    expect(readFileSync(`${path}-lock`, 'utf8')).toBe('my notes '.repeat(300));
  });
});

describe('opening a mirror as it is', () => {
  const look = (path: string) => openMirrorAsItIs(path, { command: 'look', clock: testClock() });

  it('reads one of this version, and leaves an older one as it is', async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const writer = open({ path });
    await sync(writer, 'roles', ORG, [ROLE]);
    writer.close();
    const mirror = look(path);
    expect(mirror?.runs.sources()).toEqual(['production']);
    mirror?.close();

    const file = new Database(path);
    file.exec('DELETE FROM __drizzle_migrations');
    file.pragma('user_version = 0');
    file.close();
    const before = readFileSync(path);
    expect(look(path)).toBeNull();
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('refuses what is no mirror, and says where none is', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    expect(() => look(path)).toThrow(expect.objectContaining({ code: 'mirror_missing' }));
    writeFileSync(path, 'dear diary, '.repeat(500));
    expect(() => look(path)).toThrow(expect.objectContaining({ code: 'mirror_foreign' }));
  });
});
