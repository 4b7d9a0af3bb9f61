/** Checks `--field`: a pointer that matches nothing would compare nothing, and look like "no differences". */
import type { FieldDefinition } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import { isVolatileMember } from '../catalog/volatile-names.ts';
import { withShownFields } from '../catalog/shown-fields.ts';
import { cached } from '../core/cached.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import { didYouMean } from '../core/suggest.ts';
import type { DiffDocument, ParsedRecord } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { elementSegment, isElementSegment } from '../diff/elements.ts';
import { pointerTo, splitPointer } from '../core/json-pointer.ts';
import { parseState } from '../diff/states.ts';
import type { StateFilter } from './filter.ts';
import type { LoadedState } from './state.ts';

interface StatesCompared {
  readonly fields: readonly string[];
  readonly mode: ComparisonMode;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** The definitions of the configuration, if `definitions` are those of `possibleDefinitions`. */
  readonly configured?: (kind: Kind) => ResourceDefinition;
  readonly states: readonly LoadedState[];
  readonly parts: readonly StateFilter[];
}

/**
 * Checks that at least one of the named fields was compared: if there is a change, one was; otherwise as
 * `requireKnownFields`.
 * @throws TidemarkError `reference_unknown` if none of them was
 */
export function requireComparedFields(document: DiffDocument, compared: StatesCompared): void {
  if (document.changes.length > 0) return;
  const { fields, mode, definitions, configured, states } = compared;
  requireKnownFields({
    fields,
    kinds: kindsOf(compared),
    definitions,
    modeOf: () => mode,
    records: (searched) => recordsOf(compared, searched),
    hintFor: (excluding) =>
      excluding === 'managed'
        ? 'leave --managed-only out to compare it'
        : states.some(isPast)
          ? 'the mirror has only the latest value of it: compare latest with live, with --all; `volatile: false` under `definitions` keeps its history from then on'
          : 'add --all to compare it',
    unknownAsOf: (kind, name) =>
      configured?.(kind).fieldsByName.get(name)?.isVolatile === false &&
      document.volatile_fields?.some((each) => each.kind === kind && each.fields.includes(name)) === true
        ? (document.volatile_unknown ?? []).map((side) => document[side].ref).join(' and ')
        : null,
  });
}

/** True for a past state of the mirror, or an export of one: later runs replaced its values of volatile fields. */
function isPast({ resolvedState, lacksVolatile = false }: LoadedState): boolean {
  return lacksVolatile || (resolvedState !== null && !resolvedState.isLatest);
}

/** The mode in which two states can be compared: volatile fields only if both have values of them. */
export function possibleMode(mode: ComparisonMode, from: LoadedState, to: LoadedState): ComparisonMode {
  return mode === 'all' && (isPast(from) || isPast(to)) ? 'all_but_volatile' : mode;
}

/**
 * The definitions by which two states can be compared: a past state has no values of fields that were volatile then, even if
 * the configuration has changed since.
 */
export function possibleDefinitions(
  definitions: (kind: Kind) => ResourceDefinition,
  ...states: readonly LoadedState[]
): (kind: Kind) => ResourceDefinition {
  const replaced = states.flatMap((state) => state.replacedMembers?.() ?? []).filter(({ size }) => size > 0);
  if (replaced.length === 0) return definitions;
  const byKind = new Map<Kind, ResourceDefinition>();
  const possible = (definition: ResourceDefinition): ResourceDefinition => {
    const hidden = knownSince(definition, replaced);
    const fields = definition.fields.map((field) =>
      hidden.includes(field.name) ? { ...field, isVolatile: true } : field,
    );
    return hidden.length === 0 ? definition : changedDefinition(definition, { fields });
  };
  return (kind) => cached(byKind, kind, () => possible(definitions(kind)));
}

/** Fields that are no longer volatile, and were in one of these states. */
function knownSince(
  { kind, fields }: ResourceDefinition,
  replaced: readonly ReadonlyMap<Kind, ReadonlySet<string>>[],
): readonly string[] {
  return fields.flatMap(({ name, isVolatile }) =>
    !isVolatile && replaced.some((own) => own.get(kind)?.has(name) === true) ? [name] : [],
  );
}

