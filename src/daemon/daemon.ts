/**
 * The daemon as a process: configuration, HTTP, main loop and shutdown, around what is done for each mirror (`cell.ts`). It sleeps until
 * the next due time, a minute at most.
 */
import type { Config } from '../config/config.ts';
import {
  hasMirrorPerSource,
  type LoadedConfig,
  mirrorConfigs,
  unconfiguredMirrors,
} from '../config/mirrors.ts';
import { isoTime, type Clock, ownTime, realPause, settlesWithin } from '../core/clock.ts';
import {
  asTidemarkError,
  combinedExitCode,
  EXIT,
  exitCodeFor,
  TidemarkError,
  type ExitCode,
} from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { duration } from '../core/wording.ts';
import type { JobName } from '../mirror/daemon-store.ts';
import { Cell, type CellSurroundings } from './cell.ts';
import { createCells, type DaemonCells } from './cells.ts';
import type { DaemonEffects } from './effects.ts';
import { HttpEndpoint, type StartHttp } from './http-endpoint.ts';
import type { JobObserver, ObservedMirror } from './jobs/observers.ts';
import { Slots } from './jobs/slots.ts';
import type { JobWork } from './jobs/work.ts';
import { jobWorks } from './jobs/job-table.ts';
import type { DaemonRegistration } from './lockfile.ts';
import { ReaderPool } from './mirror-access.ts';
import { ActiveProblems, waitProblemOf } from './problems.ts';
import { parseCron } from './schedule/cron.ts';
import { Settings } from './settings.ts';

interface DaemonOptions {
  /** Runs the due jobs and ends. */
  readonly isOnce: boolean;
  /** True for a worker of a fleet. */
  readonly isOfFleet?: boolean;
  /** Logs of the configuration only its mistakes and which channels send nothing: cron would mail the rest at each call. */
  readonly isQuiet?: boolean;
  /** Null for a daemon without HTTP. */
  readonly startHttp: StartHttp | null;
  /** Makes the observers of a mirror's jobs: notices, pings. */
  readonly observers: (mirror: ObservedMirror) => readonly JobObserver[];
  /** Backs up the mirror after complete syncs; null without backups. */
  readonly backup: JobWork | null;
}

export interface Daemon {
  readonly cells: DaemonCells;
  /** Reloads configuration and keys. */
  reload(): void;
  /** Ends within the configured grace period; the same promise at every call. */
  stop(): Promise<void>;
  /** True if a job did not end in time: it may keep the process alive. */
  hasLeftWork(): boolean;
  /** Resolves when the daemon has ended, for whatever reason; with `isOnce`, with the worst exit code of the jobs. */
  readonly done: Promise<ExitCode>;
}

/** Longest sleep: so often the configuration, the mirror's files and the clock are checked. */
const LONGEST_SLEEP_MS = 60_000;
/** How long an answer about many mirrors waits until those are read that were written to. */
const REFRESH_WAIT_MS = 250;

/**
 * Starts the daemon of a configuration.
 * @throws TidemarkError for an invalid configuration, and `mirror_locked` if another daemon runs
 */
export async function startDaemon(effects: DaemonEffects, options: DaemonOptions): Promise<Daemon> {
  const daemon = new RunningDaemon(effects, options);
  await daemon.start();
  return daemon;
}

/** The number of mirrors that are opened without a pause at the start: during a pause, HTTP is answered. */
const OPENED_AT_ONCE = 10;
/** The average time for checking the files of one mirror: with many mirrors, each is checked less often. */
const LOOK_SHARE_MS = 10;
/** Time between two attempts to begin with a mirror that was added to the configuration. */
const BEGIN_CELL_MS = 60_000;

