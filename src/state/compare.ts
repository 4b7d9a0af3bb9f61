/** Compares two states of one source. What only one of them covers is named instead. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import { groupsBy } from '../core/group.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, LeftOut, Skipped, Stale, StateReference } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { type CollectionKey, compareKeys, type RecordKey } from '../catalog/order.ts';
import { type State, skipTest, stepsOverStates, runInSlices } from '../diff/states.ts';
import { inBoth, repeatingKinds, withoutRepeats } from '../diff/families.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import {
  possibleDefinitions,
  possibleMode,
  requireComparedFields,
  unknownVolatile,
} from './compared-fields.ts';
import {
  type StateFilter,
  filterParts,
  mayHoldIds,
  isSearched,
  keysIn,
  keysOf,
  leadingFilter,
  selectsCollection,
} from './filter.ts';
import { unmanagedKinds } from './compare-sources.ts';
import { stepsOverRuns } from './mirror-diff.ts';
import { neverRead, nothingCompared, type UnreadList } from './nothing-compared.ts';
import { type Coverage, isByChoice, type LoadedState, recordKey, staleReading } from './state.ts';
import { EXCLUDED, isNamedAnyway, neverAskedKinds } from './unasked.ts';
import { UnknownRecords } from './unknown-records.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { recreatedParts, withRecreated } from './recreated-state.ts';

interface ComparisonRequest {
  readonly from: LoadedState;
  readonly to: LoadedState;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields: readonly string[];
  /** Definitions in force for the source. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Kinds that are not compared, each with the reason. */
  readonly leaveOut: ReadonlyMap<Kind, string>;
  /** True for kinds that the configuration of the source excludes: a sync would not read them. */
  readonly isExcluded: (kind: Kind) => boolean;
  /** Given if both states are of this mirror: then the cost is proportional to the changes. */
  readonly mirror?: Mirror;
  /** The ids of recreated records. */
  readonly idMap: readonly IdMapping[];
  /** The ids of the filter as the user typed them: an id that was typed masked is never shown. */
  readonly typedIds?: readonly string[];
  /** True if the filter is not from a user: then it may find nothing, and unknown ids are not listed. */
  readonly isUnasked?: true;
  /** Ends the comparison early. */
  readonly signal?: AbortSignal;
}

/**
 * Compares the two, and yields to the event loop meanwhile.
 * @throws TidemarkError if nothing was compared (`forbidden` and `unauthorized` if the key was refused everything that was
 * requested), `usage` if a field is not a pointer, `malformed` if a body is not JSON, `mirror_corrupt` if a body of the
 * mirror does not match its hash
 */
