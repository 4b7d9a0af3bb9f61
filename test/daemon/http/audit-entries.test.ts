/** The entries of the audit log with the names of their records: what finding them costs. */
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { AuditWalk, findAuditEntries } from '../../../src/daemon/http/audit-entries.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { EMPTY_CONFIG } from '../../config/empty-config.ts';
import { open, ORG, sync } from '../../mirror/fixture.ts';

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
  const { entries } = await findAuditEntries(mirror, EMPTY_CONFIG, ALL);
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
  const { entries, count: found } = await findAuditEntries(mirror, EMPTY_CONFIG, ALL);
  isOver = true;
  expect(entries).toHaveLength(400);
  expect(found).toBe(400);
  expect(turns).toBeGreaterThan(4);
});

it('walks more entries than a page has, each once, and says which were altered', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"Readers"}']);
  accept(mirror, 1101);
  const walk = new AuditWalk(mirror, EMPTY_CONFIG, ALL);
  const numbers = (): number[] => [...walk].map(({ entry }) => entry);
  const all = Array.from({ length: 1101 }, (_, index) => 1101 - index);
  expect(numbers()).toEqual(all);
  expect(walk).toMatchObject({ count: 1101, of: 1101, altered: [], damage: null });
  const file = new Database(mirror.path);
  // The first of all, and beside the ends of pages.
  const altered = [1101, 602, 601, 102, 101, 1];
  for (const entry of altered)
    file.prepare(`UPDATE audit_log SET "by" = 'innocent' WHERE entry = ?`).run(entry);
  file.prepare(`DELETE FROM audit_log WHERE entry = 800`).run();
  file.close();
  expect(numbers()).toEqual(all.filter((entry) => entry !== 800));
  expect(walk).toMatchObject({ count: 1100, of: 1100 });
  expect(walk.altered.toSorted((a, b) => a - b)).toEqual([...altered, 801].sort((a, b) => a - b));
});

it('leaves out what is written during a walk', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"Readers"}']);
  accept(mirror, 600);
  const walk = new AuditWalk(mirror, EMPTY_CONFIG, ALL);
  const numbers: number[] = [];
  for (const { entry } of walk) {
    if (numbers.push(entry) === 1) mirror.snapshots.pin('meanwhile', 1);
  }
  expect(numbers).toHaveLength(600);
  expect(Math.max(...numbers)).toBe(600);
  expect([...walk]).toHaveLength(601);
});

it('leaves out of all later walks what was written after its survey', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1","name":"Readers"}']);
  accept(mirror, 600);
  const walk = new AuditWalk(mirror, EMPTY_CONFIG, ALL);
  expect(walk.survey()).toMatchObject({ count: 600, of: 600, sources: new Set(['production']) });
  mirror.snapshots.pin('meanwhile', 1);
  expect([...walk]).toHaveLength(600);
  expect(walk).toMatchObject({ count: 600, of: 600 });
  expect(walk.survey()).toMatchObject({ count: 601, of: 601 });
});
