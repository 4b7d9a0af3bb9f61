/** A client, a sink that remembers, and targets, for the tests of the client. */
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { volatileFields } from '../../src/catalog/volatile-names.ts';
import type { ConnectionOptions } from '../../src/api/connection.ts';
import { type ReadClient, createReadClient } from '../../src/api/read-client.ts';
import { type WalkSink } from '../../src/api/walk-verdict.ts';
import type { CollectionTarget } from '../../src/api/target.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { startFaultServer, type FaultServer, type Script } from '../faults/fault-server.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { seededRandom } from '../faults/seeded-random.ts';

export const KEY = 'phx_SECRET0123456789';

export function clientFor(url: string, options: Partial<ConnectionOptions> = {}): ReadClient {
  return createReadClient({
    baseUrl: new URL(url),
    apiKey: new Secret(KEY),
    rate: { perMinute: 0, perHour: 0, concurrency: 4 },
    retry: { attempts: 5, maxWaitSeconds: 300 },
    userAgent: 'tidemark-test',
    clock: new FakeClock(),
    random: seededRandom(7),
    log: silentLogger,
    ...options,
  });
}

export function targetOf(
  kind: Kind = 'domains',
  options: {
    pageSize?: number;
    listing?: Partial<CollectionTarget['definition']['listing']>;
    organization?: string;
  } = {},
): CollectionTarget {
  const row = definitionOf(kind);
  const definition = changedDefinition(row, { listing: { ...row.listing, ...options.listing } });
  const scope = Object.fromEntries(definition.scope.map((key) => [key, options.organization ?? 'o1']));
  return {
    definition,
    scope,
    shape: { idPath: definition.idPath, volatile: volatileFields(definition) },
    pageSize: options.pageSize ?? 100,
  };
}

/** Keeps the ids of the current pass and of all passes; `known` ids are those that a mirror would hold unchanged. */
export class MemorySink implements WalkSink {
  readonly all = new Set<string>();
  readonly pageSizes: number[] = [];
  passes = 1;
  withoutId = 0;
  progressed: { pages: number; received: number; count: number | null }[] = [];
  #seen = new Set<string>();
  readonly #earlier = new Set<string>();
  readonly #known: ReadonlySet<string>;

  constructor(known: Iterable<string> = []) {
    this.#known = new Set(known);
  }

  accept({ records }: Parameters<WalkSink['accept']>[0]): ReturnType<WalkSink['accept']> {
    const before = this.#seen.size;
    let known = 0;
    let again = 0;
    this.pageSizes.push(records.length);
    for (const { id } of records) {
      if (id === undefined) {
        this.withoutId += 1;
        continue;
      }
      if (this.#known.has(id)) known += 1;
      if (this.#earlier.has(id) && !this.#seen.has(id)) again += 1;
      this.#seen.add(id);
      this.all.add(id);
    }
    return { fresh: this.#seen.size - before, again, known, distinct: this.#seen.size };
  }

  progress(state: { pages: number; received: number; count: number | null }): void {
    this.progressed.push(state);
  }

  startPass(): void {
    this.passes += 1;
    for (const id of this.#seen) this.#earlier.add(id);
    this.#seen = new Set();
  }
}

/** Servers and clients that one test opened. */
export class Opened {
  readonly #open: { close(): unknown }[] = [];

  add<T extends { close(): unknown }>(each: T): T {
    this.#open.push(each);
    return each;
  }

  /** A scripted server and a client of it; `path` is a prefix of the base URL. */
  async rig(
    script: Script,
    options: Partial<ConnectionOptions> = {},
    path = '',
  ): Promise<{ server: FaultServer; client: ReadClient; sink: MemorySink }> {
    const server = await startFaultServer(script);
    const client = this.add(clientFor(server.url + path, options));
    this.add(server);
    return { server, client, sink: new MemorySink() };
  }

  /** For `afterEach`. */
  async close(): Promise<void> {
    for (const each of this.#open.splice(0)) await each.close();
  }
}
