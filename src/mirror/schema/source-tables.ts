/**
 * Sources and their collections.
 *
 * The schema is all files of this directory. Change it here, then `npm run migrations:generate`; a landed migration is
 * never edited. Times are ISO 8601 UTC with milliseconds. drizzle-kit cannot express WITHOUT ROWID: it is added by hand
 * to a new table's CREATE TABLE in its migration wherever the key is composite or text (a test names what lacks it).
 */
import { sql } from 'drizzle-orm';
import { integer, sqliteTable, text, uniqueIndex } from 'drizzle-orm/sqlite-core';
import type { ErrorCode } from '../../core/errors.ts';
import type { SweepOutcome } from '../sweep-result.ts';

/** One configured remote. */
export const sources = sqliteTable('sources', {
  id: integer('id').primaryKey(),
  /** Its name in the configuration, which identifies it. */
  name: text('name').notNull().unique(),
  /** The address at which its records were read. A run that finds none of the known organizations at another address does not change it. */
  baseUrl: text('base_url').notNull(),
  /** The previous address, and the first run that read the records at `base_url`; NULL if it never changed. */
  movedFrom: text('moved_from'),
  movedRun: integer('moved_run'),
});

/** One list endpoint in one scope of one source. */
export const collections = sqliteTable(
  'collections',
  {
    id: integer('id').primaryKey(),
    /** `sources.id`. */
    source: integer('source')
      .notNull()
      .references(() => sources.id),
    /** The kind of its records: also the name of the view that shows them. */
    kind: text('kind').notNull(),
    /** The parent path values as a JSON object with its keys in fixed order; `{}` for organizations. */
    scope: text('scope').notNull(),
    /** From `scope`; NULL if the path has no organization. */
    organizationId: text('organization_id').generatedAlwaysAs(
      sql.raw(`json_extract("scope", '$.organization_id')`),
      { mode: 'virtual' },
    ),
    /** From `scope`; NULL if the path has no project. */
    projectId: text('project_id').generatedAlwaysAs(sql.raw(`json_extract("scope", '$.project_id')`), {
      mode: 'virtual',
    }),
    /** From `scope`; NULL if the path has no role. */
    roleId: text('role_id').generatedAlwaysAs(sql.raw(`json_extract("scope", '$.role_id')`), {
      mode: 'virtual',
    }),
    /** The number of current records. */
    records: integer('records').notNull(),
    /** `runs.run` of the latest sweep, even a skipped one; NULL before the first. Retention may have dropped that row. */
    lastRun: integer('last_run'),
    /** When that run ended, even if its row is gone. */
    lastAt: text('last_at'),
    /** `runs.run` of the latest complete sweep, head reads included; its row may be gone too. */
    lastCompleteRun: integer('last_complete_run'),
    lastCompleteAt: text('last_complete_at'),
    /** `runs.run` of the latest complete sweep of the entire list: the last one that could show that records are absent. */
    lastFullRun: integer('last_full_run'),
    lastFullAt: text('last_full_at'),
    /** Outcome of the latest sweep, as in `sweeps`. */
    lastOutcome: text('last_outcome').$type<SweepOutcome>(),
    /** Why the latest sweep was not complete: a code. */
    lastErrorCode: text('last_error_code').$type<ErrorCode>(),
    /** The same for people. */
    lastError: text('last_error'),
    /** Size of the largest page that the service gave; NULL if unknown. */
    pageCap: integer('page_cap'),
    /** `runs.run` in which it was gone with its parent record; NULL if it is not. */
    retiredRun: integer('retired_run'),
  },
  (table) => [uniqueIndex('collections_key').on(table.source, table.kind, table.scope)],
);
