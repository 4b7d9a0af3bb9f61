/** The mirror: one SQLite file with every record, its history and its runs, behind a store for each. */
import type { Actor } from '../core/actor.ts';
import type { Clock } from '../core/clock.ts';
import type { Secret } from '../core/secret.ts';
import type { TidemarkError } from '../core/errors.ts';
import { AcceptanceStore } from './acceptances.ts';
import type { MirrorAccess } from './access.ts';
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
import { RestoreStore } from './restores.ts';
import { type RetentionStore, retentionStore } from './retention-store.ts';
import { type RunStore, runStore } from './run-store.ts';
import { foreignTrigger } from './schema-check.ts';
import { SnapshotStore } from './snapshots.ts';
import { type EntryUnlikeSealed, type FoundSeal, entriesUnlikeSealed, findSeal } from './verify-chain.ts';
import { type VerifyProgress, type VerifyResult, verifySnapshot } from './verify.ts';

export interface MirrorOptions {
  readonly mode: 'read' | 'write';
  /** The command that opens it: shown to processes that find it locked. */
  readonly command: string;
  readonly clock: Clock;
  readonly host?: string;
  readonly pid?: number;
  /** Who does what is recorded with a name; the user of this process if omitted. */
  readonly actor?: Actor;
  /** For writing: what no text may hold that a person typed, and that is recorded. */
  readonly secrets?: readonly Secret[];
  /** For writing: false where making an empty mirror would be a mistake. */
  readonly mayCreate?: boolean;
  /** Deleted when it is closed: nothing of it waits for the disk, its log is never emptied, and it has no views of kinds. */
  readonly isTemporary?: boolean;
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
    this.snapshots = new SnapshotStore(access);
    this.acceptances = new AcceptanceStore(access);
    this.restores = new RestoreStore(access);
    this.retention = retentionStore(access);
    this.daemon = daemonStore(access);
  }

  /** Views and indexes that another program had altered, and that opening it for writing created again; the first time it is asked. */
  takeRestored(): readonly string[] {
    return this.#access.takeRestored();
  }

  /** Another number after each change of a table, view, index or trigger. */
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

  /** Once it is closed: why the log could not be emptied, as on a full disk. Nothing is lost by it, and the next writer empties it. */
  get leftInLog(): TidemarkError | null {
    return this.#access.leftInLog;
  }

  /**
   * Runs `work`, which awaits nothing: everything that it reads here is of one moment, whatever is published meanwhile.
   * What is streamed (`records.read` and the like) has its own snapshot.
   */
  atOnce<T>(work: () => T): T {
    return this.#access.read((connection) => connection.transaction(work)());
  }

  /** The version of its schema: how many migrations it has. */
  get schemaVersion(): number {
    return this.#access.read((connection) => connection.pragma('user_version', { simple: true }) as number);
  }

  /** True where a copy is read, as old as its opening: the file's own directory cannot be written. */
  get isCopy(): boolean {
    const [main] = this.#access.read(
      (connection) => connection.pragma('database_list') as readonly { readonly file: string }[],
    );
    return main?.file !== this.path;
  }

  /** SQLite's quick check of the file's structure: what it found, at most five findings; `verify` checks every record. */
  quickCheck(): string[] {
    const found = this.#access.read(
      (connection) => connection.pragma('quick_check(5)') as readonly { readonly quick_check: string }[],
    );
    return found.map((row) => row.quick_check).filter((text) => text !== 'ok');
  }

  /** Why nothing writes to it: another program added a trigger. Null without one. */
  foreignTrigger(): TidemarkError | null {
    return this.#access.read((connection) => foreignTrigger(connection, this.path));
  }

  /**
   * Answers a question in SQL, read-only: what a user would see with any SQLite client.
   * @throws TidemarkError when it is not a query
   */
  query(statement: string): { columns: readonly string[]; rows: readonly (readonly unknown[])[] } {
    return this.#access.read((connection) => {
      const prepared = connection.prepare<[], unknown[]>(statement).raw();
      return { columns: prepared.columns().map(({ name }) => name), rows: prepared.all() };
    });
  }

  /**
   * Answers a question in SQL for somebody who must see no secret (`masked-query.ts`).
   * @throws TidemarkError `usage` when it is not a query of the tables that are offered
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
   * Copies all published data to a new file of mode 0600, a mirror itself; an existing file is replaced. The event loop
   * keeps running, and writers are not blocked.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`, `mirror_corrupt`, `interrupted`: nothing is left then
   */
  async backupTo(path: string, options: BackupOptions = {}): Promise<void> {
    const reader = this.#access.lend();
    try {
      await backUp(reader.connection, path, options);
    } finally {
      this.#access.giveBack(reader);
    }
  }

  /** Of which run, or entry of the audit log, a hash is the seal, or was until a forget; undefined for none. */
  findSeal(hash: string): FoundSeal | undefined {
    return this.#access.read((connection) => findSeal(connection, Buffer.from(hash, 'hex')));
  }

  /** All entries of the audit log, newest first, page by page. @throws TidemarkError `mirror_corrupt` for one that cannot be read */
  auditLog(): Generator<AuditLogEntry, undefined> {
    return readAuditLog(this.#access);
  }

  /** Entries that runs sealed and the audit log has not, or has otherwise: `auditLog` cannot see what was cut off at its end. */
  auditEntriesUnlikeSealed(): EntryUnlikeSealed[] {
    return this.#access.read(entriesUnlikeSealed);
  }

  /** What is wrong with the audit log (`was altered: entry 3 …`); null where each entry is as it was written, and none is missing. Reads it again only after the file changed. */
  alteredAuditLog(): string | null {
    return this.#access.read(alteredLogText);
  }

  /** The rows that the audit log has otherwise, or has no entry of: its last entries may be gone, or the rows were altered. A line each. */
  rowsUnlikeAuditLog(): string[] {
    return this.#access.read((connection) =>
      (['snapshots', 'acceptances', 'restores'] as const).flatMap((about) =>
        contradictedRows(connection, about).map(({ line }) => line),
      ),
    );
  }

  /** Who accepted removals in a run, and which; undefined where nobody did. @throws TidemarkError `mirror_corrupt` */
  acceptedRemovals(run: number): AcceptedRemovalsEntry | undefined {
    return this.#access.read((connection) => readAcceptedRemovals(connection, run));
  }

  /** The latest entry of the audit log, its hash in hex; null if there is none. */
  lastEntry(): { readonly entry: number; readonly hash: string } | null {
    const last = this.#access.read(lastEntry);
    return last === undefined ? null : { entry: last.entry, hash: last.hash.toString('hex') };
  }

  /** The entries of all backups that the mirror was restored from, newest first. */
  restoredBackups(): RestoredBackupEntry[] {
    return this.#access.read(restoredBackups);
  }

  /** Checks everything that the mirror holds, as of one moment; yields to the event loop. */
  async verify(onProgress: (progress: VerifyProgress) => void = () => undefined): Promise<VerifyResult> {
    const reader = this.#access.lend();
    try {
      return await verifySnapshot(reader.connection, onProgress);
    } catch (error) {
      throw withoutVerifyHint(asReadingError(error, this.path, reader.connection), this.path);
    } finally {
      this.#access.giveBack(reader);
    }
  }
}
