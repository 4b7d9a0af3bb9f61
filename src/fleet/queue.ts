/**
 * The queue of rate groups that are due, in PostgreSQL: the one door to pg-boss. A group is queued or under way at most
 * once (policy `exclusive`, the group as `singletonKey`). The worker that took it sends heartbeats. If they stop, any
 * worker that notices it fails the job, and the group is queued again, since its cells are still due.
 */
import { PgBoss } from 'pg-boss';
import { asTidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { asRegistryError, connectionText, databasePlace } from './registry/connection.ts';
import { queueSchema } from './registry/migrations.ts';
import type { DueGroup, Registry } from './registry/registry.ts';

interface QueueOptions {
  readonly registry: Pick<Registry, 'openQueue'>;
  readonly database: Secret;
  /** A job without a heartbeat for this long has failed; at least 10 s. */
  readonly heartbeatSeconds: number;
  readonly log: Logger;
}

/** A job that this worker has. */
export interface TakenGroup {
  readonly group: number;
  readonly id: string;
  /** Distinguishes this attempt from a later one of the same job. */
  readonly retryCount: number;
}

const QUEUE = 'groups';
/** The schema version of this pg-boss, and the oldest version whose programs can work with it. @internal */
export const BOSS_SCHEMA = { version: 46, compatibleFrom: 46 } as const;
/** How long ended jobs are kept: they have nothing that the registry lacks. */
const KEPT_SECONDS = 600;
const SELDOM_SECONDS = 3600;
const MINUTE_MS = 60_000;
/** Longer than any time limit of the work: only the heartbeat decides whether a job is alive. */
const EXPIRES_SECONDS = 23 * 3600;

export class GroupQueue {
  readonly #boss: PgBoss;
  readonly #place: string;

  private constructor(boss: PgBoss, place: string) {
    this.#boss = boss;
    this.#place = place;
  }

  /**
   * Connects, and creates or upgrades the queue if needed.
   * @throws TidemarkError as `Registry.open`; `registry_newer` if a newer program changed it
   */
  static async open(options: QueueOptions): Promise<GroupQueue> {
    const { version, compatibleFrom } = BOSS_SCHEMA;
    return options.registry.openQueue(version, compatibleFrom, () => GroupQueue.#open(options));
  }

  static async #open({ database, heartbeatSeconds, log }: QueueOptions): Promise<GroupQueue> {
    const place = databasePlace(database);
    const lookSeconds = Math.max(1, Math.floor(heartbeatSeconds / 3));
    const boss = new PgBoss({
      connectionString: connectionText(database),
      schema: queueSchema.schemaName,
      application_name: 'tidemark-queue',
      max: 2,
      schedule: false,
      registerInstance: false,
      // `lookAfter` does it: pg-boss itself would run a dozen statements in every worker, as often as the heartbeat
      // requires.
      supervise: false,
      monitorIntervalSeconds: lookSeconds,
      maintenanceIntervalSeconds: KEPT_SECONDS,
      // Neither queues nor indexes change while it runs.
      queueCacheIntervalSeconds: SELDOM_SECONDS,
      bamIntervalSeconds: SELDOM_SECONDS,
      openTelemetry: { enabled: false },
    });
    // Errors of its own maintenance, which it repeats; errors of a call are thrown by the call.
    boss.on('error', (error) =>
      log.debug({ code: asTidemarkError(asRegistryError(error, place)).code }, 'upkeep of the queue failed'),
    );
    const queue = new GroupQueue(boss, place);
    await queue.#ask(async () => {
      await boss.start();
      const options = {
        heartbeatSeconds,
        retryLimit: 0,
        expireInSeconds: EXPIRES_SECONDS,
        deleteAfterSeconds: KEPT_SECONDS,
      };
      await boss.createQueue(QUEUE, { ...options, policy: 'exclusive' });
      await boss.updateQueue(QUEUE, options);
    });
    return queue;
  }

  /**
   * Queues groups that are not queued or under way already. The group that has been due longest comes first, whenever
   * it was queued: a group whose worker died must not wait behind all others again.
   */
  async add(groups: readonly DueGroup[]): Promise<void> {
    if (groups.length === 0) return;
    const jobs = groups.map(({ group, dueAt }) => ({
      data: { group },
      singletonKey: String(group),
      group: { id: String(group) },
      priority: -Math.floor(dueAt / MINUTE_MS),
    }));
    await this.#ask(() => this.#boss.insert(QUEUE, jobs));
  }

  /** Takes at most `most` groups that are not in `except`, those that have been due longest first. */
  async take(most: number, except: readonly number[]): Promise<readonly TakenGroup[]> {
    const jobs = await this.#ask(() =>
      this.#boss.fetch<{ group: number }>(QUEUE, {
        batchSize: most,
        ...(except.length === 0 ? {} : { ignoreGroups: except.map(String) }),
      }),
    );
    return jobs.map(({ id, retryCount, data }) => ({ id, retryCount, group: data.group }));
  }

  /** Sends a heartbeat for these groups. Returns those that this worker still has. */
  async touch(taken: readonly TakenGroup[]): Promise<readonly TakenGroup[]> {
    if (taken.length === 0) return [];
    const all = await this.#touch(taken);
    if (all === taken.length) return taken;
    const own = await Promise.all(
      taken.map(async (each) => ((await this.#touch([each])) === 1 ? [each] : [])),
    );
    return own.flat();
  }

  /** Returns how many of these this worker still has. */
  async #touch(taken: readonly TakenGroup[]): Promise<number> {
    const answer = await this.#ask(() => this.#boss.touch(QUEUE, attemptsOf(taken)));
    // `affected` is documented, but missing in the types.
    return (answer as { readonly affected: number }).affected;
  }

  /** Gives groups back, except those that this worker no longer has. */
  async end(taken: readonly TakenGroup[]): Promise<void> {
    if (taken.length === 0) return;
    await this.#ask(() => this.#boss.complete(QUEUE, attemptsOf(taken)));
  }

  /** Fails the jobs of all workers that lack a heartbeat, and removes old jobs. */
  async lookAfter(): Promise<void> {
    await this.#ask(() => this.#boss.supervise(QUEUE));
  }

  async close(): Promise<void> {
    await this.#ask(() => this.#boss.stop({ graceful: false, close: true }));
  }

  async #ask<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw asRegistryError(error, this.#place);
    }
  }
}

function attemptsOf(taken: readonly TakenGroup[]): { id: string; retryCount: number }[] {
  return taken.map(({ id, retryCount }) => ({ id, retryCount }));
}
