/** Numbers that outlive a process. */
import { blob, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core';

/** Times of the requests of the last hour, so that a restart does not forget the hour's limit. */
export const rateLog = sqliteTable(
  'rate_log',
  {
    /** Fingerprint of origin and key; the key itself is never here. */
    key: text('key').notNull(),
    /** Minutes since the epoch. */
    minute: integer('minute').notNull(),
    /** Milliseconds within the minute, two bytes each, little-endian. */
    offsets: blob('offsets', { mode: 'buffer' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.key, table.minute] })],
);

/** Counters of the mirror itself. */
export const counters = sqliteTable('counters', {
  /** `record`: the highest record number ever given. */
  name: text('name').primaryKey(),
  value: integer('value').notNull(),
});
