/** A restore from the dashboard of a real daemon: plan, second confirmation, apply, journal; and where it is not allowed. */
import { selectionOf } from '../../src/daemon/dashboard/restore-selection.ts';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { systemClock } from '../../src/core/clock.ts';
import { planDirectory } from '../../src/daemon/plan-directory.ts';
import { createSandbox } from '../../src/server/sandbox.ts';
import { KITTIWAKE_ID } from '../../src/server/seed/demo.ts';
import { smallDemo } from '../server/small-demo.ts';
import { environment, mirrorOnce, runProgram, scratch, start, startHere, tidemark } from './harness.ts';

const KEY = 'full-key-of-some-length';
const READ_KEY = 'reading-key-of-some-length';
const READING = [...new Set(CATALOG.map(({ permission }) => permission.read))];
const TOKEN = 'a-token-of-some-length';
const ORGANIZATION = `/api/organizations/${KITTIWAKE_ID}/`;

interface Story {
  readonly env: Record<string, string>;
  /** To the service, past the daemon. */
  readonly call: (method: string, path: string, body?: object) => Promise<Record<string, unknown>>;
  /** As the service has it. */
  readonly enforces: () => Promise<unknown>;
  readonly get: (path: string) => Promise<string>;
  /** Where the answer leads. */
  readonly post: (
    action: string,
    form: Record<string, string>,
    headers?: Record<string, string>,
  ) => Promise<Response>;
}

/** Begins a daemon, a process of its own or not; what it has written to stderr so far. */
function startDaemon(env: Readonly<Record<string, string>>, isProcess: boolean): () => string {
  if (!isProcess) return startHere(['daemon'], { env }).stderr;
  let text = '';
  const { child } = start(['daemon'], { env });
  child.stderr?.on('data', (piece: string) => (text += piece));
  onTestFinished(() => void child.kill('SIGKILL'));
  return () => text;
}

/** Run 1 has two-factor enforcement on, run 2 off; a daemon runs, and Ada is logged in. */
async function story(more: Readonly<Record<string, string>>, { isProcess = false } = {}): Promise<Story> {
  const sandbox = await createSandbox({
    clock: systemClock,
    seed: smallDemo(),
    keys: [
      { key: KEY, permissions: 'all' },
      { key: READ_KEY, permissions: READING },
    ],
  });
  onTestFinished(() => sandbox.close());
  const { url } = await sandbox.listen({ host: '127.0.0.1', port: 0 });
  const env = environment(url, scratch(), {
    TIDEMARK_API_KEY: KEY,
    TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing',
    TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
    TIDEMARK_HTTP_TOKEN: TOKEN,
    ...more,
  });
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const change = async (): Promise<void> => {
    const body = JSON.stringify({ enforce_2fa: false });
    await fetch(url + ORGANIZATION, { method: 'PATCH', headers, body });
  };
  const mirror = env['TIDEMARK_MIRROR'] ?? '';
  await mirrorOnce('two-factor enforcement', mirror, async () => {
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    await change();
    expect((await tidemark(['sync'], { env })).code).toBe(0);
  });
  // Again, where the mirror was made just now: the same value is no change.
  await change();

  // Left by a daemon that was killed.
  const left = planDirectory(mirror);
  mkdirSync(left);
  writeFileSync(join(left, 'plan.json'), '{}');
  const stderr = startDaemon(env, isProcess);
  const [, page = ''] = await vi.waitUntil(() => /"url":"(http:[^"]+)"/.exec(stderr()), { timeout: 60_000 });
  expect(existsSync(left)).toBe(false);
  const form = { 'content-type': 'application/x-www-form-urlencoded', accept: 'text/html' };
  const login = await fetch(`${page}/login`, {
    method: 'POST',
    headers: form,
    redirect: 'manual',
    body: new URLSearchParams({ token: TOKEN, username: 'Ada' }),
  });
  const session = { cookie: login.headers.get('set-cookie')?.split(';')[0] ?? '' };
  return {
    env,
    call: async (method, path, content) => {
      const sent = content === undefined ? {} : { body: JSON.stringify(content) };
      const text = await (await fetch(url + ORGANIZATION + path, { method, headers, ...sent })).text();
      return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
    },
    enforces: async () => {
      const answer = await fetch(url + ORGANIZATION, { headers });
      return ((await answer.json()) as { enforce_2fa: unknown }).enforce_2fa;
    },
    get: async (path) => (await fetch(page + path, { headers: { accept: 'text/html', ...session } })).text(),
    post: (action, values, others = session) =>
      fetch(`${page}/actions/${action}`, {
        method: 'POST',
        headers: { ...form, ...others },
        redirect: 'manual',
        body: new URLSearchParams(values),
      }),
  };
}

