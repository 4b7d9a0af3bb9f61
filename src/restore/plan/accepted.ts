/** Accepted drift in a plan: what its steps set back, and with `keepsAccepted` what they leave. */
import type { Kind } from '../../catalog/kinds.ts';
import type { RecordKey } from '../../catalog/order.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { plural } from '../../core/wording.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { type FieldChange, placeOf } from '../../diff/compare.ts';
import { type Acceptance, type AcceptedFinding, acceptedText } from '../../diff/drift.ts';
import { familyRecordKey } from '../records.ts';
import type { Matching } from './matching.ts';
import { type AcceptedPlace, type Plan, type PlanInput, type PlanStep, isExecutable } from './plan.ts';

export class AcceptedDrift {
  readonly #input: PlanInput;
  readonly #liveScope: Matching['liveScope'];
  readonly #addLeft: (kind: Kind, reason: string, name: string, accepted: AcceptedPlace) => void;
  readonly #byPlace: ReadonlyMap<string, AcceptedFinding>;

  /** @param addLeft lists a record as left */
  constructor(
    input: PlanInput,
    { liveScope }: Pick<Matching, 'liveScope'>,
    addLeft: (kind: Kind, reason: string, name: string, accepted: AcceptedPlace) => void,
  ) {
    this.#input = input;
    this.#liveScope = liveScope;
    this.#addLeft = addLeft;
    this.#byPlace = new Map(
      (input.accepted ?? []).map((each) => [this.#placeKey(each.finding, placeOf(each.finding)), each]),
    );
  }

  /** What was accepted of the record as a whole: that live has it, or where `live` is null, that it is gone; else null. */
  ofRecord(desired: RecordKey | null, live: RecordKey | null): AcceptedPlace | null {
    // Of a record that is gone, the parents may have other ids in live.
    const scope = desired === null ? null : this.#liveScope(desired.scope);
    const gone = desired === null ? [] : [desired, ...(scope === null ? [] : [{ ...desired, scope }])];
    const found = (live === null ? gone : [live])
      .map((key) => this.#byPlace.get(this.#placeKey(key, '')))
      .find((each) => each?.finding.change === (live === null ? 'removed' : 'added'));
    return found === undefined ? null : placed('', found.acceptance);
  }

  /** True for a record that the plan leaves as it is: that live has it, or that it is gone, was accepted. */
  keepsRecord(desired: RecordKey | null, live: RecordKey | null): boolean {
    return this.#input.options.keepsAccepted === true && this.ofRecord(desired, live) !== null;
  }

  /** As `keepsRecord`; lists the record as left. */
  leavesRecord(
    definition: ResourceDefinition,
    desired: ParsedRecord | null,
    live: ParsedRecord | null,
  ): boolean {
    const [record, accepted] = [desired ?? live, this.ofRecord(desired, live)];
    if (record === null || accepted === null || !this.keepsRecord(desired, live)) return false;
    this.#leave(definition, record, live === null ? 'removed,' : 'added,', accepted);
    return true;
  }

  /** Those changes of a record that the plan leaves, by place; lists each as left. */
  leftChanges(
    definition: ResourceDefinition,
    { desired, live }: { readonly desired: ParsedRecord; readonly live: ParsedRecord },
    changes: readonly FieldChange[],
  ): ReadonlyMap<string, FieldChange> {
    const left = new Map<string, FieldChange>();
    if (this.#input.options.keepsAccepted !== true) return left;
    for (const change of changes) {
      const accepted = this.#ofField(live, change);
      const place = placeOf(change);
      if (accepted === null || left.has(place)) continue;
      left.set(place, change);
      this.#leave(definition, desired, place, accepted);
    }
    return left;
  }

  /** The step with what it sets back of fields. */
  marked(step: PlanStep): PlanStep {
    const { accepted = [], fields } = step;
    const all = [...accepted, ...fields.flatMap((change) => this.#ofField(step, change) ?? [])];
    return all.length === 0 ? step : { ...step, accepted: all };
  }

  #ofField(live: RecordKey, change: FieldChange): AcceptedPlace | null {
    const found = this.#byPlace.get(this.#placeKey(live, placeOf(change)));
    return found === undefined ? null : placed(change.path, found.acceptance);
  }

  #leave(
    definition: ResourceDefinition,
    { body, id }: ParsedRecord,
    what: string,
    accepted: AcceptedPlace,
  ): void {
    const text = acceptedText({ ...accepted, acceptedAt: accepted.accepted_at });
    this.#addLeft(definition.kind, `${what} ${text}`, recordName(definition, body, id), accepted);
  }

  #placeKey(key: RecordKey, place: string): string {
    return JSON.stringify([familyRecordKey(this.#input.definitions(key.kind), key), place]);
  }
}

function placed(path: string, { by, acceptedAt, until, reason }: Acceptance): AcceptedPlace {
  return { path, by, accepted_at: acceptedAt, ...(until === undefined ? {} : { until }), reason };
}

/** A step that would set back what was accepted after its plan was made. */
interface AcceptedSince {
  readonly step: PlanStep;
  readonly accepted: AcceptedPlace;
}

/**
 * What was accepted as drift after the plan was made, of what its requests set back: whoever approved it did not know.
 * @param acceptances of the plan's source, those that count
 */
export function acceptedSincePlan(
  { steps, to }: Pick<Plan, 'steps' | 'to'>,
  acceptances: readonly (Acceptance & RecordKey & { readonly path: string })[],
  definitions: (kind: Kind) => ResourceDefinition,
): AcceptedSince[] {
  const keyOf = (key: RecordKey): string => familyRecordKey(definitions(key.kind), key);
  const planned = Date.parse(to.at ?? '');
  const later = Map.groupBy(
    acceptances.filter(({ acceptedAt }) => !(Date.parse(acceptedAt) <= planned)),
    keyOf,
  );
  if (later.size === 0) return [];
  return steps.filter(isExecutable).flatMap((step): AcceptedSince[] => {
    const { accepted = [], desired, fields } = step;
    const known = accepted.map(({ path }) => {
      const field = fields.find((each) => each.path === path);
      return field === undefined ? path : placeOf(field);
    });
    const own = new Set([step, ...(desired === null ? [] : [desired])].map(keyOf));
    const places = step.action === 'create' || step.action === 'remove' ? [''] : fields.map(placeOf);
    return [...own]
      .flatMap((key) => later.get(key) ?? [])
      .filter(({ path }) => places.some((place) => isSamePlace(place, path)))
      .filter(({ path }) => !known.some((place) => isSamePlace(place, path)))
      .map((acceptance) => ({ step, accepted: placed(acceptance.path, acceptance) }));
  });
}

/** True where one is the other, or within it. */
function isSamePlace(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}

/** That the requests of a plan, or of an undo's, set back accepted drift, with the counts; empty if they do not. */
export function acceptedWarnings(steps: readonly PlanStep[], isUndo: boolean): string[] {
  const [records, changed] = [new Set<string>(), new Set<string>()];
  const fields = new Set<string>();
  for (const { kind, scope, id, accepted = [] } of steps.filter(isExecutable)) {
    const record = JSON.stringify([kind, scope, id]);
    for (const { path } of accepted) {
      (path === '' ? records : changed).add(record);
      if (path !== '') fields.add(`${record} ${path}`);
    }
  }
  if (records.size + fields.size === 0) return [];
  const parts = [
    ...(fields.size === 0 ? [] : [`${plural(fields.size, 'field')} of ${plural(changed.size, 'record')}`]),
    ...(records.size === 0 ? [] : [plural(records.size, 'entire record')]),
  ];
  const [were, them] = records.size + fields.size === 1 ? ['was', 'it'] : ['were', 'them'];
  const what = `${parts.join(' and ')} ${were} accepted as drift, and this`;
  return [
    isUndo
      ? `${what} undo sets ${them} back`
      : `${what} restore sets ${them} back: a plan made with --keep-accepted leaves ${them}`,
  ];
}
