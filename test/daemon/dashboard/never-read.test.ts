/** Kinds that no run read, as the configuration left them out until now: no page calls them complete or empty. */
import { expect, it } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { onlyMirrorConfig } from '../../../src/config/mirrors.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { scratch } from '../../journeys/harness.ts';
import { FULL_KEY, NARROW_KEY, sourcesFile, World } from '../http/world.ts';

/** The text of pages of a mirror whose first source was read without these kinds. */
async function pages(isExcluded: boolean, ...more: string[]): Promise<(path: string) => Promise<string>> {
  const { url } = await served(isExcluded, ...more);
  return pageOf(url);
}

function pageOf(url: string): (path: string) => Promise<string> {
  return async (path) => {
    const html = await (await fetch(url + path, { headers: { accept: 'text/html' } })).text();
    return html
      .replace(/<style>.*?<\/style>|<script>.*?<\/script>|<header class="bar">.*?<\/header>/gs, '')
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ');
  };
}

/** The configuration has `more` as well, of which nothing was read. */
async function served(isExcluded: boolean, ...more: string[]): Promise<{ readonly url: string }> {
  const others = Object.fromEntries(['beta', ...more].map((name) => [name, 'exclude: []']));
  const config = sourcesFile({ alpha: 'exclude: [roles, invites]', ...others });
  const world = await World.create({ TIDEMARK_CONFIG: config });
  await world.sync(FULL_KEY, 'alpha');
  const run = await world.sync(FULL_KEY, 'beta');
  world.write((mirror) => {
    mirror.snapshots.pin('as-approved', run);
    mirror.snapshots.setBaseline('as-approved');
  });
  if (!isExcluded) {
    sourcesFile({ alpha: 'exclude: []', ...others }, config);
    const env = { TIDEMARK_CONFIG: config, SERVICE_URL: world.url, TIDEMARK_API_KEY: FULL_KEY };
    const now = { ...env, TIDEMARK_MIRROR: world.mirrorPath };
    const changed = onlyMirrorConfig(loadConfig({ env: now, cwd: scratch(), keys: 'required' }));
    world.config = () => changed;
  }
  return await world.listen({});
}

it('a kind that is configured now is not read yet, and its organizations are not complete', async () => {
  const page = await pages(false);
  const all = await page('/organizations');
  expect(all).not.toContain('All are well');
  expect(all).toMatch(/alpha +\d+ of \d+ incomplete/);
  const one = await page(`/organizations/${KITTIWAKE_ID}?source=alpha`);
  expect(one).toMatch(/State +\d+ of \d+ incomplete/);
  expect(one).toMatch(/Roles +not read yet/);
  expect(one).toMatch(/roles, role memberships, invites +: no run up to run 1 read it/);
  expect(await page(`/organizations/${KITTIWAKE_ID}?source=beta`)).toMatch(/State +complete/);

  const records = await page('/records?kind=roles&source=alpha');
  expect(records).toContain('Roles of alpha: not read yet.');
  expect(records).not.toMatch(/0 records|No records of this kind\./);
  expect(await page('/records?q=no-such-name')).toMatch(
    /Roles, role memberships, invites of alpha: not read yet\.[^]*Nothing found in what was read\./,
  );
  expect(await page('/records?q=no-such-name&source=beta')).toContain('Nothing found.');

  for (const path of ['/drift', '/'])
    expect(await page(path)).toMatch(
      /Left out: roles, role memberships, invites: no run up to run \d+ read it/,
    );
});

it('a kind that is still excluded is shown as excluded', async () => {
  const page = await pages(true);
  const one = await page(`/organizations/${KITTIWAKE_ID}?source=alpha`);
  expect(one).toMatch(/Roles +excluded/);
  expect(one).toContain(': the configuration excludes the kind');
  const records = await page('/records?kind=roles&source=alpha');
  expect(records).toContain('Roles of alpha: excluded by the configuration.');
  expect(records).not.toMatch(/0 records|No records of this kind\./);
  expect(await page('/drift')).toMatch(
    /Left out: roles, role memberships, invites: the configuration excludes the kind/,
  );
  const drift = await page('/drift?source=alpha&kind=roles');
  expect(drift).toContain('Roles: not compared.');
  expect(drift).not.toContain('No drift as of');
  expect(await page('/drift?source=beta&kind=roles')).toContain('No drift as of');
  expect(await page('/records/roles/no-such-id?source=alpha')).toContain(
    'Record not found. Roles of alpha: excluded by the configuration',
  );
  expect(await page('/records/roles/no-such-id?source=beta')).not.toContain('excluded');
  expect(await page(`/records/organizations/${KITTIWAKE_ID}`)).toContain('2 records with this id');
  expect(await page(`/records/organizations/${KITTIWAKE_ID}?source=beta`)).not.toContain('2 records');
});

