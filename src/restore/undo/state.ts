/** The state before a restore, computed from the live records and the old values in the journal. */
import { scopeKey, familyKinds } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonObject, type JsonValue, isJsonObject } from '../../core/json.ts';
import { type ParsedRecord, type Skipped, recordName } from '../../diff/change.ts';
import { compareBodies } from '../../diff/compare.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { nothingCompared, type UnreadList } from '../../state/nothing-compared.ts';
import type { LoadedState } from '../../state/state.ts';
import { CLOCKS_DIFFER_MS, CREATED_AT } from '../apply/lost-response.ts';
import { idSuffix, oneOf } from '../apply/precondition.ts';
import { topMember } from '../places.ts';
import { dependentKinds, isRemovedWith } from '../plan/dependents.ts';
import {
  type PlanState,
  type Inverse,
  type UntouchedRecords,
  type Plan,
  type PlanStep,
  isExecutable,
} from '../plan/plan.ts';
import { bySendableKey } from '../plan/settings.ts';
import { managedDigest, naturalKeyDigest, recordKey } from '../records.ts';
import { appliedSteps, type AppliedStep, type RestoreRows, undoChain, type UndoChain } from './applied.ts';

export interface UndoStateOptions {
  /** The live records of `undoKinds`. */
  readonly live: PlanState;
  /** Whether records that `live` lacks are gone. Default: all of them are. */
  readonly known?: LiveKnowledge;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  /** Also undo changes in records that were changed since. */
  readonly forceChanged: boolean;
  /** Whether the newest run of the mirror before a time (ISO 8601) has the record. Default: it does not. */
  readonly wasThere?: (record: RecordKey, at: string) => boolean;
  /** The undo that is resumed, if any: its own changes do not count. */
  readonly resumed?: number;
}

/** The live state, with what the restore overwrote as it was before. */
export interface UndoneState {
  readonly state: PlanState;
  /** The records and fields that a plan for it may change. */
  readonly extent: UndoExtent;
  /** Records that were changed since: the state has them as they are live. */
  readonly changed: readonly ChangedSince[];
  /** Records to remove: those that the restore created and that still exist, and what was created in them since. */
  readonly gone: readonly ParsedRecord[];
  /** Changes of the restore of which nothing is left to undo. */
  readonly settled: readonly UntouchedRecord[];
  /** Records that live does not show and that may still exist. */
  readonly skipped: readonly Skipped[];
}

export interface ChangedSince extends RecordKey {
  readonly name: string;
  /** E.g. `it was changed since restore 3`. */
  readonly why: string;
}

export interface UntouchedRecord {
  readonly kind: Kind;
  readonly name: string;
  readonly reason: UntouchedRecords['reason'];
}

const CAN_BE_FORCED = 'add --force-changed to undo it anyway';

/**
 * The desired state of `planUndo`, whose records `applyPlan` gets as desired.
 * @throws TidemarkError as `planUndo`
 */
export function undoneState(mirror: RestoreRows, restore: number, options: UndoStateOptions): UndoneState {
  const { row, steps } = appliedSteps(mirror, restore);
  const before = new BeforeRestore(restore, options, undoChain(mirror, row, options.resumed), steps);
  const isRemoval = ({ inverse }: AppliedStep): number => Number(inverse?.action === 'create');
  // Its removals come last, so that a record that the undo removes is not taken for one that exists again.
  const inOrder = steps.toReversed().sort((a, b) => isRemoval(a) - isRemoval(b));
  for (const applied of inOrder) before.takeBack(applied);
  return before.state(row.startedAt);
}

class BeforeRestore {
  readonly #restore: number;
  readonly #options: UndoStateOptions;
  readonly #chain: UndoChain;
  readonly #live: ReadonlyMap<string, ParsedRecord>;
  readonly #liveIds: ReadonlySet<string>;
  readonly #records: Map<string, ParsedRecord>;
  readonly #created: ReadonlySet<string>;
  readonly #extent = new UndoExtent();
  readonly #changed = new Map<string, ChangedSince>();
  readonly #gone = new Map<string, ParsedRecord>();
  readonly #goneIds = new Set<string>();
  readonly #settled = new Map<string, UntouchedRecord>();
  readonly #unread: UndoUnread;

