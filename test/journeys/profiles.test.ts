/** The `posthog` profile against a server that behaves as wire-notes.md says; each test names the quirk that it is about. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { type Body, ORG, uuid } from '../profiles/deployment-records.ts';
import { type Seen, type Traits, Deployment } from '../profiles/deployment.ts';
import { commandLine } from './command-line.ts';
import { type Ended, environment, scratch } from './harness.ts';
import type { PlanJson, RestoreJson, StepJson } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';

const RECORDINGS = 'session_recordings,recording_sharing';

class Trial {
  readonly far: Deployment;
  readonly env: Record<string, string>;
  readonly directory = scratch();

  private constructor(far: Deployment, env: Readonly<Record<string, string>>) {
    this.far = far;
    this.env = environment(far.url, this.directory, {
      TIDEMARK_PROFILE: 'posthog',
      TIDEMARK_RETRY_ATTEMPTS: '1',
      ...env,
    });
  }

  static async start(traits: Traits = {}, env: Readonly<Record<string, string>> = {}): Promise<Trial> {
    return new Trial(await Deployment.start(traits), env);
  }

  async run(code: number, ...args: string[]): Promise<Ended> {
    const ended = await commandLine(args, { env: this.env, cwd: this.directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  }

  async json<T>(code: number, ...args: string[]): Promise<T> {
    return JSON.parse((await this.run(code, ...args, '--json')).stdout) as T;
  }

  async sync(code = 0): Promise<readonly Body[]> {
    const { runs } = await this.json<{ runs: { sweeps: Body[] }[] }>(code, 'sync');
    return runs[0]?.sweeps ?? [];
  }

  async exported(...args: string[]): Promise<{ kind: string; id: string; body: Body }[]> {
    return this.exportedWith(0, ...args);
  }

  async exportedWith(code: number, ...args: string[]): Promise<{ kind: string; id: string; body: Body }[]> {
    const { stdout } = await this.run(code, 'export', ...args);
    return stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { kind: string; id: string; body: Body });
  }

  seen(part: string): Seen[] {
    return this.far.seen.filter(({ path, search }) => `${path}${search}`.includes(part));
  }
}

describe('reading a deployment with its profile', () => {
  it('proves every list whole, whatever its shape, and finds nothing changed a moment later', async () => {
    const trial = await Trial.start({}, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const sweeps = await trial.sync();
    expect(sweeps.map(({ outcome }) => outcome)).toEqual(sweeps.map(() => 'complete'));
    const records = Object.groupBy(sweeps, ({ kind }) => String(kind));
    const counts = (kind: string): unknown[] => (records[kind] ?? []).map((each) => each['records']);
    // The bare array, and the list without a count.
    expect(counts('proxy_records')).toEqual([1]);
    expect(counts('session_recordings')).toEqual([120, 0]);
    // Volatile members moved in between: tokens that are new on every answer, sign-ins, what counts itself.
    trial.far.state.organizations[0]!['member_count'] = 99;
    trial.far.state.members[0]!['last_login'] = '2026-03-02T00:00:00Z';
    trial.far.state.exports[0]!['latest_runs'] = [];
    trial.far.state.components[1]!['latest_tag'] = 'newer';
    trial.far.state.proxies[0]!['status'] = 'erroring';
    const again = await trial.sync();
    expect(again.reduce((sum, { changed }) => sum + Number(changed), 0)).toBe(0);
    expect((await trial.run(0, 'diff', 'latest', 'live')).stdout).toContain('No differences');
    expect(trial.far.writes()).toEqual([]);
  });

  it('asks for roles without a query, for recordings by their date, and for each project as a whole', async () => {
    const trial = await Trial.start({}, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    await trial.sync();
    expect(trial.seen('/roles/').filter(({ status }) => status !== 200)).toEqual([]);
    const first = trial.seen('/projects/1/session_recordings/?')[0];
    expect(first?.search).toContain('date_from=-5y');
    const [project] = await trial.exported('--kind', 'projects', '--id', '1');
    // Not in the row of the list.
    expect(project?.body).toMatchObject({ anonymize_ips: true, session_recording_opt_in: true });
  });

  it('follows `next` on the configured origin, though it names another', async () => {
    const trial = await Trial.start({}, { TIDEMARK_PAGE_SIZE: '2', TIDEMARK_KINDS_EXCLUDE: RECORDINGS });
    const sweeps = await trial.sync();
    expect(sweeps.find(({ kind }) => kind === 'plugins')).toMatchObject({ outcome: 'complete', records: 5 });
    expect(trial.seen('/plugins/').length).toBeGreaterThan(1);
  });

  it('keeps values of other types than documented as they came, under their wire names', async () => {
    const trial = await Trial.start({}, { TIDEMARK_KINDS_EXCLUDE: RECORDINGS });
    await trial.sync();
    const records = await trial.exported();
    const of = (kind: string): Body | undefined => records.find((each) => each.kind === kind)?.body;
    expect(of('organizations')).toMatchObject({ metadata: { instance_tag: 'none' }, member_count: 3 });
    expect(of('plugins')).toMatchObject({ hog_function_migration_available: true });
    expect(of('roles')?.['members']).toHaveLength(2);
  });

  it('takes the object without count and next for a list too', async () => {
    const trial = await Trial.start(
      { proxiesInObject: true },
      { TIDEMARK_KINDS_INCLUDE: 'organizations,proxy_records' },
    );
    const sweeps = await trial.sync();
    expect(sweeps.map(({ outcome }) => outcome)).toEqual(['complete', 'complete']);
  });

  it('takes families that a newer deployment dropped for not offered, never for removed', async () => {
    const before = await Trial.start({}, { TIDEMARK_KINDS_EXCLUDE: RECORDINGS });
    await before.sync();
    const after = await Deployment.start({ isNewer: true });
    before.env['TIDEMARK_BASE_URL'] = after.url;
    const sweeps = await before.sync(3);
    const plugins = sweeps.find(({ kind }) => kind === 'plugins');
    expect(plugins).toMatchObject({ outcome: 'missing', removed: 0 });
    expect((await before.exportedWith(3, '--kind', 'plugins')).length).toBe(5);
  });

  it('waits as long as it is asked to, and goes on', async () => {
    const trial = await Trial.start(
      { throttleAfter: 3 },
      { TIDEMARK_KINDS_INCLUDE: 'organizations,members,domains,invites,roles', TIDEMARK_RETRY_ATTEMPTS: '3' },
    );
    await trial.sync();
    expect(trial.far.seen.filter(({ status }) => status === 429)).toHaveLength(1);
  });

  it('names the permission that the key lacks', async () => {
    const trial = await Trial.start(
      { permissions: ['organization:read', 'project:read', 'plugin:write'] },
      { TIDEMARK_KINDS_EXCLUDE: RECORDINGS },
    );
    const sweeps = await trial.sync(3);
    const of = (kind: string): Body | undefined => sweeps.find((each) => each['kind'] === kind);
    expect(of('members')).toMatchObject({
      outcome: 'denied',
      error: { permission: 'organization_member:read' },
    });
    // Write implies read.
    expect(of('plugins')).toMatchObject({ outcome: 'complete' });
  });
});

describe('putting back what was there', () => {
  async function damaged(traits: Traits, damage: (far: Deployment) => void): Promise<Trial> {
    const trial = await Trial.start(traits, { TIDEMARK_KINDS_EXCLUDE: RECORDINGS });
    await trial.sync();
    damage(trial.far);
    trial.far.seen.length = 0;
    return trial;
  }

  const stepOf = (plan: PlanJson, kind: string): StepJson | undefined =>
    plan.steps.find((each) => each.kind === kind);

  /** `byPerson`: kinds of the records that a person has to finish. */
  async function apply(trial: Trial, byPerson: readonly string[] = []): Promise<void> {
    const done = await trial.json<RestoreJson>(
      byPerson.length === 0 ? 0 : 3,
      ...['restore', 'latest', '--apply', '--yes'],
    );
    const sent = done.steps.filter(({ outcome }) => outcome !== 'manual');
    expect(sent.map(({ outcome }) => outcome)).toEqual(sent.map(() => 'applied'));
    expect(done.steps.map(({ verified }) => verified)).not.toContain(false);
    const left = await trial.json<PlanJson>(byPerson.length === 0 ? 0 : 3, 'restore', 'latest');
    expect(left.steps.map(({ kind, action }) => [kind, action])).toEqual(
      byPerson.map((kind) => [kind, 'manual']),
    );
  }

  it('settings of every kind, by what each accepts', async () => {
    const trial = await damaged({}, ({ state }) => {
      state.organizations[0]!['is_member_join_email_enabled'] = false;
      state.projects[0]!['timezone'] = 'Asia/Tokyo';
      state.roles[1]!['name'] = 'Authors';
      state.members[1]!['level'] = 1;
      state.domains[0]!['sso_enforcement'] = '';
      state.components[1]!['name'] = 'renamed';
    });
    const plan = await trial.json<PlanJson>(2, 'restore', 'latest');
    // One id in two lists is restored once.
    expect(plan.steps.filter(({ id }) => id === '12')).toHaveLength(1);
    expect(trial.far.writes()).toEqual([]);
    await apply(trial);
    // Changed fields only: a name that is sent unchanged would be refused.
    const sent = new Map(trial.far.writes().map(({ path, body }) => [path.split('/').at(4), body]));
    expect(Object.fromEntries(sent)).toMatchObject({
      projects: { timezone: 'UTC' },
      roles: { name: 'Writers' },
      members: { level: 8 },
      domains: { sso_enforcement: 'google-oauth2' },
    });
  });

  it('batch exports by the project at once, for the organization answers 500; omitted secrets survive', async () => {
    const trial = await damaged({}, ({ state }) => {
      (state.exports[0]!['destination'] as { config: Body }).config['host'] = 'elsewhere.example.com';
    });
    await apply(trial);
    expect(trial.far.writes().map(({ path, status }) => `${path.split('/')[2]} ${status}`)).toEqual([
      'projects 200',
    ]);
    expect(trial.far.writes()[0]?.body).toEqual({
      destination: { type: 'Postgres', config: { host: 'db.example.com', schema: 'public' } },
    });
    expect(trial.far.state.secrets.get(uuid(7, 2))).toEqual({ user: 'loader', password: 'stored-password' });
  });

  it('a query that only `schema` shows, and undoes it', async () => {
    const trial = await damaged({}, ({ state }) => {
      state.exports[0]!['schema'] = { hogql_query: 'SELECT 1', fields: [{ alias: 'event' }] };
    });
    const plan = await trial.json<PlanJson>(2, 'restore', 'latest');
    expect(stepOf(plan, 'batch_exports')).toMatchObject({
      action: 'update',
      fields: [{ path: '/hogql_query', from: 'SELECT 1', to: 'SELECT event FROM events' }],
      request: { body: { hogql_query: 'SELECT event FROM events' } },
    });
    await apply(trial);
    expect(trial.far.writes().map(({ path, status }) => `${path.split('/')[2]} ${status}`)).toEqual([
      'projects 200',
    ]);
    expect(trial.far.state.exports[0]!['schema']).toMatchObject({ hogql_query: 'SELECT event FROM events' });
    const undone = await trial.json<RestoreJson>(0, 'undo', '1', '--apply', '--yes');
    expect(undone.steps.map(({ outcome, verified }) => [outcome, verified])).toEqual([['applied', true]]);
    expect(trial.far.state.exports[0]!['schema']).toMatchObject({ hogql_query: 'SELECT 1' });
  });

  it('never writes a mask back', async () => {
    const trial = await damaged({ mask: '********', exportsWritableThere: true }, ({ state }) => {
      (state.exports[0]!['destination'] as { config: Body }).config['host'] = 'elsewhere.example.com';
    });
    await apply(trial);
    expect(JSON.stringify(trial.far.writes().map(({ body }) => body))).not.toContain('****');
    expect(trial.far.state.secrets.get(uuid(7, 2))).toEqual({ user: 'loader', password: 'stored-password' });
  });

  it('a deleted batch export only with its secrets, paused at first, with the query that `schema` shows', async () => {
    const trial = await damaged({}, ({ state }) => void state.exports.splice(1, 1));
    const blocked = await trial.json<PlanJson>(3, 'restore', 'latest');
    expect(stepOf(blocked, 'batch_exports')).toMatchObject({ action: 'blocked' });
    expect(JSON.stringify(stepOf(blocked, 'batch_exports'))).toContain('aws_secret_access_key');
    trial.env['TIDEMARK_SECRETS'] = JSON.stringify({
      batch_exports: [
        {
          values: {
            '/destination/config/aws_access_key_id': 'AKIA9',
            '/destination/config/aws_secret_access_key': 'given-again',
          },
        },
      ],
    });
    await trial.run(0, 'restore', 'latest', '--apply', '--yes');
    const created = trial.far.writes().find(({ method, status }) => method === 'POST' && status === 201);
    expect(created?.path).toBe('/api/projects/1/batch_exports/');
    expect(created?.body).toMatchObject({ paused: true, hogql_query: 'SELECT event FROM events' });
    expect(trial.far.state.exports[0]).toMatchObject({ name: 'Events to S3', paused: false });
    expect([...trial.far.state.secrets.values()].at(-1)).toMatchObject({
      aws_secret_access_key: 'given-again',
    });
    expect(trial.far.writes().some(({ path }) => path.includes('backfill'))).toBe(false);
  });

  it('a role with its memberships by user, a proxy record by domain, an invite without a mail, a component with its url', async () => {
    const trial = await damaged({}, ({ state }) => {
      state.roles.splice(0, 1);
      state.memberships.length = 0;
      state.proxies.length = 0;
      state.invites.length = 0;
      state.components.splice(2, 1);
    });
    // The proxy record waits for DNS.
    await apply(trial, ['proxy_records']);
    const sent = trial.far.writes().map(({ path, body }) => [path.split('/').at(-2), body]);
    expect(sent).toContainEqual(['roles', { name: 'Analysts' }]);
    expect(sent).toContainEqual(['role_memberships', { user_uuid: uuid(1, 2) }]);
    expect(sent).toContainEqual(['proxy_records', { domain: 'e.harbor.example.com' }]);
    expect(sent.find(([kind]) => kind === 'invites')?.[1]).toMatchObject({ send_email: false });
    expect(sent.find(([kind]) => kind === 'pipeline_destinations')?.[1]).toMatchObject({
      url: 'https://github.com/example/13',
    });
    // The new role's memberships hang from its new id.
    const role = trial.far.state.roles.find(({ name }) => name === 'Analysts');
    expect(trial.far.state.memberships.map(({ role_id }) => role_id)).toEqual([role?.['id'], role?.['id']]);
  });

  it('not what belongs to another organization, not what a person must do, not what cannot be undone', async () => {
    const trial = await damaged({}, ({ state }) => {
      state.components[0]!['name'] = 'changed by its maker';
      state.members.splice(2, 1);
      state.domains.length = 0;
    });
    const plan = await trial.json<PlanJson>(3, 'restore', 'latest');
    expect(stepOf(plan, 'members')).toMatchObject({ action: 'manual' });
    expect(stepOf(plan, 'pipeline_transformations') ?? stepOf(plan, 'plugins')).toMatchObject({
      action: 'blocked',
    });
    await trial.run(3, 'restore', 'latest', '--apply', '--yes');
    const domain = trial.far.writes().find(({ path }) => path.endsWith('/domains/'));
    // Both are refused until somebody published the challenge.
    expect(Object.keys(domain?.body ?? {})).not.toContain('sso_enforcement');
    expect(trial.far.writes().filter(({ status }) => status === 400)).toEqual([]);
  });
});

