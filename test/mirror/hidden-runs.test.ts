/** A run whose row another program changed is not the newest of its source: found also where other sources have runs after it. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { open, ORG, sync, temporaryDirectory } from './fixture.ts';
import { alterFile } from '../tools/alter.ts';

const ROLES = ['{"id":"a"}'];

it.each([
  ['altered', `UPDATE runs SET outcome = 'failed', root = NULL WHERE run = 2`],
  ['given to another source', `UPDATE runs SET source = 2 WHERE run = 2`],
  ['deleted', `PRAGMA foreign_keys = OFF; DELETE FROM runs WHERE run = 2`],
])('whose row was %s', async (_how, change) => {
  const path = join(temporaryDirectory(), 'mirror.db');
  const mirror = open({ path });
  const read = async (name: string): Promise<void> => {
    const source = { name, baseUrl: `https://${name}.example.com` };
    await sync(mirror, 'roles', ORG, ROLES, { source });
  };
  await read('retired');
  await read('retired');
  await read('live');
  await read('live');
  expect([mirror.runs.hidden('retired'), mirror.runs.hidden('live')]).toEqual([[], []]);
  mirror.close();
  alterFile(path, change);
  const after = open({ path, mode: 'read' });
  expect(after.runs.hidden('retired')).toEqual([expect.stringContaining('the row of run 2 ')]);
  expect(after.runs.hidden('live')).toEqual([]);
});

const CUT = `DELETE FROM snapshots WHERE name = 'q4'; DELETE FROM audit_log WHERE member = '["q4"]'`;
const HIDE = `UPDATE runs SET (last_entry, last_entry_hash) = (SELECT entry, hash FROM audit_log WHERE member = '["base"]') WHERE run >= 2`;
const DELETE_ROWS = 'DELETE FROM runs WHERE run >= 2';
const DELETE_SEALS = `DELETE FROM row_seals WHERE "set" = 'runs' AND member IN ('[2]', '[3]')`;
const UNLIKE = 'the root hash of run 2 does not match what is stored of the run';
const GONE = 'the row of run 2 is gone: its hash is left';

it.each([
  ['were altered', `${CUT}; ${HIDE}`, UNLIKE],
  ['were altered, though no entry is gone', HIDE, UNLIKE],
  ['say that they had failed', `${CUT}; UPDATE runs SET outcome = 'failed', root = NULL WHERE run >= 2`, ''],
  ['are gone', `${CUT}; ${DELETE_ROWS}`, GONE],
  ['are gone with their hashes', `${CUT}; ${DELETE_ROWS}; ${DELETE_SEALS}`, ''],
])('prove no end of the audit log where rows of runs %s', async (how, change, line) => {
  const path = join(temporaryDirectory(), 'mirror.db');
  const mirror = open({ path });
  await sync(mirror, 'roles', ORG, ROLES);
  mirror.snapshots.pin('base', 1);
  mirror.snapshots.pin('q4', 1);
  for (const _run of [2, 3]) await sync(mirror, 'roles', ORG, ROLES);
  expect(mirror.alteredAuditLog()).toBeNull();
  mirror.close();
  alterFile(path, change);
  const after = open({ path });
  expect(after.alteredAuditLog()).toContain(`may have been cut: ${line}`);
  // A run since seals the entry that it finds.
  if (!how.includes('with their hashes')) {
    await sync(after, 'roles', ORG, ROLES);
    expect(after.alteredAuditLog()).toContain(`may have been cut: ${line}`);
  }
  after.close();
});
