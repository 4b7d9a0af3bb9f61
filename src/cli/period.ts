/** A chosen period of the mirror's history: from a reference, a time or a number of days ago, up to another or now. */
import { parseDuration } from '../config/duration.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { pointOf } from '../state/point.ts';
import { parseReference } from '../state/reference.ts';

/** One end of a period. */
interface Bound {
  /** ISO 8601 in UTC. */
  readonly at: string;
  /** Given where a run was named: it is compared by number, since two runs can end in the same millisecond. */
  readonly run?: number;
  readonly remark?: string;
}

export interface Period {
  /** What changed after it. */
  readonly since: Bound;
  /** And not after it. */
  readonly until: Bound;
  readonly remarks: readonly string[];
}

/**
 * The period between two texts: references to states of the mirror, times, or ages (`7d`, `24h`).
 * @throws TidemarkError `usage` when it ends before it begins; what `resolvePoint` throws for what is no such text
 */
export function choosePeriod(
  mirror: Mirror,
  since: string,
  until: string | undefined,
  nowMs: number,
): Period {
  const from = bound(mirror, since, nowMs);
  const to = until === undefined ? { at: isoTime(nowMs) } : bound(mirror, until, nowMs);
  if (from.at > to.at) {
    throw new TidemarkError('usage', `the period ends before it begins: ${from.at} to ${to.at}`, {
      hint: 'give --since the earlier and --until the later one',
    });
  }
  return {
    since: from,
    until: to,
    remarks: [from.remark, to.remark].filter((remark) => remark !== undefined),
  };
}

/** True for a run that ended within the period. */
export function isWithin({ since, until }: Period, run: RunRow): boolean {
  const at = run.finishedAt ?? run.startedAt;
  const isAfter = since.run === undefined ? at >= since.at : run.run > since.run;
  const isBefore = until.run === undefined ? at <= until.at : run.run <= until.run;
  return isAfter && isBefore;
}

function bound(mirror: Mirror, text: string, nowMs: number): Bound {
  const ageMs = parseDuration(text);
  if (ageMs !== undefined) return { at: isoTime(nowMs - ageMs) };
  const reference = parseReference(text);
  // A time needs no run at or before it: the period may begin before the mirror does.
  if (reference.form === 'time') {
    const { at, remark } = reference;
    return remark === undefined ? { at } : { at, remark };
  }
  const { at, run } = pointOf(mirror, reference);
  return { at, run };
}
