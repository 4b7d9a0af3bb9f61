/**
 * The daemon: its main loop, the jobs that it starts, and its state for others. It sleeps until the next due time, a
 * minute at most.
 */
import type { Config } from '../config/config.ts';
import { isoTime, type Clock, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { duration } from '../core/wording.ts';
import type { JobName, ScheduleRow } from '../mirror/daemon.ts';
import { createView } from './daemon-view.ts';
import type { DaemonEffects } from './effects.ts';
import { HttpEndpoint, type StartHttp } from './http-endpoint.ts';
import { executorFor } from './jobs/executor.ts';
import { type EndedJob, type JobObserver, Observers } from './jobs/observers.ts';
import { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import { jobWorks } from './jobs/works.ts';
import { registerDaemon, type DaemonRegistration } from './lockfile.ts';
import { MirrorConnections } from './mirror-access.ts';
import { followUps, logUnfinished } from './pending-jobs.ts';
import { ActiveProblems } from './problems.ts';
import { BEGIN_AGAIN_MS, ScheduleStore, startSchedule } from './schedule-store.ts';
import { Timetable } from './schedule/timetable.ts';
import { Settings } from './settings.ts';
import type { DaemonView } from './view.ts';

export interface DaemonOptions {
  /** Runs the due jobs and ends. */
  readonly isOnce: boolean;
  /** Null for a daemon without HTTP. */
  readonly startHttp: StartHttp | null;
  /** Notified of jobs: notices, pings. */
  readonly observers: readonly JobObserver[];
  /** Backs up the mirror after complete syncs; null without backups. */
  readonly backup: JobWork | null;
}

export interface Daemon {
  readonly view: DaemonView;
  /** Reloads configuration and keys. */
  reload(): void;
  /** Ends within the configured grace period; the same promise at every call. */
  stop(): Promise<void>;
  /** True if a job did not end in time: it may keep the process alive. */
  hasLeftWork(): boolean;
  /** Settles when the daemon has ended, in whatever way; with `isOnce`, with the worst exit code of the jobs. */
  readonly done: Promise<ExitCode>;
}

/** Longest sleep: after it, a changed configuration, a removed file and a changed clock are noticed. */
const LOOK_MS = 60_000;

/**
 * Starts the daemon of a configuration.
 * @throws TidemarkError for a wrong configuration, and `mirror_locked` if another daemon runs
 */
export async function startDaemon(effects: DaemonEffects, options: DaemonOptions): Promise<Daemon> {
  const daemon = new RunningDaemon(effects, options);
  await daemon.start();
  return daemon;
}

class RunningDaemon implements Daemon {
  readonly view: DaemonView;
  readonly done: Promise<ExitCode>;
  readonly #effects: DaemonEffects;
  readonly #options: DaemonOptions;
  readonly #problems: ActiveProblems;
  readonly #settings: Settings;
  readonly #timetable: Timetable;
  readonly #mirrorAccess: MirrorConnections;
  readonly #alarm: Alarm;
  readonly #scheduleStore: ScheduleStore;
  readonly #observers: Observers;
  readonly #runner: JobRunner;
  readonly #works: ReadonlyMap<JobName, JobWork>;
  readonly #stopSignal = new AbortController();
  readonly #exitCodes: { readonly job: JobName; readonly code: ExitCode }[] = [];
  #registration: DaemonRegistration | null = null;
  #http: HttpEndpoint | null = null;
  #hasLeftWork = false;
  #loop: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | null = null;
  readonly #finish: (code: ExitCode) => void;

  constructor(effects: DaemonEffects, options: DaemonOptions) {
    this.#effects = effects;
    this.#options = options;
    const { clock, log, random } = effects;
    this.#alarm = new Alarm(clock);
    this.#problems = new ActiveProblems(clock, log);
    this.#timetable = new Timetable({ random, hasJitter: !options.isOnce });
    this.#settings = new Settings(effects, this.#problems, (config) => this.#takeNew(config));
    this.#mirrorAccess = new MirrorConnections(effects, this.#problems, () => this.#settings.current());
    this.#scheduleStore = new ScheduleStore(effects, this.#mirrorAccess, this.#timetable, this.#problems);
    this.#works = jobWorks(options.backup);
    this.#observers = new Observers(options.observers, log, () => ({
      mirrorAccess: this.#mirrorAccess,
      signal: this.#stopSignal.signal,
    }));
    this.#runner = new JobRunner({
      effects,
      works: this.#works,
      executor: executorFor({ effects, mirrorAccess: this.#mirrorAccess, problems: this.#problems }),
      mirrorAccess: this.#mirrorAccess,
      problems: this.#problems,
      observers: this.#observers,
      freshConfig: () => {
        this.#settings.refresh();
        return this.#settings.current();
      },
      saveSchedule: (mirror) => this.#scheduleStore.keep(mirror),
      cutShort: (schedule) => this.#timetable.bringForward(schedule, clock.now()),
      notBegun: (schedule) => {
        this.#timetable.bringForward(schedule, clock.now() + BEGIN_AGAIN_MS);
        this.#alarm.ring();
      },
      onEnd: (job, ended, code) => this.#jobEnded(job, ended, code),
    });
    let finish: (code: ExitCode) => void = () => undefined;
    this.done = new Promise((resolve) => {
      finish = resolve;
    });
    this.#finish = finish;
    this.view = createView({
      clock,
      settings: this.#settings,
      mirrorAccess: this.#mirrorAccess,
      timetable: this.#timetable,
      runner: this.#runner,
      works: this.#works,
      problems: this.#problems,
    });
  }

  async start(): Promise<void> {
    const config = this.#settings.current();
    // Before jobs without an end are reported as interrupted: they may be another daemon's.
    this.#registration = await registerDaemon(config.mirror, this.#effects);
    try {
      await this.#begin(config, this.#registration);
    } catch (error) {
      this.#mirrorAccess.closeReader();
      await this.#http?.close();
      this.#registration.leave();
      throw error;
    }
  }

  async #begin(config: Config, registration: DaemonRegistration): Promise<void> {
    const { clock, log } = this.#effects;
    const before = this.#scheduleStore.load();
    this.#adopt(config, before.rows);
    for (const schedule of before.cutShort) this.#timetable.bringForward(schedule, clock.now());
    const { startHttp, isOnce } = this.#options;
    if (startHttp !== null && !isOnce) {
      this.#http = new HttpEndpoint(startHttp, this.view, registration, this.#problems);
      await this.#http.ensure(config.http);
    }
    log.info(
      { mirror: config.mirror, sources: config.sources.map(({ name }) => name), pid: this.#effects.pid },
      isOnce ? 'daemon started, for what is due' : 'daemon started',
    );
    this.#startDue(!isOnce);
    this.#runner.addAll(
      this.#scheduleStore.pending(config, isOnce).filter((job) => !this.#runner.holds(job)),
    );
    logUnfinished(before.dead, { runner: this.#runner, timetable: this.#timetable, log });
    this.#loop = isOnce ? this.#once() : this.#run();
    this.#loop.catch((error: unknown) => this.#failed(error));
  }

  reload(): void {
    this.#settings.reload();
    this.#alarm.ring();
  }

  hasLeftWork(): boolean {
    return this.#hasLeftWork;
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  #takeNew(config: Config): void {
    if (this.#settings.current().mirror !== config.mirror) {
      throw new TidemarkError('config_invalid', 'another mirror cannot be taken while the daemon runs', {
        hint: 'restart the daemon for it',
      });
    }
    this.#adopt(config, []);
  }

  #adopt(config: Config, rows: readonly ScheduleRow[]): void {
    const { clock } = this.#effects;
    this.#timetable.adopt(config, clock.now(), rows, (schedule, sources, intervalMs) => {
      if (schedule !== 'sync') return false;
      return sources.some((source) => !this.#scheduleStore.isFresh(source, intervalMs));
    });
    this.#alarm.ring();
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#effects;
    const clockWatch = new ClockWatch(clock, log);
    while (!this.#isStopped()) {
      const now = clock.now();
      const dueAt = this.#stopped === null ? this.#timetable.nextDueAt() : null;
      const times = [dueAt, this.#observers.wakeAt()].filter((at) => at !== null);
      const lookMs = Math.min(LOOK_MS, this.#runner.lookAgainMs() ?? LOOK_MS);
      const sleepMs = Math.max(0, Math.min(lookMs, ...times.map((at) => at - now)));
      await this.#alarm.sleep(sleepMs);
      if (this.#isStopped()) return;
      clockWatch.check();
      this.#runner.look();
      this.#settings.refresh();
      this.#mirrorAccess.isThere();
      this.#stayPresent();
      await this.#http?.ensure(this.#settings.current().http);
      this.#startDue(false);
      this.#observers.wake(clock.now());
    }
  }

  #isStopped(): boolean {
    return this.#stopSignal.signal.aborted;
  }

  #stayPresent(): void {
    try {
      this.#registration?.ensure();
      this.#problems.end('registration', 'the command line finds the daemon again');
    } catch (error) {
      this.#problems.begin('registration', asTidemarkError(error));
    }
  }

  async #once(): Promise<void> {
    const { log } = this.#effects;
    if (this.#runner.running().length === 0) {
      const next = this.#timetable.nextDueAt();
      log.info({ nextAt: next === null ? null : isoTime(next) }, 'nothing is due');
      this.#scheduleStore.keepNow();
    }
    await this.#runner.idle();
    await this.#observers.finish();
    await this.stop();
  }

  #startDue(isFirst: boolean): void {
    // A job that becomes due while the daemon stops is left to the next daemon.
    if (this.#stopped !== null) return;
    const { clock, log } = this.#effects;
    for (const due of this.#timetable.takeDue(clock.now(), isFirst)) {
      startSchedule(due, { runner: this.#runner, timetable: this.#timetable, works: this.#works, log });
    }
  }

  #jobEnded(job: QueuedJob, ended: EndedJob, code: ExitCode): void {
    this.#exitCodes.push({ job: job.name, code });
    if (!this.#options.isOnce) this.#exitCodes.length = 0;
    const config = this.#settings.current();
    for (const next of followUps(ended, config, this.#mirrorAccess, this.#problems)) {
      if (this.#works.has(next.name)) this.#runner.add(next);
    }
  }

  async #stop(): Promise<void> {
    const { log, clock } = this.#effects;
    const { shutdownGraceMs } = this.#settings.current().daemon;
    const endBy = clock.monotonicMs() + shutdownGraceMs;
    const reason = new TidemarkError('interrupted', 'the daemon was stopped');
    const isOver = await this.#runner.stop(shutdownGraceMs);
    this.#hasLeftWork = !isOver;
    this.#stopSignal.abort(reason);
    this.#alarm.ring();
    await settlesWithin(this.#observers.settled(), Math.max(0, endBy - clock.monotonicMs()), clock);
    await this.#http?.close();
    // Before the last writer closes, so that it can remove the write-ahead log.
    this.#mirrorAccess.closeReader();
    this.#scheduleStore.keepNow();
    this.#registration?.leave();
    if (isOver) log.info({}, 'daemon stopped');
    else log.warn({ shutdownGraceMs }, 'daemon stopped: work under way did not end in time and was left');
    this.#finish(this.#options.isOnce ? worstExitCode(this.#exitCodes) : EXIT.done);
  }

  /** The loop itself failed: the daemon cannot continue. */
  #failed(thrown: unknown): void {
    const error = asTidemarkError(thrown);
    this.#effects.log.error({ code: error.code }, error.message);
    void this.stop().finally(() => this.#finish(exitCodeFor(error.code)));
  }
}

// A sleep that can be interrupted.

class Alarm {
  readonly #clock: Clock;
  #signal = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the sleep; one that has not begun ends at once. */
  ring(): void {
    this.#signal.abort();
  }

  /** Until then, or until it rings. */
  async sleep(ms: number): Promise<void> {
    const { signal } = this.#signal;
    try {
      await this.#clock.sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (signal.aborted) this.#signal = new AbortController();
  }
}

// One exit code for several jobs (design.md, Commands: exit codes).

/** Worst first. 3 precedes 2: collections that could not be read may hide anything. */
const WORST_FIRST: readonly ExitCode[] = [
  EXIT.interrupted,
  EXIT.failed,
  EXIT.usage,
  EXIT.unsafe,
  EXIT.refused,
  EXIT.partial,
  EXIT.differences,
  EXIT.done,
];

/**
 * The worst exit code of the jobs. Jobs of one name count together, as the sources of a command do: failed or refused only
 * if all of them are, partly done if some are.
 */
function worstExitCode(ended: readonly { readonly job: JobName; readonly code: ExitCode }[]): ExitCode {
  const together = [...Map.groupBy(ended, ({ job }) => job).values()].map((jobs) => {
    const codes = [...new Set(jobs.map(({ code }) => code))];
    const [only = EXIT.done] = codes;
    if (codes.length <= 1) return only;
    if (codes.includes(EXIT.interrupted)) return EXIT.interrupted;
    return codes.some((code) => code !== EXIT.done && code !== EXIT.differences)
      ? EXIT.partial
      : EXIT.differences;
  });
  return WORST_FIRST.find((code) => together.includes(code)) ?? EXIT.done;
}

// Detects that the wall clock was changed, or that the machine slept: schedules and ages use the wall clock.

/** Smaller steps are usual corrections of time services. */
const STEP_MS = 60_000;

class ClockWatch {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Wall clock minus monotonic clock. */
  #aheadMs: number;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
    this.#aheadMs = this.#ahead();
  }

  /** Logs once if the clock jumped since the last check. */
  check(): void {
    const ahead = this.#ahead();
    const stepMs = Math.round(ahead - this.#aheadMs);
    this.#aheadMs = ahead;
    if (Math.abs(stepMs) <= STEP_MS) return;
    const by = duration(Math.abs(stepMs));
    this.#log.warn(
      { about: 'clock', stepMs },
      stepMs < 0
        ? `the clock went back by ${by}: it was put; schedules go by what it shows now`
        : `the clock went forward by ${by}: it was put, or this machine slept; schedules go by what it shows now`,
    );
  }

  #ahead(): number {
    return this.#clock.now() - this.#clock.monotonicMs();
  }
}
