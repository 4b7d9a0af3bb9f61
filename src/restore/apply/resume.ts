/** Unfinished restores, and how they are resumed (design.md, invariant 6) or abandoned. */
import type { Scope } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { whoText } from '../../core/actor.ts';
import { TidemarkError } from '../../core/errors.ts';
import { planCommand } from '../../core/hints.ts';
import { pointerTo, resolvePointer } from '../../core/json-pointer.ts';
import { parseLossless } from '../../core/json.ts';
import { localTime, plural } from '../../core/wording.ts';
import { equalOptional } from '../../diff/canonical.ts';
import { isPointerWithin, overlapsPointer } from '../../diff/change.ts';
import { AuditLogContradicted } from '../../mirror/audited-rows.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import { latestUnfinished, newestUnfinished } from '../../mirror/unfinished-restore.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
import { auditLogLine } from '../../mirror/hidden-runs.ts';
import type { Plan, PlanStep } from '../plan/plan.ts';
import { storedPlan } from '../plan/stored-plan.ts';
import { SentOrder } from '../undo/applied.ts';
import { isAlreadyApplied, isDoneStep, mayHaveActed, toCheckText, undoOf } from './report.ts';

const NAMES_SHOWN = 10;

export interface ResumableRestore {
  readonly row: RestoreRow;
  /** The plan as it was approved: give it to `applyPlan` with `restore: row.restore`. */
  readonly plan: Plan;
}

/**
 * The restore to resume: the one of that number, or the source's latest, if it is unfinished and not abandoned. Without a number, one
 * whose open steps were all done by later restores does not count. Applied steps stay applied; a step that was sent without an answer is
 * looked up first; failed and skipped ones are tried again.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `not_found` when none is
 * unfinished, `usage` when that one was undone or has nothing left to send, or when only an older one is unfinished
 */
export function readResumable(mirror: Mirror, source: string, restore?: number): ResumableRestore {
  const row = restore === undefined ? latest(mirror, source) : numbered(mirror, source, restore);
  return { row, plan: storedPlan(row) };
}

/**
 * The source of the restore to resume, if several share a mirror: that of the given restore, else the only one of `sources` with an
 * unfinished restore that was not abandoned.
 * @throws TidemarkError `reference_unknown` when there is none of that number, `not_found` when none is unfinished, `usage`
 * when several sources have one
 */
export function sourceToResume(mirror: Mirror, sources: readonly string[], restore?: number): string {
  if (restore !== undefined) return sourceOfRestore(mirror, restore);
  const found = sources.map((source) => unfinishedOf(mirror, source));
  const [abandoned] = found.flatMap((each) => each.abandoned);
  return onlySourceOf(
    found.flatMap(({ wanted: [newest] }) => newest ?? []),
    { state: 'unfinished', option: '--resume', ...(abandoned === undefined ? {} : { abandoned }) },
  );
}

/** The unfinished restores of a source, the latest first: those to resume without a number, and the abandoned ones. */
function unfinishedOf(
  mirror: Mirror,
  source: string,
): {
  readonly wanted: readonly RestoreRow[];
  readonly abandoned: readonly RestoreRow[];
} {
  const isDone = doneSince(mirror, source);
  const last = new Map(mirror.restores.begins(source).map(({ restore, entry }) => [restore, entry]));
  const unfinished = mirror.restores
    .list({ source })
    .filter((row) => isUnfinished(mirror, row) && !isDone(row))
    .sort((a, b) => (last.get(b.restore) ?? 0) - (last.get(a.restore) ?? 0));
  const isAbandoned = ({ restore }: RestoreRow): boolean => mirror.restores.abandonedBy(restore) !== null;
  return {
    wanted: unfinished.filter((row) => !isAbandoned(row)),
    abandoned: unfinished.filter(isAbandoned),
  };
}

/**
 * A test whether nothing is left to do for a restore that is not the latest. This is so if, for every open step,
 * - restores that were not undone have since set every field of the step in the same record (whatever its id in their states) to the same
 *   value, or
 * - a sync after all restores read the record as the step was to make it.
 *
 * "Since" goes by the audit log, because a restore with a lower number may have been resumed later.
 */
