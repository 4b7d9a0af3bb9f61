/**
 * What the daemon does for one mirror: its schedules, its queue, its jobs (one at a time), its observers, and its
 * problems. Configuration, HTTP, main loop and shutdown are in the process around it (`daemon.ts`).
 */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { backupToName } from '../backup/known-backups.ts';
import type { Config } from '../config/config.ts';
import { keyFingerprint } from '../config/source.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, EXIT, type ExitCode, type TidemarkError } from '../core/errors.ts';
import type { JobName } from '../mirror/daemon-store.ts';
import { isApplied } from '../mirror/unfinished-restore.ts';
import { fileStamp } from '../mirror/write-ahead-log.ts';
import { CellStatus } from './cell-status.ts';
import { createView } from './daemon-view.ts';
import type { DaemonEffects } from './effects.ts';
import { executorFor } from './jobs/executor.ts';
import { type EndedJob, type JobObserver, type ObservedMirror, Observers } from './jobs/observers.ts';
import { jobKey } from './jobs/job-log.ts';
import { manualSyncs } from './jobs/manual-sync.ts';
import { JobRunner } from './jobs/runner.ts';
import type { Slots } from './jobs/slots.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import { registerDaemon, type DaemonRegistration } from './lockfile.ts';
import { removeLeftPlan } from './plan-directory.ts';
import { MirrorConnections, type ReaderPool } from './mirror-access.ts';
import { followUps, logUnfinished, retryTimes, syncsAfterRestores } from './pending-jobs.ts';
import { channelRows } from './notices/known-channels.ts';
import { ActiveProblems } from './problems.ts';
import {
  BEGIN_AGAIN_MS,
  NOTHING_STORED,
  ScheduleStore,
  startSchedule,
  type StoredSchedules,
} from './schedule-store.ts';
import { Intervals } from './schedule/intervals.ts';
import { spreadShare, Timetable, withPutOff, withRetries } from './schedule/timetable.ts';
import type { DaemonView } from './view.ts';

/** What the cells of one process have in common. */
export interface CellSurroundings {
  readonly effects: DaemonEffects;
  /** Runs the due jobs and ends. */
  readonly isOnce: boolean;
  readonly isOfFleet?: boolean | undefined;
  readonly startedAt: string;
  /** Reads the configuration again where it may have changed; cells are then given theirs by `adopt`. */
  readonly refreshConfig: () => void;
  /** Why the newest configuration is not in force; null where it is. */
  readonly configProblem: () => TidemarkError | null;
  /** Of the process: with one mirror, its view has them too. */
  readonly problems: ActiveProblems;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly observers: (mirror: ObservedMirror) => readonly JobObserver[];
  readonly slots: Slots;
  readonly readers: ReaderPool;
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
  /** Wakes the daemon's loop: something may be due earlier than it knows. */
  readonly wake: () => void;
  /** Called after each job, with its exit code. */
  readonly onEnd: (job: JobName, code: ExitCode) => void;
}

export class Cell {
  readonly name: string;
  readonly view: DaemonView;
  readonly status: CellStatus;
  readonly observers: Observers;
  readonly runner: JobRunner;
  readonly #surroundings: CellSurroundings;
  readonly #effects: DaemonEffects;
  readonly #problems: ActiveProblems;
  readonly #timetable: Timetable;
  readonly #intervals = new Intervals();
  readonly #mirrorAccess: MirrorConnections;
  readonly #scheduleStore: ScheduleStore;
  #config: Config;
  /** When each of its sources came into the configuration, ISO 8601. */
  #addedAt: ReadonlyMap<string, string>;
  /** When a reload first added each source to the schedule of syncs, ISO 8601; null for those of the start. */
  #scheduledAt: ReadonlyMap<string, string | null>;
  /** By source; see `keyFingerprint`. */
  #rateGroups: ReadonlyMap<string, string> = new Map();
  #registration: DaemonRegistration | null = null;
  #isLoaded = false;
  /** Of the mirror's files, when it was last looked for what another process wrote. */
  #lookedAt = '';
  /** By source: the last run of another process that is known; null before the first look. */
  #manualRuns: Map<string, number> | null = null;
  /** By source: the restores for which a sync was begun last. */
  readonly #syncedAfter = new Map<string | null, string>();
  /** By source: since when its syncs failed that were made up for last, as the mirror is back. */
  readonly #syncedSince = new Map<string, string>();
  /** By source: when its failed sync is tried again, epoch milliseconds. */
  #retries = new Map<string, number>();

