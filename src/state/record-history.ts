/**
 * A record's revisions up to a run, with the full sweeps of its collection in between, for log and blame. A record that a
 * restore recreated continues under its new id: if one run saw the new id and missed the old one, it was never absent. The
 * same applies to a record whose earlier id returned.
 */
import type { Kind } from '../catalog/kinds.ts';
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import { volatileFields } from '../catalog/volatile-names.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { HistoryRevision, IdChange, LogEntry, SeenAt } from '../diff/history.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordRow, Revision } from '../mirror/records.ts';
import { READ } from '../mirror/sweeps-as-of.ts';
import { cached } from '../core/cached.ts';
import { defined } from '../core/defined.ts';
import { alteredAuthors, alteredHistory } from './intact.ts';
import { unaskedInRun } from './unasked.ts';
import { RecreatedBetween } from './recreated.ts';
import { RestoreWrites } from './written-by-restore.ts';

/** With the id that the record had then. */
interface IdRevision extends HistoryRevision {
  readonly id: string;
}

interface RecordHistory {
  /** Newest first; none if the record was created later. */
  readonly revisions: readonly IdRevision[];
  /** The last published run before `run` that listed the record's entire collection; null if there was none. */
  readonly sightingBefore: (run: number) => SeenAt | null;
  /** When a revision was seen: by its run, or by a dropped run whose changes are part of that run. */
  readonly seenBy: (revision: SeenAt) => SeenAt;
  /** When the record was first seen; null if it was created later. */
  readonly firstSeen: SeenAt | null;
  /** When the record was last seen: by a full sweep of its collection, or by the run of its newest revision. */
  readonly lastSeen: SeenAt | null;
  /** Null also if it is removed or did not exist yet. */
  readonly notReadSince: () => NotReadSince | null;
  /** Its changes of id, newest first, including those after the requested id. */
  readonly idChanges: readonly IdChange[];
  /** The entries of its log, each with the restore that made the change. */
  readonly withRestores: (log: readonly LogEntry[]) => LogEntry[];
  /**
   * A line for each sign that another program altered the changes of the runs since the first revision, the runs of its
   * revisions, or restores.
   */
  readonly altered: () => string[];
}

/**
 * The history of a record as of run `until`.
 * @throws TidemarkError `mirror_corrupt` if one of its bodies does not match its hash
 */
export function recordHistory(
  mirror: Mirror,
  row: RecordRow,
  until: number,
  definitions: (kind: Kind) => ResourceDefinition,
): RecordHistory {
  const found = mirror.records.revisions(row, until);
  const unknown = notKept(mirror, row.source, definitions(row.kind), until);
  const revisions = continuous(mirror, row, found, definitions).map((revision) => ({
    ...revision,
    notKept: unknown(revision.run),
  }));
  const [newest] = found;
  const written = found.find(({ body }) => body !== null);
  const removed = newest?.body === null ? newest : null;
  const changes = idChanges(mirror, row, found, definitions);
  const seen = (revision: SeenAt): SeenAt =>
    seenBy(mirror, found.find(({ run }) => run === revision.run) ?? row, revision);
  const first = revisions.at(-1);
  return {
    revisions,
    seenBy: seen,
    firstSeen: first === undefined ? null : firstSeen(mirror, first),
    // The collection of the revision before that run: the record may have been in another one.
    sightingBefore: (run) =>
      mirror.runs.lastFullSweep(
        (found.find((each) => each.run < run) ?? found.at(-1) ?? row).collection,
        run,
      ) ?? null,
    lastSeen:
      written === undefined
        ? null
        : lastSeen(mirror, { collection: written.collection }, { written, removed }, until),
    notReadSince: () => (written === undefined || removed !== null ? null : notReadSince(mirror, row, until)),
    idChanges: changes,
    withRestores: (log) => withRestores(mirror, row, found, log),
    altered: () => [
      ...alteredHistory(mirror, {
        since: found.at(-1)?.run ?? 0,
        upTo: until,
        collections: new Set([row, ...found].map(({ collection }) => collection)),
      }),
      ...alteredAuthors(
        mirror,
        found.map(({ run }) => run),
      ),
    ],
  };
}

/**
 * Fields that were volatile when a revision was made and no longer are: the body of the revision has their last values
 * before the next revision, not those that its run saw.
 * @returns for the run of a revision, by name: the first later run since which the values are kept; null if there is none yet
 */
