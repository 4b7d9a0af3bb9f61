import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { systemClock } from '../../src/core/clock.ts';
import { begin, open, ORG, sync } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { scratch } from './harness.ts';

/** How the program knows whoever runs a command here. */
const { via } = commandActor();

interface Verified {
  readonly root: string;
  readonly audit_log: { readonly entry: number; readonly hash: string } | null;
  readonly noted?: object;
  readonly backups?: readonly object[];
  readonly left_out?: readonly object[];
}

/** A mirror, the command line over it, with backups on, and further runs. */
async function mirrored() {
  const home = scratch();
  const directory = join(home, 'backups');
  mkdirSync(directory);
  const path = join(home, 'mirror.db');
  const env = {
    PATH: process.env['PATH'] ?? '',
    TIDEMARK_MIRROR: path,
    TIDEMARK_BACKUP_TARGETS: directory,
    TIDEMARK_BACKUP_KEEP_LAST: '9',
  };
  const run = (...args: string[]) => commandLine(args, { env, cwd: home });
  const next = async (name: string): Promise<void> => {
    const mirror = open({ path, clock: systemClock });
    await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
    mirror.close();
  };
  const verified = async (...args: string[]): Promise<Verified> =>
    JSON.parse((await run('verify', '--json', ...args)).stdout) as Verified;
  const change = (...statements: string[]): void => {
    const file = new Database(path);
    for (const statement of statements) file.exec(statement);
    file.close();
  };
  await next('A');
  return { run, next, verified, change, directory, path };
}

it('verify counts failed runs too: the numbers of runs add up', async () => {
  const { run, next, path } = await mirrored();
  const mirror = open({ path, clock: systemClock });
  begin(mirror).abandon({ code: 'unreachable', message: 'nobody answered' });
  mirror.close();
  await next('B');
  const { stdout } = await run('verify');
  expect(stdout).toMatch(/^verified: 1 record, 2 revisions, 2 runs and 1 failed run\nroot hash of run 3: /);
  // Cron mails nothing of it.
  expect(await run('verify', '--quiet')).toMatchObject({ code: 0, stdout: '', stderr: '' });
});

it('status says as of which run the latest verification was, and that one of an empty mirror verified nothing', async () => {
  const home = scratch();
  const path = join(home, 'mirror.db');
  const env = { PATH: process.env['PATH'] ?? '', TIDEMARK_MIRROR: path };
  const verifiedIn = async (): Promise<string> =>
    /Verified .*/.exec((await commandLine(['status'], { env, cwd: home })).stdout)?.[0] ?? '';
  open({ path, clock: systemClock }).close();
  expect(await commandLine(['verify'], { env, cwd: home })).toMatchObject({ code: 0 });
  for (const name of ['A', 'B']) {
    const mirror = open({ path, clock: systemClock });
    await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
    mirror.close();
    if (name === 'A') {
      expect(await verifiedIn()).toMatch(/^Verified +Not yet +the mirror was empty when it was verified, /);
      await commandLine(['verify'], { env, cwd: home });
    }
  }
  expect(await verifiedIn()).toMatch(/^Verified +Yes +1 revision matches as of run 1, /);
});

