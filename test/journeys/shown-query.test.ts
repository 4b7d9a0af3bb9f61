/** A query that answers show in `schema` alone: diff, drift and restore see one field, and a patch what the body has. */
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/core/json.ts';
import type { patchOperations } from '../../src/report/patch.ts';
import { applyPatch } from '../diff/json-patch.ts';
import { world } from './comparison.ts';

describe('a query that only the schema shows', () => {
  it('is one managed field to diff, drift and restore', async () => {
    const { service, expectRun, diff } = await world();
    const bodyOf = (query: string | null): Record<string, JsonValue> => ({
      ...{ id: 'e1', name: 'Nightly', model: 'events', interval: 'hour', paused: false },
      destination: { type: 'S3', config: {} },
      schema: query === null ? null : { svcql_query: query, fields: [] },
    });
    const set = (query: string | null): void => service.set('batch_exports', [bodyOf(query)]);
    set('SELECT 1');
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'good');
    await expectRun(0, 'snapshots', 'baseline', 'good');
    set('SELECT 2');
    const field = { path: '/svcql_query', from: 'SELECT 1', to: 'SELECT 2' };
    const { changes } = await diff(2, 'latest', 'live', '--managed-only');
    expect(changes.map(({ id, fields }) => [id, fields])).toEqual([['e1', [field]]]);
    // One change of a query is one change, counted and shown once.
    const usual = await diff(2, 'latest', 'live');
    expect(usual.changes.map(({ fields }) => fields)).toEqual([[field]]);
    const [found, ...others] = (
      JSON.parse((await expectRun(2, 'drift', '--live', '--json')).stdout) as { findings: object[] }
    ).findings;
    expect([found, others]).toMatchObject([field, []]);
    const drift = await expectRun(2, 'drift', '--live', '--severity', 'high', '--json');
    const { findings } = JSON.parse(drift.stdout) as { findings: object[] };
    expect(findings).toMatchObject([{ ...field, severity: 'high' }]);
    expect((await expectRun(2, 'restore', 'latest')).stdout).toContain('{"svcql_query":"SELECT 1"}');
    const [whole] = (await diff(2, 'latest', 'live', '--all')).changes;
    expect(whole?.fields).toEqual([{ ...field, path: '/schema/svcql_query' }]);
    for (const query of ['SELECT 2', null]) {
      set(query);
      const { stdout } = await expectRun(2, 'diff', 'latest', 'live', '--format', 'patch');
      const { records } = JSON.parse(stdout) as { records: { patch: ReturnType<typeof patchOperations> }[] };
      expect(records.map(({ patch }) => applyPatch(bodyOf('SELECT 1'), patch))).toEqual([bodyOf(query)]);
    }
  });

  it('and one that the record returns beside the schema is one change too, in log and diff', async () => {
    const { service, expectRun, diff } = await world();
    const set = (query: string, column: string): void =>
      service.set('batch_exports', [
        {
          ...{ id: 'e1', name: 'Nightly', svcql_query: query },
          schema: { svcql_query: query, fields: [{ alias: column }] },
        },
      ]);
    set('SELECT 1', 'one');
    await expectRun(0, 'sync', '--quiet');
    set('SELECT 2', 'two');
    await expectRun(0, 'sync', '--quiet');
    const field = { path: '/svcql_query', from: 'SELECT 1', to: 'SELECT 2' };
    expect((await diff(2, 'run:1', 'run:2')).changes.map(({ fields }) => fields)).toEqual([[field]]);
    const log = JSON.parse((await expectRun(0, 'log', 'batch_exports', 'e1', '--json')).stdout) as {
      revisions: { change: string; fields: object[] }[];
    };
    expect(log.revisions.find(({ change }) => change === 'changed')?.fields).toEqual([field]);
    const [whole] = (await diff(2, 'run:1', 'run:2', '--all')).changes;
    expect(whole?.fields.map(({ path }) => path)).toEqual([
      '/schema/fields',
      '/schema/svcql_query',
      '/svcql_query',
    ]);
    // The same query with other columns: told where it is.
    set('SELECT 2', 'three');
    await expectRun(0, 'sync', '--quiet');
    const columns = (await diff(2, 'run:2', 'run:3')).changes.flatMap(({ fields }) => fields);
    expect(columns.map(({ path }) => path)).toEqual(['/schema/fields']);
  });
});
