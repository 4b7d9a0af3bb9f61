/** What the operations do, kind by kind (docs/sandbox.md). */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { valueText } from '../../src/server/value-text.ts';
import { type RunningSandbox, NOW_MS, resultsOf, startSandbox, withOrganization } from './running-sandbox.ts';

const NOW = new Date(NOW_MS).toISOString();

async function inOrganization(): Promise<RunningSandbox & { path: string; id: string; projectId: string }> {
  const running = await startSandbox();
  return { ...running, ...(await withOrganization(running)) };
}

function addMember(running: RunningSandbox, organization: string, email: string): string {
  const uuid = `00000000-0000-4000-8000-${String(email.length).padStart(12, '7')}`;
  running.sandbox.store.write(
    'members',
    { organization_id: organization },
    { id: `m-${email}`, user: { uuid, email }, level: 1, joined_at: NOW, updated_at: NOW },
  );
  return uuid;
}

describe('organizations', () => {
  it('make the creator their owner and show what follows from other records', async () => {
    const { call, path, projectId } = await inOrganization();
    const { json } = await call('GET', path);
    expect(json).toMatchObject({ name: 'Harbor', slug: 'harbor', membership_level: 15, member_count: '1' });
    expect(json['created_at']).toBe(NOW);
    expect(json['teams']).toMatchObject([{ id: Number(projectId), name: 'Web' }]);
  });

  it('take everything below along when they go', async () => {
    const running = await inOrganization();
    const { call, path, projectId, sandbox } = running;
    const role = await call('POST', `${path}roles/`, { name: 'Ops' });
    await call('POST', `${path}roles/${role.json['id'] as string}/role_memberships/`, {
      user_uuid: '00000000-0000-4000-8000-000000000001',
    });
    sandbox.store.write('session_recordings', { project_id: projectId }, { id: 'r' });
    const other = await withOrganization(running, 'Other');
    expect((await call('DELETE', path)).status).toBe(204);
    expect((await call('GET', path)).status).toBe(404);
    const left = [...sandbox.snapshot()];
    expect(new Set(left.map((each) => each.kind))).toEqual(new Set(['organizations', 'projects', 'members']));
    expect(left).toHaveLength(3);
    expect(left[0]!.id).toBe(other.id);
  });

  it('get slugs that differ', async () => {
    const running = await startSandbox();
    for (const slug of ['tern-sohne', 'tern-sohne-2']) {
      const { json } = await running.call('POST', '/api/organizations/', { name: 'Tern & Söhne' });
      expect(json['slug']).toBe(slug);
    }
  });
});

