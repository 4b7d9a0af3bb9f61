/**
 * Seals of rows that neither the root of a run nor the audit log covers: the key of the drift fingerprints, the rows of
 * runs (in particular failed ones) and the id map. Such a row is sealed in the transaction that writes it; `verify`
 * compares.
 *
 * The seal of a row is stored in `row_seals`, so that it remains if the row is deleted. The seal of a set is the XOR of
 * the digests of its seals: it can be updated without reading the others, and a change by another program stays
 * detectable whatever Tidemark changes afterwards.
 */
import { createHash } from 'node:crypto';
import type { Connection, Statement } from './database.ts';
import { inJson, preparedText } from './query.ts';

/** The tables whose rows are sealed. */
export const SEALED_SETS = ['fingerprint_key', 'runs', 'id_map'] as const;
export type SealedSet = (typeof SEALED_SETS)[number];

interface SetDefinition {
  /** The columns of its key, in the order of the member's JSON array. */
  readonly key: readonly string[];
  /** The rest of what is sealed. */
  readonly columns: readonly string[];
  /** Leaves out rows that may still change. */
  readonly where: string;
}

const SETS: Readonly<Record<SealedSet, SetDefinition>> = {
  fingerprint_key: { key: ['id'], columns: ['hex(key)'], where: 'true' },
  runs: {
    key: ['run'],
    // Retention changes the digests and roots, and the chain covers them.
    columns: [
      `(SELECT ${inJson('name')} FROM sources o WHERE o.id = source)`,
      ...['"trigger"', 'kinds', 'started_at', 'finished_at', 'outcome', 'requests', 'retries'],
      ...['added', 'changed', 'removed', 'unchanged', 'error_code', 'error'],
    ],
    where: `outcome <> 'running'`,
  },
  id_map: {
    key: ['source', 'kind', 'new_scope', 'new_id'],
    columns: ['old_scope', 'old_id', 'restore', 'at'],
    where: 'true',
  },
};

/** The sealed content of a row. */
export interface SealedRow {
  /** JSON array of its key. */
  readonly member: string;
  /** JSON array of its other columns. */
  readonly text: string;
}

type RowKey = readonly (string | number)[];

/** SQL of the rows of a set that meet the condition `more`. */
export function sealedRowsSql(set: SealedSet, more = 'true'): string {
  const { key, columns, where } = SETS[set];
  // No expression (with a parenthesis) is a BLOB.
  const facts = columns.map((column) => (column.includes('(') ? column : inJson(column)));
  return `SELECT json_array(${key.map(inJson).join(', ')}) AS member, json_array(${facts.join(', ')}) AS text
    FROM ${set} WHERE ${where} AND ${more}`;
}

/** The seal of a row. */
export function rowSeal(set: SealedSet, { member, text }: SealedRow): Buffer {
  return sha256(`row of a mirror, 1\n${set}\n${member}\n${text}`);
}

/** What the seal of a row contributes to the seal of its set. */
export function setContribution(set: SealedSet, member: string, seal: Buffer): Buffer {
  return sha256(`set of a mirror, 1\n${set}\n${member}\n${seal.toString('hex')}`);
}

/** The seal of a set without rows. */
export const EMPTY_SET: Buffer = Buffer.alloc(32);

/** XOR: adds a contribution to the seal of a set, or removes it again. */
export function combined(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, index) => byte ^ (other[index] ?? 0)));
}

/** Seals the row's present content, or removes the seal of a deleted row, in the transaction that changed the row. */
export function sealRow(writer: Connection, set: SealedSet, key: RowKey): void {
  rowSealer(writer, set)(key);
}

/** The same for many rows of a set. */
export function rowSealer(writer: Connection, set: SealedSet): (key: RowKey) => void {
  const find = rowFinder(writer, set);
  const drop = writer.prepare<[string]>(`DELETE FROM row_seals WHERE "set" = '${set}' AND member = ?`);
  const read = sealReader(writer, set);
  const write = sealWriter(writer, set);
  return (key) => {
    const found = find.get(...key);
    const member = found?.member ?? JSON.stringify(key);
    const before = read(member);
    let whole = read('') ?? EMPTY_SET;
    if (before !== undefined) whole = combined(whole, setContribution(set, member, before));
    if (found === undefined) {
      drop.run(member);
    } else {
      const seal = rowSeal(set, found);
      whole = combined(whole, setContribution(set, member, seal));
      write(member, seal);
    }
    write('', whole);
  };
}

function rowFinder(connection: Connection, set: SealedSet): Statement<(string | number)[], SealedRow> {
  return preparedText(
    connection,
    sealedRowsSql(set, SETS[set].key.map((column) => `${column} = ?`).join(' AND ')),
  );
}

/** True for a row that has a seal but is not as it was sealed. */
export function isUnlikeSealed(connection: Connection, set: SealedSet, key: RowKey): boolean {
  const found = rowFinder(connection, set).get(...key);
  const seal = found === undefined ? undefined : sealReader(connection, set)(found.member);
  return found !== undefined && seal?.equals(rowSeal(set, found)) === false;
}

/** True for a row that was sealed, even if another program deleted it. */
export function isSealed(connection: Connection, set: SealedSet, key: RowKey): boolean {
  return sealReader(connection, set)(JSON.stringify(key)) !== undefined;
}

