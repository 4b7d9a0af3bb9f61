/** Refuses a mirror that another program altered: records, revisions, runs. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import type { TidemarkError } from '../core/errors.ts';
import { firstWords, plural } from '../core/wording.ts';
import { damagedMirror } from '../mirror/database.ts';
import { auditLogLine } from '../mirror/hidden-runs.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { RunStore } from '../mirror/run-store.ts';

/** A record with its name for messages. */
export interface NamedRecord extends RecordKey {
  readonly name: string;
}

const NAMES_SHOWN = 5;

/**
 * Compares the bodies that records of a source had as of a run with their hashes.
 * @throws TidemarkError `mirror_corrupt` that names those that do not match
 */
export function requireIntact(
  mirror: Mirror,
  source: string,
  run: number,
  records: Iterable<NamedRecord>,
): void {
  const asked = [...records];
  const found = mirror.records.withDamagedBody(source, asked, run);
  const damaged = asked.filter((record) => found.has(record));
  if (damaged.length === 0) return;
  // Several may have the same name: a component is in two lists, and a record without a name is shown by its kind.
  const byName = [...Map.groupBy(damaged, nameWithoutId)];
  const shown = byName.slice(0, NAMES_SHOWN);
  const more = byName.slice(NAMES_SHOWN).reduce((sum, [, same]) => sum + same.length, 0);
  const names = shown.map(([name, same]) => `${name}${same.length > 1 ? ` (${same.length} records)` : ''}`);
  const which = firstWords(names, names.length, { of: names.length + more });
  const match = damaged.length === 1 ? 'does not match its hash' : 'does not match the stored hashes';
  throw damagedMirror(
    mirror.path,
    `the stored content of ${plural(damaged.length, 'record')} ${match}: ${which}`,
  );
}

/**
 * Counts the stored records of collections: if another program deleted one, a comparison would show no change.
 * @throws TidemarkError `mirror_corrupt` for collections with more or fewer records than the mirror counted
 */
export function requireCounted(mirror: Mirror, source: string, collections: Iterable<CollectionKey>): void {
  const found = mirror.records.miscounts(source, collections);
  if (found.length === 0) return;
  const sum = (of: 'counted' | 'stored'): number => found.reduce((total, each) => total + each[of], 0);
  const kinds = [...new Set(found.map(({ kind }) => kind))].join(', ');
  throw miscounted(mirror, { counted: sum('counted'), read: sum('stored'), kinds });
}

/** As `requireCounted`, for all collections of which the filter selects something; for the changes of runs. */
export function requireCountedWithin(
  mirror: Mirror,
  filter: RecordFilter & { readonly sources: readonly string[] },
): void {
  for (const source of filter.sources) {
    const { run } = mirror.runs.latest(source) ?? { run: 0 };
    requireCounted(mirror, source, mirror.records.countsAt(run, { ...filter, sources: [source] }));
  }
}

/**
 * Compares what the runs changed, and the id map, with their seals. Otherwise a comparison would not notice a revision that
 * another program moved to another run, a body that it moved, with its hash, to another record, or two records that it
 * declared to be one. The runs are hashed once per connection.
 * @param after checks the runs after this one (0: all), if only what changed since then is read
 * @param among the collections that are compared; null for all
 * @throws TidemarkError `mirror_corrupt` that names the run
 */
export function requireSealed(
  mirror: Pick<Mirror, 'path' | 'runs' | 'restores'>,
  after: number,
  among: { readonly source: string; readonly collections: Iterable<CollectionKey> } | null,
): void {
  const [mapping] = mirror.restores.alteredMappings(among?.source);
  if (mapping !== undefined) throw damagedMirror(mirror.path, mapping);
  const text = mirror.runs.alteredChangesText({ after, among: null });
  if (text === null) return;
  const keys = among === null ? null : new Set([...among.collections].map(collectionKey));
  const rows = among === null ? [] : mirror.runs.collections(among.source);
  const ids = new Set(rows.flatMap((row) => (keys?.has(collectionKey(row)) === true ? [row.id] : [])));
  const own = keys === null ? text : mirror.runs.alteredChangesText({ after, among: ids });
  if (own !== null) throw damagedMirror(mirror.path, own);
}