export async function compareStates(given: ComparisonRequest): Promise<DiffDocument> {
  const asked = { ...given, from: given.from.checked(), to: given.to.checked() };
  const { to, filter, fields } = asked;
  const definitions = possibleDefinitions(asked.definitions, asked.from, to);
  const mode = possibleMode(asked.mode, asked.from, to);
  const { from, toByFrom } = withRecreated(asked.from, to, asked.idMap, definitions);
  const all = [...collectionsOf(from, to)];
  // If the configuration leaves out every collection of the kind, that is the reason.
  const unmanaged = [...unmanagedKinds(mode, definitions)].map(([kind, reason]) => {
    const own = all.filter((each) => each.kind === kind).map(({ scope }) => to.coverage(kind, scope));
    const [first] = own;
    if (first === undefined) return [kind, asked.isExcluded(kind) ? EXCLUDED : reason] as const;
    const isLeftOut = first.how === 'left_out' && own.every(({ how }) => how === 'left_out');
    return [kind, isLeftOut ? first.reason : reason] as const;
  });
  const leaveOut = new Map([...unmanaged, ...asked.leaveOut]);
  const request = { ...asked, from, leaveOut };
  // The comparison by runs uses the ids of the mirror: not for a FROM under other ids.
  const mirror = from === asked.from ? asked.mirror : undefined;
  const parts = recreatedParts(from, filterParts(filter, from, to));
  const collections = comparableCollections(request, parts);
  // `skipped` and `leftOut` are both left out of the comparison; only the former could not be read.
  const { unknownRecords, skipped, leftOut, unread } = collections;
  const apart = [...skipped, ...leftOut];
  // Two states of one mirror are of the same records.
  if (mirror === undefined) for (const side of [from, to]) side.requireCounted?.(collections.compared);
  else to.requireCounted?.(collections.compared, to.resolvedState?.run);
  const never = neverAskedKinds([asked.from, to], filter, leaveOut);
  const documents: DiffDocument[] = [];
  const unaskedRecords: (RecordKey & { readonly reason: string })[] = [];
  for (const part of parts) {
    const without = unaskedRecordsOf(to, filter, part, new Set(apart.map(collectionKey)));
    unaskedRecords.push(...without);
    const left = new Set(without.map(recordKey));

    // A collection that was only searched for named records counts as compared only if it had one.
    const compared = collections.compared.filter(
      ({ kind, scope }) => selectsCollection(part, kind, scope) && !isSearched(part, kind),
    );
    const options: Parameters<typeof stepsOverStates>[2] = {
      mode,
      fields,
      definitions,
      skipped: apart,
      isUnknown: (key, change) => unknownRecords.isUnknown(key, change),
    };
    const side = (state: LoadedState): State => ({
      reference: state.reference,
      records:
        left.size === 0
          ? state.records(part)
          : Iterator.from(state.records(part)).filter((record) => !left.has(recordKey(record))),
      collections: compared,
    });
    const steps =
      mirror !== undefined && from.resolvedState !== null && to.resolvedState !== null && from.source !== null
        ? stepsOverRuns(mirror, from.resolvedState, to.resolvedState, {
            ...options,
            collections: compared,
            without,
            filter: { ...part, sources: [from.source] },
          })
        : stepsOverStates(side(from), side(toByFrom), options);
    documents.push(await runInSlices(steps, asked.signal));
  }
  const merged = withoutRepeats(
    mergeParts(documents, from.reference, to.reference),
    filter.kinds,
    repeatingRecords(request, parts, apart),
  );
  const document: DiffDocument = {
    ...merged,
    ...defined({ source: to.source ?? undefined }),
    skipped: [...skipped, ...never.skipped, ...unknownRecords.skipped()],
    stale: collections.stale,
    left_out: [...leftOut, ...never.leftOut, ...countedRecords(unaskedRecords), ...unknownRecords.leftOut()],
    ...unknownVolatile(mode, { from: asked.from, to }, asked.definitions, filter.kinds),
  };
  if (asked.isUnasked === true) return document;
  if (document.compared.collections === 0 && document.compared.records === 0) {
    const question = { filter, unread, sides: [from, to], typedIds: asked.typedIds } as const;
    throw neverRead({ from, to }, document.skipped, asked.isExcluded) ?? nothingCompared(document, question);
  }
  requireComparedFields(document, {
    ...{ fields, mode, definitions, states: [from, to], parts },
    configured: asked.definitions,
  });
  const unknown = unknownIds(asked, filter, asked.typedIds);
  return unknown.length === 0 ? document : { ...document, skipped: [...document.skipped, ...unknown] };
}

/** The records that both states have in compared lists that repeat each other. */
function repeatingRecords(
  { from, to }: Pick<ComparisonRequest, 'from' | 'to'>,
  parts: readonly StateFilter[],
  apart: readonly Skipped[],
): RecordKey[] {
  const repeating = parts
    .map((part) => ({ ...part, kinds: repeatingKinds(part.kinds) }))
    .filter(({ kinds }) => kinds.length > 0);
  const isApart = skipTest(apart);
  return inBoth(keysIn([from], repeating), keysIn([to], repeating)).filter((each) => !isApart(each));
}

/** Which of the collections that either state knows can be compared. */
interface ComparableCollections {
  readonly compared: readonly CollectionKey[];
  readonly skipped: readonly Skipped[];
  readonly leftOut: readonly LeftOut[];
  readonly stale: readonly Stale[];
  readonly unread: readonly UnreadList[];
  readonly unknownRecords: UnknownRecords;
}

