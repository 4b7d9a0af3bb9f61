import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { open, sync } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { environment, nextSecond, program, scratch, start, tidemark } from './harness.ts';
import { FakeService, ORG } from './service.ts';
import { alterFile } from '../tools/alter.ts';

/** A mirror with one complete run, and the command line over it with backups on. */
async function mirrored(more: Readonly<Record<string, string>> = {}) {
  const home = scratch();
  const directory = join(home, 'backups');
  mkdirSync(directory);
  const path = join(home, 'mirror.db');
  const mirror = open({ path, clock: systemClock });
  await sync(mirror, 'roles', { organization_id: ORG }, ['{"id":"a","name":"A"}', '{"id":"b","name":"B"}']);
  mirror.close();
  const env = {
    PATH: process.env['PATH'] ?? '',
    TIDEMARK_MIRROR: path,
    TIDEMARK_BACKUP_TARGETS: directory,
    ...more,
  };
  const run = (...args: string[]) => commandLine(args, { env, cwd: home });
  return { run, env, home, directory, path };
}

/** In a name space of its own, as root. */
const canMount = spawnSync('unshare', ['-m', 'true']).status === 0;

/** Processes that make a backup for somebody who works in this directory. */
function workersIn(directory: string): number[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      const isOurs =
        readlinkSync(`/proc/${pid}/cwd`) === directory &&
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('backup-worker');
      return isOurs ? [Number(pid)] : [];
    } catch {
      // No process, or one that has gone meanwhile.
      return [];
    }
  });
}

