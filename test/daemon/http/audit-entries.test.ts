/** The entries of the audit log with the names of their records: what finding them costs. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { findAuditEntries } from '../../../src/daemon/http/audit-entries.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { open, ORG, sync } from '../../mirror/fixture.ts';

const CONFIG = { configured: [] } as unknown as Config;
const ALL = { period: { since: { at: '' }, until: { at: '9999' }, notes: [] } };

function accept(mirror: Mirror, count: number): void {
  for (let at = 0; at < count; at += 1) {
    mirror.acceptances.add({
      ...{ source: 'production', kind: 'roles', scope: ORG, id: 'r1', path: `/${at}`, fingerprint: `f${at}` },
      ...{ reason: 'intended', acceptedAt: '2026-03-01T12:00:00.000Z' },
    });
  }
}

it('reads of thousands of collections only that of the record', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"Readers"}']);
  await sync(mirror, 'roles', { organization_id: 'o2' }, ['{"id":"r2","name":"Writers"}']);
  accept(mirror, 1);
  // What reads this row fails.
  const file = new Database(mirror.path);
  const damaged = file.prepare(`UPDATE collections SET kind = 'no_kind' WHERE scope LIKE '%o2%'`).run();
  file.close();
  expect(damaged.changes).toBe(1);
  expect(() => [...mirror.records.read({ kinds: ['roles'] })]).toThrow('no_kind');
  const { entries } = await findAuditEntries(mirror, CONFIG, ALL);
  expect(entries).toMatchObject([{ action: 'accept', recordName: 'Readers', damage: null }]);
});

it('lets other work continue while many entries are looked up', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"Readers"}']);
  accept(mirror, 400);
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const { entries, count: found } = await findAuditEntries(mirror, CONFIG, ALL);
  isOver = true;
  expect(entries).toHaveLength(400);
  expect(found).toBe(400);
  expect(turns).toBeGreaterThan(4);
});
