import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { environment, scratch, start, tidemark } from '../journeys/harness.ts';
import { FakeService, forbidden, ORG } from '../journeys/service.ts';

interface Document {
  readonly schema: string;
  readonly sources: readonly {
    readonly source: string;
    readonly is_configured: boolean;
    readonly state: string;
    readonly last_published_run: { run: number } | null;
    readonly last_complete_run: { run: number } | null;
    readonly held_removals: readonly { kind: string; records: number; below: number }[];
    readonly schema_changes: readonly unknown[];
    readonly next_steps: readonly string[];
  }[];
}

async function status(
  env: Record<string, string>,
  cwd?: string,
): Promise<{ code: number | null; text: string; document: Document }> {
  const where = cwd === undefined ? { env } : { env, cwd };
  const [text, json] = await Promise.all([
    tidemark(['status'], where),
    tidemark(['status', '--json'], where),
  ]);
  expect(text.stderr + json.stderr).toBe('');
  expect(json.code).toBe(text.code);
  return { code: text.code, text: text.stdout, document: JSON.parse(json.stdout) as Document };
}

describe('status', () => {
  it('after an interrupted first sync: nothing is published, why, and what to do', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const { child, ended } = start(['sync'], { env });
    service.quirks.push(() => {
      child.kill('SIGINT');
      return false;
    });
    expect((await ended).code).toBe(130);
    const { code, text, document } = await status(env);
    expect(code).toBe(1);
    expect(text).toMatch(/last run: 1, failed: .*interrupted.*, (just now|\d+ s ago)/);
    expect(text).toContain('no run was published yet');
    expect(text).toContain('→ run `tidemark sync` again');
    expect(text).not.toContain('oldest whole copy');
    expect(document).toMatchObject({
      schema: 'tidemark.status/1',
      sources: [{ source: 'default', state: 'unpublished', last_published_run: null, schema_changes: [] }],
    });
  });

  it('held removals: how many, and the command that accepts them, which does', async () => {
    const service = await FakeService.start();
    const domains = Array.from({ length: 30 }, (_each, index) => ({ id: `d${index}`, domain: 'x' }));
    service.set('domains', domains);
    service.set('roles', [{ id: 'r1', name: 'Readers' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, ['{"id":"m1"}', '{"id":"m2"}']);
    const env = environment(service.url, scratch());
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    service.set('domains', domains.slice(0, 10));
    // The last of its collection: held as well, with what stands below it.
    service.set('roles', []);
    service.quirks.push(({ path }, response) =>
      path.includes('/roles/r1/') ? (response.writeHead(404).end('{}'), true) : false,
    );
    expect((await tidemark(['sync'], { env })).code).toBe(3);
    const { code, text, document } = await status(env);
    expect(code).toBe(3);
    expect(document.sources[0]?.held_removals).toMatchObject([
      { kind: 'roles', records: 1, below: 2 },
      { kind: 'domains', records: 20, below: 0 },
    ]);
    expect(text).toContain('last complete run: 1');
    const command = /`tidemark (sync --accept-removals \d+)`/.exec(text)?.[1] ?? '';
    expect(command).toBe('sync --accept-removals 23');
    await tidemark(command.split(' '), { env });
    expect((await status(env)).document.sources[0]?.held_removals).toEqual([]);
  });

  it('several sources: one whole, one never synced, one denied, one no longer configured', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const configure = (...names: string[]): void =>
      writeFileSync(
        join(directory, 'tidemark.yaml'),
        `mirror: ./mirror.db\nsources:\n${names.map((name) => `  - { name: ${name}, baseUrl: "${service.url}", apiKey: test-key-of-some-length }\n`).join('')}`,
      );
    configure('first', 'denied', 'old');
    const sync = (source: string): Promise<unknown> =>
      tidemark(['sync', '--source', source], { cwd: directory });
    await sync('first');
    await sync('old');
    service.quirks.push(({ path }, response) =>
      path.endsWith('/plugins/') ? forbidden(response, 'plugin:read') : false,
    );
    await sync('denied');
    configure('first', 'denied', 'fresh');
    const { code, text, document } = await status({}, directory);
    expect(code).toBe(3);
    expect(
      document.sources.map(({ source, state, is_configured }) => [source, state, is_configured]),
    ).toEqual([
      ['first', 'whole', true],
      ['denied', 'partial', true],
      ['fresh', 'never_synced', true],
      ['old', 'whole', false],
    ]);
    expect(document.sources[0]?.next_steps).toEqual([]);
    expect(text).toContain('run `tidemark sync --source fresh`');
    expect(text).toMatch(/plugins \(organization .*\): denied: .*\n {4}never read whole/);
    expect(text).toContain('old is no longer configured');
    configure('first');
    expect((await status({}, directory)).code).toBe(0);
    rmSync(join(directory, 'tidemark.yaml'));
    const bare = await tidemark(['runs', '--json'], {
      cwd: directory,
      env: { TIDEMARK_MIRROR: join(directory, 'mirror.db') },
    });
    expect((JSON.parse(bare.stdout) as { runs: { run: number }[] }).runs.map(({ run }) => run)).toEqual([
      3, 2, 1,
    ]);
  });
});
