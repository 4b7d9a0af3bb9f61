import { expect, it } from 'vitest';
import { world } from '../journeys/comparison.ts';
it('a managed field set by hand on both of two records', async () => {
  const { service, expectRun } = await world();
  const set = (m: object): void => service.set('batch_exports', [1, 2].map((n) => ({ id: `e${n}`, name: `Export ${n}`, model: 'events', interval: 'hour', paused: false, destination: { type: 'S3', config: {} }, ...m })) as any);
  set({});
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'snapshots', 'pin', 'good'); await expectRun(0, 'snapshots', 'baseline', 'good');
  set({ end_at: '2026-01-01T00:00:00Z' });
  await expectRun(0, 'sync', '--quiet');
  const { tidemark, ...w } = await world() as any; void tidemark; void w;
  for (const args of [['drift'], ['drift', '--json']]) {
    try { const r = await expectRun(0, ...(args as [string])); console.log('EXIT 0', r.stdout.slice(0, 900)); } catch (e: any) { console.log('not 0', String(e.message).slice(0, 700)); }
  }
  try { const r = await expectRun(2, 'diff', 'baseline', 'latest', '--managed-only'); console.log('DIFF EXIT 2', r.stdout); } catch (e: any) { console.log(String(e.message).slice(0, 700)); }
  try { const r = await expectRun(2, 'restore', 'baseline'); console.log('PLAN EXIT 2', r.stdout.slice(0, 1200)); } catch (e: any) { console.log('plan', String(e.message).slice(0, 1200)); }
});
