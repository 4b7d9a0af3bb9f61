/** The MCP server as a client of the SDK sees it: over stdin and stdout, and at `/mcp` of a running daemon. */
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { ChildCommands, printedBy } from '../../src/mcp/child-command.ts';
import { Mcp } from '../../src/mcp/server.ts';
import { environment, mirrorOnce, program, scratch, start, startHere, tidemark } from './harness.ts';
import { FakeService } from './service.ts';
import { KINDS } from '../../src/catalog/kinds.ts';

const TOKEN = 'token-of-the-daemon-1234';
const TRIGGER = 'token-of-webhooks-1234';
const SECRETS = ['phs_project_secret_1', 'invite-link-secret', 'warehouse-password-7', 'webhook-key-8'];
const TOOLS = ['status', 'changes', 'show', 'log', 'diff', 'drift', 'plan', 'sql'];

interface World {
  readonly service: FakeService;
  readonly directory: string;
  readonly env: Record<string, string>;
}

/** A mirror with two runs and a baseline, whose records hold secrets in documented, nested and unknown fields. */
async function world(more: Readonly<Record<string, string>> = {}): Promise<World> {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory, more);
  const [secret, link, password, key] = SECRETS;
  service.set('projects', [{ id: 1, name: 'Web', secret_api_token: secret, webhook_key_secret: key }]);
  service.set('invites', [{ id: link, target_email: 'ada@example.com' }]);
  const destination = { type: 'Postgres', config: { host: 'db.example', password } };
  service.set('batch_exports', [{ id: 'b1', name: 'Nightly', interval: 'day', destination }]);
  service.set('domains', [{ id: 'd1', domain: 'harbor.example', big: 'BIG' }]);
  const change = (): void =>
    service.set('batch_exports', [{ id: 'b1', name: 'Nightly', interval: 'hour', destination }]);
  await mirrorOnce('mcp', join(directory, 'mirror.db'), async () => {
    expect((await tidemark(['sync', '--quiet'], { env })).stderr).toBe('');
    expect((await tidemark(['snapshots', 'pin', 'good'], { env })).code).toBe(0);
    expect((await tidemark(['snapshots', 'baseline', 'good'], { env })).code).toBe(0);
    change();
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
  });
  change();
  return { service, directory, env };
}

interface Result {
  readonly text: string;
  readonly data: Record<string, unknown>;
  readonly isError: boolean;
}

type Call = (name: string, args?: Record<string, unknown>) => Promise<Result>;

function callOf(client: Client): Call {
  return async (name, args = {}) => {
    const { content, structuredContent, isError } = await client.callTool({ name, arguments: args });
    const [first] = content as { text: string }[];
    return {
      text: first?.text ?? '',
      data: (structuredContent ?? {}) as Record<string, unknown>,
      isError: isError === true,
    };
  };
}

async function overStdio(env: Record<string, string>, args: readonly string[] = []): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [program, 'mcp', ...args],
    env,
    cwd: scratch(),
    stderr: 'pipe',
  });
  onTestFinished(() => client.close());
  await client.connect(transport);
  return client;
}

/**
 * The server in this process, as are the commands of its tools but those of `sql`, each of which is watched over by one that
 * ends its process.
 */
async function inProcess(env: Record<string, string>, source?: string): Promise<Client> {
  const cwd = scratch();
  const children = new ChildCommands({
    execPath: process.execPath,
    entry: program,
    env,
    cwd,
    globalOptions: [],
  });
  const run: ChildCommands['run'] = async (command) => {
    const [name = '', ...rest] = command.args;
    if (name === 'mcp-sql') return children.run(command);
    return printedBy(await tidemark([name, '--json', ...rest], { env, cwd }));
  };
  const server = new Mcp({ run }, source === undefined ? null : [source]);
  onTestFinished(() => server.close());
  const client = new Client({ name: 'test', version: '1' });
  const fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(url, init);
    if (request.method !== 'POST') return new Response(null, { status: 405 });
    return server.answer(request, await request.clone().json());
  };
  onTestFinished(() => client.close());
  await client.connect(new StreamableHTTPClientTransport(new URL('http://here.example/mcp'), { fetch }));
  return client;
}

