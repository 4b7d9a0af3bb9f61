/** Disks that are full or cannot be written, through the real command line. */
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { registerDaemon } from '../../src/daemon/lockfile.ts';
import { receiver } from '../daemon/notices/receiver.ts';
import { environment, program, scratch, tidemark, type Ended } from './harness.ts';
import { FakeService, ORG } from './service.ts';

const DOMAINS = `/api/organizations/${ORG}/domains/`;
const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;

/** Runs the command line as a process of its own: below a shell line that limits it, or as another user. */
function run(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  how: { shell?: string; uid?: number } = {},
): Promise<Ended> {
  const words = [process.execPath, program, ...args];
  const [command = '', ...rest] =
    how.shell === undefined ? words : ['bash', '-c', `${how.shell}; exec "$0" "$@"`, ...words];
  const child = spawn(command, rest, {
    env: { PATH: process.env['PATH'], ...env },
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(how.uid === undefined ? {} : { uid: how.uid, gid: how.uid }),
  });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, stdout, stderr }));
  });
}

interface SmallDisk {
  readonly directory: string;
  run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended>;
  /** False where only the size of files is limited. */
  readonly isMounted: boolean;
  /** Makes room. */
  free(): void;
}

/** A file system of its own with so much room; where none can be mounted, a limit on the size of files (`fileKib`). */
function smallDisk(kib: number, fileKib = kib): SmallDisk {
  const directory = join(scratch(), 'disk');
  mkdirSync(directory, { mode: 0o700 });
  const mount = (options: string): boolean =>
    spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory]).status === 0;
  if (isRoot && mount(`size=${kib}k`)) {
    onTestFinished(() => void spawnSync('umount', ['-l', directory]));
    return {
      directory,
      isMounted: true,
      run: (args, env) => tidemark(args, { env }),
      free: () => expect(mount('remount,size=100m')).toBe(true),
    };
  }
  let isFull = true;
  return {
    directory,
    isMounted: false,
    run: (args, env) => run(args, env, isFull ? { shell: `trap '' XFSZ; ulimit -f ${fileKib}` } : {}),
    free: () => (isFull = false),
  };
}

function domains(count: number, version: number): string[] {
  return Array.from({ length: count }, (_each, index) =>
    JSON.stringify({ id: `d${index}`, domain: `v${version}.example`, pad: 'x'.repeat(2_000) }),
  );
}

/** One line on what is wrong, one on what to do, no stack. */
function expectClear({ code, stderr }: Ended, message: RegExp): void {
  expect(code, stderr).toBe(1);
  const lines = stderr.trimEnd().split('\n');
  expect(lines, stderr).toHaveLength(2);
  expect(lines[0]).toMatch(message);
  expect(lines[1]).toMatch(/^ {2}→ \S/);
}

async function versions(env: Readonly<Record<string, string>>): Promise<Set<string>> {
  const { code, stdout, stderr } = await tidemark(['export', '--kind', 'domains'], { env });
  expect(code, stderr).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  return new Set(lines.map((line) => (JSON.parse(line) as { body: { domain: string } }).body.domain));
}

describe('a disk that fills up', () => {
  it('in the first sync: one clear line, and with room the next one goes on', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(1_300, 1));
    const disk = smallDisk(2_500);
    const env = environment(service.url, disk.directory);
    expectClear(await disk.run(['sync'], env), /^tidemark: .*disk is full/);
    disk.free();
    const next = await tidemark(['sync'], { env });
    expect(next.code, next.stderr).toBe(0);
    expect(await versions(env)).toEqual(new Set(['v1.example']));
    expect(readdirSync(disk.directory).filter((name) => name.includes('stage'))).toEqual([]);
  });

  it('before the mirror has its tables: nothing is said to be lost', async ({ skip }) => {
    const service = await FakeService.start();
    const disk = smallDisk(64);
    if (!disk.isMounted) skip('no file system can be mounted here');
    const env = environment(service.url, disk.directory);
    expectClear(await disk.run(['sync'], env), /^tidemark: the disk is full/);
    const status = await disk.run(['status'], env);
    expectClear(status, /mirror\.db was created, but nothing was ever stored in it$/);
    expect(status.stderr).toMatch(/→ free some space.* run `tidemark sync` again/);
    disk.free();
    expect((await tidemark(['sync'], { env })).code).toBe(0);
  });

  it('in a later sync: what was published stays readable and verifiable', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(400, 1));
    const disk = smallDisk(6_000);
    const env = environment(service.url, disk.directory);
    const first = await tidemark(['sync'], { env });
    expect(first.code, first.stderr).toBe(0);
    service.lists.set(DOMAINS, domains(3_000, 2));
    expectClear(await disk.run(['sync'], env), /^tidemark: .*disk is full/);
    const asJson = await disk.run(['sync', '--json'], env);
    expect(JSON.parse(asJson.stdout)).toMatchObject({
      schema: 'tidemark.error/1',
      code: 'disk_full',
    });
    expect(await versions(env)).toEqual(new Set(['v1.example']));
    expect((await disk.run(['verify'], env)).code).toBe(0);
    const full =
      /Needs attention:\n(.*\n)* {2}the disk is (?:small|(?:almost )?full): [\d.]+ [kM]?B of [\d.]+ MB \([\d.]+ %\) free beside .*\n {4}→ free some space, or enlarge/;
    const status = await disk.run(['status'], env);
    if (disk.isMounted) expect(status.stdout).toMatch(full);
    disk.free();
    const next = await tidemark(['sync'], { env });
    expect(next.code, next.stderr).toBe(0);
    expect(await versions(env)).toEqual(new Set(['v2.example']));
  });
});

