/** The page of a record whose removal is held. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { World } from '../http/world.ts';

const ROLES = `/api/organizations/${KITTIWAKE_ID}/roles/`;

const ends: (() => Promise<void>)[] = [];
let world: World;
let url: string;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  const limits = { TIDEMARK_REMOVALS_MAX_RECORDS: '0', TIDEMARK_REMOVALS_MAX_SHARE: '0' };
  world = await World.create(
    { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing', ...limits },
    later,
  );
  await world.send('POST', ROLES, { name: 'Night watch' });
  await world.sync();
  ({ url } = await world.listen({}, later));
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

it('says that it is missing, and since which run', async () => {
  const [role] = [...world.mirror().records.read({ kinds: ['roles'] })].filter(({ body }) =>
    body.includes('Night watch'),
  );
  const page = async (): Promise<string> =>
    (await fetch(`${url}/records/roles/${role?.id ?? ''}`, { headers: { accept: 'text/html' } })).text();
  const before = await page();
  expect(before).toContain('current values');
  expect(before).not.toContain('removal is held');
  await world.send('DELETE', `${ROLES}${role?.id ?? ''}/`, undefined);
  await world.sync(undefined, undefined, 0);
  const held = await page();
  expect(held).toContain('<strong class="removed">missing since run 2</strong>, its removal is held');
  expect(held).toContain('as last seen');
});