describe('the default profile against the interface as documented', () => {
  it('reads all of it, and writes nothing that the documentation does not show', async () => {
    const sandbox = await createSandbox({
      clock: systemClock,
      keys: [{ key: 'test-key-of-some-length', permissions: 'all' }],
      seed: smallDemo(),
    });
    onTestFinished(() => sandbox.close());
    const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
    const directory = scratch();
    const env = environment(url, directory, { TIDEMARK_KINDS_EXCLUDE: RECORDINGS });
    const run = (...args: string[]): Promise<Ended> => commandLine(args, { env, cwd: directory });
    expect((await run('sync', '--quiet')).code).toBe(0);
    const path = `${url}/api/organizations/${KITTIWAKE_ID}/roles/`;
    const headers = { authorization: 'Bearer test-key-of-some-length', 'content-type': 'application/json' };
    const roles = (await (await fetch(path, { headers })).json()) as { results: { id: string }[] };
    const changed = await fetch(`${path}${roles.results[0]?.id ?? ''}/`, {
      method: 'PATCH',
      headers,
      body: '{"name":"Renamed"}',
    });
    expect(changed.status).toBe(200);
    const ended = await run('restore', 'latest', '--json');
    const plan = JSON.parse(ended.stdout) as PlanJson;
    expect(plan.steps.find(({ kind }) => kind === 'roles')).toMatchObject({ action: 'blocked' });
    expect(plan.steps.find(({ kind }) => kind === 'roles')?.reason).toContain('definitions: { roles:');
    expect(ORG).not.toBe(KITTIWAKE_ID);
  });
});
