/** The cells as `fleet apply` declares them: read for a plan, and written by one. */
import { and, eq, inArray, ne, sql } from 'drizzle-orm';
import { TidemarkError } from '../../core/errors.ts';
import type { CellDeclaration } from '../../config/cells.ts';
import { type CellStep, type CellsPlan, planCells, type RegisteredCell } from '../cells-plan.ts';
import type { Database, Transaction } from './connection.ts';
import { cells, findings, groups, records } from './schema.ts';

/** Of PostgreSQL's advisory locks: two who apply at once do so one after the other. "TDMC". */
const LOCK = 0x54444d43;

/** Rows of one statement. */
const CHUNK = 500;

export async function registeredCells(db: Database | Transaction): Promise<readonly RegisteredCell[]> {
  return db
    .select({
      name: cells.name,
      address: cells.address,
      profile: cells.profile,
      organizations: cells.organizations,
      secret: cells.secret,
      owner: cells.owner,
      schedule: cells.schedule,
      showsValues: cells.showsValues,
      document: cells.document,
      state: cells.state,
      checkoutHolder: cells.checkoutHolder,
    })
    .from(cells);
}

/**
 * Does what the plan shows, all of it or nothing. Backups are never removed, nor runs and changes; of a retired cell, the
 * projection is.
 * @throws TidemarkError `unsafe_plan` where the registry is not as it was planned
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
    const of = (...actions: readonly CellStep['action'][]): readonly CellStep[] =>
      steps.filter(({ action }) => actions.includes(action));
    const written = of('add', 'return', 'change').flatMap(({ declared: cell }) => cell ?? []);
    const groupIds = await groupsOf(tx, written);
    const rowOf = (cell: CellDeclaration) => ({
      name: cell.name,
      group: groupIds.get(groupKey(cell)) ?? 0,
      address: cell.address,
      profile: cell.profile,
      organizations: cell.organizations,
      secret: cell.secret,
      owner: cell.owner,
      schedule: cell.schedule,
      document: cell.document,
      showsValues: cell.showsValues,
    });
    const added = of('add').flatMap(({ declared: cell }) => (cell === null ? [] : [rowOf(cell)]));
    for (let from = 0; from < added.length; from += CHUNK)
      await tx.insert(cells).values(added.slice(from, from + CHUNK));
    for (const { action, declared: cell } of of('return', 'change')) {
      if (cell === null) continue;
      // Due at once, by its new configuration; a new key may end what kept it in quarantine.
      const fresh = { dueAt: sql`now()`, changedAt: sql`now()`, failures: 0, quarantinedAt: null };
      const state =
        action === 'return'
          ? 'active'
          : sql`case when ${cells.state} = 'quarantined' then 'active' else ${cells.state} end`;
      await tx
        .update(cells)
        .set({ ...rowOf(cell), ...fresh, state })
        .where(eq(cells.name, cell.name));
    }
    await retire(
      tx,
      of('retire').map(({ name }) => name),
    );
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
      // What was wrong with it is over.
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
  const wanted = [...new Set(declared.map(groupKey))].map((key) => JSON.parse(key) as [string, string]);
  const ids = new Map<string, number>();
  for (let from = 0; from < wanted.length; from += CHUNK) {
    const rows = await tx
      .insert(groups)
      .values(wanted.slice(from, from + CHUNK).map(([origin, secret]) => ({ origin, secret })))
      // Returns the rows that are there, too.
      .onConflictDoUpdate({ target: [groups.origin, groups.secret], set: { origin: sql`excluded.origin` } })
      .returning({ id: groups.id, origin: groups.origin, secret: groups.secret });
    for (const { id, origin, secret } of rows) ids.set(JSON.stringify([origin, secret]), id);
  }
  return ids;
}