describe('verify --root', () => {
  it('names the run of a root that was noted, also after later runs', async () => {
    const { run, next, verified } = await mirrored();
    const { root } = await verified();
    await next('B');
    const found = await run('verify', '--root', root.toUpperCase());
    expect(found).toMatchObject({ code: 0, stderr: '' });
    expect(found.stdout).toContain(`root hash ${root} is that of run 1\n`);
    expect((await verified('--root', root)).noted).toEqual({ root, status: 'run', run: 1 });
  });

  it('names the entry of the audit log by its hash, which shows that later entries were cut off', async () => {
    const { run, verified, change } = await mirrored();
    await run('snapshots', 'pin', 'first', '--as', 'ann');
    const hash = (await verified()).audit_log?.hash ?? '';
    expect((await run('verify', '--root', hash)).stdout).toContain(
      `\nhash ${hash} is that of entry 1 of the audit log (pin by ann (${via}))`,
    );
    // After the last seal, only who noted the hash can tell.
    change('DELETE FROM snapshots', 'DELETE FROM audit_log');
    expect((await run('verify')).code).toBe(0);
    expect((await run('verify', '--root', hash)).code).toBe(1);
  });

  it('fails for one that is not in the chain, in one line, and where anything else is wrong', async () => {
    const { run, verified, change, path } = await mirrored();
    const other = 'ab'.repeat(32);
    const refused = await run('verify', '--root', other);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toBe(
      `tidemark: hash ${other} is neither in the chain nor in the audit log of ${path}: it is of another mirror, the chain was written again since, or an older backup was restored since\n`,
    );
    const { root } = await verified();
    expect((await verified('--root', other)).noted).toEqual({ root: other, status: 'unknown' });
    change(`UPDATE records SET body = '{"id":"r1","name":"forged"}'`);
    expect((await run('verify', '--root', root)).code).toBe(1);
  });

  it.each(['', 'abc', 'z'.repeat(64), 'a'.repeat(63)])('refuses what is not a hash: %j', async (text) => {
    const { run } = await mirrored();
    const refused = await run('verify', '--root', text);
    expect([refused.code, refused.stdout]).toEqual([4, '']);
    expect(refused.stderr).toMatch(/^tidemark: --root .*is not a hash\n {2}→ give the 64 hexadecimal digits/);
  });

  it('says which forget replaced a root, with 3: what it sealed cannot be computed any more', async () => {
    const { run, next, verified } = await mirrored();
    const first = (await verified()).root;
    for (const name of ['B', 'C']) await next(name);
    const third = (await verified()).root;
    expect((await run('forget', '--keep-last', '1', '--as', 'ann')).code).toBe(0);
    const stayed = await run('verify', '--root', third);
    expect(stayed.code).toBe(3);
    expect(stayed.stdout).toMatch(
      new RegExp(`root hash ${third} is that of run 3 until forget 1 \\(.*Z, by ann \\(${via}\\)\\)\n`),
    );
    expect(stayed.stderr).toMatch(/since forget 1 replaced it\n.*note the root hash again after each forget/);
    expect((await verified('--root', first)).noted).toMatchObject({
      ...{ root: first, status: 'replaced', run: 1, into: 3, forget: 1, by: 'ann', via },
    });
    expect((await run('verify')).stdout).toMatch(
      new RegExp(`retention dropped runs 1–2 on \\S+Z by ann \\(${via}\\) \\(keep last 1\\)`),
    );
    const { root } = await verified();
    expect((await run('verify', '--root', root)).code).toBe(0);
  });
});

