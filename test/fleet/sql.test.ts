/** `fleet sql` can read the views of the registry, and nothing else; the connection is a superuser's, the worst case. */
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { asTidemarkError, exitCodeFor } from '../../src/core/errors.ts';
import { packageFile } from '../../src/core/package-root.ts';
import { Secret } from '../../src/core/secret.ts';
import { checkedQuery } from '../../src/fleet/registry/query.ts';
import { Registry } from '../../src/fleet/registry/registry.ts';
import { POSTGRES, PostgresServer, WITHOUT_POSTGRES } from './postgres.ts';

function refusal(query: string): string {
  try {
    checkedQuery(query);
  } catch (error) {
    return asTidemarkError(error).message;
  }
  return 'not refused';
}

describe('the text of a query', () => {
  it.each([
    ['a write', 'DELETE FROM cells', 'only SELECT'],
    ['a write after a comment', '/* SELECT */ UPDATE cells SET name = 1', 'only SELECT'],
    ['nothing', ' -- SELECT 1', 'only SELECT'],
    ['a quoted word', '"select" 1', 'only SELECT'],
    ['two statements', 'SELECT 1; SELECT 2', 'only one statement'],
    ['a second one after a comment', 'SELECT 1; /* ; */ DROP TABLE x', 'only one statement'],
    ['a file', "SELECT pg_read_file('/etc/passwd')", 'pg_read_file'],
    ['a file, quoted', `SELECT "pg_read_file"('/etc/passwd')`, 'pg_read_file'],
    ['a file, in capitals', "SELECT PG_READ_FILE('/etc/passwd')", 'pg_read_file'],
    ['a file, with space before the parenthesis', 'SELECT lo_import /* x */ (1)', 'lo_import()'],
    ['a setting', "SELECT set_config('role', 'none', true)", 'set_config()'],
    ['a quoted function', `SELECT "set_config"('role', 'none', true)`, 'set_config()'],
    ['a keyword as the name of a function', 'SELECT "in"(1)', 'in()'],
    ['a text that is run', "SELECT query_to_xml('SELECT 1', true, true, '')", 'query_to_xml()'],
    ['an operator by name', 'SELECT 1 OPERATOR(public.+) 2', 'operator()'],
    ['a catalog', 'SELECT * FROM pg_authid', 'pg_authid'],
    ['the standard catalog', 'SELECT * FROM information_schema.tables', 'information_schema'],
    ['a name in escapes', 'SELECT * FROM U&"\\0070g_authid"', 'U&'],
    ['a text that goes on in escapes', "SELECT E'a'\n'\\' ' , set_config(1) , '", "E''"],
    ['a comment that a carriage return ends', "SELECT 1 -- x\r, pg_read_file('x')", 'pg_read_file'],
    ['a name after a number', 'SELECT 1pg_sleep(9)', 'pg_sleep'],
    ['a text that does not end', "SELECT 'a", 'not closed'],
    ['a comment that does not end', 'SELECT 1 /* /* */', 'not closed'],
    ['a dollar text that does not end', 'SELECT $a$ $b$', 'does not end'],
    ['a NUL character', 'SELECT 1 \0', 'NUL'],
  ])('with %s is refused', (_name, query, expected) => {
    expect(refusal(query)).toContain(expected);
  });

  it.each([
    "SELECT 'pg_authid', $$ set_config( $$, $a$ $$ pg_x $a$ FROM cells -- pg_authid",
    'SELECT /* pg_ /* set_config( */ */ 1;  ',
    'WITH x AS (SELECT count(*) FROM runs) SELECT * FROM x WHERE (1) IN (1, 2) AND NOT (false)',
    'VALUES (1), (2)',
    'TABLE findings',
    "SELECT coalesce(name, 'x'), CAST(1 AS text), extract(epoch FROM at) FROM changes JOIN cells USING (cell)",
    "SELECT 'it''s', 1.5e3, .5, \"cell\" FROM cells GROUP BY ROLLUP (cell)",
    "SELECT sum(records) FILTER (WHERE state = 'active') OVER (ORDER BY cell) FROM cells",
  ])('%s is answered', (query) => {
    expect(refusal(query)).toBe('not refused');
  });
});

interface ScaledSpec {
  readonly triggers: readonly { readonly metadata: { readonly query: string } }[];
}

