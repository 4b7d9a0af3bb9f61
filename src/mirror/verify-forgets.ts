/** What retention did, as the chain of seals vouches for it. */
import type { Connection } from './database.ts';
import { type StoredForget, digestReplaced, linkOf, readStoredForgets } from './forget-links.ts';
import { policyText } from './policy-text.ts';
import type { RetentionPolicy } from './retention.ts';
import type { SealedRun } from './verify-chain.ts';
import type { Findings } from './verify.ts';

/** Checks every forget, notes what it did, and returns what the first sealed run has to follow. */
export function verifyForgets(
  connection: Connection,
  runs: readonly SealedRun[],
  findings: Findings,
): Buffer | null {
  let before: StoredForget | undefined;
  for (const row of readStoredForgets(connection)) {
    const { forget, tipRun } = row;
    const problem = (message: string): void => findings.add({ kind: 'chain', message, run: tipRun });
    if (forget !== (before?.forget ?? 0) + 1)
      problem(`forget ${forget} does not follow the forget before it`);
    if (!linkOf(row, before).equals(row.link)) problem(`forget ${forget} is not as it was sealed`);
    if (!digestReplaced(connection, forget).equals(row.replacedDigest)) {
      problem(`the roots that forget ${forget} replaced are not those it sealed`);
    }
    findings.note({ message: noteOf(row), run: tipRun, at: row.at });
    before = row;
  }
  if (before === undefined) return null;
  const { forget, tipRun, rootAfter } = before;
  if (runs.find(({ run }) => run === tipRun)?.root.equals(rootAfter) !== true) {
    findings.add({
      kind: 'chain',
      message: `the root of run ${tipRun} is not the one that forget ${forget} sealed it with`,
      run: tipRun,
    });
  }
  return before.link;
}

function noteOf(row: StoredForget): string {
  const ranges = JSON.parse(row.runs) as [number, number][];
  const runs = ranges.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`)).join(', ');
  const policy = policyText(JSON.parse(row.policy) as RetentionPolicy);
  const [before, after] = [row.rootBefore, row.rootAfter].map((root) => root.toString('hex'));
  return (
    `history before run ${row.tipRun} was dropped by retention on ${row.at} (keep ${policy}): ` +
    `${row.runCount === 1 ? 'run' : 'runs'} ${runs}; its root until then was ${before ?? ''}, from then on ${after ?? ''}`
  );
}
