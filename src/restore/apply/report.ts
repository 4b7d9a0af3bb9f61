/** The report of a restore: the JSON document `tidemark.restore/1`, from which text and exit code are made too. */
import type { Actor } from '../../core/actor.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { type ErrorCode, type ExitCode, EXIT, TidemarkError } from '../../core/errors.ts';
import { shellWord } from '../../core/hints.ts';
import { defined } from '../../core/defined.ts';
import { formatInteger } from '../../core/wording.ts';
import { isUncompared, type Skipped } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { continuedIds } from '../../diff/found-again.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
import {
  type Plan,
  type PlanStep,
  type StepAction,
  type UntouchedRecords,
  planExitCode,
  shownPlan,
} from '../plan/plan.ts';
import { isRenamable, placeChoice } from '../plan/settings.ts';
import { idLookup } from '../../state/recreated-ids.ts';
import { appliedSteps, undoChain } from '../undo/applied.ts';

/**
 * `moved`: the live record is no longer as planned. `needs_failed`: a step on which it depends was not applied. `as_desired`: the live
 * record already was as desired.
 */
type StepErrorCode = ErrorCode | 'moved' | 'needs_failed' | 'as_desired';

export interface StepError {
  readonly code: StepErrorCode;
  /** One line without secrets. */
  readonly message: string;
  readonly hint?: string;
}

export function stepError(error: TidemarkError): StepError {
  const { code, field, hint } = error;
  // The service names the field in a separate member.
  const message = field === undefined ? error.message : `${error.message} (field: ${field})`;
  return { code, message, ...defined({ hint }) };
}

/** The error as columns of the journal. */
export function errorColumns(error: StepError | null): { errorCode: string | null; error: string | null } {
  return { errorCode: error?.code ?? null, error: error?.message ?? null };
}

export interface StepReport {
  readonly n: number;
  readonly action: StepAction;
  readonly kind: Kind;
  /** With the latest ids of parents that the restore created. */
  readonly scope: Scope;
  /** The live id; for a creation, that of the desired record. */
  readonly id: string;
  readonly name: string;
  /** `planned`: not begun. `sent`: it may or may not have been executed. `skipped`: see `as_desired` and `needs_failed`. */
  readonly outcome: 'applied' | 'failed' | 'skipped' | 'blocked' | 'manual' | 'planned' | 'sent';
  /** HTTP status of the last response; null without one. */
  readonly status: number | null;
  /** The id of a created record; the latest one, if a later restore created it again. */
  readonly new_id: string | null;
  /** The kind of `new_id`, if it is not the step's kind: an invite for a member. */
  readonly new_kind?: Kind;
  /** Whether the record, read back, was as sent; null if it was not read back. */
  readonly verified: boolean | null;
  /** What the service has (`from`) instead of what was sent (`to`); secrets replaced by `[secret]`. */
  readonly differences: readonly FieldChange[];
  readonly error: StepError | null;
  /** What the user should check although the step was applied. */
  readonly warning?: string;
  /** Why nothing is sent, or what must be done by hand; null for steps that are sent. */
  readonly reason: string | null;
  /** The missing secrets because of which nothing is sent, as in the plan; left out if empty. */
  readonly needs?: PlanStep['needs'];
  /** The plan's note on a step that is sent, such as fields that no request takes. */
  readonly note?: string;
}

export interface RestoreReport {
  readonly schema: 'tidemark.restore/1';
  /** Number of the restore: `restore --resume N`, `restores show N`, `undo N`. */
  readonly restore: number;
  readonly source: string;
  /** Hash of the plan. */
  readonly plan: string;
  /** The restore that this one undoes; null for an ordinary one. */
  readonly undoes: number | null;
  /**
   * `complete`: every step was applied and verified, or was as desired already. `partial`: only some were. `failed`: there were requests
   * to send, and none was applied. `interrupted`: it was stopped before every step had ended (by a signal, an error of this machine, a
   * refused key, or a service that no longer answers), or the result of a request is unknown or was not read back; `restore --resume`
   * continues, `restore --abandon` makes it `partial` or `failed`.
   */
  readonly outcome: 'running' | 'complete' | 'partial' | 'failed' | 'interrupted';
  readonly started_at: string;
  /** Who started it. */
  readonly by: string;
  /** How that person was identified, such as `user@host`; left out if the audit log does not say. */
  readonly via?: string;
  /** Others who resumed it; left out if empty. */
  readonly resumed_by?: readonly Actor[];
  /** Who ended it with `restore --abandon`, if it was not resumed since. */
  readonly abandoned_by?: Actor;
  readonly finished_at: string | null;
  readonly steps: readonly StepReport[];
  /** Given if another program made the plan unreadable: then `steps` is empty, and `summary` counts the journal. */
  readonly is_plan_unreadable?: true;
  readonly summary: RestoreSummary;
  /** For a resumed restore: `summary` without the steps that were applied before. */
  readonly this_time?: RestoreSummary;
  /** The code of the error that stopped it, because every further request would meet it; not in `restores show`. */
  readonly stopped_by?: string;
  /** The last restore that undid something of this one. */
  readonly undone_by?: number;
  /** Given if that undo is not complete: it was interrupted, or steps of it failed. */
  readonly undone_in_part?: true;
  /** Requested collections that could not be read and so have no steps; left out if empty. */
  readonly skipped?: readonly Skipped[];
  /** As in the plan; left out if empty. */
  readonly left?: readonly UntouchedRecords[];
  /** The number of records that continue under the ids under which the plan had found them; left out if zero. */
  readonly continued?: number;
  /** Manual work for created records, because the API does not offer parts of them; left out if empty. */
  readonly by_hand?: readonly ManualWork[];
}

