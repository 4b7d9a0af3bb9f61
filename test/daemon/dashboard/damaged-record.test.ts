/** A record whose stored body is not what was stored: no page shows it. */
import { expect, it } from 'vitest';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { DAY_MS, FULL_KEY, World } from '../http/world.ts';
import { alterRow } from '../../tools/alter.ts';

const PATH = `/api/organizations/${KITTIWAKE_ID}/`;
const KINDS = { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' };

async function roleIds(world: World): Promise<string[]> {
  await world.sync();
  return [...world.mirror().records.read({ kinds: ['roles'] })].map(({ id }) => id);
}

it('is refused on its page, in a comparison, and as a plan, with the code', async () => {
  const world = await World.create(KINDS);
  const [id = '', other = ''] = await roleIds(world);
  world.clock.at += DAY_MS;
  await world.send('PATCH', `${PATH}roles/${id}/`, { name: 'Night' });
  await world.sync();
  const { url } = await world.listen();
  const page = async (path: string): Promise<{ status: number; text: string }> => {
    const answer = await fetch(url + path, { headers: { accept: 'text/html' } });
    return { status: answer.status, text: await answer.text() };
  };
  const whole = await page(`/records/roles/${id}`);
  expect(whole.text).toContain('Night');
  const number = /name="record" value="(\d+)"/.exec(whole.text)?.[1] ?? '';
  alterRow(
    world.mirrorPath,
    `UPDATE records SET body = replace(body, '"Night"', '"Forged"') WHERE remote_id = ?`,
    id,
  );
  const paths = [
    `/records/roles/${id}`,
    `/records/roles/${id}?record=${number}`,
    `/records/roles/${id}?left=run:1&right=run:2`,
    `/records/roles/${id}?left=run:1&right=run:1`,
    `/restore?version=run:1&kind=roles&of=${number}`,
  ];
  for (const path of paths) {
    const { status, text } = await page(path);
    expect(status, path).toBe(503);
    expect(text, path).toContain('<h1>The mirror is damaged</h1>');
    expect(text, path).toContain('mirror_corrupt');
    expect(text, path).toContain('the stored content of 1 record does not match its hash: role');
    expect(text, path).toContain('<code>tidemark verify</code>');
    // Nothing that belongs to a record's page.
    expect(text, path).not.toMatch(/id="(fields|versions|history|body)"/);
  }
  expect((await page(`/records/roles/${other}`)).status).toBe(200);
  // A list only names it.
  expect((await page('/records?kind=roles')).status).toBe(200);
});

it('is refused where it was deleted, on the pages of changes that would not have it', async () => {
  const world = await World.create(KINDS);
  const [id = ''] = await roleIds(world);
  world.clock.at += DAY_MS;
  await world.send('PATCH', `${PATH}roles/${id}/`, { name: 'Night' });
  await world.sync();
  const { url } = await world.listen();
  const paths = ['/changes', '/changes?kind=roles', '/runs/2', '/api/v1/changes', '/api/v1/runs/2'];
  const asked = async (path: string): Promise<string> => {
    const answer = await fetch(url + path, { headers: { accept: 'text/html' } });
    return `${answer.status} ${await answer.text()}`;
  };
  for (const path of paths) expect(await asked(path), path).toMatch(/^200 [^]*Night/);
  alterRow(world.mirrorPath, 'DELETE FROM records WHERE remote_id = ?', id);
  for (const path of paths)
    expect(await asked(path), path).toMatch(/^503 [^]*\d+ records of roles are counted, \d+ could be read/);
  expect(await asked('/changes?kind=domains')).toMatch(/^200 /);
});

it('is refused also where it is not JSON; what lies in it is shown, without its name', async () => {
  const world = await World.create(KINDS);
  const [id = ''] = await roleIds(world);
  const { url } = await world.listen();
  const page = (path: string): Promise<Response> => fetch(url + path, { headers: { accept: 'text/html' } });
  expect(await (await page(`/records/roles/${id}`)).text()).toContain('organization Kittiwake');
  alterRow(
    world.mirrorPath,
    `UPDATE records SET body = substr(body, 2) WHERE remote_id = ? AND body LIKE '%"slug"%'`,
    KITTIWAKE_ID,
  );
  const answer = await page(`/records/organizations/${KITTIWAKE_ID}`);
  expect(answer.status).toBe(503);
  expect(await answer.text()).toContain('does not match its hash: organization<');
  const below = await page(`/records/roles/${id}`);
  expect(below.status).toBe(200);
  expect(await below.text()).toContain(`organization ${KITTIWAKE_ID}`);
});

it('is named without the key of the configuration that it holds, on pages, by the API and as a reason', async () => {
  const world = await World.create(KINDS);
  const [id = ''] = await roleIds(world);
  world.write((mirror) => {
    mirror.snapshots.pin('base', 1);
    mirror.snapshots.setBaseline('base');
  });
  world.clock.at += DAY_MS;
  await world.send('PATCH', `${PATH}roles/${id}/`, { name: `Night ${FULL_KEY}` });
  await world.sync();
  const { url } = await world.listen();
  alterRow(
    world.mirrorPath,
    `UPDATE records SET body = replace(body, '"Night', '"Forged') WHERE remote_id = ?`,
    id,
  );
  for (const path of [`/records/roles/${id}`, '/api/v1/drift', '/drift', '/', '/readyz', '/api/v1/changes']) {
    const accept = path.startsWith('/api') || path === '/readyz' ? 'application/json' : 'text/html';
    const text = await (await fetch(url + path, { headers: { accept } })).text();
    const shown = text.split('\n').filter((line) => line.includes(FULL_KEY));
    expect(shown, path).toEqual([]);
    if (path.startsWith('/records'))
      expect(text).toContain('does not match its hash: role &quot;Forged [secret]&quot;');
  }
});
