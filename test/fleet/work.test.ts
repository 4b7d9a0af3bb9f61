/**
 * A fleet: workers that die, freeze and leave, and people who take a cell. Workers that die or freeze are processes of their own,
 * with processes of their own for cells. PostgreSQL is the system's; what the workers talk to is on loopback.
 */
import { type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { startFauxqs } from 'fauxqs';
import pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Secret } from '../../src/core/secret.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { BOSS_SCHEMA, GroupQueue } from '../../src/fleet/queue.ts';
import { openConnections } from '../../src/fleet/registry/connection.ts';
import { migrate, shippedMigrations } from '../../src/fleet/registry/migrations.ts';
import { Registry } from '../../src/fleet/registry/registry.ts';
import { childOf, childrenOf, scratch, start, startHere, tidemark } from '../journeys/harness.ts';
import { FakeService } from '../journeys/service.ts';
import { KIND } from './cell-fixture.ts';
import { POSTGRES, PostgresServer, WITHOUT_POSTGRES } from './postgres.ts';

const KEY = 'the-key-of-a-cell';
/** The least that there is: what a takeover waits for. */
const HEARTBEAT_MS = 10_000;

let server: PostgresServer;
/** A database with the tables of registry and queue: to copy it is faster than to make them. */
let template: Secret;

interface Cells {
  readonly url: Secret;
  readonly service: FakeService;
  readonly directory: string;
  readonly config: string;
  readonly ask: (statement: string) => Promise<Record<string, unknown>[]>;
  /** Begins a worker in this process, which works on its cells here too unless they are to have a process of their own. */
  readonly worker: (name: string, options?: WorkerOptions) => Worker;
  /** Begins one as a process of its own. */
  readonly workerProcess: (name: string, env?: Record<string, string>) => WorkerProcess;
  /** Runs a command of the fleet to its end. */
  readonly fleet: (...args: string[]) => Promise<{ code: number | null; stdout: string; stderr: string }>;
  readonly until: (statement: string) => Promise<void>;
  readonly due: () => Promise<unknown>;
  /** Moves what PostgreSQL has heard of workers into the past, by more than the heartbeat. */
  readonly passHeartbeat: () => Promise<unknown>;
}

interface WorkerOptions {
  readonly env?: Record<string, string>;
  readonly isOneProcess?: boolean;
}

interface Told {
  readonly ended: Promise<{ code: number | null; stderr: string }>;
  /** Waits until its log has that. */
  readonly says: (text: string) => Promise<void>;
}

interface Worker extends Told {
  /** Asks it to leave, as SIGTERM does. */
  readonly stop: () => Told['ended'];
}

interface WorkerProcess extends Told {
  readonly child: ChildProcess;
}

/** With seconds first: a sync is due whenever the cell is. */
const EVERY_SECOND = '* * * * * *';

/** One cell, or more of one key, which are due at first, and after each run when the test says so. */
const cells = (...names: string[]): Promise<Cells> => cellsWith({ isHeld: true }, ...names);

/** As soon as it has a run, a cell is due in an hour. */
const HOLD = `CREATE FUNCTION tidemark.hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.last_run IS DISTINCT FROM OLD.last_run THEN NEW.due_at := now() + interval '1 hour'; END IF; RETURN NEW; END $$;
  CREATE TRIGGER hold BEFORE UPDATE ON tidemark.cells FOR EACH ROW EXECUTE FUNCTION tidemark.hold()`;

async function cellsWith(
  {
    rate = { perMinute: 0, perHour: 0 },
    stopTimeout = '20s',
    isHeld = false,
  }: { rate?: object; stopTimeout?: string; isHeld?: boolean },
  ...names: string[]
): Promise<Cells> {
  const url = await server.database(template);
  const service = await FakeService.start();
  service.set(KIND, [{ id: 'r1', name: 'First' }]);
  const directory = scratch();
  mkdirSync(join(directory, 'storage'));
  const config = join(directory, 'fleet.yaml');
  const fleet = {
    database: '${DATABASE_URL}',
    storage: join(directory, 'storage'),
    cache: join(directory, 'cache'),
    heartbeat: `${HEARTBEAT_MS / 1000}s`,
    stopTimeout,
    slots: 1,
  };
  writeFileSync(config, JSON.stringify({ fleet }));
  const off = Object.fromEntries(
    ['drift', 'verify', 'forget', 'drill'].map((name) => [name, { cron: 'off' }]),
  );
  const document = { source: { rate }, schedules: off };
  const ask = asker(url);
  if (isHeld) await ask(HOLD);
  for (const name of names)
    await ask(
      `WITH g AS (INSERT INTO tidemark.groups (origin, secret) VALUES ('${service.url}', 'env:CELL_KEY')
         ON CONFLICT (origin, secret) DO UPDATE SET secret = excluded.secret RETURNING id)
       INSERT INTO tidemark.cells (name, group_id, address, profile, secret, schedule, document)
         SELECT '${name}', id, '${service.url}', 'svc', 'env:CELL_KEY', '${EVERY_SECOND}', '${JSON.stringify(document)}' FROM g`,
    );
  const env = { DATABASE_URL: url.reveal(), CELL_KEY: KEY };
  const command = (name: string): string[] => ['fleet', 'work', '--name', name, '--config', config];
  return {
    url,
    service,
    directory,
    config,
    ask,
    worker: (name, { env: more = {}, isOneProcess = true } = {}) => {
      const { ended, stop, stderr } = startHere(command(name), { env: { ...env, ...more }, isOneProcess });
      return {
        ended,
        stop: () => {
          stop();
          return ended;
        },
        says: saidBy(stderr, ended),
      };
    },
    workerProcess: (name, more = {}) => {
      const { child, ended } = start(command(name), { env: { ...env, ...more } });
      onTestFinished(async () => {
        child.kill('SIGCONT');
        if (child.exitCode === null && child.signalCode === null) {
          child.kill('SIGKILL');
          await once(child, 'exit');
        }
      });
      let log = '';
      child.stderr?.on('data', (text: string) => (log += text));
      return { child, ended, says: saidBy(() => log, ended) };
    },
    fleet: (...args) => tidemark(['fleet', ...args, '--config', config], { env, cwd: directory }),
    until: async (statement) => {
      while ((await ask(statement)).length === 0) await delay(100);
    },
    due: () => ask(`UPDATE tidemark.cells SET due_at = now() - interval '1 second'`),
    passHeartbeat: () =>
      ask(
        ['tidemark.workers|seen_at', 'tidemark.groups|held_at', 'tidemark_queue.job|heartbeat_on']
          .map((each) => each.split('|'))
          .map(
            ([table, column]) => `UPDATE ${table} SET ${column} = ${column} - interval '${HEARTBEAT_MS} ms'`,
          )
          .join(';'),
      ),
  };
}

