/** The mirror: one SQLite file with every record, its history and its runs. Open it here; everything else is behind. */
import { type Clock } from '../core/clock.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import type { DriftAcceptance } from './acceptances.ts';
import type { BackupOptions } from './backup.ts';
import type { ChangedRecord, CollectionCount } from './changes-between.ts';
import type { DaemonState } from './daemon.ts';
import type { ForgetRow } from './forget-records.ts';
import type { ForgottenBefore, ForgottenRunRow } from './forgotten-runs.ts';
import type { ForgetChoice, ForgetOptions, ForgetResult } from './forgetting.ts';
import type { HeldRecord, HeldRemovals } from './held-removals.ts';
import type { NameQuestion } from './named-records.ts';
import type { RecordAsOf, RunTime } from './record-page.ts';
import type { RecordFilter } from './record-filter.ts';
import type { RecordList, RecordPage } from './record-page.ts';
import type { MirrorKey, MirrorRecord, RecordRow, RemovedRecord, Revision } from './records.ts';
import type {
  Durability,
  IdMapping,
  JournalEntry,
  RestoreFilter,
  RestoreOutcome,
  RestoreRow,
  RestoreStart,
  RestoreStepRow,
} from './restores.ts';
import type { RetentionPlan } from './retention.ts';
import type { CollectionRow, RunFilter, RunRow, SweepRow } from './run-rows.ts';
import type { RunOptions, RunWriter } from './run-rows.ts';
import type { SchemaChange, SchemaChangeFilter } from './schema-changes.ts';
import type { SnapshotRow } from './snapshots.ts';
import type { SweepAsOf } from './sweeps-as-of.ts';

export interface MirrorOptions {
  readonly mode: 'read' | 'write';
  /** The command that opens it: shown to processes that find it locked. */
  readonly command: string;
  readonly clock: Clock;
  readonly host?: string;
  readonly pid?: number;
  /** Deleted when it is closed: nothing of it waits for the disk, and its log is never emptied. */
  readonly isTemporary?: boolean;
}

export interface Mirror {
  readonly path: string;
  readonly mode: 'read' | 'write';
  /** Empties the log, gives the lock back. */
  close(): void;
  /**
   * Runs `work`, which awaits nothing: all that it reads here is of one moment, whatever is published meanwhile. What is
   * streamed (`readRecords` and the like) has its own snapshot.
   */
  atOnce<T>(work: () => T): T;

  /** Names of all sources that ever began a run, sorted. */
  sources(): string[];
  /** Newest first. */
  runs(filter?: RunFilter): RunRow[];
  run(run: number): RunRow | undefined;
  /** The latest published (complete or partial) run of a source. */
  latestRun(source: string): RunRow | undefined;
  /** In catalog order, then by scope. */
  sweepsOf(run: number): SweepRow[];
  /** The last sweep of each of a source's collections up to a run, and when it was read. */
  sweepsAsOf(source: string, run: number): SweepAsOf[];
  /** In catalog order, then by source and scope. */
  collectionsOf(source?: string): CollectionRow[];
  /** Removals that wait in a source's collections, in catalog order, then by scope. */
  heldRemovals(source: string): HeldRemovals[];
  /** The records that those are. */
  heldRecords(source: string): HeldRecord[];
  /** The last published run before `before` that looked at the whole collection; undefined for none that is known. */
  lastFullSweep(collection: number, before: number): RunTime | undefined;

