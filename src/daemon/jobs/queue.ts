/** Jobs that wait for their turn, first come first served. The same job waits once. Pure. */
import type { Kind } from '../../catalog/definition.ts';
import type { ScheduleName } from '../../config/config.ts';
import type { QueuedJob } from './work.ts';

export class JobQueue {
  #waiting: QueuedJob[] = [];

  /** Adds a job, or widens the same one that waits already: what either of the two asked for is done. */
  add(job: QueuedJob): void {
    const index = this.#waiting.findIndex(({ name, source }) => name === job.name && source === job.source);
    const known = this.#waiting[index];
    if (known === undefined) this.#waiting.push(job);
    else this.#waiting[index] = widened(known, job);
  }

  take(): QueuedJob | undefined {
    return this.#waiting.shift();
  }

  /** Empties it. */
  takeAll(): QueuedJob[] {
    return this.#waiting.splice(0);
  }

  holds(schedule: ScheduleName): boolean {
    return this.#waiting.some((job) => job.schedule === schedule);
  }

  all(): readonly QueuedJob[] {
    return this.#waiting;
  }
}

function widened(known: QueuedJob, job: QueuedJob): QueuedJob {
  return {
    ...known,
    schedule: known.schedule ?? job.schedule,
    full: known.full || job.full,
    kinds: either(known.kinds, job.kinds),
  };
}

function either(one: readonly Kind[] | null, other: readonly Kind[] | null): readonly Kind[] | null {
  return one === null || other === null ? null : [...new Set([...one, ...other])];
}