describe('batch exports', () => {
  const EXPORT = {
    name: 'To S3',
    interval: 'hour',
    destination: {
      type: 'S3',
      config: { bucket_name: 'b', aws_access_key_id: 'AKIA', aws_secret_access_key: 'hush' },
    },
  };

  it('keep secrets to themselves, through updates that do not name them', async () => {
    const { call, path, sandbox, id } = await inOrganization();
    const made = await call('POST', `${path}batch_exports/`, EXPORT);
    expect(made.json['destination']).toEqual({ type: 'S3', config: { bucket_name: 'b' } });
    const at = `${path}batch_exports/${made.json['id'] as string}/`;
    const changed = await call('PATCH', at, {
      destination: { type: 'S3', config: { bucket_name: 'c', region: 'eu' } },
    });
    expect(changed.json['destination']).toEqual({ type: 'S3', config: { bucket_name: 'c', region: 'eu' } });
    const kept = sandbox.store.transaction({ userUuid: null, organizations: null }, (writing) =>
      writing.bodies('batch_exports', { organization_id: id }),
    );
    expect(kept[0]!['destination']).toEqual({
      type: 'S3',
      config: { bucket_name: 'c', aws_access_key_id: 'AKIA', aws_secret_access_key: 'hush', region: 'eu' },
    });
    const listed = await call('GET', `${path}batch_exports/`);
    expect(listed.text).not.toContain('hush');
    const other = await call('PATCH', at, { destination: { type: 'NoOp', config: {} } });
    expect(other.json['destination']).toEqual({ type: 'NoOp', config: {} });
  });

  it('pause and unpause, once each', async () => {
    const { call, path, clock } = await inOrganization();
    const made = await call('POST', `${path}batch_exports/`, EXPORT);
    const at = `${path}batch_exports/${made.json['id'] as string}/`;
    expect(made.json).toMatchObject({ paused: false, last_paused_at: null });
    clock.advance(1000);
    const paused = await call('POST', `${at}pause/`, EXPORT);
    expect([paused.status, paused.text]).toEqual([200, '']);
    const pausedAt = new Date(NOW_MS + 1000).toISOString();
    expect((await call('GET', at)).json).toMatchObject({ paused: true, last_paused_at: pausedAt });
    clock.advance(1000);
    await call('POST', `${at}pause/`);
    expect((await call('GET', at)).json).toMatchObject({ paused: true, last_paused_at: pausedAt });
    await call('POST', `${at}unpause/`);
    expect((await call('GET', at)).json).toMatchObject({ paused: false, last_paused_at: pausedAt });
  });

  it('take the time of a pause that is given, and make one up otherwise', async () => {
    const { call, path } = await inOrganization();
    const given = { ...EXPORT, paused: true, last_paused_at: '2026-01-01T00:00:00Z' };
    const one = await call('POST', `${path}batch_exports/`, given);
    expect(one.json['last_paused_at']).toBe('2026-01-01T00:00:00Z');
    const two = await call('POST', `${path}batch_exports/`, { ...EXPORT, paused: true });
    expect(two.json['last_paused_at']).toBe(NOW);
  });

  it('list the newest first, also of the same instant, and note a backfill as a run', async () => {
    const { call, path } = await inOrganization();
    for (const name of ['a', 'b', 'c']) await call('POST', `${path}batch_exports/`, { ...EXPORT, name });
    const listed = resultsOf(await call('GET', `${path}batch_exports/`));
    expect(listed.map((each) => each['name'])).toEqual(['c', 'b', 'a']);
    const at = `${path}batch_exports/${listed[0]!['id'] as string}/`;
    expect((await call('POST', `${at}backfill/`, {})).status).toBe(200);
    expect((await call('GET', at)).json['latest_runs']).toMatchObject([
      { status: 'Starting', batch_export: listed[0]!['id'] },
    ]);
  });

  it('belong to the oldest project unless another one is named', async () => {
    const { call, path, projectId } = await inOrganization();
    const second = (await call('POST', `${path}projects/`, { name: 'Two' })).json['id'];
    expect((await call('POST', `${path}batch_exports/`, EXPORT)).json['team_id']).toBe(Number(projectId));
    const named = await call('POST', `${path}batch_exports/`, { ...EXPORT, team_id: second });
    expect(named.json['team_id']).toBe(second);
    const moved = await call('PATCH', `${path}batch_exports/${named.json['id'] as string}/`, {
      team_id: Number(projectId),
    });
    expect(moved.json['team_id']).toBe(second);
    const wrong = await call('POST', `${path}batch_exports/`, { ...EXPORT, team_id: 999 });
    expect([wrong.status, wrong.json['attr']]).toEqual([400, 'team_id']);
  });
});

describe('domains', () => {
  it('need to be verified before they open doors', async () => {
    const { call, path } = await inOrganization();
    const wanted = { domain: 'a.example', jit_provisioning_enabled: true, sso_enforcement: 'saml' };
    const made = await call('POST', `${path}domains/`, wanted);
    expect(made.json).toMatchObject({
      is_verified: false,
      jit_provisioning_enabled: false,
      sso_enforcement: '',
    });
    const at = `${path}domains/${made.json['id'] as string}/`;
    const refused = await call('PATCH', at, { sso_enforcement: 'saml' });
    expect([refused.status, refused.json['attr']]).toEqual([400, 'sso_enforcement']);
    expect((await call('POST', `${at}verify/`, {})).text).toBe('');
    expect((await call('GET', at)).json).toMatchObject({ is_verified: true, verified_at: NOW });
    expect((await call('PATCH', at, wanted)).json).toMatchObject({ jit_provisioning_enabled: true });
  });

  it('are unique over all organizations, listed by name, and know when SAML is whole', async () => {
    const running = await inOrganization();
    const { call, path } = running;
    await call('POST', `${path}domains/`, { domain: 'b.example' });
    const other = await withOrganization(running, 'Other');
    const taken = await call('POST', `${other.path}domains/`, { domain: 'B.example' });
    expect([taken.status, taken.json['code']]).toEqual([400, 'unique']);
    const saml = { saml_entity_id: 'e', saml_acs_url: 'u', saml_x509_cert: 'c' };
    const whole = await call('POST', `${path}domains/`, { domain: 'a.example', ...saml });
    expect(whole.json['has_saml']).toBe(true);
    const names = resultsOf(await call('GET', `${path}domains/`)).map((each) => each['domain']);
    expect(names).toEqual(['a.example', 'b.example']);
  });
});

