/**
 * Notifies people of jobs: the notices of a job are stored under its lock, and sent after its release. If the mirror cannot be
 * written, a failure is still reported, once and immediately.
 */
import { sourceLookup } from '../../state/held-names.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Notice, NoticeState } from '../../mirror/notice-rows.ts';
import type { Deliveries } from './deliveries.ts';
import { channelsFor, createNotifier, type Notifier } from './notifier.ts';
import { removedTransition, type UnfinishedRestore } from './checked-transitions.ts';
import type { Config } from '../../config/config.ts';
import { configuredBackups } from '../../config/mirrors.ts';
import { asTidemarkError, isLocalError, TidemarkError } from '../../core/errors.ts';
import { namingBackup } from '../../core/hints.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { writerOf } from '../../mirror/lock.ts';
import { mirrorFileState } from '../../mirror/real-path.ts';
import { latestUnfinished } from '../../mirror/unfinished-restore.ts';
import { backupActivity } from '../health/backup-facts.ts';
import { isMirrorGone, readHealthSnapshot } from '../health/health-facts.ts';
import { type Freshness, readFreshness } from '../health/freshness.ts';
import { allowedBackupAgeMs, isQueuedBackupOnTime } from '../health/allowed-age.ts';
import type { BegunJob, CutShort, EndedJob, JobObserver, ObserverContext } from '../jobs/observers.ts';
import { UNENDED } from '../jobs/job-log.ts';
import { manualSyncs } from '../jobs/manual-sync.ts';
import { unreadSweeps } from '../jobs/sync-job.ts';
import { isBackupFailureOver } from '../backup-failure.ts';
import { lastCompleteRun } from '../../state/runs.ts';
import { markFailedStart, unmarkFailedStart } from '../lockfile.ts';
import type { DaemonView } from '../view.ts';
import { START_CODES } from './failed-start.ts';
import { MirrorFileWatch } from './mirror-place.ts';
import { cutShortStates, isCutShortMark, markedSubject, OF_BACKUPS, replacedStates } from './perhaps-open.ts';
import { CONTENT_SUBJECTS } from './run-transitions.ts';
import { type JobDetails, stateOf } from './transition.ts';
import { transitionsOf } from './transitions.ts';

interface NoticeObserverOptions {
  /** The configuration in force. */
  readonly config: () => Config;
  /** Null until the daemon has started. */
  readonly view: () => DaemonView | null;
  /** Name of the only source, where each source has a mirror of its own. */
  readonly owner: string | null;
  readonly context: () => ObserverContext;
  readonly clock: Clock;
  readonly log: Logger;
  readonly deliveries: Deliveries;
}

/** Interval of checking whether a sync is overdue. */
const CHECK_MS = 60_000;
/** The first check, if no sync ends before: overdue syncs have started by then. */
const FIRST_CHECK_MS = 2 * 60_000;
/** How long a catch-up sync after the daemon was down may take before its source is reported as overdue. */
const CATCH_UP_MS = 15 * 60_000;

/** Shortest wait before a message that was not accepted is sent again. */
const SENT_AGAIN_MS = 1_000;
/** Longest time between two checks that read the mirror. */
const QUIET_MS = 60 * 60_000;
/** The same if backups are made. */
const BACKUP_QUIET_MS = 10 * 60_000;

/** How long listing a backup directory may take: it may be on a network disk that hangs. */
const DIRECTORY_WAIT_MS = 5_000;

const CONTENT_KEYS = CONTENT_SUBJECTS.map((subject) => keyOf({ source: '' }, subject));

/** The number of latest syncs that are searched for an earlier attempt. */
const ATTEMPTS_READ = 5;