describe('tidemark mcp', () => {
  it('offers tools that only read, over stdin and stdout', async () => {
    const { env } = await world();
    const client = await overStdio(env);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS);
    for (const { annotations } of tools)
      expect(annotations).toMatchObject({ readOnlyHint: true, destructiveHint: false });
    // Every table that a query may name.
    const { description = '' } = tools.find(({ name }) => name === 'sql') ?? {};
    for (const table of [...KINDS, 'runs', 'changes', 'gone', 'held', 'run_lists'])
      expect(description).toMatch(RegExp(`\\b${table}\\b`));
    expect(description).toMatch(
      /A list that no run read .* has no rows, .*\nempty: run_lists has the result/,
    );
    const call = callOf(client);
    expect((await call('sql', { query: 'select 9007199254740993, -9007199254740991' })).data).toMatchObject({
      rows: [['9007199254740993', -9007199254740991]],
    });
    expect((await call('status')).data).toMatchObject({ schema: 'tidemark.status/1' });
    expect((await call('sql', { query: 'select count(*) from runs' })).data).toMatchObject({ rows: [[2]] });
    // A server that was narrowed cannot be asked for more.
    const narrowed = callOf(await overStdio(env, ['--source', 'default']));
    expect((await narrowed('status', { source: 'other' })).text).toContain('there is no source other here');
    expect((await narrowed('status')).isError).toBe(false);
  });

  it('answers each tool with its document', async () => {
    const { service, env, directory } = await world();
    const before = service.seen.length;
    const call = callOf(await inProcess(env));
    const files = (): string[] =>
      readdirSync(directory)
        .filter((name) => name.startsWith('mirror.db') && !/-(rate|shm|wal)$/.test(name))
        .map((name) => `${name} ${statSync(join(directory, name)).size}`);
    const [kept, bytes] = [files(), readFileSync(join(directory, 'mirror.db'))];
    const record = { kind: 'batch_exports', id: 'Nightly' };
    const answers: [string, Record<string, unknown>, RegExp, Record<string, unknown>][] = [
      ['status', {}, /last_run/, { schema: 'tidemark.status/1' }],
      ['changes', { since: '1d' }, /\/interval/, { summary: { added: 0, removed: 0, changed: 1 } }],
      ['show', record, /interval: hour/, { schema: 'tidemark.show/1', id: 'b1' }],
      ['show', { ...record, at: 'run:1' }, /interval: day/, { run: 1 }],
      ['log', { ...record, limit: 1 }, /from: day/, { schema: 'tidemark.log/1' }],
      ['diff', { from: 'run:1', to: 'run:2' }, /\/interval/, { schema: 'tidemark.diff/1' }],
      ['diff', { to: 'run:1' }, /from: hour/, { summary: { changed: 1, added: 0, removed: 0 } }],
      ['diff', { kind: ['batch_exports'] }, /changes: \[\]/, { to: { ref: 'live' } }],
      ['drift', {}, /\/interval/, { schema: 'tidemark.drift/1' }],
      ['drift', { live: true, kind: ['domains'] }, /schema: tidemark/, {}],
      [
        'plan',
        { from: 'run:1', kind: ['batch_exports'], keep_accepted: true },
        /method: PATCH/,
        { summary: { update: 1 } },
      ],
      [
        'sql',
        { query: 'SELECT name, interval FROM batch_exports' },
        /^\["name","interval"\]\n\["Nightly","hour"\]\n$/,
        {},
      ],
      [
        'sql',
        { query: "select run, kind, change from changes where change = 'changed'" },
        /\[2,"batch_exports","changed"\]/,
        { row_count: 1 },
      ],
      [
        'sql',
        {
          query:
            "select kind, organization_id, result from run_lists where run = 2 and kind = 'batch_exports'",
        },
        /\["batch_exports","[^"]+","read completely"\]/,
        { row_count: 1 },
      ],
    ];
    for (const [name, args, text, data] of answers) {
      const answer = await call(name, args);
      expect([name, args, answer.isError, answer.text]).toEqual([
        name,
        args,
        false,
        expect.stringMatching(text),
      ]);
      const summary = data['summary'];
      expect(answer.data).toMatchObject(summary === undefined ? data : { summary });
      for (const secret of SECRETS) expect(JSON.stringify(answer)).not.toContain(secret);
    }
    expect(service.seen.slice(before).every(({ method }) => method === 'GET')).toBe(true);
    expect(files()).toEqual(kept);
    expect(readFileSync(join(directory, 'mirror.db')).equals(bytes)).toBe(true);
  });

  it('refuses arguments that are not known, that would be options, and files of the machine', async () => {
    const { env } = await world();
    const call = callOf(await inProcess(env));
    const refused: [string, Record<string, unknown>, RegExp][] = [
      ['diff', { fom: 'run:1' }, /fom/],
      ['diff', { from: 'file:/etc/passwd' }, /command line only/],
      ['changes', { since: 'FILE:/etc/passwd' }, /command line only/],
      ['changes', { kind: ['batch_export'] }, /batch_exports/],
      ['show', { kind: 'members' }, /id/],
      ['show', { kind: 'batch_exports', id: '--show-secrets' }, /--show-secrets/],
      ['plan', { from: '--apply' }, /"--apply" is not a reference/],
      ['plan', { kind: ['domains'], id: ['--yes'], apply: true }, /apply/],
      ['status', { source: 'prod' }, /there is no source prod/],
      ['log', { kind: 'domains', id: 'nothing' }, /no domain/],
      ['sql', { query: 'select 1', limit: 100_000 }, /limit/],
    ];
    for (const [name, args, text] of refused) {
      const answer = await call(name, args);
      expect([args, answer.isError, answer.text]).toEqual([args, true, expect.stringMatching(text)]);
    }
  });

  it('masks what is secret in the names of removed records', async () => {
    const { service, env } = await world();
    service.set('plugins', [{ id: 7, name: '', url: 'https://ada:hidden-9@git.example/x' }]);
    expect((await tidemark(['sync', '--quiet'], { env })).code).toBe(0);
    service.set('plugins', []);
    expect((await tidemark(['sync', '--quiet', '--accept-removals', '9'], { env })).code).toBe(0);
    const call = callOf(await inProcess(env));
    const query = "select name from changes where kind = 'plugins' and change = 'removed'";
    const { text } = await call('sql', { query });
    expect(text).toMatch(/git\.example/);
    expect(text).not.toContain('hidden-9');
  });

  it('reveals no secret by SQL, and writes, opens and loads nothing', async () => {
    const { env, directory } = await world();
    const call = callOf(await inProcess(env));
    const bodies = await call('sql', {
      query: `select body from projects union all select body from invites union all select body from batch_exports
        union all select id from invites union all select destination from batch_exports union all select id from changes`,
    });
    expect(bodies.text.match(/\[secret\]/g)?.length).toBeGreaterThan(3);
    expect(bodies.text).toContain('db.example');
    const tables = [
      'records',
      'main.records',
      '"records"',
      '[revisions]',
      '`all_revisions`',
      'main.projects',
      'temp.records',
      'decodable_records',
      'lists',
      'utc_times',
    ];
    const refused = [
      ...tables.map((table) => `select * from ${table}`),
      'with invites as (select * from main.invites) select * from invites',
      "select * from 'records'",
      'select r.body from projects p, records r',
      'select masked_body(1, 2, 3)',
      'select hex(fingerprint) from fingerprint_key',
      "select load_extension('/tmp/x.so')",
      "attach database 'x.db' as x",
      `/* select */ attach database '${join(directory, 'x.db')}' as x`,
      'pragma query_only = off',
      'select 1; pragma query_only = off',
      'explain pragma journal_mode = delete',
      `vacuum into '${join(directory, 'y.db')}'`,
      'insert into runs default values',
      'with x as (select 1) delete from runs',
      'create temp table x (y)',
      'begin',
      '-- nothing',
      'nonsense',
      'select name from DBSTAT',
      "select * from 'pragma_table_list'",
      'select * from pragma_database_list',
    ];
    const said = 'the query was refused';
    const [query = ''] = refused;
    expect(await call('sql', { query })).toMatchObject({
      isError: true,
      text: expect.stringContaining(said) as string,
    });
    // The rest as the process does that each of them starts.
    const mirror = openMirror(join(directory, 'mirror.db'), {
      mode: 'read',
      command: 'test',
      clock: systemClock,
    });
    onTestFinished(() => mirror.close());
    const masks = { maskBody: () => '', maskId: () => '', maskName: () => '', hasSecretId: () => true };
    for (const sql of refused)
      expect(() => mirror.queryMasked({ sql, maxRows: 10, maxCharacters: 1_000, ...masks }), sql).toThrow(
        said,
      );
    for (const query of [
      "select name from pragma_table_info('projects')",
      'select sql from sqlite_master',
      'select * from sqlite_temp_master',
    ]) {
      const { isError, text } = await call('sql', { query });
      expect([query, isError]).toEqual([query, false]);
      for (const secret of SECRETS) expect(text).not.toContain(secret);
    }
    expect(readdirSync(directory).filter((name) => /^[xy]\.db/.test(name))).toEqual([]);
  });

  it('says which rows are missing, and stops a query that takes too much (test/core/watchdog.test.ts: too long)', async () => {
    const { env } = await world();
    const call = callOf(await inProcess(env));
    const numbers = (condition: string): string =>
      `with recursive n(i) as (select 1 union all select i + 1 from n ${condition})`;
    const few = await call('sql', { query: `${numbers('where i < 300')} select i from n`, limit: 5 });
    expect(few.data).toMatchObject({ row_count: 5, cut: 'rows' });
    expect(few.text).toContain('There are more rows than these');
    const large = await call('sql', {
      query: `${numbers('where i < 1000')} select i, hex(zeroblob(500)) from n`,
      limit: 1000,
    });
    expect(large.text).toMatch(/^(There are more|Cut: rows shows)/);
    expect(large.text.length).toBeLessThan(40_000);
    const memory = await call('sql', {
      query: `${numbers('where i < 4')} select length(group_concat(hex(zeroblob(400000000)))) from n`,
    });
    // On a slow machine its time ends first.
    expect([memory.isError, memory.text]).toEqual([
      true,
      expect.stringMatching(/memory|too big|took longer/),
    ]);
    // The next ones are answered as ever.
    expect((await call('sql', { query: 'select 1' })).data).toMatchObject({ rows: [[1]] });
  });

  it('ends with its client, and reports a wrong configuration at once', async () => {
    const { env } = await world();
    const { child, ended } = start(['mcp'], { env });
    // The harness gives it no input.
    expect(await ended).toMatchObject({ code: 0, stdout: '' });
    expect(child.exitCode).toBe(0);
    const wrong = await start(['mcp', '--source', 'other'], { env }).ended;
    expect([wrong.code, wrong.stdout]).toEqual([4, '']);
    expect(wrong.stderr).toContain('there is no source other');
  });
});

