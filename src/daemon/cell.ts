/**
 * What the daemon does for one mirror: its schedules, its queue, one job at a time, its observers, and what is wrong with
 * it. The process around it (`daemon.ts`) has the configuration, HTTP, the loop and the end.
 */
import type { Config } from '../config/config.ts';
import { asTidemarkError, type ExitCode } from '../core/errors.ts';
import type { Secret } from '../core/secret.ts';
import type { JobName, ScheduleRow } from '../mirror/daemon.ts';
import { createView } from './daemon-view.ts';
import type { DaemonEffects } from './effects.ts';
import { executorFor } from './jobs/executor.ts';
import { type EndedJob, type JobObserver, Observers } from './jobs/observers.ts';
import { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import { registerDaemon, type DaemonRegistration } from './lockfile.ts';
import { MirrorConnections } from './mirror-access.ts';
import { followUps, logUnfinished } from './pending-jobs.ts';
import type { ActiveProblems } from './problems.ts';
import { BEGIN_AGAIN_MS, ScheduleStore, startSchedule } from './schedule-store.ts';
import { Timetable } from './schedule/timetable.ts';
import type { Settings } from './settings.ts';
import type { DaemonView } from './view.ts';

interface CellOptions {
  readonly effects: DaemonEffects;
  /** Runs the due jobs and ends. */
  readonly isOnce: boolean;
  readonly settings: Settings;
  readonly problems: ActiveProblems;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly observers: readonly JobObserver[];
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
  /** Wakes the daemon's loop: something may be due earlier than it knows. */
  readonly wake: () => void;
  /** Called after each job, with its exit code. */
  readonly onEnd: (job: JobName, code: ExitCode) => void;
}

export class Cell {
  readonly view: DaemonView;
  readonly observers: Observers;
  readonly runner: JobRunner;
  readonly #options: CellOptions;
  readonly #timetable: Timetable;
  readonly #mirrorAccess: MirrorConnections;
  readonly #scheduleStore: ScheduleStore;
  #registration: DaemonRegistration | null = null;

  constructor(options: CellOptions) {
    this.#options = options;
    const { effects, settings, problems, works, signal } = options;
    const { clock, log, random } = effects;
    this.#timetable = new Timetable({ random, hasJitter: !options.isOnce });
    this.#mirrorAccess = new MirrorConnections(effects, problems, () => settings.current());
    this.#scheduleStore = new ScheduleStore(effects, this.#mirrorAccess, this.#timetable, problems);
    this.observers = new Observers(options.observers, log, () => ({
      mirrorAccess: this.#mirrorAccess,
      signal,
    }));
    this.runner = new JobRunner({
      effects,
      works,
      executor: executorFor({ effects, mirrorAccess: this.#mirrorAccess, problems }),
      mirrorAccess: this.#mirrorAccess,
      problems,
      observers: this.observers,
      freshConfig: () => {
        settings.refresh();
        return settings.current();
      },
      saveSchedule: (mirror) => this.#scheduleStore.keep(mirror),
      cutShort: (schedule) => this.#timetable.bringForward(schedule, clock.now()),
      notBegun: (schedule) => {
        this.#timetable.bringForward(schedule, clock.now() + BEGIN_AGAIN_MS);
        options.wake();
      },
      onEnd: (job, ended, code) => this.#jobEnded(job, ended, code),
    });
    this.view = createView({
      clock,
      settings,
      mirrorAccess: this.#mirrorAccess,
      timetable: this.#timetable,
      runner: this.runner,
      works,
      problems,
    });
  }

  /**
   * Announces this process as the daemon of the mirror.
   * @returns the token by which this machine's command line is known
   * @throws TidemarkError `mirror_locked` if another one runs
   */
  async register(config: Config): Promise<Secret> {
    this.#registration = await registerDaemon(config.mirror, this.#options.effects);
    return this.#registration.token;
  }

  /**
   * Takes the schedules of a configuration, and what an earlier daemon left.
   * @returns what starts its jobs, those that are due now and those that were left undone
   * @throws TidemarkError `config_invalid`
   */
  load(config: Config): () => void {
    const { clock, log } = this.#options.effects;
    const { isOnce } = this.#options;
    const before = this.#scheduleStore.load();
    this.adopt(config, before.rows);
    for (const schedule of before.cutShort) this.#timetable.bringForward(schedule, clock.now());
    return () => {
      this.startDue(!isOnce);
      this.runner.addAll(
        this.#scheduleStore.pending(config, isOnce).filter((job) => !this.runner.holds(job)),
      );
      logUnfinished(before.dead, { runner: this.runner, timetable: this.#timetable, log });
    };
  }

  /** Takes the schedules of a new configuration. @throws TidemarkError `config_invalid`; then nothing has changed */
  adopt(config: Config, rows: readonly ScheduleRow[] = []): void {
    this.#timetable.adopt(
      config,
      this.#options.effects.clock.now(),
      rows,
      (schedule, sources, intervalMs) => {
        if (schedule !== 'sync') return false;
        return sources.some((source) => !this.#scheduleStore.isFresh(source, intervalMs));
      },
    );
  }

  /** Starts what is due. `isFirst`: it came while no daemon ran. */
  startDue(isFirst: boolean): void {
    const { works, effects } = this.#options;
    for (const due of this.#timetable.takeDue(effects.clock.now(), isFirst)) {
      startSchedule(due, { runner: this.runner, timetable: this.#timetable, works, log: effects.log });
    }
  }

  /** Epoch milliseconds of the next due time; null where nothing is scheduled. */
  nextDueAt(): number | null {
    return this.#timetable.nextDueAt();
  }

  /** Notices that its file went or came, and that the command line cannot find the daemon. */
  checkFiles(): void {
    const { problems } = this.#options;
    this.#mirrorAccess.isThere();
    try {
      this.#registration?.ensure();
      problems.end('registration', 'the command line finds the daemon again');
    } catch (error) {
      problems.begin('registration', asTidemarkError(error));
    }
  }

  /** Tells the command line where HTTP answers; null for nowhere. @throws TidemarkError */
  setUrl(url: string | null): void {
    this.#registration?.setUrl(url);
  }

  /** Writes down what is due when, where the mirror can be had at once. */
  keepSchedule(): void {
    this.#scheduleStore.keepNow();
  }

  /** Lets go of the mirror. No job is at work any more, or none that can be waited for. */
  close(): void {
    // Before the last writer closes, so that it can remove the write-ahead log.
    this.#mirrorAccess.closeReader();
    this.#scheduleStore.keepNow();
    this.leave();
  }

  /** Gives up the mirror without a word: the start failed. */
  leave(): void {
    this.#mirrorAccess.closeReader();
    this.#registration?.leave();
    this.#registration = null;
  }

  #jobEnded(job: QueuedJob, ended: EndedJob, code: ExitCode): void {
    const { settings, problems, works, onEnd } = this.#options;
    onEnd(job.name, code);
    for (const next of followUps(ended, settings.current(), this.#mirrorAccess, problems)) {
      if (works.has(next.name)) this.runner.add(next);
    }
  }
}
