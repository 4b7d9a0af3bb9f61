/** Backups in S3-compatible storage: a real server of the interface on loopback, with a proxy in front of it that fails. */
import { createHash } from 'node:crypto';
import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { type FauxqsServer, startFauxqs } from 'fauxqs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { listBackups } from '../../src/backup/list.ts';
import { restoreBackup, verifyBackup } from '../../src/backup/opened-backup.ts';
import { openTarget } from '../../src/backup/targets/open.ts';
import type { BackupTarget } from '../../src/backup/targets/target.ts';
import { checkTargets, targetProblems } from '../../src/cli/doctor-backups.ts';
import { parseS3Address } from '../../src/config/backup-target.ts';
import type { S3TargetConfig, TargetConfig } from '../../src/config/config.ts';
import { NO_PROXIES } from '../../src/config/proxy.ts';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import type { Problem } from '../../src/doctor/problems.ts';
import { bodies, open, temporaryDirectory } from '../mirror/fixture.ts';
import { ConnectProxy } from '../faults/connect-proxy.ts';
import { never, setting } from './fixture.ts';

const holder = { command: 'test', pid: 1, host: 'here', since: '2026-03-01T00:00:00.000Z' };

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

/** What the proxy does with a request in place of passing it on: an answer, or a cut connection; with `unanswered`, after that. */
type Fault = (
  seen: Seen,
) => { readonly status: number; readonly code: string } | 'cut' | 'unanswered' | 'corrupt' | null;

let server: FauxqsServer;
let proxy: Server;
let endpoint: string;
let seen: Seen[] = [];
let fault: Fault = () => null;
const environment = { ...process.env };