describe('verify --backups', () => {
  it('finds the roots of all backups in the chain, also of those from before a forget', async () => {
    const { run, next, verified } = await mirrored();
    await run('snapshots', 'pin', 'first');
    await run('backup', 'create');
    for (const name of ['B', 'C']) await next(name);
    await run('backup', 'create');
    expect((await run('verify', '--backups')).stdout).toContain(
      '2 backups compared: 2 with the root hash of a run\n',
    );
    await run('snapshots', 'unpin', 'first');
    await run('forget', '--keep-last', '1');
    const older = await run('verify', '--backups');
    expect(older.code).toBe(3);
    expect(older.stderr).toContain('all backups are older than the latest forget');
    expect(older.stderr).toContain('→ run `tidemark backup create`');
    await run('backup', 'create');
    await next('D');
    const mixed = await run('verify', '--backups');
    expect(mixed).toMatchObject({ code: 0, stderr: '' });
    expect(mixed.stdout).toContain(
      '3 backups compared: 1 with the root hash of a run, 2 with a root hash that a forget replaced\n',
    );
    expect((await verified('--backups')).backups).toMatchObject([
      { run: 3, status: 'run' },
      { run: 3, status: 'replaced', forget: 1 },
      { run: 1, status: 'replaced', forget: 1, into: 3 },
    ]);
  });

  it('fails where the mirror was cut back to before a backup, or its latest entries were taken out', async () => {
    const { run, next, change, directory } = await mirrored();
    await run('snapshots', 'pin', 'first');
    await run('backup', 'create');
    change('DELETE FROM snapshots', 'DELETE FROM audit_log');
    const cut = await run('verify', '--backups');
    expect(cut.code).toBe(1);
    expect(cut.stderr).toMatch(/entry 1 of the audit log, with hash [0-9a-f]{64}, is not in the chain/);
    expect(cut.stdout).toContain(
      '1 backup compared: 0 with the root hash of a run, 1 with an audit log entry that is not in the chain\n',
    );
    await next('B');
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.json'));
    const file = join(directory, name);
    const manifest = JSON.parse(readFileSync(file, 'utf8')) as { root: string };
    writeFileSync(file, JSON.stringify({ ...manifest, root: 'ab'.repeat(32) }));
    const other = await run('verify', '--backups');
    expect(other.code).toBe(1);
    expect(other.stdout).toContain('1 backup compared: 0 with the root hash of a run, 1 not in the chain\n');
    expect(other.stderr).toMatch(/root hash (ab){32} of run 1 is not in the chain/);
  });

  it('fails where a file is not as its manifest says', async () => {
    const { run, next, verified, directory } = await mirrored();
    await run('backup', 'create');
    const [good = ''] = readdirSync(directory).filter((each) => !each.endsWith('.json'));
    await next('B');
    await run('backup', 'create');
    const [cut = ''] = readdirSync(directory).filter((each) => !each.endsWith('.json') && each !== good);
    const { size } = statSync(join(directory, cut));
    truncateSync(join(directory, cut), 1000);
    const compared = await run('verify', '--backups');
    expect(compared.code).toBe(1);
    expect(compared.stdout).toContain('2 backups compared: 1 with the root hash of a run, 1 damaged\n');
    const damage = `it has 1000 bytes where its manifest says ${size}`;
    expect(compared.stderr).toContain(`${cut} is damaged: ${damage}\n`);
    expect((await verified('--backups')).backups).toMatchObject([
      { file: cut, damage, status: 'run' },
      { file: good, damage: null, status: 'run' },
    ]);
    // An earlier one under the name of the newest, and one that is gone.
    rmSync(join(directory, cut));
    expect((await run('verify', '--backups')).stderr).toContain(
      `${cut} is damaged: only its manifest is there`,
    );
    for (const end of ['', '.json'])
      copyFileSync(join(directory, `${good}${end}`), join(directory, `${cut}${end}`));
    const renamed = await run('verify', '--backups');
    expect(renamed.code).toBe(1);
    expect(renamed.stderr).toContain(`${cut} is damaged: its manifest is that of ${good}`);
    for (const end of ['', '.json']) rmSync(join(directory, `${cut}${end}`));
    const gone = await run('verify', '--backups');
    expect(gone.code).toBe(1);
    expect(gone.stderr).toContain(`${cut} is gone: it was stored there last`);
    expect(gone.stdout).toContain('`tidemark backup verify` reads the content');
    expect((await verified('--backups')).left_out).toMatchObject([{ file: cut, reason: 'gone' }]);
    // The older one under a later name is not the newest.
    const later = 'tidemark-29991231T235959Z-run1.db.zst';
    const manifest = readFileSync(join(directory, `${good}.json`), 'utf8');
    copyFileSync(join(directory, good), join(directory, later));
    const madeAt = `"made_at":"2999-12-31T23:59:59.000Z"`;
    writeFileSync(
      join(directory, `${later}.json`),
      manifest.replaceAll(good, later).replace(/"made_at": ?"[^"]*"/, madeAt),
    );
    expect((await run('verify', '--backups')).stderr).toContain(`${cut} is gone: it was stored there last`);
    expect((await run('backup', 'verify')).code).toBe(1);
  });

  it('counts the backups that it leaves out, and says why', async () => {
    const { run, verified, directory } = await mirrored();
    await run('backup', 'create');
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.json'));
    const manifest = JSON.parse(readFileSync(join(directory, name), 'utf8')) as object;
    for (const [index, mirror] of ['0123456789abcdef', '0123456789abcdef', 'fedcba9876543210'].entries()) {
      const file = `tidemark-2026020${index + 1}T000000Z-run1.db.zst`;
      writeFileSync(join(directory, `${file}.json`), JSON.stringify({ ...manifest, file, mirror }));
    }
    const others = await run('verify', '--backups');
    expect(others).toMatchObject({ code: 0, stderr: '' });
    expect(others.stdout).toContain(
      '1 backup compared: 1 with the root hash of a run\n3 backups left out: 3 of 2 other mirrors;',
    );
    expect((await verified('--backups')).left_out).toMatchObject([
      { reason: 'other_mirror', mirror: 'fedcba9876543210' },
      { reason: 'other_mirror', mirror: '0123456789abcdef' },
      { reason: 'other_mirror', mirror: '0123456789abcdef' },
    ]);
    writeFileSync(join(directory, 'tidemark-20260201T000000Z-run1.db.zst.json'), '{}');
    const unread = await run('verify', '--backups');
    expect(unread.code).toBe(3);
    expect(unread.stdout).toContain(
      '3 backups left out: 2 of 2 other mirrors, 1 without a manifest that can be read;',
    );
  });

  it('ends with 3 where nothing was compared or a manifest cannot be read, and needs a target', async () => {
    const { run, directory } = await mirrored();
    const none = await run('verify', '--backups');
    expect([none.code, none.stderr]).toEqual([3, expect.stringContaining('nothing was compared') as string]);
    await run('backup', 'create');
    const [name = ''] = readdirSync(directory).filter((each) => each.endsWith('.json'));
    writeFileSync(join(directory, name), '{}');
    expect((await run('verify', '--backups')).stderr).toMatch(/is not a backup manifest/);
    const off = await commandLine(['verify', '--backups'], { env: {}, cwd: scratch() });
    expect(off.code).toBe(4);
  });
});

