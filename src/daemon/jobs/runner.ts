/**
 * Runs the jobs of a cell, one at a time, each in a slot of the daemon. A job holds the writer lock while it works, or only while it is
 * recorded; between jobs the lock is free for commands.
 */
import type { ReadClient } from '../../api/read-client.ts';
import type { RequestStats } from '../../api/request-stats.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { Config, ScheduleName, SourceConfig } from '../../config/config.ts';
import { requestTrigger } from '../../core/actor.ts';
import { isoTime, settlesWithin } from '../../core/clock.ts';
import { asTidemarkError, exitCodeFor, TidemarkError, type ExitCode } from '../../core/errors.ts';
import { duration } from '../../core/wording.ts';
import type { JobName, JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { narrowedKinds } from '../../sync/run-extent.ts';
import type { DaemonEffects } from '../effects.ts';
import type { MirrorConnections, WriterTurn } from '../mirror-access.ts';
import type { ActiveProblems } from '../problems.ts';
import type { JobIdentity, JobProgress, RequestStatus, RunningJob } from '../view.ts';
import { type Task, type JobExecutor, commandOf } from './executor.ts';
import {
  endOf,
  failedResult,
  holdsAsBefore,
  JobLog,
  jobKey,
  noteJobProblem,
  UNENDED,
  unwritten,
  UnwrittenJobs,
} from './job-log.ts';
import { RateWaits } from './rate-waits.ts';
import type { EndedJob, Observers } from './observers.ts';
import {
  AnswerWatch,
  JobQueue,
  LastStarts,
  RequestStates,
  type RunningEntry,
  SourceBackoff,
} from './queue.ts';
import { leftOutReason, leftOutResult, LeftOutJobs, runBetween } from './left-out.ts';
import { NO_PROGRESS, StatsBySource } from './request-stats.ts';
import type { Candidate, Slots, SlotUser } from './slots.ts';
import type { JobResult, JobWork, QueuedJob } from './work.ts';

interface RunnerOptions {
  readonly effects: DaemonEffects;
  /** True for `daemon --once`: the summaries of its jobs say so. */
  readonly isOnce: boolean;
  /** True for a worker of a fleet: the summaries say that too. */
  readonly isOfFleet?: boolean | undefined;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly executor: JobExecutor;
  readonly mirrorAccess: MirrorConnections;
  readonly problems: ActiveProblems;
  readonly observers: Observers;
  readonly slots: Slots;
  /** The rate group of a job that sends requests: jobs of one group do not run at the same time. Null for other jobs. */
  readonly groupOf: (job: QueuedJob) => string | null;
  /** The configuration for the next job, reloaded. */
  readonly freshConfig: () => Config;
  /** Stores the state of the schedules. The mirror is open for writing. */
  readonly saveSchedule: (mirror: Mirror) => void;
  /** Called when a scheduled job was interrupted: it must start again. */
  readonly cutShort: (schedule: ScheduleName) => void;
  /** Called when a local error kept a scheduled job from starting: it must be tried again before its next due time. */
  readonly notBegun: (schedule: ScheduleName) => void;
  /** Called when a sync is left out because another process has made one: the jobs that follow a sync follow that one. */
  readonly onReplaced: (job: QueuedJob) => void;
  /** Called after each job, with its exit code: follow-up jobs may be queued. */
  readonly onEnd: (job: QueuedJob, ended: EndedJob, exitCode: ExitCode) => void;
}

interface Current extends RunningEntry {
  readonly startedAt: string;
  /** The kinds to which the request limits it; null for everything that the source includes. */
  kinds: readonly Kind[] | null;
  number: number;
  client: Pick<ReadClient, 'stats'> | null;
  progress: () => JobProgress;
  waitsFor: string | null;
  readonly answers: AnswerWatch;
  readonly abort: AbortController;
  /** Monotonic; null for a job without a time limit, and before it began. */
  endsAt: number | null;
  /** The error that it was cancelled with: for other jobs, or at its time limit. */
  endError: TidemarkError | null;
  over: Promise<void>;
}

export class JobRunner implements SlotUser {
  readonly stats = new StatsBySource();
  readonly rateWaits: RateWaits;
  readonly unwritten = new UnwrittenJobs();
  /** As `JobQueue.requestedWith`. */
  readonly requestedWith = (jobs: readonly QueuedJob[]): number => this.#queue.requestedWith(jobs);
  readonly #options: RunnerOptions;
  readonly #beginnings: LastStarts;
  readonly #rests: SourceBackoff;
  readonly #queue: JobQueue;
  readonly #requests = new RequestStates();
  readonly #abort = new AbortController();
  readonly #jobLog: JobLog;
  readonly #leftOut: LeftOutJobs;
  #current: Current | null = null;
  #isStopping = false;
  #onIdle: (() => void)[] = [];

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#jobLog = new JobLog(options.effects.log);
    this.#leftOut = new LeftOutJobs(options);
    this.rateWaits = new RateWaits({
      clock: options.effects.clock,
      problems: options.problems,
      isOnce: options.isOnce,
      again: (job) => {
        if (!this.isAtWork('sync', job.source)) this.add(job);
      },
    });
    this.#beginnings = new LastStarts(() => options.mirrorAccess.reader());
    this.#rests = new SourceBackoff(options.effects.clock);
    this.#queue = new JobQueue(this.#beginnings.of, options.slots.ticket);
  }

  /** Queues a job. Returns its ticket; null after `stop`, when no job is accepted any more. */
  add(job: QueuedJob): number | null {
    return this.addAll([job])[0] ?? null;
  }

  /** Queues several jobs, of which the queue chooses the first. No tickets after `stop`. */
  addAll(jobs: readonly QueuedJob[]): readonly number[] {
    if (this.#isStopping) return [];
    const now = isoTime(this.#options.effects.clock.now());
    // Ranked by now, not by its last start, a backup comes after the jobs that are due already, and before they are due again.
    for (const job of jobs) if (job.name === 'backup' && !this.holds(job)) this.#beginnings.note(job, now);
    const tickets = jobs.map((job) => {
      const ticket = this.#queue.add(job);
      const waiting = this.#queue.all().find((each) => each.ticket === ticket)?.job;
      if (waiting !== undefined) this.#jobLog.joined(job, waiting);
      return ticket;
    });
    if (this.#queue.length > 0) this.#options.slots.wait(this);
    return tickets;
  }

  /** The state of a request; null if it is not known, or no longer. */
  statusOf(ticket: number): RequestStatus | null {
    const { slots } = this.#options;
    const queued = this.#queue.all();
    const asked = queued.find((each) => each.ticket === ticket)?.job;
    const limitHolder = asked === undefined ? null : this.limitHolder(asked);
    const isBeforeIt = ({ name, source }: JobIdentity): boolean =>
      limitHolder === null || (name === 'sync' && source === limitHolder);
    const working = this.#current === null ? slots.working().filter(isBeforeIt) : [this.#current.job];
    return this.#requests.statusOf(ticket, this.#current, working, queued);
  }

  /** True while a job of the schedule is queued or running for the source (null for the mirror as a whole). */
  isAtWork(schedule: ScheduleName, source: string | null): boolean {
    const job = this.#current?.job;
    return this.#queue.holds(schedule, source) || (job?.schedule === schedule && job.source === source);
  }

  /** Until when a source is skipped because its service was silent, epoch milliseconds; null if it is not. */
  restsUntil(source: string): number | null {
    return this.#rests.until(source, () => {
      try {
        return this.#options.mirrorAccess.reader().runs.latest(source)?.finishedAt ?? null;
      } catch {
        // The jobs report why it cannot be read.
        return null;
      }
    });
  }

  /** Of `SlotUser`. */
  candidate(mayStart: Parameters<SlotUser['candidate']>[0]): Candidate | null {
    if (this.#current !== null) return null;
    for (const { ticket, job } of this.#queue.all()) {
      const group = this.#options.groupOf(job);
      if (!mayStart(job, group)) continue;
      return { ticket, isRequest: job.trigger === 'request', rank: this.#beginnings.of(job), group };
    }
    return null;
  }

  /** Of `SlotUser`. */
  waitingGroups(): readonly (string | null)[] {
    return this.#queue.all().map(({ job }) => this.#options.groupOf(job));
  }

  /** Of `SlotUser`. */
  current(): JobIdentity | null {
    return this.#current?.job ?? null;
  }

  /** Of `SlotUser`. */
  silentMs(): number | null {
    const current = this.#current;
    if (current === null || current.job.name !== 'sync' || current.client === null) return null;
    const { records, isLocal } = current.progress();
    const silentMs = current.answers.check(current.client.stats(), records, isLocal);
    return current.endError === null ? silentMs : null;
  }

  /** Of `SlotUser`. */
  giveUp(silentMs: number, isWanted: boolean): void {
    const source = this.#current?.job.source ?? null;
    if (source !== null) this.#cancel(this.#rests.begin(source, silentMs, isWanted));
  }

  /** Cancels the running job if it has reached its time limit (`limitMs`). */
  checkLimit(): void {
    const current = this.#current;
    if (current === null || current.endError !== null || (this.limitMs() ?? 1) > 0) return;
    const tookMs = this.#options.effects.clock.now() - Date.parse(current.startedAt);
    const limit = current.job.name === 'sync' ? 'sync.maxDuration of the source' : 'daemon.jobTimeout';
    const { name, source } = current.job;
    this.#cancel(
      new TidemarkError(
        'timeout',
        `${name}${source === null ? '' : ` of ${source}`} was ended after ${duration(tookMs)} (${limit}); what was published before is untouched`,
        { hint: `set ${limit} higher if the job needs longer`, isRetryable: true },
      ),
    );
  }

  /** Milliseconds until the running job reaches its time limit; null without one. */
  limitMs(): number | null {
    const current = this.#current;
    if (current === null || current.endsAt === null || current.endError !== null) return null;
    return Math.max(0, current.endsAt - this.#options.effects.clock.monotonicMs());
  }

  /** Aborts the running job; if it does not end, its process is killed. */
  #cancel(error: TidemarkError): void {
    const current = this.#current;
    if (current === null || current.endError !== null) return;
    current.endError = error;
    current.abort.abort(error);
    void settlesWithin(current.over, CANCEL_MS, this.#options.effects.clock).then(
      (isOver) => isOver || this.#options.executor.kill(),
    );
  }

  /** True while such a job is queued or running. */
  holds({ name, source }: Pick<QueuedJob, 'name' | 'source'>): boolean {
    return [...this.running(), ...this.queued()].some((job) => job.name === name && job.source === source);
  }

  queued(): readonly QueuedJob[] {
    return this.#queue.all().map(({ job }) => job);
  }

  /** The source whose running sync a queued job waits for, because both have one rate limit; null for none. */
  limitHolder(job: QueuedJob): string | null {
    const group = this.#options.groupOf(job);
    if (this.#current !== null || group === null) return null;
    return this.#options.slots.holder(group)?.source ?? null;
  }

  /** True if the job would wait for one that itself waits because the service asked for it. */
  isBehindPause(job: QueuedJob): boolean {
    const group = this.#options.groupOf(job);
    return group !== null && this.#options.slots.isPaused(group);
  }

  /** Of `SlotUser`. */
  isPaused(): boolean {
    return this.#current?.client?.stats().pausedUntil !== undefined;
  }

  /** Since when a queued backup waits, ISO 8601. */
  waitsSince(backup: QueuedJob): string {
    return this.#beginnings.of(backup);
  }

  running(): RunningJob[] {
    const current = this.#current;
    if (current === null) return [];
    const { job, number, startedAt, client, waitsFor } = current;
    const stats = client?.stats() ?? null;
    const progress =
      stats === null
        ? null
        : { requests: stats.requests, waitingUntil: this.#waitingUntil(stats), ...current.progress() };
    const { name, source, trigger } = job;
    const waits = { silentMs: this.silentMs(), pausedUntil: stats?.pausedUntil, waitsFor };
    return [{ job: number, name, source, trigger, startedAt, progress, ...waits }];
  }

  /** Null also if the service asked to wait: `pausedUntil` has that. */
  #waitingUntil({ waitingUntil = 0, pausedUntil }: RequestStats): number | null {
    return pausedUntil === undefined && waitingUntil > this.#options.effects.clock.now()
      ? waitingUntil
      : null;
  }

  /** The mirror is no longer configured: drops all waiting jobs, and resolves when the running one has ended. */
  async retire(): Promise<void> {
    this.#isStopping = true;
    this.#queue.takeAll();
    this.#options.slots.withdraw(this);
    await this.#current?.over;
  }

  /** Resolves when no job is running or queued. */
  async idle(): Promise<void> {
    if (this.#current === null && this.#queue.length === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /**
   * Accepts no more jobs, and gives the running one a part of `graceMs` to end; then it is aborted. Resolves when it has ended, or after
   * `graceMs`, when its process (if it has one) is killed.
   * @returns false if it did not end
   */
  async stop(graceMs: number): Promise<boolean> {
    this.#isStopping = true;
    for (const { schedule } of this.#queue.takeAll()) if (schedule !== null) this.#options.cutShort(schedule);
    this.#options.slots.withdraw(this);
    const { clock, log } = this.#options.effects;
    const current = this.#current;
    if (current === null) return true;
    const finishMs = graceMs * FINISH_SHARE;
    const { waitingUntil = 0 } = current.client?.stats() ?? {};
    const isWorthWaiting = waitingUntil < clock.now() + finishMs && current.number !== 0;
    log.info(
      { job: current.number },
      `stopping: ${current.job.name} is given ${isWorthWaiting ? 'time to end' : 'up'}`,
    );
    if (isWorthWaiting && (await settlesWithin(current.over, finishMs, clock))) return true;
    const reason = new TidemarkError('interrupted', 'the daemon was stopped');
    this.#abort.abort(reason);
    current.abort.abort(reason);
    if (await settlesWithin(current.over, isWorthWaiting ? graceMs - finishMs : graceMs, clock)) return true;
    return this.#options.executor.kill() && settlesWithin(current.over, KILL_MS, clock);
  }

  /** Of `SlotUser`. */
  start({ ticket }: Candidate): void {
    const { slots, effects, problems } = this.#options;
    const taken = this.#queue.take(ticket);
    if (taken === undefined || this.#current !== null) throw new Error('the job to start is not there');
    if (this.#queue.length === 0) slots.withdraw(this);
    const current: Current = {
      ...taken,
      startedAt: isoTime(effects.clock.now()),
      kinds: taken.job.kinds,
      number: 0,
      client: null,
      progress: () => NO_PROGRESS,
      waitsFor: null,
      answers: new AnswerWatch(effects.clock),
      abort: new AbortController(),
      endsAt: null,
      endError: null,
      over: Promise.resolve(),
    };
    this.#current = current;
    current.over = this.#perform(current)
      .catch((error: unknown) => {
        // An error of a job must not end the daemon; expected ones were handled before.
        problems.begin(jobKey(taken.job), asTidemarkError(error));
      })
      .then(() => {
        this.#current = null;
        this.#requests.end(current, null);
        slots.free(this);
        slots.fill();
        if (this.current() === null && this.#queue.length === 0)
          for (const idle of this.#onIdle.splice(0)) idle();
      });
  }

  async #perform(current: Current): Promise<void> {
    const { job } = current;
    const { works, effects, freshConfig, executor } = this.#options;
    const work = works.get(job.name);
    const config = freshConfig();
    const source = config.sources.find(({ name }) => name === job.source) ?? null;
    if (work === undefined || (work.isPerSource && source === null)) {
      effects.log.info({ source: job.source }, `${job.name} is left out: it is no longer configured`);
      return;
    }
    if (source !== null) current.kinds = narrowedKinds(source, job.kinds);
    const limitMs = timeLimitMs(job.name, config, source);
    current.endsAt = limitMs === 0 ? null : effects.clock.monotonicMs() + limitMs;
    if (job.trigger !== 'request') {
      if (this.#leftOut.isBeforeFirstSync(job, config)) return;
      if (!(await this.#leftOut.isWanted(job, work, config))) return;
    }
    const isFree = (): boolean => {
      const why = this.rateWaits.refusal({ job, work, source, config });
      if (why !== null) this.#requests.end(current, why);
      return why === null;
    };
    if (!isFree()) return;
    let turn: WriterTurn | null = null;
    try {
      turn = await this.#options.mirrorAccess.turn(this.#abort.signal);
      const isBegun = await this.#begin(current, turn, work, isFree);
      // Only a job that writes keeps the turn while it works.
      if (!isBegun || work.holds === 'reader') {
        turn.release();
        turn = null;
      }
      if (!isBegun) return;
      if (job.ignoresPause === true && source !== null) this.rateWaits.pauseIgnored(source.name);
    } catch (thrown) {
      await this.#end(current, failedResult(thrown, this.#abort.signal.aborted), turn);
      return;
    }
    const task: Task = {
      job,
      number: current.number,
      work,
      config,
      source,
      signal: current.abort.signal,
      onClient: (client, progress) => {
        current.client = client;
        current.progress = progress;
        if (job.source !== null) this.stats.begin(job.source, client);
      },
      onWait: (address) => {
        current.waitsFor = address;
      },
    };
    await this.#end(current, this.#resultOf(current, await executor.perform(task)), turn, work);
  }

  /** The result of the job. A cancelled one has failed: as an interrupted one it would be repeated at once. */
  #resultOf({ endError, job }: Current, result: JobResult): JobResult {
    if (endError !== null && result.outcome === 'interrupted' && !this.#isStopping) {
      return { ...result, outcome: 'failed', exitCode: exitCodeFor(endError.code), error: endError };
    }
    if (job.name === 'sync' && job.source !== null) this.#rests.end(job.source);
    return result;
  }

  /**
   * Records the job's start. False if the job is left out after all: another process has written to the mirror, or used the key, while
   * this one waited for the lock.
   * @throws TidemarkError if the mirror cannot be written; then the job has not started
   */
  async #begin(current: Current, turn: WriterTurn, work: JobWork, isFree: () => boolean): Promise<boolean> {
    const { job } = current;
    const { saveSchedule, observers, problems } = this.#options;
    const { name, source } = job;
    const start = { name, source, trigger: storedTrigger(job), startedAt: current.startedAt };
    const replaced: { by: number | null } = { by: null };
    const record = (mirror: Mirror): void => {
      this.unwritten.writeEnds(mirror);
      saveSchedule(mirror);
      replaced.by = runBetween(mirror, job, current.startedAt, isoTime(this.#options.effects.clock.now()));
      if (replaced.by === null && !this.#leftOut.isLeftOut(mirror, job, work) && isFree())
        current.number = mirror.daemon.beginJob(start);
    };
    // Only a sync may create the mirror: other jobs would find it empty.
    await turn.write(commandOf(job), this.#abort.signal, record, name === 'sync');
    this.unwritten.wereWritten(null);
    if (replaced.by !== null) {
      this.#options.effects.log.info(
        { source, run: replaced.by },
        'sync is left out: another process completed one while this waited for it',
      );
      this.#options.onReplaced(job);
      if (source !== null) observers.replaced(source);
    }
    if (current.number === 0) return false;
    this.#beginnings.note(job, current.startedAt);
    problems.end('mirror', 'the mirror can be written again');
    const row: JobRow = { ...start, ...UNENDED, job: current.number };
    this.#jobLog.began(row);
    observers.began({ row, kinds: current.kinds });
    return true;
  }

  /** Records the job's end, if the mirror can be written, and notifies the observers. */
  async #end(
    current: Current,
    performed: JobResult,
    held: WriterTurn | null,
    work: JobWork | null = null,
  ): Promise<void> {
    const { job } = current;
    const { effects, observers, problems, saveSchedule, mirrorAccess } = this.#options;
    if (job.schedule !== null) {
      if (performed.outcome === 'interrupted') this.#options.cutShort(job.schedule);
      else if (current.number === 0) this.#options.notBegun(job.schedule);
    }
    const { name, source } = job;
    const finishedAt = isoTime(effects.clock.now());
    const start = { name, source, trigger: storedTrigger(job), startedAt: current.startedAt };
    const endedWith = (result: JobResult) => {
      const { isOnce, isOfFleet = false } = this.#options;
      const how = { ...(isOnce ? { once: true } : {}), ...(isOfFleet ? { fleet: true } : {}) };
      const summary = { ...result.summary, ...how };
      const end = endOf({ ...result, summary }, finishedAt);
      const row: JobRow = { job: current.number, ...start, ...end };
      const ended: EndedJob = { row, kinds: current.kinds, report: result.report };
      return { result, end, row, ended, isWritten: false, isKnown: false };
    };
    let known = endedWith(performed);
    const record = (mirror: Mirror): void => {
      this.unwritten.writeEnds(mirror);
      const reason = work === null ? null : leftOutReason(mirror, job, work);
      if (reason !== null && performed.error === null) known = endedWith(leftOutResult(reason));
      mirror.daemon.finishJob(current.number, known.end);
      saveSchedule(mirror);
      observers.recorded(known.ended, mirror);
      // Cron mails what `--once` prints: the mail of the first call has reported these held removals.
      const [before] = mirror.daemon
        .jobs({ name, source, limit: 2 })
        .filter(({ job: own }) => own < current.number);
      known = {
        ...known,
        isWritten: true,
        isKnown: this.#options.isOnce && holdsAsBefore(known.row, before),
      };
    };
    let turn = held;
    try {
      if (current.number !== 0) {
        const { signal } = this.#abort;
        // A stopping daemon does not wait for the lock: a job without a recorded end counts as interrupted.
        if (signal.aborted) mirrorAccess.writeNow(commandOf(job), turn, record);
        else {
          turn ??= await mirrorAccess.turn(signal);
          await turn.write(commandOf(job), signal, record);
        }
      }
      if (known.isWritten) {
        this.unwritten.wereWritten(jobKey(job));
        problems.end('records', 'what jobs do is written down again');
      }
    } catch (error) {
      // A missing mirror is reported by MirrorConnections.
      if (mirrorAccess.isThere()) problems.begin('records', unwritten(name, asTidemarkError(error)));
    } finally {
      turn?.release();
      mirrorAccess.isThere();
    }
    const { result, row, ended, isWritten, isKnown } = known;
    if (!isWritten && result.outcome !== 'interrupted') this.unwritten.add(row, current.kinds === null);
    this.#requests.end(current, result.error);
    noteJobProblem(problems, row, result.error);
    this.#jobLog.ended(row, result.error, mirrorAccess.isGone(), isKnown);
    observers.ended(ended);
    this.#options.onEnd(job, ended, result.exitCode);
  }
}

/** The share of the grace period in which the running job may finish; the rest is for aborting it cleanly. */
const FINISH_SHARE = 0.7;
/** How long a cancelled job may take to end; then its process is killed. */
const CANCEL_MS = 10_000;
/** How long a killed process may take to be gone. */
const KILL_MS = 1_000;

/** A sync ends itself at its limit, with a summary; the daemon cancels one that does not. */
const SYNC_LIMIT_SLACK_MS = 60_000;

/** The time limit of a job; 0 for none. */
function timeLimitMs(job: JobName, { daemon }: Config, source: SourceConfig | null): number {
  if (job !== 'sync') return daemon.jobTimeout;
  const { maxDurationMs } = source?.sync ?? { maxDurationMs: 0 };
  return maxDurationMs === 0 ? 0 : maxDurationMs + SYNC_LIMIT_SLACK_MS;
}

/** The trigger as stored: of a request, with who made it. */
function storedTrigger({ trigger, actor }: QueuedJob): JobRow['trigger'] {
  return trigger === 'request' ? requestTrigger(actor) : trigger;
}
