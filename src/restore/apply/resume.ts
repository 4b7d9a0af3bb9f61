/** Unfinished restores, and how they are resumed (design.md, Never broken 6) or abandoned. */
import { TidemarkError } from '../../core/errors.ts';
import { localTime } from '../../core/wording.ts';
import { latestUnfinished, newestUnfinished } from '../../mirror/unfinished-restore.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
import type { Plan } from '../plan/plan.ts';
import { storedPlan } from '../plan/stored-plan.ts';
import { isAlreadyApplied, undoOf } from './report.ts';

const NAMES_SHOWN = 10;

export interface ResumableRestore {
  readonly row: RestoreRow;
  /** The plan as it was approved: give it to `applyPlan` with `restore: row.restore`. */
  readonly plan: Plan;
}

/**
 * The restore to resume: the one of that number, or the source's latest, if it is unfinished and was not undone. Applied
 * steps stay applied; a step that was sent without an answer is looked up first; failed and skipped ones are tried again.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `not_found` when none is
 * unfinished, `usage` when that one has nothing left to send, or when only an older one or an undone one is unfinished
 */
export function readResumable(mirror: Mirror, source: string, restore?: number): ResumableRestore {
  const row = restore === undefined ? latest(mirror, source) : numbered(mirror, source, restore);
  return { row, plan: storedPlan(row) };
}

/**
 * The source of the restore to resume, where several share a mirror: the number decides; without one, that of the only
 * source of `sources` that has an unfinished restore.
 * @throws TidemarkError `reference_unknown` when there is none of that number, `not_found` when none is unfinished, `usage`
 * when several sources have one
 */
export function sourceToResume(mirror: Mirror, sources: readonly string[], restore?: number): string {
  if (restore !== undefined) return sourceOfRestore(mirror, restore);
  const found = sources.flatMap(
    (source) => mirror.restores.list({ source }).find((row) => isUnfinished(mirror, row)) ?? [],
  );
  return onlySourceOf(found, { state: 'unfinished', option: '--resume' });
}

function onlySourceOf(
  found: readonly RestoreRow[],
  { state, option }: { readonly state: string; readonly option: string },
): string {
  const [first, ...others] = found;
  if (first === undefined) {
    throw new TidemarkError('not_found', `no restore is ${state}`, {
      hint: '`tidemark restores` lists them',
    });
  }
  if (others.length === 0) return first.source;
  const named = found.map((row) => `${row.restore} of ${row.source}`).join(', ');
  throw new TidemarkError('usage', `several sources have an ${state} restore: ${named}`, {
    hint: `give the number, such as \`tidemark restore ${option} ${first.restore}\``,
  });
}

/** @throws TidemarkError `reference_unknown` when there is none of that number */
export function sourceOfRestore(mirror: Mirror, restore: number): string {
  const row = mirror.restores.get(restore);
  if (row !== undefined) return row.source;
  throw new TidemarkError('reference_unknown', `there is no restore ${restore}`, {
    hint: '`tidemark restores` lists them',
  });
}

/**
 * The note, when another restore is planned, that the source's latest one was interrupted; null if it was not.
 */
export function unfinishedNote(mirror: Mirror, source: string, holdsLock: boolean): string | null {
  // With the lock held, no other process can be applying it.
  const { row, isAtWork } = holdsLock
    ? { row: newestUnfinished(mirror, source), isAtWork: false }
    : latestUnfinished(mirror, source);
  if (row === null) return null;
  const { restore, startedAt, by } = row;
  if (isAtWork)
    return `restore ${restore} of ${localTime(startedAt)} by ${by} is running: wait until it has ended`;
  return `restore ${restore} of ${localTime(startedAt)} by ${by} is unfinished: \`tidemark restore --resume ${restore}\` continues it`;
}

