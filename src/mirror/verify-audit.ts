/** The audit log against itself, against the runs, and against the rows that it recorded. */
import { isKind } from '../catalog/catalog.ts';
import {
  AUDITED_TABLES,
  type AuditedTable,
  type AuditEntry,
  entryHash,
  isEnding,
  recordedRows,
} from './audit-log.ts';
import type { Connection } from './database.ts';
import type { Findings, VerifyProblem } from './verify-records.ts';

/** Entries, or rows, per slice. */
const SLICE = 1000;

export function* verifyAudit(connection: Connection, findings: Findings): Generator<undefined> {
  const latest = yield* verifyEntries(connection, findings);
  for (const about of AUDITED_TABLES) {
    const expected = latest.get(about) ?? new Map<string, AuditEntry>();
    for (const [index, { member, row }] of recordedRows(connection, about).entries()) {
      const entry = expected.get(member);
      expected.delete(member);
      if (entry === undefined || isEnding(entry))
        add(findings, about, member, 'was inserted by another program: the audit log has no entry of it');
      else if (entry.row !== row) add(findings, about, member, `is not as it was ${doneText(about, row)}`);
      if (index % SLICE === SLICE - 1) yield undefined;
    }
    for (const [member, entry] of expected) {
      if (isEnding(entry)) continue;
      add(
        findings,
        about,
        member,
        `is gone, though entry ${entry.entry} of the audit log (${entry.by}) has it`,
      );
    }
    yield undefined;
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
  let before: AuditEntry | undefined;
  for (;;) {
    const entries = read.all(before?.entry ?? 0);
    for (const entry of entries) {
      const problem = (message: string): void => findings.add({ kind: 'chain', message });
      const next = (before?.entry ?? 0) + 1;
      const name = `entry ${entry.entry} of the audit log (${entry.action} by ${entry.by})`;
      if (entry.entry > next) {
        const gone = entry.entry - 1 === next ? `entry ${next}` : `entries ${next} to ${entry.entry - 1}`;
        problem(`${gone} of the audit log ${entry.entry - 1 === next ? 'is' : 'are'} gone`);
      } else if (!entryHash(entry, before?.hash ?? null).equals(entry.hash))
        problem(`${name} is not as it was written, or does not follow the entry before it`);
      else if (entry.isKnownRoot === 0) problem(`the run that ${name} followed is gone, or has another root`);
      latest.get(entry.about)?.set(entry.member, entry);
      before = entry;
    }
    if (entries.length < SLICE) return latest;
    yield undefined;
  }
}

function doneText(about: AuditedTable, row: string): string {
  if (about === 'acceptances') return 'accepted';
  if (about !== 'snapshots') return 'recorded';
  const { run = 'unknown' } = (parsed(row) ?? {}) as { readonly run?: number };
  return `pinned (now at run ${run})`;
}

function add(findings: Findings, about: AuditedTable, member: string, what: string): void {
  const { name, ...place } = named(about, member);
  findings.add({ kind: 'chain', message: `${name} ${what}`, ...place, about });
}

/** The id apart from the name: it may be a secret, which only the code that shows it knows. */
function named(
  about: AuditedTable,
  member: string,
): Pick<VerifyProblem, 'recordKind' | 'scope' | 'id'> & { readonly name: string } {
  const key = parsed(member);
  const parts = Array.isArray(key) ? key.map(String) : [];
  if (about === 'snapshots') return { name: `snapshot ${JSON.stringify(parts[0] ?? '')}` };
  if (about !== 'acceptances') return { name: `${about.slice(0, -1)} ${parts[0] ?? ''}` };
  const [source = '', kind = '', scope = '', id = '', path = ''] = parts;
  const name = `the acceptance of ${path === '' ? 'an entire record' : path}${source === '' ? '' : ` of ${source}`}`;
  return isKind(kind) ? { name, recordKind: kind, scope: parsed(scope) ?? {}, id } : { name };
}

/** Undefined where it was damaged: the hash shows that. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // What cannot be parsed has no name; that it was altered is reported by its hash.
    return undefined;
  }
}
