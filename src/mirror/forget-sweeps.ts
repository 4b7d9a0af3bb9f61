/**
 * Sweeps when runs are forgotten: what a dropped run was the last to say of a collection goes on to the kept run that
 * takes its changes over, so that every kept run tells of each collection what it told before.
 */
import type { Connection } from './database.ts';
import type { RetentionPlan } from './retention.ts';
import type { SweepOutcome } from './sweep-result.ts';

/** A sweep of a dropped run, or one that a dropped run had taken over itself. */
interface SeenSweep {
  readonly collection: number;
  readonly seenRun: number;
  readonly seenAt: string | null;
  readonly isPublished: number;
  readonly outcome: SweepOutcome;
  readonly mode: string | null;
  readonly errorCode: string | null;
  readonly error: string | null;
}

type Question = (sweep: SeenSweep) => boolean;

/** A question each, whose answer is the latest sweep of which it holds. Adding one means carrying more, not less. */
const OF_READ: readonly Question[] = [
  (sweep) => isRead(sweep) || sweep.outcome === 'incomplete',
  isRead,
  ({ outcome }) => outcome === 'complete',
  (sweep) => isRead(sweep) && sweep.mode !== 'head',
  ({ outcome, mode }) => outcome === 'complete' && mode !== 'head',
];
const QUESTIONS: readonly Question[] = [
  () => true,
  // What a run saw that was never published does not count as read.
  ...OF_READ.map(
    (holds): Question =>
      (sweep) =>
        sweep.isPublished === 1 && holds(sweep),
  ),
];

const ALL_ANSWERED = 2 ** QUESTIONS.length - 1;

function isRead({ outcome }: Pick<SeenSweep, 'outcome'>): boolean {
  return outcome === 'complete' || outcome === 'held';
}

/** Which questions it answers, a bit each. */
function answersOf(sweep: SeenSweep): number {
  return QUESTIONS.reduce((bits, holds, index) => (holds(sweep) ? bits | (1 << index) : bits), 0);
}

/**
 * Carries what is still the last word, before the rows of the dropped runs go. Returns the kept runs that got some: they
 * have to be sealed anew. Hands control back after each dropped run.
 */
export function* carrySweeps(writer: Connection, plan: RetentionPlan): Generator<undefined, Set<number>> {
  const got = new Set<number>();
  const read = prepareReading(writer);
  const add = writer.prepare(
    `INSERT OR REPLACE INTO carried_sweeps (run, collection, seen_run, seen_at, is_published, outcome, mode, error_code,
       error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  for (const [target, dropped] of droppedByTarget(plan)) {
    const answered = new Map<number, number>();
    let finished = 0;
    const collections = read.collections(target);
    const answer = (sweep: SeenSweep): boolean => {
      const before = answered.get(sweep.collection) ?? 0;
      const after = before | answersOf(sweep);
      if (after === before) return false;
      answered.set(sweep.collection, after);
      if (after === ALL_ANSWERED) finished += 1;
      return true;
    };
    const carry = (sweep: SeenSweep): void => {
      if (!answer(sweep)) return;
      const { collection, seenRun, seenAt, isPublished, outcome, mode, errorCode, error } = sweep;
      add.run(...[target, collection, seenRun, seenAt, isPublished], ...[outcome, mode, errorCode, error]);
      got.add(target);
    };
    for (const sweep of read.own(target)) answer(sweep);
    // Sweeps that were carried before belong between those of the runs that go now: the latest is asked first.
    let pending = read.carried(target);
    for (const run of dropped) {
      if (finished === collections) break;
      for (const sweep of pending) if (sweep.seenRun > run) carry(sweep);
      for (const sweep of read.own(run)) carry(sweep);
      pending = [...pending.filter(({ seenRun }) => seenRun < run), ...read.carried(run)].sort(
        (a, b) => b.seenRun - a.seenRun,
      );
      yield undefined;
    }
    for (const sweep of pending) carry(sweep);
  }
  return got;
}

/** The kept runs with the dropped ones that come before them and after the kept one before: the latest first. */
function droppedByTarget({ kept, forgotten }: RetentionPlan): Map<number, number[]> {
  const keptOf = Map.groupBy(kept, ({ source }) => source);
  const targets = new Map<number, number[]>();
  for (const { run, source } of forgotten.toSorted((a, b) => b.run - a.run)) {
    const later = (keptOf.get(source) ?? []).map((one) => one.run).filter((one) => one > run);
    if (later.length === 0) continue;
    const target = Math.min(...later);
    targets.set(target, [...(targets.get(target) ?? []), run]);
  }
  return targets;
}

function prepareReading(writer: Connection) {
  const own = writer.prepare<[number], SeenSweep>(
    `SELECT s.collection AS collection, s.run AS seenRun, r.finished_at AS seenAt, r.root IS NOT NULL AS isPublished,
       s.outcome AS outcome, s.mode AS mode, s.error_code AS errorCode, s.error AS error
     FROM sweeps s JOIN runs r ON r.run = s.run WHERE s.run = ?`,
  );
  const carried = writer.prepare<[number], SeenSweep>(
    `SELECT collection, seen_run AS seenRun, seen_at AS seenAt, is_published AS isPublished, outcome, mode,
       error_code AS errorCode, error FROM carried_sweeps WHERE run = ? ORDER BY seen_run DESC`,
  );
  const collections = writer
    .prepare<[number], number>(
      `SELECT count(*) FROM collections WHERE source = (SELECT source FROM runs WHERE run = ?)`,
    )
    .pluck();
  return {
    own: (run: number): SeenSweep[] => own.all(run),
    /** The latest first. */
    carried: (run: number): SeenSweep[] => carried.all(run),
    /** How many the source of a run has. */
    collections: (run: number): number => collections.get(run) ?? 0,
  };
}