beforeAll(async () => {
  server = await startFauxqs({ port: 0, logger: false });
  server.createBucket('backups');
  proxy = createServer((incoming, outgoing) => {
    const one = { method: incoming.method ?? '', path: incoming.url ?? '', headers: incoming.headers };
    seen.push(one);
    const what = fault(one);
    if (what === 'cut') return void incoming.socket.destroy();
    if (what !== null && what !== 'corrupt' && what !== 'unanswered') {
      incoming.resume().on('end', () => {
        outgoing.writeHead(what.status, { 'content-type': 'application/xml' });
        outgoing.end(`<Error><Code>${what.code}</Code><Message>no</Message></Error>`);
      });
      return;
    }
    const onward = httpRequest(
      { port: server.port, method: one.method, path: one.path, headers: incoming.headers },
      (answer) => {
        if (what === 'unanswered') return void answer.resume().on('end', () => incoming.socket.destroy());
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.on('data', (chunk: Buffer) => {
          if (what === 'corrupt') chunk[0] = (chunk[0] ?? 0) ^ 1;
          outgoing.write(chunk);
        });
        answer.on('end', () => outgoing.end());
      },
    );
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' });
});

afterAll(async () => {
  for (const name of ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY']) {
    if (environment[name] === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = environment[name];
  }
  proxy.closeAllConnections();
  await new Promise((resolve) => proxy.close(resolve));
  await server.stop();
});

let prefixes = 0;
beforeEach(() => {
  seen = [];
  fault = () => null;
  prefixes += 1;
});

function s3(changes: Partial<S3TargetConfig> = {}): S3TargetConfig {
  const place = parseS3Address(`s3://backups/p${prefixes}?endpoint=${endpoint}`)!;
  return { ...place, objectLock: null, retention: null, ...changes };
}

const opened = (config: TargetConfig): Promise<BackupTarget> => openTarget(config, systemClock);

describe('a backup in S3', () => {
  it('is listed, verified and restored, encrypted, and the manifest was stored last', async () => {
    const { with: writer, mirror } = await setting();
    const identity = await generateIdentity();
    const recipients = [await identityToRecipient(identity)];
    const made = await writer({ backups: { targets: [s3()], recipients } }).make(never);
    expect(made.errors).toEqual([]);
    expect(made.path).toBe(`s3://backups/p${prefixes}/${made.manifest.file}`);
    const stored = seen.filter(({ method }) => method === 'PUT').map(({ path }) => path.split('?')[0]);
    expect(stored).toEqual([
      `/backups/p${prefixes}/${made.manifest.file}`,
      `/backups/p${prefixes}/${made.manifest.file}.json`,
    ]);
    const reads = seen.findIndex(({ method, path }) => method === 'GET' && path.includes('.age'));
    const last = seen.findLastIndex(({ method }) => method === 'PUT');
    expect(reads, 'it was read back before its manifest was stored').toBeLessThan(last);

    const [backup, ...others] = await listBackups(await opened(s3()));
    expect(others).toEqual([]);
    expect(backup).toMatchObject({ state: 'whole', isEncrypted: true, run: 1, manifest: made.manifest });
    const options = { identities: [new Secret(identity)], clock: systemClock, signal: never };
    const work = temporaryDirectory();
    expect((await verifyBackup(backup!, work, options)).facts?.root).toBe(made.manifest.root);
    const to = join(temporaryDirectory(), 'mirror.db');
    await restoreBackup(backup!, to, { ...options, holder });
    expect(bodies(open({ path: to }), 'roles')).toEqual(bodies(mirror, 'roles'));
  });

  it('that is the newest and damaged is found by doctor, which reads no other manifest', async () => {
    const { with: writer, sync, mirror } = await setting();
    const make = writer({ backups: { targets: [s3()] } });
    await make.make(never);
    await sync();
    const { manifest } = await make.make(never);
    const config = { mirror: mirror.path, backup: { targets: [s3()] } };
    const look = async (): Promise<readonly Problem[]> => {
      const known = { owners: new Map(), isMirrorAway: false };
      return targetProblems(await checkTargets(config, known, never)).filter(
        ({ code }) => code !== 'backup_on_mirror_disk',
      );
    };
    seen = [];
    expect(await look()).toEqual([]);
    const manifests = seen.filter(({ path }) => path.includes('.json'));
    expect(manifests.map(({ path }) => path.split('?')[0])).toEqual([
      `/backups/p${prefixes}/${manifest.file}.json`,
    ]);
    await fetch(`${endpoint}/backups/p${prefixes}/${manifest.file}`, { method: 'PUT', body: 'short' });
    const file = `s3://backups/p${prefixes}/${manifest.file}`;
    expect(await look()).toMatchObject([
      {
        gravity: 'warning',
        code: 'backup_damaged',
        message: `backups: the newest one is damaged: ${file}: it has 5 bytes where its manifest says ${manifest.bytes}`,
      },
    ]);
    await fetch(`${endpoint}/backups/p${prefixes}/${manifest.file}`, { method: 'DELETE' });
    expect((await look()).map(({ message }) => message)).toEqual([
      `backups: the newest one is damaged: ${file}: only its manifest is there`,
    ]);
    // A key that may list and not read says nothing of the backup.
    fault = ({ method, path }) =>
      method === 'GET' && path.includes('.json') ? { status: 403, code: 'AccessDenied' } : null;
    expect(await look()).toMatchObject([
      {
        gravity: 'error',
        code: 'backup_target',
        message: `backups: s3://backups/p${prefixes} could not be read: access denied (AccessDenied)`,
        next: expect.stringContaining('what their policy allows') as string,
      },
    ]);
    fault = () => null;
  });

  it('of more than a part is uploaded in parts, each with its checksum, and under the lock', async () => {
    const path = join(temporaryDirectory(), 'packed');
    const contents = Buffer.alloc(20 * 1024 * 1024, 'tidemark');
    writeFileSync(path, contents);
    const sha256 = createHash('sha256').update(contents).digest('hex');
    const name = 'tidemark-20260301T120000Z-run1.db.zst';
    const target = await opened(s3({ objectLock: { mode: 'compliance', days: 30 } }));
    let progress = 0;
    const backup = { name, path, bytes: contents.length, sha256, manifest: '{}' };
    await target.store(backup, { owner: 'm', signal: never, onBytes: (bytes) => (progress = bytes) });
    expect(progress).toBe(2 * contents.length);
    const parts = seen.filter(({ path: at }) => at.includes('partNumber'));
    expect(parts).toHaveLength(3);
    expect(parts.every(({ headers }) => headers['content-md5'] !== undefined)).toBe(true);
    const begun = seen.find(({ method, path: at }) => method === 'POST' && at.includes('uploads'));
    const manifest = seen.find(({ method, path: at }) => method === 'PUT' && at.includes('.json'));
    for (const one of [begun, manifest]) {
      expect(one?.headers['x-amz-object-lock-mode']).toBe('COMPLIANCE');
      const until = Date.parse(String(one?.headers['x-amz-object-lock-retain-until-date']));
      expect(until).toBeGreaterThan(systemClock.now() + 29 * 86_400_000);
    }
    const fetched = await target.fetch(name, temporaryDirectory(), never);
    expect(
      createHash('sha256')
        .update(await readAll(fetched))
        .digest('hex'),
    ).toBe(sha256);
  });

  it.each(['with its answer lost', 'in vain'])('of more than a part, put together %s', async (how) => {
    const path = join(temporaryDirectory(), 'packed');
    const contents = Buffer.alloc(9 * 1024 * 1024, 'tidemark');
    writeFileSync(path, contents);
    const sha256 = createHash('sha256').update(contents).digest('hex');
    const name = 'tidemark-20260301T120000Z-run1.db.zst';
    const target = await opened(s3());
    const completing = () =>
      seen.filter(({ method, path: at }) => method === 'POST' && at.includes('uploadId'));
    fault = (one) => {
      if (!completing().includes(one)) return null;
      if (how === 'in vain') return { status: 404, code: 'NoSuchUpload' };
      return completing().length === 1 ? 'unanswered' : null;
    };
    const backup = { name, path, bytes: contents.length, sha256, manifest: '{}' };
    const stored = target.store(backup, { owner: 'm', signal: never, onBytes: () => undefined });
    if (how === 'in vain') {
      await expect(stored).rejects.toMatchObject({ code: 'rejected' });
      expect(await target.list()).toEqual([]);
      return;
    }
    await stored;
    expect(completing(), 'the second found no such upload').toHaveLength(2);
    expect((await target.list()).map((file) => file.name).sort()).toEqual([name, `${name}.json`]);
  });

  it('goes to the other targets where one is away, and says so', async () => {
    const { with: writer, directory } = await setting();
    fault = ({ path }) => (path.includes('/backups') ? { status: 503, code: 'SlowDown' } : null);
    const targets: TargetConfig[] = [s3(), { type: 'directory', path: directory, retention: null }];
    const made = await writer({ backups: { targets } }).make(never);
    expect(made.errors).toEqual([expect.objectContaining({ code: 'server_error', isRetryable: true })]);
    expect(made.targets.map(({ path }) => path === null)).toEqual([true, false]);
    expect(readdirSync(directory)).toHaveLength(2);
    expect(made.path.startsWith(directory)).toBe(true);
  });

  it.each([
    ['denied', { status: 403, code: 'AccessDenied' }, 'rejected', /access denied/],
    ['full', { status: 507, code: 'InsufficientStorage' }, 'disk_full', /full/],
    ['without the bucket', { status: 404, code: 'NoSuchBucket' }, 'file_system', /no such bucket/],
    ['cut off', 'cut', 'unreachable', /the connection was broken off \(ECONNRESET\)/],
  ] as const)('fails with one clear line where storage is %s', async (_name, what, code, message) => {
    const { with: writer } = await setting();
    fault = ({ method }) => (method === 'PUT' || what === 'cut' || what.status === 404 ? what : null);
    const failing = writer({ backups: { targets: [s3()] } }).make(never);
    await expect(failing).rejects.toMatchObject({ code, message: expect.stringMatching(message) as string });
    await expect(failing).rejects.toMatchObject({ hint: expect.stringMatching(/./) as string });
    fault = () => null;
    expect(await listBackups(await opened(s3()))).toEqual([]);
  });

  it('is none where it reads back otherwise, and the right to delete is not needed', async () => {
    const { with: writer } = await setting();
    fault = ({ method, path }) => {
      if (method === 'DELETE') return { status: 403, code: 'AccessDenied' };
      return method === 'GET' && path.includes('.db.zst') ? 'corrupt' : null;
    };
    const failing = writer({ backups: { targets: [s3()] } }).make(never);
    await expect(failing).rejects.toMatchObject({ code: 'backup_damaged' });
    fault = () => null;
    expect(await listBackups(await opened(s3())), 'no manifest, no backup').toEqual([]);
    expect(await (await opened(s3())).list()).toHaveLength(1);
  });

  it('is kept where retention may not remove it, which is told; with keepAll nothing is tried', async () => {
    const { with: writer, sync } = await setting();
    fault = ({ method }) => (method === 'DELETE' ? { status: 403, code: 'AccessDenied' } : null);
    const limited = writer({ backups: { targets: [s3({ retention: { last: 1 } })] } });
    await limited.make(never);
    await sync();
    const second = await limited.make(never);
    expect(second.errors).toEqual([expect.objectContaining({ code: 'rejected' })]);
    seen = [];
    const third = await writer({ backups: { targets: [s3()] } }).make(never);
    expect(third.errors).toEqual([]);
    expect(seen.filter(({ method }) => method === 'DELETE')).toEqual([]);
    fault = () => null;
    expect(await listBackups(await opened(s3()))).toHaveLength(3);
    const removing = await writer({ backups: { targets: [s3({ retention: { last: 1 } })] } }).make(never);
    expect(removing.targets[0]?.removed).toHaveLength(3);
    expect(await listBackups(await opened(s3()))).toHaveLength(1);
  });

  it('is due again for the target that could not take it, and for no other', async () => {
    const { with: writer, mirror, directory } = await setting();
    const targets: TargetConfig[] = [s3(), { type: 'directory', path: directory, retention: null }];
    const both = writer({ backups: { targets } });
    fault = () => ({ status: 403, code: 'AccessDenied' });
    await both.afterCompleteRun(mirror, [1], never);
    expect(readdirSync(directory)).toHaveLength(2);
    fault = () => null;
    const again = await both.afterCompleteRun(mirror, [1], never);
    expect(again?.made?.targets.map(({ address }) => address)).toEqual([`s3://backups/p${prefixes}`]);
    expect(readdirSync(directory)).toHaveLength(2);
    expect(await both.afterCompleteRun(mirror, [1], never)).toBeNull();
  });

  it('killed at any time leaves no half that is listed', async () => {
    const { with: writer, home } = await setting();
    for (let kill = 0; kill < 5; kill += 1) {
      let pid: number | undefined;
      let requests = 0;
      fault = ({ path }) => {
        requests += 1;
        // The first two requests list; each later one may be the last.
        if (path.includes(`p${prefixes}`) && requests > kill && pid !== undefined)
          process.kill(pid, 'SIGKILL');
        return null;
      };
      const making = writer({
        backups: { targets: [s3()] },
        env: { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test', PATH: process.env['PATH'] ?? '' },
        onStart: (started) => (pid = started),
      }).make(never);
      await expect(making).rejects.toMatchObject({ code: 'internal' });
      fault = () => null;
      for (const backup of await listBackups(await opened(s3()))) {
        const work = temporaryDirectory();
        const options = { identities: [], clock: systemClock, signal: never };
        await verifyBackup(backup, work, options);
      }
      expect(existsSync(join(home, 'mirror.db-backups-work'))).toBe(false);
    }
  });
});

async function readAll(path: string): Promise<Buffer> {
  const { readFile } = await import('node:fs/promises');
  return await readFile(path);
}

it('goes through the proxy of the environment, and past it to the hosts of NO_PROXY', async () => {
  const { with: writer } = await setting();
  const tunnel = await ConnectProxy.start(server.port);
  const place = parseS3Address(`s3://backups/p${prefixes}?endpoint=http://store.example`)!;
  const proxies = { ...NO_PROXIES, http: tunnel.url('user:pw') };
  const config: S3TargetConfig = { ...place, objectLock: null, retention: null, proxies };
  const made = await writer({ backups: { targets: [config] } }).make(never);
  expect(made.errors).toEqual([]);
  expect((await listBackups(await opened(config))).map(({ state }) => state)).toEqual(['whole']);
  expect(tunnel.asked.length).toBeGreaterThan(3);
  expect(new Set(tunnel.asked.map(({ headers }) => headers.host))).toEqual(new Set(['store.example']));
  const basic = `Basic ${Buffer.from('user:pw').toString('base64')}`;
  expect(new Set(tunnel.asked.map(({ authorization }) => authorization))).toEqual(new Set([basic]));

  const asked = tunnel.asked.length;
  const past = { ...config, proxies: { ...proxies, exceptions: ['store.example'] } };
  await expect(opened(past).then(listBackups)).rejects.toMatchObject({ code: 'unreachable' });
  expect(tunnel.asked).toHaveLength(asked);
});