/**
 * Refuses a mirror that lacks a published run: if its changes were reverted too, nothing else would show that it is missing.
 * @throws TidemarkError `mirror_corrupt` that names it, or the run after it
 */
export function requireUnbroken(mirror: Pick<Mirror, 'path' | 'runs'>): void {
  const [broken] = mirror.runs.brokenChain();
  if (broken !== undefined) throw damagedMirror(mirror.path, broken);
}

/**
 * A line for each sign that the history of these collections (by number) does not match the seals of the runs from `since`
 * to `upTo`: a version that another program deleted, or moved to another run, leaves no other trace. Bodies are not read.
 */
export function alteredHistory(
  mirror: Pick<Mirror, 'runs'>,
  {
    since,
    upTo,
    collections,
  }: { readonly since: number; readonly upTo: number; readonly collections: ReadonlySet<number> },
): string[] {
  const text = mirror.runs.alteredChangesText({ after: since - 1, upTo, among: collections });
  // Also later runs: without the newest rows, an earlier run looks like the latest one.
  const gone = mirror.runs.unlikeSealed({ from: since }).filter(({ isGone }) => isGone);
  const hidden = mirror.runs.sources().flatMap((source) => mirror.runs.hidden(source));
  const unseen = [...gone.map(({ line }) => line), ...hidden, ...mirror.runs.brokenChain()];
  const lines = new Set([...(text === null ? [] : [text]), ...unseen]);
  return [...lines].map((line) => `altered: ${line}`);
}

/**
 * A line for each altered row of the runs that a history names, of restores, and of the id map: when something changed, and
 * who changed it, may then be false. Of all restores, because a change does not name a restore that is gone or altered. The
 * rows of runs that are gone are left out: `alteredHistory` has them.
 */
export function alteredAuthors(mirror: Pick<Mirror, 'runs' | 'restores'>, runs: Iterable<number>): string[] {
  const named = new Set(runs);
  const from = Math.min(...named);
  const unlike =
    named.size === 0
      ? []
      : mirror.runs.unlikeSealed({ from }).filter(({ run, isGone }) => !isGone && named.has(run));
  const lines = [...unlike.map(({ line }) => line), ...mirror.restores.altered()];
  return [...withoutRepeats(lines), ...new Set(mirror.restores.alteredMappings())];
}

/** The line for an altered audit log; none if it is unaltered, or if one of the lines in `said` reports it. */
export function alteredLogLines(mirror: Pick<Mirror, 'alteredAuditLog'>, said: readonly string[]): string[] {
  const altered = mirror.alteredAuditLog();
  return altered === null || said.some((line) => line.includes(altered)) ? [] : [auditLogLine(altered)];
}

/** Without lines that are part of another one: the line about the audit log may contain the line about a run. */
function withoutRepeats(lines: readonly string[]): string[] {
  return lines.filter((line) => !lines.some((other) => other !== line && other.includes(line)));
}

/** A line for each sign that a run, or what it changed, was altered. */
export function alteredRun(mirror: Pick<Mirror, 'runs' | 'restores'>, run: number): string[] {
  const unlike = mirror.runs.unlikeSealed({ from: run, upTo: run }).map(({ line }) => line);
  const lines = [...unlike, ...alteredAuthors(mirror, [])];
  const text = mirror.runs.alteredChangesText({ after: run - 1, upTo: run, among: null });
  return text === null || lines.some((line) => line.includes(text)) ? lines : [`altered: ${text}`, ...lines];
}

/** A line for each run that was altered or is gone: an altered time may have moved a run out of a period. */
export function alteredRuns(mirror: Pick<Mirror, 'runs'>): readonly string[] {
  return mirror.runs.alteredLines();
}

