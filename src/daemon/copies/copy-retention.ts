/** Which copies stay: pure. The rules are those of history; each mirror's copies are counted for themselves. */
import { type RetentionPolicy, planRetention } from '../../mirror/retention.ts';
import type { Copy } from './copy-list.ts';

/**
 * The copies of one mirror that may go, oldest last. Only whole ones count and only whole ones go: what is damaged or
 * has no manifest is for a person to judge. The newest whole one always stays, and so does `justMade`, whatever the
 * clock said when the others were made.
 * @throws TidemarkError `usage` for a policy that keeps nothing
 */
export function copiesToRemove(
  copies: readonly Copy[],
  policy: RetentionPolicy,
  { mirror, justMade }: { readonly mirror: string; readonly justMade: string | null },
): Copy[] {
  const own = copies
    .filter(({ state, manifest }) => state === 'whole' && manifest?.mirror === mirror)
    .toSorted((a, b) => Date.parse(a.madeAt) - Date.parse(b.madeAt) || a.run - b.run);
  const { forgotten } = planRetention({
    // Numbered by age: a mirror that was restored from a copy numbers its runs anew from there.
    runs: own.map(({ madeAt }, index) => ({
      run: index,
      source: mirror,
      outcome: 'complete',
      startedAt: madeAt,
      finishedAt: madeAt,
    })),
    snapshots: [],
    policy,
  });
  return forgotten.flatMap(({ run }) => own[run] ?? []).filter(({ name }) => name !== justMade);
}
