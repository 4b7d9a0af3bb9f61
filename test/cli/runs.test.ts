import { expect, it } from 'vitest';
import { environment, scratch, tidemark } from '../journeys/harness.ts';
import { FakeService, forbidden } from '../journeys/service.ts';

interface RunShown {
  readonly changes: { readonly stale: readonly object[]; readonly skipped: readonly object[] };
}

it('runs show: names the lists that the run could not read, or was not asked for, and claims nothing of them', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch());
  service.set('domains', [{ id: 'd1', domain: 'one.example' }]);
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  const closed = (({ path }, response) =>
    path.includes('/domains') &&
    forbidden(response, 'organization:read')) satisfies (typeof service.quirks)[number];
  service.quirks.push(closed);
  expect((await tidemark(['sync'], { env })).code).toBe(3);
  const partial = (await tidemark(['runs', 'show', '2'], { env })).stdout;
  expect(partial).toMatch(/^No differences in what could be compared \(/m);
  expect(partial).toMatch(
    /^1 collection not fresh, so this may not be everything:\n.*not fresh: domains .*denied in run 2/m,
  );
  const { changes } = JSON.parse(
    (await tidemark(['runs', 'show', '2', '--json'], { env })).stdout,
  ) as RunShown;
  expect(changes).toMatchObject({ skipped: [], stale: [{ kind: 'domains', side: 'to' }] });

  service.quirks.splice(service.quirks.indexOf(closed), 1);
  expect((await tidemark(['sync', '--kind', 'roles'], { env })).code).toBe(0);
  const narrowed = (await tidemark(['runs', 'show', '3'], { env })).stdout;
  expect(narrowed).toMatch(/older than the rest: .*batch exports.*: run 3 was limited to roles/);
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  expect((await tidemark(['runs', 'show', '4'], { env })).stdout).toMatch(/^No differences \(/m);
});
