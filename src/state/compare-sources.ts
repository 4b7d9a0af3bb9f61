/** Compares two sources (`diff --source A --to-source B`), whose records are matched by natural key: every id differs. */
import type { CollectionKey } from '../catalog/order.ts';
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import { kindsAbove } from '../catalog/lineage.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { groupsBy } from '../core/group.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, LeftOut, RecordChange, Skipped } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { diffSources } from '../diff/sources.ts';
import type { RecordState } from '../diff/states.ts';
import { UnmatchedParents } from '../diff/unmatched.ts';
import {
  possibleDefinitions,
  possibleMode,
  requireComparedFields,
  unknownVolatile,
} from './compared-fields.ts';
import { type StateFilter, filterParts, selectsCollection } from './filter.ts';
import { nothingCompared, type UnreadList } from './nothing-compared.ts';
import { type Coverage, isByChoice, type LoadedState, staleReading } from './state.ts';
import { redactionWith } from '../sync/redaction.ts';
import { EXCLUDED } from './unasked.ts';

interface SourceComparisonRequest {
  readonly from: LoadedState;
  readonly to: LoadedState;
  /** Kinds, and ids of organizations of both sources. */
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  readonly fields: readonly string[];
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Kinds that the configuration of each side's source excludes. */
  readonly excluded: { readonly from: ReadonlySet<Kind>; readonly to: ReadonlySet<Kind> };
  /** Reads the key of the fingerprints of both; called if a side has some. Null for two mirrors, which have different keys. */
  readonly fingerprintKey: (() => Uint8Array) | null;
}

/**
 * Compares the two. If one side could not read a collection, the entire kind is skipped: it is unknown which collection of
 * the other side is its counterpart.
 * @throws TidemarkError as `compareStates` and `fingerprintKey`; `usage` if the filter names projects or ids, or
 * organizations of one side only
 */
