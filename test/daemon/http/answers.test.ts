/** What programs get: status, runs, jobs, changes, drift, metrics, and never a secret. */
import { rmSync } from 'node:fs';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CATALOG } from '../../../src/catalog/catalog.ts';
import { programVersion } from '../../../src/core/package-root.ts';
import { METRICS } from '../../../src/daemon/http/metrics.ts';
import type { RunningHttpServer } from '../../../src/daemon/http/http.ts';
import { json as shownJson } from '../../../src/daemon/http/request.ts';
import { tellStory } from './story.ts';
import { FULL_KEY, LOCAL_TOKEN, MINUTE_MS, World } from './world.ts';

const ends: (() => Promise<void> | void)[] = [];
let world: World;
let http: RunningHttpServer;

beforeAll(async () => {
  const later = (end: () => Promise<void>): void => void ends.push(end);
  world = await World.create({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '5' }, later);
  await tellStory(world);
  http = await world.listen({}, later);
});
afterAll(async () => {
  for (const end of ends.reverse()) await end();
});

async function json(path: string): Promise<Record<string, never>> {
  const answer = await fetch(http.url + path);
  expect([path, answer.status]).toEqual([path, 200]);
  return (await answer.json()) as Record<string, never>;
}

describe('the JSON of the daemon', () => {
  it('status tells of sources, collections, schedules and health', async () => {
    const status = (await json('/api/v1/status')) as unknown as {
      schema: string;
      sources: {
        source: string;
        state: string;
        records: number;
        collections: { kind: string }[];
        last_complete_run: { run: number };
      }[];
      daemon: { health: { state: string }; schedules: { schedule: string }[] };
    };
    expect(status.schema).toBe('tidemark.status/1');
    const [source] = status.sources;
    expect(source).toMatchObject({ source: 'default', state: 'whole', last_complete_run: { run: 11 } });
    expect(source?.records).toBe(
      world
        .mirror()
        .runs.collections('default')
        .reduce((sum, { records }) => sum + records, 0),
    );
    expect(status.daemon.health.state).toBe('ok');
    expect(status.daemon.schedules.map(({ schedule }) => schedule)).toEqual([
      'sync',
      'drift',
      'verify',
      'drill',
    ]);
  });

  it('runs, newest first, by pages and by source; one run with its sweeps and changes', async () => {
    const { runs } = (await json('/api/v1/runs?limit=3')) as unknown as {
      runs: { run: number; outcome: string }[];
    };
    expect(runs.map(({ run }) => run)).toEqual([11, 10, 9]);
    const older = (await json('/api/v1/runs?before=4')) as unknown as {
      runs: { run: number; outcome: string }[];
    };
    expect(older.runs.map(({ run, outcome }) => [run, outcome])).toEqual([
      [3, 'partial'],
      [2, 'complete'],
      [1, 'complete'],
    ]);
    const run = (await json('/api/v1/runs/5')) as unknown as {
      previous: number;
      changes: { kind: string }[];
      sweeps: object[];
    };
    expect(run.previous).toBe(4);
    expect(run.sweeps.length).toBeGreaterThan(20);
    expect(run.changes.map(({ kind }) => kind)).toContain('organizations');
    const first = (await json('/api/v1/runs/1')) as unknown as { changes: null };
    expect(first.changes).toBeNull();
    for (const [path, status] of [
      ['runs/99', 404],
      ['runs/x', 404],
      ['runs?limit=0', 400],
      ['runs?source=nobody', 404],
    ] as const) {
      const answer = await fetch(`${http.url}/api/v1/${path}`);
      expect([path, answer.status]).toEqual([path, status]);
      expect(await answer.json()).toHaveProperty('error.hint');
    }
  });

  it('a path that is not there as a page to a browser, as JSON to a program', async () => {
    const page = await fetch(`${http.url}/records/organizations`, { headers: { accept: 'text/html' } });
    expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=UTF-8']);
    expect(page.headers.get('content-security-policy')).toContain("default-src 'none'");
    expect(await page.text()).toContain('There is nothing at this path');
    for (const [path, accept] of [
      ['/records/organizations', '*/*'],
      ['/api/v1/nowhere', 'text/html'],
    ] as const) {
      const answer = await fetch(http.url + path, { headers: { accept } });
      expect([answer.status, await answer.json()]).toMatchObject([404, { error: { code: 'not_found' } }]);
    }
  });

  it('changes of a period, narrowed and cut', async () => {
    type Changes = {
      is_cut: boolean;
      summary: Record<string, number>;
      runs: { run: number; at: string; changes: { kind: string }[] | null }[];
    };
    const all = (await json(
      '/api/v1/changes?from=30d&kind=batch_exports,organizations',
    )) as unknown as Changes;
    const kinds = new Set(all.runs.flatMap(({ changes }) => changes ?? []).map(({ kind }) => kind));
    expect([...kinds].sort()).toEqual(['batch_exports', 'organizations']);
    expect(all.is_cut).toBe(false);
    const one = (await json('/api/v1/changes?from=30d&kind=batch_exports&limit=1')) as unknown as Changes;
    expect(one.is_cut).toBe(true);
    const full = (await json('/api/v1/changes?from=30d&kind=batch_exports')) as unknown as Changes;
    expect(one.summary).toEqual(full.summary);
    expect(one.runs.flatMap(({ changes }) => changes ?? [])).toHaveLength(1);
    const none = (await json('/api/v1/changes?from=2020-01-01&to=2020-02-01')) as unknown as Changes;
    expect(none.runs).toEqual([]);
    // Times are shown to the second, and a run ends within it.
    const [run] = all.runs;
    const second = `${run?.at.slice(0, 19) ?? ''}Z`;
    for (const query of [
      `from=${second}&to=${second}`,
      `from=run:${(run?.run ?? 0) - 1}&to=run:${run?.run}`,
    ]) {
      const own = (await json(`/api/v1/changes?${query}`)) as unknown as Changes;
      expect([query, own.runs.map((each) => each.run)]).toEqual([query, [run?.run]]);
    }
    expect((await fetch(`${http.url}/api/v1/changes?from=run:99`)).status).toBe(404);
    for (const query of [
      'from=someday',
      'from=live',
      'from=1h&from=1d',
      'from=2026-03-05&to=2026-03-01',
      'kind=export',
      'limit=100000',
    ]) {
      expect([query, (await fetch(`${http.url}/api/v1/changes?${query}`)).status]).toEqual([query, 400]);
    }
  });

  it('drift as the command line tells it, and the same again while nothing moves', async () => {
    type Drift = {
      schema: string;
      findings: { severity: string }[];
      summary: { open: number; critical: number };
    };
    const drift = (await json('/api/v1/drift')) as unknown as Drift;
    expect(drift.schema).toBe('tidemark.drift/1');
    expect(drift.findings[0]?.severity).toBe('critical');
    expect(drift.summary.open).toBe(drift.findings.length);
    expect(await json('/api/v1/drift')).toEqual(drift);
  });

  it('a parameter that is not known is refused by name: what it was to narrow would be answered whole', async () => {
    for (const path of [
      'status?x=1',
      'runs?sources=default',
      'runs/5?limit=1',
      'jobs?job=drill',
      'jobs?name=dril',
      'changes?kinds=members',
      'drift?kind=members',
    ]) {
      const answer = await fetch(`${http.url}/api/v1/${path}`);
      expect([path, answer.status]).toEqual([path, 400]);
      expect(await answer.json()).toMatchObject({ error: { code: 'usage' } });
    }
    const near = await (await fetch(`${http.url}/api/v1/runs?sources=default`)).text();
    expect(near).toContain('did you mean source?');
    expect((await fetch(`${http.url}/api/v1/jobs?source=nobody`)).status).toBe(404);
    await json('/api/v1/jobs?source=default&limit=2');
  });

  it('jobs with what came out', async () => {
    const { jobs } = (await json('/api/v1/jobs?name=drill')) as unknown as {
      jobs: { name: string; summary: { score: number } }[];
    };
    expect(jobs.map(({ name, summary }) => [name, summary.score])).toEqual([
      ['drill', 0.94],
      ['drill', 0.92],
    ]);
  });

  it('readiness in words and as JSON, 503 once the copy is too old', async () => {
    const text = await fetch(`${http.url}/readyz`, { headers: { accept: 'text/plain' } });
    expect([text.status, await text.text()]).toEqual([200, 'ok\ndefault: ok\n']);
    world.clock.at += 120 * MINUTE_MS;
    try {
      const late = await fetch(`${http.url}/readyz`);
      expect(late.status).toBe(503);
      expect(await late.json()).toMatchObject({
        schema: 'tidemark.health/1',
        state: 'failing',
        sources: [{ reasons: [{ code: 'stale' }] }],
      });
    } finally {
      world.clock.at -= 120 * MINUTE_MS;
    }
  });
});

