/** The chain of seals: every published run's digest and root, computed again from what the mirror holds. */
import type { Connection } from './database.ts';
import { digestRun, rootOf } from './sealing.ts';
import { verifyForgets } from './verify-forgets.ts';
import type { Findings } from './verify.ts';

/** A published run as it stands sealed. */
export interface SealedRun {
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly changeDigest: Buffer;
  readonly previousRoot: Buffer | null;
  readonly root: Buffer;
}

export function* verifyChain(connection: Connection, findings: Findings): Generator<undefined> {
  const runs = readSealed(connection);
  // Where something was forgotten, the first run follows what says so.
  let previous: Buffer | null = verifyForgets(connection, runs, findings);
  for (const sealed of runs) {
    findings.checked.runs += 1;
    const { run } = sealed;
    const digest = yield* digestRun(connection, run);
    if (!digest.equals(sealed.changeDigest)) {
      findings.add({ kind: 'chain', message: `the changes of run ${run} are not those it sealed`, run });
    }
    if (!isSame(previous, sealed.previousRoot)) {
      findings.add({ kind: 'chain', message: `run ${run} does not follow the run before it`, run });
    }
    if (!rootOf({ ...sealed }).equals(sealed.root)) {
      findings.add({ kind: 'chain', message: `the root of run ${run} does not match its facts`, run });
    }
    previous = sealed.root;
    yield undefined;
  }
  const unsealed = connection
    .prepare<[], number>(
      `SELECT DISTINCT run FROM revisions WHERE run NOT IN (SELECT run FROM runs WHERE root IS NOT NULL)`,
    )
    .pluck()
    .all();
  for (const run of unsealed) {
    findings.add({ kind: 'chain', message: `run ${run} made revisions, yet its sealed row is gone`, run });
  }
  const { checked } = findings;
  const stored = connection.prepare<[], number>(`SELECT count(*) FROM revisions`).pluck().get() ?? 0;
  if (stored !== checked.revisions) {
    findings.add({
      kind: 'revision',
      message: `${stored} revisions are stored, ${checked.revisions} belong to a record`,
    });
  }
}

/** Oldest first. */
export function readSealed(connection: Connection): SealedRun[] {
  return connection
    .prepare<[], SealedRun>(
      `SELECT r.run AS run, s.name AS source, r.outcome AS outcome, r.started_at AS startedAt, r.finished_at AS finishedAt,
         r.change_digest AS changeDigest, r.previous_root AS previousRoot, r.root AS root
       FROM runs r JOIN sources s ON s.id = r.source WHERE r.root IS NOT NULL ORDER BY r.run`,
    )
    .all();
}

function isSame(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}
