/** `status` where cron calls `daemon --once`: what it says of the last call, and of the next one. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { commandLine } from '../journeys/command-line.ts';
import { environment, scratch } from '../journeys/harness.ts';
import { FakeService, ORG, respond } from '../journeys/service.ts';
import { begin } from '../mirror/fixture.ts';
import { alterFile } from '../tools/alter.ts';

const HOUR_MS = 3_600_000;
const at = (fromNowMs: number): string => new Date(Date.now() + fromNowMs).toISOString();

it('names what the last call ended with; asks whether calls come only where none came', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const target = join(directory, 'backups');
  mkdirSync(target);
  const env = { ...environment(service.url, directory), TIDEMARK_BACKUP_TARGETS: target };
  const path = join(directory, 'mirror.db');
  const status = async (): Promise<string> => (await commandLine(['status'], { env, cwd: directory })).stdout;
  expect((await commandLine(['sync'], { env, cwd: directory })).code).toBe(0);
  expect(await status()).toMatch(
    /^Backups: none yet; one is due .*, and nothing makes it: no daemon is running, and nothing calls `daemon --once`/m,
  );

  const mirror = openMirror(path, { mode: 'write', command: 'test', clock: systemClock });
  const source = mirror.runs.list({ limit: 1 })[0]?.source ?? '';
  const row = {
    schedule: 'sync',
    cron: '*/30 * * * *',
    zone: 'UTC',
    skippedTicks: 0,
    missedTicks: 0,
  } as const;
  mirror.daemon.saveSchedule({ ...row, dueAt: at(HOUR_MS / 6) });
  const ended = (
    outcome: 'done' | 'failed' | 'refused',
    error: { readonly errorCode: 'unreachable' | 'unauthorized'; readonly error: string } | null,
  ): void => {
    const startedAt = at(-60_000);
    const job = mirror.daemon.beginJob({ name: 'sync', source, trigger: 'schedule', startedAt });
    const why = error ?? { errorCode: null, error: null };
    mirror.daemon.finishJob(job, {
      finishedAt: startedAt,
      outcome,
      run: null,
      summary: { once: true },
      ...why,
    });
  };
  ended('done', null);
  expect(await status()).toMatch(
    /^Backups: none yet; one is due .*; `daemon --once` makes the first after its next complete sync, in 10 min: /m,
  );

  alterFile(path, `UPDATE runs SET finished_at = '${at(-5 * HOUR_MS)}', started_at = '${at(-5 * HOUR_MS)}'`);
  const asksForCalls = '→ see that cron or the timer still calls `tidemark daemon --once`';
  expect(await status()).toContain(asksForCalls);
  ended('failed', { errorCode: 'unreachable', error: 'the connection was refused' });
  const failed = await status();
  expect(failed).toMatch(
    new RegExp(
      `→ the last call of \`tidemark daemon --once\` that synced ${source}, 60 s ago, failed: \`tidemark doctor --source ${source}\` shows whether the service responds`,
    ),
  );
  expect(failed).not.toContain(asksForCalls);
  ended('refused', { errorCode: 'unauthorized', error: 'the key was refused' });
  expect(await status()).toMatch(/that synced \S+, 60 s ago, was refused: give \S+ a valid key; /);

  const run = begin(mirror, { source: { name: source, baseUrl: service.url } });
  expect(await status()).toMatch(/makes the first after the running sync, if that is complete: /);
  run.abandon({ code: 'unreachable', message: 'no answer' });

  const partial = mirror.daemon.beginJob({
    name: 'sync',
    source,
    trigger: 'schedule',
    startedAt: at(-60_000),
  });
  mirror.daemon.finishJob(partial, {
    ...{ finishedAt: at(-50_000), outcome: 'partial', run: 1, summary: { once: true } },
    ...{ errorCode: null, error: null },
  });
  // The command's run 2 failed since.
  expect(await status()).toMatch(/that synced \S+, 50 s ago, was partial: `tidemark runs show 1` says why$/m);
  // As a daemon left it whose clock was set back since.
  mirror.daemon.saveSchedule({ ...row, dueAt: at(72 * HOUR_MS) });
  expect(await status()).toMatch(/^Next, when `daemon --once` is called: sync in (\d+ min|\d+ s)/m);
  mirror.daemon.saveSchedule({ ...row, dueAt: at(-3 * HOUR_MS) });
  const third = begin(mirror, { source: { name: source, baseUrl: service.url } });
  expect(await status(), 'while a run is under way').not.toContain(asksForCalls);
  third.abandon({ code: 'unreachable', message: 'no answer' });
  mirror.close();
  expect(await status()).toContain(`${asksForCalls}, and what it prints: a sync was due 3 h ago; or run`);
});

