/** Backups that are not what `latest` would take them for: of another mirror, said to be, of a mirror that was rolled back since, or gone. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { open, sync } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { nextSecond, scratch } from './harness.ts';
import { ORG } from './service.ts';

/** A directory of backups, and mirrors that have theirs there. */
function place() {
  const home = scratch();
  const directory = join(home, 'backups');
  mkdirSync(directory);
  const of = (name: string) => {
    const path = join(home, `${name}.db`);
    const env = {
      PATH: process.env['PATH'] ?? '',
      TIDEMARK_MIRROR: path,
      TIDEMARK_BACKUP_TARGETS: directory,
      TIDEMARK_BACKUP_KEEP_LAST: '9',
      // Nothing listens there: `doctor` looks at the rest even so.
      TIDEMARK_BASE_URL: 'http://127.0.0.1:9',
      TIDEMARK_API_KEY: 'k',
      TIDEMARK_RETRY_ATTEMPTS: '1',
    };
    const run = (...args: string[]) => commandLine(args, { env, cwd: home });
    const synced = async (role: string): Promise<void> => {
      const mirror = open({ path, clock: systemClock });
      await sync(mirror, 'roles', { organization_id: ORG }, [JSON.stringify({ id: 'a', name: role })]);
      mirror.close();
    };
    /** @returns the name of its file */
    const backedUp = async (role: string): Promise<string> => {
      await synced(role);
      const made = await run('backup', 'create', '--json');
      expect(made.code, made.stderr).toBe(0);
      return (JSON.parse(made.stdout) as { manifest: { file: string } }).manifest.file;
    };
    return { path, run, synced, backedUp };
  };
  return { of, directory };
}

it('of another mirror alone: none is verified in place of the configured one, and restore says whose it is', async () => {
  const { of, directory } = place();
  const [one, two, none] = [of('one'), of('two'), of('none')];
  const name = await one.backedUp('A');
  await two.synced('B');
  for (const args of [[], ['latest'], [directory]]) {
    const { code, stdout, stderr } = await two.run('backup', 'verify', ...args);
    expect({ code, stdout }, stderr).toEqual({ code: 4, stdout: '' });
    expect(stderr).toMatch(
      new RegExp(`has no complete backup of the configured mirror, only ${name} of mirror [0-9a-f]{8}, `),
    );
    expect(stderr).toContain(`\`tidemark backup verify ${join(directory, name)}\` verifies that one`);
  }
  expect(await two.run('backup', 'verify', join(directory, name))).toMatchObject({ code: 0 });
  expect(await none.run('backup', 'verify', 'latest')).toMatchObject({ code: 0, stderr: '' });
  const restored = await two.run('backup', 'restore', 'latest', '--to', 'back.db');
  expect(restored.code, restored.stderr).toBe(0);
  expect(restored.stderr).toContain(`has no complete backup of the configured mirror, only ${name} of`);
});

it('said to be of another mirror by its manifest, with the root hash of a run of this one: it is damaged', async () => {
  const { of, directory } = place();
  const { run, backedUp } = of('one');
  const older = await backedUp('A');
  const newer = await backedUp('B');
  const manifest = join(directory, `${newer}.json`);
  const text = readFileSync(manifest, 'utf8');
  writeFileSync(manifest, text.replace(/("mirror": ")[0-9a-f]{4}/, '$10000'));
  const line = 'its manifest names another mirror, but has the root hash of run 2 of this one';

  expect((await run('backup', 'list')).stdout.replaceAll(/\s+/g, ' ')).toContain(`damaged: ${line}`);
  const verified = await run('backup', 'verify', 'latest');
  expect(verified.code).toBe(1);
  expect(verified.stdout).toContain(`${older}: verified`);
  expect(verified.stderr).toContain(`${newer} is newer than ${older}, and is damaged (${line})`);
  const compared = await run('verify', '--backups');
  expect(compared.code).toBe(1);
  expect(compared.stderr).toContain(`${newer} is damaged: ${line}`);
  expect(compared.stdout).not.toContain('left out');
  expect((await run('doctor')).stdout).toContain(`${newer}: ${line}`);

  for (const file of [older, `${older}.json`]) rmSync(join(directory, file));
  const alone = await run('backup', 'verify', 'latest');
  expect(alone.code).toBe(1);
  expect(alone.stderr).toContain(`${newer} is damaged (${line})`);
  expect((await run('doctor')).stdout).toContain(`${newer}: ${line}`);
});

it('of a run that the mirror has not, since an older mirror is in its place: verify says so', async () => {
  const { of } = place();
  const { run, path, synced, backedUp } = of('one');
  await synced('A');
  const before = readFileSync(path);
  const name = await backedUp('B');
  expect((await run('backup', 'verify', 'latest')).stderr).toBe('');
  for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
  writeFileSync(path, before);
  const { code, stdout, stderr } = await run('backup', 'verify', 'latest');
  expect(code, stderr).toBe(0);
  expect(stdout).toContain('verified');
  expect(stderr).toContain(`1 backup (${name}) is not in the chain of this mirror`);
  const document = JSON.parse((await run('backup', 'verify', 'latest', '--json')).stdout) as object;
  expect(document).toMatchObject({ contradicting: [name] });
});

it('gone with its manifest, the newest: what looks at the backups says so until there is a newer one', async () => {
  const { of, directory } = place();
  const { run, backedUp } = of('one');
  const older = await backedUp('A');
  const newer = await backedUp('B');
  for (const file of [newer, `${newer}.json`]) rmSync(join(directory, file));
  const line = 'it was stored there last, and neither its file nor its manifest is there';

  expect((await run('backup', 'list')).stdout.replaceAll(/\s+/g, ' ')).toContain(`gone: ${line}`);
  const verified = await run('backup', 'verify', 'latest');
  expect(verified.code).toBe(1);
  expect(verified.stdout).toContain(`${older}: verified`);
  expect(verified.stderr).toContain(`${newer} is newer than ${older}, and is gone (${line})`);
  expect((await run('doctor')).stdout).toContain(`${newer}: ${line}`);
  expect((await run('status')).stdout).toMatch(
    /^Backups: 1, the latest .*, as of run 1, .*; 1 more incomplete$/m,
  );

  // Retention may have removed the one that was stored last before.
  await nextSecond();
  const newest = await backedUp('C');
  for (const file of [older, `${older}.json`]) rmSync(join(directory, file));
  expect((await run('backup', 'list')).stdout).not.toContain('gone');
  expect(await run('backup', 'verify', 'latest')).toMatchObject({ code: 0, stderr: '' });
  expect((await run('doctor')).stdout).not.toContain(newest);
});
