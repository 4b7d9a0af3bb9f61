/** A rate group in somebody's hands, with its cells, as the registry gives it out. */
import { sql } from 'drizzle-orm';
import type { JsonValue } from '../../core/json.ts';
import type { BaselineOrder } from '../cell.ts';
import { type CellDocument, type CellState, cells } from './schema.ts';

/** A cell whose configuration names no key but a reference to one. */
export interface Cell {
  readonly id: number;
  readonly name: string;
  readonly group: number;
  readonly address: string;
  readonly profile: string;
  /** Null for all. */
  readonly organizations: readonly string[] | null;
  /** `env:NAME` or `file:/path`. */
  readonly secret: string;
  readonly owner: string | null;
  readonly schedule: string;
  readonly document: CellDocument;
  readonly showsValues: boolean;
  readonly state: CellState;
  readonly failures: number;
  /** Root hash of the mirror as of `lastRun`, in hex; null before the first run. */
  readonly root: string | null;
  readonly lastRun: number | null;
  /** The run that the registry's records show. */
  readonly projectedRun: number | null;
  readonly storedKey: string | null;
  readonly storedRun: number | null;
  readonly mirrorVersion: number | null;
  /** A baseline that its mirror is to have; null for none. */
  readonly baselineOrder: BaselineOrder | null;
  /** When `fleet apply` last changed it, ISO 8601. */
  readonly changedAt: string;
  /** Milliseconds since it was due; negative until then, null while it is retired. */
  readonly overdueMs: number | null;
}

/** A group that was taken. */
export interface HeldGroup {
  readonly group: number;
  readonly fence: number;
  /** As the holder before left it; null if none did. */
  readonly rateLog: JsonValue;
  /** Milliseconds since that was written. */
  readonly rateLogAgeMs: number;
  /**
   * Milliseconds since the last holder was heard of that did not give the group back, where no log counts what it may have sent.
   * Null without one.
   */
  readonly abandonedMs: number | null;
  /** Milliseconds since the first of those holders took the group, or published what it had sent. */
  readonly uncountedMs: number;
  /** Those that are due, the one that waits longest first; for a checkout, the one that was checked out. */
  readonly cells: readonly Cell[];
}

export const cellColumns = {
  id: cells.id,
  name: cells.name,
  group: cells.group,
  address: cells.address,
  profile: cells.profile,
  organizations: cells.organizations,
  secret: cells.secret,
  owner: cells.owner,
  schedule: cells.schedule,
  document: cells.document,
  showsValues: cells.showsValues,
  state: cells.state,
  failures: cells.failures,
  root: cells.root,
  lastRun: cells.lastRun,
  projectedRun: cells.projectedRun,
  storedKey: cells.storedKey,
  storedRun: cells.storedRun,
  mirrorVersion: cells.mirrorVersion,
  baselineOrder: cells.baselineOrder,
  changedAt: cells.changedAt,
  overdueMs: sql<number | null>`(extract(epoch from now() - ${cells.dueAt}) * 1000)::float8`,
} as const;

interface HeldRow {
  /** Left out for a checkout, which leaves it to the next worker to count. */
  readonly abandonedMs?: string | null;
  readonly uncountedMs?: string | null;
  readonly fence: number | null;
  readonly rateLog: unknown;
  readonly ageMs: string | null;
  readonly cell: Cell | null;
}

export function heldGroup(group: number, rows: readonly HeldRow[]): HeldGroup | null {
  const [first] = rows;
  if (first === undefined || first.fence === null) return null;
  return {
    group,
    fence: first.fence,
    rateLog: (first.rateLog ?? null) as JsonValue,
    rateLogAgeMs: Number(first.ageMs ?? 0),
    abandonedMs: (first.abandonedMs ?? null) === null ? null : Number(first.abandonedMs),
    uncountedMs: Number(first.uncountedMs ?? 0),
    cells: rows.flatMap(({ cell }) => (cell === null ? [] : [cell])),
  };
}
