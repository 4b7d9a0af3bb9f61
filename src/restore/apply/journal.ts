/** The journal of one restore: the state of each step, on disk before the next action of the step. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, isoTime, realPause } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import { newlyFound } from '../../diff/found-again.ts';
import { idLookup } from '../../state/recreated-ids.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { Durability, JournalEntry, RestoreStart, RestoreStore } from '../../mirror/restore-store.ts';
import type { RestoreOutcome, RestoreStepRow } from '../../mirror/restores.ts';
import type { IdMapping } from '../../mirror/id-map.ts';
import { type Adoption, type Plan, type PlanStep, isExecutable, planDocument } from '../plan/plan.ts';

type StepChange = Partial<Omit<RestoreStepRow, 'restore' | 'n'>>;

/** The id map's entry for a created record. */
export type NewId = Omit<IdMapping, 'restore' | 'at'>;

/** The store of a journal: the mirror, or memory, for look-ups that are not recorded. */
export type JournalStore = Pick<RestoreStore, 'steps' | 'journal' | 'settled' | 'finish'>;

interface JournalStart {
  readonly mirror: Mirror;
  readonly clock: Clock;
  readonly source: string;
  readonly plan: Plan;
  readonly approved: Readonly<Record<string, JsonValue>>;
  readonly undoes?: number;
  /** The maximum of creations that are journaled as `sent` without an answer at the same time. */
  readonly mostUnanswered: number;
}

/**
 * The minimum of real time between two shared disk writes of results, in milliseconds: about one request to a nearby service, and enough
 * to gather the results of many steps. A single step does not wait for it, since the last write is longer ago.
 */
const GATHER_MS = 40;

export class RestoreJournal {
  readonly restore: number;
  readonly #store: JournalStore;
  readonly #clock: Clock;
  readonly #rows: Map<number, RestoreStepRow>;
  readonly #creations: CreationSlots;

  /** By step, rows and new ids that the next transaction writes. */
  readonly #waiting = new Map<number, JournalEntry>();
  #committing: Promise<void> | null = null;
  #hurry: () => void = () => undefined;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;
  /** When the last shared write began, on the monotonic clock. */
  #settledAt = Number.NEGATIVE_INFINITY;

  /** The journal of a restore that `store` already has. */
  constructor(store: JournalStore, clock: Clock, restore: number, mostUnanswered = Infinity) {
    this.#store = store;
    this.#clock = clock;
    this.#creations = new CreationSlots(mostUnanswered);
    this.restore = restore;
    this.#rows = new Map(store.steps(restore).map((row) => [row.n, row]));
  }

  /** Starts a restore: writes the entire plan. */
  static begin({
    mirror,
    clock,
    source,
    plan,
    approved,
    undoes,
    mostUnanswered,
  }: JournalStart): RestoreJournal {
    const latest = idLookup(mirror.restores.idMap(source));
    const adopted = new Set(plan.adopted.map(({ kind, live_id: id }) => `${kind} ${id}`));
    // From the id that an earlier restore gave, as for a record that is created again (`mappingsOf`).
    const oldPlace = ({
      kind,
      scope,
      desired_scope,
      desired_id: id,
      live_id: now,
    }: Adoption): Pick<IdMapping, 'oldScope' | 'oldId'> => {
      const since = latest(kind, id);
      const isAgain = since !== undefined && since !== now && !adopted.has(`${kind} ${since}`);
      return isAgain ? { oldScope: scope, oldId: since } : { oldScope: desired_scope, oldId: id };
    };
    const start: RestoreStart = {
      source,
      plan: JSON.stringify(planDocument(plan)),
      planHash: plan.hash,
      from: plan.from.ref,
      approved,
      startedAt: isoTime(clock.now()),
      steps: plan.steps.map(firstRow),
      mappings: newlyFound(plan).map((each) => ({
        ...{ source, kind: each.kind, ...oldPlace(each) },
        ...{ newScope: each.scope, newId: each.live_id, at: isoTime(clock.now()) },
      })),
      ...(undoes === undefined ? {} : { undoes }),
    };
    return new RestoreJournal(mirror.restores, clock, mirror.restores.begin(start), mostUnanswered);
  }

