/**
 * Observers of jobs: notices and pings. If one fails, that is logged and affects neither the job nor the others; their
 * unfinished work is waited for at the end.
 */
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
  /** Of a sync: the kinds that it is narrowed to; null for everything that the source includes. */
  readonly kinds: readonly Kind[] | null;
}

export interface EndedJob extends BegunJob {
  /** `job` is 0 for one that could not be written down: the disk was full, or the mirror could not be opened. */
  readonly row: JobRow;
  /** Of a sync whose run was published. */
  readonly report: RunReport | null;
  /** Of a sync that a command made: its sweeps that were not complete. */
  readonly unread?: readonly UnreadSweep[];
  /** Of a sync that a command made: a later one ended before it was reported. */
  readonly isFollowed?: boolean;
}

/** What an observer may use beyond what it is given. */
export interface ObserverContext {
  /** Opens the mirror; waits for the writer's lock where it has to. */
  readonly mirrorAccess: MirrorConnections;
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
}

/** A mirror whose jobs are observed. */
export interface ObservedMirror {
  /** There as soon as a job is. */
  readonly view: () => DaemonView;
  /** Name of the only source, where each source has a mirror of its own; null for one mirror of all. */
  readonly owner: string | null;
  readonly context: () => ObserverContext;
}

/** What the daemons before left to report. */
export interface CutShort {
  /** One could not start, and said so to each channel. */
  readonly hasFailedToStart: boolean;
  /** One was killed, or could not write down what it had reported. */
  readonly hasLeftWork: boolean;
}

export interface JobObserver {
  /** For the log. */
  readonly name: string;
  /** Called before `loaded` where the daemon before was killed, or has left word that it was `hasUnwritten`. */
  cutShort?(before: CutShort): void;
  /** The daemon begins with the mirror, before any of its jobs. It must not await anything. */
  loaded?(context: ObserverContext): void;
  /** A job has begun and is written down. Not waited for. */
  began?(begun: BegunJob, context: ObserverContext): Promise<void>;
  /**
   * Called when a job has ended and is recorded: `mirror` is open for writing, under the same lock. It must not await
   * anything. Not called for a job that could not be recorded.
   */
  recorded?(ended: EndedJob, mirror: Mirror): void;
  /** The same after the lock was given back. Not waited for, but for the daemon's end. */
  ended?(ended: EndedJob, context: ObserverContext): Promise<void>;
  /** A scheduled sync of this source was left out, since another process has just completed one. Not waited for, but for the daemon's end. */
  replaced?(source: string, context: ObserverContext): Promise<void>;
  /**
   * Another process has ended syncs of this source while the daemon runs. Not waited for, but for the daemon's end.
   * @param after the last run of which it was called, or that was there when the daemon started; null without one
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
  /** Called after the last job of a mirror whose source is configured no longer. */
  retire?(context: ObserverContext): Promise<void>;
  /** Called after that: resolves when nothing of the mirror is left to be sent. */
  sent?(context: ObserverContext): Promise<void>;
  /** Called when the daemon lets go of the mirror. */
  close?(): void;
  /** True where something was reported that the mirror does not know. Also asked after `close`. */
  hasUnwritten?(): boolean;
}

export class Observers {
  readonly #all: readonly JobObserver[];
  readonly #log: Logger;
  readonly #context: () => ObserverContext;
  readonly #onSuccess: () => void;
  readonly #underWay = new Set<Promise<void>>();
  readonly #awake = new Set<JobObserver>();
  /** Why each of them failed at what it was last called for. */
  readonly #failed = new Map<string, string>();

  /** @param onSuccess called after what one of them did: what it found may be due before what the daemon sleeps for */
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
    for (const observer of this.#all) {
      try {
        observer.loaded?.(this.#context());
        this.#succeeded(observer, 'loaded');
      } catch (error) {
        this.#say(observer, 'loaded', error);
      }
    }
  }

  began(begun: BegunJob): void {
    for (const observer of this.#all)
      this.#start(observer, 'began', () => observer.began?.(begun, this.#context()));
  }

  recorded(ended: EndedJob, mirror: Mirror): void {
    for (const observer of this.#all) {
      try {
        observer.recorded?.(ended, mirror);
        this.#succeeded(observer, 'recorded');
      } catch (error) {
        this.#say(observer, 'recorded', error);
      }
    }
  }

  ended(ended: EndedJob): void {
    for (const observer of this.#all)
      this.#start(observer, 'ended', () => observer.ended?.(ended, this.#context()));
  }

  replaced(source: string): void {
    for (const observer of this.#all)
      this.#start(observer, 'replaced', () => observer.replaced?.(source, this.#context()));
  }

  syncedByHand(source: string, after: number | null): void {
    for (const observer of this.#all)
      this.#start(observer, 'syncedByHand', () => observer.syncedByHand?.(source, after, this.#context()));
  }

  /** Epoch milliseconds of the next wish to be woken; null if there is none. */
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
      this.#start(observer, 'wake', () =>
        observer.wake?.(this.#context()).finally(() => this.#awake.delete(observer)),
      );
    }
  }

  /** Called last, when everything else is done: see `JobObserver.finish`. */
  async finish(): Promise<void> {
    await this.settled();
    for (const observer of this.#all)
      this.#start(observer, 'finish', () => observer.finish?.(this.#context()));
    await this.settled();
  }

  /** See `JobObserver.flush`. */
  async flush(): Promise<void> {
    for (const observer of this.#all) this.#start(observer, 'flush', () => observer.flush?.(this.#context()));
    await this.settled();
  }

  /** See `JobObserver.retire`. */
  async retire(): Promise<void> {
    for (const observer of this.#all)
      this.#start(observer, 'retire', () => observer.retire?.(this.#context()));
    await this.settled();
  }

  /** See `JobObserver.sent`. @param signal ends the wait */
  async sent(signal: AbortSignal): Promise<void> {
    for (const observer of this.#all)
      this.#start(observer, 'sent', () => observer.sent?.({ ...this.#context(), signal }));
    await this.settled();
  }

  close(): void {
    for (const observer of this.#all) observer.close?.();
  }

  /** See `JobObserver.hasUnwritten`. */
  hasUnwritten(): boolean {
    return this.#all.some((observer) => observer.hasUnwritten?.() === true);
  }

  /** Resolves when all that is under way now has ended. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #start(observer: JobObserver, phase: keyof JobObserver, work: () => Promise<void> | undefined): void {
    const done: Promise<void> = (async () => work())()
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
