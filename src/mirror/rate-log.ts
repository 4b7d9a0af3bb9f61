/**
 * The start times of the last hour's requests, in a small SQLite file beside the mirror. All processes that use the mirror
 * share it, and it outlives them. It is separate from the mirror because reading commands cannot write to the mirror,
 * and the writer must not wait for them. Implements the client's `RateLog`. Its tables are not in the Drizzle schema: SQL as text.
 */
import { createHash, randomInt } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { dirname } from 'node:path';
import type { SourceConfig } from '../config/config.ts';
import { keyFingerprint } from '../config/source.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError, systemCodeOf } from '../core/errors.ts';
import {
  type Connection,
  type Statement,
  connect,
  createPrivateFile,
  sqliteCode,
  transact,
  translated,
} from './database.ts';
import { realMirrorPath } from './real-path.ts';

interface RateLogOptions {
  /** Absolute path of a mirror, or of the mirrors' directory: the log is beside it. */
  readonly beside: string;
  /** The log beside this path is used until the directory of `beside` exists, and is then moved there. */
  readonly before?: string | null;
  /** Stands for a key at an origin without revealing the key. */
  readonly fingerprint: string;
  /** The number of starts that the longest limit looks back. */
  readonly keeps: number;
  readonly clock: Clock;
}

/** In the file's header, so that another program's file is not taken for a log: "TDRL". */
const APPLICATION_ID = 0x5444524c;
/** Version of the tables. Those of another version are dropped, as they have only an hour of starts. */
const FORM = 1;
const HOUR_MS = 3_600_000;
/** By how much our window is longer than the service's. */
const MARGIN_MS = 60_000;
/** How long starts that a process reserved stay reserved, unless it reserves them again. */
const HELD_MS = 60_000;
/** A start writes three or four pages. With small pages SQLite's own log stays at a megabyte with few checkpoints, each of which takes a sync. */
const PAGE_SIZE = 1024;

const TABLES = `
  DROP TABLE IF EXISTS starts; DROP TABLE IF EXISTS held; DROP TABLE IF EXISTS pace;
  -- limit_id: the first 48 bits of a SHA-256 over origin, key and the name of the limit
  -- n: counts up without gaps; at: epoch milliseconds, never less than the one before
  CREATE TABLE starts (limit_id INTEGER, n INTEGER, at INTEGER NOT NULL, PRIMARY KEY (limit_id, n)) WITHOUT ROWID;
  -- owner: a random number of a process; count: starts that it has reserved, until that time at most
  CREATE TABLE held (limit_id INTEGER, owner INTEGER, count INTEGER NOT NULL, until INTEGER NOT NULL,
    PRIMARY KEY (limit_id, owner)) WITHOUT ROWID;
  -- The pause and rate after a 429, as the client wrote them.
  CREATE TABLE pace (limit_id INTEGER PRIMARY KEY, text TEXT NOT NULL);`;

/** The path of the log of requests beside this path. */
export function rateLogPath(beside: string): string {
  return `${realMirrorPath(beside)}-rate`;
}

/** Copies the log beside one path to another path, unless there is one: after a move, the hour's requests still count. */
export function copyRateLog(from: string, to: string): void {
  if (!existsSync(rateLogPath(from)) || existsSync(rateLogPath(to))) return;
  translated(rateLogPath(to), () => {
    const connection = connect(rateLogPath(from), { isReadonly: true });
    try {
      createPrivateFile(rateLogPath(to));
      connection.prepare('VACUUM INTO ?').run(rateLogPath(to));
    } finally {
      connection.close();
    }
  });
}

/** The log of one key for one client. The file is created or opened when the first request starts. */
export class SharedRateLog {
  readonly #options: RateLogOptions;
  #path: string;
  #isTemporary: boolean;
  #file: RateFile | null = null;

  constructor(options: RateLogOptions) {
    this.#options = options;
    this.#path = rateLogPath(options.before ?? options.beside);
    this.#isTemporary = (options.before ?? null) !== null;
  }

  now(): number {
    return this.#options.clock.now();
  }

