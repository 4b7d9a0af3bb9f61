/**
 * State transitions of the syncs of a source. The subject `run` has the states `failed`, `partial` and `refused`, and
 * none while runs are complete. Held removals are a separate subject: a run that is partial only because of them counts
 * as complete here.
 */
import { whoText } from '../../core/actor.ts';
import { scopeKey, collectionText } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { NoticeEvent } from '../../config/notice-events.ts';
import { isLocalError, type ErrorCode } from '../../core/errors.ts';
import { DISK_FULL_HINT, HELD_HINT, RESTORE_HINT, RESTORE_OR_NEW_HINT } from '../../core/hints.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { NoticeState, JobRow, Notice } from '../../mirror/daemon-store.ts';
import type { SchemaChange } from '../../mirror/schema-changes.ts';
import { formChangeText } from '../../report/notes.ts';
import {
  type GoneLists,
  type NamedRemovals,
  type SettledRemovals,
  heldAdvice,
  namesText,
} from '../../state/held-names.ts';
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
import { noticeOf, subjectName } from './message.ts';

export function syncTransitions(states: readonly NoticeState[], seen: JobObservation): Transition {
  if (seen.job.outcome === 'interrupted' || seen.job.outcome === 'running') return NO_TRANSITION;
  // A run of some kinds does not show the state of the others.
  const isWhole = (seen.details.kinds ?? null) === null;
  return joined([
    isWhole ? runTransition(states, seen) : NO_TRANSITION,
    // What waits now is what the later run left.
    seen.details.isFollowed === true ? NO_TRANSITION : removalTransition(states, seen),
    schemaTransition(states, seen),
  ]);
}

/** Also a mirror whose first page was overwritten: its file is not recognized as one any more. */
const DAMAGE: ReadonlySet<string | null> = new Set<ErrorCode>(['mirror_corrupt', 'mirror_foreign']);

/** A job that a damaged mirror stops has found the damage, as a verification would have. */
export function isDamageFound({ outcome, errorCode }: JobRow): boolean {
  return outcome === 'failed' && DAMAGE.has(errorCode);
}

/** Of backups that are not in the chain of the mirror; reported as `verify_failed` too. */
export const CHAIN_SUBJECT = 'backup_chain';

/**
 * Subjects of the mirror as a whole: `verify` is `failed` while its contents do not match the stored hashes, `audit_log` while
 * what people recorded is not as the audit log has it. Both are reported as `verify_failed`.
 */
export const CONTENT_SUBJECTS = ['verify', 'audit_log'] as const;

/** True where a job failed for a damage, or refused for the audit log, which `verify_failed` has reported. */
export function isOfKnownDamage(states: readonly NoticeState[], job: JobRow): boolean {
  const subject: ContentSubject = refusalOf(job) === null ? 'verify' : 'audit_log';
  return DAMAGE.has(job.errorCode) && stateOf(states, '', subject) !== undefined;
}

export type ContentSubject = (typeof CONTENT_SUBJECTS)[number];

/** What is the matter with a run; the words of `aspects` are what makes it another matter. */
interface SyncIssue {
  readonly state: 'failed' | 'partial' | 'refused';
  readonly aspects: readonly string[];
}

function runTransition(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { job, at } = seen;
  const source = job.source ?? '';
  const stored = stateOf(states, source, 'run');
  const unread = unreadSweeps(seen);
  const matter = syncIssueOf(seen, unread);
  if (stored !== undefined && matter !== null && isOverBy(stored, seen.completeAt)) {
    const begins = runTransition(
      states.filter((each) => each !== stored),
      { ...seen, completeAt: null },
    );
    const { notices } = runRecovered(stored, { at, source, run: null, completeAt: seen.completeAt });
    return { ...begins, notices: [...notices, ...begins.notices] };
  }
  // As in `workTransition`.
  const isDamage = isOfKnownDamage(states, job);
  const wasFollowing = stored?.detail['follows'] === 'verify_failed';
  const before = matter !== null && wasFollowing && !isDamage ? undefined : stored;
  const isFollowing = before === undefined ? isDamage : wasFollowing;
  const follows = isFollowing ? ('verify_failed' as const) : null;
  if (matter === null)
    return before === undefined
      ? NO_TRANSITION
      : runRecovered(before, { at, source, run: job.run, follows, gone: seen.gone });
  const isSame = before?.state === matter.state;
  // Nothing was read in between where it fails for another reason.
  const goesOn = isSame || (before !== undefined && before.state !== 'partial' && matter.state !== 'partial');
  const known = isSame ? aspectsOf(before) : [];
  const isNew = !isSame || matter.aspects.some((aspect) => !known.includes(aspect));
  const isMoved = isNew || known.length !== matter.aspects.length;
  const since = goesOn ? before.since : at;
  const begun = before === undefined ? since : begunAt(before);
  const state: NoticeState = {
    source,
    subject: 'run',
    state: matter.state,
    since,
    detail: {
      aspects: [...matter.aspects],
      ...(begun === since ? {} : { begun }),
      ...(follows === null ? {} : { follows }),
    },
  };
  return {
    states: isMoved ? [state] : [],
    cleared: [],
    notices: isNew ? [syncIssueNotice(seen, matter, { unread, follows })] : [],
  };
}

