/** The registry against a real PostgreSQL: its tables, the lease of a group, what is published. */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { asTidemarkError } from '../../src/core/errors.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import type { CellChange, CellRecordKey, CellRun } from '../../src/fleet/cell.ts';
import { GroupQueue } from '../../src/fleet/queue.ts';
import { openConnections } from '../../src/fleet/registry/connection.ts';
import { migrate, schemaState, shippedMigrations } from '../../src/fleet/registry/migrations.ts';
import type { CellOverview } from '../../src/fleet/registry/overview.ts';
import type { Publication } from '../../src/fleet/registry/publish.ts';
import type { HeldGroup } from '../../src/fleet/registry/held-group.ts';
import { Registry, type WorkerDescription } from '../../src/fleet/registry/registry.ts';
import { problemOf } from '../../src/fleet/serve/health.ts';
import { missingMigrations } from '../tools/check-migrations.ts';
import { POSTGRES, PostgresServer, WITHOUT_POSTGRES, openedRegistry } from './postgres.ts';

let server: PostgresServer;
let count = 0;

/** A cell as `fleet apply` makes it, straight in the tables. */
async function addCell(
  url: Secret,
  name = `cell-${(count += 1)}`,
  secret = `env:KEY_${count}`,
): Promise<number> {
  const [group] = await server.execute(
    url,
    `INSERT INTO tidemark.groups (origin, secret) VALUES ('https://svc.example.com', '${secret}')
     ON CONFLICT (origin, secret) DO UPDATE SET origin = excluded.origin RETURNING id`,
  );
  const [cell] = await server.execute(
    url,
    `INSERT INTO tidemark.cells (name, group_id, address, profile, secret, schedule)
     VALUES ('${name}', ${String(group?.['id'])}, 'https://svc.example.com', 'svc', '${secret}', '0 * * * *') RETURNING id`,
  );
  return Number(cell?.['id']);
}

async function dueSince(url: Secret, cell: number, minutes: number): Promise<void> {
  await server.execute(
    url,
    `UPDATE tidemark.cells SET due_at = now() - interval '${minutes} minutes' WHERE id = ${cell}`,
  );
}

async function cellOf(registry: Registry, name: string): Promise<unknown> {
  return (await registry.registeredCells()).find((cell) => cell.name === name);
}

/** The groups that are due, the one that waits longest first. */
async function dueIds(registry: Registry, limit = 1, except: readonly number[] = []): Promise<number[]> {
  return (await registry.dueGroups(limit, except)).map(({ group }) => group);
}

function run(number: number, more: Partial<CellRun> = {}): CellRun {
  return {
    run: number,
    outcome: 'complete',
    startedAt: '2026-03-01T12:00:00.000Z',
    finishedAt: '2026-03-01T12:00:02.500Z',
    requests: 34,
    retries: 1,
    added: 2,
    changed: 0,
    removed: 0,
    unchanged: 0,
    root: 'ab'.repeat(32),
    errorCode: null,
    error: null,
    ...more,
  };
}

function publication(held: HeldGroup, more: Partial<Publication> = {}): Publication {
  return {
    cell: held.cells[0]?.id ?? 0,
    configuredAt: held.cells[0]?.changedAt ?? 'epoch',
    group: held.group,
    fence: held.fence,
    worker: 'w1',
    runs: [],
    error: null,
    mirror: null,
    baselineOrder: held.cells[0]?.baselineOrder ?? null,
    baselineDone: null,
    stored: null,
    findings: null,
    records: null,
    changes: [],
    dueInMs: 3_600_000,
    ...more,
  };
}

type Published<Value> = Value extends Iterable<infer Each> ? Each : never;
type ProjectedRecord = Published<NonNullable<Publication['records']>['present']>;
type ProjectedFinding = Published<NonNullable<Publication['findings']>['listed']>;

const record = (id: string, more: Partial<ProjectedRecord> = {}): ProjectedRecord => ({
  kind: 'roles',
  scope: 'organization_id=o1',
  id,
  name: `Role ${id}`,
  organization: 'o1',
  body: `{"id":"${id}"}`,
  ...more,
});

async function rejection(work: Promise<unknown>): Promise<{ code: string; message: string; hint: string }> {
  const error = asTidemarkError(
    await work.then(
      () => {
        throw new Error('nothing was thrown');
      },
      (thrown: unknown) => thrown,
    ),
  );
  return { code: error.code, message: error.message, hint: error.hint ?? '' };
}

