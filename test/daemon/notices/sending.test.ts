/** Every type of channel against the real thing: sockets, SMTP, processes. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openPoster } from '../../../src/api/post.ts';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { NO_PROXIES } from '../../../src/config/proxy.ts';
import { type Clock, systemClock } from '../../../src/core/clock.ts';
import type { TidemarkError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import { Secret } from '../../../src/core/secret.ts';
import { messageOf, noticeOf } from '../../../src/daemon/notices/message.ts';
import { createPinger } from '../../../src/daemon/notices/notice-service.ts';
import { createSend } from '../../../src/daemon/notices/sending.ts';
import { command, email, slack, webhook } from './channel.ts';
import { mailServer, receiver } from './receiver.ts';

const message = messageOf(
  1,
  noticeOf(
    { at: '2026-03-01T12:00:00.000Z', source: 'production', subject: 'run', event: 'run_failed' },
    { severity: 'high', title: 'production: the sync failed', lines: ['Zürich ✓ no route'] },
  ),
  'low',
);

const logged: { facts: Record<string, unknown>; message: string }[] = [];
const note = (facts: Record<string, unknown>, text: string): void =>
  void logged.push({ facts, message: text });
const log: Logger = {
  error: note,
  warn: note,
  info: note,
  debug: note,
  trace: note,
  isLevelEnabled: () => true,
  child: () => log,
};

function rig(timeouts: Parameters<typeof openPoster>[1] = {}) {
  logged.length = 0;
  const poster = openPoster(() => NO_PROXIES, timeouts);
  onTestFinished(() => poster.close());
  const send = createSend({
    poster,
    clock: systemClock,
    log,
    env: { PATH: process.env['PATH'], SVC_API_KEY: 'k3y' },
  });
  const stop = new AbortController();
  return {
    poster,
    stop,
    deliver: (channel: ChannelConfig) => send(channel, message, stop.signal),
    failure: async (channel: ChannelConfig): Promise<TidemarkError> => {
      try {
        await send(channel, message, stop.signal);
      } catch (error) {
        return error as TidemarkError;
      }
      throw new Error('it was delivered');
    },
  };
}

describe('over HTTP', () => {
  it('posts once, with user and password of the URL as a header, and never the key', async () => {
    const far = await receiver({ status: 204 });
    const { deliver } = rig();
    await deliver(webhook('a', far.url.replace('//', '//me:pa%3Ass@') + '/in?x=1'));
    const [got, ...more] = far.received;
    expect(more).toEqual([]);
    expect(got).toMatchObject({ method: 'POST', path: '/in?x=1' });
    expect(got!.headers['authorization']).toBe(`Basic ${Buffer.from('me:pa:ss').toString('base64')}`);
    expect(JSON.parse(got!.body)).toMatchObject({ event: 'run_failed', text: 'Zürich ✓ no route' });
  });

  it('does not follow redirects', async () => {
    const other = await receiver();
    const far = await receiver({ status: 302, headers: { location: other.url } });
    const { failure } = rig();
    expect((await failure(slack('s', far.url))).code).toBe('redirected');
    expect(other.received).toEqual([]);
  });

  it.each([
    ['never answers', 'hang', 'timeout'],
    ['cuts the connection', 'cut', 'unreachable'],
  ] as const)('a receiver that %s is reported by host and port only', async (_name, answer, code) => {
    const far = await receiver(answer);
    const { failure } = rig({ headersMs: 100, totalMs: 400 });
    const error = await failure(webhook('a', `${far.url}/services/T0PS3CRET`));
    expect(error).toMatchObject({ code, isRetryable: true });
    expect(error.message).toContain('127.0.0.1:');
    expect(`${error.message} ${error.hint} ${String(error.cause)}`).not.toContain('T0PS3CRET');
  });

  it('keeps only the beginning of an endless answer', async () => {
    const far = await receiver({ status: 500, text: 'x'.repeat(3_000_000) });
    const { failure } = rig();
    expect((await failure(webhook('a', far.url))).message.length).toBeLessThan(300);
  });

  it('ends with the daemon', async () => {
    const far = await receiver('hang');
    const { stop, failure } = rig();
    const ended = failure(webhook('a', far.url));
    await far.came(1);
    stop.abort(new Error('closing'));
    expect((await ended).message).toBe('closing');
  });
});

describe('by mail', () => {
  it('sends text and HTML with its own headers', async () => {
    const server = await mailServer({ offersAuth: true });
    const { deliver } = rig();
    await deliver(
      email('e', `smtp://me:p%40ss@127.0.0.1:${server.port}`, { to: ['a@example.com', 'b@example.com'] }),
    );
    const [mail] = server.mails;
    expect(server.logins).toEqual(['\0me\0p@ss']);
    expect(mail!.to).toEqual(['RCPT TO:<a@example.com>', 'RCPT TO:<b@example.com>']);
    expect(mail!.text).toContain('Subject: [tidemark] production: the sync failed\r\n');
    expect(mail!.text).toContain('From: Tidemark <tidemark@example.com>\r\n');
    expect(mail!.text).toContain('Auto-Submitted: auto-generated\r\n');
    expect(mail!.text).toContain(`Message-ID: <${message.id}.e@example.com>\r\n`);
    expect(mail!.text).toContain('Content-Type: text/html');
    expect(mail!.text).toContain('Z=C3=BCrich');
  });

  it('does not show its credentials when they are refused', async () => {
    const server = await mailServer({ offersAuth: true });
    server.refuse['AUTH'] = '535 no: me with hunter2222';
    const { failure } = rig();
    const error = await failure(email('e', `smtp://me:hunter2222@127.0.0.1:${server.port}`));
    expect(error.code).toBe('unauthorized');
    expect(JSON.stringify(error) + error.message + (error.stack ?? '')).not.toContain('hunter2222');
    expect(error.cause).toBeUndefined();
  });

  it('a refused recipient holds up no other message', async () => {
    const server = await mailServer();
    server.refuse['RCPT'] = '550 no such user';
    const { failure } = rig();
    expect(await failure(email('e', `smtp://127.0.0.1:${server.port}`))).toMatchObject({
      code: 'rejected',
      isRetryable: false,
    });
  });

  it('a server that is not there is retried', async () => {
    const { failure } = rig();
    const error = await failure(email('e', 'smtp://127.0.0.1:9'));
    expect(error).toMatchObject({ code: 'unreachable', isRetryable: true });
    expect(error.message).toContain('127.0.0.1:9: the mail server could not be used');
  });
});

describe('by a command', () => {
  const directory = (): string => {
    const path = mkdtempSync(join(tmpdir(), 'tidemark-notices-'));
    onTestFinished(() => rmSync(path, { recursive: true, force: true }));
    return path;
  };

  it('finds a program whose path is relative beside the configuration', async () => {
    const at = directory();
    writeFileSync(join(at, 'page'), '#!/bin/sh\necho "$1" > said.txt\n', { mode: 0o700 });
    await rig().deliver(command('c', ['./page', 'ops'], { directory: at }));
    expect(readFileSync(join(at, 'said.txt'), 'utf8')).toBe('ops\n');
  });

  it('hands over the notice, the few variables, and no key; no shell reads its words', async () => {
    const at = directory();
    const { deliver } = rig();
    const script = 'cat > in.json; env > env.txt; printf "%s" "$1" > word.txt; echo said';
    const words = ['sh', '-c', script, 'x', '$(touch pwned); `id`'];
    await deliver(command('c', words, { directory: at, env: { TOKEN: new Secret('t') } }));
    expect(JSON.parse(readFileSync(join(at, 'in.json'), 'utf8'))).toMatchObject({ id: message.id });
    const env = readFileSync(join(at, 'env.txt'), 'utf8');
    expect(env).toContain('TIDEMARK_NOTICE_EVENT=run_failed\n');
    expect(env).toContain('TOKEN=t\n');
    expect(env).not.toContain('k3y');
    expect(readFileSync(join(at, 'word.txt'), 'utf8')).toBe('$(touch pwned); `id`');
    expect(existsSync(join(at, 'pwned'))).toBe(false);
    expect(logged).toEqual([{ facts: { channel: 'c', output: 'said\n' }, message: 'the command said' }]);
  });

  it.each([
    ['fails', ['sh', '-c', 'exit 3'], 'rejected', 'the command ended with exit code 3'],
    ['is killed', ['sh', '-c', 'kill -9 $$'], 'rejected', 'the command ended by SIGKILL'],
    [
      'is not there',
      ['/no/such/program'],
      'file_system',
      'the command could not be started: there is no such program',
    ],
    ['hangs', ['sh', '-c', 'sleep 60'], 'timeout', 'the command took longer than 0.2 s and was ended'],
    [
      'reads nothing and writes no end',
      ['sh', '-c', 'yes'],
      'timeout',
      'the command took longer than 0.2 s and was ended',
    ],
  ])('one that %s', async (_name, words, code, text) => {
    const { failure } = rig();
    expect(await failure(command('c', words, { timeout: code === 'timeout' ? 200 : 10_000 }))).toMatchObject({
      code,
      message: text,
    });
  });

  it('does not wait for what it left in the background', async () => {
    const { deliver } = rig();
    await deliver(command('c', ['sh', '-c', 'sleep 5 & exit 0']));
  });
});

it('a channel whose secret is missing fails with that reason', async () => {
  const { failure } = rig();
  expect(await failure(webhook('a', '', { problem: '${X} is not set' }))).toMatchObject({
    code: 'config_invalid',
    message: '${X} is not set',
  });
});

describe('pings', () => {
  const sources = (): string[] => ['a', 'b', 'c', 'production'];
  const ping = (url: string, more: object = {}) => ({
    sources: null,
    method: 'POST' as const,
    start: new Secret(`${url}/start`),
    success: new Secret(`${url}/ok`),
    fail: new Secret(`${url}/fail`),
    problem: null,
    ...more,
  });

  const running = new AbortController().signal;

  it('call start, then success after a complete run and fail with the reason after any other', async () => {
    const far = await receiver({ status: 200 });
    const { poster } = rig();
    const pings = [ping(far.url)];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    pinger.started('production');
    pinger.succeeded('production', () => []);
    pinger.started('production');
    pinger.failed('production', 'partial: plugins denied');
    await pinger.settled(running);
    expect(far.received.map(({ path }) => path)).toEqual(['/start', '/ok', '/start', '/fail']);
    expect(far.received[3]!.body).toBe('production: partial: plugins denied\n');
  });

  it('do not let one source speak for another', async () => {
    const far = await receiver({ status: 200 });
    const { poster } = rig();
    const pings = [
      ping(far.url, { start: null }),
      ping(`${far.url}/only`, { sources: ['b'], start: null, method: 'GET' }),
    ];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    pinger.failed('a', 'failed');
    pinger.succeeded('b', () => []);
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect(far.received.map(({ method, path }) => `${method} ${path}`).sort()).toEqual([
      'GET /only/ok',
      'POST /fail',
      'POST /ok',
    ]);
  });

  it('take the word of the mirror for other sources, but not for those that are gone', async () => {
    const far = await receiver({ status: 200 });
    const { poster } = rig();
    const pings = [
      ping(far.url, { start: null }),
      ping(`${far.url}/only`, { sources: ['a', 'b'], start: null }),
    ];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    pinger.succeeded('a', () => ['c']);
    pinger.failed('gone', 'failed');
    await pinger.settled(running);
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect(far.received.map(({ path }) => path)).toEqual(['/only/ok', '/fail', '/ok', '/only/ok']);
  });

  it('try again at once, then after a while, and say so once, without the URL', async () => {
    const failing = { status: 500 };
    const far = await receiver(failing, { status: 200 }, failing, failing, { status: 200 }, failing);
    const { poster } = rig();
    const pings = [ping(`${far.url}/s3cretuuid`, { start: null })];
    const waits: number[] = [];
    const clock: Clock = {
      now: () => systemClock.now(),
      monotonicMs: () => systemClock.monotonicMs(),
      sleep: (ms) => Promise.resolve(void waits.push(ms)),
    };
    const pinger = createPinger({ pings: () => pings, sources, poster, clock, log });
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect([far.received.length, logged, waits]).toEqual([2, [], []]);
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect([far.received.length, logged.length, waits]).toEqual([5, 1, [10_000]]);
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect([far.received.length, logged.length, waits]).toEqual([9, 2, [10_000, 10_000, 60_000]]);
    expect(JSON.stringify(logged)).not.toContain('s3cretuuid');
  });

  it('that wait for another attempt give way to what is newer', async () => {
    const far = await receiver({ status: 500 }, { status: 500 }, { status: 200 });
    const { poster } = rig();
    const pings = [ping(far.url)];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    pinger.started('a');
    await far.came(2);
    pinger.succeeded('a', () => []);
    await pinger.settled(running);
    expect(far.received.map(({ path }) => path)).toEqual(['/start', '/start', '/ok']);
  });

  it('give up waiting for another attempt when the daemon stops', async () => {
    const far = await receiver({ status: 500 }, { status: 500 });
    const { poster } = rig();
    const pings = [ping(far.url)];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    const stop = new AbortController();
    pinger.started('a');
    const settled = pinger.settled(stop.signal);
    await far.came(2);
    stop.abort();
    await settled;
    expect(far.received).toHaveLength(2);
  });

  it('end with the daemon', async () => {
    const far = await receiver('hang');
    const { poster } = rig();
    const pings = [ping(far.url)];
    const pinger = createPinger({ pings: () => pings, sources, poster, clock: systemClock, log });
    pinger.started('a');
    await far.came(1);
    await pinger.close();
    expect(logged).toEqual([]);
  });
});
