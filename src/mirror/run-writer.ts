/** Writing a run: its stages, its publication, its end. */
import { MASK, withoutUrlSecrets } from '../catalog/masks.ts';
import { and, eq, isNull, sql } from 'drizzle-orm';
import { rm } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import type { WriterContext } from './access.ts';
import type { AcceptedRemovals } from './audit-log.ts';
import { checkpoint } from './write-ahead-log.ts';
import { CollectionStage } from './collection-stage.ts';
import { commitInSlices } from './forget.ts';
import { type Connection, asMirrorError, damagedMirror, translated, transact } from './database.ts';
import { RunShapes } from './field-shapes-store.ts';
import { countUnchecked, removeOrphans } from './absence.ts';
import { type PublishFacts, type PublishedTotals, publishSteps } from './publish.ts';
import { sealRow } from './row-seals.ts';
import { type OpenCollection, RunCollections } from './run-collections.ts';
import { type SealingRule, readRules, ruleText } from './run-seals.ts';
import {
  type SeenRecords,
  type StageStatements,
  attachStage,
  detachStage,
  isStageAttached,
  prepareStageStatements,
  removeStage,
  stagePath,
} from './stage.ts';
import { excluded, param, paramsOf, prepared, perConnection } from './query.ts';
import { records } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import type { RunOutcome, StoredError, SweepResult } from './sweep-result.ts';

const PUT_SOURCE = prepared((db) => {
  const { name, baseUrl } = paramsOf(sources);
  return (
    db
      .insert(sources)
      .values({ name, baseUrl })
      // The address is updated when a run that found something there is published (`publish.ts`).
      .onConflictDoUpdate({ target: sources.name, set: excluded({ name: sources.name }) })
      .returning({ id: sources.id })
  );
});

const ADD_RUN = prepared((db) => {
  const { run, source, trigger, kinds, startedAt } = paramsOf(runs);
  const counts = { requests: 0, retries: 0, added: 0, changed: 0, removed: 0, unchanged: 0 };
  return db.insert(runs).values({ run, source, trigger, kinds, startedAt, outcome: 'running', ...counts });
});

const FAIL_RUN = prepared((db) => {
  const { run, finishedAt, errorCode, error, requests, retries } = paramsOf(runs);
  return db
    .update(runs)
    .set({ outcome: 'failed', finishedAt, errorCode, error, requests, retries })
    .where(eq(runs.run, run));
});

/** The highest number of a run, also of one whose row another program deleted: its seal, or what it read, is left. */
const LAST_RUN = perConnection((connection) =>
  connection
    .prepare<[], number>(
      `SELECT max(
         ifnull((SELECT max(run) FROM runs), 0),
         ifnull((SELECT max(CAST(substr(member, 2) AS INTEGER)) FROM row_seals WHERE "set" = 'runs'), 0),
         ifnull((SELECT max(run) FROM sweeps), 0),
         ifnull((SELECT max(run) FROM records), 0),
         ifnull((SELECT max(run) FROM revisions), 0))`,
    )
    .pluck(),
);

function lastRun(writer: Connection, path: string): number {
  const last = LAST_RUN(writer).get() ?? 0;
  // Only another program can have stored it, and no number could follow.
  if (last >= Number.MAX_SAFE_INTEGER) throw damagedMirror(path, `a run has the number ${last}`);
  return last;
}

const ADD_LOST_RUN = prepared((db) => {
  const counts = { requests: 0, retries: 0, added: 0, changed: 0, removed: 0, unchanged: 0 };
  const ended = { trigger: 'fleet', outcome: 'failed', errorCode: 'interrupted' } as const;
  const at = sql`${param('at')}`;
  return db.insert(runs).values({
    ...counts,
    ...ended,
    run: param('run'),
    source: param('source'),
    startedAt: at,
    finishedAt: at,
    error: param('error'),
  });
});

const COUNTED = prepared((db) =>
  db
    .select({ records: collections.records })
    .from(collections)
    .where(eq(collections.id, param('id'))),
);

const HAS_REMOVED = prepared((db) =>
  db
    .select({ record: records.record })
    .from(records)
    .where(and(eq(records.collection, param('id')), isNull(records.hash)))
    .limit(1),
);