/** The observer that notifies people of the jobs of one mirror. */
export class NoticeObserver implements JobObserver {
  readonly name = 'notices';
  readonly #options: NoticeObserverOptions;
  readonly #notifier: Notifier;
  readonly #place: MirrorFileWatch;
  #checkAt: number;
  readonly #recorded = new WeakSet<JobRow>();
  /** States that were reported but could not be stored, by subject and source. */
  readonly #unwritten = new Map<string, NoticeState>();
  /** The reported states of the mirror's contents, as of the last job that could be stored. */
  #ofContents: readonly NoticeState[] = [];
  /** State of the mirror's files at the last check. */
  #file = '';
  /** True if the last sync that could not be stored failed for a reason that would also make a start fail. */
  #isOfMachine = false;
  /** True until the marks are stored for what the previous daemon may have reported. */
  #isAfterCut = false;
  /** True until the end of a failed start is stored, which was reported to each channel. */
  #isAfterFailedStart = false;
  /** True if nothing but that start can have been reported. */
  #isStartAlone = false;
  /** The configuration for which removed sources were ended; null if a removed one may have been reported since. */
  #removedOf: Config | null = null;
  /** True once the backup directories were looked at before a sync. */
  #hasLooked = false;
  /** True before the first check, and while a restore is applied: its process may die without a trace. */
  #isRestoring = true;
  /** Until when no sync or backup becomes overdue, epoch milliseconds, under this configuration. */
  #quiet: { readonly until: number; readonly config: Config } | null = null;

