/**
 * The registry of a fleet: its cells, who works on them, and what their runs found, in PostgreSQL. Only PostgreSQL's clock
 * counts: what a caller hands over are ages and durations, never times of its own.
 *
 * A worker takes a rate group (`holdGroup`), which raises the group's fence, and publishes under that number. Whoever took
 * the group later has a higher one, so a worker that was frozen and wakes publishes nothing.
 */
import { and, asc, eq, inArray, isNotNull, isNull, lt, lte, min, ne, notInArray, or, sql } from 'drizzle-orm';
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
import { type Cell, cellColumns, type HeldGroup, heldGroup } from './held-group.ts';
import {
  IS_ALIVE,
  SEEN_AGE_MS,
  type CellFilter,
  type CellOverview,
  cellOverviews,
  type ChangeFilter,
  type ChangeOverview,
  changeOverviews,
  changeSummaries,
  type ChangeSummary,
  type FindingFilter,
  type FindingOverview,
  findingOverviews,
  type Listed,
  NEWEST_PUBLISHED,
  type RunFilter,
  type RunOverview,
  runOverviews,
  unknownOrganizations,
  type WorkerOverview,
  workerOverviews,
} from './overview.ts';
import {
  failureOf,
  NOW_LEFT,
  type Publication,
  type PublishResult,
  publish,
  rateLogColumns,
} from './publish.ts';
import { queryViews, type QueryAnswer } from './query.ts';
import { cells, groups, runs, workers } from './schema.ts';

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
  /** Creates and upgrades the tables; without it, a registry that lacks some is an error. */
  readonly migrates?: boolean;
}

/** A group with something to do. */
export interface DueGroup {
  readonly group: number;
  /** Since when the cell that waits longest is due, epoch milliseconds. */
  readonly dueAt: number;
}

export class Registry {
  readonly #connections: Connections;
  /** What opening it did to the tables; null where they were as they should be. */
  readonly migrated: { readonly from: number; readonly to: number } | null;

  private constructor(connections: Connections, migrated: Registry['migrated']) {
    this.#connections = connections;
    this.migrated = migrated;
  }

  /**
   * Connects, and checks the version of the tables.
   * @throws TidemarkError `registry_unreachable`, `registry_denied`, `registry_missing`, `registry_older`, `registry_newer`,
   *   `registry_version`
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
   * The version of the tables, 0 if there are none, and the one that this program brings. Changes nothing.
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
   * Has a queue of that schema (a version of pg-boss's) opened by `open`, unless the one in the database is newer and not for
   * programs of this version.
   * @param compatibleFrom the oldest version whose programs can work with it
   * @throws TidemarkError `registry_newer`
   */
  async openQueue<T>(version: number, compatibleFrom: number, open: () => Promise<T>): Promise<T> {
    await this.#query(async (db) => checkQueueVersion(db, this.place, version));
    const queue = await open();
    await this.#query(async (db) => noteQueueVersion(db, version, compatibleFrom));
    return queue;
  }

