import { stripVTControlCharacters } from 'node:util';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { existsSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { runCommandLine } from '../../src/cli/program.ts';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { Deployment, type Traits } from '../profiles/deployment.ts';
import { commandLine } from './command-line.ts';
import { type Ended, environment, scratch } from './harness.ts';
import { FakeService, forbidden, notFound, ORG, respond } from './service.ts';

/** A terminal that keeps what it shows. */
class Terminal extends Writable {
  readonly isTTY = true;
  readonly columns = 80;
  text = '';

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    done();
  }
}

interface KindJson {
  readonly kind: string;
  readonly organization: string | null;
  readonly state: string;
  readonly records: number | null;
  readonly list: string | null;
  readonly permission: string | null;
  readonly refuses_query: boolean;
  readonly error: { readonly hint: string | null } | null;
  readonly next: { readonly other_origin: string | null; readonly advances: boolean | null } | null;
}

interface DoctorJson {
  readonly schema: string;
  readonly sources: readonly {
    readonly error: { readonly code: string } | null;
    readonly kinds: readonly KindJson[];
    readonly clock: { readonly ahead_ms: number; readonly doubt_ms: number } | null;
    readonly page: { readonly received: number; readonly is_cap: boolean } | null;
    readonly requests: number;
  }[];
  readonly mirror: Readonly<Record<string, unknown>>;
  readonly backups: readonly {
    readonly target: string;
    readonly is_on_mirror_disk: boolean;
    readonly error: { readonly code: string } | null;
  }[];
  readonly problems: readonly {
    readonly gravity: string;
    readonly code: string;
    readonly message: string;
    readonly next: string;
  }[];
}

async function examine(
  code: number,
  env: Readonly<Record<string, string>>,
  cwd: string,
): Promise<{ document: DoctorJson; kind: (name: string) => KindJson | undefined; codes: string[] }> {
  const ended = await commandLine(['doctor', '--json'], { env, cwd });
  expect(ended.code, ended.stdout + ended.stderr).toBe(code);
  const document = JSON.parse(ended.stdout) as DoctorJson;
  return {
    document,
    kind: (name) => document.sources[0]?.kinds.find(({ kind }) => kind === name),
    codes: document.problems.map(({ code: each }) => each),
  };
}

function text(env: Readonly<Record<string, string>>, cwd: string, ...args: string[]): Promise<Ended> {
  return commandLine(['doctor', ...args], { env, cwd });
}

async function rig(): Promise<{ service: FakeService; directory: string; env: Record<string, string> }> {
  const service = await FakeService.start();
  const directory = scratch();
  return { service, directory, env: environment(service.url, directory) };
}

async function deployed(traits: Traits, profile: string) {
  const far = await Deployment.start(traits);
  const directory = scratch();
  return { far, directory, env: environment(far.url, directory, { TIDEMARK_PROFILE: profile }) };
}

