/** What drift is asked for by field, against which state, and of which kinds. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { parseLossless } from '../../src/core/json.ts';
import type { patchOperations } from '../../src/report/patch.ts';
import { applyPatch } from '../diff/json-patch.ts';
import { open } from '../mirror/fixture.ts';
import { MEMBERS, world, type World } from './comparison.ts';
import { ORG } from './service.ts';

function organization({ service }: World, teams: readonly object[]): void {
  service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'O', teams })]);
}

describe('drift by field', () => {
  it('is withdrawn by the pointer by which it was accepted, by index, by id or from above', async () => {
    const it = await world();
    const { run, expectRun } = it;
    const accept = ['drift', 'accept', 'organizations', ORG, '--from', 'run:1', '--reason', 'x', '--field'];
    const unaccept = ['drift', 'unaccept', 'organizations', ORG, '--field'];
    organization(it, [
      { id: 1, name: 'a' },
      { id: 3, name: 'b' },
    ]);
    await run('sync', '--quiet');
    organization(it, [
      { id: 1, name: 'A' },
      { id: 3, name: 'B' },
    ]);
    await run('sync', '--quiet');
    for (const [asked, withdrawn] of [
      ['/teams/1/name', '/teams/1/name'],
      ['/teams/1/name', '/teams/[id=3]/name'],
      ['/teams/[id=3]', '/teams/1'],
    ] as const) {
      await expectRun(0, ...accept, asked);
      expect((await expectRun(0, ...unaccept, withdrawn)).stdout).toBe(
        '1 acceptance withdrawn: /teams/[id=3]/name\n',
      );
    }
    // A parent stands for all that lies below it.
    expect((await expectRun(0, ...accept, '/teams')).stdout).toContain('2 findings accepted');
    const other = await expectRun(1, ...unaccept, '/teams/7/name');
    expect(other.stderr).toContain('accepted for it: /teams/[id=1]/name, /teams/[id=3]/name');
    expect((await expectRun(0, ...unaccept, '/teams')).stdout).toContain('2 acceptances withdrawn');
    const refused = await expectRun(4, ...accept, '/name');
    expect(refused.stderr).toContain('/teams/[id=1]/name, /teams/[id=3]/name');
  });

  it('is withdrawn by the pointer that names a record as of today, which a restore created again', async () => {
    const { service, env, expectRun } = await world();
    const invited = (id: number, level: number) =>
      service.set('invites', [
        { id: 'i1', target_email: 'a@x.example', private_project_access: [{ id, level }] },
      ]);
    invited(7, 1);
    await expectRun(0, 'sync', '--quiet');
    invited(7, 8);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, ...['drift', 'accept', 'invites', 'i1', '--from', 'run:1', '--reason', 'x']);
    // The service has it as 1.
    const mirror = open({ path: env['TIDEMARK_MIRROR'] ?? '', clock: systemClock });
    const scope = { organization_id: ORG };
    const at = new Date().toISOString();
    const restore = mirror.restores.begin({
      ...{
        source: 'default',
        planHash: 'h',
        plan: '{"steps":[]}',
        from: 'run:1',
        approved: {},
        startedAt: at,
      },
      steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
    });
    const ids = { source: 'default', kind: 'projects', oldId: '7', newId: '1', restore, at } as const;
    for (const row of mirror.restores.steps(restore))
      mirror.restores.journal([
        {
          row: { ...row, outcome: 'applied', newId: '1', sentAt: at, endedAt: at },
          mappings: [{ ...ids, oldScope: scope, newScope: scope }],
        },
      ]);
    mirror.restores.finish(restore, 'complete', at);
    mirror.close();
    invited(1, 8);
    await expectRun(0, 'sync', '--quiet');
    const unaccept = ['drift', 'unaccept', 'invites', 'i1', '--field'];
    await expectRun(1, ...unaccept, '/private_project_access/[id=2]');
    expect((await expectRun(0, ...unaccept, '/private_project_access/[id=1]/level')).stdout).toBe(
      '1 acceptance withdrawn: /private_project_access/[id=7]/level\n',
    );
  });

  it('is not offered for withdrawal where it is measured from another state than the baseline', async () => {
    const { service, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'start');
    await expectRun(0, 'snapshots', 'baseline', 'start');
    service.set('members', [{ ...MEMBERS[0], level: 8 }, MEMBERS[1] ?? {}]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'drift', 'accept', 'members', 'u1', '--reason', 'promoted');
    expect((await expectRun(0, 'drift', '--from', 'run:2')).stdout).not.toContain('unaccept');
    service.set('members', MEMBERS);
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(0, 'drift')).stdout).toContain('unaccept');
    expect((await expectRun(0, 'drift', '--from', 'run:1')).stdout).toContain('unaccept');
  });

  it('leaves out with --managed-only what nobody could write', async () => {
    const { service, expectRun, diff } = await world();
    service.set('roles', []);
    await expectRun(0, 'sync', '--quiet');
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
    service.set('roles', [{ id: 'r1', name: 'New' }]);
    service.set('domains', []);
    await expectRun(0, 'sync', '--quiet', '--accept-removals', '9');
    const told = await diff(2, 'run:1', 'run:2', '--managed-only');
    expect(told.changes.map(({ kind }) => kind)).toEqual(['domains', 'domains']);
    expect(told.left_out.find(({ kind }) => kind === 'roles')?.reason).toContain('writable');
    const none = await expectRun(1, 'diff', 'run:1', 'run:2', '--managed-only', '--kind', 'roles');
    expect(none.stderr).toMatch(/nothing was compared: roles: .*writable/);
  });

  it('tells moved elements of a list with ids apart from what changed in them, and its patch gives TO', async () => {
    const { service, directory, expectRun, diff } = await world();
    const body = (steps: readonly object[]): object => ({ id: 1, name: 'Web', steps });
    const from = body([1, 2, 3, 4].map((id) => ({ id, on: true })));
    const to = body([{ id: 2, on: true }, { id: 3, on: false }, { id: 9 }, { id: 1, on: true }]);
    service.set('projects', [from]);
    await expectRun(0, 'sync', '--quiet');
    service.set('projects', [to]);
    await expectRun(0, 'sync', '--quiet');
    const [change] = (await diff(2, 'run:1', 'run:2')).changes;
    expect(change?.fields).toMatchObject([
      { path: '/steps/1/on', place: '/steps/[id=3]/on', from: true, to: false },
      { path: '/steps/3', place: '/steps/[id=4]' },
      { path: '/steps/2', place: '/steps/[id=9]' },
      { path: '/steps', moved: [{ from: 0, to: 3 }] },
    ]);
    await expectRun(2, 'diff', 'run:1', 'run:2', '--format', 'patch', '--output', 'p.json');
    const { records } = JSON.parse(readFileSync(`${directory}/p.json`, 'utf8')) as {
      records: { patch: ReturnType<typeof patchOperations> }[];
    };
    expect(applyPatch(parseLossless(JSON.stringify(from)), records[0]?.patch ?? [])).toEqual(to);
    // An accepted order holds whatever changes inside the elements, until the order changes again.
    await expectRun(0, 'drift', 'accept', 'projects', '1', '--from', 'run:1', '--reason', 'x');
    const steps = [{ id: 2, on: true }, { id: 3, on: true }, { id: 9 }, { id: 1, on: false }];
    service.set('projects', [body(steps)]);
    await expectRun(0, 'sync', '--quiet');
    const drift = JSON.parse((await expectRun(2, 'drift', '--from', 'run:1', '--json')).stdout) as {
      findings: { path: string }[];
      accepted: { path: string }[];
    };
    expect(drift.findings.map(({ path }) => path)).toEqual(['/steps/3/on']);
    expect(drift.accepted.map(({ path }) => path)).toEqual(['/steps/3', '/steps/2', '/steps']);
  });
});
