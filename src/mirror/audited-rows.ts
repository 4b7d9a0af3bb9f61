/**
 * The rows that the audit log records, and whether a row is still as its latest entry has it: `verify` checks all of them, a command
 * the one that it is about to change. SQL as text, because it defines what is hashed.
 */
import { createHash } from 'node:crypto';
import { and, desc, eq, inArray, lte } from 'drizzle-orm';
import { isKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { whoText } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { shellWord } from '../core/hints.ts';
import type { AuditAction } from './audit-actions.ts';
import type { Connection } from './database.ts';
import { inJson, param, prepared, preparedText } from './query.ts';
import { auditLog } from './schema/retention-tables.ts';

/** An entry of the audit log. */
export type AuditEntry = typeof auditLog.$inferSelect;
/** The tables whose rows must be as the log has them. */
export type AuditedTable = Exclude<AuditEntry['about'], 'backups' | 'removals'>;
/** The values of a row's key columns. */
export type RowKey = readonly (string | number)[];

interface AuditedRows {
  /** The columns of its key, in the order of the member's JSON array. */
  readonly key: readonly string[];
  /** The other recorded values: names with their SQL. */
  readonly facts: Readonly<Record<string, string>>;
}

const same = (...columns: string[]): Record<string, string> =>
  Object.fromEntries(columns.map((column) => [column, inJson(column)]));
const hex = (...columns: string[]): Record<string, string> =>
  Object.fromEntries(columns.map((column) => [column, `hex(${column})`]));

/** Of each step of a restore. */
const STEP_FACTS = [
  ...['step', 'outcome', 'status', 'new_id', 'verified', 'differences', 'digest', 'error_code', 'error'],
  ...['attempts', 'sent_at', 'ended_at', 'inverse'],
];

const AUDITED: Readonly<Record<AuditedTable, AuditedRows>> = {
  acceptances: {
    key: ['source', 'kind', 'scope', 'remote_id', 'path'],
    facts: same('fingerprint', 'reason', 'accepted_at', 'accepted_by', 'until'),
  },
  snapshots: { key: ['name'], facts: same('run', 'pinned_at', 'pinned_by', 'is_baseline') },
  restores: {
    key: ['restore'],
    facts: {
      ...same('source', 'plan_hash', 'from_ref', 'undoes', 'started_at', 'started_by', 'finished_at'),
      ...same('outcome', 'approved'),
      plan: 'sha256(plan)',
      // NULL while it runs, as its journal changes with each request.
      steps: `iif(outcome = 'running', NULL, (SELECT sha256(group_concat(json_array(${STEP_FACTS.map(inJson).join(', ')}), char(10) ORDER BY step))
        FROM restore_steps s WHERE s.restore = restores.restore))`,
    },
  },
  forgets: {
    key: ['forget'],
    facts: {
      ...same('at', 'forgotten_by', 'policy', 'sources', 'runs', 'run_count', 'tip_run'),
      ...hex('root_before', 'root_after', 'replaced_digest', 'link'),
    },
  },
};

export const AUDITED_TABLES = Object.keys(AUDITED) as readonly AuditedTable[];

/** A row as the log records it. */
interface RecordedRow {
  /** JSON array of its key. */
  readonly member: string;
  /** JSON object of the other values. */
  readonly row: string;
}

/** The rows of a table, or those whose key begins with `key`, as the log records them. */
export function recordedRows(connection: Connection, about: AuditedTable, key: RowKey = []): RecordedRow[] {
  return connection.prepare<(string | number)[], RecordedRow>(recordedSql(about, key.length)).all(...key);
}

/** @param given the number of key columns to filter by */
function recordedSql(about: AuditedTable, given: number): string {
  const { key, facts } = AUDITED[about];
  const named = Object.entries(facts).map(([name, text]) => `'${name}', ${text}`);
  const where = key.slice(0, given).map((column) => `${column} = ?`);
  return `SELECT json_array(${key.map(inJson).join(', ')}) AS member, json_object(${named.join(', ')}) AS row
    FROM ${about} WHERE ${['true', ...where].join(' AND ')}`;
}

/** The actions that make a row: it has their time, and who did it. */
const MADE = {
  acceptances: ['accept'],
  snapshots: ['pin'],
  restores: ['restore', 'undo'],
} as const satisfies Partial<Record<AuditedTable, readonly AuditAction[]>>;

/**
 * SQL of how the program knew who made a row, by the latest entry of such an action; NULL without one.
 * @param member SQL of the row's member; by default by the columns of the table
 */
export function madeVia(
  about: keyof typeof MADE,
  member = `json_array(${AUDITED[about].key.map(inJson).join(', ')})`,
): string {
  const actions = MADE[about].map((action) => `'${action}'`).join(', ');
  return `(SELECT made.via FROM audit_log made WHERE made.about = '${about}' AND made.member = ${member}
    AND made.action IN (${actions}) ORDER BY made.entry DESC LIMIT 1)`;
}

const MADE_VIA = prepared((db) => {
  const { entry, via, about, member, action } = auditLog;
  return db
    .select({ via })
    .from(auditLog)
    .where(
      and(
        ...[eq(about, param('about')), eq(member, param('member')), lte(entry, param('until'))],
        inArray(action, Object.values(MADE).flat()),
      ),
    )
    .orderBy(desc(entry))
    .limit(1);
});

/** The same for a row by its key, even if it is gone. */
export function madeViaOf(connection: Connection, about: keyof typeof MADE, key: RowKey): string | undefined {
  const until = Number.MAX_SAFE_INTEGER;
  return MADE_VIA(connection).get({ about, member: JSON.stringify(key), until })?.via;
}

/** The same for the row of an entry, as of that entry; undefined also for other tables. */
export function madeViaUntil(
  connection: Connection,
  { about, action, member, entry, via }: Pick<AuditEntry, 'about' | 'action' | 'member' | 'entry' | 'via'>,
): string | undefined {
  if (about !== 'acceptances' && about !== 'snapshots' && about !== 'restores') return undefined;
  const making: readonly AuditAction[] = MADE[about];
  return making.includes(action) ? via : MADE_VIA(connection).get({ about, member, until: entry })?.via;
}

/** Actions that delete the row. They are recorded before that, with the row's values. */
const ENDING: ReadonlySet<AuditAction> = new Set(['unaccept', 'unpin']);

/** True if the row is not in its table after this entry. */
export function isEnding({ action }: Pick<AuditEntry, 'action'>): boolean {
  return ENDING.has(action);
}

type LatestEntry = Pick<AuditEntry, 'entry' | 'action' | 'by' | 'via' | 'row'>;

/** A row (null if it is gone) with its latest entry (null if there is none). */
interface JoinedRow {
  readonly member: string;
  readonly row: string | null;
  readonly entry: number | null;
  readonly action: AuditAction | null;
  readonly by: string | null;
  readonly via: string | null;
  readonly recorded: string | null;
}

/** A row that is not as its latest entry has it. */
export interface Contradiction extends NamedRow {
  /** What is wrong with it, to follow its name. */
  readonly what: string;
  /** What the log has instead of an altered row: `entry 7 of the audit log (accept by ann) has reason "agreed"`. */
  readonly instead?: string;
  /** The command that pins a snapshot that is gone again, as the log has it; left out for other rows. */
  readonly again?: string;
  /** The entry that is gone or altered, if that is what is wrong. */
  readonly brokenEntry?: number;
}

/** SHA-256 over an entry and the hash of the entry before it. */
export function entryHash(entry: Omit<AuditEntry, 'hash'>, before: Buffer | null): Buffer {
  const { at, by, via, action, about, member, row, root } = entry;
  const facts = [entry.entry, at, by, via, action, about, member, row, root?.toString('hex') ?? null];
  const lines = ['tidemark.audit/1', before?.toString('hex') ?? '', JSON.stringify(facts)];
  return createHash('sha256').update(lines.join('\n')).digest();
}

/** True if an entry is as it was written, and follows the entry before it. */
export function isAsWritten(connection: Connection, entry: AuditEntry): boolean {
  const before = HASH_OF(connection).get({ entry: entry.entry - 1 });
  return entryHash(entry, before?.hash ?? null).equals(entry.hash);
}

/** An entry that is gone or altered. */
export interface BrokenEntry {
  /** Null if it is not known which. */
  readonly entry: number | null;
  /** To follow the name of the log: `was altered: entry 7 of the audit log is not as it was written`. */
  readonly text: string;
}

/** The oldest entry that is gone or altered; null if there is none. Reads the entire log. */
export function brokenEntry(connection: Connection): BrokenEntry | null {
  let before: AuditEntry | undefined;
  for (const entry of connection
    .prepare<[], AuditEntry>('SELECT * FROM audit_log ORDER BY entry')
    .iterate()) {
    const last = before?.entry ?? 0;
    if (entry.entry !== last + 1)
      return { entry: last + 1, text: `was cut: entry ${last + 1} of the audit log is gone` };
    if (!entryHash(entry, before?.hash ?? null).equals(entry.hash)) {
      const text = `was altered: entry ${entry.entry} of the audit log is not as it was written`;
      return { entry: entry.entry, text };
    }
    before = entry;
  }
  return null;
}

const HASH_OF = prepared((db) => {
  const { entry, hash } = auditLog;
  return db
    .select({ hash })
    .from(auditLog)
    .where(eq(entry, param('entry')));
});

/** An additional member of an acceptance's entry: what was accepted, which no table has. */
export const MEASURED = 'measured';

/** An additional member of an entry that withdraws an acceptance: why, if that was said. */
export const WITHDRAWAL_REASON = 'withdrawal_reason';

/** An entry's `row` with one more member. @param value JSON */
export function withMember(
  row: string,
  name: typeof MEASURED | typeof WITHDRAWAL_REASON,
  value: string,
): string {
  return `${row.slice(0, -1)},"${name}":${value}}`;
}

/** True if an entry recorded this row; what was measured follows the row's own values, whose order is fixed. */
function isRowOf(recorded: string, row: string): boolean {
  return recorded === row || recorded.startsWith(`${row.slice(0, -1)},"${MEASURED}":`);
}

/**
 * How a row contradicts its latest entry; null if it does not. Every check of a row against the log uses this.
 * @param row from `recordedRows`; undefined if it is gone
 */
export function contradictionOf(
  about: AuditedTable,
  member: string,
  row: string | undefined,
  latest: LatestEntry | undefined,
): Contradiction | null {
  const expected = latest === undefined || isEnding(latest) ? undefined : latest;
  if (expected === undefined ? row === undefined : row !== undefined && isRowOf(expected.row, row))
    return null;
  const named = namedRow(about, member);
  if (expected === undefined)
    return { ...named, what: 'was inserted by another program: the audit log has no entry of it' };
  if (row === undefined)
    return {
      ...named,
      what: `is gone, though entry ${expected.entry} of the audit log (${whoText(expected)}) has it`,
      ...againOf(about, member, expected),
    };
  return {
    ...named,
    what: `is not as it was ${doneText(about, row)}`,
    instead: `entry ${expected.entry} of the audit log (${expected.action} by ${whoText(expected)}) ${difference(row, expected.row)}`,
  };
}

/**
 * A row with an entry that is altered, or that cannot be checked: then the latest entry does not prove the row, or an earlier one not
 * who made it. Null if all entries are as they were written, back to the last one that ended an earlier row with this key.
 */
function entryContradiction(
  connection: Connection,
  about: AuditedTable,
  member: string,
): Contradiction | null {
  const entries = ENTRIES(connection).all({ about, member });
  for (const [place, written] of entries.entries()) {
    if (isAsWritten(connection, written)) {
      if (isEnding(written)) return null;
      continue;
    }
    const { entry } = written;
    const isFollowing = entry === 1 || HASH_OF(connection).get({ entry: entry - 1 }) !== undefined;
    const why = isFollowing ? 'is not as it was written' : `cannot be checked: entry ${entry - 1} is gone`;
    // The entries of a restore build on each other; for all other rows the latest entry has everything.
    const isOfRow = place === 0 || about === 'restores';
    const what = isOfRow
      ? `rests on entry ${entry} of the audit log, which ${why}`
      : `has an earlier entry in the audit log, entry ${entry}, which ${why}`;
    return { ...namedRow(about, member), what, brokenEntry: isFollowing ? entry : entry - 1 };
  }
  return null;
}

/** Newest first. */
const ENTRIES = prepared((db) => {
  const { entry, about, member } = auditLog;
  return db
    .select()
    .from(auditLog)
    .where(and(eq(about, param('about')), eq(member, param('member'))))
    .orderBy(desc(entry));
});

/** The command that pins a snapshot again. With the run: otherwise it would pin the latest one, and as the baseline hide later drift. */
function againOf(
  about: AuditedTable,
  member: string,
  { row }: Pick<AuditEntry, 'row'>,
): Pick<Contradiction, 'again'> {
  if (about !== 'snapshots') return {};
  const key = parsedJson(member);
  const { run, is_baseline } = (parsedJson(row) ?? {}) as Readonly<Record<string, unknown>>;
  // The hash shows that an unreadable entry is damaged.
  if (!Array.isArray(key) || typeof run !== 'number') return {};
  const option = is_baseline === 1 ? ' --baseline' : '';
  return { again: `tidemark snapshots pin ${shellWord(String(key[0]))} run:${run}${option}` };
}

/**
 * Throws for a row that another program altered or inserted: the next entry would record its content, and so hide the change. A row
 * that is gone may be written again.
 * @throws TidemarkError `mirror_corrupt`
 */
export function requireAsRecorded(connection: Connection, about: AuditedTable, key: RowKey): void {
  const { found, latest, member } = lookUp(connection, about, key);
  if (found === undefined) return;
  const altered = latest === undefined ? null : entryContradiction(connection, about, member);
  const contradiction = altered ?? contradictionOf(about, member, found.row, latest);
  if (contradiction === null) return;
  throw new AuditLogContradicted(lineOf(contradiction));
}

function lineOf(contradiction: Contradiction): string {
  const { name, recordKind } = contradiction;
  const kind = recordKind === undefined ? '' : ` (${recordKind})`;
  return `${name}${kind} ${saysOf(contradiction)}`;
}

/** What is wrong with a row, and what the log has instead, to follow its name. */
function saysOf({ what, instead }: Contradiction): string {
  return instead === undefined ? what : `${what}; ${instead}`;
}

/** A row that contradicts the log. */
export interface ContradictedRow extends Pick<Contradiction, 'again' | 'brokenEntry'> {
  readonly key: RowKey;
  /** What is wrong with it, in one line. */
  readonly line: string;
  /** The same, without its name. */
  readonly says: string;
  /** The row by its latest entry; null without one, and if that entry ended it. */
  readonly recorded: Readonly<Record<string, unknown>> | null;
  /** True if the log has it and the table does not. */
  readonly isGone: boolean;
}

/**
 * The rows whose key begins with `key` that are not as the log has them: altered, inserted, or gone. One statement: it finds the
 * latest entry of each row by its key, and the rows that are gone by the index of the keys of all entries.
 */
export function contradictedRows(
  connection: Connection,
  about: 'acceptances' | 'snapshots' | 'restores',
  key: RowKey = [],
): ContradictedRow[] {
  const isWhole = key.length === AUDITED[about].key.length;
  const member = JSON.stringify(key);
  const start = key.length === 0 ? '[' : `${member.slice(0, -1)},`;
  // The range of members that begin with the key, followed by a comma or a bracket.
  const [first, end] = isWhole ? [member, `${member} `] : [start, afterAll(start)];
  const rows = preparedText<(string | number)[], JoinedRow>(
    connection,
    `WITH found AS MATERIALIZED (${recordedSql(about, key.length)})
       SELECT found.member, found.row, log.entry, log.action, log."by", log.via, log."row" AS recorded
       FROM found LEFT JOIN audit_log log ON log.entry = (
         SELECT max(entry) FROM audit_log own WHERE own.about = '${about}' AND own.member = found.member)
       UNION ALL
       SELECT log.member, NULL, log.entry, log.action, log."by", log.via, log."row"
       FROM (SELECT max(entry) AS entry FROM audit_log WHERE about = '${about}' AND member >= ? AND member < ?
           AND member NOT IN (SELECT member FROM found) GROUP BY member) latest
         JOIN audit_log log ON log.entry = latest.entry
       WHERE log.action NOT IN (${[...ENDING].map((action) => `'${action}'`).join(', ')})`,
  ).all(...key, first, end);
  return rows.flatMap(({ member, row, entry, action, by, via, recorded }) => {
    const latest = entry === null ? undefined : ({ entry, action, by, via, row: recorded } as LatestEntry);
    const altered =
      row === null || latest === undefined ? null : entryContradiction(connection, about, member);
    const contradiction = altered ?? contradictionOf(about, member, row ?? undefined, latest);
    if (contradiction === null) return [];
    // An altered entry does not tell what was recorded.
    const isRecorded = altered === null && latest !== undefined && !isEnding(latest);
    return [
      {
        // `verify` reports a key that cannot be parsed.
        key: (parsedJson(member) ?? []) as RowKey,
        line: lineOf(contradiction),
        says: saysOf(contradiction),
        recorded: isRecorded ? ((parsedJson(latest.row) ?? {}) as Record<string, unknown>) : null,
        isGone: row === null,
        ...(contradiction.again === undefined ? {} : { again: contradiction.again }),
        ...(contradiction.brokenEntry === undefined ? {} : { brokenEntry: contradiction.brokenEntry }),
      },
    ];
  });
}

/** The smallest text that sorts after all texts with this prefix. */
function afterAll(start: string): string {
  return start.slice(0, -1) + String.fromCharCode(start.charCodeAt(start.length - 1) + 1);
}

/** What people recorded is not as the audit log has it; records and history may be intact. */
export class AuditLogContradicted extends TidemarkError {
  /** @param instead another remedy, for the beginning of the hint */
  constructor(message: string, instead: string | null = null) {
    const hint = instead === null ? KEPT_HINT : `${instead}; ${KEPT_HINT}`;
    super('mirror_corrupt', message, { hint, isOfAuditLog: true });
  }
}

const KEPT_HINT =
  'the row and the log stay as they are: keep a copy of the mirror as evidence, and restore a backup of before (`tidemark backup list`); `tidemark verify` names everything that is affected';

function lookUp(connection: Connection, about: AuditedTable, key: RowKey) {
  const [found] = recordedRows(connection, about, key);
  // For texts and whole numbers, JSON.stringify writes the same as SQLite.
  const member = found?.member ?? JSON.stringify(key);
  return { found, member, latest: ENTRIES(connection).get({ about, member }) };
}

/** A row that is gone although the log has it, by its latest entry; null for other rows. */
export function goneRow(connection: Connection, about: AuditedTable, key: RowKey): RecordedRow | null {
  const { found, latest, member } = lookUp(connection, about, key);
  if (found !== undefined || latest === undefined || isEnding(latest)) return null;
  return { member, row: latest.row };
}

/** The latest entry about a row, even if the row is gone; undefined without one. */
export function latestEntry(
  connection: Connection,
  about: AuditedTable,
  key: RowKey,
): AuditEntry | undefined {
  return lookUp(connection, about, key).latest;
}

/** True if a row is as the log last recorded it. */
export function isAsRecorded(connection: Connection, about: AuditedTable, key: RowKey): boolean {
  const { found, latest, member } = lookUp(connection, about, key);
  return (
    found !== undefined &&
    contradictionOf(about, member, found.row, latest) === null &&
    (latest === undefined || isAsWritten(connection, latest))
  );
}

/** The most characters of a value in a line. */
const MAX_VALUE = 120;

/** The values of an entry that the row does not have: `has reason "BQ retired", accepted_by "audrey"`. */
function difference(row: string, recorded: string): string {
  const [now, then] = [parsedJson(row), parsedJson(recorded)].map(
    (facts) => (facts ?? {}) as Record<string, unknown>,
  );
  const differing = Object.entries(then ?? {})
    .filter(([fact, value]) => fact !== MEASURED && now?.[fact] !== value)
    .map(([fact, value]) => {
      const text = JSON.stringify(value);
      return UNREADABLE[fact] ?? `${fact} ${text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text}`;
    });
  return differing.length === 0 ? 'has it otherwise' : `has ${differing.join(', ')}`;
}

/** Values that are recorded as hashes, or that tell a reader nothing. */
const UNREADABLE: Readonly<Partial<Record<string, string>>> = {
  plan: 'another plan',
  plan_hash: 'another hash of the plan',
  steps: 'other steps',
  fingerprint: 'another fingerprint',
};

function doneText(about: AuditedTable, row: string): string {
  if (about === 'acceptances') return 'accepted';
  if (about !== 'snapshots') return 'recorded';
  const { run } = (parsedJson(row) ?? {}) as { readonly run?: unknown };
  return `pinned (now at run ${typeof run === 'number' ? run : 'unknown'})`;
}

/** A row for people. The id is separate from the name, as it may be a secret; the code that shows it decides. */
interface NamedRow {
  readonly name: string;
  readonly recordKind?: Kind;
  readonly scope?: Scope;
  readonly id?: string;
}

function namedRow(about: AuditedTable, member: string): NamedRow {
  const key = parsedJson(member);
  const parts = Array.isArray(key)
    ? key.map((part) => (typeof part === 'string' ? part : JSON.stringify(part)))
    : [];
  if (about === 'snapshots') return { name: `snapshot ${JSON.stringify(parts[0] ?? '')}` };
  if (about !== 'acceptances') return { name: `${about.slice(0, -1)} ${parts[0] ?? ''}` };
  const [source = '', kind = '', scope = '', id = '', path = ''] = parts;
  const name = `the acceptance of ${path === '' ? 'an entire record' : path}${source === '' ? '' : ` of ${source}`}`;
  if (isKind(kind)) return { name, recordKind: kind, scope: parsedJson(scope) ?? {}, id };
  // Only its beginning, as the id of an invite is a secret.
  const shownId = id.length > 8 ? `${id.slice(0, 8)}…` : id;
  return { name: `${name} (unknown kind ${JSON.stringify(kind)}, id ${JSON.stringify(shownId)})` };
}

/** Undefined for a damaged text: its hash shows the damage. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
