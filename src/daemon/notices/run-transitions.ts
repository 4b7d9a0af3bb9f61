/**
 * State transitions of the syncs of a source. The subject `run` has the states `failed`, `partial` and `refused`, and none while
 * runs are complete. Held removals are a subject of their own: a run that is partial only because of them counts as complete here.
 */
import { whoText } from '../../core/actor.ts';
import { scopeKey, collectionText } from '../../catalog/catalog.ts';
import { compareTexts } from '../../catalog/order.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { isLocalError, type ErrorCode } from '../../core/errors.ts';
import { DISK_FULL_HINT, HELD_HINT, RESTORE_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { NoticeState } from '../../mirror/notice-rows.ts';
import { formChangeText } from '../../report/notes.ts';
import { type SettledRemovals, heldAdvice, namesText } from '../../state/held-names.ts';
import { heldUntilText, MOVED_HINT, movedText } from '../../sync/removals.ts';
import { unansweredHint } from '../health/waits.ts';
import {
  refusalOf,
  summaryOf,
  isUnreadCut,
  unreadCauses,
  unreadHint,
  type UnreadSweep,
} from '../jobs/summaries.ts';
import { namedNotice, type NoticeKey } from './message.ts';
import { type JobObservation, type Transition, NO_TRANSITION, ended, joined, stateOf } from './transition.ts';

/** What an ended sync changes: of its run, of held removals, and of the schema of the records. */
export function syncTransitions(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { job, details } = observed;
  if (job.outcome === 'interrupted' || job.outcome === 'running') return NO_TRANSITION;
  // A run of some kinds does not show the state of the others.
  const isWhole = (details.kinds ?? null) === null;
  return joined([
    isWhole ? runTransition(states, observed) : NO_TRANSITION,
    // The removals that are held now are those of the later run.
    details.isFollowed === true ? NO_TRANSITION : removalTransition(states, observed),
    schemaTransition(states, observed),
  ]);
}

/** Errors of a damaged mirror. If its first page was overwritten, the file is not recognized as a mirror any more. */
const DAMAGE: ReadonlySet<string | null> = new Set<ErrorCode>(['mirror_corrupt', 'mirror_foreign']);

/** True if damage of the mirror stopped the job: then it has found the damage, as a verification would have. */
export function isDamageFound({ outcome, errorCode }: JobRow): boolean {
  return outcome === 'failed' && DAMAGE.has(errorCode);
}

/** The subject of backups that are not in the chain of the mirror; reported as `verify_failed` too. */
export const CHAIN_SUBJECT = 'backup_chain';

/**
 * Subjects of the mirror as a whole: `verify` is `failed` while its contents do not match the stored hashes, `audit_log` while
 * what people recorded differs from the audit log. Both are reported as `verify_failed`.
 */
export const CONTENT_SUBJECTS = ['verify', 'audit_log'] as const;

export type ContentSubject = (typeof CONTENT_SUBJECTS)[number];

/**
 * What was reported of a failing job before, and whether `verify_failed` has reported the cause: the mirror is damaged, or the job
 * refused because of the audit log. A failure with another cause than that damage is a new one: `before` is undefined then.
 */
export function reportedBefore(
  states: readonly NoticeState[],
  job: JobRow,
  stored: NoticeState | undefined,
  isFailing: boolean,
): { readonly before: NoticeState | undefined; readonly follows: 'verify_failed' | null } {
  const subject: ContentSubject = refusalOf(job) === null ? 'verify' : 'audit_log';
  const isDamage = DAMAGE.has(job.errorCode) && stateOf(states, '', subject) !== undefined;
  if (stored === undefined || (isFailing && followsDamage(stored) !== null && !isDamage))
    return { before: undefined, follows: isDamage ? 'verify_failed' : null };
  return { before: stored, follows: followsDamage(stored) };
}

/** `verify_failed` if that reported the cause of this state. */
export function followsDamage({ detail }: NoticeState): 'verify_failed' | null {
  return detail['follows'] === 'verify_failed' ? 'verify_failed' : null;
}

/** What is wrong with a run. Another word in `aspects` is news. */
interface SyncIssue {
  readonly state: 'failed' | 'partial' | 'refused';
  readonly aspects: readonly string[];
}

function runTransition(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { job, at, completeAt } = observed;
  const source = job.source ?? '';
  const stored = stateOf(states, source, 'run');
  const unread = unreadSweeps(observed);
  const issue = syncIssueOf(observed, unread);
  if (stored !== undefined && issue !== null && isOverBy(stored, completeAt)) {
    const others = states.filter((state) => state !== stored);
    const begins = runTransition(others, { ...observed, completeAt: null });
    const { notices } = runRecovered(stored, { at, source, run: null, completeAt });
    return { ...begins, notices: [...notices, ...begins.notices] };
  }
  const { before, follows } = reportedBefore(states, job, stored, issue !== null);
  if (issue === null)
    return before === undefined
      ? NO_TRANSITION
      : runRecovered(before, { at, source, run: job.run, gone: observed.gone });
  const isSame = before?.state === issue.state;
  // From `failed` to `refused` or back: nothing was read in between.
  const goesOn = isSame || (before !== undefined && before.state !== 'partial' && issue.state !== 'partial');
  const known = isSame ? aspectsOf(before) : [];
  const isNew = !isSame || issue.aspects.some((aspect) => !known.includes(aspect));
  const isMoved = isNew || known.length !== issue.aspects.length;
  const since = goesOn ? before.since : at;
  const begun = before === undefined ? since : begunAt(before);
  const detail = {
    aspects: [...issue.aspects],
    ...(begun === since ? {} : { begun }),
    ...(follows === null ? {} : { follows }),
  };
  return {
    states: isMoved ? [{ source, subject: 'run', state: issue.state, since, detail }] : [],
    cleared: [],
    notices: isNew ? [syncIssueNotice(observed, issue, { unread, follows })] : [],
  };
}

/** True if a run was complete since then, also one of a command, which has no job. @param completeAt when the last complete run ended */
export function isOverBy({ since }: NoticeState, completeAt: string | null | undefined): boolean {
  return typeof completeAt === 'string' && Date.parse(completeAt) > Date.parse(since);
}

/** The end of a failed or incomplete sync. @param completeAt when the run ended that no job of the daemon made */
export function runRecovered(
  before: NoticeState,
  {
    at,
    source,
    run,
    completeAt,
    gone = null,
  }: Pick<JobObservation, 'at' | 'completeAt' | 'gone'> & {
    readonly source: string;
    readonly run: number | null;
  },
): Transition {
  const begun = begunAt(before);
  const isPartial = before.state === 'partial';
  const lost = isPartial ? gone : null;
  const end = lost?.areAll === true ? 'no longer lacks a list' : 'reads again what it could not read';
  return ended(
    { at, source, subject: 'run', event: 'run_recovered' },
    {
      title: `the sync ${isPartial ? end : 'works again'}`,
      lines: [
        `${begun === before.since ? '' : `no sync had read everything since ${begun}; `}it had ${isPartial ? 'been incomplete' : 'failed'} since ${before.since}`,
        ...(lost === null
          ? []
          : [
              `${plural(lost.lists, 'list')} that it could not read ${lost.lists === 1 ? 'is' : 'are'} gone with ${lost.lists === 1 ? 'its' : 'their'} ${lost.parent}`,
            ]),
        ...(typeof completeAt === 'string' ? [`a sync was complete at ${completeAt}`] : []),
      ],
      job: 'sync',
      run,
      follows: followsDamage(before),
    },
  );
}

/** When the first of the syncs failed, or was incomplete, that came one after the other, whichever of the two each of them was. */
function begunAt({ since, detail: { begun } }: NoticeState): string {
  return typeof begun === 'string' ? begun : since;
}

function aspectsOf({ detail: { aspects } }: NoticeState): readonly string[] {
  return Array.isArray(aspects) ? aspects.map(String) : [];
}

function unreadSweeps({ job, details, isBelowHeld }: JobObservation): readonly UnreadSweep[] {
  const summary = details.unread === undefined ? summaryOf('sync', job) : null;
  const all = details.unread ?? summary?.unread ?? [];
  // The sweeps that a cut summary does not name may have any cause.
  const isCut = summary !== null && isUnreadCut(summary);
  // A 404 of a list below a missing record follows from its removal, which is reported as held.
  const follows = ({ outcome, scope }: UnreadSweep): boolean =>
    !isCut && (outcome === 'missing' || outcome === 'skipped') && isBelowHeld?.(scope) === true;
  const own = all.filter((sweep) => sweep.outcome !== 'held' && !follows(sweep));
  const reached = own.filter(({ outcome }) => outcome !== 'skipped');
  // Skipped sweeps follow from those that failed above them.
  return reached.length > 0 ? reached : own;
}

function syncIssueOf({ job }: JobObservation, unread: readonly UnreadSweep[]): SyncIssue | null {
  if (job.outcome === 'refused') return { state: 'refused', aspects: [] };
  if (job.outcome === 'failed') {
    const isLocal = job.errorCode !== null && isLocalError(job.errorCode as ErrorCode);
    return { state: 'failed', aspects: [isLocal ? 'this machine' : 'service'] };
  }
  if (job.outcome !== 'partial') return null;
  const aspects = [...new Set(unread.map(({ kind, outcome }) => `${kind} ${outcome}`))].sort();
  const isHeldAlone = aspects.length === 0 && (summaryOf('sync', job)?.held ?? 0) > 0;
  return isHeldAlone ? null : { state: 'partial', aspects };
}

function syncIssueNotice(
  { job, details, at, held, placeText }: JobObservation,
  { state }: SyncIssue,
  { unread, follows }: { readonly unread: readonly UnreadSweep[]; readonly follows: NoticeEvent | null },
) {
  const source = job.source ?? '';
  const key = { at, source, subject: 'run' };
  const shared = {
    job: job.name,
    run: job.run,
    follows,
    error: job.error === null ? null : { code: job.errorCode, message: job.error },
  };
  if (state === 'partial') {
    // If the service has moved, everything else follows from its new address.
    const [moved] = held.flatMap(({ until }) => until?.moved ?? []);
    const summary = details.unread === undefined ? summaryOf('sync', job) : null;
    const causes = unreadCauses(unread, summary !== null && isUnreadCut(summary), placeText);
    return namedNotice(
      { ...key, event: 'run_partial' },
      {
        ...shared,
        severity: 'medium',
        title: 'the sync was incomplete',
        lines: [...(moved === undefined ? [] : [movedText(moved)]), ...causes],
        count: unread.length,
        hint:
          moved === undefined
            ? (unreadHint(unread) ?? `\`tidemark status --source ${source}\` shows what is stale`)
            : MOVED_HINT,
      },
    );
  }
  const isRefused = state === 'refused';
  return namedNotice(
    { ...key, event: isRefused ? 'key_refused' : 'run_failed' },
    {
      ...shared,
      severity: isRefused ? 'critical' : 'high',
      title: isRefused ? 'the service refused the key' : `the sync failed${causeText(job.errorCode)}`,
      lines: job.error === null ? [] : [job.error],
      hint: isRefused
        ? `give the source a key that is valid and has the permissions; \`tidemark doctor --source ${source}\` checks it`
        : failureHint(job, source),
    },
  );
}

function failureHint(job: JobRow, source: string): string {
  const { errorCode, run } = job;
  const local = errorCode === 'mirror_locked' ? HELD_HINT : localHint(errorCode);
  if (local !== null) return local;
  const unanswered = unansweredHint(job, source);
  const more =
    run === null
      ? [unanswered ?? `\`tidemark doctor --source ${source}\` finds the cause`]
      : [...(unanswered === null ? [] : [unanswered]), `\`tidemark runs show ${run}\` shows more`];
  return [...more, 'the mirror keeps what was known'].join('; ');
}

/** A cause that takes only a few words, for a title: some receivers show nothing else. Empty for other causes. */
export function causeText(errorCode: string | null): string {
  switch (errorCode) {
    case 'disk_full':
      return ': the disk is full';
    case 'unauthorized':
      return ': the service refused the key';
    case 'mirror_missing':
      return ': the mirror is missing';
    default:
      return '';
  }
}

/** What to do about an error of this machine; null for another one. */
export function localHint(errorCode: string | null): string | null {
  switch (errorCode) {
    case 'mirror_corrupt':
    case 'mirror_foreign':
      return `\`tidemark verify\` says what is damaged; ${RESTORE_OR_NEW_HINT}`;
    case 'mirror_missing':
      return RESTORE_HINT;
    case 'disk_full':
      return DISK_FULL_HINT;
    default:
      return null;
  }
}

/** Subject `schema`: the last run whose changes of the form of records were reported. */
function schemaTransition(states: readonly NoticeState[], observed: JobObservation): Transition {
  const { job, at, schemaChanges = [] } = observed;
  const source = job.source ?? '';
  const before = stateOf(states, source, 'schema');
  if (schemaChanges.length === 0 || job.run === null || job.run <= Number(before?.detail['run'] ?? 0))
    return NO_TRANSITION;
  return {
    states: [{ source, subject: 'schema', state: 'reported', since: at, detail: { run: job.run } }],
    cleared: [],
    notices: [
      namedNotice(
        { at, source, subject: 'schema', event: 'schema_changed' },
        {
          severity: schemaChanges.every(({ change }) => change === 'gained') ? 'low' : 'medium',
          title: `the service changed the form of its records: ${plural(schemaChanges.length, 'change')}`,
          lines: schemaChanges.map((change) =>
            change.change === 'unwatched'
              ? `${change.kind}: too many fields to watch all of them`
              : formChangeText({ ...change, change: change.change }),
          ),
          count: schemaChanges.length,
          job: 'sync',
          run: job.run,
          hint: `\`tidemark runs show ${job.run}\` lists them; look whether a restore of these kinds still fits (\`tidemark drill\`)`,
        },
      ),
    ],
  };
}

// The detail of `removals` has the number of held removals of each collection, and besides:
/** How many removals were held in all. */
const WAITED = 'waited';
/** How many records were below those that are held. */
const BELOW = 'below';
/** The collections in which the number has fallen at some time. */
const FALLEN = 'fallen';
/** True if it has risen again in one of these: the mirror knows only numbers, so they may be the same records. */
const IS_AT_MOST = 'isAtMost';

/** Subject `removals`: `held` while removals are held, with their number by collection; 0 for one that has none left. */
function removalTransition(
  states: readonly NoticeState[],
  { job, held, settled, at, placeText }: JobObservation,
): Transition {
  const source = job.source ?? '';
  const before = stateOf(states, source, 'removals');
  const key = { at, source, subject: 'removals' };
  if (held.length === 0) {
    if (before === undefined) return NO_TRANSITION;
    return ended(
      { ...key, event: 'removals_settled' },
      {
        title: 'no removal waits any more',
        lines: settledLines(before, settled),
        job: 'sync',
        run: job.run,
      },
    );
  }
  const known = before?.detail ?? {};
  const heldBefore = waitingIn(known);
  const counts = {
    ...Object.fromEntries(Object.keys(heldBefore).map((collection) => [collection, 0])),
    ...Object.fromEntries(held.map((list) => [`${list.kind} ${scopeKey(list.scope)}`, list.records])),
  };
  const risen = Object.entries(counts).map(
    ([collection, records]) => [collection, records - (heldBefore[collection] ?? 0)] as const,
  );
  const added = risen.reduce((sum, [, by]) => sum + Math.max(0, by), 0);
  const fallenBefore = fallenIn(known);
  const fallen = new Set([...fallenBefore, ...risen.flatMap(([name, by]) => (by < 0 ? [name] : []))]);
  const isAtMost =
    known[IS_AT_MOST] === true || risen.some(([name, by]) => by > 0 && fallenBefore.includes(name));
  const isNew = added > 0;
  const below = isNew ? held.reduce((sum, each) => sum + each.below, 0) : belowIn(known);
  const detail = {
    ...counts,
    [WAITED]: waitedIn(known) + added,
    ...(below === 0 ? {} : { [BELOW]: below }),
    ...(fallen.size === 0 ? {} : { [FALLEN]: [...fallen] }),
    ...(isAtMost ? { [IS_AT_MOST]: true } : {}),
  };
  const isMoved = isNew || JSON.stringify(sorted(known)) !== JSON.stringify(sorted(detail));
  const state = { source, subject: 'removals', state: 'held', since: before?.since ?? at, detail };
  return {
    states: isMoved ? [state] : [],
    cleared: [],
    notices: isNew ? [heldNotice({ ...key, event: 'removals_held' }, { job, held, placeText })] : [],
  };
}

/** How many records were below those that were held, as the notice said. */
function belowIn({ [BELOW]: below }: NoticeState['detail']): number {
  return typeof below === 'number' ? below : 0;
}

/** The number of held removals by collection. */
function waitingIn(detail: NoticeState['detail']): Record<string, number> {
  const counts = Object.entries(detail).filter(
    (entry): entry is [string, number] =>
      entry[0] !== WAITED && entry[0] !== BELOW && typeof entry[1] === 'number',
  );
  return Object.fromEntries(counts);
}

function heldIn(detail: NoticeState['detail']): number {
  return Object.values(waitingIn(detail)).reduce((sum, records) => sum + records, 0);
}

/** How many removals are held, and since when. @param state of the subject `removals` */
export function heldSinceText({ since, detail }: NoticeState): string {
  return `${plural(heldIn(detail), 'removal is', 'removals are')} held since ${since}; all else was read`;
}

function fallenIn({ [FALLEN]: fallen }: NoticeState['detail']): readonly string[] {
  return Array.isArray(fallen) ? fallen.map(String) : [];
}

function waitedIn(detail: NoticeState['detail']): number {
  const { [WAITED]: waited } = detail;
  return typeof waited === 'number' ? waited : heldIn(detail);
}

/** Why no removal is held any more. A record that was not removed is back. */
function settledLines(
  { since, detail }: NoticeState,
  settled: SettledRemovals = { accepted: [], restored: 0, confirmed: 0 },
): string[] {
  const waited = waitedIn(detail);
  const approved = settled.accepted.reduce((sum, { records }) => sum + records, 0);
  const restored = Math.min(settled.restored, Math.max(0, waited - approved));
  const confirmed = Math.min(settled.confirmed, Math.max(0, waited - approved - restored));
  const back = Math.max(0, waited - approved - restored - confirmed);
  const are = (count: number): string => plural(count, 'record was', 'records were');
  const below = belowIn(detail);
  const andBelow = below === 0 ? '' : `, with ${formatInteger(below)} below,`;
  const atMost = detail[IS_AT_MOST] === true ? 'at most ' : '';
  return [
    `${atMost}${plural(waited, 'removal')}${andBelow} had waited since ${since}`,
    ...settled.accepted.map(
      ({ records, run, ...who }) => `${are(records)} removed: accepted by ${whoText(who)} in run ${run}`,
    ),
    ...(restored === 0 ? [] : [`${are(restored)} created again by a restore`]),
    ...(confirmed === 0 ? [] : [`${are(confirmed)} removed: a later run did not find them either`]),
    ...(back === 0 ? [] : [`${atMost}${are(back)} seen again in the service`]),
  ];
}

function heldNotice(
  key: NoticeKey,
  { job: { run }, held, placeText }: Pick<JobObservation, 'job' | 'held' | 'placeText'>,
) {
  const records = held.reduce((sum, list) => sum + list.records, 0);
  const all = held.reduce((sum, list) => sum + list.records + list.below, 0);
  const isConfirmed = held.some(({ until }) => until !== undefined && until.times !== null);
  return namedNotice(key, {
    severity: 'high',
    title: `${plural(records, 'record is', 'records are')} missing from the service, and kept for now`,
    lines: [
      ...held.map(
        ({ kind, scope, records: own, below, names }) =>
          `${collectionText(kind, scope, placeText)}: ${plural(own, 'record')}${below === 0 ? '' : `, with ${formatInteger(below)} below`}${names.length === 0 ? '' : `: ${namesText({ names, records: own })}`}`,
      ),
      `${records === 1 ? 'its' : 'their'} removal is ${heldUntilText(held)}${isConfirmed ? `; then ${records === 1 ? 'it goes' : 'they go'} without further question` : ''}`,
    ],
    count: records,
    job: 'sync',
    run,
    hint: `${heldAdvice(held, key.source, 'them')}; if they were meant to go: \`tidemark sync --source ${key.source} --accept-removals ${all}\``,
  });
}

function sorted(counts: Readonly<Record<string, unknown>>): [string, unknown][] {
  return Object.entries(counts).sort(([a], [b]) => compareTexts(a, b));
}
