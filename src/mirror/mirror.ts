/** The mirror: one SQLite file with every record, its history and its runs. Each topic has a store. */
import type { TidemarkError } from '../core/errors.ts';
import { type AcceptanceStore, acceptanceStore } from './acceptances.ts';
import type { AccessOptions, MirrorAccess } from './access.ts';
import {
  type AcceptedRemovalsEntry,
  type AuditLogEntry,
  readAcceptedRemovals,
  readAuditLog,
} from './audit-entries.ts';
import { type RestoredBackupEntry, lastEntry, restoredBackups } from './audit-log.ts';
import { contradictedRows } from './audited-rows.ts';
import { type BackupOptions, backUp } from './backup.ts';
import { type DaemonStore, daemonStore } from './daemon-store.ts';
import { asReadingError, withoutVerifyHint } from './database.ts';
import { alteredLogText } from './hidden-runs.ts';
import { type MaskedAnswer, type MaskedQuestion, queryMasked } from './masked-query.ts';
import { type RecordStore, recordStore } from './record-store.ts';
import { type RestoreStore, restoreStore } from './restore-store.ts';
import { type RetentionStore, retentionStore } from './retention-store.ts';
import { type RunStore, runStore } from './run-store.ts';
import { foreignTrigger } from './schema-check.ts';
import { type SnapshotStore, snapshotStore } from './snapshots.ts';
import { type EntryUnlikeSealed, type FoundSeal, entriesUnlikeSealed, findSeal } from './verify-chain.ts';
import { type VerifyProgress, type VerifyResult, verifySnapshot } from './verify.ts';

export interface MirrorOptions extends AccessOptions {
  readonly mode: 'read' | 'write';
  /** The command that opens it: named to processes that find the mirror locked. */
  readonly command: string;
  readonly host?: string;
  readonly pid?: number;
  /** For writing: false if a missing mirror must not be created. */
  readonly mayCreate?: boolean;
}

/** An open mirror; `openMirror` opens one. Writing methods throw `internal` if it is open for reading only. */
export class Mirror {
  readonly path: string;
  readonly mode: 'read' | 'write';
  readonly runs: RunStore;
  readonly records: RecordStore;
  readonly snapshots: SnapshotStore;
  readonly acceptances: AcceptanceStore;
  readonly restores: RestoreStore;
  readonly retention: RetentionStore;
  readonly daemon: DaemonStore;
  readonly #access: MirrorAccess;

  constructor(mode: 'read' | 'write', access: MirrorAccess) {
    this.path = access.path;
    this.mode = mode;
    this.#access = access;
    this.runs = runStore(access);
    this.records = recordStore(access);
    this.snapshots = snapshotStore(access);
    this.acceptances = acceptanceStore(access);
    this.restores = restoreStore(access);
    this.retention = retentionStore(access);
    this.daemon = daemonStore(access);
  }

  /** Views and indexes that another program had altered, and that opening it for writing created again. Empty from the second call on. */
  takeRestored(): readonly string[] {
    return this.#access.takeRestored();
  }

  /** A number that changes with each change of a table, view, index or trigger. */
  get schemaCookie(): number {
    return this.#access.read((connection) => connection.pragma('schema_version', { simple: true }) as number);
  }

  /** Empties the log and releases the lock. */
  close(): void {
    try {
      this.restores.close();
    } finally {
      this.#access.close();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Why closing it could not empty the log, as on a full disk. Nothing is lost: the next writer empties it. */
  get leftInLog(): TidemarkError | null {
    return this.#access.leftInLog;
  }

  /**
   * Runs `work`, which awaits nothing, so that everything it reads is of one moment, whatever is published meanwhile.
   * Streams (`records.read` and the like) have a snapshot of their own.
   */
  atOnce<T>(work: () => T): T {
    return this.#access.read((connection) => connection.transaction(work)());
  }

  /** The schema version: the number of migrations. */
  get schemaVersion(): number {
    return this.#access.read((connection) => connection.pragma('user_version', { simple: true }) as number);
  }

  /** True if a private copy is read, because the file's directory cannot be written. The copy does not change. */
  get isCopy(): boolean {
    const [main] = this.#access.read(
      (connection) => connection.pragma('database_list') as readonly { readonly file: string }[],
    );
    return main?.file !== this.path;
  }

  /** At most five findings of SQLite's quick check of the file's structure; `verify` checks every record. */
  quickCheck(): string[] {
    const found = this.#access.read(
      (connection) => connection.pragma('quick_check(5)') as readonly { readonly quick_check: string }[],
    );
    return found.map((row) => row.quick_check).filter((text) => text !== 'ok');
  }