describe('invites and members', () => {
  it('replace an open invite of the same address and run out after three days', async () => {
    const { call, path, clock } = await inOrganization();
    const first = await call('POST', `${path}invites/`, { target_email: 'New@x.example', level: 8 });
    expect(first.json).toMatchObject({ emailing_attempt_made: true, is_expired: false, level: 8 });
    expect(first.json).not.toHaveProperty('send_email');
    const second = await call('POST', `${path}invites/`, {
      target_email: 'new@x.example',
      send_email: false,
    });
    expect(second.json['emailing_attempt_made']).toBe(false);
    const listed = resultsOf(await call('GET', `${path}invites/`));
    expect(listed.map((each) => each['id'])).toEqual([second.json['id']]);
    clock.advance(3 * 24 * 3_600_000);
    expect(resultsOf(await call('GET', `${path}invites/`))[0]!['is_expired']).toBe(true);
  });

  it('take one invite or a list in bulk, all or none', async () => {
    const { call, path } = await inOrganization();
    const bulk = (body: unknown): Promise<{ status: number; text: string; json: JsonObject }> =>
      call('POST', `${path}invites/bulk/`, body);
    const count = async (): Promise<unknown> => (await call('GET', `${path}invites/`)).json['count'];
    expect(await bulk({ target_email: 'a@x.example' })).toMatchObject({ status: 200, text: '' });
    expect((await bulk([{ target_email: 'b@x.example' }, { target_email: 'c@x.example' }])).status).toBe(200);
    const wrong = await bulk([{ target_email: 'd@x.example' }, { target_email: 'nonsense' }]);
    expect([wrong.status, wrong.json['attr']]).toEqual([400, '1__target_email']);
    expect(await count()).toBe(3);
    const many = Array.from({ length: 21 }, (_none, n) => ({ target_email: `n${n}@x.example` }));
    expect((await bulk(many)).json['code']).toBe('max_length');
    expect(await count()).toBe(3);
    expect((await bulk(many.slice(1))).status).toBe(200);
    expect(await count()).toBe(23);
  });

  it.each([
    ['an entry without a level', [{ id: 1 }], 'private_project_access__0__level'],
    ['no list', { id: 1 }, 'private_project_access'],
    ['an unknown project', [{ id: 77, level: 'member' }], 'private_project_access__0__id'],
  ])('refuse project access with %s', async (_name, access, attr) => {
    const { call, path } = await inOrganization();
    const answer = await call('POST', `${path}invites/`, {
      target_email: 'a@x.example',
      private_project_access: access,
    });
    expect([answer.status, answer.json['attr']]).toEqual([400, attr]);
  });

  it('change the level of others only, and keep an owner', async () => {
    const running = await inOrganization();
    const { call, path, id } = running;
    const own = '00000000-0000-4000-8000-000000000001';
    const other = addMember(running, id, 'else@x.example');
    const raised = await call('PATCH', `${path}members/${other}/`, { level: 8, joined_at: 'never' });
    expect(raised.json).toMatchObject({ level: 8, joined_at: NOW });
    const refused = await call('PATCH', `${path}members/${own}/`, { level: 1 });
    expect(refused.status).toBe(403);
    const last = await call('DELETE', `${path}members/${own}/`);
    expect([last.status, last.json['attr']]).toEqual([400, 'level']);
    const existing = await call('POST', `${path}invites/`, { target_email: 'Else@x.example' });
    expect([existing.status, existing.json['attr']]).toEqual([400, 'target_email']);
  });
});