describe('a disk that is full', () => {
  it('is read from a copy elsewhere, with what is in the log', async ({ skip }) => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(3, 1));
    const disk = smallDisk(6_000);
    if (!disk.isMounted) skip('no file system can be mounted here');
    const env = environment(service.url, disk.directory);
    expect((await disk.run(['sync'], env)).code).toBe(0);
    service.lists.set(DOMAINS, domains(3, 2));
    // Killed before its log is carried over.
    const mirror = join(disk.directory, 'mirror.db');
    const reader = new Database(mirror, { readonly: true });
    reader.exec('BEGIN; SELECT count(*) FROM runs');
    expect((await disk.run(['sync'], env)).code).toBe(0);
    const log = readFileSync(`${mirror}-wal`);
    const file = readFileSync(mirror);
    reader.close();
    for (const [suffix, bytes] of [
      ['', file],
      ['-wal', log],
    ] as const)
      writeFileSync(`${mirror}${suffix}`, bytes);
    rmSync(`${mirror}-shm`, { force: true });
    spawnSync('dd', ['if=/dev/zero', `of=${join(disk.directory, 'filler')}`, 'bs=4096']);
    expect(await versions(env)).toEqual(new Set(['v2.example']));
    for (const command of [['runs'], ['show', 'domains', 'd1']]) {
      const { code, stderr } = await disk.run(command, env);
      expect(code, stderr).toBe(0);
    }
    // No failed sync could be recorded: the mirror may be older than it says.
    const status = await disk.run(['status'], env);
    expect(status).toMatchObject({ code: 3, stdout: expect.stringContaining('Complete    Yes') as string });
    expect(status.stderr).toMatch(/the disk is full: .*\n {2}→ free some space/);
    expect((await disk.run(['status', '--json'], env)).code).toBe(3);
    disk.free();
    rmSync(join(disk.directory, 'filler'));
    expect((await tidemark(['sync'], { env })).code).toBe(0);
  });
});

