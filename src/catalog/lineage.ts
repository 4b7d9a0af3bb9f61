/** Parents and children of kinds. Everything follows from the rows of the catalog, so a new row needs no change here. */
import { getOwn, idAt, isJsonObject, parseLossless } from '../core/json.ts';
import { CATALOG, definitionOf } from './catalog.ts';
import { type Scope, type ScopeKey, SCOPE_KEYS } from './definition.ts';
import type { Kind, KindRow } from './kinds.ts';

/** The kinds whose records lead to this kind's collections, outermost first; none for the root. */
export function parentsOf(definition: KindRow): readonly Kind[] {
  const { from } = definition.discovery;
  return from === 'root' ? [] : [...parentsOf(definitionOf(from)), from];
}

/** The kinds whose lists lead to the collections of these, in catalog order. One of these only if it leads to another. */
export function kindsAbove(kinds: Iterable<Kind>): Kind[] {
  const all = new Set([...kinds].flatMap((kind) => parentsOf(definitionOf(kind))));
  return CATALOG.map(({ kind }) => kind).filter((kind) => all.has(kind));
}

/** The kinds of the catalog by depth: the collections of each level are found in the records of the levels before it. */
export const LEVELS: readonly (readonly Kind[])[] = levels();

function levels(): Kind[][] {
  const found: Kind[][] = [];
  for (const definition of CATALOG) (found[parentsOf(definition).length] ??= []).push(definition.kind);
  return found;
}

/**
 * The path parameter with the id of a kind's record in the collections below it: `role_id` for `roles`. Undefined for
 * kinds without collections below; a single object per record is not a collection.
 */
export function scopeKeyNaming(kind: Kind): ScopeKey | undefined {
  return CATALOG.find(({ discovery, reading }) => discovery.from === kind && reading !== 'each')?.scope.at(
    -1,
  );
}

/** The scope of a kind's collection below a record of its parent kind. */
export function scopeBelow(definition: KindRow, scopeOfRecord: Scope, id: string): Scope {
  const { from } = definition.discovery;
  const key = from === 'root' ? undefined : scopeKeyNaming(from);
  return scopeOf(definition, key === undefined ? scopeOfRecord : { ...scopeOfRecord, [key]: id });
}

/** The scope of the kind's collection, from scope values that may include others. */
export function scopeOf({ scope }: KindRow, values: Scope): Scope {
  const named = scope.flatMap((key): [ScopeKey, string][] => {
    const value = values[key];
    return value === undefined ? [] : [[key, value]];
  });
  return Object.fromEntries(named);
}

/** True if the values that both scopes have are equal. Collections of a project do not name its organization. */
export function isScopeCompatible(a: Scope, b: Scope): boolean {
  return SCOPE_KEYS.every((key) => (a[key] ?? b[key]) === (b[key] ?? a[key]));
}

/** The kind of record that a scope value identifies: `roles` for `role_id`. */
export const SCOPE_KIND: Readonly<Record<ScopeKey, Kind>> = scopeKinds();

/** The organization or project of a record, for tables of several kinds. For such a parent itself, its own id. */
export function parentId(
  key: Exclude<ScopeKey, 'role_id'>,
  { kind, scope, id }: { readonly kind: Kind; readonly scope: Scope; readonly id: string },
): string | undefined {
  return SCOPE_KIND[key] === kind ? id : scope[key];
}

function scopeKinds(): Record<ScopeKey, Kind> {
  const kindOf = (key: ScopeKey): Kind => {
    const named = CATALOG.find(({ kind }) => scopeKeyNaming(kind) === key);
    if (named === undefined) throw new Error(`the catalog has no kind whose records ${key} names`);
    return named.kind;
  };
  return Object.fromEntries(SCOPE_KEYS.map((key) => [key, kindOf(key)])) as Record<ScopeKey, Kind>;
}

/** True for the kind that the scope value identifies and all kinds below it. */
export function isWithin(definition: KindRow, key: ScopeKey): boolean {
  return scopeKeyNaming(definition.kind) === key || definition.scope.includes(key);
}

/** The ids in an organization's `teams`: objects with any keys, whose `id` is that of a project. */
export function teamIds(organizationText: string): string[] {
  const organization = parseLossless(organizationText);
  const teams = isJsonObject(organization) ? getOwn(organization, 'teams') : undefined;
  if (!Array.isArray(teams)) return [];
  return teams.flatMap((team) => {
    const id = idAt(team, ['id']);
    return id === undefined ? [] : [id];
  });
}
