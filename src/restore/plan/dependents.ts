/** Which kinds a plan has to read, and which live records are removed along with another one. */
import { CATALOG, scopeKey, familyKinds } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { parentsOf, scopeKeyNaming, SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { pointerTo, resolvePointer } from '../../core/json-pointer.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import { idText } from '../../diff/match-records.ts';
import { contains } from '../../diff/states.ts';
import { placesOf } from '../places.ts';
import type { Planning } from './steps.ts';

/** The kinds whose records are removed along with one of this kind; none if it is never removed. */
export function dependentKinds(
  kind: Kind,
  definitions: (kind: Kind) => ResourceDefinition,
): readonly ResourceDefinition[] {
  const removed = definitions(kind);
  if (!removed.restore.isRemovable || removed.operation('remove') === undefined) return [];
  return CATALOG.map((row) => definitions(row.kind)).filter(
    (other) => isBelow(other, kind) || linksTo(other, removed).length > 0,
  );
}

function isBelow({ scope }: ResourceDefinition, kind: Kind): boolean {
  const key = scopeKeyNaming(kind);
  return key !== undefined && scope.includes(key);
}

/** Pointers by which a kind without PATCH refers to records of another: such a record is only a link. */
function linksTo(other: ResourceDefinition, { kind, idPath }: ResourceDefinition): string[] {
  if (other.operation('update') !== undefined) return [];
  const references = other.references.filter(
    (reference) => reference.kind === kind && reference.target === pointerTo(idPath),
  );
  // A response may show the id elsewhere.
  const shown = other.restore.derived.filter((derived) => derived.kind === kind).flatMap(({ from }) => from);
  return [...new Set([...references.map(({ pointer }) => pointer), ...shown])];
}

/** The live records of a kind that are removed along with this one; or why they are not known. */
export function dependentsOf(
  { input, matching, references }: Planning,
  removed: ParsedRecord,
  other: ResourceDefinition,
): { readonly records: readonly ParsedRecord[] } | { readonly unread: string } {
  const definition = input.definitions(removed.kind);
  const key = scopeKeyNaming(removed.kind);
  const below = isBelow(other, removed.kind) && key !== undefined ? key : null;
  const within: Scope = below === null ? removed.scope : { ...removed.scope, [below]: removed.id };
  const isRead =
    below === null || other.scope.at(-1) !== below
      ? isReadWithin(other, within)
      : references.isRead(other.kind, within);
  if (!isRead)
    return { unread: `the live ${other.title.many} that would be removed along with it could not be read` };
  const live = matching.kinds.get(other.kind)?.live ?? [];
  return { records: live.filter((record) => isRemovedWith(other, record, definition, removed)) };

  /** True if every collection of the kind inside the scope was read, and so were the lists of their parents. */
  function isReadWithin(kind: ResourceDefinition, scope: Scope): boolean {
    if (isNotOffered(kind.kind, scope)) return true;
    const [parent] = parentsOf(kind).slice(-1);
    const own = kind.scope.at(-1);
    if (parent === undefined || own === undefined || Object.hasOwn(scope, own)) {
      return references.isRead(kind.kind, scope);
    }
    if (SCOPE_KIND[own] !== parent || !isReadWithin(input.definitions(parent), scope)) return false;
    const parents = (matching.kinds.get(parent)?.live ?? []).filter(({ scope: each }) =>
      contains(each, removed.scope),
    );
    return parents.every((record) => references.isRead(kind.kind, { ...record.scope, [own]: record.id }));
  }

  function isNotOffered(kind: Kind, scope: Scope): boolean {
    return input.live.collections.some(
      (each) => each.kind === kind && each.isNotOffered === true && scopeKey(each.scope) === scopeKey(scope),
    );
  }
}

/** True for a record of `other` that is removed along with this one. */
export function isRemovedWith(
  other: ResourceDefinition,
  record: ParsedRecord,
  definition: ResourceDefinition,
  removed: ParsedRecord,
): boolean {
  const { kind, scope, body } = record;
  if (kind !== other.kind || !contains(scope, removed.scope)) return false;
  const key = scopeKeyNaming(removed.kind);
  if (key !== undefined && scope[key] === removed.id) return true;
  return linksTo(other, definition)
    .flatMap((pattern) => placesOf(body, pattern))
    .some((pointer) => {
      const value = resolvePointer(body, pointer);
      return (
        value !== undefined && value !== null && typeof value !== 'boolean' && idText(value) === removed.id
      );
    });
}

/**
 * The kinds to read, in catalog order: the requested ones, their parents, the kinds that they refer to or that replace them, and the
 * other kinds that show the same records. Kinds that are never written are left out.
 * @param removes true if records may be removed: then the kinds that are removed along with them are read too
 */
export function kindsToRead(
  requested: ReadonlySet<Kind>,
  definitions: (kind: Kind) => ResourceDefinition,
  removes = false,
): Kind[] {
  const needed = new Set<Kind>();
  const add = (kind: Kind): void => {
    const definition = definitions(kind);
    if (needed.has(kind) || definition.restore.never !== null) return;
    needed.add(kind);
    const { restore } = definition;
    for (const key of definition.scope) add(SCOPE_KIND[key]);
    for (const { kind: target } of [...definition.references, ...restore.derived]) add(target);
    if (restore.replacedBy !== null) add(restore.replacedBy.kind);
    if (restore.creation.by === 'invitation') add(restore.creation.kind);
    for (const other of familyKinds(kind)) add(other);
  };
  for (const kind of requested) {
    add(kind);
    if (removes) for (const other of dependentKinds(kind, definitions)) add(other.kind);
  }
  return CATALOG.map(({ kind }) => kind).filter((kind) => needed.has(kind));
}

/** The records that a record needs: its parents, and those to which its body refers. */
export function recordsNamedBy(
  { references, restore }: ResourceDefinition,
  { scope, body }: Pick<ParsedRecord, 'scope' | 'body'>,
): { readonly kind: Kind; readonly id: string }[] {
  const parents = (Object.entries(scope) as [keyof Scope, string][]).map(([key, id]) => ({
    kind: SCOPE_KIND[key],
    id,
  }));
  const shown = restore.derived.flatMap(({ from, kind }) => from.map((pointer) => ({ pointer, kind })));
  const named = [...references, ...shown].flatMap(({ pointer, kind }) =>
    placesOf(body, pointer).flatMap((place) => {
      const value = resolvePointer(body, place);
      return value === undefined || value === null ? [] : [{ kind, id: idText(value) }];
    }),
  );
  return [...parents, ...named];
}