describe('an older backup that was restored in place of the mirror', () => {
  /** The backup of run 1, restored after run 2. */
  async function restored(to: (path: string) => string = (path) => path) {
    const world = await mirrored();
    const { run, next, verified, directory, path } = world;
    await run('snapshots', 'pin', 'first');
    await run('backup', 'create');
    const [name = ''] = readdirSync(directory).filter((each) => !each.endsWith('.json'));
    const before = await verified();
    await next('B');
    const lost = await verified();
    for (const suffix of ['', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
    const ended = await run('backup', 'restore', name, '--to', to(path), '--as', 'Ann Oncall');
    expect(ended, ended.stderr).toMatchObject({ code: 0, stderr: '' });
    return { ...world, name, before, lost, said: ended.stdout };
  }

  it('is an entry of the audit log, and the roots of before hold', async () => {
    const { run, next, verified, change, name, before } = await restored();
    expect((await verified()).root).toBe(before.root);
    for (const root of [before.root, before.audit_log?.hash ?? ''])
      expect(await run('verify', '--root', root)).toMatchObject({ code: 0, stderr: '' });
    expect(await run('verify', '--backups')).toMatchObject({ code: 0, stderr: '' });
    const audit = await run('audit', '--json', '--action', 'restore_backup');
    const { entries } = JSON.parse(audit.stdout) as { entries: readonly object[] };
    expect(entries).toMatchObject([
      {
        ...{ entry: 2, by: 'Ann Oncall', via, source: 'production' },
        backup: { name, run: 1, root: before.root, sources: ['production'] },
      },
    ]);
    expect((await run('audit')).stdout).toMatch(
      new RegExp(
        `Ann Oncall \\(.*\\) +restore_backup +backup ${name} +run 1, root ${before.root}, said to be made `,
      ),
    );
    await next('C');
    await run('backup', 'create');
    expect(await run('verify', '--backups', '--root', before.root)).toMatchObject({ code: 0, stderr: '' });
    change(`UPDATE audit_log SET row = json_set(row, '$.run', 2) WHERE entry = 2`);
    expect((await run('verify')).stdout).toContain(
      `entry 2 of the audit log (restore_backup by Ann Oncall (${via})) is not`,
    );
    change(`DELETE FROM audit_log WHERE entry = 2`);
    expect((await run('verify')).stdout).toContain(
      'run 2 has the hash of entry 2 of the audit log, which is gone',
    );
  });

  it('is an entry also where it was restored through a symbolic link', async () => {
    const { run, said } = await restored((path) => {
      const link = join(scratch(), 'by-link');
      symlinkSync(dirname(path), link);
      return join(link, basename(path));
    });
    expect(said).toContain('this is where commands look for the mirror, and its audit log has an entry');
    expect((await run('audit')).stdout).toContain('restore_backup');
  });

  it('is named where a root, or a backup, of after it is not found', async () => {
    const { run, next, verified, name, lost, directory } = await restored();
    const reason = `entry 2 of the audit log: Ann Oncall (${via}) restored ${name} (run 1) on `;
    const refused = await run('verify', '--root', lost.root);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain(reason);
    expect(refused.stderr).toMatch(/that explains it only if you noted it before \S+Z\n/);
    expect((await verified('--root', lost.root)).noted).toMatchObject({
      ...{ root: lost.root, status: 'unknown' },
      restored_backup: { entry: 2, by: 'Ann Oncall', via, name, run: 1 },
    });
    await next('C');
    await run('backup', 'create');
    const file = join(directory, `${name}.json`);
    const manifest = JSON.parse(readFileSync(file, 'utf8')) as object;
    writeFileSync(file, JSON.stringify({ ...manifest, run: 2, root: lost.root }));
    const compared = await run('verify', '--backups');
    expect(compared.code).toBe(1);
    expect(compared.stderr).toContain(reason);
  });

  it('is no excuse for a backup that was made after it, or that is not newer than the one restored', async () => {
    const { run, next, change, directory, name } = await restored();
    await next('C');
    await run('snapshots', 'pin', 'later');
    await run('backup', 'create');
    change(`DELETE FROM snapshots WHERE name = 'later'`, 'DELETE FROM audit_log WHERE entry = 3');
    expect((await run('verify')).code).toBe(0);
    const after = await run('verify', '--backups');
    expect(after.code).toBe(1);
    expect(after.stderr).toMatch(/entry 3 of the audit log, with hash [0-9a-f]{64}, is not in the chain/);
    expect(after.stderr).toMatch(
      /the restore of a backup on \S+Z \(entry 2 of the audit log\) does not explain it: it was made on \S+Z, after that restore/,
    );
    expect(after.stderr).not.toContain(`Ann Oncall (${via}) restored`);
    const file = join(directory, `${name}.json`);
    const manifest = JSON.parse(readFileSync(file, 'utf8')) as object;
    writeFileSync(file, JSON.stringify({ ...manifest, root: 'ab'.repeat(32) }));
    const before = await run('verify', '--backups');
    expect(before.stderr).toContain(
      `does not explain it: it is not newer than the backup that Ann Oncall (${via}) restored`,
    );
    expect(before.stderr).not.toContain(`Oncall (${via}) restored tidemark`);
  });

  it('is an entry also of a copy elsewhere, which may be configured later', async () => {
    const { run, name, path } = await restored();
    const copy = join(dirname(path), 'copy.db');
    expect(await run('backup', 'restore', name, '--to', copy)).toMatchObject({ code: 0, stderr: '' });
    const file = new Database(copy, { readonly: true });
    expect(file.prepare('SELECT action FROM audit_log').pluck().all()).toEqual(['pin', 'restore_backup']);
    file.close();
  });
});

it('verify names nothing to note where it found problems', async () => {
  const { run, change } = await mirrored();
  await run('snapshots', 'pin', 'first');
  change(`UPDATE records SET body = '{"id":"r1","name":"forged"}'`);
  const { code, stdout } = await run('verify');
  expect(code).toBe(1);
  expect(stdout).toMatch(/problems? found: /);
  expect(stdout).not.toMatch(/root hash of run|audit log up to entry/);
});
