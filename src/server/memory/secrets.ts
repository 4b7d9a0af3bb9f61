/** Secrets that the service keeps but never answers (wire-notes.md, Secrets). */
import type { ResourceDefinition } from '../../catalog/definition.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';

/**
 * A copy of the body without the values at its fields' `secretPointers`; the same object where it holds none of them.
 */
export function withoutSecrets(definition: ResourceDefinition, body: JsonObject): JsonObject {
  let shown = body;
  for (const field of definition.fields) {
    for (const pointer of field.secretPointers) {
      shown = omit(shown, [field.name, ...pointer.split('/').slice(1)]);
    }
  }
  return shown;
}

function omit(object: JsonObject, path: readonly string[]): JsonObject {
  const [name = '', ...rest] = path;
  if (name === '*') {
    return Object.keys(object).reduce((shown, key) => omit(shown, [key, ...rest]), object);
  }
  const value: JsonValue | undefined = getOwn(object, name);
  if (value === undefined) return object;
  if (rest.length === 0) {
    return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
  }
  if (!isJsonObject(value)) return object;
  const inner = omit(value, rest);
  return inner === value ? object : { ...object, [name]: inner };
}
