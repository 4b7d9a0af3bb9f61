/** `fleet apply` and the commands that look, through the command line and a real PostgreSQL. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CellDeclaration, readCells } from '../../src/config/cells.ts';
import { asTidemarkError } from '../../src/core/errors.ts';
import type { Secret } from '../../src/core/secret.ts';
import { checkRetirements, planCells } from '../../src/fleet/cells-plan.ts';
import { type Ended, scratch, tidemark } from '../journeys/harness.ts';
import { POSTGRES, PostgresServer, WITHOUT_POSTGRES, openedRegistry } from './postgres.ts';

const directory = mkdtempSync(join(tmpdir(), 'fleet-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function write(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

function mistakesOf(name: string, content: string): string {
  try {
    readCells(write(name, content));
  } catch (error) {
    const { code, message } = asTidemarkError(error);
    return `${code} ${message}`;
  }
  return 'none';
}

describe('a file of cells', () => {
  it('says what each cell is, with the defaults of the file', () => {
    const path = write(
      'cells.yaml',
      `defaults: { address: "https://eu.example.com/", profile: posthog, source: { pageSize: 50 } }
cells:
  - { name: acme, secret: env:ACME }
  - name: globex
    secret: file:/run/secrets/cells/globex
    organizations: [o1, 22]
    owner: platform
    schedule: "0  * * * *"
    values: true
    source: { kinds: { exclude: [session_recordings] } }
    retention: { keepDaily: 7 }
`,
    );
    expect(readCells(path)).toEqual([
      {
        name: 'acme',
        address: 'https://eu.example.com',
        profile: 'posthog',
        organizations: null,
        secret: 'env:ACME',
        owner: null,
        schedule: '*/30 * * * *',
        showsValues: false,
        document: { source: { pageSize: 50 } },
      },
      {
        name: 'globex',
        address: 'https://eu.example.com',
        profile: 'posthog',
        organizations: ['o1', '22'],
        secret: 'file:/run/secrets/cells/globex',
        owner: 'platform',
        schedule: '0 * * * *',
        showsValues: true,
        document: {
          source: { pageSize: 50, kinds: { exclude: ['session_recordings'] } },
          retention: { keepDaily: 7 },
        },
      },
    ]);
  });

  it('is the same as CSV, as spreadsheets write it', () => {
    const csv =
      '\ufeffName,address,organizations,owner,secret,values\r\na,https://x.example.com,"o1; o2","Team ""A"", one",env:A,TRUE\r\n\r\n';
    expect(readCells(write('cells.CSV', csv))).toMatchObject([
      {
        name: 'a',
        organizations: ['o1', 'o2'],
        owner: 'Team "A", one',
        secret: 'env:A',
        showsValues: true,
        document: {},
      },
    ]);
  });

  it('is refused with all its mistakes, their lines, and no key', () => {
    const text = `defaults: { adress: x }
cells:
  - { name: acme, address: "https://u:phx_pw@eu.example.com", secret: phx_key }
  - { name: Acme, secret: "\${ACME}", profile: posthgo }
  - { name: acme, address: ftp://x, secret: env:A, schedule: "99 * * * *", apiKey: phx_other }
  - { secret: env:B, address: "https://x.example.com", source: { pageSiz: 3, secrets: { a: phx_third } } }
`;
    const found = mistakesOf('bad.yaml', text);
    expect(found).toContain('config_invalid 14 mistakes in bad.yaml:');
    for (const line of [
      'bad.yaml:1: defaults.adress: unknown key',
      'bad.yaml:3: cells[0].secret: expected a reference to the key, env:NAME or file:/PATH, never the key itself',
      'bad.yaml:4: cells[1].profile: expected a profile that comes with Tidemark',
      'bad.yaml:5: cells[2].schedule: expected 0 to 59',
      'bad.yaml:5: cells[2].name: acme is a cell already, on line 3',
      'bad.yaml:6: cells[3].name: missing; expected the name of the cell',
    ])
      expect(found).toContain(line);
    expect(found).not.toContain('phx_');
  });

  it('with a misspelt section is one mistake, not one for each cell', () => {
    const cells = ['a', 'b', 'c'].map((name) => `  - { name: ${name} }\n`).join('');
    const text = `defualts: { address: "https://x.example.com", secret: env:KEY }\ncells:\n${cells}`;
    const found = mistakesOf('bad.yaml', text);
    expect(found).toContain(
      'bad.yaml:1: defualts: unknown key "defualts"; expected defaults, cells; did you mean defaults?',
    );
    expect(found).not.toContain('missing');
  });

  it.each([
    [
      'a column that is none',
      'name,adress,secret\na,https://x.example.com,env:A\n',
      'bad.csv:1: column 2 is none of',
    ],
    ['a column twice', 'name,name\na,b\n', 'bad.csv:1: name is a column twice'],
    [
      'a line that is too short',
      'name,address,secret\na\n',
      'bad.csv:2: expected 3 values, one for each column, got 1',
    ],
    [
      'a key',
      'name,address,secret\na,https://x.example.com,phx_key\n',
      'bad.csv:2: cells[0].secret: expected a reference',
    ],
    ['a key in place of a column', 'phx_key,address\na,b\n', 'bad.csv:1: column 1 is none of'],
    ['a quote that is not closed', 'name,address\n"a,b\n', 'a quote that is not closed'],
    [
      'a cell twice',
      'name,address,secret\na,https://x.example.com,env:A\na,https://x.example.com,env:A\n',
      'bad.csv:3: cells[1].name: a is a cell already, on line 2',
    ],
    ['no cell', 'name,address\n', 'expected cells'],
  ])('as CSV is refused for %s', (_name, text, expected) => {
    const found = mistakesOf('bad.csv', text);
    expect(found).toContain(expected);
    expect(found).not.toContain('phx_');
  });
});

