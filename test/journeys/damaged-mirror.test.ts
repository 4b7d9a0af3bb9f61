/** Something else where the mirror should be, or somebody else in it, through the real command line. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { overwriteTable } from '../mirror/overwrite-table.ts';
import { environment, runProgram, scratch, tidemark, type Ended } from './harness.ts';
import { FakeService, ORG } from './service.ts';
import { alterFile } from '../tools/alter.ts';

const DOMAINS = `/api/organizations/${ORG}/domains/`;

/** One line on what is wrong, one on what to do, no stack. */
function expectClear({ code, stderr }: Ended): void {
  expect(code, stderr).toBe(1);
  const lines = stderr.trimEnd().split('\n');
  expect(lines, stderr).toHaveLength(2);
  expect(lines[0]).toContain('mirror.db');
  expect(lines[1]).toMatch(/^ {2}→ \S/);
}

/** Of the document on stdout; the reason stands on stderr in words. */
function errorCode({ stdout, stderr }: Ended): string {
  expect(stderr).toMatch(/^tidemark: /);
  return (JSON.parse(stdout) as { code: string }).code;
}

describe('something else where the mirror should be', () => {
  it.each([
    ['a directory', (path: string) => mkdirSync(path), /^(mirror_foreign|file_system)$/],
    ['a text file', (path: string) => writeFileSync(path, 'notes\n'.repeat(500)), /^mirror_foreign$/],
    [
      "somebody else's database",
      (path: string) => {
        alterFile(path, 'CREATE TABLE invoices (id INTEGER); INSERT INTO invoices VALUES (1)');
      },
      /^mirror_foreign$/,
    ],
  ])('%s: refused by writers and readers, and left as it was', async (_name, make, code) => {
    const service = await FakeService.start();
    const directory = scratch();
    const path = join(directory, 'mirror.db');
    make(path);
    const content = (): unknown =>
      readdirSync(directory, { withFileTypes: true })
        .filter(({ name }) => !name.endsWith('-lock'))
        .map((entry) => [
          entry.name,
          entry.isFile() ? readFileSync(join(directory, entry.name), 'hex') : null,
        ]);
    const before = content();
    const env = environment(service.url, directory);
    expectClear(await tidemark(['sync'], { env }));
    expectClear(await tidemark(['status'], { env }));
    expect(errorCode(await tidemark(['sync', '--json'], { env }))).toMatch(code);
    expect(content()).toEqual(before);
    expect(service.seen).toEqual([]);
  });
});

describe('somebody else in the mirror', () => {
  /** Another program that has the file open and keeps writers out until told to let go. */
  function intruder(path: string): () => void {
    const other = new Database(path);
    onTestFinished(() => void other.close());
    other.exec('BEGIN EXCLUSIVE');
    return () => other.exec('ROLLBACK');
  }

  it('from the start: one clear line, nothing asked of the service', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    const release = intruder(join(directory, 'mirror.db'));
    service.seen.length = 0;
    const ended = await tidemark(['sync', '--json'], { env });
    expect([ended.code, errorCode(ended)]).toEqual([1, 'mirror_locked']);
    expect(service.seen).toEqual([]);
    expect((await tidemark(['export'], { env })).code).toBe(0); // readers are not kept out
    release();
    expect((await tidemark(['sync'], { env })).code).toBe(0);
  });

  it('while it publishes: nothing of the run is visible, and the next one goes on', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, ['{"id":"d1","domain":"old.example"}']);
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    service.lists.set(DOMAINS, ['{"id":"d1","domain":"new.example"}']);
    let release: (() => void) | null = null;
    service.quirks.push(({ path }) => {
      if (path === DOMAINS) release ??= intruder(join(directory, 'mirror.db'));
      return false;
    });
    expectClear(await tidemark(['sync'], { env }));
    service.quirks.length = 0;
    (release as (() => void) | null)?.();
    const domains = async (): Promise<string> =>
      (await tidemark(['export', '--kind', 'domains'], { env })).stdout;
    expect(await domains()).toContain('old.example');
    expect((await tidemark(['verify'], { env })).code).toBe(0);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    expect(await domains()).toContain('new.example');
  });
});

describe('a mirror that is gone', () => {
  it('is not taken for one that never was, while files of it are left', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['status'], { env })).stderr).toContain('mirror.db yet\n');
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    rmSync(join(directory, 'mirror.db'));
    const ended = await tidemark(['status'], { env });
    expectClear(ended);
    expect(ended.stderr).toMatch(/there is no mirror at \S+mirror\.db, only its mirror\.db-\w+\n/);
    expect(ended.stderr).toContain(
      'if one was there, restore a copy of the file, if you have one (no backup target is configured)',
    );
  });
});

