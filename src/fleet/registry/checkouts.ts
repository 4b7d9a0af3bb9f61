/** Cells that a person has checked out: the person holds the group, and no worker takes it until the cell is checked in. */
import { and, eq, getTableColumns, sql } from 'drizzle-orm';
import { TidemarkError } from '../../core/errors.ts';
import type { Database } from './connection.ts';
import { cellColumns, type HeldGroup, heldGroup } from './held-group.ts';
import { ageMs, cells, groups, workers } from './schema.ts';

/** A worker that was not heard of for this long counts as gone. */
const WORKER_SILENT_MS = 120_000;

const now = sql`now()`;

/** See `Registry.checkout`. */
export async function checkOutCell(
  db: Database,
  name: string,
  holder: string,
  { isForced = false }: { readonly isForced?: boolean } = {},
): Promise<HeldGroup> {
  return db.transaction(async (tx) => {
    const [found] = await tx
      .select({
        cell: cellColumns,
        ...getTableColumns(groups),
        isAtWork: sql<boolean>`${groups.holder} is not null and exists (select from ${workers} where ${workers.name} = ${groups.holder} and ${workers.seenAt} > now() - ${WORKER_SILENT_MS} * interval '1 millisecond')`,
        rateLogAgeMs: ageMs(groups.rateLogAt),
      })
      .from(groups)
      .innerJoin(cells, eq(cells.group, groups.id))
      .where(eq(cells.name, name))
      .for('update');
    if (found === undefined || found.cell.state === 'retired') throw unknownCell(name, found !== undefined);
    if (found.checkedOutCell !== null) {
      const [other] = await tx
        .select({ name: cells.name, holder: cells.checkoutHolder })
        .from(cells)
        .where(eq(cells.id, found.checkedOutCell));
      const which = other?.name === name ? 'is' : `shares its key with ${other?.name ?? 'a cell'}, which is`;
      throw new TidemarkError('cell_held', `${name} ${which} checked out by ${other?.holder ?? holder}`, {
        hint: `they run \`tidemark fleet checkin ${other?.name ?? name}\` first`,
      });
    }
    if (found.isAtWork && !isForced) {
      throw new TidemarkError('cell_held', `worker ${found.holder} is working on ${name}`, {
        hint: 'run it with `--wait`, which waits for the worker to end',
        isRetryable: true,
      });
    }
    const [taken] = await tx
      .update(groups)
      .set({
        ...{ fence: sql`${groups.fence} + 1`, holder, heldAt: now, checkedOutCell: found.cell.id },
        // A worker that loses the group may have sent requests since its last report: the next worker counts them.
        ...(found.holder === null
          ? {}
          : {
              uncountedSince: sql`coalesce(${groups.uncountedSince}, ${groups.heldAt})`,
              uncountedUntil: now,
            }),
      })
      .where(eq(groups.id, found.id))
      .returning({ fence: groups.fence });
    await tx
      .update(cells)
      .set({ state: 'checked_out', checkoutHolder: holder, checkoutAt: now })
      .where(eq(cells.id, found.cell.id));
    return heldGroup(found.id, [{ ...found, fence: taken?.fence ?? 0 }]) as HeldGroup;
  });
}

/** See `Registry.checkedOut`. */
export async function checkedOutCell(
  db: Database,
  name: string,
): Promise<HeldGroup & { readonly holder: string }> {
  const rows = await db
    .select({
      fence: groups.fence,
      rateLog: groups.rateLog,
      rateLogAgeMs: ageMs(groups.rateLogAt),
      cell: cellColumns,
    })
    .from(groups)
    .innerJoin(cells, eq(cells.id, groups.checkedOutCell))
    .where(eq(cells.name, name));
  const held = heldGroup(rows[0]?.cell.group ?? 0, rows);
  if (held === null) throw notCheckedOut(name);
  return { ...held, holder: rows[0]?.cell.checkoutHolder ?? '' };
}

/** See `Registry.checkin`. */
export async function checkInCell(db: Database, name: string): Promise<void> {
  await db.transaction(async (tx) => {
    const [cell] = await tx
      .update(cells)
      .set({
        state: sql`case when ${cells.quarantinedAt} is null then 'active' else 'quarantined' end`,
        checkoutHolder: null,
        checkoutAt: null,
        dueAt: now,
      })
      .where(and(eq(cells.name, name), eq(cells.state, 'checked_out')))
      .returning({ id: cells.id, group: cells.group });
    if (cell === undefined) throw notCheckedOut(name);
    await tx
      .update(groups)
      .set({ fence: sql`${groups.fence} + 1`, holder: null, checkedOutCell: null })
      .where(and(eq(groups.id, cell.group), eq(groups.checkedOutCell, cell.id)));
  });
}

function unknownCell(name: string, isRetired: boolean): TidemarkError {
  return new TidemarkError('usage', isRetired ? `${name} is retired` : `there is no cell ${name}`, {
    hint: 'see `tidemark fleet status`',
  });
}

function notCheckedOut(name: string): TidemarkError {
  return new TidemarkError('usage', `${name} is not checked out`, { hint: 'see `tidemark fleet status`' });
}
