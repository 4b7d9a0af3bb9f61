/** Removals that are held, with what a person needs to decide: which records they are, and where to look. */
import type { Actor } from '../core/actor.ts';
import { collectionKey, definitionOf, isPersonKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config, SourceConfig } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { defined } from '../core/defined.ts';
import { parseLossless } from '../core/json.ts';
import { firstWords, formatInteger, plural } from '../core/wording.ts';
import { recordName } from '../diff/change.ts';
import { recordsOnce } from '../diff/families.ts';
import type { HeldRecord, HeldRemovals } from '../mirror/held-removals.ts';
import type { Mirror } from '../mirror/mirror.ts';
import {
  type HeldUntil,
  heldUntil,
  heldUntilText,
  reviewCommands,
  MOVED_HINT,
  movedAddress,
  movedText,
  uncreatableKinds,
} from '../sync/removals.ts';
import { recreatedIn } from './recreated.ts';
import { previousRun } from './runs.ts';
import { recordKey } from './state.ts';

export interface NamedRemovals extends Omit<HeldRemovals, 'firstAt' | 'lastAt'> {
  /** When a later run removes them, if one does; missing for a source that is not configured. */
  readonly until?: HeldUntil;
  /** Names of the first few records; none for kinds of people. */
  readonly names: readonly string[];
  /** Its kind and kinds below it, if restore cannot create them. */
  readonly uncreatable?: readonly Kind[];
}

const NAMES = 5;

/** What the configuration has on a source. */
export interface SourceLookup {
  /** Also for the secrets that must not be shown in names. */
  readonly definitionsOf: (source: string) => (kind: Kind) => ResourceDefinition;
  /** Undefined for a source that is not configured. */
  readonly sourceOf: (source: string) => Pick<SourceConfig, 'removals' | 'baseUrl'> | undefined;
}

export function sourceLookup(config: Config): SourceLookup {
  return {
    definitionsOf: (source) => definitionsFor(config, source),
    sourceOf: (source) => config.configured.find(({ name }) => name === source),
  };
}

/** Selects held removals; by default all. */
interface HeldChoice {
  /** If these include the union (`plugins`), its removals are counted separately. */
  readonly kinds?: readonly Kind[];
  readonly selects?: (record: RecordKey) => boolean;
}

/** The held removals by collection. A component, which is in two lists, counts once, in the list of its family. */
export function heldOnce(
  mirror: Mirror,
  source: string,
  { kinds, selects }: HeldChoice = {},
): readonly HeldRemovals[] {
  const held = mirror.runs
    .heldRemovals(source, selects)
    .filter(({ kind }) => kinds?.includes(kind) !== false);
  const isRepeating = ({ kind }: HeldRemovals): boolean =>
    definitionOf(kind).isUnionOfFamily === true && kinds?.includes(kind) !== true;
  if (!held.some(isRepeating)) return held;
  const own = Map.groupBy(recordsOnce(heldRecordsOf(mirror, source, selects)), collectionKey);
  return held.flatMap((each) => {
    const records = isRepeating(each) ? (own.get(collectionKey(each))?.length ?? 0) : each.records;
    return records === 0 ? [] : [{ ...each, records }];
  });
}

function heldRecordsOf(mirror: Mirror, source: string, selects: HeldChoice['selects']): HeldRecord[] {
  const all = mirror.runs.heldRecords(source);
  return selects === undefined ? all : all.filter(selects);
}

/** Returns true for the scope of a list below a record whose removal is held. */
export function heldBelowTest(mirror: Mirror, source: string): (scope: Scope) => boolean {
  const places = new Set(
    mirror.runs.heldRecords(source).flatMap(({ kind, id }) => {
      const key = scopeKeyNaming(kind);
      return key === undefined ? [] : [`${key} ${id}`];
    }),
  );
  return (scope) => Object.entries(scope).some(([key, id]) => places.has(`${key} ${id}`));
}