describe('roles', () => {
  it('hold members of the organization, once each, and lose them with the member', async () => {
    const running = await inOrganization();
    const { call, path, id } = running;
    const user_uuid = addMember(running, id, 'else@x.example');
    const role = (await call('POST', `${path}roles/`, { name: 'Ops' })).json;
    const memberships = `${path}roles/${role['id'] as string}/role_memberships/`;
    const made = await call('POST', memberships, { user_uuid });
    expect(made.json).toMatchObject({ role_id: role['id'], user_uuid, user: { email: 'else@x.example' } });
    expect((await call('POST', memberships, { user_uuid })).json['code']).toBe('unique');
    const stranger = { user_uuid: '00000000-0000-4000-8000-00000000dead' };
    expect((await call('POST', memberships, stranger)).json['code']).toBe('does_not_exist');
    expect((await call('GET', `${path}roles/${role['id'] as string}/`)).json['members']).toEqual([user_uuid]);
    await call('DELETE', `${path}members/${user_uuid}/`);
    expect((await call('GET', memberships)).json['count']).toBe(0);
    expect((await call('GET', `${path}roles/${role['id'] as string}/`)).json['members']).toEqual([]);
  });

  it('have names that differ, and refuse the name they have', async () => {
    const { call, path } = await inOrganization();
    const role = (await call('POST', `${path}roles/`, { name: 'Ops' })).json;
    expect((await call('POST', `${path}roles/`, { name: 'OPS' })).json['attr']).toBe('name');
    const at = `${path}roles/${role['id'] as string}/`;
    expect((await call('PATCH', at, { name: 'Ops' })).status).toBe(400);
    expect((await call('PATCH', at, { name: 'Operations' })).json['name']).toBe('Operations');
    expect((await call('DELETE', at)).status).toBe(204);
    expect((await call('GET', `${at}role_memberships/`)).status).toBe(404);
  });
});

describe('pipeline components', () => {
  it('show in their family and among the plugins, as one row', async () => {
    const { call, path } = await inOrganization();
    const made = await call('POST', `${path}pipeline_transformations/`, { plugin_type: 'local', name: 'T' });
    const id = valueText(made.json['id']);
    await call('POST', `${path}plugins/`, { plugin_type: 'local', name: 'P' });
    const names = async (family: string): Promise<unknown[]> =>
      resultsOf(await call('GET', `${path}${family}/`)).map((each) => each['name']);
    expect(await names('plugins')).toEqual(['T', 'P']);
    expect(await names('pipeline_transformations')).toEqual(['T']);
    expect(await names('pipeline_destinations')).toEqual([]);
    await call('PATCH', `${path}plugins/${id}/`, { name: 'T2' });
    expect(await names('pipeline_transformations')).toEqual(['T2']);
    expect((await call('GET', `${path}pipeline_destinations/${id}/`)).status).toBe(404);
    expect((await call('DELETE', `${path}pipeline_transformations/${id}/`)).status).toBe(204);
    expect(await names('plugins')).toEqual(['P']);
  });

  it('are seen by other organizations when global, and changed by their own only', async () => {
    const running = await inOrganization();
    const { call, path } = running;
    const other = await withOrganization(running, 'Other');
    const made = await call('POST', `${path}plugins/`, { plugin_type: 'local', name: 'G', is_global: true });
    const id = valueText(made.json['id']);
    const seen = await call('GET', `${other.path}plugins/${id}/`);
    expect(seen.json).toMatchObject({ organization_name: 'Harbor', name: 'G' });
    expect((await call('GET', `${other.path}plugins/`)).json['count']).toBe(1);
    expect((await call('PATCH', `${other.path}plugins/${id}/`, { name: 'x' })).status).toBe(403);
    expect((await call('DELETE', `${other.path}plugins/${id}/`)).status).toBe(403);
    await call('PATCH', path, { name: 'Harbour' });
    await call('PATCH', `${path}plugins/${id}/`, { is_global: false });
    expect((await call('GET', `${path}plugins/${id}/`)).json['organization_name']).toBe('Harbour');
    expect((await call('GET', `${other.path}plugins/`)).json['count']).toBe(0);
  });

  it('never give an id twice, and move to the newest version when told', async () => {
    const { call, path, sandbox, id } = await inOrganization();
    const add = async (): Promise<unknown> =>
      (await call('POST', `${path}plugins/`, { plugin_type: 'local' })).json['id'];
    expect([await add(), await add()]).toEqual([1, 2]);
    await call('DELETE', `${path}plugins/2/`);
    expect(await add()).toBe(3);
    sandbox.store.write('plugins', { organization_id: id }, { id: 40, tag: 'v1', latest_tag: 'v2' });
    expect(await add()).toBe(41);
    expect((await call('POST', `${path}plugins/40/upgrade/`, {})).text).toBe('');
    expect((await call('PATCH', `${path}plugins/40/update_source/`, { description: 'd' })).text).toBe('');
    expect((await call('GET', `${path}plugins/40/`)).json).toMatchObject({ tag: 'v2', description: 'd' });
  });
});

