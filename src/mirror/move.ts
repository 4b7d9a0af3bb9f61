/**
 * `mirror move`: splits a mirror by source, or joins several. A new file gets everything of the chosen sources, with its history, and
 * new seals as after a `forget`: `forgets` and `replaced_roots` have the previous roots. The original files are only read. SQL as text,
 * because it copies between two files with the same tables, and lists columns at run time.
 */
import { rmSync } from 'node:fs';
import { TidemarkError } from '../core/errors.ts';
import { type Connection, connect, removeMirrorFile, translated, transact } from './database.ts';
import { readStoredForgets } from './forget-records.ts';
import { BY_ID, BY_NAME, type MoveFacts, ownIn, SharedRows } from './move-shared-rows.ts';
import { createMirrorFile } from './open.ts';
import { findSeal, isMove, readSealed } from './verify-chain.ts';

/** What is taken from one file: these sources, with everything that belongs to them. */
export interface MovedPart {
  /** Absolute path of a mirror that nobody writes to meanwhile. */
  readonly path: string;
  readonly sources: readonly string[];
}

/** The trace of the move that made a file. */
interface MoveMark {
  /** Root of the latest sealed run of the file from which it was made; hex. */
  readonly rootBefore: string;
  /** True if nothing was sealed since. */
  readonly isUntouched: boolean;
}

interface MovedFile {
  /** If several files were joined: by source, old number → new number of the runs that exist. */
  readonly runs: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** Lines about snapshots that were renamed, or are no longer the baseline. */
  readonly notes: readonly string[];
}

type Ref = 'source' | 'run' | 'collection' | 'record' | 'restore' | 'job' | 'notice';

interface MovedTable {
  readonly name: string;
  /** Condition: rows of the sources in `temp.own`. `$` stands for the schema (the file). */
  readonly own: string;
  /** Condition: rows of no source, which are taken too. */
  readonly common?: string;
  /** Columns with numbers that another file may use for something else. */
  readonly refs?: Readonly<Record<string, Ref>>;
  /** The same for numbers in JSON: by column and key. */
  readonly refsIn?: Readonly<Record<string, Readonly<Record<string, Ref>>>>;
  /** Columns to order the rows by: the order stays the same. */
  readonly key: string;
  /** Columns that are replaced by an expression of the part's columns. */
  readonly changed?: Readonly<Record<string, string>>;
  /** Columns that get other values when the runs are sealed again. */
  readonly resealed?: readonly string[];
}

const BY_COLLECTION = `collection IN (SELECT id FROM $.collections WHERE ${BY_ID})`;
/** True if the part has another key of fingerprints than the new file, and so another id in its backups (`mirrorId`). */
const IS_OTHER_KEY = '(SELECT key FROM part.fingerprint_key) IS NOT (SELECT key FROM main.fingerprint_key)';
const BY_RESTORE = `restore IN (SELECT restore FROM $.restores WHERE ${BY_NAME})`;

