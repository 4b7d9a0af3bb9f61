/** Looks up what the unanswered requests of a restore did before it is undone, like a resumed restore, but without sending anything. */
import { isoTime } from '../../core/clock.ts';
import { eachConcurrently } from '../../core/concurrently.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { IdMapping } from '../../mirror/id-map.ts';
import type { JournalEntry } from '../../mirror/restore-store.ts';
import type { RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
import { type LookUpOptions, NO_EVENTS, lookUpContext, outcomeOf } from '../apply/apply.ts';
import { holdsUnsent } from '../apply/differences.ts';
import { type JournalStore, RestoreJournal } from '../apply/journal.ts';
import { SERVICE_EXECUTION_MS, CLOCKS_DIFFER_MS, CREATED_AT, effectOf } from '../apply/lost-response.ts';
import { idSuffix, oneOf, plannedDigest } from '../apply/precondition.ts';
import {
  differencesFromLeft,
  readBack,
  recordApplied,
  reportDuplicate,
  rethrowLocalError,
} from '../apply/read-back.ts';
import { type LookUpContext, type ReadyStep, readyStep } from '../apply/ready-step.ts';
import { errorColumns, isUnendedStep, mayHaveActed } from '../apply/report.ts';
import type { Inverse, PlanStep } from '../plan/plan.ts';
import { managedDigest } from '../records.ts';
import { chainOf, isAnswered, type RestoreRows } from './applied.ts';
import { beforeStep } from './state.ts';
import { FOUND_BY_LOOK_UP } from './undo.ts';

/** The restores from which an undo of `row` is planned: itself, its undos and theirs, oldest first. */
export function chainRows(rows: RestoreRows, row: RestoreRow): RestoreRow[] {
  return [...chainOf(rows, row).keys()].flatMap((restore) => rows.restores.get(restore) ?? []);
}

interface OpenSteps {
  /** Numbers of the steps that were sent without an answer. */
  readonly unanswered: ReadonlySet<number>;
  /** Numbers of the steps that were applied and not read back, such as those before a kill. */
  readonly unread: ReadonlySet<number>;
}

/** The steps of a restore that can be looked up. */
export function openSteps({ restores }: Pick<RestoreRows, 'restores'>, restore: number): OpenSteps {
  const rows = restores.steps(restore);
  const numbers = (isOpen: (row: RestoreStepRow) => boolean): ReadonlySet<number> =>
    new Set(rows.filter(isOpen).map(({ n }) => n));
  return {
    unanswered: numbers(({ outcome }) => outcome === 'sent'),
    unread: numbers(
      ({ outcome, verified, digest }) => outcome === 'applied' && verified === null && digest === null,
    ),
  };
}

type Restores = Mirror['restores'];

/** A mirror's restores with the results of look-ups, which only `record` writes to the mirror. */
export class LookedUpRestores implements JournalStore {
  readonly #stored: Restores;
  readonly #steps = new Map<number, Map<number, RestoreStepRow>>();
  readonly #entries = new Map<number, JournalEntry[]>();
  readonly #mappings: IdMapping[] = [];

  constructor(stored: Restores) {
    this.#stored = stored;
  }

  readonly get: Restores['get'] = (restore) => this.#stored.get(restore);
  readonly backupSince: Restores['backupSince'] = (restore) => this.#stored.backupSince(restore);
  readonly list: Restores['list'] = (filter) => this.#stored.list(filter);
  readonly begins: Restores['begins'] = (source) => this.#stored.begins(source);
  readonly creations: Restores['creations'] = (...asked) => this.#stored.creations(...asked);

  steps(restore: number): RestoreStepRow[] {
    const found = this.#steps.get(restore);
    return this.#stored.steps(restore).map((row) => found?.get(row.n) ?? row);
  }

  /** Oldest first. */
  idMap(source: string): IdMapping[] {
    const found = this.#mappings.filter((each) => each.source === source);
    return [...this.#stored.idMap(source), ...found].sort((a, b) => a.restore - b.restore);
  }

  journal(entries: readonly JournalEntry[]): void {
    for (const entry of entries) {
      const { row, mappings = [] } = entry;
      this.#entries.set(row.restore, [...(this.#entries.get(row.restore) ?? []), entry]);
      const known = this.#steps.get(row.restore) ?? new Map<number, RestoreStepRow>();
      this.#steps.set(row.restore, known.set(row.n, row));
      this.#mappings.push(...mappings);
    }
  }

  settled(): Promise<void> {
    return Promise.resolve();
  }

  finish(): never {
    throw new Error('a look-up does not end a restore');
  }

  /** Writes the results for a restore to the mirror, if there are any. */
  record(restore: number, outcome: Parameters<Restores['recordLookUp']>[1]): void {
    const entries = this.#entries.get(restore);
    if (entries !== undefined) this.#stored.recordLookUp(restore, outcome, entries);
  }
}

interface AnswerOptions extends Omit<LookUpOptions, 'events' | 'restore' | 'mirror'> {
  readonly row: RestoreRow;
  readonly restores: LookedUpRestores;
  readonly acceptances: Mirror['acceptances'];
  /** Steps looked up at a time; the client's own limits apply too. */
  readonly concurrency: number;
  /** Ends the look-ups. */
  readonly signal: AbortSignal;
  /** Called after each step that was looked up, or read back. */
  readonly stepEnded?: () => void;
}

/** The results of the look-ups of a restore. */
export interface Answers {
  /** The outcome of the restore according to them. */
  readonly outcome: Exclude<RestoreRow['outcome'], 'running'>;
  readonly done: number;
  readonly notDone: number;
  /** Creations in records that were removed since: whether they had an effect no longer matters. */
  readonly gone: number;
  /** Steps that were known as applied, and were read back now. */
  readonly readBack: number;
  /** Notes about steps whose result is known. */
  readonly notes: readonly StepNote[];
  /** Steps whose result is still unknown. */
  readonly unknown: readonly StepNote[];
}

interface StepNote {
  readonly step: PlanStep;
  readonly message: string;
}

/**
 * Looks up the unanswered steps of `row`, reads back those that were not, and journals the results in `restores`, like a resumed
 * restore, but more cautiously, because an undo removes and overwrites:
 * - A record that somebody else may have created since does not count as the restore's, and one that another restore created is
 *   ignored.
 * - If the value of an unanswered change is there, somebody else may have set it: the step counts as applied, but not as read back.
 * - A record in which anything else may have changed does not count as read back either.
 *
 * The undo treats records that were not read back as changed since.
 * @throws TidemarkError `interrupted`, and errors of this machine; errors of the service are in the result
 */
export async function lookUpAnswers(options: AnswerOptions): Promise<Answers> {
  const { row, plan, restores, acceptances, clock, concurrency, signal } = options;
  const journal = new RestoreJournal(restores, clock, row.restore);
  const context = lookUpContext(
    {
      ...{ ...options, mirror: { acceptances, restores }, events: NO_EVENTS, restore: row.restore },
      leavesOthers: true,
    },
    journal,
    { halt: signal, grace: signal },
  );
  const ends = { done: 0, not_done: 0, gone: 0, read_back: 0, unread: 0, moved: 0, unknown: 0 };
  const notes: StepNote[] = [];
  const unknown: StepNote[] = [];
  const lookUpStep = async (step: PlanStep): Promise<void> => {
    const { end, message } = await answerOf(context, step);
    if (signal.aborted) throw new TidemarkError('interrupted', 'interrupted; nothing was sent');
    ends[end] += 1;
    options.stepEnded?.();
    if (message !== null) (end === 'unknown' ? unknown : notes).push({ step, message });
  };
  const { unanswered, unread } = openSteps({ restores }, row.restore);
  const open = plan.steps.filter(({ n }) => unanswered.has(n) || unread.has(n));
  const levels = Map.groupBy(open, ({ level }) => level);
  // By level, because a record in a created one is looked up under the id of that one.
  for (const level of [...levels.keys()].sort((a, b) => a - b)) {
    await eachConcurrently(levels.get(level) ?? [], concurrency, lookUpStep);
    await journal.settled();
  }
  const { done, not_done: notDone, gone, read_back: readBack } = ends;
  return { done, notDone, gone, readBack, notes, unknown, outcome: outcomeAfter(row, options, journal) };
}

/** With unended steps, a restore stays interrupted; if it was abandoned, it ends as if that happened now. */
function outcomeAfter(
  row: RestoreRow,
  { plan }: Pick<AnswerOptions, 'plan'>,
  journal: RestoreJournal,
): Answers['outcome'] {
  const rows = journal.rows();
  if (!rows.some(isUnendedStep)) return outcomeOf(plan, journal, false);
  if (row.outcome === 'interrupted' || row.outcome === 'running') return 'interrupted';
  return rows.some(mayHaveActed) ? 'partial' : 'failed';
}

interface Answer {
  readonly end: 'done' | 'not_done' | 'gone' | 'read_back' | 'unread' | 'moved' | 'unknown';
  readonly message: string | null;
}

async function answerOf(context: LookUpContext, step: PlanStep): Promise<Answer> {
  const { journal, signal } = context;
  if (step.request === null) throw new Error(`step ${step.n} has no request`);
  const { status, attempts, outcome } = journal.row(step.n);
  try {
    const ready = readyStep(context, step, step.request);
    if (outcome === 'applied')
      return { end: (await readBackAsSent(context, ready)) ? 'read_back' : 'unread', message: null };
    const looked = await effectOf(context, ready, null);
    if (looked === null) return { end: 'unknown', message: null };
    if (looked.found === 'not_done') {
      journal.note(step.n, { outcome: 'planned' });
      return { end: 'not_done', message: null };
    }
    if (looked.found === 'unproven') return { end: 'unknown', message: looked.error.message };
    if (looked.found === 'neither') {
      const { error } = looked;
      journal.end(step.n, { outcome: 'failed', status, ...errorColumns(error) });
      if (error.code === 'not_found') return { end: 'gone', message: null };
      return { end: 'moved', message: `${error.message}: it is not changed` };
    }
    const doubt = looked.id === null ? null : await doubtOf(context, ready, looked.id);
    if (doubt !== null) return { end: 'unknown', message: doubt };
    // A success status would mean that the service confirmed the request: that response was not about the record.
    await recordApplied(context, ready, looked.id, isAnswered(status) ? null : status);
    const isRead = await readBackAsSent(context, ready);
    if (looked.id !== null && attempts > 1) await reportDuplicate(context, ready, looked.id);
    const { errorCode, error } = journal.row(step.n);
    if (errorCode === 'rejected') return { end: 'done', message: error };
    if (looked.id !== null)
      return { end: 'done', message: `${FOUND_BY_LOOK_UP}${idSuffix(ready.definition, looked.id)}` };
    return { end: 'done', message: isRead ? null : PERHAPS_OTHERS };
  } catch (error) {
    if (signal.aborted) return { end: 'unknown', message: null };
    const { message } = rethrowLocalError(error);
    // The undo leaves it as it is, since it may have been changed.
    if (outcome === 'applied') return { end: 'unread', message: null };
    return { end: 'unknown', message: `its answer was lost, and it could not be looked up: ${message}` };
  }
}

const PERHAPS_OTHERS =
  'no answer came, and somebody else may have set what the record holds now: it is undone only with --force-changed';

/** Reads the record back if it is as the step left it; returns whether it is. @throws TidemarkError when that cannot be found out */
async function readBackAsSent(context: LookUpContext, ready: ReadyStep): Promise<boolean> {
  const { step, definition, scope } = ready;
  const id = ready.id ?? context.journal.row(step.n).newId;
  if (id === null) return false;
  const body = await context.live.read(definition, scope, id, true, context.signal);
  if (!isAsLeft(context, ready, body)) return false;
  await readBack(context, ready);
  return true;
}

/** True if the managed fields of the record are as the step left them. */
function isAsLeft(context: LookUpContext, ready: ReadyStep, body: JsonValue | undefined): boolean {
  const { step, definition, request, sent } = ready;
  // If it exists again, somebody else created it.
  if (request.role === 'remove') return body === undefined;
  if (body === undefined || differencesFromLeft(context, ready, body).length > 0) return false;
  if (request.role === 'create') return holdsUnsent(definition, step, sent ?? {}, body);
  const { status, inverse } = context.journal.row(step.n);
  const before = plannedDigest(context, step);
  if (!isAnswered(status) || before === null || inverse === null) return false;
  const taken = inverse as unknown as Inverse;
  if (taken.action !== 'update' && taken.action !== 'act') return false;
  return managedDigest(definition, beforeStep(definition, { body }, taken)) === before;
}

/**
 * Why the record that was found may not be the one that the step created; null if it was created at about the time of the request.
 * Later, a person who missed the record may have created it by hand.
 * @throws TidemarkError when that cannot be found out
 */
async function doubtOf(context: LookUpContext, ready: ReadyStep, id: string): Promise<string | null> {
  const { step, definition, scope } = ready;
  const body = await context.live.read(definition, scope, id, true, context.signal);
  const found = `there is ${oneOf(definition)} of that name${idSuffix(definition, id)}`;
  const whose = 'the restore or somebody else may have created it';
  if (body === undefined) return `${found}, which was removed meanwhile`;
  const [difference] = differencesFromLeft(context, ready, body);
  if (difference !== undefined)
    return `${found}, but ${difference.path} is not as the restore sent it: ${whose}`;
  const { sentAt } = context.journal.row(step.n);
  const value = resolvePointer(body, definition.createdAt ?? CREATED_AT);
  const shown = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  // If the record does not show the time, the latest possible one is now.
  const createdAt = Number.isNaN(shown) ? context.clock.now() : shown;
  const lateMs = createdAt - Date.parse(sentAt ?? '');
  if (lateMs >= -CLOCKS_DIFFER_MS && lateMs <= SERVICE_EXECUTION_MS + CLOCKS_DIFFER_MS) return null;
  const when = Number.isNaN(shown)
    ? 'it does not show when it was created'
    : `it was created at ${isoTime(createdAt)}`;
  return `${found}, but ${when}, and the request was sent at ${sentAt ?? 'an unknown time'}: ${whose}`;
}
