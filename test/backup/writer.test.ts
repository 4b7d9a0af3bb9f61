import { randomBytes } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { describe, expect, it } from 'vitest';
import type { TargetConfig } from '../../src/config/config.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { listBackups } from '../../src/backup/list.ts';
import { directoryTarget } from '../../src/backup/targets/directory.ts';
import type { BackupManifest } from '../../src/backup/manifest.ts';
import { restoreBackup, verifyBackup } from '../../src/backup/opened-backup.ts';
import { mirrorId } from '../../src/backup/plain-backup.ts';
import { openWorkDirectory } from '../../src/backup/work-directory.ts';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, begin, bodies, open, sweep, sync, temporaryDirectory } from '../mirror/fixture.ts';
import { KEY, never, setting } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const holder = { command: 'test', pid: 1, host: 'here', since: '2026-03-01T00:00:00.000Z' };
const HOUR = 3_600_000;

function socketsOf(pid: number | undefined): number {
  const directory = `/proc/${pid}/fd`;
  const target = (fd: string): string => {
    try {
      return readlinkSync(join(directory, fd));
    } catch {
      return 'closed';
    }
  };
  const all = existsSync(directory) ? readdirSync(directory) : [];
  return all.filter((fd) => target(fd).startsWith('socket:')).length;
}

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The machine's time, moved. */
function movedClock(): Clock & { move(ms: number): void } {
  let by = 0;
  return { ...systemClock, now: () => systemClock.now() + by, move: (ms) => void (by += ms) };
}

describe('a backup', () => {
  it('is a whole mirror with a manifest that says what it is, and nothing else stays', async () => {
    const { writer, mirror, directory, home } = await setting();
    const phases = new Set<string>();
    const { path, manifest } = await writer.make(never, ({ phase }) => phases.add(phase));
    expect([...phases]).toEqual(['copying', 'verifying', 'packing', 'checking', 'storing']);
    expect(readdirSync(directory).sort()).toEqual([manifest.file, `${manifest.file}.json`]);
    for (const name of readdirSync(directory))
      expect(statSync(join(directory, name)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(`${path}.json`, 'utf8'))).toEqual(manifest);
    expect(manifest).toMatchObject({
      schema: 'tidemark.backup/1',
      run: 1,
      root: mirror.runs.get(1)?.root,
      bytes: statSync(path).size,
      encryption: null,
      sources: [{ source: 'production', run: 1, outcome: 'complete' }],
      checked: { records: 2 },
    });
    expect(readdirSync(home).filter((name) => name.includes('work'))).toEqual([]);

    const [backup] = await listBackups(directoryTarget(directory));
    const to = join(temporaryDirectory(), 'mirror.db');
    await restoreBackup(backup!, to, { identities: [], clock: systemClock, signal: never, holder });
    expect(bodies(open({ path: to }), 'roles')).toEqual(bodies(mirror, 'roles'));
    expect(mirrorId(open({ path: to, mode: 'read' }))).toBe(manifest.mirror);
  });

  it('is never in clear in the place of backups where it is encrypted', async () => {
    const identity = await generateIdentity();
    const { with: writer, directory, home } = await setting();
    const file = join(home, 'recipients.txt');
    writeFileSync(file, `# all of us\n${await identityToRecipient(identity)}\n`);
    const seen = new Set<string>();
    const made = await writer({ backups: { recipientsFile: file } }).make(never, () => {
      for (const name of readdirSync(directory)) seen.add(name);
    });
    expect([...seen].filter((name) => !/\.age(\.json)?(\.\w+\.partial)?$/.test(name))).toEqual([]);
    expect(made.manifest).toMatchObject({ encryption: 'age' });

    const [backup] = await listBackups(directoryTarget(directory));
    const work = temporaryDirectory();
    const options = { clock: systemClock, signal: never };
    expect(await verifyBackup(backup!, work, { ...options, identities: [] })).toEqual({
      facts: null,
      isCompared: true,
    });
    const opened = await verifyBackup(backup!, work, { ...options, identities: [new Secret(identity)] });
    expect(opened.facts?.root).toBe(made.manifest.root);
  });

  it('has an own name also within the same second, and gives way by retention without touching what is not ours', async () => {
    const { with: writer, directory } = await setting();
    const foreign = ['notes.txt', 'tidemark-20200101T000000Z-run1.db.zst', 'x.abc.partial'];
    for (const name of foreign) writeFileSync(join(directory, name), 'mine');
    const clock = { ...systemClock, now: () => Date.UTC(2026, 2, 1) };
    const both = writer({ clock, retention: { last: 2 } });
    const made = [await both.make(never), await both.make(never), await both.make(never)];
    expect(made.map(({ targets: [target] }) => target?.removed.length)).toEqual([0, 0, 1]);
    const left = readdirSync(directory).filter((name) => !foreign.includes(name));
    expect(left).toHaveLength(4);
    expect(left).toContain(made[2]!.manifest.file);
    for (const name of foreign) expect(readFileSync(join(directory, name), 'utf8')).toBe('mine');
  });
});

