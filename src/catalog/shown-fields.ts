/** Fields that an answer leaves out and shows elsewhere: a query's text inside the read-only `schema` (wire-notes.md, Secrets). */
import { type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { type ResourceDefinition, changedDefinition } from './resource-definition.ts';

/**
 * The body with each such field in its own place, as a request would send it; the same object where nothing is added.
 * A field that the answer holds is kept as it is, null included, and what is shown as null is not a value.
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
 * The definition with every field only where the answer has it: for a comparison that must not name members which the body
 * does not hold, as a patch of it.
 */
export function withoutFallbackPointers(definition: ResourceDefinition): ResourceDefinition {
  if (definition.fields.every(({ shownAt }) => shownAt === undefined)) return definition;
  const fields = definition.fields.map((field) => {
    const { shownAt, ...plain } = field;
    return shownAt === undefined ? field : plain;
  });
  return changedDefinition(definition, { fields });
}

/** Through members of objects only: an element of an array has no place for a field. */
function valueAt(body: JsonValue, pointer: string): JsonValue | undefined {
  let value: JsonValue | undefined = body;
  for (const part of pointer.split('/').slice(1)) {
    if (value === undefined || !isJsonObject(value)) return undefined;
    value = getOwn(value, part.replaceAll('~1', '/').replaceAll('~0', '~'));
  }
  return value;
}