describe.skipIf(POSTGRES === null)(`a query of the registry${WITHOUT_POSTGRES}`, () => {
  let server: PostgresServer;
  let url: Secret;
  let registry: Registry;

  beforeAll(async () => {
    server = await PostgresServer.start();
    url = await server.database();
    registry = await Registry.open(url, { migrates: true });
    await server.execute(
      url,
      `CREATE TABLE public.secrets (x text); INSERT INTO public.secrets VALUES ('top');
       INSERT INTO tidemark.groups (origin, secret) VALUES ('https://a.example.com', 'env:KEY');
       INSERT INTO tidemark.cells (name, group_id, address, profile, secret, schedule, state)
         SELECT 'c' || n, 1, 'https://a.example.com', 'svc', 'env:KEY', '0 * * * *', CASE n WHEN 3 THEN 'retired' ELSE 'active' END FROM generate_series(1, 3) n;
       INSERT INTO tidemark.records SELECT id, 'roles', '', 'r1', 'Role', 'o1', '{"n": 12345678901234567890.10, "t": "é"}' FROM tidemark.cells`,
    );
    return async () => registry.close();
  });

  async function asked(query: string, limit = 100): Promise<string> {
    try {
      const { columns, rows, isCut } = await registry.sql(query, limit);
      return JSON.stringify([columns, ...rows, ...(isCut ? ['cut'] : [])]);
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      return `${exitCodeFor(code)} ${message}`;
    }
  }

  it('has every value as PostgreSQL writes it, also in columns of one name', async () => {
    expect(await asked(`SELECT cell AS a, body->>'n' AS a, NULL AS b, body FROM records ORDER BY 1`)).toBe(
      JSON.stringify([
        ['a', 'a', 'b', 'body'],
        ['c1', '12345678901234567890.10', null, '{"n": 12345678901234567890.10, "t": "é"}'],
        ['c2', '12345678901234567890.10', null, '{"n": 12345678901234567890.10, "t": "é"}'],
      ]),
    );
    expect(await asked('SELECT current_user')).toContain('tidemark_reader');
  });

  it('ends at its limit of rows, and says so', async () => {
    expect(await asked('SELECT generate_series(1, 1000)', 2)).toBe('[["generate_series"],["1"],["2"],"cut"]');
    const all = await registry.sql('SELECT generate_series(1, 1500)', 1500);
    expect([all.rows.length, all.isCut]).toEqual([1500, false]);
    expect((await registry.sql('SELECT 1 AS x WHERE false', 10)).columns).toEqual(['x']);
  });

  it.each([
    ['another schema', 'SELECT * FROM public.secrets', 'names the schema public'],
    ['another schema, quoted', 'SELECT * FROM "tidemark"."groups"', 'names the schema tidemark'],
    ['a table of another schema', 'SELECT * FROM secrets', 'does not exist'],
    ['a table behind the views', 'SELECT * FROM groups', 'does not exist'],
    ['a write in WITH', 'WITH x AS (DELETE FROM cells RETURNING 1) SELECT * FROM x', 'data-modifying'],
    ['a lock', 'SELECT * FROM cells FOR UPDATE', 'permission denied'],
    ['a new table', 'SELECT 1 AS x INTO y', 'not run'],
    ['a column that is not there', 'SELECT secret FROM cells', 'does not exist'],
    ['a mistake', 'SELECT FROM FROM', 'syntax error'],
    ['a division by zero', 'SELECT 1/0', 'division by zero'],
  ])('is refused with 4 for %s', async (_name, query, expected) => {
    const answer = await asked(query);
    expect(answer).toMatch(/^4 the query was not run: /);
    expect(answer).toContain(expected);
    expect(answer).not.toContain('\n');
  });

  it('cannot write or leave the views, if the text were not looked at', async () => {
    const ask = async (statement: string): Promise<unknown> =>
      server.execute(url, `BEGIN READ ONLY; SET LOCAL ROLE tidemark_reader; ${statement}; ROLLBACK`);
    for (const statement of [
      'SELECT * FROM tidemark.groups',
      'SELECT * FROM public.secrets',
      "SELECT pg_read_file('/etc/passwd')",
      'DELETE FROM tidemark_query.cells',
    ])
      await expect(ask(statement)).rejects.toThrow(/permission denied|read-only/);
  });

  it('tells KEDA how many cells wait for a worker, as a reader', async () => {
    const text = readFileSync(packageFile('deploy/kubernetes/fleet/keda/scaledobject.yaml'), 'utf8');
    const [scaled] = parseAllDocuments(text).map((each) => each.toJS() as { spec: ScaledSpec });
    const query = scaled?.spec.triggers[0]?.metadata.query ?? '';
    const reader = new Secret(`${url.reveal()}?options=-c%20role%3Dtidemark_reader`);
    const ask = (): Promise<unknown> =>
      server.execute(reader, query.replace('count(*)', 'count(*)::int AS n'));
    expect(await ask()).toEqual([{ n: 2 }]);
    await server.execute(
      url,
      `UPDATE tidemark.cells SET due_at = now() + interval '1 hour' WHERE name = 'c1'`,
    );
    expect(await ask()).toEqual([{ n: 1 }]);
  });

  it('leaves nothing behind in the connections that others use', async () => {
    await asked('SELECT 1');
    expect(await registry.overview()).toHaveLength(2);
    expect(await server.execute(url, 'SELECT count(*)::int AS n FROM tidemark.cells')).toEqual([{ n: 3 }]);
  });
});
