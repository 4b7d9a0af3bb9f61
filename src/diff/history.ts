/** The history of a record, from its revisions: what each one changed, and since when each field has its value. Pure. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { defined } from '../core/defined.ts';
import { isJsonObject, parseLossless, type JsonValue } from '../core/json.ts';
import { type ComparisonMode, type FieldChange, compareBodies, comparedMembers } from './compare.ts';
import { type Recreated, type WrittenBy, overlapsPointer, wholeRecord } from './change.ts';
import { escapeSegment, pointerTo } from '../core/json-pointer.ts';

/** A run that read the record or its collection, and when it ended (ISO 8601). */
export interface SeenAt {
  readonly run: number;
  readonly at: string;
  /** True if it may have been one of the runs before this one that retention dropped. */
  readonly may_be_earlier?: true;
}

/** One stored revision of a record. */
export interface HistoryRevision extends SeenAt {
  /** `rewritten`: equal by comparison, but the text differs. */
  readonly change: 'added' | 'changed' | 'removed' | 'rewritten';
  /** JSON as received; null for a removal. */
  readonly body: string | null;
  /** Given if the record has another id from this revision on. */
  readonly created_again?: RenewedId;
  /**
   * Fields that were volatile during this revision: the body has their last value only. With the run since which every value is
   * kept; null: still none.
   */
  readonly notKept?: ReadonlyMap<string, SeenAt | null>;
  /** Given with `created_again`: the last body under the previous id, with references to recreated records by their new ids. */
  readonly before?: string;
}

/** A record's id from a revision on, and the previous one. */
export interface RenewedId extends Recreated {
  readonly id: string;
}

/** A run from which on a record has another id. */
export interface IdChange extends SeenAt {
  readonly was: string;
  readonly id: string;
  /** Given if a restore caused it; otherwise the record has an earlier id again. */
  readonly created_again?: RenewedId;
}

/** A new id by a restore, as `show` and `blame` list it. */
interface Renewal extends RenewedId {
  /** Given if the record has an earlier id again: the first run that saw that one. */
  readonly until?: SeenAt;
}

/** Another id of a record, as seen from one of its ids. */
export interface OtherId {
  readonly id: string;
  /** True if the record continued under this id. */
  readonly isLater: boolean;
  /** The restore that caused the change to a later id, or from an earlier one. */
  readonly created?: RenewedId;
  /** The run in which a later id returned, or in which an earlier one was replaced by an id that returned. */
  readonly returned?: SeenAt;
}

interface HistoryOptions {
  readonly mode: ComparisonMode;
  /** The last run before this one that read the entire collection, when the replaced revision was still current; null without one. */
  readonly sightingBefore: (run: number) => SeenAt | null;
  /** When a revision was seen; by its own run if left out. */
  readonly seenBy?: (revision: SeenAt) => SeenAt;
}

/** One revision as `log` shows it. The change happened after `last_seen_before`, at `at` at the latest. */
export interface LogEntry extends SeenAt {
  readonly change: 'added' | 'changed' | 'removed';
  /** When the previous state was last seen; null if the collection had not been read before. */
  readonly last_seen_before: SeenAt | null;
  /** Added: every compared field with `to`. Removed: with `from`. Changed: what differs. */
  readonly fields: readonly FieldChange[];
  /** Given for a record that came back after a removal: how it differs from the removed one. */
  readonly returned?: readonly FieldChange[];
  /** Given if the record continues under a new id. If it was never seen absent, `change` is `changed` and `fields` may be empty. */
  readonly created_again?: RenewedId;
  /** Given if a restore made the change. */
  readonly changed_by?: WrittenBy;
  /** Fields that were volatile at the time and no longer are: their values in this run are unknown, so `fields` leaves them out. */
  readonly volatile_unknown?: readonly string[];
}

/** One field's value, and since when it has it. */
export interface BlameField {
  /** RFC 6901 pointer. */
  readonly path: string;
  readonly value: JsonValue;
  /** The first run with this value. It lasted since then, apart from absences that a restore ended. */
  readonly since: SeenAt;
  /** When the field last had another value, or the record was absent; null if the collection had not been read before. */
  readonly last_seen_before: SeenAt | null;
  /** True if the field was volatile before `since`: its earlier values were not kept. */
  readonly is_unknown_before?: true;
  /** Given if a restore wrote it. */
  readonly changed_by?: Omit<WrittenBy, 'paths'>;
}

