import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../../src/catalog/catalog.ts';
import type { Kind } from '../../../src/catalog/kinds.ts';
import { systemClock } from '../../../src/core/clock.ts';
import {
  onePerRecord,
  type RecordPlace,
  readListPage,
  searchFormer,
  searchRecords,
  searchRemoved,
} from '../../../src/daemon/dashboard/record-list.ts';
import { recordPath } from '../../../src/daemon/dashboard/components.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { open, ORG, sync } from '../../mirror/fixture.ts';
import { World } from '../http/world.ts';

/** With a mirror of the kinds that are looked for here. */
async function synced(): Promise<World> {
  const world = await World.create({
    TIDEMARK_KINDS_INCLUDE: 'organizations,members,roles,role_memberships,invites',
  });
  await world.sync();
  return world;
}

const placeIn = (world: World, kind: Kind, source: string | null = null): RecordPlace => ({
  mirror: world.mirror(),
  kind,
  source,
  within: {},
  definitionOf: () => definitionOf(kind),
});

describe('the record browser', () => {
  it('a record that restores created again once: as it is, else as it was removed last', async () => {
    const mirror = open();
    const role = (id: string, name = 'Watch'): string => JSON.stringify({ id, name });
    const recreated = (was: string, now: string): void => {
      const at = '2026-03-01T12:00:01.000Z';
      const n = 1;
      const own = { source: 'production', from: 'latest', approved: {}, planHash: 'a', plan: '{}' };
      const step = { n, outcome: 'planned', inverse: null, errorCode: null, error: null } as const;
      const restore = mirror.restores.begin({ ...own, startedAt: at, steps: [step] });
      const [row] = mirror.restores.steps(restore);
      const mapping = { source: 'production', kind: 'roles', oldScope: ORG, newScope: ORG, at } as const;
      mirror.restores.journal([
        {
          row: { ...row!, outcome: 'applied', newId: now },
          mappings: [{ ...mapping, oldId: was, newId: now, restore }],
        },
      ]);
    };
    const found = async (): Promise<string[]> => {
      const place = {
        mirror,
        kind: 'roles',
        source: null,
        within: {},
        definitionOf: () => definitionOf('roles'),
      };
      const search = { limit: 50, clock: systemClock, mostMs: 10_000, text: 'watch', after: null };
      const { records } = await searchRecords(place as RecordPlace, search);
      const removed = await searchRemoved(place as RecordPlace, search);
      return onePerRecord(mirror, [...records, ...removed]).map(
        ({ id, isRemoved }) => `${id}${isRemoved ? ' removed' : ''}`,
      );
    };
    await sync(mirror, 'roles', ORG, [role('r1'), role('x1')]);
    await sync(mirror, 'roles', ORG, []);
    recreated('r1', 'r2');
    await sync(mirror, 'roles', ORG, [role('r2')]);
    expect(await found()).toEqual(['r2', 'x1 removed']);
    await sync(mirror, 'roles', ORG, []);
    expect(await found()).toEqual(['r2 removed', 'x1 removed']);
    recreated('r2', 'r3');
    await sync(mirror, 'roles', ORG, [role('r3'), role('x2')]);
    expect(await found()).toEqual(['r3', 'x2', 'x1 removed']);
  });

  it('every record once, whatever the size of a page', async () => {
    const world = await synced();
    for (const kind of ['members', 'role_memberships', 'invites'] as const) {
      const place = placeIn(world, kind);
      const all = readListPage(place, null, 1_000);
      expect(all.next).toBeNull();
      expect(all.records).toHaveLength([...world.mirror().records.read({ kinds: [kind] })].length);
      for (const size of [1, 3, 7]) {
        const seen: (number | null)[] = [];
        let after: number | null = null;
        do {
          const page = readListPage(place, after, size);
          seen.push(...page.records.map(({ record }) => record));
          after = page.next;
        } while (after !== null);
        expect(seen).toEqual(all.records.map(({ record }) => record));
      }
    }
  });

  it('leads from a removed record of a search to that of its source, though another source has the same id', async () => {
    const world = await synced();
    await world.sync(undefined, 'other');
    const organization = `/api/organizations/${KITTIWAKE_ID}/`;
    const [id = ''] = await world.ids(`${organization}roles/`);
    await world.send('DELETE', `${organization}roles/${id}/`, undefined);
    await world.sync();
    const place = placeIn(world, 'roles');
    const search = { limit: 50, clock: systemClock, mostMs: 10_000, text: id };
    const [removed, ...others] = await searchRemoved(place, search);
    expect(others).toEqual([]);
    expect(removed).toMatchObject({ id, source: 'default', isRemoved: true });
    const [present] = (await searchRecords(place, { ...search, after: null })).records;
    expect(present).toMatchObject({ id, source: 'other', isRemoved: false });
    const { url } = await world.listen();
    const results = await (await fetch(`${url}/records?q=${id}`)).text();
    const links = [...results.matchAll(/href="(\/records\/roles\/[^"]*)"/g)].map(([, link]) => link ?? '');
    expect(links.toSorted()).toEqual(
      [present, removed].map((each) => recordPath('roles', id, each?.record)).toSorted(),
    );
    const shown = await (await fetch(url + recordPath('roles', id, removed?.record))).text();
    expect(shown).not.toContain('<h1>2 records');
    expect(shown).toContain('removed');
  });

  it('finds by a former name, and says until when a record had it', async () => {
    const world = await synced();
    const organization = `/api/organizations/${KITTIWAKE_ID}/`;
    const [id = '', other = ''] = await world.ids(`${organization}roles/`);
    const rename = async (role: string, name: string): Promise<void> => {
      await world.send('PATCH', `${organization}roles/${role}/`, { name });
      world.clock.at += 60_000;
      await world.sync();
    };
    await rename(id, 'First watch');
    await rename(id, 'Second watch');
    await rename(id, 'Third post');
    await rename(other, 'First watch');
    const place = placeIn(world, 'roles');
    const search = { limit: 50, clock: systemClock, mostMs: 10_000 };
    expect(await searchFormer(place, { ...search, text: 'WATCH' })).toMatchObject([
      { id, name: 'Third post', isRemoved: false, was: { name: 'Second watch', until: 4 } },
    ]);
    expect(await searchFormer(place, { ...search, text: 'Third post' })).toEqual([]);
    const { url } = await world.listen();
    const page = await (await fetch(`${url}/records?q=first+watch`)).text();
    const text = page.replace(/<[^>]*>/g, '');
    expect(text).toMatch(/Third post was First watch until/);
    expect(page).toContain(`/records/roles/${other}`);
    await world.send('DELETE', `${organization}roles/${id}/`, undefined);
    await world.sync();
    const later = { ...place, mirror: world.mirror() };
    expect(await searchFormer(later, { ...search, text: 'second watch' })).toMatchObject([
      { id, name: 'Third post', isRemoved: true, was: { name: 'Second watch', until: 4 } },
    ]);
    expect(await searchFormer(later, { ...search, text: 'third post' })).toEqual([]);
  });

  it('finds by the beginning of an id, by any part of a name, and goes on where it stopped', async () => {
    const world = await synced();
    const place = placeIn(world, 'members', 'default');
    const search = { after: null, limit: 50, clock: systemClock, mostMs: 10_000 };
    const byName = await searchRecords(place, { ...search, text: 'OWEN' });
    expect(byName.records.map(({ name }) => name)).toEqual([expect.stringContaining('owen')]);
    expect(byName.next).toBeNull();
    const [owen] = byName.records;
    const byId = await searchRecords(place, { ...search, text: owen?.id.slice(0, 8) ?? '' });
    expect(byId.records).toEqual([owen]);
    expect(byId.read).toBe(0);
    // A search that had no time goes on until it has seen all.
    const found: string[] = [];
    let after: number | null = null;
    do {
      const part = await searchRecords(place, { ...search, text: 'kittiwake', after, limit: 5 });
      found.push(...part.records.map(({ id }) => id));
      after = part.next;
    } while (after !== null);
    const expected = readListPage(place, null, 1_000).records.filter(({ name }) =>
      name.includes('kittiwake'),
    );
    expect(found).toEqual(expected.map(({ id }) => id));
  });

  it('an invitation, whose id is its secret, is neither shown nor found by it', async () => {
    const world = await synced();
    const place = placeIn(world, 'invites');
    const [secret] = [...world.mirror().records.read({ kinds: ['invites'] })].map(({ id }) => id);
    const { records } = readListPage(place, null, 100);
    expect(records.every(({ id }) => /^\[secret:[0-9a-f]{12}\]$/.test(id))).toBe(true);
    for (const text of [secret ?? '', secret?.slice(0, 6) ?? '']) {
      const found = await searchRecords(place, {
        text,
        after: null,
        limit: 10,
        clock: systemClock,
        mostMs: 10_000,
      });
      expect(found.records).toEqual([]);
    }
    const [first] = records;
    const where = world.mirror().records.locate('invites', first?.record ?? 0);
    expect(where?.source).toBe('default');
    expect(world.mirror().records.locate('invites', 999_999)).toBeUndefined();
  });

  it('a path leads to one record, whatever its id is', () => {
    expect(recordPath('members', 'a/b?c#d', 7)).toBe('/records/members/a%2Fb%3Fc%23d?record=7');
    for (const id of ['.', '..', ''])
      expect(recordPath('members', id, 7)).toBe('/records/members/-?record=7');
    expect(new URL(recordPath('members', '\ud800'), 'http://x').pathname).toBe('/records/members/%EF%BF%BD');
  });
});
