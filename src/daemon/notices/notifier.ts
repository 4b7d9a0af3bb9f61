/** The daemon's notifier: changed states are stored with their notices in one transaction, and delivered afterwards. */
import { SEVERITIES } from '../../catalog/definition.ts';
import type { ChannelConfig, ChannelType } from '../../config/channels.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Notice, NoticeState } from '../../mirror/notice-rows.ts';
import { placeText } from '../../report/notes.ts';
import {
  goneLists,
  type GoneLists,
  heldBelowTest,
  type SourceLookup,
  namedRemovals,
  settledRemovals,
} from '../../state/held-names.ts';
import { parentNames } from '../../state/parent-names.ts';
import { isReadAfter, lastCompleteRun } from '../../state/runs.ts';
import { recentMoveText } from '../../state/source-status.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { newestUnfinished } from '../../mirror/unfinished-restore.ts';
import type { Freshness } from '../health/freshness.ts';
import type { HealthReason } from '../health/reason.ts';
import {
  type BackupCause,
  FAILED_BACKUP,
  type UnfinishedRestore,
  backupRecovered,
  backupTransition,
  completeTransition,
  freshnessTransition,
  onTimeTransition,
  openCauses,
  removedTransition,
  reportedCause,
  reportedToOf,
  restoreTransition,
} from './checked-transitions.ts';
import { contentOf, driftTitle, sourceOf } from './message.ts';
import type { Deliveries } from './deliveries.ts';
import type { Outbox, OutboxOptions } from './outbox.ts';
import { markedSubject, runOfBackup, settled, endingEvent } from './perhaps-open.ts';
import {
  type JobDetails,
  type JobObservation,
  type Transition,
  joined,
  NO_TRANSITION,
  stateOf,
} from './transition.ts';
import { transitionsOf } from './transitions.ts';

/** Its methods, except `hasRemembered`, store changed states with their notices, and return how many notices there are to send. */
export interface Notifier {
  /**
   * Stores the states that an ended job changed, in one transaction with the notices. The same job again changes nothing.
   * @throws TidemarkError if the mirror cannot be written: then nothing is reported until the next job
   */
  afterJob(job: JobRow, details?: JobDetails): Promise<number>;
  /**
   * The same with a writer that is open already.
   * @param assumed states that were reported but could not be stored
   */
  recordJob(mirror: Mirror, job: JobRow, details?: JobDetails, assumed?: readonly NoticeState[]): number;
  /**
   * Checks whether a sync is overdue, or no longer; writes only changes. To be called regularly. If the mirror cannot be written, an
   * overdue sync is reported anyway, and remembered until it can be stored: the late sync may hold the mirror for hours.
   * @param mayWait false to leave an end that cannot be written now to the next check
   */
  checkFreshness(sources: readonly Freshness[], mayWait?: boolean): Promise<number>;
  /**
   * The same of overdue backups.
   * @param overdue why they are overdue; null if they are not
   * @param lagging targets whose newest backup is older than allowed
   */
  checkBackups(overdue: HealthReason | null, lagging?: readonly string[], mayWait?: boolean): Promise<number>;
  /**
   * Ends the problem of a failed backup once nothing is left of the failure, though no backup job of the daemon shows that.
   * @param isOver as `isBackupFailureOver`
   * @param line why it is over
   */
  checkBackupFailure(isOver: (mirror: Mirror, since: string) => boolean, line: string): Promise<number>;
  /** Checks whether a restore of these sources is interrupted. While one is applied, nothing changes for its source. */
  checkRestores(sources: readonly UnfinishedRestore[]): Promise<number>;
  /**
   * Ends the problems of sources that are no longer configured.
   * @param isRemoved true for such a source; an empty name is the mirror as a whole
   */
  endRemoved(isRemoved: (source: string) => boolean): Promise<number>;
  /** True while overdue syncs or backups were reported that are not stored yet. */
  hasRemembered(): boolean;
  /** Where its notices wait for `Deliveries`. */
  readonly outbox: Outbox;
}

interface NotifierOptions extends Pick<OutboxOptions, 'owner' | 'mirror' | 'openWriter' | 'log'> {
  /** A hint, with the backup to restore in place of `latest` if that may be of another mirror. */
  readonly nameBackup?: (hint: string) => string;
  /** The states that jobs reported while the mirror could not be written. */
  readonly unwritten?: () => readonly NoticeState[];
  readonly deliveries: Deliveries;
  /** As `openWriter`, without waiting: false if the mirror cannot be written now. If left out, `openWriter` does not wait long. */
  readonly writeNow?: (work: (mirror: Mirror) => void) => boolean;
  /** Those of the configuration in force. */
  readonly channels: () => readonly ChannelConfig[];
  /** Of the configuration in force. */
  readonly lookup: () => SourceLookup;
  readonly clock: Clock;
}

