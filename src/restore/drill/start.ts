/** The sandbox of a drill before the restore: only organizations with an owner, or the damaged snapshot. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { scopeKeyNaming } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { SourceConfig } from '../../config/config.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonObject, isJsonObject, type JsonValue, getOwn } from '../../core/json.ts';
import type { Secret } from '../../core/secret.ts';
import { type ParsedRecord, storedName } from '../../diff/change.ts';
import type { DrillDamage } from '../../diff/drill-document.ts';
import { compareTexts } from '../../catalog/order.ts';
import { recordsNamedBy } from '../plan/dependents.ts';
import type { PlanInput } from '../plan/plan.ts';
import { writableFields } from '../plan/settings.ts';
import { familyRecordKey } from '../records.ts';
import type { DrillSnapshot } from './snapshot.ts';

export interface DrillService {
  readonly baseUrl: URL;
  /** A key of the user for whom the service was opened, with every permission. */
  readonly apiKey: Secret;
  /** Inserts users and records as they are, without any checks. */
  insert(users: readonly (JsonObject & { readonly uuid: string })[], records: readonly ParsedRecord[]): void;
  /** Reserves the ids of these records, so that no new record gets one of them, as on the real service. */
  reserve(records: readonly ParsedRecord[]): void;
  /** Creates an organization of that name as a sign-up does, with the key's user as owner. Returns its id. */
  found(name: string): string;
}

/** How the complete snapshot is damaged before it is restored. */
export interface DamageChoice {
  readonly percent: number;
  readonly seed: number;
}

interface DrillStart {
  readonly damage: DrillDamage | null;
  readonly assumptions: readonly string[];
  /** The ids of organizations in the sandbox by their ids in the snapshot, if they differ. */
  readonly organizations: ReadonlyMap<string, string>;
}

/** Creates organizations with only the key's user, and the parents that the drill does not report on. */
export function startEmpty(
  service: DrillService,
  snapshot: DrillSnapshot,
  keyUser: KeyUser,
  definitions: PlanInput['definitions'],
): DrillStart {
  service.reserve(snapshot.desired.records);
  service.insert([keyUser.user], []);
  const organizations = new Map<string, string>();
  for (const { kind, id, body } of snapshot.desired.records) {
    if (kind !== 'organizations') continue;
    organizations.set(id, service.found(storedName(definitions(kind), body, id)));
  }
  // Organizations that are only known from the scopes of their children keep their id, because nothing else identifies them.
  const unnamed = new Set(snapshot.desired.records.flatMap(({ scope }) => scope.organization_id ?? []));
  for (const id of unnamed) if (!organizations.has(id)) service.insert([], organizationAndUser(id, keyUser));
  const context = snapshot.desired.records.filter((record) => isContext(snapshot, record));
  service.insert(
    [],
    context.map((record) => {
      const id = organizations.get(record.scope.organization_id ?? '');
      return id === undefined ? record : { ...record, scope: { ...record.scope, organization_id: id } };
    }),
  );
  return {
    damage: null,
    organizations,
    assumptions: [
      `before the restore there are new organizations of the same names, each with the key's own user as owner${contextText(context, definitions)}; everything else is created through the API`,
      keyUser.assumption,
    ],
  };
}

/** True for a parent that the drill does not report on: it exists before the restore. */
function isContext({ isAsked }: DrillSnapshot, record: ParsedRecord): boolean {
  return record.kind !== 'organizations' && scopeKeyNaming(record.kind) !== undefined && !isAsked(record);
}

/** E.g. `, and their projects, which the drill does not report on`. */
function contextText(context: readonly ParsedRecord[], definitions: PlanInput['definitions']): string {
  const kinds = [...new Set(context.map(({ kind }) => definitions(kind).title.many))];
  return kinds.length === 0 ? '' : `, and their ${kinds.join(' and ')}, which the drill does not report on`;
}

/** Inserts the snapshot, damaged. */
export function startDamaged(
  service: DrillService,
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
    stays: (record) => isContext(snapshot, record),
    keyUser: keyUser.uuid,
  });
  const users = snapshot.desired.records
    .filter(({ kind }) => kind === 'members')
    .flatMap(({ id, body }) => {
      const user = isJsonObject(body) ? body['user'] : undefined;
      return isJsonObject(user) ? [{ ...user, uuid: id }] : [];
    });
  service.reserve(snapshot.desired.records);
  service.insert([keyUser.user, ...users], damaged.records);
  return {
    damage: { percent, seed, removed: damaged.removed, altered: damaged.altered },
    organizations: new Map(),
    assumptions: [
      `before the restore the service holds the complete snapshot, of which ${damaged.removed} records were removed and ${damaged.altered} altered (--damage ${percent} --seed ${seed}); organizations and the key's own user stay`,
      keyUser.assumption,
    ],
  };
}

