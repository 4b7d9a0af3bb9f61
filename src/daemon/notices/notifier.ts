/** The daemon's notifier: changed states are stored with their notices in one transaction, and delivered afterwards. */
import { type Scope, SEVERITIES } from '../../catalog/definition.ts';
import type { ChannelConfig, ChannelType } from '../../config/channels.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { JobRow, Notice, NoticeState } from '../../mirror/daemon-store.ts';
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
import { markedSubject, runOfBackup, settled, usualEnd } from './perhaps-open.ts';
import { type JobDetails, type Transition, joined, NO_TRANSITION, stateOf } from './run-transitions.ts';
import { transitionsOf } from './transitions.ts';

export interface Notifier {
  /**
   * Stores the states that an ended job changed, in one transaction with the notices; sends nothing. The same job again
   * changes nothing.
   * @returns how many notices there are to send
   * @throws TidemarkError if the mirror cannot be written: then nothing is reported until the next job
   */
  afterJob(job: JobRow, details?: JobDetails): Promise<number>;
  /**
   * The same within a writer that is open already.
   * @param assumed states that were reported but could not be stored
   */
  recordJob(mirror: Mirror, job: JobRow, details?: JobDetails, assumed?: readonly NoticeState[]): number;
  /**
   * Checks whether a sync is overdue, or no longer; writes only changes. To be called regularly. That one is overdue does not wait
   * for whoever has the mirror: the sync that is late may have it for hours. What cannot be written is remembered until it can be.
   * @param mayWait false where an end that cannot be written now is left to the next check
   */
  checkFreshness(sources: readonly Freshness[], mayWait?: boolean): Promise<number>;
  /** Checks whether backups are overdue, or no longer, likewise. @param overdue why they are; null where they are not @param lagging targets whose newest backup is older than allowed */
  checkBackups(overdue: HealthReason | null, lagging?: readonly string[], mayWait?: boolean): Promise<number>;
  /**
   * Ends what was reported of a failed backup once nothing is left of the failure, though no backup job of the daemon says so.
   * @param isOver as `isBackupFailureOver`
   * @param line why it is over
   */
  checkBackupFailure(isOver: (mirror: Mirror, since: string) => boolean, line: string): Promise<number>;
  /** Checks whether a restore of these sources is interrupted. While one is applied, nothing changes for its source. */
  checkRestores(sources: readonly UnfinishedRestore[]): Promise<number>;
  /**
   * Ends what was reported of sources that are configured no longer.
   * @param isRemoved true for such a source; an empty name is the mirror as a whole
   * @returns how many notices there are to send
   */
  endRemoved(isRemoved: (source: string) => boolean): Promise<number>;
  /** True while overdue syncs or backups were reported that the mirror does not know of yet. */
  hasRemembered(): boolean;
  /** Where its notices wait for `Deliveries`. */
  readonly outbox: Outbox;
}

