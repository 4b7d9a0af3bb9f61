/** A project with very many recordings stays quick to list. */
import { describe, expect, it } from 'vitest';
import type { MemoryStore } from '../../src/server/memory/memory-store.ts';
import { recordingRecords } from '../../src/server/seed/demo.ts';
import { createChance } from '../../src/server/seed/chance.ts';
import { startSandbox, withOrganization } from './running-sandbox.ts';

const COUNT = 100_000;
const VIEWER = { userUuid: null, organizations: null };

function medianMs(work: (round: number) => void): number {
  const times = Array.from({ length: 15 }, (_none, round) => {
    const start = performance.now();
    work(round);
    return performance.now() - start;
  });
  return times.sort((a, b) => a - b)[7]!;
}

describe('a hundred thousand recordings', () => {
  it('list a page anywhere, take a new head, and go with their project', async () => {
    const running = await startSandbox();
    const { path, projectId } = await withOrganization(running);
    const store: MemoryStore = running.sandbox.store;
    const scope = { project_id: projectId };
    store.insert({ users: [], records: recordingRecords(Number(projectId), COUNT, createChance(5)) });
    const few = await withOrganization(running);
    store.insert({ users: [], records: recordingRecords(Number(few.projectId), 1_000, createChance(6)) });
    const list = (offset: number, project = projectId): string =>
      String(
        store.list('session_recordings', { project_id: project }, { offset, limit: 100 }, VIEWER)!.records,
      );
    // A page of a hundred times as many: sorting or copying them all would cost a hundred times a page of few.
    const ofFew = medianMs((round) => list(round * 60, few.projectId));
    expect(medianMs((round) => list(round * 6_000)) / ofFew).toBeLessThan(20);

    store.write('session_recordings', scope, { id: 'newest', start_time: '2026-06-30T00:00:00Z' });
    expect(list(0)).toMatch(/^\{"id":"newest"/);
    const answer = await running.call(
      'GET',
      `/api/projects/${projectId}/session_recordings/?limit=1000&offset=99500`,
    );
    expect([answer.json['count'], (answer.json['results'] as unknown[]).length]).toEqual([COUNT + 1, 501]);

    expect((await running.call('DELETE', `${path}projects/${projectId}/`)).status).toBe(204);
    expect(store.list('session_recordings', scope, { offset: 0, limit: 1 }, VIEWER)).toBeUndefined();
  });
});