/** The sandbox as a source: definitions as configured, without limits, everything included. */
export function drillSource(
  name: string,
  service: Pick<DrillService, 'baseUrl' | 'apiKey'>,
  kinds: readonly Kind[],
  definitions: PlanInput['definitions'],
): SourceConfig {
  return {
    name,
    baseUrl: service.baseUrl,
    apiKey: service.apiKey,
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
    git: null,
    definitions: KINDS.map(definitions),
  };
}

/** The default of a source. */
const CONCURRENCY = 4;

function organizationAndUser(id: string, { uuid, user }: KeyUser): ParsedRecord[] {
  return [
    { kind: 'organizations', scope: {}, id, body: { id, name: id } },
    { kind: 'members', scope: { organization_id: id }, id: uuid, body: { id: uuid, user, level: 15 } },
  ];
}

interface DamageOptions {
  /** 0 to 100. */
  readonly percent: number;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** True for a record that is not damaged. */
  readonly stays?: (record: ParsedRecord) => boolean;
  /** The user whose memberships are not damaged: users cannot remove their own. */
  readonly keyUser: string;
}

/**
 * Damages that share of the records, determined by `random`: about half are removed, with everything below them and everything that
 * refers to them; in the others, one writable field gets another value. Organizations are altered, never removed.
 * @internal
 */
export function damage(
  records: readonly ParsedRecord[],
  options: DamageOptions,
): { readonly records: readonly ParsedRecord[]; readonly removed: number; readonly altered: number } {
  const { random, definitions, keyUser } = options;
  const candidates = records.filter(
    (record) =>
      !(definitions(record.kind).restore.protectsOwnUser && record.id === keyUser) &&
      options.stays?.(record) !== true,
  );
  const wanted = Math.min(candidates.length, Math.ceil((records.length * options.percent) / 100));
  const gone = new Set<string>();
  const altered = new Map<string, ParsedRecord>();
  for (const record of shuffled(candidates, random).slice(0, wanted)) {
    const definition = definitions(record.kind);
    const isRoot = definition.discovery.from === 'root';
    const other = isRoot || random() < 0.5 ? alteredRecord(definition, record, random) : null;
    if (other !== null) altered.set(familyRecordKey(definition, record), other);
    else if (!isRoot) gone.add(familyRecordKey(definition, record));
  }
  addDependents(records, gone, definitions);
  const kept: ParsedRecord[] = [];
  let changes = 0;
  for (const record of records) {
    const key = familyRecordKey(definitions(record.kind), record);
    if (gone.has(key)) continue;
    const other = altered.get(key);
    if (other !== undefined) changes += 1;
    // The body is also altered under the other kinds of the record.
    kept.push(other === undefined ? record : { ...record, body: other.body });
  }
  return { records: kept, removed: records.length - kept.length, altered: changes };
}

/** Adds the children of removed records and whatever refers to them, until nothing more is found. */
function addDependents(
  records: readonly ParsedRecord[],
  gone: Set<string>,
  definitions: (kind: Kind) => ResourceDefinition,
): void {
  for (let before = -1; before !== gone.size;) {
    before = gone.size;
    const ids = new Set(
      records
        .filter((record) => gone.has(familyRecordKey(definitions(record.kind), record)))
        .map(({ kind, id }) => `${kind} ${id}`),
    );
    for (const record of records) {
      const definition = definitions(record.kind);
      const needed = recordsNamedBy(definition, record);
      if (needed.some(({ kind, id }) => ids.has(`${kind} ${id}`)))
        gone.add(familyRecordKey(definition, record));
    }
  }
}

