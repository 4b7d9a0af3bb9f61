/**
 * A worker of a fleet: takes rate groups that are due, works on their cells one after the other, and publishes the
 * results under the group's fence. Any number of workers share a registry. Each of them queues what is due, and notices
 * if another one vanishes.
 */
import { aborted } from '../core/aborted.ts';
import { settlesWithin } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { duration, plural } from '../core/wording.ts';
import { ActiveProblems } from '../daemon/problems.ts';
import { CellProcess, STOP_MS } from './cell-process.ts';
import { GroupWork, type Job, LEASE_SHARE, type WorkerLimits, type WorkerOptions } from './group-work.ts';
import type { TakenGroup } from './queue.ts';
import { cleanCache } from './worker-cache.ts';

export const DEFAULT_LIMITS: WorkerLimits = {
  heartbeatMs: 30_000,
  cellMs: 6 * 3_600_000,
  graceMs: 20_000,
  lostRunsMs: 600_000,
  pollMs: 2_000,
};

/** A worker sends three heartbeats in `heartbeatMs`. */
const BEAT_SHARE = 1 / 3;
/** How often old entries of the queue are removed. */
const UPKEEP_MS = 300_000;
/** Groups queued at a time: more than all workers together work on. */
const QUEUED_AT_ONCE = 100;
/** The pause between two attempts to reach the registry: at least and at most. */
const RETRY_MS = [1_000, 5_000] as const;
const CELLS_PER_PROCESS = 200;
/** A clock that is off by more is reported. */
const CLOCK_OFF_MS = 60_000;
/** While the queue has more groups than this worker can take, groups are given back together: this many, or after `pollMs`. */
const ENDED_AT_ONCE = 10;
/** How often mirrors that are no longer needed are removed from the cache. */
const CLEANED_EVERY_MS = 3_600_000;