/** The notifier of one mirror. */
export function createNotifier(options: NotifierOptions): Notifier {
  const { owner, clock, openWriter, deliveries } = options;
  const outbox = deliveries.add(options);
  const channelsOf = (notice: Notice): string[] => channelsFor(notice, options.channels(), owner);

  const recordJob = (
    mirror: Mirror,
    job: JobRow,
    details: JobDetails = {},
    assumed: readonly NoticeState[] = [],
  ): number => {
    outbox.changed();
    const ended = {
      job,
      details,
      assumed,
      at: isoTime(clock.now()),
      lookup: options.lookup(),
      log: options.log,
    };
    return recordJobNotices(mirror, ended, channelsOf, options.nameBackup);
  };
  /** In one transaction. */
  const write = async (
    transition: (mirror: Mirror) => Transition,
    channels: (notice: Notice, mirror: Mirror) => readonly string[] = channelsOf,
  ): Promise<number> => {
    try {
      return await openWriter((mirror) =>
        recordTransition(mirror, transition(mirror), (notice) => channels(notice, mirror)),
      );
    } finally {
      outbox.changed();
    }
  };
  /** Overdue syncs and backups that were reported while the mirror could not be written, by source and subject. */
  const remembered = new Map<string, NoticeState>();
  const statesOf = (mirror: Mirror, source?: string): NoticeState[] => {
    const own = [...remembered.values()].filter((state) => source === undefined || state.source === source);
    const isOwn = (state: NoticeState): boolean => remembered.has(keyOf(state));
    return [...own, ...mirror.daemon.noticeStates(source).filter((state) => !isOwn(state))];
  };
  const allStates = (mirror: Mirror, source?: string): NoticeState[] => [
    // States that could not be written are newer.
    ...(options.unwritten?.() ?? []).filter((state) => source === undefined || state.source === source),
    ...statesOf(mirror, source),
  ];
  /** Stores the change together with all that is remembered. */
  const recordAll = (mirror: Mirror, change: Transition, channels: ChannelsOf): number => {
    const moved = new Set([...change.states, ...change.cleared].map(keyOf));
    const kept = [...remembered.values()].filter((state) => !moved.has(keyOf(state)));
    const count = recordTransition(mirror, { ...change, states: [...kept, ...change.states] }, (notice) =>
      channels(notice, mirror),
    );
    remembered.clear();
    return count;
  };
  const remember = (change: Transition, channels: ChannelsOf): number => {
    const mirror = options.mirror();
    const sent = change.notices.map((notice) => ({ notice, names: channels(notice, mirror) }));
    for (const state of change.states) {
      const names = sent.flatMap(({ notice, names: own }) => (keyOf(notice) === keyOf(state) ? own : []));
      const reportedTo = [...new Set([...reportedToOf(state), ...names])];
      remembered.set(keyOf(state), { ...state, detail: { ...state.detail, reportedTo } });
    }
    for (const { notice, names } of sent) outbox.addUnstored(notice, names);
    return sent.length;
  };
  /** Of overdue syncs or backups: a begin is reported at once, an end waits for the mirror. */
  const check = async (
    transition: (mirror: Mirror) => Transition,
    channels: ChannelsOf = channelsOf,
    mayWait = true,
  ): Promise<number> => {
    const { states, cleared } = transition(options.mirror());
    if (states.length + cleared.length + remembered.size === 0) return 0;
    const { writeNow } = options;
    const all = (mirror: Mirror): number => recordAll(mirror, transition(mirror), channels);
    try {
      let count = 0;
      if (writeNow?.((mirror) => void (count = all(mirror))) === true) return count;
      if (writeNow === undefined) return await openWriter(all);
      const change = transition(options.mirror());
      const begins = { ...change, cleared: [], notices: change.notices.filter(isBegin) };
      const begun = change.states.length === 0 ? 0 : remember(begins, channels);
      return change.cleared.length === 0 || !mayWait ? begun : begun + (await openWriter(all));
    } finally {
      outbox.changed();
    }
  };
  /** Channels to which a problem of the subject was reported, from memory too. */
  const reportedTo = (
    mirror: Mirror,
    { source, subject }: Pick<NoticeState, 'source' | 'subject'>,
  ): string[] => {
    const state = stateOf(statesOf(mirror, source), source, subject);
    const stored = mirror.daemon.channelsReportedTo(source, subject);
    return state === undefined ? stored : [...stored, ...reportedToOf(state)];
  };
  /** The change of a subject, with the end of its mark. */
  const withMarkEnded = (
    states: readonly NoticeState[],
    source: string,
    subject: string,
    change: Transition,
  ): Transition => {
    const shown = { source, at: isoTime(clock.now()), run: null };
    return joined([change, settled(states, shown, [subject], change)]);
  };
  const freshness = (mirror: Mirror, sources: readonly Freshness[]): Transition => {
    const goneOf = (source: string): GoneLists | null => {
      const run = lastCompleteRun(mirror, source);
      return run === null ? null : goneLists(mirror, run.run);
    };
    return joined(
      sources.flatMap((known) => {
        const { source } = known;
        const states = allStates(mirror, source);
        const now = clock.now();
        return [
          completeTransition(states, known, isoTime(now), goneOf),
          withMarkEnded(states, source, 'fresh', freshnessTransition(states, known, now)),
        ];
      }),
    );
  };
  const interruptedRestores = (mirror: Mirror, sources: readonly UnfinishedRestore[]): Transition =>
    joined(
      sources.map((restore) => {
        const { source } = restore;
        const states = mirror.daemon.noticeStates(source);
        const change = restoreTransition(mirror, states, { ...restore, owner }, isoTime(clock.now()));
        return withMarkEnded(states, source, 'restore', change);
      }),
    );
  const overdueBackups = (
    mirror: Mirror,
    overdue: HealthReason | null,
    lagging: readonly string[] = [],
  ): Transition => {
    const at = isoTime(clock.now());
    const states = statesOf(mirror, '');
    const reported = stateOf(states, '', 'backup');
    const before = reportedCause(reported);
    const cause = overdue?.follows;
    const follows = cause !== undefined && openCauses(allStates(mirror), cause).length > 0 ? cause : null;
    // A channel that got only the cause gets this once the backup is overdue for another reason.
    const isNew = reported === undefined || (before !== null && follows !== before);
    const isOnTime = overdue === null && reported !== undefined;
    const late = overdue !== null && isNew ? backupTransition(overdue, follows, at, reported) : NO_TRANSITION;
    return withMarkEnded(states, '', 'backup', isOnTime ? onTimeTransition(at, lagging) : late);
  };
  /** Channels to which the open problem of a subject was reported. */
  const knowingOf = (mirror: Mirror, source: string, subject: string): string[] => {
    const state = stateOf(statesOf(mirror, source), source, subject);
    if (state === undefined) return [];
    return [...mirror.daemon.channelsReportedTo(source, subject, state.since), ...reportedToOf(state)];
  };
  /** An overdue sync goes only to channels to which it was not reported, such as those that got its cause, the failed sync, before. */
  const freshnessChannels = (notice: Notice, mirror: Mirror): string[] => {
    const names = channelsOf(notice);
    if (notice.event !== 'sync_overdue') return names;
    const reportedTo = knowingOf(mirror, notice.source, 'fresh');
    return names.filter((name) => !reportedTo.includes(name));
  };
  /** A channel gets an overdue backup once, and not while it knows of the cause; the end goes to the channels that got it. */
  const backupChannels = (notice: Notice, mirror: Mirror, cause: BackupCause | undefined): string[] => {
    const reported = stateOf(statesOf(mirror, ''), '', 'backup');
    const reportedTo = knowingOf(mirror, '', 'backup');
    const names = channelsOf(notice);
    if (notice.event === 'backup_overdue') {
      const knowing = openCauses(allStates(mirror), cause).flatMap((of) => channelsOf({ ...notice, ...of }));
      return names.filter((name) => !reportedTo.includes(name) && !knowing.includes(name));
    }
    if (reportedCause(reported) === null) return names;
    const waiting = channelsOf({ ...notice, event: 'backup_overdue' });
    return names.filter((name) => reportedTo.includes(name) || !waiting.includes(name));
  };
  const failedBackup = (
    mirror: Mirror,
    isOver: (mirror: Mirror, since: string) => boolean,
    line: string,
  ): Transition => {
    const states = mirror.daemon.noticeStates('');
    const open = states.find((state) => markedSubject(state) === FAILED_BACKUP);
    if (open === undefined || !isOver(mirror, open.since)) return NO_TRANSITION;
    const before = stateOf(states, '', FAILED_BACKUP);
    const change = before === undefined ? NO_TRANSITION : backupRecovered(before, isoTime(clock.now()), line);
    return withMarkEnded(states, '', FAILED_BACKUP, change);
  };

  return {
    afterJob: (job, details) => openWriter((mirror) => recordJob(mirror, job, details)),
    recordJob,
    checkFreshness: (sources, mayWait) =>
      check((mirror) => freshness(mirror, sources), freshnessChannels, mayWait),
    checkBackups: (overdue, lagging, mayWait) =>
      check(
        (mirror) => overdueBackups(mirror, overdue, lagging),
        (notice, mirror) => backupChannels(notice, mirror, overdue?.follows),
        mayWait,
      ),
    checkBackupFailure: async (isOver, line) => {
      const { cleared } = failedBackup(options.mirror(), isOver, line);
      if (cleared.length === 0) return 0;
      return write((mirror) => failedBackup(mirror, isOver, line));
    },
    checkRestores: async (sources) => {
      const idle = sources.filter(({ isAtWork }) => !isAtWork);
      const { states, cleared } = interruptedRestores(options.mirror(), idle);
      if (states.length + cleared.length === 0) return 0;
      // Another process that waited for the lock may have continued the restore first. With the lock held, nobody applies one.
      return write((mirror) =>
        interruptedRestores(
          mirror,
          idle.map((restore) => ({ ...restore, row: newestUnfinished(mirror, restore.source) })),
        ),
      );
    },
    endRemoved: async (isRemoved) => {
      const at = isoTime(clock.now());
      const removed = (mirror: Mirror): Transition =>
        removedTransition(
          statesOf(mirror).filter(({ source }) => isRemoved(source)),
          at,
          (state) => reportedTo(mirror, state).length > 0,
        );
      if (removed(options.mirror()).cleared.length === 0) return 0;
      const count = await write(removed, (notice, mirror) => {
        return channelsFor(notice, options.channels(), owner, reportedTo(mirror, notice));
      });
      for (const [key, { source }] of remembered) if (isRemoved(source)) remembered.delete(key);
      return count;
    },
    hasRemembered: () => remembered.size > 0,
    outbox,
  };
}