  /** Runs `work` in one transaction. @throws TidemarkError if the file cannot be used; the caller may try again */
  atomically<T>(work: () => T): T {
    if (this.#isToMove()) this.#move();
    // Checked again in the transaction: another process may just have moved the log.
    const done = this.#inFile(() => (this.#isToMove() ? null : { result: work() }));
    if (done !== null) return done.result;
    this.#move();
    return this.#inFile(work);
  }

  starts(kind: string | null): SharedStarts {
    return this.#opened().starts(kind);
  }

  readThrottle(): string | null {
    return this.#opened().readThrottle();
  }

  writeThrottle(text: string): void {
    this.#opened().writeThrottle(text);
  }

  close(): void {
    this.#file?.close();
    this.#file = null;
  }

  #inFile<T>(work: () => T): T {
    return translated(this.#path, () => {
      this.#file ??= new RateFile(this.#path, this.#options);
      return this.#file.atomically(work);
    });
  }

  #isToMove(): boolean {
    return this.#isTemporary && existsSync(dirname(this.#options.beside));
  }

  #move(): void {
    const { beside, before = null, clock } = this.#options;
    this.close();
    if (before !== null) moveRateLog(before, beside, clock);
    this.#path = rateLogPath(beside);
    this.#isTemporary = false;
  }

  #opened(): RateFile {
    if (this.#file === null) throw new TidemarkError('internal', `${this.#path} was not opened`);
    return this.#file;
  }
}

/** Moves the contents of the log beside one path to the log beside another. If that fails now, the next process does it. */
function moveRateLog(from: string, beside: string, clock: Clock): void {
  const path = rateLogPath(from);
  if (!existsSync(path)) return;
  let connection: Connection | null = null;
  try {
    const opened = connect(path, { isReadonly: false });
    connection = opened;
    transact(opened, () => {
      mergeRateLog(beside, stateOf(opened, clock), clock, { areApart: true });
      opened.exec('DELETE FROM starts; DELETE FROM held; DELETE FROM pace');
    });
  } catch (error) {
    // An error of the other log is a TidemarkError.
    if (sqliteCode(error) === undefined) throw error;
    return;
  } finally {
    connection?.close();
  }
  // The last process that closes the file removes its -wal: if there is one, another process still uses the file.
  if (existsSync(`${path}-wal`)) return;
  try {
    rmSync(path, { force: true });
  } catch (error) {
    // The file is empty, so it may stay.
    if (systemCodeOf(error) === undefined) throw error;
  }
}

/** The starts of the last hour in the file, epoch milliseconds, oldest first; empty if it cannot be read. @param kind name of the limit */
export function readStarts(
  { beside, fingerprint, clock }: Omit<RateLogOptions, 'keeps'>,
  kind: string | null,
): number[] {
  const now = clock.now();
  const sql = 'SELECT at FROM starts WHERE limit_id = ? AND at > ? AND at <= ? ORDER BY n';
  const read = (connection: Connection): number[] =>
    connection
      .prepare<[number, number, number], number>(sql)
      .pluck()
      .all(limitId(fingerprint, kind), now - HOUR_MS, now);
  return readLog(beside, read) ?? [];
}

/** The result of `read` on the log beside that path; null if there is none, or it cannot be read (using the log reports why). */
export function readLog<T>(beside: string, read: (connection: Connection) => T): T | null {
  const path = rateLogPath(beside);
  if (!existsSync(path)) return null;
  let connection: Connection | null = null;
  try {
    connection = connect(path, { isReadonly: true });
    return read(connection);
  } catch (error) {
    if (sqliteCode(error) === undefined) throw error;
    return null;
  } finally {
    connection?.close();
  }
}

/** How many requests `rate.perHour` leaves now to all processes with that key. Null without a limit, or without requests in the log. */
export function leftOfHour(
  source: Pick<SourceConfig, 'baseUrl' | 'apiKey' | 'rate'>,
  { beside, clock }: { beside: string; clock: Clock },
): number | null {
  const { perHour } = source.rate;
  if (perHour === 0) return null;
  const used = readStarts({ beside, fingerprint: keyFingerprint(source), clock }, null).length;
  return used === 0 ? null : Math.max(0, perHour - used);
}

