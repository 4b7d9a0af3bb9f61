/**
 * Decides on records that a proved walk did not show. Only this module decides that a record is removed from the mirror
 * (design.md, The sync: Absence; invariant 1).
 */
import type { WalkVerdict } from '../api/walk-verdict.ts';
import type { Scope } from '../catalog/definition.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { withSource } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { AbsentCounts, AbsentShare } from '../mirror/absence.ts';
import type { CollectionStage } from '../mirror/collection-stage.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import type { SweepContext } from './options.ts';
import {
  confirmationCutoff,
  heldUntil,
  heldUntilText,
  isTooMany,
  reviewCommands,
  MOVED_HINT,
  type MovedAddress,
  movedText,
  removalLimit,
  secondOf,
  uncreatableKinds,
} from './removals.ts';
import { type Reader, retrieveEach } from './retrieve.ts';

/** Earlier than all times. */
const NEVER = '';
/** How many ids are held in memory at a time. */
const BATCH = 1000;
/** How many records are fetched by id before many are held: enough to detect a list that omits rows or is empty. */
export const SAMPLE = 10;
const LEAK_HINT =
  "the service's list leaves out records that exist: check in what order it lists them; the next run reads it again";

/** How to prove that a record is gone that a complete list did not show. */
export function proofOfAbsence(
  definition: ResourceDefinition,
  isOnePage: boolean,
): 'retrieve' | 'one page' | 'second walk' {
  if (definition.operation('retrieve') !== undefined) return 'retrieve';
  return isOnePage ? 'one page' : 'second walk';
}

/** Called with the result of requesting an absent record by its id. */
interface AbsentAnswers {
  /** The record exists, so the list omits rows. `text`: as received. */
  readonly exists: (id: string, text: string) => void;
  /** The service has no such record. */
  readonly isGone?: (id: string) => void;
  /** The request failed, so nothing is known of the record. */
  readonly isUnknown?: (id: string) => void;
}

/** How many absent records had each result. */
interface AbsentTally {
  readonly gone: number;
  readonly leaked: number;
  readonly unknown: number;
  /** The error of the first failed request. */
  readonly error: TidemarkError | null;
}

/**
 * Requests records that a complete list did not show by their ids, for a sync or a live state. Logs in one line how
 * many exist, since they show that the list omits rows.
 */
export async function confirmAbsent(
  reader: Reader & Pick<SweepContext, 'log'>,
  target: { readonly definition: ResourceDefinition; readonly scope: Scope },
  ids: Iterable<string> | AsyncIterable<string>,
  answers: AbsentAnswers,
): Promise<AbsentTally> {
  const { definition, scope } = target;
  const tally = { gone: 0, leaked: 0, unknown: 0, error: null as TidemarkError | null };
  /** The first few, for the log. */
  const leakedIds: string[] = [];
  const ask = (batch: readonly string[]): Promise<void> =>
    retrieveEach(reader, {
      ...{ definition, scope, ids: batch },
      answered: (id, text) => {
        if (text === null) {
          tally.gone += 1;
          answers.isGone?.(id);
          return;
        }
        tally.leaked += 1;
        if (leakedIds.length < SAMPLE) leakedIds.push(id);
        answers.exists(id, text);
      },
      failed: (id, error) => {
        tally.unknown += 1;
        tally.error ??= error;
        answers.isUnknown?.(id);
      },
    });
  // In batches, because the absent records may be read from the connection to which the results are written.
  let batch: string[] = [];
  for await (const id of ids) {
    batch.push(id);
    if (batch.length < BATCH) continue;
    await ask(batch);
    batch = [];
  }
  await ask(batch);
  if (tally.leaked > 0) {
    // Only `info`, because the collection has an error about it.
    reader.log.info(
      { kind: definition.kind, scope, records: tally.leaked, ids: leakedIds },
      'a list that was read completely did not show records that exist: they are kept',
    );
  }
  return tally;
}

/** What was decided on the records that a walk did not show. */
export interface AbsenceResult {
  readonly outcome: SweepOutcome;
  readonly removed: number;
  readonly held: number;
  readonly leaked: number;
  readonly error: TidemarkError | null;
}

/** A collection whose walk was complete. */
interface Walked {
  readonly context: SweepContext;
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  readonly stage: CollectionStage;
  readonly proof: ReturnType<typeof proofOfAbsence>;
}

/**
 * Decides on the absent records of a collection whose walk was complete. If too many are absent, SAMPLE of them are
 * fetched by id: if one exists, the list is unreliable; otherwise their removal is held. Removals that an earlier run
 * held stay held until their wait is over, even if fewer are absent now or the list has grown. All others are confirmed
 * one by one (`proofOfAbsence`).
 */