export function notKept(
  mirror: Mirror,
  source: string,
  definition: ResourceDefinition,
  until: number,
): (revision: number) => ReadonlyMap<string, SeenAt | null> {
  const rules = mirror.records.sealingRules(source, definition.kind).filter(({ run }) => run <= until);
  const now = volatileFields(definition);
  const newest = mirror.runs.latest(source);
  // If the newest run is included: it has all values.
  const isNewest = newest !== undefined && newest.run <= until;
  const notKeptUnder = (index: number): ReadonlyMap<string, SeenAt | null> => {
    const later = rules.slice(index + 1);
    return new Map(
      [...(rules[index]?.volatileFields ?? [])].flatMap((name): [string, SeenAt | null][] => {
        if (now.has(name)) return [];
        const rule = later.find(({ volatileFields: own }) => !own.has(name));
        const kept = rule === undefined ? (isNewest ? newest : undefined) : mirror.runs.get(rule.run);
        const at = kept?.finishedAt ?? null;
        return [[name, kept === undefined || at === null ? null : { run: kept.run, at }]];
      }),
    );
  };
  // Many revisions have the same rule.
  const byRule = new Map<number, ReadonlyMap<string, SeenAt | null>>();
  return (revision) => {
    const index = rules.findLastIndex(({ run }) => run <= revision);
    return cached(byRule, index, () => notKeptUnder(index));
  };
}

/** The `idChanges` of the history of a record as of run `until`, without reading its bodies. */
export function idChangesAt(
  mirror: Mirror,
  row: RecordRow,
  until: number,
  definitions: (kind: Kind) => ResourceDefinition,
): IdChange[] {
  return idChanges(mirror, row, mirror.records.revisionSteps(row, until), definitions);
}

function idChanges(
  mirror: Mirror,
  { source, kind }: RecordRow,
  found: readonly Omit<Revision, 'body'>[],
  definitions: (kind: Kind) => ResourceDefinition,
): IdChange[] {
  // Only used for restores: no two runs are compared.
  const between = new RecreatedBetween(mirror, source, { from: 0, to: 0, isNone: true }, definitions);
  return found.flatMap(({ id, run, at }, index): IdChange[] => {
    const was = found[index + 1]?.id;
    if (was === undefined || was === id) return [];
    const again = between.recreationOf(kind, id, was);
    return [{ was, id, run, at, ...defined({ created_again: again && { ...again, id } }) }];
  });
}

function withRestores(
  mirror: Mirror,
  { source, kind, scope, id }: RecordRow,
  found: readonly Revision[],
  log: readonly LogEntry[],
): LogEntry[] {
  const writes = new RestoreWrites(mirror, source);
  return log.map((entry) => {
    if (entry.created_again !== undefined) return entry;
    // The id that the record had then.
    const own = found.find(({ run }) => run === entry.run);
    const record = { kind, scope, id: own?.id ?? id, change: entry.change, fields: entry.fields };
    const by = writes.of(record, { after: entry.last_seen_before?.at ?? null, until: entry.at });
    return by === undefined ? entry : { ...entry, changed_by: by };
  });
}

/** When a record was last seen as of run `until`: by the run of its revision, or by a later full sweep of its collection. */
export function lastSeen(
  mirror: Mirror,
  { collection }: Pick<RecordRow, 'collection'>,
  { written, removed }: { readonly written: SeenAt; readonly removed: SeenAt | null },
  until: number,
): SeenAt {
  // Only a sweep of the entire list shows every record: a head read may have ended before this one.
  const look = mirror.runs.lastFullSweep(collection, removed === null ? until + 1 : removed.run);
  if (look !== undefined && look.run >= written.run) return look;
  const own = seenBy(mirror, { collection }, written);
  return look === undefined || look.run < own.run ? own : look;
}

/** When a record's first revision was seen: its run may have the changes of a dropped run. */
export function firstSeen({ retention }: Pick<Mirror, 'retention'>, { run, at }: SeenAt): SeenAt {
  return { run, at, ...(retention.forgottenBefore(run) === undefined ? {} : { may_be_earlier: true }) };
}

/**
 * When a revision was seen. The revision of a dropped run is part of the next kept run, which need not have read the list:
 * then the last dropped run that did is the latest that can have seen it.
 */
function seenBy(mirror: Mirror, { collection }: Pick<RecordRow, 'collection'>, revision: SeenAt): SeenAt {
  const own = firstSeen(mirror, revision);
  if (own.may_be_earlier !== true) return own;
  return { ...own, ...mirror.runs.droppedReading(collection, revision.run) };
}

/** Why, and since which run, a record's collection was not read. */
export interface NotReadSince {
  /** The run that read it last; null if that is not known. */
  readonly run: number | null;
  readonly at: string | null;
  readonly reason: string;
  /** True if later runs read only the newest records of the collection, and perhaps not this one. */
  readonly is_part?: true;
}

/**
 * Why a record's collection has not been read since an earlier run, as of run `until`. Null if that run read it or, if that run
 * was not limited to other kinds, if the last sweep of the collection read it, even if the list was not proved complete: it may have
 * shown the record.
 */
