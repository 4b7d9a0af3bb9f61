/**
 * Verifies the mirror: the structure of the file, the schema, each body against its hash, each revision, and the chain of seals from
 * the first run to the last. Reads one snapshot and changes nothing. SQL as text, as in the other files of the verification, so that
 * rows are read as they are stored, without the decoders of the schema.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import {
  type Connection,
  isOfWrongType,
  exhaustedIdsText,
  sqliteCode,
  valuesOfWrongType,
} from './database.ts';
import type { ShapeCounts } from './field-shapes-store.ts';
import { openKindShapes, parsed, readShapes } from './field-shapes-store.ts';
import { type JsonType, type KindShapes, JSON_TYPES, UNWATCHED } from './field-shapes.ts';
import { isNameOfKindView, kindViewProblems } from './kind-views.ts';
import { addedByOthers, alteredObjects } from './migrations.ts';
import {
  type SealedRow,
  type SealedSet,
  combined,
  EMPTY_SET,
  rowSeal,
  SEALED_SETS,
  goneText,
  sealedRowsSql,
  setContribution,
} from './row-seals.ts';
import { type CollectionRow, readCollections } from './run-rows.ts';
import { type SealingRule, readRules } from './run-seals.ts';
import { isRestorable, shadowAlteredViews } from './schema-check.ts';
import { verifyAudit } from './verify-audit.ts';
import { verifyChain } from './verify-chain.ts';
import { verifyNewIds } from './verify-new-ids.ts';
import type { Findings, VerifyNote, VerifyProblem } from './verify-records.ts';
import { verifyCollection } from './verify-records.ts';

export interface VerifyResult {
  readonly checked: { readonly records: number; readonly revisions: number; readonly runs: number };
  readonly problems: readonly VerifyProblem[];
  /** What retention dropped, oldest first. */
  readonly notes: readonly VerifyNote[];
}

export interface VerifyProgress {
  readonly records: number;
  /** Records in the mirror, by its counts. */
  readonly of: number;
}

/** The most problems that are listed: a damaged mirror could have one for each record. */
const MAX_PROBLEMS = 1000;

/** Verifies in a transaction of the connection, which the caller ends afterwards. */
export async function verifySnapshot(
  connection: Connection,
  onProgress: (progress: VerifyProgress) => void,
): Promise<VerifyResult> {
  const problems: VerifyProblem[] = [];
  const notes: VerifyNote[] = [];
  const findings: Findings = {
    checked: { records: 0, revisions: 0, runs: 0 },
    add: (problem) => {
      if (problems.length < MAX_PROBLEMS) problems.push(problem);
    },
    note: (note) => {
      notes.push(note);
    },
  };
  connection.exec('BEGIN');
  shadowAlteredViews(connection);
  const wrongTypes = valuesOfWrongType(connection);
  for (const message of wrongTypes) findings.add({ kind: 'index', message });
  const isMisread = wrongTypes.length > 0;
  for (const part of parts(connection, findings, onProgress)) await run(part, findings, isMisread);
  return { checked: findings.checked, problems, notes };
}

/**
 * Runs a part of the verification. A part that reads a damaged page ends there; the others continue.
 * @param isMisread true if values of an unexpected type were found, and reported: any part may fail because of them
 */
async function run(part: Iterator<unknown>, findings: Findings, isMisread: boolean): Promise<void> {
  for (;;) {
    try {
      if (part.next().done === true) return;
    } catch (error) {
      if (!isMisread || !isOfWrongType(error)) findings.add({ kind: 'index', message: unreadable(error) });
      return;
    }
    await nextTurn();
  }
}

/**
 * The text of an error that damage caused: SQLite's own, unknown names, invalid JSON.
 * @throws any other error
 */
function unreadable(thrown: unknown): string {
  const isDamage =
    sqliteCode(thrown) !== undefined ||
    thrown instanceof SyntaxError ||
    (thrown instanceof TidemarkError && thrown.code === 'mirror_corrupt');
  if (!isDamage) throw thrown;
  return `could not be read: ${(thrown as Error).message}`;
}