type ChannelsOf = (notice: Notice, mirror: Mirror) => readonly string[];

function keyOf({ source, subject }: Pick<NoticeState, 'source' | 'subject'>): string {
  return `${subject} ${source}`;
}

function isBegin({ event }: Notice): boolean {
  return event === 'sync_overdue' || event === 'backup_overdue';
}

interface JobNotices {
  readonly job: JobRow;
  readonly details: JobDetails;
  /** States that were reported but could not be stored. */
  readonly assumed: readonly NoticeState[];
  /** ISO 8601. */
  readonly at: string;
  readonly lookup: SourceLookup;
  /** Gets new drift, so that cron mails it for `daemon --once --quiet`; left out if the command shows it. */
  readonly log?: Logger;
}

/**
 * Stores the states that an ended job changed, and those that were assumed. The same job again changes nothing.
 * @param mirror open for writing
 * @returns how many notices there are to send
 */
export function recordJobNotices(
  mirror: Mirror,
  { job, details, assumed, at, lookup, log }: JobNotices,
  channelsOf: (notice: Notice) => readonly string[],
  nameBackup: (hint: string) => string = (hint) => hint,
): number {
  const source = job.source ?? '';
  const ofMirror = source === '' ? [] : mirror.daemon.noticeStates('');
  const states = [...ofMirror, ...mirror.daemon.noticeStates(source), ...assumed];
  const ofJob =
    job.name === 'sync'
      ? syncFacts(mirror, job, states, lookup)
      : { held: [], ...(job.name === 'drift' ? driftFacts(mirror, source, states, at) : {}) };
  const change = transitionsOf(states, { job, details, at, ...ofJob });
  const moved = new Set([...change.states, ...change.cleared].map(keyOf));
  const kept = assumed.filter((state) => !moved.has(keyOf(state)));
  const isOfMove = job.name === 'drift' || job.run === mirror.runs.moveOf(source)?.run;
  const move = isOfMove ? recentMoveText(mirror, source, Date.parse(at)) : null;
  const notices = change.notices.map((written): Notice => {
    const content = contentOf(written);
    // The service has a new address: what changed may be the service itself.
    const notice =
      move === null
        ? written
        : { ...written, content: { ...written.content, lines: [move, ...content.lines] } };
    const { hint, severities } = content;
    if (notice.event === 'drift_new' && severities !== null)
      log?.warn(
        { source, hint: `\`tidemark drift --source ${source}\` shows the values` },
        driftTitle(notice.event, severities),
      );
    return hint === null ? notice : { ...notice, content: { ...notice.content, hint: nameBackup(hint) } };
  });
  return recordTransition(mirror, { ...change, notices, states: [...kept, ...change.states] }, channelsOf);
}