  /**
   * Resumes a restore.
   * @throws TidemarkError `reference_unknown`; `unsafe_plan` when it has another plan
   */
  static resume(
    {
      mirror,
      clock,
      plan,
      mostUnanswered,
    }: Pick<JournalStart, 'mirror' | 'clock' | 'plan' | 'mostUnanswered'>,
    restore: number,
  ): RestoreJournal {
    const row = mirror.restores.get(restore);
    if (row !== undefined && row.planHash !== plan.hash) {
      throw new TidemarkError('unsafe_plan', `restore ${restore} has another plan`, {
        hint: '`tidemark restore --resume` continues with what was approved; `tidemark restore` makes a new plan',
      });
    }
    mirror.restores.resume(restore);
    return new RestoreJournal(mirror.restores, clock, restore, mostUnanswered);
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
   * Writes the outcome `sent` before the request; resolves once it is on disk. Steps that are ready together share the write. A creation
   * waits while too many others are unanswered: after a kill, a person has to check these, while the result of other steps shows in the
   * live record.
   */
  async markSent(n: number, isCreation: boolean): Promise<void> {
    if (isCreation) await this.#creations.take(n);
    const { attempts } = this.row(n);
    const change = { outcome: 'sent', attempts: attempts + 1, sentAt: this.#time(), endedAt: null } as const;
    this.#later(n, { ...change, status: null, errorCode: null, error: null });
    await this.#settle(isCreation);
  }

  /** The request of the step, if one was sent, has ended and is journaled: frees its slot. */
  over(n: number): void {
    this.#creations.give(n);
  }

  /**
   * Writes that the request succeeded; resolves once that is on disk. The record may be read back before that, but the step has not ended;
   * if the process is killed before, a resumed restore looks up the result.
   */
  async applied(n: number, change: StepChange, newIds: readonly NewId[] = []): Promise<void> {
    this.#later(n, { endedAt: this.#time(), ...change, outcome: 'applied' }, newIds);
    if (this.#creations.has(n)) {
      await this.#commit();
      this.over(n);
    }
    await this.#settle();
  }

  /** Resolves once all earlier entries are on disk. Those that could not be written are tried again. */
  settled(): Promise<void> {
    return this.#settle();
  }

  /** Writes all entries of the same turn of the event loop in one transaction, which survives a kill of the process. */
  #commit(): Promise<void> {
    return (this.#committing ??= nextTurn().then(() => {
      this.#committing = null;
      this.#writeAll([], 'process');
    }));
  }

  /** One disk write for all entries that came in the meantime: results are gathered for some time, but not if a step is about to be sent. */
  #settle(isUrgent = false): Promise<void> {
    if (this.#next === null) {
      const urgent = Promise.withResolvers<undefined>();
      this.#hurry = () => urgent.resolve(undefined);
      const next = this.#running.then(async () => {
        const pause = realPause(this.#settledAt + GATHER_MS - this.#clock.monotonicMs());
        await Promise.race([pause, urgent.promise]);
        this.#next = null;
        this.#settledAt = this.#clock.monotonicMs();
        this.#writeAll([], 'process');
        await this.#store.settled();
      });
      this.#next = next;
      // The callers that wait for it get the error; the next write tries again.
      this.#running = next.catch(() => undefined);
    }
    if (isUrgent) this.#hurry();
    return this.#next;
  }

  /** Changes the step's row. */
  note(n: number, change: StepChange): void {
    this.#write(n, change, 'disk');
  }

  /** Ends the step in this attempt. */
  end(n: number, change: StepChange & Pick<RestoreStepRow, 'outcome'>, newIds: readonly NewId[] = []): void {
    this.#write(n, { endedAt: this.#time(), ...change }, 'disk', newIds);
  }

  /** The result of reading back, written with the next entry. If it is lost, the record is read back again. */
  readBack(n: number, change: StepChange): void {
    this.#later(n, change);
  }

  finish(outcome: Exclude<RestoreOutcome, 'running'>): void {
    this.#writeAll([], 'process');
    this.#store.finish(this.restore, outcome, this.#time());
  }

  #write(n: number, change: StepChange, durability: Durability, newIds: readonly NewId[] = []): void {
    const mappings = newIds.length === 0 ? {} : { mappings: this.#mappingsOf(newIds) };
    // To the file before memory: a row that is only in memory is not journaled.
    this.#writeAll([{ row: { ...this.row(n), ...change }, ...mappings }], durability);
    this.over(n);
  }

  #mappingsOf(newIds: readonly NewId[]): readonly IdMapping[] {
    return newIds.map((each) => ({ ...each, restore: this.restore, at: this.#time() }));
  }

  #later(n: number, change: StepChange, newIds: readonly NewId[] = []): void {
    const row = { ...this.row(n), ...change };
    const mappings = newIds.length === 0 ? this.#waiting.get(n)?.mappings : this.#mappingsOf(newIds);
    this.#rows.set(n, row);
    this.#waiting.set(n, { row, mappings });
  }

  /** Writes these rows and the waiting ones in one transaction. */
  #writeAll(entries: readonly JournalEntry[], durability: Durability): void {
    const all = new Map(this.#waiting);
    for (const entry of entries) all.set(entry.row.n, { ...all.get(entry.row.n), ...entry });
    if (all.size === 0) return;
    this.#store.journal([...all.values()], durability);
    this.#waiting.clear();
    for (const { row } of entries) this.#rows.set(row.n, row);
  }

  #time(): string {
    return isoTime(this.#clock.now());
  }
}

/** Limits the creations that are journaled as sent without an answer; the others wait, in order. */
class CreationSlots {
  readonly #most: number;
  readonly #taken = new Set<number>();
  readonly #waiting: (() => void)[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  has(n: number): boolean {
    return this.#taken.has(n);
  }

  async take(n: number): Promise<void> {
    while (!this.#taken.has(n) && this.#taken.size >= this.#most)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#taken.add(n);
  }

  give(n: number): void {
    if (this.#taken.delete(n)) this.#waiting.shift()?.();
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
