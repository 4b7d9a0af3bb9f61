/**
 * The store of restores. A row that is written before a request or after its answer is on the disk when the method returns, so that it
 * survives a power cut (design.md, invariant 6).
 */
import { and, eq, sql } from 'drizzle-orm';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import type { MirrorAccess } from './access.ts';
import type { AuditAction } from './audit-actions.ts';
import { recordAction } from './audit-log.ts';
import { requireAsRecorded } from './audited-rows.ts';
import { type Connection, transact } from './database.ts';
import { type IdMapping, readIdMap, storeMappings } from './id-map.ts';
import { paramsOf, prepared } from './query.ts';
import {
  readAbandonedBy,
  readBackupSince,
  readBackupSinceResumed,
  readBegins,
  readResumedBy,
  readSentAfter,
} from './restore-log.ts';
import {
  readAlteredRestores,
  readBetween,
  readContradictions,
  readCreations,
  readNumbersBetween,
  readPlannedRun,
  readProgress,
  readRestores,
  readSteps,
  type RestoreOutcome,
  type RestoreRow,
  type RestoreStepRow,
} from './restores.ts';
import { mappingsUnlikeSealed } from './row-seals.ts';
import { auditLog } from './schema/retention-tables.ts';
import { restoreSteps, restores } from './schema/restore-tables.ts';
import { LogSync, logBytes } from './write-ahead-log.ts';

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

/** A step's new row, and the mappings to the id that the step gave the record: from the desired id, and from that of an earlier restore. */
export interface JournalEntry {
  readonly row: RestoreStepRow;
  readonly mappings?: readonly IdMapping[] | undefined;
}

/** `disk`: survives a power cut; `process`: survives the end of the process, and a power cut once `settled` has resolved. */
export type Durability = 'disk' | 'process';

/** The write-ahead log is emptied when it has this many bytes: a long restore writes a page or two for each step. */
const LOG_LIMIT_BYTES = 16 * 1024 * 1024;
/** Writes between two checks of the log's size. */
const LOOK_EVERY = 500;

export type RestoreStore = ReturnType<typeof restoreStore>;

