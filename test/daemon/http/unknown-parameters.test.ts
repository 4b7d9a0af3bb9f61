/** A parameter that a page does not know would be taken for one that narrows what it shows. */
import { expect, it } from 'vitest';
import { World } from './world.ts';

it('every page refuses parameters that it does not know, and names those that it knows', async () => {
  const world = await World.create();
  await world.sync();
  const { url } = await world.listen({ token: null });
  const ask = async (path: string): Promise<{ status: number; text: string }> => {
    const response = await fetch(new URL(path, url), { headers: { Accept: 'text/html' } });
    return { status: response.status, text: await response.text() };
  };
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
