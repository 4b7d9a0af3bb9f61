/** Where a drill takes place: a service that holds nothing but what the drill puts there. Who calls brings it. */
import type { Kind } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { type JsonObject, isJsonObject } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { recordName } from '../diff/name.ts';
import type { DrillDamage } from '../diff/drill-document.ts';
import { damage } from './drill-damage.ts';
import type { KeyUser } from './drill-key-user.ts';
import type { DrillSnapshot } from './drill-snapshot.ts';
import type { PlanInput } from './plan-input.ts';

export interface DrillSandboxGround {
  /** The interface, over HTTP. */
  readonly baseUrl: URL;
  /** A key of the user that the ground was opened for, with every permission. */
  readonly apiKey: Secret;
  /** Puts users and records in as they are, past every rule. */
  plant(users: readonly (JsonObject & { readonly uuid: string })[], records: readonly ParsedRecord[]): void;
  /** Sees to it that none of these records' ids is ever given to another one, as on the service that gave them. */
  reserve(records: readonly ParsedRecord[]): void;
  /** Founds an organization as a sign-up does: of that name, with the key's user as owner. Returns its id. */
  found(name: string): string;
}

/** How much of a full service is damaged before it is restored. */
export interface DamageChoice {
  readonly percent: number;
  readonly seed: number;
}

interface DrillStart {
  readonly damage: DrillDamage | null;
  readonly assumptions: readonly string[];
  /** The organizations of the snapshot with the ids that they have on the ground, where these are others. */
  readonly organizations: ReadonlyMap<string, string>;
}

/** Newly founded organizations that hold nothing but the key's user. */
export function startEmpty(
  ground: DrillSandboxGround,
  snapshot: DrillSnapshot,
  keyUser: KeyUser,
  definitions: PlanInput['definitions'],
): DrillStart {
  ground.reserve(snapshot.desired.records);
  ground.plant([userOf(keyUser)], []);
  const organizations = new Map<string, string>();
  for (const record of organizationsOf(snapshot)) {
    const { kind, id, body } = record;
    organizations.set(id, ground.found(recordName(definitions(kind), body, id)));
  }
  // Organizations that the snapshot knows only by what hangs from them keep their id: nothing else tells which is which.
  const unnamed = new Set(snapshot.desired.records.flatMap(({ scope }) => scope.organization_id ?? []));
  for (const id of unnamed) if (!organizations.has(id)) ground.plant([], shellOf(id, keyUser));
  return {
    damage: null,
    organizations,
    assumptions: [
      "before the restore there are newly founded organizations of the same names, each with the key's own user as owner; all else is created through the interface",
      keyUser.assumption,
    ],
  };
}

/** Everything that the snapshot holds, then damaged. */
export function startDamaged(
  ground: DrillSandboxGround,
  snapshot: DrillSnapshot,
  keyUser: KeyUser,
  definitions: PlanInput['definitions'],
  choice: DamageChoice & { readonly random: () => number },
): DrillStart {
  const { percent, seed, random } = choice;
  const damaged = damage(snapshot.desired.records, {
    percent,
    random,
    definitions,
    keyUser: keyUser.uuid,
  });
  const users = snapshot.desired.records
    .filter(({ kind }) => kind === 'members')
    .flatMap(({ id, body }) => {
      const user = isJsonObject(body) ? body['user'] : undefined;
      return isJsonObject(user) ? [{ ...user, uuid: id }] : [];
    });
  ground.reserve(snapshot.desired.records);
  ground.plant([userOf(keyUser), ...users], damaged.records);
  return {
    damage: { percent, seed, removed: damaged.removed, altered: damaged.altered },
    organizations: new Map(),
    assumptions: [
      `before the restore the service holds the whole snapshot, of which ${damaged.removed} records were removed and ${damaged.altered} altered (--damage ${percent} --seed ${seed}); organizations and the key's own user stay`,
      keyUser.assumption,
    ],
  };
}

/** The ground as a source: definitions as configured, unlimited, everything included. */
export function groundSource(
  name: string,
  ground: Pick<DrillSandboxGround, 'baseUrl' | 'apiKey'>,
  kinds: readonly Kind[],
  definitions: PlanInput['definitions'],
  all: readonly Kind[],
): SourceConfig {
  return {
    name,
    baseUrl: ground.baseUrl,
    apiKey: ground.apiKey,
    profile: 'svc',
    organizations: 'all',
    projects: 'all',
    kinds: { include: kinds, exclude: [] },
    rate: { perMinute: 0, perHour: 0, concurrency: CONCURRENCY },
    pageSize: 500,
    retry: { attempts: 3, maxWaitSeconds: 5 },
    sync: { maxDurationMs: 0 },
    recordings: { sharingPerRun: 0, fullSweepEveryMs: 0 },
    removals: { maxRecords: 0, maxShare: 1, confirmAfterMs: 0 },
    restore: { maxShare: 1, minRecords: 1, maxAgeMs: 0, ownUser: null },
    redact: false,
    secrets: [],
    definitions: all.map(definitions),
  };
}

/** As a service of that kind would be asked by default. */
const CONCURRENCY = 4;

function organizationsOf({ desired }: DrillSnapshot): ParsedRecord[] {
  return desired.records.filter(({ kind }) => kind === 'organizations');
}

function shellOf(id: string, { uuid, user }: KeyUser): ParsedRecord[] {
  return [
    { kind: 'organizations', scope: {}, id, body: { id, name: id } },
    { kind: 'members', scope: { organization_id: id }, id: uuid, body: { id: uuid, user, level: 15 } },
  ];
}

function userOf({ uuid, user }: KeyUser): JsonObject & { uuid: string } {
  return { ...user, uuid };
}
