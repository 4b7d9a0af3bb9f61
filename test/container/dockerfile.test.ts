/** The container image, built without an engine and started as its user on a read-only tree (image.ts says how). */
import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FakeService } from '../journeys/service.ts';
import { nodeFlags } from '../tools/node-flags.ts';
import { runContainer, startContainer, startProgram } from './container.ts';
import { parseDockerfile } from './dockerfile.ts';
import { ignoredBy } from './ignore-file.ts';
import { buildImage, isRoot, makeReadOnly, type Image } from './image.ts';

const checkout = resolve(import.meta.dirname, '../..');
const dockerfile = readFileSync(join(checkout, 'Dockerfile'), 'utf8');
const isIgnored = ignoredBy(readFileSync(join(checkout, '.dockerignore'), 'utf8'));

describe('what reaches the builder', () => {
  it.each([
    '.env',
    '.git/config',
    '.npmrc',
    'data/mirror.db',
    'node_modules/undici/index.js',
    'tidemark.yaml',
    'secrets/key',
    'dist/main.js',
    'test/container/image.ts',
  ])('%s stays behind', (path) => {
    expect(isIgnored(path)).toBe(true);
  });

  it.each(['package.json', 'package-lock.json', 'src/main.ts', 'config/profiles/svc.yaml'])(
    '%s goes',
    (path) => {
      expect(isIgnored(path)).toBe(false);
    },
  );
});

