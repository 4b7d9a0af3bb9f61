import { describe, expect, it } from 'vitest';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService } from './service.ts';

interface Change {
  readonly kind: string;
  readonly field: string;
  readonly change: string;
  readonly before: readonly string[];
  readonly after: readonly string[];
}

describe('when the service changes the form of its records', () => {
  it('sync, runs show and status say so, apart from what changed in records', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const proxies = (form: (n: number) => object): void =>
      service.set(
        'proxy_records',
        [1, 2, 3].map((n) => ({ id: `r${n}`, ...form(n) })),
      );

    proxies((n) => ({ name: `Role ${n}`, level: n }));
    const first = await tidemark(['sync'], { env });
    expect(first.code).toBe(0);
    expect(first.stdout).not.toContain('changed the form');

    proxies((n) => ({ title: `Role \u001b[31m${n}`, level: String(n), 'x\u001b[31m': null }));
    const second = await tidemark(['sync'], { env });
    expect(second.code).toBe(0);
    expect(second.stdout).toContain(
      [
        'the service changed the form of its records:',
        '  proxy_records: /level was number, is string',
        '  proxy_records: /name is gone (string)',
        '  proxy_records: /title is new (string)',
        '  proxy_records: /x\\u{001b}[31m is new',
      ].join('\n'),
    );

    const status = await tidemark(['status'], { env });
    expect(status.stdout).toMatch(
      /^run 2, [^:]+: the service changed the form of its records:\n {2}proxy_records: \/level was/m,
    );
    const shown = await tidemark(['runs', 'show', '2'], { env });
    expect(shown.stdout).toContain('proxy_records: /name is gone (string)');
    const document = JSON.parse((await tidemark(['runs', 'show', '2', '--json'], { env })).stdout) as {
      changed: number;
      schema_changes: Change[];
    };
    // One drift per record, one change of the contract per field.
    expect(document.changed).toBe(3);
    expect(document.schema_changes.map(({ kind, field, change }) => `${kind} ${field} ${change}`)).toEqual([
      'proxy_records /level retyped',
      'proxy_records /name lost',
      'proxy_records /title gained',
      'proxy_records /x\u001b[31m gained',
    ]);

    const third = JSON.parse((await tidemark(['sync', '--json'], { env })).stdout) as {
      runs: { changed: number; schema_changes: Change[] }[];
    };
    expect(third.runs[0]?.schema_changes).toEqual([]);
    const quiet = JSON.parse((await tidemark(['status', '--json'], { env })).stdout) as {
      sources: { schema_changes: (Change & { run: number; at: string })[] }[];
    };
    // A quiet run after it hides nothing: `status` tells of the last 30 days.
    expect(quiet.sources[0]?.schema_changes).toMatchObject(
      document.schema_changes.map((change) => ({ ...change, run: 2 })),
    );
    expect(quiet.sources[0]?.schema_changes[0]?.at).toMatch(/^\d{4}-/);
    expect((await tidemark(['verify'], { env })).code).toBe(0);
  });

  it('a list that breaks off, or is refused, loses no field', async () => {
    const service = await FakeService.start();
    const env = environment(service.url, scratch());
    const proxies = Array.from({ length: 30 }, (_, n) => ({
      id: `r${n}`,
      name: 'a',
      ...(n > 20 ? { late: 1 } : {}),
    }));
    service.set('proxy_records', proxies);
    await tidemark(['sync', '--quiet'], { env });

    service.pageCap = 10;
    service.quirks.push(({ path, query }, response) => {
      if (!path.endsWith('/proxy_records/') || Number(query.get('offset') ?? 0) < 5) return false;
      response.writeHead(403, { 'content-type': 'application/json' });
      response.end('{"type":"authentication_error","code":"permission_denied","detail":"no","attr":null}');
      return true;
    });
    service.set(
      'proxy_records',
      proxies.map(({ id, name }) => ({ id, name })),
    );
    const broken = JSON.parse((await tidemark(['sync', '--json'], { env })).stdout) as {
      runs: { schema_changes: Change[] }[];
    };
    expect(broken.runs[0]?.schema_changes).toEqual([]);

    service.quirks.length = 0;
    const whole = JSON.parse((await tidemark(['sync', '--json'], { env })).stdout) as {
      runs: { schema_changes: Change[] }[];
    };
    expect(whole.runs[0]?.schema_changes).toEqual([
      { kind: 'proxy_records', field: '/late', change: 'lost', before: ['number'], after: [] },
    ]);
  });
});
