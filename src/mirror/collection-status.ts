/** The completeness of a source's collections, from their rows alone: no record is read or counted. */
import { and, asc, eq, isNull, ne, or, sql } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Connection } from './database.ts';
import { param, prepared, unlessGiven } from './query.ts';
import { knownKind, storedScope } from './stored-names.ts';
import { collections, sources } from './schema/source-tables.ts';

/** All collections of one kind of a source. */
export interface KindStatus {
  readonly kind: Kind;
  readonly collections: number;
  readonly records: number;
  /** Collections whose latest sweep is complete. */
  readonly whole: number;
  /** When the least recently completed one was last complete, ISO 8601; null if one never was. */
  readonly oldestWholeAt: string | null;
}

/** A collection whose latest sweep is not complete. */
export interface UnreadCollection {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Null before the first sweep. */
  readonly outcome: string | null;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  readonly lastCompleteAt: string | null;
}

const BY_KIND = prepared((db) =>
  db
    .select({
      kind: collections.kind,
      collections: sql<number>`count(*)`,
      records: sql<number>`sum(${collections.records})`,
      whole: sql<number>`total(${collections.lastOutcome} = 'complete')`,
      oldestWholeAt: sql<string | null>`CASE WHEN count(${collections.lastCompleteAt}) = count(*)
        THEN min(${collections.lastCompleteAt}) END`,
    })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(and(unlessGiven('source', eq(sources.name, param('source'))), isNull(collections.retiredRun)))
    .groupBy(collections.kind)
    .prepare(),
);

/** In catalog order; of one source, or of all. */
export function readKindStatuses(connection: Connection, source: string | null): KindStatus[] {
  return BY_KIND(connection)
    .all({ source })
    .map(({ kind, ...row }) => ({ kind: knownKind(kind), ...row }))
    .sort(byKind);
}

const UNREAD = prepared((db) =>
  db
    .select({
      kind: collections.kind,
      scope: collections.scope,
      outcome: collections.lastOutcome,
      errorCode: collections.lastErrorCode,
      error: collections.lastError,
      lastCompleteAt: collections.lastCompleteAt,
    })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(
      and(
        eq(sources.name, param('source')),
        isNull(collections.retiredRun),
        or(isNull(collections.lastOutcome), ne(collections.lastOutcome, 'complete')),
      ),
    )
    .orderBy(asc(collections.id))
    .limit(param('limit'))
    .prepare(),
);

/** In catalog order; at most `limit`, the oldest collections of the mirror first. */
export function readUnreadCollections(
  connection: Connection,
  source: string,
  limit: number,
): UnreadCollection[] {
  return UNREAD(connection)
    .all({ source, limit })
    .map(({ kind, scope, errorCode, ...row }) => ({
      ...row,
      kind: knownKind(kind),
      scope: storedScope(scope),
      errorCode: errorCode as ErrorCode | null,
    }))
    .sort(byKind);
}

function byKind(one: { readonly kind: Kind }, other: { readonly kind: Kind }): number {
  return KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind);
}
