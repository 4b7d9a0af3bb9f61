/** What a worker knows of the storage: whether it answers, and which mirrors it has not got from this worker yet. */
import type { ErrorMessage } from '../core/child-process.ts';
import type { Clock } from '../core/clock.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { CELL_MIRROR_HINT } from '../core/hints.ts';
import type { Logger } from '../core/logger.ts';
import { plural } from '../core/wording.ts';
import type { ActiveProblems } from '../daemon/problems.ts';
import type { CellStorage } from './cell.ts';

/** A storage that did not answer is asked again after this time: asking may take as long (`STORAGE_ANSWERS_MS`), for each cell. */
const AGAIN_MS = 30_000;
const NO_ANSWER: readonly ErrorCode[] = ['timeout', 'unreachable'];
const CELLS_NAMED = 10;

export class StorageHealth {
  readonly #clock: Clock;
  readonly #problems: ActiveProblems;
  readonly #log: Pick<Logger, 'info'>;
  /** Until when, by the monotonic clock, no cell asks it. */
  #away: { readonly until: number; readonly error: ErrorMessage } | null = null;
  /** Cells whose newest mirror could not be stored. */
  readonly #behind = new Set<string>();

  constructor(clock: Clock, problems: ActiveProblems, log: Pick<Logger, 'info'>) {
    this.#clock = clock;
    this.#problems = problems;
    this.#log = log;
  }

  /** Why the next cell is not to ask it, and for how long, in milliseconds; null where it is. */
  away(): { readonly error: ErrorMessage; readonly forMs: number } | null {
    if (this.#away === null) return null;
    const { until, error } = this.#away;
    const forMs = until - this.#clock.monotonicMs();
    return forMs > 0 ? { error, forMs } : null;
  }

  /**
   * A cell met that error of the storage.
   * @param wasAway true where the cell was not to ask, and so repeats what was known: that does not prolong the pause
   */
  failed(error: ErrorMessage, wasAway: boolean): void {
    if (NO_ANSWER.includes(error.code) && !wasAway)
      this.#away = { until: this.#clock.monotonicMs() + AGAIN_MS, error };
  }

  /** What came of storing the mirror of a cell. */
  noteStored(cell: string, { stored, error }: CellStorage, wasAway: boolean): void {
    if (error !== null) {
      this.failed(error, wasAway);
      const isOfMirror = error.code === 'mirror_corrupt';
      if (!isOfMirror) this.#behind.add(cell);
      const hint = isOfMirror ? { hint: CELL_MIRROR_HINT } : {};
      // Apart from `storage`: that cells without a cached mirror were left to others does not say it. What is wrong with one mirror
      // is over with that one.
      const about = isOfMirror ? `backup_behind ${cell}` : 'backup_behind';
      this.#problems.begin(
        about,
        new TidemarkError(error.code, `backup_behind: ${error.message}`, hint),
        'warn',
      );
      return;
    }
    const wasBehind = this.#behind.delete(cell);
    if (stored !== null) {
      this.#away = null;
      this.#problems.end(`backup_behind ${cell}`, `the mirror of ${cell} is stored again`);
      this.#problems.end('storage', 'mirrors are stored again');
      if (this.#behind.size > 0)
        this.#problems.end('backup_behind', `mirrors are stored again; ${this.#others()}`);
    }
    if (!wasBehind || this.#behind.size > 0) return;
    this.#problems.clear('backup_behind');
    this.#log.info({}, 'backup_behind is over: the newest mirrors of all cells are stored');
  }

  #others(): string {
    const names = [...this.#behind].toSorted();
    const more = names.length - CELLS_NAMED;
    const listed = `${names.slice(0, CELLS_NAMED).join(', ')}${more > 0 ? ` and ${plural(more, 'more cell')}` : ''}`;
    return `those of ${listed} follow with the next run of each`;
  }
}
