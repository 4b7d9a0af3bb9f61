/** The runs of a mirror: their rows, sweeps and collections, and the run that is being written. */
import type { MirrorAccess } from './access.ts';
import {
  type ChangeCounts,
  type ChangedRun,
  type ChangeQuestion,
  type FirstReadRow,
  countChangesBetween,
  hasChangesAfter,
  readChangeCounts,
  readChangedRuns,
  readChangingRuns,
  readFirstReads,
} from './change-counts.ts';
import { type SeenCollection, readLastFullSweep, readSweepsAsOf } from './sweeps-as-of.ts';
import { type HeldRecord, type HeldRemovals, readHeldRecords, readHeldRemovals } from './held-removals.ts';
import { type RunOptions, type RunWriter, openRun } from './run-writer.ts';
import type { RunTime } from './record-page.ts';
import {
  type CollectionRow,
  type KindStatus,
  type RunFilter,
  type RunRow,
  type SweepRow,
  type UnreadCollection,
  readCollections,
  readFirstStart,
  readKindStatuses,
  readRuns,
  readSources,
  readSweeps,
  readUnreadCollections,
} from './run-rows.ts';
import { type SchemaChange, type SchemaChangeFilter, readSchemaChanges } from './schema-changes.ts';

export class RunStore {
  readonly #access: MirrorAccess;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Names of all sources that ever began a run, sorted. */
  sources(): string[] {
    return this.#access.read(readSources);
  }

  /** Newest first. */
  list(filter: RunFilter = {}): RunRow[] {
    return this.#access.read((connection) => readRuns(connection, filter));
  }

  get(run: number): RunRow | undefined {
    return this.#access.read((connection) => readRuns(connection, { run })[0]);
  }

  /** The latest published (complete or partial) run of a source. */
  latest(source: string): RunRow | undefined {
    return this.list({ source, isPublished: true, limit: 1 })[0];
  }

  /** In catalog order, then by scope. */
  sweeps(run: number): SweepRow[] {
    return this.#access.read((connection) => readSweeps(connection, run));
  }

  /** What was seen of each of a source's collections up to a run, in catalog order, then by scope. */
  sweepsAsOf(source: string, run: number): SeenCollection[] {
    return this.#access.read((connection) => readSweepsAsOf(connection, source, run));
  }

  /** The last published run before `before` that read the whole collection; undefined if none is known. */
  lastFullSweep(collection: number, before: number): RunTime | undefined {
    return this.#access.read((connection) => readLastFullSweep(connection, collection, before));
  }

  /** In catalog order, then by source and scope. */
  collections(source?: string): CollectionRow[] {
    return this.#access.read((connection) => readCollections(connection, source));
  }

  /** The collections of one source, or of all, summed up by kind, in catalog order. */
  kindStatuses(source: string | null): KindStatus[] {
    return this.#access.read((connection) => readKindStatuses(connection, source));
  }

  /** Collections whose latest sweep is not complete, in catalog order, at most `limit`. */
  unreadCollections(source: string, limit: number): UnreadCollection[] {
    return this.#access.read((connection) => readUnreadCollections(connection, source, limit));
  }

  /** When the oldest known run of all kinds began, ISO 8601; null if none did. */
  firstStartedAt(source: string): string | null {
    return this.#access.read((connection) => readFirstStart(connection, source));
  }

  /** By run, of the kinds; runs that changed nothing of them may be missing. First readings are counted as additions. */
  changeCounts(question: ChangeQuestion): ReadonlyMap<number, ChangeCounts> {
    return this.#access.read((connection) => readChangeCounts(connection, question));
  }

  /** Those of the runs that changed something of the kinds, or took over changes of runs that retention dropped. */
  changing(question: ChangeQuestion): number[] {
    return this.#access.read((connection) => readChangingRuns(connection, question));
  }

  /** Runs of all sources that ended since then (ISO 8601) and changed something, without the first one of each source. */
  changedSince(since: string): ChangedRun[] {
    return this.#access.read((connection) => readChangedRuns(connection, since));
  }

  /** Whether a published run of the source after this one changed something, or took over changes. */
  hasChangesAfter(source: string, run: number): boolean {
    return this.#access.read((connection) => hasChangesAfter(connection, source, run));
  }

  /** How many records the runs of (after, upTo] changed at most: one that several of them changed counts for each. */
  countChangesBetween(range: Parameters<typeof countChangesBetween>[1]): number {
    return this.#access.read((connection) => countChangesBetween(connection, range));
  }

  /** Collections that one of the runs read whole for the first time, while earlier runs had read others. */
  firstReads(question: ChangeQuestion): FirstReadRow[] {
    return this.#access.read((connection) => readFirstReads(connection, question));
  }

  /** Removals that wait in a source's collections, in catalog order, then by scope. */
  heldRemovals(source: string): HeldRemovals[] {
    return this.#access.read((connection) => readHeldRemovals(connection, source));
  }

  /** The records of those removals. */
  heldRecords(source: string): HeldRecord[] {
    return this.#access.read((connection) => readHeldRecords(connection, source));
  }

  /** Fields that kinds gained, lost or retyped; newest run first. */
  schemaChanges(filter: SchemaChangeFilter = {}): SchemaChange[] {
    return this.#access.read((connection) => readSchemaChanges(connection, filter));
  }

  /** @throws TidemarkError `internal` if the mirror is open for reading, or another run has not ended */
  begin(options: RunOptions): RunWriter {
    const context = this.#access.writerForRun();
    try {
      return openRun({ ...context, keepsLog: this.#access.isTemporary }, options);
    } catch (error) {
      context.onEnd();
      throw error;
    }
  }
}
