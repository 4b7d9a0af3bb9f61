/**
 * What anybody would write in an hour: fetch each page, parse it, hash each record, insert it. No history, no proof
 * that the list was whole, no second look. `node bench/bare-loop.ts URL FILE [PAGES]`; PAGES limits it to the head.
 */
import { createHash } from 'node:crypto';
import Database from 'better-sqlite3';
import { request } from 'undici';

const [, , base = '', file = '', pages = 'Infinity'] = process.argv;
const database = new Database(file);
database.pragma('journal_mode = WAL');
database.exec('CREATE TABLE IF NOT EXISTS session_recordings (id TEXT PRIMARY KEY, hash BLOB, body TEXT)');
const insert = database.prepare(
  'INSERT INTO session_recordings VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET hash = excluded.hash, body = excluded.body WHERE hash <> excluded.hash',
);
const store = database.transaction((records: { id: string }[]) => {
  for (const record of records) {
    const text = JSON.stringify(record);
    insert.run(record.id, createHash('sha256').update(text).digest(), text);
  }
});

let next: string | null = `${base}/api/projects/1/session_recordings/?limit=1000`;
for (let page = 0; next !== null && page < Number(pages); page += 1) {
  const { body } = await request(next, { headers: { authorization: 'Bearer bench' } });
  const answer = JSON.parse(await body.text()) as { next: string | null; results: { id: string }[] };
  store(answer.results);
  next = answer.next;
}
database.close();