interface Parsed extends HistoryRevision {
  readonly value: JsonValue | undefined;
}

/** The new ids that restores caused, newest first. */
export function renewalsOf(changes: readonly IdChange[]): Renewal[] {
  return changes.flatMap(({ created_again: again }, index): Renewal[] => {
    if (again === undefined) return [];
    const next = changes[index - 1];
    if (next === undefined || next.created_again !== undefined) return [again];
    return [{ ...again, until: { run: next.run, at: next.at } }];
  });
}

/** The other ids of a record, newest first, both before and after the latest time that it had this one. */
export function otherIds(changes: readonly IdChange[], own: string): OtherId[] {
  const back = changes.findIndex(({ id }) => id === own);
  const left = changes.findIndex(({ was }) => was === own);
  // The number of changes since the record last had this id.
  const later = back !== -1 && (left === -1 || back <= left) ? back : left + 1;
  return changes.flatMap(({ was, id, run, at, created_again: created }, index): OtherId[] => {
    const isLater = index < later;
    if (!isLater && was === own) return [];
    const how = created ?? (isLater ? undefined : changes[index + 1]?.created_again);
    return [
      {
        id: isLater ? id : was,
        isLater,
        ...defined({ created: how, returned: created === undefined ? { run, at } : undefined }),
      },
    ];
  });
}

/**
 * What each revision changed, newest first, as they are given. Revisions without a change that the mode compares are left out.
 * @throws TidemarkError `mirror_corrupt` when a body is not JSON
 */
export function recordLog(
  definition: ResourceDefinition,
  revisions: readonly HistoryRevision[],
  options: HistoryOptions,
): LogEntry[] {
  const parsed = revisions.map(parse);
  return parsed.flatMap((revision, index): LogEntry[] => {
    const older = parsed[index + 1];
    const { run, at, value, created_again: again } = revision;
    const head = {
      run,
      at,
      last_seen_before: lastSeenBefore(revision, older, options),
      ...defined({ created_again: again }),
    };
    if (value === undefined) {
      const fields =
        older?.value === undefined ? [] : wholeRecord(definition, older.value, options.mode, 'from');
      return [{ ...head, change: 'removed', fields }];
    }
    if (older?.value === undefined) {
      const before =
        valueBefore(revision) ?? parsed.slice(index + 1).find((each) => each.value !== undefined)?.value;
      const { fields, ...unknown } = knownThen(revision, wholeRecord(definition, value, options.mode, 'to'));
      const returned =
        before === undefined ? undefined : compareBodies(definition, before, value, options.mode);
      return [
        {
          ...head,
          change: 'added',
          fields,
          ...(returned === undefined ? {} : { returned: knownThen(revision, returned).fields }),
          ...unknown,
        },
      ];
    }
    const found = compareBodies(definition, valueBefore(revision) ?? older.value, value, options.mode);
    const known = knownThen(revision, found, older);
    return known.fields.length === 0 && again === undefined ? [] : [{ ...head, change: 'changed', ...known }];
  });
}

/**
 * Leaves out the fields that were volatile at the time, since the body has later values of them. If `older` has a value that was
 * kept, the field stays: a difference from it is a change, whatever values came in between.
 */
function knownThen(
  { notKept = new Map() }: HistoryRevision,
  fields: readonly FieldChange[],
  older?: HistoryRevision,
): Pick<LogEntry, 'fields' | 'volatile_unknown'> {
  const unknown = [...notKept.keys()].filter(
    (name) =>
      (older === undefined || older.notKept?.has(name) === true) &&
      fields.some(({ path }) => overlapsPointer(path, [pointerTo([name])])),
  );
  if (unknown.length === 0) return { fields };
  const pointers = unknown.map((name) => pointerTo([name]));
  return {
    fields: fields.filter(({ path }) => !overlapsPointer(path, pointers)),
    volatile_unknown: unknown.sort(),
  };
}

/**
 * Every field of the newest body (the last one, if the record is removed) with the first run that saw its value. Absences that
 * restores ended do not count. Top-level fields, or with `isDeep` the leaves below them; an array is one value.
 * @throws TidemarkError `mirror_corrupt` when a body is not JSON
 */
