/** Records found by their id, with what the mirror knew of them at a point: by key, however much it holds. */
import { fillPlaceholders } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { connect } from '../../src/mirror/database.ts';
import { lookUp } from '../../src/mirror/record-store.ts';
import { queryBuilder } from '../../src/mirror/query.ts';
import { begin, ORG, open, scan, sweep, sync } from './fixture.ts';

const O2 = { organization_id: 'o2' };

describe('a record found by its id', () => {
  it('is looked up by key: only the list of sources is walked', () => {
    const mirror = open();
    const connection = connect(mirror.path, { isReadonly: true });
    try {
      const { sql, params } = lookUp(queryBuilder(connection)).toSQL();
      const values = fillPlaceholders([...params], { id: 'x', kind: 'roles', sources: '["production"]' });
      const steps = connection
        .prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`)
        .all(...values)
        .map(({ detail }) => detail);
      // Sources of the configuration: a handful.
      const walked = steps.filter((step) => /^SCAN /.test(step) && !/^SCAN (sources|json_each)\b/.test(step));
      expect(walked).toEqual([]);
      expect(steps.filter((step) => /^SEARCH /.test(step)).length).toBeGreaterThanOrEqual(3);
      expect(steps.join('\n')).not.toMatch(/TEMP B-TREE|AUTOMATIC/);
    } finally {
      connection.close();
    }
  });

  it('is found in every source and scope that the filter leaves, current or removed', async () => {
    const mirror = open();
    const more = { source: { name: 'another', baseUrl: 'https://other.example.com' } };
    await sync(mirror, 'roles', ORG, ['{"id":"x","n":1}', '{"id":"y"}']);
    await sync(mirror, 'roles', O2, ['{"id":"x","n":2}']);
    await sync(mirror, 'roles', ORG, ['{"id":"x","n":3}'], more);
    await sync(mirror, 'roles', ORG, ['{"id":"y"}']);
    const found = mirror.records.find('roles', 'x');
    expect(found.map(({ source, scope, run, isRemoved }) => [source, scope, run, isRemoved])).toEqual([
      ['another', ORG, 3, false],
      ['production', ORG, 4, true],
      ['production', O2, 2, false],
    ]);
    expect(found.map(({ body }) => body)).toEqual(['{"id":"x","n":3}', null, '{"id":"x","n":2}']);
    expect(mirror.records.find('roles', 'x', { sources: ['production'], organizations: ['o2'] })).toEqual([
      found[2],
    ]);
    expect(mirror.records.find('roles', 'x', { sources: [] })).toEqual([]);
    expect(mirror.records.find('members', 'x')).toEqual([]);
    expect(mirror.runs.sources()).toEqual(['another', 'production']);
  });
});

describe('what the mirror knew of a record', () => {
  it('as of a run: its body, since when, and whether it was there', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, ['{"id":"other"}']); // run 1
    for (const text of ['1', '1.0', '2', null, null, '3'])
      await sync(mirror, 'roles', ORG, text === null ? [] : [`{"id":"x","n":${text}}`]); // runs 2 to 7
    const row = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    const known = [1, 2, 3, 4, 5, 6, 7, 99].map((run) => {
      const at = mirror.records.asOf(row, run);
      return at === undefined
        ? null
        : [at.body, at.first.run, at.changed.run, at.written.run, at.removed?.run ?? null];
    });
    expect(known).toEqual([
      null,
      ['{"id":"x","n":1}', 2, 2, 2, null],
      // The same number in another spelling is not a change.
      ['{"id":"x","n":1.0}', 2, 2, 3, null],
      ['{"id":"x","n":2}', 2, 4, 4, null],
      ['{"id":"x","n":2}', 2, 4, 4, 5],
      ['{"id":"x","n":2}', 2, 4, 4, 5],
      ['{"id":"x","n":3}', 2, 7, 7, null],
      ['{"id":"x","n":3}', 2, 7, 7, null],
    ]);
    expect(mirror.records.asOf(row, 5)?.removed?.at).toBe(mirror.runs.get(5)?.finishedAt);
    expect(mirror.records.asOf({ record: 12_345, kind: 'roles' }, 5)).toBeUndefined();
  });

  it('counts as looks only complete sweeps of the whole list, of published runs', async () => {
    const mirror = open();
    const outcomes = ['complete', 'denied', 'head', 'held', 'complete', 'skipped'] as const;
    for (const outcome of outcomes) {
      const run = begin(mirror);
      run.stage('roles', ORG).accept([scan('roles', '{"id":"x"}')]);
      const isHead = outcome === 'head';
      const rest = { outcome: isHead ? 'complete' : outcome, mode: isHead ? 'head' : 'full' } as const;
      await run.publish({
        outcome: 'partial',
        sweeps: [sweep('roles', ORG, 1, rest)],
        requests: 1,
        retries: 0,
      });
    }
    const { collection } = mirror.records.find('roles', 'x', { sources: ['production'] })[0]!;
    const looks = [1, 2, 3, 4, 5, 6, 7].map(
      (before) => mirror.runs.lastFullSweep(collection, before)?.run ?? null,
    );
    expect(looks).toEqual([null, 1, 1, 1, 1, 5, 5]);
    expect(mirror.runs.lastFullSweep(collection, 3)?.at).toBe(mirror.runs.get(1)?.finishedAt);
    expect(mirror.runs.lastFullSweep(99, 3)).toBeUndefined();
  });
});

describe('a sweep that was skipped', () => {
  it('stands on its collection, beside the last complete one', async () => {
    const mirror = open();
    await sync(mirror, 'recording_sharing', { project_id: '1' }, []);
    const run = begin(mirror);
    const error = { code: 'forbidden', message: 'the recordings were denied' } as const;
    await run.publish({
      outcome: 'partial',
      sweeps: [sweep('recording_sharing', { project_id: '1' }, 0, { outcome: 'skipped', mode: null, error })],
      requests: 1,
      retries: 0,
    });
    expect(mirror.runs.collections()).toMatchObject([
      {
        lastRun: 2,
        lastOutcome: 'skipped',
        lastErrorCode: 'forbidden',
        lastError: 'the recordings were denied',
        lastCompleteRun: 1,
        lastCompleteAt: mirror.runs.get(1)?.finishedAt,
      },
    ]);
  });
});
