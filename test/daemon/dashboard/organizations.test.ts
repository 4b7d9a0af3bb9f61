/** Organizations as a tree: what is wrong comes first, and each kind leads to its records. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { smallDemo } from '../../server/small-demo.ts';
import { tellStory } from '../http/story.ts';
import { DAY_MS, NARROW_KEY, World } from '../http/world.ts';

const ends: (() => Promise<void>)[] = [];
let world: World;
let url: string;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  world = await World.create({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '5' }, later, smallDemo);
  await tellStory(world);
  ({ url } = await world.listen({}, later));
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function page(path: string): Promise<string> {
  return (await fetch(url + path, { headers: { accept: 'text/html' } })).text();
}

function text(html: string): string {
  return html
    .replace(/<style>.*?<\/style>|<script>.*?<\/script>|<header class="bar">.*?<\/header>/gs, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
}

/** Links to single organizations, in their order. */
function organizations(html: string): string[] {
  return [...html.matchAll(/href="\/organizations\/([^"?]+)\?/g)].map(([, id = '']) => id);
}

describe('all organizations', () => {
  it('are listed with drift, state, age and counts, worst first', async () => {
    const html = await page('/organizations');
    const all = [...world.mirror().records.keys({ kinds: ['organizations'] })].map(({ id }) => id);
    const shown = organizations(html);
    expect(shown.toSorted()).toEqual(all.toSorted());
    // The careless admin was there.
    expect(shown[0]).toBe(KITTIWAKE_ID);
    expect(text(html)).toMatch(/Kittiwake\S* .*?complete .*? critical \d+ /);
    expect(text(html)).toContain('1 with drift or problems, worst first.');
  });

  it('what is not read any more, and what is old, is wrong as well', async () => {
    const before = world.clock.at;
    world.clock.at += 40 * DAY_MS;
    expect(text(await page('/organizations'))).toContain(' old ');
    await world.sync(NARROW_KEY);
    expect(text(await page('/organizations'))).toMatch(/\d+ of \d+ not updated/);
    expect(text(await page(`/organizations/${KITTIWAKE_ID}`))).toContain('denied');
    await world.sync();
    world.clock.at = before;
  });

  it('pages beyond the last are empty, and nonsense is the first', async () => {
    expect(organizations(await page('/organizations?page=7'))).toEqual([]);
    expect(organizations(await page('/organizations?page=-1'))).not.toEqual([]);
  });
});

describe('one organization', () => {
  it('has its kinds, its projects, and a link to the records of each', async () => {
    const html = await page(`/organizations/${KITTIWAKE_ID}`);
    const roles = `/records?kind=roles&amp;organization=${KITTIWAKE_ID}`;
    expect(html).toContain(`href="${roles}"`);
    const [project] = [
      ...world.mirror().records.keys({ kinds: ['projects'], organizations: [KITTIWAKE_ID] }),
    ];
    expect(html).toContain(`/records?kind=session_recordings&amp;project=${project?.id ?? ''}`);
    expect(html).toContain('<details class="branch"');
    const within = await page(roles.replaceAll('&amp;', '&'));
    const own = [...world.mirror().records.keys({ kinds: ['roles'], organizations: [KITTIWAKE_ID] })].length;
    expect([...within.matchAll(/href="\/records\/roles\//g)]).toHaveLength(own);
    expect(text(within)).toContain('Only those of organization');
  });

  it('has as many findings in its tables as it says in all, its own settings among them', async () => {
    const html = await page(`/organizations/${KITTIWAKE_ID}`);
    const [, all] = /href="\/drift">(\d+) findings</.exec(html) ?? [];
    const counts = [...html.matchAll(/<td[^>]*data-label="Drift">(\d+) findings?, up to /g)];
    expect(html).toContain(`<a href="/records/organizations/${KITTIWAKE_ID}">Settings</a>`);
    expect(counts.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(Number(all));
  });

  it('that there is not is not found', async () => {
    const answer = await fetch(`${url}/organizations/none`, { headers: { accept: 'text/html' } });
    expect([answer.status, text(await answer.text()).includes('Organization not found')]).toEqual([
      404,
      true,
    ]);
  });
});

it('a kind is listed by name where one page holds all its records, else by id, which it says', async () => {
  const records = (html: string, kind: string): [id: string, name: string][] =>
    [...html.matchAll(new RegExp(`href="/records/${kind}/([^"]+)">(.*?)</a>`, 'g'))].map(
      ([, id = '', name = '']) => [id, text(name).trim()],
    );
  const roles = await page('/records?kind=roles');
  const names = records(roles, 'roles').map(([, name]) => name);
  expect(names.length).toBeGreaterThan(2);
  expect(names).toEqual(names.toSorted(new Intl.Collator('en').compare));
  expect(roles).not.toContain('Sorted by id');
  expect(roles).toMatch(/<th[^>]*>Name<\/th><th[^>]*>Id</);

  const first = await page('/records?kind=role_memberships');
  expect(first).toContain('Sorted by id, as the list has more than one page.');
  const [, next = ''] = /rel="next" href="([^"]+)"/.exec(first) ?? [];
  const later = await page(next.replaceAll('&amp;', '&'));
  expect(later).toContain('Sorted by id');
  expect(records(later, 'role_memberships')[0]).not.toEqual(records(first, 'role_memberships')[0]);
});
