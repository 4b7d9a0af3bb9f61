/**
 * Restores and their journal. A row that is written before a request or after its answer is on the disk when the method returns, so
 * that it survives a power cut (design.md, invariant 6).
 */
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
import type { Actor } from '../core/actor.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type JsonObject, type JsonValue, isJsonObject, parseLossless } from '../core/json.ts';
import type { MirrorAccess } from './access.ts';
import type { AuditAction } from './audit-actions.ts';
import { recordAction } from './audit-log.ts';
import { contradictedRows, madeVia, requireAsRecorded } from './audited-rows.ts';
import { type Connection, transact } from './database.ts';
import { isAmong, param, paramsOf, prepared, unlessGiven } from './query.ts';
import { mappingsUnlikeSealed } from './row-seals.ts';
import { type IdMapping, readIdMap, storeMappings } from './id-map.ts';
import {
  BACKUP_SINCE,
  BACKUP_SINCE_RESUMED,
  BEGINS,
  LAST_ACTION,
  RESUMED_BY,
  type RestoreBegin,
  SENT_AFTER,
} from './restore-log.ts';
import { auditLog } from './schema/retention-tables.ts';
import { restoreSteps, restores } from './schema/restore-tables.ts';
import { textOf } from './stored-names.ts';
import type { RunRow } from './run-rows.ts';
import { alteredLog, auditLogLine } from './hidden-runs.ts';
import { LogSync, logBytes } from './write-ahead-log.ts';

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

export interface RestoreStart {
  readonly source: string;
  readonly planHash: string;
  readonly plan: string;
  readonly from: string;
  readonly undoes?: number;
  readonly approved: Readonly<Record<string, JsonValue>>;
  readonly startedAt: string;
  /** Records that the plan found under other ids. */
  readonly mappings?: readonly Omit<IdMapping, 'restore'>[];
  /** Every step of the plan with its first outcome: `planned`, `blocked` or `manual`. */
  readonly steps: readonly Pick<RestoreStepRow, 'n' | 'outcome' | 'inverse' | 'errorCode' | 'error'>[];
}

/** A record that a restore created. */
interface Creation {
  readonly restore: number;
  readonly kind: Kind;
  readonly id: string;
  /** The record of the restored state that it was created for: for an invite, the member. */
  readonly desired: { readonly kind: Kind; readonly id: string } | null;
}

/** A step's new row, and the mappings to the id that the step gave the record: from the desired id, and from that of an earlier restore. */
export interface JournalEntry {
  readonly row: RestoreStepRow;
  readonly mappings?: readonly IdMapping[] | undefined;
}

/** `disk`: survives a power cut; `process`: survives the end of the process, and a power cut once `settled` has resolved. */
export type Durability = 'disk' | 'process';

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

/** The write-ahead log is emptied when it has this many bytes: a long restore writes a page or two for each step. */
const LOG_LIMIT_BYTES = 16 * 1024 * 1024;
/** Writes between two checks of the log's size. */
const LOOK_EVERY = 500;

export class RestoreStore {
  readonly #access: MirrorAccess;
  #sync: LogSync | null = null;
  #writes = 0;

  constructor(access: MirrorAccess) {
    this.#access = access;
  }

  /** Newest first. */
  list(filter: RestoreFilter = {}): RestoreRow[] {
    return this.#access.read((connection) => readRestores(connection, filter));
  }

  get(restore: number): RestoreRow | undefined {
    return this.#access.read((connection) => readRestores(connection, { restore })[0]);
  }

