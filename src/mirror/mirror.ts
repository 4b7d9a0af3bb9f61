/** The mirror: one SQLite file with every record, its history and its runs. Open it here; everything else is behind. */
import { hostname } from 'node:os';
import type { Clock } from '../core/clock.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import { checkpointNow } from './checkpoint.ts';
import type { Connection } from './database.ts';
import { asMirrorError, translated } from './database.ts';
import { dueForCheck } from './due-checks.ts';
import type { LockHolder, WriterLock } from './lock.ts';
import { acquireWriterLock } from './lock.ts';
import { openRun } from './open-run.ts';
import type { Reader } from './opening.ts';
import { createDirectory, openReader, openWriter } from './opening.ts';
import type { StoredRateLog } from './rate-log.ts';
import { openRateLog } from './rate-log.ts';
import type { RecordFilter } from './record-filter.ts';
import type { MirrorRecord, RecordRow, RemovedRecord, Revision } from './records.ts';
import { findRecords, readAsOf, readCurrent, readRemoved, readRevisions } from './records.ts';
import type { CollectionRow, RunRow, SweepRow } from './run-rows.ts';
import { readCollections, readRuns, readSweeps } from './run-rows.ts';
import type { RunOptions, RunWriter } from './run-writer.ts';
import type { VerifyProgress, VerifyResult } from './verify.ts';
import { verifySnapshot } from './verify.ts';

export interface MirrorOptions {
  readonly mode: 'read' | 'write';
  /** The command that opens it: told to whoever finds it locked. */
  readonly command: string;
  readonly clock: Clock;
  readonly host?: string;
  readonly pid?: number;
}

export interface Mirror {
  readonly path: string;
  readonly mode: 'read' | 'write';
  /** Empties the log, gives the lock back. */
  close(): void;

  /** Newest first. */
  runs(filter?: { source?: string; limit?: number }): RunRow[];
  run(run: number): RunRow | undefined;
  /** The latest published (complete or partial) run of a source. */
  latestRun(source: string): RunRow | undefined;
  /** In catalog order, then by scope. */
  sweepsOf(run: number): SweepRow[];
  /** In catalog order, then by source and scope. */
  collectionsOf(source?: string): CollectionRow[];

  /** Current records in catalog order, then by source, scope and remote id (bytes); one snapshot, streamed. */
  readRecords(filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** The same as of a run: what a reader would have got right after it was published. */
  readRecordsAt(run: number, filter?: RecordFilter): IterableIterator<MirrorRecord>;
  /** Every record of that kind and id, current or removed: one per scope in which it stands. */
  findRecords(kind: Kind, id: string, filter?: RecordFilter): RecordRow[];
  /**
   * The record of that id, current or removed.
   * @throws TidemarkError `usage` when it stands in several scopes and none is given
   */
  record(source: string, kind: Kind, id: string, scope?: Scope): RecordRow | undefined;
  /** Newest first. */
  revisionsOf(record: RecordRow): Revision[];
  /** Records that are no longer there. */
  removedRecords(filter?: RecordFilter): IterableIterator<RemovedRecord>;
  /**
   * Ids of parent records that a kind read one by one should be asked for: never checked ones first (newest first),
   * then the longest unchecked. `scope` is that of the parent's collection.
   */
  dueForCheck(source: string, kind: Kind, scope: Scope, limit: number): string[];

  /**
   * Answers a question in SQL, read-only: what a user would see with any SQLite client.
   * @throws TidemarkError when it is no query
   */
  query(statement: string): {
    readonly columns: readonly string[];
    readonly rows: readonly (readonly unknown[])[];
  };

  /** The hour's request log of one key and origin, by a fingerprint of both. */
  rateLog(keyFingerprint: string): StoredRateLog;
  /** @throws TidemarkError `internal` when the mirror is open for reading, or another run is not over */
  beginRun(options: RunOptions): RunWriter;
}

/**
 * Opens the mirror at `path`. For writing: makes file and directory, takes the writer lock, upgrades, and ends runs whose
 * process died. For reading: never changes anything but an older schema.
 * @throws TidemarkError `mirror_missing` (reading only), `mirror_locked`, `mirror_foreign`, `mirror_newer`, `disk_full`,
 * `read_only`, `file_system`, `mirror_corrupt`
 */
export function openMirror(path: string, options: MirrorOptions): Mirror {
  const holder: LockHolder = {
    command: options.command,
    pid: options.pid ?? process.pid,
    host: options.host ?? hostname(),
    since: isoTime(options.clock.now()),
  };
  if (options.mode === 'read') {
    const reader = translated(path, () => openReader(path, holder));
    return new OpenMirror(path, options, reader, null, holder);
  }
  translated(path, () => createDirectory(path));
  const lock = acquireWriterLock(path, holder);
  let writer: Connection | undefined;
  try {
    writer = translated(path, () => openWriter(path));
    const reader = translated(path, () => openReader(path, holder));
    return new OpenMirror(path, options, reader, { connection: writer, lock }, holder);
  } catch (error) {
    writer?.close();
    lock.release();
    throw error;
  }
}

/** Checks everything that the mirror holds; see `VerifyResult`. One snapshot; the event loop gets air. */
export async function verifyMirror(
  mirror: Mirror,
  options: { onProgress?: (progress: VerifyProgress) => void } = {},
): Promise<VerifyResult> {
  if (!(mirror instanceof OpenMirror)) throw new TypeError('not a mirror of openMirror');
  return await mirror.verify(options.onProgress ?? ((): void => undefined));
}

class OpenMirror implements Mirror {
  readonly path: string;
  readonly mode: 'read' | 'write';
  readonly #clock: Clock;
  readonly #reader: Reader;
  readonly #write: { readonly connection: Connection; readonly lock: WriterLock } | null;
  readonly #holder: LockHolder;
  readonly #rateLogs = new Map<string, ReturnType<typeof openRateLog>>();
  #isPublishing = false;
  #hasRun = false;