function comparableCollections(
  request: ComparisonRequest,
  parts: readonly StateFilter[],
): ComparableCollections {
  const { from, to, leaveOut } = request;
  const compared: CollectionKey[] = [];
  const skipped: Skipped[] = [];
  const leftOut: LeftOut[] = [];
  const stale: Stale[] = [];
  const unread: UnreadList[] = [];
  const known = collectionsOf(from, to).filter(mayHoldIds(request.filter, parts, [from, to]));
  for (const [kind, reason] of leaveOut) {
    if (request.filter.kinds?.includes(kind) !== false) leftOut.push({ kind, scope: {}, reason });
  }
  for (const { kind, scope } of known) {
    if (leaveOut.has(kind) || !parts.some((part) => selectsCollection(part, kind, scope))) continue;
    const sides = [from.coverage(kind, scope), to.coverage(kind, scope)] as const;
    const unasked = sides[1].how === 'read' || sides[1].how === 'unread' ? sides[1].unasked : undefined;
    if (unasked !== undefined && !isNamedAnyway(request.filter, unasked)) {
      leftOut.push({ kind, scope, reason: unasked.reason });
      continue;
    }
    const apart = apartness(sides);
    if (apart === 'nothing') continue;
    if (apart !== null) {
      (apart.isByChoice ? leftOut : skipped).push({ kind, scope, reason: apart.reason });
      if (!apart.isByChoice) unread.push(...unreadSides(kind, sides));
      continue;
    }
    compared.push({ kind, scope });
    stale.push(...staleSides({ kind, scope }, sides, request.filter.kinds));
  }
  const leading = leadingLists(request, { compared, skipped, leftOut });
  skipped.push(...leading.skipped);
  stale.push(...leading.stale);
  unread.push(...leading.unread);
  const comparedKeys = new Set(compared.map(collectionKey));
  const unknownIn: ConstructorParameters<typeof UnknownRecords>[0] = (side, collection) => {
    if (!comparedKeys.has(collectionKey(collection))) return null;
    const { kind, scope } = collection;
    return (side === 'from' ? from : to).unknownIn(kind, scope);
  };
  const isCompared = (kind: Kind): boolean => compared.some((each) => each.kind === kind);
  return {
    compared,
    skipped,
    leftOut: wholeKinds(leftOut, (kind) => isCompared(kind) || skipped.some((each) => each.kind === kind)),
    stale,
    unread,
    unknownRecords: new UnknownRecords(unknownIn),
  };
}

function unreadSides(kind: Kind, sides: readonly Coverage[]): UnreadList[] {
  return sides.flatMap((side) => (side.how === 'unread' ? [{ ...side, kind }] : []));
}

function staleSides(
  collection: CollectionKey,
  [from, to]: readonly [Coverage, Coverage],
  kinds: readonly Kind[] | undefined,
): Stale[] {
  return [...staleReading(collection, 'from', from, kinds), ...staleReading(collection, 'to', to, kinds)];
}

/**
 * Problems of lists that are not compared themselves, but lead to compared ones: what is below a record that such a list
 * lacks is missing in the comparison. Lists that are left out on purpose are ignored.
 */
function leadingLists(
  { from, to, filter, leaveOut }: ComparisonRequest,
  { compared, skipped, leftOut }: Pick<ComparableCollections, 'compared' | 'skipped' | 'leftOut'>,
): Pick<ComparableCollections, 'skipped' | 'stale' | 'unread'> {
  const apart = new Set(
    leftOut.flatMap(({ kind, scope }) => {
      const isOfKind = [from, to].some((side) => {
        const coverage = side.coverage(kind, scope);
        return coverage.how === 'left_out' && coverage.isOfKind === true;
      });
      return isOfKind ? [kind] : [];
    }),
  );
  const about = [
    ...[...compared, ...skipped].map(({ kind }) => kind),
    // Without a parent, neither state may know a collection of these.
    ...(filter.kinds ?? []).filter((kind) => !leaveOut.has(kind) && !apart.has(kind)),
  ];
  const leading = leadingFilter({ ...filter, kinds: about });
  const parts = leading === null ? [] : recreatedParts(from, filterParts(leading, from, to));
  const known = new Set([...compared, ...skipped].map(collectionKey));
  const found = {
    skipped: new Array<Skipped>(),
    stale: new Array<Stale>(),
    unread: new Array<UnreadList>(),
  };
  for (const { kind, scope } of collectionsOf(from, to)) {
    if (known.has(collectionKey({ kind, scope }))) continue;
    if (!parts.some((part) => selectsCollection(part, kind, scope))) continue;
    const sides = [from.coverage(kind, scope), to.coverage(kind, scope)] as const;
    if (sides.some(isByChoice)) continue;
    const unread = unreadSides(kind, sides);
    const [one, other] = unread;
    if (one === undefined) found.stale.push(...staleSides({ kind, scope }, sides, filter.kinds));
    if (one === undefined || (other !== undefined && unread.every(({ code }) => code === 'not_found')))
      continue;
    found.skipped.push({ kind, scope, reason: (other ?? one).reason });
    found.unread.push(...unread);
  }
  return found;
}

/** Records of the part that TO has but its run did not ask for, although it read others of their collection. */
function unaskedRecordsOf(
  to: LoadedState,
  asked: StateFilter,
  part: StateFilter,
  apart: ReadonlySet<string>,
): (RecordKey & { readonly reason: string })[] {
  const kind = SCOPE_KIND.organization_id;
  if (to.unaskedRecord === undefined || isNamedAnyway(asked, { by: 'organization_id' })) return [];
  if (part.kinds?.includes(kind) === false || apart.has(collectionKey({ kind, scope: {} }))) return [];
  return [...keysOf(to, { ...part, kinds: [kind] })].flatMap((key) => {
    const reason = to.unaskedRecord?.(key) ?? null;
    return reason === null ? [] : [{ kind: key.kind, scope: key.scope, id: key.id, reason }];
  });
}

