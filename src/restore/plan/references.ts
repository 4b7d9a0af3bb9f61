/** Translates ids of the desired state to live ids: the same, another one, or that of a record that a step creates. */
import { CATALOG, collectionKey } from '../../catalog/catalog.ts';
import type { Scope, ScopeKey } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { pointerTo, resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import { type JsonValue, isJsonObject, isRawNumber, parseLossless } from '../../core/json.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import { idText } from '../../diff/match-records.ts';
import { placesOf, withMember } from '../places.ts';
import { stepKey, recordKey } from '../records.ts';
import { type Matching, isIdStable, parentOf } from './matching.ts';
import type { Fill, KnownOrStep, PlanInput, Parameter } from './plan.ts';

/** The live record that an id of the desired state stands for. */
type Resolved = KnownOrStep<string> | { readonly unknown: string };

export interface References {
  /** The live record for an id in a record of the (desired) scope `from`. */
  resolve(kind: Kind, id: string, from: Scope): Resolved;
  /** True for an earlier id of a record if the desired state already has the record's latest id: a dangling reference. */
  isOutdated(kind: Kind, id: string): boolean;
  /** A desired scope as path parameters, or why one of them is unknown; `shown`: with live ids as far as known, else the desired ones. */
  scope(scope: Scope): {
    readonly parameters: readonly Parameter<string>[];
    readonly unknown: string | null;
    readonly shown: Scope;
  };
  /** True if a live record of the kind has the id, in any scope. */
  isLive(kind: Kind, id: string): boolean;
  /** Pointer to the id in a body of the kind. */
  idPointer(kind: Kind): string;
  /** True if the live collection was read completely. */
  isRead(kind: Kind, liveScope: Scope): boolean;
  /** Why a record that is absent from the live collection may exist; null if it does not. */
  absenceDoubt(kind: Kind, liveScope: Scope): string | null;
}

export function referencesOf(input: PlanInput, matching: Matching): References {
  const complete = new Set(input.live.collections.filter(({ isComplete }) => isComplete).map(collectionKey));
  const leaks = new Map(input.live.collections.map((each) => [collectionKey(each), each.leak]));
  const readKinds = new Set(input.live.collections.map(({ kind }) => kind));
  const liveKeys = new Set<string>();
  const missing = new Map<string, ParsedRecord>();
  const pairs = new Map<string, string>();
  const named = namedKinds(input);
  const wanted = new Set<string>();
  for (const { kind, id } of input.desired.records) if (named.has(kind)) wanted.add(`${kind} ${id}`);
  for (const [kind, match] of matching.kinds) {
    if (!named.has(kind)) continue;
    for (const record of match.live) liveKeys.add(recordKey(record)).add(`${kind} ${record.id}`);
    for (const record of match.missing) missing.set(recordKey(record), record);
    for (const { desired, live } of match.pairs) pairs.set(recordKey(desired), live.id);
  }

  /** The scope of a record of that kind, if it follows from the scope of the record that refers to it; else null. */
  const within = (kind: Kind, scope: Scope): Scope | null => {
    const part: Partial<Record<ScopeKey, string>> = {};
    for (const key of input.definitions(kind).scope) {
      const value = scope[key];
      if (value === undefined) return null;
      part[key] = value;
    }
    return part;
  };

  const resolve = (kind: Kind, id: string, from: Scope): Resolved => {
    const { title } = input.definitions(kind);
    const scope = within(kind, from);
    if (scope !== null) {
      const key = recordKey({ kind, scope, id });
      const paired = pairs.get(key);
      if (paired !== undefined) return { value: paired };
      if (missing.has(key)) return { step: stepKey({ kind, scope, id }, 'create') };
      const liveScope = matching.liveScope(scope);
      if (liveScope !== null) {
        const isLasting = isIdStable(input.definitions(kind), scope, liveScope);
        if (isLasting && liveKeys.has(recordKey({ kind, scope: liveScope, id }))) return { value: id };
        const now = input.idMap(kind, id);
        if (now !== undefined && liveKeys.has(recordKey({ kind, scope: liveScope, id: now })))
          return { value: now };
      }
    } else if (liveKeys.has(`${kind} ${id}`)) {
      return { value: id };
    }
    const blockedName = input.blockedName?.(kind, id);
    if (blockedName !== undefined) return { unknown: `its ${title.one} is blocked: see ${blockedName}` };
    return {
      unknown: readKinds.has(kind)
        ? `${title.one} ${id} is neither in the desired state nor live: \`tidemark log ${kind} ${id}\` shows when it was, and a restore from that state recreates it`
        : `${title.many} were not read, so ${id} is not known to exist`,
    };
  };

  return {
    resolve,
    isOutdated: (kind, id) => {
      const now = input.idMap(kind, id);
      return now !== undefined && wanted.has(`${kind} ${now}`) && !wanted.has(`${kind} ${id}`);
    },
    scope: (scope) => {
      const parameters: Parameter<string>[] = [];
      const shown: Record<string, string> = { ...scope };
      let unknown: string | null = null;
      for (const key of Object.keys(scope) as ScopeKey[]) {
        const parent = parentOf(scope, key);
        const found = resolve(parent.kind, parent.id, scope);
        const value = 'unknown' in found ? matching.liveId(parent.kind, parent.id) : undefined;
        const resolved = value === undefined ? found : { value };
        if ('unknown' in resolved) unknown ??= resolved.unknown;
        else parameters.push({ name: key, ...resolved });
        if ('value' in resolved) shown[key] = resolved.value;
      }
      return { parameters, unknown, shown };
    },
    isLive: (kind, id) => liveKeys.has(`${kind} ${id}`),
    idPointer: (kind) => pointerTo(input.definitions(kind).idPath),
    isRead: (kind, liveScope) => complete.has(collectionKey({ kind, scope: liveScope })),
    absenceDoubt: (kind, liveScope) => {
      const key = collectionKey({ kind, scope: liveScope });
      if (complete.has(key)) return leaks.get(key) ?? null;
      return `the live ${input.definitions(kind).title.many} could not be read completely`;
    },
  };
}

/** Kinds that a scope, a reference or a derived field can name. */
function namedKinds(input: PlanInput): ReadonlySet<Kind> {
  const named = new Set<Kind>(Object.values(SCOPE_KIND));
  for (const { kind } of CATALOG) {
    const { references, restore } = input.definitions(kind);
    for (const { kind: target } of [...references, ...restore.derived]) named.add(target);
  }
  return named;
}

export interface Remapped {
  readonly body: JsonValue;
  /** Ids of records that a step creates; the body has a placeholder. */
  readonly fills: readonly Fill<string>[];
  /** References to unknown records; their values are unchanged. */
  readonly unknown: readonly { readonly pointer: string; readonly reason: string }[];
}

/**
 * A desired body with live ids in its references. The same object if nothing changes.
 * @param live the live body: an outdated reference that it has too is kept, so that it does not differ
 */
export function remapped(
  definition: ResourceDefinition,
  record: ParsedRecord,
  references: References,
  live?: JsonValue,
): Remapped {
  let body = record.body;
  const fills: Fill<string>[] = [];
  const unknown: { pointer: string; reason: string }[] = [];
  if (!isJsonObject(body)) return { body, fills, unknown };
  for (const { pointer: pattern, kind, target } of definition.references) {
    // References by name or address do not depend on ids.
    if (target !== references.idPointer(kind)) continue;
    const held = live === undefined ? [] : idsAt(live, pattern);
    for (const pointer of placesOf(record.body, pattern)) {
      const value = resolvePointer(record.body, pointer);
      if (value === undefined || value === null || typeof value === 'boolean' || value === '') continue;
      const id = idText(value);
      if (held.includes(id) && references.isOutdated(kind, id)) continue;
      const found = references.resolve(kind, id, record.scope);
      if ('unknown' in found) unknown.push({ pointer, reason: found.unknown });
      else if ('step' in found) {
        const as = isNumber(value) ? 'number' : 'text';
        fills.push({ pointer, from: 'step', step: found.step, as });
        body = withMember(body, splitPointer(pointer), newId(kind, id)) ?? body;
      } else if (found.value !== id) {
        body = withMember(body, splitPointer(pointer), asId(found.value, value)) ?? body;
      }
    }
  }
  return { body, fills, unknown };
}

/** The ids in a body at a pointer, in which `*` is any element. */
function idsAt(body: JsonValue, pattern: string): string[] {
  return placesOf(body, pattern).flatMap((pointer) => {
    const value = resolvePointer(body, pointer);
    return value === undefined || value === null ? [] : [idText(value)];
  });
}

/** The placeholder for the id of a record that is yet to be created, by this plan or a later one. */
export function newId(kind: Kind, id: string): string {
  return `{id of ${kind} ${id} once it is created again}`;
}

function isNumber(value: JsonValue): boolean {
  return typeof value === 'number' || isRawNumber(value);
}

/** The id in the type of the other value: a number stays a number. */
export function asId(id: string, like: JsonValue): JsonValue {
  return isNumber(like) && /^-?(?:0|[1-9][0-9]*)$/.test(id) ? parseLossless(id) : id;
}

/** A line for each reference in the live record to a record that has another id now, or is gone. */
export function outdatedNames(
  input: Pick<PlanInput, 'definitions' | 'idMap'>,
  references: References,
  definition: ResourceDefinition,
  live: JsonValue,
  scope: Scope,
): string[] {
  return definition.references.flatMap(({ pointer, kind, target }) => {
    if (target !== references.idPointer(kind)) return [];
    const { one } = input.definitions(kind).title;
    return idsAt(live, pointer).flatMap((id) => {
      const found = references.resolve(kind, id, scope);
      const byName = 'value' in found && !references.isLive(kind, id) ? found.value : undefined;
      const now = input.idMap(kind, id) ?? byName;
      if (now !== undefined && now !== id)
        return [`it still names ${one} ${id}, which was created again as ${now}`];
      // Whether this plan creates it is not known yet: the step may be blocked.
      return 'step' in found ? [`it still names ${one} ${id}, which is gone`] : [];
    });
  });
}