export async function resolveAbsences(
  walked: Walked,
  walkAgain: () => Promise<WalkVerdict>,
): Promise<AbsenceResult> {
  const { context, definition, stage, proof } = walked;
  const { limits } = context;
  const none: AbsenceResult = { outcome: 'complete', removed: 0, held: 0, leaked: 0, error: null };
  const isBelowOther = context.isOther();
  const moved = isBelowOther || definition.discovery.from === 'root' ? context.moved : null;
  // At another address every later run has the same result, so waiting confirms nothing.
  const heldBy = moved === null ? confirmationCutoff(limits, context.clock.now()) : NEVER;
  let counts = await stage.countAbsent(heldBy);
  if (counts.absent === 0) return none;

  if (proof === 'second walk') {
    const second = await walkAgain();
    context.signal.throwIfAborted();
    if (second.outcome !== 'complete') {
      const message = `${plural(counts.absent, 'record')} ${counts.absent === 1 ? 'is' : 'are'} missing from the list, and a second listing could not confirm that`;
      const hint = 'nothing was removed; the next run looks again';
      return { ...none, ...unproven(message, hint, second.error) };
    }
    counts = await stage.countAbsent(heldBy);
    if (counts.absent === 0) return none;
  }

  const waiting: AbsentShare = { which: 'waiting', heldBy };
  const waitingCount = counts.absent - counts.confirmed;
  // Records that a restore recreated under another id or removed are not lost. Those that it removed make the
  // collection smaller.
  const lost = counts.absent - counts.replaced - counts.taken;
  const known = stage.known - counts.taken;
  const dependents = waitingCount === 0 ? 0 : await countBelow(walked, waiting);
  // Removing an organization also removes its children, so they count too.
  const removesTooManyChildren = dependents > removalLimit(limits, context.sourceRecords());
  const areTooMany =
    waitingCount > 0 && (isBelowOther || removesTooManyChildren || isTooMany(limits, known, lost));
  const hold: Hold = areTooMany
    ? { share: waiting, count: waitingCount, lost, below: dependents, areTooMany }
    : await earlierHold(walked, counts, heldBy);
  const { kind, family } = walked.definition;
  // The ids are needed because a component is in two lists and must count once.
  const ids = family === null || hold.count === 0 ? [] : await idsOf(stage.absent(hold.share));
  const removals = { kind, scope: walked.scope, accepted: hold.lost, below: hold.below, ids };
  if (hold.count === 0 || context.accepted.take(removals)) return await removeAbsent(walked);
  const isOther = moved !== null && (isBelowOther || lost >= known || counts.held > 0);
  if (isOther) context.foundOther();

  const sample = proof === 'retrieve' ? await retrieveSample(walked, hold) : null;
  if (sample !== null && sample.leaked > 0) {
    const { leaked } = sample;
    const requested = leaked + sample.gone + sample.unknown;
    const message = `the list did not show ${plural(hold.count, 'record')}, and ${leaked} of ${requested} asked for by id ${leaked === 1 ? 'exists' : 'exist'}: nothing was removed`;
    return { ...none, leaked, ...unproven(message, LEAK_HINT) };
  }
  // This run confirms the records that were first absent long enough ago. Only the others wait.
  const result = await removeAbsent(walked, { which: areTooMany ? 'confirmed' : 'not held', heldBy });
  const now = context.clock.now();
  const held = await stage.decideAbsent('hold', hold.share, isoTime(now));
  context.accepted.hold(removals);
  const error =
    result.error ?? heldError(walked, { known, counts, hold, now, moved: isOther ? moved : null });
  return { ...result, outcome: 'held', held, error };
}

async function idsOf(records: AsyncIterable<{ readonly id: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of records) ids.push(id);
  return ids;
}

/** The absent records whose removal is held. */
interface Hold {
  readonly share: AbsentShare;
  readonly count: number;
  /** How many removals a person accepts, not counting records below. */
  readonly lost: number;
  readonly below: number;
  /** False if only an earlier run held them and this one would not. */
  readonly areTooMany: boolean;
}

/** The removals that an earlier run held and whose wait is not over. */
async function earlierHold(walked: Walked, { held }: AbsentCounts, heldBy: string): Promise<Hold> {
  const share: AbsentShare = { which: 'held', heldBy };
  const below = held === 0 ? 0 : await countBelow(walked, share);
  return { share, count: held, lost: held, below, areTooMany: false };
}

function unproven(
  message: string,
  hint: string,
  cause?: TidemarkError | null,
): Pick<AbsenceResult, 'outcome' | 'error'> {
  const error = new TidemarkError('walk_unproven', message, { hint, cause: cause ?? undefined });
  return { outcome: 'incomplete', error };
}

/**
 * Retrieves some of the absent records, spread over all of them. If one exists, the list is not reliable, and nothing
 * is known about the others. A refusal proves nothing.
 */
async function retrieveSample(
  { context, definition, scope, stage }: Walked,
  { share, count }: Hold,
): Promise<AbsentTally> {
  const ids: string[] = [];
  const stride = Math.max(1, Math.floor(count / SAMPLE));
  let at = 0;
  for await (const { id } of stage.absent(share)) {
    if (at % stride === 0) ids.push(id);
    at += 1;
    if (ids.length === SAMPLE) break;
  }
  return await confirmAbsent(context, { definition, scope }, ids, {
    exists: (id) => stage.keep(id),
  });
}