  /** A line for each restore that is not as the audit log has it, or is gone; with a number, for that one only. */
  contradictions(restore?: number): { readonly restore: number; readonly line: string }[] {
    const key = restore === undefined ? [] : [restore];
    return this.#access.read((connection) =>
      contradictedRows(connection, 'restores', key).map((row) => {
        const [number] = row.key;
        return { restore: Number(number), line: row.line };
      }),
    );
  }

  /**
   * A line for each restore that is not as the audit log has it, and one for the log itself if it is not as it was written: restores
   * that were deleted with their entries leave no other trace.
   */
  altered(): string[] {
    return this.#access.read((connection) => {
      const rows = contradictedRows(connection, 'restores');
      const lines = rows.map(({ line }) => line);
      const log = alteredLog(connection);
      // The line of a restore that rests on that entry names it already.
      if (log === null || rows.some(({ brokenEntry }) => brokenEntry === log.entry)) return lines;
      return [...lines, auditLogLine(log.text)];
    });
  }

  /** A line for each row of the id map, of one source or of all, that is not as its restore wrote it: it may map a wrong record. */
  alteredMappings(source?: string): string[] {
    return this.#access.read((connection) => mappingsUnlikeSealed(connection, source));
  }

  /** The run that the plan's reference resolved to; null if it was not a run, or the plan is unreadable. */
  plannedRun(restore: number): number | null {
    return this.#access.read((connection) => PLANNED_RUN(connection).get({ restore })?.run ?? null);
  }

  /** Numbers of the restores of a source that may have sent something between two times (ISO 8601), newest first. */
  numbersBetween(source: string, after: string, until: string): number[] {
    const rows = this.#access.read((connection) => BETWEEN(connection).all({ source, after, until }));
    return rows.map(({ restore }) => restore);
  }

  /** The same restores with their rows. */
  between(source: string, after: string, until: string): PlanlessRestore[] {
    return this.#access
      .read((connection) => PLANLESS_BETWEEN(connection).all({ source, after, until }))
      .map(restoreRow);
  }

  /**
   * Restores and undos that changed, or may have changed, the service after a published run had read it, newest first. Decided by
   * the order of the audit log, as no run reads while a restore sends. `endedAt` of one without an end: when it last sent something.
   */
  sentAfter({ run, source, finishedAt }: RunRow): {
    readonly restore: number;
    readonly endedAt: string | null;
    readonly outcome: RestoreOutcome;
    readonly isApplied: boolean;
  }[] {
    return this.#access
      .read((connection) => SENT_AFTER(connection).all({ run, source, until: finishedAt }))
      .map(({ applied, ...row }) => ({ ...row, isApplied: applied > 0 }));
  }

  /** The people who resumed a restore that somebody else had started, in the order of their first resumption. */
  resumedBy(restore: number): Actor[] {
    return this.#access.read((connection) => RESUMED_BY(connection).all({ restore }));
  }

  /**
   * When the backup was made (ISO 8601) that replaced the mirror after this restore had begun: the journal lacks what the restore did
   * after that time. Null if none did.
   */
  backupSince(restore: number): string | null {
    const member = JSON.stringify([restore]);
    return this.#access.read((connection) => BACKUP_SINCE(connection).get({ member })?.madeAt ?? null);
  }

  /** The same, but also null if the restore was resumed in the mirror from the backup: the journal has what was done since then. */
  backupSinceResumed(restore: number): string | null {
    const member = JSON.stringify([restore]);
    const row = this.#access.read((connection) => BACKUP_SINCE_RESUMED(connection).get({ member }));
    return row?.madeAt ?? null;
  }

  /** Who abandoned a restore; null if nobody did, or it was resumed since. */
  abandonedBy(restore: number): Actor | null {
    const member = JSON.stringify([restore]);
    const last = this.#access.read((connection) => LAST_ACTION(connection).get({ member }));
    return last?.action === 'abandon' ? { by: last.by, via: last.via } : null;
  }

  /** The journal of a restore in the order of its plan. */
  steps(restore: number): RestoreStepRow[] {
    const rows = this.#access.read((connection) => STEPS(connection).all({ restore }));
    return rows.map(({ step, differences, inverse, ...row }) => ({
      ...row,
      n: step,
      differences: storedList(differences) as unknown as StoredDifference[],
      // An unreadable inverse stays a text, which undo ignores.
      inverse: inverse === null ? null : (storedValue(inverse) ?? textOf(inverse)),
    }));
  }

  /** The progress of a restore, by its journal. */
  progress(restore: number): RestoreProgress {
    const row = this.#access.read((connection) => PROGRESS(connection).get({ restore }));
    return {
      steps: row?.steps ?? 0,
      ended: row?.ended ?? 0,
      lastAt: row?.lastAt ?? null,
      uncertain: row?.uncertain ?? 0,
      unanswered: row?.unanswered ?? 0,
    };
  }

  /** When each restore of a source was begun and resumed, in the order of the audit log, whatever the clock said. */
  begins(source: string): RestoreBegin[] {
    return this.#access.read((connection) => BEGINS(connection).all({ source }));
  }

  /** The records that restores of a source created, all or only those with these ids; without restores whose plan is unreadable. */
  creations(source: string, ids: readonly string[] | null = null): Creation[] {
    return this.#access.read((connection) => {
      const rows = CREATIONS(connection).all({ source, ids: ids === null ? null : JSON.stringify(ids) });
      return [...Map.groupBy(rows, (row) => row.restore)].flatMap(([restore, own]) => {
        const steps = storedSteps(readRestores(connection, { restore })[0]?.plan ?? '{}');
        const planned = new Map(steps.map((step) => [step['n'], step]));
        return own.flatMap(({ step, newId }) => {
          const found = planned.get(step);
          return found === undefined ? [] : (creationBy(found, { restore, id: textOf(newId) }) ?? []);
        });
      });
    });
  }

  /** The id map of a source, oldest first: which records came back under which ids. */
  idMap(source: string): IdMapping[] {
    return this.#access.read((connection) => readIdMap(connection, source));
  }

  /** Writes a restore and all its steps, durably, before anything is sent. Returns its number. */
  begin({ from, undoes, approved, steps, mappings = [], ...rest }: RestoreStart): number {
    const { actor } = this.#access;
    return this.#durably((writer) => {
      const row = {
        ...rest,
        by: actor.by,
        // It may be the path of a file.
        fromRef: this.#access.recordedText(from, 'the reference of the state to restore'),
        undoes: undoes ?? null,
        approved: JSON.stringify(approved),
      };
      if (undoes !== undefined) requireAsRecorded(writer, 'restores', [undoes]);
      const restore = NEXT_NUMBER(writer).get()?.restore ?? 1;
      if (STEPS(writer).get({ restore }) !== undefined) {
        const what = `another program inserted rows into the journal of restore ${restore}, which is the next one`;
        throw new TidemarkError('mirror_corrupt', `${what}: nothing was sent`, {
          hint: '`tidemark verify` names them',
        });
      }
      const action = undoes === undefined ? 'restore' : 'undo';
      const recorded = { action, at: rest.startedAt, about: 'restores', key: [restore] } as const;
      recordAction(writer, actor, recorded, () => {
        ADD_RESTORE(writer).run({ ...row, restore });
        for (const { n, inverse, ...step } of steps) {
          const text = inverse === null ? null : JSON.stringify(inverse);
          ADD_STEP(writer).run({ ...step, restore, step: n, inverse: text });
        }
        storeMappings(
          writer,
          mappings.map((mapping) => ({ ...mapping, restore })),
        );
      });
      return restore;
    });
  }

  /** Marks an ended restore as running again. @throws TidemarkError `reference_unknown`, `mirror_corrupt` if it is not as it was recorded */
  resume(restore: number): void {
    const at = isoTime(this.#access.clock.now());
    this.#setOutcome('resume', at, { restore, outcome: 'running', finishedAt: null });
  }

  /** Ends a running restore. @throws TidemarkError `reference_unknown`, `mirror_corrupt` if it is not as it was recorded */
  finish(restore: number, outcome: Exclude<RestoreOutcome, 'running'>, at: string): void {
    this.#setOutcome('end', at, { restore, outcome, finishedAt: at });
  }

  /**
   * Ends an interrupted restore that will not be continued. One that had ended with steps left keeps the time of its end.
   * @throws TidemarkError `reference_unknown`, `mirror_corrupt`
   */
  abandon(restore: number, outcome: 'failed' | 'partial'): void {
    const at = isoTime(this.#access.clock.now());
    const row = this.get(restore);
    const ended = row?.outcome === 'interrupted' ? null : row?.finishedAt;
    this.#setOutcome('abandon', at, { restore, outcome, finishedAt: ended ?? at });
  }

  /**
   * Journals what was found out about an ended restore, which stays ended: steps, new ids, outcome and the entry of the audit
   * log in one transaction, so that no other process sees a part of it. A killed restore without an end ends now, unless it stays
   * interrupted.
   * @throws TidemarkError `reference_unknown`, `mirror_corrupt` if it is not as it was recorded
   */
  recordLookUp(
    restore: number,
    outcome: Exclude<RestoreOutcome, 'running'>,
    entries: readonly JournalEntry[],
  ): void {
    const at = isoTime(this.#access.clock.now());
    this.#record('look_up', at, restore, (writer) => {
      writeEntries(writer, entries);
      const finishedAt = outcome === 'interrupted' ? null : at;
      return SET_LOOKED_UP(writer).run({ restore, outcome, finishedAt });
    });
  }

  /**
   * Replaces steps' rows, and adds `mappings` to the id map, in one transaction.
   * @throws TidemarkError `reference_unknown` for a step that the restore does not have
   */
  journal(entries: readonly JournalEntry[], durability: Durability = 'disk'): void {
    const write = (writer: Connection): void => writeEntries(writer, entries);
    if (durability === 'disk') this.#durably(write);
    else this.#access.change((writer) => transact(writer, () => write(writer)));
    this.#writes += 1;
    if (this.#writes % LOOK_EVERY !== 0 || logBytes(this.#access.path) <= LOG_LIMIT_BYTES) return;
    // Moves the pages that no reader needs, so that the log restarts. Does not wait for readers.
    this.#access.change((writer) => void writer.pragma('wal_checkpoint(PASSIVE)'));
  }

  /**
   * Resolves once everything journaled before the call is on the disk; concurrent calls share one wait for it.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`
   */
  settled(): Promise<void> {
    return this.#access.change(() => (this.#sync ??= new LogSync(this.#access.path)).settled());
  }

  close(): void {
    this.#sync?.close();
  }

  #setOutcome(
    action: 'resume' | 'end' | 'abandon',
    at: string,
    row: Pick<RestoreRow, 'restore' | 'outcome' | 'finishedAt'>,
  ): void {
    this.#record(action, at, row.restore, (writer) => SET_OUTCOME(writer).run({ ...row }));
  }

  /** Changes the row of a restore, durably, with an entry of the audit log. @param change returns the result of updating the row */
  #record(
    action: AuditAction,
    at: string,
    restore: number,
    change: (writer: Connection) => { readonly changes: number },
  ): void {
    this.#durably((writer) => {
      recordAction(writer, this.#access.actor, { action, at, about: 'restores', key: [restore] }, () => {
        if (change(writer).changes !== 1) throw unknownRestore(restore, 'restore');
      });
    });
  }

  /**
   * A transaction that is on the disk when this returns. Other commits may be lost in a power failure, because the next sync repeats
   * them; a request that was sent cannot be repeated.
   */
  #durably<T>(work: (writer: Connection) => T): T {
    return this.#access.change((writer) => {
      writer.pragma('synchronous = FULL');
      try {
        return transact(writer, () => work(writer));
      } finally {
        writer.pragma('synchronous = NORMAL');
      }
    });
  }
}