/** The last hour of a rate log, to be continued on another machine. It reveals no key. */
export interface RateLogState {
  /** When the ages were taken, by the given clock, epoch milliseconds. */
  readonly at?: number;
  /** The ages of the starts in milliseconds, oldest first, by the limit's number in the file. */
  readonly ages: Readonly<Record<string, readonly number[]>>;
  /** The pause and rate after a 429 by the same numbers, as the limiter wrote them: with times of that machine's clock. */
  readonly paces: Readonly<Record<string, string>>;
}

/**
 * The entire log beside a mirror, with all keys; null if there is none, or it cannot be read. Starts that a killed process had
 * reserved count as made now: it may have used them.
 */
export function exportRateLog(beside: string, clock: Clock): RateLogState | null {
  return readLog(beside, (connection) => stateOf(connection, clock));
}

function stateOf(connection: Connection, clock: Clock): RateLogState {
  const now = clock.now();
  const starts = connection
    .prepare<[number], { id: number; at: number }>(
      'SELECT limit_id AS id, at FROM starts WHERE at > ? ORDER BY limit_id, n',
    )
    .all(now - HOUR_MS - MARGIN_MS);
  const held = connection
    .prepare<[number, number], { id: number; count: number }>(
      'SELECT limit_id AS id, total(count) AS count FROM held WHERE until > ? AND until <= ? GROUP BY limit_id',
    )
    .all(now, now + HELD_MS);
  const kept = held.flatMap(({ id, count }) => Array.from({ length: count }, () => ({ id, at: now })));
  const paces = connection
    .prepare<[], { id: number; text: string }>('SELECT limit_id AS id, text FROM pace')
    .all();
  return {
    at: now,
    ages: Object.fromEntries(
      [...Map.groupBy([...starts, ...kept], ({ id }) => String(id))].map(([id, rows]) => [
        id,
        rows.map(({ at }) => Math.max(0, now - at)),
      ]),
    ),
    paces: Object.fromEntries(paces.map(({ id, text }) => [String(id), text])),
  };
}

/**
 * Adds the contents of another log to the log beside a mirror; starts that are in both count once.
 * @param state from `exportRateLog`, with its ages as of now
 * @param areApart true if no start is in both
 * @throws TidemarkError if the file cannot be written
 */
export function mergeRateLog(
  beside: string,
  state: RateLogState,
  clock: Clock,
  { areApart = false } = {},
): void {
  const path = rateLogPath(beside);
  translated(path, () => {
    const now = clock.now();
    const connection = openFile(path, now);
    try {
      transact(connection, () => {
        for (const [id, ages] of Object.entries(state.ages)) {
          const ats = ages.map((age) => now - age);
          mergeStarts(connection, Number(id), ats, areApart ? -1 : SAME_START_MS);
        }
        const put = connection.prepare('INSERT OR IGNORE INTO pace VALUES (?, ?)');
        for (const [id, text] of Object.entries(state.paces)) put.run(Number(id), text);
      });
    } finally {
      connection.close();
    }
  });
}

/**
 * Starts in two logs that are at most this far apart count as the same one: the clocks of two machines differ by less, even if they
 * were compared while a machine was busy.
 */
const SAME_START_MS = 1_000;

/** @param sameMs starts that are at most this far apart are the same; negative if none are */
function mergeStarts(connection: Connection, id: number, others: readonly number[], sameMs: number): void {
  const own = connection
    .prepare<[number], number>('SELECT at FROM starts WHERE limit_id = ? ORDER BY n')
    .pluck()
    .all(id);
  const merged = [...own];
  // Both are sorted: each of our own starts matches one of the others at most.
  let next = 0;
  for (const at of others) {
    while (next < own.length && (own[next] ?? 0) < at - sameMs) next += 1;
    if (next < own.length && (own[next] ?? 0) <= at + sameMs) next += 1;
    else merged.push(at);
  }
  if (merged.length === own.length) return;
  connection.prepare('DELETE FROM starts WHERE limit_id = ?').run(id);
  const insert = connection.prepare('INSERT INTO starts VALUES (?, ?, ?)');
  for (const [index, at] of merged.toSorted((a, b) => a - b).entries()) insert.run(id, index + 1, at);
}

