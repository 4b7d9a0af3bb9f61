/**
 * A sandbox to practise in: on loopback, in memory, with a store that takes the fields of a profile too, since what a
 * deployment accepts beyond the documentation would otherwise look lost.
 */
import { definitionOf, CATALOG } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Clock } from '../core/clock.ts';
import { type JsonValue, isJsonObject } from '../core/json.ts';
import type { Logger } from '../core/logger.ts';
import { Secret } from '../core/secret.ts';
import { createAuthenticator } from './authorization.ts';
import { createInterface } from './interface.ts';
import { createListener } from './listener.ts';
import { secureRandom, tokenFrom } from './memory/identity.ts';
import { ProfiledStore } from './memory/profiled-store.ts';
import { idOf, objectOf } from './memory/tables.ts';
import { DEFAULT_PAGE_SIZE } from './page.ts';
import { readingAnswer } from './sandbox.ts';
import type { SeedUser, SeedRecord } from './seed/seed.ts';
import type { Viewer } from './store.ts';

interface DrillSandboxOptions {
  /** The user whose key is the only one. */
  readonly userUuid: string;
  /** The effective definitions: fields that are not documented are accepted as well. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface DrillSandbox {
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** Puts users and records in as they are, past every rule. */
  insert(users: readonly SeedUser[], records: readonly AnsweredRecord[]): void;
  /** Counts on above the numbers of these records, so that a new record never gets the id of a lost one. */
  reserve(records: readonly AnsweredRecord[]): void;
  /** Founds an organization of that name with the key's user as owner, as a sign-up does; returns its id. */
  found(name: string): string;
  close(): Promise<void>;
}

/** Starts to listen on a free port of 127.0.0.1. The key is new each time. */
export async function openDrillSandbox(options: DrillSandboxOptions): Promise<DrillSandbox> {
  const { userUuid, definitions, clock, log } = options;
  const store = new ProfiledStore({ clock, random: secureRandom, file: null }, definitions);
  const key = tokenFrom(secureRandom, 'drill_');
  const serve = createInterface({
    mount: '',
    authenticate: createAuthenticator([{ key, permissions: 'all', userUuid }]),
    read: (_query, work) => work({ store, headers: {} }),
    readingAction: readingAnswer,
    writer: store,
    pageSize: DEFAULT_PAGE_SIZE,
    throttle: null,
    log,
  });
  const listener = createListener(serve, log);
  const { url } = await listener.listen({ host: '127.0.0.1', port: 0 });
  const viewer: Viewer = { userUuid, organizations: null };
  return {
    baseUrl: new URL(url),
    apiKey: new Secret(key),
    insert: (users, records) => store.insert({ users, records: seedRecords(records) }),
    reserve: (records) => {
      for (const { kind, scope, body } of seedRecords(records)) {
        if (definitionOf(kind).idType !== 'integer') continue;
        const id = idOf(kind, body);
        if (id === undefined) continue;
        // The store counts on from what it has seen, also where it is gone.
        store.write(kind, scope, body);
        store.discard(kind, scope, id);
      }
    },
    found: (name) => {
      const id = idOf('organizations', objectOf(store.create('organizations', {}, { name }, viewer)));
      if (id === undefined) throw new Error('a founded organization has no id');
      return id;
    },
    close: () => listener.close(),
  };
}

/** A record as a list answered it. */
interface AnsweredRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly body: JsonValue;
}

/**
 * The records in catalog order, parents before children, and the views of a shared table after the family that names a
 * record (pipeline families before plugins, as the catalog lists them). Bodies that are not objects are left out: no
 * service can hold them.
 */
function seedRecords(records: readonly AnsweredRecord[]): SeedRecord[] {
  const rank = new Map(CATALOG.map(({ kind }, index) => [kind, index]));
  return records
    .toSorted((a, b) => (rank.get(a.kind) ?? 0) - (rank.get(b.kind) ?? 0))
    .flatMap(({ kind, scope, id, body }): SeedRecord[] => {
      if (!isJsonObject(body)) return [];
      // The id comes from the body if it has one: new numbers then continue after it.
      return [idOf(kind, body) === id ? { kind, scope, body } : { kind, scope, body, id }];
    });
}