/** The same for all runs and restores, and the id map. To be called once for several sources: it compares all restores. */
export function alteredRows(mirror: Pick<Mirror, 'runs' | 'restores'>): readonly string[] {
  return withoutRepeats([...alteredRuns(mirror), ...alteredAuthors(mirror, [])]);
}

/** The run that a report shows, with its root hash: by it, others can check which mirror the report was made from. */
export interface Sealed {
  readonly run: number;
  readonly root: string;
}

/**
 * The run with its root hash; null without one, and if the row of any run or restore was altered or is gone: the root hash
 * then proves nothing.
 * @param altered what `alteredRows` found
 */
export function sealedRun(
  mirror: Pick<Mirror, 'runs'>,
  run: number | undefined,
  altered: readonly string[],
): Sealed | null {
  const root = run === undefined ? null : (mirror.runs.get(run)?.root ?? null);
  return run === undefined || root === null || altered.length > 0 ? null : { run, root };
}

/** The note with the root hash, for a report that is not shown on the terminal. */
export function sealNotes(head: Sealed | null): string[] {
  if (head === null) return [];
  return [
    `root hash of run ${head.run}: ${head.root}; \`tidemark verify --root HASH\` says whether a mirror has it`,
  ];
}

interface HiddenRuns {
  readonly path: string;
  readonly runs: Pick<RunStore, 'hidden' | 'brokenChain'>;
}

/**
 * Refuses the mirror if it is not certain which run is the newest of a source (null: of all sources): the row of the newest
 * run was altered, that of a later run is gone or altered, or that of an earlier run is gone.
 * @throws TidemarkError `mirror_corrupt` that names the run
 */
export function requireNewest(mirror: HiddenRuns, source: string | null): void {
  const hidden = hiddenNewest(mirror, source);
  if (hidden !== null) throw hidden;
}

/** The same error, not thrown; null if no run is hidden or gone. */
export function hiddenNewest(mirror: HiddenRuns, source: string | null): TidemarkError | null {
  const [line] = mirror.runs.hidden(source);
  if (line !== undefined)
    return damagedMirror(mirror.path, `${line}, so which run is the newest is not certain`);
  const [broken] = mirror.runs.brokenChain();
  return broken === undefined ? null : damagedMirror(mirror.path, broken);
}

/** The error for more or fewer records than the mirror counted. */
export function miscounted(
  mirror: Pick<Mirror, 'path'>,
  { counted, read, kinds }: { readonly counted: number; readonly read: number; readonly kinds?: string },
): TidemarkError {
  const which = kinds === undefined ? '' : ` of ${kinds}`;
  return damagedMirror(
    mirror.path,
    `${plural(counted, 'record')}${which} are counted, ${read} could be read`,
  );
}

/** A line for each run whose row another program deleted: where its changes are shown. */
export function deletedRunsNote(mirror: Mirror): string[] {
  const gone = mirror.runs.unlikeSealed({}).filter(({ isGone }) => isGone);
  const collections = gone.length === 0 ? [] : mirror.runs.collections();
  return gone.map(({ run }) => {
    // Its row had its source, but a collection that no later run read has it too.
    const own = collections.find(({ lastRun }) => lastRun === run)?.source;
    const sources = own === undefined ? mirror.runs.sources() : [own];
    return sources.every((source) => (mirror.runs.latest(source)?.run ?? 0) < run)
      ? `what run ${run} changed is not shown: its row is gone, and no run of its source follows`
      : `what run ${run} changed is shown with the next run of its source: its own row is gone`;
  });
}

/** Without the id, which may be a secret, also if it serves as the name. */
function nameWithoutId({ kind, id, name }: NamedRecord): string {
  const { one } = definitionOf(kind).title;
  return name === id ? one : `${one} ${JSON.stringify(name)}`;
}
