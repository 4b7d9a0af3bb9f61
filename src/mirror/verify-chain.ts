/** The chain of seals: every published run's digest and root, computed again from what the mirror holds. */
import type { Connection } from './database.ts';
import { type RunDigests, digestSealed } from './run-digests.ts';
import { rootOf } from './sealing.ts';
import { verifySnapshots } from './verify-snapshots.ts';
import { verifyForgets } from './verify-forgets.ts';
import type { Findings } from './verify.ts';

/** A published run as it stands sealed. */
export interface SealedRun extends RunDigests {
  readonly run: number;
  readonly source: string;
  readonly outcome: string;
  readonly startedAt: string;
  readonly finishedAt: string;
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
    const isFirstForm = sealed.sweepDigest === null;
    const found = yield* digestSealed(connection, run, isFirstForm);
    if (!found.changeDigest.equals(sealed.changeDigest)) {
      findings.add({
        kind: 'chain',
        message: `the changes of run ${run}, or what identifies their records, are not those it sealed`,
        run,
      });
    }
    if (!isSame(found.sweepDigest, sealed.sweepDigest)) {
      findings.add({
        kind: 'chain',
        message: `what run ${run} saw of its collections is not what it sealed`,
        run,
      });
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
  noteFirstForm(runs, findings);
  verifySnapshots(connection, findings);
  verifyOwners(connection, findings);
  const { checked } = findings;
  const stored = connection.prepare<[], number>(`SELECT count(*) FROM revisions`).pluck().get() ?? 0;
  if (stored !== checked.revisions) {
    findings.add({
      kind: 'revision',
      message: `${stored} revisions are stored, ${checked.revisions} belong to a record`,
    });
  }
}

/** What the seals of the first version leave out is said, so that nobody takes them for more. */
function noteFirstForm(runs: readonly SealedRun[], findings: Findings): void {
  const old = runs.filter(({ sweepDigest }) => sweepDigest === null);
  const last = old.at(-1);
  if (last === undefined) return;
  findings.note({
    message:
      `${old.length === 1 ? `run ${last.run} was` : `${old.length} runs up to run ${last.run} were`} sealed by an earlier ` +
      `version: contents and changes are vouched for, ids, scopes and sweeps only from the next run on`,
    run: last.run,
    at: last.finishedAt,
  });
}

/** Rows that say what a run did, or saw, without the run that vouches for them. */
function verifyOwners(connection: Connection, findings: Findings): void {
  const owners = [
    ['made revisions', `SELECT DISTINCT run FROM revisions`, 'root IS NOT NULL'],
    ['took sweeps over', `SELECT DISTINCT run FROM carried_sweeps`, 'root IS NOT NULL'],
    ['has sweeps', `SELECT DISTINCT run FROM sweeps`, 'true'],
  ] as const;
  for (const [what, rows, isOwner] of owners) {
    const orphans = connection
      .prepare<[], number>(
        `SELECT run FROM (${rows}) WHERE run NOT IN (SELECT run FROM runs WHERE ${isOwner})`,
      )
      .pluck()
      .all();
    for (const run of orphans) {
      findings.add({ kind: 'chain', message: `run ${run} ${what}, yet its sealed row is gone`, run });
    }
  }
}

/** Oldest first. */
export function readSealed(connection: Connection): SealedRun[] {
  return connection
    .prepare<[], SealedRun>(
      `SELECT r.run AS run, s.name AS source, r.outcome AS outcome, r.started_at AS startedAt, r.finished_at AS finishedAt,
         r.change_digest AS changeDigest, r.sweep_digest AS sweepDigest, r.previous_root AS previousRoot, r.root AS root
       FROM runs r JOIN sources s ON s.id = r.source WHERE r.root IS NOT NULL ORDER BY r.run`,
    )
    .all();
}

function isSame(one: Buffer | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : one.equals(other);
}
