/** A rate group that a worker or a person holds, with its cells, as the registry returns it. */
import { getTableColumns } from 'drizzle-orm';
import type { JsonValue } from '../../core/json.ts';
import { ageMs, cells } from './schema.ts';

/** A cell as its row has it: the configuration has a reference to the key, never the key. */
export type Cell = Readonly<typeof cells.$inferSelect> & {
  /** Milliseconds since it was due; negative until then, null while it is retired. */
  readonly overdueMs: number | null;
};

export const cellColumns = { ...getTableColumns(cells), overdueMs: ageMs(cells.dueAt) } as const;

/** A group that was taken. */
export interface HeldGroup {
  readonly group: number;
  readonly fence: number;
  /** As the previous holder left it; null if there was none. */
  readonly rateLog: JsonValue;
  /** Milliseconds since the rate log was written. */
  readonly rateLogAgeMs: number;
  /**
   * Milliseconds since the last sign of a holder that vanished without giving the group back, if its requests may be
   * missing from the rate log. Null if there was no such holder.
   */
  readonly abandonedMs: number | null;
  /** Milliseconds since the first of these holders took the group, or published what it had sent. */
  readonly uncountedMs: number;
  /** The cells that are due, longest first; for a checkout, the cell that was checked out. */
  readonly cells: readonly Cell[];
}

interface HeldRow {
  /** Both are omitted for a checkout, which leaves the counting to the next worker. */
  readonly abandonedMs?: number | null;
  readonly uncountedMs?: number | null;
  readonly fence: number;
  readonly rateLog: unknown;
  readonly rateLogAgeMs: number | null;
  readonly cell: Cell | null;
}

/** The group of these rows, one for each of its cells; null if there are no rows. */
export function heldGroup(group: number, rows: readonly HeldRow[]): HeldGroup | null {
  const [first] = rows;
  if (first === undefined) return null;
  return {
    group,
    fence: first.fence,
    rateLog: (first.rateLog ?? null) as JsonValue,
    rateLogAgeMs: first.rateLogAgeMs ?? 0,
    abandonedMs: first.abandonedMs ?? null,
    uncountedMs: first.uncountedMs ?? 0,
    cells: rows.flatMap(({ cell }) => cell ?? []),
  };
}