const isThere = (program: string): boolean => {
  try {
    execFileSync(program, ['version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};

describe('a backup that the mirror contradicts', () => {
  it.each([
    ['a later time', '.db.zst', false],
    ['a later time and the fence of a fleet', '-fence9.db.zst', false],
    ['such a fence, alone in its target,', '-fence9.db.zst', true],
  ])(
    'of an earlier run, with %s in its name and manifest, is not restored as the latest',
    async (_what, end, isAlone) => {
      const more = { TIDEMARK_BACKUP_KEEP_LAST: '9' };
      const { run, env, home, directory, path } = await mirrored(more);
      expect(await run('backup', 'create')).toMatchObject({ code: 0 });
      const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.zst'));
      const mirror = open({ path, clock: systemClock });
      await sync(mirror, 'roles', { organization_id: ORG }, ['{"id":"a","name":"C"}']);
      mirror.close();
      expect(await run('backup', 'create')).toMatchObject({ code: 0 });
      const forged = name.replace(/\d{8}T\d{6}Z/, '20300101T000000Z').replace('.db.zst', end);
      renameSync(join(directory, name), join(directory, forged));
      const manifest = JSON.parse(readFileSync(join(directory, `${name}.json`), 'utf8')) as object;
      rmSync(join(directory, `${name}.json`));
      const altered = { ...manifest, file: forged, made_at: '2030-01-01T00:00:00.000Z' };
      writeFileSync(join(directory, `${forged}.json`), JSON.stringify(altered));
      if (isAlone) {
        const second = join(home, 'second');
        mkdirSync(second);
        for (const file of [forged, `${forged}.json`]) renameSync(join(directory, file), join(second, file));
        env.TIDEMARK_BACKUP_TARGETS = `${directory},${second}`;
      }
      for (const file of isAlone ? ['latest'] : ['latest', directory]) {
        const refused = await run('backup', 'restore', file, '--to', 'back.db');
        expect(refused.code, refused.stderr).toBe(4);
        expect(refused.stderr).toMatch(
          /run1\S*\.db\.zst is the newest by its time, but \S+run2\.db\.zst has a later run/,
        );
      }
      expect((await run('backup', 'verify', 'latest')).stderr).toContain('has a later run');
      const later = readdirSync(directory).find((each) => each.endsWith('run2.db.zst')) ?? '';
      expect(await run('backup', 'restore', later, '--to', 'back.db')).toMatchObject({ code: 0 });
    },
  );

  it('is kept by retention, and named until a person removes it', async () => {
    const { run, directory, path } = await mirrored({ TIDEMARK_BACKUP_KEEP_LAST: '1' });
    const another = async (name: string): Promise<void> => {
      const mirror = open({ path, clock: systemClock });
      await sync(mirror, 'roles', { organization_id: ORG }, [`{"id":"a","name":"${name}"}`]);
      mirror.close();
    };
    const older = readFileSync(path);
    await another('B');
    const first = await run('backup', 'create', '--json');
    const { manifest } = JSON.parse(first.stdout) as { manifest: { file: string } };
    // The mirror as it was before.
    for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    writeFileSync(path, older);
    await another('C');
    await nextSecond();
    const made = await run('backup', 'create');
    expect(made.code, made.stderr).toBe(0);
    expect(made.stdout).toContain(`1 backup (${manifest.file}) is not in the chain of this mirror`);
    expect(existsSync(join(directory, manifest.file))).toBe(true);
    for (const command of [['backup', 'list'], ['status']])
      expect((await run(...command)).stdout.replaceAll(/\s+/g, ' '), command.join(' ')).toContain(
        `1 backup (${manifest.file}) is not in the chain of this mirror`,
      );
    // The other one is not one of its own.
    expect((await run('status')).stdout).toMatch(/Backups: 1, the latest .*, as of run 2,/);
    await nextSecond();
    // What the mirror has in its chain goes by the rules, and the other one stays.
    const third = JSON.parse((await run('backup', 'create', '--json')).stdout) as {
      removed: string[];
      targets: { contradicting: string[] }[];
    };
    expect(third.removed).toHaveLength(1);
    expect(third.targets.map(({ contradicting }) => contradicting)).toEqual([[manifest.file]]);
    for (const name of [manifest.file, `${manifest.file}.json`]) rmSync(join(directory, name));
    expect((await run('backup', 'list')).stdout).not.toContain('not in the chain');
  });
});

describe('backups elsewhere', () => {
  it('are made, listed, verified and put back, encrypted, by the real command line', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Admins' }]);
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const identity = await generateIdentity();
    writeFileSync(join(home, 'key.txt'), `${identity}\n`);
    const env = environment(service.url, home, {
      TIDEMARK_BACKUP_TARGETS: directory,
      TIDEMARK_BACKUP_RECIPIENTS: JSON.stringify([await identityToRecipient(identity)]),
    });
    expect(await tidemark(['sync', '--quiet'], { env })).toMatchObject({ code: 0 });
    const made = await tidemark(['backup', 'create', '--json'], { env });
    expect(made).toMatchObject({ code: 0, stderr: '' });
    const { path } = JSON.parse(made.stdout) as { path: string };
    expect(readdirSync(directory).every((name) => /\.zst\.age(\.json)?$/.test(name))).toBe(true);
    for (const name of readdirSync(directory))
      expect(readFileSync(join(directory, name), 'latin1')).not.toContain('Admins');

    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    expect(await run('backup', 'verify')).toMatchObject({ code: 3 });
    expect((await run('backup', 'verify', path)).stdout).toMatch(
      /the file matches the checksum in its manifest: [0-9a-f]{64}\n→ only the holder of the identity can verify the content: give --identity FILE/,
    );
    const verified = await run('backup', 'verify', path, '--identity', 'key.txt');
    expect(verified, verified.stderr).toMatchObject({ code: 0 });
    expect(verified.stdout).toMatch(
      /verified \d+ records, .*\nsources in it: default\nthe file matches the checksum in its manifest: [0-9a-f]{64}\nroot hash of run 1/,
    );

    const closed = await run('backup', 'restore', 'latest', '--to', 'back/to/m.db');
    expect(closed).toMatchObject({ code: 4, stdout: '' });
    expect(closed.stderr).toContain(`${path} is encrypted\n  → give the file of an age identity`);
    const restored = await tidemark(
      ['backup', 'restore', 'latest', '--to', 'back/to/m.db', '--identity', 'key.txt'],
      { env, cwd: home },
    );
    expect(restored, restored.stderr).toMatchObject({ code: 0, stderr: '' });
    expect(statSync(join(home, 'back')).mode & 0o777).toBe(0o700);
    const shown = await commandLine(['show', 'plugins', '1'], {
      env: { ...env, TIDEMARK_MIRROR: join(home, 'back/to/m.db') },
      cwd: home,
    });
    expect(shown.stdout).toContain('Admins');
    expect(
      await run('backup', 'restore', 'latest', '--to', 'back/to/m.db', '--identity', 'key.txt'),
    ).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/exists already[\s\S]*move it away with its -wal and -shm/) as string,
    });
    expect(readdirSync(home).filter((name) => name.endsWith('-work'))).toEqual([]);
    // Of a damaged mirror, every command names the key as well.
    alterFile(env['TIDEMARK_MIRROR'] ?? '', "UPDATE records SET body = replace(body, 'Admins', 'Others')");
    for (const command of ['verify', 'status']) {
      const { stdout, stderr } = await run(command);
      expect(stdout + stderr, command).toMatch(/`tidemark backup restore latest --to \S+ --identity FILE`/);
      expect(stdout + stderr).not.toMatch(/`tidemark backup restore latest --to [^ `]+`/);
    }
  });

  it.each([
    ['cut', (path: string) => writeFileSync(path, readFileSync(path).subarray(1)), 'is damaged (it has '],
    ['gone', (path: string) => rmSync(path), 'is gone (only its manifest is there)'],
    ['without manifest', (path: string) => rmSync(`${path}.json`), 'is unlisted (it has no manifest)'],
  ])('the newest one is %s: the one before is used only with a word of it', async (_how, spoil, expected) => {
    const service = await FakeService.start();
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const kept = { TIDEMARK_BACKUP_TARGETS: directory, TIDEMARK_BACKUP_KEEP_LAST: '9' };
    const env = environment(service.url, home, kept);
    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    const files = (): string[] => readdirSync(directory).filter((name) => !name.endsWith('.json'));
    for (const round of [1, 2]) {
      await run('sync', '--quiet');
      await run('backup', 'create');
      expect(files()).toHaveLength(round);
    }
    const [before = '', newest = ''] = files().sort((a, b) =>
      a.includes('-run2') ? 1 : b.includes('-run2') ? -1 : 0,
    );
    expect((await run('backup', 'verify')).code).toBe(0);
    spoil(join(directory, newest));
    for (const args of [[directory], ['latest'], []]) {
      const { code, stdout, stderr } = await run('backup', 'verify', ...args);
      expect([code, stdout]).toEqual([1, expect.stringContaining(`${before}: verified`)]);
      expect(stderr).toContain(`${newest} is newer than ${before}, and ${expected}`);
    }
    const { code, stdout } = await run('backup', 'verify', '--json');
    expect([code, JSON.parse(stdout)]).toMatchObject([1, { passed_over: [{ file: newest }] }]);
    const restored = await run('backup', 'restore', 'latest', '--to', 'back.db', '--quiet');
    expect([restored.code, restored.stderr]).toEqual([
      0,
      expect.stringContaining(`${newest} is newer than ${before}, and ${expected}`),
    ]);
    // One that is named is the one that is meant.
    expect(await run('backup', 'verify', before)).toMatchObject({ code: 0, stderr: '' });
  });

  it('a damaged one that is the only one is named, with 1; so is one under the name of another', async () => {
    const service = await FakeService.start();
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const env = environment(service.url, home, { TIDEMARK_BACKUP_TARGETS: directory });
    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    expect(await run('backup', 'verify', directory)).toMatchObject({ code: 4 });
    // Not damaged: it is not there.
    for (const args of [['verify'], ['restore', '--to', join(home, 'to.db')]])
      expect(await run('backup', ...args, 'nope')).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('nope could not be read: there is no such file') as unknown,
      });
    expect(await run('sync', '--quiet')).toMatchObject({ code: 0 });
    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
    const [name = ''] = readdirSync(directory);
    const path = join(directory, name);
    const whole = readFileSync(path);
    writeFileSync(path, whole.subarray(1));
    for (const args of [[directory], ['latest'], []]) {
      const { code, stderr } = await run('backup', 'verify', ...args);
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`no backup in ${directory} is complete: ${name} is damaged (it has `),
      ]);
    }
    writeFileSync(path, whole);
    const other = name.replace(/-run1\b/, '-run2');
    renameSync(path, join(directory, other));
    renameSync(`${path}.json`, join(directory, `${other}.json`));
    for (const file of [other, join('backups', other)]) {
      const { code, stderr } = await run('backup', 'verify', file);
      expect(code).toBe(1);
      expect(stderr).toContain(`${other} is damaged: its manifest is that of ${name}`);
    }
    // A manifest that says another run than the mirror in the file.
    const manifest = readFileSync(join(directory, `${other}.json`), 'utf8');
    renameSync(join(directory, other), join(home, 'moved.zst'));
    writeFileSync(join(home, 'moved.zst.json'), manifest.replace('"run": 1,', '"run": 99,'));
    const edited = await run('backup', 'verify', 'moved.zst');
    expect(edited.code).toBe(1);
    expect(edited.stderr).toContain(
      'moved.zst is not what its manifest says: run is 99 there, and 1 in the file',
    );
    renameSync(join(home, 'moved.zst'), join(directory, other));
    // Under a name that says nothing, it is what its manifest says.
    renameSync(join(directory, other), join(home, 'copy.zst'));
    renameSync(join(directory, `${other}.json`), join(home, 'copy.zst.json'));
    expect(await run('backup', 'verify', 'copy.zst')).toMatchObject({ code: 0 });
  });

  it('of several mirrors in one target: latest is that of the configured one; without it, one has to be named', async () => {
    const service = await FakeService.start();
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const envOf = (name: string): Record<string, string> => ({
      ...environment(service.url, home, { TIDEMARK_BACKUP_TARGETS: directory }),
      TIDEMARK_MIRROR: join(home, `${name}.db`),
    });
    const run = (name: string, ...args: string[]) => commandLine(args, { env: envOf(name), cwd: home });
    for (const name of ['one', 'two']) {
      service.set('plugins', [{ id: 1, name }]);
      expect(await run(name, 'sync', '--quiet')).toMatchObject({ code: 0 });
      expect(await run(name, 'backup', 'create')).toMatchObject({ code: 0 });
    }
    const listed = (await run('one', 'backup', 'list')).stdout;
    expect(listed).toMatch(/state +mirror +sources\n/);
    expect((await run('one', 'status')).stdout).toMatch(
      /\nBackups: 1, the latest .*\n {2}there are also backups made by another mirror, the latest of 2\S+Z: `tidemark backup list` names them\n/,
    );
    expect(listed).toMatch(
      /complete +[0-9a-f]{8} +default\n[\s\S]*complete +[0-9a-f]{8} \(configured\) +default/,
    );
    for (const [place, to] of [
      ['latest', 'a.db'],
      [directory, 'b.db'],
    ] as const) {
      const restored = await run('one', 'backup', 'restore', place, '--to', to);
      expect(restored, restored.stderr).toMatchObject({ code: 0 });
      expect((await run(to.slice(0, 1), 'show', 'plugins', '1')).stdout).toContain('one');
    }
    const unclear = await run('none', 'backup', 'restore', directory, '--to', 'c.db');
    expect(unclear).toMatchObject({ code: 4, stdout: '' });
    expect(unclear.stderr).toMatch(
      /has backups of several mirrors: \S+\.zst of mirror [0-9a-f]{8}, default, 1 run, made .*; \S+\.zst of mirror [0-9a-f]{8}, default, .*\n +→ name the one that you mean/,
    );
    rmSync(directory, { recursive: true });
    mkdirSync(directory);
    expect(await run('two', 'backup', 'create')).toMatchObject({ code: 0 });
    expect(await run('none', 'backup', 'verify', directory)).toMatchObject({ code: 0 });
  });

  it('of two mirrors with different sources in one target: latest is that of each, also where one gets the source of the other', async () => {
    const service = await FakeService.start();
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const envOf = (name: string): Record<string, string> => ({
      ...environment(service.url, home, { TIDEMARK_BACKUP_TARGETS: directory, TIDEMARK_NAME: name }),
      TIDEMARK_MIRROR: join(home, `${name}.db`),
    });
    const run = (name: string, ...args: string[]) => commandLine(args, { env: envOf(name), cwd: home });
    for (const name of ['production', 'staging']) {
      service.set('plugins', [{ id: 1, name }]);
      expect(await run(name, 'sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
      expect(await run(name, 'backup', 'create')).toMatchObject({ code: 0, stderr: '' });
    }
    for (const name of ['production', 'staging']) {
      const restored = await run(name, 'backup', 'restore', 'latest', '--to', `${name}-back.db`);
      expect(restored, restored.stderr).toMatchObject({ code: 0 });
      expect(restored.stdout).toContain(`sources in it: ${name}\n`);
    }
    const env = { ...envOf('staging'), TIDEMARK_MIRROR: join(home, 'production.db') };
    const created = await commandLine(['backup', 'create'], { env, cwd: home });
    expect(created, 'production.db is older').toMatchObject({ code: 0, stderr: '' });
    const restored = await commandLine(['backup', 'restore', 'latest', '--to', 'c.db'], { env, cwd: home });
    expect(restored, restored.stderr).toMatchObject({ code: 0 });
    expect(restored.stdout).toContain('sources in it: production\n');
  });

  it('of a mirror whose file was emptied: the sync that begins a new one in it says so', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Admins' }]);
    const home = scratch();
    const env = environment(service.url, home, { TIDEMARK_BACKUP_TARGETS: join(home, 'backups') });
    mkdirSync(join(home, 'backups'));
    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    expect(await run('sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
    expect(await run('backup', 'create')).toMatchObject({ code: 0, stderr: '' });
    writeFileSync(join(home, 'mirror.db'), '');
    const anew = await run('sync', '--quiet');
    expect(anew).toMatchObject({ code: 0, stdout: '' });
    expect(anew.stderr).toMatch(
      /^tidemark: a new mirror is begun without history, although \S+\/backups has backups of default from another mirror/,
    );
  });

  it('of a mirror that was begun without history, beside those of the true one: nothing is endangered or mixed up', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Admins' }]);
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    mkdirSync(join(home, 'volume'));
    const env = environment(service.url, home, {
      TIDEMARK_BACKUP_TARGETS: directory,
      TIDEMARK_BACKUP_KEEP_LAST: '1',
      TIDEMARK_MIRROR: join(home, 'volume/mirror.db'),
    });
    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    expect(await run('sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
    expect(await run('backup', 'create')).toMatchObject({ code: 0, stderr: '' });
    const [name = ''] = readdirSync(directory);
    const files = readdirSync(directory);

    // The volume is not mounted: its directory is there, and empty.
    renameSync(join(home, 'volume'), join(home, 'away'));
    mkdirSync(join(home, 'volume'));
    const anew = await run('sync', '--quiet');
    expect(anew).toMatchObject({ code: 0, stdout: '' });
    expect(anew.stderr).toMatch(
      /^tidemark: a new mirror is begun without history, although \S+\/backups has backups of default from another mirror, .*\(run 1\): is the mirror's volume mounted\?\n/,
    );
    expect((await run('status')).stdout).toMatch(/is the mirror's volume mounted\? \([^)]+\)\n/);
    expect((await run('backup', 'list')).stdout, 'it is not of the configured mirror').toMatch(
      /complete +[0-9a-f]{8} +default\n$/,
    );
    for (let times = 0; times < 3; times += 1) {
      const made = await run('backup', 'create');
      expect(made).toMatchObject({ code: 0 });
      expect(made.stderr).toMatch(/^tidemark: the mirror was begun at .* without history/);
    }
    expect(readdirSync(directory)).toEqual(expect.arrayContaining(files));
    expect(readdirSync(directory), 'one of each mirror, with its manifest').toHaveLength(4);

    const refused = await run('backup', 'restore', 'latest', '--to', 'back.db');
    expect(refused).toMatchObject({ code: 4, stdout: '' });
    expect(refused.stderr).toContain(
      'the configured one was begun after backups of another one had been made',
    );
    expect(refused.stderr).toContain(name);
    expect(existsSync(join(home, 'back.db'))).toBe(false);
    const named = await run('backup', 'restore', name, '--to', 'back.db');
    expect(named, named.stderr).toMatchObject({ code: 0 });
    expect(named.stdout).toMatch(new RegExp(`\nfrom ${name}, made .*\nsources in it: default\n`));
    expect(await run('backup', 'verify', 'latest')).toMatchObject({ code: 0 });

    // A baseline says that a person goes on with the new one.
    expect(await run('snapshots', 'pin', 'new', '--baseline')).toMatchObject({ code: 0 });
    expect((await run('backup', 'create')).stderr).toBe('');
    expect(await run('backup', 'restore', 'latest', '--to', 'new.db')).toMatchObject({ code: 0 });
  });

  it('restored where the source has another name: the restore and the next sync say so', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Admins' }]);
    const home = scratch();
    mkdirSync(join(home, 'backups'));
    const env = (name: string) =>
      environment(service.url, home, {
        TIDEMARK_BACKUP_TARGETS: join(home, 'backups'),
        TIDEMARK_NAME: name,
      });
    const run = (name: string, ...args: string[]) => commandLine(args, { env: env(name), cwd: home });
    expect(await run('production', 'sync', '--quiet')).toMatchObject({ code: 0 });
    expect(await run('production', 'backup', 'create')).toMatchObject({ code: 0 });
    const path = env('production')['TIDEMARK_MIRROR'] ?? '';
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    const restored = await run('default', 'backup', 'restore', 'latest', '--to', path);
    expect(restored, restored.stderr).toMatchObject({ code: 0 });
    expect(restored.stdout).toContain(
      'sources in it: production\n→ the configuration has default, and not production: give the source the name that it had (`name: production`, or TIDEMARK_NAME=production)',
    );
    const bare = scratch();
    const before = await commandLine(['backup', 'restore', join(home, 'backups'), '--to', 'data/mirror.db'], {
      env: {},
      cwd: bare,
    });
    expect(before.stdout).toContain('→ no source is configured yet: give it the name that it had');
    expect(before.stdout).toContain('→ this is where commands look for the mirror');
    const beside = await commandLine(['backup', 'restore', join(home, 'backups'), '--to', 'other.db'], {
      env: {},
      cwd: scratch(),
    });
    expect(beside.stdout).not.toContain('-wal');
    const others =
      'default begins without history, and the mirror holds that of production, which is not configured';
    const remedy = 'if it is the same service, stop, and give the source its old name: `name: production`';
    const checked = await run('default', 'config', 'check');
    expect(checked.stdout).toContain(`warning: ${others}: ${remedy}`);
    expect((await run('production', 'config', 'check')).stdout).not.toContain('begins without history');
    const doctor = await run('default', 'doctor', '--json');
    expect(doctor.code).toBe(0);
    expect((JSON.parse(doctor.stdout) as { problems: object[] }).problems).toContainEqual({
      gravity: 'warning',
      code: 'other_sources',
      source: 'default',
      message: others,
      next: expect.stringContaining(remedy) as string,
    });
    const synced = await run('default', 'sync', '--quiet');
    expect(synced).toMatchObject({ code: 0 });
    expect(synced.stderr).toMatch(
      /^tidemark: default begins without history, and the mirror holds that of production, which is not configured\n/,
    );
    expect(await run('default', 'sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
  });

  it('are listed with what is wrong with them', async () => {
    const { run, directory } = await mirrored();
    expect(await run('backup', 'list')).toMatchObject({
      code: 0,
      stdout: `no backups in ${directory} yet\n`,
    });
    expect(await run('backup', 'verify')).toMatchObject({ code: 4 });
    expect(await run('backup', 'create')).toMatchObject({ code: 0, stderr: '' });
    writeFileSync(join(directory, 'tidemark-20260101T000000Z-run9.db.zst'), 'x');
    const listed = await run('backup', 'list');
    expect(listed.stdout).toMatch(/-run1\.db\.zst +(just now|\S+ s ago) +1 +0\.\d MB +no +complete\n/);
    expect(listed.stdout).toMatch(/-run9\.db\.zst .* unlisted: it has no manifest\n/);
    const { schema, backups } = JSON.parse((await run('backup', 'list', '--json')).stdout) as {
      schema: string;
      backups: object[];
    };
    expect(schema).toBe('tidemark.backups/1');
    expect(backups).toMatchObject([
      { state: 'whole', run: 1, sources: [{ source: 'production' }] },
      { state: 'unlisted' },
    ]);
    expect(await run('backup', 'verify', 'tidemark-20260101T000000Z-run9.db.zst')).toMatchObject({
      code: 4,
    });
  });

  it('that are not configured, or whose disk is not there, are said in one line', async () => {
    const { run, directory } = await mirrored({ TIDEMARK_BACKUP_TARGETS: '/no/such/disk' });
    expect(directory).not.toBe('/no/such/disk');
    const missing = await run('backup', 'create');
    expect(missing).toMatchObject({ code: 1, stdout: '' });
    expect(missing.stderr).toBe(
      'tidemark: the directory for backups, /no/such/disk, does not exist\n  → mount the disk that belongs there, or create the directory\n',
    );
    const { run: off } = await mirrored({ TIDEMARK_BACKUP_TARGETS: '' });
    for (const command of ['list', 'create', 'verify']) {
      expect(await off('backup', command)).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('backup.targets') as string,
      });
    }
    const { run: half } = await mirrored({ TIDEMARK_BACKUP_TARGETS: '', TIDEMARK_BACKUP_EVERY: '1h' });
    expect(await half('backup', 'list')).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/targets.*missing/) as string,
    });
  });

  it('of which a target cannot be reached: restore names the newest of the others, verify takes it', async () => {
    const { run, env, home, directory, path } = await mirrored();
    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.zst'));
    // Looked for in the environment of the process, which is this one.
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    onTestFinished(() => void vi.unstubAllEnvs());
    // Nobody listens on port 1.
    const bucket = 's3://backups/tm?endpoint=http://127.0.0.1:1&region=us-east-1';
    const away = (...args: string[]) =>
      commandLine(args, {
        env: {
          ...env,
          TIDEMARK_BACKUP_TARGETS: `${directory},${bucket}`,
        },
        cwd: home,
      });
    const unreached = 's3://backups/tm could not be listed: no answer (ECONNREFUSED)';

    for (const args of [['verify'], ['verify', 'latest']]) {
      const verified = await away('backup', ...args);
      expect(verified, verified.stderr).toMatchObject({ code: 3 });
      expect(verified.stdout).toContain(`${name}: verified 2 records`);
      expect(verified.stderr).toContain(unreached);
    }
    const { code, stdout } = await away('backup', 'verify', '--json');
    expect(code).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ unread: [{ address: 's3://backups/tm', error: unreached }] });
    expect(JSON.parse((await run('backup', 'verify', '--json')).stdout)).toMatchObject({ unread: [] });
    // The mirror is lost, as it is when this is needed.
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    writeFileSync(join(home, 'my key.txt'), `${await generateIdentity()}\n`);
    const args = ['--to', 'back.db', '--identity', 'my key.txt'];
    const refused = await away('backup', 'restore', 'latest', ...args);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toContain(`${unreached}. A newer backup than in the other targets may be there\n`);
    const command = `tidemark backup restore ${name} --to back.db --identity 'my key.txt'`;
    expect(refused.stderr).toMatch(
      /; or restore the newest of the other targets, made (just now|\S+ s ago): /,
    );
    expect(refused.stderr).toContain(`: \`${command}\`\n`);
    expect(existsSync(join(home, 'back.db'))).toBe(false);
    expect(await away('backup', 'restore', name, ...args)).toMatchObject({ code: 0 });
    // With nothing in the other one, there is none to name.
    rmSync(directory, { recursive: true });
    mkdirSync(directory);
    const none = await away('backup', 'restore', 'latest', '--to', 'again.db');
    expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining(`${unreached}\n`) as string });
    expect(await away('backup', 'verify')).toMatchObject({ code: 3, stdout: '' });
  });

  it('of which the file in the first target is damaged: that is named, and the same backup in the second is read', async () => {
    const { env, home, directory } = await mirrored();
    const second = join(home, 'second');
    mkdirSync(second);
    const run = (...args: string[]) =>
      commandLine(args, { env: { ...env, TIDEMARK_BACKUP_TARGETS: `${directory},${second}` }, cwd: home });
    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.zst'));
    const whole = readFileSync(join(directory, name));
    const rotten = Buffer.from(whole);
    rotten[whole.length - 20] = (rotten[whole.length - 20] ?? 0) ^ 1;
    writeFileSync(join(directory, name), rotten);
    const instead = `  → reading the same backup at ${join(second, name)} instead\n`;
    for (const file of ['latest', name]) {
      const verified = await run('backup', 'verify', file);
      expect(verified, file).toMatchObject({ code: 1 });
      expect(verified.stdout).toContain(`${name}: verified 2 records`);
      expect(verified.stderr).toContain(join(directory, name));
      expect(verified.stderr).toContain(instead);
      const restored = await run('backup', 'restore', file, '--to', `${file}.db`);
      expect(restored, restored.stderr).toMatchObject({ code: 0 });
      expect(restored.stderr).toContain(instead);
    }
    // The path names one file.
    expect(await run('backup', 'verify', join(directory, name))).toMatchObject({ code: 1, stdout: '' });
    expect(await run('backup', 'verify', join(second, name))).toMatchObject({ code: 0 });
    writeFileSync(join(second, name), rotten);
    const lost = await run('backup', 'restore', 'latest', '--to', 'lost.db');
    expect(lost).toMatchObject({ code: 1, stdout: '' });
    expect(existsSync(join(home, 'lost.db'))).toBe(false);
  });

  it('of which the only one is away: verify says 3, as nothing was found damaged, and 1 once it was', async () => {
    const { run, env, home, directory } = await mirrored();
    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.zst'));
    renameSync(directory, `${directory}.away`);
    const bucket = 's3://backups/tm?endpoint=http://127.0.0.1:1&region=us-east-1';
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    onTestFinished(() => void vi.unstubAllEnvs());
    for (const args of [[], ['latest'], [name], [directory], [bucket], [bucket.replace('?', `/${name}?`)]]) {
      const { code, stderr } = await run('backup', 'verify', ...args);
      expect([code, stderr], args.join(' ')).toEqual([
        3,
        expect.stringMatching(/does not exist|no answer \(ECONNREFUSED\)/),
      ]);
    }
    const { stdout } = await run('backup', 'verify', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ code: 'target_unread', exit_code: 3 });
    const ofTwo = await commandLine(['backup', 'verify'], {
      env: { ...env, TIDEMARK_BACKUP_TARGETS: `${directory},${bucket}` },
      cwd: home,
    });
    expect(ofTwo, 'both are named').toMatchObject({
      code: 3,
      stderr: expect.stringMatching(/does not exist; s3:.*no answer \(ECONNREFUSED\)/) as string,
    });
    renameSync(`${directory}.away`, directory);
    truncateSync(join(directory, name), 100);
    expect(await run('backup', 'verify')).toMatchObject({ code: 1 });
    const both = { ...env, TIDEMARK_BACKUP_TARGETS: `${directory},${bucket}` };
    const verified = await commandLine(['backup', 'verify'], { env: both, cwd: home });
    expect(verified, 'the other one is away').toMatchObject({ code: 1 });
    expect(verified.stderr).toContain('no answer (ECONNREFUSED)');
  });

  it('leave no lock behind: not after an error, not when ended by SIGTERM, and verify needs no mirror', async () => {
    const { run, env, home, directory } = await mirrored();
    const left = (): string[] => readdirSync(home).filter((name) => /-(lock|work)$/.test(name));
    const before = left();
    expect((await run('backup', 'create')).code).toBe(0);
    expect((await run('backup', 'verify')).code).toBe(0);
    expect(left()).toEqual(before);
    const file = join(directory, readdirSync(directory).find((name) => name.endsWith('.zst')) ?? '');

    const { child, ended } = start(['backup', 'verify', file], { env, cwd: home });
    const lock = join(home, 'mirror.db-backup-check-lock');
    while (!existsSync(lock) && child.exitCode === null) await delay(1);
    child.kill('SIGTERM');
    await ended;
    expect(left()).toEqual(before);

    // The machine that has the backups only: there is no directory for a mirror.
    const bare = { PATH: env.PATH, TIDEMARK_MIRROR: join(scratch(), 'data/mirror.db') };
    const elsewhere = await commandLine(['backup', 'verify', file], { env: bare, cwd: home });
    expect(elsewhere, elsewhere.stderr).toMatchObject({ code: 0 });

    writeFileSync(file, 'x');
    expect((await run('backup', 'verify', file)).code).toBe(1);
    rmSync(directory, { recursive: true });
    for (const command of ['create', 'list', 'verify']) {
      const failed = await run('backup', command);
      expect(failed.code).toBe(command === 'verify' ? 3 : 1);
      // By hand, nothing tries again.
      expect(failed.stderr).not.toMatch(/tried again|next backup/);
    }
    expect(left()).toEqual(before);
  });

  it('end as partial when the command after them fails, and stand', async () => {
    const command = JSON.stringify(['sh', '-c', 'echo the remote is full >&2; exit 1']);
    const { run, directory } = await mirrored();
    writeFileSync(join(directory, '../tidemark.yaml'), `backup: { command: ${command} }\n`);
    const made = await run('backup', 'create');
    expect(made).toMatchObject({ code: 3, stdout: expect.stringMatching(/^run 1 backed up to /) as string });
    expect(made.stderr).toMatch(
      /the command after the backup \(sh\) ended with exit code 1: the remote is full\n {2}→ the backup itself is complete/,
    );
    expect(await run('backup', 'verify')).toMatchObject({ code: 0 });
  });

  it('give the command after them what it needs, and none of the secrets of the configuration', async () => {
    const given = {
      HOOK_PATH: 'services/T0/B0',
      HMAC: 'sign-with-this',
      PING: 'https://ping.example/abcdef',
      SAME_PING: 'https://ping.example/abcdef',
      SVC_KEY: 'the-key-of-the-service',
      RESTIC_PASSWORD: 'its own',
      AWS_ACCESS_KEY_ID: 'its own too',
    };
    const { run, home } = await mirrored({ ...given, TIDEMARK_LOG_LEVEL: 'warn' });
    writeFileSync(
      join(home, 'tidemark.yaml'),
      `sources: [{ name: production, baseUrl: "https://service.example", apiKey: "\${SVC_KEY}" }]
backup: { command: [sh, -c, "env > seen; cat $TIDEMARK_BACKUP_MANIFEST > manifest"] }
notices: [{ name: ops, type: webhook, url: "https://hooks.example/\${HOOK_PATH}", secret: "\${HMAC}" }]
pings: [{ success: "\${PING}" }]
`,
    );
    const made = await run('backup', 'create');
    expect(made, made.stderr).toMatchObject({ code: 0 });
    const seen = readFileSync(join(home, 'backups/seen'), 'utf8').split('\n');
    const names = seen.map((line) => line.split('=')[0]);
    expect(names).toEqual(expect.arrayContaining(['PATH', 'RESTIC_PASSWORD', 'AWS_ACCESS_KEY_ID']));
    for (const name of ['HOOK_PATH', 'HMAC', 'PING', 'SAME_PING', 'SVC_KEY', 'TIDEMARK_LOG_LEVEL'])
      expect(names, name).not.toContain(name);
    expect(names.filter((name) => name?.startsWith('TIDEMARK_')).sort()).toEqual([
      'TIDEMARK_BACKUP_DIRECTORY',
      'TIDEMARK_BACKUP_FILE',
      'TIDEMARK_BACKUP_MANIFEST',
    ]);
    expect(JSON.parse(readFileSync(join(home, 'backups/manifest'), 'utf8'))).toMatchObject({ run: 1 });
  });

  if (!canMount) console.warn('no file system can be mounted here: a full disk is not tried');

  it.runIf(canMount)('leave nothing that looks whole where the disk fills up', async () => {
    const { env, home, directory, run } = await mirrored();
    const script = `mount -t tmpfs -o size=4k none "$1" && { "$2" "$3" backup create; code=$?; ls -A "$1"; exit $code; }`;
    const tried = spawnSync(
      'unshare',
      ['-m', 'sh', '-c', script, 'sh', directory, process.execPath, program],
      {
        env,
        cwd: home,
        encoding: 'utf8',
      },
    );
    expect(tried).toMatchObject({ status: 1, stdout: '' });
    expect(tried.stderr).toMatch(/^tidemark: .* could not be written: the disk is full\n {2}→ .*\n$/);
    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
  });

  it('status names the newest of them, and the target that cannot be read', async () => {
    const gone = '/no/such/disk';
    const { run, directory, home } = await mirrored();
    expect((await run('backup', 'create')).code).toBe(0);
    const env = {
      TIDEMARK_MIRROR: join(home, 'mirror.db'),
      TIDEMARK_BACKUP_TARGETS: `${gone}, ${directory}`,
    };
    const { stdout } = await commandLine(['status'], { env, cwd: home });
    expect(stdout).toMatch(
      /^Backups: 1, the latest .*, as of run 1, .*\n {2}not readable: .*\/no\/such\/disk/m,
    );
    const only = { ...env, TIDEMARK_BACKUP_TARGETS: gone };
    expect((await commandLine(['status'], { env: only, cwd: home })).stdout).toMatch(
      /^Backups: not readable: .*\/no\/such\/disk/m,
    );
  });

  it('status says that a bucket was not asked, and what lists it', async () => {
    const { home } = await mirrored();
    const bucket = 's3://backups/tm?endpoint=http://127.0.0.1:1&region=us-east-1';
    const statusOf = async (targets: string): Promise<string> => {
      const env = { TIDEMARK_MIRROR: join(home, 'mirror.db'), TIDEMARK_BACKUP_TARGETS: targets };
      return (await commandLine(['status'], { env, cwd: home })).stdout;
    };
    expect(await statusOf(bucket)).toMatch(
      /^Backups: the bucket was not asked; `tidemark backup list` lists what is there$/m,
    );
    expect(await statusOf(`${bucket}, s3://other`)).toMatch(/^Backups: the buckets were not asked;/m);
    expect(await statusOf(`${home}, ${bucket}`)).toMatch(
      /^Backups: none yet; one is due every .*\n {2}the bucket was not asked; `tidemark backup list` lists/m,
    );
    expect((await statusOf(home)).replaceAll(/\s+/g, ' ')).toMatch(
      /Backups: none yet; one is due every \S+ h, and nothing makes it: no daemon is running, and nothing calls `daemon --once`: `tidemark backup create` makes one now/,
    );
  });

  it('made by hand, that find the mirror damaged, are known to status as a verification is', async () => {
    const { run, path } = await mirrored();
    expect((await run('backup', 'create')).code).toBe(0);
    expect((await run('status')).stdout).toMatch(/^ *Verified +Not yet/m);
    const other = new Database(path);
    other.prepare('UPDATE records SET body = replace(body, ?, ?)').run('"B"', '"X"');
    other.close();
    const failed = await run('backup', 'create');
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toContain(path);
    const { stdout } = await run('status');
    expect(stdout).toMatch(/^ *Verified +No +found damaged/m);
    expect(stdout.split('Needs attention:')[1]).toMatch(/the last backup failed: .*\n +→ `tidemark verify`/);
  });

  it('made by hand, that find the mirror damaged while another process writes it, do not say that one was made', async () => {
    const { run, path } = await mirrored();
    const other = new Database(path);
    other.prepare('UPDATE records SET body = replace(body, ?, ?)').run('"B"', '"X"');
    other.close();
    const writer = open({ path, clock: systemClock });
    const failed = await run('backup', 'create');
    writer.close();
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toContain('`tidemark status` will not know that this backup failed: ');
    expect(failed.stderr).not.toContain('not recorded');
  });

  it('made by hand while another process writes the mirror, say in one line that they are in their targets alone', async () => {
    const { run, path } = await mirrored();
    const writer = open({ path, clock: systemClock });
    const made = await run('backup', 'create');
    writer.close();
    expect(made.code).toBe(0);
    const lines = made.stderr.split('\n').filter((line) => line.includes('not recorded'));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(
      /^tidemark: this backup is not recorded in the mirror, though `tidemark status` and the daemon find it in its target: .*; waited 3 s for it$/,
    );
    const { stdout } = await run('status');
    expect(stdout).toContain('Backups: 1, the latest');
  });

  it('made by hand, end the failure of the daemon; so does a configuration without the target that failed', async () => {
    const { run, directory, path } = await mirrored();
    const at = new Date(systemClock.now() - 60_000).toISOString();
    const fail = (target: string): void => {
      const begun = { name: 'backup', source: null, trigger: 'after_run', startedAt: at } as const;
      const targets = [{ address: target, error: `${target} is away` }];
      const mirror = open({ path, clock: systemClock });
      mirror.daemon.finishJob(mirror.daemon.beginJob(begun), {
        ...{ finishedAt: at, outcome: 'partial', run: null, errorCode: 'file_system' },
        error: `${target} is away`,
        summary: { job: 'backup', file: 'some', targets },
      });
      mirror.close();
    };
    fail(directory);
    expect((await run('status')).stdout).toContain(`${directory} is away`);
    expect(await run('backup', 'create')).toMatchObject({ code: 0, stderr: '' });
    expect((await run('status')).stdout).not.toContain('is away');
    const mirror = open({ path, clock: systemClock, mode: 'read' });
    const [job] = mirror.daemon.jobs({ name: 'backup', limit: 1 });
    mirror.close();
    expect(job).toMatchObject({ outcome: 'done', error: null, run: null });
    expect(job?.trigger).toMatch(/^request/);
    expect(job?.summary).toMatchObject({ targets: [{ address: directory, error: null }] });

    fail('s3://other/prefix');
    expect((await run('status')).stdout).not.toContain('is away');
  });

  it('are made by the daemon after a complete run, where one is due', async () => {
    const service = await FakeService.start();
    const home = scratch();
    const directory = join(home, 'backups');
    mkdirSync(directory);
    const env = environment(service.url, home, {
      TIDEMARK_BACKUP_TARGETS: directory,
      TIDEMARK_BACKUP_COMMAND: JSON.stringify(['sh', '-c', 'env > "$TIDEMARK_BACKUP_DIRECTORY/env"']),
    });
    const once = await tidemark(['daemon', '--once'], { env });
    expect(once, once.stderr).toMatchObject({ code: 0 });
    expect(readdirSync(directory).filter((name) => name.endsWith('.zst'))).toHaveLength(1);
    expect(readFileSync(join(directory, 'env'), 'utf8')).not.toContain(env['TIDEMARK_API_KEY']);
    const again = await tidemark(['sync', '--quiet'], { env });
    expect(again, again.stderr).toMatchObject({ code: 0 });
    const checked = await commandLine(['backup', 'verify'], { env, cwd: home });
    expect(checked, checked.stderr).toMatchObject({ code: 0 });
    const restored = await commandLine(['backup', 'restore', 'latest', '--to', 'back.db'], {
      env,
      cwd: home,
    });
    expect(restored, restored.stderr).toMatchObject({ code: 0, stderr: '' });
    const onwards = { ...env, TIDEMARK_MIRROR: join(home, 'back.db') };
    const after = await tidemark(['daemon', '--once'], { env: onwards });
    expect(after, after.stderr).toMatchObject({ code: 0 });
    expect(after.stderr).not.toContain('cut short');
    const alone = await commandLine(['daemon', '--check'], { env, cwd: home });
    expect(alone).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no daemon is running') as string,
    });
  });

  it('are not made by the daemon on the disk below a mount point whose disk is gone', async () => {
    const service = await FakeService.start();
    const home = scratch();
    const disk = join(home, 'disk');
    const other = join(home, 'other');
    for (const path of [disk, other]) mkdirSync(path);
    const env = environment(service.url, home, {
      TIDEMARK_BACKUP_TARGETS: `${disk},${other}`,
      TIDEMARK_BACKUP_EVERY: '0s',
      TIDEMARK_BACKUP_KEEP_LAST: '9',
      TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * * *',
    });
    const lost = `${disk} has none of the backups that were stored there: is its disk mounted?`;
    const once = async (more: Readonly<Record<string, string>> = {}) => {
      await nextSecond();
      return tidemark(['daemon', '--once'], { env: { ...env, ...more }, cwd: home });
    };
    const held = (path: string): number => readdirSync(path).filter((name) => name.endsWith('.zst')).length;
    const first = await once();
    expect(first, first.stderr).toMatchObject({ code: 0 });
    expect([held(disk), held(other)]).toEqual([1, 1]);

    renameSync(disk, join(home, 'unmounted'));
    mkdirSync(disk);
    // Known before the next backup is due.
    const doctor = await tidemark(['doctor'], { env, cwd: home });
    expect([doctor.code, doctor.stderr]).toEqual([3, expect.stringContaining(lost)]);
    expect(doctor.stdout).toContain(`${disk} CANNOT BE USED`);
    const status = await tidemark(['status'], { env, cwd: home });
    expect(status.stdout).toContain(`  ${lost}\n    → mount the disk`);
    const half = await once();
    expect(half, half.stderr).toMatchObject({ code: 3 });
    expect(half.stderr).toContain(lost);
    expect([readdirSync(disk), held(other)]).toEqual([[], 2]);
    const none = await once({ TIDEMARK_BACKUP_TARGETS: disk });
    expect(none, none.stderr).toMatchObject({ code: 1 });
    expect(none.stderr).toContain(lost);
    expect(none.stderr).toContain('If it was emptied on purpose');
    expect(readdirSync(disk)).toEqual([]);

    // Mounted again.
    rmSync(disk, { recursive: true });
    renameSync(join(home, 'unmounted'), disk);
    expect(await once()).toMatchObject({ code: 0 });
    expect([held(disk), held(other)]).toEqual([2, 3]);

    // A mirror that is restored on another machine finds an empty directory there.
    const run = (args: readonly string[]) => tidemark(args, { env, cwd: home });
    expect(await run(['backup', 'restore', 'latest', '--to', 'back.db'])).toMatchObject({ code: 0 });
    rmSync(disk, { recursive: true });
    mkdirSync(disk);
    const restored = await once({ TIDEMARK_MIRROR: join(home, 'back.db'), TIDEMARK_BACKUP_TARGETS: disk });
    expect(restored, restored.stderr).toMatchObject({ code: 0 });
    expect(held(disk)).toBe(1);

    // By hand it goes ahead, and from then on the daemon does.
    rmSync(disk, { recursive: true });
    mkdirSync(disk);
    expect(await once({ TIDEMARK_BACKUP_TARGETS: disk })).toMatchObject({ code: 1 });
    const byHand = await run(['backup', 'create']);
    expect(byHand, byHand.stderr).toMatchObject({ code: 0 });
    expect(byHand.stderr).toContain(`tidemark: ${lost}\n  → the backup is stored there nevertheless`);
    expect(held(disk)).toBe(1);
    expect(await once()).toMatchObject({ code: 0 });
    expect(held(disk)).toBe(2);
    expect(await run(['backup', 'create'])).toMatchObject({ code: 0, stderr: '' });
  });

  it('killed at any instant, leave nothing that looks whole, and the next one sweeps up', async () => {
    const { env, home, directory, run, path } = await mirrored();
    for (const wait of [250, 500]) {
      const { child, ended } = start(['backup', 'create'], { env, cwd: home });
      // As soon as it is at work, and some time after.
      while (!existsSync(`${path}-backups-work`) && child.exitCode === null) await systemClock.sleep(5);
      await systemClock.sleep(wait);
      child.kill('SIGKILL');
      await ended;
      const { backups } = JSON.parse((await run('backup', 'list', '--json')).stdout) as {
        backups: { state: string; file: string }[];
      };
      for (const { file } of backups.filter(({ state }) => state === 'whole'))
        expect(await run('backup', 'verify', file)).toMatchObject({ code: 0 });
    }
    const made = readdirSync(directory).filter((name) => name.endsWith('.zst'));
    // The process that does the work, held while the one that asked for it dies.
    const { child } = start(['backup', 'create'], { env, cwd: home });
    while (workersIn(home).length === 0 && child.exitCode === null) await systemClock.sleep(5);
    const [worker = 0] = workersIn(home);
    process.kill(worker, 'SIGSTOP');
    child.kill('SIGKILL');
    // Not the end of its output, which the other one has open too.
    await once(child, 'exit');
    expect(workersIn(home)).toEqual([worker]);
    process.kill(worker, 'SIGCONT');
    await expect.poll(() => workersIn(home), { timeout: 10_000 }).toEqual([]);
    expect(readdirSync(directory).filter((name) => name.endsWith('.zst'))).toEqual(made);

    expect(await run('backup', 'create')).toMatchObject({ code: 0 });
    expect(readdirSync(directory).filter((name) => name.endsWith('.partial'))).toEqual([]);
    expect(existsSync(`${path}-backups-work`)).toBe(false);
  });
});

