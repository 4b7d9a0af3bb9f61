/** Numbers that outlive a process. */
import { integer, sqliteTable, text } from 'drizzle-orm/sqlite-core';

/** Counters of the mirror itself. */
export const counters = sqliteTable('counters', {
  /** `record`: the highest record number ever given. */
  name: text('name').primaryKey(),
  value: integer('value').notNull(),
});