export interface RunOptions {
  readonly source: { readonly name: string; readonly baseUrl: string };
  /** What started it, e.g. `sync` or the schedule's name. */
  readonly trigger: string;
  /** The only kinds that it reads; null, or left out, for every kind that the configuration includes. */
  readonly kinds?: readonly Kind[] | null;
  /** By kind, the members that the stable text leaves out: the same ones with which the records are scanned. */
  readonly volatileFields: ReadonlyMap<Kind, ReadonlySet<string>>;
  readonly definitions: readonly ResourceDefinition[];
  /** The one comparison: true if two bodies of a kind are equal by value. */
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** Returns what is staged, hashed and stored instead of the received record. */
  readonly redact?: (kind: Kind, record: ScannedRecord) => ScannedRecord;
}

/** Requests of a run so far. */
interface RequestCounts {
  readonly requests: number;
  readonly retries: number;
}

interface PublishInput extends RequestCounts {
  /** Removals that the limits held, and that somebody accepted. */
  readonly accepted?: AcceptedRemovals;
  /** False if the run found nothing of the source at its address: then the mirror keeps the previous address. */
  readonly isAddressKnown?: boolean;
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly sweeps: readonly SweepResult[];
  readonly error?: StoredError | null;
}

interface PublishedRun extends Omit<PublishedTotals, 'root'> {
  readonly run: number;
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly startedAt: string;
  readonly finishedAt: string;
  /** Hex; null for a failed run. */
  readonly root: string | null;
  /**
   * What went wrong after the commit (a disk too full to empty the log): nothing of the run is lost, and the next opening
   * for writing cleans up. Normally null.
   */
  readonly cleanupError: TidemarkError | null;
}

/** The most lost runs that get a row each: only the last ones. */
const MOST_LOST = 100;

/**
 * Writes rows of failed runs for runs of a source, up to that number, whose mirror was lost: others know their numbers, so no later
 * run may have them. Returns how many numbers there were.
 */
export function noteLostRuns(
  writer: Connection,
  source: RunOptions['source'],
  upTo: number,
  at: string,
): number {
  return transact(writer, (): number => {
    const { id } = PUT_SOURCE(writer).get({ ...source });
    const last = LAST_RUN(writer).get() ?? 0;
    for (let run = Math.max(last + 1, upTo - MOST_LOST + 1); run <= upTo; run += 1) {
      ADD_LOST_RUN(writer).run({
        ...{ run, source: id, at },
        error: 'its mirror was lost before it was stored: what it read is not here',
      });
      sealRow(writer, 'runs', [run]);
    }
    return Math.max(0, upTo - last);
  });
}

/** What a run uses of the mirror. */
interface RunContext extends WriterContext {
  /** True if the write-ahead log is not emptied into the file. */
  readonly keepsLog: boolean;
  /** Called once, when the run is over. */
  readonly onEnd: () => void;
}

/** Begins a run: its row has the outcome `running` until it is published or abandoned. */
export function openRun(context: RunContext, options: RunOptions): RunWriter {
  const { writer, path } = context;
  return translated(path, () => {
    try {
      return new RunWriter(context, options, attachStage(writer, path));
    } catch (error) {
      if (isStageAttached(writer)) detachStage(writer);
      removeStage(path);
      throw error;
    }
  });
}

/** One run, from its begin to its publication. */
export class RunWriter {
  readonly run: number;
  readonly startedAt: string;
  readonly #context: RunContext;
  readonly #options: RunOptions;
  readonly #source: number;
  readonly #statements: StageStatements;
  readonly #seen: SeenRecords;
  readonly #shapes: RunShapes;
  readonly #collections: RunCollections;
  readonly #rules = new Map<Kind, readonly SealingRule[]>();
  readonly #newRules = new Map<Kind, ReadonlySet<string>>();
  #passes = 0;
  #state: 'open' | 'publishing' | 'over' = 'open';
  #broken: unknown = null;

