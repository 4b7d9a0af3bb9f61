/**
 * Loaded into a measured process with `--import`: tells when it ends how many rows its connections changed (SQLite's own
 * `total_changes`), how many bytes it wrote (Linux: /proc/self/io, sockets and pipes included) and its peak memory.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';

interface Connection {
  readonly open: boolean;
  prepare: (this: Connection, sql: string) => { pluck(): { get(): number } };
  close: (this: Connection) => unknown;
}

const file = process.env['BENCH_PROBE'];
if (file !== undefined && isMainThread) {
  // From the program's own place, so that it is the module that the program uses.
  const { prototype } = createRequire(process.env['BENCH_PROGRAM']!)('better-sqlite3') as {
    prototype: Connection;
  };
  const open = new Set<Connection>();
  let rows = 0;
  const { close, prepare } = prototype;
  const count = (connection: Connection): void => {
    if (connection.open && open.delete(connection))
      rows += prepare.call(connection, 'SELECT total_changes()').pluck().get();
  };
  prototype.prepare = function (this: Connection, sql: string) {
    open.add(this);
    return prepare.call(this, sql);
  };
  prototype.close = function (this: Connection) {
    count(this);
    return close.call(this);
  };
  process.on('exit', () => {
    for (const connection of [...open]) count(connection);
    const io = '/proc/self/io';
    const written = existsSync(io) ? Number(/^wchar: (\d+)$/m.exec(readFileSync(io, 'utf8'))?.[1]) : null;
    writeFileSync(file, JSON.stringify({ rows, written, peakBytes: process.resourceUsage().maxRSS * 1024 }));
  });
}
