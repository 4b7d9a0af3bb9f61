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