  constructor(
    path: string,
    options: MirrorOptions,
    reader: Reader,
    write: { connection: Connection; lock: WriterLock } | null,
    holder: LockHolder,
  ) {
    this.path = path;
    this.mode = options.mode;
    this.#clock = options.clock;
    this.#reader = reader;
    this.#write = write;
    this.#holder = holder;
  }

  close(): void {
    this.#reader.close();
    const write = this.#write;
    if (write === null || !write.connection.open) return;
    try {
      translated(this.path, () => {
        if (write.connection.inTransaction) write.connection.exec('ROLLBACK');
        else checkpointNow(write.connection);
      });
    } finally {
      write.connection.close();
      write.lock.release();
    }
  }

  runs(filter: { source?: string; limit?: number } = {}): RunRow[] {
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

  collectionsOf(source?: string): CollectionRow[] {
    return this.#read((connection) => readCollections(connection, source));
  }

  readRecords(filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readCurrent(connection, filter));
  }

  readRecordsAt(run: number, filter: RecordFilter = {}): IterableIterator<MirrorRecord> {
    return this.#stream((connection) => readAsOf(connection, run, filter));
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
    throw new TidemarkError('usage', `${kind} ${id} stands in ${found.length} scopes`, {
      hint: 'name one with --organization or --project',
    });
  }

  revisionsOf(record: RecordRow): Revision[] {
    return this.#read((connection) => readRevisions(connection, record));
  }

  removedRecords(filter: RecordFilter = {}): IterableIterator<RemovedRecord> {
    return this.#stream((connection) => readRemoved(connection, filter));
  }

  dueForCheck(source: string, kind: Kind, scope: Scope, limit: number): string[] {
    return this.#read((connection) => dueForCheck(connection, { source, kind, scope, limit }));
  }

  query(statement: string): { columns: readonly string[]; rows: readonly (readonly unknown[])[] } {
    return this.#read((connection) => {
      const prepared = connection.prepare<[], unknown[]>(statement).raw();
      return { columns: prepared.columns().map(({ name }) => name), rows: prepared.all() };
    });
  }

  rateLog(keyFingerprint: string): StoredRateLog {
    const known = this.#rateLogs.get(keyFingerprint);
    if (known !== undefined) return known;
    const log = openRateLog(
      {
        reader: this.#reader.connection,
        writer: this.#write?.connection ?? null,
        path: this.path,
        clock: this.#clock,
        isPublishing: () => this.#isPublishing,
      },
      keyFingerprint,
    );
    this.#rateLogs.set(keyFingerprint, log);
    return log;
  }

  beginRun(options: RunOptions): RunWriter {
    if (this.#write === null) throw new TidemarkError('internal', 'the mirror is open for reading only');
    if (this.#hasRun) throw new TidemarkError('internal', 'another run of this mirror is not over');
    const run = openRun(
      {
        writer: this.#write.connection,
        path: this.path,
        clock: this.#clock,
        onPublishing: (isPublishing) => this.#setPublishing(isPublishing),
        onEnd: () => {
          this.#hasRun = false;
        },
      },
      options,
    );
    this.#hasRun = true;
    return run;
  }

  async verify(onProgress: (progress: VerifyProgress) => void): Promise<VerifyResult> {
    const reader = translated(this.path, () => openReader(this.path, this.#holder));
    try {
      return await verifySnapshot(reader.connection, onProgress);
    } catch (error) {
      throw asMirrorError(error, this.path);
    } finally {
      reader.close();
    }
  }

  #setPublishing(isPublishing: boolean): void {
    this.#isPublishing = isPublishing;
    if (!isPublishing) for (const log of this.#rateLogs.values()) log.flush();
  }

  /** Reads of the writer's process use their own connection too: they must not see half a run either. */
  #read<T>(work: (connection: Connection) => T): T {
    return translated(this.path, () => work(this.#reader.connection));
  }

  /** A connection of its own, so that the whole iteration sees one snapshot whatever happens meanwhile. */
  *#stream<T>(read: (connection: Connection) => Generator<T>): Generator<T, undefined> {
    const reader = translated(this.path, () => openReader(this.path, this.#holder));
    try {
      reader.connection.exec('BEGIN');
      yield* read(reader.connection);
      return undefined;
    } catch (error) {
      throw asMirrorError(error, this.path);
    } finally {
      reader.close();
    }
  }
}