/** True where a run was complete since, also one of a command, which has no job. @param completeAt when the last complete run ended */
export function isOverBy({ since }: NoticeState, completeAt: string | null | undefined): boolean {
  return typeof completeAt === 'string' && Date.parse(completeAt) > Date.parse(since);
}

/** @param completeAt when the run ended that no job of the daemon made */
export function runRecovered(
  before: NoticeState,
  {
    at,
    source,
    run,
    completeAt,
    gone = null,
    follows = before.detail['follows'] === 'verify_failed' ? 'verify_failed' : null,
  }: {
    readonly at: string;
    readonly source: string;
    readonly run: number | null;
    readonly completeAt?: string | null | undefined;
    readonly gone?: GoneLists | null | undefined;
    readonly follows?: 'verify_failed' | null;
  },
): Transition {
  const begun = begunAt(before);
  const isPartial = before.state === 'partial';
  const own = isPartial ? gone : null;
  const end = own?.areAll === true ? 'no longer lacks a list' : 'reads again what it could not read';
  const recovered = noticeOf(
    { at, source, subject: 'run', event: 'run_recovered' },
    {
      severity: 'low',
      title: `${subjectName(source)}: the sync ${isPartial ? end : 'works again'}`,
      lines: [
        `${begun === before.since ? '' : `no sync had read everything since ${begun}; `}it had ${isPartial ? 'been incomplete' : 'failed'} since ${before.since}`,
        ...(own === null
          ? []
          : [
              `${plural(own.lists, 'list')} that it could not read ${own.lists === 1 ? 'is' : 'are'} gone with ${own.lists === 1 ? 'its' : 'their'} ${own.parent}`,
            ]),
        ...(typeof completeAt === 'string' ? [`a sync was complete at ${completeAt}`] : []),
      ],
      job: 'sync',
      run,
      follows,
    },
  );
  return { states: [], cleared: [{ source, subject: 'run' }], notices: [recovered] };
}

/** When the first sync failed or was incomplete of those that were so one after the other, also where failed ones became partial. */
function begunAt({ since, detail: { begun } }: NoticeState): string {
  return typeof begun === 'string' ? begun : since;
}

function aspectsOf(state: NoticeState): readonly string[] {
  const { aspects } = state.detail;
  return Array.isArray(aspects) ? aspects.map(String) : [];
}