describe('metrics', () => {
  it('have a name with its unit, a help line, and the values of the mirror', async () => {
    world.figuresShown = [
      { source: 'default', requests: 120, retries: 3, throttled: 1, leftThisMinute: 400, leftThisHour: null },
    ];
    const text = await (await fetch(`${http.url}/metrics`)).text();
    for (const { name, type } of METRICS) {
      expect(name).toMatch(/^tidemark_[a-z0-9_]+$/);
      expect(name.endsWith('_total')).toBe(type === 'counter');
      expect(text).toContain(`# TYPE ${name} ${type}`);
      expect(text).toMatch(new RegExp(`# HELP ${name} \\S`));
    }
    expect(text).not.toMatch(/^(?!tidemark_|#|$)/m);
    const records = world.mirror().query('SELECT count(*) FROM members').rows[0]?.[0];
    expect(text).toContain(`tidemark_records{source="default",kind="members"} ${String(records)}`);
    expect(text).toContain('tidemark_runs_total{source="default",outcome="complete"} 10');
    expect(text).toContain('tidemark_runs_total{source="default",outcome="partial"} 1');
    expect(text).toContain('tidemark_runs_total{source="default",outcome="failed"} 0');
    expect(text.match(/^tidemark_runs_total\{/gm)).toHaveLength(3);
    expect(text).toContain(`tidemark_build_info{version="${programVersion()}"} 1`);
    expect(text).toContain('tidemark_requests_total{source="default"} 120');
    expect(text).toContain('tidemark_rate_left_requests{source="default",window="minute"} 400');
    expect(text).not.toContain('window="hour"');
    expect(text).toContain('tidemark_drill_score{source="default"} 0.94');
    expect(text).toContain('tidemark_baseline_set{source="default"} 1');
    // As of now, whatever the latest drift job counted.
    const drift = (await json('/api/v1/drift')) as unknown as { summary: Record<string, number> };
    for (const severity of ['critical', 'high', 'medium', 'low'] as const)
      expect(text).toContain(
        `tidemark_drift_findings{source="default",severity="${severity}"} ${String(drift.summary[severity])}`,
      );
    // A second scrape counts no run again.
    expect(await (await fetch(`${http.url}/metrics`)).text()).toContain(
      'tidemark_runs_total{source="default",outcome="complete"} 10',
    );
  });
});

/** Every string of a value that a definition marks as secret. */
function secretsOf(): Set<string> {
  const secrets = new Set([FULL_KEY, LOCAL_TOKEN]);
  const mirror = world.mirror();
  for (const { kind, fields } of CATALOG) {
    for (const { body } of mirror.records.read({ kinds: [kind] })) {
      const record = JSON.parse(body) as Record<string, unknown>;
      for (const { name, isSecret } of fields)
        if (isSecret && typeof record[name] === 'string' && record[name] !== '') secrets.add(record[name]);
    }
  }
  return secrets;
}

describe('no secret', () => {
  it('stands on any page or in any answer', async () => {
    const secrets = secretsOf();
    expect(secrets.size).toBeGreaterThan(10);
    const paths = ['/', '/drift', '/changes?days=30', '/runs', '/runs/11', '/records', '/metrics', '/readyz'];
    paths.push(
      '/api/v1/status',
      '/api/v1/runs',
      '/api/v1/jobs',
      '/api/v1/changes?from=30d',
      '/api/v1/drift',
      '/api/v1/runs/5',
    );
    for (const { kind } of CATALOG) {
      const list = await (await fetch(`${http.url}/records?kind=${kind}`)).text();
      paths.push(
        `/records?kind=${kind}`,
        ...[...list.matchAll(/href="(\/records\/[^"]+)"/g)].slice(0, 3).map(([, path]) => path ?? ''),
      );
    }
    expect(paths.length).toBeGreaterThan(50);
    for (const path of paths) {
      const answer = await fetch(http.url + path.replaceAll('&amp;', '&'));
      const text = (await answer.text()).replaceAll('&quot;', '"');
      expect([path, answer.status]).toEqual([path, 200]);
      expect([path, [...secrets].filter((secret) => text.includes(secret))]).toEqual([path, []]);
    }
  });
});

describe('problem', () => {
  it('counters are 0 before there is a mirror, or anything to count', async () => {
    const empty = await World.create();
    const { url } = await empty.listen();
    const text = await (await fetch(`${url}/metrics`)).text();
    for (const outcome of ['complete', 'partial', 'failed'])
      expect(text).toContain(`tidemark_runs_total{source="default",outcome="${outcome}"} 0`);
    for (const change of ['added', 'changed', 'removed'])
      expect(text).toContain(`tidemark_changes_total{source="default",change="${change}"} 0`);
    for (const name of ['requests', 'request_retries', 'requests_throttled'])
      expect(text).toContain(`tidemark_${name}_total{source="default"} 0`);
  });

  it('a mirror without a baseline is told from one without drift', async () => {
    const fresh = await World.create();
    await fresh.sync();
    const { url } = await fresh.listen();
    const text = await (await fetch(`${url}/metrics`)).text();
    expect(text).toContain('tidemark_baseline_set{source="default"} 0');
    expect(text).not.toMatch(/^tidemark_drift_findings\{/m);
  });

  it('a mirror that is gone is said everywhere, and nothing breaks', async () => {
    const gone = await World.create();
    const { url } = await gone.listen();
    rmSync(gone.mirrorPath, { force: true });
    const ready = await fetch(`${url}/readyz`);
    expect([
      ready.status,
      ((await ready.json()) as { reasons: { code: string }[] }).reasons[0]?.code,
    ]).toEqual([503, 'mirror_unreadable']);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(await (await fetch(`${url}/metrics`)).text()).toContain('tidemark_mirror_readable 0');
    expect(await (await fetch(url)).text()).toContain('the mirror cannot be read');
    for (const path of ['/records', '/api/v1/runs', '/runs'])
      expect((await fetch(url + path)).status).toBe(503);
  });
});

it('documents have no character that acts on a terminal', async () => {
  const value = 'a\u001b\u0085\u202e\u200bb';
  const answer = await new Hono().get('/', (context) => shownJson(context, { value })).request('/');
  const text = await answer.text();
  expect(text).toBe(String.raw`{"value":"a\u001b\u0085\u202e\u200bb"}`);
  expect(JSON.parse(text)).toEqual({ value });
});