/** Manual work for a record that the restore created. */
interface ManualWork {
  readonly n: number;
  readonly kind: Kind;
  /** The new id, or the recorded one if the new one is unknown. */
  readonly id: string;
  readonly name: string;
  readonly reason: string;
}

interface RestoreSummary {
  readonly applied: number;
  /** Those of `applied` that are not as sent, or could not be read back. */
  readonly unverified: number;
  /** Those of `applied` that only a look-up found done, without a response; left out if zero. */
  readonly found_done?: number;
  readonly failed: number;
  readonly skipped: number;
  readonly blocked: number;
  readonly manual: number;
  /** Not reached, or without an answer. */
  readonly open: number;
}

// Error codes in the journal of applied creations, which are reported as warnings (`warningOf`).

/** An earlier request may have been sent too. */
export const PERHAPS_SENT = 'perhaps_sent';

/** An equal second record exists; the text is in the journal. */
export const CREATED_TWICE = 'created_twice';

/** The service put the record elsewhere; the text is in the journal. */
export const ELSEWHERE = 'elsewhere';

const REFUSED: ReadonlySet<string> = new Set(['unauthorized', 'forbidden']);

/**
 * Exit code of a restore (design.md, Commands): 130 stopped by a signal; 0 all applied and verified without a warning, every requested
 * collection compared, and no manual work left, because a script would take that for done; 5 nothing applied this time because the key
 * was refused; 6 nothing applied this time because live had changed; 3 anything else.
 * @param isStopped whether a signal stopped it
 */
export function restoreExitCode(report: RestoreReport, isStopped: boolean): ExitCode {
  if (report.outcome === 'running' || (report.outcome === 'interrupted' && isStopped))
    return EXIT.interrupted;
  if (report.outcome === 'complete') {
    const isDoubtful = report.steps.some(({ warning }) => warning !== undefined);
    const { skipped = [], by_hand: byHand = [] } = report;
    return isDoubtful || skipped.length + byHand.length > 0 ? EXIT.partial : EXIT.done;
  }
  // Steps applied before a resume do not count for this attempt.
  if (report.outcome === 'failed' || report.this_time?.applied === 0) {
    // First, because other steps still have the errors of an earlier attempt.
    if (REFUSED.has(report.stopped_by ?? '')) return EXIT.refused;
    const codes = report.steps.flatMap(({ outcome, error }) =>
      outcome === 'failed' && error !== null ? [error.code] : [],
    );
    if (codes.length > 0 && codes.every((code) => REFUSED.has(code))) return EXIT.refused;
    if (codes.length > 0 && codes.every((code) => code === 'moved')) return EXIT.unsafe;
  }
  return EXIT.partial;
}