describe('/mcp of the daemon', () => {
  async function daemon(env: Record<string, string>): Promise<string> {
    const { stderr } = startHere(['daemon'], {
      env: {
        ...env,
        TIDEMARK_HTTP_LISTEN: '127.0.0.1:0',
        TIDEMARK_HTTP_TOKEN: TOKEN,
        TIDEMARK_HTTP_TRIGGER_TOKEN: TRIGGER,
        TIDEMARK_SCHEDULES_SYNC_CRON: '0 0 1 1 *',
      },
    });
    return await vi.waitUntil(() => /"url":"([^"]+)"/.exec(stderr())?.[1], { timeout: 10_000 });
  }

  const connect = async (url: string, token: string): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    onTestFinished(() => client.close());
    await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', url), { requestInit }));
    return client;
  };

  it('has the same tools behind the token of the API', async () => {
    const { env, service } = await world({ TIDEMARK_HTTP_MCP: 'true' });
    const url = await daemon(env);
    const client = await connect(url, TOKEN);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(TOOLS);
    const call = callOf(client);
    const [shown, rows, plan] = await Promise.all([
      call('show', { kind: 'batch_exports', id: 'b1' }),
      call('sql', { query: 'select id, body from invites' }),
      call('plan', { from: 'snapshot:good', kind: ['batch_exports'] }),
    ]);
    expect(shown.text).toContain('interval: hour');
    expect(rows.text).toContain('[secret');
    expect(plan.data).toMatchObject({ summary: { update: 1 } });
    for (const secret of SECRETS) expect(JSON.stringify([shown, rows, plan])).not.toContain(secret);
    expect((await call('sql', { query: 'select * from records' })).isError).toBe(true);
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);

    await expect(connect(url, 'a-wrong-token')).rejects.toThrow(/401|token/);
    await expect(connect(url, TRIGGER)).rejects.toThrow(/403|opens nothing else/);
    const post = (headers: Record<string, string>, body: string): Promise<Response> =>
      fetch(`${url}/mcp`, {
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', ...headers },
        body,
      });
    expect((await post({}, 'nonsense')).status).toBe(400);
    expect((await post({}, '{}')).status).toBeGreaterThanOrEqual(400);
    expect((await post({ origin: 'https://evil.example' }, '{}')).status).toBe(403);
    expect((await post({}, JSON.stringify({ x: 'y'.repeat(20_000) }))).status).toBe(413);
    const get = await fetch(`${url}/mcp`, { headers: { authorization: `Bearer ${TOKEN}` } });
    expect(get.status).toBe(405);
  });

  it('is not there unless it is switched on', async () => {
    const { env } = await world();
    await expect(connect(await daemon(env), TOKEN)).rejects.toThrow(/404|nothing at this path/);
  });
});
