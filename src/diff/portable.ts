/** What of a body can be the same in two sources. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { KINDS, SCOPE_KEYS } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { isJsonObject, isRawNumber, parseLossless, setOwn } from '../core/json.ts';
import type { TwinIds } from './natural-key.ts';
import { idText } from './natural-key.ts';
import { splitPointer } from './pointer.ts';

/**
 * The body without what the service gives by itself: the id and documented response-only fields, except references.
 * References of FROM's body (`twins` given) name their twin in TO instead; one without a twin stays as it is, and so
 * differs. References to kinds that are matched later cannot be followed and are left out.
 */
export function portableBody(
  definition: ResourceDefinition,
  body: JsonValue,
  twins: TwinIds | null,
): JsonValue {
  if (!isJsonObject(body)) return body;
  const references = [
    ...definition.references,
    ...SCOPE_KEYS.map((key) => ({ pointer: `/${key}`, kind: SCOPE_KIND[key] })),
  ].map(({ pointer, kind }) => ({
    segments: splitPointer(pointer),
    kind,
    isLater: KINDS.indexOf(kind) > KINDS.indexOf(definition.kind),
  }));
  const fields = new Map(definition.fields.map((field) => [field.name, field]));
  const portable: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    const inside = references.filter(({ segments }) => segments[0] === name);
    // Where the payload is not documented, "not writable" says nothing about who sets the field.
    const isOwned = definition.hasDocumentedFields && fields.get(name)?.isWritable === false;
    const isId = definition.idPath.length === 1 && definition.idPath[0] === name;
    if (isId || inside.some(({ isLater }) => isLater) || (isOwned && inside.length === 0)) continue;
    let shown = value;
    for (const { segments, kind } of twins === null ? [] : inside) {
      shown = replaced(shown, segments.slice(1), (id) => twinOf(id, twins?.twin(kind, idText(id))));
    }
    setOwn(portable, name, shown);
  }
  return portable;
}

/** The value with what stands at these segments replaced; `*` is every element. */
function replaced(
  value: JsonValue,
  segments: readonly string[],
  replace: (value: JsonValue) => JsonValue,
): JsonValue {
  const [segment, ...rest] = segments;
  if (segment === undefined) return replace(value);
  if (Array.isArray(value) && segment === '*')
    return value.map((element) => replaced(element, rest, replace));
  if (!isJsonObject(value)) return value;
  const copy: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    setOwn(copy, name, name === segment ? replaced(member, rest, replace) : member);
  }
  return copy;
}

/** The twin's id as the type that the reference has: a number stays a number. */
function twinOf(id: JsonValue, twin: string | undefined): JsonValue {
  if (twin === undefined) return id;
  const isNumber = typeof id === 'number' || isRawNumber(id);
  return isNumber && /^-?[0-9]+$/.test(twin) ? parseLossless(twin) : twin;
}