function saidBy(log: () => string, ended: Promise<unknown>): Told['says'] {
  let isOver = false;
  void ended.then(() => (isOver = true));
  return async (text) => {
    while (!log().includes(text)) {
      if (isOver) throw new Error(`it ended without ${text}: ${log()}`);
      await delay(20);
    }
  };
}

/** Asks over one connection, for as long as that lasts: a new one costs more than what is asked. */
function asker(url: Secret): Cells['ask'] {
  let connected: Promise<pg.Client> | null = null;
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: url.reveal() });
    client.on('error', () => (connected = null));
    await client.connect();
    return client;
  };
  onTestFinished(async () => (await connected)?.end());
  return async (statement) => {
    connected ??= connect();
    return (await (await connected).query<Record<string, unknown>>(statement)).rows;
  };
}

/** Keeps the answers to all requests from now on, until `end`. */
function stall(service: FakeService): {
  readonly begun: () => Promise<void>;
  readonly end: () => ServerResponse[];
} {
  const stalled: ServerResponse[] = [];
  service.quirks.push((_request, response) => stalled.push(response) > 0);
  return {
    begun: async () => {
      while (stalled.length === 0) await delay(20);
    },
    end: () => {
      service.quirks.length = 0;
      return stalled;
    },
  };
}

const RUN = (run: number): string => `SELECT FROM tidemark.runs WHERE run = ${run} AND outcome = 'complete'`;