function collectionsOf(connection: Connection, findings: Findings): CollectionRow[] {
  try {
    return readCollections(connection);
  } catch (error) {
    findings.add({ kind: 'index', message: `collections ${unreadable(error)}` });
    return [];
  }
}

function* parts(
  connection: Connection,
  findings: Findings,
  onProgress: (progress: VerifyProgress) => void,
): Generator<Iterator<unknown>> {
  yield verifyFile(connection, findings);
  const collections = collectionsOf(connection, findings);
  const of = collections.reduce((sum, { records }) => sum + records, 0);
  const shapes = new ShapeCheck();
  yield shapes.open(connection);
  for (const collection of collections) {
    const { source, kind } = collection;
    const rules = rulesOf(connection, collection, findings);
    const see = (body: string): void => shapes.see(source, kind, body);
    yield withProgress(verifyCollection(connection, collection, { rules, see }, findings), () => {
      onProgress({ records: findings.checked.records, of });
    });
  }
  yield shapes.report(findings);
  yield verifySweeps(connection, findings);
  yield verifyRetired(connection, findings);
  yield verifyRunKinds(connection, findings);
  yield verifySchemaChanges(connection, findings);
  yield verifyChain(connection, findings);
  yield verifyAudit(connection, findings);
  yield* rowParts(connection, findings);
}

function* withProgress(part: Iterator<unknown>, report: () => void): Generator<undefined> {
  while (part.next().done !== true) {
    report();
    yield undefined;
  }
  report();
}

function* verifyFile(connection: Connection, findings: Findings): Generator<undefined> {
  for (const each of alteredObjects(connection)) {
    const remedy = isRestorable(connection, each) ? { remedy: MADE_AGAIN } : {};
    findings.add({ kind: 'schema', message: each.message, ...remedy });
  }
  for (const each of addedByOthers(connection))
    findings.add({ kind: 'schema', message: each.message, ...remedyOf(each) });
  for (const message of kindViewProblems(connection))
    findings.add({ kind: 'schema', message, remedy: MADE_AGAIN });
  yield undefined;
  for (const row of connection.prepare<[], string>('PRAGMA integrity_check').pluck().all()) {
    if (row !== 'ok') findings.add({ kind: 'index', message: row });
    yield undefined;
  }
  const broken = connection.pragma('foreign_key_check') as { table: string; parent: string }[];
  for (const { table, parent } of broken) {
    const message = `a row of ${table} refers to a row of ${parent} that is not there`;
    findings.add({ kind: 'index', message });
  }
}

function rulesOf(
  connection: Connection,
  { source, kind }: CollectionRow,
  findings: Findings,
): readonly SealingRule[] {
  const id = connection
    .prepare<[string], number>(`SELECT id FROM sources WHERE CAST(name AS TEXT) = ?`)
    .pluck()
    .get(source);
  if (id === undefined) return [];
  try {
    return readRules(connection, id, kind);
  } catch (error) {
    findings.add({ kind: 'index', message: unreadable(error), recordKind: kind });
    return [];
  }
}

// The rows of collections against the sweeps, which the runs' seals cover.

/** All known sweeps. */
const SEEN = `seen AS (
  SELECT s.collection, s.run, r.finished_at AS at, s.outcome, s.mode, s.error_code, s.error, r.root IS NOT NULL AS is_published
  FROM sweeps s JOIN runs r ON r.run = s.run
  UNION ALL
  SELECT collection, seen_run, seen_at, outcome, mode, error_code, error, is_published FROM carried_sweeps
)`;

