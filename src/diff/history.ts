/**
 * The history of a record, from its revisions: what each one changed, and since when each field has its value. Pure.
 */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { isJsonObject, parseLossless, type JsonValue } from '../core/json.ts';
import { type ComparisonMode, type FieldChange, compareBodies, comparedMembers } from './compare.ts';
import { type Recreated, type WrittenBy, compareRecords } from './change.ts';
import { escapeSegment } from '../core/json-pointer.ts';

/** A run that read the record or its collection, and when it ended (ISO 8601). */
export interface SeenAt {
  readonly run: number;
  readonly at: string;
  /** Given where it may have been one of the runs that retention dropped before this one. */
  readonly may_be_earlier?: true;
}

/** One stored revision of a record. */
export interface HistoryRevision extends SeenAt {
  /** `rewritten`: equal by comparison, in another spelling. */
  readonly change: 'added' | 'changed' | 'removed' | 'rewritten';
  /** JSON as received; null for a removal. */
  readonly body: string | null;
  /** Given where the record has another id from this revision on. */
  readonly created_again?: RenewedId;
  /** Fields of which the body has what was seen last while it lasted, each with the run from which on they are kept; null: none yet. */
  readonly notKept?: ReadonlyMap<string, SeenAt | null>;
  /** Given with it: the last body under the previous id, with references to recreated records by their new ids. */
  readonly before?: string;
}

/** A record's id from a revision on, and the one that it had. */
export interface RenewedId extends Recreated {
  readonly id: string;
}

/** Where a record has another id from a run on. */
export interface IdChange extends SeenAt {
  readonly was: string;
  readonly id: string;
  /** Given where a restore gave it; without it, an id that the record had before returned. */
  readonly created_again?: RenewedId;
}

/** A restore's new id as `show` and `blame` list it. */
interface Renewal extends RenewedId {
  /** Given where the record has an earlier id again: the run that saw that one first. */
  readonly until?: SeenAt;
}

/** Another id of a record, as seen from one of its ids. */
export interface OtherId {
  readonly id: string;
  /** True for an id that it continued under. */
  readonly isLater: boolean;
  /** The restore that gave it, or of an earlier id the one that replaced it. */
  readonly created?: RenewedId;
  /** Of a later id: it returned in that run. Of an earlier one: it was replaced then by one that returned. */
  readonly returned?: SeenAt;
}

interface HistoryOptions {
  readonly mode: ComparisonMode;
  /**
   * The last run before this one that read the entire collection; null without one. The replaced revision was still current
   * then.
   */
  readonly sightingBefore: (run: number) => SeenAt | null;
  /** When a revision was seen; its own run where this is missing. */
  readonly seenBy?: (revision: SeenAt) => SeenAt;
}

/** One revision as `log` shows it. The change happened after `last_seen_before` and not after `at`. */
export interface LogEntry extends SeenAt {
  readonly change: 'added' | 'changed' | 'removed';
  /** When the previous state was last seen; null if the collection had not been read before. */
  readonly last_seen_before: SeenAt | null;
  /** Added: every compared field with `to`. Removed: with `from`. Changed: what differs. */
  readonly fields: readonly FieldChange[];
  /** Given for a record that came back after a removal: how it differs from what was removed. */
  readonly returned?: readonly FieldChange[];
  /**
   * Given where the record continues under a new id from here on. The change is `changed` if it was never seen absent; then
   * `fields` may be empty.
   */
  readonly created_again?: RenewedId;
  /** Given where a restore made the change. */
  readonly changed_by?: WrittenBy;
  /** Fields that were volatile then and are not any more: what this run saw of them is not known, so that `fields` has none of them. */
  readonly volatile_unknown?: readonly string[];
}

/** One field's value, and since when it has it. */
export interface BlameField {
  /** RFC 6901 pointer. */
  readonly path: string;
  readonly value: JsonValue;
  /** The run that saw this value first, without a break since but an absence that a restore ended. */
  readonly since: SeenAt;
  /** When the field last had another value, or the record was absent; null if the collection had not been read before. */
  readonly last_seen_before: SeenAt | null;
  /** True where the field was volatile before `since`: its values of then were not kept. */
  readonly is_unknown_before?: true;
  /** Given where a restore wrote it. */
  readonly changed_by?: Omit<WrittenBy, 'paths'>;
}

interface Parsed extends HistoryRevision {
  readonly value: JsonValue | undefined;
}

