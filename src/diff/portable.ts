/** What of a body can be the same in two sources. */
import { type ResourceDefinition, fieldsByName, KINDS, SCOPE_KEYS } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { type Embedding, embeddingOf } from '../catalog/embedded.ts';
import { isVolatileMember, changesInside } from '../catalog/volatile-names.ts';
import { namesAPlace } from '../catalog/place-names.ts';
import {
  type JsonObject,
  type JsonValue,
  getOwn,
  isJsonObject,
  isRawNumber,
  parseLossless,
  setOwn,
} from '../core/json.ts';
import { isUserAt } from './embedded-user.ts';
import { type MatchedIds, idText } from './match-records.ts';
import { splitPointer } from './pointer.ts';

/**
 * The body without what the service gives by itself: the id, documented response-only fields, and what names a place where
 * nothing is documented: at the top level, and in records that a response-only field embeds; except references. Of a user
 * who is embedded there the address is left. Values of no known shape stay whole: what names a place in them somebody may
 * have configured. References of FROM's body (`twins` given) name their twin in TO instead; one without a twin stays as it is, and so
 * differs. References to kinds that are matched later cannot be followed and are left out.
 */
export function portableBody(
  definition: ResourceDefinition,
  body: JsonValue,
  twins: MatchedIds | null,
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
  const fields = fieldsByName(definition);
  const portable: JsonObject = {};
  for (const [name, value] of Object.entries(body)) {
    const inside = references.filter(({ segments }) => segments[0] === name);
    const isWritable = fields.get(name)?.isWritable === true;
    // Where the payload is not documented, "not writable" says nothing about who sets the field.
    const isOwned =
      (definition.hasDocumentedFields && fields.has(name) && !isWritable) ||
      (!isWritable && (namesAPlace(name) || isVolatileMember(definition, fields.get(name), name)));
    const isId = definition.idPath.length === 1 && definition.idPath[0] === name;
    if (isId || inside.some(({ isLater }) => isLater) || (isOwned && inside.length === 0)) continue;
    const embedding = isWritable ? undefined : embeddingOf(definition).inside.get(name);
    let shown = withoutPlaces(
      value,
      inside.length > 0 && !isUserAt(embedding, value) ? undefined : embedding,
    );
    for (const { segments, kind } of twins === null ? [] : inside) {
      shown = replaced(shown, segments.slice(1), (id) => twinOf(id, twins?.twin(kind, idText(id))));
    }
    setOwn(portable, name, shown);
  }
  return portable;
}

/** Goes as deep as places of embedded records and users are known. */
function withoutPlaces(value: JsonValue, embedding: Embedding | undefined): JsonValue {
  if (embedding === undefined) return value;
  if (Array.isArray(value)) return value.map((element) => withoutPlaces(element, embedding.inside.get('*')));
  if (!isJsonObject(value)) return value;
  const isUser = isUserAt(embedding, value);
  const email = getOwn(value, 'email') ?? null;
  // Ids of users are the instance's own, and names are theirs to change.
  if (isUser && email !== null) return { email };
  const kept: JsonObject = {};
  for (const [name, member] of Object.entries(value)) {
    const isOwn = (isUser || embedding.holds === 'record') && (namesAPlace(name) || changesInside(name));
    if (!isOwn) setOwn(kept, name, withoutPlaces(member, embedding.inside.get(name)));
  }
  return kept;
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