function* verifySweeps(connection: Connection, findings: Findings): Generator<undefined> {
  const contradicted = connection
    .prepare<[], { kind: string; scope: string; run: number | null }>(
      `WITH ${SEEN}, latest AS (
         SELECT collection, max(run) AS run, at, outcome, error_code, error FROM seen GROUP BY collection
       ), proved AS (
         SELECT collection, max(run) AS run, max(iif(outcome = 'complete', run, 0)) AS unheld,
           max(iif(mode IS NOT 'head', run, 0)) AS full, max(iif(mode IS NOT 'head' AND outcome = 'complete', run, 0)) AS full_unheld
         FROM seen WHERE is_published AND outcome IN ('complete', 'held') GROUP BY collection
       )
       SELECT c.kind AS kind, c.scope AS scope, c.last_run AS run
       FROM collections c LEFT JOIN latest l ON l.collection = c.id LEFT JOIN proved w ON w.collection = c.id
       WHERE c.last_run IS NOT l.run OR c.last_outcome IS NOT l.outcome OR c.last_error_code IS NOT l.error_code
         OR c.last_error IS NOT l.error
         OR c.last_at IS NOT l.at
         OR c.last_complete_at IS NOT (SELECT at FROM seen s WHERE s.collection = c.id AND s.run = c.last_complete_run)
         OR c.last_full_at IS NOT (SELECT at FROM seen s WHERE s.collection = c.id AND s.run = c.last_full_run)
         OR ifnull(c.last_complete_run, 0) NOT BETWEEN ifnull(w.unheld, 0) AND ifnull(w.run, 0)
         OR ifnull(c.last_full_run, 0) NOT BETWEEN ifnull(w.full_unheld, 0) AND ifnull(w.full, 0)`,
    )
    .all();
  for (const { kind, scope, run } of contradicted) {
    findings.add({
      kind: 'index',
      message: `when ${kind} was last read, and how that ended, is not what the runs say`,
      ...placeOf(kind, scope),
      ...(run === null ? {} : { run }),
    });
  }
  yield undefined;
}

/**
 * Checks collections that are marked as gone with their parent: they have no records, the run that set the mark walked no list, and no
 * published run has tried to read them since, as that would have cleared the mark.
 */
function* verifyRetired(connection: Connection, findings: Findings): Generator<undefined> {
  const contradicted = connection
    .prepare<[], { kind: string; scope: string; run: number; records: number }>(
      `WITH ${SEEN}, tried AS (
         SELECT collection, max(run) AS run, outcome, mode FROM seen
         WHERE is_published AND outcome <> 'skipped' GROUP BY collection
       )
       SELECT c.kind AS kind, c.scope AS scope, c.retired_run AS run, c.records AS records
       FROM collections c LEFT JOIN tried t ON t.collection = c.id
       WHERE c.retired_run IS NOT NULL AND (c.records > 0 OR t.run > c.retired_run
         OR t.run = c.retired_run AND (t.mode IS NOT NULL OR t.outcome <> 'complete'))`,
    )
    .all();
  for (const { kind, scope, run, records } of contradicted) {
    const but = records > 0 ? `has ${records} records` : 'was read then or later';
    findings.add({
      kind: 'index',
      message: `${kind} is marked as gone with its parent since run ${run}, but it ${but}`,
      ...placeOf(kind, scope),
      run,
    });
  }
  yield undefined;
}

/** SQL that is true unless the column has a JSON array of texts. */
function isNoList(column: string): string {
  return `CASE WHEN NOT json_valid(${column}) THEN true WHEN json_type(${column}) <> 'array' THEN true
    ELSE EXISTS (SELECT 1 FROM json_each(${column}) WHERE type <> 'text') END`;
}

function* verifyRunKinds(connection: Connection, findings: Findings): Generator<undefined> {
  const rows = connection
    .prepare<[], { run: number; kinds: string; isUnreadable: number }>(
      `SELECT run, kinds, ${isNoList('kinds')} AS isUnreadable FROM runs WHERE kinds IS NOT NULL`,
    )
    .all();
  for (const { run, kinds, isUnreadable } of rows) {
    const unknown = isUnreadable === 1 ? [] : (JSON.parse(kinds) as string[]).filter((each) => !isKind(each));
    if (isUnreadable === 1)
      findings.add({ kind: 'index', message: `the column kinds of run ${run} cannot be read`, run });
    for (const kind of unknown) {
      const message = `run ${run} was narrowed to ${kind}: there is no such kind`;
      findings.add({ kind: 'index', message, run });
    }
  }
  yield undefined;
}

