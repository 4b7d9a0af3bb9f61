/** `--field`: a pointer that matches nothing would compare nothing, and look like "no differences". */
import type { FieldDefinition } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { type ResourceDefinition, changedDefinition } from '../catalog/resource-definition.ts';
import { isVolatileMember } from '../catalog/volatile-names.ts';
import { withShownFields } from '../catalog/shown-fields.ts';
import { TidemarkError } from '../core/errors.ts';
import { type JsonValue, getOwn, isJsonObject } from '../core/json.ts';
import { suggest } from '../core/suggest.ts';
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
  /** Those of the configuration, where `definitions` are those by which the states can be compared. */
  readonly configured?: (kind: Kind) => ResourceDefinition;
  readonly states: readonly LoadedState[];
  readonly parts: readonly StateFilter[];
}

/**
 * Checks that at least one of the named fields was compared: one that changed was; otherwise as `requireKnownFields`.
 * @throws TidemarkError `reference_unknown` when none of them was
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

/** True for a state of the mirror, or an export of one, that has no values of volatile fields: later runs replaced them. */
function isPast({ resolvedState, lacksVolatile = false }: LoadedState): boolean {
  return lacksVolatile || (resolvedState !== null && !resolvedState.isLatest);
}

/** The mode in which two states can be compared: volatile fields only where both have values of them. */
export function possibleMode(mode: ComparisonMode, from: LoadedState, to: LoadedState): ComparisonMode {
  return mode === 'all' && (isPast(from) || isPast(to)) ? 'all_but_volatile' : mode;
}

/**
 * The definitions by which two states can be compared: what was volatile in a past state is not known of it, though the
 * configuration says otherwise since.
 */
export function possibleDefinitions(
  definitions: (kind: Kind) => ResourceDefinition,
  ...states: readonly LoadedState[]
): (kind: Kind) => ResourceDefinition {
  const replaced = states.flatMap((state) => {
    const own = state.replacedMembers?.() ?? new Map();
    return own.size === 0 ? [] : [own];
  });
  if (replaced.length === 0) return definitions;
  const byKind = new Map<Kind, ResourceDefinition>();
  return (kind) => {
    const known = byKind.get(kind);
    if (known !== undefined) return known;
    const definition = definitions(kind);
    const hidden = knownSince(definition, replaced);
    const fields = definition.fields.map((field) =>
      hidden.includes(field.name) ? { ...field, isVolatile: true } : field,
    );
    const possible = hidden.length === 0 ? definition : changedDefinition(definition, { fields });
    byKind.set(kind, possible);
    return possible;
  };
}

/** Fields that are not volatile any more, and were in one of these states. */
function knownSince(
  { kind, fields }: ResourceDefinition,
  replaced: readonly ReadonlyMap<Kind, ReadonlySet<string>>[],
): readonly string[] {
  return fields.flatMap(({ name, isVolatile }) =>
    !isVolatile && replaced.some((own) => own.get(kind)?.has(name) === true) ? [name] : [],
  );
}

/** What the document says of a comparison in a possible mode, of these kinds or all. */
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
    const own = state.replacedMembers?.() ?? new Map<Kind, ReadonlySet<string>>();
    const held = isWhole ? state.collections().map(({ kind }) => kind) : [...own.keys()];
    const found = [...new Set(held)].flatMap((kind) => {
      const definition = definitions(kind);
      const volatile = definition.fields.flatMap(({ name, isVolatile }) => (isVolatile ? [name] : []));
      const names = [...(isWhole ? volatile : []), ...knownSince(definition, [own])];
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

interface FieldsAsked {
  readonly fields: readonly string[];
  /** The kinds that are compared. */
  readonly kinds: ReadonlySet<Kind>;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** How records of the kind are compared. */
  readonly modeOf: (definition: ResourceDefinition) => ComparisonMode;
  /** True for a field that is looked at beside that. */
  readonly isLookedAt?: (definition: ResourceDefinition, name: string) => boolean;
  /** The compared records of these kinds; only read if the catalog does not describe a field. */
  readonly records: (kinds: ReadonlySet<Kind>) => Iterable<ComparedRecord>;
  /** What to do about a field that this mode leaves out. */
  readonly hintFor: (excluding: ComparisonMode) => string;
  /** The states, as they were named, of when the field was volatile, though the configuration says otherwise since; null for any other field. */
  readonly unknownAsOf?: (kind: Kind, name: string) => string | null;
}

type Path = readonly string[];

/** Enough for any form; what maps by the thousand would only slow a mistake down. */
const NEAR_KEPT = 1000;

type ComparedRecord = Pick<ParsedRecord, 'kind' | 'body'>;

/**
 * Checks that at least one of the named fields is compared: a field in the catalog is, unless the mode leaves it out;
 * for any other field, and for a place inside one, the records are searched until one has it.
 * @throws TidemarkError `reference_unknown` when none of them does
 */
export function requireKnownFields(asked: FieldsAsked): void {
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
  const meant = suggest(fields[0] ?? '', [...known, ...near]);
  const [only] = kinds;
  throw nothing(
    `no record has ${fields.join(' or ')}${meant === undefined ? '' : `; did you mean ${meant}?`}`,
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

/** True for an entire field, and for a secret inside one, which no answer may show. */
function isDocumented({ secretPointers }: FieldDefinition, [, ...inside]: Path): boolean {
  return (
    inside.length === 0 ||
    secretPointers.some((pointer) => {
      const at = splitPointer(pointer);
      return inside.every((part, index) => at[index] === '*' || at[index] === part);
    })
  );
}

/** Stops at the first that is there; until then `near` gathers what is beside the places. */
function isAnywhere(
  { definitions, records }: Pick<FieldsAsked, 'definitions' | 'records'>,
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
