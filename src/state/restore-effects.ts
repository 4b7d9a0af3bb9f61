/** What a restore changes besides the records that it restores: new ids, and invites for missing members. That is not drift. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isScopeCompatible } from '../catalog/lineage.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isSetOnCreation } from '../catalog/volatile-names.ts';
import { cached } from '../core/cached.ts';
import { pointerTo, splitPointer } from '../core/json-pointer.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { SeverityOf } from '../diff/severity.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { idsIn, withMappedIds } from './recreated-ids.ts';
import type { LoadedState } from './state.ts';

/**
 * The document without what a restore necessarily changes when it recreates a record: its id, and other values that the
 * service assigns. Fields of more than low severity stay, because their loss matters.
 */
export function withoutNewIds(
  document: DiffDocument,
  idMap: readonly IdMapping[],
  definitions: (kind: Kind) => ResourceDefinition,
  severityOf: SeverityOf,
): DiffDocument {
  const recreated = new RecreatedIds(idMap);
  if (recreated.isEmpty) return document;
  const changes = document.changes.flatMap((change): RecordChange[] => {
    const idPointer = pointerTo(definitions(change.kind).idPath);
    const isRecreated =
      change.change === 'changed' &&
      recreated.givenBy(change.kind, change.id) !== undefined &&
      change.fields.some(({ path }) => path === idPointer);
    if (!isRecreated) return [change];
    const fields = change.fields.filter((field) => !isAssigned(definitions, severityOf, change, field));
    return fields.length === 0 ? [] : [{ ...change, fields }];
  });
  const settled = document.changes.length - changes.length;
  const { changed, unchanged } = document.summary;
  const summary = { ...document.summary, changed: changed - settled, unchanged: unchanged + settled };
  return { ...document, changes, summary };
}

/** True for what the service assigns to a recreated record: its id, and server-owned fields of low severity. */
export function isAssigned(
  definitions: (kind: Kind) => ResourceDefinition,
  severityOf: SeverityOf,
  change: RecordChange,
  field: FieldChange,
): boolean {
  const { fieldsByName, idPath } = definitions(change.kind);
  if (field.path === pointerTo(idPath)) return true;
  const name = splitPointer(field.path)[0] ?? '';
  const known = fieldsByName.get(name);
  if (known === undefined) return isSetOnCreation(name);
  return !known.isWritable && severityOf({ ...change, change: 'changed' }, field) === 'low';
}

/**
 * The document without added records that a restore created instead of missing records of another kind (in FROM, not in TO):
 * the missing ones are reported. If somebody accepted that one is missing, its invite is reported: it would bring back a
 * member who was meant to go. A restore that contradicts the audit log does not count.
 * @param missing the records of TO that the service no longer shows, whose removal is held
 */
export function withoutSentInvites(
  document: DiffDocument,
  { restores, acceptances }: Pick<Mirror, 'restores' | 'acceptances'>,
  source: string,
  {
    from,
    to,
    idMap,
    missing,
    now,
  }: {
    from: LoadedState;
    to: LoadedState;
    idMap: readonly IdMapping[];
    missing: () => readonly RecordKey[];
    now: number;
  },
): DiffDocument {
  const added = document.changes.filter(({ change }) => change === 'added');
  if (added.length === 0) return document;
  // If an undo of an undo sent it again, the id map leads to the restore that sent it first.
  const recreated = new RecreatedIds(idMap);
  const groups = added.map(({ kind, scope, id }) => ({
    ...{ kind, scope, id },
    ids: [id, ...recreated.all(kind, id)],
  }));
  const scopes = new Map(
    groups.flatMap(({ kind, scope, ids }) => ids.map((id) => [`${kind} ${id}`, scope] as const)),
  );
  let held: ReadonlySet<string> | undefined;
  const isHeld = (kind: Kind, id: string): boolean =>
    (held ??= new Set(missing().map((record) => `${record.kind} ${record.id}`))).has(`${kind} ${id}`);
  const altered = new Map<number, boolean>();
  const isAltered = (restore: number): boolean =>
    cached(altered, restore, () => restores.contradictions(restore).length > 0);
  let accepted: ReadonlySet<string> | undefined;
  const isAccepted = (kind: Kind, id: string): boolean =>
    (accepted ??= new Set(
      acceptances
        .checked(source)
        .filter(
          ({ path, contradiction, until }) =>
            path === '' && contradiction === undefined && !isPast(until, now),
        )
        .map((each) => `${each.kind} ${each.id}`),
    )).has(`${kind} ${id}`);
  const creations = new Set(
    restores
      .creations(
        source,
        groups.flatMap(({ ids }) => ids),
      )
      .filter(({ restore, kind, id, desired }) => {
        if (desired === null || desired.kind === kind) return false;
        if (!isRead(to, desired.kind, scopes.get(`${kind} ${id}`))) return false;
        const ids = withMappedIds(desired.kind, [desired.id], idMap);
        const there = [...idsIn(to, desired.kind, ids)].filter((each) => !isHeld(desired.kind, each));
        const isMissing = idsIn(from, desired.kind, ids).size > 0 && there.length === 0;
        return isMissing && !ids.some((each) => isAccepted(desired.kind, each)) && !isAltered(restore);
      })
      .map(({ kind, id }) => `${kind} ${id}`),
  );
  const sent = new Set(
    groups
      .filter(({ kind, ids }) => ids.some((each) => creations.has(`${kind} ${each}`)))
      .map(({ kind, id }) => `${kind} ${id}`),
  );
  const changes = document.changes.filter(
    ({ change, kind, id }) => change !== 'added' || !sent.has(`${kind} ${id}`),
  );
  const settled = document.changes.length - changes.length;
  if (settled === 0) return document;
  const { added: count, unchanged } = document.summary;
  const summary = { ...document.summary, added: count - settled, unchanged: unchanged + settled };
  return { ...document, changes, summary };
}

function isPast(until: string | undefined, now: number): boolean {
  return until !== undefined && Date.parse(until) <= now;
}

/**
 * True if the state has read the lists that can show the missing record: otherwise it is unknown whether it is missing. A
 * list with held removals counts as read: it shows which records are missing.
 * @param scope of the record that was created instead
 */
function isRead(state: LoadedState, kind: Kind, scope: Scope = {}): boolean {
  const lists = [...state.collections()].filter(
    (each) => each.kind === kind && isScopeCompatible(each.scope, scope),
  );
  return (
    lists.length > 0 &&
    lists.every(({ scope }) => {
      const coverage = state.coverage(kind, scope);
      return coverage.how === 'read' && (coverage.stale === undefined || coverage.held !== undefined);
    })
  );
}