export function compareSources(request: SourceComparisonRequest): DiffDocument {
  const { from, to, filter, fields } = request;
  const definitions = possibleDefinitions(request.definitions, from, to);
  const mode = possibleMode(request.mode, from, to);
  if (filter.ids !== undefined || filter.projects !== undefined) {
    throw new TidemarkError('usage', '--id and --project name records of one source only', {
      hint: 'narrow a comparison of two sources with --kind, --field, or --organization of both',
    });
  }
  const isActivity = ({ kind, reading }: ResourceDefinition): boolean =>
    reading !== 'list' && filter.kinds?.includes(kind) !== true;
  // They may be the parents of others: they are read, but not reported.
  const unmanaged = unmanagedKinds(mode, definitions);
  const isKnown = (kind: Kind): boolean => hasKind(from, kind) || hasKind(to, kind);
  const leftOut: LeftOut[] = [...unmanaged]
    .filter(([kind]) => filter.kinds?.includes(kind) ?? isKnown(kind))
    .map(([kind, reason]) => ({ kind, scope: {}, reason }));
  const feeds: LeftOut[] = CATALOG.filter(isActivity)
    .filter(({ kind }) => !unmanaged.has(kind) && filter.kinds === undefined && isKnown(kind))
    .map(({ kind, title }) => ({
      kind,
      scope: {},
      reason: `each source has its own ${title.many}; --kind ${kind} compares them`,
    }));
  const kinds = CATALOG.filter((definition) => !isActivity(definition)).map(({ kind }) => kind);
  const sides = [
    sideOf(from, { ...filter, kinds }, request.excluded.from),
    sideOf(to, { ...filter, kinds }, request.excluded.to),
  ] as const;
  if (filter.organizations !== undefined) for (const side of sides) requireOrganization(side);

  const excluded =
    filter.kinds === undefined ? excludedKinds(kinds, sides) : excludedByBoth(filter.kinds, sides);
  const reported = new Set(
    (filter.kinds ?? kinds).filter(
      (kind) => !unmanaged.has(kind) && !excluded.some((each) => each.kind === kind),
    ),
  );
  const leading = new Set(kindsAbove(reported).filter((kind) => !reported.has(kind)));
  const unread: UnreadList[] = [];
  const skipped = kinds.flatMap((kind) =>
    reported.has(kind)
      ? skippedKind(kind, sides, unread)
      : leading.has(kind)
        ? unreadLists(kind, sides, unread)
        : [],
  );
  const state = ({
    state: { reference, source },
    records,
    collections,
  }: Side): Parameters<typeof diffSources>[0] => ({
    reference: source === null ? reference : { ...reference, source },
    records,
    collections,
  });
  // As in a comparison of one source: components are reported under `plugins` if the filter names that kind.
  const isOnce = filter.kinds?.some((kind) => definitionOf(kind).isUnionOfFamily === true) !== true;
  const { fingerprintKey } = request;
  const isRedactedIn = ({ records }: Side): boolean =>
    records.some(({ body }) => body.includes('"[redacted:'));
  const redaction =
    fingerprintKey !== null && sides.some(isRedactedIn) ? redactionWith(fingerprintKey()) : null;
  const unmatched = new UnmatchedParents();
  const options = {
    ...{ mode, fields, definitions, kinds: reported, skipped, isOnce, unmatched },
    ...(redaction === null
      ? {}
      : { redact: (definition: ResourceDefinition, text: string) => redaction.text(definition, text) }),
  };
  const compared = withoutUnknown(diffSources(state(sides[0]), state(sides[1]), options), sides);
  const unknown = unknownKinds(sides);
  const warnings = unmatchedNotes(
    unmatched,
    definitions,
    [nameOf(sides[0]), nameOf(sides[1])],
    (kind, change) => unknown[change].has(kind),
  );
  const document: DiffDocument = {
    ...compared,
    ...(warnings.length === 0 ? {} : { warnings }),
    stale: sides.flatMap(({ known }, index) =>
      known
        .filter(({ kind, coverage }) => reported.has(kind) || (leading.has(kind) && !isByChoice(coverage)))
        .flatMap((each) => staleReading(each, index === 0 ? 'from' : 'to', each.coverage, filter.kinds)),
    ),
    left_out: [...leftOut, ...excluded.filter(({ kind }) => !unmanaged.has(kind)), ...feeds],
    ...unknownVolatile(mode, { from, to }, request.definitions, filter.kinds),
  };
  if (document.compared.collections === 0 && document.compared.records === 0) {
    throw nothingCompared(document, { filter, unread });
  }
  const parts = filterParts({ ...filter, kinds: [...reported] });
  requireComparedFields(document, { fields, mode, definitions, states: [from, to], parts });
  return document;
}

/** Pairs of parents that are named; the records of further pairs are counted. */
const PAIRS_NAMED = 3;

/**
 * Why records are shown as removed and added although both sources have one of that name: a line for each parent without a
 * counterpart of its name, because what is below it has no counterpart either, and for records of the same names that belong
 * to different parents.
 * @param sources names of the two
 * @param isHidden true for changes that the document does not show
 * @internal
 */
export function unmatchedNotes(
  { parents, elsewhere }: Pick<UnmatchedParents, 'parents' | 'elsewhere'>,
  definitions: (kind: Kind) => ResourceDefinition,
  [from, to]: readonly [string, string],
  isHidden: (kind: Kind, change: 'added' | 'removed') => boolean = () => false,
): string[] {
  const named = ({ kind, name }: { readonly kind: Kind; readonly name: string }): string =>
    `${definitions(kind).title.one} ${JSON.stringify(name)}`;
  const unmatched = parents.flatMap((parent) => {
    const { change } = parent;
    const shown = [...parent.below].filter(([kind]) => !isHidden(kind, change));
    const below = shown.reduce((sum, [, records]) => sum + records, 0);
    if (below === 0) return [];
    const what = below === 1 ? 'the record below it is' : `the ${plural(below, 'record')} below it are`;
    return [
      `${named(parent)} has no counterpart of its name in ${change === 'removed' ? to : from}: ${what} shown as ${change}`,
    ];
  });
  const pairs = elsewhere.filter(({ kind }) => !isHidden(kind, 'added') && !isHidden(kind, 'removed'));
  const more = groupsBy(pairs.slice(PAIRS_NAMED), ({ kind, from: parent }) => `${kind} ${parent.kind}`);
  return [
    ...unmatched,
    ...pairs.slice(0, PAIRS_NAMED).map(({ kind, from: one, to: other, names: [first = '', ...others] }) => {
      const { title } = definitions(kind);
      const [what, verb] =
        others.length === 0
          ? [named({ kind, name: first }), 'belongs']
          : [plural(others.length + 1, title.one, title.many), 'belong'];
      return `${what} ${verb} to ${named(one)} in ${from} and to ${named(other)} in ${to}: shown as removed and added`;
    }),
    ...more.map((rest) => {
      const [first] = rest;
      const { one, many } = definitions(first.kind).title;
      const count = rest.reduce((sum, { names }) => sum + names.length, 0);
      const what = plural(count, `more ${one} has`, `more ${many} have`);
      return `${what} another ${definitions(first.from.kind).title.one} in ${to} than in ${from}: shown as removed and added`;
    }),
  ];
}