describe('a mirror in which the last verification found problems', () => {
  it('is synced with one line that says so, also with --quiet and --json', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, ['{"id":"d1","domain":"one.example"}']);
    const directory = scratch();
    const env = environment(service.url, directory);
    const sync = async (...more: string[]): Promise<string> => {
      const { code, stderr } = await tidemark(['sync', '--quiet', ...more], { env });
      expect(code, stderr).toBe(0);
      return stderr;
    };
    expect(await sync()).toBe('');
    const verify = async (code: number): Promise<void> => {
      const ended = await tidemark(['verify'], { env });
      expect(ended.code, ended.stderr).toBe(code);
    };
    await verify(0);
    expect(await sync()).toBe('');
    const alter = (from: string, to: string): void => {
      const other = new Database(join(directory, 'mirror.db'));
      other.prepare('UPDATE records SET body = replace(body, ?, ?)').run(from, to);
      other.close();
    };
    alter('one.example', 'evil.example');
    await verify(1);
    const doctor = await tidemark(['doctor'], { env });
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain('DAMAGED (1 problem in the last verification)');
    expect(doctor.stderr).toMatch(
      /the last verification \([^)]+\) found 1 problem in \S+mirror\.db\n {2}→ `tidemark verify`/,
    );
    const line =
      /^tidemark: the last verification \([^)]+\) found 1 problem in \S+mirror\.db: `tidemark verify[^`]*` lists them and says what to do; a sync does not repair them\n$/;
    expect(await sync()).toMatch(line);
    expect(await sync('--json')).toMatch(line);
  });
});

describe('a mirror with overwritten pages', () => {
  it.each(['runs', 'collections'])(
    '%s: status says that it is damaged and what to do, not that nothing was synced',
    async (table) => {
      const service = await FakeService.start();
      const directory = scratch();
      const path = join(directory, 'mirror.db');
      const env = environment(service.url, directory);
      expect((await tidemark(['sync'], { env })).code).toBe(0);
      overwriteTable(path, table);
      const ended = await tidemark(['status'], { env });
      expectClear(ended);
      expect(ended.stdout).toBe('');
      expect(ended.stderr).toContain(`${path} is damaged\n`);
      expect(ended.stderr).toContain('`tidemark verify`');
      expect(ended.stderr).toContain(
        'restore a copy of the file, if you have one (no backup target is configured)',
      );
      const json = await tidemark(['status', '--json'], { env });
      expect([json.code, errorCode(json)]).toEqual([1, 'mirror_corrupt']);
    },
  );

  it('doctor says it in one line, and a backup of it names the mirror', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const path = join(directory, 'mirror.db');
    const backups = join(directory, 'backups');
    mkdirSync(backups);
    const env = { ...environment(service.url, directory), TIDEMARK_BACKUP_TARGETS: backups };
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    overwriteTable(path, 'notices');
    const doctor = await tidemark(['doctor', '--json'], { env });
    expect(doctor.code).toBe(1);
    const { problems } = JSON.parse(doctor.stdout) as { problems: { code: string; message: string }[] };
    const damage = problems.find(({ code }) => code === 'mirror_corrupt');
    expect(damage?.message).toMatch(/mirror\.db is damaged: (?!\*)[^\n]+$/);
    const backup = await tidemark(['backup', 'create'], { env });
    expectClear(backup);
    expect(backup.stderr).toContain(path);
    expect(backup.stderr).not.toContain('backups-work');
    expect(backup.stderr).toContain('`tidemark backup restore latest --to ');
  });

  it.each(['runs', 'sources'])('%s: a configuration is valid beside it', async (table) => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    overwriteTable(join(directory, 'mirror.db'), table);
    const checked = await tidemark(['config', 'check'], { env: { ...env, TIDEMARK_NAME: 'another' } });
    expect(checked, checked.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(checked.stdout).toMatch(/\nvalid\n$/);
  });

  it('its beginning: what looks like no mirror may be one, and a backup is the way back', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const path = join(directory, 'mirror.db');
    const env = environment(service.url, directory);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 0, 4096);
    writeFileSync(path, bytes);
    const ended = await tidemark(['status'], { env });
    expectClear(ended);
    expect(ended.stderr).toContain('is not a mirror of Tidemark');
    expect(ended.stderr).toContain('its beginning is damaged');
    expect(ended.stderr).toContain(
      'restore a copy of the file, if you have one (no backup target is configured)',
    );
  });
});

const ALTERED = ', or its table __drizzle_migrations was altered: all other tables are as they should be';

