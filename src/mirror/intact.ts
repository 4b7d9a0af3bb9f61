/** Whether a stored body is what was received: its hash, as `verify` recomputes it for all of them. */
import type { RecordKey } from '../catalog/order.ts';
import { scanBody, stableHash } from './classify-record.ts';
import type { Connection } from './database.ts';
import { headOfId, revisionAt, type StoredRevision, textOf } from './history.ts';
import { collectionOf } from './run-rows.ts';
import { readRules, ruleAt, type SealingRule } from './run-seals.ts';

/** True if a revision's text has the hash that was stored with it. */
export function hasItsHash(
  text: string,
  { run, hash }: Pick<StoredRevision, 'run' | 'hash'>,
  rules: readonly SealingRule[],
): boolean {
  const rule = ruleAt(rules, run);
  if (rule === undefined || hash === null) return false;
  try {
    return stableHash(scanBody(text, rule.volatileFields)).equals(hash);
  } catch (error) {
    // What cannot be scanned is not what was stored.
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

/**
 * False if the body that a record had as of a run (of a removed one: its last body) does not match its hash; true for a
 * record that the mirror had not seen by then. Two look-ups by key. Volatile fields are not covered.
 * @throws TidemarkError `mirror_corrupt` when its history is broken
 */
export function isBodyIntact(
  connection: Connection,
  { source, kind, scope, id }: RecordKey & { readonly source: string },
  run: number,
): boolean {
  const collection = collectionOf(connection, source, kind, scope);
  const head = collection === undefined ? undefined : headOfId(connection, collection.id, id);
  const newest = head === undefined ? undefined : revisionAt(connection, head, run);
  if (collection === undefined || head === undefined || newest === undefined) return true;
  const revision = newest.change === 'removed' ? revisionAt(connection, head, newest.previous ?? 0) : newest;
  const text = revision === undefined ? undefined : textOf(connection, head, revision);
  if (revision === undefined || text === undefined) return true;
  return hasItsHash(text, revision, readRules(connection, collection.source, kind));
}
