/** Ids that a command was given, against what the mirror knows: one that it lacks may be in a list that no run could read. */
import { definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { kindsAbove } from '../catalog/lineage.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { permissionIn } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { parentTexts } from '../report/notes.ts';
import { quotedName } from '../report/value-text.ts';
import { parentNames } from '../state/parent-names.ts';
import { deniedAdvice } from '../sync/sweep.ts';
import {
  type FilterOptions,
  filterText,
  recordFilter,
  type StaleCollection,
  staleCollections,
} from './export-notes.ts';
import { UnknownParent } from './named-parents.ts';
import { type NotKnown, notKnownIn, notKnownLines, UNREAD_HINT, UnknownRecord } from './not-known.ts';

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

/** What may hold a record that the mirror does not have. */
interface Doubts {
  /** Of lists that no run read completely, or of which the record has not had its turn; a line each. */
  readonly unread: readonly string[];
  /** Of lists that were read, and not since; a line each. */
  readonly stale: readonly string[];
  /** What to do about `unread`. */
  readonly hint: string;
}

/** Lists of these kinds, and those that lead to them, that may hold what was not found. */
export function doubtsAbout({ mirror, config, sources, run }: LookedIn, asked: FilterOptions): Doubts {
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
  const text = listTexts({ mirror, config, sources });
  const denied = unread.filter(({ outcome }) => outcome === 'denied');
  const advice =
    denied.length > 0
      ? `${deniedAdvice(denied.map(({ kind, error }) => ({ kind, permission: permissionIn(error ?? '') ?? null })))}, then run \`tidemark sync\``
      : 'run `tidemark sync`, which tries again';
  return {
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
    hint: `${advice}; \`tidemark doctor\` shows what the key can read`,
  };
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
function listTexts({ mirror, config, sources }: Omit<LookedIn, 'run'>): (list: StaleCollection) => string {
  return ({ source, kind, scope }) => {
    const definitions = definitionsFor(config, source);
    const parents = parentTexts(scope, { definitions, parentName: parentNames(mirror, source, definitions) });
    const where = [...parents, ...(sources.length > 1 ? [`source ${source}`] : [])].join(', ');
    return `the list of ${definitions(kind).title.many}${where === '' ? '' : ` of ${where}`}`;
  };
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
 * @param neverRead lines that say of which kinds the mirror has nothing
 * @throws TidemarkError `reference_unknown` that names each unknown one; `never_read` where it may be in a list that was never read
 */
export function requireKnown(
  options: FilterOptions,
  of: 'state' | 'history',
  read: Iterable<{ readonly id: string }>,
  { neverRead, ...place }: LookedIn & { readonly neverRead: readonly string[] },
): void {
  if (options.id === undefined) return;
  const missing = new Set(options.id);
  for (const { id } of read) missing.delete(id);
  if (missing.size === 0) return;
  const { ids: _, kinds = KINDS, ...below } = recordFilter(place.sources, options);
  if (place.run === null) for (const id of missing) requireTurn(place.mirror, kinds, id, below);
  const others = filterText({ ...options, id: [] });
  const unknown = `${[...missing].join(', ')}${others === '' ? '' : ` (with ${others})`}`;
  const notKnown = notKnownIn(place.mirror, place.config, place.sources, options);
  const error = unknownRecord(unknown, of, options, {
    ...doubtsAbout(place, options),
    notKnown,
    neverRead,
    sources: place.sources,
  });
  error.notKnown = notKnown;
  throw error;
}

function unknownRecord(
  unknown: string,
  of: 'state' | 'history',
  options: FilterOptions,
  {
    unread,
    stale,
    hint,
    notKnown,
    neverRead,
    sources,
  }: Doubts & {
    readonly notKnown: readonly NotKnown[];
    readonly neverRead: readonly string[];
    readonly sources: readonly string[];
  },
): UnknownRecord {
  if (unread.length > 0) {
    const message = `no record with the id ${unknown} was read, and whether there is one is not known`;
    return new UnknownRecord('never_read', [message, ...unread, ...stale, ...neverRead].join('\n'), { hint });
  }
  const message =
    of === 'state'
      ? `no record has the id ${unknown} in this state of the mirror`
      : `no record of the mirror has, or had, the id ${unknown}`;
  const isAsked =
    options.kind !== undefined && options.organization === undefined && options.project === undefined;
  if (isAsked && sources.every((own) => notKnown.some(({ source }) => source === own)))
    return new UnknownRecord('never_read', [message, ...notKnownLines(notKnown)].join('\n'), {
      hint: UNREAD_HINT,
    });
  const lines = isAsked ? notKnownLines(notKnown) : neverRead;
  return new UnknownRecord('reference_unknown', [message, ...stale, ...lines].join('\n'), {
    hint:
      of === 'state'
        ? 'it may be another kind, or removed: `--at run:N` shows an earlier state, `tidemark runs` lists them'
        : 'it may be another kind, or in another place: `tidemark export --history` has every record of the mirror',
  });
}

/** The same of the mirror's history, removed records included, and earlier ids. @throws TidemarkError as `requireKnown` */
export function requireEverKnown(
  options: FilterOptions,
  filter: ReturnType<typeof recordFilter>,
  place: Omit<Parameters<typeof requireKnown>[3], 'run'>,
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
