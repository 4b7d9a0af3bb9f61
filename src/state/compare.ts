/** Two states of one source compared: what both speak of, by the one comparison; what they do not is named. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { KINDS } from '../catalog/definition.ts';
import type { DiffDocument, LeftOut, Skipped, Stale } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import type { RecordKey } from '../diff/order.ts';
import { compareKeys } from '../diff/order.ts';
import type { RecordState } from '../diff/states.ts';
import { diffStates } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { requireComparedFields } from './compared-fields.ts';
import type { StateFilter } from './filter.ts';
import { filterParts, isSearched, selectsCollection } from './filter.ts';
import { mergeParts } from './merge-parts.ts';
import { diffPoints } from './mirror-diff.ts';
import { nothingCompared } from './nothing-compared.ts';
import type { BlindSpot, CollectionKey, Coverage, LoadedState } from './state.ts';

export interface ComparisonRequest {
  readonly from: LoadedState;
  readonly to: LoadedState;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields: readonly string[];
  /** Definitions in force for the source. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Kinds that this comparison is not about, each with the reason. */
  readonly leaveOut?: ReadonlyMap<Kind, string>;
  /** The mirror that both states are of, where they are: then the cost follows the changes. */
  readonly mirror?: Mirror;
}

/**
 * Compares the two.
 * @throws TidemarkError when nothing was compared (`forbidden` and `unauthorized` where the key was refused everything
 * that was asked for), `usage` when a field is no pointer, `malformed` when a body is not JSON
 */
export function compareStates(request: ComparisonRequest): DiffDocument {
  const { from, to, filter, mode, fields, definitions, mirror } = request;
  const organizations = filter.organizations ?? [];
  const parts = filterParts(filter, () => [
    ...new Set([...from.projectsOf(organizations), ...to.projectsOf(organizations)]),
  ]);
  const ground = commonGround(request, parts);
  // Left out alike on both sides; only what could not be read is the document's `skipped`.
  const apart = [...ground.skipped, ...ground.leftOut];
  const blind = ground.blindSpots();
  const documents = parts.map((part) => {
    // Of a collection that was only searched for named records, nothing was compared unless one was there.
    const collections = ground.compared.filter(
      ({ kind, scope }) => selectsCollection(part, kind, scope) && !isSearched(part, kind),
    );
    const options = {
      mode,
      fields,
      definitions,
      skipped: apart,
      collections,
    };
    if (mirror !== undefined && from.point !== null && to.point !== null && from.source !== null) {
      return blind.withoutChanges(
        diffPoints(mirror, from.point, to.point, {
          ...options,
          filter: { ...part, sources: [from.source] },
        }),
      );
    }
    const side = (state: LoadedState): Parameters<typeof diffStates>[0] => ({
      reference: state.reference,
      records: blind.without(state.records(part)),
      collections,
    });
    return diffStates(side(from), side(to), options);
  });
  const merged = mergeParts(documents, from.reference, to.reference);
  const document: DiffDocument = {
    ...merged,
    ...(to.source === null ? {} : { source: to.source }),
    skipped: ground.skipped,
    stale: ground.stale,
    left_out: [...ground.leftOut, ...blind.seen()],
  };
  if (document.compared.collections === 0 && document.compared.records === 0) {
    throw nothingCompared(document, filter, ground.unread);
  }
  requireComparedFields(document, { fields, mode, definitions, states: [from, to], parts });
  return document;
}

/** What of the collections that either state knows can be compared. */
interface CommonGround {
  readonly compared: readonly CollectionKey[];
  readonly skipped: readonly Skipped[];
  readonly leftOut: readonly LeftOut[];
  readonly stale: readonly Stale[];
  readonly unread: readonly Extract<Coverage, { how: 'unread' }>[];
  blindSpots(): BlindSpots;
}