function unreadSweeps({ job, details, isBelowHeld }: JobObservation): readonly UnreadSweep[] {
  const summary = details.unread === undefined ? summaryOf('sync', job) : null;
  const all = details.unread ?? summary?.unread ?? [];
  // What is not named may be anything.
  const isCut = summary !== null && isUnreadCut(summary);
  // A 404 of a list below a missing record follows from its removal, which is reported as held.
  const follows = ({ outcome, scope }: UnreadSweep): boolean =>
    !isCut && (outcome === 'missing' || outcome === 'skipped') && isBelowHeld?.(scope) === true;
  const own = all.filter((sweep) => sweep.outcome !== 'held' && !follows(sweep));
  const reached = own.filter(({ outcome }) => outcome !== 'skipped');
  // What could not be reached follows from what failed above it.
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
  matter: SyncIssue,
  { unread, follows }: { readonly unread: readonly UnreadSweep[]; readonly follows: NoticeEvent | null },
) {
  const source = job.source ?? '';
  const of = { at, source, subject: 'run' };
  const name = subjectName(source);
  const shared = {
    job: job.name,
    run: job.run,
    follows,
    error: job.error === null ? null : { code: job.errorCode, message: job.error },
  };
  if (matter.state === 'partial') {
    // What else is wrong follows from the address.
    const [moved] = held.flatMap(({ until }) => until?.moved ?? []);
    const summary = details.unread === undefined ? summaryOf('sync', job) : null;
    const causes = unreadCauses(unread, summary !== null && isUnreadCut(summary), placeText);
    return noticeOf(
      { ...of, event: 'run_partial' },
      {
        ...shared,
        severity: 'medium',
        title: `${name}: the sync was incomplete`,
        lines: [...(moved === undefined ? [] : [movedText(moved)]), ...causes],
        count: unread.length,
        hint:
          moved === undefined
            ? (unreadHint(unread) ?? `\`tidemark status --source ${source}\` shows what is stale`)
            : MOVED_HINT,
      },
    );
  }
  const isRefused = matter.state === 'refused';
  return noticeOf(
    { ...of, event: isRefused ? 'key_refused' : 'run_failed' },
    {
      ...shared,
      severity: isRefused ? 'critical' : 'high',
      title: `${name}: ${isRefused ? 'the service refused the key' : `the sync failed${causeText(job.errorCode)}`}`,
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
  const more = [
    unansweredHint(job, source) ??
      (run === null ? `\`tidemark doctor --source ${source}\` finds the cause` : null),
    run === null ? null : `\`tidemark runs show ${run}\` shows more`,
  ].filter((each) => each !== null);
  return [...more, 'the mirror keeps what was known'].join('; ');
}

/** A cause that says all in a few words, for a title: some receivers show nothing else. Empty for others. */
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
function schemaTransition(states: readonly NoticeState[], seen: JobObservation): Transition {
  const { job, at, schemaChanges = [] } = seen;
  const source = job.source ?? '';
  const before = stateOf(states, source, 'schema');
  if (schemaChanges.length === 0 || job.run === null || job.run <= Number(before?.detail['run'] ?? 0))
    return NO_TRANSITION;
  const title = `${subjectName(source)}: the service changed the form of its records: ${plural(schemaChanges.length, 'change')}`;
  return {
    states: [{ source, subject: 'schema', state: 'reported', since: at, detail: { run: job.run } }],
    cleared: [],
    notices: [
      noticeOf(
        { at, source, subject: 'schema', event: 'schema_changed' },
        {
          severity: schemaChanges.every(({ change }) => change === 'gained') ? 'low' : 'medium',
          title,
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

// Beside the collections in the detail of `removals`:
/** How many removals have waited in all. */
const WAITED = 'waited';
/** How many records were below those that wait. */
const BELOW = 'below';
/** The collections of which fewer had waited at some time than before. */
const FALLEN = 'fallen';
/** True where more waited again in one of these: they may be the same records, of which only the number is known. */
const IS_AT_MOST = 'isAtMost';

/** Subject `removals`: `held` while removals wait, with how many by collection; 0 where one has none left. */
function removalTransition(
  states: readonly NoticeState[],
  { job, held, settled, at, placeText }: JobObservation,
): Transition {
  const source = job.source ?? '';
  const before = stateOf(states, source, 'removals');
  const of = { at, source, subject: 'removals' };
  const name = subjectName(source);
  if (held.length === 0) {
    if (before === undefined) return NO_TRANSITION;
    const notice = noticeOf(
      { ...of, event: 'removals_settled' },
      {
        severity: 'low',
        title: `${name}: no removal waits any more`,
        lines: settledLines(before, settled),
        job: 'sync',
        run: job.run,
      },
    );
    return { states: [], cleared: [{ source, subject: 'removals' }], notices: [notice] };
  }
  const known = before?.detail ?? {};
  const counts = new Map([
    ...Object.keys(waitingIn(known)).map((key) => [key, 0] as const),
    ...held.map((each) => [heldKey(each), each.records] as const),
  ]);
  const more = [...counts].map(([key, records]) => [key, records - (waitingIn(known)[key] ?? 0)] as const);
  const added = more.reduce((sum, [, each]) => sum + Math.max(0, each), 0);
  const fallenBefore = fallenIn(known);
  const fallen = [...new Set([...fallenBefore, ...more.flatMap(([key, each]) => (each < 0 ? [key] : []))])];
  const isAtMost =
    known[IS_AT_MOST] === true || more.some(([key, each]) => each > 0 && fallenBefore.includes(key));
  const isNew = added > 0;
  const below = isNew ? held.reduce((sum, each) => sum + each.below, 0) : belowIn(known);
  const now = {
    ...Object.fromEntries(counts),
    [WAITED]: waitedIn(known) + added,
    ...(below === 0 ? {} : { [BELOW]: below }),
    ...(fallen.length === 0 ? {} : { [FALLEN]: fallen }),
    ...(isAtMost ? { [IS_AT_MOST]: true } : {}),
  };
  const isMoved = isNew || JSON.stringify(sorted(known)) !== JSON.stringify(sorted(now));
  const state = { source, subject: 'removals', state: 'held', since: before?.since ?? at, detail: now };
  return {
    states: isMoved ? [state] : [],
    cleared: [],
    notices: isNew ? [heldNotice(of, { job, held, placeText })] : [],
  };
}

/** Of the lists that it names, how many records were below those that waited, as the notice said. */
function belowIn({ [BELOW]: below }: NoticeState['detail']): number {
  return typeof below === 'number' ? below : 0;
}

/** By collection. */
function waitingIn(detail: NoticeState['detail']): Record<string, number> {
  const counts = Object.entries(detail).filter(
    (each): each is [string, number] =>
      each[0] !== WAITED && each[0] !== BELOW && typeof each[1] === 'number',
  );
  return Object.fromEntries(counts);
}

/** @param state of the subject `removals` */
export function heldSinceText({ since, detail }: NoticeState): string {
  const records = Object.values(waitingIn(detail)).reduce((sum, each) => sum + each, 0);
  return `${plural(records, 'removal is', 'removals are')} held since ${since}; all else was read`;
}

function fallenIn({ [FALLEN]: fallen }: NoticeState['detail']): readonly string[] {
  return Array.isArray(fallen) ? fallen.map(String) : [];
}

function waitedIn(detail: NoticeState['detail']): number {
  const { [WAITED]: waited } = detail;
  if (typeof waited === 'number') return waited;
  return Object.values(waitingIn(detail)).reduce((sum, each) => sum + each, 0);
}

/** Why none waits any more: what was not removed is back. */
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
  of: { at: string; source: string; subject: string },
  { job: { run }, held, placeText }: Pick<JobObservation, 'job' | 'held' | 'placeText'>,
) {
  const sum = (of: (each: NamedRemovals) => number) => held.reduce((all, each) => all + of(each), 0);
  const records = sum((each) => each.records);
  const all = sum((each) => each.records + each.below);
  const isConfirmed = held.some(({ until }) => until !== undefined && until.times !== null);
  return noticeOf(
    { ...of, event: 'removals_held' },
    {
      severity: 'high',
      title: `${subjectName(of.source)}: ${plural(records, 'record is', 'records are')} missing from the service, and kept for now`,
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
      hint: `${heldAdvice(held, of.source, 'them')}; if they were meant to go: \`tidemark sync --source ${of.source} --accept-removals ${all}\``,
    },
  );
}

function heldKey({ kind, scope }: NamedRemovals): string {
  return `${kind} ${scopeKey(scope)}`;
}

function sorted(counts: Readonly<Record<string, unknown>>): [string, unknown][] {
  return Object.entries(counts).sort(([a], [b]) => (a < b ? -1 : 1));
}

// What is handed to the transitions, and what they hand back.

/** What a job knows beyond its summary, which names only the first of everything. */
export interface JobDetails {
  /** Of a sync: the kinds that it was narrowed to; null, or left out, for all. */
  readonly kinds?: readonly Kind[] | null;
  /** Of a sync: all sweeps that were not complete. */
  readonly unread?: readonly UnreadSweep[];
  /** Of a sync: true where a later one had ended before this one was reported. */
  readonly isFollowed?: boolean;
}

/** A job that ended. */
export interface JobObservation {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** Of a sync: what waits in the mirror after it. */
  readonly held: readonly NamedRemovals[];
  /** Of a sync: whether a list is that of a record whose removal waits, or below one. */
  readonly isBelowHeld?: (scope: Scope) => boolean;
  /** Of a sync after which none waits: how those that had waited ended. */
  readonly settled?: SettledRemovals | undefined;
  /** Of a sync: what its run found of the form of records. */
  readonly schemaChanges?: readonly SchemaChange[];
  /** Of a sync: a place with the names that the mirror knows; left out, ids stand for them. */
  readonly placeText?: ((scope: Scope) => string) | undefined;
  /** Of drift: true for the state of a restored backup, which may be older than what was reported. */
  readonly isOfBackup?: boolean;
  /** Of drift: number of a restore that has not ended. */
  readonly unfinishedRestore?: number | undefined;
  /** Of drift: fingerprints of what is accepted at that time. */
  readonly accepted?: ReadonlySet<string>;
  /** Of a sync: lists that an earlier one could not read, and that are gone with what they belonged to. */
  readonly gone?: GoneLists | null | undefined;
  /** Of a sync: when the last complete run before it ended, whoever made it, ISO 8601; null without one. */
  readonly completeAt?: string | null;
  /** ISO 8601. */
  readonly at: string;
}

/** New states, subjects that are as they should be again, and what is to be reported. */
export interface Transition {
  readonly states: readonly NoticeState[];
  readonly cleared: readonly Pick<NoticeState, 'source' | 'subject'>[];
  readonly notices: readonly Notice[];
}

export const NO_TRANSITION: Transition = { states: [], cleared: [], notices: [] };

export function joined(parts: readonly Transition[]): Transition {
  return {
    states: parts.flatMap(({ states }) => states),
    cleared: parts.flatMap(({ cleared }) => cleared),
    notices: parts.flatMap(({ notices }) => notices),
  };
}

/** The last notified state of a subject; undefined if it was without problems. */
export function stateOf(
  states: readonly NoticeState[],
  source: string,
  subject: string,
): NoticeState | undefined {
  // What is written takes precedence over what is assumed.
  return states.find((state) => state.source === source && state.subject === subject);
}