  /** Current records in catalog order, then by source, scope and remote id (bytes); one snapshot, streamed. */
  readRecords(filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** The same as of a run: what a reader would have got right after it was published. */
  readRecordsAt(run: number, filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** Which records there are, in the same order: without their bodies, and so in a fraction of the time. */
  readKeys(filter?: RecordFilter): IterableIterator<MirrorKey>;
  readKeysAt(run: number, filter?: RecordFilter): IterableIterator<MirrorKey>;
  /** A page of one collection by position: costs what the page holds, not what the list does. */
  recordPage(list: RecordList, offset: number, limit: number): RecordPage;
  /** The body of one record of a collection as of its run; undefined where it is not there. A look-up by key. */
  recordIn(list: Pick<RecordList, 'kind' | 'collection' | 'run'>, id: string): string | undefined;
  /** Every record of that kind and id, current or removed: one per scope. */
  findRecords(kind: Kind, id: string, filter?: RecordFilter): RecordRow[];
  /**
   * The record of that id, current or removed.
   * @throws TidemarkError `usage` if it exists in several scopes and none is given
   */
  record(source: string, kind: Kind, id: string, scope?: Scope): RecordRow | undefined;
  /**
   * Current records of a kind of which one of these members (RFC 6901 pointers), or the id, reads as `name`, case aside.
   * Reads every record of the kind.
   */
  recordsNamed(question: NameQuestion, filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** Removed records with the last body that each had, in the order of `readRecords`. */
  removedBodies(filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** Newest first. */
  revisionsOf(record: RecordRow): Revision[];
  /** The record's body as of a run; undefined where it was not there. Fast however long its history is. */
  recordAt(record: Pick<RecordRow, 'kind' | 'record'>, run: number): string | undefined;
  /** The same with its dates, of removed records too; undefined where it had not been seen yet. As fast. */
  recordAsOf(record: Pick<RecordRow, 'kind' | 'record'>, run: number): RecordAsOf | undefined;
  /**
   * Records with a revision in (from, to], or (to, from] when `to` is the earlier run, with their bodies as of both, in
   * the order of `readRecords`. Costs what changed, however many records there are.
   */
  changesBetween(from: number, to: number, filter?: RecordFilter): IterableIterator<ChangedRecord>;
  /** How many records each selected collection held as of a run, empty ones included. Reads no record. */
  recordCountsAt(run: number, filter?: RecordFilter): CollectionCount[];
  /** Fields that kinds gained, lost or retyped; newest run first. */
  schemaChanges(filter?: SchemaChangeFilter): SchemaChange[];
  /** Records that are no longer there. */
  removedRecords(filter?: RecordFilter): IterableIterator<RemovedRecord>;
  /**
   * Ids of parent records that a kind read one by one should be asked for: never checked ones first (newest first),
   * then the longest unchecked. `scope` is that of the parent's collection.
   */
  dueForCheck(source: string, kind: Kind, scope: Scope, limit: number): string[];
  /** Ids of parent records that a kind read one by one was never read; none for kinds that are listed. */
  uncheckedParents(source: string, kind: Kind, scope: Scope): string[];

  /**
   * Copies all published data to a new file of mode 0600, a mirror itself; an existing file is replaced. The event loop
   * keeps running, and writers are not blocked.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`, `mirror_corrupt`, `interrupted`: nothing is left then
   */
  backupTo(path: string, options?: BackupOptions): Promise<void>;

  /**
   * Answers a question in SQL, read-only: what a user would see with any SQLite client.
   * @throws TidemarkError when it is not a query
   */
  query(statement: string): {
    readonly columns: readonly string[];
    readonly rows: readonly (readonly unknown[])[];
  };

  /** Pinned runs, by name. */
  snapshots(): SnapshotRow[];
  /** The snapshot that drift is measured from. */
  baseline(): SnapshotRow | undefined;
  /**
   * Pins a published run under a name, so that retention keeps it. The same again changes nothing.
   * @throws TidemarkError `usage` (a name that no reference could hold, or that another run has), `reference_unknown`
   */
  pin(name: string, run: number): SnapshotRow;
  /** @throws TidemarkError `reference_unknown` */
  unpin(name: string): SnapshotRow;
  /**
   * Makes a snapshot the one baseline.
   * @throws TidemarkError `reference_unknown`
   */
  setBaseline(name: string): SnapshotRow;

  /** Accepted drift, of one source or of all; by source, kind, scope, id and path. */
  acceptances(source?: string): DriftAcceptance[];
  /** The random bytes under which this mirror's drift fingerprints are made: the same as long as it lives. */
  fingerprintKey(): Uint8Array;
  /** Replaces the one of the same source, kind, scope, id and path. */
  acceptDrift(acceptance: DriftAcceptance): void;
  /** Returns what was withdrawn; undefined where there was none. */
  withdrawAcceptance(source: string, fingerprint: string): DriftAcceptance | undefined;

  /** Restores, newest first. */
  restores(filter?: RestoreFilter): RestoreRow[];
  restore(restore: number): RestoreRow | undefined;
  /** The journal of a restore in the order of its plan. */
  restoreSteps(restore: number): RestoreStepRow[];
  /** Which records of a source came back under which ids, oldest first. */
  idMap(source: string): IdMapping[];
  /** Writes a restore and all its steps down, durably, before anything is sent. Returns its number. */
  beginRestore(start: RestoreStart): number;
  /** Marks an ended restore as running again. @throws TidemarkError `reference_unknown` */
  resumeRestore(restore: number): void;
  /** Replaces steps' rows in one transaction; `mappings` go into the id map in the same one. */
  journalSteps(entries: readonly JournalEntry[], durability?: Durability): void;
  /**
   * Resolves once all that was journaled before the call is on the disk; calls that come together share one wait for it.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`
   */
  journalSettled(): Promise<void>;
  /** @throws TidemarkError `reference_unknown` */
  finishRestore(restore: number, outcome: Exclude<RestoreOutcome, 'running'>, at: string): void;

  /** What retention dropped so far, oldest first. */
  forgets(): ForgetRow[];
  /** When retention dropped a run, and which kept one has its changes now; undefined for one that it did not drop. */
  forgottenRun(run: number): ForgottenRunRow | undefined;
  /** The runs whose changes a kept run has beside its own; undefined where there are none. */
  forgottenBefore(run: number): ForgottenBefore | undefined;
  /** Names of sources whose state as of a kept run retention dropped. */
  sourcesForgottenAt(run: number): string[];
  /**
   * What `forget` would keep, with the reasons, and what would go. Changes nothing.
   * @throws TidemarkError `usage` for a policy that keeps nothing
   */
  planForget(choice: ForgetChoice): RetentionPlan;
  /**
   * Drops local history: what forgotten runs did and saw goes into the next kept run of their source, so that every kept
   * run shows its source exactly as before. A run that a rule, a pin or `sources` keeps shows every other source as before
   * too: the runs that this takes are kept beside it. Those in turn may show other sources as they were earlier;
   * `sourcesForgottenAt` lists them. One transaction; then the hash chain is recomputed and records that; then VACUUM.
   * @throws TidemarkError `usage`, `mirror_locked` while a run is under way, `mirror_corrupt` when the history is not
   * what was sealed; then nothing was forgotten
   */
  forget(options: ForgetOptions): Promise<ForgetResult>;

  /** What the daemon remembers: due times, jobs, and notices that are pending. */
  daemonState(): DaemonState;
  /** @throws TidemarkError `internal` when the mirror is open for reading, or another run is not over */
  beginRun(options: RunOptions): RunWriter;
}
