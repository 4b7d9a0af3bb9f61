/**
 * The daemon as a whole: the loop that looks at the clock, the jobs that it starts, and what others may know of it.
 * It sleeps until the next due time, a minute at most.
 */
import type { Config, ScheduleName } from '../config/config.ts';
import { SCHEDULE_NAMES } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor, TidemarkError } from '../core/errors.ts';
import type { ExitCode } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import type { JobName, ScheduleRow } from '../mirror/daemon-state.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { DaemonEffects } from './effects.ts';
import { worstExitCode } from './exit-code.ts';
import { HttpEndpoint } from './http-endpoint.ts';
import type { StartHttp } from './http-endpoint.ts';
import type { EndedJob, JobObserver } from './jobs/observer.ts';
import { Observers } from './jobs/observers.ts';
import { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import { jobWorks } from './jobs/works.ts';
import { MirrorKeeper } from './mirror-keeper.ts';
import { announce } from './presence.ts';
import type { Presence } from './presence.ts';
import type { DueSchedule } from './schedule/timetable.ts';
import { Timetable } from './schedule/timetable.ts';
import { Settings } from './settings.ts';
import { Troubles } from './troubles.ts';
import type { DaemonView, JobRequest, RunningJob } from './view.ts';

export interface DaemonOptions {
  /** Does what is due and ends. */
  readonly isOnce: boolean;
  /** Null for a daemon without HTTP. */
  readonly startHttp: StartHttp | null;
  /** Told of jobs: notices, pings. */
  readonly observers: readonly JobObserver[];
  /** Makes a copy of the mirror after complete syncs; null where no copies are made. */
  readonly copy: JobWork | null;
}

export interface Daemon {
  readonly view: DaemonView;
  /** Reads configuration and keys anew. */
  reload(): void;
  /** Ends within the grace of the configuration; the same promise at every call. */
  stop(): Promise<void>;
  /** Settles when the daemon has ended, however that came; with `isOnce`, the worst exit code of what ran. */
  readonly done: Promise<ExitCode>;
}

/** Longest sleep: a changed configuration, a removed file and a clock that was put are noticed so much later. */
const LOOK_MS = 60_000;

/**
 * Starts the daemon of a configuration.
 * @throws TidemarkError for a configuration that is wrong, and `mirror_locked` where another daemon lives
 */
export async function startDaemon(effects: DaemonEffects, options: DaemonOptions): Promise<Daemon> {
  const daemon = new LivingDaemon(effects, options);
  await daemon.start();
  return daemon;
}

class LivingDaemon implements Daemon {
  readonly view: DaemonView;
  readonly done: Promise<ExitCode>;
  readonly #effects: DaemonEffects;
  readonly #options: DaemonOptions;
  readonly #startedAt: string;
  readonly #troubles: Troubles;
  readonly #settings: Settings;
  readonly #timetable: Timetable;
  readonly #keeper: MirrorKeeper;
  readonly #observers: Observers;
  readonly #runner: JobRunner;
  readonly #works: ReadonlyMap<JobName, JobWork>;
  readonly #stopSignal = new AbortController();
  readonly #exitCodes: { readonly job: JobName; readonly code: ExitCode }[] = [];
  #wake = new AbortController();
  #presence: Presence | null = null;
  #http: HttpEndpoint | null = null;
  /** Jobs whose process died wait to be marked in the mirror. */
  #hasBuriedDead = false;
  #loop: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | null = null;
  readonly #finish: (code: ExitCode) => void;

  constructor(effects: DaemonEffects, options: DaemonOptions) {
    this.#effects = effects;
    this.#options = options;
    const { clock, log, random } = effects;
    this.#startedAt = isoTime(clock.now());
    this.#troubles = new Troubles(clock, log);
    this.#timetable = new Timetable({ random, hasJitter: !options.isOnce });
    this.#settings = new Settings(effects, this.#troubles, (config) => this.#adopt(config, []));
    this.#keeper = new MirrorKeeper(effects, this.#troubles, () => this.#settings.current());
    this.#works = jobWorks(options.copy);
    this.#observers = new Observers(options.observers, log, () => ({
      keeper: this.#keeper,
      signal: this.#stopSignal.signal,
    }));
    this.#runner = new JobRunner({
      effects,
      works: this.#works,
      keeper: this.#keeper,
      troubles: this.#troubles,
      observers: this.#observers,
      freshConfig: () => {
        this.#settings.reload();
        return this.#settings.current();
      },
      keepBooks: (mirror) => this.#keepBooks(mirror),
      cutShort: (schedule) => this.#timetable.bringForward(schedule, clock.now()),
      onEnd: (job, ended, code) => this.#jobEnded(job, ended, code),
    });
    let finish: (code: ExitCode) => void = () => undefined;
    this.done = new Promise((resolve) => {
      finish = resolve;
    });
    this.#finish = finish;
    this.view = this.#makeView();
  }

  async start(): Promise<void> {
    const config = this.#settings.current();
    // Before anything is said of jobs without an end: another daemon's are none.
    this.#presence = await announce(config.mirror, this.#effects);
    try {
      await this.#begin(config, this.#presence);
    } catch (error) {
      this.#keeper.closeReader();
      await this.#http?.close();
      this.#presence.leave();
      throw error;
    }
  }

  async #begin(config: Config, presence: Presence): Promise<void> {
    const { clock, log } = this.#effects;
    const before = this.#lookBack();
    this.#adopt(config, before.rows);
    for (const schedule of before.cutShort) this.#timetable.bringForward(schedule, clock.now());
    const { startHttp, isOnce } = this.#options;
    if (startHttp !== null && !isOnce) {
      this.#http = new HttpEndpoint(startHttp, this.view, presence, this.#troubles);
      await this.#http.ensure(config.http);
    }
    log.info(
      { mirror: config.mirror, sources: config.sources.map(({ name }) => name), pid: this.#effects.pid },
      isOnce ? 'daemon started, for what is due' : 'daemon started',
    );
    this.#startDue(!isOnce);
    if (this.#runner.running().length === 0) this.#effects.onRest();
    this.#loop = isOnce ? this.#once() : this.#run();
    this.#loop.catch((error: unknown) => this.#failed(error));
  }

  reload(): void {
    this.#settings.reload();
    this.#wake.abort();
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  /** What the mirror remembers of an earlier daemon: none where it cannot be read. */
  #lookBack(): { readonly rows: readonly ScheduleRow[]; readonly cutShort: readonly ScheduleName[] } {
    try {
      const state = this.#keeper.reader().daemonState();
      // One that was made up for already is not tried again: it may be what the process dies of.
      const dead = state.jobs({ limit: RECENT_JOBS }).filter(({ outcome }) => outcome === 'running');
      const cutShort = SCHEDULE_NAMES.filter((schedule) =>
        dead.some(({ name, trigger }) => name === schedule && trigger === 'schedule'),
      );
      for (const { job, name, startedAt } of dead) {
        this.#effects.log.warn({ job, startedAt }, `${name} was cut short: its process died`);
      }
      return { rows: state.schedules(), cutShort };
    } catch (error) {
      const trouble = asTidemarkError(error);
      if (trouble.code !== 'mirror_missing') this.#troubles.begin('mirror', trouble);
      return { rows: [], cutShort: [] };
    }
  }

  #adopt(config: Config, rows: readonly ScheduleRow[]): void {
    const { clock } = this.#effects;
    const mirror = this.#settings?.current().mirror;
    if (mirror !== undefined && mirror !== config.mirror) {
      throw new TidemarkError('config_invalid', 'another mirror cannot be taken while the daemon runs', {
        hint: 'restart the daemon for it',
      });
    }
    this.#timetable.adopt(config, clock.now(), rows, (schedule, sources, intervalMs) => {
      if (schedule !== 'sync') return false;
      return sources.some((source) => !this.#isFresh(source, intervalMs));
    });
    this.#wake.abort();
  }

  /** True where a source was mirrored not longer ago than its schedule would have it. */
  #isFresh(source: string, intervalMs: number): boolean {
    try {
      const at = this.#keeper.reader().latestRun(source)?.finishedAt;
      return at !== null && at !== undefined && this.#effects.clock.now() - Date.parse(at) < intervalMs;
    } catch {
      // No mirror that could be read: then it is not fresh either.
      return false;
    }
  }

  async #run(): Promise<void> {
    const { clock } = this.#effects;
    const { signal } = this.#stopSignal;
    while (!signal.aborted) {
      const now = clock.now();
      const times = [this.#timetable.nextDueAt(), this.#observers.wakeAt()].filter((at) => at !== null);
      const sleepMs = Math.max(0, Math.min(LOOK_MS, ...times.map((at) => at - now)));
      await this.#sleep(sleepMs);
      if (signal.aborted) return;
      this.#settings.reloadIfTouched();
      this.#stayPresent();
      await this.#http?.ensure(this.#settings.current().http);
      this.#startDue(false);
      this.#observers.wake(clock.now());
    }
  }

  #stayPresent(): void {
    try {
      this.#presence?.ensure();
      this.#troubles.end('presence', 'the command line finds the daemon again');
    } catch (error) {
      this.#troubles.begin('presence', asTidemarkError(error));
    }
  }

  /** Until then, or until something has changed. */
  async #sleep(ms: number): Promise<void> {
    if (this.#wake.signal.aborted) this.#wake = new AbortController();
    const { signal } = this.#wake;
    try {
      await this.#effects.clock.sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #once(): Promise<void> {
    const { log } = this.#effects;
    if (this.#runner.running().length === 0) {
      const next = this.#timetable.nextDueAt();
      log.info({ nextAt: next === null ? null : isoTime(next) }, 'nothing is due');
      this.#saveBooks();
    }
    await this.#runner.idle();
    this.#observers.wake(this.#effects.clock.now());
    await this.#observers.settled();
    await this.stop();
  }

  #startDue(isFirst: boolean): void {
    const { clock } = this.#effects;
    for (const due of this.#timetable.takeDue(clock.now(), isFirst)) this.#startSchedule(due);
  }

  #startSchedule({ schedule, sources, trigger, missed, dueAt }: DueSchedule): void {
    const { log } = this.#effects;
    if (this.#runner.isAtWork(schedule)) {
      this.#timetable.countSkipped(schedule);
      log.warn({ schedule, dueAt }, `${schedule} is still at work: this tick is skipped`);
      return;
    }
    if (missed > 0) {
      log.warn({ schedule, dueAt, missed: missed + 1 }, `${schedule} was missed: one start makes up for it`);
    }
    const isPerSource = this.#works.get(schedule)?.isPerSource === true;
    for (const source of isPerSource ? sources : [null]) {
      this.#runner.add({ name: schedule, source, trigger, schedule, full: false, kinds: null });
    }
  }

  #jobEnded(job: QueuedJob, { row, report }: EndedJob, code: ExitCode): void {
    this.#exitCodes.push({ job: job.name, code });
    if (!this.#options.isOnce) this.#exitCodes.length = 0;
    if (job.name !== 'sync' || report === null) return;
    const hasChanges = report.sweeps.some(({ added, changed, removed }) => added + changed + removed > 0);
    if (hasChanges && this.#measuresDrift(job.source)) this.#follow('drift', job.source);
    if (row.outcome === 'done' && this.#works.has('copy')) this.#follow('copy', null);
  }

  #follow(name: JobName, source: string | null): void {
    this.#runner.add({ name, source, trigger: 'after_run', schedule: null, full: false, kinds: null });
  }

  /** True where a baseline is set and drift of the source is looked for: then what a sync changed is judged at once. */
  #measuresDrift(source: string | null): boolean {
    const drift = this.#settings.current().schedules.drift;
    if (drift === null || source === null || !drift.sources.includes(source)) return false;
    try {
      return this.#keeper.reader().baseline() !== undefined;
    } catch (error) {
      this.#troubles.begin('mirror', asTidemarkError(error));
      return false;
    }
  }

  /** Writes down what is due when. The mirror is open for writing. */
  #keepBooks(mirror: Mirror): void {
    const state = mirror.daemonState();
    if (!this.#hasBuriedDead) {
      state.endDeadJobs(isoTime(this.#effects.clock.now()));
      this.#hasBuriedDead = true;
    }
    const rows = this.#timetable.rows();
    const kept = state.schedules();
    for (const row of rows) {
      const old = kept.find(({ schedule }) => schedule === row.schedule);
      if (JSON.stringify(old) !== JSON.stringify(row)) state.saveSchedule(row);
    }
    for (const { schedule } of kept) {
      if (!rows.some((row) => row.schedule === schedule)) state.dropSchedule(schedule);
    }
  }

  /** The same where the mirror can be had at once. */
  #saveBooks(): void {
    try {
      const lease = this.#keeper.leaseNow('daemon');
      if (lease === null) return;
      try {
        this.#keepBooks(lease.mirror);
      } finally {
        lease.release();
      }
    } catch (error) {
      this.#troubles.begin('bookkeeping', asTidemarkError(error));
    }
  }

  async #stop(): Promise<void> {
    const { log, clock } = this.#effects;
    const { shutdownGraceMs } = this.#settings.current().daemon;
    const endBy = clock.monotonicMs() + shutdownGraceMs;
    const reason = new TidemarkError('interrupted', 'the daemon was stopped');
    const isOver = await this.#runner.stop(shutdownGraceMs);
    this.#stopSignal.abort(reason);
    this.#wake.abort();
    const left = new AbortController();
    await Promise.race([
      this.#observers.settled(),
      clock.sleep(Math.max(0, endBy - clock.monotonicMs()), left.signal).catch(() => undefined),
    ]);
    left.abort();
    await this.#http?.close();
    // Before the last writer closes, which then leaves no log behind.
    this.#keeper.closeReader();
    this.#saveBooks();
    this.#presence?.leave();
    if (isOver) log.info({}, 'daemon stopped');
    else log.warn({ shutdownGraceMs }, 'daemon stopped: work under way did not end in time and was left');
    this.#finish(this.#options.isOnce ? worstExitCode(this.#exitCodes) : EXIT.done);
  }

  /** The loop itself failed: nothing that could be gone on from. */
  #failed(thrown: unknown): void {
    const error = asTidemarkError(thrown);
    this.#effects.log.error({ code: error.code }, error.message);
    void this.stop().finally(() => this.#finish(exitCodeFor(error.code)));
  }

  #request(
    name: JobName,
    sources: readonly string[] | null,
    how: JobRequest,
  ): Pick<RunningJob, 'name' | 'source'>[] {
    const work = this.#works.get(name);
    if (work === undefined) throw new TidemarkError('usage', `${name} is not set up`);
    const configured = this.#settings.current().sources.map((source) => source.name);
    for (const asked of sources ?? []) {
      if (configured.includes(asked)) continue;
      const near = suggest(asked, configured);
      throw new TidemarkError(
        'usage',
        `there is no source ${asked}${near === undefined ? '' : `; did you mean ${near}?`}`,
        {
          hint: `configured are: ${configured.join(', ')}`,
        },
      );
    }
    const targets: readonly (string | null)[] = work.isPerSource ? (sources ?? configured) : [null];
    for (const source of targets) {
      this.#runner.add({
        name,
        source,
        trigger: 'request',
        schedule: null,
        full: how.full === true,
        kinds: how.kinds ?? null,
      });
    }
    return targets.map((source) => ({ name, source }));
  }

  #makeView(): DaemonView {
    return {
      startedAt: this.#startedAt,
      config: () => this.#settings.current(),
      configTrouble: () => this.#settings.trouble(),
      mirror: () => this.#keeper.reader(),
      schedules: () => this.#timetable.views(),
      running: () => this.#runner.running(),
      queued: () => this.#runner.queued().map(({ name, source, trigger }) => ({ name, source, trigger })),
      figures: () => this.#runner.figures.all(),
      troubles: () => this.#troubles.all(),
      request: (name, sources, how = {}) => this.#request(name, sources, how),
    };
  }
}

/** Among how many of the newest jobs one is looked for that did not end: one at a time runs. */
const RECENT_JOBS = 20;