/** Reports rows whose types are not a list of texts, and rows of an unknown kind. */
function* verifySchemaChanges(connection: Connection, findings: Findings): Generator<undefined> {
  const rows = connection
    .prepare<[], { run: number; kind: string; field: string; isUnreadable: number }>(
      `SELECT run, kind, field, ${isNoList('"before"')} OR ${isNoList('"after"')} AS isUnreadable FROM schema_changes`,
    )
    .iterate();
  for (const { run, kind, field, isUnreadable } of rows) {
    const found = `which run ${run} found changed`;
    if (!isKind(kind))
      findings.add({ kind: 'index', message: `${field} of ${kind}, ${found}: there is no such kind`, run });
    else if (isUnreadable === 1)
      findings.add({
        kind: 'index',
        message: `the types of ${field} of ${kind}, ${found}, cannot be read`,
        recordKind: kind,
        run,
      });
  }
  yield undefined;
}

function placeOf(kind: string, scope: string): Pick<VerifyProblem, 'recordKind' | 'scope'> {
  return isKind(kind) ? { recordKind: kind, scope: JSON.parse(scope) as Scope } : {};
}

// The counts of fields, against the bodies that a verification reads anyway.

interface CountedKind {
  readonly source: string;
  readonly kind: Kind;
  readonly stored: ShapeCounts;
  readonly found: KindShapes;
}

/** Counts the fields of all bodies again, without kinds that were never counted. */
class ShapeCheck {
  readonly #kinds = new Map<string, CountedKind>();

  /** Reads the stored counts. */
  *open(connection: Connection): Generator<undefined> {
    const rows = connection
      .prepare<[], { id: number; source: string; kind: string }>(
        `SELECT DISTINCT s.id AS id, s.name AS source, f.kind AS kind FROM field_shapes f JOIN sources s ON s.id = f.source`,
      )
      .all();
    for (const { id, source, kind } of rows) {
      if (!isKind(kind)) continue;
      const stored = readShapes(connection, id, kind);
      this.#kinds.set(`${source} ${kind}`, { source, kind, stored, found: openKindShapes(kind, stored) });
      yield undefined;
    }
  }

  /** Counts a current body. */
  see(source: string, kind: Kind, text: string): void {
    const counted = this.#kinds.get(`${source} ${kind}`);
    const body = counted === undefined ? undefined : parsed(text);
    if (body !== undefined) counted?.found.add(body);
  }

  /** Reports the differences, after all bodies were counted. */
  *report(findings: Findings): Generator<undefined> {
    for (const counted of this.#kinds.values()) {
      for (const message of differences(counted))
        findings.add({ kind: 'index', message, recordKind: counted.kind });
      yield undefined;
    }
  }
}

function* differences({ source, kind, stored, found }: CountedKind): Generator<string> {
  const seen = new Set<string>();
  for (const { field, counts } of found.fields()) {
    seen.add(field);
    for (const [index, records] of counts.entries()) {
      const type = JSON_TYPES[index] as JsonType;
      const expected = stored.get(field)?.get(type) ?? 0;
      if (records === expected) continue;
      const name = field === '' ? 'records' : `records with ${field}`;
      yield `${kind} of ${source} has ${records} ${name} of type ${type}, but the stored count is ${expected}`;
    }
  }
  for (const field of stored.keys()) {
    if (field !== UNWATCHED && !seen.has(field))
      yield `${kind} of ${source} has a stored count of the field ${JSON.stringify(field)}, which is not one that is counted`;
  }
}

// Rows that are sealed one by one, against their seals.

/** Rows per slice. */
const SLICE = 1000;

/** Separate parts, so that a damaged page in one does not affect the others. */
function rowParts(connection: Connection, findings: Findings): Iterator<undefined>[] {
  return [
    ...SEALED_SETS.map((set) => verifyRows(connection, set, findings)),
    verifyNewIds(connection, findings),
    verifyNumbers(connection, findings),
  ];
}

function* verifyNumbers(connection: Connection, findings: Findings): Generator<undefined> {
  const message = exhaustedIdsText(connection);
  if (message !== null) findings.add({ kind: 'index', message });
  yield undefined;
}

