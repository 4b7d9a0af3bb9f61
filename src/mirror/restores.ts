/** Restores and their journals, as they are read from the mirror. */
import {
  and,
  asc,
  desc,
  eq,
  getTableColumns,
  gte,
  isNotNull,
  isNull,
  lte,
  notInArray,
  or,
  sql,
} from 'drizzle-orm';
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type JsonObject, type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import { contradictedRows, madeVia } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { alteredLog, auditLogLine } from './hidden-runs.ts';
import { isAmong, param, prepared, unlessGiven } from './query.ts';
import { restoreSteps, restores } from './schema/restore-tables.ts';
import { textOf } from './stored-names.ts';

type StoredRestore = typeof restores.$inferSelect;

export type RestoreOutcome = StoredRestore['outcome'];

/** One restore, as `restores` shows it. */
export interface RestoreRow extends Readonly<Omit<StoredRestore, 'fromRef' | 'approved'>> {
  /** The reference that the desired state came from. */
  readonly from: string;
  /** What the user approved in addition to the plan (`maxRemovals`, `sendEmail` …). */
  readonly approved: Readonly<Record<string, JsonValue>>;
  /** How the program knew who started it, by the audit log: user and host, or how they signed in to the dashboard. Left out if the log does not say. */
  readonly via?: string;
}

/** A restore without its plan, which may be large. */
export type PlanlessRestore = Omit<RestoreRow, 'plan'>;

