/** The pins against what they pinned. */
import type { Connection } from './database.ts';
import { isSealed, readSealedSnapshots } from './snapshot-seal.ts';
import type { Findings } from './verify.ts';

export function verifySnapshots(connection: Connection, findings: Findings): void {
  for (const snapshot of readSealedSnapshots(connection)) {
    if (isSealed(snapshot)) continue;
    const { name, run, root } = snapshot;
    findings.add({
      kind: 'chain',
      message:
        `snapshot ${JSON.stringify(name)} is not as it was pinned` +
        (root === null ? `: there is no published run ${run}` : ` (now at run ${run})`),
      run,
    });
  }
}