/** All tables without the seals, and without those of the mirror as a whole (forgets, snapshots, the audit log): see `SharedRows`. */
const TABLES: readonly MovedTable[] = [
  // First, since other conditions depend on it. The first file's key is taken.
  { name: 'fingerprint_key', own: 'false', common: 'true', key: 'id' },
  {
    name: 'sources',
    own: 'name IN (SELECT name FROM temp.own)',
    refs: { id: 'source', moved_run: 'run' },
    key: 'id',
  },
  {
    ...{ name: 'collections', own: BY_ID, key: 'id' },
    refs: {
      ...{ id: 'collection', source: 'source', last_run: 'run', last_complete_run: 'run' },
      ...{ last_full_run: 'run', retired_run: 'run' },
    },
  },
  {
    ...{ name: 'runs', own: BY_ID, refs: { run: 'run', source: 'source' }, key: 'run' },
    resealed: ['change_digest', 'sweep_digest', 'previous_root', 'last_entry', 'last_entry_hash', 'root'],
  },
  {
    name: 'sweeps',
    own: BY_COLLECTION,
    refs: { run: 'run', collection: 'collection' },
    key: 'run, collection',
  },
  {
    ...{ name: 'carried_sweeps', own: BY_COLLECTION, key: 'run, collection, seen_run' },
    refs: { run: 'run', collection: 'collection', seen_run: 'run' },
  },
  {
    ...{ name: 'records', own: BY_COLLECTION, key: 'record' },
    refs: { record: 'record', collection: 'collection', run: 'run', previous: 'run' },
  },
  {
    ...{ name: 'revisions', own: BY_COLLECTION, key: 'run, collection, record' },
    refs: { record: 'record', collection: 'collection', run: 'run', previous: 'run' },
  },
  {
    ...{ name: 'held_records', own: BY_COLLECTION, key: 'record' },
    refs: { record: 'record', collection: 'collection', since_run: 'run' },
  },
  { name: 'sealing_rules', own: BY_ID, refs: { source: 'source', run: 'run' }, key: 'source, kind, run' },
  {
    ...{ name: 'checks', own: BY_COLLECTION, key: 'collection, record' },
    refs: { collection: 'collection', record: 'record', run: 'run' },
  },
  { name: 'field_shapes', own: BY_ID, refs: { source: 'source' }, key: 'source, kind, field, type' },
  { name: 'field_shape_bases', own: BY_ID, refs: { source: 'source' }, key: 'source, kind' },
  {
    name: 'schema_changes',
    own: BY_ID,
    refs: { source: 'source', run: 'run' },
    key: 'run, kind, field, change',
  },
  { name: 'restores', own: BY_NAME, refs: { restore: 'restore', undoes: 'restore' }, key: 'restore' },
  { name: 'restore_steps', own: BY_RESTORE, refs: { restore: 'restore' }, key: 'restore, step' },
  { name: 'id_map', own: BY_NAME, refs: { restore: 'restore' }, key: 'source, kind, new_scope, new_id' },
  { name: 'acceptances', own: BY_NAME, key: 'source, kind, scope, remote_id, path' },
  {
    ...{ name: 'jobs', own: BY_NAME, common: 'source IS NULL', refs: { job: 'job', run: 'run' }, key: 'job' },
    // Without targets (`hasStoredIn`) under another key: there are backups of another mirror, and none of this one is missing.
    changed: {
      summary: `CASE WHEN name = 'backup' AND ${IS_OTHER_KEY} THEN json_remove(summary, '$.targets') ELSE summary END`,
    },
  },
  { name: 'schedules', own: 'false', common: 'true', key: 'schedule' },
  { name: 'intervals', own: 'false', common: 'true', key: 'interval' },
  // Not taken: the daemon writes them again, by the new mirror's configuration.
  { name: 'notice_channels', own: 'false', key: 'channel' },
  {
    ...{ name: 'notice_states', common: `source = ''`, key: 'source, subject' },
    refsIn: { detail: { restore: 'restore', run: 'run' } },
    // Without drift under another key: findings are identified by fingerprints, and are reported again.
    own: `${BY_NAME} AND (subject NOT LIKE 'drift:%' OR (SELECT key FROM $.fingerprint_key) IS (SELECT key FROM main.fingerprint_key))`,
  },
  { name: 'notices', own: BY_NAME, common: `source = ''`, refs: { notice: 'notice' }, key: 'notice' },
  {
    ...{ name: 'notice_deliveries', refs: { notice: 'notice' }, key: 'notice, channel' },
    own: `notice IN (SELECT notice FROM $.notices WHERE ${BY_NAME})`,
    common: `notice IN (SELECT notice FROM $.notices WHERE source = '')`,
  },
];

/** The tables and columns whose largest numbers the next part's numbers follow. */
const NUMBERED: Readonly<Record<Exclude<Ref, 'run'>, readonly [string, string]>> = {
  source: ['sources', 'id'],
  collection: ['collections', 'id'],
  record: ['records', 'record'],
  restore: ['restores', 'restore'],
  job: ['jobs', 'job'],
  notice: ['notices', 'notice'],
};

type Offsets = Readonly<Record<Exclude<Ref, 'run'>, number>>;
const NO_OFFSETS: Offsets = { source: 0, collection: 0, record: 0, restore: 0, job: 0, notice: 0 };

/** A part with its new numbers. */
interface Numbered {
  readonly part: MovedPart;
  readonly offsets: Offsets;
  /** Old → new number of each run that the part names; null if all are kept. */
  readonly runs: ReadonlyMap<number, number> | null;
}

/** The names of all sources in a mirror. */
function sourcesOfMirror(connection: Connection): string[] {
  return connection
    .prepare<[], string>(
      `SELECT name FROM sources UNION SELECT source FROM restores UNION SELECT source FROM acceptances
       UNION SELECT source FROM id_map ORDER BY 1`,
    )
    .pluck()
    .all();
}

/** The mark of the latest move; null if no move made the file. */
function readMoveMark(connection: Connection): MoveMark | null {
  const last = readStoredForgets(connection).at(-1);
  if (last === undefined || !isMove(last)) return null;
  const tip = readSealed(connection).at(-1);
  return {
    rootBefore: last.rootBefore.toString('hex'),
    isUntouched: tip?.root.equals(last.rootAfter) === true,
  };
}