/** A place at which the service stored something else than was sent. Secrets are left out. */
interface StoredDifference {
  readonly path: string;
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** A step's row in the journal. Every outcome but `planned` and `sent` is final until it is resumed. */
export interface RestoreStepRow extends Readonly<
  Omit<typeof restoreSteps.$inferSelect, 'step' | 'differences' | 'inverse'>
> {
  /** The step's number in the plan. */
  readonly n: number;
  readonly differences: readonly StoredDifference[];
  /** The request that restores what the step overwrote; null if it overwrote nothing. */
  readonly inverse: JsonValue | null;
}

/** A record that a restore created. */
interface Creation {
  readonly restore: number;
  readonly kind: Kind;
  readonly id: string;
  /** The record of the restored state that it was created for: for an invite, the member. */
  readonly desired: { readonly kind: Kind; readonly id: string } | null;
}

/** Progress of a restore. Steps that are blocked, or for a person to do, do not count. */
export interface RestoreProgress {
  readonly steps: number;
  /** Steps that were applied, failed or were skipped. */
  readonly ended: number;
  /** When a step was last sent or ended, ISO 8601; null before the first. */
  readonly lastAt: string | null;
  /**
   * Steps whose result is uncertain: those without an answer, applied ones that could not be read back, and creations that may exist
   * twice or are elsewhere.
   */
  readonly uncertain: number;
  /** Uncertain steps without an answer. */
  readonly unanswered: number;
}

interface RestoreFilter {
  readonly source?: string;
  readonly limit?: number;
}

const VIA = sql<string | null>`${sql.raw(madeVia('restores'))}`.as('via');

const RESTORES = prepared((db) =>
  db
    .select({ ...getTableColumns(restores), via: VIA })
    .from(restores)
    .where(
      and(
        unlessGiven('source', eq(restores.source, param('source'))),
        unlessGiven('restore', eq(restores.restore, param('restore'))),
      ),
    )
    .orderBy(desc(restores.restore))
    .limit(param('limit')),
);

/** Newest first. */
export function readRestores(
  connection: Connection,
  { source, restore, limit }: RestoreFilter & { restore?: number } = {},
): RestoreRow[] {
  return RESTORES(connection)
    .all({ source: source ?? null, restore: restore ?? null, limit: limit ?? -1 })
    .map((row) => ({ ...restoreRow(row), plan: row.plan }));
}

function restoreRow({
  fromRef,
  approved,
  via,
  ...row
}: Omit<StoredRestore, 'plan'> & { readonly via: string | null }): PlanlessRestore {
  return {
    ...row,
    ...{ source: textOf(row.source), by: textOf(row.by) },
    ...(via === null ? {} : { via: textOf(via) }),
    from: textOf(fromRef),
    approved: storedObject(approved),
  };
}

/** A line for each restore that is not as the audit log has it, or is gone; with a number, for that one only. */
export function readContradictions(
  connection: Connection,
  restore?: number,
): { readonly restore: number; readonly line: string }[] {
  const key = restore === undefined ? [] : [restore];
  return contradictedRows(connection, 'restores', key).map((row) => {
    const [number] = row.key;
    return { restore: Number(number), line: row.line };
  });
}

/**
 * A line for each restore that is not as the audit log has it, and one for the log itself if it is not as it was written: restores
 * that were deleted with their entries leave no other trace.
 */
export function readAlteredRestores(connection: Connection): string[] {
  const rows = contradictedRows(connection, 'restores');
  const lines = rows.map(({ line }) => line);
  const log = alteredLog(connection);
  // The line of a restore that rests on that entry names it already.
  if (log === null || rows.some(({ brokenEntry }) => brokenEntry === log.entry)) return lines;
  return [...lines, auditLogLine(log.text)];
}

// If another program made a text unreadable, the rest of the row is still shown: the audit log says that it was altered.

/** Undefined where it is not JSON. */
function storedValue(text: string): JsonValue | undefined {
  try {
    return parseLossless(text);
  } catch {
    return undefined;
  }
}

function storedObject(text: string): Readonly<Record<string, JsonValue>> {
  const value = storedValue(text);
  return isJsonObject(value) ? value : {};
}

/** The objects of a list. */
function storedList(text: string): JsonObject[] {
  const value = storedValue(text);
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The steps of a stored plan; none if it is unreadable. */
export function storedSteps(plan: string): readonly JsonObject[] {
  const { steps } = storedObject(plan);
  return Array.isArray(steps) ? steps.filter(isJsonObject) : [];
}

function isBetween() {
  return and(
    eq(restores.source, param('source')),
    lte(restores.startedAt, param('until')),
    or(isNull(restores.finishedAt), gte(restores.finishedAt, param('after'))),
  );
}

const BETWEEN = prepared((db) =>
  db.select({ restore: restores.restore }).from(restores).where(isBetween()).orderBy(desc(restores.restore)),
);

/** Numbers of the restores of a source that may have sent something between two times (ISO 8601), newest first. */
export function readNumbersBetween(
  connection: Connection,
  source: string,
  after: string,
  until: string,
): number[] {
  return BETWEEN(connection)
    .all({ source, after, until })
    .map(({ restore }) => restore);
}

const PLANLESS_BETWEEN = prepared((db) => {
  const { plan: _plan, ...columns } = getTableColumns(restores);
  return db
    .select({ ...columns, via: VIA })
    .from(restores)
    .where(isBetween())
    .orderBy(desc(restores.restore));
});

/** The same restores with their rows. */
export function readBetween(
  connection: Connection,
  source: string,
  after: string,
  until: string,
): PlanlessRestore[] {
  return PLANLESS_BETWEEN(connection).all({ source, after, until }).map(restoreRow);
}

const PLANNED_RUN = prepared((db) =>
  db
    .select({
      run: sql<number | null>`iif(json_valid(${restores.plan}), ${restores.plan} ->> '$.from.run', NULL)`,
    })
    .from(restores)
    .where(eq(restores.restore, param('restore'))),
);

/** The run that the plan's reference resolved to; null if it was not a run, or the plan is unreadable. */
export function readPlannedRun(connection: Connection, restore: number): number | null {
  return PLANNED_RUN(connection).get({ restore })?.run ?? null;
}

const STEPS = prepared((db) =>
  db
    .select()
    .from(restoreSteps)
    .where(eq(restoreSteps.restore, param('restore')))
    .orderBy(asc(restoreSteps.step)),
);

/** The journal of a restore in the order of its plan. */
export function readSteps(connection: Connection, restore: number): RestoreStepRow[] {
  return STEPS(connection)
    .all({ restore })
    .map(({ step, differences, inverse, ...row }) => ({
      ...row,
      n: step,
      differences: storedList(differences) as unknown as StoredDifference[],
      // An unreadable inverse stays a text, which undo ignores.
      inverse: inverse === null ? null : (storedValue(inverse) ?? textOf(inverse)),
    }));
}

const PROGRESS = prepared((db) => {
  const { restore, outcome, sentAt, endedAt, verified, errorCode, attempts, newId } = restoreSteps;
  // The error code of an applied step is a warning's; only creations have a new id.
  const isDoubtful = sql`(${verified} IS NULL OR ${errorCode} IS NOT NULL OR (${newId} IS NOT NULL AND ${attempts} > 1))`;
  return db
    .select({
      steps: sql<number>`count(*)`,
      ended: sql<number>`sum(${outcome} NOT IN ('planned', 'sent'))`,
      lastAt: sql<string | null>`max(coalesce(${endedAt}, ${sentAt}))`,
      unanswered: sql<number>`sum(${outcome} = 'sent')`,
      uncertain: sql<number>`sum(${outcome} = 'sent' OR (${outcome} = 'applied' AND ${isDoubtful}))`,
    })
    .from(restoreSteps)
    .where(and(eq(restore, param('restore')), notInArray(outcome, ['blocked', 'manual'])));
});

/** The progress of a restore, by its journal. */
export function readProgress(connection: Connection, restore: number): RestoreProgress {
  const row = PROGRESS(connection).get({ restore });
  return {
    steps: row?.steps ?? 0,
    ended: row?.ended ?? 0,
    lastAt: row?.lastAt ?? null,
    uncertain: row?.uncertain ?? 0,
    unanswered: row?.unanswered ?? 0,
  };
}

const CREATIONS = prepared((db) => {
  const { restore, step, outcome, newId } = restoreSteps;
  return db
    .select({ restore, step, newId })
    .from(restoreSteps)
    .innerJoin(restores, eq(restores.restore, restore))
    .where(
      and(
        eq(restores.source, param('source')),
        eq(outcome, 'applied'),
        isNotNull(newId),
        unlessGiven('ids', isAmong(newId, 'ids')),
      ),
    )
    .orderBy(asc(restore), asc(step));
});

/** The records that restores of a source created, all or only those with these ids; without restores whose plan is unreadable. */
export function readCreations(
  connection: Connection,
  source: string,
  ids: readonly string[] | null = null,
): Creation[] {
  const rows = CREATIONS(connection).all({ source, ids: ids === null ? null : JSON.stringify(ids) });
  return [...Map.groupBy(rows, (row) => row.restore)].flatMap(([restore, own]) => {
    const steps = storedSteps(readRestores(connection, { restore })[0]?.plan ?? '{}');
    const planned = new Map(steps.map((step) => [step['n'], step]));
    return own.flatMap(({ step, newId }) => {
      const found = planned.get(step);
      return found === undefined ? [] : (creationBy(found, { restore, id: textOf(newId) }) ?? []);
    });
  });
}

/** Null if another program altered the step. */
function creationBy(step: JsonObject, { restore, id }: Pick<Creation, 'restore' | 'id'>): Creation | null {
  const [kind, desiredKind, desiredId] = ['/request/kind', '/kind', '/desired/id'].map((pointer) =>
    resolvePointer(step, pointer),
  );
  if (typeof kind !== 'string' || !isKind(kind)) return null;
  const isKnown = typeof desiredKind === 'string' && isKind(desiredKind) && typeof desiredId === 'string';
  return { restore, kind, id, desired: isKnown ? { kind: desiredKind, id: desiredId } : null };
}
