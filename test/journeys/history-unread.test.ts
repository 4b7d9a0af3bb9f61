/** What could not be read for a while: windows stay honest, and nothing that was not seen counts as a change. */
import { describe, expect, it } from 'vitest';
import { type DiffJson, DOMAINS, world } from './comparison.ts';
import { forbidden, notFound } from './service.ts';

interface Windows {
  readonly revisions: readonly {
    readonly run: number;
    readonly last_seen_before: { readonly run: number } | null;
  }[];
}

describe('a collection that some runs could not read', () => {
  it('has the last run that did read it as the start of each window', async () => {
    const { service, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    service.quirks.push(
      ({ path }, response) => path.endsWith('/domains/') && forbidden(response, 'organization:read'),
    );
    service.set('domains', [{ ...DOMAINS[0], jit_provisioning_enabled: true }, DOMAINS[1] ?? {}]);
    await expectRun(3, 'sync', '--quiet');
    await expectRun(3, 'sync', '--quiet');
    service.quirks.pop();
    await expectRun(0, 'sync', '--quiet');

    const log = JSON.parse((await expectRun(0, 'log', 'domains', 'd1', '--json')).stdout) as Windows;
    expect(log.revisions[0]).toMatchObject({ run: 4, last_seen_before: { run: 1 } });
    const blame = JSON.parse((await expectRun(0, 'blame', 'domains', 'd1', '--json')).stdout) as {
      fields: { path: string; since: { run: number }; last_seen_before: { run: number } | null }[];
    };
    expect(blame.fields.find(({ path }) => path === '/jit_provisioning_enabled')).toMatchObject({
      since: { run: 4 },
      last_seen_before: { run: 1 },
    });
    expect(blame.fields.find(({ path }) => path === '/domain')).toMatchObject({ since: { run: 1 } });
  });

  it('is never a lot of removals where the whole family answers 404, whatever is asked', async () => {
    const { service, expectRun, diff } = await world();
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'start');
    await expectRun(0, 'snapshots', 'baseline', 'start');
    service.quirks.push(({ path }, response) => path.includes('/domains/') && notFound(response));
    await expectRun(3, 'sync', '--quiet');
    for (const pair of [
      ['run:1', 'run:2'],
      ['run:1', 'live'],
      ['live', 'run:1'],
    ]) {
      const told: DiffJson = await diff(3, ...pair);
      expect(told.changes, pair.join(' ')).toEqual([]);
      const named = [...told.skipped, ...told.stale];
      expect(named, pair.join(' ')).toEqual([expect.objectContaining({ kind: 'domains' })]);
    }
    const drift = JSON.parse((await expectRun(3, 'drift', '--json')).stdout) as { findings: unknown[] };
    expect(drift.findings).toEqual([]);
    expect((await expectRun(1, 'diff', 'latest', 'live', '--kind', 'domains')).stderr).toContain(
      'not offered',
    );
    expect(JSON.parse((await expectRun(0, 'show', 'domains', 'd1', '--json')).stdout)).toMatchObject({
      state: 'present',
      last_seen: { run: 1 },
    });
  });
});
