import { openSync, readFileSync, writeSync, closeSync } from 'node:fs';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import type { VerifyResult } from '../../src/mirror/verify.ts';
import { verifyMirror } from '../../src/mirror/mirror.ts';
import { ORG, PROJECT, open, sync } from './fixture.ts';

const role = (id: string, name: string): string => `{"id":"${id}","name":"${name}"}`;

/** Three runs: added, changed, one removed; and a recording whose volatile member moved. */
async function someHistory(): Promise<string> {
  const mirror = open();
  await sync(mirror, 'roles', ORG, [role('a', 'A'), role('b', 'B'), role('c', 'C')]);
  await sync(mirror, 'roles', ORG, [role('a', 'A2'), role('b', 'B'), role('c', 'C')]);
  await sync(mirror, 'roles', ORG, [role('a', 'A3'), role('b', 'B')]);
  await sync(mirror, 'session_recordings', PROJECT, ['{"id":"r","click_count":1,"viewed":true}']);
  mirror.close();
  return mirror.path;
}

async function verify(path: string): Promise<VerifyResult> {
  const mirror = open({ path, mode: 'read' });
  return await verifyMirror(mirror);
}

describe('verify', () => {
  it('finds nothing wrong with what was published, and says what it looked at', async () => {
    expect(await verify(await someHistory())).toEqual({
      checked: { records: 3, revisions: 7, runs: 4 },
      problems: [],
      notes: [],
    });
  });

  it.each([
    ['a body', `UPDATE roles SET body = replace(body, 'A3', 'A4') WHERE _remote_id = 'a'`, 'body'],
    ['a volatile member', `UPDATE session_recordings SET body = replace(body, 'true', 'false')`, 'body'],
    [
      'a body and its key',
      `UPDATE record_keys SET hash_start = x'00112233445566778899aabb' WHERE remote_id = 'b'`,
      'body',
    ],
    [
      'an earlier body',
      `UPDATE revisions SET body = body || x'00' WHERE body IS NOT NULL AND encoding = 1`,
      'revision',
    ],
    ['a sealed hash', `UPDATE revisions SET hash = zeroblob(32) WHERE run = 1 AND record = 2`, 'chain'],
    ['a revision taken out', `DELETE FROM revisions WHERE run = 2`, 'revision'],
    [
      'a revision put in',
      `INSERT INTO revisions VALUES (2, 1, 99, 1, NULL, 1, zeroblob(32), NULL, NULL)`,
      'revision',
    ],
    ['a record taken out', `DELETE FROM roles WHERE _remote_id = 'b'`, 'index'],
    ['a key taken out', `DELETE FROM record_keys WHERE remote_id = 'b'`, 'index'],
    ['a count', `UPDATE collections SET records = 7 WHERE kind = 'roles'`, 'index'],
    ['a tombstone turned into a change', `UPDATE revisions SET change = 2 WHERE change = 3`, 'revision'],
    ['the time of a run', `UPDATE runs SET finished_at = '2020-01-01T00:00:00.000Z' WHERE run = 2`, 'chain'],
    ['the outcome of a run', `UPDATE runs SET outcome = 'partial' WHERE run = 2`, 'chain'],
    ['the order of runs', `UPDATE runs SET previous_root = NULL WHERE run = 3`, 'chain'],
    ['a table', `DROP TABLE snapshots`, 'schema'],
    ['a name', `UPDATE sources SET name = 'else'`, 'chain'],
  ] as const)('notices that somebody changed %s', async (_name, sql, kind) => {
    const path = await someHistory();
    const file = new Database(path);
    expect(file.prepare(sql).run()).toBeDefined();
    file.close();
    const { problems } = await verify(path);
    expect(problems.map((problem) => problem.kind)).toContain(kind);
    for (const { message } of problems) expect(message).not.toBe('');
  });

  it('names the record', async () => {
    const path = await someHistory();
    const file = new Database(path);
    file.exec(`UPDATE roles SET body = '{"id":"a","name":"forged"}' WHERE _remote_id = 'a'`);
    file.close();
    expect((await verify(path)).problems).toContainEqual(
      expect.objectContaining({ kind: 'body', recordKind: 'roles', scope: ORG, id: 'a', run: 3 }),
    );
  });

  it('goes on past a damaged page and reports it', async () => {
    const mirror = open();
    const texts = Array.from({ length: 200 }, (_, i) => `{"id":"r${i}","name":"${'x'.repeat(300)}"}`);
    await sync(mirror, 'roles', ORG, texts);
    mirror.close();
    const at = readFileSync(mirror.path).indexOf('"id":"r150"');
    const file = openSync(mirror.path, 'r+');
    writeSync(file, Buffer.alloc(8192, 0x5a), 0, 8192, Math.floor(at / 8192) * 8192);
    closeSync(file);
    const { problems, checked } = await verify(mirror.path);
    expect(problems.some(({ kind }) => kind === 'index')).toBe(true);
    expect(checked.runs).toBe(1);
  });

  it('reports how far it is', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, [role('a', 'A')]);
    const steps: unknown[] = [];
    await verifyMirror(mirror, { onProgress: (progress) => steps.push(progress) });
    expect(steps.at(-1)).toEqual({ records: 1, of: 1 });
  });
});
