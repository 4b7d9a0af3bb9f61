/**
 * A worker of a fleet: takes rate groups that are due, works on their cells one after the other, and publishes what came of
 * it under the group's fence. Any number of workers share a registry; each also queues what is due, and each notices where
 * another one is heard of no more.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { RetentionPolicy, TargetConfig } from '../config/config.ts';
import type { ErrorMessage } from '../core/child-process.ts';
import { type Clock, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, type ErrorCode, TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { duration, plural } from '../core/wording.ts';
import { ActiveProblems } from '../daemon/problems.ts';
import { exportRateLog, mergeRateLog, type RateLogState } from '../mirror/rate-log.ts';
import { CellProcess, type StartCellProcess } from './cell-process.ts';
import { removeMirror } from './cell-work.ts';
import type { CellOrder, CellReport, CellResult, KnownMirror } from './cell.ts';
import type { GroupQueue, TakenGroup } from './queue.ts';
import type { Publication, PublishResult } from './registry/publish.ts';
import type { Cell, HeldGroup, Registry, WorkerDescription } from './registry/registry.ts';
import { cellConfigOf, type ReadSecret } from './secret-reference.ts';

interface WorkerOptions {
  readonly registry: Registry;
  readonly queue: GroupQueue;
  readonly description: WorkerDescription;
  /** Groups that it works on at a time. */
  readonly slots: number;
  /** Mirrors are kept in `cells/NAME` below it. */
  readonly storage: TargetConfig;
  readonly recipients: readonly string[];
  readonly identities: readonly Secret[];
  /** Absolute path of the directory with the mirrors that this worker had last, for it alone. */
  readonly cache: string;
  readonly limits: WorkerLimits;
  readonly startProcess: StartCellProcess;
  /** Where the references to keys lead. */
  readonly readSecret: ReadSecret;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** In milliseconds. */
interface WorkerLimits {
  /** After so long without a word, another worker takes the group. */
  readonly heartbeatMs: number;
  /** For the work on one cell. */
  readonly cellMs: number;
  /** For work under way, once the worker is to stop. */
  readonly graceMs: number;
  /** How long a cell waits for the worker that alone has its newest mirror, before others go on without the lost runs. */
  readonly lostRunsMs: number;
  /** Between two looks for what is due, where there is nothing to do. */
  readonly pollMs: number;
}

export const DEFAULT_LIMITS: WorkerLimits = {
  heartbeatMs: 30_000,
  cellMs: 6 * 3_600_000,
  graceMs: 20_000,
  lostRunsMs: 600_000,
  pollMs: 2_000,
};

/** Of the heartbeat: the rest is for clocks and a request that was just sent. */
const LEASE_SHARE = 5 / 6;
/** Groups queued at a time: more than all workers together work on. */
const QUEUED_AT_ONCE = 100;
/** How long a group is left to other workers that this one cannot work on. */
const LEFT_MS = 30_000;
/** Between two attempts to reach the registry: at least and at most. */
const RETRY_MS = [1_000, 5_000] as const;
/** How long the result of a cell waits for the registry; then whoever takes the cell next publishes it from its mirror. */
const PUBLISH_WITHIN_MS = 15 * 60_000;
const CELLS_PER_PROCESS = 200;
/** A storage that did not answer is asked again after this time, by one cell. */
const STORAGE_AGAIN_MS = 60_000;
const NO_ANSWER: readonly ErrorCode[] = ['timeout', 'unreachable'];
/** A clock that is off by more is told. */
const CLOCK_OFF_MS = 60_000;
/** Of the grace period: the rest is for what has to be aborted. */
const FINISH_SHARE = 0.7;
const AGAIN_AFTER_FAILURE_MS = 60_000;
/** How often cached mirrors are looked at that nobody needs. */
const CLEANED_EVERY_MS = 3_600_000;
/** In the directory of a group: the end of the name of a cell's mirror. */
const MIRROR_END = '.db';
/** In the directory of a group: the path beside which the log of its requests is. */
const RATE_LOG = 'group';
/** Backups of a cell that stay in storage. */
const RETENTION: RetentionPolicy = { last: 3, daily: 7, weekly: 4, monthly: 12 };

/** A group under way. */
interface Job {
  readonly taken: TakenGroup;
  readonly process: CellProcess;
  /** Aborted when the group is this worker's no longer, or there is no more time. */
  readonly abort: AbortController;
  over: Promise<void>;
}