function doneSince(mirror: Mirror, source: string): (row: RestoreRow) => boolean {
  const begins = mirror.restores.begins(source);
  const { restores } = mirror;
  let recreated: RecreatedIds | undefined;
  const effectsOf = (row: RestoreRow, isChosen: (step: RestoreStepRow) => boolean): StepEffect[] =>
    stepEffects(mirror, row, isChosen, (recreated ??= new RecreatedIds(restores.idMap(source))));
  let known: { readonly places: ReadonlyMap<string, number>; readonly ended: string } | undefined;
  const doneSteps = (): NonNullable<typeof known> => {
    const all = restores.list({ source });
    const done = all
      .filter(({ restore }) => undoOf(mirror, source, restore) === undefined)
      .flatMap((each) => effectsOf(each, isDoneStep))
      .sort((a, b) => a.begun - b.begun);
    const ends = all.map(({ startedAt, finishedAt }) => finishedAt ?? startedAt).sort();
    return {
      places: new Map(done.flatMap(({ places, begun }) => places.map((place) => [place, begun]))),
      ended: ends.at(-1) ?? '',
    };
  };
  return (row) => {
    if (begins.at(-1)?.restore === row.restore) return false;
    const open = effectsOf(row, isOpenStep);
    if (open.length === 0) return false;
    const { places: done, ended } = (known ??= doneSteps());
    return open.every(
      ({ step, places, begun }) =>
        places.every((place) => (done.get(place) ?? 0) > begun) ||
        isResultInSweep(mirror, source, step, ended),
    );
  };
}

/** True if a complete list that was begun after `ended` shows the result of the step. Not for creations, whose record has another id. */
function isResultInSweep(
  mirror: Mirror,
  source: string,
  { action, kind, scope, id, fields }: PlanStep,
  ended: string,
): boolean {
  if (action === 'create' || (action !== 'remove' && fields.length === 0)) return false;
  const [found] = mirror.records.find(kind, id, { sources: [source], scope });
  if (found === undefined) return false;
  const read = mirror.runs.lastFullSweep(found.collection, Number.MAX_SAFE_INTEGER);
  const began = read === undefined ? '' : (mirror.runs.get(read.run)?.startedAt ?? '');
  if (began <= ended) return false;
  if (action === 'remove' || found.body === null) return action === 'remove' && found.isRemoved;
  const body = parseLossless(found.body);
  return fields.every(({ path, to, moved }) => {
    return moved === undefined && equalOptional(resolvePointer(body, path), to);
  });
}

/** What a step does, as comparable texts, one for each place that it sets. */
interface StepEffect {
  readonly step: PlanStep;
  readonly places: readonly string[];
  /** The audit log entry of the start or resume of its restore in which it was last tried. */
  readonly begun: number;
}

/** What the chosen steps of a restore do; empty if its plan is damaged. */
function stepEffects(
  mirror: Mirror,
  row: RestoreRow,
  isChosen: (step: RestoreStepRow) => boolean,
  recreated: RecreatedIds,
): StepEffect[] {
  const chosen = new Map(
    mirror.restores.steps(row.restore).flatMap((step) => (isChosen(step) ? [[step.n, step]] : [])),
  );
  if (chosen.size === 0) return [];
  const sent = new SentOrder(mirror, row);
  try {
    return storedPlan(row).steps.flatMap((step) => {
      const { n, action, kind, id, scope, desired, request } = step;
      const journaled = chosen.get(n);
      if (journaled === undefined) return [];
      const places = placesOf(step);
      return [
        {
          step,
          begun: sent.begunAt(journaled.endedAt ?? journaled.sentAt),
          places: (places.length === 0 ? [null] : places).map((place) =>
            JSON.stringify([
              action,
              request?.act,
              sameRecord(desired ?? { kind, id, scope }, recreated),
              place,
            ]),
          ),
        },
      ];
    });
  } catch (error) {
    // The restore stays listed: resuming it reports the damage.
    if (error instanceof TidemarkError) return [];
    throw error;
  }
}