export class Worker {
  /** Resolves when the worker has stopped. */
  readonly done: Promise<void>;
  readonly #options: WorkerOptions;
  readonly #problems: ActiveProblems;
  readonly #groups: GroupWork;
  readonly #jobs = new Set<Job>();
  readonly #idle: CellProcess[] = [];
  /** Jobs that ended and are not given back to the queue yet, and when the first of them ended. */
  #ended: TakenGroup[] = [];
  #endedAt = 0;
  /** Groups that are left to others, and until when, monotonic milliseconds. */
  readonly #left = new Map<number, number>();
  #wake = new AbortController();
  /** Aborted when no work is under way any more. */
  readonly #gone = new AbortController();
  #isStopping = false;
  #isDraining = false;
  /** Aborted when the work under way has only the grace period left. */
  readonly #hurry = new AbortController();
  #clockAheadMs = 0;
  /** When `#lookAfterQueue` last ran, monotonic milliseconds. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** True if the queue had as many groups as this worker could take. */
  #isQueueLong = false;
  #finish: () => void = () => undefined;
  #stopped: Promise<void> | null = null;
  #loops: Promise<unknown> = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#problems = new ActiveProblems(options.clock, options.log);
    const { clock, limits } = options;
    this.#groups = new GroupWork(options, {
      problems: this.#problems,
      clockAheadMs: () => this.#clockAheadMs,
      isStopping: () => this.#isStopping,
      registryAnswered: () => this.#registryAnswered(),
      registryFailed: (thrown) => this.#registryFailed(thrown),
      pauseMs: () => this.#pauseMs(),
      leaveToOthers: (group) => this.#left.set(group, clock.monotonicMs() + limits.heartbeatMs),
    });
    this.done = new Promise((resolve) => (this.#finish = resolve));
  }

  /** @throws TidemarkError if the registry cannot be reached */
  async start(): Promise<void> {
    const { registry, description, log, slots } = this.#options;
    await registry.join(description);
    await this.#heartbeat();
    log.info({ worker: description.name, slots, registry: registry.place }, 'worker started');
    this.#loops = Promise.all([this.#takeGroups(), this.#stayAlive()]);
  }

  /**
   * Begins nothing new, and leaves when the cells under way have ended. After the grace period they are cut short.
   * Every call returns the same promise.
   */
  stop(): Promise<void> {
    this.#hurry.abort();
    return this.#leave();
  }

  /** Begins nothing new, and leaves when the cells under way have ended, however long they take (but see `#hurry`). */
  #leave(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { log, registry, queue, description, limits } = this.#options;
    this.#isStopping = true;
    this.#ring();
    if (this.#jobs.size > 0) {
      const most = this.#hurry.signal.aborted ? limits.graceMs : limits.cellMs;
      log.info(
        { cells: this.#atWork() },
        `stopping: ${plural(this.#jobs.size, 'cell')} may end, for ${duration(most)} at most`,
      );
    }
    await this.#endOfWork();
    await Promise.all(
      [...this.#idle, ...[...this.#jobs].map(({ process }) => process)].map((each) => each.close()),
    );
    await Promise.all([...this.#jobs].map((job) => job.over));
    this.#gone.abort();
    this.#ring();
    await this.#loops;
    try {
      await queue.end(this.#ended.splice(0));
      await registry.leave(description.name);
    } catch (error) {
      // After a while it counts as gone, and other workers take its groups.
      log.warn({ code: asTidemarkError(error).code }, asTidemarkError(error).message);
    }
    log.info({}, 'worker stopped');
    this.#finish();
  }

  /** Waits for the work under way, and cuts it short after the grace period. */
  async #endOfWork(): Promise<void> {
    const { clock, log, limits } = this.#options;
    const over = Promise.all([...this.#jobs].map((job) => job.over));
    const isOver = await Promise.race([over.then(() => true), aborted(this.#hurry.signal).then(() => false)]);
    if (isOver || (await settlesWithin(over, limits.graceMs, clock))) return;
    const cells = this.#atWork();
    log.warn(
      { cells },
      `cut short, since ${plural(cells.length, 'cell')} did not end within ${duration(limits.graceMs)}: ${cells.join(', ')}; another worker does the work again`,
    );
    const reason = new TidemarkError('interrupted', 'the worker was stopped');
    for (const { abort } of this.#jobs) abort.abort(reason);
    await settlesWithin(over, STOP_MS, clock);
  }

  #atWork(): string[] {
    return [...this.#jobs].flatMap(({ cell }) => cell ?? []);
  }

  #ring(): void {
    this.#wake.abort();
  }

  async #sleep(ms: number): Promise<void> {
    const { clock } = this.#options;
    // Fails only if the signal is aborted.
    await clock.sleep(ms, this.#wake.signal).catch(() => undefined);
    if (this.#wake.signal.aborted && !this.#isStopping) this.#wake = new AbortController();
  }

  // Heartbeats: to the registry and the queue; and the lease for the worker's processes.

  async #stayAlive(): Promise<void> {
    const { limits, clock } = this.#options;
    const { signal } = this.#gone;
    for (;;) {
      // Fails only if the signal is aborted, which is checked next.
      await clock.sleep(limits.heartbeatMs * BEAT_SHARE, signal).catch(() => undefined);
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
    const { isDraining, now, isOtherSilent } = await registry.heartbeat(description, limits.heartbeatMs);
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
    if (isOtherSilent || clock.monotonicMs() - this.#lookedAt >= UPKEEP_MS) await this.#lookAfterQueue();
    if (isDraining && !this.#isDraining) {
      this.#isDraining = true;
      this.#options.log.info({}, 'asked to leave, by `fleet drain`');
      void this.#leave();
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
      'clock_skew',
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
    const isStopping = (): boolean => this.#isStopping;
    let cleanAt = clock.monotonicMs();
    while (!isStopping()) {
      const free = slots - this.#jobs.size;
      let taken: readonly TakenGroup[] = [];
      try {
        if (free > 0) taken = await this.#take(free);
        if (clock.monotonicMs() >= cleanAt) {
          await this.#cleanCache();
          cleanAt = clock.monotonicMs() + CLEANED_EVERY_MS;
        }
        const isDue = clock.monotonicMs() - this.#endedAt >= limits.pollMs;
        if (isDue || this.#ended.length >= ENDED_AT_ONCE) await this.#giveBack();
        if (free > 0) this.#registryAnswered();
      } catch (error) {
        this.#registryFailed(error);
        this.#ended.push(...taken);
        await this.#sleep(this.#pauseMs());
        continue;
      }
      // If it was asked to stop meanwhile, others take the groups.
      if (isStopping()) this.#ended.push(...taken);
      else for (const each of taken) this.#begin(each);
      if (taken.length > 0 && this.#jobs.size < slots) continue;
      // Ends early when a job ends.
      await this.#sleep(limits.pollMs * (0.75 + random() / 2));
    }
  }

  /** Takes groups from the queue. Queues what is due first, unless the queue had enough groups the last time. */
  async #take(free: number): Promise<readonly TakenGroup[]> {
    const { queue, registry } = this.#options;
    const except = this.#leftToOthers();
    const first = this.#isQueueLong ? await queue.take(free, except) : [];
    this.#isQueueLong = first.length === free;
    if (this.#isQueueLong) return first;
    // Groups that ended may be due again.
    await this.#giveBack();
    const own = [...this.#jobs].map(({ taken }) => taken.group);
    const due = await registry.dueGroups(QUEUED_AT_ONCE, [...own, ...except]);
    if (due.length === 0) return first;
    await queue.add(due);
    const more = await queue.take(free - first.length, except);
    this.#isQueueLong = more.length === free - first.length;
    // Due, but not available: another worker has them, or had them when it died.
    if (more.length === 0) await this.#lookAfterQueue();
    return [...first, ...more];
  }

  /** Fails the jobs of workers that vanished; their groups are queued again when `#take` looks for what is due. */
  async #lookAfterQueue(): Promise<void> {
    const { clock, limits, queue } = this.#options;
    const now = clock.monotonicMs();
    if (now - this.#lookedAt < limits.heartbeatMs * BEAT_SHARE) return;
    this.#lookedAt = now;
    await queue.lookAfter();
    this.#isQueueLong = false;
  }

  async #giveBack(): Promise<void> {
    const ended = this.#ended.splice(0);
    try {
      await this.#options.queue.end(ended);
    } catch (error) {
      this.#ended.push(...ended);
      throw error;
    }
  }

  async #cleanCache(): Promise<void> {
    const { cache, registry, log } = this.#options;
    try {
      const removed = await cleanCache(
        cache,
        (names) => registry.placesOf(names),
        (group) => [...this.#jobs].some(({ taken }) => taken.group === group),
      );
      if (removed.length > 0)
        log.info(
          { cells: removed },
          'mirrors of cells that are retired, or have another key, left the cache',
        );
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      if (error.code.startsWith('registry_')) throw error;
      this.#problems.begin('cache', error, 'warn');
    }
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
    const job: Job = { taken, process, cell: null, abort: new AbortController(), over: Promise.resolve() };
    this.#jobs.add(job);
    job.over = this.#groups
      .work(job)
      .catch((thrown: unknown) => {
        // The group is still due, and is taken again.
        const error = asTidemarkError(thrown);
        if (error.code.startsWith('registry_')) this.#registryFailed(error);
        else this.#problems.begin(`group ${taken.group}`, error);
      })
      .then(() => {
        this.#jobs.delete(job);
        if (this.#ended.length === 0) this.#endedAt = clock.monotonicMs();
        this.#ended.push(taken);
        this.#idle.push(process);
        this.#ring();
      });
  }
}
