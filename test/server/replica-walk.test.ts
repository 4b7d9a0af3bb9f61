/** Tidemark's own client over a replica: a mirror of the mirror is the mirror. */
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { silentEvents } from '../../src/sync/events.ts';
import { syncSource } from '../../src/sync/run.ts';
import { openReadClient } from '../../src/wire-client.ts';
import { environment } from '../journeys/harness.ts';
import { FakeService, ORG } from '../journeys/service.ts';
import { open } from '../mirror/fixture.ts';
import { replicaDirectory, startReplica } from './running-replica.ts';

const KINDS = ['domains', 'invites', 'plugins', 'batch_exports', 'roles', 'proxy_records'];

const id = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 8 }),
  fc.constantFrom('..', '.', 'a/b', '%2F', 'a b', '?x=1', '#', '+', '😀'),
);
const value = fc.constantFrom('1.10', '9007199254740993', 'null', '""', '-0', '1e5', '{"a":[]}', '"\\ud800"');
const collection = fc.uniqueArray(fc.tuple(id, value), { selector: ([key]) => key, maxLength: 40 });
const service = fc.record({
  lists: fc.array(collection, { minLength: KINDS.length, maxLength: KINDS.length }),
  recordings: collection,
});

const textOf = ([key, text]: [string, string]): string =>
  `{"id":${JSON.stringify(key.toWellFormed())},"value":${text}}`;

async function syncFrom(url: string, path: string, pageSize: number): Promise<Mirror> {
  const mirror = open({ path });
  const env = environment(url, path, {
    TIDEMARK_PAGE_SIZE: String(pageSize),
    TIDEMARK_RECORDINGS_SHARING_PER_RUN: 'all',
  });
  const [source] = loadConfig({ env, cwd: '/', keys: 'required' }).sources;
  if (source === undefined) throw new Error('no source');
  const client = openReadClient(source, silentLogger, mirror.path);
  try {
    await syncSource({
      mirror,
      source,
      client,
      clock: systemClock,
      log: silentLogger,
      events: silentEvents,
      signal: new AbortController().signal,
      trigger: 'test',
      kinds: null,
      isFull: true,
      acceptRemovals: 1000,
    });
    return mirror;
  } finally {
    await client.close();
  }
}

function contents(mirror: Mirror): string[] {
  return [...mirror.records.read()].map(
    ({ kind, scope, id: key, body }) => `${kind} ${JSON.stringify(scope)} ${key} ${body}`,
  );
}

describe('a sync from a replica', () => {
  it('mirrors what the mirror holds, byte by byte, before and after it changed', async () => {
    const far = await FakeService.start();
    const put = ({
      lists,
      recordings,
    }: {
      lists: [string, string][][];
      recordings: [string, string][];
    }): void => {
      for (const [index, kind] of KINDS.entries()) far.set(kind, (lists[index] ?? []).map(textOf));
      // Members are known by their user.
      far.set('members', [`{"id":"m","user":{"uuid":"u/1"},"level":8}`]);
      for (const text of lists[4] ?? []) {
        const role = encodeURIComponent(text[0].toWellFormed());
        far.lists.set(`/api/organizations/${ORG}/roles/${role}/role_memberships/`, [textOf(['x', text[1]])]);
      }
      far.lists.set('/api/projects/1/session_recordings/', recordings.map(textOf));
      far.objects.clear();
      for (const [key, text] of recordings.filter((_one, index) => index % 2 === 0)) {
        const recording = encodeURIComponent(key.toWellFormed());
        far.objects.set(`/api/projects/1/session_recordings/${recording}/sharing/`, `{"enabled":${text}}`);
      }
    };
    await fc.assert(
      fc.asyncProperty(service, service, fc.integer({ min: 11, max: 60 }), async (one, two, pageSize) => {
        const directory = replicaDirectory();
        const path = (name: string): string => join(directory, name);
        put(one);
        (await syncFrom(far.url, path('first.db'), 1000)).close();
        const replica = await startReplica(path('first.db'), { source: 'default' });
        for (const state of [one, two]) {
          put(state);
          const first = await syncFrom(far.url, path('first.db'), 1000);
          const second = await syncFrom(replica.url, path('second.db'), pageSize);
          const held = contents(first);
          expect(held.length).toBeGreaterThan(2);
          expect(contents(second)).toEqual(held);
          first.close();
          second.close();
        }
      }),
      { numRuns: 6 },
    );
  });
});