/** A key of the record that is equal for all ids that it and its parents ever had, since a later restore may use another one. */
function sameRecord({ kind, id, scope }: RecordKey, recreated: RecreatedIds): (string | undefined)[] {
  const parents = Object.entries(scope as Readonly<Record<keyof Scope, string>>).map(
    ([key, parent]) => `${key} ${recreated.all(SCOPE_KIND[key as keyof Scope], parent)[0] ?? parent}`,
  );
  return [kind, recreated.all(kind, id)[0], ...parents.sort()];
}

/** The places that the step sets, as texts. */
function placesOf({ fields, request, kept = [] }: PlanStep): string[] {
  const within = [...fields.map(({ path }) => path), ...(request?.fills ?? []).map(({ pointer }) => pointer)];
  // Members of the body in which no place is named; of the others, only the places that differ count.
  const others = Object.keys(request?.body ?? {})
    .map((name) => pointerTo([name]))
    .filter((member) => !within.some((path) => isPointerWithin(path, member)));
  return [...new Set([...within, ...others])].map((path) => {
    // Set to the accepted value, not to the desired one.
    const accepted = kept.filter((each) => overlapsPointer(path, [each.path]));
    return JSON.stringify([path, ...accepted.map((each) => [each.path, each.value])]);
  });
}

/** E.g. `24 of 2026-03-01T12:00:00.000Z (3 steps not applied, 1 without an answer)`. */
function leftText(mirror: Mirror, { restore, startedAt }: RestoreRow): string {
  const open = mirror.restores.steps(restore).filter(isOpenStep);
  const of = (...outcomes: RestoreStepRow['outcome'][]): number =>
    open.filter(({ outcome }) => outcomes.includes(outcome)).length;
  const counts = [
    [of('planned', 'failed', 'skipped'), 'not applied'],
    [of('sent'), 'without an answer'],
    [of('applied'), 'not read back'],
  ] as const;
  const parts = counts.flatMap(([count, what]) => (count === 0 ? [] : [`${plural(count, 'step')} ${what}`]));
  return `${restore} of ${startedAt}${parts.length === 0 ? '' : ` (${parts.join(', ')})`}`;
}

interface SourceChoice {
  readonly state: string;
  readonly option: string;
  /** An abandoned restore, for the hint. */
  readonly abandoned?: RestoreRow;
}

function onlySourceOf(found: readonly RestoreRow[], { state, option, abandoned }: SourceChoice): string {
  const [first, ...others] = found;
  if (first === undefined) throw noneFound(`no restore is ${state}`, abandoned);
  if (others.length === 0) return first.source;
  const named = found.map((row) => `${row.restore} of ${row.source}`).join(', ');
  throw new TidemarkError('usage', `several sources have an ${state} restore: ${named}`, {
    hint: `give the number, such as \`tidemark restore ${option} ${first.restore}\``,
  });
}

/** The hint that the source's last restore has results to check, which is not what a resume does; undefined if it has none. */
function uncheckedOf(mirror: Mirror, source: string): string | undefined {
  const last = mirror.restores.begins(source).at(-1)?.restore;
  const row = last === undefined ? undefined : mirror.restores.get(last);
  const toCheck = row === undefined ? '' : toCheckText(mirror, row);
  if (row === undefined || toCheck === '') return undefined;
  return `restore ${row.restore} has ended with ${toCheck}: \`tidemark restores show ${row.restore}\` says what`;
}

function noneFound(message: string, abandoned: RestoreRow | undefined, unchecked?: string): TidemarkError {
  const hint =
    abandoned === undefined
      ? (unchecked ?? '`tidemark restores` lists them')
      : `restore ${abandoned.restore} was abandoned: \`tidemark restore --resume ${abandoned.restore}\` continues it even so`;
  return new TidemarkError('not_found', message, { hint });
}

/** The source of a restore. @throws TidemarkError `reference_unknown` when there is none of that number */
export function sourceOfRestore(mirror: Mirror, restore: number): string {
  const row = mirror.restores.get(restore);
  if (row !== undefined) return row.source;
  throw unknownRestore(mirror, restore);
}