function syncFacts(
  mirror: Mirror,
  job: JobRow,
  states: readonly NoticeState[],
  lookup: SourceLookup,
): Omit<JobObservation, 'job' | 'details' | 'at'> {
  const { run } = job;
  const source = job.source ?? '';
  const held = namedRemovals(mirror, source, lookup);
  const before = held.length === 0 ? stateOf(states, source, 'removals') : undefined;
  return {
    held,
    isBelowHeld: held.length === 0 ? () => false : heldBelowTest(mirror, source),
    settled:
      before &&
      settledRemovals(mirror, source, {
        collections: new Set(Object.keys(before.detail)),
        since: before.since,
      }),
    gone: run !== null && job.outcome === 'done' ? goneLists(mirror, run) : null,
    schemaChanges: run === null ? [] : mirror.runs.schemaChanges({ run, source }),
    completeAt: lastCompleteRun(mirror, source)?.finishedAt ?? null,
    placeText: (scope) => {
      const definitions = lookup.definitionsOf(source);
      const parentName = parentNames(mirror, source, definitions);
      return placeText(scope, { definitions, parentName }, { hasIds: false });
    },
  };
}

/** @param at ISO 8601 */
function driftFacts(
  mirror: Mirror,
  source: string,
  states: readonly NoticeState[],
  at: string,
): Pick<JobObservation, 'isOfBackup' | 'unfinishedRestore' | 'accepted'> {
  const backupRun = runOfBackup(states, source);
  const acceptances = mirror.acceptances
    .list(source)
    .filter(({ until }) => until === undefined || Date.parse(until) > Date.parse(at));
  return {
    isOfBackup: backupRun !== null && !isReadAfter(mirror, source, backupRun),
    unfinishedRestore: newestUnfinished(mirror, source)?.restore,
    accepted: new Set(acceptances.map(({ fingerprint }) => fingerprint)),
  };
}