  /**
   * Groups that have a cell which is due, the one that waits longest first. Not those that a person checked out, and none of
   * `except`: what a worker cannot work on must not keep the others from being queued.
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
   * Takes a group for a worker: whoever held it can publish no more. Null where a person has it, or it is gone.
   * Only the one job that the queue gives out for the group calls this.
   */
  async holdGroup(group: number, worker: string): Promise<HeldGroup | null> {
    // Of all holders that ended without a report: the next may also end, or give the group back, before it counted what they may have sent.
    const uncountedSince = sql`coalesce(${groups.uncountedSince}, case when ${groups.holder} is not null then ${groups.heldAt} end)`;
    // A process of that name that started since is another one.
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
          abandonedMs: sql<string | null>`extract(epoch from now() - ${held.uncountedUntil}) * 1000`,
          uncountedMs: sql<string | null>`extract(epoch from now() - ${held.uncountedSince}) * 1000`,
          fence: held.fence,
          rateLog: held.rateLog,
          ageMs: sql<string | null>`extract(epoch from now() - ${held.rateLogAt}) * 1000`,
          cell: cellColumns,
        })
        .from(held)
        .leftJoin(cells, and(eq(cells.group, held.id), isWorkable, lte(cells.dueAt, now)))
        .orderBy(asc(cells.dueAt));
      return heldGroup(group, rows);
    });
  }

  /**
   * Gives a group back. Nothing where somebody else took it meanwhile.
   * @param written.rateLog what the next holder's limiter has to know, with ages in place of times; left out, it stays as it was
   * @param written.countsVanished true where that has what holders before may have sent that vanished
   */
  async releaseGroup(
    group: number,
    fence: number,
    written: { readonly rateLog?: JsonValue | undefined; readonly countsVanished?: boolean } = {},
  ): Promise<void> {
    await this.#query(async (db) =>
      db
        .update(groups)
        .set({ holder: null, ...rateLogColumns(written) })
        .where(and(eq(groups.id, group), eq(groups.fence, fence))),
    );
  }

  /**
   * Gives a group back whose limits leave no request for `ms`: its cells are due again then. Nothing where somebody else took it
   * meanwhile.
   * @param why.rateLog has what holders that vanished may have sent; undefined where it cannot be read: they are counted again then
   * @param why.error `throttled` for a limit that is known, `interrupted` for what a holder that vanished may have sent: shown of the cells until they are worked on
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
          // Of one that fails, why it does is said.
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
   * Publishes what a job did on a cell, in one transaction: its runs, findings, records, changes, the key of its stored
   * mirror, when it is due next, and whether it failed. Null, and nothing published, where the fence was lost, or the cell was
   * retired or given another key meanwhile.
   */
  async publish(publication: Publication): Promise<PublishResult | null> {
    return this.#query(async (db) => publish(db, publication));
  }

  /** Moves when a cell is due, `ms` from now. False where there is no such cell to work on. */
  async setDue(cell: number, ms: number): Promise<boolean> {
    const rows = await this.#query(async (db) =>
      db
        .update(cells)
        .set({ dueAt: after(Math.max(0, ms)) })
        .where(and(eq(cells.id, cell), ne(cells.state, 'retired')))
        .returning({ id: cells.id }),
    );
    return rows.length > 0;
  }

  /**
   * Says that the worker is there, and learns whether it should finish and leave, PostgreSQL's time in epoch milliseconds, and
   * whether a group is held by a worker that was not heard of for `silentMs`. A start of a worker calls `join` first.
   */
  async heartbeat(
    { name, host, version }: WorkerDescription,
    silentMs: number,
  ): Promise<{ readonly isDraining: boolean; readonly now: number; readonly isOtherSilent: boolean }> {
    return this.#query(async (db) => {
      const holder = alias(workers, 'holder');
      const isSilent = lte(sql`greatest(${groups.heldAt}, ${holder.seenAt})`, after(-silentMs));
      // A process of the same name before this one.
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

  /** Where cells of these names belong, and whether storage has everything that was published of them. Unknown names are left out. */
  async placesOf(names: readonly string[]): Promise<readonly CellPlace[]> {
    return this.#query(async (db) =>
      db
        .select({
          name: cells.name,
          group: cells.group,
          isRetired: sql<boolean>`${cells.state} = 'retired'`,
          // Of a cell without a run nothing is known, not even that it has none: the registry may have been lost.
          isStored: sql<boolean>`coalesce(${cells.storedRun} >= nullif(${NEWEST_PUBLISHED}, 0), false)`,
        })
        .from(cells)
        .where(inArray(cells.name, [...names])),
    );
  }

  /** Whether a run with that root hash was published of a cell. */
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

  /** Says why a worker could not begin with the cells of a group that are due, or with one of them, without counting it as a failure. */
  async noteUnworked(
    group: number,
    error: { readonly code: ErrorCode; readonly message: string },
    cell?: number,
  ): Promise<void> {
    // Why the jobs before failed counts on: it is what is wrong with the cell.
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
   * A worker starts; what an earlier process of its name was asked for is over. Those that were killed long ago, as pods are
   * whose names never come again, are forgotten.
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

  /** A worker ended. */
  async leave(name: string): Promise<void> {
    await this.#query(async (db) => db.delete(workers).where(eq(workers.name, name)));
  }

  /**
   * Asks a worker to finish what it does and leave; one that is silent does so should it come back.
   * @returns how it was heard of; null if there is none of that name
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

  /** The cells as `fleet apply` declares them, retired ones too. */
  async registeredCells(): Promise<readonly RegisteredCell[]> {
    return this.#query(registeredCells);
  }

  /**
   * Does what a plan shows, all of it or nothing.
   * @throws TidemarkError `unsafe_plan` where the registry is not as it was planned
   */
  async applyCells(declared: readonly CellDeclaration[], plan: CellsPlan): Promise<void> {
    await this.#query(async (db) => applyCells(db, declared, plan));
  }

  /** The cells that are not retired, those with the most wrong first; named ones also where they are retired. */
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

  /** Those of these ids and names of organizations that no such cell is known to have. */
  async unknownOrganizations(filter: Parameters<typeof unknownOrganizations>[1]): Promise<readonly string[]> {
    return this.#query(async (db) => unknownOrganizations(db, filter));
  }

  /** As `changes`, but one summary where a run changed more than `most` records of a kind. */
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
   * Asks the workers for a baseline of these cells, which are due at once with it. Not of those that are retired or checked
   * out, or have no published run.
   * @param order the run is the newest published one of each cell
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

  /** The cell of that name, or undefined. */
  async cell(name: string): Promise<Cell | undefined> {
    const rows = await this.#query(async (db) =>
      db.select(cellColumns).from(cells).where(eq(cells.name, name)),
    );
    return rows[0];
  }

  /**
   * Holds a cell for a person, and its group, since that is one key: no worker takes it until `checkin`. The person publishes
   * under the fence, as a worker does.
   * @param isForced takes the group from a worker that is working on it, which then cannot publish
   * @throws TidemarkError `usage` for an unknown or retired cell, `cell_held` if a worker is working on its group or a person
   *   has it
   */
  async checkout(
    name: string,
    holder: string,
    options: { readonly isForced?: boolean } = {},
  ): Promise<HeldGroup> {
    return this.#query(async (db) => checkOutCell(db, name, holder, options));
  }

  /**
   * What `checkout` returned, for who publishes or gives the cell back later.
   * @throws TidemarkError `usage` for a cell that is not checked out
   */
  async checkedOut(name: string): Promise<HeldGroup & { readonly holder: string }> {
    return this.#query(async (db) => checkedOutCell(db, name));
  }

  /**
   * Gives a checked-out cell back to the workers, due at once. What the person did is published before, under the fence.
   * @throws TidemarkError `usage` for a cell that is not checked out
   */
  async checkin(name: string): Promise<void> {
    await this.#query(async (db) => checkInCell(db, name));
  }
}