export function notReadSince(mirror: Mirror, row: RecordRow, until: number): NotReadSince | null {
  const { source, kind, scope, id } = row;
  const collections = mirror.runs.sweepsAsOf(source, until);
  const since = (run: number | null, reason: string): NotReadSince => ({
    run,
    at: run === null ? null : mirror.runs.endOf(run),
    reason,
  });
  const unasked = unaskedInRun(mirror, source, until, collections);
  const left = unasked.of(kind, scope);
  if (left !== undefined) return since(left.readRun, left.reason);
  const reason = unasked.record({ kind, id });
  if (reason !== null) {
    const [found] = unasked.recordsIn(mirror, { source, run: until, filter: { kinds: [kind], ids: [id] } });
    return since(found?.run ?? null, reason);
  }
  const key = collectionKey({ kind, scope });
  const seen = collections.find((each) => collectionKey(each) === key);
  if (seen === undefined || seen.outcome === null || seen.isRetired) return null;
  const { outcome, lastRun, readRun, error } = seen;
  if (READ.includes(outcome)) {
    const kinds = mirror.runs.get(until)?.kinds ?? null;
    if (kinds === null || kinds.includes(kind) || lastRun === null || lastRun >= until)
      return belowNewest(mirror, row, until, lastRun);
    return since(readRun, `run ${until} was limited to ${kinds.join(', ')}`);
  }
  const why = `${outcome} in run ${lastRun}${error === null ? '' : `: ${error}`}`;
  return since(readRun, why);
}

/** Given if run `last` read only the newest records of the list, and an earlier run was the last to see the record. */
function belowNewest(
  mirror: Mirror,
  row: RecordRow,
  until: number,
  last: number | null,
): NotReadSince | null {
  if (last === null || definitionOf(row.kind).reading !== 'feed') return null;
  const key = collectionKey(row);
  if (mirror.runs.sweeps(last).find((each) => collectionKey(each) === key)?.mode !== 'head') return null;
  const known = mirror.records.asOf(row, until);
  if (known === undefined) return null;
  const { run, at } = lastSeen(mirror, row, known, until);
  return run >= last ? null : { run, at, reason: `run ${last} read only the newest`, is_part: true };
}

/** A run that held removals of a record's list, and the later one that removed the record; null if none did next. */
export interface PerhapsMissing {
  readonly heldRun: number;
  readonly removedRun: number | null;
}

/**
 * Given if a record that counts as present in run `until` may have been missing: removals of its list were held then, and
 * the list was read again since. Which records were held is stored only until that (`heldSince`).
 */
export function perhapsMissing(mirror: Mirror, row: RecordRow, until: number): PerhapsMissing | null {
  const key = collectionKey(row);
  const asOf = (run: number) =>
    mirror.runs.sweepsAsOf(row.source, run).find((each) => collectionKey(each) === key);
  const seen = asOf(until);
  if (seen?.outcome !== 'held' || seen.lastRun === null) return null;
  const heldRun = seen.lastRun;
  const newest = asOf(mirror.runs.latest(row.source)?.run ?? until);
  if ((newest?.readRun ?? 0) <= heldRun) return null;
  const removed = mirror.records.asOf(row, Number.MAX_SAFE_INTEGER)?.removed ?? null;
  const complete = removed === null ? undefined : mirror.runs.lastFullSweep(row.collection, removed.run);
  const isNext = removed !== null && removed.run > until && (complete?.run ?? 0) <= heldRun;
  return { heldRun, removedRun: isNext ? removed.run : null };
}

function continuous(
  mirror: Mirror,
  { source, kind }: RecordRow,
  found: readonly Revision[],
  definitions: (kind: Kind) => ResourceDefinition,
): IdRevision[] {
  return found.flatMap((revision, index): IdRevision[] => {
    const { run, at, change, id, body } = revision;
    const newer = found[index - 1];
    // The same run missed one id and saw the other.
    if (newer !== undefined && newer.id !== id && body === null && newer.run === run) return [];
    const older = found[index + 1];
    const own = { run, at, change, id, body };
    if (older === undefined || older.id === id) return [own];
    const written = found.slice(index + 1).find((each) => each.body !== null);
    const runs = { from: written?.run ?? run, to: run, isNone: written === undefined };
    const between = new RecreatedBetween(mirror, source, runs, definitions);
    const again = between.recreationOf(kind, id, older.id);
    const renewed = { ...own, ...defined({ created_again: again && { ...again, id } }) };
    if (written === undefined || written.body === null) return [renewed];
    return [{ ...renewed, before: between.withNewIds({ kind, body: written.body }) }];
  });
}
