/**
 * What to say of a record that the mirror does not have. It may still exist, in a list that no run read, or have existed in runs
 * that retention dropped. Lookups, exports and changes all decide it here.
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
import { neverReadNotes, type StaleCollection, staleCollections } from './export-notes.ts';
import { type FilterOptions, filterText, recordFilter } from './filter-options.ts';
import { UnknownParent } from './named-parents.ts';

export const UNREAD_HINT =
  '`tidemark doctor` shows what the key can read, `tidemark status` what the mirror lacks';

/** At most this many lists are named; `status` has the rest. */
const NAMED = 4;

/** Where an id or a name is looked up. */
interface LookedIn {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly sources: readonly string[];
  /** The run whose state is meant; null for the latest state, and for the history. */
  readonly run: number | null;
}

/** A kind of which a list of a source was not read. */
export interface NotKnown {
  readonly source: string;
  readonly kind: Kind;
  readonly reason: string;
  /** True if only lists of some scopes were not read: `Unknowns.unread` has those that matter. */
  readonly isScoped: boolean;
}

/** No record that was read has the id, but one of these kinds may. */
export class UnknownRecord extends UnknownParent {
  readonly notKnown: readonly NotKnown[];

  constructor(code: ErrorCode, message: string, hint: string | undefined, notKnown: readonly NotKnown[]) {
    super(code, message, { hint });
    this.notKnown = notKnown;
  }
}

/** Where a record may be that the mirror does not have; each text is a line. */
interface Unknowns {
  /** For the sources that have none of the records: the kinds of which a list was not read. */
  readonly kinds: readonly NotKnown[];
  /** Lists that no run read completely. */
  readonly unread: readonly string[];
  /** Lists that were read once, but not by the newest run. */
  readonly stale: readonly string[];
  /** Sources of which retention dropped runs. */
  readonly dropped: readonly string[];
  /** What to do about `unread`. */
  readonly hint: string;
}

/** What the mirror does not know about the records asked for: their lists, and those of their parents, that were not read. */
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

/** Nothing is known of a record that only dropped runs had. */
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

/** For each source that has none of the records: the kinds of which a list was not read. */
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

/** The kinds of the records with these ids, including removed ones. */
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
 * Which lists matter for a question. With an id, those of the kinds of its records: also in sources that have no such record,
 * unless the question is limited to an organization or project.
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
 * @param none the message if every list that would show the record was read, with `hint`; `unread` the message if not
 * @param others lines about kinds without naming a list
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

/** @throws TidemarkError `never_read` for a record that is read by the id of its parent, if only the parent was read so far */
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
 * Refuses ids that `read` (the state or the history asked for, filtered) does not have: an unknown id is a mistake, not an
 * empty result.
 * @throws TidemarkError `reference_unknown` that names the unknown ids; `never_read` if they may be in a list that was never read
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
  // Retention drops entire runs: a state that is kept is complete.
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

/** True if in each of the sources a list of these kinds was not read. */
export function isUnknownIn(sources: readonly string[], kinds: readonly NotKnown[]): boolean {
  return sources.every((own) => kinds.some(({ source }) => source === own));
}

/** Like `requireKnown`, for the mirror's history: removed records and earlier ids count too. @throws TidemarkError as `requireKnown` */
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

/** A function that returns all ids of a record: its own, earlier ones, and those it got when a restore created it again. */
export function idsOfRecords(mirror: Mirror): (source: string, kind: Kind, id: string) => readonly string[] {
  const bySource = new Map<string, RecreatedIds>();
  return (source, kind, id) => {
    const recreated = bySource.get(source) ?? new RecreatedIds(mirror.restores.idMap(source));
    bySource.set(source, recreated);
    return recreated.all(kind, id);
  };
}