  constructor(context: RunContext, options: RunOptions, seen: SeenRecords) {
    this.#context = context;
    this.#seen = seen;
    this.#options = options;
    const { writer, clock } = context;
    this.startedAt = isoTime(clock.now());
    [this.#source, this.run] = this.#begin(writer);
    this.#statements = prepareStageStatements(writer);
    this.#shapes = new RunShapes(writer, this.#source);
    this.#collections = new RunCollections(context, this.#source, options.definitions);
    for (const { kind } of options.definitions) this.#readRules(kind);
  }

  #begin(writer: Connection): [source: number, run: number] {
    const { source, trigger, kinds = null } = this.#options;
    return transact(writer, (): [number, number] => {
      const { id } = PUT_SOURCE(writer).get({ ...source });
      const run = lastRun(writer, this.#context.path) + 1;
      ADD_RUN(writer).run({
        ...{ run, source: id },
        trigger: withoutUrlSecrets(trigger, MASK),
        kinds,
        startedAt: this.startedAt,
      });
      return [id, run];
    });
  }

  #readRules(kind: Kind): void {
    const fields = this.#options.volatileFields.get(kind) ?? new Set<string>();
    const rules = readRules(this.#context.writer, this.#source, kind);
    const latest = rules.at(-1);
    if (latest === undefined || ruleText(latest.volatileFields) !== ruleText(fields)) {
      rules.push({ run: this.run, volatileFields: fields });
      this.#newRules.set(kind, fields);
    }
    this.#rules.set(kind, rules);
  }

  /** The stage of one collection; the same object for the same kind and scope. */
  stage(kind: Kind, scope: Scope): CollectionStage {
    this.#check();
    const collection = this.#collections.of(kind, scope);
    collection.stage ??= translated(this.#context.path, () => this.#openStage(collection, scope));
    return collection.stage;
  }

  #openStage(collection: OpenCollection, scope: Scope): CollectionStage {
    const { writer, path } = this.#context;
    const { id, kind } = collection;
    const known = COUNTED(writer).get({ id })?.records;
    const gone = HAS_REMOVED(writer).get({ id });
    const rules = this.#rules.get(kind);
    if (rules === undefined) throw new TidemarkError('internal', `the run has no definition of ${kind}`);
    return new CollectionStage(
      {
        writer,
        path,
        statements: this.#statements,
        seen: this.#seen,
        shapesOf: (each) => this.#shapes.of(each),
        isEqual: this.#options.isEqual,
        redact: this.#options.redact,
        nextPass: () => (this.#passes += 1),
        check: () => this.#check(),
        breakStage: (cause) => this.#breakStage(cause),
      },
      { id, kind, scope, known: known ?? 0, hasRemoved: gone !== undefined, rules },
    );
  }

  /** Removes all current records of a collection, which is gone with its parent record. Returns how many. */
  async retire(kind: Kind, scope: Scope): Promise<number> {
    const removed = await this.stage(kind, scope).decideAbsent('remove');
    this.#collections.of(kind, scope).isRetired = true;
    return removed;
  }

  /**
   * For a kind that is read one by one: also removes its records whose parent record is gone, or is removed by this run. Call it
   * after the parents have been decided. Returns how many; 0 for other kinds.
   */
  async removeOrphans(kind: Kind, scope: Scope): Promise<number> {
    this.#check();
    const linked = this.#collections.linked(kind, scope);
    if (linked === null) return 0;
    const { writer, path } = this.#context;
    return await removeOrphans(writer, path, linked, (work) => {
      this.#check();
      return translated(path, () => {
        try {
          return work();
        } catch (error) {
          this.#breakStage(error);
          throw error;
        }
      });
    });
  }

  /** For a kind that is read one by one: for how many parents no run, including this one, has read it yet. */
  async countUnchecked(kind: Kind, scope: Scope): Promise<number> {
    this.#check();
    const linked = this.#collections.linked(kind, scope);
    if (linked === null) return 0;
    return await countUnchecked(this.#context.writer, this.#context.path, linked);
  }

  /**
   * Makes the run visible in one transaction, seals it, empties the log and deletes the stage. Asynchronous only to yield to the
   * event loop. A failed run publishes its own row and its sweeps, but no records.
   * @throws TidemarkError (`disk_full` and others); then nothing was published, and `abandon` is still possible
   */
  async publish(input: PublishInput): Promise<PublishedRun> {
    this.#check(input.outcome !== 'failed');
    const finishedAt = isoTime(this.#context.clock.now());
    const { root, ...totals } = await this.#commit(this.#facts(input, finishedAt));
    const cleanupError = await this.#cleanUp();
    const { run, startedAt } = this;
    const { outcome } = input;
    const hex = root?.toString('hex') ?? null;
    return { run, outcome, startedAt, finishedAt, ...totals, root: hex, cleanupError };
  }

  /** Returns errors instead of throwing them: after the commit the run is published, whatever happens to the log and the stage. */
  async #cleanUp(): Promise<TidemarkError | null> {
    const { writer, path, keepsLog, onPublishing, onEnd } = this.#context;
    try {
      onPublishing(false);
      await nextTurn();
      detachStage(writer);
      if (!keepsLog) await checkpoint(writer, path);
      // Reads use other connections, and the next run may be hours away.
      writer.pragma('shrink_memory');
      // Asynchronous, as deleting a large file takes long.
      await rm(stagePath(path), { force: true });
      return null;
    } catch (error) {
      const known = asMirrorError(error, path);
      if (known instanceof TidemarkError) return known;
      throw known;
    } finally {
      onEnd();
    }
  }

  async #commit(facts: PublishFacts): Promise<PublishedTotals> {
    const { writer, path, onPublishing } = this.#context;
    this.#state = 'publishing';
    onPublishing(true);
    try {
      const totals = await commitInSlices(writer, () => publishSteps(writer, facts));
      this.#state = 'over';
      return totals;
    } catch (error) {
      this.#state = 'open';
      onPublishing(false);
      throw asMirrorError(error, path);
    }
  }

  #facts(input: PublishInput, finishedAt: string): PublishFacts {
    return {
      run: this.run,
      source: { id: this.#source, name: this.#options.source.name },
      baseUrl: input.isAddressKnown === false ? null : this.#options.source.baseUrl,
      startedAt: this.startedAt,
      finishedAt,
      outcome: input.outcome,
      requests: input.requests,
      retries: input.retries,
      error: input.error ?? null,
      collections: this.#collections.touched(input.sweeps),
      newRules: this.#newRules,
      kindOf: (collection) => this.#collections.kindOf(collection),
      accepted: input.accepted ?? { atMost: 0, collections: [] },
      actor: this.#context.actor,
      shapes: this.#shapes,
    };
  }

  /**
   * Ends the run as failed, deletes the stage, changes nothing else. If even that cannot be written (a full disk), the next opening
   * for writing ends the run.
   */
  abandon(error: StoredError, requestCounts: RequestCounts = { requests: 0, retries: 0 }): void {
    if (this.#state === 'over') return;
    const { writer, path, clock, onEnd } = this.#context;
    this.#state = 'over';
    // The stage goes first: on a full disk this frees space for the UPDATE.
    translated(path, () => detachStage(writer));
    removeStage(path);
    onEnd();
    try {
      transact(writer, () => {
        FAIL_RUN(writer).run({
          ...requestCounts,
          finishedAt: isoTime(clock.now()),
          errorCode: error.code,
          error: error.message,
          run: this.run,
        });
        sealRow(writer, 'runs', [this.run]);
      });
    } catch (failure) {
      const known = asMirrorError(failure, path);
      // It stays `running` until the next opening for writing ends it: the caller's error is the one to report.
      if (known instanceof TidemarkError && known.code !== 'internal') return;
      throw known;
    }
  }

  #breakStage(cause: unknown): void {
    this.#broken = cause;
    const { writer } = this.#context;
    if (writer.inTransaction) writer.exec('ROLLBACK');
  }

  #check(needsStage = true): void {
    if (this.#state !== 'open') {
      const state = this.#state === 'over' ? 'over' : 'being published';
      throw new TidemarkError('internal', `run ${this.run} is ${state}`);
    }
    if (needsStage && this.#broken !== null) throw asMirrorError(this.#broken, this.#context.path);
  }
}
