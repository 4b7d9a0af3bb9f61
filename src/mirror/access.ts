/** The connections of an open mirror, as its stores use them. */
import { recordedText } from '../catalog/masks.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import { type Connection, asReadingError, translated } from './database.ts';
import type { WriterLock } from './lock.ts';
import { checkpointNow } from './write-ahead-log.ts';

/** A connection for reading. */
export interface ReaderConnection {
  readonly connection: Connection;
  /** Another one over the same mirror; where this one reads a copy, over the same copy, without making a second. */
  another(): ReaderConnection;
  /** Also deletes the copy that it reads, if it does. */
  close(): void;
}

/** What a mirror that is open for writing has beside its reader. */
export interface WriteAccess {
  readonly connection: Connection;
  /** Views and indexes that another program had altered, and that were created again when it was opened. */
  readonly restored?: readonly string[];
  readonly lock: WriterLock;
}

/** The writer's connection, for work that takes longer than one transaction. */
export interface WriterContext {
  readonly writer: Connection;
  readonly path: string;
  readonly clock: Clock;
  readonly actor: Actor;
  /** Called when the connection is used for nothing else, and when that is over. */
  readonly onPublishing: (isPublishing: boolean) => void;
}

/** Reads of a connection as methods that need none. */
type Bound<Reads> = {
  readonly [Name in keyof Reads]: Reads[Name] extends (
    connection: Connection,
    ...question: infer Question
  ) => infer Answer
    ? (...question: Question) => Answer extends Generator<infer Row> ? IterableIterator<Row> : Answer
    : never;
};

type Reads<Answer> = Readonly<Record<string, (connection: Connection, ...question: never[]) => Answer>>;

export class MirrorAccess {
  readonly path: string;
  readonly clock: Clock;
  readonly isTemporary: boolean;
  /** Who writes. */
  readonly actor: Actor;
  readonly #secrets: readonly Secret[];
  readonly #openReader: () => ReaderConnection;
  /**
   * Readers that are not lent. The first of them reads, and there is another one only while that is lent, or after it was:
   * SQLite reads the schema for each connection, which takes longer than most reads.
   */
  readonly #idle: ReaderConnection[];
  /** Stays until the mirror is closed: the copy that it may read goes with its last reader. */
  readonly #first: ReaderConnection | null;
  readonly #write: WriteAccess | null;
  #restored: readonly string[];
  #isPublishing = false;
  #hasRun = false;
  #isClosed = false;
  #leftInLog: TidemarkError | null = null;

  constructor(
    path: string,
    {
      clock,
      isTemporary = false,
      actor = commandActor(),
      secrets = [],
    }: {
      readonly clock: Clock;
      readonly isTemporary?: boolean;
      readonly actor?: Actor;
      readonly secrets?: readonly Secret[];
    },
    /** One that is open, or what opens one when something is read. */
    reader: ReaderConnection | (() => ReaderConnection),
    write: WriteAccess | null,
  ) {
    this.path = path;
    this.clock = clock;
    this.isTemporary = isTemporary;
    this.#secrets = secrets;
    const { by, via } = actor;
    // User and host are read from the system, nobody typed them.
    this.actor = { by: by === via ? by : this.recordedText(by, 'the name of a person'), via };
    this.#first = typeof reader === 'function' ? null : reader;
    this.#openReader = typeof reader === 'function' ? reader : () => reader.another();
    this.#idle = this.#first === null ? [] : [this.#first];
    this.#write = write;
    this.#restored = write?.restored ?? [];
  }

