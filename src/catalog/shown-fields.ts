/** Fields that responses omit and show elsewhere, such as a query in the read-only `schema` (wire-notes.md, Secrets). */
import { type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { type ResourceDefinition, changedDefinition } from './resource-definition.ts';

/**
 * The body with each such field in its place, as a request would send it; the same object if nothing is added. A field
 * that the response has is kept, even if null. A field shown as null elsewhere is not added.
 */
export function withShownFields(definition: ResourceDefinition, body: JsonValue): JsonValue {
  if (!isJsonObject(body)) return body;
  let shown = body;
  for (const { name, isWritable, shownAt } of definition.fields) {
    if (shownAt === undefined || !isWritable || getOwn(body, name) !== undefined) continue;
    const value = valueAt(body, shownAt);
    if (value === undefined || value === null) continue;
    if (shown === body) shown = { ...body };
    setOwn(shown, name, value);
  }
  return shown;
}

/**
 * The definition without the places where fields are shown elsewhere, for comparisons that must not name members that
 * the body does not have, such as a patch.
 */
export function withoutFallbackPointers(definition: ResourceDefinition): ResourceDefinition {
  if (definition.fields.every(({ shownAt }) => shownAt === undefined)) return definition;
  const fields = definition.fields.map((field) => {
    const { shownAt, ...plain } = field;
    return shownAt === undefined ? field : plain;
  });
  return changedDefinition(definition, { fields });
}

/** Follows members of objects only, because an element of an array cannot be the place of a field. */
function valueAt(body: JsonValue, pointer: string): JsonValue | undefined {
  let value: JsonValue | undefined = body;
  for (const name of splitPointer(pointer)) {
    if (!isJsonObject(value)) return undefined;
    value = getOwn(value, name);
  }
  return value;
}