interface Side {
  readonly state: LoadedState;
  readonly records: readonly RecordState[];
  /** The collections that could be read. */
  readonly collections: readonly CollectionKey[];
  readonly known: readonly (CollectionKey & { readonly coverage: Coverage })[];
  /** Kinds that the configuration excludes, unless the run of the state asked for them. */
  readonly excluded: ReadonlySet<Kind>;
}

function sideOf(state: LoadedState, filter: StateFilter, excludedNow: ReadonlySet<Kind>): Side {
  const parts = filterParts(filter, state);
  const checked = state.checked();
  const known = state
    .collections()
    .filter(({ kind, scope }) => parts.some((part) => selectsCollection(part, kind, scope)))
    .map(({ kind, scope }) => ({ kind, scope, coverage: state.coverage(kind, scope) }));
  checked.requireCounted?.(known);
  return {
    state,
    records: parts.flatMap((part) => [...checked.records(part)]),
    collections: known
      .filter(({ coverage }) => coverage.how === 'read')
      .map(({ kind, scope }) => ({ kind, scope })),
    known,
    excluded: new Set(
      (filter.kinds ?? []).filter((kind) => {
        const own = known.filter((each) => each.kind === kind);
        if (own.length === 0) return excludedNow.has(kind);
        const reasons = own.map(({ coverage }) => ('unasked' in coverage ? coverage.unasked.by : undefined));
        return reasons.includes('kind') && !reasons.includes(undefined);
      }),
    ),
  };
}

/** Kinds that the configuration of one side excludes: that only the other side has them is not a difference. */
function excludedKinds(kinds: readonly Kind[], sides: readonly [Side, Side]): LeftOut[] {
  return kinds.flatMap((kind) => {
    if (!sides.some(({ known }) => known.some((each) => each.kind === kind))) return [];
    const [side] = sides.filter(({ excluded }) => excluded.has(kind));
    return side === undefined ? [] : [{ kind, scope: {}, reason: `${nameOf(side)}: ${EXCLUDED}` }];
  });
}

/** Kinds that both configurations exclude and neither state ever read. */
function excludedByBoth(kinds: readonly Kind[], sides: readonly [Side, Side]): LeftOut[] {
  return kinds
    .filter((kind) => sides.every(({ state, excluded }) => excluded.has(kind) && !hasKind(state, kind)))
    .map((kind) => ({ kind, scope: {}, reason: `${sides.map(nameOf).join(', ')}: ${EXCLUDED}` }));
}

function nameOf({ state }: Side): string {
  return state.source ?? state.reference.ref;
}

/**
 * Without records that only one side has, if the other may have had them as well. By kind: it is unknown which collection of
 * the other side is the counterpart.
 */