/** All of it or nothing. */
function recordTransition(
  mirror: Mirror,
  { states, cleared, notices }: Transition,
  channelsOf: (notice: Notice) => readonly string[],
): number {
  if (states.length + cleared.length + notices.length > 0) {
    mirror.daemon.recordNotices({
      states,
      cleared,
      notices: notices.map((notice) => ({ notice, channels: channelsOf(notice) })),
    });
  }
  return notices.length;
}

// The channels that receive a notice.

/** Channels that people read. */
const PEOPLE: ReadonlySet<ChannelType> = new Set(['slack', 'teams', 'mattermost', 'discord', 'email']);

/**
 * The names of the channels that get a notice, in the order of the configuration. A `source_removed` goes to the channels to which the
 * problem was reported, since their `sources` cannot name the source any more. It counts as the event that would have ended the problem:
 * a receiver that waits for an end has that in `on`.
 * @param owner with a mirror per source, the source of the mirror
 * @param reportedTo of a `source_removed`: the channels that know of the problem, if that is known
 */
export function channelsFor(
  notice: Notice,
  channels: readonly ChannelConfig[],
  owner: string | null,
  reportedTo: readonly string[] = [],
): string[] {
  const source = sourceOf(notice, owner);
  return channels.filter((channel) => isFor(channel, notice, source, reportedTo)).map(({ name }) => name);
}

function isFor(
  { name, type, on, sources, severity }: ChannelConfig,
  notice: Notice,
  source: string,
  reportedTo: readonly string[],
): boolean {
  const isRemoved = notice.event === 'source_removed';
  const usual = isRemoved ? endingEvent(notice.subject).event : null;
  if (!on.some((event) => event === notice.event || event === usual)) return false;
  const { severities, isAssumed, isForPeople, follows } = contentOf(notice);
  if (isAssumed && !isForPeople && PEOPLE.has(type)) return false;
  // Missing in notices that an earlier version stored.
  if (typeof follows === 'string' && on.includes(follows)) return false;
  if (isRemoved && reportedTo.length > 0) return reportedTo.includes(name);
  if (source !== '' && sources !== null && !sources.includes(source)) return false;
  if (severities === null) return true;
  return SEVERITIES.some((each) => severities[each] > 0 && compareSeverities(each, severity) <= 0);
}
