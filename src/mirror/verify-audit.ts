/** Verifies the audit log: its chain, against the runs, and against the rows that it recorded. */
import { whoText } from '../core/actor.ts';
import { plural } from '../core/wording.ts';
import type { AuditAction } from './audit-actions.ts';
import type { RecordedRemovals } from './audit-log.ts';
import {
  AUDITED_TABLES,
  type AuditedTable,
  type AuditEntry,
  type Contradiction,
  contradictionOf,
  entryHash,
  isEnding,
  parsedJson,
  recordedRows,
  WITHDRAWAL_REASON,
} from './audited-rows.ts';
import type { Connection } from './database.ts';
import { inJson } from './query.ts';
import { lastMove } from './verify-chain.ts';
import type { Findings } from './verify-records.ts';

/** Entries, or rows, per slice. */
const SLICE = 1000;

export function* verifyAudit(connection: Connection, findings: Findings): Generator<undefined> {
  const latest = yield* verifyEntries(connection, findings);
  for (const about of AUDITED_TABLES) {
    const expected = latest.get(about) ?? new Map<string, AuditEntry>();
    for (const [index, { member, row }] of recordedRows(connection, about).entries()) {
      const entry = expected.get(member);
      expected.delete(member);
      add(findings, about, contradictionOf(about, member, row, entry));
      if (index % SLICE === SLICE - 1) yield undefined;
    }
    for (const [member, entry] of expected)
      add(findings, about, contradictionOf(about, member, undefined, entry));
    yield undefined;
  }
  verifyJournals(connection, findings);
}

/** Rows of the journal whose restore is neither in the mirror nor in the log: they were inserted, or all else was deleted. */
function verifyJournals(connection: Connection, findings: Findings): void {
  const inserted = connection
    .prepare<[], { restore: number; rows: number }>(
      `SELECT restore, count(*) AS rows FROM restore_steps s
       WHERE NOT EXISTS (SELECT 1 FROM restores r WHERE r.restore = s.restore)
         AND NOT EXISTS (SELECT 1 FROM audit_log a WHERE a.about = 'restores' AND a.member = json_array(${inJson('s.restore')}))
       GROUP BY restore`,
    )
    .all();
  for (const { restore, rows } of inserted) {
    const message = `${plural(rows, 'row')} of the journal ${rows === 1 ? 'is' : 'are'} of restore ${restore}, which is neither in the mirror nor in the audit log`;
    findings.add({ kind: 'chain', message, about: 'restores' });
  }
}

/** Checks the chain of entries; returns the latest entry of each row, by table and member. */
function* verifyEntries(
  connection: Connection,
  findings: Findings,
): Generator<undefined, Map<AuditEntry['about'], Map<string, AuditEntry>>> {
  const latest = new Map<AuditEntry['about'], Map<string, AuditEntry>>(
    AUDITED_TABLES.map((about) => [about, new Map()]),
  );
  const read = connection.prepare<[number], AuditEntry & { readonly isKnownRoot: number }>(
    `SELECT a.*, a.root IS NULL OR EXISTS (SELECT 1 FROM runs r WHERE r.root = a.root)
       OR EXISTS (SELECT 1 FROM replaced_roots p WHERE p.root = a.root) AS isKnownRoot
     FROM audit_log a WHERE a.entry > ? ORDER BY a.entry LIMIT ${SLICE}`,
  );
  const moved = lastMove(connection);
  let before: AuditEntry | undefined;
  let hasGap = false;
  for (;;) {
    const entries = read.all(before?.entry ?? 0);
    for (const entry of entries) {
      const problem = (message: string): void => findings.add({ kind: 'chain', message });
      const next = (before?.entry ?? 0) + 1;
      const name = `entry ${entry.entry} of the audit log (${entry.action} by ${whoText(entry)})`;
      if (entry.entry > next) {
        const gone = entry.entry - 1 === next ? `entry ${next}` : `entries ${next} to ${entry.entry - 1}`;
        hasGap = true;
        problem(`${gone} of the audit log ${entry.entry - 1 === next ? 'is' : 'are'} gone`);
      } else if (!entryHash(entry, before?.hash ?? null).equals(entry.hash))
        problem(`${name} is not as it was written, or does not follow the entry before it`);
      else if (entry.isKnownRoot === 0)
        problem(`the run that ${name} followed is gone, or has another root hash`);
      const known = latest.get(entry.about);
      // A move puts the logs of several files together, in which a name may stand for different snapshots.
      if (!hasGap && (entry.about !== 'snapshots' || entry.entry > moved)) {
        const said = disagreement(entry, known?.get(entry.member));
        if (said !== null) findings.add({ kind: 'chain', message: `${name} ${said}`, ...aboutOf(entry) });
      }
      known?.set(entry.member, entry);
      if (entry.about === 'removals')
        for (const said of unlikeTheRun(connection, entry)) problem(`${name} ${said}`);
      before = entry;
    }
    if (entries.length < SLICE) return latest;
    yield undefined;
  }
}

