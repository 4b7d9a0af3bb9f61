/** The cells that `fleet apply` declares: read for a plan, and written when it is applied. */
import { and, eq, inArray, ne, type SQL, sql } from 'drizzle-orm';
import { TidemarkError } from '../../core/errors.ts';
import type { CellDeclaration } from '../../config/cells.ts';
import { type CellStep, type CellsPlan, planCells, type RegisteredCell } from '../cells-plan.ts';
import type { Database, Transaction } from './connection.ts';
import { cells, findings, groups, records } from './schema.ts';

/** Number of the PostgreSQL advisory lock under which plans are applied, one at a time: "TDMC". */
const LOCK = 0x54444d43;

/** Rows of one statement. */
const CHUNK = 500;

/** All cells, retired ones too. */
export async function registeredCells(db: Database | Transaction): Promise<readonly RegisteredCell[]> {
  return db.select().from(cells);
}

/**
 * Applies the plan in one transaction. Backups, runs and changes are never removed; the projection of a retired cell
 * is.
 * @throws TidemarkError `unsafe_plan` if the registry changed since the plan was made
 */
export async function applyCells(
  db: Database,
  declared: readonly CellDeclaration[],
  plan: CellsPlan,
): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(sql`select pg_advisory_xact_lock(${LOCK})`);
    const { hash, steps } = planCells(declared, await registeredCells(tx));
    if (hash !== plan.hash) {
      throw new TidemarkError('unsafe_plan', 'the cells changed since the plan was made; nothing was done', {
        hint: 'run the command again and read the new plan',
      });
    }
    const declaredBy = (action: CellStep['action']): readonly CellDeclaration[] =>
      steps.flatMap((step) => (step.action === action ? (step.declared ?? []) : []));
    const [added, returned, changed] = [declaredBy('add'), declaredBy('return'), declaredBy('change')];
    const groupIds = await groupsOf(tx, [...added, ...returned, ...changed]);
    const rowOf = (cell: CellDeclaration) => ({ ...cell, group: groupIds.get(groupKey(cell)) ?? 0 });
    for (let from = 0; from < added.length; from += CHUNK)
      await tx.insert(cells).values(added.slice(from, from + CHUNK).map(rowOf));
    const update = async (cell: CellDeclaration, state: SQL | 'active'): Promise<void> => {
      // Due at once, with the new configuration; a new key may end the reason for the quarantine.
      const fresh = { dueAt: sql`now()`, changedAt: sql`now()`, failures: 0, quarantinedAt: null };
      await tx
        .update(cells)
        .set({ ...rowOf(cell), ...fresh, state })
        .where(eq(cells.name, cell.name));
    };
    for (const cell of returned) await update(cell, 'active');
    const released = sql`case when ${cells.state} = 'quarantined' then 'active' else ${cells.state} end`;
    for (const cell of changed) await update(cell, released);
    const retired = steps.filter(({ action }) => action === 'retire').map(({ name }) => name);
    await retire(tx, retired);
  });
}

async function retire(tx: Transaction, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  const rows = await tx
    .update(cells)
    .set({
      state: 'retired',
      dueAt: null,
      changedAt: sql`now()`,
      failures: 0,
      errorCode: null,
      error: null,
      quarantinedAt: null,
      projectedRun: null,
      findingCount: null,
    })
    .where(and(inArray(cells.name, [...names]), ne(cells.state, 'retired')))
    .returning({ id: cells.id });
  const ids = rows.map(({ id }) => id);
  await tx.delete(findings).where(inArray(findings.cell, ids));
  await tx.delete(records).where(inArray(records.cell, ids));
}

function groupKey({ address, secret }: CellDeclaration): string {
  return JSON.stringify([new URL(address).origin, secret]);
}

/** The id of each rate group, created if missing, by `groupKey`. */
async function groupsOf(tx: Transaction, declared: readonly CellDeclaration[]): Promise<Map<string, number>> {
  const keys = [...new Set(declared.map(groupKey))].map((key) => JSON.parse(key) as [string, string]);
  const ids = new Map<string, number>();
  for (let from = 0; from < keys.length; from += CHUNK) {
    const rows = await tx
      .insert(groups)
      .values(keys.slice(from, from + CHUNK).map(([origin, secret]) => ({ origin, secret })))
      // An update, so that existing rows are returned too.
      .onConflictDoUpdate({ target: [groups.origin, groups.secret], set: { origin: sql`excluded.origin` } })
      .returning({ id: groups.id, origin: groups.origin, secret: groups.secret });
    for (const { id, origin, secret } of rows) ids.set(JSON.stringify([origin, secret]), id);
  }
  return ids;
}
