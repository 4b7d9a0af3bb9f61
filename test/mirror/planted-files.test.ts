/** What others put beside a mirror, and who comes first where nothing is there yet. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { packageFile } from '../../src/core/package-root.ts';
import { registerDaemon } from '../../src/daemon/lockfile.ts';
import { connect } from '../../src/mirror/database.ts';
import { acquireWriterLock } from '../../src/mirror/lock.ts';
import { MirrorAccess } from '../../src/mirror/access.ts';
import { Mirror } from '../../src/mirror/mirror.ts';
import { attachStage } from '../../src/mirror/stage.ts';
import { childProgram } from '../tools/child-program.ts';
import { ORG, begin, open, temporaryDirectory, testClock } from './fixture.ts';

const holder = { command: 'test', pid: 1, host: 'here', since: '2026-03-01T00:00:00.000Z' };

function victimIn(directory: string): string {
  const victim = join(directory, 'victim');
  writeFileSync(victim, 'mine');
  chmodSync(victim, 0o644);
  return victim;
}

function expectUntouched(victim: string): void {
  expect(readFileSync(victim, 'utf8')).toBe('mine');
  expect((statSync(victim).mode & 0o777).toString(8)).toBe('644');
}

describe('a file that was planted', () => {
  it.each([
    ['a link to a file', (victim: string, path: string) => symlinkSync(victim, path), 'a symbolic link'],
    [
      'a link to nothing',
      (victim: string, path: string) => symlinkSync(`${victim}-2`, path),
      'a symbolic link',
    ],
    ['a hard link', (victim: string, path: string) => linkSync(victim, path), 'a hard link'],
    ['a directory', (_victim: string, path: string) => mkdirSync(path), 'not a regular file'],
  ])('%s in the place of the lock is refused and left as it is', (_name, plant, why) => {
    const directory = temporaryDirectory();
    const victim = victimIn(directory);
    const path = join(directory, 'mirror.db');
    plant(victim, `${path}-lock`);
    expect(() => acquireWriterLock(path, holder)).toThrow(
      expect.objectContaining({
        code: 'file_system',
        message: expect.stringContaining(`-lock is ${why}`) as string,
      }),
    );
    expectUntouched(victim);
    expect(existsSync(`${victim}-2`)).toBe(false);
  });

  it.runIf(process.getuid?.() === 0)('of another user is no matter to root', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path });
    expect(statSync(`${path}-lock`).uid).toBe(0);
  });

  it('of another user can be left by a run as that user: the hint has the command that gives it to this one', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    open({ path }).close();
    const { uid } = statSync(path);
    vi.spyOn(process, 'getuid').mockReturnValue(uid + 1);
    const hint = expect.stringContaining(`\`sudo chown ${uid + 1} ${path}*\`; else find out who`) as string;
    expect(() => acquireWriterLock(path, holder)).toThrow(
      expect.objectContaining({
        message: `${path}-lock is a file of another user (uid ${uid}); it was not changed`,
        hint,
      }),
    );
    vi.restoreAllMocks();
  });

  it('links in the place of the stage, its journal and the presence card lead nowhere', async () => {
    const directory = temporaryDirectory();
    const victim = victimIn(directory);
    const path = join(directory, 'mirror.db');
    for (const suffix of ['-stage', '-stage-journal', `.daemon.${process.pid}`, '.daemon'])
      symlinkSync(victim, `${path}${suffix}`);
    const mirror = open({ path });
    const run = begin(mirror);
    run.stage('roles', ORG);
    await run.publish({ outcome: 'complete', sweeps: [], requests: 0, retries: 0 });
    const presence = await registerDaemon(path, { clock: systemClock, pid: process.pid, host: 'here' });
    expectUntouched(victim);
    presence.leave();
    expectUntouched(victim);
  });

  it('a lock that others could read is tightened without giving up who holds it', () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    const lock = acquireWriterLock(path, holder);
    onTestFinished(() => lock.release());
    chmodSync(`${path}-lock`, 0o644);
    expect(() => acquireWriterLock(path, { ...holder, pid: 2 })).toThrow(
      expect.objectContaining({ code: 'mirror_locked' }),
    );
    expect(statSync(`${path}-lock`).mode & 0o777).toBe(0o600);
  });
});

it('of several first openers at once exactly one wins, and the others hear which', async () => {
  const directory = temporaryDirectory();
  const program = await childProgram(packageFile('test/mirror/first-opener-child.ts'));
  const children = Array.from({ length: 5 }, () => fork(program, { stdio: 'ignore' }));
  onTestFinished(() => children.forEach((child) => child.kill()));
  await Promise.all(children.map((child) => once(child, 'message')));
  const odd: unknown[] = [];
  for (let round = 0; round < 60; round += 1) {
    const path = join(directory, `mirror-${round}.db`);
    const at = Date.now() + 8;
    const said = children.map(async (child) => {
      const answered = once(child, 'message');
      child.send({ path, at });
      return String((await answered)[0]);
    });
    const answers = await Promise.all(said);
    const isRight =
      answers.filter((answer) => answer === 'won').length === 1 &&
      answers.every((answer) => answer === 'won' || answer.startsWith('mirror_locked: '));
    if (!isRight) odd.push(answers);
  }
  expect(odd).toEqual([]);
});

it('the stage keeps its journal in memory, also while a page is written', () => {
  const directory = temporaryDirectory();
  const path = join(directory, 'mirror.db');
  writeFileSync(path, '');
  const writer = connect(path, { isReadonly: false });
  onTestFinished(() => void writer.close());
  writer.pragma('journal_mode = WAL');
  attachStage(writer, path);
  expect(writer.pragma('stage.journal_mode', { simple: true })).toBe('memory');
  writer.exec(`BEGIN; INSERT INTO stage.checked VALUES (1, '${'x'.repeat(100_000)}')`);
  expect(readdirSync(directory).filter((name) => name.includes('journal'))).toEqual([]);
  writer.exec('COMMIT');
});

it('a reader that does not close keeps nobody from the lock', () => {
  const path = join(temporaryDirectory(), 'mirror.db');
  open({ path }).close();
  const lock = acquireWriterLock(path, holder);
  const writer = connect(path, { isReadonly: false });
  const close = (): void => {
    throw new Error('the reader does not close');
  };
  const reader = { connection: writer, another: () => reader, close };
  const options = { mode: 'write', command: 'test', clock: testClock() } as const;
  const mirror = new Mirror('write', new MirrorAccess(path, options, reader, { connection: writer, lock }));
  expect(() => mirror.close()).toThrow('the reader does not close');
  expect(writer.open).toBe(false);
  acquireWriterLock(path, { ...holder, pid: 2 }).release();
});
