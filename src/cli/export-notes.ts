/** What a reader of an export should know: which collections are not as fresh as the others, or incomplete. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import { duration, elapsed, formatInteger, plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { CollectionRow, RunRow } from '../mirror/run-rows.ts';
import type { SweepOutcome } from '../mirror/sweep-result.ts';
import { hidingLines, staleFromLines } from '../report/notes.ts';
import type { ExportExtent, LastComplete } from '../state/export.ts';
import { lastComplete } from '../state/export-extent.ts';
import { leadingFilter } from '../state/filter.ts';
import { openMirrorState } from '../state/mirror-diff.ts';
import { type ResolvedState, resolvedStateOf } from '../state/resolved-state.ts';
import { LATEST } from '../state/reference.ts';
import { staleReading } from '../state/state.ts';
import {
  EXCLUDED,
  kindsNeverRead,
  unaskedInRun,
  type UnaskedKind,
  unaskedKinds,
  unaskedLines,
} from '../state/unasked.ts';
import { type FilterOptions, filterText, recordFilter } from './filter-options.ts';
import { groupAlike, groupText, oldestOf } from './plan-reason.ts';

/** A collection that was not read completely the last time. */
export interface StaleCollection {
  readonly source: string;
  readonly kind: Kind;
  readonly scope: CollectionRow['scope'];
  readonly outcome: SweepOutcome | null;
  /** The latest complete reading up to the state; null if there was none. */
  readonly lastComplete: LastComplete | null;
  readonly error: string | null;
  /** True if the export has none of its records, but collections that are found through it. */
  readonly leads: boolean;
  /** Why the run did not read it, if it was limited to other kinds; then `outcome` is null. */
  readonly limited?: string | undefined;
  /** Which part the run read, as most runs do; then `outcome` is null too. */
  readonly part?: string | undefined;
}

/** Collections that are listed; `status` has the others. */
const NAMED = 8;

/**
 * The collections within the filter, and those that lead to them, that are not complete in the state of `run` (null for the latest), or
 * are older. A run that was limited to other kinds has a list as the last run before it that read it.
 */
export function staleCollections(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  run: number | null,
): StaleCollection[] {
  const isAsked = askedCollections(mirror, sources, options, run);
  const isLeading = leadingCollections(mirror, sources, options, run);
  const isDependedOn = (place: Place): boolean => isAsked(place) || isLeading(place);
  if (run !== null) {
    const source = mirror.runs.get(run)?.source ?? '';
    const stale = mirror.runs
      .sweepsAsOf(source, run)
      .filter(({ outcome, isRetired }) => !isRetired && outcome !== null && outcome !== 'complete')
      .filter((seen) => isDependedOn({ ...seen, source }));
    if (stale.length === 0) return [];
    const complete = lastComplete(mirror, source, run);
    const unasked = unaskedInRun(mirror, source, run);
    return stale
      .filter(({ kind, scope }) => unasked.of(kind, scope) === undefined)
      .map(({ kind, scope, outcome, error }) => ({
        ...{ source, kind, scope, outcome, error },
        lastComplete: complete({ kind, scope }),
        leads: !isAsked({ source, kind, scope }),
      }));
  }
  const unasked = new Map(
    sources.map((source) => [source, unaskedInRun(mirror, source, mirror.runs.latest(source)?.run ?? 0)]),
  );
  return mirror.runs
    .collections()
    .filter((row) => row.retiredRun === null && row.lastOutcome !== 'complete')
    .filter(isDependedOn)
    .filter(({ source, kind, scope }) => unasked.get(source)?.of(kind, scope) === undefined)
    .map(({ source, kind, scope, lastOutcome, lastError, lastCompleteRun, lastCompleteAt }) => ({
      ...{ source, kind, scope, outcome: lastOutcome, error: lastError },
      leads: !isAsked({ source, kind, scope }),
      lastComplete: lastCompleteRun === null ? null : { run: lastCompleteRun, at: lastCompleteAt },
    }));
}

