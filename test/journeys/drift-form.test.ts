/** Changes of the form of records are told apart from drift, and hide none of it. */
import Database from 'better-sqlite3';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { world, type World } from './comparison.ts';

interface Told {
  readonly compared: { readonly records: number };
  readonly skipped: readonly object[];
  readonly findings: readonly { id: string; path: string; from?: unknown; to?: unknown }[];
  readonly schema_changes: readonly {
    kind: string;
    field: string;
    change: string;
    runs: number[];
    records: number;
  }[];
  readonly summary: Readonly<Record<string, number | object>>;
}

type Body = Readonly<Record<string, unknown>>;

async function baselined(bodies: readonly Body[]): Promise<
  World & {
    readonly sync: (bodies: readonly Body[]) => Promise<void>;
    readonly drift: (code: number, ...args: string[]) => Promise<Told>;
  }
> {
  const all = await world();
  const sync = async (next: readonly Body[]): Promise<void> => {
    all.service.set('proxy_records', next);
    await all.expectRun(0, 'sync', '--quiet');
  };
  await sync(bodies);
  await all.expectRun(0, 'snapshots', 'pin', 'start');
  await all.expectRun(0, 'snapshots', 'baseline', 'start');
  const drift = async (code: number, ...args: string[]): Promise<Told> =>
    JSON.parse((await all.expectRun(code, 'drift', ...args, '--json')).stdout) as Told;
  return { ...all, sync, drift };
}

const ids = ['p1', 'p2', 'p3', 'p4', 'p5'];
const bodies = (of: (n: number) => object): Body[] =>
  ids.map((id, n) => ({ id, domain: `${id}.example`, ...of(n) }));
const sumOf = ({
  added,
  removed,
  changed,
  unchanged,
  accepted,
  ignored,
  below_threshold,
  reshaped,
}: Told['summary']) =>
  [added, removed, changed, unchanged, accepted, ignored, below_threshold, reshaped].reduce<number>(
    (sum, each) => sum + Number(each),
    0,
  );

