/** A mirror that is away, of which there are backups: every command that needs it says so, and names what brings it back. */
import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { registerDaemon } from '../../src/daemon/lockfile.ts';
import { commandLine, type Ended } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

type Run = (...args: string[]) => Promise<Ended>;

/** A mirror with a run and a backup, on a volume that is then unmounted: its directory is there, and empty. */
async function away(): Promise<{
  run: Run;
  home: string;
  backup: string;
  env: Record<string, string>;
}> {
  const service = await FakeService.start();
  service.set('plugins', [{ id: 1, name: 'Readers' }]);
  const home = scratch();
  for (const name of ['backups', 'volume']) mkdirSync(join(home, name));
  const env = environment(service.url, home, {
    TIDEMARK_MIRROR: join(home, 'volume/mirror.db'),
    TIDEMARK_BACKUP_TARGETS: join(home, 'backups'),
  });
  const run: Run = (...args) => commandLine(args, { env, cwd: home });
  expect(await run('sync', '--quiet')).toMatchObject({ code: 0, stderr: '' });
  expect(await run('backup', 'create')).toMatchObject({ code: 0, stderr: '' });
  const [backup = ''] = readdirSync(join(home, 'backups'));
  renameSync(join(home, 'volume'), join(home, 'unmounted'));
  mkdirSync(join(home, 'volume'));
  return { run, home, backup, env };
}