function* verifyRows(connection: Connection, set: SealedSet, findings: Findings): Generator<undefined> {
  const seals = new Map<string, Buffer>();
  let whole: Buffer | undefined;
  let combinedSeal = EMPTY_SET;
  const stored = connection
    .prepare<[string], { member: string; seal: Buffer }>(`SELECT member, seal FROM row_seals WHERE "set" = ?`)
    .all(set);
  for (const [index, { member, seal }] of stored.entries()) {
    if (member === '') whole = seal;
    else {
      seals.set(member, seal);
      combinedSeal = combined(combinedSeal, setContribution(set, member, seal));
    }
    if (index % SLICE === SLICE - 1) yield undefined;
  }
  let count = 0;
  // Not iterated: no statement may be open while others use the connection.
  for (const row of connection.prepare<[], SealedRow>(sealedRowsSql(set)).all()) {
    const seal = seals.get(row.member);
    seals.delete(row.member);
    if (seal === undefined) add(findings, set, row.member, 'was inserted by another program: it has no hash');
    else if (!seal.equals(rowSeal(set, row)))
      add(findings, set, row.member, `is not as it was ${WRITTEN[set]}`);
    count += 1;
    if (count % SLICE === 0) yield undefined;
  }
  const isRun = connection.prepare<[number], number>('SELECT 1 FROM runs WHERE run = ?').pluck();
  for (const member of seals.keys()) {
    // A seal without a settled row: a run that is under way has no seal yet.
    const { run = 0 } = named(set, member);
    add(findings, set, member, goneText(set === 'runs' && isRun.get(run) === 1));
  }
  // A set that never had a row has no seal.
  if (!(whole ?? EMPTY_SET).equals(combinedSeal))
    findings.add({
      kind: 'chain',
      message: `the hashes of ${WHOLE[set]} are not all there, or not as they were made`,
    });
}

const WRITTEN: Readonly<Record<SealedSet, string>> = {
  fingerprint_key: 'made',
  runs: 'written when the run ended',
  id_map: 'written by its restore',
};

const WHOLE: Readonly<Record<SealedSet, string>> = {
  fingerprint_key: 'the key of the drift fingerprints',
  runs: 'the rows of runs',
  id_map: 'the id map',
};

function add(findings: Findings, set: SealedSet, member: string, what: string): void {
  const { name, ...place } = named(set, member);
  findings.add({ kind: 'chain', message: `${name} ${what}`, ...place });
}

/** The name and place of a row; only a name if its member was damaged. */
function named(
  set: SealedSet,
  member: string,
): Omit<VerifyProblem, 'kind' | 'message'> & { readonly name: string } {
  if (set === 'fingerprint_key') return { name: WHOLE[set] };
  if (set === 'id_map') return namedMapping(member);
  const run = Number(/^\[(\d+)\]$/.exec(member)?.[1]);
  return Number.isInteger(run) ? { name: `the row of run ${run}`, run } : { name: 'the row of a run' };
}

/** The id is separate from the name, as it may be a secret. */
function namedMapping(member: string): Omit<VerifyProblem, 'kind' | 'message'> & { readonly name: string } {
  const key = parsed(member);
  const [source = '', kind = '', scope = '', id = ''] = Array.isArray(key) ? key.map(String) : [];
  const name = `the earlier id of a record${source === '' ? '' : ` of ${source}`}`;
  return isKind(kind) ? { name, recordKind: kind, scope: parsed(scope) ?? {}, id } : { name };
}

const MADE_AGAIN =
  'the views are created again when this result is recorded, or else by the next command that writes, such as `tidemark sync`';

/** How to remove an object that another program added, if that loses no rows: nothing for a table. */
function remedyOf({ type, name }: { readonly type: string; readonly name: string }): { remedy?: string } {
  if (type === 'view' && isNameOfKindView(name)) return { remedy: MADE_AGAIN };
  if (type === 'table') return {};
  const drop = `DROP ${type.toUpperCase()} "${name.replaceAll('"', '""')}"`;
  return { remedy: `drop what another program added: \`${drop}\`` };
}