interface MirrorFacts {
  /** All sources in the file. */
  readonly sources: readonly string[];
  /** Root of the latest sealed run, hex; null before the first. */
  readonly root: string | null;
  readonly mark: MoveMark | null;
  /** The key of its fingerprints, hex. */
  readonly fingerprintKey: string;
  /** True if it has content that another key would invalidate: accepted drift, fingerprints of secrets. */
  readonly needsItsKey: boolean;
  /** True for a root that it has, or had until a forget or a move. */
  readonly knows: (root: string) => boolean;
}

/** Reads what is needed to decide about a move of the mirror at `path`. @throws TidemarkError if it cannot be read */
export function readMirrorFacts<T>(path: string, use: (facts: MirrorFacts) => T): T {
  return translated(path, () => {
    const connection = connect(path, { isReadonly: true });
    try {
      return use({
        sources: sourcesOfMirror(connection),
        root: readSealed(connection).at(-1)?.root.toString('hex') ?? null,
        mark: readMoveMark(connection),
        fingerprintKey:
          connection.prepare<[], string>('SELECT hex(key) FROM fingerprint_key').pluck().get() ?? '',
        needsItsKey:
          connection
            .prepare<[], number>(
              `SELECT EXISTS (SELECT 1 FROM acceptances) OR EXISTS (SELECT 1 FROM records WHERE instr(body, '[redacted:') > 0)`,
            )
            .pluck()
            .get() === 1,
        knows: (root) => findSeal(connection, Buffer.from(root, 'hex')) !== undefined,
      });
    } finally {
      connection.close();
    }
  });
}

/**
 * Makes the mirror at `path` from one or several parts, replacing a file that is there. The key of fingerprints is that of the first
 * part. With one part all numbers stay; otherwise runs are renumbered in the order of their starts. The file is on the disk when this
 * returns, but not verified yet.
 * @throws TidemarkError for SQLite's errors
 */
export function makeMovedMirror(path: string, parts: readonly MovedPart[], facts: MoveFacts): MovedFile {
  removeMirrorFile(path);
  return translated(path, () => makeFile(path, parts, facts));
}

function makeFile(path: string, parts: readonly MovedPart[], facts: MoveFacts): MovedFile {
  const target = createMirrorFile(path);
  try {
    target.pragma('foreign_keys = OFF');
    // After a crash, the next attempt replaces the file.
    target.pragma('synchronous = OFF');
    target.exec(TEMPORARY_TABLES);
    const runsOf = parts.length === 1 ? null : numberRuns(target, parts);
    const shared = new SharedRows(facts);
    for (const [index, part] of parts.entries()) {
      const runs = runsOf?.[index] ?? null;
      const numbered = { part, runs, offsets: runs === null ? NO_OFFSETS : offsetsOf(target) };
      attached(target, numbered, () => {
        transact(target, () => copyPart(target, numbered, shared, index));
      });
    }
    const notes = transact(target, () => shared.write(target));
    target.pragma('synchronous = FULL');
    target.pragma('wal_checkpoint(TRUNCATE)');
    return { runs: renumbered(target, parts, runsOf), notes };
  } finally {
    target.close();
  }
}

/** The sources of the part that is attached, and its runs' numbers. */
const TEMPORARY_TABLES =
  'CREATE TEMP TABLE own (name TEXT PRIMARY KEY); CREATE TEMP TABLE run_map (old INTEGER PRIMARY KEY, new INTEGER)';

/**
 * Moves the write-ahead log into the file, so that the file alone is the mirror and can be renamed.
 * @throws TidemarkError `mirror_locked` if a reader prevents it
 */
export function settleMirrorFile(path: string): void {
  const left = translated(path, () => {
    const connection = connect(path, { isReadonly: false });
    try {
      const [result] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
      return result?.busy !== 0;
    } finally {
      connection.close();
    }
  });
  if (left) {
    throw new TidemarkError('mirror_locked', `${path} is being read by another process`, {
      hint: 'end it (`tidemark serve`, an SQL client), then run the command again',
    });
  }
  for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
}

/** Runs `work` with the part attached as `part`. */
function attached<T>(target: Connection, { part, runs }: Pick<Numbered, 'part' | 'runs'>, work: () => T): T {
  target.prepare('ATTACH ? AS part').run(part.path);
  try {
    target.exec('DELETE FROM temp.own; DELETE FROM temp.run_map');
    const own = target.prepare('INSERT INTO temp.own VALUES (?)');
    for (const name of part.sources) own.run(name);
    const run = target.prepare('INSERT INTO temp.run_map VALUES (?, ?)');
    for (const [old, number] of runs ?? []) run.run(old, number);
    return work();
  } finally {
    target.exec('DETACH part');
  }
}