/** A run whose row is not as it was when the run ended. */
export interface UnlikeSealedRun {
  readonly run: number;
  /** In one line. */
  readonly line: string;
  readonly isGone: boolean;
}

export interface SealRange {
  readonly from?: number;
  readonly upTo?: number;
  readonly source?: string | null;
}

/**
 * The runs in a range whose rows do not match their seals: altered, inserted, or gone. One statement, by key.
 * @param range.source leaves out runs that belong to other sources by their sweeps: a source that is not synced any more may have
 * many runs of other sources after its own, and computing a seal takes microseconds
 */
export function runsUnlikeSealed(
  connection: Connection,
  { from = 0, upTo = Number.MAX_SAFE_INTEGER, source = null }: SealRange,
): UnlikeSealedRun[] {
  interface Joined {
    readonly member: string;
    readonly text: string | null;
    readonly seal: Buffer | null;
    readonly isUnderWay: number;
  }
  const rows = preparedText<[{ from: number; upTo: number; source: string | null }], Joined>(
    connection,
    `WITH others AS MATERIALIZED (${OF_OTHERS}),
         found AS MATERIALIZED (${sealedRowsSql('runs', 'run BETWEEN :from AND :upTo AND run NOT IN others')})
       SELECT found.member, found.text, s.seal, 0 AS isUnderWay
       FROM found LEFT JOIN row_seals s ON s."set" = 'runs' AND s.member = found.member
       UNION ALL
       SELECT member, NULL, seal, EXISTS (SELECT 1 FROM runs WHERE run = CAST(substr(member, 2) AS INTEGER)) FROM row_seals
       WHERE "set" = 'runs' AND CAST(substr(member, 2) AS INTEGER) BETWEEN :from AND :upTo AND member <> ''
         AND CAST(substr(member, 2) AS INTEGER) NOT IN others AND member NOT IN (SELECT member FROM found)`,
  ).all({ from, upTo, source });
  return rows.flatMap(({ member, text, seal, isUnderWay }) => {
    if (text !== null && seal?.equals(rowSeal('runs', { member, text })) === true) return [];
    // Another program may have overwritten the key of the seal.
    const run = /^\[(\d+)\]$/.exec(member)?.[1];
    if (run === undefined)
      return [{ run: 0, line: 'the key of the seal of a run cannot be read', isGone: true }];
    const what =
      text === null
        ? goneText(isUnderWay === 1)
        : seal === null
          ? INSERTED
          : 'is not as it was written when the run ended';
    return [{ run: Number(run), line: `the row of run ${run} ${what}`, isGone: text === null }];
  });
}

/** Runs whose sweeps are all of other sources than `:source`; none if that is NULL. By the sweeps, as the row may have been altered. */
const OF_OTHERS = `SELECT run FROM sweeps WHERE :source IS NOT NULL AND run BETWEEN :from AND :upTo GROUP BY run
  HAVING max(collection IN (SELECT c.id FROM collections c JOIN sources s ON s.id = c.source WHERE s.name = :source)) = 0`;

/** A line for each row of the id map, of one source or of all, that does not match its seal: altered, inserted, or gone. */
export function mappingsUnlikeSealed(connection: Connection, source?: string): string[] {
  const rows = preparedText<
    [],
    { readonly member: string; readonly text: string | null; readonly seal: Buffer | null }
  >(
    connection,
    `WITH found AS MATERIALIZED (${sealedRowsSql('id_map')})
       SELECT found.member, found.text, s.seal FROM found
       LEFT JOIN row_seals s ON s."set" = 'id_map' AND s.member = found.member
       UNION ALL
       SELECT member, NULL, seal FROM row_seals
       WHERE "set" = 'id_map' AND member <> '' AND member NOT IN (SELECT member FROM found)`,
  ).all();
  const own = source === undefined ? rows : rows.filter(({ member }) => isOf(member, source));
  return own.flatMap(({ member, text, seal }) => {
    if (text !== null && seal?.equals(rowSeal('id_map', { member, text })) === true) return [];
    const what =
      text === null ? goneText(false) : seal === null ? INSERTED : 'is not as it was written by its restore';
    return [`the earlier id of a record ${what}`];
  });
}

const INSERTED = 'was inserted by another program: it has no hash';

/** True also if the source cannot be read. */
function isOf(member: string, source: string): boolean {
  return !member.startsWith('["') || member.startsWith(`[${JSON.stringify(source)},`);
}

/** What is wrong with a row whose seal is left. @param isUnderWay true if the row is there, of a run that has not ended */
export function goneText(isUnderWay: boolean): string {
  return isUnderWay
    ? 'says that the run has not ended, though its hash says that it has'
    : 'is gone: its hash is left';
}

function sealReader(connection: Connection, set: SealedSet): (member: string) => Buffer | undefined {
  const read = preparedText<[string], Buffer>(
    connection,
    `SELECT seal FROM row_seals WHERE "set" = '${set}' AND member = ?`,
  ).pluck();
  return (member) => read.get(member);
}

function sealWriter(writer: Connection, set: SealedSet): (member: string, seal: Buffer) => void {
  const write = writer.prepare<[string, Buffer]>(`INSERT OR REPLACE INTO row_seals VALUES ('${set}', ?, ?)`);
  return (member, seal) => void write.run(member, seal);
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