/** The report of a restore from the journal: the result of applying, and of `restores show`. */
export function restoreReport(mirror: Mirror, restore: number): RestoreReport {
  const row = mirror.restores.get(restore);
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', `there is no restore ${restore}`, {
      hint: '`tidemark restores` lists them',
    });
  }
  const plan = shownPlan(row);
  const rows = new Map(mirror.restores.steps(restore).map((step) => [step.n, step]));
  const idMap = idLookup(mirror.restores.idMap(row.source));
  const kinds = new Map(plan?.steps.map(({ n, kind, request }) => [n, request?.kind ?? kind]));
  // The latest id: an undo of an undo, or a later restore, may have created the record again.
  const newId = (n: number): string | null => {
    const [id, kind] = [rows.get(n)?.newId ?? null, kinds.get(n)];
    return id === null || kind === undefined ? id : (idMap(kind, id) ?? id);
  };
  const steps = (plan?.steps ?? []).flatMap((step) => {
    const journaled = rows.get(step.n);
    return journaled === undefined ? [] : [stepReport(step, journaled, newId)];
  });
  // Not records that counted as missing without a look-up: their steps looked them up before creating them.
  const uncompared = (plan?.skipped ?? []).filter(isUncompared);
  const undo = undoOf(mirror, row.source, restore);
  const byHand = manualWork(plan, steps, rows);
  const continued = plan === null ? 0 : continuedIds(plan);
  const resumedBy = mirror.restores.resumedBy(restore);
  const abandonedBy = mirror.restores.abandonedBy(restore);
  return {
    schema: 'tidemark.restore/1',
    restore,
    source: row.source,
    plan: row.planHash,
    undoes: row.undoes,
    outcome: row.outcome,
    started_at: row.startedAt,
    by: row.by,
    ...defined({ via: row.via }),
    ...(resumedBy.length === 0 ? {} : { resumed_by: resumedBy }),
    ...(abandonedBy === null ? {} : { abandoned_by: abandonedBy }),
    finished_at: row.finishedAt,
    steps,
    ...(plan === null ? { is_plan_unreadable: true as const } : {}),
    summary: summaryOf(plan === null ? [...rows.values()] : steps),
    ...(undo === undefined ? {} : { undone_by: undo }),
    ...(undo === undefined || mirror.restores.get(undo)?.outcome === 'complete'
      ? {}
      : { undone_in_part: true as const }),
    ...(uncompared.length === 0 ? {} : { skipped: uncompared }),
    ...(plan === null || plan.left.length === 0 ? {} : { left: plan.left }),
    ...(continued === 0 ? {} : { continued }),
    ...(byHand.length === 0 ? {} : { by_hand: byHand }),
  };
}

function manualWork(
  plan: Plan | null,
  steps: readonly StepReport[],
  rows: ReadonlyMap<number, RestoreStepRow>,
): ManualWork[] {
  const { lacking = [] } = plan ?? {};
  const reasons = new Map(
    lacking.flatMap(({ kinds, reason }) => kinds.map((kind) => [kind, reason] as const)),
  );
  const assigned = new Map(plan?.steps.map((step) => [step.n, step.assigned]));
  return steps.flatMap(({ n, action, outcome, kind, id: recordedId, new_id: newId, name }) => {
    if (action !== 'create' || outcome !== 'applied') return [];
    const id = newId ?? recordedId;
    const own = [reasons.get(kind), ...keyTexts(assigned.get(n) ?? [], rows.get(n), kind, id)].filter(
      (each) => each !== undefined,
    );
    return own.length === 0 ? [] : [{ n, kind, id, name, reason: own.join('; ') }];
  });
}

/** What to do for clients that use the recorded keys. */
function keyTexts(
  keys: readonly string[],
  row: RestoreStepRow | undefined,
  kind: Kind,
  id: string,
): string[] {
  const missing = row?.errorCode === null ? (row.error?.split(', ') ?? []) : [];
  const given = keys.filter((key) => !missing.includes(key)).join(', ');
  const unread = row?.verified === null ? ', if it has any' : '';
  return [
    ...(given === ''
      ? []
      : [
          `give the new ${given}${unread} to every client that uses the recorded one (\`tidemark sync\`, then \`tidemark show ${kind} ${shellWord(id)} --show-secrets\`)`,
        ]),
    ...(missing.length === 0
      ? []
      : [
          `the service returned no ${missing.join(', ')} for it: if a client uses the recorded one, create a new one in the service and give it to that client`,
        ]),
  ];
}

/**
 * The number of steps of a restore whose result somebody should check. None while it runs, or if it was abandoned, because whoever did
 * that has seen them; once it is undone, only those without an answer, which an undo leaves.
 */
export function stepsToCheck(mirror: Mirror, { restore, source, outcome }: RestoreRow): number {
  const { uncertain, unanswered } = mirror.restores.progress(restore);
  if (uncertain === 0 || outcome === 'running' || mirror.restores.abandonedBy(restore) !== null) return 0;
  const undo = undoOf(mirror, source, restore);
  const isUndone = undo !== undefined && mirror.restores.get(undo)?.outcome === 'complete';
  return isUndone ? unanswered : uncertain;
}

/** E.g. `2 to check`, for lists of restores (`restores show N` has the details); empty for none. */
export function toCheckText(mirror: Mirror, row: RestoreRow): string {
  const steps = stepsToCheck(mirror, row);
  return steps === 0 ? '' : `${formatInteger(steps)} to check`;
}

