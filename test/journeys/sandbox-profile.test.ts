/** `sandbox --profile posthog`: from init to a restore, with the profile that the answers show. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it, onTestFinished } from 'vitest';
import { profileOption } from '../../src/config/profile.ts';
import { systemClock } from '../../src/core/clock.ts';
import { type JsonObject } from '../../src/core/json.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { valueText } from '../../src/server/value-text.ts';
import { smallDemo } from '../server/small-demo.ts';
import { commandLine } from './command-line.ts';
import { type Ended, program, scratch } from './harness.ts';
import type { PlanJson, RestoreJson } from './restore-story.ts';

const KEY = 'test-key-of-some-length';
const READER = 'test-key-that-may-write-exports-only';
const READS = ['organization:read', 'organization_member:read', 'project:read', 'plugin:read']
  .concat(['session_recording:read', 'sharing_configuration:read'])
  .concat(['batch_export:write']);
const SCOPE = { organization_id: KITTIWAKE_ID };

it('is recognized by init, read completely, and restored under the names and paths of the profile', async () => {
  const sandbox = await createSandbox({
    clock: systemClock,
    keys: [
      { key: KEY, permissions: 'all' },
      { key: READER, permissions: READS },
    ],
    seed: smallDemo(),
    profile: profileOption('posthog', '.'),
  });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
  const directory = scratch();
  writeFileSync(join(directory, 'key'), KEY, { mode: 0o600 });
  const run = async (code: number, ...args: string[]): Promise<Ended> => {
    const env = { TIDEMARK_RATE_PER_MINUTE: '0', TIDEMARK_RATE_PER_HOUR: '0' };
    const ended = await commandLine(args, { env, cwd: directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  const begun = await run(0, 'init', '--url', url, '--key-file', 'key', '--recordings');
  expect(begun.stderr).toContain('this looks like posthog: roles answer only without a query string; proxy');
  expect(readFileSync(join(directory, 'tidemark.yaml'), 'utf8')).toContain('profile: "posthog"');
  const { runs } = JSON.parse((await run(0, 'sync', '--json')).stdout) as {
    runs: { sweeps: { kind: string; outcome: string; records: number }[] }[];
  };
  const sweeps = runs[0]?.sweeps ?? [];
  expect(new Set(sweeps.map(({ outcome }) => outcome))).toEqual(new Set(['complete']));
  for (const kind of ['roles', 'proxy_records', 'projects', 'session_recordings'])
    expect(sweeps.find((each) => each.kind === kind)?.records, kind).toBeGreaterThan(0);

  // Damage, past the interface: a query, a setting of a project, a role's name, a component.
  const answered = [...sandbox.snapshot()];
  const first = (kind: string, isIt: (body: JsonObject) => boolean): { id: string; body: JsonObject } => {
    const found = answered.find((each) => each.kind === kind && isIt(each.body));
    if (found === undefined) throw new Error(`the demo has no such record of ${kind}`);
    return found;
  };
  const queried = first('batch_exports', ({ svcql_query }) => typeof svcql_query === 'string');
  const query = 'SELECT 1';
  sandbox.store.write('batch_exports', SCOPE, {
    ...queried.body,
    svcql_query: query,
    schema: { svcql_query: query, fields: [] },
  });
  const project = first('projects', () => true);
  sandbox.store.write('projects', SCOPE, { ...project.body, timezone: 'Asia/Tokyo' });
  const role = first('roles', () => true);
  sandbox.store.write('roles', SCOPE, { ...role.body, name: 'Renamed' });
  const component = first(
    'pipeline_destinations',
    ({ organization_id, url: at }) => organization_id === KITTIWAKE_ID && typeof at === 'string',
  );
  sandbox.store.discard('pipeline_destinations', SCOPE, component.id);

  const plan = JSON.parse((await run(2, 'restore', 'latest', '--json')).stdout) as PlanJson;
  expect((plan.warnings ?? []).join()).not.toContain('lacks');
  writeFileSync(join(directory, 'key'), READER);
  const refused = JSON.parse((await run(2, 'restore', 'latest', '--json')).stdout) as PlanJson;
  const exports = refused.steps.filter(({ kind }) => kind === 'batch_exports');
  expect(refused.warnings).toContainEqual(
    expect.stringMatching(
      new RegExp(
        `^the key lacks .*project:write.*: the service would refuse ${refused.steps.length - exports.length} of ${refused.steps.length} steps$`,
      ),
    ),
  );
  writeFileSync(join(directory, 'key'), KEY);
  const step = plan.steps.find(({ kind }) => kind === 'batch_exports');
  expect(step?.request).toMatchObject({
    method: 'PATCH',
    body: { hogql_query: queried.body['svcql_query'] },
  });
  // The settings of the component are left to enter by hand.
  const done = JSON.parse(
    (await run(3, 'restore', 'latest', '--apply', '--yes', '--json')).stdout,
  ) as RestoreJson;
  expect(done.steps.map(({ outcome, verified }) => [outcome, verified])).toEqual(
    done.steps.map(() => ['applied', true]),
  );
  expect((await run(0, 'restore', 'latest')).stdout).toContain('nothing to do');
  const after = [...sandbox.snapshot()];
  const now = (kind: string, name: string): JsonObject | undefined =>
    after.find((each) => each.kind === kind && each.body['name'] === name)?.body;
  expect(now('batch_exports', valueText(queried.body['name']))?.['svcql_query']).toBe(
    queried.body['svcql_query'],
  );
  expect(now('projects', valueText(project.body['name']))?.['timezone']).toBe(project.body['timezone']);
  expect(now('roles', valueText(role.body['name']))).toBeDefined();
  // Taken on creation, though the documentation marks it as response only.
  expect(now('pipeline_destinations', valueText(component.body['name']))?.['url']).toBe(
    component.body['url'],
  );
});

it('answers under the shapes and the limits of the profile, by the command', async () => {
  const child = spawn(
    process.execPath,
    [program, 'sandbox', '--profile', 'posthog', '--port', '0', '--json'],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  onTestFinished(async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  });
  const [line] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  const { url } = JSON.parse(line) as { url: string };
  const ask = async (path: string, how: RequestInit = {}): Promise<{ status: number; body: unknown }> => {
    const headers = { authorization: 'Bearer sandbox-key', 'content-type': 'application/json' };
    const answer = await fetch(`${url}/api/${path}`, { headers, ...how });
    return { status: answer.status, body: await answer.json() };
  };
  const below = `organizations/${KITTIWAKE_ID}`;
  expect((await ask(`${below}/roles/`)).status).toBe(200);
  expect((await ask(`${below}/roles/?limit=1`)).status).toBe(500);
  expect((await ask(`${below}/proxy_records/`)).body).toBeInstanceOf(Array);
  const row = ((await ask(`${below}/projects/`)).body as { results: JsonObject[] }).results[0];
  expect(row).not.toHaveProperty('timezone');
  expect((await ask(`${below}/projects/1/`)).body).toHaveProperty('timezone');
  expect((await ask('projects/1/session_recordings/')).body).toEqual({ results: [], has_next: false });
  const all = await ask('projects/1/session_recordings/?date_from=-5y&limit=2');
  expect(all.body).toMatchObject({ results: [{}, {}], has_next: true });
  expect((await ask('projects/1/session_recordings/?page=1')).status).toBe(400);
  expect((await ask(`${below}/`)).body).toMatchObject({ member_count: 48, metadata: {} });
  expect((await ask('personal_api_keys/@current/')).body).toMatchObject({ scopes: ['*'] });
  const created = { name: 'x', interval: 'day', destination: { type: 'NoOp' }, hogql_query: 'SELECT 2' };
  const post = { method: 'POST', body: JSON.stringify(created) };
  expect((await ask(`${below}/batch_exports/`, post)).status).toBe(500);
  const made = await ask('projects/2/batch_exports/', post);
  expect(made).toMatchObject({ status: 201, body: { team_id: 2, schema: { hogql_query: 'SELECT 2' } } });
  expect(made.body).not.toHaveProperty('hogql_query');
  const closed = await ask(`${below}/projects/1/reset_token/`, { method: 'PATCH', body: '{}' });
  expect(closed).toMatchObject({ status: 403, body: { code: 'permission_denied' } });
});

it('refuses a profile that there is not', async () => {
  const ended = await commandLine(['sandbox', '--profile', 'posthug'], { env: {}, cwd: scratch() });
  expect([ended.code, ended.stderr]).toEqual([4, expect.stringContaining('did you mean "posthog"?')]);
});
