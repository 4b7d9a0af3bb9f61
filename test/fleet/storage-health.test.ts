/** What a worker knows of the storage: when it is asked again after an outage, and when it has the mirrors of all cells. */
import { beforeEach, expect, it } from 'vitest';
import type { ErrorMessage } from '../../src/core/child-process.ts';
import { systemClock } from '../../src/core/clock.ts';
import { createLogger } from '../../src/core/logger.ts';
import { ActiveProblems } from '../../src/daemon/problems.ts';
import { StorageHealth } from '../../src/fleet/storage-health.ts';

const UNREACHABLE: ErrorMessage = { code: 'unreachable', message: 'refused', hint: null, isRetryable: true };
const FAILED = { stored: null, error: UNREACHABLE };
const STORED = { stored: { key: 'k', run: 1, bytes: 1 }, error: null };

let nowMs = 0;
let lines: string[] = [];
let health: StorageHealth;

beforeEach(() => {
  [nowMs, lines] = [0, []];
  const clock = { ...systemClock, monotonicMs: () => nowMs };
  const write = (line: string): void => {
    lines.push((JSON.parse(line) as { msg: string }).msg);
  };
  const log = createLogger('info', { write });
  health = new StorageHealth(clock, new ActiveProblems(clock, log), log);
});

it('has it asked again half a minute after it failed, though cells that did not ask reported that error meanwhile', () => {
  health.noteStored('a', FAILED, false);
  nowMs = 29_000;
  expect(health.away()).toEqual({ error: UNREACHABLE, forMs: 1_000 });
  // Begun before the time was over, and ended after it.
  nowMs = 30_500;
  health.noteStored('b', FAILED, true);
  health.failed(UNREACHABLE, true);
  expect(health.away()).toBeNull();
  health.failed(UNREACHABLE, false);
  expect(health.away()).toEqual({ error: UNREACHABLE, forMs: 30_000 });
});

it('has it asked at once after it took a mirror, and says that the trouble is over when it has those of all cells', () => {
  for (const cell of ['a', 'b', 'c']) health.noteStored(cell, FAILED, false);
  health.noteStored('b', STORED, true);
  expect(health.away()).toBeNull();
  health.noteStored('d', STORED, false);
  health.noteStored('a', { stored: null, error: null }, false);
  expect(lines).toEqual([
    'backup_behind: refused',
    'mirrors are stored again; those of a, c follow with the next run of each',
  ]);
  health.noteStored('c', STORED, false);
  health.noteStored('c', STORED, false);
  expect(lines.slice(2)).toEqual(['backup_behind is over: the newest mirrors of all cells are stored']);
  // Another time.
  health.noteStored('a', FAILED, false);
  health.noteStored('a', STORED, false);
  expect(lines.slice(3)).toEqual(['backup_behind: refused', lines[2]]);
});