interface NotifierOptions extends Pick<OutboxOptions, 'owner' | 'mirror' | 'openWriter' | 'log'> {
  /** A hint, with the backup to restore in place of `latest` where that may be of another mirror. */
  readonly nameBackup?: (hint: string) => string;
  /** What the jobs reported while the mirror could not be written. */
  readonly unwritten?: () => readonly NoticeState[];
  readonly deliveries: Deliveries;
  /** As `openWriter`, without waiting: false where the mirror cannot be written now. If left out, `openWriter` does not wait long. */
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
  /** Of overdue syncs and backups, by source and subject: what was reported while the mirror could not be written. */
  const remembered = new Map<string, NoticeState>();
  const statesOf = (mirror: Mirror, source?: string): NoticeState[] => {
    const own = [...remembered.values()].filter((state) => source === undefined || state.source === source);
    const isOwn = (state: NoticeState): boolean => remembered.has(keyOf(state));
    return [...own, ...mirror.daemon.noticeStates(source).filter((state) => !isOwn(state))];
  };
  const allStates = (mirror: Mirror, source?: string): NoticeState[] => [
    // What could not be written is newer.
    ...(options.unwritten?.() ?? []).filter((state) => source === undefined || state.source === source),
    ...statesOf(mirror, source),
  ];
  /** The change together with what is remembered, which is in the mirror then. */
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
    const told = change.notices.map((notice) => ({ notice, names: channels(notice, mirror) }));
    for (const state of change.states) {
      const names = told.flatMap(({ notice, names: own }) => (keyOf(notice) === keyOf(state) ? own : []));
      const reportedTo = [...new Set([...reportedToOf(state), ...names])];
      remembered.set(keyOf(state), { ...state, detail: { ...state.detail, reportedTo } });
    }
    for (const { notice, names } of told) outbox.addUnstored(notice, names);
    return told.length;
  };
  /** Of syncs or backups: what begins is reported at once, what ends waits for the mirror. */
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
  /** Channels to which it was reported, from memory too. */
  const reportedTo = (
    mirror: Mirror,
    { source, subject }: Pick<NoticeState, 'source' | 'subject'>,
  ): string[] => {
    const told = stateOf(statesOf(mirror, source), source, subject);
    const stored = mirror.daemon.channelsReportedTo(source, subject);
    return told === undefined ? stored : [...stored, ...reportedToOf(told)];
  };
  const freshness = (mirror: Mirror, sources: readonly Freshness[]): Transition => {
    const goneOf = (source: string): GoneLists | null => {
      const run = lastCompleteRun(mirror, source);
      return run === null ? null : goneLists(mirror, run.run);
    };
    return joined(
      sources.map((each) => {
        const { source } = each;
        const states = allStates(mirror, source);
        const at = isoTime(clock.now());
        const change = freshnessTransition(states, each, clock.now());
        const ends = settled(states, { source, at, run: null }, ['fresh'], change);
        return joined([completeTransition(states, each, at, goneOf), change, ends]);
      }),
    );
  };
  const interruptedRestores = (mirror: Mirror, sources: readonly UnfinishedRestore[]): Transition =>
    joined(
      sources.map((each) => {
        const { source } = each;
        const at = isoTime(clock.now());
        const states = mirror.daemon.noticeStates(source);
        const change = restoreTransition(mirror, states, { ...each, owner }, at);
        return joined([change, settled(states, { source, at, run: null }, ['restore'], change)]);
      }),
    );
  const overdueBackups = (
    mirror: Mirror,
    overdue: HealthReason | null,
    lagging: readonly string[] = [],
  ): Transition => {
    const at = isoTime(clock.now());
    const states = statesOf(mirror, '');
    const told = stateOf(states, '', 'backup');
    const before = reportedCause(told);
    const cause = overdue?.follows;
    const follows = cause !== undefined && openCauses(allStates(mirror), cause).length > 0 ? cause : null;
    // To a channel that got the cause alone, the backup is reported once it is overdue for another reason.
    const isNew = told === undefined || (before !== null && follows !== before);
    const change =
      overdue === null
        ? told === undefined
          ? NO_TRANSITION
          : onTimeTransition(at, lagging)
        : isNew
          ? backupTransition(overdue, follows, at, told)
          : NO_TRANSITION;
    return joined([change, settled(states, { source: '', at, run: null }, ['backup'], change)]);
  };
  /** Channels to which what is open of a subject was reported. */
  const knowingOf = (mirror: Mirror, source: string, subject: string): string[] => {
    const told = stateOf(statesOf(mirror, source), source, subject);
    if (told === undefined) return [];
    return [...mirror.daemon.channelsReportedTo(source, subject, told.since), ...reportedToOf(told)];
  };
  /** What was not reported to a channel, as the failed sync was, is reported to that one alone. */
  const freshnessChannels = (notice: Notice, mirror: Mirror): string[] => {
    const names = channelsOf(notice);
    if (notice.event !== 'sync_overdue') return names;
    const reportedTo = knowingOf(mirror, notice.source, 'fresh');
    return names.filter((name) => !reportedTo.includes(name));
  };
  /** Each gets it once, and not while the cause was reported to it; the end goes to those that got it. */
  const backupChannels = (notice: Notice, mirror: Mirror, cause: BackupCause | undefined): string[] => {
    const told = stateOf(statesOf(mirror, ''), '', 'backup');
    const reportedTo = knowingOf(mirror, '', 'backup');
    const names = channelsOf(notice);
    if (notice.event === 'backup_overdue') {
      const knowing = openCauses(allStates(mirror), cause).flatMap((of) => channelsOf({ ...notice, ...of }));
      return names.filter((name) => !reportedTo.includes(name) && !knowing.includes(name));
    }
    if (reportedCause(told) === null) return names;
    const waiting = channelsOf({ ...notice, event: 'backup_overdue' });
    return names.filter((name) => reportedTo.includes(name) || !waiting.includes(name));
  };
  const failedBackup = (
    mirror: Mirror,
    isOver: (mirror: Mirror, since: string) => boolean,
    line: string,
  ): Transition => {
    const at = isoTime(clock.now());
    const states = mirror.daemon.noticeStates('');
    const [told] = states.filter((state) => markedSubject(state) === FAILED_BACKUP);
    if (told === undefined || !isOver(mirror, told.since)) return NO_TRANSITION;
    const before = stateOf(states, '', FAILED_BACKUP);
    const change = before === undefined ? NO_TRANSITION : backupRecovered(before, at, line);
    return joined([change, settled(states, { source: '', at, run: null }, [FAILED_BACKUP], change)]);
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
      const settledOnes = sources.filter(({ isAtWork }) => !isAtWork);
      const { states, cleared } = interruptedRestores(options.mirror(), settledOnes);
      if (states.length + cleared.length === 0) return 0;
      // Who waits for the lock too may have continued it first. While it is held, nobody applies one.
      return write((mirror) =>
        interruptedRestores(
          mirror,
          settledOnes.map((each) => ({ ...each, row: newestUnfinished(mirror, each.source) })),
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
  /** States that were reported though they could not be written down. */
  readonly assumed: readonly NoticeState[];
  /** ISO 8601. */
  readonly at: string;
  readonly lookup: SourceLookup;
  /** For new drift, which `daemon --once --quiet` has cron mail; left out where the command shows it. */
  readonly log?: Logger;
}

/** The same job again changes nothing; what was assumed is stored. `mirror` is open for writing. Returns how many notices there are to send. */
export function recordJobNotices(
  mirror: Mirror,
  { job, details, assumed, at, lookup, log }: JobNotices,
  channelsOf: (notice: Notice) => readonly string[],
  nameBackup: (hint: string) => string = (hint) => hint,
): number {
  const source = job.source ?? '';
  const ofMirror = source === '' ? [] : mirror.daemon.noticeStates('');
  const states = [...ofMirror, ...mirror.daemon.noticeStates(source), ...assumed];
  const held = job.name === 'sync' ? namedRemovals(mirror, source, lookup) : [];
  const waited = job.name === 'sync' && held.length === 0 ? stateOf(states, source, 'removals') : undefined;
  const settled =
    waited === undefined
      ? undefined
      : settledRemovals(mirror, source, {
          collections: new Set(Object.keys(waited.detail)),
          since: waited.since,
        });
  const schemaChanges =
    job.name === 'sync' && job.run !== null ? mirror.runs.schemaChanges({ run: job.run, source }) : [];
  const backupRun = job.name === 'drift' ? runOfBackup(states, source) : null;
  const isOfBackup = backupRun !== null && !isReadAfter(mirror, source, backupRun);
  const accepted = job.name === 'drift' ? acceptedAt(mirror, source, at) : undefined;
  const unfinishedRestore = job.name === 'drift' ? newestUnfinished(mirror, source)?.restore : undefined;
  const completeAt = job.name === 'sync' ? (lastCompleteRun(mirror, source)?.finishedAt ?? null) : null;
  const place = (scope: Scope): string => {
    const definitions = lookup.definitionsOf(source);
    const parentName = parentNames(mirror, source, definitions);
    return placeText(scope, { definitions, parentName }, { hasIds: false });
  };
  const seen = {
    job,
    details,
    held,
    isBelowHeld: held.length === 0 ? () => false : heldBelowTest(mirror, source),
    settled,
    gone:
      job.name === 'sync' && job.run !== null && job.outcome === 'done' ? goneLists(mirror, job.run) : null,
    schemaChanges,
    isOfBackup,
    unfinishedRestore,
    completeAt,
    at,
    placeText: place,
  };
  const change = transitionsOf(states, { ...seen, ...(accepted === undefined ? {} : { accepted }) });
  const moved = [...change.states, ...change.cleared];
  const kept = assumed.filter(
    (state) => !moved.some((each) => each.source === state.source && each.subject === state.subject),
  );
  const isOfMove = job.name === 'drift' || job.run === mirror.runs.moveOf(source)?.run;
  const move = isOfMove ? recentMoveText(mirror, source, Date.parse(at)) : null;
  const notices = change.notices.map((written): Notice => {
    const content = contentOf(written);
    // What it says may be of another service.
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

/** Fingerprints of the findings that are accepted at that time; `at` is ISO 8601. */
function acceptedAt(mirror: Mirror, source: string, at: string): ReadonlySet<string> {
  const held = mirror.acceptances
    .list(source)
    .filter(({ until }) => until === undefined || Date.parse(until) > Date.parse(at));
  return new Set(held.map(({ fingerprint }) => fingerprint));
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
 * Names of the channels, in the order of the configuration. The end of a removed source's matter goes to those to which
 * it was reported: `sources` cannot name the source any more. It counts as the event that would have ended it, which `on` has
 * where the receiver waits for an end.
 * @param owner the only source of the mirror, where each source has its own
 * @param reportedTo of a `source_removed`: the channels that know of the matter, as far as that can be said
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
  const usual = isRemoved ? usualEnd(notice.subject).event : null;
  if (!on.some((event) => event === notice.event || event === usual)) return false;
  const { severities, isAssumed, isForPeople, follows } = contentOf(notice);
  if (isAssumed && !isForPeople && PEOPLE.has(type)) return false;
  // Of a notice that an earlier version stored, it is not there.
  if (typeof follows === 'string' && on.includes(follows)) return false;
  if (isRemoved && reportedTo.length > 0) return reportedTo.includes(name);
  if (source !== '' && sources !== null && !sources.includes(source)) return false;
  if (severities === null) return true;
  return SEVERITIES.some((each) => severities[each] > 0 && compareSeverities(each, severity) <= 0);
}
