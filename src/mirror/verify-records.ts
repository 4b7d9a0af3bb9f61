/** The records and revisions of one collection against their hashes. */
import { TidemarkError } from '../core/errors.ts';
import type { Connection } from './database.ts';
import { hashStart, scanBody, stableHash, volatileMark } from './classify-record.ts';
import { type HistoryReader, type StoredRevision, prepareHistory } from './history.ts';
import type { CollectionRow } from './run-rows.ts';
import { type SealingRule, ruleAt } from './sealing.ts';
import type { Findings, VerifyProblem } from './verify-findings.ts';

/** Records per slice: some 10 ms. */
const SLICE = 1000;

interface CheckedRow {
  record: number;
  collection: number;
  id: string;
  run: number;
  hashStart: Buffer | null;
  volatile: number | null;
  body: string | null;
  isReadable: number;
}

/** `see` is shown every current body. */
export function* verifyCollection(
  connection: Connection,
  collection: CollectionRow,
  { rules, see }: { readonly rules: readonly SealingRule[]; readonly see: (body: string) => void },
  findings: Findings,
): Generator<undefined> {
  const check = prepareCheck(connection, collection, rules, findings);
  const current = connection.prepare<[number, number], CheckedRow>(
    `SELECT t._record AS record, t._collection AS collection, t._remote_id AS id, t._run AS run, t.body AS body,
       k.hash_start AS hashStart, k.volatile AS volatile, json_valid(t.body) AS isReadable FROM "${collection.kind}" t
     LEFT JOIN record_keys k ON k.collection = t._collection AND k.remote_id = t._remote_id AND k.record = t._record
     WHERE t._collection = ? AND t._record > ? ORDER BY t._record LIMIT ${SLICE}`,
  );
  let count = 0;
  for (const slice of slices(current, collection.id)) {
    for (const row of slice) {
      check(row);
      if (row.body !== null) see(row.body);
    }
    count += slice.length;
    findings.checked.records += slice.length;
    yield undefined;
  }
  const keys = connection
    .prepare<[number], number>(`SELECT count(*) FROM record_keys WHERE collection = ?`)
    .pluck()
    .get(collection.id);
  if (count !== collection.records || keys !== count) {
    findings.add({
      kind: 'index',
      message: `${collection.kind} holds ${count} records and ${keys ?? 0} keys where ${collection.records} are counted`,
      recordKind: collection.kind,
      scope: collection.scope,
    });
  }
  if (keys !== count) reportGone(connection, collection, findings);
  const removed = connection.prepare<[number, number], CheckedRow>(
    `SELECT record, collection, remote_id AS id, run, NULL AS body, NULL AS hashStart, NULL AS volatile, 1 AS isReadable
     FROM removed WHERE collection = ? AND record > ? ORDER BY record LIMIT ${SLICE}`,
  );
  for (const slice of slices(removed, collection.id)) {
    for (const row of slice) check(row);
    yield undefined;
  }
}

/** Records whose row is missing, named by their keys. */
function reportGone(connection: Connection, { id, kind, scope }: CollectionRow, findings: Findings): void {
  const gone = connection
    .prepare<[number], { id: string }>(
      `SELECT k.remote_id AS id FROM record_keys k WHERE k.collection = ?
         AND NOT EXISTS (SELECT 1 FROM "${kind}" t WHERE t._record = k.record AND t._collection = k.collection)
       ORDER BY k.record LIMIT ${SLICE}`,
    )
    .all(id);
  for (const record of gone)
    findings.add({ kind: 'body', message: 'its row is gone', recordKind: kind, scope, id: record.id });
}

function* slices(
  statement: { all(collection: number, after: number): CheckedRow[] },
  collection: number,
): Generator<CheckedRow[]> {
  let after = -1;
  for (;;) {
    const rows = statement.all(collection, after);
    const last = rows.at(-1);
    if (last === undefined) return;
    yield rows;
    after = last.record;
  }
}

function prepareCheck(
  connection: Connection,
  collection: CollectionRow,
  rules: readonly SealingRule[],
  findings: Findings,
): (row: CheckedRow) => void {
  const history = prepareHistory(connection);
  return (row) => {
    const report = (problem: Pick<VerifyProblem, 'kind' | 'message' | 'run'>): void => {
      findings.add({ ...problem, recordKind: collection.kind, scope: collection.scope, id: row.id });
    };
    if (row.body !== null) checkBody(row, row.body, rules, report);
    try {
      checkHistory(history, row, rules, findings, report);
    } catch (error) {
      if (!(error instanceof TidemarkError)) throw error;
      report({ kind: 'revision', message: error.message, run: row.run });
    }
  };
}

type Report = (problem: Pick<VerifyProblem, 'kind' | 'message' | 'run'>) => void;

function checkBody(row: CheckedRow, body: string, rules: readonly SealingRule[], report: Report): void {
  const { run } = row;
  if (row.isReadable !== 1) {
    report({
      kind: 'body',
      message: 'its columns cannot be read: the body is not JSON that SQLite takes',
      run,
    });
  }
  const found = hashUnder(body, rules, run);
  if (row.hashStart === null || found === undefined || !hashStart(found).equals(row.hashStart)) {
    report({ kind: 'body', message: 'the body does not match the hash in its key', run });
    return;
  }
  // The mark follows the rule of the run that stored the text last, which may be a later one than the revision's.
  if (!rules.some((rule) => markUnder(body, rule) === row.volatile)) {
    report({ kind: 'body', message: 'the volatile members do not match their mark', run });
  }
}

function markUnder(body: string, rule: SealingRule): number | null {
  return volatileMark(scanBody(body, rule.volatileFields).volatileText);
}

function hashUnder(text: string, rules: readonly SealingRule[], run: number): Buffer | undefined {
  const rule = ruleAt(rules, run);
  if (rule === undefined) return undefined;
  try {
    return stableHash(scanBody(text, rule.volatileFields));
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The newest revision is the row's, links lead back one by one to the first, and every text has its hash. */
function checkHistory(
  history: HistoryReader,
  row: CheckedRow,
  rules: readonly SealingRule[],
  findings: Findings,
  report: Report,
): void {
  let expected: number | null = null;
  for (const { revision, text } of history.texts(row)) {
    findings.checked.revisions += 1;
    const { run, ordinal } = revision;
    if (expected !== null && ordinal !== expected) {
      report({
        kind: 'revision',
        message: `revision ${ordinal} was found where ${expected} was expected`,
        run,
      });
    }
    expected = ordinal - 1;
    const isNewest = run === row.run;
    if (isNewest && (revision.change === 'removed') !== (row.body === null)) {
      report({ kind: 'revision', message: 'the newest revision contradicts the record', run });
    }
    if (text !== null) checkText(revision, text, isNewest, rules, report);
  }
  if (expected !== 0) report({ kind: 'revision', message: 'the first revision is missing', run: row.run });
}

function checkText(
  revision: StoredRevision,
  text: string,
  isCurrent: boolean,
  rules: readonly SealingRule[],
  report: Report,
): void {
  const found = hashUnder(text, rules, revision.run);
  if (revision.hash !== null && found?.equals(revision.hash) === true) return;
  report({
    kind: isCurrent ? 'body' : 'revision',
    message: isCurrent ? 'the body does not match its hash' : 'an earlier body does not match its hash',
    run: revision.run,
  });
}