describe('a mirror that another version of Tidemark made', () => {
  it.each([
    ['another first migration', `UPDATE __drizzle_migrations SET hash = 'another'`, ALTERED],
    ['a migration less', `DELETE FROM __drizzle_migrations WHERE id = 1`, ALTERED],
    ['no record of migrations', 'DROP TABLE __drizzle_migrations', ALTERED],
    ['no record of migrations, and other tables', 'DROP TABLE __drizzle_migrations; DROP TABLE notices', ''],
  ])(
    '%s: one clear line in every command, and the file as it was',
    async (_name, change, more) => {
      const service = await FakeService.start();
      const directory = scratch();
      const path = join(directory, 'mirror.db');
      const backups = join(directory, 'backups');
      mkdirSync(backups);
      const env = { ...environment(service.url, directory), TIDEMARK_BACKUP_TARGETS: backups };
      expect((await tidemark(['sync'], { env })).code).toBe(0);
      const file = new Database(path);
      file.exec(change);
      file.pragma('wal_checkpoint(TRUNCATE)');
      file.close();
      const before = readFileSync(path);
      service.seen.length = 0;
      for (const command of [['sync'], ['status'], ['verify'], ['runs'], ['export'], ['backup', 'create']]) {
        const ended = await tidemark(command, { env });
        expectClear(ended);
        expect(ended.stderr).toContain(
          `${path} was made by another version of Tidemark${more} (its schema is 1`,
        );
        expect(ended.stderr).toMatch(/, last synced at \d{4}-\S+Z; this version has 1 [0-9a-f]{8}\)\n/);
        expect(ended.stderr).toContain(
          'use the version that made it, or move the file away and run `tidemark sync`',
        );
        expect(ended.stderr.includes('`tidemark backup restore latest --to ')).toBe(more === ALTERED);
      }
      expect(errorCode(await tidemark(['verify', '--json'], { env }))).toBe('mirror_version');
      expect(readFileSync(path).equals(before)).toBe(true);
      expect(service.seen).toEqual([]);

      const backup = join(backups, 'tidemark-20260301T070000Z-run1.db.zst');
      writeFileSync(backup, zstdCompressSync(before));
      const verified = await tidemark(['backup', 'verify', backup], { env });
      expect(verified.code).toBe(1);
      expect(verified.stderr).toContain(
        `${backup} was made by another version of Tidemark${more} (its schema is 1`,
      );
      expect(verified.stderr).not.toMatch(/damaged|does not verify/);
    },
    30_000,
  );
});

describe('a mirror with damage that SQLite does not see', () => {
  it.each([
    [
      'a verification whose summary is not JSON',
      `UPDATE jobs SET name = 'verify', summary = '{"problems": '`,
      /^\S+mirror\.db is damaged: (?!\/)\S/,
    ],
    [
      'an older backup whose summary is not JSON',
      `INSERT INTO jobs (job, name, trigger, started_at, finished_at, outcome, summary)
         SELECT 0, 'backup', trigger, '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z', outcome, '{"stored": ['
         FROM jobs LIMIT 1`,
      /^\S+mirror\.db is damaged: malformed JSON/,
    ],
    [
      'the key of the fingerprints gone',
      'DELETE FROM fingerprint_key',
      /the key of the drift fingerprints is gone/,
    ],
  ])('%s: doctor reports it, and all the rest', async (_name, damage, message) => {
    const service = await FakeService.start();
    const directory = scratch();
    const backups = join(directory, 'backups');
    mkdirSync(backups);
    const env = {
      ...environment(service.url, directory),
      TIDEMARK_BACKUP_TARGETS: backups,
      TIDEMARK_BACKUP_EVERY: '0s',
      TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * * *',
    };
    expect((await tidemark(['daemon', '--once'], { env })).code).toBe(0);
    expect(readdirSync(backups)).not.toEqual([]);
    alterFile(join(directory, 'mirror.db'), damage);
    const doctor = await tidemark(['doctor', '--json'], { env });
    expect(doctor.code, doctor.stdout + doctor.stderr).toBe(1);
    const {
      problems,
      sources,
      backups: targets,
    } = JSON.parse(doctor.stdout) as {
      problems: { code: string; message: string; next: string }[];
      sources: object[];
      backups: object[];
    };
    const damages = problems.filter(({ code }) => code === 'mirror_corrupt');
    expect(damages).toEqual([
      expect.objectContaining({ message: expect.stringMatching(message) as string, source: null }),
    ]);
    expect(sources).toHaveLength(1);
    expect(targets).toEqual([expect.objectContaining({ target: backups, error: null })]);
  });
});

it('a sync whose run cannot begin ends: nothing that it started keeps the process', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = { ...environment(service.url, directory), TIDEMARK_REDACT: 'true' };
  expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
  alterFile(join(directory, 'mirror.db'), 'DELETE FROM fingerprint_key');
  const { code, stderr } = await runProgram(['sync'], { env });
  expect(code).toBe(1);
  expect(stderr).toMatch(/^tidemark: .*the key of the drift fingerprints is gone.*\n {2}→ \S.*\n$/);
});
