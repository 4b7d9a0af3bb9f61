/** What people pinned or accepted, and what retention dropped. */
import { sql } from 'drizzle-orm';
import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';
import type { AuditAction } from '../audit-actions.ts';

/**
 * Who did what: an entry for each acceptance, pin, restore and forget, for their ends, for each backup that the mirror was restored
 * from, and for each run in which removals were accepted. Append-only. A row must be as its latest entry has it.
 */
export const auditLog = sqliteTable(
  'audit_log',
  {
    /** 1 for the first, and so on, without gaps. */
    entry: integer('entry').primaryKey(),
    at: text('at').notNull(),
    /** Who did it. */
    by: text('by').notNull(),
    /** How the program knew them: user and host of the command, `token@dashboard`, `proxy@dashboard` … */
    via: text('via').notNull(),
    action: text('action').notNull().$type<AuditAction>(),
    /** The table of the row; `backups` (a backup that became this mirror) and `removals` (accepted in a run) have no table. */
    about: text('about')
      .notNull()
      .$type<'acceptances' | 'snapshots' | 'restores' | 'forgets' | 'backups' | 'removals'>(),
    /** The key of the row, as a JSON array: for a backup its name, for removals their run. */
    member: text('member').notNull(),
    /**
     * The other values of the row, as a JSON object; for `unaccept` and `unpin`, those before. For an acceptance also what was accepted
     * (`measured`), and for its withdrawal why (`withdrawal_reason`), if that was said.
     */
    row: text('row').notNull(),
    /** Root of the latest published run at that time; NULL before the first. */
    root: blob('root', { mode: 'buffer' }),
    /** SHA-256 over the previous entry's hash and this entry's other values. */
    hash: blob('hash', { mode: 'buffer' }).notNull(),
  },
  (table) => [index('audit_log_row').on(table.about, table.member)],
);

/** Runs pinned under a name: retention keeps them. */
export const snapshots = sqliteTable('snapshots', {
  /** What follows `snapshot:` in a reference. */
  name: text('name').primaryKey(),
  /** `runs.run` of a published run: the snapshot is the state of all sources as of it. */
  run: integer('run').notNull(),
  /** When it was pinned; the time of the state is that of the run. */
  pinnedAt: text('pinned_at').notNull(),
  /** Who pinned it. */
  by: text('pinned_by').notNull(),
  /** 1 for the one that drift is measured from. */
  isBaseline: integer('is_baseline', { mode: 'boolean' }).notNull(),
});

/**
 * Drift that somebody accepted: a row for each place, valid only for the value with its fingerprint. The value itself is in
 * the audit log, with its secrets masked.
 */
export const acceptances = sqliteTable(
  'acceptances',
  {
    /** Name of the source, as in `sources.name`. */
    source: text('source').notNull(),
    kind: text('kind').notNull(),
    /** As in `collections.scope`. */
    scope: text('scope').notNull(),
    remoteId: text('remote_id').notNull(),
    /** RFC 6901 pointer to the field, `[id=…]` for an element with an id; empty for a record that was added or removed. */
    path: text('path').notNull(),
    /** Keyed digest (`fingerprint_key`) of the place and the accepted value: another value is drift again. */
    fingerprint: text('fingerprint').notNull(),
    /** Why, as the user gave it. */
    reason: text('reason').notNull(),
    acceptedAt: text('accepted_at').notNull(),
    /** Who accepted it. */
    by: text('accepted_by').notNull(),
    /** When it expires; NULL if it does not. */
    until: text('until'),
  },
  (table) => [
    primaryKey({ columns: [table.source, table.kind, table.scope, table.remoteId, table.path] }),
    index('acceptances_fingerprint').on(table.source, table.fingerprint),
  ],
);

/**
 * The key with which this mirror's drift fingerprints are computed: these are in reports, and without the key nobody can
 * find a short secret by trying. Made when the mirror is first opened for writing, never changed.
 */
export const fingerprintKey = sqliteTable('fingerprint_key', {
  /** Always 1. */
  id: integer('id').primaryKey(),
  /** 32 random bytes. */
  key: blob('key', { mode: 'buffer' }).notNull(),
});

/**
 * What retention dropped, and how that changed the chain of seals: a row for each forget, chained to the previous one; the first
 * remaining run is chained to the last row. Roots from before are in `replaced_roots`.
 */
export const forgets = sqliteTable('forgets', {
  /** Numbered from 1. */
  forget: integer('forget').primaryKey(),
  at: text('at').notNull(),
  /** Who did it. */
  by: text('forgotten_by').notNull(),
  /** What was to be kept, as JSON: `{"last":7,"daily":30}`. */
  policy: text('policy').notNull(),
  /** JSON array of the names of the sources that it processed. */
  sources: text('sources').notNull(),
  /** Numbers of the dropped runs, published or not, as a JSON array of ranges: `[[1,40],[42,42]]`. */
  runs: text('runs').notNull(),
  /** The number of dropped runs. */
  runCount: integer('run_count').notNull(),
  /** `runs.run` of the latest sealed run at that time, which was kept. */
  tipRun: integer('tip_run').notNull(),
  /** Its root before. */
  rootBefore: blob('root_before', { mode: 'buffer' }).notNull(),
  /** Its root after. */
  rootAfter: blob('root_after', { mode: 'buffer' }).notNull(),
  /** SHA-256 over the rows of `replaced_roots` of this forget in order of runs. */
  replacedDigest: blob('replaced_digest', { mode: 'buffer' }).notNull(),
  /**
   * SHA-256 over the previous forget's `link` and `root_after`, and this row's other values except `root_after`. The first
   * sealed run has the latest `link` as its `previous_root`.
   */
  link: blob('link', { mode: 'buffer' }).notNull(),
});

/** All roots that a forget replaced: of the dropped runs, and of the kept ones. */
export const replacedRoots = sqliteTable(
  'replaced_roots',
  {
    /** `forgets.forget`. */
    forget: integer('forget').notNull(),
    /** Number of the run that had it. */
    run: integer('run').notNull(),
    /** The root before. */
    root: blob('root', { mode: 'buffer' }).notNull(),
    /** `runs.run` of the run into which this one was merged then; NULL if it was kept. */
    intoRun: integer('into_run'),
  },
  (table) => [
    primaryKey({ columns: [table.forget, table.run] }),
    // Finds the dropped runs: a few of many rows.
    index('replaced_roots_gone').on(table.run, table.intoRun).where(sql.raw('"into_run" IS NOT NULL')),
  ],
);

/**
 * Seals of rows that neither a run's root nor the audit log covers: the key of the fingerprints, the rows of runs (failed ones
 * too) and the id map. Each is stored apart from its row, so that the seal of a deleted row remains. Each set has a seal over its
 * seals, so that deleting a row with its seal is detected.
 */
export const rowSeals = sqliteTable(
  'row_seals',
  {
    /** `fingerprint_key`, `runs` or `id_map`: the table of the rows. */
    set: text('set').notNull(),
    /** What identifies the row, as a JSON array; empty for the set as a whole. */
    member: text('member').notNull(),
    /** SHA-256 over the row; for a set, its members' seals combined. */
    seal: blob('seal', { mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.set, table.member] })],
);
