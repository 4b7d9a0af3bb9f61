/** A configuration that leaves out a parent kind: what is below it is read all the same, or left out in so many words. */
import { describe, expect, it } from 'vitest';
import { DOMAINS, world, type World } from './comparison.ts';
import { forbidden, ORG } from './service.ts';

interface Sweeps {
  readonly runs: readonly {
    readonly outcome: string;
    readonly sweeps: readonly { readonly kind: string; readonly records: number; readonly outcome: string }[];
  }[];
}

/** A service with a role and who holds it, and a recording that is shared. */
async function full(kinds: Readonly<Record<string, string>>): Promise<World> {
  const made = await world(kinds);
  const { service } = made;
  service.set('roles', [{ id: 'r1', name: 'Editors' }]);
  service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, [
    '{"id":"m1","user":{"uuid":"u1"}}',
  ]);
  service.lists.set('/api/projects/1/session_recordings/', ['{"id":"s1"}']);
  service.objects.set('/api/projects/1/session_recordings/s1/sharing/', '{"enabled":true}');
  return made;
}

async function read({ expectRun }: World, ...args: string[]): Promise<Record<string, number>> {
  const { stdout } = await expectRun(0, 'sync', ...args, '--json');
  const [run] = (JSON.parse(stdout) as Sweeps).runs;
  return Object.fromEntries(run!.sweeps.map(({ kind, records }) => [kind, records]));
}

describe('a kind whose parent the configuration does not name', () => {
  it.each<[string, string, Record<string, number>]>([
    [
      'role memberships',
      'organizations,role_memberships',
      { organizations: 1, roles: 1, role_memberships: 1 },
    ],
    ['roles', 'roles', { organizations: 1, roles: 1 }],
    [
      'sharing',
      'recording_sharing',
      { organizations: 1, projects: 1, session_recordings: 1, recording_sharing: 1 },
    ],
  ])('%s: read with what leads to them', async (_name, include, expected) => {
    const made = await full({ TIDEMARK_KINDS_INCLUDE: include });
    expect(await read(made)).toEqual(expected);
    // Naming on the command line means the same, and the run counts as whole.
    expect(await read(made, ...include.split(',').flatMap((kind) => ['--kind', kind]))).toEqual(expected);
    const { stdout } = await made.expectRun(0, 'runs', '--json');
    expect((JSON.parse(stdout) as { runs: { kinds: unknown }[] }).runs.map(({ kinds }) => kinds)).toEqual([
      null,
      null,
    ]);
    expect((await made.expectRun(0, 'doctor')).stdout).not.toContain('not reached');
  });
});

describe('an excluded parent', () => {
  it('takes along what is below it, and that is said', async () => {
    const made = await full({ TIDEMARK_KINDS_EXCLUDE: 'roles,session_recordings' });
    const kinds = Object.keys(await read(made));
    for (const kind of ['roles', 'role_memberships', 'session_recordings', 'recording_sharing'])
      expect(kinds).not.toContain(kind);
    const { stdout } = await made.expectRun(0, 'config', 'check');
    expect(stdout).toContain('excluding roles leaves out role_memberships too');
    expect(stdout).toContain('excluding session_recordings leaves out recording_sharing too');
    expect((await made.expectRun(0, 'doctor')).stdout).toContain(
      'excluding roles leaves out role_memberships',
    );
  });

  it('is read for a kind that the command line names, since nothing else leads there', async () => {
    const made = await full({ TIDEMARK_KINDS_EXCLUDE: 'roles' });
    expect(await read(made, '--kind', 'role_memberships')).toEqual({
      organizations: 1,
      roles: 1,
      role_memberships: 1,
    });
  });

  it('removes nothing of what the mirror held before', async () => {
    const { run, expectRun, env, service } = await full({});
    await expectRun(0, 'sync', '--quiet');
    env['TIDEMARK_KINDS_EXCLUDE'] = 'roles,session_recordings';
    service.set('roles', []);
    service.set('domains', [...DOMAINS, { id: 'd3', domain: 'three.example' }]);
    await expectRun(0, 'sync', '--quiet');
    const changes = await run('diff', 'run:1', 'run:2', '--json');
    expect(JSON.parse(changes.stdout)).toMatchObject({ summary: { added: 1, removed: 0, changed: 0 } });
    for (const [kind, id] of [
      ['roles', 'r1'],
      ['role_memberships', 'm1'],
      ['session_recordings', 's1'],
      ['recording_sharing', 's1'],
    ])
      expect((await expectRun(0, 'show', kind!, id!)).stdout).toContain(id);
    await expectRun(0, 'verify');
    // Left in again, they are read as ever, and what went meanwhile is reported.
    delete env['TIDEMARK_KINDS_EXCLUDE'];
    service.set('roles', [{ id: 'r1', name: 'Writers' }]);
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(0, 'log', 'roles', 'r1')).stdout).toContain('Writers');
  });

  it('with nothing left is no configuration: exit 4, nothing is asked', async () => {
    const { expectRun, service, env } = await full({ TIDEMARK_KINDS_EXCLUDE: 'organizations' });
    for (const command of [['config', 'check'], ['sync'], ['doctor']]) {
      const { stderr } = await expectRun(4, ...command);
      expect(stderr).toContain('TIDEMARK_KINDS_EXCLUDE: leaves no kind to mirror: without organizations');
    }
    expect(service.seen).toEqual([]);
    env['TIDEMARK_ORGANIZATIONS'] = ORG;
    const { stdout } = await expectRun(0, 'sync', '--json');
    const kinds = (JSON.parse(stdout) as Sweeps).runs[0]!.sweeps.map(({ kind }) => kind);
    expect(kinds).toContain('role_memberships');
    expect(kinds).not.toContain('organizations');
  });
});

describe('a run that fails', () => {
  it('says why, wherever it is reported', async () => {
    const { expectRun, service } = await full({});
    service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
    const { stdout } = await expectRun(5, 'sync');
    expect(stdout).toContain('organizations: denied: the key may not do this (403)');
    expect(stdout).toContain('→ give the key the permission organization:read\n');
    const shown = await expectRun(0, 'runs', 'show', '1', '--json');
    expect(JSON.parse(shown.stdout)).toMatchObject({ outcome: 'failed', error: { code: 'forbidden' } });
    // Leaving organizations out is not a way out, so that nobody proposes it.
    const doctor = await expectRun(5, 'doctor');
    expect(doctor.stdout).toContain('run 1 failed: the key may not do this (403): API key');
    expect(doctor.stdout).not.toContain('exclude: [organizations');
  });
});