export class Worker {
  /** Settles when it has left, with what ended it where that was an error. */
  readonly done: Promise<void>;
  readonly #options: WorkerOptions;
  readonly #problems: ActiveProblems;
  readonly #jobs = new Set<Job>();
  readonly #idle: CellProcess[] = [];
  /** Jobs that ended, to be given back to the queue with the next look at it. */
  #ended: TakenGroup[] = [];
  /** Groups that are left to others until then, monotonic milliseconds. */
  readonly #left = new Map<number, number>();
  #wake = new AbortController();
  /** Aborted when nothing is under way any more. */
  readonly #gone = new AbortController();
  #isStopping = false;
  #isDraining = false;
  #clockAheadMs = 0;
  /** The storage did not answer: until then, by the monotonic clock, no cell asks it. */
  #storageAway: { readonly until: number; readonly error: ErrorMessage | null } = { until: 0, error: null };
  #finish: () => void = () => undefined;
  #stopped: Promise<void> | null = null;
  #loops: Promise<unknown> = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#problems = new ActiveProblems(options.clock, options.log);
    this.done = new Promise((resolve) => (this.#finish = resolve));
  }

  /** @throws TidemarkError where the registry cannot be reached */
  async start(): Promise<void> {
    const { registry, description, log, slots } = this.#options;
    await registry.join(description);
    await this.#heartbeat();
    log.info({ worker: description.name, slots, registry: registry.place }, 'worker started');
    this.#loops = Promise.all([this.#takeGroups(), this.#stayAlive()]);
  }

  /** Finishes the cells under way within the grace period, and leaves; the same promise at every call. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { clock, log, limits, registry, queue, description } = this.#options;
    this.#isStopping = true;
    this.#ring();
    if (this.#jobs.size > 0) log.info({}, `stopping: ${plural(this.#jobs.size, 'cell')} may end`);
    const over = Promise.all([...this.#jobs].map((job) => job.over));
    const finishMs = limits.graceMs * FINISH_SHARE;
    if (!(await settlesWithin(over, finishMs, clock))) {
      const reason = new TidemarkError('interrupted', 'the worker was stopped');
      for (const { abort } of this.#jobs) abort.abort(reason);
      await settlesWithin(over, limits.graceMs - finishMs, clock);
    }
    await Promise.all(
      [...this.#idle, ...[...this.#jobs].map(({ process }) => process)].map((each) => each.close()),
    );
    await over;
    this.#gone.abort();
    this.#ring();
    await this.#loops;
    try {
      await queue.end(this.#ended.splice(0));
      await registry.leave(description.name);
    } catch (error) {
      // It counts as gone after a while, and its groups are given back by themselves.
      log.warn({ code: asTidemarkError(error).code }, asTidemarkError(error).message);
    }
    log.info({}, 'worker stopped');
    this.#finish();
  }

  #ring(): void {
    this.#wake.abort();
  }

  async #sleep(ms: number): Promise<void> {
    const { clock } = this.#options;
    await clock.sleep(ms, this.#wake.signal).catch(() => undefined);
    if (this.#wake.signal.aborted && !this.#isStopping) this.#wake = new AbortController();
  }

  // Presence: the registry and the queue hear of this worker, and its processes of their lease.

  async #stayAlive(): Promise<void> {
    const { limits, clock } = this.#options;
    const { signal } = this.#gone;
    for (;;) {
      await clock.sleep(limits.heartbeatMs / 3, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.#heartbeat();
        this.#registryAnswered();
      } catch (error) {
        this.#registryFailed(error);
      }
    }
  }

  async #heartbeat(): Promise<void> {
    const { registry, queue, description, clock, limits } = this.#options;
    const sentAt = clock.now();
    const { isDraining, now } = await registry.heartbeat(description);
    this.#clockAheadMs = now - (sentAt + clock.now()) / 2;
    this.#reportClock();
    const jobs = [...this.#jobs];
    const own = await queue.touch(jobs.map(({ taken }) => taken));
    for (const { taken, process, abort } of jobs) {
      if (own.includes(taken)) {
        const forMs = limits.heartbeatMs * LEASE_SHARE - (clock.now() - sentAt);
        process.renew({ until: sentAt + limits.heartbeatMs * LEASE_SHARE, forMs });
      } else abort.abort(new TidemarkError('interrupted', 'another worker took the group'));
    }
    if (isDraining && !this.#isDraining) {
      this.#isDraining = true;
      this.#options.log.info({}, 'asked to leave: what is under way is finished');
      void this.stop();
    }
  }

  #reportClock(): void {
    const off = Math.abs(this.#clockAheadMs);
    if (off <= CLOCK_OFF_MS) {
      this.#problems.end('clock', "this machine's clock is right again");
      return;
    }
    const how = this.#clockAheadMs > 0 ? 'behind' : 'ahead of';
    const error = new TidemarkError(
      'internal',
      `this machine's clock is ${duration(off)} ${how} PostgreSQL's, which counts`,
      { hint: 'let a time service set the clocks' },
    );
    this.#problems.begin('clock', error, 'warn');
  }

  #registryAnswered(): void {
    this.#problems.end('registry', 'the registry can be reached again');
  }

  #registryFailed(thrown: unknown): void {
    const { message, hint } = asTidemarkError(thrown);
    const error = new TidemarkError(
      'registry_unreachable',
      `${message}: running work continues while its lease lasts, nothing new begins`,
      hint === undefined ? {} : { hint },
    );
    this.#problems.begin('registry', error, 'warn');
  }

  #pauseMs(): number {
    const [least, most] = RETRY_MS;
    return least + this.#options.random() * (most - least);
  }

  // Taking groups.

  async #takeGroups(): Promise<void> {
    const { slots, limits, random, clock } = this.#options;
    let cleanAt = clock.monotonicMs();
    while (!this.#isStopping) {
      const free = slots - this.#jobs.size;
      let taken: readonly TakenGroup[] = [];
      try {
        const ended = this.#ended.splice(0);
        try {
          await this.#options.queue.end(ended);
        } catch (error) {
          this.#ended.push(...ended);
          throw error;
        }
        if (free > 0) taken = await this.#take(free);
        if (clock.monotonicMs() >= cleanAt) {
          await this.#cleanCache().catch((error: unknown) => {
            if (asTidemarkError(error).code.startsWith('registry_')) throw error;
            this.#problems.begin('cache', asTidemarkError(error), 'warn');
          });
          cleanAt = clock.monotonicMs() + CLEANED_EVERY_MS;
        }
        if (ended.length > 0 || free > 0) this.#registryAnswered();
      } catch (error) {
        this.#registryFailed(error);
        await this.#sleep(this.#pauseMs());
        continue;
      }
      for (const each of taken) this.#begin(each);
      if (taken.length > 0 && this.#jobs.size < slots) continue;
      // The end of a job wakes it.
      await this.#sleep(limits.pollMs * (0.75 + random() / 2));
    }
  }

  async #take(free: number): Promise<readonly TakenGroup[]> {
    const { queue, registry } = this.#options;
    const except = this.#leftToOthers();
    const first = await queue.take(free, except);
    if (first.length === free) return first;
    const own = new Set([...this.#jobs].map(({ taken }) => taken.group));
    const due = (await registry.dueGroups(QUEUED_AT_ONCE)).filter((group) => !own.has(group));
    if (due.length === 0) return first;
    await queue.add(due);
    return [...first, ...(await queue.take(free - first.length, except))];
  }

  /** Removes cached mirrors of cells that were retired, or have another key, unless they may be the only ones. */
  async #cleanCache(): Promise<void> {
    const { cache, registry, log } = this.#options;
    const cached = readdirSync(cache, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && /^\d+$/.test(entry.name))
      .flatMap(({ name: group }) =>
        readdirSync(join(cache, group))
          .filter((file) => file.endsWith(MIRROR_END))
          .map((file) => ({
            group: Number(group),
            name: decodeURIComponent(file.slice(0, -MIRROR_END.length)),
          })),
      );
    if (cached.length === 0) return;
    const places = new Map(
      (await registry.placesOf(cached.map(({ name }) => name))).map((place) => [place.name, place]),
    );
    const removed: string[] = [];
    for (const { group, name } of cached) {
      const place = places.get(name);
      const isNeeded = place?.isRetired === false && place.group === group;
      const isAtWork = [...this.#jobs].some(({ taken }) => taken.group === group);
      if (place?.isStored !== true || isNeeded || isAtWork) continue;
      const directory = join(cache, String(group));
      const file = join(directory, encodeURIComponent(name));
      removeMirror(`${file}${MIRROR_END}`);
      rmSync(`${file}.yaml`, { force: true });
      if (!readdirSync(directory).some((each) => each.endsWith(MIRROR_END)))
        rmSync(directory, { recursive: true });
      removed.push(name);
    }
    if (removed.length > 0)
      log.info({ cells: removed }, 'mirrors of cells that are retired, or have another key, left the cache');
  }

  #leftToOthers(): readonly number[] {
    const now = this.#options.clock.monotonicMs();
    for (const [group, until] of this.#left) if (until <= now) this.#left.delete(group);
    return [...this.#left.keys()];
  }

  #begin(taken: TakenGroup): void {
    const { startProcess, clock, limits } = this.#options;
    const process =
      this.#idle.pop() ?? new CellProcess({ start: startProcess, clock, cellsPerProcess: CELLS_PER_PROCESS });
    const leaseMs = limits.heartbeatMs * LEASE_SHARE;
    process.renew({ until: clock.now() + leaseMs, forMs: leaseMs });
    const job: Job = { taken, process, abort: new AbortController(), over: Promise.resolve() };
    this.#jobs.add(job);
    job.over = this.#workOnGroup(job)
      .catch((thrown: unknown) => {
        // The group is due still, and is taken again.
        const error = asTidemarkError(thrown);
        if (error.code.startsWith('registry_')) this.#registryFailed(error);
        else this.#problems.begin(`group ${taken.group}`, error);
      })
      .then(() => {
        this.#jobs.delete(job);
        this.#ended.push(taken);
        this.#idle.push(process);
        this.#ring();
      });
  }

  // Working on a group: its cells one after the other, each published by itself.

  async #workOnGroup(job: Job): Promise<void> {
    const { registry, description, readSecret, clock } = this.#options;
    const { group } = job.taken;
    const held = await registry.holdGroup(group, description.name);
    if (held === null) return;
    const takenAt = clock.monotonicMs();
    const requests = (): JsonValue | undefined => this.#requestsOf(held, clock.monotonicMs() - takenAt);
    const [first] = held.cells;
    let secret: Secret | null = null;
    if (first !== undefined) {
      try {
        secret = readSecret(first.secret);
        this.#problems.end(`key ${first.secret}`, 'the key can be read again');
      } catch (error) {
        await this.#leave(group, `key ${first.secret}`, asTidemarkError(error));
      }
    }
    let isReleased = false;
    const isOver = (): boolean => job.abort.signal.aborted;
    if (secret !== null) {
      for (const [index, cell] of held.cells.entries()) {
        if (isOver() || (this.#isStopping && index > 0)) break;
        const begun = clock.monotonicMs();
        const result = await job.process.perform(this.#orderOf(held, cell, secret, index === 0), {
          timeLimitMs: this.#options.limits.cellMs,
          isKnown: (root) => registry.isKnownRoot(cell.id, root),
          signal: job.abort.signal,
        });
        if (isOver() && result.status !== 'worked') break;
        if (result.status === 'left') {
          if (result.error.code === 'interrupted') break;
          if (result.isOfStorage === true) this.#noteStorage(result.error);
          const about = result.isOfStorage === true ? 'storage' : `cell ${cell.name}`;
          await this.#leave(group, about, result.error);
          continue;
        }
        const isLast = index === held.cells.length - 1;
        const publication = this.#publicationOf(held, cell, result, { releases: isLast, requests });
        const published = await this.#publish(publication, job);
        if (published === null) return;
        isReleased = isLast;
        this.#report(cell, result, published, clock.monotonicMs() - begun);
      }
    }
    if (!isReleased) await registry.releaseGroup(group, held.fence, secret === null ? undefined : requests());
  }

  /**
   * The requests of a group, as the processes that worked on it wrote them down, for its next holder; undefined where none
   * did. For work that ended without a report: a process that was killed makes none.
   */
  #requestsOf(held: HeldGroup, heldMs: number): JsonValue | undefined {
    const directory = join(this.#options.cache, String(held.group));
    if (!existsSync(directory)) return undefined;
    const { clock } = this.#options;
    const registryClock = { ...clock, now: () => clock.now() + this.#clockAheadMs };
    const beside = join(directory, RATE_LOG);
    const before = rateLogState(held.rateLog, held.rateLogAgeMs + heldMs);
    try {
      if (before !== null) mergeRateLog(beside, before, registryClock);
      return (exportRateLog(beside, registryClock) ?? undefined) as unknown as JsonValue | undefined;
    } catch (error) {
      this.#problems.begin(`requests ${held.group}`, asTidemarkError(error), 'warn');
      return undefined;
    }
  }

  /** Leaves a group to other workers for a while; told once, and not counted as a failure of its cells. */
  async #leave(
    group: number,
    about: string,
    error: { readonly code: TidemarkError['code']; readonly message: string },
  ): Promise<void> {
    const { clock, registry } = this.#options;
    this.#left.set(group, clock.monotonicMs() + LEFT_MS);
    const told = new TidemarkError(error.code, `${error.message}: left to other workers`);
    this.#problems.begin(about, told, 'warn');
    await registry.noteUnworked(group, error);
  }

  #orderOf(held: HeldGroup, cell: Cell, secret: Secret, isFirst: boolean): CellOrder {
    const { cache, storage, recipients, identities, limits, clock } = this.#options;
    const directory = join(cache, String(held.group));
    const file = encodeURIComponent(cell.name);
    const now = clock.now() + this.#clockAheadMs;
    const leaseMs = limits.heartbeatMs * LEASE_SHARE;
    const { abandonedMs } = held;
    return {
      cell: cell.name,
      config: cellConfigOf(cell),
      secret: secret.reveal(),
      mirror: join(directory, `${file}${MIRROR_END}`),
      configFile: join(directory, `${file}.yaml`),
      rateLog: join(directory, RATE_LOG),
      requests: isFirst ? rateLogState(held.rateLog, held.rateLogAgeMs) : null,
      uncountedUntil: isFirst && abandonedMs !== null ? Math.min(now, now - abandonedMs + leaseMs) : null,
      known: knownMirror(cell),
      mayLoseRuns: (cell.overdueMs ?? 0) > limits.lostRunsMs,
      fence: held.fence,
      storage: cellStorage(storage, cell.name),
      storageAway: clock.monotonicMs() < this.#storageAway.until ? this.#storageAway.error : null,
      recipients,
      identities: identities.map((each) => each.reveal()),
      clockAheadMs: this.#clockAheadMs,
      showsValues: cell.showsValues,
    };
  }