/** The held removals by collection, as `heldOnce`, with names. */
export function namedRemovals(
  mirror: Mirror,
  source: string,
  { definitionsOf, sourceOf }: SourceLookup,
  choice: HeldChoice = {},
): NamedRemovals[] {
  const held = heldOnce(mirror, source, choice);
  if (held.length === 0) return [];
  const definitions = definitionsOf(source);
  const configured = sourceOf(source);
  const all = choice.selects === undefined ? held : mirror.runs.heldRemovals(source);
  const isRootHeld = all.some(({ kind }) => definitions(kind).discovery.from === 'root');
  const moved =
    configured === undefined || !isRootHeld ? null : movedAddress(mirror.runs.addressOf(source), configured);
  const records = Map.groupBy(recordsOnce(heldRecordsOf(mirror, source, choice.selects)), collectionKey);
  return held.map(({ firstAt, lastAt, ...each }) => {
    const definition = definitions(each.kind);
    const until =
      configured === undefined ? {} : { until: heldUntil({ firstAt, lastAt }, configured.removals, moved) };
    const first = isPersonKind(definition) ? [] : (records.get(collectionKey(each)) ?? []).slice(0, NAMES);
    const names = first.map((record) => namedHeld(mirror, source, record, definition).name);
    const uncreatable = uncreatableKinds(each, definitions);
    return { ...each, ...until, names, ...(uncreatable.length === 0 ? {} : { uncreatable }) };
  });
}

/** The held removals that a narrowed report is about. */
interface HeldWithin {
  readonly held: readonly NamedRemovals[];
  /** Those of records outside the report that have records of the report below them. */
  readonly above: readonly NamedRemovals[];
  /** The number and the kinds with which a sync accepts only these; null if it has to accept all held removals of the source. */
  readonly alone: { readonly ceiling: number; readonly kinds: readonly Kind[] } | null;
  /** The number for all held removals of the source, including the records below. */
  readonly ceiling: number;
}

/**
 * The held removals for a report that is narrowed.
 * @param missing the records of the report whose removal, or that of a record above them, is held
 * @param kinds the requested kinds; undefined for all
 */
export function removalsWithin(
  mirror: Mirror,
  source: string,
  lookup: SourceLookup,
  missing: readonly RecordKey[],
  kinds: readonly Kind[] | undefined,
): HeldWithin {
  const own = new Set(missing.map(recordKey));
  const parents = new Set(
    missing.flatMap(({ scope }) => Object.entries(scope).map(([key, id]) => `${key} ${id}`)),
  );
  const isAbove = ({ kind, id }: RecordKey): boolean => parents.has(`${scopeKeyNaming(kind) ?? ''} ${id}`);
  const held = namedRemovals(mirror, source, lookup, {
    ...defined({ kinds }),
    selects: (record) => own.has(recordKey(record)),
  });
  const above = namedRemovals(mirror, source, lookup, {
    selects: (record) => !own.has(recordKey(record)) && isAbove(record),
  });
  const heldKinds = [...new Set(held.map(({ kind }) => kind))];
  const ceiling = ceilingOf(held);
  // A sync with `--kind` does not read the kinds below.
  const isAlone =
    held.every(({ below }) => below === 0) &&
    ceiling === ceilingOf(heldOnce(mirror, source, { kinds: heldKinds }));
  return {
    ...{ held, above, ceiling: ceilingOf(heldOnce(mirror, source)) },
    alone: isAlone ? { ceiling, kinds: heldKinds } : null,
  };
}

/** The number for `--accept-removals`. */
function ceilingOf(held: readonly Pick<HeldRemovals, 'records' | 'below'>[]): number {
  return held.reduce((sum, { records, below }) => sum + records + below, 0);
}

/** A record whose removal is held, with its name and its number in the mirror. */
interface NamedHeld extends HeldRecord {
  readonly name: string;
  readonly record: number | null;
}

/** The first records whose removal is held, collection by collection. */
export function firstHeld(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
  most: number,
): NamedHeld[] {
  const first = recordsOnce(mirror.runs.heldRecords(source)).slice(0, most);
  return first.map((record) => namedHeld(mirror, source, record, definitions(record.kind)));
}

