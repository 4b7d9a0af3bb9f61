/** The work on a rate group: its cells one after the other, each published under the group's fence. */
import { createHash } from 'node:crypto';
import type { TargetConfig } from '../config/config.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { duration, firstWords } from '../core/wording.ts';
import type { ActiveProblems } from '../daemon/problems.ts';
import type { CellProcess, StartCellProcess } from './cell-process.ts';
import type { CellOrder, CellResult } from './cell.ts';
import { orderOf, publicationOf, rateLogState, storedRateLog } from './orders.ts';
import type { GroupQueue, TakenGroup } from './queue.ts';
import type { Publication, PublishResult } from './registry/publish.ts';
import type { Cell, HeldGroup } from './registry/held-group.ts';
import type { Registry, WorkerDescription } from './registry/registry.ts';
import type { ReadSecret } from './secret-reference.ts';
import { StorageHealth } from './storage-health.ts';
import { cachedRequests } from './worker-cache.ts';

export interface WorkerOptions {
  readonly registry: Registry;
  readonly queue: GroupQueue;
  readonly description: WorkerDescription;
  /** How many groups it works on at a time. */
  readonly slots: number;
  /** Mirrors are stored in `cells/NAME` below it. */
  readonly storage: TargetConfig;
  readonly recipients: readonly string[];
  readonly identities: readonly Secret[];
  /** Absolute path of the worker's own directory for mirrors. */
  readonly cache: string;
  readonly limits: WorkerLimits;
  readonly startProcess: StartCellProcess;
  readonly readSecret: ReadSecret;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

/** In milliseconds. */
export interface WorkerLimits {
  /** After this time without a heartbeat, another worker takes the group. */
  readonly heartbeatMs: number;
  /** For the work on one cell. */
  readonly cellMs: number;
  /** For work under way when the worker is stopped; a worker that drains waits for it. */
  readonly graceMs: number;
  /** How long a cell waits for the only worker that has its newest mirror, before others continue without the lost runs. */
  readonly lostRunsMs: number;
  /** Between two queries for due groups, if there is nothing to do. */
  readonly pollMs: number;
}

/** The lease ends after this share of the heartbeat: the rest is for differences of clocks, and a request that was just sent. */
export const LEASE_SHARE = 5 / 6;
/** How long the result of a cell waits for the registry; then the next worker publishes it from the mirror. */
const PUBLISH_WITHIN_MS = 15 * 60_000;
/** A reference that was not read for this long is taken to be no longer in the registry. */
const SHARED_KEY_MS = 24 * 60 * 60_000;
/** Most cells that a log line names. */
const CELLS_NAMED = 3;
/** For a lease that was lost while the worker is alive. */
const LOST_HINT =
  'if it repeats, this machine is too busy to be heard of in time: give it fewer `fleet.slots` or more processors, or all workers a longer `fleet.heartbeat`';

/** A group under way. */
export interface Job {
  readonly taken: TakenGroup;
  readonly process: CellProcess;
  /** The cell under way. */
  cell: string | null;
  /** Aborted when this worker has lost the group, or the time is over. */
  readonly abort: AbortController;
  over: Promise<void>;
}

/** What the worker provides for the work on groups. */
interface Shared {
  readonly problems: ActiveProblems;
  /** By how much PostgreSQL's clock is ahead of this machine's. */
  readonly clockAheadMs: () => number;
  readonly isStopping: () => boolean;
  readonly registryAnswered: () => void;
  readonly registryFailed: (thrown: unknown) => void;
  /** The pause before the next attempt to reach the registry. */
  readonly pauseMs: () => number;
  /** Keeps the worker from taking the group again for a while. */
  readonly leaveToOthers: (group: number) => void;
}

/** A key, with the references under which it was read. */
interface ReadKey {
  /** Name of the problem that it has several references. */
  readonly about: string;
  /** The number of references in the last log line; 1 before the first. */
  logged: number;
  /** By reference: when it was read, by the monotonic clock, and for which cells. */
  readonly references: Map<string, { readonly at: number; readonly cells: readonly string[] }>;
}

export class GroupWork {
  readonly #options: WorkerOptions;
  readonly #shared: Shared;
  readonly #storage: StorageHealth;
  /** By a digest of the key and the service's origin. */
  readonly #keys = new Map<string, ReadKey>();

  constructor(options: WorkerOptions, shared: Shared) {
    this.#options = options;
    this.#shared = shared;
    this.#storage = new StorageHealth(options.clock, shared.problems, options.log);
  }