  #publicationOf(
    held: HeldGroup,
    cell: Cell,
    result: Exclude<CellResult, { status: 'left' }>,
    { releases, requests }: { readonly releases: boolean; readonly requests: () => JsonValue | undefined },
  ): Publication {
    const { clock, description } = this.#options;
    const base = {
      cell: cell.id,
      group: held.group,
      fence: held.fence,
      worker: description.name,
      releases,
    };
    if (result.status !== 'worked') {
      const { code, message } = result.error;
      const rateLog = requests();
      return {
        ...base,
        ...(rateLog === undefined ? {} : { rateLog }),
        runs: [],
        error: { code, message },
        mirror: null,
        stored: null,
        findings: null,
        records: null,
        changes: [],
        quarantines: result.status === 'quarantined',
        dueInMs: AGAIN_AFTER_FAILURE_MS * (cell.failures + 1),
      };
    }
    const { report } = result;
    const pgNow = clock.now() + this.#clockAheadMs;
    return {
      ...base,
      ...contentsOf(cell, report),
      ...(report.requests === null ? {} : { rateLog: report.requests as unknown as JsonValue }),
      dueInMs:
        report.dueAt === null ? Number.MAX_SAFE_INTEGER : Math.max(0, Date.parse(report.dueAt) - pgNow),
    };
  }

  /** Null where the group is another worker's now: nothing of it was published. */
  async #publish(publication: Publication, { abort: { signal } }: Job): Promise<PublishResult | null> {
    const { registry, clock } = this.#options;
    const until = clock.monotonicMs() + PUBLISH_WITHIN_MS;
    for (;;) {
      try {
        const published = await registry.publish(publication);
        this.#registryAnswered();
        return published;
      } catch (thrown) {
        const error = asTidemarkError(thrown);
        if (!error.isRetryable || clock.monotonicMs() > until) throw error;
        this.#registryFailed(error);
      }
      await this.#options.clock.sleep(this.#pauseMs(), signal).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }

  #noteStorage(error: ErrorMessage): void {
    const { clock } = this.#options;
    const now = clock.monotonicMs();
    if (NO_ANSWER.includes(error.code) && now >= this.#storageAway.until)
      this.#storageAway = { until: now + STORAGE_AGAIN_MS, error };
  }

  #report(
    { name }: Cell,
    result: Exclude<CellResult, { status: 'left' }>,
    { isNewlyQuarantined, isReleased, failures }: PublishResult,
    ms: number,
  ): void {
    const { log } = this.#options;
    this.#problems.end(`cell ${name}`, `${name} can be worked on again`);
    const error = result.status === 'worked' ? result.report.error : result.error;
    if (result.status === 'worked') {
      const { runs, chain, storage } = result.report;
      const last = runs.at(-1);
      log.info(
        {
          cell: name,
          chain,
          ...(last === undefined ? {} : { run: last.run, outcome: last.outcome, requests: last.requests }),
          ms: Math.round(ms),
        },
        last === undefined ? 'nothing was due' : 'synced',
      );
      if (storage.error !== null) {
        this.#noteStorage(storage.error);
        const behind = new TidemarkError(storage.error.code, `backup_behind: ${storage.error.message}`);
        this.#problems.begin('storage', behind, 'warn');
      } else if (storage.stored !== null) this.#problems.end('storage', 'mirrors are stored again');
    }
    if (isNewlyQuarantined) {
      log.error(
        { cell: name, code: error?.code, failures },
        `${name} is quarantined, and tried once an hour: ${error?.message ?? 'it failed'}`,
      );
    } else if (error !== null) log.warn({ cell: name, code: error.code, failures }, error.message);
    if (isReleased) log.info({ cell: name }, `${name} is quarantined no longer`);
  }
}