export function recordBlame(
  definition: ResourceDefinition,
  revisions: readonly HistoryRevision[],
  options: HistoryOptions & { readonly isDeep: boolean },
): BlameField[] {
  const parsed = revisions.map(parse);
  const start = parsed.findIndex((revision) => revision.value !== undefined);
  const newest = parsed[start];
  if (newest?.value === undefined) return [];
  const places = placesOf(definition, newest.value, options);
  // Index of the oldest revision that still holds each value; settled once an older one differs.
  const oldest = new Map(places.map(([path]) => [path, start]));
  const open = new Set(oldest.keys());
  let newer = newest;
  for (let index = start + 1; index < parsed.length && open.size > 0; index += 1) {
    const older = parsed[index];
    if (older?.value === undefined) {
      if (newer.created_again === undefined) break;
      continue;
    }
    const before = valueBefore(newer) ?? older.value;
    const changes = compareBodies(definition, before, newer.value ?? null, options.mode);
    newer = older;
    for (const path of open) {
      if (changes.some((change) => overlapsPointer(change.path, [path]))) open.delete(path);
      else oldest.set(path, index);
    }
  }
  return places.flatMap(([path, held]) => {
    const index = oldest.get(path) ?? start;
    const since = parsed[index];
    if (since === undefined) return [];
    const unknown = [...(since.notKept ?? [])].find(([name]) => overlapsPointer(path, [pointerTo([name])]));
    if (unknown !== undefined) {
      const [, kept] = unknown;
      return kept === null
        ? []
        : [{ path, value: held, since: kept, last_seen_before: null, is_unknown_before: true }];
    }
    return [
      {
        path,
        value: held,
        since: {
          ...{ run: since.run, at: since.at },
          // A change of a dropped run is attributed to the next kept one.
          ...(options.seenBy?.(since).may_be_earlier === true ? { may_be_earlier: true } : {}),
        },
        last_seen_before: lastSeenBefore(since, parsed[index + 1], options),
      },
    ];
  });
}

/** The fields, each with the restore that wrote it, by the entries of the record's log. */
export function withWriters(fields: readonly BlameField[], log: readonly LogEntry[]): BlameField[] {
  return fields.map((field) => {
    const by = log.find(({ run }) => run === field.since.run)?.changed_by;
    if (by?.paths === undefined || !overlapsPointer(field.path, by.paths)) return field;
    const { paths: _, ...writer } = by;
    return { ...field, changed_by: writer };
  });
}

function placesOf(
  definition: ResourceDefinition,
  value: JsonValue,
  { mode, isDeep }: { readonly mode: ComparisonMode; readonly isDeep: boolean },
): [string, JsonValue][] {
  if (!isJsonObject(value)) return [['', value]];
  const members = comparedMembers(definition, value, mode);
  return members.flatMap(([name, member]): [string, JsonValue][] => {
    const path = pointerTo([name]);
    return isDeep ? leaves(path, member) : [[path, member]];
  });
}

/** With an explicit stack, so that deep nesting cannot exhaust the call stack. */
function leaves(path: string, value: JsonValue): [string, JsonValue][] {
  const found: [string, JsonValue][] = [];
  const stack: [string, JsonValue][] = [[path, value]];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [at, held] = next;
    const members = isJsonObject(held) ? Object.entries(held) : [];
    if (members.length === 0) found.push(next);
    for (const [name, member] of members.reverse()) stack.push([`${at}/${escapeSegment(name)}`, member]);
  }
  return found;
}

/** When a replaced revision was last seen: by its own run, or by the last later run that read the entire collection. */
function lastSeenBefore(
  revision: SeenAt,
  older: HistoryRevision | undefined,
  options: HistoryOptions,
): SeenAt | null {
  const look = options.sightingBefore(revision.run);
  if (older === undefined || (look !== null && look.run >= older.run)) return look;
  const own = options.seenBy?.(older) ?? { run: older.run, at: older.at };
  return look === null || look.run < own.run ? own : look;
}

function parse(revision: HistoryRevision): Parsed {
  return { ...revision, value: revision.body === null ? undefined : parsedBody(revision, revision.body) };
}

function valueBefore(revision: HistoryRevision): JsonValue | undefined {
  return revision.before === undefined ? undefined : parsedBody(revision, revision.before);
}

function parsedBody(revision: HistoryRevision, body: string): JsonValue {
  try {
    return parseLossless(body);
  } catch (error) {
    throw new TidemarkError('mirror_corrupt', `the body of run ${revision.run} is not JSON`, {
      hint: 'run `tidemark verify`',
      cause: error,
    });
  }
}
