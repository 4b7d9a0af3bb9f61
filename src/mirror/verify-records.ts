/** Verifies the records and revisions of one collection against their hashes. Also the findings to which all parts of a verification report. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { AuditedTable } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { scanBody, volatileMark } from './classify-record.ts';
import { bodyNames } from './view-columns.ts';
import { hasItsHash } from './intact.ts';
import { type LatestRevision, textsOf } from './history.ts';
import { perConnection } from './query.ts';
import type { CollectionRow } from './run-rows.ts';
import type { SealingRule } from './run-seals.ts';
import { textOf } from './stored-names.ts';

export interface VerifyProblem {
  readonly kind:
    | 'body' // a current record is not as it was sealed
    | 'revision' // history is not as it was sealed
    | 'chain' // the seal of a run, a pin, an acceptance or a run's row is wrong
    | 'schema' // a table or view is not as it should be
    | 'index'; // SQLite finds the file damaged, or a count is wrong
  readonly message: string;
  readonly recordKind?: Kind;
  readonly scope?: Scope;
  readonly id?: string;
  /** The record's name, as it is stored now. */
  readonly name?: string;
  readonly run?: number;
  /** The table, if a person's action that the audit log recorded is affected. */
  readonly about?: AuditedTable;
  /** What the audit log has instead of a row that was altered. */
  readonly instead?: string;
  /** The command that pins a snapshot that is gone again, as the audit log has it. */
  readonly again?: string;
  /** How to repair it without a backup: only the schema was changed. */
  readonly remedy?: string;
}

/** True if there are problems, and all of them can be repaired without a backup: the stored content matches its hashes. */
export function isOfSchemaOnly(problems: readonly Pick<VerifyProblem, 'remedy'>[]): boolean {
  return problems.length > 0 && problems.every(({ remedy }) => remedy !== undefined);
}

/** True if there are problems, and all of them affect what people recorded: records and history are intact. */
export function isOfAuditLog(problems: readonly Pick<VerifyProblem, 'about'>[]): boolean {
  return problems.length > 0 && problems.every(({ about }) => about !== undefined);
}

/** An explanation of what a verification finds; not a problem. */
export interface VerifyNote {
  readonly message: string;
  /** The latest sealed run at that time. */
  readonly run: number;
  readonly at: string;
}

/** Collects what the parts of a verification find. */
export interface Findings {
  readonly checked: { records: number; revisions: number; runs: number };
  add(problem: VerifyProblem): void;
  note(note: VerifyNote): void;
}

/** Records per slice: a few milliseconds of work. With more, their texts outlive the young generation, and the heap grows by 15 MB. */
const SLICE = 200;
/** The most records without a row that are reported. */
const MOST_GONE = 1000;

interface CheckedRow extends LatestRevision {
  readonly volatile: number | null;
  readonly lastName: string | null;
  readonly isReadable: number;
}

const RECORDS = perConnection((connection) =>
  connection.prepare<[number, string], CheckedRow>(
    `SELECT record, collection, remote_id AS id, run, change, ordinal, previous, hash, volatile, body, last_name AS lastName,
       json_valid(body) IS NOT 0 AS isReadable FROM records
     WHERE collection = ? AND remote_id > ? ORDER BY remote_id LIMIT ${SLICE}`,
  ),
);

const GONE = perConnection((connection) =>
  connection.prepare<[number], { record: number; run: number }>(
    `SELECT v.record AS record, max(v.run) AS run FROM revisions v
     WHERE v.collection = ? AND NOT EXISTS (SELECT 1 FROM records r WHERE r.record = v.record AND r.collection = v.collection)
     GROUP BY v.record LIMIT ${MOST_GONE}`,
  ),
);

