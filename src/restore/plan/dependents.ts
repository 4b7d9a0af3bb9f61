/** Which collections a plan has to read, and which live records are removed along with another one. */
import { CATALOG, scopeKey, familyKinds } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { parentsOf, scopeKeyNaming, SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { pointerTo, resolvePointer } from '../../core/json-pointer.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import { idText } from '../../diff/match-records.ts';
import { placesOf } from '../places.ts';
import type { Planning } from './steps.ts';

/** Kinds of which records go with one of this kind; none for kinds that are never removed. */
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

/** Pointers by which a kind that has no PATCH names the records of another: such a record is nothing but that link. */
function linksTo(other: ResourceDefinition, { kind, idPath }: ResourceDefinition): string[] {
  if (other.operation('update') !== undefined) return [];
  const references = other.references.filter(
    (reference) => reference.kind === kind && reference.target === pointerTo(idPath),
  );
  // An answer may hold the id elsewhere.
  const shown = other.restore.derived.filter((derived) => derived.kind === kind).flatMap(({ from }) => from);
  return [...new Set([...references.map(({ pointer }) => pointer), ...shown])];
}

/** The live records of a kind that go with this one; or why they are not known. */
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
  if (!isRead) return { unread: `the live ${other.title.many} that would go with it could not be read` };
  const live = matching.kinds.get(other.kind)?.live ?? [];
  return { records: live.filter((record) => isRemovedWith(other, record, definition, removed)) };

  /** True where every collection of the kind inside the scope was read, and so were those that lead to it. */
  function isReadWithin(kind: ResourceDefinition, scope: Scope): boolean {
    if (isNotOffered(kind.kind, scope)) return true;
    const [parent] = parentsOf(kind).slice(-1);
    const own = kind.scope.at(-1);
    if (parent === undefined || own === undefined || Object.hasOwn(scope, own)) {
      return references.isRead(kind.kind, scope);
    }
    if (SCOPE_KIND[own] !== parent || !isReadWithin(input.definitions(parent), scope)) return false;
    const parents = (matching.kinds.get(parent)?.live ?? []).filter((record) =>
      isInside(removed.scope, record),
    );
    return parents.every((record) => references.isRead(kind.kind, { ...record.scope, [own]: record.id }));
  }

  function isNotOffered(kind: Kind, scope: Scope): boolean {
    return input.live.collections.some(
      (each) => each.kind === kind && each.isNotOffered === true && scopeKey(each.scope) === scopeKey(scope),
    );
  }
}

/** True for a record of `other` that goes when this one is removed. */
export function isRemovedWith(
  other: ResourceDefinition,
  record: ParsedRecord,
  definition: ResourceDefinition,
  removed: ParsedRecord,
): boolean {
  if (record.kind !== other.kind || !isInside(removed.scope, record)) return false;
  const key = scopeKeyNaming(removed.kind);
  if (key !== undefined && record.scope[key] === removed.id) return true;
  return names(record, linksTo(other, definition), removed.id);
}

function isInside(within: Scope, { scope }: ParsedRecord): boolean {
  return (Object.entries(within) as [keyof Scope, string][]).every(([name, id]) => scope[name] === id);
}

function names({ body }: ParsedRecord, links: readonly string[], id: string): boolean {
  return links.some((pattern) =>
    placesOf(body, pattern).some((pointer) => {
      const value = resolvePointer(body, pointer);
      return value !== undefined && value !== null && typeof value !== 'boolean' && idText(value) === id;
    }),
  );
}

/**
 * The kinds to read, in catalog order: those asked for, their parents, what they refer to, what is in their place,
 * and the other kinds that show the same records. Kinds that are never written are left out.
 * @param removes true where records may be removed: then what goes with them is read too
 */
export function kindsToRead(
  asked: ReadonlySet<Kind>,
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
  for (const kind of asked) {
    add(kind);
    if (removes) for (const other of dependentKinds(kind, definitions)) add(other.kind);
  }
  return CATALOG.map(({ kind }) => kind).filter((kind) => needed.has(kind));
}

/** The records that a record needs: its parents, and those that its body names. */
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