/**
 * The restore that was begun or resumed last, of all sources or of these.
 * @throws TidemarkError `not_found` when there is none, `mirror_corrupt` when it may have been deleted
 */
export function latestRestore(mirror: Mirror, sources?: readonly string[]): RestoreRow {
  const { restores } = mirror;
  const rows = restores.list().filter(({ source }) => sources?.includes(source) !== false);
  const begins = [...new Set(rows.map(({ source }) => source))].flatMap((source) => restores.begins(source));
  const entries = new Map(begins.map(({ restore, entry }) => [restore, entry]));
  const [latest] = rows.sort((a, b) => (entries.get(b.restore) ?? 0) - (entries.get(a.restore) ?? 0));
  if (latest !== undefined) return latest;
  const [altered] = restores.altered();
  if (altered !== undefined) throw new AuditLogContradicted(`there is no restore, but ${altered}`);
  throw new TidemarkError('not_found', 'there is no restore yet', {
    hint: '`tidemark restore` makes a plan',
  });
}

/** The error for a restore that is not found: another program deleted its row or moved it to another source, or there never was one. */
export function unknownRestore(mirror: Mirror, restore: number, source?: string): TidemarkError {
  const [altered] = mirror.restores.contradictions(restore);
  if (altered !== undefined) return new AuditLogContradicted(altered.line);
  const none = `there is no restore ${restore}${source === undefined ? '' : ` of source ${source}`}`;
  const log = mirror.alteredAuditLog();
  if (log !== null) return new AuditLogContradicted(`${none}, but ${auditLogLine(log)}`);
  return new TidemarkError('reference_unknown', none, {
    hint: '`tidemark restores` lists them',
  });
}

/** The note, when another restore is planned, that the source's latest one was interrupted; null if it was not. */
export function unfinishedNote(mirror: Mirror, source: string, holdsLock: boolean): string | null {
  // With the lock held, no other process can be applying it.
  const { row, isAtWork } = holdsLock
    ? { row: newestUnfinished(mirror, source), isAtWork: false }
    : latestUnfinished(mirror, source);
  if (row === null) return null;
  const { restore, startedAt } = row;
  const who = whoText(row);
  if (isAtWork)
    return `restore ${restore} of ${localTime(startedAt)} by ${who} is running: wait until it has ended`;
  return `restore ${restore} of ${localTime(startedAt)} by ${who} is unfinished: \`tidemark restore --resume ${restore}\` continues it`;
}

/** The latest unfinished restore. An older or abandoned one needs its number, because it may no longer be wanted. */
function latest(mirror: Mirror, source: string): RestoreRow {
  const { wanted, abandoned } = unfinishedOf(mirror, source);
  const [first, ...others] = wanted;
  if (first === undefined)
    throw noneFound(`no restore of ${source} is unfinished`, abandoned[0], uncheckedOf(mirror, source));
  if (first.restore === mirror.restores.begins(source).at(-1)?.restore) return first;
  const named = wanted.slice(0, NAMES_SHOWN).map((row) => leftText(mirror, row));
  throw new TidemarkError(
    'usage',
    others.length === 0
      ? `restore ${named.join('')} is unfinished, but is not the latest one`
      : `several restores are unfinished: ${named.join('; ')}`,
    {
      hint: `\`tidemark restores\` lists what came after; give the number: \`tidemark restore --resume ${first.restore}\`, which continues it, or \`tidemark restore --abandon ${first.restore}\`, which leaves it as it is`,
    },
  );
}

function numbered(mirror: Mirror, source: string, restore: number): RestoreRow {
  const row = rowOf(mirror, source, restore);
  if (isUnfinished(mirror, row)) return row;
  const undo = undoOf(mirror, source, restore);
  if (undo !== undefined) {
    throw new TidemarkError(
      'usage',
      `restore ${restore} was undone by restore ${undo}: it is not continued`,
      {
        hint:
          row.undoes === null
            ? `\`${planCommand(storedPlan(row))}\` makes a new plan${storedPlan(row).command === undefined ? ' (give the same filters again)' : ''}`
            : `\`tidemark undo ${row.undoes}\` makes a new plan`,
      },
    );
  }
  const state = row.outcome === 'complete' ? 'is complete' : 'has sent everything that it could send';
  throw new TidemarkError('usage', `restore ${row.restore} ${state}: there is nothing to continue`, {
    hint: '`tidemark restore` makes a new plan',
  });
}