  /** As `recordedText`, with the secrets of the configuration. */
  recordedText(text: string, what: string): string {
    return recordedText(text, what, this.#secrets);
  }

  /** What opening it created again, once. */
  takeRestored(): readonly string[] {
    const restored = this.#restored;
    this.#restored = [];
    return restored;
  }

  /** Closes the connections, empties the log, and releases the lock even if something fails to close. */
  close(): void {
    this.#isClosed = true;
    try {
      // A stream may outlive the mirror: its connection is closed when it ends.
      closeAll(this.#idle.splice(0));
    } finally {
      this.#closeWriter();
    }
  }

  /** Once it is closed: why the log could not be emptied, as on a full disk. It has what was committed, and the next writer empties it. */
  get leftInLog(): TidemarkError | null {
    return this.#leftInLog;
  }

  #closeWriter(): void {
    const write = this.#write;
    if (write === null || !write.connection.open) return;
    try {
      translated(this.path, () => {
        if (write.connection.inTransaction) write.connection.exec('ROLLBACK');
        else if (!this.isTemporary) checkpointNow(write.connection);
      });
    } catch (error) {
      if (!(error instanceof TidemarkError) || !isOfDisk(error)) throw error;
      this.#leftInLog = error;
    } finally {
      try {
        write.connection.close();
      } finally {
        write.lock.release();
      }
    }
  }

  /** Reads of the writer's process use the reader's connection too: they must not see half a run. */
  read<T>(work: (connection: Connection) => T): T {
    const { connection } = this.#idleReader();
    try {
      return work(connection);
    } catch (error) {
      throw asReadingError(error, this.path, connection);
    }
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new TidemarkError('internal', 'the mirror is closed');
  }

  #idleReader(): ReaderConnection {
    this.#requireOpen();
    const idle = this.#idle[0] ?? this.openReader();
    if (this.#idle.length === 0) this.#idle.push(idle);
    return idle;
  }

  /** As `read`, for each of these. */
  reads<T extends Reads<unknown>>(reads: T): Bound<T> {
    return bound(reads, (read) => this.read(read));
  }

  /** As `change`, for each of these. */
  changes<T extends Reads<unknown>>(changes: T): Bound<T> {
    return bound(changes, (change) => this.change(change));
  }

  /** As `stream`, for each of these. */
  streams<T extends Reads<Generator>>(streams: T): Bound<T> {
    return bound(streams, (stream) => this.stream(stream as (connection: Connection) => Generator));
  }

  /** Reads on a connection that nothing else uses meanwhile, so that the entire iteration sees one snapshot. */
  *stream<T>(read: (connection: Connection) => Generator<T>): Generator<T, undefined> {
    const reader = this.lend();
    try {
      reader.connection.exec('BEGIN');
      yield* read(reader.connection);
      return undefined;
    } catch (error) {
      throw asReadingError(error, this.path, reader.connection);
    } finally {
      this.giveBack(reader);
    }
  }

  /** A reader's connection that nothing else uses until it is given back. */
  lend(): ReaderConnection {
    this.#requireOpen();
    // Within `atOnce`, the one that reads has a transaction.
    const index = this.#idle.findLastIndex(({ connection }) => !connection.inTransaction);
    const [idle] = index === -1 ? [] : this.#idle.splice(index, 1);
    return idle ?? this.openReader();
  }

  /** Ends its transaction, if it has one, with the temporary tables that were made in it. */
  giveBack(reader: ReaderConnection): void {
    // Several may be lent at once, and not come back before the mirror is closed.
    if (this.#isClosed || (this.#idle.length > 1 && reader !== this.#first)) {
      reader.close();
      return;
    }
    try {
      if (reader.connection.inTransaction) reader.connection.exec('ROLLBACK');
      // A daemon has many mirrors open, and most of them are not read.
      reader.connection.pragma('shrink_memory');
    } catch {
      // Not used again. What it was lent for has its own error, which this one must not replace.
      reader.close();
      return;
    }
    this.#idle.push(reader);
  }

  /** Another reader's connection; the caller closes it. */
  openReader(): ReaderConnection {
    return translated(this.path, this.#openReader);
  }

  /**
   * One write beside the runs.
   * @throws TidemarkError `internal` if the mirror is open for reading only, `mirror_locked` while a run is published
   */
  change<T>(work: (writer: Connection) => T): T {
    const { connection } = this.#writeAccess();
    if (this.#isPublishing) {
      throw new TidemarkError('mirror_locked', `${this.path} is being written at this moment`, {
        hint: 'try again in a moment',
        isRetryable: true,
      });
    }
    return translated(this.path, () => work(connection));
  }

  /**
   * The writer for a run, until `onEnd` is called.
   * @throws TidemarkError `internal` if the mirror is open for reading only, or another run has not ended
   */
  writerForRun(): WriterContext & { readonly onEnd: () => void } {
    const { connection } = this.#writeAccess();
    if (this.#hasRun || this.#isPublishing)
      throw new TidemarkError('internal', 'another run of this mirror has not ended');
    this.#hasRun = true;
    return { ...this.#contextOf(connection), onEnd: () => (this.#hasRun = false) };
  }

  /** The writer for the removal of history. @throws TidemarkError `mirror_locked` while a run is in progress */
  writerForForget(): WriterContext {
    if (this.#hasRun) {
      throw new TidemarkError('mirror_locked', `a run of ${this.path} is under way: nothing was forgotten`, {
        hint: 'wait until it has ended, then run the command again',
        isRetryable: true,
      });
    }
    return this.change((writer) => this.#contextOf(writer));
  }

  #writeAccess(): WriteAccess {
    if (this.#write === null) throw new TidemarkError('internal', 'the mirror is open for reading only');
    return this.#write;
  }

  #contextOf(writer: Connection): WriterContext {
    return {
      writer,
      path: this.path,
      clock: this.clock,
      actor: this.actor,
      onPublishing: (isPublishing) => (this.#isPublishing = isPublishing),
    };
  }
}

/** True where a file could not be written. */
function isOfDisk({ code }: TidemarkError): boolean {
  return code === 'disk_full' || code === 'read_only' || code === 'file_system';
}

/** Closes each of them, also after one that throws. */
function closeAll([reader, ...others]: readonly ReaderConnection[]): void {
  if (reader === undefined) return;
  try {
    reader.close();
  } finally {
    closeAll(others);
  }
}

function bound<T extends Reads<unknown>>(
  reads: T,
  run: (read: (connection: Connection) => unknown) => unknown,
): Bound<T> {
  const methods = Object.entries(reads as Reads<unknown>).map(([name, read]) => [
    name,
    (...question: never[]) => run((connection) => read(connection, ...question)),
  ]);
  return Object.fromEntries(methods) as Bound<T>;
}
