/** Refuses a mirror in which another program hid the newest run of a source. */
import type { TidemarkError } from '../core/errors.ts';
import { damagedMirror } from '../mirror/database.ts';
import type { RunStore } from '../mirror/run-store.ts';

interface Runs {
  readonly path: string;
  readonly runs: Pick<RunStore, 'hidden'>;
}

/**
 * Refuses to take a run for the newest one of a source (of all: null) while the row of a later one is gone, or was altered.
 * @throws TidemarkError `mirror_corrupt` that names the run
 */
export function requireNewest(mirror: Runs, source: string | null): void {
  const hidden = hiddenNewest(mirror, source);
  if (hidden !== null) throw hidden;
}

/** The same error, for whoever shows it; null where no run is hidden. */
export function hiddenNewest(mirror: Runs, source: string | null): TidemarkError | null {
  const [line] = mirror.runs.hidden(source);
  return line === undefined
    ? null
    : damagedMirror(mirror.path, `${line}; an earlier run would pass for the newest one`);
}