  constructor(options: NoticeObserverOptions) {
    this.#options = options;
    this.#checkAt = options.clock.now() + FIRST_CHECK_MS;
    this.#place = new MirrorFileWatch({ ...options, send: (notice) => this.#sendUnstored(notice) });
    this.#notifier = createNotifier({
      ...options,
      channels: () => options.config().notices,
      lookup: () => sourceLookup(options.config()),
      mirror: () => this.#view().mirror(),
      openWriter: (work) => this.#write(work),
      unwritten: () => [...this.#unwritten.values()],
      writeNow: (work) => this.#writeNow(work),
      nameBackup: (hint) => this.#namingBackup(hint),
    });
  }

  cutShort({ hasFailedToStart, hasLeftWork }: CutShort): void {
    this.#isAfterCut = true;
    this.#isAfterFailedStart = hasFailedToStart;
    this.#isStartAlone = !hasLeftWork;
  }

  hasUnwritten(): boolean {
    const isReported = this.#place.isOpen || this.#unwritten.size > 0;
    const { outbox } = this.#notifier;
    // Without a channel nobody waits for an end.
    const hasChannel = this.#options.config().notices.length > 0;
    return (
      this.#isAfterCut ||
      (hasChannel && (isReported || this.#notifier.hasRemembered() || outbox.hasUnstored()))
    );
  }

  /** Before the first sync: if a backup directory shows that the mirror was begun by mistake, that is reported at once. */
  async began({ row }: BegunJob, context: ObserverContext): Promise<void> {
    if (row.name !== 'sync' || this.#place.isBegunWithoutHistory) return;
    await this.#whereThere(context, async () => {
      const view = this.#view();
      const directories = (view.config().backup?.targets ?? []).filter(({ type }) => type === 'directory');
      const mirror = view.mirror();
      if (directories.length === 0) return;
      const hasRuns = mirror.runs.list({ isPublished: true, limit: 1 }).length > 0;
      if (!hasRuns || !this.#hasLooked) await view.backups.look(directories, mirror, DIRECTORY_WAIT_MS);
      this.#hasLooked = true;
      if (this.#place.reportBegunWithoutHistory(this.#view()))
        await this.#options.deliveries.deliverDue(context.signal);
    });
  }

  recorded(ended: EndedJob, mirror: Mirror): void {
    const { row } = ended;
    const keys = [keyOf(row, subjectOf(row)), ...CONTENT_KEYS];
    this.#markReplaced(mirror);
    const assumed = [...this.#unwrittenOf(keys), ...this.#perhapsOpen(mirror)];
    this.#notifier.recordJob(mirror, row, detailsOf(ended), assumed);
    this.#isAfterCut = false;
    this.#recorded.add(row);
    for (const key of keys) this.#unwritten.delete(key);
    this.#ofContents = mirror.daemon.noticeStates('').filter(isOfContents);
    this.#place.recorded(mirror);
    if (!this.#isAfterFailedStart) return;
    this.#isAfterFailedStart = false;
    unmarkFailedStart(this.#options.config().mirror);
  }

  async ended(ended: EndedJob, context: ObserverContext): Promise<void> {
    const { row } = ended;
    this.#quiet = null;
    // The job was running when its source was removed.
    if (row.source !== null && !this.#isConfigured(row.source)) this.#removedOf = null;
    if (!this.#recorded.has(row)) this.#reportUnwritten(row, detailsOf(ended));
    this.#reportPlace();
    await this.#whereThere(context, async () => {
      // The others are checked once a minute (`wake`).
      if (row.name === 'sync' && row.source !== null) await this.#checkFreshness([row.source]);
      await this.#checkRestores();
      if (this.#place.isBegunWithoutHistory) this.#place.reportBegunWithoutHistory(this.#view());
    });
    await this.#options.deliveries.deliverDue(context.signal);
  }

  /** As at the end of the daemon's own sync, which was left out. */
  async replaced(source: string, context: ObserverContext): Promise<void> {
    await this.#whereThere(context, async () => {
      const run = lastCompleteRun(this.#view().mirror(), source);
      if (run === null) return;
      const { startedAt, finishedAt } = run;
      const made = { trigger: 'schedule', startedAt, finishedAt, outcome: 'done', run: run.run } as const;
      const row: JobRow = { ...UNENDED, ...made, job: 0, name: 'sync', source };
      const end: EndedJob = { row, kinds: null, report: null };
      await this.#write((mirror) => this.recorded(end, mirror));
      await this.ended(end, context);
    });
  }

  /** As at the end of the daemon's own syncs. They are read under the lock: one of the daemon may have come between. */
  async syncedByHand(source: string, after: number | null, context: ObserverContext): Promise<void> {
    await this.#whereThere(context, async () => {
      const ends = await this.#write((mirror) => {
        const found = manualSyncs(mirror, source, after);
        for (const end of found) this.recorded(end, mirror);
        return found;
      });
      for (const end of ends) await this.ended(end, context);
    });
  }

  async finish(context: ObserverContext): Promise<void> {
    await this.#whereThere(context, async () => {
      await this.#endRemoved();
      this.#reportByHand();
      await this.#checkFreshness(undefined, true);
      await this.#checkRestores();
    });
  }

  async retire(context: ObserverContext): Promise<void> {
    const { owner, clock } = this.#options;
    const isOwn = (source: string): boolean => source === '' || source === owner;
    await this.#whereThere(context, async () => {
      await this.#notifier.endRemoved(isOwn);
    });
    const at = isoTime(clock.now());
    for (const notice of removedTransition([...this.#unwritten.values()], at).notices)
      this.#sendUnstored(notice);
    this.#place.retire();
    this.#unwritten.clear();
  }

  async sent({ signal }: ObserverContext): Promise<void> {
    const { clock, deliveries } = this.#options;
    const { outbox } = this.#notifier;
    while (!signal.aborted) {
      await deliveries.deliverDue(signal);
      if (outbox.pending().length === 0 && !outbox.hasUnwritten()) return;
      const waitMs = (deliveries.nextDueAt(outbox) ?? Number.POSITIVE_INFINITY) - clock.now();
      // If the signal ends the sleep, so does the loop.
      await clock.sleep(Math.max(SENT_AGAIN_MS, Math.min(waitMs, CHECK_MS)), signal).catch(() => undefined);
    }
  }

  async flush({ signal }: ObserverContext): Promise<void> {
    await this.#options.deliveries.deliverDue(signal, { isLast: true });
  }

  wakeAt(): number | null {
    const { view: viewOf, clock, deliveries } = this.#options;
    const view = viewOf();
    if (view === null) return null;
    if (this.#place.isReportDue(view)) return clock.now();
    return Math.min(deliveries.nextDueAt(this.#notifier.outbox) ?? this.#checkAt, this.#checkAt);
  }

  async wake(context: ObserverContext): Promise<void> {
    const { clock, deliveries } = this.#options;
    const now = clock.now();
    this.#reportPlace();
    // A check that is due much later: the clock was set back.
    const isCheckDue = now >= this.#checkAt || this.#checkAt - now > FIRST_CHECK_MS;
    if (isCheckDue) {
      this.#checkAt = now + CHECK_MS;
      // Commands record notices too.
      const file = mirrorFileState(this.#view().config().mirror);
      const isChanged = file !== this.#file;
      if (isChanged || !this.#notifier.outbox.isReadable()) this.#notifier.outbox.changed();
      this.#file = file;
      await this.#whereThere(context, () => this.#endRemoved());
      // A command may have made a complete run.
      if (isChanged || !this.#isQuiet(now)) await this.#whereThere(context, () => this.#checkFreshness());
      if (isChanged || this.#isRestoring) await this.#whereThere(context, () => this.#checkRestores());
      await this.#whereThere(context, () => {
        this.#place.reportBegunWithoutHistory(this.#view());
        return Promise.resolve();
      });
    }
    const dueAt = deliveries.nextDueAt(this.#notifier.outbox);
    // The notices that were just recorded are due a moment after `now`.
    if (dueAt !== null && dueAt <= clock.now()) await deliveries.deliverDue(context.signal);
  }

  close(): void {
    const { config } = this.#options;
    // If the next start fails for the same reason, that is the same incident, which is reported already.
    const isReported = this.#isOfMachine && this.#unwritten.size > 0 && config().notices.length > 0;
    if (isReported && !this.#notifier.outbox.hasUnstored()) markFailedStart(config().mirror);
    this.#options.deliveries.remove(this.#notifier.outbox);
  }

  /** Does the work if there is a mirror: not before the first sync, nor while the mirror is gone, which is reported separately. */
  async #whereThere({ mirrorAccess }: ObserverContext, work: () => Promise<void>): Promise<void> {
    if (this.#options.view() === null || !mirrorAccess.isThere()) return;
    try {
      await work();
    } catch (error) {
      if (mirrorAccess.isThere()) throw error;
    }
  }

  #view(): DaemonView {
    const view = this.#options.view();
    if (view === null) throw new TidemarkError('internal', 'the daemon has not started yet');
    return view;
  }

  #isConfigured(source: string): boolean {
    return this.#view()
      .config()
      .configured.some(({ name }) => name === source);
  }

  /** Ends the problems of sources that were removed from the configuration, in a mirror of several sources. */
  async #endRemoved(): Promise<void> {
    const config = this.#view().config();
    if (this.#options.owner !== null || this.#removedOf === config) return;
    await this.#notifier.endRemoved((source) => source !== '' && !this.#isConfigured(source));
    this.#removedOf = config;
  }

  /** @param names the sources; all without @param isLast true if no check follows */
  async #checkFreshness(names?: readonly string[], isLast = false): Promise<void> {
    const now = this.#options.clock.now();
    const view = this.#view();
    const known = readFreshness(view, now, names);
    if (known === null) return;
    const catchingUp = known.filter((source) => isCatchingUp(view, source, now));
    const checked = known.filter((source) => !source.isFirstSyncAtWork && !catchingUp.includes(source));
    const config = view.config();
    // While a sync holds the mirror, an end is left to the next check: other notices must not wait with it.
    const isWriting = view.running().some(({ name }) => name === 'sync' || name === 'forget');
    const mayWait = isLast || names !== undefined || (!isWriting && writerOf(config.mirror) === null);
    await this.#notifier.checkFreshness(checked, mayWait);
    if (names !== undefined) return;
    const overdueAt = known.map(({ completeAt, expectedSince, allowedMs }) => {
      return Date.parse(completeAt ?? expectedSince) + allowedMs;
    });
    // A source that is overdue may be synced by another process at any time.
    const isOver = checked.length < known.length || overdueAt.some((at) => at < now);
    // Other programs change what the targets of backups hold.
    const hasFailed = stateOf(view.mirror().daemon.noticeStates(''), '', 'job:backup') !== undefined;
    const until = Math.min(...overdueAt, now + (config.backup === null ? QUIET_MS : BACKUP_QUIET_MS));
    this.#quiet = isOver || hasFailed || !mayWait ? null : { until, config };
    const { backup } = config;
    const { reasons } = backup === null ? { reasons: [] } : readHealthSnapshot(view, now).health;
    const overdue = reasons.find(({ code }) => code === 'backup_overdue') ?? null;
    // Not overdue: a backup that is being made, was queued only now, or comes after a sync that catches up.
    const { isBeingMade, waits } = backupActivity(view);
    const isComing =
      isBeingMade ||
      (overdue?.follows === 'sync_overdue' && catchingUp.length > 0) ||
      (waits !== null && isQueuedBackupOnTime(waits, backup?.everyMs ?? 0, now));
    if (overdue === null ? mayWait : !isComing)
      await this.#notifier.checkBackups(overdue, laggingTargets(view, now), mayWait);
    if (!mayWait) return;
    await this.#notifier.checkBackupFailure(
      (mirror, since) =>
        isBackupFailureOver(mirror, backup, view.backups.remembered(backup?.targets ?? []), since),
      backup === null
        ? 'no target for backups is configured any more'
        : 'each configured target has one again',
    );
  }

  /** Records the syncs that commands made since the daemon's last one, like its own; nothing while the mirror is held. */
  #reportByHand(): void {
    const view = this.#view();
    const mirror = view.mirror();
    const ends = view.config().sources.flatMap(({ name }) => manualSyncs(mirror, name, null));
    if (ends.length > 0) this.#writeNow((open) => ends.forEach((end) => this.recorded(end, open)));
  }

  async #checkRestores(): Promise<void> {
    const found = readUnfinished(this.#view());
    if (found === null) return;
    const { sources, isHeld } = found;
    // Other notices would wait with the lock. Restores are checked again in a minute, and once the job has ended.
    this.#isRestoring = isHeld || sources.some(({ isAtWork }) => isAtWork);
    if (isHeld) return;
    await this.#notifier.checkRestores(sources);
  }

  /** True if, by the last check, this one would find nothing. */
  #isQuiet(now: number): boolean {
    const quiet = this.#quiet;
    if (quiet === null || quiet.config !== this.#view().config()) return false;
    // False after the clock was set back.
    return now <= quiet.until && quiet.until - now <= QUIET_MS;
  }

  #namingBackup(hint: string): string {
    const view = this.#view();
    return namingBackup(hint, this.#place.backupToName(view), configuredBackups(view.config()));
  }

  #sendUnstored(notice: Notice): void {
    const { owner, config } = this.#options;
    this.#notifier.outbox.addUnstored(notice, channelsFor(notice, config().notices, owner));
  }

  #reportPlace(): void {
    const view = this.#options.view();
    if (view !== null) this.#place.report(view);
  }

  /** Does work on the mirror open for writing; while the daemon stops, only if nobody holds the mirror. @throws TidemarkError */
  async #write<T>(work: (mirror: Mirror) => T): Promise<T> {
    const { mirrorAccess, signal } = this.#options.context();
    if (!signal.aborted) return await mirrorAccess.write('daemon notices', signal, work);
    const done: { readonly value: T }[] = [];
    mirrorAccess.writeNow('daemon notices', null, (mirror) => void done.push({ value: work(mirror) }));
    const [first] = done;
    if (first === undefined)
      throw new TidemarkError('mirror_locked', 'the mirror is held while the daemon ends');
    return first.value;
  }

  /** False if the mirror is held, or cannot be written. */
  #writeNow(work: (mirror: Mirror) => void): boolean {
    try {
      return this.#options.context().mirrorAccess.writeNow('daemon notices', null, work);
    } catch (error) {
      if (isLocalError(asTidemarkError(error).code)) return false;
      throw error;
    }
  }

  /** Reports the failure of a job that could not be stored, unless it was reported before. */
  #reportUnwritten(row: JobRow, details: JobDetails): void {
    const { clock } = this.#options;
    // `#place` reports that.
    if (row.errorCode === 'mirror_missing' && isMirrorGone(this.#view())) return;
    const own = subjectOf(row);
    const unwritten = this.#unwrittenOf([keyOf(row, own), ...CONTENT_KEYS]);
    const stored = [...this.#ofContents, ...this.#storedOf(row, own)];
    const known = [
      ...unwritten,
      ...stored.filter((state) => !this.#unwritten.has(keyOf(state, state.subject))),
    ];
    const observed = { job: row, details, held: [], at: isoTime(clock.now()) };
    const { states, notices } = transitionsOf(known, observed);
    if (own === 'run') this.#isOfMachine = START_CODES.some((code) => code === row.errorCode);
    for (const state of states) {
      if (state.subject !== own && !isOfContents(state)) continue;
      this.#unwritten.set(keyOf(state, state.subject), state);
      for (const notice of notices) if (notice.subject === state.subject) this.#sendUnstored(notice);
    }
  }

  /** The states of the subject that the mirror has; none if it cannot be read. */
  #storedOf({ source }: JobRow, subject: string): readonly NoticeState[] {
    try {
      const { daemon } = this.#view().mirror();
      return daemon.noticeStates(source ?? '').filter((state) => state.subject === subject);
    } catch {
      return [];
    }
  }

  /** If the mirror was replaced by another one, or by its backup, the reported problems of its contents are marked to be ended. */
  #markReplaced(mirror: Mirror): void {
    const reported = [...this.#unwrittenOf(CONTENT_KEYS), ...this.#ofContents];
    if (reported.length === 0) return;
    const states = mirror.daemon.noticeStates('');
    if (!this.#place.isReplaced(mirror, states)) return;
    const marks = replacedStates(states, reported, isoTime(this.#options.clock.now()));
    mirror.daemon.recordNotices({ states: marks, cleared: [], notices: [] });
    for (const key of CONTENT_KEYS) this.#unwritten.delete(key);
  }

  /** The marks of what the previous daemon may have reported from memory. */
  #perhapsOpen(mirror: Mirror): NoticeState[] {
    if (!this.#isAfterCut) return [];
    const { sources, backup } = this.#view().config();
    const names = sources.map(({ name }) => name);
    const at = isoTime(this.#options.clock.now());
    const marks = cutShortStates(mirror.daemon.noticeStates(), names, at, {
      hasFailedToStart: this.#isAfterFailedStart,
      hasLeftWork: !this.#isStartAlone,
    });
    const hasBackups = backup !== null || mirror.daemon.jobs({ name: 'backup', limit: 1 }).length > 0;
    return marks.filter((mark) => {
      const subject = markedSubject(mark);
      // This process itself reports the end of what it has reported of the file.
      if (subject === 'mirror') return !isCutShortMark(mark) || !this.#place.hasReported;
      return hasBackups || !OF_BACKUPS.includes(subject);
    });
  }

  #unwrittenOf(keys: readonly string[]): NoticeState[] {
    return keys.flatMap((key) => this.#unwritten.get(key) ?? []);
  }
}

/** The latest restore of each source that has not ended, and whether a writer holds the mirror; null if it cannot be read. */
function readUnfinished(
  view: DaemonView,
): { readonly sources: UnfinishedRestore[]; readonly isHeld: boolean } | null {
  try {
    const mirror = view.mirror();
    const names = view.config().sources.map(({ name }) => name);
    const sources = names.map((source) => ({ source, ...latestUnfinished(mirror, source) }));
    return { sources, isHeld: writerOf(mirror.path) !== null };
  } catch {
    // Health and the jobs report why it cannot be read.
    return null;
  }
}

/** Targets whose newest backup is older than a backup may be. */
function laggingTargets(view: DaemonView, now: number): readonly string[] {
  const { backup } = view.config();
  if (backup === null || backup.everyMs === 0) return [];
  const { everyMs, targets } = backup;
  const change = view.intervalChange('backup');
  const syncsMs = view
    .schedules()
    .flatMap(({ schedule, intervalMs }) => (schedule === 'sync' ? [intervalMs] : []));
  return view.backups.remembered(targets).flatMap(({ address, newest }) => {
    if (newest === null) return [address];
    const allowedMs = allowedBackupAgeMs(newest.madeAt, { everyMs, change }, syncsMs);
    return now - Date.parse(newest.madeAt) > allowedMs ? [address] : [];
  });
}

function isOfContents({ subject }: NoticeState): boolean {
  return CONTENT_SUBJECTS.some((ofContents) => ofContents === subject);
}

/** The subject of a job: whether it can do its work. */
function subjectOf({ name }: JobRow): string {
  return name === 'sync' ? 'run' : `job:${name}`;
}

function keyOf({ source }: { readonly source: string | null }, subject: string): string {
  return `${subject} ${source ?? ''}`;
}

function detailsOf({ report, kinds, unread, isFollowed = false }: EndedJob): JobDetails {
  const known = report === null ? unread : unreadSweeps(report.sweeps);
  return { kinds, isFollowed, ...(known === undefined ? {} : { unread: known }) };
}

/** True while a recently started daemon runs the first sync since the source became overdue. */
function isCatchingUp(
  view: DaemonView,
  { source, completeAt, expectedSince, allowedMs }: Freshness,
  now: number,
): boolean {
  const overdueAtMs = Date.parse(completeAt ?? expectedSince) + allowedMs;
  // A run that was complete in time ends the problem, whatever runs now.
  if (now <= overdueAtMs || now - Date.parse(view.startedAt) >= CATCH_UP_MS) return false;
  const isUnderWay = [...view.running(), ...view.queued()].some(
    (job) => job.name === 'sync' && job.source === source,
  );
  if (!isUnderWay) return false;
  const overdueAt = isoTime(overdueAtMs);
  return !view
    .mirror()
    .daemon.jobs({ name: 'sync', source, limit: ATTEMPTS_READ })
    .some(({ outcome, startedAt }) => outcome !== 'running' && startedAt > overdueAt);
}
