/** What anybody would write to see what changed between two runs: one query. `node bench/bare-diff.ts FILE`. */
import Database from 'better-sqlite3';

const [, , file = ''] = process.argv;
const database = new Database(file, { readonly: true });
const changed = database
  .prepare(
    `SELECT r."remote_id", r."body", o."body" AS "before" FROM "records" r
     JOIN "revisions" o ON o."record" = r."record" AND o."run" = r."previous" WHERE r."run" = 2`,
  )
  .all();
process.stdout.write(`${changed.map((row) => JSON.stringify(row)).join('\n')}\n`);
database.close();