describe('projects and proxy records', () => {
  it('change tokens when told, and the live one by the hour', async () => {
    const { call, path, projectId, clock } = await inOrganization();
    const at = `${path}projects/${projectId}/`;
    const before = (await call('GET', at)).json;
    expect((await call('GET', at)).json).toEqual(before);
    const reset = (await call('PATCH', `${at}reset_token/`)).json;
    expect(reset['api_token']).not.toBe(before['api_token']);
    clock.advance(3_600_000);
    expect((await call('GET', at)).json['live_events_token']).not.toBe(before['live_events_token']);
    expect((await call('GET', `${at}is_generating_demo_data/`)).json).toEqual({
      is_generating_demo_data: false,
    });
  });

  it('take their recordings along', async () => {
    const { call, path, projectId, sandbox } = await inOrganization();
    sandbox.store.write('session_recordings', { project_id: projectId }, { id: 'r' });
    expect((await call('DELETE', `${path}projects/${projectId}/`)).status).toBe(204);
    expect((await call('GET', `/api/projects/${projectId}/session_recordings/`)).status).toBe(404);
    expect([...sandbox.snapshot()].map((each) => each.kind)).toEqual(['organizations', 'members']);
  });

  it('never move a proxy to another name', async () => {
    const { call, path } = await inOrganization();
    const made = await call('POST', `${path}proxy_records/`, { domain: 'e.example' });
    const at = `${path}proxy_records/${made.json['id'] as string}/`;
    expect((await call('PATCH', at, { domain: 'f.example' })).json['attr']).toBe('domain');
    expect((await call('PATCH', at, { domain: 'e.example' })).json).toEqual(made.json);
    expect((await call('DELETE', at)).status).toBe(204);
  });
});

describe('session recordings', () => {
  it('come newest first, each with a sharing of its own', async () => {
    const { call, projectId, sandbox } = await inOrganization();
    const scope = { project_id: projectId };
    for (const [id, day] of [
      ['old', '01'],
      ['new', '03'],
      ['mid', '02'],
    ] as const) {
      sandbox.store.write('session_recordings', scope, { id, start_time: `2026-05-${day}T00:00:00Z` });
    }
    sandbox.store.write(
      'recording_sharing',
      scope,
      { enabled: true, access_token: 't', created_at: null },
      'mid',
    );
    const path = `/api/projects/${projectId}/session_recordings/`;
    const ids = resultsOf(await call('GET', path)).map((each) => each['id']);
    expect(ids).toEqual(['new', 'mid', 'old']);
    expect((await call('GET', `${path}mid/sharing/`)).json).toMatchObject({
      enabled: true,
      access_token: 't',
    });
    const implied = (await call('GET', `${path}old/sharing/`)).json;
    expect(implied).toMatchObject({ enabled: false, created_at: '2026-05-01T00:00:00Z' });
    expect((await call('GET', `${path}old/sharing/`)).json).toEqual(implied);
    expect((await call('GET', `${path}none/sharing/`)).status).toBe(404);
    await call('DELETE', `${path}mid/`);
    expect((await call('GET', `${path}mid/sharing/`)).status).toBe(404);
    expect([...sandbox.snapshot()].filter((each) => each.kind === 'recording_sharing')).toHaveLength(2);
  });
});
