/** How a sweep and a run can end (design.md, JSON documents: tidemark.sync/1). */
import type { CollectionKey } from '../catalog/order.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';

export type RunOutcome = 'complete' | 'partial' | 'failed';

/**
 * How a collection was read. `full`: the entire list, which can prove absence. `head`: the newest pages of a feed.
 * `each`: one request per parent record, within a budget. `parent`: not read, because its parent record is gone.
 * `none`: not reached.
 */
export type SweepMode = 'full' | 'head' | 'each' | 'parent' | 'none';

/** The result of one sweep. Counts are numbers of records. */
export interface SweepReport extends CollectionKey {
  readonly outcome: SweepOutcome;
  readonly mode: SweepMode;
  readonly pages: number;
  /** Distinct records in the responses. */
  readonly records: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Absent records whose removal is held. */
  readonly held: number;
  /** Records that the walk missed and a retrieve found. They are kept, and show that the server is faulty. */
  readonly leaked: number;
  /** Parent records that were never checked because of the budget (kinds read `each`). */
  readonly pending: number;
  /** The count that the service reported; null if it did not. */
  readonly count: number | null;
  /** The number of rows on the largest page received. */
  readonly pageCap: number | null;
  readonly error: SweepError | null;
}

export interface SweepError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly permission: string | null;
}

/** The report of a sweep, with zeros and nulls for all fields that are not given. */
export function sweepReport(
  own: Pick<SweepReport, 'kind' | 'scope' | 'outcome' | 'mode'> & Partial<SweepReport>,
): SweepReport {
  const { kind, scope, outcome, mode } = own;
  return {
    ...{ kind, scope, outcome, mode, pages: 0, records: 0, added: 0, changed: 0, removed: 0, unchanged: 0 },
    ...{ held: 0, leaked: 0, pending: 0, count: null, pageCap: null, error: null },
    ...own,
  };
}

/** A run as in `tidemark.sync/1`. Times are ISO 8601 UTC. */
export interface RunReport {
  readonly run: number;
  readonly source: string;
  readonly outcome: RunOutcome;
  readonly started_at: string;
  readonly finished_at: string;
  readonly requests: number;
  readonly retries: number;
  /** Sums of all sweeps, in which a record that is in two lists counts once. */
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly sweeps: readonly SweepReport[];
  /** Why the run failed; missing if it did not. */
  readonly error?: SweepError;
}

const READ: ReadonlySet<SweepOutcome> = new Set(['complete', 'incomplete', 'held']);

/** True if the sweep read its collection, completely or not. */
export function wasRead(sweep: Pick<SweepReport, 'outcome'>): boolean {
  return READ.has(sweep.outcome);
}

/**
 * The outcome of a run from those of its sweeps: `failed` if no collection could be read, `partial` if some could not
 * (design.md, invariant 10).
 */
export function runOutcome(sweeps: readonly Pick<SweepReport, 'outcome'>[]): RunOutcome {
  if (!sweeps.some(wasRead)) return 'failed';
  return sweeps.every((sweep) => sweep.outcome === 'complete') ? 'complete' : 'partial';
}

/** Why a run failed: the first error of its sweeps, or that it had no sweeps. */
export function failureOf(sweeps: readonly Pick<SweepReport, 'kind' | 'outcome' | 'error'>[]): SweepError {
  const known = sweeps.find(({ error }) => error !== null)?.error ?? null;
  if (known !== null) return known;
  if (sweeps.length > 0) {
    const ends = [...new Set(sweeps.map(({ kind, outcome }) => `${kind} ${outcome}`))];
    const message = `nothing could be read, and no answer says why: ${ends.join(', ')}`;
    return { code: 'internal', message, hint: 'see the log with --log-level debug', permission: null };
  }
  return {
    code: 'config_invalid',
    message: 'nothing to read: no organization or project of this run has any of the requested kinds',
    hint: 'check kinds, organizations and projects of the source; `tidemark doctor` shows what the key reaches',
    permission: null,
  };
}

/**
 * True if the key was refused for all requested kinds (exit code 5). With `requested`, parents that were only read to
 * find the collections do not count, unless none of the requested collections could be found.
 */
export function isAllDenied(
  sweeps: readonly Pick<SweepReport, 'kind' | 'outcome'>[],
  requested: readonly Kind[] | null = null,
): boolean {
  const reached = sweeps.filter((sweep) => sweep.outcome !== 'skipped');
  const own = reached.filter(({ kind }) => requested === null || requested.includes(kind));
  const deciding = own.length > 0 ? own : reached;
  return deciding.length > 0 && deciding.every((sweep) => sweep.outcome === 'denied');
}
