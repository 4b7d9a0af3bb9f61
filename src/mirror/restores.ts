/**
 * Restores, their journal and the id map. What is written before a request and after its answer has reached the disk
 * when it returns, so that it is known after a power cut too (design.md, Never broken 6).
 */
import { and, asc, desc, eq, getTableColumns } from 'drizzle-orm';
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import type { Connection } from './database.ts';
import { excluded, param, paramsOf, prepared, unlessGiven } from './query.ts';
import { knownKind, storedScope } from './stored-names.ts';
import { idMap, restoreSteps, restores } from './schema/restore-tables.ts';

export type RestoreOutcome = 'running' | 'complete' | 'partial' | 'failed' | 'interrupted';

/** `sent`: the request may have been sent; its result is not known; every other one but `planned` is final until it is resumed. */
type StepOutcome = 'planned' | 'sent' | 'applied' | 'failed' | 'skipped' | 'blocked' | 'manual';

/** One restore, as `restores list` shows it. */
export interface RestoreRow {
  readonly restore: number;
  /** Name of the source. */
  readonly source: string;
  readonly planHash: string;
  /** The `tidemark.plan/1` document as approved. */
  readonly plan: string;
  /** The reference that the desired state came from. */
  readonly from: string;
  /** The restore that this one undoes; null for an ordinary one. */
  readonly undoes: number | null;
  readonly startedAt: string;
  /** Null while it runs, and for one whose process died. */
  readonly finishedAt: string | null;
  readonly outcome: RestoreOutcome;
  /** What the user approved beside the plan (`maxRemovals`, `sendEmail` …). */
  readonly approved: Readonly<Record<string, JsonValue>>;
}

/** What the service keeps differently from what was sent, at one place. Secrets are left out. */
interface StoredDifference {
  readonly path: string;
  readonly from?: JsonValue;
  readonly to?: JsonValue;
}

/** A step's row in the journal. */
export interface RestoreStepRow {
  readonly restore: number;
  /** The step's number in the plan. */
  readonly n: number;
  readonly outcome: StepOutcome;
  /** HTTP status of the last answer; null where none came. */
  readonly status: number | null;
  /** The id that the service gave to a created record. */
  readonly newId: string | null;
  /** Whether the record, read back, held what was sent; null while that is not known. */
  readonly verified: boolean | null;
  readonly differences: readonly StoredDifference[];
  /** Digest of the record's managed fields as read back; null where it was not read. */
  readonly digest: string | null;
  readonly errorCode: string | null;
  readonly error: string | null;
  /** Writes sent for it so far. */
  readonly attempts: number;
  readonly sentAt: string | null;
  readonly endedAt: string | null;
  /** What puts back what it overwrote; null where there is nothing. */
  readonly inverse: JsonValue | null;
}

export interface RestoreStart {
  readonly source: string;
  readonly planHash: string;
  readonly plan: string;
  readonly from: string;
  readonly undoes?: number;
  readonly approved: Readonly<Record<string, JsonValue>>;
  readonly startedAt: string;
  /** Records that the plan found under other ids: with it they are the same ones. */
  readonly mappings?: readonly Omit<IdMapping, 'restore'>[];
  /** Every step of the plan with its first outcome: `planned`, `blocked` or `manual`. */
  readonly steps: readonly Pick<RestoreStepRow, 'n' | 'outcome' | 'inverse' | 'errorCode' | 'error'>[];
}

/** A record that came back under another id or in another place. */
export interface IdMapping {
  readonly source: string;
  readonly kind: Kind;
  readonly oldScope: Scope;
  readonly oldId: string;
  readonly newScope: Scope;
  readonly newId: string;
  /** The restore that created it. */
  readonly restore: number;
  /** ISO 8601. */
  readonly at: string;
}

/** A step's new row, and the new id that it gave: of the record as it was desired, and as an earlier restore left it. */
export interface JournalEntry {
  readonly row: RestoreStepRow;
  readonly mappings?: readonly IdMapping[] | undefined;
}

/**
 * `disk`: outlives a power cut; `process`: outlives the process, and a power cut once the journal has settled.
 */
export type Durability = 'disk' | 'process';

export interface RestoreFilter {
  readonly source?: string;
  readonly limit?: number;
}

const RESTORES = prepared((db) =>
  db
    .select()
    .from(restores)
    .where(
      and(
        unlessGiven('source', eq(restores.source, param('source'))),
        unlessGiven('restore', eq(restores.restore, param('restore'))),
      ),
    )
    .orderBy(desc(restores.restore))
    .limit(param('limit'))
    .prepare(),
);

/** Newest first. */
export function readRestores(
  connection: Connection,
  { source, restore, limit }: RestoreFilter & { restore?: number },
): RestoreRow[] {
  return RESTORES(connection)
    .all({ source: source ?? null, restore: restore ?? null, limit: limit ?? -1 })
    .map(({ fromRef, outcome, approved, ...row }) => ({
      ...row,
      from: fromRef,
      outcome: outcome as RestoreOutcome,
      approved: parseLossless(approved) as RestoreRow['approved'],
    }));
}

const STEPS = prepared((db) =>
  db
    .select()
    .from(restoreSteps)
    .where(eq(restoreSteps.restore, param('restore')))
    .orderBy(asc(restoreSteps.step))
    .prepare(),
);

