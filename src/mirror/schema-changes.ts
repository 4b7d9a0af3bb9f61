/** Reads which fields the service added, dropped or retyped, as runs found it. */
import { and, asc, desc, eq, gte, lte } from 'drizzle-orm';
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { parsedJson } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { param, prepared, unlessGiven } from './query.ts';
import { schemaChanges } from './schema/field-tables.ts';
import { sources } from './schema/source-tables.ts';

/** A field of a kind's records that changed. */
export interface SchemaChange {
  readonly run: number;
  readonly source: string;
  readonly kind: Kind;
  /** RFC 6901 pointer to a member of the record, or of a documented object in it; `*` if `unwatched`. */
  readonly field: string;
  /**
   * `gained`: never seen before, or lost since. `lost`: no record has it any more. `retyped`: a value has a JSON type that the field
   * never had; `before` and `after` have the types. `unwatched`: the kind has more fields than are counted.
   */
  readonly change: 'gained' | 'lost' | 'retyped' | 'unwatched';
  /**
   * JSON types, sorted: `array`, `boolean`, `number`, `object`, `string`; null is not a type. Empty for a gained field; `unknown` for
   * types that cannot be read.
   */
  readonly before: readonly string[];
  /** The same; empty for a lost field, and for one that was only null so far. */
  readonly after: readonly string[];
}

/** A member that is left out does not filter. */
interface SchemaChangeFilter {
  readonly run?: number;
  readonly source?: string;
  /** This run and later ones. */
  readonly sinceRun?: number;
}

const CHANGES = prepared((db) => {
  const { run, kind, field, change, before, after } = schemaChanges;
  return db
    .select({ run, source: sources.name, kind, field, change, before, after })
    .from(schemaChanges)
    .innerJoin(sources, eq(sources.id, schemaChanges.source))
    .where(
      and(
        gte(run, param('from')),
        lte(run, param('upTo')),
        unlessGiven('source', eq(sources.name, param('source'))),
      ),
    )
    .orderBy(desc(run), asc(kind), asc(field), asc(change));
});

/** Newest run first, then by kind and field. Leaves out rows of an unknown kind, which another program wrote: `verify` names them. */
export function readSchemaChanges(connection: Connection, filter: SchemaChangeFilter = {}): SchemaChange[] {
  const { run, source = null, sinceRun = 0 } = filter;
  return CHANGES(connection)
    .all({ source, from: run ?? sinceRun, upTo: run ?? Number.MAX_SAFE_INTEGER })
    .flatMap(({ kind, change, before, after, ...row }) =>
      isKind(kind)
        ? {
            ...row,
            kind,
            change: change as SchemaChange['change'],
            before: typesOf(before),
            after: typesOf(after),
          }
        : [],
    );
}

/** `unknown` if another program wrote something else: `verify` names the row. */
function typesOf(text: string): readonly string[] {
  const types = parsedJson(text);
  return Array.isArray(types) && types.every((type) => typeof type === 'string') ? types : ['unknown'];
}
