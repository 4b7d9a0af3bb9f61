/** Who hears of jobs: notices, pings. An observer that fails is logged and disturbs neither the job nor the others. */
import type { Kind } from '../../catalog/kinds.ts';
import type { JobRow } from '../../mirror/daemon.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunReport } from '../../sync/run.ts';
import type { MirrorConnections } from '../mirror-access.ts';

export interface BegunJob {
  readonly row: JobRow;
  /** Of a sync: the kinds that it is narrowed to; null for all that the source includes. */
  readonly kinds: readonly Kind[] | null;
}

export interface EndedJob extends BegunJob {
  /** `job` is 0 for one that could not be written down: the disk was full, or the mirror could not be opened. */
  readonly row: JobRow;
  /** Of a sync whose run was published. */
  readonly report: RunReport | null;
}

/** What an observer may use beyond what it is given. */
export interface ObserverContext {
  /** Opens the mirror; waits for the writer's lock where it has to. */
  readonly mirrorAccess: MirrorConnections;
  /** Aborted when the daemon has no more time. */
  readonly signal: AbortSignal;
}

export interface JobObserver {
  /** For the log. */
  readonly name: string;
  /** A job has begun and is written down. Not waited for. */
  began?(begun: BegunJob, context: ObserverContext): Promise<void>;
  /**
   * A job has ended and is written down: `mirror` is open for writing, under the same lock. Awaits nothing. Not called
   * for a job that could not be written down.
   */
  recorded?(ended: EndedJob, mirror: Mirror): void;
  /** The same after the lock was given back. Not waited for, but for the daemon's end. */
  ended?(ended: EndedJob, context: ObserverContext): Promise<void>;
  /** When `wake` must be called next, epoch milliseconds; null for not at all. */
  wakeAt?(): number | null;
  /** Not called again before it has ended. */
  wake?(context: ObserverContext): Promise<void>;
  /** Called before a daemon with `--once` ends: `wake` is not called any more. */
  finish?(context: ObserverContext): Promise<void>;
}
