/** Refuses a mirror whose records are not those that were stored. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { CollectionKey } from '../catalog/order.ts';
import type { TidemarkError } from '../core/errors.ts';
import { plural } from '../core/wording.ts';
import { damagedMirror } from '../mirror/database.ts';
import { auditLogLine } from '../mirror/hidden-runs.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { NamedRecord } from './state.ts';

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
  const damaged = [...records].filter((record) => !mirror.records.isIntact({ ...record, source }, run));
  if (damaged.length === 0) return;
  // A component is in two lists, and of a record without a name only the kind is said: several may be called the same.
  const called = [...Map.groupBy(damaged, calledWithoutId)];
  const shown = called.slice(0, NAMES_SHOWN);
  const more = called.slice(NAMES_SHOWN).reduce((sum, [, same]) => sum + same.length, 0);
  const names = shown.map(([name, same]) => `${name}${same.length > 1 ? ` (${same.length} records)` : ''}`);
  const which = `${names.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  const match = damaged.length === 1 ? 'does not match its hash' : 'does not match the stored hashes';
  throw damagedMirror(
    mirror.path,
    `the stored content of ${plural(damaged.length, 'record')} ${match}: ${which}`,
  );
}

/**
 * Counts the records of collections of a source: a record that another program deleted would look like no change.
 * @throws TidemarkError `mirror_corrupt` for collections of which others are stored than the mirror counts
 */
export function requireCounted(mirror: Mirror, source: string, collections: Iterable<CollectionKey>): void {
  const found = mirror.records.miscounts(source, collections);
  if (found.length === 0) return;
  const sum = (of: 'counted' | 'stored'): number => found.reduce((total, each) => total + each[of], 0);
  const kinds = [...new Set(found.map(({ kind }) => kind))].join(', ');
  throw miscounted(mirror, { counted: sum('counted'), read: sum('stored'), kinds });
}

/** As `requireCounted`, for all collections of which the filter leaves something; for the changes of runs. */
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
 * Compares what the runs changed with their seals: a revision that another program moved to another run would look like no
 * change, or like another one, and a body that it moved with its hash, of whatever run, like that of another record. So would two
 * records of which another program says that they are one. The runs are hashed once for a connection.
 * @param after 0 for all runs; for the runs after another one, where only what changed since is read
 * @param among the collections that are compared; all without
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
 * Refuses a mirror of which a published run is gone: with its changes taken back, the rest would pass for all.
 * @throws TidemarkError `mirror_corrupt` that names it, or the run after it
 */
export function requireUnbroken(mirror: Pick<Mirror, 'path' | 'runs'>): void {
  const [broken] = mirror.runs.brokenChain();
  if (broken !== undefined) throw damagedMirror(mirror.path, broken);
}

/**
 * What shows that the history of these collections (their numbers) is not what the runs from `since` to `upTo` sealed, a line each:
 * a version that another program deleted, or moved to another run, leaves no other trace in what is left. Bodies are not read.
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
  // Of any later run: without the newest rows an earlier run passes for the latest one.
  const gone = mirror.runs.unlikeSealed({ from: since }).filter(({ isGone }) => isGone);
  const hidden = mirror.runs.sources().flatMap((source) => mirror.runs.hidden(source));
  const unseen = [...gone.map(({ line }) => line), ...hidden, ...mirror.runs.brokenChain()];
  const lines = new Set([...(text === null ? [] : [text]), ...unseen]);
  return [...lines].map((line) => `altered: ${line}`);
}

/**
 * What shows that the rows of the runs that a history names, and those of restores, are not as they were recorded, a line each: when it
 * was, and who did it, may be false then. So it is with rows of the id map, and with the audit log. Of all restores, since one that is gone or altered is not named any more by what it
 * changed. Rows of runs that are gone are left out: `alteredHistory` has them.
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

/** What is wrong with the audit log, as a line of its own; none where nothing is, and where one of these lines says it. */
export function alteredLogLines(mirror: Pick<Mirror, 'alteredAuditLog'>, said: readonly string[]): string[] {
  const altered = mirror.alteredAuditLog();
  return altered === null || said.some((line) => line.includes(altered)) ? [] : [auditLogLine(altered)];
}

/** A row of a run that says nothing of the end of the audit log any more is named by what is said of the log. */
function withoutRepeats(lines: readonly string[]): string[] {
  return lines.filter((line) => !lines.some((other) => other !== line && other.includes(line)));
}

/** The same of one run that is shown, and of what it changed. */
export function alteredRun(mirror: Pick<Mirror, 'runs' | 'restores'>, run: number): string[] {
  const unlike = mirror.runs.unlikeSealed({ from: run, upTo: run }).map(({ line }) => line);
  const lines = [...unlike, ...alteredAuthors(mirror, [])];
  const text = mirror.runs.alteredChangesText({ after: run - 1, upTo: run, among: null });
  return text === null || lines.some((line) => line.includes(text)) ? lines : [`altered: ${text}`, ...lines];
}

/** The same of all runs, gone ones too: an altered time may have moved a run out of a period. */
export function alteredRuns(mirror: Pick<Mirror, 'runs'>): readonly string[] {
  return mirror.runs.alteredLines();
}

/** The same of all runs and restores, and of the id map. To be asked once for several sources: all restores are compared. */
export function alteredRows(mirror: Pick<Mirror, 'runs' | 'restores'>): readonly string[] {
  return withoutRepeats([...alteredRuns(mirror), ...alteredAuthors(mirror, [])]);
}

/** A run of which a report shows something, by which somebody else can check of which mirror the report is. */
export interface Sealed {
  readonly run: number;
  readonly root: string;
}

/**
 * That run with its root hash; null without one, and where a row of any run or restore was altered or is gone: what does not match
 * its seal proves nothing.
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

/** How a report that leaves the terminal names it. */
export function sealNotes(head: Sealed | null): string[] {
  if (head === null) return [];
  return [
    `root hash of run ${head.run}: ${head.root}; \`tidemark verify --root HASH\` says whether a mirror has it`,
  ];
}

/** The error for records that are fewer, or more, than the mirror counts. */
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

/** Where the changes of runs are shown whose rows another program deleted: a line each. */
export function deletedRunsNote(mirror: Mirror): string[] {
  const gone = mirror.runs.unlikeSealed({}).filter(({ isGone }) => isGone);
  const collections = gone.length === 0 ? [] : mirror.runs.collections();
  return gone.map(({ run }) => {
    // Only its row said whose it was, but collections that no later run read say it too.
    const own = collections.find(({ lastRun }) => lastRun === run)?.source;
    const sources = own === undefined ? mirror.runs.sources() : [own];
    return sources.every((source) => (mirror.runs.latest(source)?.run ?? 0) < run)
      ? `what run ${run} changed is not shown: its row is gone, and no run of its source follows`
      : `what run ${run} changed is shown with the next run of its source: its own row is gone`;
  });
}

/** An id may be a secret, also where it serves as the name. */
function calledWithoutId({ kind, id, name }: NamedRecord): string {
  const { one } = definitionOf(kind).title;
  return name === id ? one : `${one} ${JSON.stringify(name)}`;
}
