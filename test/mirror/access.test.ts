/** Which connections an open mirror reads with: SQLite reads the whole schema for each one. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type ReaderConnection, MirrorAccess } from '../../src/mirror/access.ts';
import { type Connection, connect, createPrivateFile } from '../../src/mirror/database.ts';
import { open, temporaryDirectory, testClock } from './fixture.ts';

/** A file with one row, how many connections were opened to read it and are open, and what a stream and a read see of it. */
function counted() {
  const path = join(temporaryDirectory(), 'file.db');
  createPrivateFile(path);
  const writer = connect(path, { isReadonly: false });
  writer.pragma('journal_mode = WAL');
  writer.exec('CREATE TABLE t (n); INSERT INTO t VALUES (1)');
  const count = { opened: 0, open: 0 };
  const another = (): ReaderConnection => {
    const connection = connect(path, { isReadonly: true });
    count.opened += 1;
    count.open += 1;
    const close = (): void => {
      if (!connection.open) return;
      connection.close();
      count.open -= 1;
    };
    return { connection, another, close };
  };
  const access = new MirrorAccess(path, { clock: testClock() }, another(), null);
  const rows = (connection: Connection): unknown[] => connection.prepare('SELECT n FROM t').pluck().all();
  const read = (): unknown[] => access.read(rows);
  const stream = () =>
    access.stream(function* (connection) {
      for (;;) yield rows(connection);
    });
  const write = (n: number): void => void writer.prepare('INSERT INTO t VALUES (?)').run(n);
  return { access, count, read, stream, write };
}

it('streams one after another take the connection that reads', () => {
  const { access, count, read, stream, write } = counted();
  for (const n of [2, 3]) {
    const rows = stream();
    expect(rows.next().value).toEqual(read().slice(0, n - 1));
    rows.return(undefined);
    write(n);
  }
  expect(read()).toEqual([1, 2, 3]);
  access.close();
  expect(count).toEqual({ opened: 2, open: 0 });
});

it('each of several streams has a snapshot of its own, and what is read meanwhile is of the moment', () => {
  const { access, count, read, stream, write } = counted();
  const one = stream();
  expect(one.next().value).toEqual([1]);
  write(2);
  const other = stream();
  expect(other.next().value).toEqual([1, 2]);
  write(3);
  expect([read(), other.next().value, one.next().value]).toEqual([[1, 2, 3], [1, 2], [1]]);
  for (const each of [one, other]) each.return(undefined);
  write(4);
  expect([read(), stream().next().value]).toEqual([
    [1, 2, 3, 4],
    [1, 2, 3, 4],
  ]);
  // Of the three, two are kept.
  expect(count).toEqual({ opened: 3, open: 2 });
  access.close();
});

it('within a transaction of several reads, a stream has another connection', () => {
  const { access, count, stream, write } = counted();
  access.read((connection) =>
    connection.transaction(() => {
      expect(connection.prepare('SELECT count(*) FROM t').pluck().get()).toBe(1);
      write(2);
      const rows = stream();
      expect(rows.next().value).toEqual([1, 2]);
      rows.return(undefined);
      expect(connection.prepare('SELECT count(*) FROM t').pluck().get()).toBe(1);
    })(),
  );
  access.close();
  expect(count).toEqual({ opened: 2, open: 0 });
});

it('a stream that fails leaves the connection that reads as it was; one that outlives the mirror closes its own', () => {
  const { access, count, read, stream, write } = counted();
  const failing = access.stream(function* (connection) {
    yield connection.prepare('SELECT n FROM t').get();
    throw new Error('it fails');
  });
  failing.next();
  expect(() => failing.next()).toThrow('it fails');
  write(2);
  expect(read()).toEqual([1, 2]);
  expect(count).toEqual({ opened: 1, open: 1 });
  const rows = stream();
  rows.next();
  access.close();
  expect(rows.next().value).toEqual([1, 2]);
  expect(count.open).toBe(1);
  rows.return(undefined);
  expect(count.open).toBe(0);
  expect(read).toThrow('closed');
});

it('where nothing is read, none is opened', () => {
  const never = (): ReaderConnection => expect.unreachable();
  new MirrorAccess('nowhere', { clock: testClock() }, never, null).close();
});

it('a mirror that may not be created is not, and nothing is left beside its place', () => {
  const directory = join(temporaryDirectory(), 'nowhere');
  expect(() => open({ path: join(directory, 'mirror.db'), mayCreate: false })).toThrow(
    expect.objectContaining({ code: 'mirror_missing' }),
  );
  expect(existsSync(directory)).toBe(false);
});

it('once closed, it hands out no connection, in words', () => {
  const { access, count, read, stream } = counted();
  const refused: unknown = expect.objectContaining({ code: 'internal', message: 'the mirror is closed' });
  access.close();
  expect(read).toThrow(refused);
  expect(() => stream().next()).toThrow(refused);
  expect(() => access.acquireReader()).toThrow(refused);
  expect(count).toEqual({ opened: 1, open: 0 });
});

it('closes each connection, also after one that fails to close', () => {
  const { access, count } = counted();
  const readers = [access.acquireReader(), access.acquireReader()];
  for (const reader of readers) access.releaseReader(reader);
  readers[0]!.close = () => {
    throw new Error('not closed');
  };
  expect(() => access.close()).toThrow('not closed');
  expect(count).toEqual({ opened: 2, open: 1 });
  readers[0]!.connection.close();
});

it('does not keep a connection that cannot be reset, nor let that hide what went wrong', () => {
  const { access, count, read } = counted();
  const failing = access.stream(function* (connection) {
    yield 1;
    connection.close();
    throw new Error('the reason');
  });
  failing.next();
  expect(() => failing.next()).toThrow('the reason');
  expect(read()).toEqual([1]);
  expect(count.opened).toBe(2);
  access.close();
});
