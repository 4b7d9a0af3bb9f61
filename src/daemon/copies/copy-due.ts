/** Whether it is time for another copy. */
import type { CopiesConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { readCopies } from './copy-list.ts';
import { mirrorId } from './plain-copy.ts';

/**
 * True where the newest whole copy of this mirror is as old as `every`. Copies of the future, made before the clock stepped
 * back, do not count: they would put off the next one for long.
 * @throws TidemarkError where the directory cannot be listed
 */
export async function isCopyDue(
  mirror: Mirror,
  { copies, clock }: { readonly copies: CopiesConfig; readonly clock: Clock },
): Promise<boolean> {
  const owner = mirrorId(mirror);
  const now = clock.now();
  const times = (await readCopies(copies.directory))
    .filter(({ state, manifest }) => state === 'whole' && manifest?.mirror === owner)
    .map(({ madeAt }) => Date.parse(madeAt))
    .filter((at) => at <= now);
  return times.every((at) => now - at >= copies.everyMs);
}
