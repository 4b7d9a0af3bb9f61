/**
 * A fleet under measurement, with real processes: PostgreSQL, S3-compatible storage, a sandbox, and workers.
 *
 *   node bench/fleet.ts throughput [--cells 1000]        wall time a cell, statements a run
 *   node bench/fleet.ts chaos [--minutes 10] [--cells 120]   workers are killed and frozen at random
 *   node bench/fleet.ts away [--seconds 60]              PostgreSQL, then storage, goes away
 *   node bench/fleet.ts silent [--cells 200] [--minutes 9]   one cell never answers
 *
 * It runs the built program (`npm run build`), and skips where PostgreSQL is not installed.
 */
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  createWriteStream,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { listBackups } from '../src/backup/list.ts';
import { restoreBackup } from '../src/backup/opened-backup.ts';
import { openTarget } from '../src/backup/targets/open.ts';
import { parseS3Address } from '../src/config/backup-target.ts';
import type { TargetConfig } from '../src/config/config.ts';
import { systemClock } from '../src/core/clock.ts';
import { Secret } from '../src/core/secret.ts';
import { Registry } from '../src/fleet/registry/registry.ts';
import { cellStorage } from '../src/fleet/orders.ts';
import { openMirror } from '../src/mirror/open.ts';
import { nodeFlags } from '../test/tools/node-flags.ts';
import type { ServiceReport } from './fleet-service.ts';

const ROOT = join(import.meta.dirname, '..');
const PROGRAM = join(ROOT, 'dist/main.js');
const POSTGRES = globSync('/usr/lib/postgresql/*/bin').find((path) => existsSync(join(path, 'initdb')));

/** The workers' user in PostgreSQL, and theirs alone. */
const WORKER_USER = 'worker';

interface Worker {
  readonly name: string;
  child: ChildProcess;
}

class World {
  readonly scratch = mkdtempSync(join(tmpdir(), 'tidemark-fleet-'));
  readonly workers: Worker[] = [];
  url = '';
  silentUrl = '';
  storageUrl = '';
  database = '';
  #postgresPort = 0;
  #postgres: ChildProcess | null = null;
  #service: ChildProcess | null = null;
  #storage: ChildProcess | null = null;
  readonly #account: { readonly uid?: number; readonly gid?: number } =
    process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

