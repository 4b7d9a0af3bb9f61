/** Masks secrets in reports: a fixed text replaces every value of a change that the catalog marks as secret. */
import { hash } from 'node:crypto';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { MASK, MemberNames, shownText } from '../catalog/masks.ts';
import { isHeaderTuple, isSecretName, isSecretPair } from '../catalog/named-secrets.ts';
import { defined } from '../core/defined.ts';
import { type JsonObject, type JsonValue, isJsonObject, setOwn } from '../core/json.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { equalValues } from '../diff/canonical.ts';
import { isElementSegment } from '../diff/elements.ts';
import { pointerTo, splitPointer } from '../core/json-pointer.ts';
import { escapeForTerminal } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';

/** The text of a change whose old and new value are both masked. */
export const MASKED_CHANGE = `${MASK} changed`;

/** True for a change whose old and new value are masked. */
export function isMaskedChange({ from, to }: FieldChange): boolean {
  return from !== undefined && to !== undefined && equalValues(from, to);
}

type Place = readonly string[];

/**
 * Masks secrets at or below `segments`, except null and the empty text. For undocumented values (unknown fields, and
 * everything below the top level), the name decides, as in a restore; booleans are never secret.
 * @param places the secret places of the definition that may be at or below `segments`; `*` matches any segment
 */
function maskedValue(
  value: JsonValue,
  segments: Place,
  definition: ResourceDefinition,
  places: readonly Place[] = definition.secretPlaces,
): JsonValue {
  if (value === null || value === '') return value;
  const near = places.filter((place) => {
    const common = Math.min(place.length, segments.length);
    return place.slice(0, common).every((part, index) => part === '*' || part === segments[index]);
  });
  if (near.some((place) => place.length <= segments.length)) return MASK;
  if (typeof value === 'boolean') return value;
  if (isSecretByName(segments, definition)) return MASK;
  if (typeof value === 'string') return shownText(value, definition);
  const isPair = isJsonObject(value) && isSecretPair(value);
  const below = (member: JsonValue, name: string): JsonValue =>
    isPair && name === 'value' && member !== null && member !== '' && typeof member !== 'boolean'
      ? MASK
      : maskedValue(member, [...segments, name], definition, near);
  if (Array.isArray(value)) {
    const shown = value.map((element, index) => below(element, String(index)));
    return isHeaderTuple(value) ? [...shown.slice(0, 1), MASK] : shown;
  }
  if (!isJsonObject(value)) return value;
  const masked: JsonObject = {};
  const names = new MemberNames(definition);
  for (const [name, member] of Object.entries(value)) setOwn(masked, names.shown(name), below(member, name));
  return masked;
}

function isSecretByName(segments: Place, { fieldsByName }: ResourceDefinition): boolean {
  return segments.some((name, index) => (index > 0 || !fieldsByName.has(name)) && isSecretName(name));
}

/** An entire body with every secret value masked. */
export function maskedBody(body: JsonValue, definition: ResourceDefinition): JsonValue {
  return maskedValue(body, [], definition);
}

/** A list of fields with every secret value masked, in the same order. */
export function maskedFields(
  fields: readonly FieldChange[],
  definition: ResourceDefinition,
): readonly FieldChange[] {
  const names = new MemberNames(definition);
  return fields.map((field) => {
    const { path, from_path: fromPath, place, from, to } = field;
    const segments = splitPointer(path);
    const masked = (value: JsonValue | undefined): JsonValue | undefined =>
      value === undefined ? undefined : maskedValue(value, segments, definition);
    return {
      ...field,
      path: maskedPlace(path, definition, names),
      ...defined({
        from_path: fromPath && maskedPlace(fromPath, definition, names),
        place: place && maskedPlace(place, definition, names),
        ...{ from: masked(from), to: masked(to) },
      }),
    };
  });
}

/** The value at a pointer with what is secret at or below it masked. */
export function maskedAt(path: string, value: JsonValue, definition: ResourceDefinition): JsonValue {
  return maskedValue(value, splitPointer(path), definition);
}

/**
 * The `path` or `place` of a change, with secret ids of elements and secrets in names of members masked.
 * @param names has the names in the other places of the record
 */
export function maskedPlace(
  place: string,
  definition: ResourceDefinition,
  names = new MemberNames(definition),
): string {
  const segments = splitPointer(place);
  const shown = segments.map((segment, index) => {
    const parent = pointerTo(segments.slice(0, index));
    if (!isElementSegment(segment)) return names.shown(segment, parent);
    const id = maskedValue(segment, [...segments.slice(0, index + 1), 'id'], definition);
    return `[id=${id === MASK ? MASK : names.shown(segment.slice('[id='.length, -1), parent)}]`;
  });
  return pointerTo(shown);
}

/** True if the id of the kind is a secret (that of an invite is its sign-up link, wire-notes.md, Secrets). */
export function isSecretId(definition: ResourceDefinition): boolean {
  const pointer = pointerTo(definition.idPath);
  return pointer !== '' && isSecretPath(pointer, definition);
}

/** True at or below a secret place: the entire value is masked. */
function isSecretPath(pointer: string, definition: ResourceDefinition): boolean {
  const segments = splitPointer(pointer);
  return (
    isSecretByName(segments, definition) ||
    definition.secretPlaces.some(
      (place) =>
        place.length <= segments.length &&
        place.every((part, index) => part === '*' || part === segments[index]),
    )
  );
}

/** The change with every secret value masked, and its earlier id if that is secret, but not its id and its name. */
export function maskedChange(change: RecordChange, definition: ResourceDefinition): RecordChange {
  const { created_again: again } = change;
  return {
    ...change,
    fields: maskedFields(change.fields, definition),
    ...defined({ created_again: again && { ...again, was: maskedId(again.was, definition) } }),
  };
}

/** The document with every secret masked: values, and secret ids. */
export function maskedDocument<Document extends Pick<DiffDocument, 'changes'>>(
  document: Document,
  definitions: (kind: Kind) => ResourceDefinition,
): Document {
  return {
    ...document,
    changes: document.changes.map((change) => {
      const definition = definitions(change.kind);
      return withMaskedId(maskedChange(change, definition), definition);
    }),
  };
}

/** The object with its id masked if it is secret, also if it serves as the name. */
export function withMaskedId<T extends { readonly id: string; readonly name: string }>(
  record: T,
  definition: ResourceDefinition,
): T {
  const id = maskedId(record.id, definition);
  if (id === record.id) return record;
  return { ...record, id, name: record.name === record.id ? id : record.name };
}

/** True for a text of the form that `maskedId` makes; commands accept it as an id. */
export function isMaskedId(text: string): boolean {
  return /^\[secret:[0-9a-f]{12}\]$/.test(text);
}

/**
 * An id as reports show it: a secret id as a stable digest, so that records can be distinguished and named in commands. The
 * digest does not reveal the id, because secret ids are random.
 */
export function maskedId(id: string, definition: ResourceDefinition): string {
  if (!isSecretId(definition) || isMaskedId(id)) return id;
  return `[secret:${hash('sha256', id, 'hex').slice(0, 12)}]`;
}

/** The document as JSON, numbers digit by digit as received. Secrets are masked unless they are shown. */
export function renderJson(document: DiffDocument, options: ReportOptions): string {
  const shown = options.showsSecrets === true ? document : maskedDocument(document, options.definitions);
  return escapeForTerminal(`${JSON.stringify(shown, null, 2)}\n`);
}
