/**
 * A PostgreSQL server of the tests' own, from the system's package: in a temporary directory, on a free port of the loopback
 * and with a password, and a database for each test. Its cluster is made once for the run. Where PostgreSQL is not installed, `POSTGRES` is null and tests skip.
 */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, inject, onTestFinished } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { Registry } from '../../src/fleet/registry/registry.ts';

const PASSWORD = 'Loopback-4711';

/** The directory of the newest installed version's programs; null where there is none. */
export const POSTGRES =
  globSync('/usr/lib/postgresql/*/bin')
    .filter((directory) => existsSync(join(directory, 'initdb')))
    .sort((a, b) => Number(/\d+/.exec(b)) - Number(/\d+/.exec(a)))[0] ?? null;

/** Nothing needs to outlive the tests, and whatever starts processes by itself, in each of many databases, costs more than they do. */
const SETTINGS = [
  'listen_addresses=127.0.0.1',
  'fsync=off',
  'full_page_writes=off',
  'autovacuum=off',
  'jit=off',
  'shared_buffers=16MB',
  'wal_level=minimal',
  'max_wal_senders=0',
];

/** For the name of a group of tests. */
export const WITHOUT_POSTGRES = POSTGRES === null ? ' (left out: PostgreSQL is not installed)' : '';

/** The account that the server runs as, since it refuses root; undefined for one's own. */
function account(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const id = (flag: string): number =>
    Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout.trim() || 65_534);
  return { uid: id('-u'), gid: id('-g') };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

type Account = ReturnType<typeof account>;

/** Copied where another file of the run has made one: that takes a fifth of the time. */
function makeCluster(directory: string, data: string, user: Account): void {
  const made = join(inject('shared'), 'postgres');
  if (!existsSync(made)) {
    initialize(directory, data, user);
    const copy = mkdtempSync(`${made}-`);
    copyAll(data, join(copy, 'data'));
    try {
      renameSync(join(copy, 'data'), made);
    } catch (error) {
      // Another file made one meanwhile.
      if (!existsSync(made)) throw error;
    }
  } else copyAll(made, data);
}

/** With owners and modes. */
function copyAll(from: string, to: string): void {
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`cp failed: ${stderr}`);
}

function initialize(directory: string, data: string, user: Account): void {
  const password = join(directory, 'password');
  writeFileSync(password, PASSWORD);
  if (user !== undefined) chownSync(password, user.uid, user.gid);
  const { status, stderr } = spawnSync(
    join(POSTGRES ?? '', 'initdb'),
    [
      ...['-D', data, '-U', 'root', `--pwfile=${password}`, '-A', 'scram-sha-256'],
      ...['-E', 'UTF8', '--locale=C', '-N'],
    ],
    { ...user, cwd: directory, encoding: 'utf8', env: { PATH: process.env['PATH'], TZ: 'UTC' } },
  );
  if (status !== 0) throw new Error(`initdb failed: ${stderr}`);
}

export class PostgresServer {
  readonly port: number;
  readonly directory: string;
  #child: ChildProcess | null = null;
  #databases = 0;
  #migrated: Promise<Secret> | null = null;
  /** By address, kept until the next database is made: a new connection costs more than most of what is asked. */
  readonly #clients = new Map<string, Promise<pg.Client>>();

  private constructor(port: number, directory: string) {
    this.port = port;
    this.directory = directory;
  }

  /** Makes a cluster and starts it; it is stopped and removed after the file's tests. */
  static async start(options: readonly string[] = []): Promise<PostgresServer> {
    if (POSTGRES === null) throw new Error('PostgreSQL is not installed');
    const directory = mkdtempSync(join(tmpdir(), 'pg-'));
    chmodSync(directory, 0o700);
    const user = account();
    if (user !== undefined) chownSync(directory, user.uid, user.gid);
    makeCluster(directory, join(directory, 'data'), user);
    const server = new PostgresServer(await freePort(), directory);
    afterAll(async () => {
      await server.stop();
      rmSync(directory, { recursive: true, force: true });
    });
    await server.resume(options);
    return server;
  }

  /** Starts the server of this cluster, and waits until it answers. */
  async resume(options: readonly string[] = []): Promise<void> {
    const all = [
      ...['-D', join(this.directory, 'data'), '-p', String(this.port), '-k', this.directory],
      ...SETTINGS.flatMap((option) => ['-c', option]),
      ...options.flatMap((option) => ['-c', option]),
    ];
    const child = spawn(join(POSTGRES ?? '', 'postgres'), all, {
      ...account(),
      cwd: this.directory,
      env: { PATH: process.env['PATH'], TZ: 'UTC' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
    this.#child = child;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`PostgreSQL ended: ${log}`);
      const client = new pg.Client({ connectionString: this.url('postgres').reveal() });
      try {
        await client.connect();
        await client.end();
        return;
      } catch {
        // It is still starting.
        await sleep(50);
      }
    }
  }

  /** As a machine that goes away: open connections end at once. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGQUIT');
    await ended;
    this.#child = null;
    this.#clients.clear();
  }

  url(database: string, user = 'root', password = PASSWORD): Secret {
    return new Secret(`postgresql://${user}:${password}@127.0.0.1:${this.port}/${database}`);
  }

  /** A new database: empty, or a copy of one that nobody is connected to. */
  async database(template?: Secret): Promise<Secret> {
    this.#databases += 1;
    const name = `fleet${this.#databases}`;
    // Since version 15 the other way, block by block through the log, is the usual one.
    const copying = Number(/\/(\d+)\/bin$/.exec(POSTGRES ?? '')?.[1]) >= 15 ? ' STRATEGY file_copy' : '';
    const from =
      template === undefined ? '' : ` TEMPLATE ${new URL(template.reveal()).pathname.slice(1)}${copying}`;
    await this.#disconnect();
    await this.execute('postgres', `CREATE DATABASE ${name}${from}`);
    return this.url(name);
  }

  async execute(database: string | Secret, statement: string): Promise<Record<string, unknown>[]> {
    const url = (typeof database === 'string' ? this.url(database) : database).reveal();
    let client = this.#clients.get(url);
    if (client === undefined) {
      client = this.#connect(url);
      this.#clients.set(url, client);
    }
    const connected = await client;
    try {
      return (await connected.query<Record<string, unknown>>(statement)).rows;
    } catch (error) {
      // It may be in a transaction that failed.
      this.#clients.delete(url);
      await connected.end();
      throw error;
    }
  }

  async #connect(url: string): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: url });
    const forget = (): void => void this.#clients.delete(url);
    client.on('error', forget);
    await client.connect().catch((error: unknown) => {
      forget();
      throw error;
    });
    return client;
  }

  /** Nothing is copied from a database that somebody is connected to. */
  async #disconnect(): Promise<void> {
    const clients = [...this.#clients.values()];
    this.#clients.clear();
    for (const client of clients) await (await client).end();
  }

  /** A registry with its tables in a new database, closed after the test. */
  async registry(): Promise<Registry> {
    return openedRegistry(await this.migrated());
  }

  /** A new database with the tables of a registry: to copy them is faster than to make them. */
  async migrated(): Promise<Secret> {
    this.#migrated ??= this.#migratedDatabase();
    return this.database(await this.#migrated);
  }

  async #migratedDatabase(): Promise<Secret> {
    const url = await this.database();
    const registry = await Registry.open(url, { migrates: true });
    await registry.close();
    return url;
  }
}

/** The registry in this database, closed after the test. */
export async function openedRegistry(url: Secret): Promise<Registry> {
  const registry = await Registry.open(url, { migrates: true });
  onTestFinished(async () => registry.close());
  return registry;
}