/** How many records the mirror has below these, for kinds with children. There are few parents, so each is counted. */
async function countBelow({ context, stage }: Walked, share: AbsentShare): Promise<number> {
  if (scopeKeyNaming(stage.kind) === undefined) return 0;
  let sum = 0;
  for await (const { id } of stage.absent(share))
    sum += context.dependents({ kind: stage.kind, scope: stage.scope, id });
  return sum;
}

/** Removes all absent records or a share of them. If the kind has a retrieve, it first confirms each one. */
async function removeAbsent(walked: Walked, share?: AbsentShare): Promise<AbsenceResult> {
  const { context, stage, proof } = walked;
  if (proof === 'retrieve') return await confirmEach(walked, share);
  await reportRemoved(context, stage, share);
  const removed = await stage.decideAbsent('remove', share);
  return { outcome: 'complete', removed, held: 0, leaked: 0, error: null };
}

/** Reports removed records of kinds with children to the run. */
export async function reportRemoved(
  context: SweepContext,
  stage: CollectionStage,
  share?: AbsentShare,
): Promise<void> {
  if (scopeKeyNaming(stage.kind) === undefined) return;
  for await (const { id } of stage.absent(share))
    context.removed({ kind: stage.kind, scope: stage.scope, id });
}

async function confirmEach(
  { context, definition, scope, stage }: Walked,
  share: AbsentShare | undefined,
): Promise<AbsenceResult> {
  const absent = async function* (): AsyncGenerator<string> {
    for await (const { id } of stage.absent(share)) yield id;
  };
  const {
    gone: removed,
    leaked,
    unknown,
    error: firstError,
  } = await confirmAbsent(context, { definition, scope }, absent(), {
    // A record whose request failed gets no verdict: it stays, and its wait is as before.
    exists: (id) => stage.keep(id),
    isGone: (id) => {
      stage.remove(id);
      if (scopeKeyNaming(definition.kind) !== undefined)
        context.removed({ kind: definition.kind, scope, id });
    },
  });
  const result: AbsenceResult = { outcome: 'complete', removed, held: 0, leaked, error: null };
  if (unknown > 0) {
    const message = `${plural(unknown, 'record')} ${unknown === 1 ? 'is' : 'are'} missing from the list, and retrieving ${unknown === 1 ? 'it' : 'them'} could not confirm that`;
    return { ...result, ...unproven(message, 'they were kept; the next run looks again', firstError) };
  }
  if (leaked === 0) return result;
  const message =
    leaked === 1
      ? 'the list did not show 1 record that exists; it was kept'
      : `the list did not show ${leaked} records that exist; they were kept`;
  return { ...result, ...unproven(message, LEAK_HINT) };
}

interface HeldFacts {
  /** How many records the collection has. */
  readonly known: number;
  readonly counts: AbsentCounts;
  readonly hold: Hold;
  /** Set if the source was read at another address before and none of its records is in the list. */
  readonly moved: MovedAddress | null;
  /** When this run held those that no earlier run held. */
  readonly now: number;
}

function heldError(walked: Walked, facts: HeldFacts): TidemarkError {
  const { context, definition } = walked;
  const { kind } = definition;
  const { hold, known } = facts;
  const them = hold.count + hold.below === 1 ? 'it' : 'them';
  const until = heldUntil(waitOf(facts), context.limits, facts.moved);
  const gone =
    known === 1
      ? 'its only record'
      : hold.count >= known
        ? `any of its ${known} records`
        : `${hold.count} of ${known} records`;
  const below = hold.below === 0 ? '' : `, with ${plural(hold.below, 'record')} below`;
  const missing = { kind, below: hold.below };
  const uncreatable = uncreatableKinds(missing, context.definitionOf);
  const { look, restoring } = reviewCommands([{ ...missing, uncreatable }], null);
  return new TidemarkError(
    'removals_held',
    `the list no longer shows ${gone}${below}: ${reasonOfHold(walked, facts)}`,
    {
      // The hint may be shown without its run, and the command without a source would be about all sources.
      hint: withSource(
        `${heldUntilText([{ until }])}; ` +
          (facts.moved === null ? `${look} shows ${them}, ${restoring(them).join('; ')}` : MOVED_HINT),
        context.source,
      ),
    },
  );
}

function reasonOfHold({ context }: Walked, { known, counts, hold, now, moved }: HeldFacts): string {
  const { limits } = context;
  if (moved !== null) return movedText(moved);
  const limit = removalLimit(limits, known);
  if (!hold.areTooMany) return `held since ${secondOf(counts.firstHeldAt ?? isoTime(now))}`;
  if (counts.absent - counts.taken >= known)
    return 'all records of a list are removed only after confirmation';
  if (hold.lost > limit) return `more than the ${limit} that are removed without confirmation`;
  return `more than the ${removalLimit(limits, context.sourceRecords())} that are removed without confirmation, including what is below`;
}

/** Since when the removals wait. Those held by different runs are confirmed at different times. */
function waitOf({ counts, hold, now }: HeldFacts): { firstAt: string; lastAt: string } {
  const firstAt = counts.firstHeldAt ?? isoTime(now);
  return { firstAt, lastAt: hold.count > counts.held ? isoTime(now) : (counts.lastHeldAt ?? firstAt) };
}
