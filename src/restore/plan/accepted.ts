/** Accepted and ignored drift in a plan: what its steps revert, and what `keepsAccepted` leaves as it is. */
import type { ScopeKey } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { isMask } from '../../catalog/masks.ts';
import type { RecordKey } from '../../catalog/order.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { splitPointer } from '../../core/json-pointer.ts';
import { defined } from '../../core/defined.ts';
import { plural } from '../../core/wording.ts';
import { equalOptional } from '../../diff/canonical.ts';
import { type ParsedRecord, overlapsPointer, recordName } from '../../diff/change.ts';
import { type FieldChange, compareBodies, placeOf } from '../../diff/compare.ts';
import { type Acceptance, type AcceptedFinding, type Finding, acceptedText } from '../../diff/drift.ts';
import { textsWhere, topMember, withMember } from '../places.ts';
import { familyRecordKey } from '../records.ts';
import { hiddenFields } from '../secrets.ts';
import { listMovedIn } from './body.ts';
import type { KindMatch, Matching } from './matching.ts';
import {
  type AcceptedPlace,
  type AddUntouched,
  type IgnoredPlace,
  type Plan,
  type PlanInput,
  type PlanStep,
  isExecutable,
} from './plan.ts';
import { creatableFields, writableFields } from './settings.ts';

export class AcceptedDrift {
  readonly #input: PlanInput;
  readonly #liveScope: Matching['liveScope'];
  readonly #addLeft: AddUntouched;
  readonly #byPlace: Map<string, AcceptedFinding>;
  /** By record, what changed again since it was accepted. */
  readonly #changedSince: ReadonlyMap<string, readonly AcceptedFinding[]>;
  /** By record, what was accepted of records that live no longer has. */
  readonly #ofGone: Map<string, AcceptedFinding[]>;

  constructor(
    input: PlanInput,
    { liveScope, kinds }: Pick<Matching, 'liveScope' | 'kinds'>,
    addLeft: AddUntouched,
  ) {
    this.#input = input;
    this.#liveScope = liveScope;
    this.#addLeft = addLeft;
    // An undo reverts a restore, whatever was accepted before. A value that changed since and is ignored was not shown to anybody.
    const relevant = (input.accepted ?? []).filter(
      ({ changedSince, finding }) =>
        changedSince === undefined ||
        (input.options.keepsAccepted !== null &&
          input.ignores?.(finding, finding.path === '' ? null : finding) === undefined),
    );
    const { ofGone = [], ofLive = [] } = Object.groupBy(relevant, ({ isOfGone }) =>
      isOfGone === true ? 'ofGone' : 'ofLive',
    );
    this.#byPlace = new Map(
      ofLive.map((each) => [this.#placeKey(each.finding, placeOf(each.finding)), each]),
    );
    this.#changedSince = Map.groupBy(
      ofLive.filter(({ changedSince }) => changedSince !== undefined),
      ({ finding }) => familyRecordKey(input.definitions(finding.kind), finding),
    );
    this.#ofGone = Map.groupBy(ofGone, ({ finding }) => latestKey(input, finding));
    if (ofGone.length > 0) for (const match of kinds.values()) this.#followFound(match);
  }

  /** What was accepted of a record that live has under another id also holds for that one, if it has the accepted value. */
  #followFound({ definition, pairs }: KindMatch): void {
    for (const { desired, live } of pairs) {
      const key = latestKey(this.#input, desired);
      const found = this.#ofGone.get(key);
      if (found === undefined) continue;
      this.#ofGone.delete(key);
      const changes = compareBodies(definition, live.body, desired.body, 'default');
      for (const each of found) {
        const place = placeOf(each.finding);
        const change = changes.find((other) => placeOf(other) === place);
        if (
          change !== undefined &&
          each.changedSince === undefined &&
          equalOptional(change.from, each.finding.to)
        )
          this.#byPlace.set(this.#placeKey(live, place), each);
      }
    }
  }

  /**
   * The record to create for a missing one: with `keepsAccepted`, with its accepted values.
   * @returns with the reason why that is not possible (`obstacle`), and with what no creation sets (`unset`), or null
   */
  created(
    definition: ResourceDefinition,
    desired: ParsedRecord,
  ): { readonly record: ParsedRecord; readonly obstacle: string | null; readonly unset: string | null } {
    let { body } = desired;
    const stuck: string[] = [];
    const unset: string[] = [];
    const { options } = this.#input;
    const gone = options.keepsAccepted === true ? this.#goneOf(desired) : [];
    for (const { finding, acceptance, changedSince } of gone) {
      const text = `${placeOf(finding)}, ${acceptedText(acceptance)}`;
      const why =
        changedSince === undefined
          ? unsettable(definition, finding)
          : 'changed since, and the mirror no longer has the accepted value';
      if (!isCreated(definition, finding)) unset.push(`no creation sets ${text}`);
      else if (why !== null) stuck.push(`${text}, ${why}`);
      else body = withMember(body, splitPointer(finding.path), finding.to) ?? {};
    }
    const { kind, scope, id } = desired;
    return {
      record: body === desired.body ? desired : { kind, scope, id, body },
      obstacle:
        stuck.length === 0
          ? null
          : `${stuck.join('; ')}: to create the record as desired, leave out --keep-accepted`,
      unset: unset.join('; ') || null,
    };
  }