/** What the registry says of a cell's mirror; null for one that has none. */
export function knownMirror(cell: Cell): KnownMirror | null {
  const { lastRun, root, projectedRun, storedKey, storedRun } = cell;
  if (lastRun === null) return null;
  const stored = storedKey === null || storedRun === null ? null : { key: storedKey, run: storedRun };
  return { lastRun, root, projectedRun, stored };
}

/** Where the mirrors of a cell are stored. */
export function cellStorage(storage: TargetConfig, cell: string): TargetConfig {
  const place = ['cells', encodeURIComponent(cell)];
  return storage.type === 'directory'
    ? { ...storage, path: join(storage.path, ...place), retention: RETENTION }
    : {
        ...storage,
        prefix: [storage.prefix, ...place].filter((part) => part !== '').join('/'),
        retention: RETENTION,
      };
}

/** A rate log as the registry has it, with its ages as of now. */
export function rateLogState(stored: JsonValue, ageMs: number): RateLogState | null {
  // Written by a worker alone, by `exportRateLog`.
  const state = stored as unknown as RateLogState | null;
  if (state === null) return null;
  return {
    ages: Object.fromEntries(
      Object.entries(state.ages).map(([limit, ages]) => [limit, ages.map((age) => age + ageMs)]),
    ),
    paces: state.paces,
  };
}

/** The part of a publication that a report gives. */
export function contentsOf(
  cell: Pick<Cell, 'lastRun'>,
  report: CellReport,
): Pick<Publication, 'runs' | 'error' | 'mirror' | 'stored' | 'findings' | 'records' | 'changes'> {
  const { runs, error, root, schemaVersion, recordCount, storage, findings, projection, changes } = report;
  const newest = runs.at(-1)?.run ?? cell.lastRun;
  return {
    runs,
    error: error === null ? null : { code: error.code, message: error.message },
    mirror: newest === null ? null : { run: newest, root, version: schemaVersion ?? 0, recordCount },
    stored: storage.stored,
    findings:
      findings === null
        ? null
        : {
            total: findings.count,
            listed: findings.rows.map(({ before, after, ...row }) => ({
              ...row,
              ...(before === undefined ? {} : { before: JSON.stringify(before) }),
              ...(after === undefined ? {} : { after: JSON.stringify(after) }),
            })),
          },
    records:
      projection === null
        ? null
        : {
            run: projection.run,
            isWhole: projection.isWhole,
            present: projection.records,
            removed: projection.removed,
          },
    changes,
  };
}
