/** Rows that are sealed one by one, against their seals: altered, put in and taken out each have a line. */
import { isKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import {
  type SealedRow,
  type SealedSet,
  combined,
  EMPTY_SET,
  rowSeal,
  SEALED_SETS,
  sealedRowsSql,
  shareOf,
} from './row-seals.ts';
import type { Findings, VerifyProblem } from './verify.ts';

/** Rows between two turns of the event loop. */
const SLICE = 1000;

/** Each by itself, so that a damaged page in one leaves the others. */
export function rowParts(connection: Connection, findings: Findings): Iterator<undefined>[] {
  return SEALED_SETS.map((set) => verifyRows(connection, set, findings));
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
      combinedSeal = combined(combinedSeal, shareOf(set, member, seal));
    }
    if (index % SLICE === SLICE - 1) yield undefined;
  }
  let count = 0;
  // All at once: no statement is left open between two turns.
  for (const row of connection.prepare<[], SealedRow>(sealedRowsSql(set)).all()) {
    const seal = seals.get(row.member);
    seals.delete(row.member);
    if (seal === undefined) add(findings, set, row.member, 'was put in by another hand: it has no seal');
    else if (!seal.equals(rowSeal(set, row)))
      add(findings, set, row.member, `is not as it was ${WRITTEN[set]}`);
    count += 1;
    if (count % SLICE === 0) yield undefined;
  }
  // A run under way has no seal yet, and one that has is not under way.
  for (const member of seals.keys())
    add(findings, set, member, 'is gone, or not settled any more: its seal is left');
  if (whole?.equals(combinedSeal) !== true)
    findings.add({
      kind: 'chain',
      message: `the seals of ${WHOLE[set]} are not all there, or not as they were made`,
    });
}

const WRITTEN: Readonly<Record<SealedSet, string>> = {
  acceptances: 'accepted',
  fingerprint_key: 'made',
  runs: 'written when the run ended',
};

const WHOLE: Readonly<Record<SealedSet, string>> = {
  acceptances: 'accepted drift',
  fingerprint_key: 'the key of the drift fingerprints',
  runs: 'the rows of runs',
};

function add(findings: Findings, set: SealedSet, member: string, what: string): void {
  const { name, ...place } = named(set, member);
  findings.add({ kind: 'chain', message: `${name} ${what}`, ...place });
}

interface Named extends Pick<VerifyProblem, 'recordKind' | 'scope' | 'id' | 'run'> {
  readonly name: string;
}

/** The id apart from the name: it may be a secret, which only whoever shows it can know. */
function named(set: SealedSet, member: string): Named {
  if (set === 'fingerprint_key') return { name: WHOLE[set] };
  const key = keyIn(member);
  if (set === 'runs') {
    const run = Number(key[0]);
    return Number.isInteger(run) ? { name: `the row of run ${run}`, run } : { name: 'the row of a run' };
  }
  const [source = '', kind = '', scope = '', id = '', path = ''] = key;
  const name = `the acceptance of ${path === '' ? 'a whole record' : path}${source === '' ? '' : ` of ${source}`}`;
  return isKind(kind) ? { name, recordKind: kind, scope: scopeIn(scope), id } : { name };
}

function scopeIn(text: string): Scope {
  try {
    return JSON.parse(text) as Scope;
  } catch {
    // Damaged: the seal tells so, and the rest names the row.
    return {};
  }
}

/** Nothing where the member itself was damaged. */
function keyIn(member: string): string[] {
  try {
    const key: unknown = JSON.parse(member);
    return Array.isArray(key) ? key.map(String) : [];
  } catch {
    return [];
  }
}