  /** Set if another program added a trigger, so that Tidemark does not write to the mirror; otherwise null. */
  foreignTrigger(): TidemarkError | null {
    return this.#access.read((connection) => foreignTrigger(connection, this.path));
  }

  /**
   * Answers a query in SQL, read-only, with what any SQLite client would show.
   * @throws TidemarkError if it is not a query
   */
  query(statement: string): { columns: readonly string[]; rows: readonly (readonly unknown[])[] } {
    return this.#access.read((connection) => {
      const prepared = connection.prepare<[], unknown[]>(statement).raw();
      return { columns: prepared.columns().map(({ name }) => name), rows: prepared.all() };
    });
  }

  /**
   * Answers a query in SQL with all secrets masked (`masked-query.ts`).
   * @throws TidemarkError `usage` if it is not a query of the tables that are offered
   */
  queryMasked(question: MaskedQuestion): MaskedAnswer {
    const reader = this.#access.openReader();
    try {
      return queryMasked(reader.connection, question);
    } catch (error) {
      throw asReadingError(error, this.path, reader.connection);
    } finally {
      reader.close();
    }
  }

  /**
   * Copies all published data to a new file of mode 0600, which is a mirror too; an existing file is replaced. The event loop
   * keeps running, and writers are not blocked.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`, `mirror_corrupt`, `interrupted`; the copy is deleted then
   */
  async backupTo(path: string, options: BackupOptions = {}): Promise<void> {
    const reader = this.#access.acquireReader();
    try {
      await backUp(reader.connection, path, options);
    } finally {
      this.#access.releaseReader(reader);
    }
  }

  /** Which run, or entry of the audit log, has or had (until a `forget`) this seal; undefined if none. */
  findSeal(hash: string): FoundSeal | undefined {
    return this.#access.read((connection) => findSeal(connection, Buffer.from(hash, 'hex')));
  }

  /** All entries of the audit log, newest first, read page by page. @throws TidemarkError `mirror_corrupt` for one that cannot be read */
  auditLog(): Generator<AuditLogEntry, undefined> {
    return readAuditLog(this.#access);
  }

  /** Entries that runs sealed, and that are gone from the audit log or altered: `auditLog` cannot see that its end is missing. */
  auditEntriesUnlikeSealed(): EntryUnlikeSealed[] {
    return this.#access.read(entriesUnlikeSealed);
  }

  /**
   * What is wrong with the audit log (`was altered: entry 3 …`); null if each entry is as it was written, and none is missing. Reads
   * the log again only after the file changed.
   */
  alteredAuditLog(): string | null {
    return this.#access.read(alteredLogText);
  }

  /** A line for each row that contradicts the audit log, or has no entry in it: the row was altered, or the last entries are gone. */
  rowsUnlikeAuditLog(): string[] {
    return this.#access.read((connection) =>
      (['snapshots', 'acceptances', 'restores'] as const).flatMap((about) =>
        contradictedRows(connection, about).map(({ line }) => line),
      ),
    );
  }

  /** Who accepted removals in a run, and which; undefined if nobody did. @throws TidemarkError `mirror_corrupt` */
  acceptedRemovals(run: number): AcceptedRemovalsEntry | undefined {
    return this.#access.read((connection) => readAcceptedRemovals(connection, run));
  }

  /** The latest entry of the audit log with its hash in hex; null if the log is empty. */
  lastEntry(): { readonly entry: number; readonly hash: string } | null {
    const last = this.#access.read(lastEntry);
    return last === undefined ? null : { entry: last.entry, hash: last.hash.toString('hex') };
  }

  /** The entries for all backups that the mirror was restored from, newest first. */
  restoredBackups(): RestoredBackupEntry[] {
    return this.#access.read(restoredBackups);
  }

  /** Checks everything in the mirror, as of one moment; yields to the event loop. */
  async verify(onProgress: (progress: VerifyProgress) => void = () => undefined): Promise<VerifyResult> {
    const reader = this.#access.acquireReader();
    try {
      return await verifySnapshot(reader.connection, onProgress);
    } catch (error) {
      throw withoutVerifyHint(asReadingError(error, this.path, reader.connection), this.path);
    } finally {
      this.#access.releaseReader(reader);
    }
  }
}
