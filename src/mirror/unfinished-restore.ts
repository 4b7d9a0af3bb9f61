/** Restores that have not ended: running, stopped or killed ones. */
import { type LockHolder, withWriter, writerOf } from './lock.ts';
import type { Mirror } from './mirror.ts';
import type { RestoreProgress, RestoreRow } from './restores.ts';

/**
 * The source's latest restore, if its process died or was stopped before everything was sent; null also while a process applies it.
 * Do not call it within `atOnce`, which would hide that the restore has just ended.
 */
export function interruptedRestore(mirror: Mirror, source: string): UnendedRestore | null {
  const { row, isAtWork } = latestUnfinished(mirror, source);
  return isAtWork ? null : row;
}

/** The source's latest restore if it has not ended (otherwise null), and whether a process applies it now. */
export function latestUnfinished(
  mirror: Mirror,
  source: string,
): { readonly row: UnendedRestore | null; readonly isAtWork: boolean } {
  const found = newestUnfinished(mirror, source);
  if (found === null) return { row: null, isAtWork: false };
  const { row, isAtWork } = readRestoreStatus(mirror, found);
  // If the lock cannot be tried, nobody can continue the restore either.
  if (isAtWork === undefined || !isUnended(row)) return { row: null, isAtWork: false };
  return { row: { ...row, backupMadeAt: mirror.restores.backupSinceResumed(row.restore) }, isAtWork };
}

/** A restore that a process applies now. */
export interface RunningRestore extends RestoreProgress {
  readonly source: string;
  readonly restore: number;
  /** When it was begun, or resumed last, ISO 8601. */
  readonly since: string;
  readonly process: Pick<LockHolder, 'pid' | 'host'>;
}

/** The restore with its progress and process; null if no process applies it. @param unfinished from `latestUnfinished` */
export function runningRestore(
  mirror: Mirror,
  { row, isAtWork }: ReturnType<typeof latestUnfinished>,
): RunningRestore | null {
  const writer = row === null || !isAtWork ? null : writerOf(mirror.path);
  if (row === null || writer === null) return null;
  const { restore, source, startedAt } = row;
  const since = mirror.restores.begins(source).findLast((each) => each.restore === restore)?.at ?? startedAt;
  const { pid, host } = writer;
  return { source, restore, since, process: { pid, host }, ...mirror.restores.progress(restore) };
}

/** A restore as it is now, and whether a process applies it (undefined if not known). Do not call it within `atOnce`. */
export function readRestoreStatus(
  mirror: Mirror,
  found: RestoreRow,
): { readonly row: RestoreRow; readonly isAtWork: boolean | undefined } {
  const { rows, writer } = withWriter(mirror.path, [found], ({ restore }) => mirror.restores.get(restore));
  const [row = found] = rows;
  // After a kill the journal still says `running`, but the lock is free.
  if (row.outcome !== 'running') return { row, isAtWork: false };
  return { row, isAtWork: writer === undefined ? undefined : isApplier(writer) };
}

/** A restore with its present outcome: a process that was killed could not journal its end. Do not call it within `atOnce`. */
export function restoreNow(mirror: Mirror, found: RestoreRow): RestoreRow {
  const { row, isAtWork } = readRestoreStatus(mirror, found);
  return row.outcome === 'running' && isAtWork === false ? { ...row, outcome: 'interrupted' } : row;
}

/**
 * The source's latest restore (the one that was begun or resumed last) if it has not ended; it may be running. If the latest one is
 * the undo of an undo, the restore that is in effect again counts instead.
 */
export function newestUnfinished(mirror: Mirror, source: string): UnendedRestore | null {
  const last = mirror.restores.begins(source).at(-1);
  let found = last === undefined ? undefined : mirror.restores.get(last.restore);
  while (found !== undefined && !isUnended(found)) found = againInEffect(mirror, found);
  if (found === undefined) return null;
  return { ...found, backupMadeAt: mirror.restores.backupSinceResumed(found.restore) };
}

/** The restore whose undo this complete restore undid; undefined if there is none, or other restores came in between. */
function againInEffect(
  { restores }: Mirror,
  { restore, outcome, undoes, source }: RestoreRow,
): RestoreRow | undefined {
  const undo = undoes === null || outcome !== 'complete' ? undefined : restores.get(undoes);
  const undone = undo === undefined || undo.undoes === null ? undefined : restores.get(undo.undoes);
  // An undo is later than what it undoes, unless another program altered the numbers.
  if (undo === undefined || undone === undefined || undone.restore >= undo.restore || undo.restore >= restore)
    return undefined;
  const { restore: first } = undone;
  const begun = restores.begins(source).map((each) => each.restore);
  const others = new Set(begun.slice(begun.indexOf(first)).filter((each) => each !== first));
  return [...others].every((each) => (restores.get(each)?.undoes ?? 0) >= first) ? undone : undefined;
}

/** A restore that has not ended. */
export interface UnendedRestore extends RestoreRow {
  /** As `RestoreStore.backupSinceResumed`. */
  readonly backupMadeAt?: string | null;
}

/**
 * The text about a restore that has not ended. In a mirror from a backup, it may have ended after the backup was made.
 * @param name of the restore, such as `restore 3`
 */
export function unendedText(
  name: string,
  { backupMadeAt = null }: Pick<UnendedRestore, 'backupMadeAt'>,
): string {
  return backupMadeAt === null
    ? `${name} was interrupted`
    : `${name} had not ended when the backup was made (${backupMadeAt}) that this mirror comes from: whether it ended is not known`;
}

function isUnended({ outcome }: RestoreRow): boolean {
  return outcome === 'interrupted' || outcome === 'running';
}

/** Commands that apply a plan, as the writer's lock names them. */
const APPLIERS: ReadonlySet<string> = new Set(['restore', 'apply', 'undo']);

/** True while a process holds the mirror's lock to apply a plan. */
export function isApplied(path: string): boolean {
  return isApplier(writerOf(path));
}

function isApplier(writer: LockHolder | null): boolean {
  return writer !== null && APPLIERS.has(writer.command);
}