/** The collections that the run was not to read, or of which it read a part. @param only the source if the extent names none */
export function limitedCollections({ stale = [] }: ExportExtent, only: string): StaleCollection[] {
  return stale
    .filter(({ is_limited: isLimited, is_part: isPart }) => isLimited === true || isPart === true)
    .flatMap(({ source = only, kind, scopes, last_complete: lastComplete = null, is_part: isPart, reason }) =>
      scopes.map((scope) => ({
        ...{ source, kind, scope, lastComplete, outcome: null, error: null, leads: false },
        ...(isPart === true ? { part: reason } : { limited: reason }),
      })),
    );
}

/** `limitedCollections` as lines for stderr, in the words of a comparison. */
export function limitedText(
  limited: readonly StaleCollection[],
  { kind: kinds }: FilterOptions,
  definitions: (source: string) => Parameters<typeof hidingLines>[1],
  isSourceNamed: boolean,
): string[] {
  // `newestOnlyText` and `sampledNotes` list those of which a part was read.
  const others = limited.filter(({ part }) => part === undefined);
  return [...Map.groupBy(others, ({ source }) => source)].flatMap(([source, own]) => {
    const stale = own.flatMap((each) =>
      staleReading(each, 'to', { how: 'read', limited: each.limited ?? '' }, kinds),
    );
    return [hidingLines, staleFromLines].flatMap((lines) =>
      lines({ stale }, definitions(source)).map((line) => `${isSourceNamed ? `${source}: ` : ''}${line}`),
    );
  });
}

/** The lists of which the run read only the newest records, as most runs do; in the words of a comparison. */
export function newestOnlyText(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  resolvedState: ResolvedState | null,
): string[] {
  if (options.id !== undefined) return [];
  const isAsked = askedCollections(mirror, sources, options, resolvedState?.run ?? null);
  return sources.flatMap((source) => {
    if (mirror.runs.latest(source) === undefined) return [];
    const state = openMirrorState(
      mirror,
      source,
      resolvedState ?? resolvedStateOf(mirror, LATEST, { source, isEvidence: true }),
    );
    const stale = state.collections().flatMap(({ kind, scope }) => {
      if (definitionOf(kind).reading !== 'feed' || !isAsked({ source, kind, scope })) return [];
      const coverage = state.coverage(kind, scope);
      return 'part' in coverage ? staleReading({ kind, scope }, 'to', coverage, options.kind) : [];
    });
    return staleFromLines({ stale }, definitionOf).map((line) =>
      sources.length > 1 ? `${source}: ${line}` : line,
    );
  });
}

/**
 * What the export has of collections that the configuration now excludes: a line for each reason.
 * @param run null for the latest state
 */
export function unaskedNotes(
  mirror: Mirror,
  sources: readonly string[],
  run: number | null,
  filter: RecordFilter,
): string[] {
  return sources.flatMap((source) => {
    const at = run ?? mirror.runs.latest(source)?.run;
    if (at === undefined) return [];
    const from = sources.length > 1 ? `${source}: ` : '';
    return unaskedLines(unaskedIn(mirror, source, at, filter)).map((line) => `${from}${line}`);
  });
}

/** The kinds that no run has read: a line for each source and reason. */
export function neverReadNotes(
  mirror: Mirror,
  config: Parameters<typeof kindsNeverRead>[1],
  sources: readonly string[],
  kinds: readonly Kind[] = KINDS,
): string[] {
  return sources.flatMap((source) => {
    const of = sources.length > 1 ? ` of ${source}` : '';
    const never = [...kindsNeverRead(mirror, config, source)].filter(([kind]) => kinds.includes(kind));
    return [...Map.groupBy(never, ([, reason]) => reason === EXCLUDED)].map(([isExcluded, same]) => {
      const isOne = same.length === 1;
      const why = isExcluded
        ? `the configuration excludes ${isOne ? 'the kind' : 'them'}`
        : `the mirror has not read ${isOne ? 'it' : 'them'} yet`;
      return `nothing of ${same.map(([kind]) => kind).join(', ')}${of}: ${why}`;
    });
  });
}