describe('the image', () => {
  let scratch: string;
  let image: Image;
  let before: string[];

  /** Every path but those on the volumes, with what would tell that it was written. */
  const tree = (): string[] =>
    readdirSync(image.root, { recursive: true, encoding: 'utf8' })
      .filter((path) => !image.volumes.some((volume) => `/${path}`.startsWith(volume)))
      .map((path) => `${path} ${statSync(join(image.root, path)).mtimeMs}`)
      .sort();

  beforeAll(() => {
    scratch = mkdtempSync(join(tmpdir(), 'tidemark-image-'));
    // The image's user must get as far as the image.
    chmodSync(scratch, 0o755);
    image = buildImage({ dockerfile, context: checkout, isIgnored, scratch });
    makeReadOnly(image);
    before = tree();
  });

  afterAll(() => {
    rmSync(scratch, { recursive: true, force: true });
  });

  it('has a user who is not root, by number', () => {
    expect(image.user.uid).toBeGreaterThan(0);
  });

  it('holds the program, what it reads, and no more', () => {
    expect(readdirSync(image.root).sort()).toEqual(['app', 'data', 'usr']);
    expect(readdirSync(join(image.root, 'app')).sort()).toEqual([
      'LICENSE',
      'config',
      'dist',
      'drizzle',
      'drizzle-fleet',
      'node_modules',
      'package.json',
    ]);
    expect(readdirSync(join(image.root, 'app/node_modules'))).toEqual(['better-sqlite3']);
    const last = parseDockerfile(dockerfile).at(-1)!;
    const installs = last.instructions.filter(({ text }) => /\b(npm|apt-get|curl|wget)\b/.test(text));
    expect(installs).toEqual([]);
  });

  it('says what it is, and ends by the signal that the program handles', () => {
    expect(image.labels).toMatchObject({
      'org.opencontainers.image.title': 'tidemark',
      'org.opencontainers.image.licenses': 'MIT',
      'org.opencontainers.image.version': 'unknown',
      'org.opencontainers.image.revision': 'unknown',
    });
    expect(image.stopSignal).toBe('SIGTERM');
    expect(image.ports).toEqual(['8787']);
    expect(image.entrypoint).toEqual(['node', ...nodeFlags(), '/app/dist/main.js']);
    expect(image.health?.slice(0, 2)).toEqual(['node', '/app/dist/main.js']);
  });

  it('tells its version', async () => {
    const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as {
      version: string;
    };
    expect(await runContainer(image, ['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('tells its catalog', async () => {
    const { code, stdout, stderr } = await runContainer(image, ['catalog', '--json']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({ schema: 'tidemark.catalog/1' });
  });

  it('says what to set when nothing is', async () => {
    const { code, stderr } = await runContainer(image, ['sync']);
    expect(code).toBe(4);
    expect(stderr).toContain('TIDEMARK_BASE_URL');
  });

  it('mirrors a service onto its volume, and writes nowhere else', async () => {
    const service = await largeService();
    const env = { TIDEMARK_BASE_URL: service.url, TIDEMARK_API_KEY: 'key-of-the-image', ...unlimited };
    const synced = await runContainer(image, ['sync', '--json'], { env });
    expect(synced).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(synced.stdout)).toMatchObject({ runs: [{ outcome: 'complete' }] });
    const mirror = statSync(join(image.root, image.volumes[0]!, 'mirror.db'));
    expect(mirror.size).toBeGreaterThan(6e6);
    if (isRoot) expect(mirror.uid).toBe(image.user.uid);

    expect(await runContainer(image, ['verify', '--quiet'], { env })).toMatchObject({ code: 0 });

    // Only what the image's user may write: his backups stand in a directory of his own on the volume.
    const backups = join(image.root, image.volumes[0]!, 'backups');
    mkdirSync(backups, { mode: 0o700 });
    if (isRoot) chownSync(backups, image.user.uid, image.user.gid);
    const identity = await generateIdentity();
    const copied = await runContainer(image, ['backup', 'create', '--json'], {
      env: {
        ...env,
        TIDEMARK_BACKUP_TARGETS: backups,
        TIDEMARK_BACKUP_RECIPIENTS: JSON.stringify([await identityToRecipient(identity)]),
      },
    });
    expect(copied).toMatchObject({ code: 0, stderr: '' });
    expect(JSON.parse(copied.stdout)).toMatchObject({ manifest: { run: 1, encryption: 'age' } });
    expect(readdirSync(backups)).toHaveLength(2);
    expect(tree()).toEqual(before);
  });

  it.runIf(isRoot)('runs as any user of group 0', async () => {
    const service = await FakeService.start();
    const env = {
      TIDEMARK_BASE_URL: service.url,
      TIDEMARK_API_KEY: 'key-of-the-image',
      TIDEMARK_MIRROR: join(image.root, 'data/other.db'),
      ...unlimited,
    };
    const user = { uid: 65_534, gid: 0 };
    const synced = await runContainer(image, ['sync', '--quiet'], { env, user });
    expect(synced).toMatchObject({ code: 0, stderr: '' });
  });

  it('lives as a daemon: its health check follows it, and SIGTERM ends it in order', async () => {
    const service = await FakeService.start();
    const env = {
      TIDEMARK_BASE_URL: service.url,
      TIDEMARK_API_KEY: 'key-of-the-image',
      TIDEMARK_MIRROR: join(image.root, 'data/daemon.db'),
      TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
      ...unlimited,
    };
    const health = () => startProgram(image, image.health ?? [], { env }).ended;
    expect(await health()).toMatchObject({ code: 1, stderr: expect.stringContaining('no daemon') as string });

    const { child, ended } = startContainer(image, image.command, { env });
    // Each look starts a program: the first one once the daemon can answer.
    let log = '';
    child.stderr?.on('data', (text: string) => (log += text));
    const deadline = Date.now() + 120_000;
    const isWaiting = (): boolean => child.exitCode === null && Date.now() < deadline;
    while (!log.includes('the daemon listens') && isWaiting()) await delay(50);
    let last = await health();
    while (last.code !== 0 && isWaiting()) last = await health();
    expect(last, last.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^(ok|degraded|starting)/) as string,
    });
    child.kill('SIGTERM');
    const { code, stderr } = await ended;
    expect(code, stderr).toBe(0);
    for (const line of stderr.trimEnd().split('\n')) expect(JSON.parse(line)).toMatchObject({ level: 30 });
    expect(stderr).not.toContain('key-of-the-image');
    expect(await health()).toMatchObject({ code: 1 });
    expect(tree()).toEqual(before);
  });

  it('ends on SIGTERM', async () => {
    const { child, ended } = startContainer(image, ['sandbox', '--port', '0', '--json']);
    await new Promise((resolve) => child.stdout!.once('data', resolve));
    child.kill('SIGTERM');
    expect((await ended).code).not.toBeNull();
  });
});

const unlimited = { TIDEMARK_RATE_PER_MINUTE: '0', TIDEMARK_RATE_PER_HOUR: '0', TIDEMARK_PAGE_SIZE: '1000' };

/** More than what a run writes into the mirror's file by itself: the rest is a worker thread's, a file of its own. */
async function largeService(): Promise<FakeService> {
  const service = await FakeService.start();
  const config = 'x'.repeat(2000);
  service.set(
    'plugins',
    Array.from({ length: 4000 }, (_unused, index) => ({ id: index + 1, name: `Plugin ${index}`, config })),
  );
  return service;
}
