import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { afterEach, describe, expect, it } from 'vitest';
import { takePlainBackup } from '../../src/backup/plain-backup.ts';
import { systemClock } from '../../src/core/clock.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { ORG, bodies, open, sync, temporaryDirectory } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

/** The program of that name; null where there is none, or it does not run. `.ci/run` installs it. */
function litestreamProgram(): string | null {
  try {
    execFileSync('litestream', ['version'], { stdio: 'ignore' });
    return 'litestream';
  } catch {
    return null;
  }
}

const litestream = litestreamProgram();
if (litestream === null) console.warn('litestream is not installed: replication by it is not tried');

const running: ChildProcess[] = [];

afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
});

/** The tables as Litestream 0.3 and 0.5 make them. */
const TABLES = `
  CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER);
  CREATE TABLE IF NOT EXISTS _litestream_lock (id INTEGER);
  INSERT INTO _litestream_seq (id, seq) VALUES (1, 1);`;

function addTables(path: string): void {
  alterFile(path, TABLES);
}

function tablesOf(path: string): unknown[] {
  const database = new Database(path, { readonly: true });
  const names = database.prepare(
    `SELECT name FROM sqlite_master WHERE name LIKE '\\_litestream%' ESCAPE '\\'`,
  );
  const found = names.pluck().all();
  database.close();
  return found;
}

const roles = (count: number, name: string): string[] =>
  Array.from(
    { length: count },
    (_unused, i) => `{"id":"r${i}","name":"${name} ${i}","x":"${'x'.repeat(900)}"}`,
  );

describe("a mirror with Litestream's tables", () => {
  it('verifies, goes on, and is backed up without them', async () => {
    const mirror = open({ clock: systemClock });
    await sync(mirror, 'roles', ORG, roles(3, 'A'));
    addTables(mirror.path);
    await sync(mirror, 'roles', ORG, roles(3, 'B'));
    expect(await mirror.verify()).toMatchObject({ problems: [], checked: { runs: 2 } });
    const copy = join(temporaryDirectory(), 'copy.db');
    await takePlainBackup(mirror.path, copy, { clock: systemClock });
    expect(tablesOf(mirror.path)).toHaveLength(2);
    expect(tablesOf(copy)).toEqual([]);
  });

  it('is made where Litestream found the empty file first', async () => {
    const path = join(temporaryDirectory(), 'mirror.db');
    addTables(path);
    const mirror = open({ path });
    await sync(mirror, 'roles', ORG, roles(3, 'A'));
    expect(await mirror.verify()).toMatchObject({ problems: [] });
  });

  it('still is not another schema: a table of somebody else is a problem', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, roles(3, 'A'));
    alterFile(mirror.path, 'CREATE TABLE xlitestream_seq (id INTEGER)');
    expect((await mirror.verify()).problems).toHaveLength(1);
  });
});

describe.skipIf(litestream === null)('Litestream beside a mirror', () => {
  /** Replicates into a directory until it is killed. */
  async function replicate(mirror: Mirror) {
    const home = temporaryDirectory();
    const replica = join(home, 'replica');
    const configuration = join(home, 'litestream.yml');
    writeFileSync(
      configuration,
      `dbs:\n  - path: ${mirror.path}\n    replicas:\n      - type: file\n        path: ${replica}\n        sync-interval: 50ms\n`,
    );
    const child = spawn(litestream ?? '', ['replicate', '-config', configuration], { stdio: 'ignore' });
    running.push(child);
    await expect.poll(() => existsSync(replica), { timeout: 30_000 }).toBe(true);
    const restore = (): Mirror => {
      const path = join(temporaryDirectory(), 'mirror.db');
      execFileSync(litestream ?? '', ['restore', '-config', configuration, '-o', path, mirror.path], {
        stdio: 'ignore',
      });
      return open({ path });
    };
    const generations = (): number => readdirSync(join(replica, 'generations')).length;
    return { child, restore, generations };
  }

  it('has every run once it caught up, also after a kill; what is restored verifies and goes on', async () => {
    const mirror = open({ clock: systemClock });
    await sync(mirror, 'roles', ORG, roles(500, 'before'));
    const { child, restore, generations } = await replicate(mirror);
    for (let run = 0; run < 6; run += 1) {
      // Larger than what the mirror checkpoints inline: each is left to the worker thread, too.
      await sync(mirror, 'roles', ORG, roles(6000, `run ${run}`));
      expect(await mirror.verify()).toMatchObject({ problems: [] });
    }
    const last = mirror.runs.list({ limit: 1 })[0]?.run;
    await expect
      .poll(
        () => {
          const restored = restore();
          // The row of a run is there from its start on.
          const found = restored.runs.list({ isPublished: true, limit: 1 })[0]?.run;
          restored.close();
          return found;
        },
        { timeout: 60_000, interval: 500 },
      )
      .toBe(last);
    child.kill('SIGKILL');

    const restored = restore();
    expect(bodies(restored, 'roles')).toEqual(bodies(mirror, 'roles'));
    expect(restored.runs.list().map(({ root }) => root)).toEqual(mirror.runs.list().map(({ root }) => root));
    expect(await restored.verify()).toMatchObject({ problems: [], checked: { runs: 7 } });
    await sync(restored, 'roles', ORG, roles(500, 'after'));
    expect(await restored.verify()).toMatchObject({ problems: [], checked: { runs: 8 } });
    // The mirror's own checkpoints never take a log from it that it has not read: that would begin another generation.
    expect(generations()).toBe(1);
  });
});