/** The command in backticks that begins so. */
function commandIn(text: string, begin: string): string[] {
  const [, found = ''] = new RegExp(`\`tidemark (${begin}[^\`]*)\``).exec(text) ?? [];
  expect(found, text).not.toBe('');
  return (found.match(/'[^']*'|\S+/g) ?? []).map((word) => word.replaceAll("'", ''));
}

describe('a mirror that is away, of which a directory has backups', () => {
  it.each([
    [['status']],
    [['runs']],
    [['verify']],
    [['drift']],
    [['restore', 'latest']],
    [['show', 'plugins', 'Readers']],
    [['backup', 'create']],
  ])('%s says that there was one, and begins with the volume', async (args) => {
    const { run, home } = await away();
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout], stderr).toEqual([1, '']);
    const [message, hint] = stderr.split('\n');
    expect(message).toMatch(
      /^tidemark: there is no mirror at \S+mirror\.db, although \S+\/backups has backups of default, the newest of 2\S+Z \(run 1\): is its volume mounted\?$/,
    );
    expect(hint).toMatch(
      /^ {2}→ mount the volume that it belongs to, .* A restart of the daemon, or `tidemark sync`, begins a new mirror instead, without history$/,
    );
    expect(readdirSync(join(home, 'volume')), 'nothing is made').toEqual([]);
  });

  it('the restore that the hint names runs as printed, and the mirror is as it was', async () => {
    const { run, backup } = await away();
    const command = commandIn((await run('status')).stderr, 'backup restore');
    expect(command[2]).toBe(backup);
    const restored = await run(...command);
    expect(restored.code, restored.stderr).toBe(0);
    expect((await run('status')).code).toBe(0);
  });

  it.each([
    ['backups', 'newer'],
    ['newer', 'backups'],
  ])('of the directories %s and %s, the newest backup of all is named', async (...targets) => {
    const { home, env } = await away();
    mkdirSync(join(home, 'newer'));
    rmSync(join(home, 'volume'), { recursive: true });
    renameSync(join(home, 'unmounted'), join(home, 'volume'));
    const run: Run = (...args) => commandLine(args, { env, cwd: home });
    expect((await run('sync', '--quiet')).code).toBe(0);
    env['TIDEMARK_BACKUP_TARGETS'] = join(home, 'newer');
    expect((await run('backup', 'create')).code).toBe(0);
    // It answers last: it has more to read.
    for (let year = 2000; year < 2020; year += 1)
      writeFileSync(join(home, 'newer', `tidemark-${year}0101T000000Z-run1.db.zst.json`), '{}');
    rmSync(join(home, 'volume'), { recursive: true });
    env['TIDEMARK_BACKUP_TARGETS'] = targets.map((name) => join(home, name)).join(',');
    const { stderr } = await run('status');
    expect(stderr).toMatch(/\/newer has backups of default, the newest of 2\S+Z \(run 2\)/);
    const restored = await run(...commandIn(stderr, 'backup restore'));
    expect(restored.stdout, restored.stderr).toContain('run 2 is at');
  });

  it('doctor takes it for an error, and a mirror that never was for none', async () => {
    const { run, home } = await away();
    const found = await run('doctor');
    expect(found.code).toBe(3);
    expect(found.stdout).toMatch(/mirror\.db, MISSING,/);
    expect(found.stdout).toMatch(/there is no mirror at .*although .* has\s+backups\s+of\s+default/);
    expect(found.stdout + found.stderr).not.toContain('run `tidemark sync` once');
    // The disk in its place is not its own: whether a target lies on that one is not known.
    const onDisk = /on\s+the\s+disk\s+of\s+the\s+mirror/;
    expect(found.stdout).not.toMatch(onDisk);
    for (const name of readdirSync(join(home, 'backups'))) rmSync(join(home, 'backups', name));
    const fresh = await run('doctor');
    expect(fresh.code, fresh.stderr).toBe(0);
    expect(fresh.stdout).toMatch(/mirror\.db, not there yet,/);
    expect(fresh.stdout).toMatch(onDisk);
    expect((await run('status')).stderr).toMatch(/there is no mirror at \S+ yet\n.*`tidemark sync` first/);
  });

  it('of a source whose first sync the daemon has not begun, says that this may be why', async () => {
    const { run, home } = await away();
    for (const name of readdirSync(join(home, 'backups'))) rmSync(join(home, 'backups', name));
    const options = { clock: systemClock, pid: process.pid, host: hostname() };
    const daemon = await registerDaemon(join(home, 'volume/mirror.db'), options);
    onTestFinished(() => {
      daemon.leave();
      daemon.release();
    });
    const { code, stderr } = await run('status');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^tidemark: there is no mirror at \S+, although a daemon runs on it \(.*\): its first sync may not have begun yet\n {2}→ if there was none yet, wait for that sync: `tidemark daemon --check` .* mount the volume/,
    );
  });

  it('sync where the mirror was moved away: the refusal alone, no word of a new mirror', async () => {
    const { run, home } = await away();
    renameSync(join(home, 'unmounted/mirror.db'), join(home, 'volume/mirror.db.moved'));
    const { code, stdout, stderr } = await run('sync');
    expect([code, stdout], stderr).toEqual([1, '']);
    expect(stderr).toMatch(
      /^tidemark: the mirror at \S+mirror\.db was moved: mirror\.db\.moved is beside it\n {2}→ set `mirror` .*\n$/,
    );
  });

  it('one that was moved is not lost: the new place is named, and none is put or begun beside it', async () => {
    const { run, home } = await away();
    rmSync(join(home, 'volume'), { recursive: true });
    renameSync(join(home, 'unmounted'), join(home, 'volume'));
    const moved = await run('mirror', 'move', '--to', './new/{source}.db');
    expect(moved.code, moved.stderr).toBe(0);
    const before = readdirSync(join(home, 'volume'));
    const place = join(home, 'volume/mirror.db');
    for (const args of [
      ['status'],
      ['sync'],
      ['doctor'],
      ['estimate'],
      ['backup', 'restore', 'latest', '--to', place],
    ]) {
      const { code, stdout, stderr } = await run(...args);
      const said = (stdout + stderr).replaceAll(/\s+/g, ' ');
      expect(said, args.join(' ')).toContain('mirror.db was moved: mirror.db.moved is beside it');
      expect(said, args.join(' ')).not.toMatch(/backup restore|without history|is its volume mounted/);
      if (args[0] === 'estimate') continue;
      expect(code, said).toBe(args[0] === 'doctor' ? 3 : 1);
      expect(said).toContain('set `mirror` (and TIDEMARK_MIRROR, where it is set) to the new place');
    }
    expect((await run('doctor')).stdout).toMatch(/mirror\.db, MOVED AWAY,/);
    expect(readdirSync(join(home, 'volume')), 'nothing is made').toEqual(before);
  });

  it('of sources with mirrors of their own, the one that is away is named, and its command is for it', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Readers' }]);
    const home = scratch();
    mkdirSync(join(home, 'backups'));
    const source = (name: string): string =>
      `  - { name: ${name}, baseUrl: "${service.url}", apiKey: "\${KEY}", kinds: { include: [organizations, plugins] } }\n`;
    writeFileSync(
      join(home, 'tidemark.yaml'),
      `mirror: ./my data/{source}.db\nsources:\n${source('acme')}${source('beta')}backup: { targets: [./backups] }\n`,
      { mode: 0o600 },
    );
    const run: Run = (...args) => commandLine(args, { env: { KEY: 'test-key-of-some-length' }, cwd: home });
    expect((await run('sync', '--quiet')).code).toBe(0);
    expect((await run('backup', 'create')).code).toBe(0);
    for (const name of readdirSync(join(home, 'my data')))
      if (name.startsWith('beta.db')) rmSync(join(home, 'my data', name), { recursive: true });
    for (const args of [['status'], ['runs']]) {
      const { code, stderr } = await run(...args);
      expect([code, stderr]).toEqual([
        3,
        expect.stringMatching(
          /^tidemark: beta: there is no mirror at \S+my data\/beta\.db, although \S+\/backups\/beta has backups of beta, /,
        ),
      ]);
      expect(stderr).not.toContain('acme');
    }
    const restored = await run(...commandIn((await run('status')).stderr, 'backup restore'));
    expect(restored.code, restored.stderr).toBe(0);
    expect((await run('status')).code).toBe(0);
  });

  it('a command about one thing names the mirror that is away, and changes no other in its place', async () => {
    const service = await FakeService.start();
    service.set('plugins', [{ id: 1, name: 'Readers' }]);
    const home = scratch();
    const source = (name: string): string =>
      `  - { name: ${name}, baseUrl: "${service.url}", apiKey: "\${KEY}", kinds: { include: [organizations, plugins] } }\n`;
    const config = `mirror: ./data/{source}.db\nsources:\n${source('acme')}${source('beta')}`;
    writeFileSync(join(home, 'tidemark.yaml'), config, { mode: 0o600 });
    const run: Run = (...args) => commandLine(args, { env: { KEY: 'test-key-of-some-length' }, cwd: home });
    expect((await run('sync', '--quiet')).code).toBe(0);
    expect((await run('runs', 'show', '1')).code).toBe(4);
    const takeAway = (name: string): void => {
      for (const file of readdirSync(join(home, 'data')))
        if (file.startsWith(`${name}.db`)) rmSync(join(home, 'data', file), { recursive: true });
    };
    takeAway('beta');
    for (const args of [
      ['runs', 'show', '1'],
      ['show', 'plugins', 'Readers'],
    ]) {
      const shown = await run(...args);
      expect([shown.code, shown.stderr]).toEqual([
        3,
        expect.stringMatching(/tidemark: beta: there is no mirror at \S+beta\.db/),
      ]);
      expect(shown.stdout).not.toBe('');
    }
    const accepted = await run('drift', 'accept', 'plugins', 'Readers', '--reason', 'known');
    expect([accepted.code, accepted.stdout]).toEqual([4, '']);
    expect(accepted.stderr).toMatch(
      /^tidemark: beta may have plugins \S*Readers\S* too: there is no mirror at /,
    );
    expect(accepted.stderr).toContain('with --source, such as --source acme');
    takeAway('acme');
    const none = await run('runs', 'show', '1');
    expect(none.code).toBe(1);
    expect(none.stderr).toMatch(/^tidemark: acme: there is no mirror at \S+acme\.db/);
  });
});

