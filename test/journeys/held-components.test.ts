/** Held removals of components, which two lists have, and of what is below a missing record: the same numbers everywhere. */
import Database from 'better-sqlite3';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { commandLine, type Ended } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, ORG, organizationPaths } from './service.ts';

const OTHER = '0b4a1c32-aaaa-4bbb-8ccc-000000000002';

/** Ids 101 and on. */
const components = (count: number, first = 101): string[] =>
  Array.from({ length: count }, (_, n) => `{"id":${first + n},"name":"C${first + n}"}`);

async function user(service: FakeService) {
  const cwd = scratch();
  const env = environment(service.url, cwd);
  const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd });
  await run('sync', '--quiet');
  return { run, mirror: join(cwd, 'mirror.db') };
}

/** 40 destinations, of which the lists show 13 later. */
async function fewer() {
  const service = await FakeService.start();
  service.set('pipeline_destinations', components(40));
  service.set('plugins', components(45));
  const of = await user(service);
  service.set('pipeline_destinations', components(13));
  service.set('plugins', [...components(13), ...components(5, 141)]);
  return of;
}

/** A second organization with 20 destinations and 3 domains, which the list of organizations shows no more. */
async function withoutOne() {
  const service = await FakeService.start();
  const one = JSON.stringify({ id: ORG, name: 'Harbor', teams: [] });
  const other = JSON.stringify({ id: OTHER, name: 'Quay', teams: [] });
  const path = (kind: string): string => `/api/organizations/${OTHER}/${kind}/`;
  service.lists.set('/api/organizations/', [one, other]);
  for (const each of organizationPaths(OTHER)) service.lists.set(each, []);
  service.lists.set(path('pipeline_destinations'), components(20));
  service.lists.set(path('plugins'), components(20));
  service.lists.set(
    path('domains'),
    ['a', 'b', 'c'].map((id) => `{"id":"${id}","domain":"${id}.example"}`),
  );
  const of = await user(service);
  service.lists.set('/api/organizations/', [one]);
  for (const each of organizationPaths(OTHER)) service.lists.delete(each);
  return of;
}

describe('held removals of components', () => {
  it('count each once, and the number that is shown accepts them', async () => {
    const { run } = await fewer();
    const held = await run('sync');
    expect(held.code).toBe(3);
    const said = `${held.stdout}${held.stderr}`;
    expect(said).toContain('sync --accept-removals 27 ');
    expect(said).not.toMatch(/accept-removals (54|0) /);
    const status = (await run('status')).stdout.replaceAll(/\s+/g, ' ');
    expect(status).toContain('no longer shows 27 records');
    expect(status).toContain('--accept-removals 27');
    const { stdout } = await run('runs', 'show', '2');
    expect(stdout).toContain('27 pipeline destinations are missing, their removal is held');
    expect(stdout).not.toMatch(/\b54 (pipeline|plugins|records)/);
    const changes = (await run('changes')).stdout;
    expect(changes).toMatch(/^removals held by run 2: pipeline destinations .*27 of 40 records/m);
    expect(changes.match(/^removals held/gm)).toHaveLength(1);
    for (const args of [['changes'], ['diff', 'run:1', 'run:2']]) {
      const { code, stderr } = await run(...args);
      expect([code, stderr.match(/not fresh: .*/g)], args.join(' ')).toEqual([
        3,
        [expect.stringMatching(/^not fresh: pipeline destinations .*27 of 40/)],
      ]);
    }
    // Asked for alone, their list has what it holds.
    expect((await run('changes', '--kind', 'plugins')).stdout).toMatch(
      /^removals held by run 2: plugins .*27 of 45/m,
    );
    const tooFew = await run('sync', '--accept-removals', '26');
    expect(tooFew.stderr).toContain(
      '27 removals are held (27 pipeline destinations), and none of them was accepted: --accept-removals 26 allows 26',
    );
    const accepted = await run('sync', '--accept-removals', '27');
    expect(accepted.code).toBe(0);
    expect(accepted.stdout).toContain('27 removed');
    expect((await run('audit')).stdout.replaceAll(/\s+/g, ' ')).toContain(
      '27 records, of at most 27: 27 pipeline destinations',
    );
  });

  it('count once too where plugins alone are asked for', async () => {
    const { run } = await fewer();
    await run('sync');
    const few = await run('sync', '--accept-removals', '26', '--kind', 'plugins');
    expect(few.stderr).toContain(
      '27 removals are held (27 plugins), and none of them was accepted: --accept-removals 26 allows 26',
    );
    expect((await run('sync', '--accept-removals', '27', '--kind', 'plugins')).code).toBe(0);
  });

  it('below a missing organization count once', async () => {
    const { run } = await withoutOne();
    const held = await run('sync');
    const said = `${held.stdout}${held.stderr}`;
    expect(said).toContain('with 23 records below');
    expect(said).toContain('sync --accept-removals 24 ');
    const accepted = await run('sync', '--accept-removals', '24');
    expect(accepted.stdout).toContain('24 removed');
  });

  it('are rows of the view held, with what is below them', async () => {
    const { run, mirror } = await withoutOne();
    await run('sync');
    const db = new Database(mirror, { readonly: true });
    const rows = db
      .prepare(`SELECT kind, below, count(*) FROM held GROUP BY kind, below ORDER BY kind`)
      .raw();
    expect(rows.all()).toEqual([
      ['domains', 1, 3],
      ['organizations', 0, 1],
      ['pipeline_destinations', 1, 20],
      ['plugins', 1, 20],
    ]);
    const listed = KINDS.flatMap((kind) =>
      db.prepare(`SELECT '${kind}', id FROM ${kind} WHERE organization_id = ?`).raw().all(OTHER),
    );
    expect(db.prepare('SELECT kind, id FROM held').raw().all()).toEqual(expect.arrayContaining(listed));
    expect(db.prepare('SELECT DISTINCT source, organization, since_run FROM held').raw().all()).toEqual([
      ['default', 'Quay', 2],
    ]);
    db.close();
  });
});
