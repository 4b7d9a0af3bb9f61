/** A rate group under way on a worker: its cells one after the other, each published under the group's fence. */
import { createHash } from 'node:crypto';
import type { TargetConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { duration, plural } from '../core/wording.ts';
import type { ActiveProblems } from '../daemon/problems.ts';
import type { CellProcess, StartCellProcess } from './cell-process.ts';
import type { CellOrder, CellResult } from './cell.ts';
import { orderOf, publicationOf, rateLogState } from './orders.ts';
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
export interface WorkerLimits {
  /** After so long without a word, another worker takes the group. */
  readonly heartbeatMs: number;
  /** For the work on one cell. */
  readonly cellMs: number;
  /** For work under way, once the worker is to stop; one that drains waits for it. */
  readonly graceMs: number;
  /** How long a cell waits for the worker that alone has its newest mirror, before others continue without the lost runs. */
  readonly lostRunsMs: number;
  /** Between two looks for what is due, if there is nothing to do. */
  readonly pollMs: number;
}

/** Of the heartbeat: the rest is for clocks and a request that was just sent. */
export const LEASE_SHARE = 5 / 6;
/** How long the result of a cell waits for the registry; then whoever takes the cell next publishes it from its mirror. */
const PUBLISH_WITHIN_MS = 15 * 60_000;
/** A reference to a key that was not read for so long is taken to be gone from the registry. */
const SHARED_KEY_MS = 24 * 60 * 60_000;
/** Cells that a line names at most. */
const CELLS_NAMED = 3;
/** What to do about a lease that was lost while the worker lives. */
const LOST_HINT =
  'if it repeats, this machine is too busy to be heard of in time: give it fewer `fleet.slots` or more processors, or all workers a longer `fleet.heartbeat`';

/** A group under way. */
export interface Job {
  readonly taken: TakenGroup;
  readonly process: CellProcess;
  /** The cell that is worked on. */
  cell: string | null;
  /** Aborted when the group is this worker's no longer, or there is no more time. */
  readonly abort: AbortController;
  over: Promise<void>;
}

/** What a worker and its groups under way share. */
interface Shared {
  readonly problems: ActiveProblems;
  /** By how much PostgreSQL's clock is ahead of this machine's. */
  readonly clockAheadMs: () => number;
  readonly isStopping: () => boolean;
  readonly registryAnswered: () => void;
  readonly registryFailed: (thrown: unknown) => void;
  /** Before the registry is asked again. */
  readonly pauseMs: () => number;
  /** Does not take the group again for a while. */
  readonly leaveToOthers: (group: number) => void;
}

interface ReadKey {
  /** Of the problem that several references lead to it. */
  readonly about: string;
  /** How many references the last log line about it counted; 1 before the first. */
  said: number;
  /** Under which references it was read, when by the monotonic clock, and for which cells. */
  readonly read: Map<string, { readonly at: number; readonly cells: readonly string[] }>;
}

export class GroupWork {
  readonly #options: WorkerOptions;
  readonly #shared: Shared;
  readonly #storage: StorageHealth;
  /** Keys by a digest of each and the service's origin. */
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
    // Until a process has brought the log of the key, and counted what holders that vanished may have sent, each cell's does both.
    let isCounted = false;
    if (first !== undefined) {
      try {
        secret = readSecret(first.secret);
        this.#shared.problems.end(`key ${first.secret}`, 'the key can be read again');
        this.#warnOfSharedKey(
          first,
          held.cells.map(({ name }) => name),
          secret,
        );
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
          const until = `${new Date(this.#now() + result.ms).toISOString().slice(0, 19)}Z`;
          const message =
            result.why ??
            `the worker before ended without a word: what it may have sent counts against the limits of the key, which leave nothing until ${until}`;
          const rateLog = (result.requests ?? undefined) as unknown as JsonValue | undefined;
          await registry.postpone(group, held.fence, result.ms, {
            rateLog,
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
          const until = `; from ${new Date(lostAt).toISOString().slice(0, 19)}Z on, any does without the lost runs`;
          await this.#leave(
            group,
            about,
            { code, message: code === 'mirror_missing' ? `${message}${until}` : message },
            cell.id,
          );
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

  /** The registry knows references only: with two of them, one key is two rate groups, and each may use the limits in full. */
  #warnOfSharedKey({ address, secret: reference }: Cell, cells: readonly string[], secret: Secret): void {
    const { problems } = this.#shared;
    const { origin } = new URL(address);
    const digest = createHash('sha256').update(`${origin} ${secret.reveal()}`).digest('base64');
    const now = this.#options.clock.monotonicMs();
    const key: ReadKey = this.#keys.get(digest) ?? { about: `keys ${reference}`, said: 1, read: new Map() };
    this.#keys.set(digest, key);
    key.read.set(reference, { at: now, cells });
    for (const [each, { at }] of key.read) if (now - at > SHARED_KEY_MS) key.read.delete(each);
    const count = key.read.size;
    if (count === 1) {
      key.said = 1;
      problems.end(key.about, `only ${reference} is used for its key now`);
      return;
    }
    const all = [...key.read.values()].flatMap((each) => each.cells);
    const more = all.length - CELLS_NAMED;
    const names = `${all.slice(0, CELLS_NAMED).join(', ')}${more > 0 ? ` and ${plural(more, 'more cell')}` : ''}`;
    const message = `${[...key.read.keys()].slice(0, 2).join(' and ')}${count > 2 ? ` and ${count - 2} more` : ''} are the same key of ${origin}, for ${names}: they are ${count} rate groups, whose requests add up beyond its limits`;
    const hint = 'give all cells of one key the same `secret`';
    // References come one by one, as their cells are due: a line for each would be many.
    if (count >= 2 * key.said) {
      problems.clear(key.about);
      key.said = count;
    }
    problems.begin(key.about, new TidemarkError('config_invalid', message, { hint }), 'warn');
  }

  /**
   * The requests of a group, for its next holder; undefined if none are known. For work that ended without a report: a
   * process that was killed makes none.
   */
  #requestsOf(held: HeldGroup, heldMs: number): JsonValue | undefined {
    const { clock, cache } = this.#options;
    const registryClock = { ...clock, now: () => this.#now() };
    const before = rateLogState(held.rateLog, held.rateLogAgeMs + heldMs);
    try {
      return cachedRequests(cache, held.group, before, registryClock);
    } catch (error) {
      this.#shared.problems.begin(`requests ${held.group}`, asTidemarkError(error), 'warn');
      return undefined;
    }
  }

  /** PostgreSQL's, epoch milliseconds. */
  #now(): number {
    return this.#options.clock.now() + this.#shared.clockAheadMs();
  }

  /** Leaves a group to other workers for a while, because of one of its cells or all; logged once, and not counted as a failure. */
  async #leave(
    group: number,
    about: string,
    error: { readonly code: TidemarkError['code']; readonly message: string },
    cell?: number,
  ): Promise<void> {
    const { registry } = this.#options;
    this.#shared.leaveToOthers(group);
    const told = new TidemarkError(error.code, `${error.message}: left to other workers`);
    this.#shared.problems.begin(about, told, 'warn');
    await registry.noteUnworked(group, error, cell);
  }

  #orderOf(held: HeldGroup, cell: Cell, secret: Secret, bringsLimitsAfterMs: number | null): CellOrder {
    const { cache, storage, recipients, identities, limits } = this.#options;
    const now = this.#now();
    const away = this.#storage.away();
    return orderOf(held, cell, {
      bringsLimitsAfterMs,
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

  /** Null where the group is another worker's now: nothing of it was published. */
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
      // The sleep fails only when the signal ends it, which is looked at next.
      await this.#options.clock.sleep(this.#shared.pauseMs(), signal).catch(() => undefined);
      if (signal.aborted) return null;
    }
  }

  #reportCut({ name }: Cell, { abort: { signal } }: Job, message: string): void {
    // The worker has said so of all cells that did not end before it has to leave.
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

/** What was done on a cell: a sync, and the baseline that was asked for. */
function doneText(isSynced: boolean, { baselineOrder, baselineDone }: Publication): string {
  const synced = isSynced ? ['synced'] : [];
  if (baselineOrder === null) return isSynced ? 'synced' : 'nothing was due';
  const baseline = `the baseline ${baselineOrder.name}`;
  if (baselineDone === null) return [...synced, `${baseline} counts once storage has the mirror`].join('; ');
  const { error } = baselineDone;
  return [...synced, `${baseline} ${error === null ? 'was set' : `could not be set: ${error}`}`].join('; ');
}