  constructor(restore: number, options: UndoStateOptions, chain: UndoChain, steps: readonly AppliedStep[]) {
    this.#restore = restore;
    this.#options = options;
    this.#chain = chain;
    this.#live = new Map(options.live.records.map((record) => [recordKey(record), record]));
    this.#liveIds = new Set(options.live.records.map(({ kind, id }) => `${kind} ${id}`));
    this.#records = new Map(this.#live);
    this.#unread = new UndoUnread(options.known ?? null);
    this.#created = new Set(
      steps
        .filter(({ inverse }) => inverse?.action === 'remove')
        .flatMap((each) => chain.places(each).map(recordKey)),
    );
  }

  takeBack(applied: AppliedStep): void {
    const { inverse } = applied;
    if (inverse?.action === 'create') this.#putBack(applied, inverse.body);
    else if (inverse !== null) this.#changeBack(applied, inverse);
  }

  state(at: string): UndoneState {
    const { collections } = this.#options.live;
    const reference = { ref: `before restore ${this.#restore}`, at };
    return {
      state: { reference, records: [...this.#records.values()], collections },
      extent: this.#extent,
      changed: [...this.#changed.values()],
      gone: [...this.#gone.values()],
      settled: [...this.#settled.values()],
      skipped: this.#unread.skipped(`tidemark undo ${this.#restore}`),
    };
  }

  /** Adds a record that the restore removed, unless it exists again. */
  #putBack(applied: AppliedStep, body: JsonValue): void {
    const { kind, scope, id } = applied;
    const own = recordKey(applied);
    if (this.#live.has(own) && applied.row.outcome !== 'applied') return;
    if (!this.#live.has(own) && this.#isUnderNewId(applied)) {
      this.#unread.see();
      this.#settle(applied, 'the restore removed it, and it exists again');
      return;
    }
    const namesake = this.#live.has(own) ? undefined : this.#createdSince(applied, body);
    if (namesake !== undefined) {
      this.#unread.see();
      const { restore = this.#restore } = this.#chain.left(applied);
      const definition = this.#options.definitions(kind);
      const why =
        `somebody created ${oneOf(definition)} of that name since restore ${restore} removed it` +
        `${idSuffix(definition, namesake.id)}; rename or delete that one to create this one again`;
      this.#changed.set(own, { kind, scope, id, name: applied.name, why });
      return;
    }
    // Also if it is not in the extent: a resumed undo looks up the records that its plan created in this state.
    this.#records.set(own, { kind, scope, id, body });
    if (this.#isKnown(applied)) this.#extent.add(applied, 'whole');
  }

  /** Reverts a change or a creation of the restore. */
  #changeBack(applied: AppliedStep, inverse: Exclude<Inverse, { action: 'create' }>): void {
    const { definitions, forceChanged } = this.#options;
    const definition = definitions(applied.kind);
    const isThere = (each: RecordKey): boolean => this.#records.has(recordKey(each));
    // If another restore recreated what this one created, only that one's undo removes it.
    const others = this.#created.has(recordKey(applied)) ? [] : this.#chain.otherPlaces(applied);
    const at = this.#chain.places(applied).findLast(isThere) ?? others.find(isThere);
    const live = at === undefined ? undefined : this.#records.get(recordKey(at));
    if (at !== undefined) this.#unread.see();
    else if (!this.#isKnown(applied)) return;
    if (at === undefined || live === undefined) {
      this.#reportAbsent(applied, inverse);
      return;
    }
    const place = recordKey(at);
    if (this.#changed.has(place)) return;
    const body = inverse.action === 'remove' ? undefined : beforeStep(definition, live, inverse);
    const isAsBefore =
      body !== undefined && compareBodies(definition, live.body, body, 'managed').length === 0;
    const original = this.#live.get(place) ?? live;
    const added = body === undefined ? this.#addedTo(original) : [];
    const why = this.#changedSince(applied, managedDigest(definition, original.body), added);
    const isSet = inverse.action !== 'remove' && this.#chain.left(applied).digest !== null;
    const isTakenBack = isSet && this.#chain.takenBackBy(applied) !== undefined;
    if (why !== null && !isAsBefore && !forceChanged) {
      this.#records.set(place, original);
      this.#extent.delete(original);
      if (isTakenBack) {
        // An undo reverted it already, and its present content is not that of the restore.
        this.#settle(applied, why);
        return;
      }
      const { kind, scope, id } = original;
      const name = recordName(definition, original.body, id);
      const by = this.#chain.changedBy(original, managedDigest(definition, original.body), applied.begun);
      const said =
        by === undefined ? why : `restore ${by} changed it since: undo that first (\`tidemark undo ${by}\`)`;
      const remedy = `${by === undefined ? '' : 'or '}${CAN_BE_FORCED}`;
      this.#changed.set(place, { kind, scope, id, name, why: `${said}; ${remedy}` });
      return;
    }
    // The state must not have the record as it is now under the other kinds of its family.
    for (const key of familyKeys(at)) if (key !== place) this.#records.delete(key);
    if (body === undefined) {
      for (const record of [live, ...added]) {
        this.#records.delete(recordKey(record));
        this.#gone.set(recordKey(record), record);
        for (const kind of familyKinds(record.kind)) this.#goneIds.add(`${kind} ${record.id}`);
        this.#extent.add(record, 'whole');
      }
    } else {
      this.#records.set(place, { ...live, body });
      this.#extent.add(live, writtenMembers(definition, inverse));
    }
  }

  /** A live namesake that was probably created after the restore removed its record. */
  #createdSince({ kind, scope, row }: AppliedStep, body: JsonValue): ParsedRecord | undefined {
    // A resumed undo may have created it itself; apply looks for others.
    if (this.#options.resumed !== undefined) return undefined;
    const byName = bySendableKey(this.#options.definitions(kind));
    const name = naturalKeyDigest(byName, body);
    if (name === null) return undefined;
    const removedAt = row.sentAt ?? '';
    const wasThere = (live: ParsedRecord): boolean => {
      const createdAt = resolvePointer(live.body, byName.createdAt ?? CREATED_AT);
      const isOlder =
        typeof createdAt === 'string' && Date.parse(createdAt) < Date.parse(removedAt) - CLOCKS_DIFFER_MS;
      return isOlder || this.#options.wasThere?.(live, removedAt) === true;
    };
    return this.#options.live.records.find((live) => {
      if (live.kind !== kind || scopeKey(live.scope) !== scopeKey(scope)) return false;
      if (this.#created.has(recordKey(live)) || naturalKeyDigest(byName, live.body) !== name) return false;
      return !wasThere(live);
    });
  }

  #isUnderNewId(applied: AppliedStep): boolean {
    const now = this.#chain.idSince(applied);
    const key = `${applied.kind} ${now}`;
    return now !== undefined && this.#liveIds.has(key) && !this.#goneIds.has(key);
  }

  /** False if live does not show the record and it may still exist: then it is skipped. */
  #isKnown(applied: AppliedStep): boolean {
    const places = this.#chain.places(applied);
    if (!places.some((place) => this.#live.has(recordKey(place))))
      return this.#unread.isGone(applied.name, places);
    this.#unread.see();
    return true;
  }

  /** Reports a record that no longer exists: nothing to undo if the restore created it; a loss if it changed it. */
  #reportAbsent(applied: AppliedStep, inverse: Inverse): void {
    const { kind, scope, id, name } = applied;
    const isCreated = this.#created.has(recordKey(applied));
    // Its creation reports it.
    if (isCreated && inverse.action !== 'remove') return;
    const undo = this.#chain.takenBackBy(applied);
    if (isCreated || undo !== undefined) {
      const again = this.#isUnderNewId(applied) ? ': another restore recreated it since' : '';
      this.#settle(applied, `it no longer exists${again}`);
      return;
    }
    const why = `it was removed since restore ${this.#restore}, so what that changed in it cannot be undone`;
    this.#changed.set(recordKey(applied), { kind, scope, id, name, why });
  }

  #settle(applied: AppliedStep, otherwise: string): void {
    const undo = this.#chain.takenBackBy(applied);
    const { kind, name } = applied;
    const reason = undo === undefined ? otherwise : `restore ${undo} already undid it`;
    this.#settled.set(recordKey(applied), { kind, name, reason });
  }

  /** Why a record is not, or may not be, as the restore left it; null if it is. */
  #changedSince(applied: AppliedStep, now: string, [first, ...more]: readonly ParsedRecord[]): string | null {
    const { digest, restore = this.#restore, isGone } = this.#chain.left(applied);
    if (isGone) return `restore ${restore} removed it, and it exists again`;
    if (digest === null)
      return `restore ${restore} could not read it back, so whether it was changed since is unknown`;
    if (now !== digest) return `it was changed since restore ${this.#restore}`;
    if (first === undefined) return null;
    const { one, many } = this.#options.definitions(first.kind).title;
    return `it has gained ${more.length + 1} ${more.length === 0 ? one : many} since restore ${this.#restore}`;
  }

  /** Records in a created record that the restore did not create: they would be removed along with it. */
  #addedTo(record: ParsedRecord): ParsedRecord[] {
    const { definitions } = this.#options;
    const definition = definitions(record.kind);
    const dependents = dependentKinds(record.kind, definitions);
    if (dependents.length === 0) return [];
    return [...this.#records.values()].filter(
      (other) =>
        !this.#created.has(recordKey(other)) &&
        dependents.some((dependent) => isRemovedWith(dependent, other, definition, record)),
    );
  }
}

/** The body before the step; secrets that were not recorded are masks, which the planner recognizes. */
export function beforeStep(
  definition: ResourceDefinition,
  live: Pick<ParsedRecord, 'body'>,
  inverse: Extract<Inverse, { action: 'update' | 'act' }>,
): JsonValue {
  if (!isJsonObject(live.body)) return live.body;
  if (inverse.action === 'act') return { ...live.body, ...stateBefore(definition, inverse.act) };
  const absent = inverse.absent.map(topMember);
  const kept = Object.entries(live.body).filter(([name]) => !absent.includes(name));
  return { ...Object.fromEntries(kept), ...inverse.body };
}

function writtenMembers(
  definition: ResourceDefinition,
  inverse: Exclude<Inverse, { action: 'create' }>,
): 'whole' | readonly string[] {
  if (inverse.action === 'remove') return 'whole';
  if (inverse.action === 'act') return Object.keys(stateBefore(definition, inverse.act));
  return [...Object.keys(inverse.body), ...[...inverse.absent, ...inverse.withheld].map(topMember)];
}

function stateBefore({ restore: { state } }: ResourceDefinition, act: string): JsonObject {
  const action = state?.actions.find((each) => each.action === act);
  return state === null || action === undefined ? {} : { [state.field]: action.value };
}

/** What an undo may change: the records that its restore created or removed, and the fields that it changed in others. */
class UndoExtent {
  /** By record key, the changed members; `whole` if the record itself comes or goes. */
  readonly #own = new Map<string, 'whole' | ReadonlySet<string>>();

  add(record: RecordKey, members: 'whole' | readonly string[]): void {
    for (const place of familyKeys(record)) {
      const known = this.#own.get(place);
      const isWhole = known === 'whole' || members === 'whole';
      this.#own.set(place, isWhole ? 'whole' : new Set([...(known ?? []), ...members]));
    }
  }

  delete(record: RecordKey): void {
    for (const place of familyKeys(record)) this.#own.delete(place);
  }

  /** For `PlanInput.isInScope`. */
  readonly has = (record: RecordKey): boolean => this.#own.has(recordKey(record));

  /** For `PlanInput.isOwnField`. */
  readonly hasField = (record: RecordKey, path: string): boolean => {
    const members = this.#own.get(recordKey(record));
    return members === 'whole' || members?.has(topMember(path)) === true;
  };

  /** @throws Error for a step for a record that the restore did not write: a bug, so nothing may be sent */
  require({ steps }: Pick<Plan, 'steps'>): void {
    const stray = steps.find((step) => isExecutable(step) && !this.#isOwn(step));
    if (stray === undefined) return;
    throw new Error(
      `an undo would ${stray.action} ${stray.kind} ${stray.name}, which its restore did not write`,
    );
  }

  #isOwn({ kind, scope, id, desired, precondition }: PlanStep): boolean {
    const isLiveOwn = precondition?.state !== 'present' || this.has({ kind, scope, id: precondition.id });
    return isLiveOwn && this.has(desired ?? { kind, scope, id });
  }
}

/** The keys of the record under all kinds of its family. */
function familyKeys({ kind, scope, id }: RecordKey): string[] {
  return familyKinds(kind).map((each) => recordKey({ kind: each, scope, id }));
}

const NAMES_SHOWN = 10;

/** Whether records that live does not show are gone. */
type LiveKnowledge = Pick<LoadedState, 'coverage' | 'unknownIn'>;

/** Collects the records of an undo that could not be compared. */
class UndoUnread {
  readonly #live: LiveKnowledge | null;
  readonly #unread: UnreadList[] = [];
  readonly #skipped = new Map<
    string,
    Omit<Skipped, 'name' | 'records'> & { readonly names: Set<string>; readonly ids: Set<string> }
  >();
  #isAnyKnown = false;

  /** @param live null if all of it is known */
  constructor(live: LiveKnowledge | null) {
    this.#live = live;
  }

  /** Notes that a record exists. */
  see(): void {
    this.#isAnyKnown = true;
  }

  /** For a record that live shows under none of these keys: true if it is gone; otherwise it counts as not compared. */
  isGone(name: string, places: readonly RecordKey[]): boolean {
    for (const place of places.toReversed()) {
      const reason = this.#doubt(place);
      if (reason === null) continue;
      const { kind, scope } = place;
      const key = `${kind} ${scopeKey(scope)} ${reason}`;
      const entry = this.#skipped.get(key) ?? { kind, scope, reason, names: new Set(), ids: new Set() };
      this.#skipped.set(key, { ...entry, names: entry.names.add(name), ids: entry.ids.add(place.id) });
      return false;
    }
    this.#isAnyKnown = true;
    return true;
  }

  /**
   * What could not be compared, with the names of the records.
   * @param command plans the undo again
   * @throws TidemarkError the error of the service, if nothing could be compared
   */
  skipped(command: string): Skipped[] {
    const entries = [...this.#skipped.values()];
    if (entries.length > 0 && !this.#isAnyKnown) {
      throw nothingCompared({ skipped: entries }, { filter: {}, unread: this.#unread });
    }
    return entries.map(({ kind, scope, reason, names, ids }) => {
      const name = listed(names);
      return {
        kind,
        scope,
        name,
        records: ids.size,
        reason: `the current state of ${name} is not known: ${reason}; once that can be read, \`${command}\` plans the rest`,
      };
    });
  }

  /** Why the record may still be there; null if it is gone. */
  #doubt({ kind, scope, id }: RecordKey): string | null {
    if (this.#live === null) return null;
    const coverage = this.#live.coverage(kind, scope);
    if (coverage.how === 'absent') return null;
    if (coverage.how === 'unread') this.#unread.push({ ...coverage, kind });
    if (coverage.how !== 'read') return coverage.reason;
    this.#isAnyKnown = true;
    const spot = this.#live.unknownIn(kind, scope);
    if (spot?.covers(id) === true) return spot.reason;
    // If absent records are unconfirmed: those of an undo were looked up, or a restore of the chain read that they are gone (`undoNamed`).
    return coverage.isUnconfirmed === true ? null : (coverage.stale ?? null);
  }
}

function listed(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, NAMES_SHOWN);
  const more = names.size - shown.length;
  return `${shown.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}
