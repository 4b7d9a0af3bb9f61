/**
 * What the requests without an answer did, of a restore that is to be undone: looked up as a resumed restore does it, and
 * nothing is sent.
 */
import { isoTime } from '../../core/clock.ts';
import { eachConcurrently } from '../../core/concurrently.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { IdMapping } from '../../mirror/id-map.ts';
import type { JournalEntry, RestoreRow, RestoreStepRow } from '../../mirror/restores.ts';
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

/** The restores that an undo of `row` is planned from: it, its undos and theirs, oldest first. */
export function chainRows(rows: RestoreRows, row: RestoreRow): RestoreRow[] {
  return [...chainOf(rows, row).keys()].flatMap((restore) => rows.restores.get(restore) ?? []);
}

interface OpenSteps {
  /** Numbers of the steps that were sent without an answer. */
  readonly unanswered: ReadonlySet<number>;
  /** Of those that were applied and not read back: a kill loses the latest of what was read back. */
  readonly unread: ReadonlySet<number>;
}

/** The steps of a restore of which more can be found out. */
export function openSteps({ restores }: Pick<RestoreRows, 'restores'>, restore: number): OpenSteps {
  const rows = restores.steps(restore);
  const numbers = (isMeant: (row: RestoreStepRow) => boolean): ReadonlySet<number> =>
    new Set(rows.filter(isMeant).map(({ n }) => n));
  return { unanswered: numbers(isUnanswered), unread: numbers(isUnread) };
}

const isUnanswered = ({ outcome }: RestoreStepRow): boolean => outcome === 'sent';

function isUnread({ outcome, verified, digest }: RestoreStepRow): boolean {
  return outcome === 'applied' && verified === null && digest === null;
}

type Restores = Mirror['restores'];

/** A mirror's restores with what was looked up since, which only `record` writes to the mirror. */
export class LookedUpRestores implements JournalStore {
  readonly #stored: Restores;
  readonly #steps = new Map<number, Map<number, RestoreStepRow>>();
  readonly #entries = new Map<number, JournalEntry[]>();
  readonly #mappings: IdMapping[] = [];

  constructor(stored: Restores) {
    this.#stored = stored;
  }

  get(restore: number): RestoreRow | undefined {
    return this.#stored.get(restore);
  }

  backupSince(restore: number): string | null {
    return this.#stored.backupSince(restore);
  }

  list(...filter: Parameters<Restores['list']>): RestoreRow[] {
    return this.#stored.list(...filter);
  }

  steps(restore: number): RestoreStepRow[] {
    const found = this.#steps.get(restore);
    return this.#stored.steps(restore).map((row) => found?.get(row.n) ?? row);
  }

  begins(source: string): ReturnType<Restores['begins']> {
    return this.#stored.begins(source);
  }

