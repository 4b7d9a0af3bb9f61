/** An open mirror: a reader's connection, and for writing the writer's and the lock. */
import { type Clock, isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import {
  type DriftAcceptance,
  dropAcceptance,
  readAcceptances,
  readFingerprintKey,
  storeAcceptance,
} from './acceptances.ts';
import { type BackupOptions, backUp } from './backup.ts';
import {
  type ChangedRecord,
  type CollectionCount,
  readChangesBetween,
  readCountsAt,
} from './changes-between.ts';
import { checkpointNow } from './step-journal.ts';
import { type DaemonState, openDaemonState } from './daemon.ts';
import { type Connection, asReadingError, translated } from './database.ts';
import { withoutVerifyHint } from './database.ts';
import { dueForCheck, uncheckedParents } from './due-checks.ts';
import { type ForgetRow, readForgets } from './forget-records.ts';
import {
  type ForgottenBefore,
  type ForgottenRunRow,
  readForgottenBefore,
  readForgottenRun,
  readSourcesForgottenAt,
} from './forgotten-runs.ts';
import {
  type ForgetChoice,
  type ForgetOptions,
  type ForgetResult,
  forgetRuns,
  planForget,
} from './forgetting.ts';
import { findRecords } from './found-records.ts';
import { readLastFullSweep } from './full-sweeps.ts';
import { type HeldRecord, type HeldRemovals, readHeldRecords, readHeldRemovals } from './held-removals.ts';
import type { WriterLock } from './lock.ts';
import type { Mirror, MirrorOptions } from './mirror.ts';
import { type NameQuestion, readNamed, readRemovedBodies } from './named-records.ts';
import { openRun } from './open-run.ts';
import type { Reader } from './opening.ts';
import { type RecordAsOf, type RunTime, readRecordAsOf, readRecordAt } from './record-page.ts';
import type { RecordFilter } from './record-filter.ts';
import { type PageReader, type RecordList, type RecordPage, preparePages } from './record-page.ts';
import {
  type MirrorKey,
  type MirrorRecord,
  type RecordRow,
  type RemovedRecord,
  type Revision,
  readAsOf,
  readCurrent,
  readCurrentKeys,
  readKeysAsOf,
  readRemoved,
  readRevisions,
} from './records.ts';
import {
  type Durability,
  type IdMapping,
  type JournalEntry,
  type RestoreFilter,
  type RestoreOutcome,
  type RestoreRow,
  type RestoreStart,
  type RestoreStepRow,
  beginRestore,
  finishRestore,
  readIdMap,
  readRestores,
  readRestoreSteps,
  resumeRestore,
} from './restores.ts';
import type { RetentionPlan } from './retention.ts';
import {
  type CollectionRow,
  type RunFilter,
  type RunRow,
  type SweepRow,
  readCollections,
  readRuns,
  readSources,
  readSweeps,
} from './run-rows.ts';
import type { RunOptions, RunWriter } from './run-rows.ts';
import { type SchemaChange, type SchemaChangeFilter, readSchemaChanges } from './schema-changes.ts';
import { type SnapshotRow, markBaseline, pinSnapshot, readSnapshots, unpinSnapshot } from './snapshots.ts';
import { type StepJournal, openStepJournal } from './step-journal.ts';
import { type SweepAsOf, readSweepsAsOf } from './sweeps-as-of.ts';
import { type VerifyProgress, type VerifyResult, verifySnapshot } from './verify.ts';

export class OpenMirror implements Mirror {
  readonly path: string;
  readonly mode: 'read' | 'write';
  readonly #clock: Clock;
  readonly #isTemporary: boolean;
  readonly #reader: Reader;
  readonly #write: { readonly connection: Connection; readonly lock: WriterLock } | null;
  #journal: StepJournal | null = null;
  #pageReader: PageReader | null = null;
  #isPublishing = false;
  #hasRun = false;

  constructor(
    path: string,
    options: MirrorOptions,
    reader: Reader,
    write: { connection: Connection; lock: WriterLock } | null,
  ) {
    this.path = path;
    this.mode = options.mode;
    this.#clock = options.clock;
    this.#isTemporary = options.isTemporary === true;
    this.#reader = reader;
    this.#write = write;
  }

  close(): void {
    // Whatever does not close, the lock is given up.
    try {
      this.#reader.close();
    } finally {
      try {
        this.#journal?.close();
      } finally {
        this.#closeWriter();
      }
    }
  }

  #closeWriter(): void {
    const write = this.#write;
    if (write === null || !write.connection.open) return;
    try {
      translated(this.path, () => {
        if (write.connection.inTransaction) write.connection.exec('ROLLBACK');
        else if (!this.#isTemporary) checkpointNow(write.connection);
      });
    } finally {
      try {
        write.connection.close();
      } finally {
        write.lock.release();
      }
    }
  }

  atOnce<T>(work: () => T): T {
    return this.#read((connection) => connection.transaction(work)());
  }

  sources(): string[] {
    return this.#read(readSources);
  }

  runs(filter: RunFilter = {}): RunRow[] {
    return this.#read((connection) => readRuns(connection, filter));
  }

  run(run: number): RunRow | undefined {
    return this.#read((connection) => readRuns(connection, { run })[0]);
  }

  latestRun(source: string): RunRow | undefined {
    return this.#read((connection) => readRuns(connection, { source, isPublished: true, limit: 1 })[0]);
  }

  sweepsOf(run: number): SweepRow[] {
    return this.#read((connection) => readSweeps(connection, run));
  }

  sweepsAsOf(source: string, run: number): SweepAsOf[] {
    return this.#read((connection) => readSweepsAsOf(connection, source, run));
  }

  collectionsOf(source?: string): CollectionRow[] {
    return this.#read((connection) => readCollections(connection, source));
  }

  heldRemovals(source: string): HeldRemovals[] {
    return this.#read((connection) => readHeldRemovals(connection, source));
  }

  heldRecords(source: string): HeldRecord[] {
    return this.#read((connection) => readHeldRecords(connection, source));
  }

  lastFullSweep(collection: number, before: number): RunTime | undefined {
    return this.#read((connection) => readLastFullSweep(connection, collection, before));
  }

  readRecords(filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readCurrent(connection, filter));
  }

  readRecordsAt(run: number, filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readAsOf(connection, run, filter));
  }

  readKeys(filter: RecordFilter = {}): IterableIterator<MirrorKey> {
    return this.#stream((connection) => readCurrentKeys(connection, filter));
  }

  readKeysAt(run: number, filter: RecordFilter = {}): IterableIterator<MirrorKey> {
    return this.#stream((connection) => readKeysAsOf(connection, run, filter));
  }

  recordPage(list: RecordList, offset: number, limit: number): RecordPage {
    return this.#read((connection) => this.#pages(connection).page(list, offset, limit));
  }

  recordIn(list: Pick<RecordList, 'kind' | 'collection' | 'run'>, id: string): string | undefined {
    return this.#read((connection) => this.#pages(connection).record(list, id));
  }

  findRecords(kind: Kind, id: string, filter: RecordFilter = {}): RecordRow[] {
    return this.#read((connection) => findRecords(connection, kind, id, filter));
  }

  record(source: string, kind: Kind, id: string, scope?: Scope): RecordRow | undefined {
    const found = this.findRecords(kind, id, {
      sources: [source],
      ...(scope === undefined ? {} : { scope }),
    });
    if (found.length <= 1) return found[0];
    throw new TidemarkError('usage', `${kind} ${id} is in ${found.length} scopes`, {
      hint: 'name one with --organization or --project',
    });
  }

  recordsNamed(question: NameQuestion, filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readNamed(connection, question, filter));
  }

  removedBodies(filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readRemovedBodies(connection, filter));
  }

  revisionsOf(record: RecordRow): Revision[] {
    return this.#read((connection) => readRevisions(connection, record));
  }

  recordAt(record: Pick<RecordRow, 'kind' | 'record'>, run: number): string | undefined {
    return this.#read((connection) => readRecordAt(connection, record, run));
  }

  recordAsOf(record: Pick<RecordRow, 'kind' | 'record'>, run: number): RecordAsOf | undefined {
    return this.#read((connection) => readRecordAsOf(connection, record, run));
  }

  changesBetween(from: number, to: number, filter: RecordFilter = {}): IterableIterator<ChangedRecord> {
    return this.#stream((connection) => readChangesBetween(connection, from, to, filter));
  }

  recordCountsAt(run: number, filter: RecordFilter = {}): CollectionCount[] {
    return this.#read((connection) => readCountsAt(connection, run, filter));
  }

  schemaChanges(filter: SchemaChangeFilter = {}): SchemaChange[] {
    return this.#read((connection) => readSchemaChanges(connection, filter));
  }

  removedRecords(filter: RecordFilter = {}): IterableIterator<RemovedRecord> {
    return this.#stream((connection) => readRemoved(connection, filter));
  }

  dueForCheck(source: string, kind: Kind, scope: Scope, limit: number): string[] {
    return this.#read((connection) => dueForCheck(connection, { source, kind, scope, limit }));
  }

  uncheckedParents(source: string, kind: Kind, scope: Scope): string[] {
    return this.#read((connection) => uncheckedParents(connection, { source, kind, scope }));
  }

  query(statement: string): { columns: readonly string[]; rows: readonly (readonly unknown[])[] } {
    return this.#read((connection) => {
      const prepared = connection.prepare<[], unknown[]>(statement).raw();
      return { columns: prepared.columns().map(({ name }) => name), rows: prepared.all() };
    });
  }

  snapshots(): SnapshotRow[] {
    return this.#read(readSnapshots);
  }

  baseline(): SnapshotRow | undefined {
    return this.snapshots().find(({ isBaseline }) => isBaseline);
  }

  pin(name: string, run: number): SnapshotRow {
    return this.#change((writer) => pinSnapshot(writer, name, run, isoTime(this.#clock.now())));
  }

  unpin(name: string): SnapshotRow {
    return this.#change((writer) => unpinSnapshot(writer, name));
  }

  setBaseline(name: string): SnapshotRow {
    return this.#change((writer) => markBaseline(writer, name));
  }

  acceptances(source?: string): DriftAcceptance[] {
    return this.#read((connection) => readAcceptances(connection, source));
  }

  fingerprintKey(): Uint8Array {
    return this.#read(readFingerprintKey);
  }

  acceptDrift(acceptance: DriftAcceptance): void {
    this.#change((writer) => storeAcceptance(writer, acceptance));
  }

  withdrawAcceptance(source: string, fingerprint: string): DriftAcceptance | undefined {
    return this.#change((writer) => dropAcceptance(writer, source, fingerprint));
  }

  restores(filter: RestoreFilter = {}): RestoreRow[] {
    return this.#read((connection) => readRestores(connection, filter));
  }

  restore(restore: number): RestoreRow | undefined {
    return this.#read((connection) => readRestores(connection, { restore })[0]);
  }

  restoreSteps(restore: number): RestoreStepRow[] {
    return this.#read((connection) => readRestoreSteps(connection, restore));
  }

  idMap(source: string): IdMapping[] {
    return this.#read((connection) => readIdMap(connection, source));
  }

  beginRestore(start: RestoreStart): number {
    return this.#change((writer) => beginRestore(writer, start));
  }

  resumeRestore(restore: number): void {
    this.#change((writer) => resumeRestore(writer, restore));
  }

  journalSteps(entries: readonly JournalEntry[], durability: Durability = 'disk'): void {
    this.#change((writer) => this.#stepJournal(writer).write(entries, durability));
  }

  journalSettled(): Promise<void> {
    return this.#change((writer) => this.#stepJournal(writer).settled());
  }

  #stepJournal(writer: Connection): StepJournal {
    this.#journal ??= openStepJournal(writer, this.path);
    return this.#journal;
  }

  finishRestore(restore: number, outcome: Exclude<RestoreOutcome, 'running'>, at: string): void {
    this.#change((writer) => finishRestore(writer, restore, outcome, at));
  }

  forgets(): ForgetRow[] {
    return this.#read(readForgets);
  }

  forgottenRun(run: number): ForgottenRunRow | undefined {
    return this.#read((connection) => readForgottenRun(connection, run));
  }

  forgottenBefore(run: number): ForgottenBefore | undefined {
    return this.#read((connection) => readForgottenBefore(connection, run));
  }

  sourcesForgottenAt(run: number): string[] {
    return this.#read((connection) => readSourcesForgottenAt(connection, run));
  }

  planForget(choice: ForgetChoice): RetentionPlan {
    return this.#read((connection) => planForget(connection, choice));
  }

  async forget(options: ForgetOptions): Promise<ForgetResult> {
    if (this.#hasRun) {
      throw new TidemarkError('mirror_locked', `a run of ${this.path} is under way: nothing was forgotten`, {
        hint: 'wait until it has ended, then run the command again',
        isRetryable: true,
      });
    }
    const context = this.#change((writer) => ({
      writer,
      path: this.path,
      clock: this.#clock,
      onPublishing: (isPublishing: boolean) => (this.#isPublishing = isPublishing),
    }));
    return await forgetRuns(context, options);
  }

  daemonState(): DaemonState {
    return openDaemonState({
      read: (work) => this.#read(work),
      change: (work) => this.#change(work),
    });
  }

  beginRun(options: RunOptions): RunWriter {
    if (this.#write === null) throw new TidemarkError('internal', 'the mirror is open for reading only');
    if (this.#hasRun || this.#isPublishing)
      throw new TidemarkError('internal', 'another run of this mirror is not over');
    const run = openRun(
      {
        writer: this.#write.connection,
        path: this.path,
        clock: this.#clock,
        keepsLog: this.#isTemporary,
        onPublishing: (isPublishing) => (this.#isPublishing = isPublishing),
        onEnd: () => {
          this.#hasRun = false;
        },
      },
      options,
    );
    this.#hasRun = true;
    return run;
  }

  async backupTo(path: string, options: BackupOptions = {}): Promise<void> {
    const reader = translated(this.path, () => this.#reader.another());
    try {
      await backUp(reader.connection, path, options);
    } finally {
      reader.close();
    }
  }

  async verify(onProgress: (progress: VerifyProgress) => void): Promise<VerifyResult> {
    const reader = translated(this.path, () => this.#reader.another());
    try {
      return await verifySnapshot(reader.connection, onProgress);
    } catch (error) {
      throw withoutVerifyHint(asReadingError(error, this.path), this.path);
    } finally {
      reader.close();
    }
  }

  /** Reads of the writer's process use their own connection too: they must not see half a run either. */
  #read<T>(work: (connection: Connection) => T): T {
    try {
      return work(this.#reader.connection);
    } catch (error) {
      throw asReadingError(error, this.path);
    }
  }

  #pages(connection: Connection): PageReader {
    this.#pageReader ??= preparePages(connection);
    return this.#pageReader;
  }

  /** One write beside the runs: while one is published, the writer's connection is its alone. */
  #change<T>(work: (writer: Connection) => T): T {
    const write = this.#write;
    if (write === null) throw new TidemarkError('internal', 'the mirror is open for reading only');
    if (this.#isPublishing) {
      throw new TidemarkError('mirror_locked', `${this.path} is being written at this moment`, {
        hint: 'try again in a moment',
        isRetryable: true,
      });
    }
    return translated(this.path, () => work(write.connection));
  }

  /** A separate connection, so that the whole iteration sees one snapshot. */
  *#stream<T>(read: (connection: Connection) => Generator<T>): Generator<T, undefined> {
    const reader = translated(this.path, () => this.#reader.another());
    try {
      reader.connection.exec('BEGIN');
      yield* read(reader.connection);
      return undefined;
    } catch (error) {
      throw asReadingError(error, this.path);
    } finally {
      reader.close();
    }
  }
}
