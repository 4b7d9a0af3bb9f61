/** Restores: what was approved, sent and answered, and which new ids resulted (design.md, invariant 6). */
import { index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';

/** One approved plan being applied, or applied. */
export const restores = sqliteTable('restores', {
  /** Number of the restore over all sources; rows are never deleted. */
  restore: integer('restore').primaryKey(),
  /** Name of the source, as in `sources.name`, where it may be missing if nothing was mirrored yet. */
  source: text('source').notNull(),
  /** Hash that pins the plan. */
  planHash: text('plan_hash').notNull(),
  /** The plan as approved, a `tidemark.plan/1` document. Without secrets, as every plan. */
  plan: text('plan').notNull(),
  /** The reference that the desired state came from. */
  fromRef: text('from_ref').notNull(),
  /** `restores.restore` that this undo undoes; NULL for other restores. */
  undoes: integer('undoes'),
  startedAt: text('started_at').notNull(),
  /** Who started it. */
  by: text('started_by').notNull(),
  /** When it last ended; NULL while it runs, and if its process died. */
  finishedAt: text('finished_at'),
  /** `running`, `complete`, `partial`, `failed` or `interrupted`. */
  outcome: text('outcome').notNull().$type<'running' | 'complete' | 'partial' | 'failed' | 'interrupted'>(),
  /** What the user approved in addition to the plan, as a JSON object. */
  approved: text('approved').notNull(),
});

/** The journal: a row for each step of a restore's plan, written before its request is sent and after the answer. */
export const restoreSteps = sqliteTable(
  'restore_steps',
  {
    /** `restores.restore`. */
    restore: integer('restore').notNull(),
    /** The step's number in the plan. */
    step: integer('step').notNull(),
    /** `planned`, `sent`, `applied`, `failed`, `skipped`, `blocked` or `manual`. `sent`: the answer is not known. */
    outcome: text('outcome')
      .notNull()
      .$type<'planned' | 'sent' | 'applied' | 'failed' | 'skipped' | 'blocked' | 'manual'>(),
    /** HTTP status of the last response; NULL without one. */
    status: integer('status'),
    /** The id that the service gave to a created record. */
    newId: text('new_id'),
    /** 1 if the record was read back and has what was sent, 0 if it does not, NULL if that is not known. */
    verified: integer('verified', { mode: 'boolean' }),
    /** JSON array of `{path, from?, to?}`, from what the service has to what was sent; secrets left out. */
    differences: text('differences').notNull(),
    /** Digest of the record's managed fields as read back, which an undo must find. NULL if it was not read. */
    digest: text('digest'),
    /** Why it failed or was skipped: a code. */
    errorCode: text('error_code'),
    /** The same for people; for an applied creation without a code, the keys that the service did not return. */
    error: text('error'),
    /** The number of writing requests sent for it so far. */
    attempts: integer('attempts').notNull(),
    /** When the last of them was sent. */
    sentAt: text('sent_at'),
    /** When the outcome was known. */
    endedAt: text('ended_at'),
    /** The request that restores what the step overwrote, as JSON; NULL if it overwrote nothing. Secrets are left out and named. */
    inverse: text('inverse'),
  },
  (table) => [primaryKey({ columns: [table.restore, table.step] })],
);

/** The old and new id of each record that was created again. Written as soon as the service returns the new id. */
export const idMap = sqliteTable(
  'id_map',
  {
    /** Name of the source. */
    source: text('source').notNull(),
    kind: text('kind').notNull(),
    /** The record's old scope, as in `collections.scope`. */
    oldScope: text('old_scope').notNull(),
    oldId: text('old_id').notNull(),
    /** The new one. */
    newScope: text('new_scope').notNull(),
    newId: text('new_id').notNull(),
    /** `restores.restore` that created it. */
    restore: integer('restore').notNull(),
    at: text('at').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.source, table.kind, table.newScope, table.newId] }),
    index('id_map_old').on(table.source, table.kind, table.oldId),
  ],
);
