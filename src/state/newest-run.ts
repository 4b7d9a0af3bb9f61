/** Refuses a mirror in which another program hid the newest run of a source, or took one out of the chain. */
import type { TidemarkError } from '../core/errors.ts';
import { damagedMirror } from '../mirror/database.ts';
import type { RunStore } from '../mirror/run-store.ts';

interface Runs {
  readonly path: string;
  readonly runs: Pick<RunStore, 'hidden' | 'brokenChain'>;
}

/**
 * Refuses to take a run for the newest one of a source (of all: null) while its row was altered, or that of a later one is gone or was, or that
 * of an earlier one is gone: what it changed may have been taken back.
 * @throws TidemarkError `mirror_corrupt` that names the run
 */
export function requireNewest(mirror: Runs, source: string | null): void {
  const hidden = hiddenNewest(mirror, source);
  if (hidden !== null) throw hidden;
}

/** The same error, for whoever shows it; null where no run is hidden or gone. */
export function hiddenNewest(mirror: Runs, source: string | null): TidemarkError | null {
  const [line] = mirror.runs.hidden(source);
  if (line !== undefined)
    return damagedMirror(mirror.path, `${line}, so which run is the newest is not certain`);
  const [broken] = mirror.runs.brokenChain();
  return broken === undefined ? null : damagedMirror(mirror.path, broken);
}