function writeEntries(writer: Connection, entries: readonly JournalEntry[]): void {
  for (const { row, mappings = [] } of entries) {
    const differences = row.differences.length === 0 ? '[]' : JSON.stringify(row.differences);
    const { changes } = SET_STEP(writer).run({ ...row, step: row.n, differences });
    if (changes !== 1) throw unknownRestore(row.restore, `step ${row.n} of restore`);
    storeMappings(writer, mappings);
  }
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
  { source, restore, limit }: RestoreFilter & { restore?: number },
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

const PLANLESS_BETWEEN = prepared((db) => {
  const { plan: _plan, ...columns } = getTableColumns(restores);
  return db
    .select({ ...columns, via: VIA })
    .from(restores)
    .where(isBetween())
    .orderBy(desc(restores.restore));
});

const PLANNED_RUN = prepared((db) =>
  db
    .select({
      run: sql<number | null>`iif(json_valid(${restores.plan}), ${restores.plan} ->> '$.from.run', NULL)`,
    })
    .from(restores)
    .where(eq(restores.restore, param('restore'))),
);

const STEPS = prepared((db) =>
  db
    .select()
    .from(restoreSteps)
    .where(eq(restoreSteps.restore, param('restore')))
    .orderBy(asc(restoreSteps.step)),
);

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

/** Null if another program altered the step. */
function creationBy(step: JsonObject, { restore, id }: Pick<Creation, 'restore' | 'id'>): Creation | null {
  const [kind, desiredKind, desiredId] = ['/request/kind', '/kind', '/desired/id'].map((pointer) =>
    resolvePointer(step, pointer),
  );
  if (typeof kind !== 'string' || !isKind(kind)) return null;
  const isKnown = typeof desiredKind === 'string' && isKind(desiredKind) && typeof desiredId === 'string';
  return { restore, kind, id, desired: isKnown ? { kind: desiredKind, id: desiredId } : null };
}

/** Also higher than the numbers in the audit log: another program may have deleted the latest restore. */
const NEXT_NUMBER = prepared((db) =>
  db
    .select({
      restore: sql<number>`1 + max(
        coalesce((SELECT max(${restores.restore}) FROM ${restores}), 0),
        coalesce((SELECT max(${auditLog.member} ->> '$[0]') FROM ${auditLog}
          WHERE ${auditLog.about} = 'restores' AND json_valid(${auditLog.member})), 0))`,
    })
    .from(sql`(SELECT 1)`),
);

const ADD_RESTORE = prepared((db) => {
  const { restore, source, planHash, plan, fromRef, undoes, startedAt, by, approved } = paramsOf(restores);
  return db.insert(restores).values({
    restore,
    source,
    planHash,
    plan,
    fromRef,
    undoes,
    startedAt,
    by,
    outcome: 'running',
    approved,
  });
});

const ADD_STEP = prepared((db) => {
  const { restore, step, outcome, inverse, errorCode, error } = paramsOf(restoreSteps);
  return db
    .insert(restoreSteps)
    .values({ restore, step, outcome, differences: '[]', attempts: 0, inverse, errorCode, error });
});

const SET_OUTCOME = prepared((db) => {
  const { restore, outcome, finishedAt } = paramsOf(restores);
  return db.update(restores).set({ outcome, finishedAt }).where(eq(restores.restore, restore));
});

const SET_LOOKED_UP = prepared((db) => {
  const { restore, outcome, finishedAt } = paramsOf(restores);
  return db
    .update(restores)
    .set({ outcome, finishedAt: sql`coalesce(${restores.finishedAt}, ${finishedAt})` })
    .where(eq(restores.restore, restore));
});

const SET_STEP = prepared((db) => {
  // The inverse stays as it was when the restore began.
  const { restore, step, inverse: _inverse, ...rest } = paramsOf(restoreSteps);
  return db
    .update(restoreSteps)
    .set(rest)
    .where(and(eq(restoreSteps.restore, restore), eq(restoreSteps.step, step)));
});

function unknownRestore(restore: number, what: string): TidemarkError {
  return new TidemarkError('reference_unknown', `there is no ${what} ${restore}`, {
    hint: '`tidemark restores` lists them',
  });
}
