/** What `doctor` reaches does not depend on there being one kind below projects. */
import { expect, it, onTestFinished } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { type ResourceDefinition, changedDefinition } from '../../src/catalog/resource-definition.ts';
import type { SourceConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { reachSource } from '../../src/doctor/reach.ts';
import { openProbeClient } from '../../src/wire-client.ts';
import { FakeService, respond } from '../journeys/service.ts';

const SECOND: Kind = 'proxy_records';
const RECORDINGS = '/api/projects/1/session_recordings/';

/** The catalog with another kind below projects, before the recordings: whatever takes the first for the only one shows it. */
function catalogWithTwo(): readonly ResourceDefinition[] {
  const recordings = CATALOG.find(({ kind }) => kind === 'session_recordings');
  if (recordings === undefined) throw new Error('no kind below projects');
  const second = changedDefinition(recordings, {
    kind: SECOND,
    path: recordings.path.replace('session_recordings', SECOND),
    operations: recordings.operations.map((operation) => ({
      ...operation,
      path: operation.path.replace('session_recordings', SECOND),
    })),
  });
  return CATALOG.filter(({ kind }) => kind !== SECOND).flatMap((each) =>
    each === recordings ? [second, each] : [each],
  );
}

async function reached({ exclude = [] }: { readonly exclude?: readonly Kind[] } = {}) {
  const service = await FakeService.start();
  service.lists.set(`/api/projects/1/${SECOND}/`, ['{"id":"p1"}', '{"id":"p2"}']);
  service.lists.set(RECORDINGS, ['{"id":"r1"}']);
  service.quirks.push(({ path }, response) => {
    if (!path.endsWith('/session_recordings/r1/sharing/')) return false;
    respond(response, 200, '{"enabled":false}');
    return true;
  });
  const source: SourceConfig = {
    name: 'production',
    baseUrl: new URL(service.url),
    apiKey: new Secret('key'),
    profile: 'default',
    organizations: 'all',
    projects: 'all',
    kinds: { include: null, exclude },
    rate: { perMinute: 0, perHour: 0, concurrency: 2, kinds: [] },
    pageSize: 100,
    retry: { attempts: 1, maxWaitSeconds: 1 },
    sync: { maxDurationMs: 0 },
    recordings: { sharingPerRun: 'all', fullSweepEveryMs: 0 },
    removals: { maxRecords: 10, maxShare: 1, confirmAfterMs: 0 },
    restore: { maxShare: 1, minRecords: 10, maxAgeMs: 0, ownUser: null },
    redact: false,
    secrets: [],
    git: null,
    definitions: catalogWithTwo(),
  };
  const client = openProbeClient(source, silentLogger, null);
  onTestFinished(() => client.close());
  const reach = await reachSource({
    source,
    client,
    signal: new AbortController().signal,
    monotonicMs: () => systemClock.monotonicMs(),
    knownOrganizations: [],
    heldOrganizations: 0,
    moved: null,
    kinds: null,
  });
  const states = new Map<Kind, string>(reach.kinds.map((each) => [each.kind, each.state]));
  return { states, asked: service.seen.map(({ url }) => url.split('?')[0]) };
}

it('shows each of two kinds below projects, and asks for the sharing of recordings only', async () => {
  const { states, asked } = await reached();
  expect(states.get(SECOND)).toBe('readable');
  expect(states.get('session_recordings')).toBe('readable');
  expect(states.get('recording_sharing')).toBe('readable');
  expect(asked.filter((path) => path?.endsWith('/sharing/'))).toEqual([`${RECORDINGS}r1/sharing/`]);
});

it('does not ask for a kind that is excluded', async () => {
  const { states, asked } = await reached({ exclude: [SECOND] });
  expect(states.has(SECOND)).toBe(false);
  expect(asked.filter((path) => path?.includes(SECOND))).toEqual([]);
  expect(states.get('session_recordings')).toBe('readable');
});
