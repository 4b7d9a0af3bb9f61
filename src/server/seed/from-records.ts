/** A seed made of records that another service answered: each is kept as it came. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { type JsonValue, isJsonObject } from '../../core/json.ts';
import { idOf } from '../memory/tables.ts';
import type { SeedRecord } from './seed.ts';

/** A record as a list answered it. */
export interface AnsweredRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly body: JsonValue;
}

/**
 * The records in catalog order, parents before children, and the views of a shared table after the family that names a
 * record (pipeline families before plugins, as the catalog lists them). Bodies that are no objects are left out: no
 * service can hold them.
 */
export function seedRecords(records: readonly AnsweredRecord[]): SeedRecord[] {
  const rank = new Map(CATALOG.map(({ kind }, index) => [kind, index]));
  return records
    .toSorted((a, b) => (rank.get(a.kind) ?? 0) - (rank.get(b.kind) ?? 0))
    .flatMap(({ kind, scope, id, body }): SeedRecord[] => {
      if (!isJsonObject(body)) return [];
      // The id comes from the body if it has one: new numbers then continue after it.
      return [idOf(kind, body) === id ? { kind, scope, body } : { kind, scope, body, id }];
    });
}
