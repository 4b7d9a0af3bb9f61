/** Restores that have not ended: one that is running, or one that was stopped or killed. */
import { writerOf } from './lock.ts';
import type { Mirror } from './mirror.ts';
import type { RestoreRow } from './restores.ts';

/**
 * The source's latest restore, if its process died or was stopped before all was sent; null too while one applies it. Not to
 * be called within `atOnce`, which would not see that it has just ended.
 */
export function interruptedRestore(mirror: Mirror, source: string): RestoreRow | null {
  const { row, isAtWork } = latestUnfinished(mirror, source);
  return isAtWork ? null : row;
}

/** The source's latest restore, if it has not ended (null otherwise), and whether a process applies it now. */
export function latestUnfinished(
  mirror: Mirror,
  source: string,
): { readonly row: RestoreRow | null; readonly isAtWork: boolean } {
  const found = newestUnfinished(mirror, source);
  if (found === null) return { row: null, isAtWork: false };
  try {
    if (isAtWork(mirror, found)) return { row: found, isAtWork: true };
  } catch {
    // On a read-only disk the lock cannot be tried: nobody there can continue it either.
    return { row: null, isAtWork: false };
  }
  // It may have ended, and given back the lock, since it was read.
  const row = newestUnfinished(mirror, source);
  return { row: row?.restore === found.restore ? row : null, isAtWork: false };
}

/** The source's latest restore, if it has not ended; it may still be running. */
export function newestUnfinished(mirror: Mirror, source: string): RestoreRow | null {
  const [newest] = mirror.restores.list({ source, limit: 1 });
  return newest?.outcome === 'interrupted' || newest?.outcome === 'running' ? newest : null;
}

/** Commands that apply a plan, as the writer's lock names them. */
const APPLIERS: ReadonlySet<string> = new Set(['restore', 'apply', 'undo']);

/** True while a process applies it: after a kill the journal still says `running`, but the lock is free. */
export function isAtWork({ path }: Pick<Mirror, 'path'>, { outcome }: Pick<RestoreRow, 'outcome'>): boolean {
  return outcome === 'running' && isApplied(path);
}

/** True while a process holds the mirror at this path to apply a plan. */
export function isApplied(path: string): boolean {
  const writer = writerOf(path);
  return writer !== null && APPLIERS.has(writer.command);
}
