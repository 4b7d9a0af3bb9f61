import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/mirror/database.ts';
import { inWorker } from '../../src/mirror/file-task.ts';
import { open, temporaryDirectory } from './fixture.ts';

describe('work on the whole file in a thread', () => {
  it.each<[string, (path: string) => void, string]>([
    ['there is no file', () => undefined, 'SQLITE_CANTOPEN'],
    ['a directory is in its place', (path) => mkdirSync(path), 'SQLITE_CANTOPEN'],
    ['it is no SQLite file', (path) => writeFileSync(path, 'x'.repeat(4096)), 'SQLITE_NOTADB'],
  ])('tells by its code what failed: %s', async (_name, spoil, code) => {
    const path = join(temporaryDirectory(), 'mirror.db');
    spoil(path);
    for (const task of ['checkpoint', 'vacuum'] as const) {
      await expect(inWorker(path, task)).rejects.toMatchObject({
        code: expect.stringMatching(code) as string,
      });
    }
  });

  it('gives up where another process writes, and holds nothing afterwards', async () => {
    const mirror = open();
    mirror.close();
    const other = connect(mirror.path, { isReadonly: false });
    other.exec('BEGIN IMMEDIATE');
    await expect(inWorker(mirror.path, 'vacuum')).rejects.toMatchObject({ code: 'SQLITE_BUSY' });
    other.exec('ROLLBACK');
    other.pragma('busy_timeout = 0');
    // Exclusive: nobody else has it open in earnest.
    expect(() => other.exec('BEGIN EXCLUSIVE; COMMIT')).not.toThrow();
    other.close();
    await inWorker(mirror.path, 'vacuum');
    await inWorker(mirror.path, 'checkpoint');
  });
});
