/** A comparison that was made in parts as one document. */
import type { DiffDocument, StateReference } from '../diff/change.ts';

/** The parts are of different collections, so that everything adds up. */
export function mergeParts(
  documents: readonly DiffDocument[],
  from: StateReference,
  to: StateReference,
): DiffDocument {
  const sum = (of: (document: DiffDocument) => number): number =>
    documents.reduce((total, document) => total + of(document), 0);
  return {
    schema: 'tidemark.diff/1',
    from,
    to,
    compared: {
      collections: sum(({ compared }) => compared.collections),
      records: sum(({ compared }) => compared.records),
    },
    skipped: [],
    changes: documents.flatMap(({ changes }) => changes),
    summary: {
      added: sum(({ summary }) => summary.added),
      removed: sum(({ summary }) => summary.removed),
      changed: sum(({ summary }) => summary.changed),
      unchanged: sum(({ summary }) => summary.unchanged),
    },
  };
}