  async start(keys: number, changeEveryMs: number): Promise<void> {
    const data = join(this.scratch, 'postgres');
    mkdirSync(data, { mode: 0o700 });
    chmodSync(this.scratch, 0o711);
    const { uid, gid } = this.#account;
    if (uid !== undefined && gid !== undefined) chownSync(data, uid, gid);
    const made = spawnSync(
      join(POSTGRES ?? '', 'initdb'),
      ['-D', join(data, 'data'), '-U', 'bench', '-A', 'trust', '-N'],
      {
        ...this.#account,
        cwd: data,
        encoding: 'utf8',
        env: { PATH: process.env['PATH'], TZ: 'UTC', LC_ALL: 'C' },
      },
    );
    if (made.status !== 0) throw new Error(`initdb: ${made.stderr}`);
    this.#postgresPort = await freePort();
    this.database = `postgresql://bench@127.0.0.1:${this.#postgresPort}/postgres`;
    await this.startPostgres();
    await this.sql('CREATE EXTENSION pg_stat_statements');
    await this.sql(`CREATE ROLE ${WORKER_USER} LOGIN SUPERUSER`);
    this.#service = this.#fork('service', [String(keys), String(changeEveryMs)]);
    const [{ url, silent }] = (await once(this.#service, 'message')) as [{ url: string; silent: string }];
    [this.url, this.silentUrl] = [url, silent];
    await this.startStorage();
  }

  #fork(role: string, args: readonly string[]): ChildProcess {
    return fork(join(import.meta.dirname, 'fleet-service.ts'), [role, ...args], {
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
  }

  async startPostgres(): Promise<void> {
    const data = join(this.scratch, 'postgres');
    const options = [
      'listen_addresses=127.0.0.1',
      'shared_preload_libraries=pg_stat_statements',
      'max_connections=60',
    ];
    this.#postgres = spawn(
      join(POSTGRES ?? '', 'postgres'),
      [
        '-D',
        join(data, 'data'),
        '-p',
        String(this.#postgresPort),
        '-k',
        data,
        ...options.flatMap((each) => ['-c', each]),
      ],
      { ...this.#account, cwd: data, env: { PATH: process.env['PATH'], TZ: 'UTC' }, stdio: 'ignore' },
    );
    for (;;) {
      try {
        await this.sql('SELECT 1');
        return;
      } catch {
        await delay(100);
      }
    }
  }

  async stopPostgres(): Promise<void> {
    const postgres = this.#postgres;
    if (postgres === null) return;
    postgres.kill('SIGINT');
    await once(postgres, 'exit');
    this.#postgres = null;
  }

  async startStorage(): Promise<void> {
    const port = this.storageUrl === '' ? '1' : new URL(this.storageUrl).port;
    this.#storage = this.#fork('storage', [port]);
    const [{ url }] = (await once(this.#storage, 'message')) as [{ url: string }];
    this.storageUrl = url;
  }

  /** Its objects are in memory: it is frozen, not ended. */
  pauseStorage(isPaused: boolean): void {
    this.#storage?.kill(isPaused ? 'SIGSTOP' : 'SIGCONT');
  }

  async report(): Promise<ServiceReport> {
    const service = this.#service as ChildProcess;
    service.send('report');
    const [report] = (await once(service, 'message')) as [ServiceReport];
    return report;
  }

  async sql<T extends Record<string, unknown>>(statement: string, values: unknown[] = []): Promise<T[]> {
    const client = new pg.Client({ connectionString: this.database });
    client.on('error', () => undefined);
    await client.connect();
    try {
      return (await client.query<T>(statement, values)).rows;
    } finally {
      await client.end();
    }
  }

  get storage(): TargetConfig {
    const place = parseS3Address(`s3://fleet/bench?endpoint=${this.storageUrl}`);
    if (place === null) throw new Error('an address');
    return { ...place, objectLock: null, retention: null };
  }

  /** Registers cells: `perGroup` share a key. */
  async register(
    cells: number,
    perGroup: number,
    cron: string,
    source: object,
    urlOf: (cell: number) => string = () => this.url,
  ): Promise<void> {
    const registry = await Registry.open(new Secret(this.database), { migrates: true });
    await registry.close();
    for (let cell = 0; cell < cells; cell += 1) {
      const key = Math.floor(cell / perGroup);
      await this.sql(
        `WITH g AS (INSERT INTO tidemark.groups (origin, secret) VALUES ($1, $2) ON CONFLICT (origin, secret) DO UPDATE SET secret = excluded.secret RETURNING id)
         INSERT INTO tidemark.cells (name, group_id, address, profile, secret, schedule, document) SELECT $3, id, $1, 'svc', $2, $4, $5 FROM g`,
        [
          urlOf(cell),
          `env:KEY_${key}`,
          `cell-${cell}`,
          cron,
          JSON.stringify({ source: { ...SOURCE, ...source }, schedules: OTHERS_OFF }),
        ],
      );
    }
  }

  worker(name: string, keys: number, options: Record<string, unknown> = {}): Worker {
    const config = join(this.scratch, `${name}.yaml`);
    const storage = `s3://fleet/bench?endpoint=${this.storageUrl}`;
    const fleet = { database: '${DATABASE_URL}', storage, cache: join(this.scratch, 'cache'), ...options };
    writeFileSync(config, JSON.stringify({ fleet }));
    const env = {
      PATH: process.env['PATH'],
      TZ: 'UTC',
      TMPDIR: this.scratch,
      DATABASE_URL: this.database.replace('bench@', `${WORKER_USER}@`),
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      ...Object.fromEntries(Array.from({ length: keys }, (_, n) => [`KEY_${n}`, `bench-key-${n}`])),
    };
    const child = spawn(
      process.execPath,
      [...nodeFlags(), PROGRAM, 'fleet', 'work', '--name', name, '--config', config],
      {
        env,
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
    child.stderr.pipe(createWriteStream(join(this.scratch, `${name}.log`), { flags: 'a' }));
    const worker = { name, child };
    this.workers.push(worker);
    return worker;
  }

  async stop(): Promise<void> {
    for (const { child } of this.workers) {
      child.kill('SIGCONT');
      child.kill('SIGTERM');
    }
    for (const { child } of this.workers)
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    this.#service?.disconnect();
    this.#storage?.kill('SIGCONT');
    this.#storage?.disconnect();
    await this.stopPostgres();
    if (process.env['KEEP'] === undefined) rmSync(this.scratch, { recursive: true, force: true });
    else console.log(`kept: ${this.scratch}`);
  }

  log(name: string): string[] {
    const path = join(this.scratch, `${name}.log`);
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  }
}

/** Some 240 records in 34 requests: recordings have limits of their own. */
const SOURCE = { kinds: { exclude: ['session_recordings', 'recording_sharing'] } };

/** What is not under measurement. */
const OTHERS_OFF = Object.fromEntries(
  ['drift', 'verify', 'forget', 'drill'].map((name) => [name, { cron: 'off' }]),
);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;

async function waitFor(isTrue: () => Promise<boolean>, mostMs: number, what: string): Promise<number> {
  const begun = performance.now();
  while (!(await isTrue())) {
    if (performance.now() - begun > mostMs) throw new Error(`${what}: not within ${seconds(mostMs)}`);
    await delay(250);
  }
  return performance.now() - begun;
}

/**
 * Statements that the workers sent to PostgreSQL since the counter was reset: all that their user sent, whoever asked for it
 * (the registry, pg-boss, its upkeep, heartbeats, looks for what is due) and whatever they are (`BEGIN` and `COMMIT` too). Left
 * out are PostgreSQL's own checks of foreign keys (`SELECT 1 FROM ONLY …`), which nobody sent.
 */
async function queries(world: World): Promise<number> {
  const rows = await world.sql<{ calls: string }>(
    `SELECT coalesce(sum(calls), 0) AS calls FROM pg_stat_statements WHERE userid = '${WORKER_USER}'::regrole AND query NOT LIKE 'SELECT % FROM ONLY%'`,
  );
  return Number(rows[0]?.calls);
}

/** How many a run, and the most frequent ones. */
async function printQueries(world: World, runs: number): Promise<void> {
  console.log(`  ${((await queries(world)) / runs).toFixed(2)} statements a run, of both workers together:`);
  const rows = await world.sql<{ calls: string; query: string }>(
    `SELECT sum(calls) AS calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 100) AS query FROM pg_stat_statements
       WHERE userid = '${WORKER_USER}'::regrole AND query NOT LIKE 'SELECT % FROM ONLY%' GROUP BY 2 ORDER BY 1 DESC LIMIT 12`,
  );
  for (const { calls, query } of rows) console.log(`    ${(Number(calls) / runs).toFixed(2)} ${query}`);
}

async function throughput(cells: number): Promise<void> {
  const world = new World();
  try {
    await world.start(cells, 0);
    await world.register(cells, 1, '0 */6 * * *', { rate: { perMinute: 480, perHour: 4800 } });
    const workers = ['w1', 'w2'];
    const begun = performance.now();
    for (const name of workers) world.worker(name, cells, { slots: 1 });
    const published = async (): Promise<number> =>
      Number((await world.sql<{ n: string }>('SELECT count(*) AS n FROM tidemark.runs'))[0]?.n);
    await waitFor(async () => (await published()) > 0, 60_000, 'a first run');
    await world.sql('SELECT pg_stat_statements_reset()');
    const before = await published();
    await waitFor(async () => (await published()) >= cells, cells * 3_000, 'all cells');
    const wallMs = performance.now() - begun;
    const made = (await published()) - before;
    console.log(`first sync: ${cells} cells in ${seconds(wallMs)}: ${seconds(wallMs / cells)} a cell`);
    await printQueries(world, made);
    await again(world, cells);
  } finally {
    await world.stop();
  }
}

/** A second run of every cell, which finds nothing new: what a fleet does most of the time. */
async function again(world: World, cells: number): Promise<void> {
  for (const { child } of world.workers) child.kill('SIGTERM');
  await Promise.all(
    world.workers.map(async ({ child }) => (child.exitCode === null ? once(child, 'exit') : null)),
  );
  world.workers.length = 0;
  await world.sql(`UPDATE tidemark.cells SET schedule = '* * * * *', due_at = now()`);
  // The schedule changed, so that every mirror is due within a minute.
  const before = Number((await world.sql<{ n: string }>('SELECT max(run) AS n FROM tidemark.runs'))[0]?.n);
  await world.sql('SELECT pg_stat_statements_reset()');
  const done = async (): Promise<boolean> =>
    Number(
      (
        await world.sql<{ n: string }>(
          'SELECT count(DISTINCT cell_id) AS n FROM tidemark.runs WHERE run > $1',
          [before],
        )
      )[0]?.n,
    ) >= cells;
  const begun = performance.now();
  for (const name of ['w1', 'w2']) world.worker(name, cells, { slots: 1 });
  await waitFor(done, cells * 5_000, 'a second run of all cells');
  const wallMs = performance.now() - begun;
  const runs = Number(
    (await world.sql<{ n: string }>('SELECT count(*) AS n FROM tidemark.runs WHERE run > $1', [before]))[0]
      ?.n,
  );
  console.log(`again: ${runs} runs in ${seconds(wallMs)}: ${seconds(wallMs / runs)} a run`);
  await printQueries(world, runs);
}

interface Verdict {
  readonly name: string;
  readonly isRight: boolean;
  readonly what: string;
}

/** What must hold whatever happened to the workers, which may go on meanwhile: a cell is compared as of the run it had at first. */
async function verdicts(world: World, cells: number): Promise<Verdict[]> {
  const found: Verdict[] = [];
  const say = (name: string, isRight: boolean, what: string): void =>
    void found.push({ name, isRight, what });
  const rows = await world.sql<{
    id: string;
    name: string;
    root: string;
    last_run: number;
    stored_key: string;
  }>('SELECT id, name, root, last_run, stored_key FROM tidemark.cells ORDER BY id');
  let broken = 0;
  let missing = 0;
  let others = 0;
  for (const cell of rows) {
    const target = await openTarget(cellStorage(world.storage, cell.name), systemClock);
    const backup = (await listBackups(target)).find(({ name }) => name === cell.stored_key);
    if (backup === undefined) {
      missing += 1;
      continue;
    }
    const to = join(world.scratch, 'verify', `${cell.name}.db`);
    const facts = await restoreBackup(backup, to, {
      identities: [],
      clock: systemClock,
      signal: new AbortController().signal,
      holder: { command: 'bench', pid: process.pid, host: 'bench', since: new Date().toISOString() },
    }).catch((error: unknown) => {
      console.log(`  ${cell.name}: ${String(error)}`);
      return null;
    });
    if (facts === null) {
      broken += 1;
      continue;
    }
    const mirror = openMirror(to, { mode: 'read', command: 'verify', clock: systemClock });
    const known = await world.sql<{ run: number; root: string | null; changed: number }>(
      'SELECT run, root, added + changed + removed AS changed FROM tidemark.runs WHERE cell_id = $1 AND run <= $2 ORDER BY run',
      [cell.id, cell.last_run],
    );
    const roots = new Map(mirror.runs.list({ source: cell.name }).map(({ run, root }) => [run, root]));
    // Every run that the registry has is in the mirror, with the same root.
    const differing = known.filter(({ run, root }) => root !== null && roots.get(run) !== root);
    const unpublished = [...roots].filter(
      ([run, root]) => root !== null && !known.some((each) => each.run === run),
    );
    others += differing.length + unpublished.length;
    for (const { run, root } of differing)
      console.log(`  ${cell.name}: run ${run} has ${root} in the registry, ${roots.get(run)} in the mirror`);
    for (const [run, root] of unpublished)
      console.log(`  ${cell.name}: run ${run}, ${root}, is in the mirror only`);
    mirror.close();
    rmSync(join(world.scratch, 'verify'), { recursive: true });
  }
  say(
    'chains',
    broken + missing === 0,
    `${rows.length} mirrors from storage verified, ${broken} broken, ${missing} missing`,
  );
  say('runs', others === 0, `${others} runs differ between registry and mirror`);
  const doubled = await world.sql(
    `SELECT cell_id, root, count(*) FROM tidemark.runs WHERE root IS NOT NULL GROUP BY 1, 2 HAVING count(*) > 1`,
  );
  say('no run doubled', doubled.length === 0, `${doubled.length} roots twice`);
  say('all cells', rows.length === cells, `${rows.length} cells`);
  return found;
}

/** The largest number of requests of one key within a window, over all keys. */
function mostWithin(report: ServiceReport, windowMs: number): { key: string; most: number } {
  let worst = { key: '', most: 0 };
  for (const [key, times] of Object.entries(report.starts)) {
    let from = 0;
    for (const [to, at] of times.entries()) {
      while (at - (times[from] ?? 0) >= windowMs) from += 1;
      if (to - from + 1 > worst.most) worst = { key, most: to - from + 1 };
    }
  }
  return worst;
}

function print(found: readonly Verdict[]): void {
  for (const { name, isRight, what } of found) console.log(`${isRight ? 'ok  ' : 'FAIL'} ${name}: ${what}`);
  if (found.some(({ isRight }) => !isRight)) process.exitCode = 1;
}

/** Oldest age of a published run of any cell, seen while `work` runs. */
async function oldestDuring(world: World, work: Promise<unknown>): Promise<number> {
  let oldest = 0;
  const over = { is: false };
  void work.finally(() => (over.is = true));
  while (!over.is) {
    try {
      const [row] = await world.sql<{ age: number }>(
        'SELECT max(extract(epoch FROM now() - coalesce(published_at, added_at)))::float8 AS age FROM tidemark.cells',
      );
      oldest = Math.max(oldest, row?.age ?? 0);
    } catch {
      // PostgreSQL is away.
    }
    await delay(1_000);
  }
  return oldest;
}

/** With fewer cells it shows their freshness on a machine that does other things as well. */
async function chaos(minutes: number, cells: number): Promise<void> {
  const world = new World();
  const [perGroup, heartbeatS, intervalS] = [3, 10, 120];
  const keys = Math.ceil(cells / perGroup);
  const limits = { perMinute: 150, perHour: 5000, concurrency: 4 };
  try {
    await world.start(keys, 2_000);
    await world.register(cells, perGroup, '*/2 * * * *', { rate: limits });
    const options = { slots: 2, heartbeat: `${heartbeatS}s` };
    for (const name of ['w1', 'w2', 'w3']) world.worker(name, keys, options);
    const counts = { killed: 0, frozen: 0 };
    const trouble = (async () => {
      const until = performance.now() + minutes * 60_000;
      while (performance.now() < until) {
        await delay(3_000 + Math.random() * 5_000);
        const index = Math.floor(Math.random() * world.workers.length);
        const victim = world.workers[index];
        if (victim === undefined || victim.child.exitCode !== null) continue;
        if (Math.random() < 0.5) {
          counts.killed += 1;
          victim.child.kill('SIGKILL');
          await once(victim.child, 'exit');
          world.workers.splice(index, 1);
          await delay(500);
          world.worker(victim.name, keys, options);
        } else {
          counts.frozen += 1;
          victim.child.kill('SIGSTOP');
          // Now and then longer than the heartbeat.
          void delay(2_000 + Math.random() * 2.5 * heartbeatS * 1_000).then(() =>
            victim.child.kill('SIGCONT'),
          );
        }
      }
    })();
    const oldest = await oldestDuring(world, trouble);
    await delay(2_000);
    for (const { child } of world.workers) child.kill('SIGCONT');
    // In peace, every cell has one more turn.
    const [{ at }] = (await world.sql<{ at: string }>('SELECT now()::text AS at')) as [{ at: string }];
    await waitFor(
      async () =>
        Number(
          (
            await world.sql<{ n: string }>(
              'SELECT count(*) AS n FROM tidemark.cells WHERE published_at > $1',
              [at],
            )
          )[0]?.n,
        ) >= cells,
      // On a machine that is busy with other things it takes longer: what is lost or doubled is asked all the same.
      1_200_000,
      'every cell once more',
    );
    for (const { child } of world.workers) child.kill('SIGTERM');
    await Promise.all(
      world.workers.map(async ({ child }) => (child.exitCode === null ? once(child, 'exit') : null)),
    );
    const report = await world.report();
    const found = await verdicts(world, cells);
    const minute = mostWithin(report, 60_000);
    const hour = mostWithin(report, 3_600_000);
    const [concurrent] = Object.entries(report.concurrency).toSorted((a, b) => b[1] - a[1]);
    const [runs] = await world.sql<{ n: string; changed: string; failed: string }>(
      `SELECT count(*) AS n, count(*) FILTER (WHERE added + changed + removed > 0) AS changed, count(*) FILTER (WHERE outcome = 'failed') AS failed FROM tidemark.runs`,
    );
    const bound = 2 * intervalS + heartbeatS;
    // The service's own key makes changes too.
    found.push(
      {
        name: 'freshness',
        isRight: oldest <= bound,
        what: `oldest cell ${oldest.toFixed(0)} s, bound ${bound} s`,
      },
      {
        name: 'minute',
        isRight: minute.most <= limits.perMinute + 30,
        what: `${minute.most} requests of ${minute.key} in 60 s, limit ${limits.perMinute}`,
      },
      {
        name: 'hour',
        isRight: hour.most <= limits.perHour,
        what: `${hour.most} requests of ${hour.key} in an hour, limit ${limits.perHour}`,
      },
      {
        name: 'concurrency',
        isRight: (concurrent?.[1] ?? 0) <= limits.concurrency + 1,
        what: `${concurrent?.[1]} at once of ${concurrent?.[0]}, limit ${limits.concurrency}`,
      },
    );
    console.log(
      `chaos: ${minutes} min, ${counts.killed} killed, ${counts.frozen} frozen; ${runs?.n} runs, ${runs?.changed} with changes, ${runs?.failed} failed; ${report.changes} changes at the service`,
    );
    print(found);
  } finally {
    await world.stop();
  }
}

async function away(awaySeconds: number): Promise<void> {
  const world = new World();
  const cells = 60;
  try {
    await world.start(cells, 2_000);
    await world.register(cells, 1, '* * * * *', { rate: { perMinute: 480, perHour: 20_000 } });
    for (const name of ['w1', 'w2']) world.worker(name, cells, { slots: 2, heartbeat: '10s' });
    const allSince = async (at: string): Promise<boolean> =>
      Number(
        (
          await world.sql<{ n: string }>('SELECT count(*) AS n FROM tidemark.cells WHERE published_at > $1', [
            at,
          ])
        )[0]?.n,
      ) >= cells;
    const nowText = async (): Promise<string> =>
      (await world.sql<{ at: string }>('SELECT now()::text AS at'))[0]?.at ?? '';
    await waitFor(async () => allSince('2000-01-01'), 240_000, 'all cells once');
    await world.stopPostgres();
    await delay(awaySeconds * 1_000);
    await world.startPostgres();
    const after = await nowText();
    const backMs = await waitFor(async () => allSince(after), 240_000, 'all cells after PostgreSQL was away');
    const lines = ['w1', 'w2'].flatMap((name) => world.log(name));
    const begun = lines.filter((line) => line.includes('nothing new begins'));
    const ended = lines.filter((line) => line.includes('the registry can be reached again'));
    console.log(
      `PostgreSQL away for ${awaySeconds} s: all ${cells} cells were synced again ${seconds(backMs)} after it was back; ${begun.length} lines at its beginning, ${ended.length} at its end, of 2 workers`,
    );
    print(await verdicts(world, cells));

    world.pauseStorage(true);
    const before = await nowText();
    await waitFor(async () => allSince(before), 600_000, 'all cells while storage is away').catch(
      (error: unknown) => console.log(String(error)),
    );
    const [state] = await world.sql<{ synced: string; behind: string }>(
      `SELECT count(*) FILTER (WHERE published_at > $1) AS synced, count(*) FILTER (WHERE stored_run < last_run) AS behind FROM tidemark.cells`,
      [before],
    );
    console.log(
      `storage away: ${state?.synced} of ${cells} cells synced meanwhile, ${state?.behind} behind in storage; told: ${world.workers.map(({ name }) => world.log(name).filter((line) => line.includes('backup_behind')).length).join(' and ')} lines`,
    );
    world.pauseStorage(false);
    const backMs2 = await waitFor(
      async () =>
        Number(
          (
            await world.sql<{ n: string }>(
              'SELECT count(*) AS n FROM tidemark.cells WHERE stored_run < last_run',
            )
          )[0]?.n,
        ) === 0,
      300_000,
      'all cells in storage again',
    );
    console.log(`storage is back: all are stored ${seconds(backMs2)} later`);
    for (const { child } of world.workers) child.kill('SIGTERM');
    await Promise.all(
      world.workers.map(async ({ child }) => (child.exitCode === null ? once(child, 'exit') : null)),
    );
    print(await verdicts(world, cells));
  } finally {
    await world.stop();
  }
}

async function silent(cells: number, minutes: number): Promise<void> {
  const ages = async (withSilent: boolean): Promise<number> => {
    const world = new World();
    try {
      await world.start(cells, 0);
      await world.register(cells, 1, '*/3 * * * *', { rate: { perMinute: 480, perHour: 20_000 } }, (cell) =>
        withSilent && cell === 7 ? world.silentUrl : world.url,
      );
      for (const name of ['w1', 'w2']) world.worker(name, cells, { slots: 2 });
      const time = delay(minutes * 60_000);
      let oldest = 0;
      const over = { is: false };
      void time.then(() => (over.is = true));
      while (!over.is) {
        const [row] = await world.sql<{ age: number }>(
          `SELECT max(extract(epoch FROM now() - coalesce(published_at, added_at)))::float8 AS age FROM tidemark.cells WHERE name <> 'cell-7'`,
        );
        oldest = Math.max(oldest, row?.age ?? 0);
        await delay(1_000);
      }
      return oldest;
    } finally {
      await world.stop();
    }
  };
  console.log(
    `oldest of the ${cells - 1} others, without a silent cell: ${(await ages(false)).toFixed(0)} s`,
  );
  console.log(`oldest of the ${cells - 1} others, with one: ${(await ages(true)).toFixed(0)} s`);
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { cells: { type: 'string' }, minutes: { type: 'string' }, seconds: { type: 'string' } },
});
Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'bench', AWS_SECRET_ACCESS_KEY: 'bench' });
if (POSTGRES === undefined) console.log('skipped: PostgreSQL is not installed');
else if (positionals[0] === 'throughput') await throughput(Number(values.cells ?? 1000));
else if (positionals[0] === 'chaos') await chaos(Number(values.minutes ?? 10), Number(values.cells ?? 120));
else if (positionals[0] === 'away') await away(Number(values.seconds ?? 60));
else if (positionals[0] === 'silent') await silent(Number(values.cells ?? 200), Number(values.minutes ?? 9));
else throw new Error('throughput, chaos, away or silent');