it('config check does not say which disk a mirror is on whose volume is away', async () => {
  const { run, env } = await away();
  const { stdout } = await run('config', 'check');
  expect(stdout).toContain('warning: backup: without');
  expect(stdout).not.toContain('on the disk of the mirror');
  // The place of a mirror that is yet to be made is known.
  env['TIDEMARK_NAME'] = 'another';
  expect((await run('config', 'check')).stdout).toContain('on the disk of the mirror');
});

describe('a mirror that cannot be read', () => {
  /** Its first pages are overwritten. */
  async function damaged(): Promise<Awaited<ReturnType<typeof away>>> {
    const world = await away();
    writeFileSync(join(world.home, 'volume/mirror.db'), Buffer.alloc(8192, 'x'));
    return world;
  }

  it.each([['status'], ['verify'], ['drift'], ['runs'], ['doctor']])(
    '%s names the backup to restore, where a directory has those of several mirrors',
    async (command) => {
      const { run, home, backup } = await damaged();
      expect((await run(command)).stderr).toContain('`tidemark backup restore latest --to');
      const text = readFileSync(join(home, 'backups', `${backup}.json`), 'utf8');
      const manifest = JSON.parse(text) as { sources: { source: string }[] };
      const file = 'tidemark-20990101T000000Z-run9.db.zst';
      const [source] = manifest.sources;
      const other = { file, mirror: '0123456789abcdef', made_at: '2099-01-01T00:00:00.000Z' };
      const sources = [{ ...source, source: 'another' }];
      copyFileSync(join(home, 'backups', backup), join(home, 'backups', file));
      writeFileSync(
        join(home, 'backups', `${file}.json`),
        JSON.stringify({ ...manifest, ...other, sources }),
      );
      const words = commandIn((await run(command)).stderr, 'backup restore');
      expect(words[2]).toBe(backup);
      const restored = await run(...words);
      expect(restored.code, restored.stderr).toBe(0);
    },
  );
});