describe.skipIf(POSTGRES === null)(`workers of a fleet${WITHOUT_POSTGRES}`, { timeout: 180_000 }, () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
    template = await server.database();
    const registry = await Registry.open(template, { migrates: true });
    const queue = await GroupQueue.open({
      registry,
      database: template,
      heartbeatSeconds: HEARTBEAT_MS / 1000,
      log: silentLogger,
    });
    const [own] = await server.execute(template, 'SELECT version FROM tidemark_queue.version');
    expect(own).toEqual({ version: BOSS_SCHEMA.version });
    await queue.close();
    await registry.close();
  });

  it('work on what is due, publish it, and leave when asked to, with the key nowhere, and no mirror of a retired cell that storage has', async () => {
    const { worker, workerProcess, until, ask, fleet, directory, url } = await cells('acme', 'globex');
    const first = workerProcess('w1');
    await until(`SELECT FROM tidemark.runs HAVING count(*) = 2`);
    expect(
      await ask(
        'SELECT name, root IS NOT NULL AS root, stored_run, record_count::int FROM tidemark.cells ORDER BY 1',
      ),
    ).toEqual([
      { name: 'acme', root: true, stored_run: 1, record_count: 3 },
      { name: 'globex', root: true, stored_run: 1, record_count: 3 },
    ]);
    first.child.kill('SIGTERM');
    const { code, stderr } = await first.ended;
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('worker stopped');
    expect(await ask('SELECT FROM tidemark.workers')).toEqual([]);
    expect(await ask('SELECT FROM tidemark.groups WHERE holder IS NOT NULL')).toEqual([]);

    const cached = (): string[] =>
      readdirSync(join(directory, 'cache'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.db'))
        .map((name) => basename(name))
        .toSorted();
    expect(cached()).toEqual(['acme.db', 'globex.db']);
    await ask(
      `UPDATE tidemark.cells SET state = 'retired', due_at = NULL, stored_run = 0 WHERE name = 'acme'`,
    );
    const second = worker('w1');
    await second.says('worker started');
    // The cache is looked at first.
    await delay(1_000);
    expect(cached()).toEqual(['acme.db', 'globex.db']);
    expect((await fleet('drain', 'w1')).code).toBe(0);
    expect((await second.ended).code).toBe(0);
    await ask(`UPDATE tidemark.cells SET stored_run = last_run WHERE name = 'acme'`);
    const third = worker('w1');
    await third.says('left the cache');
    expect(cached()).toEqual(['globex.db']);
    expect((await third.stop()).code).toBe(0);

    // Nowhere: not in files, in logs, or in the database.
    for (const each of readdirSync(directory, { recursive: true, withFileTypes: true }))
      if (each.isFile())
        expect(readFileSync(join(each.parentPath, each.name)).includes(KEY), each.name).toBe(false);
    expect(stderr).not.toContain(KEY);
    const tables = await ask(
      `SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname LIKE 'tidemark%'`,
    );
    for (const { name } of tables)
      expect(
        await server.execute(url, `SELECT FROM ${String(name)} t WHERE t::text LIKE '%${KEY}%'`),
      ).toEqual([]);
  });

  // What these wait for passes in real time, once for both: each has a world of its own.

  const frozen = async (): Promise<void> => {
    const { worker, workerProcess, until, service, ask, due } = await cells('acme');
    const first = workerProcess('w1');
    await until(RUN(1));
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    const stalled = stall(service);
    await due();
    await stalled.begun();
    // The worker alone: its process for cells goes on, without a lease. The heartbeat passes in real time, as the lease does.
    const reader = childOf(first.child.pid);
    first.child.kill('SIGSTOP');
    const unanswered = stalled.end();
    worker('w2');
    await until(RUN(2));
    const [{ fence }] = (await ask('SELECT fence::int AS fence FROM tidemark.groups')) as [{ fence: number }];
    const asked = service.seen.length;
    // What it asked for is answered now, and it would ask for more.
    for (const response of unanswered)
      response.writeHead(200).end('{"count":0,"next":null,"previous":null,"results":[]}');
    // It ends before it would.
    while (!readFileSync(`/proc/${reader}/stat`, 'utf8').includes(') Z ')) await delay(20);
    expect(service.seen.length, 'no request without a lease').toBe(asked);
    first.child.kill('SIGCONT');
    await first.says('acme was cut short');
    expect(
      await ask(
        'SELECT run, worker, fence::int AS fence FROM tidemark.runs WHERE root IS NOT NULL ORDER BY run DESC LIMIT 1',
      ),
    ).toEqual([{ run: 2, worker: 'w2', fence }]);
    // Both go on, and the chain with them.
    await due();
    await until(RUN(3));
    expect(await ask(`SELECT FROM tidemark.cells WHERE state <> 'active'`)).toEqual([]);
  };

  const withoutStorage = async (): Promise<void> => {
    const { worker, until, due, directory } = await cells('acme', 'globex', 'initech');
    rmSync(join(directory, 'storage'), { recursive: true });
    const only = worker('w1');
    await until(`SELECT FROM tidemark.cells WHERE error_code = 'file_system' HAVING count(*) = 3`);
    mkdirSync(join(directory, 'storage'));
    await until(`SELECT FROM tidemark.cells WHERE stored_run = 1 HAVING count(*) = 3`);
    // With the mirrors in its cache it continues without a storage, which is another line.
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    rmSync(join(directory, 'storage'), { recursive: true });
    await due();
    await until(`SELECT FROM tidemark.runs HAVING count(*) = 6`);
    mkdirSync(join(directory, 'storage'));
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    await due();
    await until(`SELECT FROM tidemark.cells WHERE stored_run = 3 HAVING count(*) = 3`);
    const lines = (await only.stop()).stderr.split('\n');
    for (const text of [
      'storage does not exist: left to other workers',
      '"mirrors are stored again"',
      'backup_behind: ',
      'backup_behind is over',
    ])
      expect(
        lines.filter((line) => line.includes(text)),
        text,
      ).toHaveLength(1);
  };

  it('take over from one that is frozen, which then publishes and sends nothing, and others say once that storage is missing, whatever the number of cells, and go on when it is there', async () => {
    await Promise.all([frozen(), withoutStorage()]);
  });

  const ofOneName = async (): Promise<void> => {
    const { worker, workerProcess, until, ask, config, passHeartbeat } = await cells();
    const first = workerProcess('w1');
    await first.says('worker started');
    const [before] = await ask('SELECT started_at::text AS at FROM tidemark.workers');
    const beside = await worker('w1').ended;
    expect(beside.code, beside.stderr).toBe(1);
    expect(beside.stderr).toContain('a worker with the name w1 runs on this machine already');
    // A cache of its own, as on another machine: only the registry knows of both.
    const settings = readFileSync(config, 'utf8');
    writeFileSync(config, settings.replace('/cache"', '/other-cache"'));
    const second = worker('w1');
    const { code, stderr } = await second.ended;
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('a worker with the name w1 runs on');
    expect(stderr).toContain('--name');
    expect(await ask('SELECT name FROM tidemark.workers')).toEqual([{ name: 'w1' }]);
    first.child.kill('SIGKILL');
    await first.ended;
    writeFileSync(config, settings);
    const third = worker('w1');
    await third.says('waiting whether it is there still');
    await passHeartbeat();
    await until(`SELECT FROM tidemark.workers WHERE started_at::text <> '${String(before?.['at'])}'`);
    expect((await third.stop()).code).toBe(0);
  };

  const quarantined = async (): Promise<void> => {
    const { worker, until, ask, due, service, fleet } = await cellsWith({}, 'acme');
    service.quirks.push((_request, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail":"no"}');
      return true;
    });
    await ask('UPDATE tidemark.cells SET failures = 3');
    const only = worker('w1');
    const facts = `SELECT failures, round(extract(epoch FROM due_at - now()) / 60)::int AS minutes FROM tidemark.cells`;
    for (const failures of [5, 6]) {
      await until(
        `SELECT FROM tidemark.cells c JOIN tidemark.groups g ON g.id = group_id WHERE state = 'quarantined' AND failures = ${failures} AND holder IS NULL`,
      );
      expect(await ask(facts)).toEqual([{ failures, minutes: 60 }]);
      // The worker looks for what is due once more.
      if (failures === 5) await delay(3_000);
      expect(await ask(facts)).toEqual([{ failures, minutes: 60 }]);
      await due();
    }
    const status = await fleet('status', '--failing');
    expect(status.code).toBe(1);
    expect(status.stdout).toContain('quarantined');
    service.quirks.length = 0;
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    await due();
    await until(`SELECT FROM tidemark.cells WHERE state = 'active' AND failures = 0`);
    const lines = (await only.stop()).stderr.split('\n');
    expect(lines.filter((line) => line.includes('is quarantined, and tried once an hour'))).toHaveLength(1);
    expect(lines.filter((line) => line.includes('is quarantined no longer'))).toHaveLength(1);
  };

  it('of one name refuse the second, and take over the name of one that was killed, and others quarantine a cell that fails five times, tell it once, and release it when it works', async () => {
    await Promise.all([ofOneName(), quarantined()]);
  });

  const cutShort = async (): Promise<void> => {
    const rate = { perMinute: 1000, perHour: 10_000 };
    const { worker, until, service, ask } = await cellsWith(
      { rate, stopTimeout: '1s', isHeld: true },
      'acme',
    );
    const stalled: ServerResponse[] = [];
    service.quirks.push((_request, response) => service.seen.length > 3 && stalled.push(response) > 0);
    const first = worker('w1');
    while (stalled.length === 0) await delay(20);
    const sent = service.seen.length;
    const { code, stderr } = await first.stop();
    expect(code, stderr).toBe(0);
    expect(stderr.split('\n').filter((line) => line.includes('cut short'))).toEqual([
      expect.stringContaining(
        'cut short, since 1 cell did not end within 1.0 s: acme; another worker does the work again',
      ),
    ]);
    const count = `SELECT max(jsonb_array_length(value))::int AS n FROM tidemark.groups, jsonb_each(rate_log->'ages')`;
    const [{ n }] = (await ask(count)) as [{ n: number }];
    expect(n).toBeGreaterThanOrEqual(sent);

    // The same where its process is killed, and so says nothing.
    service.quirks.length = 0;
    await ask(`UPDATE tidemark.groups SET rate_log = NULL`);
    const again = stall(service);
    const before = service.seen.length;
    const others = childrenOf(process.pid);
    worker('w2', { isOneProcess: false });
    await again.begun();
    process.kill(childOf(process.pid, others), 'SIGKILL');
    await until(`SELECT FROM tidemark.cells WHERE failures = 1 AND error LIKE '%was ended by SIGKILL'`);
    const [after] = (await ask(count)) as [{ n: number }];
    expect(after.n).toBeGreaterThanOrEqual(service.seen.length - before);
  };

  const drained = async (): Promise<void> => {
    const { worker, until, service, ask, fleet } = await cellsWith(
      { stopTimeout: '1s', isHeld: true },
      'acme',
      'globex',
    );
    const stalled = stall(service);
    const first = worker('w1');
    await stalled.begun();
    expect(await fleet('drain', 'w1')).toMatchObject({
      code: 0,
      stdout: 'worker w1 ends the cells under way, then leaves\n',
    });
    await first.says('stopping: 1 cell may end, for 6 h at most');
    await delay(2_000);
    expect(await Promise.race([first.ended, Promise.resolve('at work')])).toBe('at work');
    // The request is repeated, and answered.
    for (const response of stalled.end()) response.destroy();
    const { code, stderr } = await first.ended;
    expect(code, stderr).toBe(0);
    expect(stderr).not.toContain('cut short');
    expect(await ask('SELECT outcome FROM tidemark.runs')).toEqual([{ outcome: 'complete' }]);
    expect(await ask('SELECT FROM tidemark.groups WHERE holder IS NOT NULL')).toEqual([]);

    const once = stall(service);
    const second = worker('w2');
    await once.begun();
    await fleet('drain', 'w2');
    await second.says('asked to leave');
    const hurried = await second.stop();
    expect(hurried.code, hurried.stderr).toBe(0);
    expect(hurried.stderr).toContain('cut short, since 1 cell did not end within 1.0 s: globex');
    once.end();
    worker('w3');
    await until(`SELECT FROM tidemark.runs WHERE worker = 'w3' AND outcome = 'complete'`);
  };

  it('leave in order at SIGHUP, and say so', async () => {
    const { ask, until, workerProcess } = await cells();
    const { child, ended } = workerProcess('w1');
    await until('SELECT FROM tidemark.workers');
    child.kill('SIGHUP');
    const { code, stderr } = await ended;
    expect(code, stderr).toBe(0);
    expect(stderr).toMatch(/SIGHUP received: the worker stops[^]*worker stopped/);
    expect(await ask('SELECT FROM tidemark.workers')).toEqual([]);
  });

  it('tell the next holder of requests whose run was cut short, and others let what is under way end when they are drained, whatever it takes, and cut it short at SIGTERM', async () => {
    await Promise.all([cutShort(), drained()]);
  });

  const killed = async (): Promise<void> => {
    const { worker, workerProcess, until, service, ask, due, passHeartbeat } = await cells('acme');
    const first = workerProcess('w1');
    await until(RUN(1));
    // It dies while it reads: its process with it.
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    const stalled = stall(service);
    await due();
    await stalled.begun();
    first.child.kill('SIGKILL');
    await first.ended;
    stalled.end();
    service.set(KIND, [{ id: 'r1', name: 'Changed' }]);
    expect(await ask(`SELECT FROM tidemark.groups WHERE holder = 'w1'`)).toHaveLength(1);
    await passHeartbeat();
    worker('w2');
    await until(RUN(2));
    expect(
      await ask('SELECT run, worker, changed FROM tidemark.runs WHERE root IS NOT NULL ORDER BY run'),
    ).toEqual([
      { run: 1, worker: 'w1', changed: 0 },
      { run: 2, worker: 'w2', changed: 1 },
    ]);
  };

  const refusedByStorage = async (): Promise<void> => {
    const { worker, until, directory, config } = await cells('acme');
    const settings = readFileSync(config, 'utf8');
    // The client of S3 takes its credentials from the process.
    vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
    vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
    onTestFinished(() => void vi.unstubAllEnvs());
    const storage = await startFauxqs({ port: 0, logger: false });
    onTestFinished(() => storage.stop());
    const at = (port: number): Worker => {
      const address = `s3://no-such-bucket?endpoint=http://127.0.0.1:${port}`;
      writeFileSync(config, settings.replace(join(directory, 'storage'), address));
      return worker('w1');
    };
    const refused = at(storage.port);
    const { code, stderr } = await refused.ended;
    expect(code, stderr).toBe(1);
    expect(stderr).toContain('fleet.storage: s3://no-such-bucket');
    expect(stderr).toContain('there is no such bucket');
    const waiting = at(1);
    await until(`SELECT FROM tidemark.workers WHERE name = 'w1'`);
    expect((await waiting.stop()).code).toBe(0);
  };

  it('take over from one that was killed, which loses no run and doubles none, and others refuse at their start a storage whose bucket does not exist, and wait for one that does not answer', async () => {
    await Promise.all([killed(), refusedByStorage()]);
  });

  const ofAnotherClock = async (): Promise<void> => {
    const { worker, workerProcess, until, ask, directory } = await cellsWith({}, 'acme');
    const shift = join(directory, 'shift.mjs');
    writeFileSync(
      shift,
      `const off = 3 * 3_600_000, real = Date.now, RealDate = Date;
globalThis.Date = class extends RealDate { constructor(...args) { super(...(args.length === 0 ? [real() + off] : args)); } };
globalThis.Date.now = () => real() + off;\n`,
    );
    const fast = workerProcess('w1', { NODE_OPTIONS: `--import=${shift}` });
    await until(RUN(1));
    const beyond = `SELECT FROM tidemark.runs WHERE abs(extract(epoch FROM finished_at - published_at)) > 30`;
    const ages = `SELECT FROM tidemark.groups, jsonb_each(rate_log->'ages'), jsonb_array_elements(value) age WHERE age::text::float NOT BETWEEN 0 AND 60000`;
    const far = `SELECT FROM tidemark.cells WHERE abs(extract(epoch FROM due_at - now())) > 180`;
    for (const none of [beyond, ages, far]) expect(await ask(none), none).toEqual([]);
    // One whose clock is right goes on from there, and back.
    fast.child.kill('SIGTERM');
    const { stderr } = await fast.ended;
    expect(
      stderr.split('\n').filter((line) => line.includes("clock is 3 h ahead of PostgreSQL's, which counts")),
    ).toHaveLength(1);
    worker('w2');
    await until(`SELECT FROM tidemark.runs WHERE worker = 'w2' HAVING count(*) > 1`);
    for (const none of [beyond, ages, far]) expect(await ask(none), none).toEqual([]);
  };

  const ofTwoVersions = async (): Promise<void> => {
    const { url, worker, until, ask } = await cellsWith({}, 'acme');
    // What the next version may do: add to the registry's tables, and bring a queue with one more migration.
    const connections = openConnections(url, 1);
    const next = { hash: 'next', sql: ['ALTER TABLE tidemark.cells ADD COLUMN note text'] };
    const all = [...shippedMigrations(), next];
    const first = worker('w1');
    await until(RUN(1));
    await migrate(connections, all);
    const queue = BOSS_SCHEMA.version;
    await ask(
      `UPDATE tidemark_queue.version SET version = ${queue + 1}; INSERT INTO tidemark.queue_versions VALUES (${queue + 1}, ${queue})`,
    );
    const [{ run }] = (await ask('SELECT max(run) AS run FROM tidemark.runs')) as [{ run: number }];
    await until(RUN(run + 2));
    expect((await first.stop()).code).toBe(0);
    const restarted = worker('w2');
    await until(`SELECT FROM tidemark.runs WHERE worker = 'w2'`);
    expect((await restarted.stop()).code).toBe(0);

    // What it may not: then it says which are too old, for the queue and for the tables.
    const update = expect.stringContaining('update Tidemark on this machine') as string;
    await ask(`UPDATE tidemark.queue_versions SET compatible_from = version WHERE version > ${queue}`);
    const refused = await worker('w3').ended;
    expect(refused.code).toBe(1);
    expect(refused.stderr.trim().split('\n')).toEqual([
      expect.stringContaining(
        `was changed by a newer Tidemark (pg-boss schema ${queue + 1}, this one works up to ${queue})`,
      ) as string,
      update,
    ]);
    await ask(`UPDATE tidemark.schema_versions SET compatible_from = version WHERE hash = 'next'`);
    const old = await worker('w3').ended;
    expect(old.code).toBe(1);
    expect(old.stderr.trim().split('\n')).toEqual([
      expect.stringMatching(
        /^tidemark: the registry \S+ was changed by a newer Tidemark \(schema \d+, this one works up to \d+\)$/,
      ) as string,
      update,
    ]);
    await connections.close();
  };

  it("follow PostgreSQL's clock where their own is off, and say so once, and others of two neighbouring versions work side by side, and one that is too old says so", async () => {
    await Promise.all([ofAnotherClock(), ofTwoVersions()]);
  });

  it('leave a cell to others whose key they do not have, and what is known of the requests of the key as it was', async () => {
    const { worker, until, ask } = await cells('acme');
    const known = '{"ages": {"1": [5000, 4000]}, "paces": {}}';
    await ask(`UPDATE tidemark.groups SET rate_log = '${known}', rate_log_at = now() - interval '1 minute'`);
    const poor = worker('w1', { env: { CELL_KEY: '' } });
    await until(`SELECT FROM tidemark.cells WHERE error_code = 'config_invalid'`);
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL AND fence > 0`);
    expect(
      await ask(`SELECT rate_log, rate_log_at < now() - interval '50 s' AS is_old FROM tidemark.groups`),
    ).toEqual([{ rate_log: JSON.parse(known) as unknown, is_old: true }]);
    worker('w2');
    await until(RUN(1));
    expect(await ask('SELECT worker FROM tidemark.runs')).toEqual([{ worker: 'w2' }]);
    expect(await ask('SELECT failures, error_code FROM tidemark.cells')).toEqual([
      { failures: 0, error_code: null },
    ]);
    const { stderr } = await poor.stop();
    expect(stderr.split('\n').filter((line) => line.includes('CELL_KEY'))).toHaveLength(1);
  });

  it('say of five references that they are one key, in a line for two and one for four', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const { worker, ask, due, until } = await cells(...names);
    const env = Object.fromEntries(names.map((name) => [`KEY_${name}`, KEY]));
    for (const name of names)
      await ask(`INSERT INTO tidemark.groups (origin, secret) SELECT DISTINCT origin, 'env:KEY_${name}' FROM tidemark.groups;
        UPDATE tidemark.cells SET secret = 'env:KEY_${name}', group_id = (SELECT max(id) FROM tidemark.groups) WHERE name = '${name}'`);
    await due();
    const { stop } = worker('w1', { env });
    await until(`SELECT FROM tidemark.cells WHERE last_run IS NOT NULL HAVING count(*) = 5`);
    const lines = (await stop()).stderr.split('\n').filter((line) => line.includes('are the same key of'));
    expect(lines).toHaveLength(2);
    expect(lines[1]).toMatch(
      /KEY_. and env:KEY_. and 2 more are .*, for ., ., . and 1 more cell: they are 4 rate groups/,
    );
  });

  it('go on where PostgreSQL was away, with one line at its beginning and one at its end', async () => {
    const { worker, until, due } = await cells('acme');
    const only = worker('w1');
    await until(RUN(1));
    await server.stop();
    await only.says('nothing new begins');
    // Several attempts fail, of the heartbeat and of the look for what is due.
    await delay(4_000);
    await server.resume();
    await due();
    await until(RUN(2));
    const lines = (await only.stop()).stderr.split('\n');
    expect(lines.filter((line) => line.includes('nothing new begins'))).toHaveLength(1);
    expect(lines.filter((line) => line.includes('the registry can be reached again'))).toHaveLength(1);
  });

  it('sync a cell whose baseline was altered, which takes no other one, until its mirror is moved away and it continues from storage', async () => {
    const { worker, until, fleet, directory, ask, due } = await cells('acme');
    const first = worker('w1');
    await until(RUN(1));
    expect((await fleet('baseline', 'good')).code).toBe(0);
    await until(`SELECT FROM tidemark.cells WHERE stored_run = 2`);
    expect((await first.stop()).code).toBe(0);
    const [group = ''] = readdirSync(join(directory, 'cache', 'w1'));
    const cached = join(directory, 'cache', 'w1', group, 'acme.db');
    const database = new Database(cached);
    database.exec('UPDATE snapshots SET run = 2');
    database.pragma('wal_checkpoint(TRUNCATE)');
    database.close();

    const second = worker('w1');
    await due();
    await until(RUN(3));
    const refused = await fleet('baseline', 'other');
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(
      /not possible: 1 cell\n {2}snapshot "good" is not .*docs\/fleet\.md.*: acme/,
    );
    await due();
    await until(RUN(5));
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    expect(await ask(`SELECT failures, state, stored_run, baseline_order FROM tidemark.cells`)).toEqual([
      { failures: 1, state: 'active', stored_run: 2, baseline_order: null },
    ]);
    expect((await fleet('status')).stdout).toContain(
      'failing, 1 failure in a row, not in storage: the baseline',
    );
    expect((await fleet('baseline')).stderr).toMatch(
      /^tidemark: 1 cell of 1 has a mirror that is damaged or altered/,
    );
    expect(await fleet('checkout', 'acme', '--wait')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('docs/fleet.md, "A mirror that does not verify"') as string,
    });
    const { stderr } = await second.stop();
    expect(stderr).toContain('the baseline cannot be used');
    expect(stderr.split('\n').filter((line) => line.includes('backup_behind: '))).toHaveLength(1);
    expect(stderr).not.toContain('stored again');

    mkdirSync(join(directory, 'evidence'));
    for (const file of readdirSync(dirname(cached)).filter((name) => name.startsWith('acme.db')))
      renameSync(join(dirname(cached), file), join(directory, 'evidence', file));
    const third = worker('w1');
    await ask(`UPDATE tidemark.cells SET due_at = now() - interval '11 minutes'`);
    await until(
      `SELECT FROM tidemark.cells WHERE stored_run = 6 AND baseline = 'good' AND baseline_run = 1 AND failures = 0`,
    );
    expect(await ask('SELECT baseline_error FROM tidemark.cells')).toEqual([{ baseline_error: null }]);
    expect(
      await tidemark(['verify'], { env: { TIDEMARK_MIRROR: join(directory, 'evidence', 'acme.db') } }),
    ).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('snapshot "good" is not as it was pinned') as string,
    });
    expect(await third.stop()).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('"chain":"behind","run":6') as string,
    });

    // One that was altered in storage is not continued from, and named, until it is moved away.
    rmSync(join(directory, 'cache'), { recursive: true });
    const stored = join(directory, 'storage', 'cells', 'acme');
    const newest = readdirSync(stored)
      .filter((name) => name.includes('run6'))
      .toSorted();
    expect(newest).toHaveLength(2);
    const packed = join(stored, newest[0]!);
    writeFileSync(packed, Buffer.concat([readFileSync(packed), Buffer.from('x')]));
    const damaged = await fleet('checkout', 'acme', '--wait');
    expect(damaged.code).toBe(1);
    expect(damaged.stderr).toContain(newest[0]);
    for (const file of newest) renameSync(join(stored, file), join(directory, 'evidence', file));
    const last = worker('w2');
    await ask(`UPDATE tidemark.cells SET due_at = now() - interval '11 minutes'`);
    await until(
      `SELECT FROM tidemark.cells WHERE stored_run = 7 AND baseline = 'good' AND baseline_run = 1 AND failures = 0`,
    );
    expect((await last.stop()).code).toBe(0);
  });

  it('continue from the newest mirror where the registry was lost, and refuse two histories, which `fleet status` names', async () => {
    const { worker, until, fleet, directory, ask, due } = await cells('acme');
    const stored = join(directory, 'storage', 'cells', 'acme');
    const isFree = `SELECT FROM tidemark.groups WHERE holder IS NULL`;
    // As `fleet apply` with the same file into an empty database; the group has another number.
    const lose = () =>
      ask(`CREATE TEMP TABLE kept AS SELECT name, address, profile, secret, schedule, document FROM tidemark.cells;
        TRUNCATE tidemark.cells, tidemark.groups CASCADE;
        WITH g AS (INSERT INTO tidemark.groups (origin, secret) SELECT address, secret FROM kept RETURNING id)
          INSERT INTO tidemark.cells (name, address, profile, secret, schedule, document, group_id) SELECT kept.*, g.id FROM kept, g;
        DROP TABLE kept`);
    const roots = () => ask('SELECT run, root FROM tidemark.runs WHERE run <= 2 ORDER BY run');
    const two = worker('two');
    await until(RUN(1));
    expect((await two.stop()).code).toBe(0);
    const one = worker('one');
    await due();
    await until(RUN(2));
    await until(isFree);
    expect((await fleet('baseline', 'good')).code).toBe(0);
    await until(`SELECT FROM tidemark.cells WHERE baseline = 'good' AND stored_run = last_run`);
    expect((await one.stop()).code).toBe(0);
    const before = await roots();
    await lose();
    const again = worker('two');
    await until(`SELECT FROM tidemark.cells WHERE baseline = 'good' AND stored_run = last_run`);
    await until(isFree);
    expect(await roots()).toEqual(before);
    expect((await again.stop()).stderr).toContain('"chain":"ahead"');

    // A second history, from a first run of its own.
    rmSync(join(directory, 'cache'), { recursive: true });
    renameSync(stored, join(directory, 'away'));
    await lose();
    const other = worker('two');
    await until(RUN(1));
    await due();
    await until(RUN(2));
    await until(isFree);
    expect((await other.stop()).code).toBe(0);
    for (const name of readdirSync(join(directory, 'away')))
      renameSync(join(directory, 'away', name), join(stored, name));
    const names = readdirSync(stored).toSorted();
    await lose();
    worker('two');
    await until(`SELECT FROM tidemark.cells WHERE state = 'quarantined' AND last_run IS NULL`);
    expect(readdirSync(stored).toSorted()).toEqual(names);
    const { stdout, stderr } = await fleet('status', '--failing');
    expect(stdout).toContain('quarantined, 1 failure in a row: two histories of acme');
    expect(stderr).toMatch(
      /two histories of acme.*move the files.*The registry is lost.* has run \d+ with the root hash/,
    );
  });

  it('have no cell that a person checked out, until it is checked in with what was done, and set baselines of the others', async () => {
    const { worker, until, fleet, directory, ask, due, config } = await cells('acme', 'globex');
    // Nothing was published yet, and nobody works.
    const early = await fleet('baseline', 'good');
    expect(early).toMatchObject({
      code: 1,
      stdout: 'good is the baseline of 0 of 2 cells: 0 set now, 0 already set\n',
    });
    expect(early.stderr).toContain('  no run was published yet: acme, globex\n');
    const one = worker('w1');
    await until(`SELECT FROM tidemark.runs HAVING count(*) = 2`);
    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    expect(await fleet('checkout', 'nobody')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('no cell nobody') as string,
    });
    expect(await fleet('checkout', 'acme')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/as of run 1:[^]*fleet checkin acme --config \S+fleet\.yaml\n/) as string,
    });
    expect(await fleet('checkout', 'acme')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /you have acme already, in \S+\n.*`tidemark fleet checkin acme --directory \S+ --config \S+`/,
      ) as string,
    });
    expect(await fleet('checkout', 'globex', '--directory', 'acme')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('is there already') as string,
    });
    expect(await fleet('checkout', 'acme', '--directory', 'again')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('is checked out by') as string,
    });
    // One is a person's, and the key of the other is with it: nothing is waited for.
    const held = await fleet('baseline', 'good');
    expect(held.code).toBe(1);
    expect(held.stderr).toMatch(/not set yet: 1 cell\n {2}its key is in use by a checkout of \S+: globex\n/);
    expect(held.stderr).toMatch(/not possible: 1 cell\n {2}checked out by \S+: acme\n/);
    await due();
    // Longer than the worker waits between two looks.
    await delay(3_000);
    expect(await ask('SELECT FROM tidemark.runs WHERE run > 1'), 'the other cell has the same key').toEqual(
      [],
    );

    const env = { CELL_KEY: KEY };
    const own = ['--config', join(directory, 'acme/tidemark.yaml')];
    expect((await tidemark(['sync', ...own], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'pin', 'good', ...own], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'baseline', 'good', ...own], { env })).code).toBe(0);
    expect((await tidemark(['diff', 'run:1', 'latest', ...own], { env })).code).toBe(0);

    expect(await fleet('checkin', 'acme', '--directory', 'elsewhere')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('elsewhere has no checkout of acme') as string,
    });
    // A mirror that is another one's is refused; so is one where nothing can be stored. The cell stays checked out.
    const other = join(directory, 'other');
    mkdirSync(other);
    writeFileSync(
      join(other, 'tidemark.yaml'),
      readFileSync(join(directory, 'acme/tidemark.yaml'), 'utf8').replace(
        'acme/mirror.db',
        'other/mirror.db',
      ),
    );
    expect((await tidemark(['sync', '--config', join(other, 'tidemark.yaml')], { env })).code).toBe(0);
    expect(await fleet('checkin', 'acme', '--directory', 'other')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('does not continue what the registry knows') as string,
    });
    const settings = readFileSync(config, 'utf8');
    writeFileSync(config, settings.replace('/storage"', '/unmounted"'));
    expect(await fleet('checkin', 'acme')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('unmounted does not exist') as string,
    });
    writeFileSync(config, settings);
    expect(await ask(`SELECT FROM tidemark.cells WHERE state = 'checked_out'`)).toHaveLength(1);

    expect(await fleet('checkin', 'acme')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('with 1 new run') as string,
    });
    expect(existsSync(join(directory, 'acme'))).toBe(false);
    await due();
    // The worker goes on from the mirror that was checked in, with its baseline: drift is judged.
    await until(`SELECT FROM tidemark.cells WHERE name = 'acme' AND last_run = 3 AND finding_count = 0`);
    expect(
      await ask(
        `SELECT worker = 'w1' AS is_worker FROM tidemark.runs r JOIN tidemark.cells c ON c.id = r.cell_id WHERE name = 'acme' ORDER BY run`,
      ),
    ).toEqual([{ is_worker: true }, { is_worker: false }, { is_worker: true }]);

    // What was asked for meanwhile was set in the other cell. It moves to the newest runs, of all or of some.
    await until(`SELECT FROM tidemark_query.cells WHERE baseline = 'good' HAVING count(*) = 2`);
    expect(await fleet('baseline', 'better', '--cell', 'g*b*')).toMatchObject({
      code: 0,
      stdout: 'better is the baseline of 1 of 1 cell: 1 set now, 0 already set\n',
    });
    const some = await fleet('baseline', 'better', '--json');
    expect(JSON.parse(some.stdout)).toMatchObject({ set: 1, already: 1, not_possible: 0 });
    const past = await fleet('baseline', 'before-all', '2020-01-01T00:00Z', '--cell', 'globex');
    expect(past.code).toBe(1);
    expect(past.stderr).toMatch(/not possible: 1 cell\n {2}.*2020-01-01.*: globex\n/);
    expect((await fleet('baseline')).stdout).toMatch(/\nacme +better +3.*\nglobex +better +\d .*2020/);
    expect((await fleet('baseline', '--cell', 'x*')).code).toBe(4);

    await until(`SELECT FROM tidemark.groups WHERE holder IS NULL`);
    expect((await fleet('checkout', 'acme', '--wait')).code).toBe(0);
    const checkedOut = join(directory, 'acme', 'tidemark.yaml');
    const { stdout: kept } = await tidemark(['status', '--config', checkedOut], { env: {}, cwd: directory });
    expect(kept).toContain('kept by the workers of its fleet');
    expect(kept).toContain('Next, by the workers of the fleet once it is checked in: ');
    expect(kept).not.toMatch(/--once|on this machine only/);
    expect((await fleet('checkin', 'acme', '--discard')).code).toBe(0);
    expect(await fleet('checkin', 'acme')).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('is not checked out') as string,
    });
    const worked = await one.stop();
    expect(worked.code).toBe(0);
    expect(worked.stderr).toMatch(/the baseline better was set/);
    expect(worked.stderr).toMatch(/the baseline before-all could not be set: /);
    // Without waiting it is left to whoever works next.
    expect(await fleet('baseline', 'good', '--no-wait')).toMatchObject({
      code: 0,
      stdout:
        'good is the baseline of 0 of 2 cells: 0 set now, 0 already set\n2 cells: workers set it with their next job on each\n',
    });
    const idle = await fleet('baseline', 'good');
    expect(idle.code).toBe(1);
    expect(idle.stderr).toContain('no worker is running (`tidemark fleet work --config');

    await ask(`UPDATE tidemark.cells SET root = repeat('f', 64) WHERE name = 'acme'`);
    expect(await fleet('checkout', 'acme', '--directory', 'altered')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`the registry's root hash of acme was altered`) as string,
    });
  });
});