/** The record with another value in one of its fields; null if no request can change any of them. */
function alteredRecord(
  definition: ResourceDefinition,
  record: ParsedRecord,
  random: () => number,
): ParsedRecord | null {
  const { body } = record;
  if (!isJsonObject(body) || definition.operation('update') === undefined) return null;
  const choices = writableFields(definition).flatMap((field) => {
    const value = getOwn(body, field.name);
    const other = value === undefined ? undefined : otherValue(field, value);
    return other === undefined || isGuarded(field) ? [] : [{ name: field.name, other }];
  });
  const choice = choices[Math.floor(random() * choices.length)];
  return choice === undefined ? null : { ...record, body: { ...body, [choice.name]: choice.other } };
}

/** True for fields that are not altered: those that only a creation sets, that depend on a condition, or that may contain secrets. */
function isGuarded({ isCreateOnly, requires, isSecret, secretPointers }: FieldDefinition): boolean {
  return isCreateOnly || requires !== null || isSecret || secretPointers.length > 0;
}

function otherValue({ type, values }: FieldDefinition, value: JsonValue): JsonValue | undefined {
  if (type === 'boolean') return value !== true;
  if (type === 'integer') return value === 1 ? 8 : 1;
  if (type !== 'string') return undefined;
  return (
    values?.find((other) => other !== value) ?? `${typeof value === 'string' ? value : ''} (altered)`.trim()
  );
}

/** Fisher–Yates shuffle. */
function shuffled<T>(items: readonly T[], random: () => number): T[] {
  const mixed = [...items];
  for (let last = mixed.length - 1; last > 0; last -= 1) {
    const other = Math.floor(random() * (last + 1));
    [mixed[last], mixed[other]] = [mixed[other] as T, mixed[last] as T];
  }
  return mixed;
}

/** The user whose key restores the drill: it must exist before anything can be created. */
interface KeyUser {
  readonly uuid: string;
  /** As in `user` of a member. */
  readonly user: JsonObject & { readonly uuid: string };
  /** How the user was determined; one line for the report. */
  readonly assumption: string;
}

const STAND_IN: JsonObject & { uuid: string } = {
  uuid: '00000000-0000-4000-8000-000000000001',
  distinct_id: 'drill',
  first_name: 'Drill',
  last_name: 'Owner',
  email: 'drill@sandbox.example',
};

/**
 * The configured user (uuid or e-mail address), else the member with the level of the key (`membership_level`) in the most
 * organizations, and of these the one who joined first; a placeholder user if the snapshot has no member.
 */
export function keyUserOf(records: readonly ParsedRecord[], configured: string | null): KeyUser {
  const members = records.filter(({ kind }) => kind === 'members');
  const named = members.find(({ id, body }) => {
    const email = resolvePointer(body, '/user/email');
    return configured !== null && (id === configured || email === configured);
  });
  if (named !== undefined) return keyUser(named, `the key belongs to ${nameOf(named)}, as configured`);
  const levels = new Map(
    records
      .filter(({ kind }) => kind === 'organizations')
      .map(({ id, body }) => [id, resolvePointer(body, '/membership_level')]),
  );
  const fits = new Map<string, { first: ParsedRecord; count: number; since: string }>();
  for (const member of members) {
    const joined = resolvePointer(member.body, '/joined_at');
    // Sorts after every time, so that members without one come last.
    const since = typeof joined === 'string' ? joined : '~';
    const best = fits.get(member.id) ?? { first: member, count: 0, since };
    const level = resolvePointer(member.body, '/level');
    if (level !== undefined && level === levels.get(member.scope.organization_id ?? '')) best.count += 1;
    if (since < best.since) best.since = since;
    fits.set(member.id, best);
  }
  const [best] = [...fits.values()].sort(
    (a, b) => b.count - a.count || compareTexts(a.since, b.since) || compareTexts(a.first.id, b.first.id),
  );
  if (best === undefined) {
    return {
      uuid: STAND_IN.uuid,
      user: STAND_IN,
      assumption: 'the snapshot has no members: the key belongs to a placeholder user',
    };
  }
  const why = 'the member who joined first at the level of the key; set restore.ownUser for another one';
  return keyUser(best.first, `the key belongs to ${nameOf(best.first)} (${why})`);
}

function keyUser(member: ParsedRecord, assumption: string): KeyUser {
  const user = resolvePointer(member.body, '/user');
  const shown = isJsonObject(user) ? user : {};
  return { uuid: member.id, user: { ...shown, uuid: member.id }, assumption };
}

function nameOf(member: ParsedRecord): string {
  const email = resolvePointer(member.body, '/user/email');
  return typeof email === 'string' ? email : member.id;
}
