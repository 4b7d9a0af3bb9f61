/**
 * What the daemon does for one mirror: schedules, queue, jobs (one at a time), observers and problems. Configuration, HTTP, main loop
 * and shutdown are in the process around it (`daemon.ts`).
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
import { type JobWork, ownJob, type QueuedJob } from './jobs/work.ts';
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
import { spreadShare, Timetable, withRateLimitWaits, withRetries } from './schedule/timetable.ts';
import type { DaemonView } from './view.ts';

/** What the cells of one process have in common. */
export interface CellSurroundings {
  readonly effects: DaemonEffects;
  /** Runs the due jobs and ends. */
  readonly isOnce: boolean;
  readonly isOfFleet?: boolean | undefined;
  readonly startedAt: string;
  /** Reads the configuration again if it may have changed; `adopt` of each cell is called with the new one. */
  readonly refreshConfig: () => void;
  /** Why the newest configuration is not in force; null if it is. */
  readonly configProblem: () => TidemarkError | null;
  /** Of the process. With one mirror, its view shows them too. */
  readonly problems: ActiveProblems;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly observers: (mirror: ObservedMirror) => readonly JobObserver[];
  readonly slots: Slots;
  readonly readers: ReaderPool;
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
  /** Wakes the daemon's loop: something may be due before the time for which it sleeps. */
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
  /** When each source was added to the configuration, ISO 8601. */
  #addedAt: ReadonlyMap<string, string>;
  /** When a reload first added each source to the schedule of syncs, ISO 8601; null if it was there at the start. */
  #scheduledAt: ReadonlyMap<string, string | null>;
  /** The `keyFingerprint` of each source. */
  #rateGroups: ReadonlyMap<string, string> = new Map();
  #registration: DaemonRegistration | null = null;
  #isLoaded = false;
  /** The stamp of the mirror's files when they were last checked for what another process wrote. */
  #lookedAt = '';
  /** By source, the last known run of another process; null before the first check. */
  #manualRuns: Map<string, number> | null = null;
  /** By source, the restores for which a sync was last begun. */
  readonly #syncedAfter = new Map<string | null, string>();
  /** By source, since when the syncs had failed that were last run again after the mirror was back. */
  readonly #syncedSince = new Map<string, string>();
  /** By source, when its failed sync is tried again, epoch milliseconds. */
  #retries = new Map<string, number>();

  /** @param source with a mirror per source, that of this mirror; null for one mirror of all sources */
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
        // With a mirror per source, the channels belong to none of them.
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
      groupOf: (job) =>
        works.get(job.name)?.sendsRequests === true ? (this.#rateGroups.get(job.source ?? '') ?? null) : null,
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
      addedAt: (name) => this.#addedAt.get(name) ?? surroundings.startedAt,
      scheduledAt: (name) => this.#scheduledAt.get(name) ?? null,
      clock,
      config: () => this.#config,
      configProblem: () => (source === null ? surroundings.configProblem() : null),
      mirrorAccess: this.#mirrorAccess,
      schedules: () =>
        withRateLimitWaits(
          withRetries(
            this.#timetable.viewsWithPauses((name) => this.runner.restsUntil(name)),
            this.#retries.values(),
          ),
          (name) => this.runner.rateWaits.until(name),
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

  /** The registration of this mirror; null before `register` and after the end. */
  registration(): DaemonRegistration | null {
    return this.#registration;
  }

  /**
   * Takes the schedules of its configuration, and what an earlier daemon left.
   * @returns starts the jobs that are due now or were left undone
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
      // After the due jobs, which may include the sync; drift of the source waits for that.
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
    // Sources that were removed stay: one that comes and goes does not get the time again.
    const added = (config.schedules.sync?.sources ?? []).filter((each) => !this.#scheduledAt.has(each));
    this.#scheduledAt = new Map([
      ...this.#scheduledAt,
      ...added.map((each) => [each, isoTime(now)] as const),
    ]);
    this.#rateGroups = new Map(config.sources.map((source) => [source.name, keyFingerprint(source)]));
    this.status.markOld();
    if (this.#isLoaded) this.#scheduleStore.keepChannels();
  }

  /** Starts the jobs that are due. @param isFirst true at the start: they became due while no daemon ran */
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
      const job = ownJob('sync', source, 'overdue', 'sync');
      if (!this.runner.holds(job)) this.runner.add(job);
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

  /** The next due time, epoch milliseconds; null if nothing is scheduled. */
  nextDueAt(): number | null {
    const times = [
      this.#timetable.nextDueAt(),
      this.runner.rateWaits.next(),
      ...this.#retries.values(),
    ].filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  /**
   * Checks whether the mirror's file is gone or back, a restore changed a source, another process synced one, and the command line can
   * find the daemon.
   */
  checkFiles(): void {
    this.#mirrorAccess.isThere();
    // Its volume is not mounted: a directory created here would be in the way of the mount.
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

  /** After the mirror was gone and is back: syncs the sources whose syncs failed meanwhile, as a start of the daemon would, once each time. */
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

  /** If another process wrote to the mirror: syncs the sources that its restore changed, and reports what its sync found. */
  #readWritten(): void {
    const files = fileStamp(this.#config.mirror);
    if (files === this.#lookedAt) return;
    try {
      // Checked again once the restore has ended, also if it is killed and writes nothing more.
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
      // If the mirror is created later, it has no runs from before the start.
      if (code === 'mirror_missing') this.#manualRuns ??= new Map();
      // Whoever needs the mirror next reports why it cannot be read.
      this.#effects.log.debug({ code }, 'what other processes wrote could not be looked for');
    }
  }

  /** After a sync of another process, as after one of the daemon: notices, drift, git and backup, once. */
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
    // The first sync of the daemon follows up on what was there at the start.
    if (known === null) return;
    for (const { source, before, last } of found) {
      this.observers.syncedByHand(source, before);
      this.#addFollowUps(last.row);
    }
  }

  /** Sets the address of HTTP, for the command line; null for none. @throws TidemarkError */
  setUrl(url: string | null): void {
    this.#registration?.setUrl(url);
  }

  /** Stores due times, if nobody holds the mirror. */
  keepSchedule(): void {
    this.#scheduleStore.keepNow();
  }

  /**
   * The source is no longer configured: the running job may end, nothing else starts, and the reported problems are ended. Resolves when
   * that was sent, which may take a day.
   * @param signal ends the wait: the rest is left to the next daemon that works on the mirror
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

  /** Releases the mirror. To be called when no job is running, or none that can be waited for. */
  close(): void {
    this.observers.close();
    // Before the last writer closes, so that it can remove the write-ahead log.
    this.#mirrorAccess.closeReader();
    // The next daemon does not know of waiting jobs.
    const putOff = this.runner.rateWaits.next();
    if (putOff !== null) this.#timetable.bringForward('sync', putOff);
    if (this.#isLoaded) this.#scheduleStore.keepNow();
    this.leave();
  }

  /** Releases the mirror without storing anything: the start failed. */
  leave(): void {
    this.#mirrorAccess.closeReader();
    // If the file stays, the next daemon knows that ends have to be sent.
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
