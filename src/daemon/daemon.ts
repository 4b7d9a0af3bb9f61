/**
 * The daemon as a process: configuration, HTTP, the main loop and the end, around what is done for a mirror (`cell.ts`). It
 * sleeps until the next due time, a minute at most.
 */
import type { Config } from '../config/config.ts';
import { isoTime, type Clock, settlesWithin } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Secret } from '../core/secret.ts';
import { duration } from '../core/wording.ts';
import type { JobName } from '../mirror/daemon.ts';
import { Cell } from './cell.ts';
import type { DaemonEffects } from './effects.ts';
import { HttpEndpoint, type StartHttp } from './http-endpoint.ts';
import type { JobObserver } from './jobs/observers.ts';
import type { JobWork } from './jobs/work.ts';
import { jobWorks } from './jobs/works.ts';
import { ActiveProblems } from './problems.ts';
import { Settings } from './settings.ts';
import type { DaemonView } from './view.ts';

interface DaemonOptions {
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
  readonly #alarm: Alarm;
  readonly #cell: Cell;
  readonly #stopSignal = new AbortController();
  readonly #exitCodes: { readonly job: JobName; readonly code: ExitCode }[] = [];
  #http: HttpEndpoint | null = null;
  #hasLeftWork = false;
  #loop: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | null = null;
  readonly #finish: (code: ExitCode) => void;

  constructor(effects: DaemonEffects, options: DaemonOptions) {
    this.#effects = effects;
    this.#options = options;
    const { clock, log } = effects;
    this.#alarm = new Alarm(clock);
    this.#problems = new ActiveProblems(clock, log);
    this.#settings = new Settings(effects, this.#problems, (config) => this.#takeNew(config));
    this.#cell = new Cell({
      effects,
      isOnce: options.isOnce,
      settings: this.#settings,
      problems: this.#problems,
      works: jobWorks(options.backup),
      observers: options.observers,
      signal: this.#stopSignal.signal,
      wake: () => this.#alarm.ring(),
      onEnd: (job, code) => this.#noteExitCode(job, code),
    });
    this.view = this.#cell.view;
    let finish: (code: ExitCode) => void = () => undefined;
    this.done = new Promise((resolve) => {
      finish = resolve;
    });
    this.#finish = finish;
  }

  async start(): Promise<void> {
    const config = this.#settings.current();
    // Before jobs without an end are reported as interrupted: they may be another daemon's.
    const token = await this.#cell.register(config);
    try {
      await this.#begin(config, token);
    } catch (error) {
      await this.#http?.close();
      this.#cell.leave();
      throw error;
    }
  }

  async #begin(config: Config, token: Secret): Promise<void> {
    const { log } = this.#effects;
    const startJobs = this.#cell.load(config);
    const { startHttp, isOnce } = this.#options;
    if (startHttp !== null && !isOnce) {
      const setUrl = (url: string | null): void => this.#cell.setUrl(url);
      this.#http = new HttpEndpoint(startHttp, this.view, { token, setUrl }, this.#problems);
      await this.#http.ensure(config.http);
    }
    log.info(
      { mirror: config.mirror, sources: config.sources.map(({ name }) => name), pid: this.#effects.pid },
      isOnce ? 'daemon started, for what is due' : 'daemon started',
    );
    startJobs();
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
    this.#cell.adopt(config);
    this.#alarm.ring();
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#effects;
    const clockWatch = new ClockWatch(clock, log);
    const { runner, observers } = this.#cell;
    while (!this.#isStopped()) {
      const now = clock.now();
      const dueAt = this.#stopped === null ? this.#cell.nextDueAt() : null;
      const times = [dueAt, observers.wakeAt()].filter((at) => at !== null);
      const lookMs = Math.min(LOOK_MS, runner.lookAgainMs() ?? LOOK_MS);
      const sleepMs = Math.max(0, Math.min(lookMs, ...times.map((at) => at - now)));
      await this.#alarm.sleep(sleepMs);
      if (this.#isStopped()) return;
      clockWatch.check();
      runner.look();
      this.#settings.refresh();
      this.#cell.checkFiles();
      await this.#http?.ensure(this.#settings.current().http);
      // A job that becomes due while the daemon stops is left to the next daemon.
      if (this.#stopped === null) this.#cell.startDue(false);
      observers.wake(clock.now());
    }
  }

  #isStopped(): boolean {
    return this.#stopSignal.signal.aborted;
  }

  async #once(): Promise<void> {
    const { log } = this.#effects;
    const { runner, observers } = this.#cell;
    if (runner.running().length === 0) {
      const next = this.#cell.nextDueAt();
      log.info({ nextAt: next === null ? null : isoTime(next) }, 'nothing is due');
      this.#cell.keepSchedule();
    }
    await runner.idle();
    await observers.finish();
    await this.stop();
  }

  #noteExitCode(job: JobName, code: ExitCode): void {
    if (this.#options.isOnce) this.#exitCodes.push({ job, code });
  }

  async #stop(): Promise<void> {
    const { log, clock } = this.#effects;
    const { shutdownGraceMs } = this.#settings.current().daemon;
    const endBy = clock.monotonicMs() + shutdownGraceMs;
    const reason = new TidemarkError('interrupted', 'the daemon was stopped');
    const isOver = await this.#cell.runner.stop(shutdownGraceMs);
    this.#hasLeftWork = !isOver;
    this.#stopSignal.abort(reason);
    this.#alarm.ring();
    const leftMs = Math.max(0, endBy - clock.monotonicMs());
    await settlesWithin(this.#cell.observers.settled(), leftMs, clock);
    await this.#http?.close();
    this.#cell.close();
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