const declaration = (name: string, more: Partial<CellDeclaration> = {}): CellDeclaration => ({
  name,
  address: 'https://svc.example.com',
  profile: 'svc',
  organizations: null,
  secret: `env:KEY_${name.toUpperCase()}`,
  owner: null,
  schedule: '*/30 * * * *',
  showsValues: false,
  document: {},
  ...more,
});

const declarations = fc
  .uniqueArray(fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), { minLength: 0, maxLength: 6 })
  .chain((names) =>
    fc.tuple(
      ...names.map((name) =>
        fc
          .record({
            address: fc.constantFrom('https://a.example.com', 'https://b.example.com/prefix'),
            organizations: fc.constantFrom(null, ['o1'], ['o2', 'o1']),
            secret: fc.constantFrom('env:ONE', 'env:TWO', 'file:/run/three'),
            owner: fc.constantFrom(null, 'it\'s "us" \\'),
            showsValues: fc.boolean(),
            document: fc.constantFrom(
              {},
              { source: { pageSize: 5, rate: { perMinute: 0 } } },
              { retention: { keepLast: 1 } },
            ),
          })
          .map((more) => declaration(name, more)),
      ),
    ),
  );

describe.skipIf(POSTGRES === null)(`fleet apply${WITHOUT_POSTGRES}`, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });

  it('of any file, after any other, leaves nothing to do, and what it planned', async () => {
    const url = await server.database();
    const registry = await openedRegistry(url);
    await fc.assert(
      fc.asyncProperty(declarations, async (declared) => {
        const before = await registry.registeredCells();
        const plan = planCells(declared, before);
        await registry.applyCells(declared, plan);
        const after = await registry.registeredCells();
        expect(planCells(declared, after).steps).toEqual([]);
        const active = after.filter(({ state }) => state === 'active').map(({ name }) => name);
        expect(active.sort()).toEqual(declared.map(({ name }) => name).sort());
        // Nothing is ever forgotten.
        for (const { name } of before) expect(after.some((cell) => cell.name === name)).toBe(true);
        const groups = await server.execute(
          url,
          `SELECT count(*)::int AS n FROM tidemark.cells c JOIN tidemark.groups g ON g.id = c.group_id
           WHERE g.secret <> c.secret OR c.address NOT LIKE g.origin || '%'`,
        );
        expect(groups).toEqual([{ n: 0 }]);
      }),
      { numRuns: 25 },
    );
  });

  it('of a thousand cells is one transaction of a few statements', async () => {
    const registry = await server.registry();
    const many = Array.from({ length: 1200 }, (_each, index) => declaration(`c${index}`));
    await registry.applyCells(many, planCells(many, []));
    expect(await registry.overview()).toHaveLength(1200);
    expect(await registry.dueGroups(2000)).toHaveLength(1200);
  });

  it('refuses a plan that the registry moved away from', async () => {
    const registry = await server.registry();
    const one = [declaration('a')];
    const plan = planCells(one, []);
    await registry.applyCells(one, plan);
    await expect(registry.applyCells(one, plan)).rejects.toMatchObject({ code: 'unsafe_plan' });
  });

  it('retires many cells only when that is asked for', () => {
    const registered = Array.from({ length: 40 }, (_each, index) => ({
      ...declaration(`c${index}`),
      state: 'active' as const,
      checkoutHolder: null,
    }));
    const retiring = (count: number) => planCells(registered.slice(count), registered);
    expect(() => checkRetirements(retiring(10), undefined)).not.toThrow();
    expect(() => checkRetirements(retiring(11), undefined)).toThrow(
      'retires 11 of 40 cells; the limit is 10',
    );
    expect(() => checkRetirements(retiring(11), 11)).not.toThrow();
    expect(() => checkRetirements(retiring(1), 0)).toThrow('the limit is 0');
  });

  it('leaves what was published of a retired cell but its projection, and goes on with it later', async () => {
    const url = await server.database();
    const registry = await openedRegistry(url);
    const one = [declaration('a')];
    await registry.applyCells(one, planCells(one, []));
    await server.execute(
      url,
      `INSERT INTO tidemark.records SELECT id, 'roles', '', 'r', 'R', NULL, '{}' FROM tidemark.cells;
       INSERT INTO tidemark.changes SELECT id, 1, 'roles', '', 'r', 'R', 'added', '[]' FROM tidemark.cells;
       UPDATE tidemark.cells SET last_run = 7, projected_run = 7, stored_key = 'k', stored_run = 7, root = 'ab', failures = 2, error_code = 'unauthorized', error = 'refused'`,
    );
    await registry.applyCells([], planCells([], await registry.registeredCells()));
    expect(await server.execute(url, 'SELECT FROM tidemark.records')).toEqual([]);
    expect(await server.execute(url, 'SELECT FROM tidemark.changes')).toHaveLength(1);
    expect(await registry.dueGroups(9)).toEqual([]);
    // What was wrong with it is over with it.
    expect(await registry.overview({ cells: ['a'] })).toMatchObject([
      { health: 'retired', failures: 0, errorCode: null, error: null },
    ]);
    const back = planCells(one, await registry.registeredCells());
    expect(back.steps).toMatchObject([{ action: 'return', name: 'a', fields: [] }]);
    await registry.applyCells(one, back);
    expect((await registry.registeredCells()).find(({ name }) => name === 'a')).toMatchObject({
      state: 'active',
      lastRun: 7,
      projectedRun: null,
      storedKey: 'k',
      root: 'ab',
    });
    expect(await registry.dueGroups(9)).toHaveLength(1);
  });

  describe('by the command line', () => {
    let url: Secret;
    let path: string;
    beforeAll(async () => {
      url = await server.database();
      path = write(
        'fleet.yaml',
        'cells:\n  - { name: acme, address: "https://a.example.com", secret: env:ACME }\n  - { name: globex, address: "https://a.example.com", secret: env:GLOBEX }\n',
      );
    });
    const storage = join(directory, 'storage');
    const run = async (...args: string[]): Promise<Ended> =>
      tidemark(['fleet', ...args], { cwd: directory, env: { TIDEMARK_FLEET_DATABASE: url.reveal() } });
    /** With a directory as storage. */
    const statusOfAcme = async (...args: string[]): Promise<Ended> =>
      tidemark(['fleet', 'status', '--cell', 'acme', ...args], {
        cwd: directory,
        env: { TIDEMARK_FLEET_DATABASE: url.reveal(), TIDEMARK_FLEET_STORAGE: storage },
      });

    it('shows the plan with 2, does it with --yes, then has nothing to do, and what is wrong ends with its code', async () => {
      expect(await run('status')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('fleet apply FILE') as string,
      });
      expect(await run('apply', path)).toMatchObject({
        code: 2,
        stdout: expect.stringContaining(
          '2 to add; 0 cells unchanged\nnothing was changed; add --yes to do this',
        ) as string,
        stderr: expect.stringContaining('has no tables yet: --yes creates them') as string,
      });
      expect(await server.execute(url, `SELECT FROM pg_namespace WHERE nspname LIKE 'tidemark%'`)).toEqual(
        [],
      );
      expect(await run('apply', path, '--yes')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('2 added; 0 cells unchanged') as string,
        stderr: expect.stringContaining('created the tables') as string,
      });
      for (const more of [[], ['--yes']])
        expect(await run('apply', path, ...more)).toEqual({
          code: 0,
          stdout: 'nothing to do: 2 cells unchanged\n',
          stderr: '',
        });
      expect(await run('apply', 'missing.yaml')).toMatchObject({ code: 4 });
      const twice = write(
        'twice.yaml',
        'cells:\n  - { name: acme, address: "https://a.example.com", secret: env:ACME }\n  - { name: copy, address: "https://a.example.com", secret: env:ACME }\n',
      );
      expect(await run('apply', twice)).toMatchObject({
        code: 2,
        stderr:
          'tidemark: acme and copy have the same address, key and organizations: their records are read and stored 2 times\n',
      });
      const status = await run('status', '--json');
      expect(status.code).toBe(1);
      expect(JSON.parse(status.stdout)).toMatchObject({
        schema: 'tidemark.fleet-status/1',
        cells: [
          { cell: 'acme', status: 'new', last_run: null },
          { cell: 'globex', status: 'new' },
        ],
        workers: [],
      });
      const changed = write(
        'changed.yaml',
        'cells:\n  - { name: acme, address: "https://a.example.com", secret: env:ACME2, organizations: [o1] }\n',
      );
      const plan = await run('apply', changed);
      expect(plan).toMatchObject({ code: 2 });
      expect(plan.stdout).toContain(
        '~ acme\n    organizations: all → ["o1"]\n    secret: env:ACME → env:ACME2\n- globex: no longer declared; its backups stay',
      );
      expect(await run('apply', changed, '--yes', '--max-retire', '0')).toMatchObject({ code: 6 });
      const registry = await openedRegistry(url);
      await registry.checkout('globex', 'ann');
      expect(await run('apply', changed, '--yes')).toMatchObject({
        code: 3,
        stdout: expect.stringContaining('! globex: checked out by ann') as string,
      });
      const cells = await registry.registeredCells();
      expect(cells.find(({ name }) => name === 'acme')?.secret).toBe('env:ACME2');
      expect(cells.find(({ name }) => name === 'globex')?.state).toBe('checked_out');
    });

    it('shows all cells with the worst first, runs, changes and drift', async () => {
      const registry = await openedRegistry(url);
      await server.execute(
        url,
        `UPDATE tidemark.groups SET holder = NULL, checked_out_cell = NULL; UPDATE tidemark.cells SET state = 'active', checkout_holder = NULL, due_at = now() + interval '1 hour';
         UPDATE tidemark.cells SET published_at = now(), last_run = 3, last_outcome = 'complete', finding_count = 1, record_count = 12;
         UPDATE tidemark.cells SET state = 'quarantined', failures = 5, error = 'the key was refused' WHERE name = 'globex';
         INSERT INTO tidemark.runs SELECT id, 3, 'partial', '2026-03-01T12:00Z', '2026-03-01T12:00:02Z', 34, 0, 1, 0, 0, 0, NULL, NULL, NULL, 'w1', 1, now() FROM tidemark.cells;
         INSERT INTO tidemark.changes SELECT id, 3, 'roles', '', 'r', 'Role R', 'changed', '["/name"]', now() - interval '2 hours' FROM tidemark.cells;
         INSERT INTO tidemark.changes SELECT id, 3, 'session_recordings', 'project_id=1', 's' || n, 'Session ' || n, CASE n % 10 WHEN 0 THEN 'changed' ELSE 'added' END, '[]', now() - interval '100 minutes' FROM tidemark.cells, generate_series(1, 40) n WHERE name = 'acme';
         INSERT INTO tidemark.changes SELECT id, 3, 'members', 'organization_id=o-2', 'm', 'Member M', 'added', '[]', now() - interval '2 hours' FROM tidemark.cells WHERE name = 'acme';
         INSERT INTO tidemark.records SELECT id, 'projects', 'organization_id=o-1', '1', 'Web', 'o-1', '{}' FROM tidemark.cells WHERE name = 'acme';
         INSERT INTO tidemark.records SELECT id, 'organizations', '', 'o-2', 'Second', 'o-2', '{}' FROM tidemark.cells WHERE name = 'acme';
         INSERT INTO tidemark.findings SELECT id, 'roles', '', 'r', '/name', 'Role R', 'changed', 'high', now(), NULL, NULL FROM tidemark.cells;`,
      );
      await registry.join({ name: 'w1', host: 'here', version: '1' });
      const status = await run('status');
      expect(status.code).toBe(3);
      expect(status.stdout).toMatch(/^2 cells: 1 quarantined, 1 fine; 24 records, 2 open findings: 2 high\n/);
      expect(status.stdout.indexOf('globex')).toBeLessThan(status.stdout.indexOf('acme'));
      expect(status.stderr).toContain('globex: quarantined, 5 failures in a row: the key was refused');
      expect((await run('status', '--failing')).stdout).not.toContain('acme');
      expect(await run('status', '--cell', 'acme')).toMatchObject({ code: 0 });
      // The disk of the storage is not mounted: the directory is missing, or empty.
      const away = { message: `the storage ${storage} does not exist` };
      const unmounted = await statusOfAcme('--json');
      expect(unmounted).toMatchObject({
        code: 3,
        stderr: `tidemark: ${away.message}: mount the disk that belongs there, or create the directory\n`,
      });
      expect(JSON.parse(unmounted.stdout)).toMatchObject({ storage_error: away });
      mkdirSync(storage);
      expect(await statusOfAcme()).toMatchObject({ code: 0 });
      await server.execute(url, 'UPDATE tidemark.cells SET stored_at = now()');
      expect(await statusOfAcme()).toMatchObject({
        code: 3,
        stderr: `tidemark: the storage ${storage} has none of the mirrors that were stored there: mount the disk that belongs there\n`,
      });
      // A run was published since: it is listed at once, although its status changes only after an hour.
      const runOf = (root: string): string => `UPDATE tidemark.runs SET root = ${root} WHERE run = 3`;
      await server.execute(url, runOf(`'${'0a'.repeat(32)}'`));
      const behind = await statusOfAcme('--failing');
      expect(behind).toMatchObject({
        code: 3,
        stdout: expect.stringMatching(
          /^1 cell: 1 fine \(1 not in storage\);[^]*\nacme +fine [^]*not in storage: only the worker/,
        ) as string,
      });
      expect(JSON.parse((await statusOfAcme('--failing', '--json')).stdout)).toMatchObject({
        cells: [{ cell: 'acme', status: 'fine' }],
      });
      await server.execute(url, runOf('NULL'));
      // What cannot be looked at is not missing: for root, who may look everywhere, along a link to itself.
      symlinkSync('cells', join(storage, 'cells'));
      expect(await statusOfAcme()).toMatchObject({ code: 0 });
      rmSync(join(storage, 'cells'));
      await server.execute(url, 'UPDATE tidemark.cells SET stored_at = NULL');
      expect(await run('status', '--cell', 'acm')).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('did you mean acme?') as string,
      });
      // A worker found that storage has lost a mirror.
      const found = `error_code = 'mirror_missing', error = 'storage lacks the newest mirror of acme', due_at = now()`;
      await server.execute(url, `UPDATE tidemark.cells SET ${found} WHERE name = 'acme'`);
      const lost = await run('status', '--cell', 'acme', '--failing');
      expect(lost).toMatchObject({
        code: 3,
        stdout: expect.stringMatching(/^1 cell: 1 not in storage;[^]*acme +not in storage/) as string,
        stderr: expect.stringContaining('acme: storage lacks the newest mirror of acme') as string,
      });
      await server.execute(
        url,
        `UPDATE tidemark.cells SET error_code = NULL, error = NULL, due_at = now() + interval '1 hour' WHERE name = 'acme'`,
      );
      // The newest run of acme says why it is partial.
      await server.execute(
        url,
        `UPDATE tidemark.cells SET last_outcome = 'partial' WHERE name = 'acme';
         UPDATE tidemark.runs SET error_code = 'removals_held', error = '13 removals of roles held'`,
      );
      const partial = await run('status', '--cell', 'acme');
      expect(partial.stderr).toContain('the last run was partial: 13 removals of roles held (to decide');
      expect(JSON.parse((await run('status', '--cell', 'acme', '--json')).stdout)).toMatchObject({
        cells: [
          { status: 'partial', failures: 0, error_code: 'removals_held', error: '13 removals of roles held' },
        ],
      });
      expect((await run('runs')).stdout).toContain('13 removals of roles held');
      // Nor are all changes known of it.
      const quiet = await run('changes', '--since', '1h', '--cell', 'acme');
      expect(quiet).toMatchObject({
        code: 0,
        stdout: 'no changes in what could be read\n',
        stderr: 'tidemark: run 3 of acme is partial, changes may be missing: 13 removals of roles held\n',
      });
      const missing = JSON.parse((await run('changes', '--cell', 'acme', '--json')).stdout) as object;
      expect(missing).toMatchObject({
        not_read: [
          {
            ...{ cell: 'acme', run: 3, outcome: 'partial', error_code: 'removals_held' },
            error: '13 removals of roles held',
          },
        ],
      });
      await server.execute(
        url,
        `UPDATE tidemark.runs SET error_code = NULL, error = NULL; UPDATE tidemark.cells SET last_outcome = 'complete'`,
      );
      // Runs whose records the registry does not show: the mirror of one is damaged, the other one is too large.
      await server.execute(
        url,
        `UPDATE tidemark.runs SET root = 'ab';
         UPDATE tidemark.cells SET record_count = 4241, error_code = 'mirror_corrupt', error = 'run 3 was altered', failures = 1 WHERE name = 'acme';
         UPDATE tidemark.cells SET record_count = 60000 WHERE name = 'globex'`,
      );
      const unlisted = await run('status');
      expect(unlisted.stdout).toContain('too many records to be listed in the registry: globex (');
      expect(unlisted.stderr).toContain(
        'acme: failing, 1 failure in a row, not in storage: run 3 was altered',
      );
      await server.execute(
        url,
        `UPDATE tidemark.cells SET record_count = 12;
         UPDATE tidemark.cells SET error_code = NULL, error = NULL, failures = 0 WHERE name = 'acme'`,
      );
      const unstored = await run('status', '--cell', 'acme');
      expect(unstored).toMatchObject({ code: 0, stderr: '' });
      expect(unstored.stdout).toMatch(/^1 cell: 1 fine \(1 not in storage\); /);
      await server.execute(url, `UPDATE tidemark.runs SET root = NULL`);
      await server.execute(url, `UPDATE tidemark.workers SET seen_at = now() - interval '3 minutes'`);
      const alone = await run('status', '--cell', 'acme');
      expect(alone).toMatchObject({
        code: 3,
        stdout: expect.stringMatching(
          /^1 cell: 1 fine;[^]*not heard of for 3 min\nno worker is alive: `tidemark fleet work` starts one\n$/,
        ) as string,
        stderr: 'tidemark: no worker is alive: no cell is synced\n',
      });
      const documents = JSON.parse((await run('status', '--json')).stdout) as { workers: unknown[] };
      expect(documents.workers).toMatchObject([{ worker: 'w1', is_alive: false }]);
      expect((await run('runs')).stdout).toMatch(/acme +3 +partial +2026-03-01T12:00:00Z +2\.0 s +34/);
      expect((await run('changes', '--since', '1h')).stdout).toBe('no changes\n');
      const { stdout: changes } = await run('changes', '--since', '3h');
      expect(changes).toContain('Role R');
      // Many of a kind are one line: they would hide the rest.
      expect(changes).toMatch(/acme +3 +36 added, 4 changed +session_recordings/);
      expect(changes).not.toContain('Session 1');
      expect(changes).toContain('(--verbose lists each change, --kind those of one kind)');
      expect((await run('changes', '--since', '3h', '--limit', '1')).stdout).toContain('… 3 more changes');
      const all = await run('changes', '--since', '3h', '--verbose');
      expect(all.stdout.match(/Session \d+/g)).toHaveLength(40);
      const document = JSON.parse((await run('changes', '--since', '3h', '--json')).stdout) as {
        changes: unknown[];
      };
      expect(document.changes).toHaveLength(43);
      expect((await run('changes', '--since', '3h', '--kind', 'roles')).stdout).not.toContain('session');
      // With what is in its projects, whose records may be in a scope without it.
      const { stdout: ofFirst } = await run('changes', '--since', '3h', '--organization', 'o-1');
      expect(ofFirst).toContain('36 added, 4 changed');
      expect(ofFirst).not.toMatch(/Member M|Role R/);
      const { stdout: ofSecond } = await run('changes', '--since', '3h', '--organization', 'o-2');
      expect(ofSecond).toContain('Member M');
      expect(ofSecond).not.toMatch(/session|Role R/);
      expect((await run('changes', '--since', '3h', '--organization', 'Second')).stdout).toBe(ofSecond);
      expect(await run('changes', '--organization', 'nope', '--cell', 'acme')).toMatchObject({
        code: 4,
        stdout: '',
        stderr: expect.stringContaining('no cell has records of organization nope\n') as string,
      });
      expect(await run('changes', '--organization', 'o-2', '--cell', 'globex')).toMatchObject({ code: 4 });
      const outcome = (word: string) =>
        `UPDATE tidemark.cells SET last_outcome = '${word}' WHERE name = 'globex'`;
      await server.execute(url, outcome('partial'));
      expect(await run('changes', '--organization', 'nope')).toMatchObject({
        code: 3,
        stderr: expect.stringContaining(
          'no cell has records of organization nope so far, and not all were read completely: globex\n',
        ) as string,
      });
      await server.execute(url, outcome('complete'));
      expect(await run('changes', '--since', 'soon')).toMatchObject({ code: 4 });
      expect(await run('drift', '--severity', 'critical')).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          /^no open findings of severity critical or higher, \d+ below it\n$/,
        ) as string,
      });
      expect(await run('drift', '--severity', 'high', '--json')).toMatchObject({ code: 2 });
      await server.execute(url, `UPDATE tidemark.cells SET finding_count = NULL WHERE name = 'acme'`);
      expect(await run('drift')).toMatchObject({
        code: 3,
        stderr: expect.stringMatching(
          /1 cell of 2 was not compared: .*, or a mirror that is damaged/,
        ) as string,
      });
      expect(await run('drain', 'w2')).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('did you mean w1?') as string,
      });
      expect(await run('drain', 'w1')).toMatchObject({
        code: 0,
        stdout:
          'worker w1 was last heard of 3 min ago: nothing to drain; no other worker is alive to take its cells: `tidemark fleet work` starts one\n',
      });
      expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({ workers: [] });
      expect((await run('sql', 'SELECT count(*) FROM cells', '--json')).stdout).toContain('"rows":[["2"]]');
    });
  });

  it('names commands as they can be run, with the configuration file that was given', async () => {
    const url = await server.database();
    const file = join(scratch(), 'my fleet.yaml');
    writeFileSync(file, JSON.stringify({ fleet: { database: '${DATABASE_URL}' } }));
    const env = { DATABASE_URL: url.reveal() };
    const run = (...args: string[]) => tidemark(['fleet', ...args, '--config', file], { env });
    expect((await run('status')).stderr).toContain(
      `run \`tidemark fleet apply FILE --yes --config '${file}'\`, which creates them`,
    );
    await openedRegistry(url);
    const { stdout } = await run('status');
    expect(stdout).toContain(`no cells: \`tidemark fleet apply FILE --config '${file}'\` registers them`);
    expect(stdout).toContain(`no worker: \`tidemark fleet work --config '${file}'\` starts one`);
    expect((await run('status', '--cell', 'x', '--json')).stdout).toContain(
      `fleet status --config '${file}'`,
    );
    expect((await run('status', '--cel')).stderr).not.toContain('--help --config');
  });

  it('says so, and nothing secret, where PostgreSQL is away in the middle', async () => {
    const own = await PostgresServer.start();
    const url = await own.database();
    const registry = await openedRegistry(url);
    const slow = registry
      .sql('SELECT count(*) FROM generate_series(1, 10000000000)', 1)
      .catch((error: unknown) => error);
    const isUnderWay = `SELECT FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'FETCH%'`;
    while ((await own.execute(url, isUnderWay)).length === 0);
    await own.stop();
    expect(asTidemarkError(await slow)).toMatchObject({ code: 'registry_unreachable', isRetryable: true });
    const env = { TIDEMARK_FLEET_DATABASE: url.reveal() };
    const ended = await tidemark(['fleet', 'status'], { env });
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot be reached') as string });
    expect(ended.stderr).not.toContain('Loopback');
    await own.resume();
    expect(await registry.overview()).toEqual([]);
  });
});