/** The kinds of which the state has records of an earlier run only, as the configuration excludes them. */
export function unaskedIn(mirror: Mirror, source: string, run: number, filter: RecordFilter): UnaskedKind[] {
  return unaskedKinds(mirror, unaskedInRun(mirror, source, run), { source, run, filter }).filter(
    ({ records }) => records > 0,
  );
}

/** For kinds whose records are read one by one: how many have been read so far, within the filter. */
export function sampledNotes(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  { kinds, run }: { readonly kinds: readonly Kind[]; readonly run: number | null },
): string[] {
  if (options.id !== undefined) return [];
  const at = run ?? latestRun(mirror, sources);
  const countOf = (kind: Kind): number =>
    mirror.records
      .countsAt(at, recordFilter(sources, { ...options, kind: [kind] }))
      .reduce((sum, { records }) => sum + records, 0);
  return kinds.flatMap((kind) => {
    const { reading, discovery } = definitionOf(kind);
    if (reading !== 'each' || discovery.from === 'root') return [];
    const [read, of] = [countOf(kind), countOf(discovery.from)];
    if (read >= of) return [];
    const when = run === null ? 'read so far; later runs continue' : `read by run ${run}`;
    return [`${kind}: ${formatInteger(read)} of ${formatInteger(of)} ${when}`];
  });
}

type Place = Pick<StaleCollection, 'source' | 'kind' | 'scope'>;

/** True for collections with records that match the filter. */
export function askedCollections(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  run: number | null,
): (place: Place) => boolean {
  // A record that is requested by id is in one of all these collections.
  const { ids: _, ...filter } = recordFilter(sources, options);
  const keyOf = ({ source, kind, scope }: Place): string => JSON.stringify([source, kind, scopeKey(scope)]);
  const counts = mirror.records.countsAt(run ?? latestRun(mirror, sources), filter);
  const keys = new Set(counts.map((place) => keyOf(place)));
  return (place) => keys.has(keyOf(place));
}

/** The newest run of any of the sources; 0 if there is none. */
function latestRun(mirror: Mirror, sources: readonly string[]): number {
  return Math.max(0, ...sources.map((source) => mirror.runs.latest(source)?.run ?? 0));
}

/** True for collections that lead to those of `askedCollections`. */
export function leadingCollections(
  mirror: Mirror,
  sources: readonly string[],
  options: FilterOptions,
  run: number | null,
): (place: Place) => boolean {
  const { sources: _, ...filter } = recordFilter(sources, options);
  const kinds = leadingFilter(filter)?.kinds;
  return kinds === undefined
    ? () => false
    : askedCollections(mirror, sources, { ...options, kind: kinds }, run);
}

/** The stale collections as lines for stderr; none if there are none. */
export function staleText(
  stale: readonly StaleCollection[],
  run: number | null,
  now: number,
  isSourceNamed: boolean,
): string[] {
  const held = stale.filter(({ outcome }) => outcome === 'held');
  const unproven = stale.filter(({ outcome }) => outcome !== 'held');
  return [
    ...(held.length === 0 ? [] : heldText(held, isSourceNamed)),
    ...unprovenText(unproven, run, now, isSourceNamed),
  ];
}

/** Lists that were read completely: only records that are missing in them are in doubt. */
function heldText(held: readonly StaleCollection[], isSourceNamed: boolean): string[] {
  return [
    `removals of ${plural(held.length, 'collection')} are held: records that the service did not list are exported as well`,
    ...groupAlike(held, ({ source, kind }) => JSON.stringify([source, kind]))
      .slice(0, NAMED)
      .map((group) => `  ${isSourceNamed ? `${group[0].source}: ` : ''}${groupText(group)}`),
  ];
}

