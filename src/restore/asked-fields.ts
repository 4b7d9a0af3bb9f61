/** `--field` below a member that a PATCH replaces whole: what was not asked for is sent as live has it. */
import type { FieldDefinition } from '../catalog/definition.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../core/json.ts';
import { type FieldChange, compareBodies, equalValues } from '../diff/compare.ts';
import { resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { withMember } from './places.ts';
import type { Remapped } from './references.ts';
import type { BuiltBody } from './request-body.ts';
import { memberPointer } from './unmanaged-settings.ts';

type IsAsked = (path: string) => boolean;

/**
 * The desired body with one member narrowed: live's value with what was asked for set as desired. The same object where
 * all that differs in the member was asked for.
 */
export function narrowedTo(
  isAsked: IsAsked,
  definition: ResourceDefinition,
  field: FieldDefinition,
  remap: Remapped,
  live: JsonValue,
): Remapped | { readonly reason: string } {
  const changes = compareBodies(
    changedDefinition(definition, { fields: [field] }),
    live,
    remap.body,
    'managed',
  );
  if (changes.every(({ path }) => isAsked(path))) return remap;
  if (!isJsonObject(remap.body)) return remap;
  const asked = changes.filter(({ path }) => isAsked(path));
  let value = isJsonObject(live) ? getOwn(live, field.name) : undefined;
  for (const change of asked) {
    const list = isMoving(change) ? listOf(change.path) : null;
    if (list !== null && changes.some(({ path }) => path.startsWith(`${list}/`) && !isAsked(path))) {
      return { reason: `${change.path} is in a list of which more differs: give --field ${list}` };
    }
    const at = list ?? change.path;
    const to = list === null ? change.to : resolvePointer(remap.body, list);
    value = withMember(value, splitPointer(at).slice(1), to);
  }
  const isKept = ({ pointer }: { readonly pointer: string }): boolean => isAsked(pointer);
  return {
    body: withField(remap.body, field.name, value),
    fills: remap.fills.filter(isKept),
    unknown: remap.unknown.filter(isKept),
  };
}

/** An element that was added, removed or moved: setting it alone would shift its neighbours. */
function isMoving({ path, from_path: fromPath, from, to }: FieldChange): boolean {
  return fromPath !== undefined || (/\/\d+$/.test(path) && (from === undefined || to === undefined));
}

/** The outermost list that a pointer leads into. */
function listOf(path: string): string {
  return path.slice(0, path.search(/\/\d+(?:\/|$)/));
}

function withField(body: JsonObject, name: string, value: JsonValue | undefined): JsonObject {
  const copy: JsonObject = {};
  for (const each of Object.keys(body)) {
    if (each !== name) setOwn(copy, each, getOwn(body, each) ?? null);
  }
  if (value !== undefined) setOwn(copy, name, value);
  return copy;
}

/**
 * Why the member cannot be sent without changing what was not asked for; null where it can. A secret that live does not
 * show may be another one than the configuration has.
 */
export function unaskedChange(
  isAsked: IsAsked,
  field: FieldDefinition,
  { fills, needs }: BuiltBody,
  desired: JsonValue,
  live: JsonValue,
): string | null {
  const places = [
    ...needs.flatMap(({ anyOf }) => (anyOf.some(isAsked) ? [] : anyOf)),
    ...fills.flatMap(({ pointer, from }) => {
      if (from === 'step' || isAsked(pointer)) return [];
      return from === 'desired' && isSame(pointer, desired, live) ? [] : [pointer];
    }),
  ];
  if (places.length === 0) return null;
  const whole = memberPointer(field.name);
  return `PATCH replaces ${whole} whole, and would change ${places.join(', ')}, which was not asked for: give --field ${whole}`;
}

function isSame(pointer: string, desired: JsonValue, live: JsonValue): boolean {
  const [one, other] = [resolvePointer(desired, pointer), resolvePointer(live, pointer)];
  return one !== undefined && other !== undefined && equalValues(one, other);
}