describe('a daemon that cannot start since the disk is full', () => {
  it('says so once, with a failed ping at each call, and closes it when it works again', async ({ skip }) => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(3, 1));
    const disk = smallDisk(6_000);
    if (!disk.isMounted) skip('no file system can be mounted here');
    const hook = await receiver({ status: 200 });
    const chat = await receiver({ status: 200 });
    const monitor = await receiver({ status: 200 });
    const home = scratch();
    writeFileSync(
      join(home, 'tidemark.yaml'),
      [
        'notices:',
        '  - { name: hook, type: webhook, url: "${HOOK}" }',
        '  - { name: drift, type: webhook, url: "${HOOK}/drift", on: [drift_new] }',
        '  - { name: chat, type: mattermost, url: "${CHAT}" }',
        'pings:',
        '  - { start: "${PING}/start", success: "${PING}", fail: "${PING}/fail" }',
        '  - { sources: [default], fail: "${PING}/own" }',
        'schedules: { sync: { cron: "0 3 * * *" } }',
        '',
      ].join('\n'),
    );
    const env = environment(service.url, disk.directory, {
      TIDEMARK_CONFIG: join(home, 'tidemark.yaml'),
      HOOK: hook.url,
      CHAT: chat.url,
      PING: monitor.url,
    });
    const said = (): string[] => chat.received.splice(0).map(({ body }) => body);
    const mirror = join(disk.directory, 'mirror.db');
    const filler = join(disk.directory, 'filler');
    const isDue = (dueAt: string): void => {
      const database = new Database(mirror);
      database.prepare(`UPDATE schedules SET due_at = ? WHERE schedule = 'sync'`).run(dueAt);
      database.close();
    };
    const notices = (): Record<string, unknown>[] =>
      hook.received.splice(0).map(({ body }) => JSON.parse(body) as Record<string, unknown>);
    const pings = (): string[] =>
      monitor.received
        .splice(0)
        .map(({ path }) => path)
        .sort();
    const once = (): Promise<Ended> => disk.run(['daemon', '--once', '--quiet'], env);
    expect((await once()).code).toBe(0);
    expect(pings()).toEqual(['/', '/start']);
    expect(notices()).toEqual([]);

    const fill = (): void => void spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4096']);
    fill();
    expect(await once()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('disk is full') as string,
    });
    // Nothing was to be done yet.
    expect([...notices(), ...pings()]).toEqual([]);

    rmSync(filler);
    isDue('2026-01-01T03:00:00.000Z');
    fill();
    const failed = await once();
    expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('disk is full') as string });
    expect(pings()).toEqual(['/fail', '/own']);
    expect(notices()).toMatchObject([
      {
        schema: 'tidemark.notice/1',
        event: 'run_failed',
        source: 'default',
        severity: 'high',
        title: 'default: the daemon could not start: the disk is full',
        error: { code: 'disk_full' },
      },
    ]);
    expect(said()).toEqual([expect.stringContaining('the daemon could not start: the disk is full')]);
    // Reported already; the monitor hears of each.
    expect((await once()).code).toBe(1);
    expect(pings()).toEqual(['/fail', '/own']);
    expect((await disk.run(['daemon', '--no-http'], env)).code).toBe(1);
    expect(notices()).toEqual([]);

    rmSync(filler);
    pings();
    const good = await once();
    expect(good.code, good.stderr).toBe(0);
    expect(pings()).toEqual(['/', '/start']);
    // The mirror does not know what was reported: every end that a program may wait for is sent.
    const ends = notices();
    expect(ends).toContainEqual(
      expect.objectContaining({ event: 'run_recovered', source: 'default', is_assumed: false }),
    );
    expect(ends.filter(({ is_assumed: isAssumed }) => isAssumed !== true)).toHaveLength(1);
    expect(said()).toEqual([
      expect.stringContaining('default: the sync works; the daemon could not start or write before'),
    ]);
    expect((await once()).code).toBe(0);
    expect([...notices(), ...said()]).toEqual([]);
    expect(readdirSync(disk.directory).filter((name) => name.includes('daemon'))).toEqual([
      'mirror.db.daemon-lock',
    ]);
  });

  it('says nothing where another daemon holds the lock', async ({ skip }) => {
    const service = await FakeService.start();
    const disk = smallDisk(6_000);
    if (!disk.isMounted) skip('no file system can be mounted here');
    const hook = await receiver({ status: 200 });
    const home = scratch();
    writeFileSync(
      join(home, 'tidemark.yaml'),
      `notices: [{ name: hook, type: webhook, url: "${hook.url}" }]\npings: [{ fail: "${hook.url}/fail" }]\n`,
    );
    const env = environment(service.url, disk.directory, { TIDEMARK_CONFIG: join(home, 'tidemark.yaml') });
    expect((await disk.run(['daemon', '--once', '--quiet'], env)).code).toBe(0);
    hook.received.splice(0);
    const mirror = join(disk.directory, 'mirror.db');
    const holder = { pid: process.pid, host: 'here', clock: systemClock };
    // That of a daemon of many mirrors, whose lock is beside the first.
    const other = await registerDaemon(join(disk.directory, 'other.db'), holder);
    const registration = await registerDaemon(mirror, holder, other);
    onTestFinished(() => {
      registration.release();
      other.release();
    });
    spawnSync('dd', ['if=/dev/zero', `of=${join(disk.directory, 'filler')}`, 'bs=4096']);
    const { code, stderr } = await disk.run(['daemon', '--no-http'], env);
    expect(code, stderr).toBe(1);
    expect(hook.received).toEqual([]);
  });
});

