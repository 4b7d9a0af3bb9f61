/** What the runs found of fields that the service gained, lost or retyped. */
import { isKind } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';

/** A field of a kind's records that is not as it was seen before. */
export interface SchemaChange {
  readonly run: number;
  readonly source: string;
  readonly kind: Kind;
  /** RFC 6901 pointer to a member of the record, or of a documented object in it; `*` when `unwatched`. */
  readonly field: string;
  /**
   * `gained`: never seen before, or lost since. `lost`: no record carries it any more. `retyped`: a value of a JSON type
   * that it never had; `before` and `after` have the types. `unwatched`: the kind has more fields than are watched.
   */
  readonly change: 'gained' | 'lost' | 'retyped' | 'unwatched';
  /** JSON types, sorted: `array`, `boolean`, `number`, `object`, `string`; null is not a type. Empty for a gained field. */
  readonly before: readonly string[];
  /** Likewise; empty for a lost field, and for one that was only null so far. */
  readonly after: readonly string[];
}

/** What is not named is not filtered. */
export interface SchemaChangeFilter {
  readonly run?: number;
  readonly source?: string;
  /** This run and later ones. */
  readonly sinceRun?: number;
}

interface Row {
  run: number;
  source: string;
  kind: string;
  field: string;
  change: string;
  before: string;
  after: string;
}

/** Newest run first, then by kind and field. */
export function readSchemaChanges(connection: Connection, filter: SchemaChangeFilter): SchemaChange[] {
  const { run = null, source = null, sinceRun = null } = filter;
  return connection
    .prepare<{ run: number | null; source: string | null; sinceRun: number | null }, Row>(
      `SELECT c.run AS run, s.name AS source, c.kind AS kind, c.field AS field, c.change AS change, c.before AS before,
         c.after AS after FROM schema_changes c JOIN sources s ON s.id = c.source
       WHERE c.run >= ifnull(:run, ifnull(:sinceRun, 0)) AND c.run <= ifnull(:run, c.run)
         AND (:source IS NULL OR s.name = :source)
       ORDER BY c.run DESC, c.kind, c.field, c.change`,
    )
    .all({ run, source, sinceRun })
    .flatMap((row) => {
      if (!isKind(row.kind)) return [];
      const change = row.change as SchemaChange['change'];
      const [before, after] = [row.before, row.after].map((text) => JSON.parse(text) as string[]);
      return [{ ...row, kind: row.kind, change, before: before ?? [], after: after ?? [] }];
    });
}
