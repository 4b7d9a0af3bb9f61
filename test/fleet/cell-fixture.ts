/** What the tests of cells share: a service, a storage, several workers' caches, and a clock that a test moves. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { TargetConfig } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { type Clock, systemClock } from '../../src/core/clock.ts';
import { createLogger } from '../../src/core/logger.ts';
import { workOnCell } from '../../src/fleet/cell-work.ts';
import type { CellOrder, CellReport, CellResult, KnownMirror } from '../../src/fleet/cell.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { assumeRequests, openReadClient } from '../../src/wire-client.ts';
import { scratch } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';

export const CELL = 'acme';
/** Without records below it. */
export const KIND = 'proxy_records';
/** A storage whose disk is not mounted. */
export const NO_STORAGE = { type: 'directory', path: '/nowhere/cells/acme', retention: null } as const;
export const KEY = 'the-key-of-acme';
const START_MS = Date.parse('2026-03-01T12:00:00.000Z');
export const INTERVAL_MS = 30 * 60_000;

/** What a registry would know, as the reports say it. */
export class Registry {
  known: KnownMirror | null = null;
  readonly runs: CellReport['runs'][number][] = [];

  publish(result: CellResult): CellReport {
    if (result.status !== 'worked') throw new Error(JSON.stringify(result));
    const { report } = result;
    this.runs.push(...report.runs);
    this.known = {
      lastRun: report.runs.at(-1)?.run ?? this.known?.lastRun ?? 0,
      root: report.root,
      projectedRun: report.projection?.run ?? this.known?.projectedRun ?? null,
      stored: report.storage.stored ?? this.known?.stored ?? null,
    };
    return report;
  }
}

export interface Fleet {
  readonly service: FakeService;
  readonly directory: string;
  readonly storage: TargetConfig;
  readonly registry: Registry;
  /** Moves the clock to the next due time and beyond. */
  readonly pass: (ms?: number) => void;
  readonly clock: Clock;
  /** Works on the cell as the worker of that name, with its own cache, under a fence; publishes nothing. */
  readonly work: (worker: string, fence: number, changes?: Partial<CellOrder>) => Promise<CellResult>;
  readonly mirrorOf: (worker: string) => string;
  /** Warnings of all workers, as JSON lines. */
  readonly warnings: readonly string[];
  /** Run number, root and number of verification problems of a worker's cached mirror. */
  readonly verified: (worker: string) => Promise<{ run: number; root: string | null; problems: number }>;
}

/** @param options.haste how many times faster than the clock waits end */
export async function fleet({ haste = 1 } = {}): Promise<Fleet> {
  const service = await FakeService.start();
  service.set(KIND, [
    { id: 'r1', name: 'First' },
    { id: 'r2', name: 'Second' },
  ]);
  const directory = scratch();
  const base = join(directory, 'storage');
  mkdirSync(base);
  const storage: TargetConfig = { type: 'directory', path: join(base, 'cells', CELL), retention: null };
  const registry = new Registry();
  let now = START_MS;
  const clock: Clock = {
    ...systemClock,
    now: () => now,
    sleep: (ms, signal) => systemClock.sleep(ms / haste, signal),
  };
  const mirrorOf = (worker: string): string => join(directory, worker, '1', `${CELL}.db`);
  const signal = new AbortController().signal;
  const warnings: string[] = [];
  const log = createLogger('warn', { write: (line) => warnings.push(line) }).child({ cell: CELL });
  return {
    service,
    directory,
    storage,
    registry,
    clock,
    pass: (ms = INTERVAL_MS) => (now += ms),
    mirrorOf,
    warnings,
    verified: async (worker) => {
      const mirror = openMirror(mirrorOf(worker), { mode: 'read', command: 'verify', clock });
      try {
        const { problems } = await mirror.verify();
        const latest = mirror.runs.latest(CELL);
        return { run: latest?.run ?? 0, root: latest?.root ?? null, problems: problems.length };
      } finally {
        mirror.close();
      }
    },
    work: (worker, fence, changes = {}) =>
      workOnCell(
        {
          cell: CELL,
          config: {
            source: { baseUrl: service.url, rate: { perMinute: 1000, perHour: 10_000 } },
            schedules: { sync: { cron: '*/30 * * * *' } },
          },
          secret: KEY,
          mirror: mirrorOf(worker),
          configFile: join(directory, worker, '1', `${CELL}.yaml`),
          rateLog: join(directory, worker, '1', 'group'),
          requests: null,
          uncounted: null,
          known: registry.known,
          dueAt: now,
          mayLoseRuns: true,
          fence,
          storage,
          storageAway: null,
          recipients: [],
          identities: [],
          clockAheadMs: 0,
          showsValues: false,
          baseline: null,
          ...changes,
        },
        {
          clock,
          random: () => 0.5,
          log,
          loadConfig: (file, env) => onlyMirrorConfig(loadConfig({ file, env, cwd: directory })),
          openReadClient: (source, sourceLog, rateLog) =>
            openReadClient(source, sourceLog, rateLog, { clock, beforeSending: () => undefined }),
          assumeRequests: (source, rateLog, uncounted) => assumeRequests(source, rateLog, uncounted, clock),
          isKnown: (root) => Promise.resolve(registry.runs.some((run) => run.root === root)),
          host: 'here',
          pid: process.pid,
          signal,
        },
      ),
  };
}