/** The keys of the document for volatile fields that were not compared, for these kinds or all. */
export function unknownVolatile(
  mode: ComparisonMode,
  states: Readonly<Record<'from' | 'to', LoadedState>>,
  definitions: (kind: Kind) => ResourceDefinition,
  kinds: readonly Kind[] = KINDS,
): Pick<DiffDocument, 'volatile_unknown' | 'volatile_fields'> {
  const unknown = new Map<Kind, Set<string>>();
  const sides = (['from', 'to'] as const).filter((side) => {
    const state = states[side];
    const isWhole = mode === 'all_but_volatile' && isPast(state);
    const replaced = state.replacedMembers?.() ?? new Map<Kind, ReadonlySet<string>>();
    const own = isWhole ? state.collections().map(({ kind }) => kind) : [...replaced.keys()];
    const found = [...new Set(own)].flatMap((kind) => {
      const definition = definitions(kind);
      const volatile = definition.fields.flatMap(({ name, isVolatile }) => (isVolatile ? [name] : []));
      const names = [...(isWhole ? volatile : []), ...knownSince(definition, [replaced])];
      return names.length > 0 && kinds.includes(kind) ? [{ kind, names }] : [];
    });
    for (const { kind, names } of found) unknown.set(kind, new Set([...(unknown.get(kind) ?? []), ...names]));
    return isWhole || found.length > 0;
  });
  if (sides.length === 0) return {};
  const fields = KINDS.flatMap((kind) => {
    const names = unknown.get(kind);
    return names === undefined ? [] : [{ kind, fields: [...names] }];
  });
  return { volatile_unknown: sides, ...(fields.length === 0 ? {} : { volatile_fields: fields }) };
}

interface FieldsRequest {
  readonly fields: readonly string[];
  /** The kinds that are compared. */
  readonly kinds: ReadonlySet<Kind>;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** How records of the kind are compared. */
  readonly modeOf: (definition: ResourceDefinition) => ComparisonMode;
  /** True for a field that is checked although this mode leaves it out. */
  readonly isLookedAt?: (definition: ResourceDefinition, name: string) => boolean;
  /** The compared records of these kinds; only read if the catalog does not describe a field. */
  readonly records: (kinds: ReadonlySet<Kind>) => Iterable<ComparedRecord>;
  /** What to do about a field that this mode leaves out. */
  readonly hintFor: (excluding: ComparisonMode) => string;
  /** The states, as the user named them, in which the field was volatile although it is not any more; null for other fields. */
  readonly unknownAsOf?: (kind: Kind, name: string) => string | null;
}

type Path = readonly string[];

/** Names kept for a suggestion: enough for any object, except for maps with thousands of members. */
const NEAR_KEPT = 1000;

type ComparedRecord = Pick<ParsedRecord, 'kind' | 'body'>;

/**
 * Checks that at least one of the named fields is compared. A field of the catalog is, unless the mode leaves it out; for
 * any other field, and for a place inside a field, the records are searched until one has it.
 * @throws TidemarkError `reference_unknown` if none is
 */