/** The report of a plan with nothing to send: no restore was started or journaled. */
interface UnsentReport extends Omit<RestoreReport, 'restore' | 'by'> {
  readonly restore: null;
}

/**
 * The report of a plan without steps, or whose steps are all blocked or manual.
 * @param at when it was planned, ISO 8601
 */
export function unsentReport(plan: Plan, source: string, undoes: number | null, at: string): UnsentReport {
  const steps = plan.steps.map(({ n, action, kind, scope, id, name, reason, needs }): StepReport => ({
    ...{ n, action, kind, scope, id, name },
    outcome: action === 'manual' ? 'manual' : 'blocked',
    ...{ status: null, new_id: null, verified: null, differences: [], error: null, reason },
    ...(needs.length === 0 ? {} : { needs }),
  }));
  return {
    schema: 'tidemark.restore/1',
    restore: null,
    source,
    plan: plan.hash,
    undoes,
    outcome: planExitCode(plan) === EXIT.done ? 'complete' : 'partial',
    started_at: at,
    finished_at: at,
    steps,
    summary: summaryOf(steps),
    ...(plan.skipped === undefined ? {} : { skipped: plan.skipped }),
    ...(plan.left.length === 0 ? {} : { left: plan.left }),
  };
}

/** The report of a resumed restore, with the steps applied this time counted separately. */
export function resumedReport(report: RestoreReport, doneBefore: ReadonlySet<number>): RestoreReport {
  return { ...report, this_time: summaryOf(report.steps.filter(({ n }) => !doneBefore.has(n))) };
}

/**
 * The last restore that undid something of a restore and is still in effect; undefined if there is none. One applied step is enough,
 * whatever the outcome of that undo. An undo that sent nothing, or was undone itself, does not count. While the result of a request is
 * unknown, any undo counts that applied or sent something.
 */
export function undoOf(mirror: Mirror, source: string, restore: number): number | undefined {
  const undoes = mirror.restores.list({ source }).filter((row) => row.undoes === restore);
  const applying = undoes.find((row) => mirror.restores.steps(row.restore).some(mayHaveActed));
  const row = mirror.restores.get(restore);
  if (applying === undefined || row === undefined) return undefined;
  try {
    const chain = undoChain(mirror, row);
    const by = appliedSteps(mirror, restore).steps.map((step) => chain.takenBackBy(step) ?? 0);
    const last = Math.max(0, ...by);
    return last === 0 ? undefined : last;
  } catch (error) {
    // A result is unknown, or another program altered the rows.
    if (error instanceof TidemarkError && ['usage', 'mirror_corrupt'].includes(error.code))
      return applying.restore;
    throw error;
  }
}

/** True for a step that was skipped because live already was as desired. */
export function isAlreadyApplied({ outcome, errorCode }: RestoreStepRow): boolean {
  return outcome === 'skipped' && errorCode === ('as_desired' satisfies StepErrorCode);
}

/** True for a step of which nothing is left to do: applied and verified, or skipped because live already was as desired. */
export function isDoneStep(row: RestoreStepRow): boolean {
  return (row.outcome === 'applied' && row.verified === true) || isAlreadyApplied(row);
}

/** True for a step that was applied, or sent without an answer. */
export function mayHaveActed({ outcome }: RestoreStepRow): boolean {
  return outcome === 'applied' || outcome === 'sent';
}

/** True for a step that has not ended: not begun, without an answer, or applied and not read back. */
export function isUnendedStep({ outcome, verified }: RestoreStepRow): boolean {
  return outcome === 'planned' || outcome === 'sent' || (outcome === 'applied' && verified === null);
}

/** A step's report from the journal. */
function stepReport(step: PlanStep, row: RestoreStepRow, newIdOf: (n: number) => string | null): StepReport {
  const { outcome, status, verified, differences, errorCode, error } = row;
  const newId = newIdOf(row.n);
  const { n, action, kind, id, name } = step;
  const isUnsent = outcome === 'blocked' || outcome === 'manual';
  const isWarning = errorCode === PERHAPS_SENT || hasOwnText(errorCode);
  const code = isWarning ? null : (errorCode as StepErrorCode | null);
  const hint = code !== null && outcome === 'failed' ? hintFor(code) : undefined;
  const failure = code === null ? null : { code, message: error ?? code, ...defined({ hint }) };
  return {
    ...{ n, action, kind, scope: scopeOf(step, newIdOf), id, name, outcome, status },
    new_id: newId,
    ...(newId === null || step.request === null || step.request.kind === step.kind
      ? {}
      : { new_kind: step.request.kind }),
    verified,
    differences,
    error: failure,
    ...warningOf(step, row),
    // The journal may have a newer reason, from when the record was created.
    reason: isUnsent ? (error ?? step.reason) : null,
    ...(isUnsent && step.needs.length > 0 ? { needs: step.needs } : {}),
    ...(isUnsent ? {} : noteOf(step, verified)),
  };
}