function offsetsBy(offset: (table: string, column: string) => number): Offsets {
  const entries = Object.entries(NUMBERED).map(
    ([ref, [table, column]]) => [ref, offset(table, column)] as const,
  );
  return Object.fromEntries(entries) as Offsets;
}

/** Offsets by which a further part's numbers follow those that the new file has. */
function offsetsOf(target: Connection): Offsets {
  return offsetsBy((table, column) => {
    const most = target.prepare<[], number>(`SELECT ifnull(max(${column}), 0) FROM main.${table}`);
    return most.pluck().get() ?? 0;
  });
}

/** The columns of a table, without generated ones. */
function columnsOf(connection: Connection, table: MovedTable): string[] {
  return connection
    .prepare<[], { name: string; hidden: number }>(`PRAGMA main.table_xinfo(${table.name})`)
    .all()
    .flatMap(({ name, hidden }) => (hidden === 0 ? [name] : []));
}

/** SQL of a column's value in the new file, from the part's columns. */
function mapped(table: MovedTable, column: string, { offsets, runs }: Numbered): string {
  const changed = table.changed?.[column];
  if (changed !== undefined) return changed;
  if (runs === null) return `"${column}"`;
  const numbered = (ref: Ref, value: string): string =>
    ref === 'run' ? `(SELECT new FROM temp.run_map WHERE old = ${value})` : `${value} + ${offsets[ref]}`;
  const ref = table.refs?.[column];
  if (ref !== undefined) return numbered(ref, `"${column}"`);
  const keys = Object.entries(table.refsIn?.[column] ?? {}).map(([key, each]) => {
    const value = `"${column}" ->> '$.${key}'`;
    return `'$.${key}', ${numbered(each, `(${value})`)}`;
  });
  // `json_replace` adds no key.
  return keys.length === 0 ? `"${column}"` : `json_replace("${column}", ${keys.join(', ')})`;
}

function copyPart(target: Connection, numbered: Numbered, shared: SharedRows, index: number): void {
  for (const table of TABLES) {
    const columns = columnsOf(target, table);
    const taken = [table.own, ...(table.common === undefined ? [] : [table.common])].join(' OR ');
    // Rows of no source may be in several files: the first file's are taken.
    target
      .prepare(
        `INSERT OR IGNORE INTO main.${table.name} (${columns.map((each) => `"${each}"`).join(', ')})
         SELECT ${columns.map((column) => mapped(table, column, numbered)).join(', ')}
         FROM part.${table.name} WHERE ${ownIn('part', taken)} ORDER BY ${table.key}`,
      )
      .run();
  }
  if (numbered.runs === null) {
    // A number is never reused, not even that of a record that is gone.
    target.exec(
      `DELETE FROM main.sqlite_sequence; INSERT INTO main.sqlite_sequence SELECT name, seq FROM part.sqlite_sequence`,
    );
  }
  const { part, runs, offsets } = numbered;
  shared.take(target, { index, sources: part.sources, runs, restoreOffset: offsets.restore });
}

// Runs of several files are numbered in the order of their starts, including those that retention dropped.

/** All columns with a run's number. */
const RUN_COLUMNS = TABLES.flatMap(({ name, refs = {}, own }) =>
  Object.entries(refs).flatMap(([column, ref]) => (ref === 'run' ? [{ name, column, own }] : [])),
);

function numberRuns(target: Connection, parts: readonly MovedPart[]): Map<number, number>[] {
  const all = parts.flatMap((part, index) =>
    attached(target, { part, runs: null }, () => {
      const named = RUN_COLUMNS.map(
        ({ name, column, own }) => `SELECT ${column} AS run FROM part.${name} WHERE ${ownIn('part', own)}`,
      );
      const numbers = new Set(
        target
          .prepare<[], number>(`SELECT DISTINCT run FROM (${named.join(' UNION ')}) WHERE run IS NOT NULL`)
          .pluck()
          .all(),
      );
      for (const number of forgottenNumbers(target)) numbers.add(number);
      const started = new Map(
        target.prepare<[], [number, string]>('SELECT run, started_at FROM part.runs').raw().all(),
      );
      // A run that is gone is placed before the next one that is there. The order of the numbers stays.
      let at = '';
      const times = [...numbers]
        .toSorted((one, other) => one - other)
        .map((run) => ({ run, at: started.get(run) }));
      for (const [place, time] of times.entries()) {
        const known = time.at ?? times.slice(place).find((each) => each.at !== undefined)?.at ?? at;
        if (known > at) at = known;
        time.at = at;
      }
      return times.map((time) => ({ ...time, index }));
    }),
  );
  const maps = parts.map(() => new Map<number, number>());
  const order = all.toSorted((one, other) =>
    (one.at ?? '') === (other.at ?? '')
      ? one.index - other.index || one.run - other.run
      : (one.at ?? '') < (other.at ?? '')
        ? -1
        : 1,
  );
  for (const [place, { run, index }] of order.entries()) maps[index]?.set(run, place + 1);
  return maps;
}