/** Checks all records of a collection, one slice per step. @param see called with each current body */
export function* verifyCollection(
  connection: Connection,
  collection: CollectionRow,
  { rules, see }: { readonly rules: readonly SealingRule[]; readonly see: (body: string) => void },
  findings: Findings,
): Generator<undefined> {
  const { kind: recordKind, scope } = collection;
  const nameIn = bodyNames(connection);
  let count = 0;
  let before: string | undefined;
  for (;;) {
    const rows = RECORDS(connection).all(collection.id, before ?? '');
    for (const row of rows) {
      const report: Report = (kind, message, run = row.run) => {
        const name = row.body === null ? row.lastName : nameIn(recordKind, row.body);
        const place = { recordKind, scope, id: textOf(row.id), ...(name === null ? {} : { name }) };
        findings.add({ kind, message, run, ...place });
      };
      if (typeof row.id !== 'string') report('index', 'the id of the record is not stored as text');
      if (row.id === before) report('index', 'the record is stored twice');
      before = row.id;
      if (row.body === null) {
        if (row.volatile !== null)
          report('body', 'a checksum of volatile fields is stored of a removed record');
      } else {
        see(row.body);
        count += 1;
        checkBody(row, row.body, rules, report);
      }
      try {
        const last = checkHistory(connection, row, rules, findings, report);
        const isRemoved = row.body === null && last !== null;
        if (row.lastName !== (isRemoved ? nameIn(recordKind, last) : null))
          report(
            'revision',
            isRemoved
              ? 'the name stored of the removed record is not the one in its last version'
              : 'a name is stored as that of a removed record, and the record was not removed',
          );
      } catch (error) {
        if (!(error instanceof TidemarkError)) throw error;
        report('revision', error.message);
      }
    }
    findings.checked.records = findings.checked.records + rows.filter(({ body }) => body !== null).length;
    yield undefined;
    if (rows.length < SLICE) break;
  }
  if (count !== collection.records) {
    findings.add({
      kind: 'index',
      message: `${plural(count, 'record')} of ${recordKind} stored, but the stored count is ${collection.records}`,
      recordKind,
      scope,
    });
  }
  reportGone(connection, collection, findings);
}

/** Reports records that left only revisions. */
function reportGone(connection: Connection, { id, kind, scope }: CollectionRow, findings: Findings): void {
  for (const { record, run } of GONE(connection).all(id)) {
    const message = `record ${record} is gone, though its versions are stored`;
    findings.add({ kind: 'revision', message, recordKind: kind, scope, run });
  }
}

/** Reports a problem of a record. @param run by default that of its newest revision */
type Report = (kind: VerifyProblem['kind'], message: string, run?: number) => void;

function checkBody(row: CheckedRow, body: string, rules: readonly SealingRule[], report: Report): void {
  if (row.isReadable !== 1) report('body', 'the stored content is not JSON that SQLite can read');
  // By any rule: the run that last stored the text may be a later one than the revision's, under another rule.
  const markUnder = ({ volatileFields }: SealingRule): number | null =>
    volatileMark(scanBody(body, volatileFields).volatileText);
  if (!rules.some((rule) => markUnder(rule) === row.volatile))
    report('body', 'the volatile fields do not match their checksum');
}

/**
 * Checks that the newest revision is the row's, that links lead back one by one to the first, and that each text has its hash. Returns
 * the newest text; null if there is none.
 */
function checkHistory(
  connection: Connection,
  row: CheckedRow,
  rules: readonly SealingRule[],
  findings: Findings,
  report: Report,
): string | null {
  let expected: number | null = null;
  let newest: string | null = null;
  for (const { revision, text } of textsOf(connection, row)) {
    newest ??= text;
    findings.checked.revisions += 1;
    const { run, ordinal } = revision;
    if (expected !== null && ordinal !== expected)
      report('revision', `revision ${ordinal} was found where ${expected} was expected`, run);
    // Another program may have stored a text.
    expected = Number.isSafeInteger(ordinal) ? ordinal - 1 : null;
    const isNewest = run === row.run;
    if (isNewest && (revision.change === 'removed') !== (row.body === null))
      report(
        'revision',
        row.body === null
          ? 'the content of the record is gone, though no revision removed it'
          : 'the record is stored, though its newest revision removed it',
      );
    if (text === null || hasItsHash(text, revision, rules)) continue;
    if (isNewest) report('body', 'the stored content does not match its hash');
    else report('revision', 'an earlier version does not match its hash', run);
  }
  if (expected !== 0) report('revision', 'the first revision is missing');
  return newest;
}