export function restoreStore(access: MirrorAccess) {
  let sync: LogSync | null = null;
  let writes = 0;

  const reads = access.reads({
    list: readRestores,
    contradictions: readContradictions,
    altered: readAlteredRestores,
    alteredMappings: mappingsUnlikeSealed,
    plannedRun: readPlannedRun,
    numbersBetween: readNumbersBetween,
    between: readBetween,
    sentAfter: readSentAfter,
    resumedBy: readResumedBy,
    backupSince: readBackupSince,
    backupSinceResumed: readBackupSinceResumed,
    abandonedBy: readAbandonedBy,
    steps: readSteps,
    progress: readProgress,
    begins: readBegins,
    creations: readCreations,
    idMap: readIdMap,
  });

  const get = (restore: number): RestoreRow | undefined => reads.list({ restore })[0];

  /**
   * A transaction that is on the disk when this returns. Other commits may be lost in a power failure, because the next sync repeats
   * them; a request that was sent cannot be repeated.
   */
  const durably = <T>(work: (writer: Connection) => T): T =>
    access.change((writer) => {
      writer.pragma('synchronous = FULL');
      try {
        return transact(writer, () => work(writer));
      } finally {
        writer.pragma('synchronous = NORMAL');
      }
    });

  /** Changes the row of a restore, durably, with an entry of the audit log. @param change returns the result of updating the row */
  const record = (
    action: AuditAction,
    at: string,
    restore: number,
    change: (writer: Connection) => { readonly changes: number },
  ): void =>
    durably((writer) => {
      recordAction(writer, access.actor, { action, at, about: 'restores', key: [restore] }, () => {
        if (change(writer).changes !== 1) throw unknownRestore(restore, 'restore');
      });
    });

  const setOutcome = (
    action: 'resume' | 'end' | 'abandon',
    at: string,
    row: Pick<RestoreRow, 'restore' | 'outcome' | 'finishedAt'>,
  ): void => record(action, at, row.restore, (writer) => SET_OUTCOME(writer).run({ ...row }));

  return {
    ...reads,

    get,

    /** Writes a restore and all its steps, durably, before anything is sent. Returns its number. */
    begin({ from, undoes, approved, steps, mappings = [], ...rest }: RestoreStart): number {
      const { actor } = access;
      return durably((writer) => {
        const row = {
          ...rest,
          by: actor.by,
          // It may be the path of a file.
          fromRef: access.recordedText(from, 'the reference of the state to restore'),
          undoes: undoes ?? null,
          approved: JSON.stringify(approved),
        };
        if (undoes !== undefined) requireAsRecorded(writer, 'restores', [undoes]);
        const restore = NEXT_NUMBER(writer).get()?.restore ?? 1;
        if (readSteps(writer, restore).length > 0) {
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
    },

    /** Marks an ended restore as running again. @throws TidemarkError `reference_unknown`, `mirror_corrupt` if it is not as it was recorded */
    resume(restore: number): void {
      const at = isoTime(access.clock.now());
      setOutcome('resume', at, { restore, outcome: 'running', finishedAt: null });
    },

    /** Ends a running restore. @throws TidemarkError `reference_unknown`, `mirror_corrupt` if it is not as it was recorded */
    finish(restore: number, outcome: Exclude<RestoreOutcome, 'running'>, at: string): void {
      setOutcome('end', at, { restore, outcome, finishedAt: at });
    },

    /**
     * Ends an interrupted restore that will not be continued. One that had ended with steps left keeps the time of its end.
     * @throws TidemarkError `reference_unknown`, `mirror_corrupt`
     */
    abandon(restore: number, outcome: 'failed' | 'partial'): void {
      const at = isoTime(access.clock.now());
      const row = get(restore);
      const ended = row?.outcome === 'interrupted' ? null : row?.finishedAt;
      setOutcome('abandon', at, { restore, outcome, finishedAt: ended ?? at });
    },

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
      const at = isoTime(access.clock.now());
      record('look_up', at, restore, (writer) => {
        writeEntries(writer, entries);
        const finishedAt = outcome === 'interrupted' ? null : at;
        return SET_LOOKED_UP(writer).run({ restore, outcome, finishedAt });
      });
    },

    /**
     * Replaces steps' rows, and adds `mappings` to the id map, in one transaction.
     * @throws TidemarkError `reference_unknown` for a step that the restore does not have
     */
    journal(entries: readonly JournalEntry[], durability: Durability = 'disk'): void {
      const write = (writer: Connection): void => writeEntries(writer, entries);
      if (durability === 'disk') durably(write);
      else access.change((writer) => transact(writer, () => write(writer)));
      writes += 1;
      if (writes % LOOK_EVERY !== 0 || logBytes(access.path) <= LOG_LIMIT_BYTES) return;
      // Moves the pages that no reader needs, so that the log restarts. Does not wait for readers.
      access.change((writer) => void writer.pragma('wal_checkpoint(PASSIVE)'));
    },

    /**
     * Resolves once everything journaled before the call is on the disk; concurrent calls share one wait for it.
     * @throws TidemarkError `disk_full`, `read_only`, `file_system`
     */
    settled(): Promise<void> {
      return access.change(() => (sync ??= new LogSync(access.path)).settled());
    },

    close(): void {
      sync?.close();
    },
  };
}

function writeEntries(writer: Connection, entries: readonly JournalEntry[]): void {
  for (const { row, mappings = [] } of entries) {
    const differences = row.differences.length === 0 ? '[]' : JSON.stringify(row.differences);
    const { changes } = SET_STEP(writer).run({ ...row, step: row.n, differences });
    if (changes !== 1) throw unknownRestore(row.restore, `step ${row.n} of restore`);
    storeMappings(writer, mappings);
  }
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