class RunningDaemon implements Daemon {
  readonly cells: DaemonCells;
  readonly done: Promise<ExitCode>;
  readonly #effects: DaemonEffects;
  readonly #options: DaemonOptions;
  readonly #problems: ActiveProblems;
  readonly #settings: Settings;
  readonly #alarm: Alarm;
  readonly #slots: Slots;
  readonly #surroundings: CellSurroundings;
  /** By the path of the mirror, in the order of the configuration. */
  #cells = new Map<string, Cell>();
  /** Cells of removed sources, until their jobs have ended and their last notices were sent. */
  readonly #retiring = new Map<
    string,
    { readonly cell: Cell; readonly over: Promise<void>; readonly abort: AbortController }
  >();
  /** Cells of added sources, until they have begun; `tryAt` is a monotonic time. */
  readonly #beginning = new Map<string, { readonly cell: Cell; tryAt: number; isBusy: boolean }>();
  /** Of the first mirror: its lock counts for all. */
  #registration: DaemonRegistration | null = null;
  readonly #stopSignal = new AbortController();
  readonly #exitCodes: { readonly job: JobName; readonly code: ExitCode }[] = [];
  #http: HttpEndpoint | null = null;
  #url: string | null = null;
  #filesCheckedAt = Number.NEGATIVE_INFINITY;
  #refreshing: Promise<void> | null = null;
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
    this.#settings = new Settings(effects, this.#problems, {
      onChange: (config) => this.#takeNew(config),
      saysWarnings: options.isQuiet !== true,
    });
    this.#slots = new Slots(() => this.#settings.current().daemon.slots);
    const readers = new ReaderPool();
    const startedAt = isoTime(clock.now());
    this.#surroundings = {
      effects,
      isOnce: options.isOnce,
      isOfFleet: options.isOfFleet,
      startedAt,
      refreshConfig: () => this.#settings.refresh(),
      configProblem: () => this.#settings.problem(),
      problems: this.#problems,
      works: jobWorks(options.backup),
      observers: options.observers,
      slots: this.#slots,
      readers,
      signal: this.#stopSignal.signal,
      wake: () => this.#alarm.ring(),
      onEnd: (job, code) => {
        if (options.isOnce) this.#exitCodes.push({ job, code });
        else this.#refreshSummaries();
      },
    };
    this.#cells = this.#newCells(this.#settings.current());
    this.cells = createCells({
      startedAt,
      config: () => this.#settings.current(),
      configProblem: () => this.#settings.problem(),
      problems: () => this.#problems.all(),
      cells: () => [...this.#cells.values()],
      slots: () => ({ count: this.#settings.current().daemon.slots, used: this.#slots.working().length }),
      hold: () => readers.hold(),
      look: () => {
        this.#filesCheckedAt = Number.NEGATIVE_INFINITY;
        this.#alarm.ring();
      },
      refreshed: async () => {
        this.#refreshSummaries();
        if (this.#refreshing !== null)
          await settlesWithin(this.#refreshing, REFRESH_WAIT_MS, ownTime(this.#effects.clock));
      },
    });
    const { promise, resolve } = Promise.withResolvers<ExitCode>();
    [this.done, this.#finish] = [promise, resolve];
  }

  /** A cell for each mirror of the configuration; existing ones are kept. */
  #newCells(loaded: LoadedConfig): Map<string, Cell> {
    const isPerSource = hasMirrorPerSource(loaded);
    return new Map(
      mirrorConfigs(loaded).map((config) => {
        const source = isPerSource ? (config.sources[0]?.name ?? null) : null;
        return [
          config.mirror,
          this.#cells.get(config.mirror) ?? new Cell(config, source, this.#surroundings),
        ];
      }),
    );
  }

  async start(): Promise<void> {
    try {
      // Before jobs without an end are reported as interrupted: another daemon may be running them.
      for (const cell of this.#cells.values()) this.#registration = await this.#register(cell);
      this.#settings.sayNew([...this.#cells.values()].flatMap((cell) => cell.unsetBefore()));
      await this.#begin();
    } catch (error) {
      await this.#http?.close();
      for (const cell of this.#cells.values()) cell.leave();
      this.#registration?.release();
      throw error;
    }
  }

  async #register(cell: Cell): Promise<DaemonRegistration> {
    const registration = await cell.register(this.#registration);
    return this.#registration ?? registration;
  }

  async #begin(): Promise<void> {
    const { log } = this.#effects;
    const startJobs: (() => void)[] = [];
    for (const cell of this.#cells.values()) {
      startJobs.push(cell.load());
      if (startJobs.length % OPENED_AT_ONCE === 0) await realPause(0);
    }
    const { startHttp, isOnce } = this.#options;
    const loaded = this.#settings.current();
    const token = this.#registration?.token;
    if (startHttp !== null && !isOnce && token !== undefined) {
      this.#http = new HttpEndpoint({
        start: () => startHttp(this.cells, token),
        setUrl: (url) => this.#setUrl(url),
        problems: this.#problems,
      });
      await this.#http.ensure(loaded.http);
    }
    const names = loaded.sources.map(({ name }) => name);
    log.info(
      {
        mirror: loaded.mirrorPath,
        ...(names.length > NAMED ? { sourceCount: names.length } : { sources: names }),
        pid: this.#effects.pid,
      },
      isOnce ? 'daemon started, for what is due' : 'daemon started',
    );
    await this.#retireLeft();
    for (const start of startJobs) start();
    if (!isOnce) this.#refreshSummaries();
    this.#loop = isOnce ? this.#once() : this.#run();
    this.#loop.catch((error: unknown) => this.#failed(error));
  }

  /** Writes the address of HTTP to the file beside each mirror, for the command line. */
  #setUrl(url: string | null): void {
    this.#url = url;
    for (const cell of this.#cells.values()) cell.setUrl(url);
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

  /** Adds, changes and removes cells; jobs of the others continue. @throws TidemarkError `config_invalid`; then nothing has changed */
  #takeNew(loaded: LoadedConfig): void {
    if (this.#settings.current().mirrorPath !== loaded.mirrorPath) {
      throw new TidemarkError('config_invalid', 'the mirror cannot be changed while the daemon runs', {
        hint: 'restart the daemon for it',
      });
    }
    for (const schedule of Object.values(loaded.schedules))
      if (schedule !== null) parseCron(schedule.cron, schedule.zone);
    const before = this.#cells;
    this.#cells = this.#newCells(loaded);
    for (const config of mirrorConfigs(loaded)) this.#cells.get(config.mirror)?.adopt(config);
    for (const [path, cell] of this.#cells) {
      if (before.has(path)) continue;
      this.#beginning.set(path, { cell, tryAt: 0, isBusy: false });
      // The new cell sends what is still to be sent.
      this.#retiring.get(path)?.abort.abort();
    }
    for (const [path, cell] of before) if (!this.#cells.has(path)) this.#retire(path, cell);
    this.#alarm.ring();
  }

  #retire(path: string, cell: Cell): void {
    const { log } = this.#effects;
    // A cell that has not begun yet holds nothing.
    if (this.#beginning.delete(path)) {
      cell.observers.close();
      return;
    }
    log.info({ source: cell.name }, 'the source is no longer configured: its mirror is kept');
    const abort = new AbortController();
    const over = cell
      .retire(abort.signal)
      .catch((error: unknown) => this.#problems.begin(`cell:${cell.name}`, asTidemarkError(error)))
      .finally(() => {
        this.#retiring.delete(path);
        // The source may have come back.
        this.#alarm.ring();
      });
    this.#retiring.set(path, { cell, over, abort });
  }

  /** Retires sources that were removed while no daemon ran: nothing else would end their reported problems. */
  async #retireLeft(): Promise<void> {
    const { log } = this.#effects;
    for (const { source, config } of unconfiguredMirrors(this.#settings.current())) {
      try {
        await realPause(0);
        if (!this.#hasNotices(source, config)) continue;
        const cell = new Cell(config, source, this.#surroundings);
        try {
          this.#registration = await this.#register(cell);
        } catch (error) {
          cell.observers.close();
          throw error;
        }
        this.#retire(config.mirror, cell);
      } catch (error) {
        // There is no mirror, another daemon works on it, or it cannot be read.
        const { code, message } = asTidemarkError(error);
        log.debug({ source, code }, `a mirror without a configured source was left alone: ${message}`);
      }
    }
  }

  #hasNotices(name: string, config: Config): boolean {
    const mirror = this.#effects.openMirror(config, 'read', 'daemon');
    try {
      const pending = mirror.daemon.pendingDeliveries().map(({ about }) => about);
      const known = [...mirror.daemon.noticeStates(), ...pending];
      // With other sources, the mirror belongs to another configuration.
      return known.length > 0 && known.every(({ source }) => source === '' || source === name);
    } finally {
      mirror.close();
    }
  }

  /** Begins with the mirrors of added sources. A failure is reported once, and tried again. */
  #beginAdded(): void {
    const { clock, log } = this.#effects;
    for (const [path, added] of this.#beginning) {
      // If the same source was removed a moment ago, its old cell has to end first.
      if (added.isBusy || added.tryAt > clock.monotonicMs() || this.#retiring.has(path)) continue;
      added.isBusy = true;
      const { cell } = added;
      const about = `cell:${cell.name}`;
      this.#register(cell)
        .then((registration) => {
          this.#registration = registration;
          if (this.#stopped !== null || !this.#beginning.delete(path)) {
            cell.leave();
            return;
          }
          const startJobs = cell.load();
          cell.setUrl(this.#url);
          log.info({ source: cell.name }, 'a source was added');
          this.#problems.end(about, 'the mirror of the added source is worked on');
          startJobs();
          this.#alarm.ring();
        })
        .catch((error: unknown) => {
          cell.leave();
          [added.tryAt, added.isBusy] = [clock.monotonicMs() + BEGIN_CELL_MS, false];
          this.#problems.begin(about, asTidemarkError(error));
        });
    }
  }

  /** Cells that have begun. */
  *#living(): Iterable<Cell> {
    for (const [path, cell] of this.#cells) if (!this.#beginning.has(path)) yield cell;
  }

  /** All cells that may have a running job. */
  #atWork(): readonly Cell[] {
    return [...this.#living(), ...[...this.#retiring.values()].map(({ cell }) => cell)];
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#effects;
    const clockWatch = new ClockWatch(clock, log);
    while (!this.#isStopped()) {
      await this.#alarm.sleep(this.#sleepMs());
      if (this.#isStopped()) return;
      clockWatch.check();
      for (const cell of this.#atWork()) cell.runner.checkLimit();
      this.#slots.look();
      this.#settings.refresh();
      this.#beginAdded();
      this.#checkFiles();
      await this.#http?.ensure(this.#settings.current().http);
      // A job that becomes due while the daemon stops is left to the next daemon.
      if (this.#stopped === null) for (const cell of this.#living()) cell.startDue(false);
      // More slots may be configured than before.
      this.#slots.fill();
      for (const cell of this.#living()) cell.observers.wake(clock.now());
      this.#refreshSummaries();
    }
  }

  /** Until something is due; a minute at most. */
  #sleepMs(): number {
    const { clock } = this.#effects;
    const now = clock.now();
    let sleepMs = Math.min(LONGEST_SLEEP_MS, this.#slots.lookAgainMs() ?? LONGEST_SLEEP_MS);
    for (const cell of this.#living()) {
      const dueAt = this.#stopped === null ? cell.nextDueAt() : null;
      for (const at of [dueAt, cell.observers.wakeAt()])
        if (at !== null) sleepMs = Math.min(sleepMs, at - now);
    }
    for (const cell of this.#atWork()) sleepMs = Math.min(sleepMs, cell.runner.limitMs() ?? LONGEST_SLEEP_MS);
    return Math.max(0, sleepMs);
  }

  #checkFiles(): void {
    const now = this.#effects.clock.monotonicMs();
    if (now - this.#filesCheckedAt < (this.#cells.size - 1) * LOOK_SHARE_MS) return;
    this.#filesCheckedAt = now;
    for (const cell of this.#living()) cell.checkFiles();
    this.#handOverLock();
  }

  /** If the first mirror was removed, the lock of another one counts for all from now on. */
  #handOverLock(): void {
    const before = this.#registration;
    const living = [...this.#living()].flatMap((cell) => cell.registration() ?? []);
    const [heir] = living;
    const isThere = this.#atWork().some((cell) => cell.registration() === before);
    if (before === null || heir === undefined || isThere) return;
    try {
      heir.takeLock();
      for (const each of living) if (each !== heir) each.useLock(heir.lockPath);
      this.#registration = heir;
      before.release();
    } catch (error) {
      // A command checked at this moment whether a daemon runs: the old lock stays until the next attempt.
      this.#effects.log.debug({ code: asTidemarkError(error).code }, 'the lock stays where it is for now');
    }
  }

  /** Reads the mirrors again that may have changed, one after the other, while other work continues. */
  #refreshSummaries(): void {
    // A single mirror is read when somebody looks.
    if (this.#refreshing !== null || !hasMirrorPerSource(this.#settings.current())) return;
    const refresh = async (): Promise<void> => {
      for (const cell of this.#living()) {
        if (this.#isStopped()) return;
        if (!cell.status.isOld()) continue;
        await cell.status.refresh();
        await realPause(0);
      }
    };
    this.#refreshing = refresh()
      .catch((error: unknown) => this.#problems.begin('summaries', asTidemarkError(error)))
      .finally(() => (this.#refreshing = null));
  }

  #isStopped(): boolean {
    return this.#stopSignal.signal.aborted;
  }

  async #once(): Promise<void> {
    const { log } = this.#effects;
    const cells = [...this.#cells.values()];
    if (this.#slots.working().length === 0) {
      const times = cells.flatMap((cell) => cell.nextDueAt() ?? []);
      log.info({ nextAt: times.length === 0 ? null : isoTime(Math.min(...times)) }, 'nothing is due');
      for (const cell of cells) cell.keepSchedule();
    }
    await Promise.all(
      cells.map(async (cell) => {
        await cell.runner.idle();
        await cell.observers.finish();
      }),
    );
    await Promise.all(cells.map((cell) => cell.observers.flush()));
    await Promise.all([...this.#retiring.values()].map(({ over }) => over));
    for (const { view } of cells) {
      const putOff = new Set(view.config().sources.map(({ name }) => waitProblemOf(name)));
      if (view.problems().some(({ about }) => putOff.has(about)))
        this.#exitCodes.push({ job: 'sync', code: EXIT.partial });
    }
    await this.stop();
  }

  async #stop(): Promise<void> {
    const { log, clock } = this.#effects;
    const { shutdownGraceMs } = this.#settings.current().daemon;
    const endBy = clock.monotonicMs() + shutdownGraceMs;
    const reason = new TidemarkError('interrupted', 'the daemon was stopped');
    // All at once, so that the end of one job does not start one of another cell.
    const cells = this.#atWork();
    const areOver = await Promise.all(cells.map((cell) => cell.runner.stop(shutdownGraceMs)));
    const isOver = areOver.every((each) => each);
    this.#hasLeftWork = !isOver;
    this.#stopSignal.abort(reason);
    this.#alarm.ring();
    const leftMs = Math.max(0, endBy - clock.monotonicMs());
    const retired = [...this.#retiring.values()].map(({ over }) => over);
    const observed = cells.map((cell) => cell.observers.settled());
    await settlesWithin(Promise.all([...observed, ...retired]), leftMs, clock);
    await this.#http?.close();
    await this.#refreshing;
    for (const cell of this.#living()) cell.close();
    this.#registration?.release();
    if (isOver) log.info({}, 'daemon stopped');
    else log.warn({ shutdownGraceMs }, 'daemon stopped: a running job did not end in time and was abandoned');
    this.#finish(this.#options.isOnce ? worstExitCode(this.#exitCodes) : EXIT.done);
  }

  /** The loop itself failed: the daemon cannot continue. */
  #failed(thrown: unknown): void {
    const error = asTidemarkError(thrown);
    this.#effects.log.error({ code: error.code }, error.message);
    void this.stop().finally(() => this.#finish(exitCodeFor(error.code)));
  }
}

/** The most sources in one line of the log. */
const NAMED = 50;

// A sleep that can be interrupted.

class Alarm {
  readonly #clock: Clock;
  #signal = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the sleep; if none has begun, the next one ends at once. */
  ring(): void {
    this.#signal.abort();
  }

  /** Sleeps until it rings, or for `ms`. */
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

/** Worst first. `partial` precedes `differences`: collections that could not be read may hide anything. */
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

/** The worst exit code of the jobs. Jobs of one name count together, as the sources of a command do. */
function worstExitCode(ended: readonly { readonly job: JobName; readonly code: ExitCode }[]): ExitCode {
  const together = [...Map.groupBy(ended, ({ job }) => job).values()].map((jobs) =>
    combinedExitCode(jobs.map(({ code }) => code)),
  );
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
        ? `the clock was set back by ${by}; schedules use the new time`
        : `the clock went forward by ${by}: it was set, or this machine slept; schedules use the new time`,
    );
  }

  #ahead(): number {
    return this.#clock.now() - this.#clock.monotonicMs();
  }
}