/** The number of a limit in the file: the first 48 bits of a SHA-256. @param kind name of the limit */
export function limitId(fingerprint: string, kind: string | null): number {
  return createHash('sha256')
    .update(`${fingerprint}\0${kind ?? ''}`)
    .digest()
    .readUIntBE(0, 6);
}

class RateFile {
  readonly #connection: Connection;
  readonly #options: RateLogOptions;
  readonly #owner = randomInt(2 ** 47);
  readonly #starts = new Map<string | null, SharedStarts>();
  readonly #keyId: number;
  readonly #begin: Statement<[], unknown>;
  readonly #commit: Statement<[], unknown>;
  readonly #readThrottle: Statement<[number], string>;

  constructor(path: string, options: RateLogOptions) {
    this.#options = options;
    this.#keyId = limitId(options.fingerprint, null);
    this.#connection = openFile(path, options.clock.now());
    this.#begin = this.#connection.prepare('BEGIN IMMEDIATE');
    this.#commit = this.#connection.prepare('COMMIT');
    this.#readThrottle = this.#connection
      .prepare<[number], string>('SELECT text FROM pace WHERE limit_id = ?')
      .pluck();
  }

  atomically<T>(work: () => T): T {
    this.#begin.run();
    try {
      const result = work();
      this.#commit.run();
      return result;
    } catch (error) {
      if (this.#connection.inTransaction) this.#connection.exec('ROLLBACK');
      throw error;
    }
  }

  starts(kind: string | null): SharedStarts {
    const known = this.#starts.get(kind);
    if (known !== undefined) return known;
    const id = limitId(this.#options.fingerprint, kind);
    const starts = new SharedStarts(this.#connection, id, this.#owner, this.#options);
    this.#starts.set(kind, starts);
    return starts;
  }

  readThrottle(): string | null {
    return this.#readThrottle.get(this.#keyId) ?? null;
  }

  writeThrottle(text: string): void {
    this.#connection.prepare('INSERT OR REPLACE INTO pace VALUES (?, ?)').run(this.#keyId, text);
  }

  close(): void {
    try {
      this.#connection.prepare('DELETE FROM held WHERE owner = ?').run(this.#owner);
    } catch (error) {
      // A full disk, for example: what this process reserved expires within a minute.
      if (sqliteCode(error) === undefined) throw error;
    } finally {
      this.#connection.close();
    }
  }
}

/** The starts of one limit. All methods are called within `atomically`. */
class SharedStarts {
  readonly #id: number;
  readonly #owner: number;
  readonly #keeps: number;
  readonly #clock: Clock;
  readonly #latest: Statement<[number], { n: number; at: number }>;
  readonly #nth: Statement<[number, number, number], number>;
  readonly #insert: Statement<[number, number, number], unknown>;
  readonly #drop: Statement<[number, number], unknown>;
  readonly #dropOld: Statement<[number, number, number], unknown>;
  readonly #shift: Statement<[number, number], unknown>;
  readonly #raise: Statement<[number, number, number, number], unknown>;
  readonly #count: Statement<[number, number], number>;
  readonly #hold: Statement<[number, number, number, number], unknown>;
  readonly #held: Statement<[number, number, number, number], number>;

  constructor(connection: Connection, id: number, owner: number, { keeps, clock }: RateLogOptions) {
    this.#id = id;
    this.#owner = owner;
    this.#keeps = keeps;
    this.#clock = clock;
    const number = <P extends unknown[]>(sql: string): Statement<P, number> =>
      connection.prepare<P, number>(sql).pluck();
    this.#latest = connection.prepare('SELECT n, at FROM starts WHERE limit_id = ? ORDER BY n DESC LIMIT 1');
    this.#nth = number(
      'SELECT at FROM starts WHERE limit_id = ? AND n = (SELECT max(n) FROM starts WHERE limit_id = ?) + 1 - ?',
    );
    this.#insert = connection.prepare('INSERT INTO starts VALUES (?, ?, ?)');
    this.#drop = connection.prepare('DELETE FROM starts WHERE limit_id = ? AND n <= ?');
    this.#dropOld = connection.prepare('DELETE FROM starts WHERE limit_id = ? AND n <= ? AND at <= ?');
    this.#shift = connection.prepare('UPDATE starts SET at = at - ? WHERE limit_id = ?');
    this.#raise = connection.prepare('UPDATE starts SET at = ? WHERE limit_id = ? AND n >= ? AND at < ?');
    this.#count = number('SELECT count(*) FROM starts WHERE limit_id = ? AND at > ?');
    this.#hold = connection.prepare('INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?)');
    this.#held = number(
      // A reservation that ends later than possible was written before the clock was set back.
      'SELECT total(count) FROM held WHERE limit_id = ? AND owner <> ? AND until > ? AND until <= ?',
    );
  }

  add(at: number): number {
    const n = (this.#notAhead()?.n ?? 0) + 1;
    this.#insert.run(this.#id, n, at);
    // Only old ones, as another source with this key may look back further.
    this.#dropOld.run(this.#id, n - this.#keeps, at - HOUR_MS - MARGIN_MS);
    return n;
  }

  arrived(n: number, at: number): void {
    this.#raise.run(at, this.#id, n, at);
  }

  nthLatest(n: number): number | undefined {
    const at = this.#nth.get(this.#id, this.#id, n);
    if (at === undefined || at <= this.#clock.now()) return at;
    this.#notAhead();
    return this.#nth.get(this.#id, this.#id, n);
  }

  countAfter(at: number): number {
    return this.#count.get(this.#id, at) ?? 0;
  }

  writeReserved(count: number): void {
    this.#hold.run(this.#id, this.#owner, count, this.#clock.now() + HELD_MS);
  }

  reservedByOthers(): number {
    const now = this.#clock.now();
    return this.#held.get(this.#id, this.#owner, now, now + HELD_MS) ?? 0;
  }

  /**
   * The latest start. If it is in the future, the clock was set back by an unknown time: then that start counts as made now, and the
   * others are shifted by the same time. A start that is further ahead than the longest window is dropped.
   */
  #notAhead(): { readonly n: number; readonly at: number } | undefined {
    const latest = this.#latest.get(this.#id);
    const ahead = (latest?.at ?? 0) - this.#clock.now();
    if (latest === undefined || ahead <= 0) return latest;
    if (ahead > HOUR_MS) this.#drop.run(this.#id, latest.n);
    else this.#shift.run(ahead, this.#id);
    return this.#latest.get(this.#id);
  }
}

/** Opens the log at `path`, created if missing. */
function openFile(path: string, now: number): Connection {
  createPrivateFile(path);
  const connection = connect(path, { isReadonly: false });
  try {
    prepareFile(connection, path, now);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

function prepareFile(connection: Connection, path: string, now: number): void {
  const isOurs = (): boolean => connection.pragma('application_id', { simple: true }) === APPLICATION_ID;
  const isInForm = (): boolean => isOurs() && connection.pragma('user_version', { simple: true }) === FORM;
  // In this order: another process that is creating the file commits tables and mark together.
  const hasTables = connection.prepare('SELECT count(*) FROM sqlite_master').pluck().get() !== 0;
  if (hasTables && !isOurs()) {
    throw new TidemarkError('file_system', `${path} is not a log of Tidemark; it was not changed`, {
      hint: 'move that file away, or set `mirror` to another path',
    });
  }
  try {
    connection.pragma(`page_size = ${PAGE_SIZE}`);
    connection.pragma('journal_mode = WAL');
  } catch (error) {
    // Another process is setting it at this moment, for all of them.
    if (sqliteCode(error)?.startsWith('SQLITE_BUSY') !== true) throw error;
  }
  connection.pragma('synchronous = NORMAL');
  transact(connection, () => {
    if (!isInForm()) {
      connection.exec(TABLES);
      connection.pragma(`application_id = ${APPLICATION_ID}`);
      connection.pragma(`user_version = ${FORM}`);
    }
    // Starts of keys that are no longer used, and reservations of processes that died.
    connection.prepare('DELETE FROM starts WHERE at <= ?').run(now - HOUR_MS - MARGIN_MS);
    connection.prepare('DELETE FROM held WHERE until < ?').run(now);
  });
}