/** In the order of the plan. */
export function readRestoreSteps(connection: Connection, restore: number): RestoreStepRow[] {
  return STEPS(connection)
    .all({ restore })
    .map(({ step, outcome, errorCode, differences, inverse, ...row }) => ({
      ...row,
      n: step,
      outcome: outcome as StepOutcome,
      errorCode: errorCode,
      differences: parseLossless(differences) as unknown as StoredDifference[],
      inverse: inverse === null ? null : parseLossless(inverse),
    }));
}

const ID_MAP = prepared((db) =>
  db
    .select()
    .from(idMap)
    .where(eq(idMap.source, param('source')))
    .orderBy(asc(idMap.restore), asc(idMap.at), asc(idMap.kind), asc(idMap.newScope), asc(idMap.newId))
    .prepare(),
);

/** Oldest first, so that a later one follows what it continues. */
export function readIdMap(connection: Connection, source: string): IdMapping[] {
  return ID_MAP(connection)
    .all({ source })
    .map((row) => ({
      ...row,
      kind: knownKind(row.kind),
      oldScope: storedScope(row.oldScope),
      newScope: storedScope(row.newScope),
    }));
}

const ADD_RESTORE = prepared((db) => {
  const { source, planHash, plan, fromRef, undoes, startedAt, approved } = paramsOf(restores);
  return db
    .insert(restores)
    .values({ source, planHash, plan, fromRef, undoes, startedAt, outcome: 'running', approved })
    .prepare();
});

const ADD_STEP = prepared((db) => {
  const { restore, step, outcome, inverse, errorCode, error } = paramsOf(restoreSteps);
  return db
    .insert(restoreSteps)
    .values({ restore, step, outcome, differences: '[]', attempts: 0, inverse, errorCode, error })
    .prepare();
});

/** The new restore's number; its steps are in the journal. */
export function beginRestore(writer: Connection, start: RestoreStart): number {
  return inOneDurably(writer, () => {
    const { from, undoes = null, approved, steps, mappings = [], ...rest } = start;
    const row = { ...rest, fromRef: from, undoes, approved: JSON.stringify(approved) };
    const restore = Number(ADD_RESTORE(writer).run(row).lastInsertRowid);
    for (const { n, inverse, ...step } of steps) {
      ADD_STEP(writer).run({
        ...step,
        restore,
        step: n,
        inverse: inverse === null ? null : JSON.stringify(inverse),
      });
    }
    for (const mapping of mappings) storeMapping(writer, { ...mapping, restore });
    return restore;
  });
}

/**
 * Takes an ended restore up again.
 * @throws TidemarkError `reference_unknown`
 */
export function resumeRestore(writer: Connection, restore: number): void {
  setOutcome(writer, { restore, outcome: 'running', finishedAt: null });
}

const STORE_MAPPING = prepared((db) => {
  const { oldScope, oldId, restore, at } = getTableColumns(idMap);
  return db
    .insert(idMap)
    .values(paramsOf(idMap))
    .onConflictDoUpdate({
      target: [idMap.source, idMap.kind, idMap.newScope, idMap.newId],
      set: excluded({ oldScope, oldId, restore, at }),
    })
    .prepare();
});

/** Replaces the one of the same key. */
export function storeMapping(writer: Connection, { oldScope, newScope, ...rest }: IdMapping): void {
  STORE_MAPPING(writer).run({ ...rest, oldScope: scopeKey(oldScope), newScope: scopeKey(newScope) });
}

/** @throws TidemarkError `reference_unknown` */
export function finishRestore(
  writer: Connection,
  restore: number,
  outcome: Exclude<RestoreOutcome, 'running'>,
  at: string,
): void {
  setOutcome(writer, { restore, outcome, finishedAt: at });
}

const END_DEAD = prepared((db) =>
  db.update(restores).set({ outcome: 'interrupted' }).where(eq(restores.outcome, 'running')).prepare(),
);

/** Restores whose process crashed. The caller holds the writer lock, so no other process can be applying one. */
export function endDeadRestores(writer: Connection): void {
  END_DEAD(writer).run();
}

const SET_OUTCOME = prepared((db) => {
  const { restore, outcome, finishedAt } = paramsOf(restores);
  return db.update(restores).set({ outcome, finishedAt }).where(eq(restores.restore, restore)).prepare();
});

/** @throws TidemarkError `reference_unknown` */
function setOutcome(
  writer: Connection,
  row: { readonly restore: number; readonly outcome: RestoreOutcome; readonly finishedAt: string | null },
): void {
  inOneDurably(writer, () => {
    if (SET_OUTCOME(writer).run(row).changes !== 1) throw unknownRestore(row.restore, 'restore');
  });
}

/**
 * Commits that are on the disk when it returns. Elsewhere a commit may be lost with the power, and is made again by the
 * next sync; a request that was sent cannot be.
 */
export function durably<T>(writer: Connection, commit: () => T): T {
  writer.pragma('synchronous = FULL');
  try {
    return commit();
  } finally {
    writer.pragma('synchronous = NORMAL');
  }
}

/** `work` in one such transaction. */
function inOneDurably<T>(writer: Connection, work: () => T): T {
  return durably(writer, () => writer.transaction(work).immediate());
}

export function unknownRestore(restore: number, what: string): TidemarkError {
  return new TidemarkError('reference_unknown', `there is no ${what} ${restore}`, {
    hint: '`tidemark restores list` lists them',
  });
}
