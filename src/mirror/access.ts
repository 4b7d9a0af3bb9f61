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
  /** Opens another reader of the same mirror, or of the same private copy. */
  another(): ReaderConnection;
  /** The last reader of a private copy deletes it. */
  close(): void;
}

/** The writer's connection and lock, of a mirror that is open for writing. */
export interface WriteAccess {
  readonly connection: Connection;
  /** Views and indexes that another program had altered, and that opening the mirror created again. */
  readonly restored?: readonly string[];
  readonly lock: WriterLock;
}

/** The writer's connection, for work that takes longer than one transaction. */
export interface WriterContext {
  readonly writer: Connection;
  readonly path: string;
  readonly clock: Clock;
  readonly actor: Actor;
  /** Called with true before the connection is used for publishing only, and with false afterwards. */
  readonly onPublishing: (isPublishing: boolean) => void;
}

/** Functions of a connection as methods without that parameter. */
type Bound<Reads> = {
  readonly [Name in keyof Reads]: Reads[Name] extends (
    connection: Connection,
    ...question: infer Question
  ) => infer Answer
    ? (...question: Question) => Answer extends Generator<infer Row> ? IterableIterator<Row> : Answer
    : never;
};

type Reads<Answer> = Readonly<Record<string, (connection: Connection, ...question: never[]) => Answer>>;

export interface AccessOptions {
  readonly clock: Clock;
  /** Recorded as the author of changes; by default the user of this process. */
  readonly actor?: Actor;
  /** For writing: secrets that recorded texts which a person typed must not contain. */
  readonly secrets?: readonly Secret[];
  /** For a mirror that is deleted when it is closed: no fsync, no checkpoints, no views of kinds. */
  readonly isTemporary?: boolean;
}

/** Gives the stores of a mirror its connections: one for short reads, further ones for streams, and the writer's. */
export class MirrorAccess {
  readonly path: string;
  readonly clock: Clock;
  readonly isTemporary: boolean;
  /** Who writes. */
  readonly actor: Actor;
  readonly #secrets: readonly Secret[];
  readonly #openReader: () => ReaderConnection;
  /**
   * Readers that are not in use. `read` uses the first one. They are kept and reused, because SQLite reads the schema for each new
   * connection, which takes longer than most reads.
   */
  readonly #idle: ReaderConnection[];
  /** Stays open until the mirror is closed: the last reader of a private copy deletes it. */
  readonly #first: ReaderConnection | null;
  readonly #write: WriteAccess | null;
  #restored: readonly string[];
  #isPublishing = false;
  #hasRun = false;
  #isClosed = false;
  #leftInLog: TidemarkError | null = null;

  constructor(
    path: string,
    { clock, isTemporary = false, actor = commandActor(), secrets = [] }: AccessOptions,
    /** An open reader, or a function that opens one when it is needed. */
    reader: ReaderConnection | (() => ReaderConnection),
    write: WriteAccess | null,
  ) {
    this.path = path;
    this.clock = clock;
    this.isTemporary = isTemporary;
    this.#secrets = secrets;
    const { by, via } = actor;
    // User and host come from the system: nobody typed them.
    this.actor = { by: by === via ? by : this.recordedText(by, 'the name of a person'), via };
    this.#first = typeof reader === 'function' ? null : reader;
    this.#openReader = typeof reader === 'function' ? reader : () => reader.another();
    this.#idle = this.#first === null ? [] : [this.#first];
    this.#write = write;
    this.#restored = write?.restored ?? [];
  }

  /** As `recordedText` of `catalog/masks.ts`, with the secrets of the configuration. */
  recordedText(text: string, what: string): string {
    return recordedText(text, what, this.#secrets);
  }

  /** As `Mirror.takeRestored`. */
  takeRestored(): readonly string[] {
    const restored = this.#restored;
    this.#restored = [];
    return restored;
  }

  /** Closes the connections, empties the log, and releases the lock even if something fails to close. */
  close(): void {
    this.#isClosed = true;
    try {
      // A stream may outlive the mirror: `releaseReader` closes its connection.
      closeAll(this.#idle.splice(0));
    } finally {
      this.#closeWriter();
    }
  }

  /** As `Mirror.leftInLog`. */
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

  /** Reads by a reader's connection, also in the process that writes: it must not see half a run. */
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

  /** Methods that call these functions by `read`. */
  reads<T extends Reads<unknown>>(reads: T): Bound<T> {
    return bound(reads, (read) => this.read(read));
  }

  /** Methods that call these functions by `change`. */
  changes<T extends Reads<unknown>>(changes: T): Bound<T> {
    return bound(changes, (change) => this.change(change));
  }

  /** Methods that call these functions by `stream`. */
  streams<T extends Reads<Generator>>(streams: T): Bound<T> {
    return bound(streams, (stream) => this.stream(stream as (connection: Connection) => Generator));
  }

  /** Reads by a connection that nothing else uses meanwhile: the entire iteration sees one snapshot. */
  *stream<T>(read: (connection: Connection) => Generator<T>): Generator<T, undefined> {
    const reader = this.acquireReader();
    try {
      reader.connection.exec('BEGIN');
      yield* read(reader.connection);
      return undefined;
    } catch (error) {
      throw asReadingError(error, this.path, reader.connection);
    } finally {
      this.releaseReader(reader);
    }
  }

  /** A reader's connection that nothing else uses until it is released. */
  acquireReader(): ReaderConnection {
    this.#requireOpen();
    // Within `atOnce`, the first one is in a transaction.
    const index = this.#idle.findLastIndex(({ connection }) => !connection.inTransaction);
    const [idle] = index === -1 ? [] : this.#idle.splice(index, 1);
    return idle ?? this.openReader();
  }

  /** Ends the reader's transaction, if any, and with it the temporary tables that were made in it. */
  releaseReader(reader: ReaderConnection): void {
    // Several may be in use at once, and released after the mirror was closed.
    if (this.#isClosed || (this.#idle.length > 1 && reader !== this.#first)) {
      reader.close();
      return;
    }
    try {
      if (reader.connection.inTransaction) reader.connection.exec('ROLLBACK');
      // A daemon has many mirrors open, most of them idle.
      reader.connection.pragma('shrink_memory');
    } catch {
      // This error must not replace that of the work that used the reader.
      reader.close();
      return;
    }
    this.#idle.push(reader);
  }

  /** A new reader; the caller closes it. */
  openReader(): ReaderConnection {
    return translated(this.path, this.#openReader);
  }

  /**
   * Writes, outside of a run.
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

/** True if a file could not be written. */
function isOfDisk({ code }: TidemarkError): boolean {
  return code === 'disk_full' || code === 'read_only' || code === 'file_system';
}

/** Closes each reader, even if closing another one throws. */
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
