/** A parameter that a page does not know would be taken for one that narrows what it shows. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

async function listening(): Promise<(path: string) => Promise<{ status: number; text: string }>> {
  const world = await World.create();
  await world.sync();
  const { url } = await world.listen({ token: null });
  return async (path) => {
    const response = await fetch(new URL(path, url), { headers: { Accept: 'text/html' } });
    return { status: response.status, text: await response.text() };
  };
}

it('every page refuses parameters that it does not know, and names those that it knows', async () => {
  const ask = await listening();
  const paths = ['/', '/drift', '/restore', '/restores', '/audit', '/organizations', '/drill', '/changes'];
  for (const path of [...paths, '/runs', '/runs/1', '/records', '/records/roles/r1']) {
    const { status, text } = await ask(`${path}?onyl=zzz`);
    expect([path, status]).toEqual([path, 400]);
    expect(text, path).toMatch(/there is no parameter/i);
    expect(text, path).toContain('onyl');
    expect(text, path).toMatch(/parameters are /i);
  }
  for (const path of [
    '/changes?days=7&days=30',
    '/records?q=a&q=b',
    '/audit?since=7d&since=1d',
    '/changes?kind=roles&kind=members',
    '/runs?source=default&source=default',
  ]) {
    const { status, text } = await ask(path);
    expect([path, status]).toEqual([path, 400]);
    expect(text, path).toMatch(/is given more than once/i);
  }
  for (const path of paths) expect([path, (await ask(path)).status]).toEqual([path, 200]);
});

it('the API refuses a parameter without a value by name; the forms of pages send empty fields', async () => {
  const ask = await listening();
  for (const [path, name] of [
    ['changes?kind=', 'kind'],
    ['changes?kind=roles&kind=', 'kind'],
    ['changes?kind=,', 'kind'],
    ['changes?from=&to=', 'from'],
    ['changes?limit=', 'limit'],
    ['runs?source=', 'source'],
    ['runs?before=', 'before'],
    ['jobs?name=', 'name'],
    ['status?source=', 'source'],
    ['drift?source=', 'source'],
  ] as const) {
    const { status, text } = await ask(`/api/v1/${path}`);
    expect([path, status]).toEqual([path, 400]);
    expect(JSON.parse(text)).toMatchObject({ error: { code: 'usage', message: `${name} is empty` } });
  }
  for (const path of ['changes?kind=roles,', 'runs?limit=5', 'drift'])
    expect([path, (await ask(`/api/v1/${path}`)).status]).not.toEqual([path, 400]);
  for (const path of ['/changes?days=7&kind=', '/drift?q=&kind=', '/audit?since=&until=', '/records?q='])
    expect([path, (await ask(path)).status]).toEqual([path, 200]);
});
