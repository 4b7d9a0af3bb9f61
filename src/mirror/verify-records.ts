/** The records and revisions of one collection against their hashes; and what the parts of a verification report to. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import type { AuditedTable } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { scanBody, volatileMark } from './classify-record.ts';
import { bodyNames } from './view-columns.ts';
import { hasItsHash } from './intact.ts';
import { type LatestRevision, type StoredRevision, textsOf } from './history.ts';
import { prepared } from './query.ts';
import type { CollectionRow } from './run-rows.ts';
import type { SealingRule } from './run-seals.ts';
import { textOf } from './stored-names.ts';

export interface VerifyProblem {
  readonly kind:
    | 'body' // a current record is not what was sealed
    | 'revision' // history is not what was sealed
    | 'chain' // the seal of a run, a pin, an acceptance or a run's row does not hold
    | 'schema' // a table or view is not as it should be
    | 'index'; // SQLite finds the file damaged, or a count is wrong
  readonly message: string;
  readonly recordKind?: Kind;
  readonly scope?: Scope;
  readonly id?: string;
  /** Of the record, as it is stored now. */
  readonly name?: string;
  readonly run?: number;
  /** The table of what a person did that the audit log recorded; left out for what the service showed. */
  readonly about?: AuditedTable;
  /** What the audit log has instead of a row that was altered. */
  readonly instead?: string;
  /** The command that pins a snapshot that is gone again, as the audit log has it. */
  readonly again?: string;
  /** What ends it without a backup: only the schema was changed. */
  readonly remedy?: string;
}

/** True if problems were found, and all of them end without a backup: what is stored matches its hashes. */
export function isOfSchemaOnly(problems: readonly Pick<VerifyProblem, 'remedy'>[]): boolean {
  return problems.length > 0 && problems.every(({ remedy }) => remedy !== undefined);
}

/** True if problems were found, and all of them are of what people recorded: records and history are intact. */
export function isOfAuditLog(problems: readonly Pick<VerifyProblem, 'about'>[]): boolean {
  return problems.length > 0 && problems.every(({ about }) => about !== undefined);
}

/** Something that explains what a verification finds, and is not a fault. */
export interface VerifyNote {
  readonly message: string;
  /** The latest sealed run of that time. */
  readonly run: number;
  readonly at: string;
}

/** What the parts of a verification report to. */
export interface Findings {
  readonly checked: { records: number; revisions: number; runs: number };
  add(problem: VerifyProblem): void;
  note(note: VerifyNote): void;
}

/** Records per slice: a few milliseconds. With more, their texts outlive the young generation, and the heap grows by 15 MB. */
const SLICE = 200;
/** Records without a row that are reported at most. */
const MOST_GONE = 1000;

interface CheckedRow extends LatestRevision {
  readonly volatile: number | null;
  readonly lastName: string | null;
  readonly isReadable: number;
}

const RECORDS = prepared(({ $client }) =>
  $client.prepare<[number, string], CheckedRow>(
    `SELECT record, collection, remote_id AS id, run, change, ordinal, previous, hash, volatile, body, last_name AS lastName,
       json_valid(body) IS NOT 0 AS isReadable FROM records
     WHERE collection = ? AND remote_id > ? ORDER BY remote_id LIMIT ${SLICE}`,
  ),
);

const GONE = prepared(({ $client }) =>
  $client.prepare<[number], { record: number; run: number }>(
    `SELECT v.record AS record, max(v.run) AS run FROM revisions v
     WHERE v.collection = ? AND NOT EXISTS (SELECT 1 FROM records r WHERE r.record = v.record AND r.collection = v.collection)
     GROUP BY v.record LIMIT ${MOST_GONE}`,
  ),
);

/** `see` is shown every current body. */
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
      const report: Report = (problem) => {
        const name = row.body === null ? row.lastName : nameIn(recordKind, row.body);
        findings.add({
          ...problem,
          recordKind,
          scope,
          id: textOf(row.id),
          ...(name === null ? {} : { name }),
        });
      };
      if (typeof row.id !== 'string')
        report({ kind: 'index', message: 'the id of the record is not stored as text', run: row.run });
      if (row.id === before) report({ kind: 'index', message: 'the record is stored twice', run: row.run });
      before = row.id;
      if (row.body === null) {
        if (row.volatile !== null)
          report({
            kind: 'body',
            message: 'a checksum of volatile fields is stored of a removed record',
            run: row.run,
          });
      } else {
        see(row.body);
        count += 1;
        checkBody(row, row.body, rules, report);
      }
      try {
        const last = checkHistory(connection, row, rules, findings, report);
        const isRemoved = row.body === null && last !== null;
        if (row.lastName !== (isRemoved ? nameIn(recordKind, last) : null))
          report({
            kind: 'revision',
            message: isRemoved
              ? 'the name stored of the removed record is not the one in its last version'
              : 'a name is stored as that of a removed record, and the record was not removed',
            run: row.run,
          });
      } catch (error) {
        if (!(error instanceof TidemarkError)) throw error;
        report({ kind: 'revision', message: error.message, run: row.run });
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

/** Records that have left revisions and nothing else. */
function reportGone(connection: Connection, { id, kind, scope }: CollectionRow, findings: Findings): void {
  for (const { record, run } of GONE(connection).all(id)) {
    const message = `record ${record} is gone, though its versions are stored`;
    findings.add({ kind: 'revision', message, recordKind: kind, scope, run });
  }
}

type Report = (problem: Pick<VerifyProblem, 'kind' | 'message' | 'run'>) => void;

function checkBody(row: CheckedRow, body: string, rules: readonly SealingRule[], report: Report): void {
  const { run } = row;
  if (row.isReadable !== 1) {
    report({
      kind: 'body',
      message: 'the stored content is not JSON that SQLite can read',
      run,
    });
  }
  // The mark follows the rule of the run that stored the text last, which may be a later one than the revision's.
  if (!rules.some((rule) => markUnder(body, rule) === row.volatile)) {
    report({ kind: 'body', message: 'the volatile fields do not match their checksum', run });
  }
}

function markUnder(body: string, rule: SealingRule): number | null {
  return volatileMark(scanBody(body, rule.volatileFields).volatileText);
}

/**
 * The newest revision is the row's, links lead back one by one to the first, and every text has its hash. Returns the newest
 * text; null if there is none.
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
    if (expected !== null && ordinal !== expected) {
      report({
        kind: 'revision',
        message: `revision ${ordinal} was found where ${expected} was expected`,
        run,
      });
    }
    // Another program may have stored a text.
    expected = Number.isSafeInteger(ordinal) ? ordinal - 1 : null;
    const isNewest = run === row.run;
    if (isNewest && (revision.change === 'removed') !== (row.body === null)) {
      report({
        kind: 'revision',
        message:
          row.body === null
            ? 'the content of the record is gone, though no revision removed it'
            : 'the record is stored, though its newest revision removed it',
        run,
      });
    }
    if (text !== null) checkText(revision, text, isNewest, rules, report);
  }
  if (expected !== 0) report({ kind: 'revision', message: 'the first revision is missing', run: row.run });
  return newest;
}

function checkText(
  revision: StoredRevision,
  text: string,
  isCurrent: boolean,
  rules: readonly SealingRule[],
  report: Report,
): void {
  if (hasItsHash(text, revision, rules)) return;
  report({
    kind: isCurrent ? 'body' : 'revision',
    message: isCurrent
      ? 'the stored content does not match its hash'
      : 'an earlier version does not match its hash',
    run: revision.run,
  });
}