  /** @param source whose mirror it is, of many; null for one mirror of all sources */
  constructor(config: Config, source: string | null, surroundings: CellSurroundings) {
    this.name = source ?? 'mirror';
    this.#surroundings = surroundings;
    const { works, signal, slots, isOnce, isOfFleet } = surroundings;
    const log = source === null ? surroundings.effects.log : surroundings.effects.log.child({ source });
    const effects = { ...surroundings.effects, log };
    this.#effects = effects;
    this.#config = config;
    const { clock, random } = effects;
    this.#addedAt = addedAt(config, isoTime(clock.now()));
    this.#scheduledAt = new Map(config.schedules.sync?.sources.map((each) => [each, null]));
    const share = source === null ? null : spreadShare(source);
    this.#problems = new ActiveProblems(clock, log, isOnce);
    this.#timetable = new Timetable({ random, isSpread: !isOnce, share: () => share });
    this.#mirrorAccess = new MirrorConnections(effects, this.#problems, () => this.#config, {
      pool: surroundings.readers,
      backupToName: () => backupToName(this.view.backups.remembered(this.#config.backup?.targets ?? [])),
    });
    this.#scheduleStore = new ScheduleStore(
      effects,
      this.#mirrorAccess,
      {
        timetable: this.#timetable,
        intervals: this.#intervals,
        // Of many mirrors, none has what is of the process.
        channels: () => (source === null ? channelRows(this.#config, isOnce ? 'once' : 'daemon') : []),
      },
      this.#problems,
    );
    const context = () => ({ mirrorAccess: this.#mirrorAccess, signal });
    const observers = surroundings.observers({ view: () => this.view, owner: source, context });
    this.observers = new Observers(observers, log, context, surroundings.wake);
    this.runner = new JobRunner({
      effects,
      isOnce,
      isOfFleet,
      works,
      executor: executorFor({ effects, mirrorAccess: this.#mirrorAccess, problems: this.#problems }),
      mirrorAccess: this.#mirrorAccess,
      problems: this.#problems,
      observers: this.observers,
      slots,
      groupOf: ({ name, source: of }) =>
        works.get(name)?.sendsRequests === true && of !== null ? (this.#rateGroups.get(of) ?? null) : null,
      freshConfig: () => {
        surroundings.refreshConfig();
        return this.#config;
      },
      saveSchedule: (mirror) => this.#scheduleStore.keep(mirror),
      cutShort: (schedule) => this.#timetable.bringForward(schedule, clock.now()),
      notBegun: (schedule) => {
        this.#timetable.bringForward(schedule, clock.now() + BEGIN_AGAIN_MS);
        surroundings.wake();
      },
      onReplaced: ({ name, source }) => this.#addFollowUps({ name, source, outcome: 'done' }),
      onEnd: (job, ended, code) => this.#jobEnded(job, ended, code),
    });
    this.view = createView({
      startedAt: surroundings.startedAt,
      addedAt: (of) => this.#addedAt.get(of) ?? surroundings.startedAt,
      scheduledAt: (of) => this.#scheduledAt.get(of) ?? null,
      clock,
      config: () => this.#config,
      configProblem: () => (source === null ? surroundings.configProblem() : null),
      mirrorAccess: this.#mirrorAccess,
      schedules: () =>
        withPutOff(
          withRetries(
            this.#timetable.viewsWithPauses((of) => this.runner.restsUntil(of)),
            this.#retries.values(),
          ),
          (of) => this.runner.rateWaits.until(of),
        ),
      intervalChange: (name) => this.#intervals.changeOf(name),
      runner: this.runner,
      works,
      problems: () =>
        source === null ? [...surroundings.problems.all(), ...this.#problems.all()] : this.#problems.all(),
      onChange: () => this.status.markOld(),
    });
    this.status = new CellStatus({
      name: this.name,
      startedAt: surroundings.startedAt,
      view: () => this.view,
      openReader: () => this.#mirrorAccess.openReader('daemon'),
      now: () => clock.now(),
    });
  }

  /**
   * Announces this process as the daemon of the mirror.
   * @param first the registration of the first mirror of this process; null for the first
   * @throws TidemarkError `mirror_locked` if another one runs
   */
  async register(first: DaemonRegistration | null): Promise<DaemonRegistration> {
    const { clock, pid, host } = this.#effects;
    const holder = { clock, pid, host, isOnce: this.#surroundings.isOnce };
    this.#registration = await registerDaemon(this.#config.mirror, holder, first);
    removeLeftPlan(this.#config.mirror);
    const { isAfterCut, isAfterFailedStart } = this.#registration;
    if (isAfterCut || isAfterFailedStart)
      this.observers.cutShort({ hasFailedToStart: isAfterFailedStart, hasLeftWork: isAfterCut });
    return this.#registration;
  }

  /** As `ScheduleStore.unsetBefore`. */
  unsetBefore(): string[] {
    return this.#scheduleStore.unsetBefore();
  }

  /** How the command line finds the daemon by this mirror; null before it is announced, and after the end. */
  registration(): DaemonRegistration | null {
    return this.#registration;
  }

  /**
   * Takes the schedules of its configuration, and what an earlier daemon left.
   * @returns what starts its jobs, those that are due now and those that were left undone
   * @throws TidemarkError `config_invalid`
   */
  load(): () => void {
    const { clock, log } = this.#effects;
    const { isOnce } = this.#surroundings;
    const before = this.#scheduleStore.load(this.#config, isOnce);
    this.adopt(this.#config, before);
    for (const schedule of before.cutShort) this.#timetable.bringForward(schedule, clock.now());
    this.#findRetries();
    const pending = this.#scheduleStore.pending(this.#config, isOnce);
    this.observers.loaded();
    this.#isLoaded = true;
    this.#scheduleStore.keepChannels();
    return () => {
      this.startDue(!isOnce);
      // After what is due, which may be the sync itself; drift of the source waits for it.
      this.#readWritten();
      this.runner.addAll(pending.filter((job) => !this.runner.holds(job)));
      logUnfinished(before.dead, { runner: this.runner, timetable: this.#timetable, log });
    };
  }

  /** Takes a new configuration. @throws TidemarkError `config_invalid`; then nothing has changed */
  adopt(config: Config, stored: Pick<StoredSchedules, 'rows' | 'intervals'> = NOTHING_STORED): void {
    const now = this.#effects.clock.now();
    this.#timetable.adopt(config, now, stored.rows, (schedule, sources) =>
      schedule === 'sync' && sources.length > 0
        ? Math.min(...sources.map((source) => this.#scheduleStore.readAt(source)))
        : null,
    );
    this.#intervals.adopt(config, this.#timetable.views(), now, stored.intervals);
    this.#config = config;
    this.runner.rateWaits.recheck(config);
    this.#addedAt = addedAt(config, isoTime(now), this.#addedAt);
    // Those that left it stay: a source that comes and goes is not given the time again.
    const added = (config.schedules.sync?.sources ?? []).filter((each) => !this.#scheduledAt.has(each));
    this.#scheduledAt = new Map([
      ...this.#scheduledAt,
      ...added.map((each) => [each, isoTime(now)] as const),
    ]);
    this.#rateGroups = new Map(config.sources.map((source) => [source.name, keyFingerprint(source)]));
    this.status.markOld();
    if (this.#isLoaded) this.#scheduleStore.keepChannels();
  }

  /** Starts what is due. `isFirst`: it came while no daemon ran. */
  startDue(isFirst: boolean): void {
    const { works } = this.#surroundings;
    const { clock, log } = this.#effects;
    for (const due of this.#timetable.takeDue(clock.now(), isFirst)) {
      startSchedule(due, { runner: this.runner, timetable: this.#timetable, works, log });
    }
    this.#startRetries();
    this.runner.rateWaits.resume();
  }

  /** Starts the syncs that are tried again after a failure. */
  #startRetries(): void {
    const now = this.#effects.clock.now();
    for (const [source, at] of this.#retries) {
      if (at > now) continue;
      this.#retries.delete(source);
      if (this.#config.schedules.sync?.sources.includes(source) !== true) continue;
      const job = { name: 'sync', source, trigger: 'overdue', schedule: 'sync' } as const;
      if (!this.runner.holds(job)) this.runner.add({ ...job, full: false, kinds: null });
    }
  }

  #findRetries(): void {
    const sync = this.#timetable.views().find(({ schedule }) => schedule === 'sync');
    try {
      this.#retries = retryTimes(this.#mirrorAccess.reader(), this.#config, sync?.dueAt ?? null);
    } catch (error) {
      this.#retries = new Map();
      // Whoever needs the mirror next reports why it cannot be read.
      this.#effects.log.debug({ code: asTidemarkError(error).code }, 'failed syncs could not be looked for');
    }
  }

  /** The rate group of its source; null for a mirror of several. */
  rateGroup(): string | null {
    const groups = [...this.#rateGroups.values()];
    return groups.length === 1 ? (groups[0] ?? null) : null;
  }

  /** Epoch milliseconds of the next due time; null where nothing is scheduled. */
  nextDueAt(): number | null {
    const times = [
      this.#timetable.nextDueAt(),
      this.runner.rateWaits.next(),
      ...this.#retries.values(),
    ].filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  /**
   * Notices that its file went or came, that a restore changed a source, that another process synced one, and that the command
   * line cannot find the daemon.
   */
  checkFiles(): void {
    this.#mirrorAccess.isThere();
    // Its directory is on a volume that is away: made here, it would be in the way of what comes back.
    if (this.#mirrorAccess.isGone() && !existsSync(dirname(this.#config.mirror))) return;
    try {
      this.#registration?.ensure();
      this.#problems.end('registration', 'the command line finds the daemon again');
    } catch (error) {
      this.#problems.begin('registration', asTidemarkError(error));
    }
    this.#syncMissed();
    this.#readWritten();
  }

  /** Syncs where syncs failed while the mirror was away, as a start of the daemon would: once each time. */
  #syncMissed(): void {
    const problems = new Map(this.#problems.all().map((each) => [each.about, each]));
    const missed = (this.#config.schedules.sync?.sources ?? []).flatMap((source) => {
      const problem = problems.get(jobKey({ name: 'sync', source }));
      if (problem?.error.code !== 'mirror_missing' || this.#syncedSince.get(source) === problem.since)
        return [];
      return [{ source, since: problem.since }];
    });
    if (missed.length === 0) return;
    try {
      this.#mirrorAccess.reader();
    } catch {
      return;
    }
    for (const { source, since } of missed) this.#syncedSince.set(source, since);
    this.#timetable.bringForward('sync', this.#effects.clock.now());
    this.startDue(true);
  }

  /** Syncs what a restore of another process changed, and reports what its sync found. Looked for only where something was written. */
  #readWritten(): void {
    const files = fileStamp(this.#config.mirror);
    if (files === this.#lookedAt) return;
    try {
      // Looked at again once it has ended: one that is killed writes nothing more.
      if (isApplied(this.#config.mirror)) return;
      const syncs = syncsAfterRestores(this.#mirrorAccess.reader(), this.#config).filter(
        ({ job, restores }) => !this.runner.holds(job) && this.#syncedAfter.get(job.source) !== restores,
      );
      this.runner.addAll(syncs.map(({ job }) => job));
      for (const { job, restores } of syncs) this.#syncedAfter.set(job.source, restores);
      this.#followManualSyncs();
      this.#lookedAt = files;
    } catch (error) {
      const { code } = asTidemarkError(error);
      // One that is begun later has nothing that was there at the start.
      if (code === 'mirror_missing') this.#manualRuns ??= new Map();
      // Whoever needs the mirror next reports why it cannot be read.
      this.#effects.log.debug({ code }, 'what other processes wrote could not be looked for');
    }
  }

  /** What follows a sync of the daemon's own follows one of another process too: notices, drift, git and backup, once. */
  #followManualSyncs(): void {
    const mirror = this.#mirrorAccess.reader();
    const known = this.#manualRuns;
    const found = this.#config.sources.flatMap(({ name: source }) => {
      const before = known?.get(source) ?? null;
      const last = manualSyncs(mirror, source, before).at(-1);
      return last === undefined ? [] : [{ source, before, last }];
    });
    this.#manualRuns = new Map([
      ...(known ?? []),
      ...found.map(({ source, last }) => [source, last.run] as const),
    ]);
    // What was there at the start is for the first sync of the daemon.
    if (known === null) return;
    for (const { source, before, last } of found) {
      this.observers.syncedByHand(source, before);
      this.#addFollowUps(last.row);
    }
  }

  /** Shows the command line where HTTP answers; null for nowhere. @throws TidemarkError */
  setUrl(url: string | null): void {
    this.#registration?.setUrl(url);
  }

  /** Writes down what is due when, where the mirror can be had at once. */
  keepSchedule(): void {
    this.#scheduleStore.keepNow();
  }

  /**
   * Ends where the source is configured no longer: what runs may end, nothing else starts, and what was reported of it is
   * closed. Resolves when that was sent, which may take a day.
   * @param signal ends the wait: what was not sent is with the next daemon that works on the mirror
   */
  async retire(signal: AbortSignal): Promise<void> {
    this.#config = { ...this.#config, sources: [] };
    await this.runner.retire();
    await this.observers.settled();
    await this.observers.retire();
    if (this.#surroundings.isOnce) await this.observers.flush();
    else await this.observers.sent(AbortSignal.any([this.#surroundings.signal, signal]));
    this.close();
  }

  /** Releases the mirror. No job is running any more, or none that can be waited for. */
  close(): void {
    this.observers.close();
    // Before the last writer closes, so that it can remove the write-ahead log.
    this.#mirrorAccess.closeReader();
    // The next daemon does not know what waits.
    const putOff = this.runner.rateWaits.next();
    if (putOff !== null) this.#timetable.bringForward('sync', putOff);
    if (this.#isLoaded) this.#scheduleStore.keepNow();
    this.leave();
  }

  /** Gives up the mirror without a word: the start failed. */
  leave(): void {
    this.#mirrorAccess.closeReader();
    // What stays shows the next daemon that the end has to be sent.
    try {
      this.#registration?.leave(this.observers.hasUnwritten());
    } catch (error) {
      this.#problems.begin('registration', asTidemarkError(error));
    }
    this.#registration = null;
  }

  #jobEnded(job: QueuedJob, ended: EndedJob, code: ExitCode): void {
    this.status.markOld();
    this.#surroundings.onEnd(job.name, code);
    if (job.name === 'sync') {
      this.#findRetries();
      if (code !== EXIT.done && job.source !== null)
        this.runner.rateWaits.putOffNext(job.source, this.#config, ended.row.errorCode);
    }
    this.#addFollowUps(ended.row);
  }

  #addFollowUps(ended: Parameters<typeof followUps>[0]): void {
    const { works } = this.#surroundings;
    const now = this.#effects.clock.now();
    for (const next of followUps(ended, this.#config, this.#mirrorAccess, this.#problems, now)) {
      if (works.has(next.name)) this.runner.add(next);
    }
  }
}

function addedAt(
  { sources }: Config,
  now: string,
  known: ReadonlyMap<string, string> = new Map(),
): ReadonlyMap<string, string> {
  return new Map(sources.map(({ name }) => [name, known.get(name) ?? now]));
}