  /** The desired record; with `keepsAccepted`, with the accepted values of fields that changed again since. */
  asAccepted(definition: ResourceDefinition, desired: ParsedRecord, live: ParsedRecord): ParsedRecord {
    if (this.#input.options.keepsAccepted !== true) return desired;
    let { body } = desired;
    for (const each of this.#changedSince.get(familyRecordKey(definition, live)) ?? []) {
      const accepted = this.#settable(definition, each);
      if (accepted !== null) body = withMember(body, splitPointer(accepted.path), accepted.to) ?? {};
    }
    return body === desired.body ? desired : { ...desired, body };
  }

  /** The finding with the accepted value, if an update can set it; else null. */
  #settable(definition: ResourceDefinition, { changedSince }: AcceptedFinding): Finding | null {
    const finding = changedSince?.accepted ?? null;
    if (finding === null || definition.operation('update') === undefined) return null;
    const isWritable = writableFields(definition).some(({ name }) => name === topMember(finding.path));
    return isWritable && unsettable(definition, finding) === null ? finding : null;
  }

  #goneOf(record: RecordKey): readonly AcceptedFinding[] {
    return this.#ofGone.size === 0 ? [] : (this.#ofGone.get(latestKey(this.#input, record)) ?? []);
  }

  /** The acceptance that live has the record, or, if `live` is null, that it is gone; null without one. */
  #ofRecord(desired: RecordKey | null, live: RecordKey | null): AcceptedPlace | null {
    // The parents of a record that is gone may have other ids in live.
    const scope = desired === null ? null : this.#liveScope(desired.scope);
    const gone = desired === null ? [] : [desired, ...(scope === null ? [] : [{ ...desired, scope }])];
    const found = (live === null ? gone : [live])
      .map((key) => this.#byPlace.get(this.#placeKey(key, '')))
      .find((each) => each?.finding.change === (live === null ? 'removed' : 'added'));
    return found === undefined ? null : placed('', found);
  }

  /** The acceptance or rule for the entire record, as members of a step. */
  marksOf(
    desired: RecordKey | null,
    live: RecordKey | null,
  ): { readonly accepted?: readonly AcceptedPlace[]; readonly ignored?: readonly IgnoredPlace[] } {
    const accepted = this.#ofRecord(desired, live);
    if (accepted !== null) return { accepted: [accepted] };
    const ignored = this.#ignored(live ?? desired, null);
    return ignored === null ? {} : { ignored: [ignored] };
  }

  /** True for a record that the plan leaves as it is: it was accepted that it came or is gone, or a rule ignores it. */
  keepsRecord(desired: RecordKey | null, live: RecordKey | null): boolean {
    return this.#input.options.keepsAccepted === true && Object.keys(this.marksOf(desired, live)).length > 0;
  }

  /** The rule that ignores the record (`change` null) or that change of it; null if there is none. */
  #ignored(
    record: RecordKey | null,
    change: Pick<FieldChange, 'path' | 'place'> | null,
  ): IgnoredPlace | null {
    const rule = record === null ? undefined : this.#input.ignores?.(record, change);
    return rule === undefined ? null : { path: change?.path ?? '', reason: rule.reason };
  }

  /** Like `keepsRecord`; also lists the record as left. */
  leavesRecord(
    definition: ResourceDefinition,
    desired: ParsedRecord | null,
    live: ParsedRecord | null,
  ): boolean {
    const record = desired ?? live;
    if (record === null || !this.keepsRecord(desired, live)) return false;
    const { accepted: [accepted] = [], ignored: [ignored] = [] } = this.marksOf(desired, live);
    if (accepted !== undefined)
      this.#leave(definition, record, live === null ? 'removed,' : 'added,', { accepted });
    else if (ignored !== undefined) {
      const what = live === null ? 'removed,' : desired === null ? 'added,' : 'changed,';
      this.#leave(definition, record, what, { ignored });
    }
    return true;
  }

  /** By place, the changes of a record that the plan leaves as they are; lists each as left. */
  leftChanges(
    definition: ResourceDefinition,
    { desired, live }: { readonly desired: ParsedRecord; readonly live: ParsedRecord },
    changes: readonly FieldChange[],
  ): ReadonlyMap<string, FieldChange> {
    const left = new Map<string, FieldChange>();
    if (this.#input.options.keepsAccepted !== true) return left;
    for (const change of changes) {
      const found = this.#ofField(live, change);
      const place = placeOf(change);
      if (left.has(place) || (found !== undefined && this.#settable(definition, found) !== null)) continue;
      const ignored = found === undefined ? this.#ignored(live, change) : null;
      if (found === undefined && ignored === null) continue;
      left.set(place, change);
      if (found !== undefined)
        this.#leave(definition, desired, place, { accepted: placed(change.path, found) });
      else if (ignored !== null) this.#leave(definition, desired, place, { ignored });
    }
    return left;
  }

  /** The step with its accepted and ignored fields: those that it reverts, and those that it sets to the accepted value. */
  marked(step: PlanStep): PlanStep {
    const { accepted = [], fields, desired } = step;
    const definition = this.#input.definitions(step.kind);
    const shown = (found: AcceptedFinding, path = placeOf(found.finding)): AcceptedPlace => {
      const { accepted: known = found.finding } = found.changedSince ?? {};
      const [{ to: value } = {}] = known === null ? [] : hiddenFields(definition, [known]);
      return { ...placed(path, found), ...defined({ value }) };
    };
    const paths = fields.map(({ path }) => path);
    const gone = (desired === null ? [] : this.#goneOf(desired))
      .filter(
        ({ finding }) =>
          (step.action === 'create' || overlapsPointer(finding.path, paths)) &&
          isCreated(definition, finding),
      )
      .map((found) => shown(found));
    const isKept = this.#input.options.keepsAccepted === true;
    const isWhole = step.action === 'create' || step.action === 'remove' || step.ignored !== undefined;
    const ignored = isWhole
      ? (step.ignored ?? [])
      : fields.flatMap((change) =>
          this.#ofField(step, change) === undefined ? (this.#ignored(step, change) ?? []) : [],
        );
    const { since = [], back = [] } = Object.groupBy(
      fields.flatMap((change) => {
        const found = this.#ofField(step, change);
        if (found === undefined) return [];
        return [found.changedSince === undefined ? placed(change.path, found) : shown(found, change.path)];
      }),
      ({ changed_since: hasChanged }) => (hasChanged === true ? 'since' : 'back'),
    );
    const all = [...accepted, ...back, ...(isKept ? [] : [...since, ...gone])];
    const kept = isKept ? [...since, ...gone] : [];
    return {
      ...step,
      ...(all.length === 0 ? {} : { accepted: all }),
      ...(ignored.length === 0 ? {} : { ignored }),
      ...(kept.length === 0 ? {} : { kept }),
    };
  }

  #ofField(live: RecordKey, change: FieldChange): AcceptedFinding | undefined {
    return this.#byPlace.get(this.#placeKey(live, placeOf(change)));
  }

  #leave(
    definition: ResourceDefinition,
    { body, id }: ParsedRecord,
    what: string,
    why: { readonly accepted: AcceptedPlace } | { readonly ignored: IgnoredPlace },
  ): void {
    const reason = 'accepted' in why ? placedText(why.accepted) : `ignored by rule: ${why.ignored.reason}`;
    this.#addLeft(definition.kind, `${what} ${reason}`, recordName(definition, body, id), why);
  }

  #placeKey(key: RecordKey, place: string): string {
    return JSON.stringify([familyRecordKey(this.#input.definitions(key.kind), key), place]);
  }
}

function placed(
  path: string,
  { acceptance, changedSince }: Pick<AcceptedFinding, 'acceptance' | 'changedSince'>,
): AcceptedPlace {
  const { by, via, acceptedAt, until, reason } = acceptance;
  const { run = null } = changedSince ?? {};
  return {
    ...{ path, by, ...defined({ via }), accepted_at: acceptedAt },
    ...{ ...defined({ until }), reason },
    ...(changedSince === undefined ? {} : { changed_since: true }),
    ...(run === null ? {} : { run }),
  };
}

function placedText(accepted: AcceptedPlace): string {
  const { accepted_at: acceptedAt, run, changed_since: hasChanged } = accepted;
  const where = run === undefined ? '' : `; run:${run} has the accepted value`;
  return `${acceptedText({ ...accepted, acceptedAt })}${hasChanged === true ? `; changed since${where}` : ''}`;
}

/** The record's key with the latest ids of it and of its parents. */
function latestKey({ definitions, idMap }: Pick<PlanInput, 'definitions' | 'idMap'>, key: RecordKey): string {
  const { kind, id } = key;
  const scope = Object.fromEntries(
    (Object.entries(key.scope) as [ScopeKey, string][]).map(([name, value]) => [
      name,
      idMap(SCOPE_KIND[name], value) ?? value,
    ]),
  );
  return familyRecordKey(definitions(kind), { kind, scope, id: idMap(kind, id) ?? id });
}

/** True for a place that the request of a creation sets. */
function isCreated(definition: ResourceDefinition, { path }: Finding): boolean {
  const { creation } = definition.restore;
  return creation.by === 'invitation'
    ? overlapsPointer(path, Object.values(creation.fields))
    : creatableFields(definition).some(({ name }) => name === topMember(path));
}

/** Why a request cannot set an accepted value; null if it can. */
function unsettable(definition: ResourceDefinition, finding: Finding): string | null {
  const isInList = finding.moved !== undefined || placeOf(finding).includes('/[id=');
  if (isInList || listMovedIn(finding) !== null) return 'is in a list, whose other elements may differ too';
  const [shown = finding] = hiddenFields(definition, [finding]);
  const values = [finding.from, finding.to].filter((value) => value !== undefined);
  const isSecret =
    !equalOptional(shown.from, finding.from) ||
    !equalOptional(shown.to, finding.to) ||
    values.some((value) => textsWhere(value, (text) => isMask(text)).length > 0);
  return isSecret ? 'holds a secret, and the plan has only the desired one' : null;
}

/** A step that would revert what was accepted after its plan was made. */
interface AcceptedSince {
  readonly step: PlanStep;
  readonly accepted: AcceptedPlace;
}

/**
 * Acceptances after the plan was made of what its requests revert: whoever approved the plan did not know of them.
 * @param acceptances of the plan's source, without those that contradict the audit log
 */
export function acceptedSincePlan(
  { steps, to }: Pick<Plan, 'steps' | 'to'>,
  acceptances: readonly (Acceptance & RecordKey & { readonly path: string })[],
  ids: Pick<PlanInput, 'definitions' | 'idMap'>,
): AcceptedSince[] {
  const keyOf = (key: RecordKey): string => latestKey(ids, key);
  const planned = Date.parse(to.at ?? '');
  const later = Map.groupBy(
    acceptances.filter(({ acceptedAt }) => !(Date.parse(acceptedAt) <= planned)),
    keyOf,
  );
  if (later.size === 0) return [];
  return steps.filter(isExecutable).flatMap((step): AcceptedSince[] => {
    const { accepted = [], kept = [], desired, fields } = step;
    const known = [...accepted, ...kept].map(({ path }) => {
      const field = fields.find((each) => each.path === path);
      return field === undefined ? path : placeOf(field);
    });
    const own = new Set([step, ...(desired === null ? [] : [desired])].map(keyOf));
    const places = step.action === 'create' || step.action === 'remove' ? [''] : fields.map(placeOf);
    return [...own]
      .flatMap((key) => later.get(key) ?? [])
      .filter(({ path }) => overlapsPointer(path, places) && !overlapsPointer(path, known))
      .map((acceptance) => ({ step, accepted: placed(acceptance.path, { acceptance }) }));
  });
}

/** Warnings that the requests of a plan, or of an undo, revert accepted drift, with counts. */
export function acceptedWarnings(steps: readonly PlanStep[], isUndo: boolean): string[] {
  const sent = steps.filter(isExecutable);
  const warning = (hasChanged: boolean, text: (are: string, them: string) => string): string[] => {
    const [records, changed] = [new Set<string>(), new Set<string>()];
    const fields = new Set<string>();
    for (const { kind, scope, id, accepted = [] } of sent) {
      const record = JSON.stringify([kind, scope, id]);
      for (const { path, changed_since: since } of accepted) {
        if ((since === true) !== hasChanged) continue;
        (path === '' ? records : changed).add(record);
        if (path !== '') fields.add(`${record} ${path}`);
      }
    }
    if (records.size + fields.size === 0) return [];
    const parts = [
      ...(fields.size === 0 ? [] : [`${plural(fields.size, 'field')} of ${plural(changed.size, 'record')}`]),
      ...(records.size === 0 ? [] : [plural(records.size, 'entire record')]),
    ];
    const isOne = records.size + fields.size === 1;
    return [`${parts.join(' and ')} ${text(isOne ? 'was' : 'were', isOne ? 'it' : 'them')}`];
  };
  return [
    ...warning(
      false,
      (were, them) =>
        `${were} accepted as drift, and this ${isUndo ? `undo sets ${them} back` : `restore sets ${them} back: a plan made with --keep-accepted leaves ${them}`}`,
    ),
    ...warning(
      true,
      (were, them) =>
        `${were} accepted as drift and changed again since, and this restore does not set the accepted value: a plan made with --keep-accepted sets that, or leaves ${them} as ${them === 'it' ? 'it is' : 'they are'}`,
    ),
  ];
}