it('a list that every run was denied is not empty, and what is read in turns is not complete', async () => {
  const config = sourcesFile({ alpha: 'exclude: []', beta: 'exclude: []' });
  const world = await World.create({ TIDEMARK_CONFIG: config });
  await world.sync(NARROW_KEY, 'alpha');
  await world.sync(FULL_KEY, 'beta');
  const { url } = await world.listen({});
  const page = pageOf(url);
  const alpha = await page('/records?source=alpha');
  expect(alpha).toMatch(/Batch exports +not read: denied +[A-Z]/);
  expect(alpha).not.toMatch(/ 0 /);
  expect(await page('/records')).toMatch(/Batch exports +alpha: not read: denied +\d/);
  const denied = await page('/records?kind=batch_exports&source=alpha');
  expect(denied).toMatch(
    /Batch exports of alpha: not read: denied: .*No records +of this kind in what was read\./,
  );
  expect(denied).not.toContain('0 records');
  expect(await page('/records?kind=recording_sharing&source=alpha')).toContain(
    'Session recordings of alpha: not read: denied',
  );
  expect(await page('/records?q=no-such-name&source=alpha')).toMatch(
    /Batch exports, .*of alpha: not read: denied\.[^]*Nothing found in what was read\./,
  );
  expect(await page('/records/batch_exports/no-such-id?source=alpha')).toMatch(
    /Record not found\. Batch exports of alpha: not read: denied: /,
  );
  expect(await page('/records/batch_exports/no-such-id?source=beta')).not.toContain('not read');
  const changes = await (await fetch(`${url}/api/v1/changes`)).json();
  expect(changes).toMatchObject({ runs: [{ summary: null, changes: null }, { summary: null }] });
  expect(await page('/changes?kind=batch_exports')).toContain('of alpha: no records of this kind were read.');

  const beta = await page('/records?source=beta');
  expect(beta).toMatch(/Recording sharings +5 of 20 read so far +5/);
  const mirror = world.mirror();
  const read = new Set(
    [...mirror.records.keys({ sources: ['beta'], kinds: ['recording_sharing'] })].map(({ id }) => id),
  );
  const [waits] = [...mirror.records.keys({ sources: ['beta'], kinds: ['session_recordings'] })].filter(
    ({ id }) => !read.has(id),
  );
  expect(await page(`/records/recording_sharing/${waits?.id ?? ''}?source=beta`)).toContain(
    'Record not read yet. Recording sharings of beta: 5 of 20 read so far',
  );
});

it('samples of several sources are counted together', async () => {
  expect((await (await pages(true))('/')).match(/recording sharings sampled \([^)]*\)/g)).toEqual([
    'recording sharings sampled (10 of 40)',
  ]);
});

it('a source that was never read is named by each page, and is nowhere well', async () => {
  const page = await pages(true, 'gamma');
  const never = /Nothing of gamma was read yet: tidemark sync --source gamma reads it/;
  for (const path of ['/drift', '/drift?source=gamma', '/organizations'])
    expect(await page(path), path).toMatch(never);
  expect(await page('/drift?source=beta')).not.toMatch(never);
  expect(await page('/organizations')).not.toContain('All are well');
});

it('/api/v1 names it, and answers with the source that was asked for', async () => {
  const { url } = await served(true, 'gamma');
  const answer = async (path: string): Promise<unknown> => await (await fetch(`${url}/api/v1${path}`)).json();
  const message = 'the mirror holds no published run of source gamma yet';
  expect(await answer('/drift?source=gamma')).toMatchObject({
    error: { code: 'not_found', message, hint: 'run `tidemark sync --source gamma` first' },
  });
  expect(await answer('/drift')).toMatchObject({
    documents: [{ source: 'alpha' }, { source: 'beta' }],
    errors: [{ source: 'gamma', code: 'not_found', message }],
  });
  for (const source of ['alpha', 'gamma'])
    expect(await answer(`/status?source=${source}`)).toMatchObject({ sources: [{ source }] });
  expect(await answer('/status?source=delta')).toMatchObject({ error: { code: 'reference_unknown' } });
});