it('a call names a channel that sends nothing, and held removals once for each set of them', async () => {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = environment(service.url, cwd);
  const roles = `/api/organizations/${ORG}/roles/`;
  const show = (...ids: readonly string[]): void =>
    void service.lists.set(
      roles,
      ids.map((id) => JSON.stringify({ id, name: id })),
    );
  const once = async (): Promise<{ code: number | null; stderr: string }> =>
    await commandLine(['daemon', '--once', '--quiet'], { env, cwd });
  const config = (notices: string): void =>
    writeFileSync(
      join(cwd, 'tidemark.yaml'),
      `schedules: { sync: { cron: "* * * * * *" }, verify: { cron: off }, drill: { cron: off } }
sources:
  - { name: a, baseUrl: "${service.url}", apiKeyFile: key, kinds: { include: [organizations, roles] }, removals: { maxRecords: 0, maxShare: 0 } }
${notices}`,
    );
  writeFileSync(join(cwd, 'key'), 'phx_key', { mode: 0o600 });
  Reflect.deleteProperty(env, 'TIDEMARK_BASE_URL');
  Reflect.deleteProperty(env, 'TIDEMARK_API_KEY');
  config('notices: [{ name: hook, type: webhook, urlFile: missing }]');
  show('x', 'y', 'z');
  expect(await once()).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(
      /^tidemark: warning: .*notices\[0\]\.urlFile: \S+ does not exist: disabled until it is set\n$/,
    ) as string,
  });
  expect(await once(), 'said once').toMatchObject({ code: 0, stderr: '' });
  config('notices: [{ name: hook, type: webhook, urlFile: another }]');
  expect((await once()).stderr).toContain('another does not exist: disabled until it is set');
  config('notices: [{ name: hook, type: webhook, urlFile: missing }]');
  expect((await once()).stderr).toContain('missing does not exist: disabled until it is set');
  expect((await commandLine(['status'], { env, cwd })).stdout).toMatch(
    /^ {2}channel hook sends nothing: .*notices\[0\]\.urlFile: \S+ does not exist$/m,
  );
  config('');
  show('x', 'y');
  expect(await once()).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('1 of 3 records') as string,
  });
  expect(await once()).toMatchObject({ code: 3, stderr: '' });
  show('x');
  expect(await once()).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('2 of 3 records') as string,
  });
  expect(await once()).toMatchObject({ code: 3, stderr: '' });
  const long = at(-5 * HOUR_MS);
  alterFile(
    join(cwd, 'mirror.db'),
    `UPDATE runs SET finished_at = '${long}', started_at = '${long}' WHERE run = 4`,
  );
  expect((await commandLine(['status'], { env, cwd })).stdout).toMatch(
    /that synced a, (?:just now|\S+ s ago), was partial: removals are held$/m,
  );
});

it('a channel that sends nothing is judged by what `daemon --once` had, not by the variables of this shell', async () => {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = environment(service.url, cwd);
  Reflect.deleteProperty(env, 'TIDEMARK_BASE_URL');
  Reflect.deleteProperty(env, 'TIDEMARK_API_KEY');
  const withHook = { ...env, HOOK: `${service.url}/hook` };
  const said = async (
    command: 'status' | 'doctor' | 'notify test',
    shell: Record<string, string>,
  ): Promise<string> => (await commandLine(command.split(' '), { env: shell, cwd })).stdout;
  const once = async (cron: Record<string, string>): Promise<unknown> =>
    await commandLine(['daemon', '--once', '--quiet'], { env: cron, cwd });
  writeFileSync(join(cwd, 'key'), 'phx_key', { mode: 0o600 });
  const yaml = `schedules: { sync: { cron: "* * * * * *" }, verify: { cron: off }, drill: { cron: off } }
sources: [{ name: a, baseUrl: "${service.url}", apiKeyFile: key, kinds: { include: [organizations] } }]
notices: [{ name: hook, type: webhook, url: "\${HOOK}" }]
`;
  writeFileSync(join(cwd, 'tidemark.yaml'), yaml);
  expect((await commandLine(['sync'], { env, cwd })).code).toBe(0);
  expect(await said('status', env)).toMatch(
    /^ {2}channel hook sends nothing: .*\$\{HOOK\} is not set in this shell$/m,
  );

  await once(withHook);
  expect(await said('status', env)).not.toContain('sends nothing');
  expect(await said('doctor', env)).not.toContain('HOOK');
  const tested = await said('notify test', env);
  expect(tested).toMatch(
    /^hook +webhook +failed \(config_invalid\): .*\$\{HOOK\} is not set in this shell$/m,
  );
  expect(tested).toContain('→ the last call of `daemon --once` had it, and sends');

  await once(env);
  const silent = /\$\{HOOK\} is not set in the environment of the last call of `daemon --once`/;
  expect(await said('status', withHook)).toMatch(silent);
  expect(await said('status', withHook)).toContain('`tidemark.env`');
  expect(await said('doctor', withHook)).toMatch(silent);

  service.lists.delete('/api/organizations/');
  await once(env);
  expect(await said('status', withHook)).toMatch(/`daemon --once`; 1 notice waits for it, just now$/m);
  await once({ ...env, HOOK: 'http://127.0.0.1:1/hook' });
  const failed = /channel hook: 1 notice waits since \S+, the last attempt failed: /;
  expect(await said('status', withHook)).toMatch(failed);
  expect(await said('doctor', withHook)).toMatch(failed);

  writeFileSync(join(cwd, 'tidemark.yaml'), `${yaml}# another one\n`);
  expect(await said('status', withHook)).not.toContain('sends nothing');
});

it('a call that the service asks to wait says until when once, and the next one what syncs then', async () => {
  const service = await FakeService.start();
  const cwd = scratch();
  const env = { ...environment(service.url, cwd), TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * * *' };
  service.quirks.push((_request, response) =>
    respond(response, 429, '{"detail":"busy"}', { 'retry-after': '3600' }),
  );
  const once = async (): Promise<string> =>
    (await commandLine(['daemon', '--once', '--quiet'], { env, cwd })).stderr;
  const first = await once();
  expect(first).toMatch(/it asks to wait 3600 s, until \S+, .*\n {2}→ run again after \S+\n$/);
  expect(first).not.toContain('the next sync of');
  expect(await once()).toContain('the next call of `daemon --once` after that syncs it');
});