  /** Takes the group, works on its cells one after the other, publishes each separately, and gives the group back. */
  async work(job: Job): Promise<void> {
    const { registry, description, readSecret, clock } = this.#options;
    const { group } = job.taken;
    const held = await registry.holdGroup(group, description.name);
    if (held === null) return;
    const takenAt = clock.monotonicMs();
    const takenAtMs = this.#now();
    const requests = (): JsonValue | undefined => this.#requestsOf(held, clock.monotonicMs() - takenAt);
    const [first] = held.cells;
    let secret: Secret | null = null;
    // The first report shows that the rate log was merged, with what holders that vanished may have sent; until then,
    // each order has it.
    let isCounted = false;
    if (first !== undefined) {
      try {
        secret = readSecret(first.secret);
        this.#shared.problems.end(`key ${first.secret}`, 'the key can be read again');
        this.#warnOfSharedKey(held.cells, secret);
      } catch (error) {
        await this.#leave(group, `key ${first.secret}`, asTidemarkError(error));
      }
    }
    let isReleased = false;
    const isOver = (): boolean => job.abort.signal.aborted;
    if (secret !== null) {
      for (const [index, cell] of held.cells.entries()) {
        if (isOver() || (this.#shared.isStopping() && index > 0)) break;
        const begun = clock.monotonicMs();
        job.cell = cell.name;
        const order = this.#orderOf(held, cell, secret, isCounted ? null : begun - takenAt);
        const wasAway = order.storageAway !== null;
        const result = await job.process.perform(order, {
          timeLimitMs: this.#options.limits.cellMs,
          isKnown: (root) => registry.isKnownRoot(cell.id, root),
          signal: job.abort.signal,
        });
        if (result.status === 'waits') {
          const message =
            result.why ??
            `the worker before ended without a word: what it may have sent counts against the limits of the key, which leave nothing until ${timeText(this.#now() + result.ms)}`;
          await registry.postpone(group, held.fence, result.ms, {
            rateLog: storedRateLog(result.requests),
            error: { code: result.why === null ? 'interrupted' : 'throttled', message },
          });
          isReleased = true;
          this.#options.log.info({ cell: cell.name }, waitsText(cell.name, result.ms, message));
          break;
        }
        const isCut = isOver() || (result.status === 'left' && result.error.code === 'interrupted');
        if (isCut && result.status !== 'worked') {
          this.#reportCut(cell, job, result.error.message);
          break;
        }
        if (result.status === 'left') {
          if (result.isOfStorage === true) this.#storage.failed(result.error, wasAway);
          const about = result.isOfStorage === true ? 'storage' : `cell ${cell.name}`;
          const { code, message } = result.error;
          const lostAt = takenAtMs - (cell.overdueMs ?? 0) + this.#options.limits.lostRunsMs;
          const until =
            code === 'mirror_missing' ? `; from ${timeText(lostAt)} on, any does without the lost runs` : '';
          await this.#leave(group, about, { code, message: `${message}${until}` }, cell.id);
          continue;
        }
        if (result.status === 'worked') isCounted = true;
        const isLast = index === held.cells.length - 1;
        const publication = publicationOf(held, cell, result, {
          worker: description.name,
          releases: isLast,
          countsVanished: isCounted,
          now: this.#now(),
          requests,
        });
        const published = await this.#publish(publication, job);
        if (published === null) return;
        isReleased = isLast;
        if (result.status === 'worked') this.#storage.noteStored(cell.name, result.report.storage, wasAway);
        this.#report(publication, cell, result, published, clock.monotonicMs() - begun);
      }
    }
    const rateLog = isReleased || secret === null ? undefined : requests();
    if (!isReleased) await registry.releaseGroup(group, held.fence, { rateLog, countsVanished: isCounted });
  }

  /** Two references to one key are two rate groups, and each of them would use the limits of the key in full. */
  #warnOfSharedKey(cells: readonly Cell[], secret: Secret): void {
    const [first] = cells;
    if (first === undefined) return;
    const { problems } = this.#shared;
    const { origin } = new URL(first.address);
    const digest = createHash('sha256').update(`${origin} ${secret.reveal()}`).digest('base64');
    const now = this.#options.clock.monotonicMs();
    const about = `keys ${first.secret}`;
    const key: ReadKey = this.#keys.get(digest) ?? { about, logged: 1, references: new Map() };
    this.#keys.set(digest, key);
    key.references.set(first.secret, { at: now, cells: cells.map(({ name }) => name) });
    for (const [each, { at }] of key.references) if (now - at > SHARED_KEY_MS) key.references.delete(each);
    const count = key.references.size;
    if (count === 1) {
      key.logged = 1;
      problems.end(key.about, `only ${first.secret} is used for its key now`);
      return;
    }
    const named = [...key.references.values()].flatMap((each) => each.cells);
    const message = `${[...key.references.keys()].slice(0, 2).join(' and ')}${count > 2 ? ` and ${count - 2} more` : ''} are the same key of ${origin}, for ${firstWords(named, CELLS_NAMED, { noun: 'cell' })}: they are ${count} rate groups, whose requests add up beyond its limits`;
    const hint = 'give all cells of one key the same `secret`';
    // References appear one by one, as their cells become due: logged again only when their number has doubled.
    if (count >= 2 * key.logged) {
      problems.clear(key.about);
      key.logged = count;
    }
    problems.begin(key.about, new TidemarkError('config_invalid', message, { hint }), 'warn');
  }

  /**
   * The rate log of a group for its next holder, if the work ended without a report, as when a process is killed;
   * undefined if it is not known.
   */
  #requestsOf(held: HeldGroup, heldMs: number): JsonValue | undefined {
    const { clock, cache } = this.#options;
    const registryClock = { ...clock, now: () => this.#now() };
    const before = rateLogState(held.rateLog, held.rateLogAgeMs + heldMs);
    try {
      return storedRateLog(cachedRequests(cache, held.group, before, registryClock));
    } catch (error) {
      this.#shared.problems.begin(`requests ${held.group}`, asTidemarkError(error), 'warn');
      return undefined;
    }
  }

  /** PostgreSQL's time, epoch milliseconds. */
  #now(): number {
    return this.#options.clock.now() + this.#shared.clockAheadMs();
  }

