/** Observers of jobs: notices and pings. If one fails, that is logged and affects neither the job nor the other observers. */
import type { Kind } from '../../catalog/kinds.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunReport } from '../../sync/run.ts';
import type { MirrorConnections } from '../mirror-access.ts';
import type { DaemonView } from '../view.ts';
import type { UnreadSweep } from './summaries.ts';

export interface BegunJob {
  readonly row: JobRow;
  /** Of a sync: the kinds that it is limited to; null for everything that the source includes. */
  readonly kinds: readonly Kind[] | null;
}

export interface EndedJob extends BegunJob {
  /** `job` is 0 if it could not be recorded: the disk was full, or the mirror could not be opened. */
  readonly row: JobRow;
  /** Of a sync whose run was published. */
  readonly report: RunReport | null;
  /** Of a sync that a command made: its sweeps that were not complete. */
  readonly unread?: readonly UnreadSweep[];
  /** Of a sync that a command made: true if a later one ended before it was reported. */
  readonly isFollowed?: boolean;
}

/** What observers may use. */
export interface ObserverContext {
  /** Opens the mirror; waits for the writer's lock if necessary. */
  readonly mirrorAccess: MirrorConnections;
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
}

/** A mirror whose jobs are observed. */
export interface ObservedMirror {
  /** Available before the first job. */
  readonly view: () => DaemonView;
  /** With a mirror per source, the source of this one; null for one mirror of all. */
  readonly owner: string | null;
  readonly context: () => ObserverContext;
}

/** What earlier daemons left to report. */
export interface CutShort {
  /** One could not start, and reported that to each channel. */
  readonly hasFailedToStart: boolean;
  /** One was killed, or could not store what it had reported. */
  readonly hasLeftWork: boolean;
}

/**
 * `began`, `ended`, `replaced`, `syncedByHand` and `wake` are not waited for; `finish`, `flush`, `retire` and `sent` are, before the
 * mirror of a removed source is closed or the daemon ends.
 */
export interface JobObserver {
  /** For the log. */
  readonly name: string;
  /** Called before `loaded` if the previous daemon was killed, or ended with `hasUnwritten`. */
  cutShort?(before: CutShort): void;
  /** The daemon opens the mirror, before any of its jobs. It must not await anything. */
  loaded?(context: ObserverContext): void;
  /** A job has begun and is recorded. */
  began?(begun: BegunJob, context: ObserverContext): Promise<void>;
  /**
   * A job has ended and is recorded: `mirror` is open for writing, under the same lock. It must not await anything. Not called for a job
   * that could not be recorded.
   */
  recorded?(ended: EndedJob, mirror: Mirror): void;
  /** A job has ended, and the lock was released. */
  ended?(ended: EndedJob, context: ObserverContext): Promise<void>;
  /** A scheduled sync of this source was left out because another process has just completed one. */
  replaced?(source: string, context: ObserverContext): Promise<void>;
  /**
   * Another process has made syncs of this source while the daemon runs.
   * @param after the last run for which it was called, or that was there when the daemon started; null without one
   */
  syncedByHand?(source: string, after: number | null, context: ObserverContext): Promise<void>;
  /** When `wake` must be called next, epoch milliseconds; null for not at all. */
  wakeAt?(): number | null;
  /** Not called again before it has ended. */
  wake?(context: ObserverContext): Promise<void>;
  /** Called before a daemon with `--once` ends: `wake` is not called any more. */
  finish?(context: ObserverContext): Promise<void>;
  /** Called after `finish` of all mirrors: nothing follows that could be waited for. */
  flush?(context: ObserverContext): Promise<void>;
  /** Called after the last job of a mirror whose source is no longer configured. */
  retire?(context: ObserverContext): Promise<void>;
  /** Called after `retire`: resolves when nothing of the mirror is left to be sent. */
  sent?(context: ObserverContext): Promise<void>;
  /** Called when the daemon closes the mirror. */
  close?(): void;
  /** True if something was reported that is not stored in the mirror. Also called after `close`. */
  hasUnwritten?(): boolean;
}

/** All observers of the jobs of one mirror. Its methods are those of `JobObserver`. */
export class Observers {
  readonly #all: readonly JobObserver[];
  readonly #log: Logger;
  readonly #context: () => ObserverContext;
  readonly #onSuccess: () => void;
  readonly #underWay = new Set<Promise<void>>();
  readonly #awake = new Set<JobObserver>();
  /** Error messages of the last calls that failed, by observer and method. */
  readonly #failed = new Map<string, string>();