/** Numbers of the runs in the part's forgets. */
function forgottenNumbers(target: Connection): number[] {
  return target
    .prepare<[], number>(
      `SELECT run FROM part.replaced_roots UNION SELECT into_run FROM part.replaced_roots WHERE into_run IS NOT NULL
       UNION SELECT tip_run FROM part.forgets`,
    )
    .pluck()
    .all();
}

function renumbered(
  target: Connection,
  parts: readonly MovedPart[],
  runsOf: readonly ReadonlyMap<number, number>[] | null,
): MovedFile['runs'] {
  const there = target.prepare<[string], number>(
    'SELECT run FROM runs WHERE source = (SELECT id FROM sources WHERE name = ?)',
  );
  return new Map(
    (runsOf ?? []).flatMap((map, index) =>
      (parts[index]?.sources ?? []).map((source) => {
        const own = new Set(there.pluck().all(source));
        return [source, new Map([...map].filter(([, number]) => own.has(number)))] as const;
      }),
    ),
  );
}

/**
 * Compares the rows of each source in the new file with those in the parts, in both directions, so that every record is as it was in
 * every run.
 * @throws TidemarkError `mirror_corrupt` for the first difference
 */
export function compareMoved(path: string, parts: readonly MovedPart[]): void {
  translated(path, () => {
    const target = connect(path, { isReadonly: false });
    try {
      target.exec(TEMPORARY_TABLES);
      const runsOf = parts.length === 1 ? null : numberRuns(target, parts);
      for (const [index, part] of parts.entries()) {
        const runs = runsOf?.[index] ?? null;
        attached(target, { part, runs }, () => comparePart(target, { part, runs }, path));
      }
    } finally {
      target.close();
    }
  });
}

function comparePart(target: Connection, { part, runs }: Omit<Numbered, 'offsets'>, path: string): void {
  const numbered = { part, runs, offsets: runs === null ? NO_OFFSETS : offsetsBetween(target) };
  for (const table of TABLES) {
    if (table.own === 'false') continue;
    const columns = columnsOf(target, table).filter((column) => table.resealed?.includes(column) !== true);
    const rows = (schema: 'part' | 'main', picked: readonly string[]): IterableIterator<unknown[]> =>
      target
        .prepare<[], unknown[]>(
          `SELECT ${picked.join(', ')} FROM ${schema}.${table.name} WHERE ${ownIn(schema, table.own)} ORDER BY ${table.key}`,
        )
        .raw()
        .iterate();
    const was = rows(
      'part',
      columns.map((column) => mapped(table, column, numbered)),
    );
    const is = rows(
      'main',
      columns.map((column) => `"${column}"`),
    );
    for (;;) {
      const [one, other] = [was.next(), is.next()];
      if (one.done === true && other.done === true) break;
      if (one.done === other.done && isSameRow(one.value as unknown[], other.value as unknown[])) continue;
      was.return?.();
      is.return?.();
      throw new TidemarkError('mirror_corrupt', `${path} differs from ${part.path} in ${table.name}`, {
        hint: 'nothing was moved; run the command again, and report it if it happens again',
      });
    }
  }
}

/** The offsets that a part was copied with, by the smallest numbers of its sources. */
function offsetsBetween(target: Connection): Offsets {
  return offsetsBy((name, column) => {
    const own = TABLES.find((table) => table.name === name)?.own ?? 'true';
    const least = (schema: 'part' | 'main'): number => {
      const sql = `SELECT ifnull(min(${column}), 0) FROM ${schema}.${name} WHERE ${ownIn(schema, own)}`;
      return target.prepare<[], number>(sql).pluck().get() ?? 0;
    };
    return least('main') - least('part');
  });
}

function isSameRow(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.every((value, index) => {
    const beside = other[index];
    return Buffer.isBuffer(value) && Buffer.isBuffer(beside) ? value.equals(beside) : value === beside;
  });
}