function rowOf(mirror: Mirror, source: string, restore: number): RestoreRow {
  const row = mirror.restores.get(restore);
  if (row?.source === source) return row;
  throw unknownRestore(mirror, restore, source);
}

/** False for a restore that was undone: sending its open steps would mix with what the undo restored. */
function isUnfinished(mirror: Mirror, { restore, source, outcome }: RestoreRow): boolean {
  if (outcome === 'complete') return false;
  const isUnended = outcome === 'interrupted' || outcome === 'running';
  const isOpen = isUnended || mirror.restores.steps(restore).some((step) => isOpenStep(step));
  return isOpen && undoOf(mirror, source, restore) === undefined;
}

/** The last restore that sent something of the plan with this hash, if it was not undone, and whether it can be resumed; else null. */
export function restoreOfPlan(
  mirror: Mirror,
  source: string,
  hash: string,
): { readonly restore: number; readonly isResumable: boolean } | null {
  const { restores } = mirror;
  const row = restores
    .list({ source })
    .find(({ planHash, restore }) => planHash === hash && restores.steps(restore).some(mayHaveActed));
  if (row === undefined || undoOf(mirror, source, row.restore) !== undefined) return null;
  return { restore: row.restore, isResumable: isUnfinished(mirror, row) };
}

/** True for a step that a resumed restore continues: not applied yet, or applied and not read back. */
function isOpenStep(step: RestoreStepRow): boolean {
  const { outcome, verified } = step;
  if (outcome === 'applied') return verified === null;
  return !isAlreadyApplied(step) && outcome !== 'blocked' && outcome !== 'manual';
}

// Abandoning. The caller holds the writer lock, so no process applies a restore, and none is `running`: opening for writing has ended
// those whose process died.

/**
 * The restore to abandon: the one of that number, if it is unfinished and not abandoned; or the source's latest, if it was interrupted.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `usage` when that one has ended,
 * `not_found` when the latest has ended, or there is none
 */
export function readAbandonable(mirror: Mirror, source: string, restore?: number): RestoreRow {
  if (restore === undefined) {
    const newest = newestUnfinished(mirror, source);
    if (newest !== null) return newest;
    throw new TidemarkError('not_found', `the latest restore of ${source} is not interrupted`, {
      hint: '`tidemark restores` lists them',
    });
  }
  const row = rowOf(mirror, source, restore);
  const isLeft = isUnfinished(mirror, row) && mirror.restores.abandonedBy(restore) === null;
  if (row.outcome === 'interrupted' || isLeft) return row;
  throw new TidemarkError(
    'usage',
    `restore ${restore} has ended (${row.outcome}): there is nothing to abandon`,
    {
      hint: `\`tidemark restores show ${restore}\` lists what was done`,
    },
  );
}

/**
 * The source of the restore to abandon, if several share a mirror: that of the given restore, else the only one of `sources` whose latest
 * restore was interrupted.
 * @throws TidemarkError as `sourceToResume`
 */
export function sourceToAbandon(mirror: Mirror, sources: readonly string[], restore?: number): string {
  if (restore !== undefined) return sourceOfRestore(mirror, restore);
  const found = sources.flatMap((source) => newestUnfinished(mirror, source) ?? []);
  return onlySourceOf(found, { state: 'interrupted', option: '--abandon' });
}

/** The outcome of an abandoned restore: `partial` if it applied something, or sent something without an answer, else `failed`. */
export function abandonedOutcome(mirror: Mirror, restore: number): 'failed' | 'partial' {
  return mirror.restores.steps(restore).some(mayHaveActed) ? 'partial' : 'failed';
}
