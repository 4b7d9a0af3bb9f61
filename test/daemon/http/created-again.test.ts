/** A record that a restore created again is one change: in documents, on pages, in the chart. */
import { expect, it } from 'vitest';
import type { ChangeCounts } from '../../../src/mirror/change-counts.ts';
import { DayCounts } from '../../../src/daemon/http/changes.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { DAY_MS, World } from './world.ts';

interface ChangesJson {
  readonly summary: ChangeCounts;
  readonly changes: readonly { kind: string; id: string; change: string; created_again?: object }[];
}

/** Writes a restore that gave a role another id. */
function createdAgain(world: World, old: string, id: string): void {
  world.write((mirror) => {
    const at = '2026-03-02T07:00:00.000Z';
    const place = { source: 'default', kind: 'roles' as const };
    const scope = { organization_id: KITTIWAKE_ID };
    const start = { planHash: 'abc', plan: '{}', from: 'latest', approved: {}, startedAt: at };
    const step = { n: 1, outcome: 'planned' as const, inverse: null, errorCode: null, error: null };
    const restore = mirror.restores.begin({ source: 'default', ...start, steps: [step] });
    const [row] = mirror.restores.steps(restore);
    const mapping = { ...place, oldScope: scope, oldId: old, newScope: scope, newId: id, restore, at };
    mirror.restores.journal([{ row: { ...row!, outcome: 'applied', newId: id }, mappings: [mapping] }]);
  });
}

it('a record that was created again is one change, as long as the mirror knows of it', async () => {
  const world = await World.create();
  const path = `/api/organizations/${KITTIWAKE_ID}/roles/`;
  const named = (name: string): string =>
    [...world.mirror().records.read({ kinds: ['roles'] })].find(({ body }) => body.includes(`"${name}"`))
      ?.id ?? '';
  await world.send('POST', path, { name: 'Lost' });
  await world.sync();
  const old = named('Lost');
  world.clock.at += DAY_MS;
  await world.send('DELETE', `${path}${old}/`, undefined);
  await world.send('POST', path, { name: 'Lost' });
  await world.sync();
  const id = named('Lost');
  expect(id).not.toBe(old);
  const { url } = await world.listen();
  const json = async <T>(at: string): Promise<T> => (await (await fetch(url + at)).json()) as T;
  const text = async (at: string): Promise<string> => (await fetch(url + at)).text();
  const period = async (): Promise<ChangeCounts> =>
    (await json<ChangesJson>('/api/v1/changes?from=30d&kind=roles')).summary;
  expect(await period()).toEqual({ added: 1, changed: 0, removed: 1 });

  createdAgain(world, old, id);
  for (const turn of ['first', 'from memory'])
    expect(await period(), turn).toEqual({ added: 0, changed: 1, removed: 0 });
  const run = await json<ChangesJson>('/api/v1/runs/2');
  // Recordings' sharing is read in turns.
  expect(run.summary).toMatchObject({ changed: 1, removed: 0 });
  expect(run.changes.filter(({ kind }) => kind === 'roles')).toMatchObject([
    { id, change: 'changed', created_again: { was: old, restore: 1 } },
  ]);
  const [, day] = await new DayCounts().read(world.mirror(), 2, world.clock.now());
  expect(day).toMatchObject({ added: 0, changed: 1, removed: 0 });

  const line = `Created again by restore 1 (ann@here; id ${old} → ${id})`;
  for (const page of ['/runs/2', '/changes', `/records/roles/${id}`, `/records/roles/${old}`])
    expect(await text(page), page).toContain(line);
  expect(await text('/runs/2')).toContain('1 of the added and removed are the same records');
  const page = await text(`/records/roles/${id}`);
  expect(page).not.toContain(' returned</span>');
  // The choice of versions has the word of the history.
  expect(page).toMatch(/<option value="run:2"[^>]*>run 2, [^<]* UTC: changed</);
});

it('the page of a record that was removed and created again later shows what it was, and where it goes on', async () => {
  const world = await World.create();
  const path = `/api/organizations/${KITTIWAKE_ID}/roles/`;
  const idNow = (): string =>
    [...world.mirror().records.read({ kinds: ['roles'] })].find(({ body }) => body.includes('"Lost"'))?.id ??
    '';
  await world.send('POST', path, { name: 'Lost' });
  await world.sync(); // run 2
  const old = idNow();
  world.clock.at += DAY_MS;
  await world.send('DELETE', `${path}${old}/`, undefined);
  await world.sync(); // run 3
  world.clock.at += DAY_MS;
  await world.send('POST', path, { name: 'Lost' });
  await world.sync(); // run 4
  const id = idNow();
  createdAgain(world, old, id);
  const runs = world.mirror().runs.list();
  const { url } = await world.listen();
  const text = async (at: string): Promise<string> => (await fetch(url + at)).text();
  const page = await text(`/records/roles/${old}`);
  const removedBy = runs[1]!.run;
  expect(page).toMatch(new RegExp(`<dt>Removed</dt><dd>[^\\n]*run ${removedBy}</a></dd>`));
  expect(page).toMatch(
    new RegExp(`<dt>Continues as</dt><dd><a class="id" href="/records/roles/${id}">${id}</a> .*by restore 1`),
  );
  const part = (name: string): string =>
    page.slice(page.indexOf(`<section aria-labelledby="${name}"`)).split('</section>')[0]!;
  for (const each of ['fields', 'body']) {
    expect(part(each), each).toContain(old);
    expect(part(each), each).not.toContain(id);
  }
  const now = await text(`/records/roles/${id}`);
  expect(now).toContain(`<dt>Id before</dt><dd><a class="id" href="/records/roles/${old}">${old}</a>`);
  expect(now).not.toContain('<dt>Removed</dt>');
  const back = runs[0]!.run;
  expect(now).toMatch(new RegExp(`<option value="run:${back}"[^>]*>run ${back}, [^<]* UTC: returned<`));
});
