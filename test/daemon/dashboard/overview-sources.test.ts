/** The first page where one mirror has several sources. */
import { expect, it } from 'vitest';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { FULL_KEY, sourcesFile, World } from '../http/world.ts';

const ORGANIZATION = `/api/organizations/${KITTIWAKE_ID}/`;

it('lists the most severe drift of all sources first, with the source that it is of', async () => {
  const config = sourcesFile({
    alpha: 'include: [organizations, roles]',
    beta: 'include: [organizations]',
  });
  const world = await World.create({ TIDEMARK_CONFIG: config });
  await world.sync(FULL_KEY, 'alpha');
  const run = await world.sync(FULL_KEY, 'beta');
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', run);
    mirror.snapshots.setBaseline('as-approved');
  });
  for (let n = 0; n < 6; n += 1)
    await world.send('POST', `${ORGANIZATION}roles/`, { name: `Night watch ${n}` });
  await world.sync(FULL_KEY, 'alpha');
  await world.send('PATCH', ORGANIZATION, { enforce_2fa: false });
  await world.sync(FULL_KEY, 'beta');
  const { url } = await world.listen({});
  const html = await (await fetch(`${url}/`, { headers: { accept: 'text/html' } })).text();
  const articles = [...html.matchAll(/<article class="record is-(\w+)">.*?<\/article>/gs)];
  expect(articles.map(([, severity]) => severity)).toEqual(['critical', ...Array<string>(4).fill('medium')]);
  expect(articles[0]?.[0]).toContain('/enforce_2fa');
  expect(articles[0]?.[0]).toContain('in source beta');
  expect(articles[1]?.[0]).toMatch(/in organization .*, source alpha/);
});
