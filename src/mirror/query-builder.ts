/** Drizzle over a connection, for the queries that are not hot. Apart from `database.ts` because loading it takes long. */
import { drizzle } from 'drizzle-orm/better-sqlite3';
import type { Connection } from './database.ts';

export function queryBuilder(connection: Connection) {
  return drizzle(connection);
}
