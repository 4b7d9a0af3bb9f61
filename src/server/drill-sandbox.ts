/**
 * The sandbox of a restore drill: on loopback, in memory, with a store that also accepts the fields of a profile.
 * Otherwise, fields that a deployment accepts beyond the documentation would seem to be lost.
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
  /** The user to whom the only key belongs. */
  readonly userUuid: string;
  /** The effective definitions, with fields that are not documented. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface DrillSandbox {
  readonly baseUrl: URL;
  readonly apiKey: Secret;
  /** Inserts users and records unchanged, without rules. */
  insert(users: readonly SeedUser[], records: readonly AnsweredRecord[]): void;
  /** Reserves the numbers of these records, so that a new record never gets the id of a lost one. */
  reserve(records: readonly AnsweredRecord[]): void;
  /** Creates an organization of that name with the key's user as owner, as a sign-up does; returns its id. */
  found(name: string): string;
  close(): Promise<void>;
}

/** Starts a sandbox on a free port of 127.0.0.1, with a new key. */
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
        // The store continues its numbers after every record that it ever had.
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

/** A record from a list of the service. */
interface AnsweredRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly body: JsonValue;
}

/**
 * The records in the order of the catalog: parents before children, and pipeline families before plugins, so that the
 * note with the family of a component is kept. Bodies that are not objects are left out: no service can have them.
 */
function seedRecords(records: readonly AnsweredRecord[]): SeedRecord[] {
  const rank = new Map(CATALOG.map(({ kind }, index) => [kind, index]));
  return records
    .toSorted((a, b) => (rank.get(a.kind) ?? 0) - (rank.get(b.kind) ?? 0))
    .flatMap(({ kind, scope, id, body }): SeedRecord[] => {
      if (!isJsonObject(body)) return [];
      // Without `id` if the body has it: then new numbers continue after it.
      return [idOf(kind, body) === id ? { kind, scope, body } : { kind, scope, body, id }];
    });
}