describe('the recipe for restic', () => {
  if (!isThere('restic')) console.warn('restic is not installed: its recipe is not tried');

  it.runIf(isThere('restic'))(
    'takes each backup into a repository, from which a mirror comes back',
    async () => {
      const recipe = readFileSync(join(import.meta.dirname, '../../docs/backup.md'), 'utf8');
      const command = /^ {2}command: (\[restic, .*\])$/m.exec(recipe)?.[1];
      expect(command).toBeDefined();
      const restic = {
        RESTIC_REPOSITORY: join(scratch(), 'repository'),
        RESTIC_PASSWORD: 'correct horse',
        RESTIC_CACHE_DIR: scratch(),
      };
      const { run, env, home, directory } = await mirrored(restic);
      writeFileSync(join(home, 'tidemark.yaml'), `backup:\n  command: ${command ?? ''}\n`);
      const failed = await run('backup', 'create');
      expect(failed).toMatchObject({
        code: 3,
        stderr: expect.stringContaining('(restic) ended with') as string,
      });

      const call = (...args: string[]) =>
        execFileSync('restic', args, { env, encoding: 'utf8', stdio: 'pipe' });
      call('init');
      const made = await run('backup', 'create', '--json');
      expect(made, made.stderr).toMatchObject({ code: 0 });
      const { path } = JSON.parse(made.stdout) as { path: string };
      const fetched = scratch();
      call('restore', 'latest', '--tag', 'tidemark', '--target', fetched);
      expect(readdirSync(join(fetched, directory)).sort()).toEqual(readdirSync(directory).sort());
      const restored = await run('backup', 'restore', join(fetched, path), '--to', 'fetched.db');
      expect(restored, restored.stderr).toMatchObject({ code: 0 });
      const verified = await commandLine(['verify'], {
        env: { ...env, TIDEMARK_MIRROR: join(home, 'fetched.db') },
        cwd: home,
      });
      expect(verified).toMatchObject({ code: 0 });
    },
  );
});
