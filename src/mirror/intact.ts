/** Whether a stored body is what was received, by its hash. */
import { eq } from 'drizzle-orm';
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import { scanBody, stableDigest } from './classify-record.ts';
import { type Connection, DamagedContent } from './database.ts';
import {
  type LatestRevision,
  latestRevisionOfId,
  revisionAt,
  revisionIn,
  type StoredRevision,
  textOf,
} from './history.ts';
import { bodyNames } from './view-columns.ts';
import { param, prepared } from './query.ts';
import { collectionOf } from './run-rows.ts';
import { collections } from './schema/source-tables.ts';
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
    // Compared as texts: making a Buffer would take as long as the hash.
    return stableDigest(scanBody(text, rule.volatileFields)) === hash.toString('latin1');
  } catch (error) {
    // Text that cannot be scanned was altered.
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

/** Reads bodies of one collection, and throws for those that do not match their hash. */
export interface CheckedBodies {
  /** True for a body that matches its hash. */
  has(text: string, revision: Pick<StoredRevision, 'run' | 'hash'>): boolean;
  /** Returns a body that was read already. @throws DamagedContent if it does not match its revision's hash */
  of(text: string, revision: Pick<StoredRevision, 'run' | 'hash'>): string;
  /** As `textAt`. @throws DamagedContent */
  at(latest: LatestRevision, run: number): string | undefined;
  /** As `textIn`. @throws DamagedContent */
  in(latest: LatestRevision, run: number): string | undefined;
}

/** For all uses that rely on the content: comparisons, exports, the replica, drills. `id`: of the collection. */
export function checkedBodies(
  connection: Connection,
  { id, kind }: { readonly id: number; readonly kind: Kind },
): CheckedBodies {
  const source = SOURCE(connection).get({ id })?.source;
  const rules = source === undefined ? [] : readRules(connection, source, kind);
  const has: CheckedBodies['has'] = (text, revision) => hasItsHash(text, revision, rules);
  const of: CheckedBodies['of'] = (text, revision) => {
    if (has(text, revision)) return text;
    // Not the id, which may be a secret.
    const name = bodyNames(connection)(kind, text);
    const { one } = definitionOf(kind).title;
    throw new DamagedContent(
      `the stored content of 1 record does not match its hash: ${name === null ? one : `${one} ${JSON.stringify(name)}`}`,
    );
  };
  const ofRevision = (latest: LatestRevision, revision: StoredRevision): string | undefined => {
    const text = textOf(connection, latest, revision);
    return text === undefined ? undefined : of(text, revision);
  };
  return {
    has,
    of,
    at: (latest, run) => {
      const revision = revisionAt(connection, latest, run);
      return revision === undefined ? undefined : ofRevision(latest, revision);
    },
    in: (latest, run) => ofRevision(latest, revisionIn(connection, latest, run)),
  };
}

const SOURCE = prepared((db) =>
  db
    .select({ source: collections.source })
    .from(collections)
    .where(eq(collections.id, param('id'))),
);

/**
 * Those of the records whose body as of a run (the last body, for one that was removed) does not match its hash; none that the mirror
 * had not seen by then. Two look-ups by key for each. The hash does not cover volatile fields.
 * @throws TidemarkError `mirror_corrupt` if the history of one is broken
 */
export function recordsWithDamagedBody(
  connection: Connection,
  source: string,
  records: readonly RecordKey[],
  run: number,
): ReadonlySet<RecordKey> {
  const known = new Map<string, { readonly id: number; readonly rules: readonly SealingRule[] } | null>();
  const collectionWithRules = ({ kind, scope }: RecordKey) => {
    const key = collectionKey({ kind, scope });
    let found = known.get(key);
    if (found === undefined) {
      const collection = collectionOf(connection, source, kind, scope);
      found =
        collection === undefined
          ? null
          : { id: collection.id, rules: readRules(connection, collection.source, kind) };
      known.set(key, found);
    }
    return found;
  };
  const isDamaged = (record: RecordKey): boolean => {
    const collection = collectionWithRules(record);
    const latest = collection === null ? undefined : latestRevisionOfId(connection, collection.id, record.id);
    const newest = latest === undefined ? undefined : revisionAt(connection, latest, run);
    if (collection === null || latest === undefined || newest === undefined) return false;
    const revision =
      newest.change === 'removed' ? revisionAt(connection, latest, newest.previous ?? 0) : newest;
    const text = revision === undefined ? undefined : textOf(connection, latest, revision);
    return revision !== undefined && text !== undefined && !hasItsHash(text, revision, collection.rules);
  };
  return new Set(records.filter(isDamaged));
}