describe.skipIf(POSTGRES === null)(`the registry${WITHOUT_POSTGRES}`, () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
  });

  describe('its tables', () => {
    it('have a migration for everything that the schema has', () => {
      expect(missingMigrations('fleet')).toEqual([]);
    });

    it('are made once by two who do it at once, and then are as they should be', async () => {
      const url = await server.database();
      const opened = await Promise.all([1, 2, 3].map(async () => openedRegistry(url)));
      const done = opened.map(({ migrated }) => migrated).filter((each) => each?.from === 0 && each.to > 0);
      expect(done).toHaveLength(1);
      expect((await openedRegistry(url)).migrated).toBeNull();
    });

    it('are made in schemas that somebody else created, by a user who may create none', async () => {
      const url = await server.database();
      const database = new URL(url.reveal()).pathname.slice(1);
      await server.execute(
        url,
        `CREATE ROLE limited LOGIN PASSWORD 'limited'; CREATE SCHEMA tidemark AUTHORIZATION limited; CREATE SCHEMA tidemark_query AUTHORIZATION limited;`,
      );
      const registry = await openedRegistry(server.url(database, 'limited', 'limited'));
      expect(registry.migrated).toEqual({ from: 0, to: shippedMigrations().length });
      const other = new URL((await server.database()).reveal()).pathname.slice(1);
      expect(
        await rejection(Registry.open(server.url(other, 'limited', 'limited'), { migrates: true })),
      ).toEqual({
        code: 'registry_denied',
        message: `the registry 127.0.0.1:${server.port}/${other} does not allow it: permission denied for database ${other}`,
        hint: expect.stringContaining('CREATE on the database') as string,
      });
    });

    const next = { hash: 'next', sql: ['ALTER TABLE tidemark.cells ADD COLUMN note text'] };

    it('may be newer by what an older program can ignore', async () => {
      const url = await server.database();
      const older = await openedRegistry(url);
      const connections = openConnections(url, 1);
      const all = [...shippedMigrations(), next];
      expect(await migrate(connections, all)).toEqual({ from: all.length - 1, to: all.length });
      await addCell(url);
      expect(await older.dueGroups(10)).toHaveLength(1);
      expect((await openedRegistry(url)).migrated).toBeNull();
      await connections.close();
    });

    it('refuse an older program where they changed too much for it', async () => {
      const url = await server.database();
      await openedRegistry(url);
      const connections = openConnections(url, 1);
      const all = [...shippedMigrations(), next];
      await migrate(connections, all, all.length);
      expect(await rejection(Registry.open(url))).toMatchObject({ code: 'registry_newer' });
      await connections.close();
    });

    it('are refused as older, without a word to change them, and as made by others', async () => {
      const url = await server.database();
      expect(await rejection(Registry.open(url))).toMatchObject({ code: 'registry_missing' });
      await openedRegistry(url);
      const connections = openConnections(url, 1);
      const all = [...shippedMigrations(), next];
      expect(await schemaState(connections.db, '', all)).toEqual({
        version: all.length - 1,
        latest: all.length,
      });
      await connections.close();
      await server.execute(url, `UPDATE tidemark.schema_versions SET hash = 'x'`);
      expect(await rejection(Registry.open(url))).toMatchObject({ code: 'registry_version' });
    });
  });

  describe('a connection', () => {
    it.each([
      [
        'a wrong password',
        () => server.url('postgres', 'root', 'nope'),
        'registry_denied',
        'refuses the user or the password',
      ],
      [
        'an unknown user',
        () => server.url('postgres', 'nobody', 'x'),
        'registry_denied',
        'refuses the user or the password',
      ],
      [
        'no password',
        () => new Secret(`postgresql://root@127.0.0.1:${server.port}/postgres`),
        'registry_denied',
        'asks for a password',
      ],
      [
        'a missing database',
        () => server.url('missing'),
        'registry_missing',
        'database "missing" does not exist',
      ],
      [
        'a closed port',
        () => new Secret('postgresql://root:secret@127.0.0.1:1/x'),
        'registry_unreachable',
        'ECONNREFUSED',
      ],
      [
        'a missing socket',
        () => new Secret('postgresql:///x?host=/nowhere'),
        'registry_unreachable',
        'ENOENT',
      ],
      [
        'TLS where there is none',
        () => new Secret(`${server.url('postgres').reveal()}?sslmode=require`),
        'registry_unreachable',
        'does not offer TLS',
      ],
      ['no address at all', () => new Secret('secret'), 'config_invalid', 'is not the address'],
    ])('with %s', async (_name, url, code, text) => {
      const found = await rejection(Registry.open(url()));
      expect(found).toMatchObject({ code, message: expect.stringContaining(text) as string });
      expect(JSON.stringify(found)).not.toMatch(/nope|secret|Loopback/);
      expect(found.message).not.toContain('\n');
    });
  });

  describe('a group', () => {
    it('is handed out with its due cells, and its rate log with its age', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      const first = await addCell(url, 'a', 'env:ONE');
      await addCell(url, 'b', 'env:ONE');
      await addCell(url, 'c', 'env:TWO');
      const groups = await dueIds(registry, 10);
      expect(groups).toHaveLength(2);
      const held = await registry.holdGroup(groups[0]!, 'w1');
      expect(held).toMatchObject({
        fence: 1,
        rateLog: null,
        cells: [{ name: 'a', id: first }, { name: 'b' }],
      });
      await registry.releaseGroup(groups[0]!, 1, { rateLog: { starts: [12, 3] } });
      await dueSince(url, first, -1);
      const again = await registry.holdGroup(groups[0]!, 'w2');
      expect(again).toMatchObject({ fence: 2, rateLog: { starts: [12, 3] }, cells: [{ name: 'b' }] });
      expect(again?.rateLogAgeMs).toBeGreaterThanOrEqual(0);
      expect(again?.rateLogAgeMs).toBeLessThan(60_000);
    });

    it('that a worker cannot work on keeps no other from its turn', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      for (let count = 0; count < 3; count += 1) {
        await dueSince(url, await addCell(url), 20);
        await addCell(url);
      }
      const first = await dueIds(registry, 3);
      expect(first).toHaveLength(3);
      const rest = await dueIds(registry, 3, first);
      expect(rest).toHaveLength(3);
      expect(rest.filter((group) => first.includes(group))).toEqual([]);
    });

    it('that is queued again, because its worker died, does not wait behind those that are due since a shorter time', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      const queue = await GroupQueue.open({
        registry,
        database: url,
        heartbeatSeconds: 10,
        log: silentLogger,
      });
      onTestFinished(() => queue.close());
      for (let cell = 1; cell <= 3; cell += 1) expect(await addCell(url)).toBe(cell);
      const since = `now() - (array[3, 9, 6])[id] * interval '1 minute'`;
      await server.execute(url, `UPDATE tidemark.cells SET due_at = ${since}`);
      const [oldest, middle, newest] = await registry.dueGroups(3);
      expect(newest!.dueAt - oldest!.dueAt).toBeCloseTo(6 * 60_000, -3);
      await queue.add([newest!]);
      await queue.add([middle!, oldest!]);
      const taken = [];
      for (let turn = 0; turn < 3; turn += 1) taken.push(...(await queue.take(1, [])));
      expect(taken.map(({ group }) => group)).toEqual([oldest, middle, newest].map((each) => each!.group));
      await queue.end(taken);
      // All again, the one that is queued last before the others.
      await queue.add([newest!, middle!]);
      await queue.add([oldest!]);
      expect(await queue.take(1, [])).toMatchObject([{ group: oldest!.group }]);
    });

    it('whose holder vanished says since when nothing was heard of it', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      await registry.join({ name: 'w1', host: 'here', version: '0.1.0' });
      const first = (await registry.holdGroup(group!, 'w1'))!;
      expect(first.abandonedMs).toBeNull();
      await server.execute(
        url,
        `UPDATE tidemark.groups SET held_at = now() - interval '90 seconds';
         UPDATE tidemark.workers SET started_at = now() - interval '300 seconds', seen_at = now() - interval '40 seconds'`,
      );
      const second = (await registry.holdGroup(group!, 'w2'))!;
      expect(second.abandonedMs! / 1000).toBeCloseTo(40, -1);
      expect(second.uncountedMs / 1000).toBeCloseTo(90, -1);
      // A process of the same name, which was started since, says nothing of the one before it.
      await server.execute(
        url,
        `UPDATE tidemark.groups SET holder = 'w1', held_at = now() - interval '90 seconds';
         UPDATE tidemark.workers SET started_at = now() - interval '70 seconds', seen_at = now()`,
      );
      const third = (await registry.holdGroup(group!, 'w2'))!;
      expect(third.abandonedMs! / 1000).toBeCloseTo(70, -1);
      // Nor did one of them say what it sent, or assumed of the others, before it ended too.
      await server.execute(url, `UPDATE tidemark.groups SET held_at = now() - interval '10 seconds'`);
      const fourth = (await registry.holdGroup(group!, 'w3'))!;
      expect(fourth.uncountedMs / 1000).toBeCloseTo(90, -1);
      await registry.releaseGroup(group!, fourth.fence, { rateLog: {}, countsVanished: true });
      expect((await registry.holdGroup(group!, 'w3'))!.abandonedMs).toBeNull();
      await server.execute(url, `UPDATE tidemark.groups SET held_at = now() - interval '10 seconds'`);
      expect((await registry.holdGroup(group!, 'w2'))!.uncountedMs / 1000).toBeLessThan(60);
    });

    it('that is given back before what vanished holders sent was counted still says it, until a log has it', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      const vanish = async (): Promise<void> => {
        await registry.holdGroup(group!, 'w1');

        await server.execute(url, `UPDATE tidemark.groups SET held_at = now() - interval '90 seconds'`);
      };
      const hold = async (): Promise<HeldGroup> => (await registry.holdGroup(group!, 'w2'))!;
      await vanish();
      // The key cannot be read; then no cell is due, and the log that is written lacks what is assumed.
      for (const written of [{}, { rateLog: {} }, { countsVanished: true }]) {
        const held = await hold();
        expect(held.uncountedMs / 1000).toBeCloseTo(90, -1);
        expect(held.abandonedMs! / 1000, 'not later than it could send').toBeCloseTo(90, -1);
        await registry.releaseGroup(group!, held.fence, written);
      }
      await registry.publish(publication(await hold(), { rateLog: {}, releases: true }));
      const counting = await hold();
      expect(counting.uncountedMs / 1000).toBeCloseTo(90, -1);
      await registry.publish(publication(counting, { rateLog: {}, countsVanished: true, releases: true }));
      expect(await hold()).toMatchObject({ abandonedMs: null, uncountedMs: 0 });

      const error = { code: 'throttled', message: 'x' } as const;
      await vanish();
      await registry.postpone(group!, (await hold()).fence, 0, { rateLog: undefined, error });
      const again = await hold();
      expect(again.rateLog, 'the log stays').toEqual({});
      expect(again.abandonedMs! / 1000).toBeCloseTo(90, -1);
      await registry.postpone(group!, again.fence, 0, { rateLog: {}, error });
      expect((await hold()).abandonedMs).toBeNull();
    });

    it('whose limits are used up is given back until they are free, by its holder alone', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url, 'a', 'env:ONE');
      const later = await addCell(url, 'b', 'env:ONE');
      await dueSince(url, later, -10);
      const [group] = await dueIds(registry);
      const first = (await registry.holdGroup(group!, 'w1'))!;
      const second = (await registry.holdGroup(group!, 'w2'))!;
      const error = { code: 'throttled', message: 'the limits count as used up' } as const;
      await registry.postpone(group!, first.fence, 45_000, { rateLog: { starts: [1] }, error });
      expect(await dueIds(registry)).toEqual([group]);
      await registry.postpone(group!, second.fence, 45_000, { rateLog: { starts: [2] }, error });
      expect(await dueIds(registry)).toEqual([]);
      const statusOf = async (): Promise<object> => {
        const [{ health, ...cell }] = (await registry.overview({ cells: ['a'] })) as [CellOverview];
        return { health, problem: problemOf({ health, ...cell }) };
      };
      expect(await statusOf()).toEqual({ health: 'new', problem: `no run yet: ${error.message}` });
      const rows = await server.execute(
        url,
        'SELECT name, round(extract(epoch FROM due_at - now())) AS due FROM tidemark.cells ORDER BY name',
      );
      expect(rows).toMatchObject([{ name: 'a' }, { name: 'b' }]);
      expect(Number(rows[0]!['due']) / 10).toBeCloseTo(4.5, 0);
      expect(Number(rows[1]!['due'])).toBeGreaterThan(500);
      const third = (await registry.holdGroup(group!, 'w1'))!;
      expect(third).toMatchObject({ rateLog: { starts: [2] }, abandonedMs: null, cells: [] });
      await server.execute(url, 'UPDATE tidemark.cells SET due_at = now()');
      const fourth = (await registry.holdGroup(group!, 'w1'))!;
      await registry.postpone(group!, fourth.fence, 1_200_000, { rateLog: {}, error });
      const late = { health: 'late', problem: 'waits another 20 min: the limits count as used up' };
      // A limit is nothing to act on before two hours, also where no run has met it, as after the registry was lost.
      expect(await statusOf()).toEqual({ health: 'new', problem: `no run yet: ${error.message}` });
      const configured = (age: string) =>
        server.execute(url, `UPDATE tidemark.cells SET changed_at = now() - interval '${age}'`);
      await configured('101 minutes');
      expect(await statusOf()).toEqual(late);
      await configured('1 minute');
      // That a holder vanished is.
      await server.execute(url, 'UPDATE tidemark.cells SET due_at = now()');
      const fifth = (await registry.holdGroup(group!, 'w1'))!;
      const vanished = { code: 'interrupted', message: error.message } as const;
      await registry.postpone(group!, fifth.fence, 1_200_000, { rateLog: {}, error: vanished });
      expect(await statusOf()).toEqual(late);
      await server.execute(url, "UPDATE tidemark.cells SET due_at = now() WHERE name = 'a'");
      const asked = publication((await registry.holdGroup(group!, 'w1'))!, {
        runs: [run(1, { outcome: 'failed', root: null, errorCode: 'throttled' })],
        error: { ...error, waits: true },
        dueInMs: 1_200_000,
        releases: true,
      });
      expect(await registry.publish(asked)).toMatchObject({ failures: 0 });
      expect(await statusOf()).toEqual({ health: 'new', problem: `no run yet: ${error.message}` });
      const begun = (minutes: number) =>
        server.execute(url, `UPDATE tidemark.runs SET published_at = now() - interval '${minutes} minutes'`);
      await begun(99);
      expect(await statusOf()).toMatchObject({ health: 'new' });
      await begun(101);
      expect(await statusOf()).toEqual(late);
      await begun(0);
      const dueIn = (minutes: number) =>
        server.execute(
          url,
          `UPDATE tidemark.cells SET due_at = now() + interval '${minutes} minutes' WHERE name = 'a'`,
        );
      await dueIn(121);
      expect(await statusOf()).toMatchObject({ health: 'late' });
      // From the end of the wait on, as any other.
      await dueIn(-14);
      expect(await statusOf()).toMatchObject({ health: 'new' });
      await dueIn(-16);
      expect(await statusOf()).toEqual({ health: 'late', problem: 'due for 16 min' });
    });

    it('whose run was cut short by a limit is partial, waits, and says what to do', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url, 'a', 'env:ONE');
      const [group] = await dueIds(registry);
      const cut = publication((await registry.holdGroup(group!, 'w1'))!, {
        runs: [run(1, { outcome: 'partial', errorCode: 'throttled', error: 'roles: a wait of 3601 s' })],
        error: { code: 'throttled', message: 'used up until 11:00: raise it', waits: true },
        stored: { key: 'a', run: 1 },
        dueInMs: 3_600_000,
        releases: true,
      });
      expect(await registry.publish(cut)).toMatchObject({ failures: 0 });
      const [cell] = (await registry.overview({ cells: ['a'] })) as [CellOverview];
      expect(cell).toMatchObject({ health: 'partial', lastOutcome: 'partial' });
      expect(problemOf(cell)).toBe('the last run was partial: used up until 11:00: raise it');
    });

    it('has a rate log whose ages are as of when they were taken, however long it waited to be written', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      const [row] = await server.execute(url, 'SELECT extract(epoch FROM now()) * 1000 AS now');
      const rateLog = { at: Number(row!['now']) - 20_000, ages: {}, paces: {} };
      const agesOf = async (): Promise<number> => {
        const held = (await registry.holdGroup(group!, 'w1'))!;
        return held.rateLogAgeMs / 1000;
      };
      const held = (await registry.holdGroup(group!, 'w1'))!;
      await registry.postpone(group!, held.fence, 0, { rateLog, error: { code: 'throttled', message: 'x' } });
      expect(await agesOf()).toBeCloseTo(20, -1);
      const again = (await registry.holdGroup(group!, 'w1'))!;
      await registry.publish(publication(again, { rateLog, releases: true }));
      expect(await agesOf()).toBeGreaterThan(19);
      // A clock that is ahead makes nothing of the future.
      const last = (await registry.holdGroup(group!, 'w1'))!;
      const ahead = { ...rateLog, at: rateLog.at + 3_600_000 };
      await registry.releaseGroup(group!, last.fence, { rateLog: ahead });
      expect(await agesOf()).toBeGreaterThanOrEqual(0);
    });

    it('whose cells are not due is held without one, and one that is gone is not', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      const cell = await addCell(url);
      const [group] = await dueIds(registry);
      await dueSince(url, cell, -17);
      expect(await registry.dueGroups(1)).toEqual([]);
      expect(await registry.holdGroup(group!, 'w1')).toMatchObject({ fence: 1, cells: [] });
      expect(await registry.holdGroup(4711, 'w1')).toBeNull();
    });

    it('that somebody took meanwhile takes nothing from who had it before', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      const frozen = (await registry.holdGroup(group!, 'w1'))!;
      const later = (await registry.holdGroup(group!, 'w2'))!;
      const late = publication(frozen, {
        runs: [run(1)],
        records: { run: 1, isWhole: true, present: [record('r1')], removed: [] },
        findings: { total: 0, listed: [] },
        mirror: { run: 1, root: 'aa', version: 1, recordCount: 1 },
      });
      expect(await registry.publish(late)).toBeNull();
      await registry.releaseGroup(group!, frozen.fence, { rateLog: { stale: true } });
      const tables = ['runs', 'records', 'findings', 'changes'];
      for (const table of tables)
        expect(await server.execute(url, `SELECT FROM tidemark.${table}`)).toEqual([]);
      expect(await server.execute(url, 'SELECT holder, rate_log FROM tidemark.groups')).toEqual([
        { holder: 'w2', rate_log: null },
      ]);
      expect(await registry.publish(publication(later, { runs: [run(1)] }))).toMatchObject({
        state: 'active',
      });
      expect(await cellOf(registry, 'cell-1')).not.toMatchObject({ root: 'aa' });
    });

    it('is raced for by a publication and a new holder, and one of them waits', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      for (let round = 1; round <= 20; round += 1) {
        const held = (await registry.holdGroup(group!, 'w1'))!;
        const cell = (await server.execute(url, 'SELECT id FROM tidemark.cells'))[0]?.['id'];
        const late = publication(held, {
          cell: Number(cell),
          runs: [run(round)],
          worker: `at ${held.fence}`,
        });
        const [published] = await Promise.all([registry.publish(late), registry.holdGroup(group!, 'w2')]);
        const [row] = await server.execute(url, `SELECT fence FROM tidemark.runs WHERE run = ${round}`);
        expect(row === undefined).toBe(published === null);
      }
    });
  });

  describe('a publication', () => {
    async function held(): Promise<{ url: Secret; registry: Registry; group: HeldGroup }> {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url);
      const [group] = await dueIds(registry);
      return { url, registry, group: (await registry.holdGroup(group!, 'w1'))! };
    }

    it('has runs, findings, records, changes and the cell, and once only', async () => {
      const { url, registry, group } = await held();
      const key: CellRecordKey = { kind: 'roles', scope: '', id: 'r1' };
      const changed: CellChange = {
        ...key,
        run: 2,
        name: 'Role r1',
        change: 'changed',
        paths: ['/name'],
      };
      const all = publication(group, {
        runs: [run(1), run(2, { outcome: 'partial', added: 1 })],
        mirror: { run: 2, root: 'cd'.repeat(32), version: 3, recordCount: 241 },
        stored: { key: 'cells/a/2.zst', run: 2 },
        findings: {
          total: 7,
          listed: [
            {
              kind: 'roles',
              scope: 'organization_id=o1',
              id: 'r1',
              path: '/name',
              name: 'Role r1',
              change: 'changed',
              severity: 'high',
              otherKeys: [],
              before: '"a"',
              after: '"b"',
            },
          ],
        },
        records: { run: 2, isWhole: false, present: [record('r1'), record('r2')], removed: [record('r0')] },
        changes: [changed],
      });
      expect(await registry.publish(all)).toEqual({
        state: 'active',
        failures: 0,
        isNewlyQuarantined: false,
        isReleased: false,
      });
      // An answer that was lost: the same again.
      expect(await registry.publish(all)).toMatchObject({ state: 'active' });
      const ask = async (query: string) => server.execute(url, query);
      expect(await ask('SELECT run, outcome, worker, fence::int FROM tidemark.runs ORDER BY run')).toEqual([
        { run: 1, outcome: 'complete', worker: 'w1', fence: 1 },
        { run: 2, outcome: 'partial', worker: 'w1', fence: 1 },
      ]);
      expect(await ask('SELECT remote_id, body FROM tidemark.records ORDER BY 1')).toEqual([
        { remote_id: 'r1', body: { id: 'r1' } },
        { remote_id: 'r2', body: { id: 'r2' } },
      ]);
      expect(await ask('SELECT path, before, after FROM tidemark.findings')).toEqual([
        { path: '/name', before: null, after: null },
      ]);
      expect(await ask('SELECT run, paths FROM tidemark.changes')).toEqual([{ run: 2, paths: ['/name'] }]);
      expect(await cellOf(registry, group.cells[0]!.name)).toMatchObject({
        root: 'cd'.repeat(32),
        lastRun: 2,
        projectedRun: 2,
        storedKey: 'cells/a/2.zst',
        storedRun: 2,
        mirrorVersion: 3,
      });
      expect(
        await ask(
          "SELECT record_count::int, finding_count, last_outcome, due_at > now() + interval '59 minutes' AS later FROM tidemark.cells",
        ),
      ).toEqual([{ record_count: 241, finding_count: 7, last_outcome: 'partial', later: true }]);
    });

    it('keeps since when a finding is open, shows values where the cell allows it, and drops what is gone', async () => {
      const { url, registry, group } = await held();
      const finding = (path: string): ProjectedFinding => ({
        kind: 'roles',
        scope: '',
        id: 'r1',
        path,
        name: 'R',
        change: 'changed',
        severity: 'low',
        otherKeys: [],
        before: '1.0',
        after: '12345678901234567890',
      });
      await registry.publish(
        publication(group, { findings: { total: 2, listed: [finding('/a'), finding('/b')] } }),
      );
      await server.execute(
        url,
        `UPDATE tidemark.findings SET since = '2026-01-01T00:00Z'; UPDATE tidemark.cells SET shows_values = true`,
      );
      const long = `/${'x'.repeat(20_000)}`;
      await registry.publish(
        publication(group, {
          findings: {
            total: 2,
            // A restore created the record again.
            listed: [{ ...finding('/b'), id: 'r9', otherKeys: [finding('/b')] }, finding(long)],
          },
        }),
      );
      const rows = await server.execute(
        url,
        'SELECT path, since, before::text, after::text FROM tidemark.findings ORDER BY since',
      );
      expect(rows).toEqual([
        { path: '/b', since: new Date('2026-01-01T00:00Z'), before: '1.0', after: '12345678901234567890' },
        { path: long, since: expect.any(Date) as Date, before: '1.0', after: '12345678901234567890' },
      ]);
      await registry.publish(publication(group));
      expect(await server.execute(url, 'SELECT FROM tidemark.findings')).toHaveLength(2);
      await registry.publish(publication(group, { findings: { total: 0, listed: [] } }));
      expect(await server.execute(url, 'SELECT FROM tidemark.findings')).toEqual([]);
    });

    it('takes what PostgreSQL does not, in names, ids and bodies', async () => {
      const { url, registry, group } = await held();
      const odd = record('n\u0000ul \ud800', {
        name: '\\u0000 stays, \u0000 does not',
        body: '{"a":"\\u0000","b":"\\\\u0000","c":"\\ud83d\\ude00","d":"\\udc00","e":12345678901234567890.10}',
      });
      const long = record('i'.repeat(9000));
      await registry.publish(
        publication(group, { records: { run: 1, isWhole: true, present: [odd, long], removed: [] } }),
      );
      const rows = await server.execute(
        url,
        'SELECT remote_id AS id, name, body::text FROM tidemark.records ORDER BY 1 DESC',
      );
      expect(rows[0]).toEqual({
        id: 'n\ufffdul \ufffd',
        name: '\\u0000 stays, \ufffd does not',
        body: '{"a": "\ufffd", "b": "\\\\u0000", "c": "😀", "d": "\ufffd", "e": 12345678901234567890.10}',
      });
      expect(String(rows[1]?.['id'])).toMatch(/^i{435}…[0-9a-f]{64}$/);
    });

    it('has numbers beyond what PostgreSQL holds as texts, and fails for none', async () => {
      const { url, registry, group } = await held();
      const digits = '1'.repeat(200_000);
      const texts = [
        ...['1e131071', '1e200000', '-2.5E-17000', '1e-16300', '1e99999999999999999999', '0e999999', digits],
        ...[`0.${digits}`, '1.5e300', '-0', '12345678901234567890.10'],
      ];
      // In strings and names nothing changes, whatever they look like.
      const body = `{"numbers":[${texts.join(', ')}],"text":"\\"1e200000","1e200000":"1e200000"}`;
      await registry.publish(
        publication(group, {
          records: { run: 1, isWhole: true, present: [record('r1', { body })], removed: [] },
        }),
      );
      const rows = await server.execute(
        url,
        `SELECT n #>> '{}' AS value, jsonb_typeof(n) AS type, body->>'text' AS text, body->>'1e200000' AS key FROM tidemark.records, jsonb_array_elements(body->'numbers') n`,
      );
      expect(rows.map(({ type }) => type).join(' ')).toBe(
        'string string string string string string string string number number number',
      );
      expect(rows.slice(0, 8).map(({ value }) => value)).toEqual(texts.slice(0, 8));
      expect(rows[0]).toMatchObject({ text: '"1e200000', key: '1e200000' });
    });

    it('without records leaves a cell whose records are not shown', async () => {
      const { registry, group } = await held();
      const shown = async () => (await registry.overview()).map(({ isProjected }) => isProjected);
      expect(await shown()).toEqual([true]);
      await registry.publish(publication(group, { runs: [run(1)] }));
      expect(await shown()).toEqual([false]);
      const records = { run: 1, isWhole: true, present: [], removed: [] };
      await registry.publish(publication(group, { records }));
      expect(await shown()).toEqual([true]);
      await registry.publish(publication(group, { runs: [run(2, { outcome: 'failed', root: null })] }));
      expect(await shown()).toEqual([true]);
    });

    it('replaces a projection of any size, in one transaction', async () => {
      const { url, registry, group } = await held();
      const many = (total: number) => Array.from({ length: total }, (_each, index) => record(`r${index}`));
      const projection = (total: number, isWhole: boolean) => ({
        run: 1,
        isWhole,
        present: many(total),
        removed: [],
      });
      await registry.publish(publication(group, { records: projection(3500, false) }));
      expect(await server.execute(url, 'SELECT count(*)::int AS n FROM tidemark.records')).toEqual([
        { n: 3500 },
      ]);
      await registry.publish(publication(group, { records: projection(12, true) }));
      expect(await server.execute(url, 'SELECT count(*)::int AS n FROM tidemark.records')).toEqual([
        { n: 12 },
      ]);
      function* broken(): Generator<ProjectedRecord> {
        yield* many(2500);
        throw new Error('the mirror broke');
      }
      const breaking = publication(group, {
        records: { run: 2, isWhole: true, present: broken(), removed: [] },
      });
      await expect(registry.publish(breaking)).rejects.toThrow('the mirror broke');
      expect(await server.execute(url, 'SELECT count(*)::int AS n FROM tidemark.records')).toEqual([
        { n: 12 },
      ]);
    });
  });

  it('has a cell that was configured while a worker had it due at once, not by what the worker knew', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url);
    const due = async () =>
      (await registry.overview()).map(({ overdueMs }) => Math.round((overdueMs ?? 0) / 60_000));
    const [group] = await dueIds(registry);
    const held = (await registry.holdGroup(group!, 'w1'))!;
    await registry.publish(publication(held, { runs: [run(1)] }));
    expect(await due()).toEqual([-60]);
    await server.execute(url, 'UPDATE tidemark.cells SET changed_at = now(), due_at = now()');
    await registry.publish(publication(held, { runs: [run(2)] }));
    expect(await due()).toEqual([0]);
  });

  it('has a cell that storage lacks as fine while that is no harm, and else not', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    const cell = await addCell(url);
    const worker = { name: 'w1', host: 'here', version: '1' };
    await registry.join(worker);
    const held = (await registry.holdGroup((await dueIds(registry))[0]!, 'w1'))!;
    const state = async () => {
      const [{ health, isStored }] = (await registry.overview()) as [CellOverview];
      return { health, isStored };
    };
    // What a worker may remove from its cache: not of a cell without a run, which may have had some in a registry that was lost.
    const isInStorage = async () => {
      const [{ name }] = (await registry.overview()) as [CellOverview];
      return (await registry.placesOf([name])).map(({ isStored }) => isStored);
    };
    expect(await isInStorage()).toEqual([false]);
    await registry.publish(publication(held, { runs: [run(1)], releases: true }));
    expect(await isInStorage()).toEqual([false]);
    expect(await state()).toEqual({ health: 'fine', isStored: false });
    // Another worker, which does not have it, leaves it to this one.
    const lacks = (seconds: number) =>
      server.execute(
        url,
        `UPDATE tidemark.cells SET due_at = now() - interval '${seconds} s', error_code = 'mirror_missing', error = 'storage lacks it'`,
      );
    await lacks(60);
    expect(await state()).toEqual({ health: 'fine', isStored: false });
    await lacks(130);
    expect(await state()).toEqual({ health: 'late', isStored: false });
    const published = (interval: string) =>
      server.execute(url, `UPDATE tidemark.runs SET published_at = now() - interval '${interval}'`);
    await published('61 minutes');
    expect(await state()).toEqual({ health: 'not_stored', isStored: false });
    await published('1 minute');
    await dueSince(url, cell, -1);
    expect(await state()).toEqual({ health: 'fine', isStored: false });
    await server.execute(url, `UPDATE tidemark.workers SET seen_at = now() - interval '3 minutes'`);
    expect((await registry.workers()).map(({ isAlive }) => isAlive)).toEqual([false]);
    expect(await state()).toEqual({ health: 'not_stored', isStored: false });
    await registry.heartbeat(worker, 30_000);
    expect((await registry.workers()).map(({ isAlive }) => isAlive)).toEqual([true]);
    expect(await state()).toEqual({ health: 'fine', isStored: false });
    await registry.publish(publication(held, { stored: { key: 'k', run: 1 } }));
    expect(await state()).toEqual({ health: 'fine', isStored: true });
    expect(await isInStorage()).toEqual([true]);
    // It was stored, and a worker finds that it is there no more.
    await lacks(1);
    expect(await state()).toEqual({ health: 'not_stored', isStored: false });
    await registry.publish(publication(held, { runs: [run(2)], stored: { key: 'k2', run: 2 } }));
    expect(await state()).toEqual({ health: 'fine', isStored: true });
  });

  it('notes what keeps a worker from a cell at that cell, and from a group at all of it', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    const first = await addCell(url, 'a', 'env:ONE');
    await addCell(url, 'b', 'env:ONE');
    const [group] = await dueIds(registry);
    const notes = async () => (await registry.overview()).map(({ name, error }) => ({ name, error }));
    await registry.noteUnworked(group!, { code: 'mirror_missing', message: 'storage lacks it' }, first);
    expect(await notes()).toEqual([
      { name: 'a', error: 'storage lacks it' },
      { name: 'b', error: null },
    ]);
    await registry.noteUnworked(group!, { code: 'config_invalid', message: 'no key' });
    expect(await notes()).toEqual([
      { name: 'a', error: 'no key' },
      { name: 'b', error: 'no key' },
    ]);
    await server.execute(
      url,
      `UPDATE tidemark.cells SET failures = 2, error = 'refused', error_code = 'unauthorized' WHERE name = 'a'`,
    );
    for (const message of ['no key', 'the storage does not exist'])
      await registry.noteUnworked(group!, { code: 'mirror_missing', message });
    const [failing] = await registry.overview();
    expect(failing).toMatchObject({
      errorCode: 'unauthorized',
      error: 'refused; since then left to other workers: the storage does not exist',
    });
  });

  it('asks for a baseline until a publication says that it is set, or cannot be', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url);
    const known = async () => {
      const [{ name, baseline, baselineRun, baselineOrder, baselineError, overdueMs }] =
        (await registry.overview()) as [CellOverview];
      const minutes = Math.round((overdueMs ?? 0) / 60_000);
      return { name, baseline, baselineRun, order: baselineOrder?.name ?? null, baselineError, minutes };
    };
    const { name } = await known();
    const ask = (snapshot: string) =>
      registry.orderBaseline([name], { name: snapshot, time: null, by: 'somebody' });
    // There is nothing to pin yet.
    await ask('good');
    expect(await known()).toMatchObject({ order: null });
    const [group] = await dueIds(registry);
    const first = (await registry.holdGroup(group!, 'w1'))!;
    await registry.publish(publication(first, { runs: [run(1)], baseline: null }));
    expect(await known()).toMatchObject({ baseline: null, minutes: -60 });
    await ask('good');
    expect(await known()).toMatchObject({ order: 'good', minutes: 0 });
    const held = (await registry.holdGroup(group!, 'w1'))!;
    expect(held.cells[0]?.baselineOrder).toEqual({ name: 'good', run: 1, time: null, by: 'somebody' });
    // Another one is asked for while a worker sets this one: the cell is due with it at once.
    await ask('better');
    const set = { baseline: { name: 'good', run: 1 }, baselineDone: { error: null } };
    await registry.publish(publication(held, set));
    expect(await known()).toMatchObject({ baseline: 'good', baselineRun: 1, order: 'better', minutes: 0 });
    const again = (await registry.holdGroup(group!, 'w1'))!;
    await registry.publish(publication(again, { baselineDone: null }));
    expect(await known()).toMatchObject({ baseline: 'good', order: 'better', minutes: -60 });
    await registry.publish(publication(again, { baselineDone: { error: 'it cannot be' } }));
    expect(await known()).toMatchObject({ baseline: 'good', order: null, baselineError: 'it cannot be' });
  });

  describe('a cell that fails', () => {
    it('five times is quarantined, told once, retried hourly, and released by a job that does not', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      const cell = await addCell(url);
      const [group] = await dueIds(registry);
      const fail = async () => {
        await dueSince(url, cell, 0);
        const held = (await registry.holdGroup(group!, 'w1'))!;
        return registry.publish(
          publication(held, {
            cell,
            error: { code: 'unauthorized', message: 'the key was refused' },
            dueInMs: 60_000,
          }),
        );
      };
      for (let times = 1; times <= 4; times += 1)
        expect(await fail()).toEqual({
          state: 'active',
          failures: times,
          isNewlyQuarantined: false,
          isReleased: false,
        });
      expect(await fail()).toMatchObject({ state: 'quarantined', failures: 5, isNewlyQuarantined: true });
      const due = await server.execute(
        url,
        `SELECT due_at > now() + interval '59 minutes' AS later, error_code FROM tidemark.cells`,
      );
      expect(due).toEqual([{ later: true, error_code: 'unauthorized' }]);
      expect(await fail()).toMatchObject({ state: 'quarantined', failures: 6, isNewlyQuarantined: false });
      // Whoever mended the cause need not wait for that hour.
      const { name } = (await registry.overview())[0]!;
      await registry.releaseGroup(group!, (await registry.holdGroup(group!, 'w1'))!.fence);
      await registry.checkout(name, 'ann');
      await registry.checkin(name);
      expect(await dueIds(registry)).toEqual([group]);
      const held = (await registry.holdGroup(group!, 'w1'))!;
      const failedRun = publication(held, {
        runs: [run(1, { outcome: 'failed', errorCode: 'unreachable' })],
      });
      expect(await registry.publish(failedRun)).toMatchObject({ failures: 7 });
      // Nothing was due: that is no success.
      expect(await registry.publish(publication(held, { runs: [] }))).toEqual({
        state: 'quarantined',
        failures: 7,
        isNewlyQuarantined: false,
        isReleased: false,
      });
      expect(await server.execute(url, `SELECT error_code FROM tidemark.cells`)).toEqual([
        { error_code: 'unreachable' },
      ]);
      expect(await registry.publish(publication(held, { runs: [run(2)] }))).toEqual({
        state: 'active',
        failures: 0,
        isNewlyQuarantined: false,
        isReleased: true,
      });
      expect(await server.execute(url, `SELECT quarantined_at, error_code FROM tidemark.cells`)).toEqual([
        { quarantined_at: null, error_code: null },
      ]);
    });
  });

  it('takes findings that are not known any more away, and no later failure brings them back', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url, 'a');
    const [group] = await dueIds(registry);
    const held = (await registry.holdGroup(group!, 'w1'))!;
    const found: ProjectedFinding = {
      ...{ kind: 'roles', scope: 'organization_id=o1', id: 'r1', path: '/name', name: 'One' },
      ...{ change: 'changed', severity: 'high', otherKeys: [] },
    };
    const shown = async (): Promise<unknown[]> => {
      const [cell] = await registry.overview({});
      return [cell?.findings, (await registry.findings({ severities: ['high'], limit: 9 })).rows.length];
    };
    await registry.publish(publication(held, { findings: { total: 1, listed: [found] } }));
    expect(await shown()).toEqual([1, 1]);
    await registry.publish(publication(held, { error: { code: 'timeout', message: 'away' } }));
    expect(await shown()).toEqual([1, 1]);
    const refusal = { code: 'mirror_corrupt', message: 'the baseline was altered', isRefusal: true } as const;
    const unknown = { total: null, listed: [] };
    await registry.publish(publication(held, { runs: [run(1)], error: refusal, findings: unknown }));
    expect(await shown()).toEqual([null, 0]);
    await registry.publish(publication(held, { error: { code: 'timeout', message: 'away' } }));
    expect(await shown()).toEqual([null, 0]);
  });

  it('is not put into quarantine for what another program altered, and shown as failing', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url, 'a');
    const [group] = await dueIds(registry);
    const held = (await registry.holdGroup(group!, 'w1'))!;
    const refusal = { code: 'mirror_corrupt', message: 'the baseline was altered', isRefusal: true } as const;
    for (let times = 1; times <= 6; times += 1)
      expect(await registry.publish(publication(held, { runs: [run(times)], error: refusal }))).toMatchObject(
        {
          state: 'active',
          failures: 1,
        },
      );
    expect((await registry.overview({}))[0]).toMatchObject({
      health: 'failing',
      errorCode: 'mirror_corrupt',
    });
    // Of a run that failed nothing was done: that counts.
    const failed = run(7, { outcome: 'failed', errorCode: 'unreachable' });
    expect(await registry.publish(publication(held, { runs: [failed], error: refusal }))).toMatchObject({
      failures: 2,
    });
    // Nothing was due since: that is no success.
    expect(await registry.publish(publication(held, { error: refusal }))).toMatchObject({ failures: 2 });
  });

  describe('a checkout', () => {
    it('keeps workers from the whole group, and gives it back due', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url, 'a', 'env:SAME');
      await addCell(url, 'b', 'env:SAME');
      const [group] = await dueIds(registry);
      await registry.join({ name: 'w1', host: 'here', version: '1' });
      const working = (await registry.holdGroup(group!, 'w1'))!;
      expect(await rejection(registry.checkout('a', 'ann'))).toMatchObject({
        code: 'cell_held',
        message: 'worker w1 is working on a',
      });
      const taken = await registry.checkout('a', 'ann', { isForced: true });
      expect(taken).toMatchObject({ fence: 2, cells: [{ name: 'a' }] });
      expect(await registry.publish(publication(working, { runs: [run(1)] }))).toBeNull();
      expect(await registry.dueGroups(1)).toEqual([]);
      expect(await registry.holdGroup(group!, 'w1')).toBeNull();
      expect(await rejection(registry.checkout('b', 'bob'))).toMatchObject({
        message: 'b shares its key with a, which is checked out by ann',
      });
      expect(await registry.checkedOut('a')).toMatchObject({ fence: 2, holder: 'ann' });
      expect(await registry.publish(publication(taken, { runs: [run(1)] }))).toMatchObject({
        state: 'checked_out',
      });
      await registry.checkin('a');
      expect(await registry.publish(publication(taken, { runs: [run(2)] }))).toBeNull();
      expect(await dueIds(registry)).toEqual([group]);
      for (const ask of [registry.checkin('a'), registry.checkedOut('a')])
        expect(await rejection(ask)).toMatchObject({ code: 'usage', message: 'a is not checked out' });
      expect(await rejection(registry.checkout('x', 'ann'))).toMatchObject({ message: 'there is no cell x' });
    });

    it('passes over a worker that is gone, and leaves what that may have sent to the next one', async () => {
      const url = await server.migrated();
      const registry = await openedRegistry(url);
      await addCell(url, 'a');
      const [group] = await dueIds(registry);
      await registry.join({ name: 'w1', host: 'here', version: '1' });
      await registry.holdGroup(group!, 'w1');
      await server.execute(
        url,
        `UPDATE tidemark.workers SET seen_at = now() - interval '10 minutes'; UPDATE tidemark.groups SET held_at = now() - interval '11 minutes'`,
      );
      expect(await registry.checkout('a', 'ann')).toMatchObject({ fence: 2 });
      await registry.checkin('a');
      const next = (await registry.holdGroup(group!, 'w2'))!;
      expect(next.uncountedMs / 60_000).toBeCloseTo(11, 0);
      expect(next.abandonedMs! / 60_000).toBeCloseTo(0, 0);
    });
  });

  it('tells a worker to drain, until it starts again', async () => {
    const registry = await server.registry();
    const worker: WorkerDescription = { name: 'w1', host: 'here', version: '0.1.0' };
    await registry.join(worker);
    expect(await registry.heartbeat(worker, 30_000)).toMatchObject({ isDraining: false });
    expect(await registry.drain('w1')).toMatchObject({ isAlive: true });
    expect(await registry.drain('w2')).toBeNull();
    expect(await registry.heartbeat(worker, 30_000)).toMatchObject({ isDraining: true });
    await registry.join(worker);
    expect(await registry.heartbeat(worker, 30_000)).toMatchObject({ isDraining: false });
    await registry.leave('w1');
    expect(await registry.drain('w1')).toBeNull();
  });

  it('tells a worker that another one is silent, or died and came back, with a group in its hands', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url);
    const [w1, w2] = ['w1', 'w2'].map((name): WorkerDescription => ({ name, host: 'here', version: '1' }));
    for (const worker of [w1!, w2!]) await registry.join(worker);
    const isOtherSilent = async () => (await registry.heartbeat(w2!, 30_000)).isOtherSilent;
    const [group] = await dueIds(registry);
    await registry.holdGroup(group!, 'w1');
    expect(await isOtherSilent()).toBe(false);
    await server.execute(url, `UPDATE tidemark.groups SET held_at = now() - interval '31 s'`);
    expect(await isOtherSilent(), 'an earlier process of that name took it').toBe(true);
    await server.execute(
      url,
      `UPDATE tidemark.workers SET started_at = now() - interval '1 min' WHERE name = 'w1'`,
    );
    expect(await isOtherSilent()).toBe(false);
    await server.execute(
      url,
      `UPDATE tidemark.workers SET seen_at = now() - interval '31 s' WHERE name = 'w1'`,
    );
    expect(await isOtherSilent()).toBe(true);
    await server.execute(url, 'UPDATE tidemark.groups SET holder = NULL');
    expect(await isOtherSilent()).toBe(false);
  });

  it('forgets workers that were killed long ago and hold nothing', async () => {
    const url = await server.migrated();
    const registry = await openedRegistry(url);
    await addCell(url);
    const [group] = await dueIds(registry);
    for (const name of ['holds', 'gone', 'new']) await registry.join({ name, host: 'here', version: '1' });
    await registry.holdGroup(group!, 'holds');
    await server.execute(
      url,
      `UPDATE tidemark.workers SET seen_at = now() - interval '2 days' WHERE name <> 'new'`,
    );
    await registry.join({ name: 'next', host: 'here', version: '1' });
    expect((await registry.workers()).map(({ name }) => name)).toEqual(['holds', 'new', 'next']);
  });
});