describe('a disk that is too small for a move', () => {
  it('leaves the old mirror as it was, and nothing beside it; with room the same command works', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(1_500, 1));
    const elsewhere = scratch();
    const made = environment(service.url, elsewhere);
    expect((await tidemark(['sync', '--quiet'], { env: made })).code).toBe(0);
    const kib = Math.ceil(statSync(join(elsewhere, 'mirror.db')).size / 1024);
    const disk = smallDisk(Math.ceil(kib * 1.5), Math.floor(kib / 2));
    copyFileSync(join(elsewhere, 'mirror.db'), join(disk.directory, 'mirror.db'));
    const env = environment(service.url, disk.directory);
    const move = ['mirror', 'move', '--to', join(disk.directory, '{source}.db')];
    expectClear(await disk.run(move, env), /^tidemark: .*disk is full/);
    const files = readdirSync(disk.directory).filter((name) => !/-(rate|lock)/.test(name));
    expect(files).toEqual(['mirror.db']);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
    expect(await versions(env)).toEqual(new Set(['v1.example']));
    disk.free();
    const next = await tidemark(move, { env });
    expect(next.code, next.stderr).toBe(0);
    const moved = { ...env, TIDEMARK_MIRROR: join(disk.directory, 'default.db') };
    expect(await versions(moved)).toEqual(new Set(['v1.example']));
    expect((await tidemark(['verify'], { env: moved })).code).toBe(0);
  });
});

describe('a disk that cannot be written', () => {
  const uid = isRoot ? { uid: NOBODY } : {};

  /** Runs the command line in this process as the owner of the directory: permissions do not bind root. */
  async function asOwner(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
    if (!isRoot) return await tidemark(args, { env });
    const [group = 0, user = 0] = [process.getegid?.(), process.geteuid?.()];
    const asBefore = (): void => {
      process.seteuid?.(user);
      process.setegid?.(group);
    };
    // Also where the command is still at work when the time of the test is over.
    onTestFinished(asBefore);
    process.setegid?.(NOBODY);
    process.seteuid?.(NOBODY);
    try {
      return await tidemark(args, { env });
    } finally {
      asBefore();
    }
  }

  /** A directory whose owner, who runs the command, may only read it. */
  function readOnly(directory: string, isReadOnly: boolean): void {
    if (isRoot) chownSync(directory, NOBODY, NOBODY);
    chmodSync(directory, isReadOnly ? 0o500 : 0o700);
  }

  it.each([
    ['the directory itself', ''],
    ['a directory that has to be made in it', 'deep'],
  ])('refuses to sync, asks nothing of the service: %s', async (_name, below) => {
    const service = await FakeService.start();
    const directory = scratch();
    readOnly(directory, true);
    const env = environment(service.url, join(directory, below));
    expectClear(await asOwner(['sync'], env), /^tidemark: /);
    const asJson = await asOwner(['sync', '--json'], env);
    expect(JSON.parse(asJson.stdout)).toMatchObject({ code: 'read_only' });
    expect(service.seen).toEqual([]);
    readOnly(directory, false);
    expect((await asOwner(['sync'], env)).code).toBe(0);
  });

  it.each([
    ['without a mirror', false],
    ['with a mirror', true],
  ])('is an error to doctor, as it is to sync: %s', async (_name, isSynced) => {
    const service = await FakeService.start();
    const directory = scratch();
    readOnly(directory, false);
    const env = environment(service.url, directory);
    if (isSynced) expect((await asOwner(['sync'], env)).code).toBe(0);
    // It asks the system, which looks at the user that the process began as.
    expect((await run(['doctor'], env, uid)).code).toBe(0);
    readOnly(directory, true);
    const { code, stdout, stderr } = await run(['doctor', '--json'], env, uid);
    const { problems } = JSON.parse(stdout) as { problems: { gravity: string; code: string }[] };
    expect([code, problems[0]]).toMatchObject([1, { gravity: 'error', code: 'mirror_unwritable' }]);
    expect(stderr).toContain(`${directory} could not be written`);
    expect((await asOwner(['sync'], env)).code).toBe(1);
    readOnly(directory, false);
  });

  it('still shows the mirror that stands on it', async () => {
    const service = await FakeService.start();
    service.lists.set(DOMAINS, domains(3, 1));
    const directory = scratch();
    readOnly(directory, false);
    const env = environment(service.url, directory);
    expect((await asOwner(['sync'], env)).code).toBe(0);
    chmodSync(join(directory, 'mirror.db'), 0o400);
    readOnly(directory, true);
    service.seen.length = 0;
    const refused = await asOwner(['sync', '--json'], env);
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.stdout)).toMatchObject({ code: 'read_only' });
    expect(service.seen).toEqual([]);
    const exported = await asOwner(['export', '--kind', 'domains'], env);
    expect([exported.code, exported.stdout.split('\n').length], exported.stderr).toEqual([0, 4]);
    expect((await asOwner(['verify'], env)).code).toBe(0);
    readOnly(directory, false);
    chmodSync(join(directory, 'mirror.db'), 0o600);
    expect((await asOwner(['sync'], env)).code).toBe(0);
  });
});
