/** What a run reads for the first time is reported as such wherever the changes of runs are shown, and never as added. */
import { describe, expect, it } from 'vitest';
import { DOMAINS, world } from './comparison.ts';
import { forbidden, ORG } from './service.ts';

interface RunJson {
  readonly added: number;
  readonly summary: object;
  readonly changes: {
    readonly compared: object;
    readonly summary: object;
    readonly first_read?: readonly { kind: string; records: number; reason: string }[];
  };
}

describe('a first reading', () => {
  it('of a collection that was denied before is no addition', async () => {
    const { service, expectRun, run, diff } = await world();
    service.quirks.push(({ path }, r) => path.endsWith('/domains/') && forbidden(r, 'organization:read'));
    await expectRun(3, 'sync', '--quiet');
    service.quirks.pop();
    service.set('invites', [{ id: 'i1', target_email: 'eve@mail.test' }]);
    const synced = await expectRun(0, 'sync');
    expect(synced.stdout).toContain('2 new here, read for the first time: domains (organization ');

    const compared = await diff(3, 'run:1', 'run:2');
    expect(compared.summary).toMatchObject({ added: 1, changed: 0, removed: 0 });
    const shown = JSON.parse((await expectRun(0, 'runs', 'show', '2', '--json')).stdout) as RunJson;
    expect(shown.changes.summary).toEqual(compared.summary);
    expect(shown.changes.compared).toMatchObject({ records: compared.compared.records });
    expect(shown.changes.first_read).toMatchObject([{ kind: 'domains', records: 2 }]);
    expect(shown.changes.first_read?.[0]?.reason).toMatch(/^read for the first time: .*denied in run 1/);

    const { stdout } = await expectRun(0, 'runs', 'show', '2');
    expect(stdout).toMatch(/2 domains: read for the first time/);
    expect(stdout).not.toMatch(/\+ one\.example/);
    expect(stdout).toContain('2 new here, read for the first time: domains (organization ');
    for (const narrowed of [[], ['--kind', 'domains']]) {
      const period = await expectRun(0, 'changes', '--since', 'run:1', ...narrowed, '--json');
      expect(JSON.parse(period.stdout)).toMatchObject({
        summary: { added: narrowed.length === 0 ? 1 : 0 },
        runs: [{ run: 2, first_read: [{ kind: 'domains', records: 2 }] }],
      });
    }
    const told = await expectRun(0, 'changes', '--since', 'run:1');
    expect(told.stdout).toMatch(/2 domains \(organization \S+\): read for the first time: .*denied in run 1/);
    // Naming the kind shows nothing more: it was not read at all.
    expect(told.stdout).not.toContain('not listed: records');
    const page = await run('changes', '--since', 'run:1', '--format', 'html');
    expect(page.stdout).not.toContain('one.example');

    // From then on what comes is news.
    service.set('domains', [...DOMAINS, { id: 'd3', domain: 'three.example' }]);
    await expectRun(0, 'sync', '--quiet');
    const next = JSON.parse((await expectRun(0, 'runs', 'show', '3', '--json')).stdout) as RunJson;
    expect(next.changes).toMatchObject({ summary: { added: 1 } });
    expect(next.changes.first_read).toBeUndefined();
    const quiet = await expectRun(0, 'sync', '--json');
    expect(JSON.parse(quiet.stdout)).toMatchObject({ runs: [{ run: 4, first_read: [] }] });
  });

  it('of everything after a run of some kinds is none either, but what a new parent brings is', async () => {
    const { service, expectRun } = await world();
    service.set('roles', [{ id: 'r1', name: 'Editors' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
    await expectRun(0, 'sync', '--kind', 'members', '--quiet');
    const synced = JSON.parse((await expectRun(0, 'sync', '--json')).stdout) as {
      runs: { first_read: { kind: string }[] }[];
    };
    expect(synced.runs[0]?.first_read.map(({ kind }) => kind).toSorted()).toEqual([
      'domains',
      'projects',
      'roles',
    ]);
    const shown = JSON.parse((await expectRun(0, 'runs', 'show', '2', '--json')).stdout) as RunJson;
    expect(shown.changes.summary).toMatchObject({ added: 0 });
    expect(shown.changes.first_read?.map(({ kind }) => kind)).toEqual(['projects', 'roles', 'domains']);

    service.set('roles', [
      { id: 'r1', name: 'Editors' },
      { id: 'r2', name: 'Owners' },
    ]);
    service.lists.set(`/api/organizations/${ORG}/roles/r2/role_memberships/`, [
      '{"id":"m1","user":{"uuid":"u1","email":"ann@one.example"}}',
    ]);
    await expectRun(0, 'sync', '--quiet');
    const next = JSON.parse((await expectRun(0, 'runs', 'show', '3', '--json')).stdout) as RunJson;
    expect(next.changes).toMatchObject({ summary: { added: 2 } });
    expect(next.changes.first_read).toBeUndefined();
  });
});
