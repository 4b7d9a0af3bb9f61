/** One record of an export, checked: what a person edited by hand has to be told apart from what an export wrote. */
import { definitionOf, isKind } from '../catalog/catalog.ts';
import { type Scope, KINDS, SCOPE_KEYS } from '../catalog/definition.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import { idText } from '../diff/match-records.ts';
import { pointerTo, resolvePointer } from '../diff/pointer.ts';
import type { RecordState } from '../diff/states.ts';

export interface ExportedRecord extends RecordState {
  /** The source that it names; null where the export is of one source only. */
  readonly source: string | null;
}

/** The record that a value of `tidemark.export/1` is; otherwise what is wrong with it, in one line. */
export function exportedRecord(value: JsonValue): ExportedRecord | { readonly mistake: string } {
  if (!isJsonObject(value)) return { mistake: 'expected a record: {kind, scope, id, body}' };
  const kind = getOwn(value, 'kind');
  const id = getOwn(value, 'id');
  const body = getOwn(value, 'body');
  const source = getOwn(value, 'source') ?? null;
  if (typeof kind !== 'string') return { mistake: 'kind is missing; expected the name of a kind' };
  if (!isKind(kind)) {
    const near = suggest(kind, KINDS);
    return {
      mistake: `there is no kind ${JSON.stringify(kind)}${near === undefined ? '' : `; did you mean ${near}?`}`,
    };
  }
  const definition = definitionOf(kind);
  const scope = scopeOf(getOwn(value, 'scope') ?? {}, definition.scope);
  if (typeof scope === 'string') return { mistake: `${kind}: ${scope}` };
  if (typeof id !== 'string' || id === '') {
    const isNumber = id !== undefined && id !== null && typeof id !== 'object';
    return {
      mistake: `${kind}: ${id === undefined ? 'id is missing; ' : ''}expected id as a text${isNumber ? ', in quotes' : ''}`,
    };
  }
  const name = `${kind} ${JSON.stringify(id)}`;
  if (body === undefined) return { mistake: `${name}: body is missing` };
  if (!isJsonObject(body)) return { mistake: `${name}: expected body to be an object` };
  if (source !== null && typeof source !== 'string') return { mistake: `${name}: expected source as a text` };
  const own = definition.idPath.length === 0 ? undefined : resolvePointer(body, pointerTo(definition.idPath));
  if (own !== undefined && own !== null && idText(own) !== id) {
    return { mistake: `${name}: its body says that it is ${JSON.stringify(idText(own))}` };
  }
  return { kind, scope, id, body: JSON.stringify(body), source };
}

/** The scope with its keys in order; what is wrong with it, as text, where something is. */
function scopeOf(value: JsonValue, keys: readonly string[]): Scope | string {
  const expected = keys.length === 0 ? 'an empty scope' : `scope with ${keys.join(' and ')}`;
  if (!isJsonObject(value)) return `expected ${expected}`;
  const unknown = Object.keys(value).find((key) => !keys.includes(key));
  if (unknown !== undefined) return `expected ${expected}, got ${JSON.stringify(unknown)}`;
  const scope: Partial<Record<(typeof SCOPE_KEYS)[number], string>> = {};
  for (const key of SCOPE_KEYS) {
    if (!keys.includes(key)) continue;
    const id = getOwn(value, key);
    if (typeof id !== 'string' || id === '') return `expected ${expected}, each a text in quotes`;
    scope[key] = id;
  }
  return scope;
}