describe('doctor', () => {
  it('finds nothing wrong with a service as documented, asks little, and only reads', async () => {
    const { service, directory, env } = await rig();
    service.set('members', [{ id: 'm', user: { uuid: 'u' } }]);
    const { document, kind, codes } = await examine(0, env, directory);
    expect(document.schema).toBe('tidemark.doctor/1');
    expect(kind('members')).toMatchObject({
      state: 'readable',
      records: 1,
      list: 'envelope',
      organization: ORG,
    });
    expect(kind('domains')).toMatchObject({ state: 'empty', records: 0 });
    expect(codes).toEqual(['mirror_missing']);
    expect(service.seen.length).toBe(document.sources[0]?.requests);
    expect(service.seen.length).toBeLessThan(20);
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
    // What was only looked at is not made.
    expect(existsSync(join(directory, 'mirror.db'))).toBe(false);
    expect((await text(env, directory)).stdout).toMatch(
      /\nthe service, the key and this machine: all fine\n$/,
    );
    expect((await commandLine(['sync'], { env, cwd: directory })).code).toBe(0);
    expect((await text(env, directory)).stdout).toMatch(
      /\nthe service, the key, the file of the mirror and this machine: all fine\n\n`tidemark status` shows whether .*\n$/,
    );
  });

  it('names what the key lacks, what is not offered and what fails, worst first, each with a next step', async () => {
    const { service, directory, env } = await rig();
    service.quirks.push(({ path }, response) => {
      if (path.endsWith('/plugins/')) return forbidden(response, 'plugin:read');
      if (path.endsWith('/batch_exports/')) return respond(response, 503, '{"detail":"down for a while"}');
      return path.endsWith('/proxy_records/') && notFound(response);
    });
    env['TIDEMARK_RETRY_ATTEMPTS'] = '1';
    const { document, kind, codes } = await examine(3, env, directory);
    expect(kind('plugins')).toMatchObject({ state: 'denied', permission: 'plugin:read' });
    expect(kind('proxy_records')).toMatchObject({ state: 'not_offered' });
    expect(kind('batch_exports')).toMatchObject({ state: 'failing' });
    expect(codes).toEqual(['permission_missing', 'server_error', 'not_offered', 'mirror_missing']);
    const [missing, , unoffered] = document.problems;
    expect(missing?.next).toContain('give the key the permission plugin:read, or exclude the kind');
    expect(unoffered?.next).toContain('kinds: { exclude: [proxy_records] }');
    expect(kind('plugins')?.error?.hint).toBe(missing?.next);
    expect(kind('proxy_records')?.error?.hint).toBe(unoffered?.next);
    expect(document.problems.every(({ next }) => next !== '')).toBe(true);
    const { stdout } = await text(env, directory);
    expect(stdout).toMatch(/plugins +DENIED .* needs plugin:read/);
    expect(stdout).toContain('the service does not report what the key may write: only a restore shows it');
    expect(stdout.indexOf('✗ plugins')).toBeLessThan(stdout.indexOf('! not offered'));
  });

  it.each([
    ['no organization', 1, []],
    ['others', 3, [{ id: '0190bbbb-0000-7000-8000-000000000002', name: 'Other', teams: [] }]],
  ])('says first that the address is another one, which has %s', async (_what, code, organizations) => {
    const { service, directory, env } = await rig();
    expect((await commandLine(['sync', '--quiet'], { env, cwd: directory })).code).toBe(0);
    const elsewhere = await FakeService.start();
    elsewhere.lists.clear();
    elsewhere.lists.set(
      '/api/organizations/',
      organizations.map((each) => JSON.stringify(each)),
    );
    const { document } = await examine(code, { ...env, TIDEMARK_BASE_URL: elsewhere.url }, directory);
    expect(document.problems[0]).toMatchObject({
      code: 'moved_address',
      message: expect.stringContaining(
        `none of what was read at ${service.url}/ before is at ${elsewhere.url}/`,
      ) as string,
      next: expect.stringContaining('correct baseUrl') as string,
    });
    expect(JSON.stringify(document.problems)).not.toMatch(/exclude|still sees them/);
  });

  it.each([
    ['shows none', 0, 'the list is empty; the mirror holds 1 organization'],
    ['counts one and shows none', 1, 'the list is empty but says that it holds 1'],
  ])('is not fine with a list of organizations that %s', async (_name, count, message) => {
    const { service, directory, env } = await rig();
    expect((await commandLine(['sync', '--quiet'], { env, cwd: directory })).code).toBe(0);
    service.quirks.push(
      ({ path }, response) =>
        path === '/api/organizations/' &&
        respond(response, 200, `{"count":${count},"next":null,"previous":null,"results":[]}`),
    );
    const { document, kind } = await examine(3, env, directory);
    expect(kind('organizations')).toMatchObject({ state: 'failing' });
    expect(document.problems).toMatchObject([
      { code: 'walk_unproven', message: expect.stringContaining(message) as string },
    ]);
  });

  it('is 5 where the key is refused for everything, and says nothing of the key', async () => {
    const { service, directory, env } = await rig();
    service.quirks.push((_request, response) => respond(response, 401, '{"detail":"Invalid API key."}'));
    const { document } = await examine(5, env, directory);
    expect(document.sources[0]?.error).toMatchObject({ code: 'unauthorized' });
    expect(service.seen).toHaveLength(1);
    expect(JSON.stringify(document)).not.toContain(env['TIDEMARK_API_KEY']);
  });

  it.each([
    [
      'a page instead of JSON',
      { 'content-type': 'text/html' },
      200,
      '<html>Sign in</html>',
      'malformed',
      'baseUrl',
    ],
    [
      'a redirect to a login',
      { location: 'https://login.example.com/' },
      302,
      '',
      'redirected',
      'login.example.com',
    ],
  ])('is 1 for %s, and says where to look', async (_name, headers, status, body, code, words) => {
    const { service, directory, env } = await rig();
    service.quirks.push((_request, response) => respond(response, status, body, headers));
    env['TIDEMARK_RETRY_ATTEMPTS'] = '1';
    const { document } = await examine(1, env, directory);
    expect(document.problems[0]).toMatchObject({ code, gravity: 'error' });
    expect(`${document.problems[0]?.message} ${document.problems[0]?.next}`).toContain(words);
  });

  it('is 1 where nobody answers, and still looks at this machine', async () => {
    const { service, directory, env } = await rig();
    await commandLine(['sync', '--quiet'], { env, cwd: directory });
    const closed = createServer();
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve));
    const { port } = closed.address() as AddressInfo;
    closed.close();
    env['TIDEMARK_BASE_URL'] = `http://127.0.0.1:${port}`;
    env['TIDEMARK_RETRY_ATTEMPTS'] = '1';
    const { document } = await examine(1, env, directory);
    expect(document.problems[0]).toMatchObject({ code: 'unreachable' });
    expect(document.mirror).toMatchObject({ is_there: true, is_sound: true });
    expect(service.seen.length).toBeGreaterThan(0);
  });

  it('is 4 without a configuration', async () => {
    expect((await commandLine(['doctor'], { env: {}, cwd: scratch() })).code).toBe(4);
  });

  it('tells the page limit of the service, its clock with the doubt, and a `next` that goes in circles', async () => {
    const { service, directory, env } = await rig();
    service.pageCap = 3;
    service.set(
      'domains',
      ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((id) => ({ id })),
    );
    service.set(
      'invites',
      ['x', 'y', 'z'].map((id) => ({ id })),
    );
    service.quirks.push(({ path, query }, response) => {
      response.setHeader('date', new Date(Date.now() + 600_000).toUTCString());
      if (!path.endsWith('/invites/')) return false;
      query.delete('offset');
      return respond(response, 200, service.page(path, service.lists.get(path)!, query));
    });
    const { document, kind, codes } = await examine(3, env, directory);
    expect(document.sources[0]?.page).toMatchObject({ received: 3, is_cap: true });
    expect(kind('domains')?.next).toEqual({ other_origin: null, advances: true });
    expect(kind('invites')?.next).toMatchObject({ advances: false });
    const clock = document.sources[0]?.clock;
    expect(Math.abs((clock?.ahead_ms ?? 0) - 600_000)).toBeLessThanOrEqual(clock?.doubt_ms ?? 0);
    expect(codes.slice(0, 2)).toEqual(['next_does_not_advance', 'clock_skew']);
  });

  it('finds a deployment with its profile fine, and says of one without it what is missing', async () => {
    const { directory, env, far } = await deployed({}, 'posthog');
    const { kind, codes } = await examine(0, env, directory);
    expect(kind('proxy_records')).toMatchObject({ list: 'array' });
    expect(kind('session_recordings')).toMatchObject({ list: 'uncounted' });
    expect(codes).toEqual(['next_elsewhere', 'key_can_write', 'mirror_missing']);
    expect((await text(env, directory)).stdout).not.toContain('does not report what the key may write');
    expect(far.writes()).toEqual([]);
    const plain = await examine(
      3,
      { ...env, TIDEMARK_PROFILE: 'svc', TIDEMARK_RETRY_ATTEMPTS: '1' },
      directory,
    );
    expect(plain.kind('roles')).toMatchObject({ refuses_query: true });
    expect(plain.document.problems.find(({ code }) => code === 'query_refused')?.next).toContain('posthog');
  });

  it('tells what a key may do, where the deployment says so', async () => {
    const reading = ['organization:read', 'project:read', 'plugin:read', 'batch_export:read'];
    const more = ['organization_member:read', 'session_recording:read', 'sharing_configuration:read'];
    const { directory, env } = await deployed({ permissions: [...reading, ...more] }, 'posthog');
    const { document } = await examine(0, env, directory);
    const said = document.problems.find(({ code }) => code === 'key_only_reads');
    expect(said?.next).toContain('batch_export:write');
    const { stdout } = await text(env, directory);
    expect(stdout).toMatch(
      /the key may only read, .* a restore needs another key, with .*batch_export:write/,
    );
  });

  it('looks below five roles and projects at most, and says how many there are', async () => {
    const { service, directory, env } = await rig();
    const roles = Array.from({ length: 9 }, (_each, n) => `role-${n}`);
    service.set(
      'roles',
      roles.map((id) => ({ id, name: id })),
    );
    for (const id of roles) service.lists.set(`/api/organizations/${ORG}/roles/${id}/role_memberships/`, []);
    await examine(0, env, directory);
    expect(service.seen.filter(({ url }) => url.includes('/role_memberships/'))).toHaveLength(5);
    expect((await text(env, directory, '-v')).stdout).toContain('5 of 9 lists looked at');
  });

  it('says that a mirror is damaged', async () => {
    const { directory, env } = await rig();
    await commandLine(['sync', '--quiet'], { env, cwd: directory });
    truncateSync(join(directory, 'mirror.db'), 40_000);
    const { document, codes } = await examine(1, env, directory);
    expect(codes[0]).toBe('mirror_corrupt');
    expect(document.mirror).toMatchObject({ is_there: true, is_sound: false });
  });

  it('says that another file stands where the mirror should', async () => {
    const { directory, env } = await rig();
    writeFileSync(join(directory, 'mirror.db'), 'not a mirror at all, and long enough to be read as one');
    expect((await examine(1, env, directory)).codes[0]).toBe('mirror_foreign');
  });

  it('looks at each target for backups, and makes nothing there', async () => {
    const { directory, env } = await rig();
    const [good, gone] = [join(directory, 'good'), join(directory, 'gone')];
    mkdirSync(good);
    env['TIDEMARK_BACKUP_TARGETS'] = `${good}, ${gone}`;
    const { document } = await examine(3, env, directory);
    expect(document.backups).toMatchObject([
      { target: good, error: null },
      { target: gone, error: { code: 'file_system' } },
    ]);
    expect(document.problems[0]).toMatchObject({
      ...{ gravity: 'error', code: 'backup_target' },
      message: expect.stringContaining(`${gone}, does not exist`) as string,
    });
    const { stdout, stderr } = await text(env, directory, '-v');
    expect(stdout).toContain(`${good} can be used`);
    expect(stderr.replaceAll(/\s+/g, ' ')).toContain(`${gone}, does not exist`);
    expect([existsSync(gone), readdirSync(good)]).toEqual([false, []]);
    mkdirSync(gone);
    const beside = (await examine(0, env, directory)).document;
    expect(beside.backups).toMatchObject([{ is_on_mirror_disk: true }, { is_on_mirror_disk: true }]);
    expect(beside.problems.filter(({ code }) => code === 'backup_on_mirror_disk')).toMatchObject([
      {
        gravity: 'warning',
        message: `backups: ${good} and ${gone} are on the disk of the mirror: if that disk fails, backups there are lost too`,
      },
    ]);
  });

  it('warns where the newest backup in a directory is damaged', async () => {
    const { directory, env } = await rig();
    const good = join(directory, 'good');
    mkdirSync(good);
    env['TIDEMARK_BACKUP_TARGETS'] = good;
    await commandLine(['sync', '--quiet'], { env, cwd: directory });
    await commandLine(['backup', 'create'], { env, cwd: directory });
    const damaged = async (): Promise<object[]> =>
      (await examine(0, env, directory)).document.problems.filter(({ code }) => code === 'backup_damaged');
    expect(await damaged()).toEqual([]);
    const [name = ''] = readdirSync(good).filter((each) => !each.endsWith('.json'));
    truncateSync(join(good, name), 1000);
    expect(await damaged()).toMatchObject([
      {
        gravity: 'warning',
        message: expect.stringMatching(
          /newest one is damaged: .*has 1000 bytes where its manifest says/,
        ) as string,
      },
    ]);
    const { stdout } = await text(env, directory, '-v');
    expect(stdout).toContain(`${good} can be used, but its newest backup is damaged`);
  });

  it('looks at an empty bucket with two requests, and reports one that does not answer as it should', async () => {
    const { directory, env } = await rig();
    const seen: string[] = [];
    let status = 200;
    const bucket = createServer(({ method = '', url = '' }, response) => {
      seen.push(`${method} ${url}`);
      response.writeHead(status, { 'content-type': 'application/xml' });
      response.end(status === 200 ? '<ListBucketResult/>' : '<Error><Code>AccessDenied</Code></Error>');
    });
    await new Promise<void>((resolve) => void bucket.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void bucket.close());
    const endpoint = `http://127.0.0.1:${(bucket.address() as AddressInfo).port}`;
    env['TIDEMARK_BACKUP_TARGETS'] = `s3://copies/here?path-style=true&region=eu&endpoint=${endpoint}`;
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test-id');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test-secret');
    onTestFinished(() => void vi.unstubAllEnvs());
    expect((await examine(0, env, directory)).document.backups).toEqual([
      { target: 's3://copies/here', is_on_mirror_disk: false, error: null },
    ]);
    // Whether it answers, which can be aborted; then which backups it has.
    expect(seen).toEqual([
      expect.stringMatching(/^GET .copies.*max-keys=1\b/),
      expect.stringMatching(/^GET .copies.*list-type=2/),
    ]);
    status = 403;
    const { document } = await examine(3, env, directory);
    expect(document.problems[0]).toMatchObject({
      code: 'backup_target',
      message: expect.stringContaining('s3://copies/here could not be listed: access denied') as string,
    });
  });

  it('tells overdue schedules, notices that were given up, the last drill, and who holds the mirror', async () => {
    const { directory, env } = await rig();
    await commandLine(['sync', '--quiet'], { env, cwd: directory });
    const at = '2026-01-01T00:00:00.000Z';
    const reader = { command: 'sync', clock: systemClock, host: 'harbor', pid: 4711 };
    const mirror = openMirror(join(directory, 'mirror.db'), { mode: 'write', ...reader });
    onTestFinished(() => mirror.close());
    const state = mirror.daemon;
    const row = { cron: '*/30 * * * *', zone: 'UTC', skippedTicks: 0, missedTicks: 3 };
    state.saveSchedule({ schedule: 'sync', dueAt: at, ...row });
    const notice = { at, source: 'default', subject: 'sync', event: 'failed', content: {} };
    state.recordNotices({ states: [], cleared: [], notices: [{ notice, channels: ['ops', 'pager'] }] });
    const [pending] = state.pendingDeliveries();
    state.recordDelivery({ ...pending!, attempts: 9, givenUpAt: at, error: 'ops.example.com: not found' });
    const job = state.beginJob({ name: 'drill', source: 'default', trigger: 'schedule', startedAt: at });
    state.finishJob(job, {
      ...{ finishedAt: at, outcome: 'done', run: null, summary: { score: 1 }, errorCode: null, error: null },
    });
    const { document, codes } = await examine(0, env, directory);
    expect(codes).toEqual(['schedule_overdue', 'notices_given_up', 'notices_pending']);
    expect(document.mirror).toMatchObject({
      held_by: expect.stringContaining('pid 4711 on harbor') as string,
      last_drill: { outcome: 'done', at },
      notices: { pending: 1, given_up: 1, last_error: 'ops.example.com: not found' },
      schedules: expect.arrayContaining([
        expect.objectContaining({ schedule: 'sync', due_at: at, is_overdue: true, missed: 3 }),
      ]) as unknown[],
    });
    const { stdout } = await text(env, directory, '-v');
    expect(stdout).toContain('sync OVERDUE since 2026-01-01T00:00:00Z (3 missed)');
    expect(stdout).toContain('start `tidemark daemon`');
  });

  it('fits into 80 columns, whatever it has to say', async () => {
    const { service, directory, env } = await rig();
    service.quirks.push(({ path }, response) => {
      if (path.endsWith('/plugins/')) return forbidden(response, 'plugin:read');
      return (
        path.endsWith('/batch_exports/') &&
        respond(response, 400, `{"detail":"${'much to say '.repeat(20)}"}`)
      );
    });
    const stdout = new Terminal();
    await runCommandLine(['doctor'], {
      ...{ env, cwd: directory, stdin: { isTTY: false }, stdout, stderr: new Terminal(), pid: process.pid },
      ...{ signal: new AbortController().signal, execPath: process.execPath, entry: '' },
    });
    expect(stdout.text).toContain('much to say');
    // A path is one word, which is never broken.
    const wide = stripVTControlCharacters(stdout.text)
      .split('\n')
      .filter((line) => line.length > 80 && !line.includes(directory));
    expect(wide).toEqual([]);
  });

  it.each([
    ['403', 'give the key the permission plugin:read, or exclude the kind in the configuration'],
    ['401', 'other requests accept the key: it lacks a permission, a gateway refuses this path, or'],
  ])('says of a %s for one kind what sync and status say', async (status, advice) => {
    const { service, directory, env } = await rig();
    service.quirks.push(
      ({ path }, response) =>
        path.endsWith('/plugins/') &&
        (status === '403' ? forbidden(response, 'plugin:read') : respond(response, 401, '{"detail":"no"}')),
    );
    for (const command of ['sync', 'status', 'doctor']) {
      const { code, stdout } = await commandLine([command], { env, cwd: directory });
      expect(code).toBe(3);
      expect(stdout.replace(/\s+/g, ' ')).toContain(advice);
    }
  });

  it('says each error once where one terminal shows report and reason, and beside a report in a file', async () => {
    const { service, directory, env } = await rig();
    service.quirks.push(
      ({ path }, response) => path.endsWith('/plugins/') && forbidden(response, 'plugin:read'),
    );
    const [stdout, stderr] = [new Terminal(), new Terminal()];
    const code = await runCommandLine(['doctor'], {
      ...{ env, cwd: directory, stdin: { isTTY: false }, stdout, stderr, pid: process.pid },
      ...{ signal: new AbortController().signal, execPath: process.execPath, entry: '' },
    });
    expect(code).toBe(3);
    expect(stdout.text).toContain('give the key the permission');
    expect(stderr.text).not.toContain('plugins');
    expect((await text(env, directory)).stderr).toContain('give the key the permission plugin:read');
  });

  it('looks only at the sources that are named', async () => {
    const { service, directory } = await rig();
    const file = join(directory, 'tidemark.yaml');
    const source = (name: string): string =>
      `  - { name: ${name}, baseUrl: '${service.url}', apiKey: '\${KEY}' }\n`;
    writeFileSync(file, `sources:\n${source('one')}${source('two')}`);
    const ended = await commandLine(['doctor', '--source', 'two', '--json'], {
      env: { KEY: 'k' },
      cwd: directory,
    });
    const { sources } = JSON.parse(ended.stdout) as { sources: { source: string }[] };
    expect(sources.map(({ source: name }) => name)).toEqual(['two']);
  });
});
