/** What `--log-level` shows of a run that meets a 429, a 502 and a removed record, and of a restore that loses an answer. */
import { describe, expect, it } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { FakeService, ORG, respond } from './service.ts';

const KEY = 'phx_a-secret-key-0123456789';
const TOKEN = 'sharing-access-token-of-a-record';
const GONE = '0190bbbb-0000-7000-8000-000000000002';
const kept = (nth: number): object => ({
  id: `0190bbbb-0000-7000-8000-00000000000${nth}`,
  domain: `harbor-${nth}.example`,
});

type Line = Readonly<Record<string, unknown>> & { readonly msg: string };
const linesOf = (stderr: string): Line[] =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);

/** A second sync, in which a record is gone and two collections fail once. */
async function runWithFailures(
  level: string,
): Promise<{ stdout: string; stderr: string; service: FakeService }> {
  const service = await FakeService.start();
  const all = [1, 2, 3, 4, 5, 6, 7, 8].map(kept);
  service.set('domains', all);
  service.set('plugins', [{ id: 7, name: TOKEN }]);
  const env = { ...environment(service.url, scratch()), TIDEMARK_API_KEY: KEY };
  expect((await tidemark(['sync'], { env })).code).toBe(0);
  service.set(
    'domains',
    all.filter((record) => (record as { id: string }).id !== GONE),
  );
  const failed = new Set<string>();
  service.quirks.push(({ path, headers }, response) => {
    const name = path.split('/').at(-2) ?? '';
    if (failed.has(name)) return false;
    failed.add(name);
    if (name === 'roles') return respond(response, 429, '{"detail":"slow down"}', { 'retry-after': '1' });
    if (name === 'members')
      return respond(response, 502, `{"detail":"bad gateway ${headers.authorization}"}`, {
        'x-request-id': 'req-of-the-gateway',
        'x-echo': String(headers.authorization),
        'set-cookie': 'session=a-cookie-of-theirs',
      });
    return false;
  });
  const { code, stdout, stderr } = await tidemark(['sync', '--log-level', level], { env });
  expect(code, stderr).toBe(0);
  for (const secret of [KEY, Buffer.from(KEY).toString('base64').slice(0, 20), TOKEN])
    expect(stdout + stderr).not.toContain(secret);
  return { stdout, stderr, service };
}

describe('--log-level', () => {
  it('debug tells each request, wait, retry, verdict and removal', async () => {
    const { stderr, service } = await runWithFailures('debug');
    const lines = linesOf(stderr);
    const domains = `/api/organizations/${ORG}/domains/`;
    const requests = lines.filter(({ msg }) => msg === 'request');
    expect(requests).toContainEqual(
      expect.objectContaining({ method: 'GET', kind: 'domains', status: 200, attempt: 1, source: 'default' }),
    );
    expect(requests.find(({ kind, status }) => kind === 'domains' && status === 200)).toMatchObject({
      path: expect.stringContaining(`${domains}?limit=`) as string,
      bytes: expect.any(Number) as number,
      durationMs: expect.any(Number) as number,
    });
    expect(requests.find(({ status }) => status === 502)).toMatchObject({
      kind: 'members',
      requestId: 'req-of-the-gateway',
    });
    expect(requests.find(({ kind, attempt }) => kind === 'members' && attempt === 2)).toMatchObject({
      status: 200,
    });
    // A line for every request of the second run, which sent no fewer than the first.
    expect(requests.length * 2).toBeGreaterThanOrEqual(service.seen.length);
    const retries = lines.filter(({ msg }) => msg === 'request failed, trying again after the wait');
    expect(retries.map(({ status }) => status).sort()).toEqual([429, 502]);
    expect(retries.find(({ status }) => status === 429)).toMatchObject({ attempt: 1, waitMs: 1000 });
    expect(lines).toContainEqual(expect.objectContaining({ reason: 'refusal', level: 20 }));
    expect(lines).toContainEqual(
      expect.objectContaining({
        msg: 'the walk ended',
        kind: 'domains',
        proof: 'one page',
        outcome: 'complete',
      }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: 'retrieve confirmed that a record is gone', id: GONE, kind: 'domains' }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: 'collection complete', removed: 1, held: 0, confirmedBy: 'retrieve' }),
    );
    expect(lines).toContainEqual(
      expect.objectContaining({ msg: 'collection found', kind: 'domains', knownFrom: 'live' }),
    );
    expect(stderr).not.toContain('a-cookie-of-theirs');
    expect(stderr).not.toContain('user-agent');
  });

  it('info has none of that', async () => {
    const { stderr } = await runWithFailures('info');
    expect(linesOf(stderr).filter(({ level }) => Number(level) < 30)).toEqual([]);
    expect(stderr).not.toContain('/api/');
  });

  it('trace adds headers and sizes, and no credentials', async () => {
    const { stderr } = await runWithFailures('trace');
    const headers = linesOf(stderr).filter(({ msg }) => msg === 'headers of the request and its answer');
    expect(headers.length).toBeGreaterThan(10);
    expect(headers.find(({ kind }) => kind === 'domains')).toMatchObject({
      sent: { headers: { accept: 'application/json', 'user-agent': 'tidemark' }, bytes: 0 },
      received: { status: 200, headers: { 'content-type': 'application/json' } },
    });
    expect(stderr).toContain('"x-echo":"Bearer [secret]"');
    expect(stderr).not.toMatch(/authorization|cookie/i);
  });
});

describe('--log-level debug of a restore', () => {
  it('tells each step from its look to what was read back, and what became of a lost answer', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [changed, gone] = await story.list('roles');
    await story.call('PATCH', `${ORGANIZATION}roles/${String(changed?.['id'])}/`, { name: 'Renamed' });
    await story.call('DELETE', `${ORGANIZATION}roles/${String(gone?.['id'])}/`);
    // The role is made, and nobody hears of it.
    story.proxy.setRules([{ method: 'POST', path: /\/roles\/$/, nth: 1, fault: { kind: 'reset-after' } }]);
    const args = ['restore', '--kind', 'roles', '--apply', '--yes', '--log-level', 'debug'];
    const { stderr } = await story.expectRun(0, ...args);
    const steps = linesOf(stderr).filter(({ step }) => step !== undefined);
    const told = (action: string): string[] =>
      steps.filter((line) => line['action'] === action).map(({ msg }) => msg);
    expect(told('update')).toEqual([
      'the step begins',
      'journaled as about to be sent',
      'looked at what the write expects',
      'waits for its turn and is sent',
      'answered',
      'read back',
    ]);
    expect(steps).toContainEqual(
      expect.objectContaining({
        action: 'update',
        kind: 'roles',
        msg: 'answered',
        outcome: 'done',
        status: 200,
      }),
    );
    expect(steps).toContainEqual(
      expect.objectContaining({
        action: 'create',
        msg: 'looked up the effect of a write without an answer',
        found: 'done',
      }),
    );
    // Found, and so not sent a second time.
    expect(told('create').filter((msg) => msg === 'waits for its turn and is sent')).toHaveLength(1);
    expect(story.writes().filter(({ method }) => method === 'POST')).toHaveLength(1);
    expect(stderr).not.toContain(story.env['TIDEMARK_API_KEY']);
  });
});
