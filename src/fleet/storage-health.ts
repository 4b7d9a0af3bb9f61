/** What a worker knows about the storage: whether it answers, and which mirrors it lacks. */
import type { ErrorMessage } from '../core/child-process.ts';
import type { Clock } from '../core/clock.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { CELL_MIRROR_HINT } from '../core/hints.ts';
import type { Logger } from '../core/logger.ts';
import { firstWords } from '../core/wording.ts';
import type { ActiveProblems } from '../daemon/problems.ts';
import type { CellStorage } from './cell.ts';

/** The pause after a storage did not answer: otherwise each cell would wait for `STORAGE_ANSWERS_MS`. */
const AGAIN_MS = 30_000;
const NO_ANSWER: readonly ErrorCode[] = ['timeout', 'unreachable'];
const CELLS_NAMED = 10;

export class StorageHealth {
  readonly #clock: Clock;
  readonly #problems: ActiveProblems;
  readonly #log: Pick<Logger, 'info'>;
  /** Set if it did not answer: until when, by the monotonic clock, no cell sends requests to it. */
  #away: { readonly until: number; readonly error: ErrorMessage } | null = null;
  /** Cells whose newest mirror could not be stored. */
  readonly #behind = new Set<string>();

  constructor(clock: Clock, problems: ActiveProblems, log: Pick<Logger, 'info'>) {
    this.#clock = clock;
    this.#problems = problems;
    this.#log = log;
  }

  /** Set while no cell is to send requests to it: why, and for how many milliseconds. */
  away(): { readonly error: ErrorMessage; readonly forMs: number } | null {
    if (this.#away === null) return null;
    const { until, error } = this.#away;
    const forMs = until - this.#clock.monotonicMs();
    return forMs > 0 ? { error, forMs } : null;
  }

  /**
   * Records an error of the storage.
   * @param wasAway true if the cell sent no request and only repeats the known error, which does not prolong the pause
   */
  failed(error: ErrorMessage, wasAway: boolean): void {
    if (NO_ANSWER.includes(error.code) && !wasAway)
      this.#away = { until: this.#clock.monotonicMs() + AGAIN_MS, error };
  }

  /** Records the result of storing the mirror of a cell. */
  noteStored(cell: string, { stored, error }: CellStorage, wasAway: boolean): void {
    if (error !== null) {
      this.failed(error, wasAway);
      const isOfMirror = error.code === 'mirror_corrupt';
      if (!isOfMirror) this.#behind.add(cell);
      const hint = isOfMirror ? { hint: CELL_MIRROR_HINT } : {};
      // Not the problem `storage`, which is about cells that were left to other workers. A damaged mirror is a problem
      // of its own, which ends when that mirror is stored.
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
    const cells = firstWords([...this.#behind].toSorted(), CELLS_NAMED, { noun: 'cell' });
    return `those of ${cells} follow with the next run of each`;
  }
}
