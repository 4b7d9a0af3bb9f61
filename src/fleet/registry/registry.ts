/**
 * The registry of a fleet in PostgreSQL: its cells, who works on them, and what their runs found. Only PostgreSQL's
 * clock counts: callers pass ages and durations, never times of their own.
 *
 * A worker takes a rate group (`holdGroup`), which raises the group's fence, and publishes under that number. The next
 * worker gets a higher number, so a worker that was suspended and resumes cannot publish.
 */
import { and, asc, eq, inArray, isNotNull, isNull, lt, lte, min, notInArray, or, sql } from 'drizzle-orm';
import { alias } from 'drizzle-orm/pg-core';
import type { CellDeclaration } from '../../config/cells.ts';
import { type ErrorCode, TidemarkError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import type { Secret } from '../../core/secret.ts';
import type { BaselineOrder } from '../cell.ts';
import type { CellsPlan, RegisteredCell } from '../cells-plan.ts';
import { type Connections, asRegistryError, openConnections } from './connection.ts';
import { checkQueueVersion, migrate, noteQueueVersion, schemaState } from './migrations.ts';
import { applyCells, registeredCells } from './cells.ts';
import { checkedOutCell, checkInCell, checkOutCell } from './checkouts.ts';
import { cellColumns, type HeldGroup, heldGroup } from './held-group.ts';
import {
  type CellFilter,
  type CellOverview,
  cellOverviews,
  IS_ALIVE,
  NEWEST_PUBLISHED,
  SEEN_AGE_MS,
  type WorkerOverview,
  workerOverviews,
} from './overview.ts';
import {
  type ChangeFilter,
  type ChangeOverview,
  changeOverviews,
  changeSummaries,
  type ChangeSummary,
  type FindingFilter,
  type FindingOverview,
  findingOverviews,
  type Listed,
  type RunFilter,
  type RunOverview,
  runOverviews,
  unknownOrganizations,
} from './results.ts';
import {
  failureOf,
  NOW_LEFT,
  type Publication,
  type PublishResult,
  publish,
  rateLogColumns,
  type RateLogUpdate,
} from './publish.ts';
import { queryViews, type QueryAnswer } from './query.ts';
import { ageMs, cells, groups, runs, workers } from './schema.ts';

export interface CellPlace {
  readonly name: string;
  readonly group: number;
  readonly isRetired: boolean;
  readonly isStored: boolean;
}

export interface WorkerDescription {
  readonly name: string;
  readonly host: string;
  /** Of the program. */
  readonly version: string;
}

const now = sql`now()`;
const after = (ms: number) => sql`now() + ${Math.round(ms)} * interval '1 millisecond'`;
const isWorkable = inArray(cells.state, ['active', 'quarantined']);

interface RegistryOptions {
  /** Connections at a time. */
  readonly maxConnections?: number;
  /** Creates and upgrades the tables; otherwise missing tables are an error. */
  readonly migrates?: boolean;
}

/** A group with cells that are due. */
export interface DueGroup {
  readonly group: number;
  /** When the first of these cells was due, epoch milliseconds. */
  readonly dueAt: number;
}

export class Registry {
  readonly #connections: Connections;
  /** The upgrade of the tables when it was opened; null if they were up to date. */
  readonly migrated: { readonly from: number; readonly to: number } | null;

  private constructor(connections: Connections, migrated: Registry['migrated']) {
    this.#connections = connections;
    this.migrated = migrated;
  }

  /**
   * Connects, and checks the version of the tables.
   * @throws TidemarkError `registry_unreachable`, `registry_denied`, `registry_missing`, `registry_older`,
   * `registry_newer`, `registry_version`
   */
  static async open(
    url: Secret,
    { maxConnections = 4, migrates = false }: RegistryOptions = {},
  ): Promise<Registry> {
    const connections = openConnections(url, maxConnections);
    const { db, place } = connections;
    try {
      const { version, latest } = await schemaState(db, place);
      if (version >= latest) return new Registry(connections, null);
      if (migrates) return new Registry(connections, await migrate(connections));
      throw version === 0
        ? new TidemarkError('registry_missing', `the registry ${place} has no tables yet`, {
            hint: 'run `tidemark fleet apply FILE --yes`, which creates them',
          })
        : new TidemarkError(
            'registry_older',
            `the registry ${place} has schema ${version}, this Tidemark needs ${latest}`,
            { hint: 'run `tidemark fleet apply FILE --yes` with this version, which upgrades it' },
          );
    } catch (error) {
      await connections.close();
      throw asRegistryError(error, place);
    }
  }

  /**
   * The version of the tables, 0 if there are none, and the version that this program needs. Changes nothing.
   * @throws TidemarkError as `open`
   */
  static async schema(url: Secret): Promise<{ readonly version: number; readonly latest: number }> {
    const connections = openConnections(url, 1);
    try {
      return await schemaState(connections.db, connections.place);
    } catch (error) {
      throw asRegistryError(error, connections.place);
    } finally {
      await connections.close();
    }
  }

  /** Server and database, without user and password. */
  get place(): string {
    return this.#connections.place;
  }

  async close(): Promise<void> {
    await this.#connections.close();
  }

  async #query<T>(work: (db: Connections['db']) => Promise<T>): Promise<T> {
    try {
      return await work(this.#connections.db);
    } catch (error) {
      throw asRegistryError(error, this.place);
    }
  }

  // For workers.

  /**
   * Opens the queue with `open`, unless the schema in the database is newer and this program cannot work with it.
   * @param version of the schema of pg-boss that this program uses
   * @param compatibleFrom the oldest version whose programs can work with `version`
   * @throws TidemarkError `registry_newer`
   */
  async openQueue<T>(version: number, compatibleFrom: number, open: () => Promise<T>): Promise<T> {
    await this.#query(async (db) => checkQueueVersion(db, this.place, version));
    const queue = await open();
    await this.#query(async (db) => noteQueueVersion(db, version, compatibleFrom));
    return queue;
  }

  /**
   * Groups with cells that are due, longest first. Without those that a person checked out, and without `except`:
   * groups that a worker cannot work on must not keep the others from being queued.
   */
  async dueGroups(limit: number, except: readonly number[] = []): Promise<readonly DueGroup[]> {
    const since = min(cells.dueAt);
    return this.#query(async (db) =>
      db
        .select({ group: cells.group, dueAt: sql<number>`extract(epoch from ${since})::float8 * 1000` })
        .from(cells)
        .innerJoin(groups, eq(groups.id, cells.group))
        .where(
          and(
            isWorkable,
            lte(cells.dueAt, now),
            isNull(groups.checkedOutCell),
            except.length === 0 ? undefined : notInArray(cells.group, [...except]),
          ),
        )
        .groupBy(cells.group)
        .orderBy(asc(since))
        .limit(limit),
    );
  }

  /**
   * Takes a group for a worker: its previous holder can no longer publish. Null if a person has checked it out, or it
   * does not exist. Call it only with the job that the queue handed out for the group.
   */
  async holdGroup(group: number, worker: string): Promise<HeldGroup | null> {
    // The period begins with the first holder that vanished: the next one may also vanish, or return the group, before
    // it has counted the requests.
    const uncountedSince = sql`coalesce(${groups.uncountedSince}, case when ${groups.holder} is not null then ${groups.heldAt} end)`;
    // If a process of the same name started since, the holder ended before that.
    const seenAt = sql`greatest(${groups.heldAt}, case when ${workers.startedAt} > ${groups.heldAt} then ${workers.startedAt} else ${workers.seenAt} end)`;
    return this.#query(async (db) => {
      const prior = db.$with('prior').as(
        db
          .select({
            uncountedUntil:
              sql`case when ${groups.holder} is null then ${groups.uncountedUntil} else ${seenAt} end`.as(
                'uncounted_until',
              ),
          })
          .from(groups)
          .leftJoin(workers, eq(workers.name, groups.holder))
          .where(eq(groups.id, group)),
      );
      const held = db.$with('held').as(
        db
          .update(groups)
          .set({
            fence: sql`${groups.fence} + 1`,
            holder: worker,
            heldAt: now,
            uncountedSince,
            uncountedUntil: sql`(select uncounted_until from prior)`,
          })
          .where(and(eq(groups.id, group), isNull(groups.checkedOutCell)))
          .returning({
            id: groups.id,
            fence: groups.fence,
            rateLog: groups.rateLog,
            rateLogAt: groups.rateLogAt,
            uncountedSince: groups.uncountedSince,
            uncountedUntil: groups.uncountedUntil,
          }),
      );
      const rows = await db
        .with(prior, held)
        .select({
          abandonedMs: ageMs(held.uncountedUntil),
          uncountedMs: ageMs(held.uncountedSince),
          fence: held.fence,
          rateLog: held.rateLog,
          rateLogAgeMs: ageMs(held.rateLogAt),
          cell: cellColumns,
        })
        .from(held)
        .leftJoin(cells, and(eq(cells.group, held.id), isWorkable, lte(cells.dueAt, now)))
        .orderBy(asc(cells.dueAt));
      return heldGroup(group, rows);
    });
  }

  /**
   * Gives a group back. Does nothing if somebody else has taken it.
   * @param written as in `Publication`
   */
  async releaseGroup(group: number, fence: number, written: RateLogUpdate = {}): Promise<void> {
    await this.#query(async (db) =>
      db
        .update(groups)
        .set({ holder: null, ...rateLogColumns(written) })
        .where(and(eq(groups.id, group), eq(groups.fence, fence))),
    );
  }

  /**
   * Gives a group back whose limits allow no request for `ms`: then its cells are due again. Does nothing if somebody
   * else has taken it.
   * @param why.rateLog includes what holders that vanished may have sent; undefined if it cannot be read: then they are
   * counted again
   * @param why.error `throttled` for a known limit, `interrupted` for what a holder that vanished may have sent: shown
   * with the cells until they are worked on
   */
  async postpone(
    group: number,
    fence: number,
    ms: number,
    {
      rateLog,
      error,
    }: {
      readonly rateLog: JsonValue | undefined;
      readonly error: { readonly code: 'throttled' | 'interrupted'; readonly message: string };
    },
  ): Promise<void> {
    await this.#query(async (db) => {
      const released = db.$with('released').as(
        db
          .update(groups)
          .set({ holder: null, ...rateLogColumns({ rateLog, countsVanished: true }) })
          .where(and(eq(groups.id, group), eq(groups.fence, fence)))
          .returning({ id: groups.id }),
      );
      await db
        .with(released)
        .update(cells)
        .set({
          dueAt: after(ms),
          // A cell that fails keeps its error.
          errorCode: sql`case when ${cells.failures} = 0 then ${error.code} else ${cells.errorCode} end`,
          error: sql`case when ${cells.failures} = 0 then ${error.message} else ${cells.error} end`,
        })
        .where(
          and(
            inArray(cells.group, db.select({ id: released.id }).from(released)),
            isWorkable,
            lte(cells.dueAt, after(ms)),
          ),
        );
    });
  }

  /**
   * Publishes the result of a job on a cell, in one transaction: its runs, findings, records, changes, the key of its
   * stored mirror, when it is due next, and whether it failed. Null, and nothing published, if the fence was lost, or
   * the cell was retired or given another key since.
   */
  async publish(publication: Publication): Promise<PublishResult | null> {
    return this.#query(async (db) => publish(db, publication));
  }

  /**
   * Records that the worker is alive. Returns whether it should finish and leave, PostgreSQL's time in epoch
   * milliseconds, and whether a group is held by a worker that was silent for `silentMs`. A worker that starts calls
   * `join` first.
   */
  async heartbeat(
    { name, host, version }: WorkerDescription,
    silentMs: number,
  ): Promise<{ readonly isDraining: boolean; readonly now: number; readonly isOtherSilent: boolean }> {
    return this.#query(async (db) => {
      const holder = alias(workers, 'holder');
      const isSilent = lte(sql`greatest(${groups.heldAt}, ${holder.seenAt})`, after(-silentMs));
      // Held by an earlier process of the same name.
      const isEarlier = lt(groups.heldAt, holder.startedAt);
      const silent = db
        .select({ id: groups.id })
        .from(groups)
        .leftJoin(holder, eq(holder.name, groups.holder))
        .where(and(isNotNull(groups.holder), isNull(groups.checkedOutCell), or(isSilent, isEarlier)));
      const rows = await db
        .insert(workers)
        .values({ name, host, version })
        .onConflictDoUpdate({ target: workers.name, set: { host, version, seenAt: now } })
        .returning({
          isDraining: workers.isDraining,
          now: sql<number>`(extract(epoch from clock_timestamp()) * 1000)::float8`,
          isOtherSilent: sql<boolean>`exists ${silent}`,
        });
      const [row] = rows;
      if (row === undefined) throw new TidemarkError('internal', 'an upsert returns its row');
      return row;
    });
  }

  /** The groups of these cells, and whether storage has everything that was published. Unknown names are left out. */
  async placesOf(names: readonly string[]): Promise<readonly CellPlace[]> {
    return this.#query(async (db) =>
      db
        .select({
          name: cells.name,
          group: cells.group,
          isRetired: sql<boolean>`${cells.state} = 'retired'`,
          // False for a cell without runs: the registry may have been lost, and with it the knowledge of them.
          isStored: sql<boolean>`coalesce(${cells.storedRun} >= nullif(${NEWEST_PUBLISHED}, 0), false)`,
        })
        .from(cells)
        .where(inArray(cells.name, [...names])),
    );
  }

  /** Whether a run of this cell with that root hash was published. */
  async isKnownRoot(cell: number, root: string): Promise<boolean> {
    const rows = await this.#query(async (db) =>
      db
        .select({ run: runs.run })
        .from(runs)
        .where(and(eq(runs.cell, cell), eq(runs.root, root)))
        .limit(1),
    );
    return rows.length > 0;
  }

  /** Records why a worker could not begin with the due cells of a group, or with one of them. This does not count as a failure. */
  async noteUnworked(
    group: number,
    error: { readonly code: ErrorCode; readonly message: string },
    cell?: number,
  ): Promise<void> {
    // If the last job failed, its error comes first: it is what is wrong with the cell.
    const hasFailed = sql`${cells.failures} > 0 and ${cells.error} is not null`;
    const code = sql`case when ${hasFailed} then ${cells.errorCode} else ${error.code} end`;
    const message = sql`case when ${hasFailed} then ${failureOf(cells.error)} || ${NOW_LEFT + error.message}::text else ${error.message} end`;
    await this.#query(async (db) =>
      db
        .update(cells)
        .set({ errorCode: code, error: message })
        .where(
          and(
            eq(cells.group, group),
            cell === undefined ? undefined : eq(cells.id, cell),
            isWorkable,
            lte(cells.dueAt, now),
            sql`${cells.error} is distinct from ${message}`,
          ),
        ),
    );
  }

  /**
   * Records that a worker starts; a request to an earlier process of its name to leave no longer counts. Workers that
   * were silent for a day are deleted, such as killed pods, whose names never return.
   */
  async join({ name, host, version }: WorkerDescription): Promise<void> {
    const fresh = { host, version, startedAt: now, seenAt: now, isDraining: false };
    await this.#query(async (db) => {
      const isForgotten = lte(workers.seenAt, sql`now() - interval '1 day'`);
      const holders = db.select({ holder: groups.holder }).from(groups).where(isNotNull(groups.holder));
      await db.delete(workers).where(and(isForgotten, notInArray(workers.name, holders)));
      await db
        .insert(workers)
        .values({ name, host, version })
        .onConflictDoUpdate({ target: workers.name, set: fresh });
    });
  }

  /** Records that a worker ended. */
  async leave(name: string): Promise<void> {
    await this.#query(async (db) => db.delete(workers).where(eq(workers.name, name)));
  }

  /**
   * Asks a worker to finish its work and leave; a silent worker does so if it returns.
   * @returns whether it is alive; null if there is no worker of that name
   */
  async drain(name: string): Promise<Pick<WorkerOverview, 'isAlive' | 'seenAgeMs'> | null> {
    const rows = await this.#query(async (db) =>
      db
        .update(workers)
        .set({ isDraining: true })
        .where(eq(workers.name, name))
        .returning({ isAlive: IS_ALIVE, seenAgeMs: SEEN_AGE_MS }),
    );
    return rows[0] ?? null;
  }

  // For people.

  /** All cells, for `fleet apply`; retired ones too. */
  async registeredCells(): Promise<readonly RegisteredCell[]> {
    return this.#query(registeredCells);
  }

  /**
   * Applies a plan in one transaction.
   * @throws TidemarkError `unsafe_plan` if the registry changed since the plan was made
   */
  async applyCells(declared: readonly CellDeclaration[], plan: CellsPlan): Promise<void> {
    await this.#query(async (db) => applyCells(db, declared, plan));
  }

  /** The cells that are not retired, those with the worst health first; if names are given, retired ones too. */
  async overview(filter?: CellFilter): Promise<readonly CellOverview[]> {
    return this.#query(async (db) => cellOverviews(db, filter));
  }

  async workers(): Promise<readonly WorkerOverview[]> {
    return this.#query(workerOverviews);
  }

  /** Runs, the newest first. */
  async runs(filter: RunFilter): Promise<readonly RunOverview[]> {
    return this.#query(async (db) => runOverviews(db, filter));
  }

  /** Changes, the newest first, and how many there are in all. */
  async changes(filter: ChangeFilter): Promise<Listed<ChangeOverview>> {
    return this.#query(async (db) => changeOverviews(db, filter));
  }

  /** Those of the given ids and names of organizations that none of the cells is known to have. */
  async unknownOrganizations(filter: Parameters<typeof unknownOrganizations>[1]): Promise<readonly string[]> {
    return this.#query(async (db) => unknownOrganizations(db, filter));
  }

  /** As `changes`, but with one summary if a run changed more than `most` records of a kind. */
  async changeSummaries(
    filter: ChangeFilter,
    most: number,
  ): Promise<Listed<ChangeOverview | ChangeSummary> & { readonly shown: number }> {
    return this.#query(async (db) => changeSummaries(db, filter, most));
  }

  /** Open findings, the most severe first, and how many there are in all. */
  async findings(filter: FindingFilter): Promise<Listed<FindingOverview>> {
    return this.#query(async (db) => findingOverviews(db, filter));
  }

  /**
   * Answers one SELECT over the views of `tidemark_query`, and reads nothing else.
   * @throws TidemarkError `usage` for anything else, `registry_failed` for a query that takes too long
   */
  async sql(query: string, maxRows: number): Promise<QueryAnswer> {
    return this.#query(async () => queryViews(this.#connections, query, maxRows));
  }

  /**
   * Asks the workers to set a baseline for these cells, and makes them due at once. Cells that are retired or checked
   * out, or have no published run, are left out.
   * @param order without the run, which is the newest published one of each cell
   */
  async orderBaseline(names: readonly string[], order: Omit<BaselineOrder, 'run'>): Promise<void> {
    const { name, time, by } = order;
    await this.#query(async (db) =>
      db
        .update(cells)
        .set({
          baselineOrder: sql`jsonb_build_object('name', ${name}::text, 'run', ${NEWEST_PUBLISHED}, 'time', ${time}::text, 'by', ${by}::text)`,
          baselineError: null,
          dueAt: sql`least(${cells.dueAt}, now())`,
        })
        .where(and(inArray(cells.name, [...names]), isWorkable, sql`${NEWEST_PUBLISHED} > 0`)),
    );
  }

  /**
   * Holds a cell for a person, and its group, since that is one key: no worker takes it until `checkin`. The person
   * publishes under the fence, as a worker does.
   * @param isForced takes the group from a worker that is working on it, which then cannot publish
   * @throws TidemarkError `usage` for an unknown or retired cell, `cell_held` if a worker is working on its group, or a
   * person has checked it out
   */
  async checkout(
    name: string,
    holder: string,
    options: { readonly isForced?: boolean } = {},
  ): Promise<HeldGroup> {
    return this.#query(async (db) => checkOutCell(db, name, holder, options));
  }

  /**
   * The result of an earlier `checkout`.
   * @throws TidemarkError `usage` for a cell that is not checked out
   */
  async checkedOut(name: string): Promise<HeldGroup & { readonly holder: string }> {
    return this.#query(async (db) => checkedOutCell(db, name));
  }

  /**
   * Gives a checked-out cell back to the workers, due at once. The caller publishes the person's work before that.
   * @throws TidemarkError `usage` for a cell that is not checked out
   */
  async checkin(name: string): Promise<void> {
    await this.#query(async (db) => checkInCell(db, name));
  }
}