  /** @param onSuccess called after each call of an observer: it may have to be woken earlier than the daemon wakes */
  constructor(
    all: readonly JobObserver[],
    log: Logger,
    context: () => ObserverContext,
    onSuccess: () => void = () => undefined,
  ) {
    this.#all = all;
    this.#log = log;
    this.#context = context;
    this.#onSuccess = onSuccess;
  }

  cutShort(before: CutShort): void {
    for (const observer of this.#all) observer.cutShort?.(before);
  }

  loaded(): void {
    this.#call('loaded', (observer) => observer.loaded?.(this.#context()));
  }

  began(begun: BegunJob): void {
    this.#startAll('began', (observer, context) => observer.began?.(begun, context));
  }

  recorded(ended: EndedJob, mirror: Mirror): void {
    this.#call('recorded', (observer) => observer.recorded?.(ended, mirror));
  }

  ended(ended: EndedJob): void {
    this.#startAll('ended', (observer, context) => observer.ended?.(ended, context));
  }

  replaced(source: string): void {
    this.#startAll('replaced', (observer, context) => observer.replaced?.(source, context));
  }

  syncedByHand(source: string, after: number | null): void {
    this.#startAll('syncedByHand', (observer, context) => observer.syncedByHand?.(source, after, context));
  }

  /** When the first observer must be woken, epoch milliseconds; null for none. */
  wakeAt(): number | null {
    const times = this.#all
      .filter((observer) => !this.#awake.has(observer))
      .map((observer) => observer.wakeAt?.() ?? null)
      .filter((at) => at !== null);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Wakes those whose time has come. */
  wake(now: number): void {
    for (const observer of this.#all) {
      const at = observer.wakeAt?.() ?? null;
      if (at === null || at > now || this.#awake.has(observer)) continue;
      this.#awake.add(observer);
      this.#start(observer, 'wake', (context) =>
        observer.wake?.(context).finally(() => this.#awake.delete(observer)),
      );
    }
  }

  /** To be called last, when everything else is done. */
  async finish(): Promise<void> {
    await this.settled();
    this.#startAll('finish', (observer, context) => observer.finish?.(context));
    await this.settled();
  }

  async flush(): Promise<void> {
    this.#startAll('flush', (observer, context) => observer.flush?.(context));
    await this.settled();
  }

  async retire(): Promise<void> {
    this.#startAll('retire', (observer, context) => observer.retire?.(context));
    await this.settled();
  }

  /** @param signal ends the wait */
  async sent(signal: AbortSignal): Promise<void> {
    this.#startAll('sent', (observer, context) => observer.sent?.({ ...context, signal }));
    await this.settled();
  }

  close(): void {
    for (const observer of this.#all) observer.close?.();
  }

  hasUnwritten(): boolean {
    return this.#all.some((observer) => observer.hasUnwritten?.() === true);
  }

  /** Resolves when all calls under way have ended. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #call(phase: keyof JobObserver, work: (observer: JobObserver) => void): void {
    for (const observer of this.#all) {
      try {
        work(observer);
        this.#succeeded(observer, phase);
      } catch (error) {
        this.#say(observer, phase, error);
      }
    }
  }

  #startAll(
    phase: keyof JobObserver,
    work: (observer: JobObserver, context: ObserverContext) => Promise<void> | undefined,
  ): void {
    for (const observer of this.#all) this.#start(observer, phase, (context) => work(observer, context));
  }

  #start(
    observer: JobObserver,
    phase: keyof JobObserver,
    work: (context: ObserverContext) => Promise<void> | undefined,
  ): void {
    const done: Promise<void> = (async () => work(this.#context()))()
      .then(() => {
        this.#succeeded(observer, phase);
        this.#onSuccess();
      })
      .catch((error: unknown) => this.#say(observer, phase, error))
      .finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  #succeeded({ name }: JobObserver, phase: keyof JobObserver): void {
    const message = this.#failed.get(`${name} ${phase}`);
    if (message === undefined) return;
    this.#failed.delete(`${name} ${phase}`);
    this.#log.info({ about: name }, `${name} work again; they had failed: ${message}`);
  }

  #say({ name }: JobObserver, phase: keyof JobObserver, thrown: unknown): void {
    const { mirrorAccess, signal } = this.#context();
    if (signal.aborted) return;
    const { code, message } = asTidemarkError(thrown);
    // A missing mirror is reported by MirrorConnections.
    if (code === 'mirror_missing' && mirrorAccess.isGone()) return;
    const key = `${name} ${phase}`;
    const isSame = this.#failed.get(key) === message;
    this.#failed.set(key, message);
    if (isSame) this.#log.info({ about: name, code }, `still: ${message}`);
    else this.#log.error({ about: name, code }, message);
  }
}
