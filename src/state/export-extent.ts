/**
 * What an export says of itself beside its records: what it was narrowed with, and which collections it holds whole. Only
 * of these does it mean anything that a record is not in it.
 */
import { isKind } from '../catalog/catalog.ts';
import { type Kind, type Scope, KINDS, SCOPE_KEYS } from '../catalog/definition.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import type { StateFilter } from './filter.ts';

/** Stands in the directory of an export while it is being written: what the manifest says does not hold meanwhile. */
export const UNFINISHED_NAME = '.tidemark-export.unfinished';

/** Collections of a kind that are whole. */
interface WholeCollections {
  /** Given where the export holds several sources. */
  readonly source?: string;
  readonly kind: Kind;
  readonly scopes: readonly Scope[];
}

export interface ExportExtent {
  readonly filter: StateFilter;
  readonly whole: readonly WholeCollections[];
}

const FILTERS = ['kinds', 'organizations', 'projects', 'ids'] as const;

/** From the members `filter` and `whole` of a manifest or of a JSON export; null where they say nothing that is known. */
export function extentIn(value: JsonValue): ExportExtent | null {
  if (!isJsonObject(value)) return null;
  const [filter, whole] = [getOwn(value, 'filter'), getOwn(value, 'whole')];
  if (filter === undefined || !isJsonObject(filter) || !Array.isArray(whole)) return null;
  const narrowed: Partial<Record<(typeof FILTERS)[number], readonly string[]>> = {};
  for (const [name, values] of Object.entries(filter)) {
    const known = FILTERS.find((each) => each === name);
    // A filter that a later version knows narrows in a way that this one cannot tell.
    if (known === undefined || !Array.isArray(values)) return null;
    narrowed[known] = values.map(String);
  }
  const { kinds, ...others } = narrowed;
  const collections = whole.flatMap((entry) => wholeIn(entry) ?? []);
  return {
    filter: {
      ...others,
      ...(kinds === undefined ? {} : { kinds: KINDS.filter((kind) => kinds.includes(kind)) }),
    },
    whole: collections,
  };
}

function wholeIn(value: JsonValue): WholeCollections | null {
  if (!isJsonObject(value)) return null;
  const [source, kind, scopes] = ['source', 'kind', 'scopes'].map((name) => getOwn(value, name));
  if (typeof kind !== 'string' || !isKind(kind) || !Array.isArray(scopes)) return null;
  if (source !== undefined && typeof source !== 'string') return null;
  return {
    ...(source === undefined ? {} : { source }),
    kind,
    scopes: scopes.flatMap((scope) => scopeIn(scope) ?? []),
  };
}

function scopeIn(value: JsonValue): Scope | null {
  if (!isJsonObject(value)) return null;
  const scope: Partial<Record<(typeof SCOPE_KEYS)[number], string>> = {};
  for (const [name, id] of Object.entries(value)) {
    const key = SCOPE_KEYS.find((each) => each === name);
    if (key === undefined || typeof id !== 'string') return null;
    scope[key] = id;
  }
  return scope;
}