export function requireKnownFields(asked: FieldsRequest): void {
  const { fields, kinds, definitions, modeOf, isLookedAt = () => false } = asked;
  if (fields.length === 0) return;
  const paths = fields.map(splitPointer);
  const searched = new Map<Kind, Path[]>();
  let byItself: { readonly name: string; readonly mode: ComparisonMode } | undefined;
  let excluded: { readonly kind: Kind; readonly name: string; readonly mode: ComparisonMode } | undefined;
  for (const kind of kinds) {
    const definition = definitions(kind);
    const mode = modeOf(definition);
    const documented = definition.fieldsByName;
    for (const path of paths) {
      const [name] = path;
      if (name === undefined) return;
      const field = documented.get(name);
      const { isVolatile = isVolatileMember(definition, undefined, name), isWritable = false } = field ?? {};
      const isCompared = mode === 'all' || (!isVolatile && (mode !== 'managed' || isWritable));
      if (!isCompared && !(field !== undefined && isLookedAt(definition, name))) {
        if (field !== undefined) excluded ??= { kind, name, mode };
        else if (isVolatile) byItself ??= { name, mode };
      } else if (field !== undefined && isDocumented(field, path)) return;
      // A field that the catalog does not know is server-owned, so only a wider mode compares it.
      else searched.set(kind, [...(searched.get(kind) ?? []), path]);
    }
  }
  const near = new Set<string>();
  if (searched.size > 0 && isAnywhere(asked, searched, near)) return;
  if (excluded !== undefined) {
    const { kind, name, mode } = excluded;
    const unknown = mode === 'managed' ? null : (asked.unknownAsOf?.(kind, name) ?? null);
    if (unknown !== null)
      throw nothing(
        `/${name} is not known as of ${unknown}: it was volatile then`,
        'compare with a run from after `definitions` said `volatile: false`',
      );
    throw nothing(`/${name} ${mode === 'managed' ? 'is not managed' : 'is volatile'}`, asked.hintFor(mode));
  }
  if (byItself !== undefined) throw nothing(`/${byItself.name} is volatile`, asked.hintFor(byItself.mode));
  const known = [...kinds].flatMap((kind) => definitions(kind).fields.map(({ name }) => pointerTo([name])));
  const meant = didYouMean(fields[0] ?? '', [...known, ...near]);
  const [only] = kinds;
  throw nothing(
    `no record has ${fields.join(' or ')}${meant}`,
    `fields are named by JSON pointers, like --field /destination/type${kinds.size === 1 ? `; \`tidemark show ${only ?? ''} ID\` shows a record` : ''}`,
  );
}

function nothing(reason: string, hint: string): TidemarkError {
  return new TidemarkError('reference_unknown', `nothing was compared: ${reason}`, { hint });
}

function kindsOf({ states, parts }: StatesCompared): Set<Kind> {
  const kinds = new Set(states.flatMap((state) => state.collections().map(({ kind }) => kind)));
  return new Set([...kinds].filter((kind) => parts.some((part) => part.kinds?.includes(kind) !== false)));
}

function* recordsOf(
  { states, parts }: StatesCompared,
  searched: ReadonlySet<Kind>,
): Generator<ComparedRecord> {
  for (const state of states) {
    for (const part of parts) {
      const kinds = (part.kinds ?? [...searched]).filter((kind) => searched.has(kind));
      if (kinds.length > 0) for (const record of state.records({ ...part, kinds })) yield parseState(record);
    }
  }
}

/** True for an entire field, and for a secret inside one, which the search must not reveal. */
function isDocumented({ secretPointers }: FieldDefinition, [, ...inside]: Path): boolean {
  return (
    inside.length === 0 ||
    secretPointers.some((pointer) => {
      const at = splitPointer(pointer);
      return inside.every((part, index) => at[index] === '*' || at[index] === part);
    })
  );
}

/** True if a record has one of the places; adds the names of their siblings to `near`. */
function isAnywhere(
  { definitions, records }: Pick<FieldsRequest, 'definitions' | 'records'>,
  searched: ReadonlyMap<Kind, readonly Path[]>,
  near: Set<string>,
): boolean {
  for (const { kind, body } of records(new Set(searched.keys()))) {
    const shown = withShownFields(definitions(kind), body);
    for (const path of searched.get(kind) ?? []) {
      const above = path.slice(0, -1);
      const around = valueAt(shown, above);
      if (valueAt(around, path.slice(-1)) !== undefined) return true;
      if (near.size < NEAR_KEPT && above.length > 0 && around !== undefined && isJsonObject(around))
        for (const name of Object.keys(around)) near.add(pointerTo([...above, name]));
    }
  }
  return false;
}

/** The value at a path as a change shows it: by index, or by the id of an element (`[id=…]`). */
function valueAt(body: JsonValue | undefined, path: Path): JsonValue | undefined {
  let value = body;
  for (const part of path) {
    if (Array.isArray(value)) {
      value = isElementSegment(part)
        ? value.find((element) => elementSegment(element) === part)
        : value[/^(?:0|[1-9]\d*)$/.test(part) ? Number(part) : -1];
    } else value = value !== undefined && isJsonObject(value) ? getOwn(value, part) : undefined;
  }
  return value;
}
