/** Calls the observers: none of their failures reaches the job, and what they do meanwhile is waited for at the end. */
import { asTidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { BegunJob, EndedJob, JobObserver, ObserverContext } from './observer.ts';

export class Observers {
  readonly #all: readonly JobObserver[];
  readonly #log: Logger;
  readonly #context: () => ObserverContext;
  readonly #underWay = new Set<Promise<void>>();
  readonly #awake = new Set<JobObserver>();

  constructor(all: readonly JobObserver[], log: Logger, context: () => ObserverContext) {
    this.#all = all;
    this.#log = log;
    this.#context = context;
  }

  began(begun: BegunJob): void {
    for (const observer of this.#all) this.#start(observer, () => observer.began?.(begun, this.#context()));
  }

  recorded(ended: EndedJob, mirror: Mirror): void {
    for (const observer of this.#all) {
      try {
        observer.recorded?.(ended, mirror);
      } catch (error) {
        this.#say(observer, error);
      }
    }
  }

  ended(ended: EndedJob): void {
    for (const observer of this.#all) this.#start(observer, () => observer.ended?.(ended, this.#context()));
  }

  /** Epoch milliseconds of the next wish to be woken; null where there is none. */
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
      this.#start(observer, () =>
        observer.wake?.(this.#context()).finally(() => this.#awake.delete(observer)),
      );
    }
  }

  /** Called last, when everything else is done: see `JobObserver.finish`. */
  async finish(): Promise<void> {
    await this.settled();
    for (const observer of this.#all) this.#start(observer, () => observer.finish?.(this.#context()));
    await this.settled();
  }

  /** Resolves when all that is under way now has ended. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  #start(observer: JobObserver, work: () => Promise<void> | undefined): void {
    const done: Promise<void> = (async () => work())()
      .catch((error: unknown) => this.#say(observer, error))
      .finally(() => this.#underWay.delete(done));
    this.#underWay.add(done);
  }

  #say({ name }: JobObserver, thrown: unknown): void {
    const { mirrorAccess, signal } = this.#context();
    if (signal.aborted) return;
    const { code, message } = asTidemarkError(thrown);
    // A missing mirror is reported by MirrorConnections.
    if (code === 'mirror_missing' && mirrorAccess.isGone()) return;
    this.#log.error({ about: name, code }, message);
  }
}
