/** The journal of one restore: what is known of each step, on disk before anything is done with it. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock } from '../core/clock.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type {
  Durability,
  IdMapping,
  RestoreOutcome,
  RestoreStart,
  RestoreStepRow,
} from '../mirror/restores.ts';
import type { Plan, PlanStep } from './plan.ts';
import { isExecutable, planDocument } from './plan.ts';

export type StepChange = Partial<Omit<RestoreStepRow, 'restore' | 'n'>>;

/** The id map's entry for a created record. */
export type NewId = Omit<IdMapping, 'restore' | 'at'>;

export interface JournalStart {
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly source: string;
  readonly plan: Plan;
  readonly approved: Readonly<Record<string, JsonValue>>;
  readonly undoes?: number;
}

export class RestoreJournal {
  readonly restore: number;
  readonly #mirror: Mirror;
  readonly #clock: Clock;
  readonly #rows: Map<number, RestoreStepRow>;
  readonly #leaving: RestoreStepRow[] = [];
  #departure: Promise<void> | null = null;

  private constructor(mirror: Mirror, clock: Clock, restore: number) {
    this.#mirror = mirror;
    this.#clock = clock;
    this.restore = restore;
    this.#rows = new Map(mirror.restoreSteps(restore).map((row) => [row.n, row]));
  }

  /** Writes the whole plan down. */
  static begin({ mirror, clock, source, plan, approved, undoes }: JournalStart): RestoreJournal {
    const start: RestoreStart = {
      source,
      plan: JSON.stringify(planDocument(plan)),
      planHash: plan.hash,
      from: plan.from.ref,
      approved,
      startedAt: isoTime(clock.now()),
      steps: plan.steps.map(firstRow),
      ...(undoes === undefined ? {} : { undoes }),
    };
    return new RestoreJournal(mirror, clock, mirror.beginRestore(start));
  }

  /**
   * Goes on with a restore.
   * @throws TidemarkError `reference_unknown`; `unsafe_plan` when it was another plan
   */
  static resume(mirror: Mirror, clock: Clock, restore: number, plan: Plan): RestoreJournal {
    const row = mirror.restore(restore);
    if (row !== undefined && row.planHash !== plan.hash) {
      throw new TidemarkError('unsafe_plan', `restore ${restore} has another plan`, {
        hint: '`tidemark restore --resume` goes on with what was approved; `tidemark restore` makes a new plan',
      });
    }
    mirror.resumeRestore(restore);
    return new RestoreJournal(mirror, clock, restore);
  }

  row(n: number): RestoreStepRow {
    const row = this.#rows.get(n);
    if (row === undefined) throw new Error(`the journal has no step ${n}`);
    return row;
  }

  rows(): readonly RestoreStepRow[] {
    return [...this.#rows.values()];
  }

  /**
   * A request is about to leave: resolves when that is on the disk. Steps that are ready in the same turn share one write,
   * since each waits for the disk.
   */
  async sending(n: number): Promise<void> {
    const { attempts } = this.row(n);
    this.#leaving.push({
      ...this.row(n),
      outcome: 'sent',
      attempts: attempts + 1,
      sentAt: this.#time(),
      endedAt: null,
      status: null,
      errorCode: null,
      error: null,
    });
    this.#departure ??= this.#depart();
    await this.#departure;
  }

  async #depart(): Promise<void> {
    await nextTurn();
    const rows = this.#leaving.splice(0);
    this.#departure = null;
    this.#mirror.journalSteps(rows.map((row) => ({ row })));
    for (const row of rows) this.#rows.set(row.n, row);
  }

  /** What is known of a step now; with the new id that it gave, where it gave one. */
  note(n: number, change: StepChange, mapping?: NewId): void {
    this.#write(n, change, 'disk', mapping);
  }

  /** The step is over, for this time. */
  end(n: number, change: StepChange & Pick<RestoreStepRow, 'outcome'>, mapping?: NewId): void {
    this.#write(n, { endedAt: this.#time(), ...change }, 'disk', mapping);
  }

  /** What reading back showed: lost with the power, it is read back again. */
  readBack(n: number, change: StepChange): void {
    this.#write(n, change, 'process');
  }

  finish(outcome: Exclude<RestoreOutcome, 'running'>): void {
    this.#mirror.finishRestore(this.restore, outcome, this.#time());
  }

  #write(n: number, change: StepChange, durability: Durability, newId?: NewId): void {
    const row = { ...this.row(n), ...change };
    const mapping = newId === undefined ? undefined : { ...newId, restore: this.restore, at: this.#time() };
    // First the file: what is only in memory was not journaled.
    this.#mirror.journalSteps([{ row, mapping }], durability);
    this.#rows.set(n, row);
  }

  #time(): string {
    return isoTime(this.#clock.now());
  }
}

function firstRow(step: PlanStep): RestoreStart['steps'][number] {
  return {
    n: step.n,
    outcome: isExecutable(step) ? 'planned' : (step.action as 'blocked' | 'manual'),
    inverse: step.inverse as unknown as JsonValue,
    errorCode: null,
    error: isExecutable(step) ? null : step.reason,
  };
}
