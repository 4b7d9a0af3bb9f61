import { expect, it } from 'vitest';
import { ChurningList, type ListSpec } from '../properties/churning-list.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, ORG, respond } from './service.ts';

interface Sweep {
  readonly kind: string;
  readonly outcome: string;
  readonly removed: number;
  readonly error: { readonly code: string; readonly message: string } | null;
}

const INVITES = `/api/organizations/${ORG}/invites/`;
const SYNCS = 3;

/** A service whose invites (a kind without retrieve) change between the requests for them. */
async function serviceOf(list: ChurningList): Promise<FakeService> {
  const service = await FakeService.start();
  service.quirks.push(({ path, query }, response) => {
    if (path !== INVITES) return false;
    const offset = Number(query.get('offset') ?? 0);
    const page = list.serve(offset, Number(query.get('limit')));
    respond(
      response,
      200,
      JSON.stringify({
        ...(page.count === null ? {} : { count: page.count }),
        next: page.hasMore ? `${service.url}${INVITES}?limit=20&offset=${offset + page.rows.length}` : null,
        previous: null,
        results: page.rows.map(({ id, name, version, created }) => ({
          id,
          target_email: `${name}@x.example`,
          level: version,
          ...(list.spec.isDated
            ? { created_at: new Date(1_700_000_000_000 + created * 1000).toISOString() }
            : {}),
        })),
      }),
    );
    return true;
  });
  return service;
}

it.each([
  ['ties', { order: 'ties', count: 'absent', rate: 0.1, mix: 'any', isDated: true }, 'incomplete'],
  ['no order at all', { order: 'random', count: 'absent', rate: 0, mix: 'any', isDated: true }, 'incomplete'],
  [
    'no order, counted',
    { order: 'random', count: 'right', rate: 0.1, mix: 'turnover', isDated: true },
    'incomplete',
  ],
  [
    'rows moving to the head',
    { order: 'updated_desc', count: 'absent', rate: 1, mix: 'update', isDated: false },
    'any',
  ],
  ['names', { order: 'name', count: 'right', rate: 0.3, mix: 'swap', isDated: false }, 'any'],
  [
    'newest first',
    { order: 'created_desc', count: 'absent', rate: 0.3, mix: 'any', isDated: true },
    'complete',
  ],
  [
    'oldest first',
    { order: 'created_asc', count: 'right', rate: 0.3, mix: 'any', isDated: true },
    'complete',
  ],
] as [string, Partial<ListSpec>, string][])(
  'a changing list costs the mirror no living record: %s',
  async (_name, fixed, expected) => {
    for (const seed of [1009]) {
      const list = new ChurningList({
        ...{ seed, order: 'ties', count: 'absent', mix: 'any', rate: 0, rows: 330, pageSize: 20, cap: 20 },
        ...{ isDated: false, ids: 'uuid' },
        ...fixed,
      });
      const service = await serviceOf(list);
      const cwd = scratch();
      const env = environment(service.url, cwd, { TIDEMARK_PAGE_SIZE: '20' });
      const run = (args: string[]) => commandLine(args, { env, cwd });
      const mirrored = async (): Promise<string[]> =>
        (await run(['export', '--kind', 'invites'])).stdout
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => (JSON.parse(line) as { id: string }).id);
      let before: string[] = [];
      for (let nth = 0; nth < SYNCS; nth += 1) {
        list.watch();
        const { code, stdout } = await run(['sync', '--json', '--kind', 'invites']);
        const { sweeps } = (JSON.parse(stdout) as { runs: { sweeps: Sweep[] }[] }).runs[0]!;
        const sweep = sweeps.find(({ kind }) => kind === 'invites')!;
        const ids = await mirrored();
        const label = `seed ${seed}, sync ${nth}: ${sweep.outcome}, ${sweep.error?.message}`;
        for (const id of before) if (list.isAlive(id)) expect(ids, label).toContain(id);
        if (sweep.outcome === 'complete') for (const id of list.throughout) expect(ids, label).toContain(id);
        else expect(code, label).toBe(3);
        if (sweep.outcome === 'incomplete')
          expect(sweep.error?.message, label).toMatch(
            /^the list of invites: it changed while it was read: |could not confirm that/,
          );
        if (expected !== 'any') expect(sweep.outcome, label).toBe(expected);
        before = ids;
      }
    }
  },
);