/**
 * The warning for a creation whose record exists twice or is in another place, and for one that was sent again after requests with an
 * unknown result (after a 500 the result is known: not executed): the service may have executed one of them after the look-up, and a
 * record without a name can only be recognized by its content.
 */
function warningOf(
  { kind, precondition, request }: PlanStep,
  { outcome, attempts, errorCode, error }: RestoreStepRow,
): Pick<StepReport, 'warning'> {
  if (hasOwnText(errorCode) && error !== null) return { warning: error };
  const isNameless = precondition?.state === 'absent' && precondition.digest === null;
  if (outcome !== 'applied' || attempts < 2 || request?.role !== 'create') return {};
  const why =
    errorCode === PERHAPS_SENT
      ? 'sent by --resume, as it was not found; the process that ended may have sent it too'
      : 'sent again, as an earlier request had no answer that says whether it was done';
  if (isNameless)
    return { warning: `${why}, and it has no name to find it by: check whether it exists twice now` };
  const renamed = isRenamable(definitionOf(kind))
    ? ', also under another name: somebody may have renamed the first one'
    : '';
  return {
    warning: `${why}, and the service may do that late: check after a while whether it exists twice${renamed}`,
  };
}

/** The plan's note, without the part about the place of the record if it was read back, since that is known then. */
function noteOf({ kind, reason }: PlanStep, verified: boolean | null): Pick<StepReport, 'note'> {
  const known = verified === null ? null : placeChoice(definitionOf(kind));
  const note = reason?.split('; ').filter((each) => each !== known);
  return note === undefined || note.length === 0 ? {} : { note: note.join('; ') };
}

/** True for a warning whose text is in the journal. */
function hasOwnText(errorCode: string | null): boolean {
  return errorCode === CREATED_TWICE || errorCode === ELSEWHERE;
}

/** With the new ids of parents that this restore created. */
function scopeOf({ scope, request }: PlanStep, newIdOf: (n: number) => string | null): Scope {
  const changed: Record<string, string | undefined> = { ...scope };
  for (const parameter of request?.parameters ?? []) {
    if (!('step' in parameter) || !Object.hasOwn(scope, parameter.name)) continue;
    changed[parameter.name] = newIdOf(parameter.step) ?? changed[parameter.name];
  }
  return changed;
}

function summaryOf(
  steps: readonly Pick<StepReport, 'outcome' | 'verified' | 'status'>[],
): RestoreReport['summary'] {
  const count = (...outcomes: StepReport['outcome'][]): number =>
    steps.filter(({ outcome }) => outcomes.includes(outcome)).length;
  const found = steps.filter(
    ({ outcome, status }) => outcome === 'applied' && (status === null || status >= 300),
  ).length;
  return {
    applied: count('applied'),
    unverified: steps.filter(({ outcome, verified }) => outcome === 'applied' && verified !== true).length,
    ...(found === 0 ? {} : { found_done: found }),
    failed: count('failed'),
    skipped: count('skipped'),
    blocked: count('blocked'),
    manual: count('manual'),
    open: count('planned', 'sent'),
  };
}

const NEW_PLAN = '`tidemark restore` makes a new plan';

const LATER = 'the service has problems: try again later';

const HINTS: Readonly<Partial<Record<StepErrorCode, string>>> = {
  moved: `somebody changed it meanwhile: look with \`tidemark diff latest live\`, then ${NEW_PLAN}`,
  rejected: `correct what it complains of, in the service or in an edited export (file:PATH); then ${NEW_PLAN}`,
  not_found: `the record, or its parent, does not exist any more: ${NEW_PLAN}`,
  reference_unknown: NEW_PLAN,
  forbidden: 'give the key the permission, or leave the kind out with --kind',
  unauthorized: 'check apiKey or apiKeyFile of the source: nothing else can be sent either',
  throttled: 'set rate.perMinute or rate.perHour to less than the service allows, or try again later',
  server_error: LATER,
  timeout: LATER,
  unreachable: LATER,
  unresponsive: LATER,
  retry_budget: LATER,
};

/** The hint for a failed step, since the journal stores none; undefined if the message is enough. */
export function hintFor(code: StepErrorCode): string | undefined {
  return HINTS[code];
}