function unprovenText(...[stale, run, now, isSourceNamed]: Parameters<typeof staleText>): string[] {
  if (stale.length === 0) return [];
  const when = run === null ? 'when last asked for' : `by run ${run}`;
  const groups = groupAlike(stale, ({ source, kind, outcome }) => JSON.stringify([source, kind, outcome]));
  const them = stale.length === 1 ? 'it' : 'them';
  const below = stale.some(({ leads }) => leads) ? `, or found through ${them},` : '';
  return [
    `${plural(stale.length, 'collection')} could not be read completely ${when}: what is exported of ${them}${below} may be old or incomplete`,
    ...groups.slice(0, NAMED).map((group) => {
      const source = isSourceNamed ? `${group[0].source}: ` : '';
      return `  ${source}${groupText(group)}: ${group[0].outcome ?? 'never read'}${lastCompleteReadText(group, run, now)}`;
    }),
    ...(groups.length > NAMED
      ? [`  and more: see \`tidemark ${run === null ? 'status' : `runs show ${run}`}\``]
      : []),
  ];
}

/** Why the export is empty, if no run could read the lists of its records or one that leads to them; otherwise undefined. */
export function unreadText(
  options: FilterOptions,
  stale: readonly StaleCollection[],
  run: number | null,
): string | undefined {
  const unread = stale.filter(({ lastComplete: complete }) => complete === null);
  const first = unread.find(({ leads }) => !leads) ?? unread[0];
  if (first === undefined) return undefined;
  const { kind, outcome, error, leads } = first;
  const why = [outcome ?? 'not asked for', ...(error === null ? [] : [error])].join(': ');
  if (!leads) return `nothing that matches ${filterText(options)} could be read (${kind}: ${why})`;
  const upTo = run === null ? '' : ` up to run ${run}`;
  return `nothing of ${(options.kind ?? []).join(', ')}: no run${upTo} could read all of the ${kind} that lead there (${why})`;
}

function lastCompleteReadText(group: readonly StaleCollection[], run: number | null, now: number): string {
  const then = run === null ? '' : 'until then ';
  const oldest = oldestOf(group.map(({ lastComplete: complete }) => complete?.at ?? null));
  if (oldest !== null) return `; ${then}last read completely ${age(oldest, now)}`;
  return group.every(({ lastComplete: complete }) => complete === null)
    ? `; ${then}never read completely`
    : `; ${then}some never read completely`;
}

/**
 * The sources without a published run.
 * @throws TidemarkError `mirror_missing` if all are: there is no state to export
 */
export function unpublishedSources(mirror: Mirror, sources: readonly string[]): string[] {
  const unpublished = sources.filter((source) => mirror.runs.latest(source) === undefined);
  if (unpublished.length < sources.length) return unpublished;
  const [source] = sources;
  const isOne = sources.length === 1 && source !== undefined;
  const [last] = mirror.runs.list({ limit: 1, ...(isOne ? { source } : {}) });
  const hasOthers = isOne && mirror.runs.sources().some((other) => other !== source);
  const of = hasOthers ? ` of source ${source} yet` : '';
  const why = last === undefined ? 'there was no run yet' : `run ${last.run} ${runFailure(last)}`;
  throw new TidemarkError('mirror_missing', `${mirror.path} holds no published run${of}: ${why}`, {
    hint: `run \`tidemark sync${hasOthers ? ` --source ${source}` : ''}\`; what it reads can be exported then`,
  });
}

/** How long ago an ISO 8601 time was: `just now`, `3 min ago`. */
export function age(at: string | null, nowMs: number): string {
  if (at === null) return 'never';
  const ms = nowMs - Date.parse(at);
  // The clock was set back.
  if (ms < -10_000) return `${duration(-ms)} ahead of this clock`;
  return ms < 10_000 ? 'just now' : `${elapsed(ms)} ago`;
}

/** How a run that published nothing ended, to follow `run 3 `. */
export function runFailure({ outcome, error, finishedAt }: RunRow): string {
  if (finishedAt === null) return 'has not ended: it still runs, or its process died';
  // A message of the service may end with a full stop, but here the sentence continues.
  return error === null ? outcome : `${outcome}: ${error.replace(/\.$/, '')}`;
}