/** What the daemon records of a backup. */
function record(mirror: Mirror, summary: Parameters<Mirror['daemon']['finishJob']>[1]['summary']): void {
  const at = '2026-03-01T00:00:00.000Z';
  const job = mirror.daemon.beginJob({ name: 'backup', source: null, trigger: 'after_run', startedAt: at });
  const end = { run: null, errorCode: null, error: null, finishedAt: at };
  mirror.daemon.finishJob(job, { ...end, outcome: 'done', summary });
}

describe('after a run', () => {
  it('a backup is made when the run was complete and the last backup is old enough', async () => {
    const { with: writer, mirror, sync } = await setting();
    const clock = movedClock();
    const daily = writer({ clock });
    expect(await daily.afterCompleteRun(mirror, [1], never)).toMatchObject({
      made: { manifest: { run: 1 } },
      emptied: [],
    });
    expect(await daily.afterCompleteRun(mirror, [await sync()], never)).toBeNull();
    clock.move(25 * HOUR);
    const partial = begin(mirror);
    await partial.publish({
      outcome: 'partial',
      sweeps: [sweep('roles', ORG, 2, { outcome: 'failed' })],
      requests: 1,
      retries: 0,
    });
    expect(await daily.afterCompleteRun(mirror, [3], never)).toBeNull();
    expect(await daily.afterCompleteRun(mirror, [3, await sync()], never)).toMatchObject({
      made: { manifest: { run: 4 } },
    });
    // The clock stepped back: what was made "tomorrow" does not count, what was made before does.
    clock.move(-25 * HOUR);
    expect(await daily.afterCompleteRun(mirror, [4], never)).toBeNull();
    clock.move(-48 * HOUR);
    expect(await daily.afterCompleteRun(mirror, [4], never)).not.toBeNull();
  });

  it('a directory that lost what was stored there gets none, the others do', async () => {
    const { with: writer, mirror, directory, home } = await setting();
    const other = join(home, 'other');
    const added = join(home, 'added');
    const unused = join(home, 'unused');
    for (const path of [other, added, unused]) mkdirSync(path);
    const targets = [directory, other, added, unused].map((path): TargetConfig => ({
      type: 'directory',
      path,
      retention: null,
    }));
    // It could never be stored in one of them; in another, it was in a row that is gone, but for those of its refusals.
    const stored = [
      { address: other, error: 'lost', isEmptied: true },
      { address: unused, error: 'full' },
    ];
    record(mirror, { job: 'backup', file: 'a', targets: [{ address: directory, error: null }] });
    record(mirror, { job: 'backup', file: null, targets: stored });
    const all = writer({ backups: { targets } });
    const due = await all.afterCompleteRun(mirror, [1], never);
    expect(due?.emptied).toMatchObject(
      [directory, other].map((address) => ({
        address,
        error: { message: `${address} has none of the backups that were stored there: is its disk mounted?` },
      })),
    );
    expect(due?.made?.targets.map(({ address }) => address)).toEqual([added, unused]);
    expect([directory, other].flatMap((path) => readdirSync(path))).toEqual([]);
    const alone = writer({ backups: { targets: targets.slice(0, 1) } });
    expect(await alone.afterCompleteRun(mirror, [1], never)).toMatchObject({ made: null, emptied: [{}] });
    // One that is not complete shows that the disk is there.
    await all.make(never);
    for (const name of readdirSync(directory)) if (name.endsWith('.zst')) rmSync(join(directory, name));
    expect(await alone.afterCompleteRun(mirror, [1], never)).toMatchObject({ made: {}, emptied: [] });
  });

  it.each([
    ['in this process', {}],
    ['in the process of a backup', { onStart: () => undefined }],
  ])('a directory that comes back empty after it was looked at gets none, %s', async (_where, how) => {
    const { with: writer, mirror, directory, home } = await setting();
    const other = join(home, 'other');
    mkdirSync(other);
    const targets = [directory, other].map((path) => ({
      type: 'directory' as const,
      path,
      retention: null,
    }));
    for (const address of [directory, other])
      record(mirror, { job: 'backup', file: 'a', targets: [{ address, error: null }] });
    await writer({ backups: { targets } }).make(never);
    const name = readdirSync(other);
    // Its disk is not mounted; then the mount point is made again.
    rmSync(directory, { recursive: true });
    const clock = movedClock();
    clock.move(25 * HOUR);
    const late = writer({ clock, backups: { targets }, beforeWork: () => mkdirSync(directory), ...how });
    const due = await late.afterCompleteRun(mirror, [1], never);
    expect(due?.made?.targets).toMatchObject([
      {
        address: directory,
        path: null,
        isEmptied: true,
        error: {
          message: `${directory} has none of the backups that were stored there: is its disk mounted?`,
        },
      },
      { address: other, error: null, isEmptied: false },
    ]);
    expect(readdirSync(directory)).toEqual([]);
    expect(readdirSync(other)).toEqual(expect.arrayContaining(name));
    expect(readdirSync(other)).toHaveLength(4);

    // Where there is no other target, or that one fails, it is the same.
    for (const failed of [[], [other]]) {
      for (const path of [directory, ...failed]) rmSync(path, { recursive: true });
      const alone = writer({
        ...{ clock, beforeWork: () => mkdirSync(directory), ...how },
        backups: { targets: targets.filter(({ path }) => path === directory || failed.includes(path)) },
      });
      expect(await alone.afterCompleteRun(mirror, [1], never)).toMatchObject({
        made: null,
        emptied: [{ address: directory, error: { code: 'file_system' } }],
        failed: failed.map((address) => ({ address, error: { code: 'file_system' } })),
      });
      expect(readdirSync(directory)).toEqual([]);
    }
  });

  it('a directory that a source has of its own is not made again below a disk that is gone', async () => {
    const { with: writer, mirror, home } = await setting();
    const within = join(home, 'disk');
    const path = join(within, 'production');
    mkdirSync(within);
    const own = writer({ backups: { targets: [{ type: 'directory', path, within, retention: null }] } });
    expect(await own.afterCompleteRun(mirror, [1], never)).toMatchObject({ made: {}, emptied: [] });
    record(mirror, { job: 'backup', file: 'a', targets: [{ address: path, error: null }] });
    rmSync(path, { recursive: true });
    expect(await own.afterCompleteRun(mirror, [1], never)).toMatchObject({ made: null, emptied: [{}] });
    expect(existsSync(path)).toBe(false);
  });

  it('a mirror that is restored knows nothing of the directories of its past', async () => {
    const { with: writer, mirror, directory, home } = await setting();
    record(mirror, { job: 'backup', file: 'a', targets: [{ address: directory, error: null }] });
    const away = join(home, 'away');
    mkdirSync(away);
    await writer({ backups: { targets: [{ type: 'directory', path: away, retention: null }] } }).make(never);
    const [backup] = await listBackups(directoryTarget(away));
    const to = join(home, 'restored.db');
    await restoreBackup(backup!, to, { identities: [], clock: systemClock, signal: never, holder });
    const restored = open({ path: to, mode: 'read' });
    expect(mirror.daemon.hasStoredIn(directory)).toBe(true);
    expect(restored.daemon.hasStoredIn(directory)).toBe(false);
    expect(restored.daemon.jobs({ name: 'backup' })).toMatchObject([
      { summary: { job: 'backup', file: 'a' } },
    ]);
    const onwards = writer({ mirror: to });
    expect(await onwards.afterCompleteRun(restored, [1], never)).toMatchObject({ made: {}, emptied: [] });
  });

  it('the command is run, and its failure leaves the backup standing', async () => {
    const { with: writer, directory } = await setting();
    const made = await writer({ backups: { command: ['sh', '-c', 'exit 3'] } }).make(never);
    expect(made.hook).toMatchObject({ outcome: 'failed', error: { code: 'file_system' } });
    expect(await listBackups(directoryTarget(directory))).toMatchObject([{ state: 'whole' }]);
    const env = { PATH: process.env['PATH'] ?? '' };
    const next = writer({
      env,
      backups: { command: ['sh', '-c', 'test -s "$TIDEMARK_BACKUP_FILE" && test -s "$0"', '{manifest}'] },
    });
    expect((await next.make(never)).hook).toMatchObject({ outcome: 'done' });
  });
});