/** The latest restore: an older one, or one that was undone, may no longer be wanted. */
function latest(mirror: Mirror, source: string): RestoreRow {
  const rows = mirror.restores.list({ source });
  const unfinished = rows.filter((row) => isUnfinished(mirror, row));
  if (unfinished.length === 0) {
    throw new TidemarkError('not_found', `no restore of ${source} is unfinished`, {
      hint: '`tidemark restores` lists them',
    });
  }
  const [newest] = rows;
  const [first] = unfinished;
  if (first !== undefined && first === newest && undoOf(mirror, source, first.restore) === undefined) {
    return first;
  }
  const named = unfinished.slice(0, NAMES_SHOWN).map((row) => {
    const undo = undoOf(mirror, source, row.restore);
    return `${row.restore} of ${row.startedAt}${undo === undefined ? '' : `, undone by restore ${undo}`}`;
  });
  throw new TidemarkError('usage', `several restores are unfinished: ${named.join('; ')}`, {
    hint: `\`tidemark restores\` lists what came after; give the number: \`tidemark restore --resume ${first?.restore ?? 'N'}\``,
  });
}

function numbered(mirror: Mirror, source: string, restore: number): RestoreRow {
  const row = rowOf(mirror, source, restore);
  if (isUnfinished(mirror, row)) return row;
  const state = row.outcome === 'complete' ? 'is complete' : 'has sent everything that it could send';
  throw new TidemarkError('usage', `restore ${row.restore} ${state}: there is nothing to continue`, {
    hint: '`tidemark restore` makes a new plan',
  });
}

function rowOf(mirror: Mirror, source: string, restore: number): RestoreRow {
  const row = mirror.restores.get(restore);
  if (row?.source === source) return row;
  throw new TidemarkError('reference_unknown', `there is no restore ${restore} of ${source}`, {
    hint: '`tidemark restores` lists them',
  });
}

function isUnfinished(mirror: Mirror, { restore, outcome }: RestoreRow): boolean {
  if (outcome === 'complete') return false;
  if (outcome === 'interrupted' || outcome === 'running') return true;
  return mirror.restores.steps(restore).some((step) => isOpenStep(step));
}

/** True for a step that a resumed restore continues: not applied yet, or applied and not read back. */
function isOpenStep(step: RestoreStepRow): boolean {
  const { outcome, verified } = step;
  if (outcome === 'applied') return verified === null;
  return !isAlreadyApplied(step) && outcome !== 'blocked' && outcome !== 'manual';
}

// An interrupted restore that nobody is to continue. The caller holds the writer lock, so no process applies one, and none is
// `running`: opening for writing has ended those whose process died.

/**
 * The restore to abandon: the one of that number, or the source's latest, if it was interrupted.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `usage` when that one has ended,
 * `not_found` when the latest has ended, or there is none
 */
export function readInterrupted(mirror: Mirror, source: string, restore?: number): RestoreRow {
  if (restore === undefined) {
    const newest = newestUnfinished(mirror, source);
    if (newest !== null) return newest;
    throw new TidemarkError('not_found', `the latest restore of ${source} is not interrupted`, {
      hint: '`tidemark restores` lists them',
    });
  }
  const row = rowOf(mirror, source, restore);
  if (row.outcome === 'interrupted') return row;
  throw new TidemarkError(
    'usage',
    `restore ${restore} has ended (${row.outcome}): there is nothing to abandon`,
    {
      hint: `\`tidemark restores show ${restore}\` lists what was done`,
    },
  );
}

/**
 * The source of the restore to abandon, where several share a mirror: the number decides; without one, the only source of
 * `sources` whose latest restore was interrupted.
 * @throws TidemarkError as `sourceToResume`
 */
export function sourceToAbandon(mirror: Mirror, sources: readonly string[], restore?: number): string {
  if (restore !== undefined) return sourceOfRestore(mirror, restore);
  const found = sources.flatMap((source) => newestUnfinished(mirror, source) ?? []);
  return onlySourceOf(found, { state: 'interrupted', option: '--abandon' });
}

/** How an interrupted restore ends that nobody continues: as `failed` if it applied nothing, else as `partial`. */
export function abandonedOutcome(mirror: Mirror, restore: number): 'failed' | 'partial' {
  const isAnyApplied = mirror.restores.steps(restore).some(({ outcome }) => outcome === 'applied');
  return isAnyApplied ? 'partial' : 'failed';
}
