/**
 * Records that were asked for, by id or name, and that nothing in the mirror shows. One may exist even so, in a list that no run read, or
 * have existed in runs that retention dropped. The one place that decides it, for lookups, exports and changes.
 */
import { definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { kindsAbove } from '../catalog/lineage.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { type ErrorCode, TidemarkError } from '../core/errors.ts';
import { permissionIn } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { parentTexts } from '../report/notes.ts';
import { quotedName } from '../report/value-text.ts';
import { parentNames } from '../state/parent-names.ts';
import { EXCLUDED } from '../state/unasked.ts';
import { forgottenInto } from '../state/runs.ts';
import { unreadOfSources } from '../state/unread-in-period.ts';
import { deniedAdvice } from '../sync/sweep.ts';
import type { CommandContext } from './context.ts';
import {
  type FilterOptions,
  filterText,
  neverReadNotes,
  recordFilter,
  type StaleCollection,
  staleCollections,
} from './export-notes.ts';
import { UnknownParent } from './named-parents.ts';

export const UNREAD_HINT =
  '`tidemark doctor` shows what the key can read, `tidemark status` what the mirror lacks';

/** Lists named at most; `status` has the rest. */
const NAMED = 4;

/** Where an id, or a name, is looked for. */
interface LookedIn {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly sources: readonly string[];
  /** The run whose state is meant; null for the latest, and for the history. */
  readonly run: number | null;
}

/** A kind of which a source lacks a list. */
export interface NotKnown {
  readonly source: string;
  readonly kind: Kind;
  readonly reason: string;
  /** True where it lacks the lists of some scopes: `Unknowns.unread` has those that matter. */
  readonly isScoped: boolean;
}

/** No record has the id, though one of these kinds may. */
export class UnknownRecord extends UnknownParent {
  readonly notKnown: readonly NotKnown[];

  constructor(code: ErrorCode, message: string, hint: string | undefined, notKnown: readonly NotKnown[]) {
    super(code, message, { hint });
    this.notKnown = notKnown;
  }
}

/** Where a record may be that the mirror does not show. */
interface Unknowns {
  /** Of the sources that have none of the records, the kinds of which each lacks a list. */
  readonly kinds: readonly NotKnown[];
  /** Of lists that no run read completely, or of which the record has not had its turn; a line each. */
  readonly unread: readonly string[];
  /** Of lists that were read, and not since; a line each. */
  readonly stale: readonly string[];
  /** Runs that retention dropped, with what only they had; a line for each source. */
  readonly dropped: readonly string[];
  /** What to do about `unread`. */
  readonly hint: string;
}

/** What the mirror does not know of the records asked for, by the kinds of their lists and those that lead to them. */
export function unknownsIn(place: LookedIn, asked: FilterOptions): Unknowns {
  const { mirror, config, sources, run } = place;
  const { id: _, ...options } = asked;
  const kinds = options.kind ?? KINDS;
  const above = kindsAbove(kinds);
  const lists = staleCollections(
    mirror,
    sources,
    { ...options, kind: [...new Set([...kinds, ...above])] },
    run,
  )
    .filter(({ outcome }) => outcome !== 'held')
    .map((list) => ({ ...list, leads: !kinds.includes(list.kind) }));
  const unread = lists.filter(({ lastComplete }) => lastComplete === null);
  const read = lists.filter(({ lastComplete, leads }) => lastComplete !== null && !leads);
  const text = listTexts(place);
  const denied = unread.filter(({ outcome }) => outcome === 'denied');
  const advice =
    denied.length > 0
      ? `${deniedAdvice(denied.map(({ kind, error }) => ({ kind, permission: permissionIn(error ?? '') ?? null })))}, then run \`tidemark sync\``
      : 'run `tidemark sync`, which tries again';
  return {
    kinds: notKnownIn(mirror, config, sources, asked),
    unread: named(
      unread.map(
        (list) =>
          `${text(list)} was never read${list.outcome === 'denied' ? '' : ' completely'} (${whyText(list)})`,
      ),
    ),
    stale: named(
      read.map(
        (list) =>
          `not in ${text(list)} when it was last read completely, in ${runText(mirror, list)}; not read since (${whyText(list)})`,
      ),
    ),
    dropped: run === null ? sources.flatMap((source) => droppedLine(mirror, source, sources.length > 1)) : [],
    hint: `${advice}; \`tidemark doctor\` shows what the key can read`,
  };
}

/** What only dropped runs had cannot be known: a record that was removed by the oldest one that is kept, or was there between two. */
function droppedLine(mirror: Mirror, source: string, isSourceNamed: boolean): string[] {
  const kept = mirror.runs.list({ source, isPublished: true });
  const into = kept.find(({ run }) => forgottenInto(mirror, run) !== undefined);
  if (into === undefined) return [];
  const which = into.run === kept.at(-1)?.run ? 'runs' : 'some runs';
  const of = isSourceNamed ? ` of ${source}` : '';
  return [
    `${which} before run ${into.run}${of} were dropped by retention: whether one existed only then is not known`,
  ];
}

function named(lines: readonly string[]): string[] {
  const more = lines.length - NAMED;
  return [
    ...lines.slice(0, NAMED),
    ...(more > 0 ? [`and ${plural(more, 'more list')}: see \`tidemark status\``] : []),
  ];
}

function runText(mirror: Mirror, { lastComplete }: StaleCollection): string {
  const run = lastComplete?.run ?? 0;
  return mirror.runs.get(run) === undefined ? 'a run that was forgotten' : `run ${run}`;
}

function whyText({ outcome, error }: StaleCollection): string {
  return [outcome ?? 'not asked for', ...(error === null ? [] : [error])].join(': ');
}

/** `the list of plugins of organization Harbor (0190…)`, with the source if it is one of several. */
function listTexts({ mirror, config, sources }: LookedIn): (list: StaleCollection) => string {
  return ({ source, kind, scope }) => {
    const definitions = definitionsFor(config, source);
    const parents = parentTexts(scope, { definitions, parentName: parentNames(mirror, source, definitions) });
    const where = [...parents, ...(sources.length > 1 ? [`source ${source}`] : [])].join(', ');
    return `the list of ${definitions(kind).title.many}${where === '' ? '' : ` of ${where}`}`;
  };
}

/** Of each source that has none of the records, the kinds of which it lacks a list. */
export function notKnownIn(
  mirror: Mirror,
  config: Config,
  sources: readonly string[],
  { id: ids = [], kind: kinds = KINDS }: { readonly [K in 'id' | 'kind']?: FilterOptions[K] | undefined },
): NotKnown[] {
  const lacking = sources.filter(
    (source) => kindsOfIds(mirror, [source], { id: ids, kind: kinds }).length === 0,
  );
  const filter = { kinds };
  return unreadOfSources(mirror, config, { sources: lacking, filter, isWithin: () => true }).flatMap(
    ({ source, skipped }) => {
      const isNew = mirror.runs.latest(source) === undefined;
      return [...new Map(skipped.map((each) => [each.kind, each])).values()].map(
        ({ kind, scope, reason }) => ({
          ...{ source, kind, isScoped: Object.keys(scope).length > 0 },
          reason: isNew && reason !== EXCLUDED ? `nothing of source ${source} was read yet` : reason,
        }),
      );
    },
  );
}

/** The kinds of the records with these ids, removed ones too. */
function kindsOfIds(
  mirror: Mirror,
  sources: readonly string[],
  { id: ids = [], kind: kinds = KINDS }: FilterOptions,
): Kind[] {
  return kinds.filter((kind) => ids.some((id) => mirror.records.find(kind, id, { sources }).length > 0));
}

/** A line for each source and reason. */
export function notKnownLines(all: readonly NotKnown[], isSourceNamed = true): string[] {
  return [...Map.groupBy(all, ({ source, reason }) => JSON.stringify([source, reason])).values()].map(
    (same) => {
      const titles = same.map(({ kind }) => definitionOf(kind).title.many).join(', ');
      const of = isSourceNamed ? ` of ${same[0]?.source ?? ''}` : '';
      return `${titles}${of} are not known: ${same[0]?.reason ?? ''}`;
    },
  );
}

/**
 * Whose lists matter. With an id, those of the kinds of the records that have it: also in the sources in which nothing has it, or its name,
 * unless what was asked for is below an organization or project of others.
 */
export function unreadQuestion(
  { ofSeveral }: CommandContext,
  mirror: Mirror,
  all: readonly string[],
  { sources, options }: { readonly sources: readonly string[]; readonly options: FilterOptions },
): { readonly sources: readonly string[]; readonly filter: ReturnType<typeof recordFilter> } {
  const filter = recordFilter(sources, options);
  if (options.id === undefined) return { sources, filter };
  const kinds = kindsOfIds(mirror, sources, options);
  ofSeveral?.onFound(kinds);
  const isBelow = options.organization !== undefined || options.project !== undefined;
  return {
    sources: isBelow ? sources : all,
    filter: { ...filter, ...(kinds.length === 0 ? {} : { kinds }) },
  };
}

/**
 * The error of a lookup that found nothing.
 * @param none what to say where every list that would show the record was read, with `hint`; `unread` where some was not
 * @param others lines on kinds of which no list is named
 */
export function unknownRecord(
  {
    none,
    unread,
    more = [],
    others,
    hint,
  }: Readonly<Record<'none' | 'unread' | 'hint', string>> & {
    readonly more?: readonly string[];
    readonly others: readonly string[];
  },
  unknowns: Unknowns,
): TidemarkError {
  const isUnread = unknowns.unread.length > 0;
  const lines = [
    isUnread ? unread : none,
    ...more,
    ...unknowns.unread,
    ...unknowns.stale,
    ...others,
    ...unknowns.dropped,
  ];
  return new TidemarkError(isUnread ? 'never_read' : 'reference_unknown', lines.join('\n'), {
    hint: isUnread ? unknowns.hint : hint,
  });
}

/**
 * @throws TidemarkError `never_read` for a record that is read by the id of another, which the mirror has, and was not read yet
 */
export function requireTurn(
  mirror: Mirror,
  kinds: readonly Kind[],
  id: string,
  filter: Parameters<Mirror['records']['find']>[2],
): void {
  for (const kind of kinds) {
    const { title, reading, discovery } = definitionOf(kind);
    if (reading !== 'each' || discovery.from === 'root') continue;
    if (!mirror.records.find(discovery.from, id, filter).some(({ isRemoved }) => !isRemoved)) continue;
    throw new UnknownParent('never_read', `the ${title.one} ${quotedName(id)} has not been read yet`, {
      hint: `runs read some at a time, \`tidemark status\` says how many ${kind} were read`,
    });
  }
}

/**
 * An id that nobody knows is a mistake and not an empty result: one that `read` (the state or the history asked for,
 * filtered) does not hold.
 * @throws TidemarkError `reference_unknown` that names each unknown one; `never_read` where it may be in a list that was never read
 */
export function requireKnown(
  options: FilterOptions,
  of: 'state' | 'history',
  read: Iterable<{ readonly id: string }>,
  place: LookedIn,
): void {
  if (options.id === undefined) return;
  const missing = new Set(options.id);
  for (const { id } of read) missing.delete(id);
  if (missing.size === 0) return;
  const { ids: _, kinds = KINDS, ...below } = recordFilter(place.sources, options);
  if (place.run === null) for (const id of missing) requireTurn(place.mirror, kinds, id, below);
  const others = filterText({ ...options, id: [] });
  const unknown = `${[...missing].join(', ')}${others === '' ? '' : ` (with ${others})`}`;
  const all = unknownsIn(place, options);
  // A state that is kept is kept entirely.
  const unknowns = of === 'state' ? { ...all, dropped: [] } : all;
  const isKindAsked =
    options.kind !== undefined && options.organization === undefined && options.project === undefined;
  const isOfKinds = isKindAsked && unknowns.unread.length === 0;
  const { code, message, hint } = unknownRecord(
    {
      others: isOfKinds
        ? notKnownLines(unknowns.kinds)
        : neverReadNotes(place.mirror, place.config, place.sources, options.kind),
      none:
        of === 'state'
          ? `no record has the id ${unknown} in this state of the mirror`
          : `no record of the mirror has${unknowns.dropped.length > 0 ? '' : ', or had,'} the id ${unknown}`,
      unread: `no record with the id ${unknown} was read, and whether there is one is not known`,
      hint:
        of === 'state'
          ? 'it may be another kind, or removed: `--at run:N` shows an earlier state, `tidemark runs` lists them'
          : 'it may be another kind, or in another place: `tidemark export --history` has every record of the mirror',
    },
    unknowns,
  );
  const isNeverRead = isOfKinds && isUnknownIn(place.sources, unknowns.kinds);
  throw new UnknownRecord(
    ...(isNeverRead ? (['never_read', message, UNREAD_HINT] as const) : ([code, message, hint] as const)),
    unknowns.kinds,
  );
}

/** True where each of the sources lacks a list of one of the kinds. */
export function isUnknownIn(sources: readonly string[], kinds: readonly NotKnown[]): boolean {
  return sources.every((own) => kinds.some(({ source }) => source === own));
}

/** The same of the mirror's history, removed records included, and earlier ids. @throws TidemarkError as `requireKnown` */
export function requireEverKnown(
  options: FilterOptions,
  filter: ReturnType<typeof recordFilter>,
  place: Omit<LookedIn, 'run'>,
): void {
  const { id: ids = [], kind: kinds = KINDS } = options;
  const { mirror, sources } = place;
  const idsOf = idsOfRecords(mirror);
  const isKnown = (source: string, kind: Kind, id: string): boolean =>
    mirror.records.find(kind, id, { ...filter, sources: [source] }).length > 0;
  const known = ids.filter((id) =>
    sources.some((source) =>
      kinds.some((kind) => idsOf(source, kind, id).some((each) => isKnown(source, kind, each))),
    ),
  );
  requireKnown(
    options,
    'history',
    known.map((id) => ({ id })),
    { ...place, run: null },
  );
}

/** All ids that a record of a source had, or got when a restore created it again, its own included. */
export function idsOfRecords(mirror: Mirror): (source: string, kind: Kind, id: string) => readonly string[] {
  const bySource = new Map<string, RecreatedIds>();
  return (source, kind, id) => {
    const recreated = bySource.get(source) ?? new RecreatedIds(mirror.restores.idMap(source));
    bySource.set(source, recreated);
    return recreated.all(kind, id);
  };
}