describe('drift where the service changed the form of its records', () => {
  it('names kind, field, run and records once each, and is none', async () => {
    const { sync, drift, expectRun } = await baselined(bodies((n) => ({ level: n, note: 'x' })));
    await sync(bodies((n) => ({ level: String(n), region: 'eu' })));
    const told = await drift(0);
    expect(told.findings).toEqual([]);
    expect(
      told.schema_changes.map(({ field, change, runs, records }) => [field, change, runs, records]),
    ).toEqual([
      ['/level', 'retyped', [2], 5],
      ['/note', 'lost', [2], 5],
      ['/region', 'gained', [2], 5],
    ]);
    expect(told.summary).toMatchObject({ changed: 0, reshaped: 5 });
    expect(sumOf(told.summary)).toBe(told.compared.records);
    const { stdout } = await expectRun(0, 'drift');
    expect(stdout).toContain('proxy_records: /level was number, is string: 5 records, run 2');
    expect(stdout).toContain('Nothing open');
    expect(stdout).toMatch(/compared: \d+ unchanged, 5 different in form only/);
    const html = await expectRun(0, 'drift', '--format', 'html');
    expect(html.stdout).toMatch(
      /<h2>Not drift: the service changed the form of its records <span class="count">3<\/span>/,
    );
    expect(html.stdout).toContain('<li>proxy_records: /note is gone (string): 5 records, run 2</li>');
    const markdown = await expectRun(0, 'drift', '--format', 'markdown');
    expect(markdown.stdout.replaceAll('\\', '')).toContain(
      '- proxy_records: /region is new (string): 5 records, run 2',
    );
    // A diff stays exact.
    await expectRun(2, 'diff', 'run:1', 'run:2');
  });

  it('leaves a real change what it is', async () => {
    const { sync, drift } = await baselined(bodies((n) => ({ level: n, mode: 'a' })));
    await sync(
      bodies((n) => ({ level: n === 2 ? '9' : String(n), mode: n === 0 ? 'b' : 'a', region: 'eu' })),
    );
    const told = await drift(2);
    expect(told.findings.map(({ id, path, from, to }) => [id, path, from, to])).toEqual([
      ['p1', '/mode', 'a', 'b'],
      ['p3', '/level', 2, '9'],
    ]);
    expect(told.schema_changes.map(({ field, records }) => [field, records])).toEqual([
      ['/level', 4],
      ['/region', 5],
    ]);
    // What a field became after it was gained is a change like any other.
    await sync(bodies((n) => ({ level: String(n), mode: 'a', region: n === 1 ? 'us' : 'eu' })));
    const later = await drift(2);
    expect(later.findings.map(({ id, path, to }) => [id, path, to])).toEqual([['p2', '/region', 'us']]);
  });

  it('refuses a version in between that is not what was stored, by which a real change would be none', async () => {
    const { sync, drift, expectRun, directory } = await baselined(bodies((n) => ({ level: n })));
    await sync(bodies((n) => ({ level: n, region: 'eu' })));
    const last = bodies((n) => ({ level: n, region: n === 1 ? 'us' : 'eu' }));
    await sync(last);
    expect((await drift(2)).findings.map(({ id, to }) => [id, to])).toEqual([['p2', 'us']]);
    const mirror = new Database(join(directory, 'mirror.db'));
    const replace = mirror.prepare(`UPDATE revisions SET encoding = 3, body = ? WHERE run = ?
      AND record = (SELECT record FROM records WHERE remote_id = 'p2')`);
    // The older one no longer needs the one in between, which is altered.
    const [first, between] = [bodies((n) => ({ level: n }))[1], last[1]];
    for (const [body, run] of [
      [first, 1],
      [between, 2],
    ] as const)
      expect(replace.run(Buffer.from(JSON.stringify(body)), run).changes).toBe(1);
    mirror.close();
    await expectRun(2, 'diff', 'run:1', 'run:3');
    const { stderr, stdout } = await expectRun(1, 'drift');
    expect(stderr + stdout).toContain('the stored content of 1 record does not match its hash: proxy record');
  });

  it('takes a managed field for drift though every record gained it, as diff and restore do', async () => {
    const { service, expectRun, drift } = await baselined([]);
    const set = (more: object): void =>
      service.set(
        'batch_exports',
        ['e1', 'e2'].map((id) => ({
          ...{ id, name: `Export ${id}`, model: 'events', interval: 'hour', paused: false },
          ...{ destination: { type: 'S3', config: {} }, ...more },
        })),
      );
    set({});
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'good');
    await expectRun(0, 'snapshots', 'baseline', 'good');
    const end = '2026-01-01T00:00:00Z';
    set({ end_at: end });
    await expectRun(0, 'sync', '--quiet');
    const told = await drift(2);
    expect(told.findings.map(({ id, path, to }) => [id, path, to])).toEqual([
      ['e1', '/end_at', end],
      ['e2', '/end_at', end],
    ]);
    expect([told.schema_changes, told.summary['reshaped'], sumOf(told.summary)]).toEqual([
      [],
      0,
      told.compared.records,
    ]);
    expect((await expectRun(2, 'drift')).stdout).not.toContain('form');
    await expectRun(2, 'diff', 'baseline', 'latest', '--managed-only');
    // In few records a value is drift as well, managed or not; that there is a new member and no value in it is not.
    set({ end_at: end, owner: 'ops', note: null });
    await expectRun(0, 'sync', '--quiet');
    const later = await drift(2);
    expect(later.findings.map(({ path }) => path).sort()).toEqual(['/end_at', '/end_at', '/owner', '/owner']);
    expect(later.schema_changes.map(({ field, records }) => [field, records])).toEqual([['/note', 2]]);
  });

  it('takes what only some records gained or lost for drift', async () => {
    const { sync, drift, expectRun } = await baselined(bodies(() => ({ level: 1 })));
    await sync(bodies((n) => ({ level: 1, ...(n === 1 ? { is_admin: true } : {}) })));
    expect((await drift(2)).findings.map(({ id, path }) => [id, path])).toEqual([['p2', '/is_admin']]);
    expect((await drift(2, '--id', 'p2')).schema_changes).toEqual([]);
    // An id that nobody has is no "nothing drifted".
    const args = ['drift', '--id', 'p2', '--id', 'p99'];
    expect((await expectRun(3, ...args)).stdout).toContain('neither state has a record with the id p99');
    expect((await drift(3, '--id', 'p2', '--id', 'p99')).skipped).toMatchObject([
      { kind: 'proxy_records', name: 'p99' },
    ]);
  });
});
