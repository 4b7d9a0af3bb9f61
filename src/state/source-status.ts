/**
 * How fresh and complete the mirror is for a source, and what a person can do about it: the one computation behind
 * `tidemark status`, `GET /api/v1/status`, health and the dashboard. A few queries; no record is read or counted.
 */
import { definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import { type MirrorOwnership, ownerOf } from '../config/mirrors.ts';
import type { ErrorCode } from '../core/errors.ts';
import { defined } from '../core/defined.ts';
import { NO_ORGANIZATIONS, permissionIn, REFUSED_HERE, withSource } from '../core/hints.ts';
import { plural } from '../core/wording.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { KindStatus, RunRow, SourceMove, SweepRow, UnreadCollection } from '../mirror/run-rows.ts';
import type { SchemaChange } from '../mirror/schema-changes.ts';
import { withWriter } from '../mirror/lock.ts';
import { heldUntilText, movedLine } from '../sync/removals.ts';
import { deniedAdvice, parentMissing } from '../sync/sweep.ts';
import {
  type NamedRemovals,
  heldAdvice,
  heldAdviceLines,
  namedRemovals,
  namesText,
  sourceLookup,
  withBelow,
} from './held-names.ts';
import {
  EXCLUDED,
  kindsNeverRead,
  type UnaskedInRun,
  type UnaskedKind,
  unaskedInRun,
  unaskedKinds,
} from './unasked.ts';
import {
  UNENDED_RUNS,
  ifDead,
  lastCompleteRun,
  lastEndedRunOfAllKinds,
  type UnreadRestore,
  unreadRestores,
} from './runs.ts';

/**
 * `never_synced`: no run yet. `unpublished`: there are runs, but none was published. `whole`: the latest run was
 * complete, so were the latest run of all kinds and the latest sweep of every collection, and no removal is held.
 * `partial`: anything else: the mirror has data, but part of it is old, incomplete or in doubt.
 */
type SourceState = 'never_synced' | 'unpublished' | 'whole' | 'partial';

export interface SourceStatus {
  readonly source: string;
  /** False for a source that the configuration no longer names. */
  readonly isConfigured: boolean;
  readonly state: SourceState;
  readonly records: number;
  /** In catalog order, without what is no longer read. */
  readonly kinds: readonly KindStatus[];
  /** What the configuration now leaves out and the mirror has as it was last read; `records` counts it too. */
  readonly unasked: readonly UnaskedKind[];
  /** At most `UNREAD_READ`. A kind that no run asked for counts as one collection. */
  readonly unread: readonly UnreadCollection[];
  readonly unreadCount: number;
  /** Configured kinds that no run read, also if each run was limited to other kinds. */
  readonly neverRead: readonly Kind[];
  readonly oldestWholeAt: string | null;
  readonly lastRun: RunRow | null;
  readonly lastEnded: RunRow | null;
  /** The last run of all kinds that ended. */
  readonly lastWholeEnded: RunRow | null;
  readonly lastPublished: RunRow | null;
  /** The last complete run of all kinds. */
  readonly lastComplete: RunRow | null;
  /** When the oldest known run began, ISO 8601. */
  readonly firstTriedAt: string | null;
  readonly held: readonly NamedRemovals[];
  /** The newest restore that changed the service since `lastPublished`, or may have; null if none did. */
  readonly unreadRestore: UnreadRestore | null;
  /** Kinds of which each run reads some records, and not yet all have been read. */
  readonly sampledKinds: readonly SampledKind[];
}

interface SampledKind {
  readonly kind: Kind;
  readonly title: string;
  readonly read: number;
  readonly of: number;
}

/** More than a large organization has lists, including one for each role. */
const UNREAD_READ = 5_000;

function readSourceStatus(
  mirror: Mirror,
  source: string,
  isConfigured: boolean,
  { now, config }: Pick<StatusOptions, 'now' | 'config'>,
): SourceStatus {
  const newest = mirror.runs.list({ source, limit: UNENDED_RUNS });
  const latest = { source, run: mirror.runs.latest(source)?.run ?? 0 };
  const leftOut = unaskedInRun(mirror, source, latest.run);
  const unasked = unaskedKinds(mirror, leftOut, latest);
  const read = unasked.length === 0 ? mirror.runs.kindStatuses(source) : readKinds(mirror, leftOut, latest);
  const lastWholeEnded = lastEndedRunOfAllKinds(mirror, source);
  const neverRead = [...kindsNeverRead(mirror, config, source)].flatMap(([kind, why]) =>
    why === EXCLUDED ? [] : kind,
  );
  const never = lastWholeEnded === null ? [] : neverRead;
  // How many lists such a kind has is unknown.
  const unknown = never.map((kind) => ({ kind, collections: 1, records: 0, whole: 0, oldestWholeAt: null }));
  const kinds = [...read, ...unknown].sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
  const unreadCount = kinds.reduce((sum, { collections, whole }) => sum + collections - whole, 0);
  const oldest = kinds.map(({ oldestWholeAt }) => oldestWholeAt);
  const known = {
    source,
    isConfigured,
    records: [...kinds, ...unasked].reduce((sum, { records }) => sum + records, 0),
    kinds,
    unasked,
    unread:
      unreadCount === 0
        ? []
        : [
            ...never.map((kind) => ({ kind, scope: {}, ...UNKNOWN })),
            ...mirror.runs
              .unreadCollections(source, UNREAD_READ + leftOut.collections.length)
              .filter(({ kind, scope }) => leftOut.of(kind, scope) === undefined),
          ].slice(0, UNREAD_READ),
    unreadCount,
    neverRead,
    oldestWholeAt: oldest.includes(null) ? null : (oldest.toSorted()[0] ?? null),
    lastRun: newest[0] ?? null,
    lastEnded: newest.find(({ outcome }) => outcome !== 'running') ?? null,
    lastWholeEnded,
    lastPublished: mirror.runs.latest(source) ?? null,
    lastComplete: lastCompleteRun(mirror, source),
    firstTriedAt: mirror.runs.firstStartedAt(source),
    held: namedRemovals(mirror, source, sourceLookup(config)),
    unreadRestore: unreadRestores(mirror, source)[0] ?? null,
    sampledKinds: sampledOf(kinds),
  };
  return { ...known, state: stateOf(known, now) };
}

const UNKNOWN = { outcome: null, errorCode: null, error: null, lastCompleteAt: null } as const;

/** As `kindStatuses`, without the collections that are no longer read. */
function readKinds(
  mirror: Mirror,
  leftOut: UnaskedInRun,
  latest: { readonly source: string; readonly run: number },
): KindStatus[] {
  const read = mirror.runs
    .collections(latest.source)
    .filter(({ kind, scope, retiredRun }) => retiredRun === null && leftOut.of(kind, scope) === undefined);
  const outside = leftOut.recordsIn(mirror, latest);
  const unnamed = leftOut.unnamed(mirror, latest);
  return [...Map.groupBy(read, ({ kind }) => kind)].map(([kind, own]): KindStatus => {
    const times = own.map(({ lastCompleteAt }) => lastCompleteAt);
    const apart =
      outside.filter((each) => each.kind === kind).length + (unnamed?.kind === kind ? unnamed.records : 0);
    return {
      kind,
      collections: own.length,
      records: own.reduce((sum, { records }) => sum + records, 0) - apart,
      whole: own.filter(({ lastOutcome }) => lastOutcome === 'complete').length,
      oldestWholeAt: times.includes(null) ? null : (times.toSorted()[0] ?? null),
    };
  });
}

/** Kinds that are read for each record of another kind (`reading: 'each'`), and have fewer records than that. */
function sampledOf(kinds: readonly KindStatus[]): SampledKind[] {
  return kinds.flatMap(({ kind, records }) => {
    const { discovery, reading, title } = definitionOf(kind);
    const of = kinds.find((each) => reading === 'each' && each.kind === discovery.from)?.records ?? 0;
    return records < of ? [{ kind, title: title.many, read: records, of }] : [];
  });
}

/**
 * Kinds that a run read for only some records of another kind: fewer than the mirror had then, because of
 * `recordings.sharingPerRun` or the rate limits of the service.
 */
export function sampledByRun(
  mirror: Pick<Mirror, 'records'>,
  {
    source,
    run,
    sweeps,
  }: { readonly source: string; readonly run: number; readonly sweeps: readonly SweepRow[] },
): ReadonlySet<Kind> {
  const isSampled = (kind: Kind): boolean => {
    const { discovery, reading } = definitionOf(kind);
    if (reading !== 'each') return false;
    // Each record is a request, counted as a page.
    const read = sweeps.reduce((sum, sweep) => sum + (sweep.kind === kind ? sweep.pages : 0), 0);
    const known = mirror.records.countsAt(run, { sources: [source], kinds: [discovery.from as Kind] });
    return read < known.reduce((sum, { records }) => sum + records, 0);
  };
  return new Set([...new Set(sweeps.map(({ kind }) => kind))].filter(isSampled));
}

/** The outcome of one collection of a run, in one word for people. */
export function collectionOutcome(
  { kind, outcome, records }: SweepRow,
  sampled: ReadonlySet<Kind>,
): SweepRow['outcome'] | 'sampled' {
  return outcome === 'complete' && records > 0 && sampled.has(kind) ? 'sampled' : outcome;
}

/** Why a run counts fewer records than the mirror has; null if it does not. */
export function listedTwiceText(kinds: readonly KindStatus[]): string | null {
  const held = kinds.filter(({ records }) => records > 0).map(({ kind }) => definitionOf(kind));
  const isTwice = held.some(
    ({ isUnionOfFamily, family }) =>
      isUnionOfFamily === true &&
      held.some((other) => other.family === family && other.isUnionOfFamily !== true),
  );
  return isTwice ? 'a pipeline component is in two lists and counts twice here, but once in a run' : null;
}

interface StatusOptions {
  readonly now: number;
  readonly config: Config;
  /** By default all sources of the mirror that are not configured. */
  readonly others?: readonly string[] | undefined;
}

/**
 * The configured sources first, then the others. Call it within `atOnce`, so that all queries see one snapshot.
 */
export function readSourceStatuses(
  mirror: Mirror,
  configured: readonly string[],
  options: StatusOptions,
): SourceStatus[] {
  const { others = mirror.runs.sources().filter((name) => !configured.includes(name)) } = options;
  return [
    ...configured.map((name) => readSourceStatus(mirror, name, true, options)),
    ...others.map((name) => readSourceStatus(mirror, name, false, options)),
  ];
}

/** No run takes longer: one that has not ended by then is taken for dead, which the next writer of the mirror records. */
const LONGEST_RUN_MS = 24 * 60 * 60 * 1000;

/** True for a run that has not ended within `LONGEST_RUN_MS`. */
export function isStuck(run: RunRow, now: number): boolean {
  return run.outcome === 'running' && now - Date.parse(run.startedAt) > LONGEST_RUN_MS;
}

function stateOf(
  { lastRun, lastEnded, lastWholeEnded, lastPublished, unreadCount, held }: Omit<SourceStatus, 'state'>,
  now: number,
): SourceState {
  if (lastRun === null) return 'never_synced';
  if (lastPublished === null) return 'unpublished';
  const isDone =
    lastEnded?.outcome === 'complete' && lastWholeEnded?.outcome === 'complete' && !isStuck(lastRun, now);
  return isDone && held.length === 0 && unreadCount === 0 ? 'whole' : 'partial';
}

// What a person can do about the state of a source: one sentence each, the most urgent first.

/** True if commands about a source have to name it: there are several mirrors, or several sources in one. */
export function hasOtherSources(config: MirrorOwnership, statuses: readonly SourceStatus[]): boolean {
  return ownerOf(config) !== null || statuses.length > 1;
}

/**
 * Empty if no action is needed.
 * @param hasOthers true if commands have to name the source
 * @param isAtWork true if its last run is known to be running
 */
export function nextSteps(status: SourceStatus, hasOthers: boolean, isAtWork: boolean): string[] {
  const steps = stepsFor(status, hasOthers, isAtWork).map(({ text }) => text);
  return hasOthers ? steps.map((step) => withSource(step, status.source)) : steps;
}

/** The same for text output: held removals, and each command about them, have their own lines. */
export function nextStepLines(status: SourceStatus, hasOthers: boolean, isAtWork = false): string[] {
  const lines = stepsFor(status, hasOthers, isAtWork).flatMap(({ text, lines = [text] }) => lines);
  return hasOthers ? lines.map((line) => withSource(line, status.source)) : lines;
}

interface Step {
  readonly text: string;
  /** The text in lines, if it is long. */
  readonly lines?: readonly string[];
}

/** The removals that are held, and what to do about them. */
function heldSteps({ held, source }: SourceStatus, hasOthers: boolean, sync: string): Step[] {
  const sum = held.reduce((all, { records }) => all + records, 0);
  if (sum === 0) return [];
  const ceiling = held.reduce((all, { records, below }) => all + records + below, 0);
  const [them, were] = sum === 1 ? (['it', 'it was'] as const) : (['them', 'they were'] as const);
  const names = held.map(namesText).filter((text) => text !== '');
  const what = `the service no longer shows ${withBelow(plural(sum, 'record'), sum, ceiling - sum)}, whose removal is ${heldUntilText(held)}${names.length === 0 ? '' : ` (${names.join('; ')})`}`;
  const accept = `if ${were} really removed, remove ${them} here with \`${sync} --accept-removals ${ceiling}\``;
  const named = hasOthers ? source : null;
  return [
    {
      text: `${what}: ${heldAdvice(held, named, them)}; ${accept}`,
      lines: [what, ...heldAdviceLines(held, named, them), accept],
    },
  ];
}

function stepsFor(status: SourceStatus, hasOthers: boolean, isAtWork: boolean): Step[] {
  const sync = `tidemark sync${hasOthers ? ` --source ${status.source}` : ''}`;
  const held = status.state === 'partial' && status.isConfigured ? heldSteps(status, hasOthers, sync) : [];
  return [...held, ...otherSteps(status, sync, isAtWork, held.length > 0).map((text) => ({ text }))];
}

/** The steps that are not about held removals. */
function otherSteps(status: SourceStatus, sync: string, isAtWork: boolean, isHeld: boolean): string[] {
  if (!status.isConfigured)
    return [
      `${status.source} is no longer configured: its records stay as they were; configure a source of that name to continue`,
    ];
  if (status.state === 'never_synced') return [`run \`${sync}\``];
  const code = status.lastEnded?.errorCode ?? null;
  if (status.state === 'unpublished' && status.lastRun?.outcome === 'running')
    return [
      `wait until run ${status.lastRun.run}, which is under way, has ended; if its process died, run \`${sync}\` again`,
    ];
  if (status.state === 'unpublished')
    return [`${code === null ? '' : (REMEDY[code] ?? '')}run \`${sync}\` again`];
  if (status.state === 'whole') return [];

  const steps: string[] = [];
  // If the list of parents is not complete either, a 404 may mean that the parent is gone, not that the kind is not offered.
  const below = status.unread.filter(
    ({ kind, errorCode }) =>
      errorCode === 'not_found' &&
      status.unread.some((parents) => parents.kind === definitionOf(kind).discovery.from),
  );
  const kindsBelow = [...new Set(below.map(({ kind }) => kind))];
  for (const [advice, kinds] of Map.groupBy(kindsBelow, (kind) => parentMissing(definitionOf(kind))))
    steps.push(`${kinds.length > 3 ? `${kinds.length} kinds` : kinds.join(', ')}: ${advice}`);
  const codes = new Set(
    status.unread
      .filter((each) => each.outcome !== 'held' && !below.includes(each))
      .map(({ errorCode }) => errorCode),
  );
  if (status.lastEnded?.outcome === 'failed') codes.add(code);
  for (const each of codes) {
    if (each === null) continue;
    const isRoot =
      each === 'not_found' &&
      status.unread.some(
        ({ kind, errorCode }) => errorCode === each && definitionOf(kind).discovery.from === 'root',
      );
    const remedy = isRoot ? `${NO_ORGANIZATIONS}, then ` : (refusalRemedy(status, each) ?? REMEDY[each]);
    if (remedy !== undefined) steps.push(`${remedy}run \`${sync}\` again`);
  }
  if (steps.length === 0 && !isHeld && !isAtWork) steps.push(`run \`${sync}\` again`);
  if (status.lastEnded !== null && status.lastEnded.outcome !== 'complete')
    steps.push(`\`tidemark runs show ${status.lastEnded.run}\` has every collection of that run`);
  return steps;
}

/** What to do about a refused key, as sync and doctor say it; null for another error. */
function refusalRemedy({ unread, lastEnded }: SourceStatus, code: ErrorCode): string | null {
  if (code === 'unauthorized')
    return lastEnded?.outcome === 'failed' ? null : `${REFUSED_HERE}; mend that, then `;
  if (code !== 'forbidden') return null;
  const denied = unread.filter(({ errorCode }) => errorCode === code);
  if (denied.length === 0) return 'give the key the missing permissions, then ';
  const named = denied.map(({ kind, error }) => ({ kind, permission: permissionIn(error ?? '') ?? null }));
  return `${deniedAdvice(named)}, then `;
}

/** What to do before the next run, by error. An error that the next run may not meet again has none. */
const REMEDY: Partial<Record<ErrorCode, string>> = {
  throttled: 'wait as the error says, or raise the limit that it names, then ',
  unauthorized: 'check the key of this source (`tidemark doctor` tries it), then ',
  not_found: 'leave out what the service does not offer (kinds.exclude), then ',
  unreachable: 'check the base URL and that the service is up, then ',
  disk_full: 'free some space, then ',
  read_only: "check the owner and mode of the mirror's directory, then ",
};

/**
 * The status with its last run as failed, if the process of that run died. A run that has ended since the status was read
 * stays as it was read. Not to be called within `atOnce`.
 */
export function withDeadRun(mirror: Mirror, status: SourceStatus): SourceStatus {
  return withLiveness(mirror, status).status;
}

/** `isAtWork` as in `nextSteps`. */
export function withLiveness(
  mirror: Mirror,
  status: SourceStatus,
): { readonly status: SourceStatus; readonly isAtWork: boolean } {
  if (status.lastRun === null) return { status, isAtWork: false };
  const { rows, writer } = withWriter(mirror.path, [status.lastRun], ({ run }) => mirror.runs.get(run));
  const isUnended = rows[0]?.outcome === 'running';
  const isDead = isUnended && writer === null;
  return {
    status: isDead ? { ...status, lastRun: ifDead(status.lastRun) } : status,
    isAtWork: isUnended && !isDead && writer !== undefined,
  };
}

// Changes of the form of records are shown for some time, also after later runs without any.

const RECENT_MS = 30 * 24 * 60 * 60 * 1000;

/** A change of form, and when the run that found it ended. */
export interface DatedSchemaChange extends SchemaChange {
  /** ISO 8601. */
  readonly at?: string;
}

/** What the published runs of a source found in the last 30 days, newest run first. `now` in milliseconds. */
export function recentSchemaChanges(
  mirror: Pick<Mirror, 'runs'>,
  source: string,
  now: number,
): DatedSchemaChange[] {
  const times = new Map<number, string | undefined>();
  const recent: DatedSchemaChange[] = [];
  for (const change of mirror.runs.schemaChanges({ source })) {
    if (!times.has(change.run)) {
      const run = mirror.runs.get(change.run);
      times.set(change.run, run?.finishedAt ?? run?.startedAt);
    }
    const at = times.get(change.run);
    // Newest first: the rest are older.
    if (at !== undefined && now - Date.parse(at) > RECENT_MS) break;
    recent.push({ ...change, ...defined({ at }) });
  }
  return recent;
}

// A changed address is shown for a week, or until the baseline is a run at the new address.

const MOVE_MS = 7 * 24 * 60 * 60 * 1000;

export function recentMove(
  mirror: Pick<Mirror, 'runs' | 'snapshots'>,
  source: string,
  now: number,
): SourceMove | null {
  const move = mirror.runs.moveOf(source);
  if (move === undefined || move.at === null || now - Date.parse(move.at) > MOVE_MS) return null;
  return (mirror.snapshots.baseline()?.run ?? 0) >= move.run ? null : move;
}

/** The line about a source whose address changed recently; null if it did not. */
export function recentMoveText(...of: Parameters<typeof recentMove>): string | null {
  const move = recentMove(...of);
  return move === null ? null : movedLine(of[1], move);
}
