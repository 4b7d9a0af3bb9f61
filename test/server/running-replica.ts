/** A mirror that tests write, and a replica of it on loopback. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { createListener } from '../../src/server/listener.ts';
import { createReplica, type ReplicaOptions } from '../../src/server/replica/replica.ts';
import { testClock, type TestClock } from '../mirror/fixture.ts';

export interface Got {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Whatever JSON the body is. */
  readonly json: Record<string, unknown>;
}

export interface RunningReplica {
  readonly url: string;
  readonly clock: TestClock;
  readonly get: (path: string, init?: RequestInit) => Promise<Got>;
}

export interface RunningReplicaOptions {
  readonly tokens?: readonly string[];
  readonly source?: string;
  readonly pathPrefix?: string;
  readonly log?: Logger;
  readonly clock?: TestClock;
}

/** Closed when the test ends. */
export async function startReplica(
  path: string,
  options: RunningReplicaOptions = {},
): Promise<RunningReplica> {
  const clock = options.clock ?? testClock();
  const log = options.log ?? silentLogger;
  const wiring: ReplicaOptions = {
    mirrorPath: path,
    openMirror: () => openMirror(path, { mode: 'read', command: 'serve', clock, host: 'here', pid: 1 }),
    source: options.source ?? 'production',
    definitionOf,
    tokens: () => (options.tokens ?? []).map((token) => new Secret(token)),
    pathPrefix: options.pathPrefix ?? '',
    clock,
    log,
  };
  const replica = createReplica(wiring);
  const listener = createListener(replica.answer, log);
  const { url } = await listener.listen({ host: '127.0.0.1', port: 0 });
  onTestFinished(async () => {
    await listener.close();
    replica.close();
  });
  return {
    url,
    clock,
    get: async (target, init) => {
      const answer = await fetch(url + target, init);
      const text = await answer.text();
      return {
        status: answer.status,
        headers: answer.headers,
        text,
        get json() {
          return JSON.parse(text) as Record<string, unknown>;
        },
      };
    },
  };
}

/** A directory that goes with the test. */
export function replicaDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-replica-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
