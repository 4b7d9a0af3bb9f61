import { rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { systemClock } from '../../src/core/clock.ts';
import { registerDaemon } from '../../src/daemon/lockfile.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { commandLine } from '../journeys/command-line.ts';
import { environment, scratch, start, tidemark } from '../journeys/harness.ts';
import { FakeService, forbidden, ORG } from '../journeys/service.ts';
import { begin, open, sweep } from '../mirror/fixture.ts';
import { alterFile } from '../tools/alter.ts';

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
    readonly drift: object | null;
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
  expect(json.code).toBe(text.code);
  expect([text.stderr === '', json.stderr === '']).toEqual(Array(2).fill(text.code === 0));
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
    expect(text).not.toContain('last complete ');
    expect(document).toMatchObject({
      schema: 'tidemark.status/1',
      sources: [{ source: 'default', state: 'unpublished', last_published_run: null, schema_changes: [] }],
    });
  });

  it('a run that has not ended: who works on it, or that its process died', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const { child, ended } = start(['sync'], { env });
    const asked = new Promise<void>((resolve) => {
      // Never answered: the run stays as it is.
      service.quirks.push(() => {
        resolve();
        return true;
      });
    });
    await asked;
    expect((await status(env)).text).toMatch(
      new RegExp(`run 1 began .* and is running \\(sync, process ${child.pid} on .+\\)`),
    );
    child.kill('SIGKILL');
    await ended;
    const { text } = await status(env);
    expect(text).toMatch(/run 1 began .* and never ended: its process died/);
    expect(text).toContain('→ run `tidemark sync` again');
    expect(text).not.toContain('wait until');
    const { stderr } = await tidemark(['status'], { env });
    expect(stderr).toContain('→ run `tidemark sync --source default`');
  });

  it('a run that waits since rate.perHour is used up: until when', async () => {
    const service = await FakeService.start();
    const limits = { TIDEMARK_RATE_PER_HOUR: '1', TIDEMARK_RETRY_MAX_WAIT_SECONDS: '7200' };
    const env = { ...environment(service.url, scratch()), ...limits };
    const { child, ended } = start(['sync'], { env });
    await vi.waitFor(
      async () =>
        expect((await status(env)).text).toMatch(
          /run 1 began .*\n {2}it waits: rate\.perHour is used up until \d\d:\d\d:\d\dZ\n/,
        ),
      { timeout: 20_000, interval: 500 },
    );
    child.kill('SIGKILL');
    await ended;
  });

  it('a run that is at work after one that failed: no advice to sync', async () => {
    const directory = scratch();
    const mirror = open({ path: join(directory, 'mirror.db'), clock: systemClock });
    const source = { name: 'default', baseUrl: 'http://127.0.0.1:1' };
    await begin(mirror, { source }).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    begin(mirror, { source }).abandon({ code: 'timeout', message: 'no answer' });
    const env = environment('http://127.0.0.1:1', directory);
    const told = async (): Promise<string> => {
      const { stdout, stderr } = await commandLine(['status'], { env, cwd: directory });
      return stdout + stderr;
    };
    const steps = async (): Promise<readonly string[]> => {
      const { stdout } = await commandLine(['status', '--json'], { env, cwd: directory });
      return (JSON.parse(stdout) as Document).sources[0]?.next_steps ?? [];
    };
    expect(await told()).toContain('→ run `tidemark sync` again');
    expect(await steps()).toContain('run `tidemark sync` again');
    begin(mirror, { source });
    const text = await told();
    expect(text).toMatch(/run 3 began .* and is running/);
    expect(text).not.toContain('→ run `tidemark sync` again');
    expect(text).toContain('→ `tidemark runs show 2` has every collection of that run');
    expect(await steps()).toEqual(['`tidemark runs show 2` has every collection of that run']);
  });

  it('counts all collections of a cause, however many', async () => {
    const directory = scratch();
    const mirror = open({ path: join(directory, 'mirror.db'), clock: systemClock });
    const source = { name: 'default', baseUrl: 'http://127.0.0.1:1' };
    const missing = { outcome: 'missing', mode: null, error: { code: 'not_found', message: 'no' } } as const;
    const sweeps = Array.from({ length: 400 }, (_unused, index) =>
      sweep('role_memberships', { organization_id: 'o', role_id: `r${index}` }, 0, missing),
    );
    await begin(mirror, { source }).publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
    const env = environment('http://127.0.0.1:1', directory);
    const { stdout } = await commandLine(['status', '-v'], { env, cwd: directory });
    expect(stdout).toMatch(/^ +role_memberships \(.*\) and 399 others: missing/m);
  });

  it('a run that ends while the daemon is asked for its progress did not die', async () => {
    const directory = scratch();
    const path = join(directory, 'mirror.db');
    const mirror = open({ path, clock: systemClock });
    const run = begin(mirror, { source: { name: 'default', baseUrl: 'http://127.0.0.1:1' } });
    const looker = { clock: systemClock, pid: process.pid, host: 'here' };
    const registration = await registerDaemon(path, looker);
    let hasEnded = false;
    const server = createServer((_request, response) => {
      run.abandon({ code: 'unreachable', message: 'down' });
      hasEnded = true;
      mirror.close();
      response.end('{"daemon":{"running":[]}}');
    });
    onTestFinished(() => {
      server.close();
      registration.leave();
      registration.release();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    registration.setUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const env = environment('http://127.0.0.1:1', directory);
    const { stdout, stderr } = await commandLine(['status'], { env, cwd: directory });
    expect(hasEnded, stderr).toBe(true);
    expect(stdout).toMatch(/run 1 began .* and is running \(test, process 4711 on here\)/);
    expect(stdout + stderr).not.toMatch(/never ended|→ run `tidemark sync`/);
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
    expect(text).toContain('the service no longer shows 21 records and 2 below them');
    const command = /`tidemark (sync --accept-removals \d+)`/.exec(text)?.[1] ?? '';
    expect(command).toBe('sync --accept-removals 23');
    expect(text).toMatch(
      /\(\S+; (\S+, ){4}\S+ and 15 more\)\n {2}→ `tidemark diff latest live --kind roles --kind role_memberships --kind domains` shows them\n {2}→ restore cannot create roles.* with this profile: .*\n {2}→ `tidemark restore --kind domains` plans to restore the others\n {2}→ if they were really removed, .*\n/,
    );
    expect(document.sources[0]?.held_removals[0]).toMatchObject({ names: ['Readers'] });
    const { stderr } = await tidemark(['status'], { env });
    expect(stderr).toContain('`tidemark sync --source default --accept-removals 23`');
    // Another sync would hold them again.
    expect(stderr).not.toMatch(/run `tidemark sync|doctor/);
    await tidemark(command.split(' '), { env });
    expect((await status(env)).document.sources[0]?.held_removals).toEqual([]);
  });

  it('what a run skipped is not whole, and says why and since when', async () => {
    const service = await FakeService.start();
    const recordings = '/api/projects/1/session_recordings/';
    service.lists.set(recordings, ['{"id":"r1","start_time":"2026-03-01T00:00:00Z"}']);
    service.objects.set(`${recordings}r1/sharing/`, '{"enabled":true}');
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    expect((await run('status', '-v')).stdout).toMatch(/recording_sharing +1 +1 +just now +complete/);
    service.quirks.push(({ path }, response) =>
      path === recordings ? forbidden(response, 'session_recording:read') : false,
    );
    expect((await run('sync')).code).toBe(3);
    const told = await run('status', '--json');
    expect(told.code).toBe(3);
    const { collections } = (JSON.parse(told.stdout) as { sources: { collections: object[] }[] }).sources[0]!;
    expect(collections.slice(-2)).toMatchObject([
      { kind: 'session_recordings', outcome: 'denied', last_complete: { run: 1 } },
      {
        kind: 'recording_sharing',
        records: 1,
        outcome: 'skipped',
        last_complete: { run: 1 },
        error: { code: 'forbidden' },
      },
    ]);
    const { stdout } = await run('status', '-v');
    expect(stdout).toMatch(/recording_sharing +1 +1 +just now +stale/);
    expect(stdout).toMatch(
      /recording_sharing \(project 1\): skipped: .*session_recording:read.*\n {6}last complete/,
    );
    const exported = await run('export', '--kind', 'recording_sharing');
    expect(exported.stderr).toContain('recording_sharing (project 1): skipped; last read completely');

    // A key that is refused at the root skips all the rest: one line says so, not one for each kind.
    service.quirks.splice(0, 1, (_request, response) => {
      response.writeHead(401).end('{}');
      return true;
    });
    expect((await run('sync')).code).toBe(5);
    const refused = (await run('status')).stdout;
    // All but the organizations themselves and, where no role is, role memberships.
    const skipped = KINDS.length - 2;
    expect(refused).toContain(`    ${skipped} collections of ${skipped} kinds: skipped: `);
    expect(refused.match(/skipped/g)).toHaveLength(1);
    const { stderr } = await run('status');
    expect(stderr).toContain('→ check the key of this source');
    expect(stderr).not.toMatch(/→ run `tidemark sync/);
    service.quirks.length = 0;
    expect((await run('sync')).code).toBe(0);
    expect((await run('status')).code).toBe(0);
  });

  it('a kind that is read in samples is not called complete', async () => {
    const service = await FakeService.start();
    const recordings = '/api/projects/1/session_recordings/';
    const ids = Array.from({ length: 5 }, (_each, index) => `r${index}`);
    service.lists.set(
      recordings,
      ids.map((id) => JSON.stringify({ id, start_time: '2026-03-01T00:00:00Z' })),
    );
    for (const id of ids) service.objects.set(`${recordings}${id}/sharing/`, '{"enabled":true}');
    const directory = scratch();
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      `mirror: ./mirror.db\nsources:\n  - { name: a, baseUrl: "${service.url}", apiKey: test-key-of-some-length, recordings: { sharingPerRun: 2 } }\n`,
    );
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env: {}, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    const { stdout } = await run('status', '--verbose');
    expect(stdout).toMatch(/Complete +Yes, with samples +.*sharings sampled \(2 of 5\), as of run 1/);
    expect(stdout).toMatch(/recording_sharing +1 +2 of 5 +.*sampled$/m);
    const document = JSON.parse((await run('status', '--json')).stdout) as {
      sources: { sampled: object[] }[];
    };
    expect(document.sources[0]?.sampled).toEqual([{ kind: 'recording_sharing', read: 2, of: 5 }]);
  });

  it('a copy that is too old has its age once; schedules without a daemon are named, none without a configuration', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    expect((await commandLine(['sync'], { env, cwd: directory })).code).toBe(0);
    const unserved = (await commandLine(['status'], { env, cwd: directory })).stdout;
    expect(unserved).toMatch(/Fresh +By hand +last complete sync just now; none by schedule so far$/m);
    expect(unserved).toMatch(
      /^Next: nothing so far; `tidemark daemon`, or `daemon --once` by cron, starts what is scheduled\n {2}\(sync every 30 min, drift every/m,
    );
    const sources = ['ours', 'theirs'].map((name) => ({
      name,
      baseUrl: service.url,
      apiKey: 'test-key-of-some-length',
    }));
    const schedules = { drift: { cron: '0 * * * *', sources: ['theirs'] }, verify: { cron: 'off' } };
    const file = join(directory, 'two.yaml');
    writeFileSync(file, JSON.stringify({ mirror: './mirror.db', sources, schedules }));
    const two = ['status', '--config', file, '--source', 'ours'];
    const ofOne = (await commandLine(two, { env: {}, cwd: directory })).stdout;
    expect(ofOne).toMatch(
      /^Next: nothing so far; `tidemark daemon --config \S+`, or `daemon --once` by cron, starts what is scheduled\n {2}\(sync every 30 min, drill every 7 d\)$/m,
    );
    const path = join(directory, 'mirror.db');
    const mirror = openMirror(path, { mode: 'write', command: 'test', clock: systemClock });
    const dueAt = new Date(Date.now() + 90_000).toISOString();
    const row = { cron: '*/30 * * * *', zone: 'UTC', skippedTicks: 0, missedTicks: 0 };
    mirror.daemon.saveSchedule({ schedule: 'sync', dueAt, ...row });
    const bare = await commandLine(['status'], { env: { TIDEMARK_MIRROR: path }, cwd: directory });
    expect(bare.stdout).toMatch(/Fresh +Not known +last complete sync just now; no configuration says/);
    expect(bare.stdout).toContain('Next: not known without a configuration');
    expect(bare.stdout).not.toMatch(/due|No schedule/);

    // A daemon has run here: stopped, killed, called by cron; then commands.
    const now = async (): Promise<string> => (await commandLine(['status'], { env, cwd: directory })).stdout;
    const unattended =
      /Fresh +For now +last complete sync just now \(limit: \S+ min\); no daemon is running to keep/;
    const begun = await now();
    expect(begun).toMatch(
      /Fresh +By hand +last complete sync just now \(limit: \S+ min\); none by schedule so far$/m,
    );
    expect(begun).toMatch(/^Next, by a daemon or when `daemon --once` is called: sync /m);
    // Killed before its first sync ended: the mirror does not say yet who calls.
    const holder = { clock: systemClock, pid: 4712, host: 'web1' };
    const call = await registerDaemon(path, { ...holder, isOnce: true });
    // While it is at work, it is no daemon that could be asked, or started.
    const atWork = await now();
    expect(atWork).toMatch(/^Next, when `daemon --once` is called: sync /m);
    expect(atWork).not.toMatch(/no daemon is running|daemon --check/);
    const check = await commandLine(['daemon', '--check'], { env, cwd: directory });
    expect(check.code).toBe(1);
    expect(check.stderr).toContain('a call of `daemon --once` is running');
    const { source } = mirror.runs.list({ limit: 1 })[0]!;
    const startedAt = new Date().toISOString();
    const cut = mirror.daemon.beginJob({ name: 'sync', source, trigger: 'schedule', startedAt });
    call.release();
    const killed = await now();
    expect(killed).toMatch(
      /Needs attention:\n {2}a call of `daemon --once` \(process 4712 on web1, started just now\) was killed or crashed\n {4}→ its next call continues/,
    );
    expect(killed).not.toMatch(/start it again|no daemon is running|nothing calls/);
    expect(killed).toMatch(/^Next, when `daemon --once` is called: sync /m);
    mirror.daemon.finishJob(cut, {
      ...{ finishedAt: startedAt, outcome: 'failed', run: null, errorCode: 'interrupted', error: 'killed' },
      summary: {},
    });
    call.leave();
    const endSync = (once: boolean): void => {
      const [{ source, startedAt } = { source: '', startedAt: '' }] = mirror.runs.list({ limit: 1 });
      const job = mirror.daemon.beginJob({ name: 'sync', source, trigger: 'schedule', startedAt });
      const end = { finishedAt: startedAt, outcome: 'done', run: 1, errorCode: null, error: null } as const;
      mirror.daemon.finishJob(job, { ...end, summary: { once } });
    };
    endSync(false);
    expect(await now()).toMatch(unattended);
    const daemon = await registerDaemon(path, { ...holder, pid: 4711 });
    daemon.release();
    expect(await now()).toMatch(
      /Needs attention:\n {2}the daemon \(process 4711 on web1, started just now\) was killed or crashed: nothing is synced on schedule, and no notice is sent\n {4}→ start it again/,
    );
    daemon.leave(true);
    expect(await now()).not.toContain('4711');
    endSync(true);
    mirror.close();
    const called = await now();
    expect(called).toMatch(
      /Fresh +Yes +last complete sync just now \(limit: \S+ min\); kept by daemon --once$/m,
    );
    expect(called).toMatch(/^Next, when `daemon --once` is called: sync /m);

    alterFile(path, `UPDATE runs SET finished_at = '${new Date(Date.now() - 5 * 3_600_000).toISOString()}'`);
    const { stdout } = await commandLine(['status'], { env, cwd: directory });
    expect(stdout).toMatch(/the last complete run ended 5 h ago; the schedule allows \S+ \w+$/m);
    expect(stdout).toContain('→ see that cron or the timer still calls `tidemark daemon --once`');
    for (let run = 2; run < 4; run += 1) await commandLine(['sync'], { env, cwd: directory });
    const byCommands = await now();
    expect(byCommands).toMatch(
      /Fresh +By commands +last complete sync just now, by a command, as those before it were/,
    );
    expect(byCommands).toMatch(/^Next: whenever `tidemark sync` is called again \(cron\?\)/m);
  });

  it('held removals: the commands that sync and status name take the configuration file that was given', async () => {
    const service = await FakeService.start();
    const domains = Array.from({ length: 30 }, (_each, index) => ({ id: `d${index}`, domain: 'x' }));
    service.set('domains', domains);
    const directory = scratch();
    const config = join(directory, 'own.yaml');
    const env = environment(service.url, directory);
    writeFileSync(
      config,
      'mirror: ./own.db\nsources: [{ name: one, baseUrl: "${TIDEMARK_BASE_URL}", apiKey: "${TIDEMARK_API_KEY}" }]\n',
    );
    const run = (...args: string[]): ReturnType<typeof tidemark> =>
      tidemark([...args, '--config', config], { env });
    expect((await run('sync')).code).toBe(0);
    service.set('domains', domains.slice(0, 10));
    for (const { code, stdout } of [await run('sync'), await run('runs', 'show', '2'), await run('status')]) {
      const commands = [...stdout.matchAll(/`tidemark [^`]*`/g)].map(([command]) => command);
      expect([0, 3]).toContain(code);
      expect(commands.filter((command) => !command.includes(` --config ${config}`))).toEqual([]);
      expect(stdout).toMatch(/--accept-removals|^run/m);
    }
  });

  it('held removals wait through a run that could not look', async () => {
    const service = await FakeService.start();
    service.set('domains', [{ id: 'd1', domain: 'x' }]);
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    service.set('domains', []);
    expect((await run('sync')).code).toBe(3);
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') ? forbidden(response, 'organization:read') : false,
    );
    expect((await run('sync')).code).toBe(3);
    const { stdout } = await run('status', '--json');
    expect((JSON.parse(stdout) as Document).sources[0]).toMatchObject({
      held_removals: [{ kind: 'domains', records: 1, below: 0, run: 2 }],
      next_steps: [expect.stringContaining('--accept-removals 1'), expect.any(String), expect.any(String)],
    });
  });

  it('a removal that is held with what is below it: hints name all their kinds, none is to be left out', async () => {
    const service = await FakeService.start();
    const organization = `/api/organizations/${ORG}`;
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_PROFILE: 'svc-writable' });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    service.set('roles', [{ id: 'r1', name: 'Versand' }]);
    const memberships = `${organization}/roles/r1/role_memberships/`;
    service.lists.set(memberships, ['{"id":"m1"}', '{"id":"m2"}', '{"id":"m3"}']);
    expect((await run('sync')).code).toBe(0);
    service.set('roles', []);
    service.lists.delete(memberships);
    const synced = await run('sync');
    const advice = 'no list of the run shows the role that it belongs to: look at roles first';
    expect(synced.stdout).toContain(advice);
    const { stdout, stderr } = await run('status');
    for (const text of [synced.stdout, stdout, stderr])
      expect(text).toMatch(
        /`tidemark restore[^`]* --kind roles --kind role_memberships[^`]*` plans to restore/,
      );
    expect(stdout).toContain(`→ role_memberships: ${advice}\n`);
    // Both numbers are of the lists that were not read.
    expect(stdout).toContain('the last sync was partial: 1 collection incomplete');
    expect(stdout).toContain('the last attempt did not complete 1 collection, and held removals of 1:\n');
    expect(stdout).not.toContain('kinds.exclude');
    // Below a role that the list shows, it may be the kind that is missing.
    service.set('roles', [{ id: 'r1', name: 'Versand' }]);
    await run('sync');
    expect((await run('status')).stdout).toContain('kinds.exclude');
  });

  it('an organization that is gone: what is missing below it is one line', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    for (const path of service.lists.keys()) service.lists.delete(path);
    service.lists.set('/api/organizations/', []);
    await run('sync');
    const { stdout } = await run('status');
    const advice =
      'no list of the run shows the organization that it belongs to: look at organizations first';
    expect(stdout).toMatch(new RegExp(`^ {2}→ \\d+ kinds: ${advice}$`, 'm'));
    expect(stdout.split(`${advice}\n`).length).toBe(2);
  });

  it('a removal that is held of a kind whose fields the profile cannot write: no command whose plan is blocked', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_REMOVALS_MAX_RECORDS: '0' });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    service.set('roles', [{ id: 'r1', name: 'Versand' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
    service.set('domains', [{ id: 'd1', domain: 'x' }]);
    expect((await run('sync')).code).toBe(0);
    expect((await run('snapshots', 'pin', 'base', '--baseline')).code).toBe(0);
    service.set('roles', []);
    const cannot = (them: string): string =>
      `restore cannot create roles with this profile: create ${them} by hand, or configure a profile that can write ${them}`;
    const texts = async (): Promise<string[]> => {
      const synced = await run('sync');
      const [first, drift] = [await run('status'), await run('drift')];
      return [synced.stdout, first.stdout, first.stderr, drift.stdout];
    };
    for (const text of await texts()) {
      expect(text).toMatch(new RegExp(cannot('(it|them)')));
      expect(text).not.toContain('tidemark restore');
    }
    service.set('domains', []);
    const [, ...both] = await texts();
    for (const text of both)
      expect(text).toMatch(
        new RegExp(
          `${cannot('those')}\n\\s*(→ )?\`tidemark restore( --source default)? --kind domains\` plans to restore the others`,
        ),
      );
  });

  it('drift: what could not be compared is counted, and no drift in the rest is not "None"', async () => {
    const service = await FakeService.start();
    service.set('domains', [{ id: 'd1', domain: 'x' }]);
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    expect((await run('sync')).code).toBe(0);
    expect((await run('snapshots', 'pin', 'approved', '--baseline')).code).toBe(0);
    expect((await run('status')).stdout).toMatch(/Drift +None +as of run 1, /);
    service.quirks.push(({ path }, response) =>
      path.endsWith('/domains/') || path.endsWith('/roles/') ? forbidden(response, 'x:read') : false,
    );
    expect((await run('sync')).code).toBe(3);
    const { stdout } = await run('status');
    expect(stdout).toMatch(/Drift +None found +2 collections not compared or not fresh, as of run 2, /);
    // Held removals are of the same sort: the records may be gone.
    service.quirks.length = 0;
    service.set('domains', []);
    expect((await run('sync')).code).toBe(3);
    const held = await run('status');
    expect(held.stdout).toMatch(
      /Drift +1 missing +1 record is missing, its removal is held; 1 collection not compared or not fresh, as of run 3, /,
    );
    expect(held.stderr).toMatch(
      / → `tidemark diff latest live --source default --kind domains` shows it\n {2}→ `tidemark restore --source default --kind domains` plans to restore it\n {2}→ if it was really removed, remove it here with `tidemark sync --source default --accept-removals 1`\n/,
    );
    expect(held.stderr).not.toMatch(/run `tidemark sync/);
  });

  it('rate.perHour that is used up: until when a sync waits, with the key in a file, which may be away', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const configure = (perHour: number): void =>
      writeFileSync(
        join(directory, 'tidemark.yaml'),
        [
          'mirror: ./mirror.db',
          'sources:',
          `  - { name: a, baseUrl: "${service.url}", apiKeyFile: ./key, rate: { perMinute: 0, perHour: ${perHour} } }`,
        ].join('\n'),
      );
    writeFileSync(join(directory, 'key'), 'test-key-of-some-length\n', { mode: 0o600 });
    service.quirks.push(({ path }, response) =>
      path.endsWith('/plugins/') ? forbidden(response, 'plugin:read') : false,
    );
    configure(10_000);
    expect((await tidemark(['sync'], { cwd: directory })).code).toBe(3);
    const reason = async (): Promise<string> => (await tidemark(['status'], { cwd: directory })).stderr;
    expect(await reason()).toMatch(/→ give the key .*, then run `tidemark sync --source a` again\n/);
    configure(1);
    process.env['TZ'] = 'Europe/Berlin';
    onTestFinished(() => void (process.env['TZ'] = 'UTC'));
    expect(await reason()).toMatch(
      /→ the next sync of a waits: rate\.perHour is used up until \d\d:\d\d:\d\d\+0[12]:00/,
    );
    rmSync(join(directory, 'key'));
    expect(await reason()).toMatch(/→ give the key .*, then run `tidemark sync --source a` again\n/);
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
    expect(text).toMatch(/plugins \(organization .*\): denied: .*\n {6}never complete/);
    expect(text).toContain('old is no longer configured');
    const [, shown = ''] = /`tidemark (runs show \d+ --source denied)`/.exec(text) ?? [];
    const ran = await tidemark(shown.split(' '), { cwd: directory });
    expect(ran.stdout, ran.stderr).toContain('of denied');
    configure('first');
    expect((await status({}, directory)).code).toBe(0);
    const pinned = await tidemark(['snapshots', 'pin', 'good', 'latest', '--source', 'first', '--baseline'], {
      cwd: directory,
    });
    expect(pinned.code, pinned.stderr).toBe(0);
    const only = await status({}, directory);
    expect(only.text).toMatch(/Drift +None +as of run 1/);
    expect(only.text).not.toContain('drift is not known');
    expect(only.text).toMatch(/^first: \d+ records, mirror /m);
    expect(only.text).toMatch(
      /^denied, old are no longer configured: their \d+ records stay\s+as\s+they\s+were;/m,
    );
    expect(only.text, 'one line each is enough').not.toMatch(/^(?:old|denied):$/m);
    expect(only.document.sources.map(({ source, drift }) => [source, drift === null])).toEqual([
      ['first', false],
      ['denied', true],
      ['old', true],
    ]);
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