/** The page once it fits. */
async function eventually(get: () => Promise<string>, pattern: RegExp): Promise<string> {
  for (let tries = 0; tries < 600; tries += 1) {
    const text = await get();
    if (pattern.test(text)) return text;
    await delay(50);
  }
  throw new Error(`never ${String(pattern)}: ${await get()}`);
}

/** What the audit log has of restores, oldest first: the action, who did it, and how Tidemark knew them. */
async function auditedVias(env: Record<string, string>): Promise<string[]> {
  const { stdout } = await tidemark(['audit', '--json'], { env });
  const { entries } = JSON.parse(stdout) as {
    entries: { action: string; by: string; via: string; restore?: object }[];
  };
  return entries
    .filter(({ restore }) => restore !== undefined)
    .map(({ action, by, via }) => `${action} ${by} ${via}`)
    .reverse();
}

/** The query that plans the organization as of run 1, from its history. */
async function planQuery({ get }: Story): Promise<string> {
  const record = await get(`/records/organizations/${KITTIWAKE_ID}`);
  const [, query = ''] = /href="\/restore\?(version=run%3A1[^"]*)"/.exec(record) ?? [];
  return query.replaceAll('&amp;', '&');
}

describe('a restore from the dashboard', () => {
  it('is planned, confirmed a second time, applied, journaled, and named after who did it', async () => {
    const told = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true' }, { isProcess: true });
    const { get, post, env, enforces } = told;
    const query = await planQuery(told);
    expect(await get(`/restore?${query}`)).toContain('Make the plan');
    const planned = await post('plan', { query });
    const path = planned.headers.get('location') ?? '';
    // Made within a moment, or not yet: whoever asked for it is not kept waiting.
    const begun = await get(path);
    expect(begun).toContain(begun.includes('Reading the service') ? 'data-live="1"' : 'data-live="10"');
    expect([planned.status, path]).toEqual([303, expect.stringMatching(/^\/restores\/plans\/[0-9a-f]{16}$/)]);
    const plan = await eventually(() => get(path), /To send 1 step to default, type 1 or default/);
    expect(plan).toContain('enforce_2fa');
    expect(plan).toContain('PATCH /api/organizations/');
    expect(plan).toContain('<strong>1 to update; ');
    expect(plan).toMatch(/<li>1 to update: <bdi>[^<]+<\/bdi><\/li>/);
    expect(await enforces()).toBe(false);

    const id = path.split('/').at(-1) ?? '';
    for (const confirm of ['2', 'yes', 'defaults']) {
      const wrong = await post('apply', { plan: id, confirm });
      const again = await wrong.text();
      expect([wrong.status, again]).toEqual([
        400,
        expect.stringContaining('Nothing was sent: 1 or default confirms this plan') as string,
      ]);
      // The form again, with the plan that it is about.
      expect(again).toContain('name="confirm"');
      expect(again).toContain(`name="plan" value="${id}"`);
      expect(again).toContain('enforce_2fa');
    }
    expect((await post('apply', { plan: 'none', confirm: '1' })).status).toBe(404);
    expect(await enforces()).toBe(false);

    expect((await post('apply', { plan: id, confirm: '1' })).headers.get('location')).toBe(path);
    const ended = await eventually(() => get(path), /Applied and verified|Ended with/);
    expect(ended).toContain('Applied and verified');
    await eventually(() => get('/runs'), /href="\/runs\/3"/);
    expect(await enforces()).toBe(true);
    expect((await post('apply', { plan: id, confirm: '1' })).status).toBe(404);

    expect(ended).toContain('href="/restores/1"');
    const journal = await get('/restores/1');
    expect(journal).toContain('>verified</span>');
    expect(journal).toMatch(/update organization <strong>/);
    expect(journal).toContain('Ada');
    expect(await get('/restores')).toMatch(/href="\/restores\/1">1<\/a>/);
    const listed = await tidemark(['restores', '--json'], { env });
    expect(JSON.parse(listed.stdout)).toMatchObject({ restores: [{ outcome: 'complete', by: 'Ada' }] });
    expect(await auditedVias(env)).toEqual(['restore Ada token@dashboard', 'end Ada token@dashboard']);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });

  it('is told in the audit log from one of the command line under the same name', async () => {
    const told = await story({
      TIDEMARK_HTTP_ALLOW_RESTORE: 'true',
      TIDEMARK_HTTP_USER_HEADER: 'X-Forwarded-User',
      TIDEMARK_HTTP_TRUSTED_PROXIES: '127.0.0.1',
    });
    const { get, post, env, enforces } = told;
    const olga = { 'x-forwarded-user': 'olga@corp', 'sec-fetch-site': 'same-origin' };
    const planned = await post('plan', { query: await planQuery(told) }, olga);
    const path = planned.headers.get('location') ?? '';
    await eventually(() => get(path), /type 1 or default/);
    await post('apply', { plan: path.split('/').at(-1) ?? '', confirm: '1' }, olga);
    await eventually(() => get(path), /Applied and verified|Ended with/);
    expect(await enforces()).toBe(true);
    expect((await tidemark(['undo', '1', '--apply', '--yes', '--as', 'olga@corp'], { env })).code).toBe(0);
    const undone = await get('/restores/1');
    expect(undone).toContain('href="/restores/2"');
    expect(undone).not.toContain('how to undo it');
    expect(await get('/restores/2')).toContain('how to undo it');
    const command = `${userInfo().username}@${hostname()}`;
    expect(await auditedVias(env)).toEqual([
      'restore olga@corp proxy@dashboard',
      'end olga@corp proxy@dashboard',
      `undo olga@corp ${command}`,
      `end olga@corp ${command}`,
    ]);
  });

  it.each([
    { of: 'what is selected', removals: {}, syncExit: 0, asked: {} },
    {
      of: 'a record whose removal is held',
      removals: { TIDEMARK_REMOVALS_MAX_RECORDS: '0', TIDEMARK_REMOVALS_MAX_SHARE: '0' },
      syncExit: 3,
      asked: { held: '1' },
    },
  ])(
    'names what was lost below $of, and takes it along when asked',
    async ({ removals, syncExit, asked }) => {
      const { get, post, env, call } = await story({
        TIDEMARK_HTTP_ALLOW_RESTORE: 'true',
        TIDEMARK_PROFILE: 'posthog',
        ...removals,
      });
      const listed = async (path: string): Promise<Record<string, unknown>[]> =>
        (await call('GET', path))['results'] as Record<string, unknown>[];
      expect((await tidemark(['sync'], { env })).code).toBe(0);
      expect((await tidemark(['snapshots', 'pin', 'good', '--baseline'], { env })).code).toBe(0);
      const id = String((await listed('roles/')).find(({ name }) => name === 'On-call')?.['id']);
      const members = (await listed(`roles/${id}/role_memberships/`)).length;
      expect(members).toBeGreaterThan(1);
      await call('DELETE', `roles/${id}/`);
      expect((await tidemark(['sync'], { env })).code).toBe(syncExit);
      const role = selectionOf({ kind: 'roles', scope: { organization_id: KITTIWAKE_ID }, id });
      const query = new URLSearchParams({ source: 'default', ...asked, record: role }).toString();
      const below = `${members} role memberships below it were lost with it: they are not in this plan.`;
      const alone = await eventually(() => get(`/restore?${query}`), /What it would do/);
      expect(alone).toContain('1 to create');
      expect(alone).toContain(below);
      expect(alone).toContain('Plan these too');
      const both = await get(`/restore?${query}&with_children=on`);
      expect(both).toContain(`${members + 1} to create`);
      expect(both).toContain('--with-children');
      expect(both).not.toContain('Plan these too');
      const path = (await post('plan', { query })).headers.get('location') ?? '';
      const plan = await eventually(() => get(path), /To send 1 step to default/);
      expect(plan).toContain(below);
      expect(plan).not.toContain('tidemark: ');
      const [, again = ''] = /name="query" value="([^"]*)">\s*<button>Plan these too/.exec(plan) ?? [];
      const wider =
        (await post('plan', { query: again.replaceAll('&amp;', '&') })).headers.get('location') ?? '';
      const whole = await eventually(() => get(wider), new RegExp(`To send ${members + 1} steps to default`));
      expect(whole).not.toContain('Plan these too');
      await post('apply', { plan: wider.split('/').at(-1) ?? '', confirm: 'default' });
      const ended = await eventually(() => get(wider), /Applied and verified|Ended with/);
      expect(ended).toContain('Applied and verified');
    },
  );

  it('says what failed and why, without the log, and what can be done next', async () => {
    const told = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true', TIDEMARK_API_KEY: READ_KEY });
    const { get, post } = told;
    const query = await planQuery(told);
    const path = (await post('plan', { query })).headers.get('location') ?? '';
    await eventually(() => get(path), /type 1 or default/);
    await post('apply', { plan: path.split('/').at(-1) ?? '', confirm: '1' });
    const ended = await eventually(() => get(path), /0 of 1 step applied, 1 failed/);
    expect(ended).toContain('organizations: 1 step failed: the key may not do this (403)');
    expect(ended).not.toContain('&quot;level&quot;');
    expect(ended).not.toContain('tidemark: ');
    expect(ended).toMatch(/--resume<\/span> 1<\/code> sends what failed again/);
    expect(ended).not.toContain('tidemark undo');
    const [, again = ''] = /name="query" value="([^"]*)">\s*<button>Plan what is missing/.exec(ended) ?? [];
    expect(again.replaceAll('&amp;', '&')).toBe(query);
  });

  it('is applied by a command that only the daemon can start', async () => {
    const env = environment('http://127.0.0.1:9', scratch());
    const called = await runProgram(['daemon-apply', 'plan.json'], { env });
    expect(called).toMatchObject({ code: 4, stdout: '' });
    expect(called.stderr).toContain('what the daemon starts for the dashboard');
    expect((await tidemark(['--help'], { env })).stdout).not.toContain('daemon-apply');
  });

  it('that would only record records that somebody recreated names them, asks, and records them', async () => {
    const { get, post, env, call } = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true' });
    const mine = {
      name: 'Mine',
      model: 'events',
      interval: 'day',
      destination: { type: 'NoOp', config: {} },
    };
    const old = String((await call('POST', 'batch_exports/', mine))['id']);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'pin', 'good', '--baseline'], { env })).code).toBe(0);
    await call('DELETE', `batch_exports/${old}/`);
    const now = String((await call('POST', 'batch_exports/', mine))['id']);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    const pair = `batch export Mine: ${old} → ${now}, found by its name`;
    const scope = { organization_id: KITTIWAKE_ID };
    const records = [old, now].map((id): [string, string] => [
      'record',
      selectionOf({ kind: 'batch_exports', scope, id }),
    ]);
    const query = new URLSearchParams([['source', 'default'], ...records]).toString();
    const wouldDo = await eventually(() => get(`/restore?${query}`), /What it would do/);
    expect(wouldDo).toContain('nothing to send, 1 new id to record');
    expect(wouldDo).toContain(pair);
    const path = (await post('plan', { query })).headers.get('location') ?? '';
    const plan = await eventually(() => get(path), /To record 1 new id for default, type 1 or default/);
    expect(plan).toContain(pair);
    const id = path.split('/').at(-1) ?? '';
    expect((await post('apply', { plan: id, confirm: '0' })).status).toBe(400);
    expect((await tidemark(['restores', '--json'], { env })).stdout).toContain('"restores":[]');
    expect((await post('apply', { plan: id, confirm: '1' })).status).toBe(303);
    expect(await eventually(() => get(path), /1 new id recorded|Ended with/)).toContain(
      'Journal of restore 1',
    );
    const journal = await get('/restores/1');
    expect(journal).toContain('1 new id');
    expect(journal).not.toContain('tidemark undo');
    const drift = await tidemark(['drift'], { env });
    expect([drift.code, drift.stdout]).toEqual([0, expect.stringContaining('No differences')]);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });

  it('of which all is blocked has no command, and the lines with the missing secrets', async () => {
    const { get, env, call } = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true' });
    const config = {
      bucket_name: 'b',
      region: 'eu',
      prefix: 'p',
      aws_access_key_id: 'AKIA',
      aws_secret_access_key: 's',
    };
    const mine = { name: 'Mine', model: 'events', interval: 'day', destination: { type: 'S3', config } };
    const id = String((await call('POST', 'batch_exports/', mine))['id']);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'pin', 'good', '--baseline'], { env })).code).toBe(0);
    await call('DELETE', `batch_exports/${id}/`);
    expect((await tidemark(['sync'], { env })).code).toBe(0);
    const scope = { organization_id: KITTIWAKE_ID };
    const record = selectionOf({ kind: 'batch_exports', scope, id });
    const query = new URLSearchParams([
      ['source', 'default'],
      ['record', record],
    ]).toString();
    const page = await eventually(() => get(`/restore?${query}`), /What it would do/);
    expect(page).toContain('To supply the missing secrets, add to the source in the configuration:');
    expect(page).toMatch(/<pre class="body" tabindex="0"> {4}secrets:\n {6}batch_exports:\n/);
    expect(page).not.toContain('Apply it');
  });

  it('that the service has moved under is refused, with the reason', async () => {
    const told = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true' });
    const { get, post, env } = told;
    await tidemark(['snapshots', 'pin', 'good', 'run:1', '--baseline'], { env });
    const accept = [
      'drift',
      'accept',
      'organizations',
      KITTIWAKE_ID,
      '--field',
      '/enforce_2fa',
      '--reason',
      'for now',
    ];
    expect(await tidemark([...accept, '--as', 'ann'], { env })).toMatchObject({ code: 0 });
    const query = await planQuery(told);
    const path = (await post('plan', { query })).headers.get('location') ?? '';
    const made = await eventually(() => get(path), /type 1 or default/);
    expect(made).toMatch(/<p>\/enforce_2fa accepted by ann \(\S+@\S+\) on \d{4}-\d\d-\d\d: for now<\/p>/);
    expect((await tidemark(['restore', 'run:1', '--apply', '--yes'], { env })).code).toBe(0);
    await post('apply', { plan: path.split('/').at(-1) ?? '', confirm: 'default' });
    const ended = await eventually(() => get(path), /Ended with/);
    expect(ended).toContain('Ended with exit code 6');
    expect(ended).toContain('Nothing was sent.');
    // With the same selection.
    const [, again = ''] = /name="query" value="([^"]*)"><button>Make the plan again/.exec(ended) ?? [];
    expect(again.replaceAll('&amp;', '&')).toBe(query);
  });

  it('of which another one like it was applied is refused, and shows no journal of that one', async () => {
    const told = await story({ TIDEMARK_HTTP_ALLOW_RESTORE: 'true' });
    const { get, post } = told;
    const query = await planQuery(told);
    const planned = async (): Promise<string> => {
      const path = (await post('plan', { query })).headers.get('location') ?? '';
      await eventually(() => get(path), /type 1 or default/);
      return path;
    };
    const applied = async (path: string): Promise<string> => {
      await post('apply', { plan: path.split('/').at(-1) ?? '', confirm: '1' });
      return await eventually(() => get(path), /Applied and verified|Ended with|steps? applied/);
    };
    const [first, second] = [await planned(), await planned()];
    expect(await applied(first)).toContain('Applied and verified');
    const refused = await applied(second);
    expect(refused).toContain('Ended with exit code 6');
    expect(refused).toContain('Nothing was sent.');
    expect(refused).not.toContain('Journal of restore');
  });

  it('is not offered unless it is allowed: the page has the command alone', async () => {
    const told = await story({});
    const query = await planQuery(told);
    const page = await told.get(`/restore?${query}`);
    expect(page.replace(/<[^>]*>/g, '')).toContain('tidemark restore run:1 --source default');
    expect(page).not.toContain('/actions/plan');
    expect((await told.post('plan', { query })).status).toBe(403);
    expect((await told.post('apply', { plan: 'x', confirm: '1' })).status).toBe(403);
    expect(await told.enforces()).toBe(false);
  });
});