  /** Leaves a group to other workers for a while, because of one of its cells or all. Logged once; does not count as a failure. */
  async #leave(
    group: number,
    about: string,
    error: { readonly code: TidemarkError['code']; readonly message: string },
    cell?: number,
  ): Promise<void> {
    this.#shared.leaveToOthers(group);
    const problem = new TidemarkError(error.code, `${error.message}: left to other workers`);
    this.#shared.problems.begin(about, problem, 'warn');
    await this.#options.registry.noteUnworked(group, error, cell);
  }

  #orderOf(held: HeldGroup, cell: Cell, secret: Secret, heldMs: number | null): CellOrder {
    const { cache, storage, recipients, identities, limits } = this.#options;
    const now = this.#now();
    const away = this.#storage.away();
    return orderOf(held, cell, {
      heldMs,
      secret,
      cache,
      storage,
      storageAway: away === null ? null : { error: away.error, until: now + away.forMs },
      recipients,
      identities,
      now,
      clockAheadMs: this.#shared.clockAheadMs(),
      leaseMs: limits.heartbeatMs * LEASE_SHARE,
      lostRunsMs: limits.lostRunsMs,
    });
  }

  /** Null if another worker has the group now: nothing was published. */
  async #publish(publication: Publication, { abort: { signal } }: Job): Promise<PublishResult | null> {
    const { registry, clock } = this.#options;
    const until = clock.monotonicMs() + PUBLISH_WITHIN_MS;
    for (;;) {
      try {
        const published = await registry.publish(publication);
        this.#shared.registryAnswered();
        return published;
      } catch (thrown) {
        const error = asTidemarkError(thrown);
        if (!error.isRetryable || clock.monotonicMs() > until) throw error;
        this.#shared.registryFailed(error);
      }
      // Fails only if the signal is aborted, which is checked next.
      await clock.sleep(this.#shared.pauseMs(), signal).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }

  #reportCut({ name }: Cell, { abort: { signal } }: Job, message: string): void {
    // A worker that stops has logged it for all its cells.
    if (this.#shared.isStopping()) return;
    const why = signal.aborted ? asTidemarkError(signal.reason).message : message;
    this.#options.log.warn({ cell: name, hint: LOST_HINT }, `${name} was cut short: ${why}`);
  }

  #report(
    publication: Publication,
    { name }: Cell,
    result: Exclude<CellResult, { status: 'left' | 'waits' }>,
    { isNewlyQuarantined, isReleased, failures }: PublishResult,
    ms: number,
  ): void {
    const { log } = this.#options;
    this.#shared.problems.end(`cell ${name}`, `${name} can be worked on again`);
    const { error, waits } = result.status === 'worked' ? result.report : { ...result, waits: undefined };
    if (result.status === 'worked') {
      const { runs, chain } = result.report;
      const last = runs.at(-1);
      log.info(
        {
          cell: name,
          chain,
          ...(last === undefined ? {} : { run: last.run, outcome: last.outcome, requests: last.requests }),
          ms: Math.round(ms),
        },
        doneText(last !== undefined, publication),
      );
    }
    if (isNewlyQuarantined) {
      log.error(
        { cell: name, code: error?.code, failures },
        `${name} is quarantined, and tried once an hour: ${error?.message ?? 'it failed'}`,
      );
    } else if (waits !== undefined) log.info({ cell: name }, waitsText(name, waits.ms, waits.why));
    else if (error !== null) log.warn({ cell: name, code: error.code, failures }, error.message);
    if (isReleased) log.info({ cell: name }, `${name} is quarantined no longer`);
  }
}

function waitsText(cell: string, ms: number, why: string): string {
  return `${cell} waits ${duration(ms)}: ${why}`;
}

/** An instant in UTC, to the second. */
function timeText(epochMs: number): string {
  return `${isoTime(epochMs).slice(0, 19)}Z`;
}

/** What was done on a cell: a sync, and the baseline that was asked for. */
function doneText(isSynced: boolean, { baselineOrder, baselineDone }: Publication): string {
  const synced = isSynced ? ['synced'] : [];
  if (baselineOrder === null) return isSynced ? 'synced' : 'nothing was due';
  const baseline = `the baseline ${baselineOrder.name}`;
  if (baselineDone === null) return [...synced, `${baseline} counts once storage has the mirror`].join('; ');
  const { error } = baselineDone;
  return [...synced, `${baseline} ${error === null ? 'was set' : `could not be set: ${error}`}`].join('; ');
}