function withoutUnknown(document: DiffDocument, sides: readonly [Side, Side]): DiffDocument {
  const [from, to] = sides;
  const unknown = unknownKinds(sides);
  const isUnknown = ({ kind, change }: RecordChange): boolean =>
    change !== 'changed' && unknown[change].has(kind);
  const hidden = document.changes.filter(isUnknown);
  if (hidden.length === 0) return document;
  const changes = document.changes.filter((each) => !isUnknown(each));
  const count = (change: string): number => changes.filter((each) => each.change === change).length;
  const skipped = groupsBy(hidden, ({ kind, change }) => `${kind} ${change}`).map((own) => {
    const [{ kind, change }] = own;
    const { one, many } = definitionOf(kind).title;
    const name = plural(own.length, one, many);
    const { state, known } = change === 'added' ? from : to;
    const [found] = known.flatMap((each) =>
      each.kind === kind ? (state.unknownIn(kind, each.scope) ?? []) : [],
    );
    return { kind, scope: {}, name, reason: `${name}: ${found?.reason ?? 'the other side may lack some'}` };
  });
  return {
    ...document,
    changes,
    skipped: [...document.skipped, ...skipped],
    compared: { ...document.compared, records: document.compared.records - hidden.length },
    summary: { ...document.summary, added: count('added'), removed: count('removed') },
  };
}

/** Kinds of which FROM may lack records (shown as added), and of which TO may (shown as removed). */
function unknownKinds([from, to]: readonly [Side, Side]): Readonly<
  Record<'added' | 'removed', ReadonlySet<Kind>>
> {
  const partial = ({ known }: Side): ReadonlySet<Kind> =>
    new Set(
      known
        .filter(({ coverage }) => coverage.how === 'read' && coverage.isPartial === true)
        .map(({ kind }) => kind),
    );
  return { added: partial(from), removed: partial(to) };
}

function requireOrganization({ state, records }: Side): void {
  if (records.some(({ kind }) => kind === 'organizations')) return;
  const name = state.source === null ? state.reference.ref : `source ${state.source}`;
  throw new TidemarkError('usage', `${name} has none of the organizations that --organization names`, {
    hint: 'name the organization of each source: ids are their own',
  });
}

/** The kind as skipped if a side could not read it, or did not read it although it has parents of it. */
function skippedKind(kind: Kind, sides: readonly [Side, Side], unread: UnreadList[]): Skipped[] {
  const own = sides.map((side) => side.known.filter((each) => each.kind === kind));
  if (own.every((known) => known.length === 0)) return [];
  for (const [index, side] of sides.entries()) {
    const who = nameOf(side);
    const known = own[index] ?? [];
    for (const { coverage } of known) {
      if (coverage.how !== 'unread' && coverage.how !== 'left_out') continue;
      if (coverage.how === 'unread') unread.push({ ...coverage, kind });
      return [{ kind, scope: {}, reason: `${who}: ${coverage.reason}` }];
    }
    if (known.length === 0 && hasParents(kind, side))
      return [
        { kind, scope: {}, reason: `${who}: ${side.excluded.has(kind) ? EXCLUDED : 'it was not read'}` },
      ];
  }
  return [];
}

/** The same for a kind that is only read because it leads to others. */
function unreadLists(kind: Kind, sides: readonly [Side, Side], unread: UnreadList[]): Skipped[] {
  for (const side of sides) {
    for (const { kind: own, coverage } of side.known) {
      if (own !== kind || coverage.how !== 'unread' || isByChoice(coverage)) continue;
      unread.push({ ...coverage, kind });
      return [{ kind, scope: {}, reason: `${nameOf(side)}: ${coverage.reason}` }];
    }
  }
  return [];
}

function hasParents(kind: Kind, { records }: Side): boolean {
  const { from } = definitionOf(kind).discovery;
  return from === 'root' || records.some((record) => record.kind === from);
}

function hasKind(state: LoadedState, kind: Kind): boolean {
  return state.collections().some((each) => each.kind === kind);
}

/** The kinds to leave out with `--managed-only`, each with the reason: those without a field that a restore can write. */
export function unmanagedKinds(
  mode: ComparisonMode,
  definitions: (kind: Kind) => ResourceDefinition,
): ReadonlyMap<Kind, string> {
  if (mode !== 'managed') return new Map();
  const unmanaged = CATALOG.map(({ kind }) => definitions(kind)).filter(
    ({ fields }) =>
      !fields.some(({ isWritable, isCreateOnly, isVolatile }) => (isWritable || isCreateOnly) && !isVolatile),
  );
  return new Map(unmanaged.map(({ kind }) => [kind, NOTHING_WRITABLE]));
}

const NOTHING_WRITABLE =
  'no field of it is known to be writable, so that none is managed; leave --managed-only out to compare it';