/** The new ids that restores gave, newest first. */
export function renewalsOf(changes: readonly IdChange[]): Renewal[] {
  return changes.flatMap(({ created_again: again }, index): Renewal[] => {
    if (again === undefined) return [];
    const next = changes[index - 1];
    if (next === undefined || next.created_again !== undefined) return [again];
    return [{ ...again, until: { run: next.run, at: next.at } }];
  });
}

/** The other ids of a record, newest first: those after the latest time that it had this one, and those before. */
export function otherIds(changes: readonly IdChange[], own: string): OtherId[] {
  const back = changes.findIndex(({ id }) => id === own);
  const left = changes.findIndex(({ was }) => was === own);
  // The number of changes after the latest time that it had this id.
  const later = back !== -1 && (left === -1 || back <= left) ? back : left + 1;
  return changes.flatMap(({ was, id, run, at, created_again: created }, index): OtherId[] => {
    const isLater = index < later;
    if (!isLater && was === own) return [];
    const how = created ?? (isLater ? undefined : changes[index + 1]?.created_again);
    return [
      {
        id: isLater ? id : was,
        isLater,
        ...(how === undefined ? {} : { created: how }),
        ...(created === undefined ? { returned: { run, at } } : {}),
      },
    ];
  });
}

/**
 * The revisions, newest first as they are given, each with what it changed. Those that change nothing that the mode
 * compares are left out.
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
      ...(again === undefined ? {} : { created_again: again }),
    };
    if (value === undefined) {
      const fields = older?.value === undefined ? [] : whole(definition, older.value, options.mode, 'from');
      return [{ ...head, change: 'removed', fields }];
    }
    if (older?.value === undefined) {
      const before =
        valueBefore(revision) ?? parsed.slice(index + 1).find((each) => each.value !== undefined)?.value;
      const { fields, ...unknown } = knownThen(revision, whole(definition, value, options.mode, 'to'));
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
 * Without the fields of which the revision's body has later values, unless `older` has a value that was kept: a change from
 * that is one, whatever else was seen until the field was kept again.
 */
function knownThen(
  { notKept = new Map() }: HistoryRevision,
  fields: readonly FieldChange[],
  older?: HistoryRevision,
): Pick<LogEntry, 'fields' | 'volatile_unknown'> {
  const unknown = [...notKept.keys()].filter(
    (name) =>
      (older === undefined || older.notKept?.has(name) === true) &&
      fields.some((field) => touches(field, pathOf(name))),
  );
  if (unknown.length === 0) return { fields };
  return {
    fields: fields.filter((field) => !unknown.some((name) => touches(field, pathOf(name)))),
    volatile_unknown: unknown.sort(),
  };
}

function pathOf(name: string): string {
  return `/${escapeSegment(name)}`;
}

/**
 * Every field of the newest body (of a removed record: the one that was removed), each with the run that saw its value
 * first. Absences that restores ended do not count. Top-level fields, or with `isDeep` the leaves below them; arrays count as one value.
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
      if (changes.some((change) => touches(change, path))) open.delete(path);
      else oldest.set(path, index);
    }
  }
  return places.flatMap(([path, held]) => {
    const index = oldest.get(path) ?? start;
    const since = parsed[index];
    if (since === undefined) return [];
    const unknown = [...(since.notKept ?? [])].find(([name]) => touches({ path }, pathOf(name)));
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
          // A change of a forgotten run is of the next kept one.
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
    if (by?.paths?.some((path) => touches({ path }, field.path)) !== true) return field;
    const { restore, via } = by;
    return { ...field, changed_by: { restore, by: by.by, ...(via === undefined ? {} : { via }) } };
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
    const path = pathOf(name);
    return isDeep ? leaves(path, member) : [[path, member]];
  });
}

/** With an explicit stack, so that deep nesting uses no call stack. */
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

/** True for a change at, above or below this place. */
function touches(change: Pick<FieldChange, 'path'>, path: string): boolean {
  return change.path === path || change.path.startsWith(`${path}/`) || path.startsWith(`${change.path}/`);
}

/** When a replaced revision was last seen: by its own run, or by the last full sweep of the collection since. */
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

/** Every compared field of an added (`to`) or removed (`from`) record. */
function whole(
  definition: ResourceDefinition,
  body: JsonValue,
  mode: ComparisonMode,
  side: 'from' | 'to',
): readonly FieldChange[] {
  const record = { kind: definition.kind, scope: {}, id: '', body };
  const change =
    side === 'to'
      ? compareRecords(definition, undefined, record, mode)
      : compareRecords(definition, record, undefined, mode);
  return change?.fields ?? [];
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