  creations(...asked: Parameters<Restores['creations']>): ReturnType<Restores['creations']> {
    return this.#stored.creations(...asked);
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

  /** Writes what was found out about a restore to the mirror; nothing where nothing was. */
  record(restore: number, outcome: Parameters<Restores['recordLookUp']>[1]): void {
    const entries = this.#entries.get(restore);
    if (entries !== undefined) this.#stored.recordLookUp(restore, outcome, entries);
  }
}

interface AnswerOptions extends Omit<LookUpOptions, 'events' | 'restore' | 'mirror'> {
  readonly row: RestoreRow;
  readonly restores: LookedUpRestores;
  readonly acceptances: Mirror['acceptances'];
  /** Steps looked up at a time; the client's own limits apply besides. */
  readonly concurrency: number;
  /** Ends the look-ups. */
  readonly signal: AbortSignal;
  /** Called after each step that was looked up, or read back. */
  readonly stepEnded?: () => void;
}

/** What the look-ups of a restore showed. */
export interface Answers {
  /** How the restore ends with it. */
  readonly outcome: Exclude<RestoreRow['outcome'], 'running'>;
  readonly done: number;
  readonly notDone: number;
  /** Creations in records that were removed since: whether they had an effect does not matter any more. */
  readonly gone: number;
  /** Steps that were known as applied, and are read back now. */
  readonly readBack: number;
  /** What a person should know of steps whose end is known. */
  readonly remarks: readonly StepNote[];
  /** Steps of which it could not be found out. */
  readonly unknown: readonly StepNote[];
}

interface StepNote {
  readonly step: PlanStep;
  readonly message: string;
}

/**
 * Looks up the steps of `row` without an answer, reads back what was not, and journals what it finds in `restores`, as a resumed
 * restore does. More cautious than that, since undoing removes and overwrites:
 * - A record that may have been created by somebody else since does not count as the restore's, and one that another restore
 *   created is not looked at.
 * - A change without an answer whose value is there may have been made by somebody else: the step counts as applied, and not
 *   as read back.
 * - A record in which anything but what the restore did may have changed does not count as read back either.
 *
 * What was not read back, the undo takes for changed since.
 * @throws TidemarkError `interrupted`, and errors of this machine; those of the service are in the result
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
  const result = {
    done: 0,
    notDone: 0,
    gone: 0,
    readBack: 0,
    remarks: [] as StepNote[],
    unknown: [] as StepNote[],
  };
  const lookUpStep = async (step: PlanStep): Promise<void> => {
    const found = await answerOf(context, step);
    if (signal.aborted) throw new TidemarkError('interrupted', 'interrupted; nothing was sent');
    if (found.end === 'done') result.done += 1;
    else if (found.end === 'not_done') result.notDone += 1;
    else if (found.end === 'gone') result.gone += 1;
    else if (found.end === 'read_back') result.readBack += 1;
    options.stepEnded?.();
    const { message } = found;
    if (message !== null) result[found.end === 'unknown' ? 'unknown' : 'remarks'].push({ step, message });
  };
  const { unanswered, unread } = openSteps({ restores }, row.restore);
  const open = plan.steps.filter(({ n }) => unanswered.has(n) || unread.has(n));
  const levels = Map.groupBy(open, ({ level }) => level);
  // What is in a record that was created is looked up under the id of that one.
  for (const level of [...levels.keys()].sort((a, b) => a - b)) {
    await eachConcurrently(levels.get(level) ?? [], concurrency, lookUpStep);
    await journal.settled();
  }
  return { ...result, outcome: outcomeAfter(row, options, journal) };
}

/** A restore that nobody abandoned stays unfinished while it is; one that was ends as if it were abandoned now. */
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
    // Without the status of an answer that was not about the record: it would mean that the service had executed the request.
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
    // The undo leaves it, as one that may have been changed since.
    if (outcome === 'applied') return { end: 'unread', message: null };
    return { end: 'unknown', message: `its answer was lost, and it could not be looked up: ${message}` };
  }
}

const PERHAPS_OTHERS =
  'no answer came, and somebody else may have set what the record holds now: it is undone only with --force-changed';

/** False where the record may not be as the step left it. @throws TidemarkError when that cannot be found out */
async function readBackAsSent(context: LookUpContext, ready: ReadyStep): Promise<boolean> {
  const { step, definition, scope } = ready;
  const id = ready.id ?? context.journal.row(step.n).newId;
  if (id === null) return false;
  const body = await context.live.read(definition, scope, id, true, context.signal);
  if (!isAsLeft(context, ready, body)) return false;
  await readBack(context, ready);
  return true;
}

/** True for a record in which nothing differs from what the step made of it, as far as its managed fields show. */
function isAsLeft(context: LookUpContext, ready: ReadyStep, body: JsonValue | undefined): boolean {
  const { step, definition, request, sent } = ready;
  // Somebody else created again what is there again.
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
 * Why the record that was found may not be the one that the step created; null where it was created about when the request was
 * sent. Since then, a person who missed the record may have created it by hand.
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
  // Where it does not show that, it was created by now at the latest.
  const createdAt = Number.isNaN(shown) ? context.clock.now() : shown;
  const lateMs = createdAt - Date.parse(sentAt ?? '');
  if (lateMs >= -CLOCKS_DIFFER_MS && lateMs <= SERVICE_EXECUTION_MS + CLOCKS_DIFFER_MS) return null;
  const when = Number.isNaN(shown)
    ? 'it does not show when it was created'
    : `it was created at ${isoTime(createdAt)}`;
  return `${found}, but ${when}, and the request was sent at ${sentAt ?? 'an unknown time'}: ${whose}`;
}
