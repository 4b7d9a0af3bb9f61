/** What to call a record when talking to people. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { type JsonValue, isRawNumber } from '../core/json.ts';
import { numberText } from './decimal.ts';
import { resolvePointer } from './pointer.ts';

/** The first of the definition's `nameFrom` pointers that holds a non-empty text or a number; else the id. */
export function recordName(definition: ResourceDefinition, body: JsonValue, id: string): string {
  for (const pointer of definition.nameFrom) {
    const value = resolvePointer(body, pointer);
    if (typeof value === 'string' && value !== '') return value;
    if (typeof value === 'number' || isRawNumber(value)) return numberText(value);
  }
  return id;
}
