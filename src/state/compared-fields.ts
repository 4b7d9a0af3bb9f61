/** `--field`: a pointer that names nothing anywhere would compare nothing, and look like "no differences". */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { isMovingMember } from '../catalog/own-motion.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { parseLossless } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { resolvePointer, splitPointer } from '../diff/pointer.ts';
import type { StateFilter } from './filter.ts';
import type { LoadedState } from './state.ts';

interface StatesCompared {
  readonly fields: readonly string[];
  readonly mode: ComparisonMode;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly states: readonly LoadedState[];
  readonly parts: readonly StateFilter[];
}

/**
 * Looks whether any of the named fields can have been compared: one that changed was; else as `requireKnownFields`.
 * @throws TidemarkError `not_found` when none of them was
 */
export function requireComparedFields(document: DiffDocument, compared: StatesCompared): void {
  if (document.changes.length > 0) return;
  const { fields, mode, definitions } = compared;
  requireKnownFields({
    fields,
    kinds: kindsOf(compared),
    definitions,
    modeOf: () => mode,
    bodies: () => bodiesOf(compared),
    hintFor: (excluding) =>
      excluding === 'managed' ? 'leave --managed-only out to compare it' : 'add --all to compare it',
  });
}

interface FieldsAsked {
  readonly fields: readonly string[];
  /** The kinds that are compared. */
  readonly kinds: ReadonlySet<Kind>;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** How records of the kind are compared. */
  readonly modeOf: (definition: ResourceDefinition) => ComparisonMode;
  /** True for a field that is looked at beside that. */
  readonly isLookedAt?: (definition: ResourceDefinition, name: string) => boolean;
  /** The records that are compared, of these kinds at least; read only where the catalog knows none of the fields. */
  readonly bodies: (kinds: ReadonlySet<Kind>) => Iterable<JsonValue>;
  /** What to do about a field that this mode leaves out. */
  readonly hintFor: (excluding: ComparisonMode) => string;
}

/**
 * Looks whether any of the named fields takes part in a comparison: one that the catalog knows does, unless the mode
 * leaves it out; for any other the records are searched, until one has it.
 * @throws TidemarkError `not_found` when none of them does
 */
export function requireKnownFields(asked: FieldsAsked): void {
  const { fields, kinds, definitions, modeOf, isLookedAt = () => false } = asked;
  if (fields.length === 0) return;
  const members = new Set(fields.map((pointer) => splitPointer(pointer)[0]));
  const known = new Set<string>();
  const searched = new Set<Kind>();
  let byItself: { readonly name: string; readonly mode: ComparisonMode } | undefined;
  let excluded: { readonly name: string; readonly mode: ComparisonMode } | undefined;
  for (const kind of kinds) {
    const definition = definitions(kind);
    const mode = modeOf(definition);
    const named = new Set(definition.fields.map(({ name }) => name));
    const moving = [...members].filter(
      (name) => name !== undefined && !named.has(name) && isMovingMember(definition, undefined, name),
    );
    const [movingName] = mode === 'all' ? [] : moving;
    if (movingName !== undefined) byItself ??= { name: movingName, mode };
    // A field that the catalog does not know is server-owned, so only a wider mode compares it.
    if (mode === 'all' || (mode === 'default' && moving.length < members.size)) searched.add(kind);
    for (const { name, isVolatile, isWritable } of definition.fields) {
      known.add(`/${name}`);
      if (!members.has(name)) continue;
      if (mode === 'all' || (!isVolatile && (mode === 'default' || isWritable))) return;
      if (isLookedAt(definition, name)) return;
      excluded ??= { name, mode };
    }
  }
  if (excluded !== undefined) {
    const { name, mode } = excluded;
    throw nothing(
      `/${name} ${mode === 'managed' ? 'is not managed' : 'changes by itself'}`,
      asked.hintFor(mode),
    );
  }
  if (searched.size > 0 && isAnywhere(fields, asked.bodies(searched))) return;
  if (byItself !== undefined)
    throw nothing(`/${byItself.name} changes by itself`, asked.hintFor(byItself.mode));
  const near = suggest(fields[0] ?? '', known);
  const [only] = kinds;
  throw nothing(
    `no record has ${fields.join(' or ')}${near === undefined ? '' : `; did you mean ${near}?`}`,
    `fields are named by JSON pointers, like --field /destination/type${kinds.size === 1 ? `; \`tidemark show ${only ?? ''} ID\` shows a record` : ''}`,
  );
}

function nothing(reason: string, hint: string): TidemarkError {
  return new TidemarkError('not_found', `nothing was compared: ${reason}`, { hint });
}

function kindsOf({ states, parts }: StatesCompared): Set<Kind> {
  const kinds = new Set(states.flatMap((state) => state.collections().map(({ kind }) => kind)));
  return new Set([...kinds].filter((kind) => parts.some((part) => part.kinds?.includes(kind) !== false)));
}

function* bodiesOf({ states, parts }: StatesCompared): Generator<JsonValue> {
  for (const state of states) {
    for (const part of parts) for (const { body } of state.records(part)) yield parseLossless(body);
  }
}

function isAnywhere(fields: readonly string[], bodies: Iterable<JsonValue>): boolean {
  for (const body of bodies) {
    if (fields.some((pointer) => resolvePointer(body, pointer) !== undefined)) return true;
  }
  return false;
}