/** Entries of `left_out` with the number of records of a collection. */
function countedRecords(records: readonly (RecordKey & { readonly reason: string })[]): LeftOut[] {
  return groupsBy(records, (each) => `${collectionKey(each)} ${each.reason}`).map((same) => {
    const [{ kind, scope, reason }] = same;
    const { one, many } = definitionOf(kind).title;
    const name = plural(same.length, one, many);
    return { kind, scope, name, reason: `${name}: ${reason}`, records: same.length };
  });
}

/** One entry for a kind that is left out entirely and for one reason. */
function wholeKinds(leftOut: readonly LeftOut[], isElsewhere: (kind: Kind) => boolean): LeftOut[] {
  return groupsBy(leftOut, ({ kind }) => kind).flatMap((own) => {
    const [{ kind, reason }] = own;
    const isOne = own.length > 1 && !isElsewhere(kind) && own.every((each) => each.reason === reason);
    return isOne ? [{ kind, scope: {}, reason }] : own;
  });
}

/** Why a collection is not compared; null if it is compared, `nothing` if neither state had it. */
function apartness(
  sides: readonly [Coverage, Coverage],
): { readonly reason: string; readonly isByChoice: boolean } | null | 'nothing' {
  if (sides.every(({ how }) => how === 'absent')) return 'nothing';
  const chosen = sides.find((side) => side.how === 'left_out');
  if (chosen !== undefined) return { reason: chosen.reason, isByChoice: true };
  const unread = sides.filter((side) => side.how === 'unread');
  const [one, other] = unread;
  if (one === undefined) return null;
  // Offered neither then nor now: there is nothing that could differ.
  const isNeverOffered = other !== undefined && unread.every(({ code }) => code === 'not_found');
  return {
    reason: isNeverOffered ? 'not offered by the service' : (other ?? one).reason,
    isByChoice: isNeverOffered,
  };
}

/** The collections of both states, each once, in the order of records. */
function collectionsOf(from: LoadedState, to: LoadedState): CollectionKey[] {
  const all = new Map(
    [...from.collections(), ...to.collections()].map((each) => [collectionKey(each), each]),
  );
  return [...all.values()].sort((a, b) => compareKeys({ ...a, id: '' }, { ...b, id: '' }));
}

/** One document for a comparison in parts. The parts are of different collections, so that the counts add up. */
function mergeParts(
  documents: readonly DiffDocument[],
  from: StateReference,
  to: StateReference,
): DiffDocument {
  const sum = (of: (document: DiffDocument) => number): number =>
    documents.reduce((total, document) => total + of(document), 0);
  return {
    schema: 'tidemark.diff/1',
    from,
    to,
    compared: {
      collections: sum(({ compared }) => compared.collections),
      records: sum(({ compared }) => compared.records),
    },
    skipped: [],
    changes: documents.flatMap(({ changes }) => changes),
    summary: {
      added: sum(({ summary }) => summary.added),
      removed: sum(({ summary }) => summary.removed),
      changed: sum(({ summary }) => summary.changed),
      unchanged: sum(({ summary }) => summary.unchanged),
    },
  };
}

/** Shown instead of a secret id that the user gave masked. */
const MASKED = 'that was given masked';

/**
 * An entry for each requested id that neither state has, and each kind in which it was searched: nothing was compared for
 * it, which is not "no differences". The kinds are the requested ones, otherwise those of the ids that were found: a
 * mistyped id is usually among correct ones of its kind.
 * @param typed the ids as the user typed them: an id that was typed masked is never shown; all are shown without this
 */
function unknownIds(
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  filter: StateFilter,
  typed?: readonly string[],
): Skipped[] {
  const { ids = [] } = filter;
  const parts = filterParts(filter, from, to);
  const found = new Set<Kind>();
  const unknown = ids.filter((id) => {
    const own = keysIn(
      [from, to],
      parts.map((part) => ({ ...part, ids: [id] })),
    );
    for (const { kind } of own) found.add(kind);
    return own.length === 0;
  });
  const kinds = filter.kinds ?? KINDS.filter((kind) => found.has(kind));
  return unknown.flatMap((id) => {
    const name = typed?.includes(id) === false ? MASKED : id;
    const reason = `neither state has a record with the id ${name}: nothing was compared for it`;
    return kinds.map((kind) => ({ kind, scope: {}, name, reason }));
  });
}