describe('what goes wrong', () => {
  it.each<[string, (directory: string) => void, string, RegExp]>([
    [
      'the directory is missing',
      (directory) => rmSync(directory, { recursive: true }),
      'file_system',
      /does not exist/,
    ],
    [
      'a file is in its place',
      (directory) => {
        rmSync(directory, { recursive: true });
        writeFileSync(directory, '');
      },
      'file_system',
      /file where a directory/,
    ],
  ])('%s: one line, and the mirror stands', async (_name, spoil, code, message) => {
    const { writer, directory, sync } = await setting();
    spoil(directory);
    await expect(writer.make(never)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
    await sync();
  });

  it('a recipient is none: said before any work', async () => {
    const { with: writer, directory } = await setting();
    const making = writer({ backups: { recipients: ['age1nonsense'] } }).make(never);
    await expect(making).rejects.toMatchObject({ code: 'config_invalid' });
    expect(readdirSync(directory)).toEqual([]);
  });

  it('the mirror is damaged: no backup of it is taken for good', async () => {
    const { writer, mirror, directory } = await setting();
    mirror.close();
    alterFile(mirror.path, `UPDATE records SET body = replace(body, 'A 1', 'A 9') WHERE body IS NOT NULL`);
    await expect(writer.make(never)).rejects.toMatchObject({ code: 'mirror_corrupt' });
    expect(readdirSync(directory)).toEqual([]);
  });

  it('nothing was published yet', async () => {
    const { with: writer, directory, home } = await setting();
    const { path } = open({ path: join(home, 'other.db') });
    await expect(writer({ mirror: path }).make(never)).rejects.toMatchObject({ code: 'mirror_missing' });
    expect(readdirSync(directory)).toEqual([]);
  });

  it('two at once: the second one says who is at it', async () => {
    const { writer, mirror } = await setting();
    const workplace = openWorkDirectory(mirror.path, 'backups', holder);
    await expect(writer.make(never)).rejects.toMatchObject({ code: 'mirror_locked', isRetryable: true });
    workplace.close();
    await writer.make(never);
  });

  it.each(['copying', 'packing'])(
    'interrupted while %s: the unfinished backup was removed',
    async (phase) => {
      const { with: writer, directory, home } = await setting();
      const stop = new AbortController();
      const started: (number | undefined)[] = [];
      const onStart = (pid: number | undefined): void => void started.push(pid);
      const making = writer({ onStart }).make(stop.signal, (progress) => {
        if (progress.phase === phase) stop.abort();
      });
      // It may have been done by then: either way nothing unfinished stays.
      const code = await making.then(
        () => 'done',
        (error: unknown) => (error as { code: string }).code,
      );
      expect(readdirSync(directory)).toHaveLength(code === 'done' ? 2 : 0);
      expect(['done', 'interrupted']).toContain(code);
      expect(readdirSync(home).filter((name) => name.endsWith('-work'))).toEqual([]);
      expect(started.map((pid) => isAlive(pid))).toEqual([false]);
      await expect(writer({ onStart }).make(stop.signal)).rejects.toMatchObject({ code: 'interrupted' });
      expect(started).toHaveLength(1);
    },
  );

  it.each<[NodeJS.Signals, string, RegExp]>([
    [
      'SIGKILL',
      'internal',
      /^the process that made the backup was ended by SIGKILL: the unfinished backup was removed$/,
    ],
    ['SIGSEGV', 'internal', /was ended by SIGSEGV/],
    // Before it listens: whoever sends this to all of a group means the backup as well.
    ['SIGTERM', 'interrupted', /^the backup was interrupted/],
  ])('its process ended by %s: one error, nothing is left', async (signal, code, message) => {
    const { with: writer, directory, home } = await setting();
    const onStart = (pid: number | undefined): void => {
      if (pid !== undefined) process.kill(pid, signal);
    };
    await expect(writer({ onStart }).make(never)).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
    expect(readdirSync(directory)).toEqual([]);
    expect(readdirSync(home).filter((name) => name.endsWith('-work'))).toEqual([]);
    // Nothing is held by what is dead.
    await writer({}).make(never);
  });

  it('SIGUSR1, at which Node opens a debugger, does nothing in its process', async () => {
    const { with: writer, directory } = await setting();
    let pid: number | undefined;
    const seen: number[] = [];
    await writer({ onStart: (its) => (pid = its) }).make(never, () => {
      const sockets = socketsOf(pid);
      // None once it has ended.
      if (sockets > 0) seen.push(sockets);
      if (seen.length === 1) process.kill(Number(pid), 'SIGUSR1');
    });
    // A debugger that listens would be one more. One that the start of the process needed may close.
    expect(Math.max(...seen.slice(1)), 'its sockets').toBeLessThanOrEqual(Number(seen[0]));
    expect(readdirSync(directory)).toHaveLength(2);
  });

  it('its process killed in the middle of the work: the same', async () => {
    const { with: writer, mirror, directory, home } = await setting();
    // Enough that the work is not over before its first word is here.
    const text = (): string => randomBytes(512 * 1024).toString('hex');
    await sync(
      mirror,
      'roles',
      ORG,
      Array.from({ length: 32 }, (_unused, n) => JSON.stringify({ id: `r${n}`, name: text() })),
    );
    let pid: number | undefined;
    const making = writer({ onStart: (its) => (pid = its) }).make(never, ({ phase }) => {
      if (phase === 'copying' && pid !== undefined) process.kill(pid, 'SIGKILL');
    });
    await expect(making).rejects.toMatchObject({ code: 'internal', isRetryable: true });
    expect(readdirSync(directory)).toEqual([]);
    expect(readdirSync(home).filter((name) => name.endsWith('-work'))).toEqual([]);
  });

  it('what fails in the process is reported as it would be here, and no key is handed to it', async () => {
    const { with: writer, directory, home } = await setting();
    const { path } = open({ path: join(home, 'other.db') });
    const seen: string[] = [];
    const making = writer({
      mirror: path,
      env: { PATH: process.env['PATH'] ?? '', TIDEMARK_API_KEY: KEY, SVC_KEY: KEY, LANG: 'C' },
      onStart: (pid) => seen.push(readFileSync(`/proc/${pid}/environ`, 'utf8')),
    }).make(never);
    await expect(making).rejects.toMatchObject({
      code: 'mirror_missing',
      hint: expect.stringContaining('sync') as string,
    });
    expect(readdirSync(directory)).toEqual([]);
    expect(seen[0]).toContain('LANG=C\0');
    expect(seen[0]).not.toContain(KEY);
  });

  it('what cannot be stored leaves nothing in the directory, nor does what was left there before', async () => {
    const { directory, home } = await setting();
    const [path, owner] = [join(home, 'packed'), '0123456789abcdef'];
    writeFileSync(path, 'a backup');
    const name = 'tidemark-20260301T120000Z-run42.db.zst';
    const [stale, other] = [`${name}.json.${owner}.partial`, `${name}.fedcba9876543210.partial`];
    for (const each of [stale, other]) writeFileSync(join(directory, each), 'half');
    // Read back, it is not what was to be stored: as on a disk that took only a part of it.
    const backup = { name, path, bytes: 8, sha256: '0'.repeat(64), manifest: '{}' };
    const options = { owner, signal: never, onBytes: () => undefined };
    await expect(directoryTarget(directory).store(backup, options)).rejects.toMatchObject({
      code: 'backup_damaged',
    });
    expect(readdirSync(directory)).toEqual([other]);
  });

  it('killed: what it left goes before the next one, and never looked whole', async () => {
    const { writer, mirror, directory, home } = await setting();
    const owner = mirrorId(mirror);
    const { manifest } = await writer.make(never);
    const name = 'tidemark-20260301T000000Z-run7.db.zst';
    // Killed while it was written, between its two names, and while it was on its way out.
    writeFileSync(join(directory, `${name}.${owner}.partial`), 'half');
    writeFileSync(join(directory, `${name}.json`), JSON.stringify({ ...manifest, file: name }));
    writeFileSync(join(directory, `${name}.json.${owner}.partial`), '{');
    writeFileSync(
      join(directory, `${name}.0123456789abcdef.partial`),
      'of another mirror, at work right now',
    );
    mkdirSync(`${mirror.path}-backups-work`);
    writeFileSync(`${mirror.path}-backups-work/backup.db`, 'plain');
    expect((await listBackups(directoryTarget(directory))).map(({ state }) => state)).toEqual([
      'whole',
      'gone',
    ]);

    await writer.make(never);
    expect(existsSync(`${mirror.path}-backups-work`)).toBe(false);
    expect(readdirSync(directory).filter((each) => each.startsWith(name))).toEqual([
      `${name}.0123456789abcdef.partial`,
    ]);
    expect((await listBackups(directoryTarget(directory))).map(({ state }) => state)).toEqual([
      'whole',
      'whole',
    ]);
    expect(readdirSync(home).filter((each) => each.endsWith('-work'))).toEqual([]);
  });
});

describe('reading a backup', () => {
  it('finds what is not what was written, and restores none of it', async () => {
    const { writer, directory, home } = await setting();
    const { path, manifest } = await writer.make(never);
    const whole = readFileSync(path);
    const to = join(home, 'restored.db');
    const options = { identities: [], clock: systemClock, signal: never, holder };
    const check = async (state: string, code: string) => {
      const [backup] = await listBackups(directoryTarget(directory));
      expect(backup?.state).toBe(state);
      await expect(verifyBackup(backup!, temporaryDirectory(), options)).rejects.toMatchObject({ code });
      await expect(restoreBackup(backup!, to, options)).rejects.toMatchObject({ code });
      expect(readdirSync(home).filter((name) => name.startsWith('restored.db'))).toEqual([]);
      await expect(restoreBackup(backup!, join(home, 'new/and/newer/m.db'), options)).rejects.toMatchObject({
        code,
      });
      expect(existsSync(join(home, 'new'))).toBe(false);
    };
    truncateSync(path, whole.length - 1);
    await check('damaged', 'mirror_corrupt');
    const flipped = Buffer.from(whole);
    flipped[100] = (flipped[100] ?? 0) ^ 1;
    writeFileSync(path, flipped);
    await check('whole', 'mirror_corrupt');
    writeFileSync(path, whole);
    const other: BackupManifest = { ...manifest, plain_sha256: '0'.repeat(64) };
    writeFileSync(`${path}.json`, JSON.stringify(other));
    await check('whole', 'mirror_corrupt');
    writeFileSync(`${path}.json`, '{"schema":');
    await check('damaged', 'mirror_corrupt');

    rmSync(`${path}.json`);
    const [alone] = await listBackups(directoryTarget(directory));
    expect(alone?.state).toBe('unlisted');
    expect(await verifyBackup(alone!, temporaryDirectory(), options)).toMatchObject({ isCompared: false });
  });

  it('makes the directories that are missing, and leaves those and the lock that were there', async () => {
    const { writer, directory, home } = await setting();
    const { path } = await writer.make(never);
    const [backup] = await listBackups(directoryTarget(directory));
    const options = { identities: [], clock: systemClock, signal: never, holder };
    mkdirSync(join(home, 'there'));
    const to = join(home, 'there/new/m.db');
    await restoreBackup(backup!, to, options);
    expect(statSync(join(home, 'there/new')).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(home, 'there/new')).sort()).toEqual(['m.db', 'm.db-lock']);

    rmSync(to);
    writeFileSync(path, readFileSync(path).fill(0, 100, 200));
    await expect(restoreBackup(backup!, to, options)).rejects.toMatchObject({ code: 'mirror_corrupt' });
    expect(readdirSync(join(home, 'there/new'))).toEqual(['m.db-lock']);

    writeFileSync(join(home, 'file'), '');
    await expect(restoreBackup(backup!, join(home, 'file/m.db'), options)).rejects.toMatchObject({
      code: 'file_system',
    });
    const lock = acquireWriterLock(join(home, 'held.db'), holder);
    await expect(restoreBackup(backup!, join(home, 'held.db'), options)).rejects.toMatchObject({
      code: 'mirror_locked',
    });
    expect(existsSync(join(home, 'held.db-lock'))).toBe(true);
    lock.release();
  });

  it('does not hold the job that made it for one that was cut short', async () => {
    const { writer, mirror, directory, home } = await setting();
    const state = mirror.daemon;
    const job = { source: null, trigger: 'after_run', startedAt: '2026-03-01T00:00:00.000Z' } as const;
    const end = { run: null, summary: {}, errorCode: null, error: null };
    const earlier = state.beginJob({ ...job, name: 'backup' });
    state.finishJob(earlier, { ...end, finishedAt: job.startedAt, outcome: 'done' });
    const sync = state.beginJob({ ...job, name: 'sync', source: 'production' });
    state.beginJob({ ...job, name: 'backup' });
    await writer.make(never);
    expect(state.jobs({ name: 'backup' }).map(({ outcome }) => outcome)).toEqual(['running', 'done']);

    const [backup] = await listBackups(directoryTarget(directory));
    const to = join(home, 'restored.db');
    await restoreBackup(backup!, to, { identities: [], clock: systemClock, signal: never, holder });
    const restored = open({ path: to, mode: 'read' }).daemon;
    // A sync that was at work is cut short in the backup, in earnest: the daemon starts it again.
    expect(restored.jobs().map((row) => [row.job, row.name, row.outcome])).toEqual([
      [sync, 'sync', 'running'],
      [earlier, 'backup', 'done'],
    ]);
  });

  it.each(['', '-wal', '-shm'])('never goes over what stands there: PATH%s', async (suffix) => {
    const { writer, directory, home } = await setting();
    await writer.make(never);
    const to = join(home, 'other.db');
    writeFileSync(`${to}${suffix}`, 'mine');
    const [backup] = await listBackups(directoryTarget(directory));
    const options = { identities: [], clock: systemClock, signal: never, holder };
    await expect(restoreBackup(backup!, to, options)).rejects.toMatchObject({ code: 'usage' });
    expect(readFileSync(`${to}${suffix}`, 'utf8')).toBe('mine');
  });
});
