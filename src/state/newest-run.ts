/** Refuses a mirror in which another program hid the newest run of a source. */
import { damagedMirror } from '../mirror/database.ts';
import type { RunStore } from '../mirror/run-store.ts';

/**
 * Refuses to take a run for the newest one of a source (of all: null) while the row of a later one is gone, or was altered.
 * @throws TidemarkError `mirror_corrupt` that names the run
 */
export function requireNewest(
  mirror: { readonly path: string; readonly runs: Pick<RunStore, 'hidden'> },
  source: string | null,
): void {
  const [line] = mirror.runs.hidden(source);
  if (line !== undefined)
    throw damagedMirror(mirror.path, `${line}, so that an earlier run passes for the newest one`);
}