interface RemovedIn {
  readonly source: string;
  readonly lastEntry: number | null;
  /** How many records of a collection it removed, by kind and scope. */
  readonly removed: (kind: string, scope: string) => number;
}

function removedIn(connection: Connection, run: number): RemovedIn | undefined {
  const row = connection
    .prepare<[number], Omit<RemovedIn, 'removed'>>(
      `SELECT s.name AS source, r.last_entry AS lastEntry FROM runs r JOIN sources s ON s.id = r.source WHERE r.run = ?`,
    )
    .get(run);
  const removed = connection
    .prepare<[number, string, string], number>(
      `SELECT w.removed FROM sweeps w JOIN collections c ON c.id = w.collection WHERE w.run = ? AND c.kind = ? AND c.scope = ?`,
    )
    .pluck();
  return row === undefined
    ? undefined
    : { ...row, removed: (kind, scope) => removed.get(run, kind, scope) ?? 0 };
}

/** How an entry about accepted removals contradicts the run that carried them out. */
function unlikeTheRun(connection: Connection, { entry, member, row }: AuditEntry): string[] {
  const key = parsedJson(member);
  const run: unknown = Array.isArray(key) ? key[0] : undefined;
  const said = parsedJson(row) as Partial<RecordedRemovals> | null | undefined;
  // Its hash shows that an entry that cannot be read is damaged.
  if (typeof run !== 'number' || !Array.isArray(said?.collections)) return [];
  const collections = said.collections as RecordedRemovals['collections'];
  const found = removedIn(connection, run);
  if (found === undefined) {
    const wasForgotten = connection
      .prepare<[number], number>('SELECT 1 FROM replaced_roots WHERE run = ? LIMIT 1')
      .get(run);
    return wasForgotten === undefined ? [`is of run ${run}, which is not there`] : [];
  }
  if (found.lastEntry !== entry || found.source !== said.source)
    return [`is of run ${run}, in which no removals were accepted`];
  return collections.flatMap(({ kind, scope, removed }) => {
    const really = found.removed(kind, scope);
    return really === removed ? [] : [`says that run ${run} removed ${removed} ${kind}, not ${really}`];
  });
}

/** Facts in which an entry may differ from the previous one about the same row; for actions that are not here, in all. */
const PROGRESS = ['finished_at', 'outcome', 'steps'];
const MAY_CHANGE: Readonly<Partial<Record<AuditAction, readonly string[]>>> = {
  unaccept: [WITHDRAWAL_REASON],
  unpin: [],
  baseline: ['is_baseline'],
  not_baseline: ['is_baseline'],
  resume: PROGRESS,
  end: PROGRESS,
  abandon: PROGRESS,
  look_up: PROGRESS,
};

/** How an entry contradicts the previous one about the same row; null if it does not. */
function disagreement(entry: AuditEntry, earlier: AuditEntry | undefined): string | null {
  const free = MAY_CHANGE[entry.action];
  if (free === undefined) return null;
  if (earlier === undefined || isEnding(earlier))
    return 'is of a row of which no entry before it says that it was there';
  const [then, now] = [factsOf(earlier), factsOf(entry)];
  const other = [...new Set([...Object.keys(then), ...Object.keys(now)])].filter(
    (fact) => !free.includes(fact) && JSON.stringify(then[fact]) !== JSON.stringify(now[fact]),
  );
  if (other.length === 0) return null;
  return `contradicts entry ${earlier.entry} (${earlier.action} by ${whoText(earlier)}): ${other.join(', ')}`;
}

/** Empty for a damaged entry: its hash shows that. */
function factsOf({ row }: AuditEntry): Readonly<Record<string, unknown>> {
  return (parsedJson(row) ?? {}) as Readonly<Record<string, unknown>>;
}

function aboutOf({ about }: AuditEntry): { readonly about?: AuditedTable } {
  return about === 'backups' || about === 'removals' ? {} : { about };
}

function add(findings: Findings, about: AuditedTable, found: Contradiction | null): void {
  if (found === null) return;
  const { name, what, ...place } = found;
  findings.add({ kind: 'chain', message: `${name} ${what}`, ...place, about });
}
