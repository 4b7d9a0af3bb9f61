/** A record whose removal is held: its page, and where it is listed. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { selectionOf } from '../../../src/daemon/dashboard/restore-selection.ts';
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
  const run = await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', run);
    mirror.snapshots.setBaseline('as-approved');
  });
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

/** A page without its marks. */
const wordsAt = async (path: string): Promise<string> => {
  const html = await (await fetch(`${url}${path}`, { headers: { accept: 'text/html' } })).text();
  return html
    .replace(/<style>.*?<\/style>|<script>.*?<\/script>/gs, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ');
};

it.each(['/', '/drift'])('is not called no drift on %s', async (path) => {
  const shown = await wordsAt(path);
  expect(shown).toContain('No other drift');
  expect(shown).not.toMatch(/No drift/);
});

it.each(['/', '/drift'])(
  'is listed on %s, with a link to its page, where its restore is planned',
  async (path) => {
    const html = await (await fetch(`${url}${path}`, { headers: { accept: 'text/html' } })).text();
    const [link = ''] = /\/records\/roles\/[^"]*\?record=\d+/.exec(html) ?? [];
    expect(await wordsAt(path)).toMatch(
      /Missing, removal held .*Night watch Role .* missing since run 2 , held/,
    );
    const page = await (await fetch(`${url}${link}`, { headers: { accept: 'text/html' } })).text();
    const [, plan = ''] = /href="([^"]*)">Plan: restore this version/.exec(page) ?? [];
    const planned = await wordsAt(plan.replaceAll('&amp;', '&'));
    expect(planned).toContain('The service no longer shows the record.');
    expect(planned).toContain(
      'blocked role Night watch : the API does not document which fields are writable',
    );
  },
);

it('is not offered for a plan of several where the profile cannot create it', async () => {
  expect(await wordsAt('/drift')).not.toContain('Plan a restore of the selected records');
  expect(await wordsAt('/restore?source=default&held=1&record=none')).toContain('Nothing is selected.');
  // One that can be created is.
  const [domain] = [...world.mirror().records.read({ kinds: ['domains'] })];
  await world.send(
    'DELETE',
    `/api/organizations/${domain?.scope.organization_id ?? ''}/domains/${domain?.id ?? ''}/`,
    undefined,
  );
  await world.sync(undefined, undefined, 0);
  const html = await (await fetch(`${url}/drift`, { headers: { accept: 'text/html' } })).text();
  const [, value = ''] = /name="record" form="held-default" value="([^"]*)"/.exec(html) ?? [];
  const query = new URLSearchParams({ source: 'default', held: '1', record: value });
  const plan = await wordsAt(`/restore?${query.toString()}`);
  expect(plan).toMatch(/This plan has 1 of the 2 records that the service no longer shows.* create domain /);
  expect(plan).toMatch(/tidemark restore latest --source default --kind domains --id \S+/);
});

it('is planned as the restore will plan it: a member comes back by an invite only', async () => {
  const [member] = [...world.mirror().records.read({ kinds: ['members'] })].filter(
    ({ scope, body }) => scope.organization_id === KITTIWAKE_ID && !body.includes('"level":15'),
  );
  const id = member?.id ?? '';
  const [row] = world.mirror().records.find('members', id, { sources: ['default'] });
  await world.send('DELETE', `/api/organizations/${KITTIWAKE_ID}/members/${id}/`, undefined);
  await world.sync(undefined, undefined, 0);
  const drift = await wordsAt('/drift');
  expect(drift).toContain(
    'tidemark restore --kind members --kind domains --invite-missing plans to restore the others, members by invites.',
  );
  const record = selectionOf({ kind: 'members', scope: member?.scope ?? {}, id });
  const query = new URLSearchParams({ source: 'default', held: '1', record });
  const why = 'members cannot be created: invite the person, who comes back by accepting';
  for (const path of [
    `/restore?${query.toString()}`,
    `/restore?version=run:1&kind=members&of=${row?.record ?? 0}`,
  ]) {
    const plan = await wordsAt(path);
    expect(plan).toMatch(new RegExp(`manual member .* : ${why}; --invite-missing sends the invite`));
    expect(plan).toMatch(/tidemark restore (latest|run:1) .* --id \S+ --invite-missing --apply/);
    expect(plan).not.toMatch(/creates it again|\+ create/);
  }
});

it('says where all are planned if not all are listed, and folds a command with many ids', async () => {
  const domains = `/api/organizations/${KITTIWAKE_ID}/domains/`;
  const names = Array.from({ length: 205 }, (_, n) => `many${n}.example`);
  for (const domain of names) await world.send('POST', domains, { domain });
  await world.sync();
  const made = [...world.mirror().records.read({ kinds: ['domains'] })].filter(({ body }) =>
    /"many\d+\.example"/.test(body),
  );
  for (const { id } of made) await world.send('DELETE', `${domains}${id}/`, undefined);
  await world.sync(undefined, undefined, 0);
  const html = await (await fetch(`${url}/drift`, { headers: { accept: 'text/html' } })).text();
  const selected = [...html.matchAll(/name="record" form="held-default" value="([^"]*)"/g)].map(
    ([, value]) => value ?? '',
  );
  const held = world.mirror().runs.heldRecords('default').length;
  expect(selected.length).toBeGreaterThan(100);
  const drift = await wordsAt('/drift');
  expect(drift).toContain(`Select all ${selected.length} shown`);
  const [rest = ''] = /and \d+ more.{0,300}/.exec(drift) ?? [];
  expect(rest).toMatch(new RegExp(`^and ${held - 200} more: `));
  expect(rest).toMatch(/tidemark restore .*--source default .*plans to restore (all|the others)/);
  const query = new URLSearchParams({ source: 'default', held: '1' });
  for (const value of selected) query.append('record', value);
  const plan = await wordsAt(`/restore?${query.toString()}`);
  expect(plan).toContain(
    `This plan has ${selected.length} of the ${held} records that the service no longer shows`,
  );
  expect(plan).toContain(`The command, with ${selected.length} ids`);
});