function commonGround(request: ComparisonRequest, parts: readonly StateFilter[]): CommonGround {
  const { from, to, leaveOut = new Map<Kind, string>() } = request;
  const compared: CollectionKey[] = [];
  const skipped: Skipped[] = [];
  const leftOut: LeftOut[] = [];
  const stale: Stale[] = [];
  const unread: Extract<Coverage, { how: 'unread' }>[] = [];
  const spots = new Map<string, BlindSpot[]>();
  for (const [kind, reason] of leaveOut) leftOut.push({ kind, scope: {}, reason });
  for (const { kind, scope } of collectionsOf(from, to)) {
    if (leaveOut.has(kind) || !parts.some((part) => selectsCollection(part, kind, scope))) continue;
    const sides = [from.coverage(kind, scope), to.coverage(kind, scope)] as const;
    const apart = apartness(sides);
    if (apart === 'nothing') continue;
    if (apart !== null) {
      (apart.isByChoice ? leftOut : skipped).push({ kind, scope, reason: apart.reason });
      if (!apart.isByChoice) unread.push(...sides.filter((side) => side.how === 'unread'));
      continue;
    }
    compared.push({ kind, scope });
    for (const [side, coverage] of [
      ['from', sides[0]],
      ['to', sides[1]],
    ] as const) {
      if (coverage.how === 'read' && coverage.stale !== undefined)
        stale.push({ kind, scope, side, reason: coverage.stale });
    }
    const own = [from.blindSpot(kind, scope), to.blindSpot(kind, scope)]
      .filter((spot) => spot !== null)
      .filter(({ isGuess }) => isGuess !== true || request.filter.kinds?.includes(kind) !== true);
    if (own.length > 0) spots.set(keyOf({ kind, scope }), own);
  }
  const isCompared = (kind: Kind): boolean => compared.some((each) => each.kind === kind);
  return {
    compared,
    skipped,
    leftOut: wholeKinds(leftOut, (kind) => isCompared(kind) || skipped.some((each) => each.kind === kind)),
    stale,
    unread,
    blindSpots: () => new BlindSpots(spots),
  };
}

/** A kind of which nothing else is left, and all of it for one reason, as one entry. */
function wholeKinds(leftOut: readonly LeftOut[], isElsewhere: (kind: Kind) => boolean): LeftOut[] {
  return [...Map.groupBy(leftOut, ({ kind }) => kind)].flatMap(([kind, own]) => {
    const [first] = own;
    if (
      first === undefined ||
      own.length === 1 ||
      isElsewhere(kind) ||
      own.some(({ reason }) => reason !== first.reason)
    )
      return own;
    return [{ kind, scope: {}, reason: first.reason }];
  });
}

/** Why a collection is not compared; null where it is, `nothing` where neither state ever had it. */
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

/** Of both states, each once, in the order of records. */
function collectionsOf(from: LoadedState, to: LoadedState): CollectionKey[] {
  const all = new Map([...from.collections(), ...to.collections()].map((each) => [keyOf(each), each]));
  return [...all.values()].sort((a, b) => compareKeys({ ...a, id: '' }, { ...b, id: '' }));
}

/** Records of which one of the states cannot tell: left out on both, and counted. */
class BlindSpots {
  readonly #spots: ReadonlyMap<string, readonly BlindSpot[]>;
  readonly #hidden = new Map<string, CollectionKey & { reason: string; ids: Set<string> }>();

  constructor(spots: ReadonlyMap<string, readonly BlindSpot[]>) {
    this.#spots = spots;
  }

  without(records: Iterable<RecordState>): Iterable<RecordState> {
    return this.#spots.size === 0 ? records : this.#filtered(records);
  }

  /** A record that both states hold is in no blind spot. */
  withoutChanges(document: DiffDocument): DiffDocument {
    if (this.#spots.size === 0) return document;
    const changes = document.changes.filter((each) => each.change === 'changed' || !this.#isHidden(each));
    const hidden = document.changes.length - changes.length;
    if (hidden === 0) return document;
    const count = (change: string): number => changes.filter((each) => each.change === change).length;
    return {
      ...document,
      changes,
      compared: { ...document.compared, records: document.compared.records - hidden },
      summary: { ...document.summary, added: count('added'), removed: count('removed') },
    };
  }

  *#filtered(records: Iterable<RecordState>): Generator<RecordState> {
    for (const record of records) if (!this.#isHidden(record)) yield record;
  }

  #isHidden({ kind, scope, id }: RecordKey): boolean {
    const key = keyOf({ kind, scope });
    const spot = this.#spots.get(key)?.find(({ covers }) => covers(id));
    if (spot === undefined) return false;
    const hidden = this.#hidden.get(key) ?? { kind, scope, reason: spot.reason, ids: new Set() };
    this.#hidden.set(key, hidden);
    hidden.ids.add(id);
    return true;
  }

  seen(): LeftOut[] {
    return [...this.#hidden.values()].map(({ kind, scope, reason, ids }) => {
      const { one, many } = definitionOf(kind).title;
      return {
        kind,
        scope,
        reason: `${ids.size.toLocaleString('en')} ${ids.size === 1 ? one : many}: ${reason}`,
      };
    });
  }
}

function keyOf({ kind, scope }: CollectionKey): string {
  return `${KINDS.indexOf(kind)} ${scopeKey(scope)}`;
}
