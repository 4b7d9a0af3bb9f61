/**
 * Whether the mirror holds what it says: the file's own structure, the schema, every body against its hash, every
 * revision, and the chain of seals from the first run to the last. It reads one snapshot and changes nothing.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Kind, Scope } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type Connection, sqliteCode } from './database.ts';
import { ShapeCheck } from './field-shapes-check.ts';
import { schemaDifferences } from './migrations.ts';
import { type CollectionRow, readCollections } from './run-rows.ts';
import { type SealingRule, readRules } from './sealing.ts';
import { verifyChain } from './verify-chain.ts';
import { verifyCollection } from './verify-records.ts';
import { rowParts } from './verify-rows.ts';
import { verifySweeps } from './verify-sweeps.ts';

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
  readonly run?: number;
}

/** Something that explains what a verification finds, and is no fault. */
interface VerifyNote {
  readonly message: string;
  /** The latest sealed run of that time. */
  readonly run: number;
  readonly at: string;
}

export interface VerifyResult {
  readonly checked: { readonly records: number; readonly revisions: number; readonly runs: number };
  readonly problems: readonly VerifyProblem[];
  /** What retention dropped, oldest first. */
  readonly notes: readonly VerifyNote[];
}

export interface VerifyProgress {
  readonly records: number;
  /** Records that the mirror counts. */
  readonly of: number;
}

/** What the parts of a verification report to. */
export interface Findings {
  readonly checked: { records: number; revisions: number; runs: number };
  add(problem: VerifyProblem): void;
  note(note: VerifyNote): void;
}

/** Problems listed at most; a damaged mirror could have one per record. */
const MAX_PROBLEMS = 1000;

/** The caller closes the connection afterwards. */
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
  // One snapshot; closing the connection ends it. A damaged page may make even an orderly end impossible.
  connection.exec('BEGIN');
  for (const part of parts(connection, findings, onProgress)) await run(part, findings);
  return { checked: findings.checked, problems, notes };
}

/** A part that meets a damaged page ends there, and the others go on. */
async function run(part: Iterator<unknown>, findings: Findings): Promise<void> {
  for (;;) {
    try {
      if (part.next().done === true) return;
    } catch (error) {
      findings.add({ kind: 'index', message: unreadable(error) });
      return;
    }
    await nextTurn();
  }
}

/**
 * What damage does to whoever reads: SQLite's own errors, a name that is none, JSON that is none.
 * @throws what is no damage
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
    // The other parts go on.
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
    const rules = rulesOf(connection, collection);
    const see = (body: string): void => shapes.see(source, kind, body);
    yield withProgress(verifyCollection(connection, collection, { rules, see }, findings), () => {
      onProgress({ records: findings.checked.records, of });
    });
  }
  yield shapes.report(findings);
  yield verifySweeps(connection, findings);
  yield verifyChain(connection, findings);
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
  for (const message of schemaDifferences(connection)) findings.add({ kind: 'schema', message });
  yield undefined;
  for (const row of connection.prepare<[], string>('PRAGMA integrity_check').pluck().all()) {
    if (row !== 'ok') findings.add({ kind: 'index', message: row });
    yield undefined;
  }
  const broken = connection.pragma('foreign_key_check') as { table: string; parent: string }[];
  for (const { table, parent } of broken) {
    findings.add({
      kind: 'index',
      message: `a row of ${table} refers to a row of ${parent} that is not there`,
    });
  }
}

function rulesOf(connection: Connection, { source, kind }: CollectionRow): readonly SealingRule[] {
  const id = connection
    .prepare<[string], number>(`SELECT id FROM sources WHERE name = ?`)
    .pluck()
    .get(source);
  return id === undefined ? [] : readRules(connection, id, kind);
}
