import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { packageFile } from '../../src/core/package-root.ts';
import { childProgram } from '../tools/child-program.ts';
import { ORG, open, sync, temporaryDirectory } from './fixture.ts';

const RECORDS = 1000;
/** Enough for several slices of merging, and for a file that is made smaller in a worker thread. */
const FORGETTING_RECORDS = 800;

/** Runs the writer and kills it when it has said that many lines. */
async function killAfter(program: string, path: string, lines: number, records: number): Promise<void> {
  const child = spawn(process.execPath, [program, path, String(records)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  let said = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    expect(line).not.toBe('');
    said += 1;
    if (said === lines) child.kill('SIGKILL');
  }
  expect(await ended).toEqual([null, 'SIGKILL']);
}

const built = (name: string): Promise<string> => childProgram(packageFile('test', 'mirror', name));

describe('a process that is killed', () => {
  it('at any instant leaves the last whole run, whole', async () => {
    const program = await built('crash-child.ts');
    const path = join(temporaryDirectory(), 'mirror.db');
    // Early, while pages are staged, while it publishes and checkpoints, and in later runs.
    for (const lines of [1, 3, 5, 7, 40, 120]) {
      await killAfter(program, path, lines, RECORDS);
      const mirror = open({ path });
      const latest = mirror.runs.latest('production');
      const generations = new Set<unknown>();
      let records = 0;
      for (const { body } of mirror.records.read()) {
        generations.add((JSON.parse(body) as { generation: number }).generation);
        records += 1;
      }
      expect([...generations]).toEqual(latest === undefined ? [] : [latest.run]);
      expect(records).toBe(latest === undefined ? 0 : RECORDS);
      expect(mirror.runs.collections()[0]?.records ?? 0).toBe(records);
      expect(mirror.runs.list().filter(({ outcome }) => outcome === 'running')).toEqual([]);
      expect((await mirror.verify()).problems).toEqual([]);
      expect(existsSync(`${path}-stage`)).toBe(false);
      mirror.close();
    }
    expect(open({ path }).runs.latest('production')).toBeDefined();
  });
});

describe('a process that is killed while it forgets', () => {
  it('has forgotten all or nothing, and every run that is left is whole', async () => {
    const program = await built('forget-crash-child.ts');
    const path = join(temporaryDirectory(), 'mirror.db');
    // While it merges and seals, while the file is made smaller, and in later rounds.
    for (const lines of [2, 4, 9, 60, 150]) {
      await killAfter(program, path, lines, FORGETTING_RECORDS);
      const mirror = open({ path });
      const runs = mirror.runs.list().filter(({ root }) => root !== null);
      expect(runs.length).toBeGreaterThan(0);
      for (const { run } of runs) {
        const generations = [...mirror.records.readAt(run)].map(
          ({ body }) => (JSON.parse(body) as { generation: number }).generation,
        );
        expect(generations).toHaveLength(FORGETTING_RECORDS);
        expect([...new Set(generations)]).toEqual([run]);
      }
      // What was dropped, and only that, is missing from the numbers.
      const dropped = new Set(
        mirror.retention
          .forgets()
          .flatMap(({ runs: ranges }) =>
            ranges.flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, i) => first + i)),
          ),
      );
      const numbers = new Set(mirror.runs.list().map(({ run }) => run));
      for (let run = 1; run <= (runs[0]?.run ?? 0); run += 1)
        expect(numbers.has(run)).toBe(!dropped.has(run));
      expect((await mirror.verify()).problems).toEqual([]);
      mirror.close();
    }
  });
});

/**
 * Runs disk-full-child.ts under a limit on the size of files, in KiB: what SQLite meets is a write that fails.
 * Its arguments are the mirror's path, how many records it stages, and what it puts into each.
 */
function runLimited(program: string, limitKib: number, path: string, records: number, seed: string): string {
  const script = `trap '' XFSZ; ulimit -f ${limitKib}; exec "$0" "$@"`;
  const result = spawnSync(
    'bash',
    // Where its input is a socket, bash takes itself for a remote shell and reads ~/.bashrc.
    ['--norc', '-c', script, process.execPath, program, path, String(records), seed],
    { encoding: 'utf8' },
  );
  expect(result.stderr).toBe('');
  return result.stdout;
}

const UNLIMITED = 1_000_000;

describe('a full disk', () => {
  it('after the run is published costs nothing: its data stays in the log', async () => {
    const program = await built('disk-full-child.ts');
    const path = join(temporaryDirectory(), 'mirror.db');
    expect(runLimited(program, UNLIMITED, path, 2000, 'first')).toBe('staged\npublished\n');
    expect(runLimited(program, 1100, path, 20, 'second')).toBe('staged\npublished\nleft disk_full\n');
    const mirror = open({ path, mode: 'read' });
    expect(mirror.runs.list()).toMatchObject([
      { run: 2, outcome: 'complete' },
      { run: 1, outcome: 'complete' },
    ]);
    expect((await mirror.verify()).problems).toEqual([]);
  });

  it.each([
    ['while pages are staged', 1024, 3000, /^disk_full: .* could not be written.*\nagain disk_full\n$/],
    ['while it publishes', 1700, 1000, /^staged\ndisk_full: .* could not be written.*\nagain disk_full\n$/],
  ])(
    '%s is one clear error; what was published stays, and the next run goes on',
    async (_name, limit, records, said) => {
      const program = await built('disk-full-child.ts');
      const path = join(temporaryDirectory(), 'mirror.db');
      expect(runLimited(program, UNLIMITED, path, 1000, 'first')).toBe('staged\npublished\n');
      expect(runLimited(program, limit, path, records, 'second')).toMatch(said);
      const mirror = open({ path });
      const seeds = new Set(
        [...mirror.records.read()].map(({ body }) => (JSON.parse(body) as { seed: string }).seed),
      );
      expect([...seeds]).toEqual(['first']);
      expect(mirror.runs.list()).toMatchObject([
        { run: 2, outcome: 'failed' },
        { run: 1, outcome: 'complete' },
      ]);
      expect((await mirror.verify()).problems).toEqual([]);
      await sync(mirror, 'roles', ORG, ['{"id":"r1","seed":"third"}']);
      expect([...mirror.records.read()]).toMatchObject([{ id: 'r1' }]);
    },
  );
});
