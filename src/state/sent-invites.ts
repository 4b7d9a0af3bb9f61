/** Invites that a restore sent: they stand for members who come back by accepting them, and do not count as drift. */
import type { Kind } from '../catalog/kinds.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { idsIn, withMappedIds } from './recreated-ids.ts';
import type { LoadedState } from './state.ts';

/**
 * The document without added records that a restore created in the place of records of another kind, which FROM has and TO has
 * not: those that are missing are reported. A restore that is not as the audit log has it does not count.
 */
export function withoutSentInvites(
  document: DiffDocument,
  { restores }: Pick<Mirror, 'restores'>,
  source: string,
  { from, to, idMap }: { from: LoadedState; to: LoadedState; idMap: readonly IdMapping[] },
): DiffDocument {
  const added = document.changes.filter(({ change }) => change === 'added');
  if (added.length === 0) return document;
  // Where an undo of an undo sent one again, the id map leads to the restore that sent it first.
  const recreated = new RecreatedIds(idMap);
  const groups = added.map(({ kind, id }) => ({ kind, id, ids: [id, ...recreated.all(kind, id)] }));
  const altered = new Map<number, boolean>();
  const isAltered = (restore: number): boolean => {
    const known = altered.get(restore) ?? restores.contradictions(restore).length > 0;
    altered.set(restore, known);
    return known;
  };
  const creations = new Set(
    restores
      .creations(
        source,
        groups.flatMap(({ ids }) => ids),
      )
      .filter(({ restore, kind, desired }) => {
        if (desired === null || desired.kind === kind || !isRead(to, desired.kind)) return false;
        const ids = withMappedIds(desired.kind, [desired.id], idMap);
        const isMissing = idsIn(from, desired.kind, ids).size > 0 && idsIn(to, desired.kind, ids).size === 0;
        return isMissing && !isAltered(restore);
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

/** True if all lists of the kind were read, as of the state: else nobody knows whether a record is missing. */
function isRead(state: LoadedState, kind: Kind): boolean {
  const lists = [...state.collections()].filter((each) => each.kind === kind);
  return (
    lists.length > 0 &&
    lists.every(({ scope }) => {
      const coverage = state.coverage(kind, scope);
      return coverage.how === 'read' && coverage.stale === undefined;
    })
  );
}