function namedHeld(
  mirror: Mirror,
  source: string,
  held: HeldRecord,
  definition: ResourceDefinition,
): NamedHeld {
  const { id, kind } = held;
  const row = mirror.records
    .find(kind, id, { sources: [source] })
    .find((found) => collectionKey(found) === collectionKey(held));
  const body = row?.body ?? null;
  const name = body === null ? id : recordName(definition, parseLossless(body), id);
  return { ...held, name, record: row?.record ?? null };
}

/** E.g. `335 records and 250 below them`: the sum is the number for `--accept-removals`. */
export function withBelow(text: string, records: number, below: number): string {
  return below === 0 ? text : `${text} and ${formatInteger(below)} below ${records === 1 ? 'it' : 'them'}`;
}

/** A line for each collection, e.g. `2 batch exports are missing, their removal is held: Redshift, Leads`. */
export function heldLines(
  held: readonly NamedRemovals[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  return held.map((each) => {
    const { one, many } = definitions(each.kind).title;
    const rest = each.records + each.below === 1 ? 'is missing, its' : 'are missing, their';
    const names = namesText(each);
    const what = withBelow(plural(each.records, one, many), each.records, each.below);
    return `${what} ${rest} removal is held${names === '' ? '' : `: ${names}`}`;
  });
}

/**
 * The first line of a report of the newest state, the lines below it, and the last ones: in the report, records whose removal
 * is held still count as present. Null if nothing is held.
 * @param source for the commands; null if there is only one
 * @param narrowed the options of the report, besides `--kind`, that select its records: ` --organization ID`
 */
export function heldReport(
  { held, alone, ceiling: whole }: HeldWithin,
  definitions: (kind: Kind) => ResourceDefinition,
  source: string | null,
  narrowed = '',
): { readonly lead: string; readonly lines: readonly string[]; readonly next: readonly string[] } | null {
  const [line, ...others] = heldLines(held, definitions);
  if (line === undefined) return null;
  const sum = held.reduce((all, { records }) => all + records, 0);
  const ceiling = ceilingOf(held);
  const [them, they, were] =
    sum === 1 ? (['it', 'it', 'it was'] as const) : (['them', 'they', 'they were'] as const);
  const isAll = ceiling === whole;
  const kinds = isAll ? [] : (alone?.kinds ?? []);
  const sync = [
    `tidemark sync --accept-removals ${isAll ? whole : (alone?.ceiling ?? whole)}`,
    ...kinds.map((kind) => `--kind ${kind}`),
    ...(source === null ? [] : [`--source ${source}`]),
  ].join(' ');
  const ifGone = isAll || alone !== null ? `if ${were}` : `if ${they} and all else that is held were`;
  return {
    lead:
      others.length === 0
        ? line
        : `${withBelow(plural(sum, 'record'), sum, ceiling - sum)} are missing, their removal is held`,
    lines: others.length === 0 ? [] : [line, ...others],
    next: [
      ...heldAdviceLines(held, source, them, { what: 'what is missing', narrowed }),
      `${ifGone} really removed: \`${sync}\` (${heldUntilText(held)})`,
    ],
  };
}

/**
 * What to do first about held removals: look at them and restore them, or correct the address if the source was read at
 * another one before. A line for each command.
 * @param source for the commands; null if there is only one
 * @param what the first command shows
 * @param narrowed as in `heldReport`
 */
export function heldAdviceLines(
  held: readonly NamedRemovals[],
  source: string | null,
  them: 'it' | 'them',
  { what = them, narrowed = '' }: { readonly what?: string; readonly narrowed?: string } = {},
): string[] {
  const [moved] = held.flatMap(({ until }) => until?.moved ?? []);
  if (moved !== undefined) return [`${movedText(moved)}: ${MOVED_HINT}`];
  const { look, restoring } = reviewCommands(held, source, narrowed);
  return [`${look} shows ${what}`, ...restoring(them)];
}

/** `heldAdviceLines` as one line, for documents and notices. */
export function heldAdvice(
  held: readonly NamedRemovals[],
  source: string | null,
  them: 'it' | 'them',
): string {
  const [look = '', ...restoring] = heldAdviceLines(held, source, them);
  return restoring.length === 0 ? look : `${look}, ${restoring.join('; ')}`;
}

/** How held removals ended: numbers of records, each counted once. */
export interface SettledRemovals {
  readonly accepted: readonly (Actor & { readonly records: number; readonly run: number })[];
  /** Removed under their old ids, because restores had recreated them. */
  readonly restored: number;
  /** Removed, because later runs confirmed that they are gone. */
  readonly confirmed: number;
}

/**
 * How the held removals of these collections ended.
 * @param collections the keys (`collectionKey`) of the collections
 * @param since only runs that ended later, ISO 8601
 */
export function settledRemovals(
  mirror: Mirror,
  source: string,
  { collections, since }: { readonly collections: ReadonlySet<string>; readonly since: string },
): SettledRemovals {
  const runs = mirror.runs
    .list({ source, isPublished: true })
    .filter(({ finishedAt }) => finishedAt !== null && finishedAt > since)
    .toReversed();
  const accepted = runs.flatMap(({ run }) => {
    const entry = mirror.acceptedRemovals(run);
    const records = (entry?.subject.collections ?? [])
      .filter((each) => collections.has(collectionKey(each)))
      .reduce((sum, each) => sum + each.accepted, 0);
    return entry === undefined || records === 0 ? [] : [{ records, by: entry.by, via: entry.via, run }];
  });
  const ended = runs.map((to) => {
    const own = mirror.runs.sweeps(to.run).filter((each) => collections.has(collectionKey(each)));
    const removed = own.reduce((sum, each) => sum + each.removed, 0);
    const from = removed === 0 ? undefined : previousRun(mirror, to);
    const again = from === undefined ? [] : recreatedIn(mirror, { from, to });
    const restored = again
      .filter(({ kind }) => own.some((each) => each.kind === kind))
      .reduce((sum, { records }) => sum + records, 0);
    return { removed, restored: Math.min(removed, restored) };
  });
  const removed = ended.reduce((sum, each) => sum + each.removed, 0);
  const restored = ended.reduce((sum, each) => sum + each.restored, 0);
  const byApproval = accepted.reduce((sum, { records }) => sum + records, 0);
  return { accepted, restored, confirmed: Math.max(0, removed - restored - byApproval) };
}

/** Lists that an earlier run could not read, and that are gone with their parent. */
export interface GoneLists {
  readonly lists: number;
  /** True if these are all lists that the earlier run could not read. */
  readonly areAll: boolean;
  /** What their parent was: `organization`, or `parent` for anything else. */
  readonly parent: string;
}

/** The lists that the run before this one could not read, and that are gone since because their parent is; null if there are none. */
export function goneLists(mirror: Mirror, run: number): GoneLists | null {
  const to = mirror.runs.get(run);
  const from = to === undefined ? undefined : previousRun(mirror, to);
  if (to === undefined || from === undefined) return null;
  const isUnread = ({ outcome }: { readonly outcome: string }): boolean =>
    outcome !== 'complete' && outcome !== 'held';
  const unread = mirror.runs.sweeps(from.run).filter(isUnread);
  if (unread.length === 0) return null;
  const retired = new Set(
    mirror.runs
      .collections(to.source)
      .filter(({ retiredRun }) => retiredRun === to.run)
      .map(collectionKey),
  );
  const lists = unread.filter((each) => retired.has(collectionKey(each))).length;
  if (lists === 0) return null;
  const isRootGone = mirror.runs
    .sweeps(to.run)
    .some(({ scope, removed }) => Object.keys(scope).length === 0 && removed > 0);
  return { lists, areAll: lists === unread.length, parent: isRootGone ? 'organization' : 'parent' };
}

/** E.g. `Events → Redshift, Leads and 10 more`; empty without names. */
export function namesText({ names, records }: Pick<NamedRemovals, 'names' | 'records'>): string {
  return names.length === 0 ? '' : firstWords(names, names.length, { of: records });
}
