/** The verdict for each record and field of a restored state, from the plan that remains. */
import { shownText } from '../../catalog/masks.ts';
import { CATALOG, familyKinds } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { isJsonObject, type JsonValue } from '../../core/json.ts';
import type { ParsedRecord, RecordChange } from '../../diff/change.ts';
import { compareBodies } from '../../diff/compare.ts';
import type { DrillVerdict } from '../../diff/drill-document.ts';
import type { RecordKey } from '../../catalog/order.ts';
import { diffSources } from '../../diff/sources.ts';
import type { State } from '../../diff/states.ts';
import { topMember } from '../places.ts';
import { recordsNamedBy } from '../plan/dependents.ts';
import { matchStates } from '../plan/matching.ts';
import type { Obstacle, PlanStep } from '../plan/plan.ts';
import { referencesOf, remapped, type References } from '../plan/references.ts';
import { creatableFields, writableFields } from '../plan/settings.ts';
import { familyRecordKey, recordKey } from '../records.ts';
import type { Restored } from './rounds.ts';
import { isForeign, type DrillSnapshot } from './snapshot.ts';

type Failing = Exclude<DrillVerdict, 'comes_back'>;

/** Other obstacles give `unknown`. */
const BY_OBSTACLE: Readonly<Partial<Record<Obstacle, Failing>>> = {
  secret_missing: 'needs_secret',
  ambiguous: 'needs_person',
  consent: 'needs_person',
  ended: 'needs_person',
  last_holder: 'needs_person',
  name_taken: 'needs_person',
  needs_person: 'needs_person',
  not_creatable: 'needs_person',
  not_replaceable: 'needs_person',
  own_user: 'needs_person',
  immutable: 'cannot',
  no_value: 'cannot',
  other_organization: 'cannot',
  other_owner: 'cannot',
};

/** General reasons, instead of those that name single records. */
const IN_GENERAL: Readonly<Partial<Record<Obstacle, string>>> = {
  secret_missing:
    'the API does not return one of its secrets; add the value under secrets in the configuration',
  depends_on_blocked: 'another record that is needed does not come back',
  reference_unknown: 'a record that is referred to is not in the snapshot',
  ambiguous: 'several records have this name, so none can be chosen',
};

/** A record with several verdicts counts with the last of these. */
const BEST_FIRST: readonly DrillVerdict[] = [
  'comes_back',
  'needs_person',
  'needs_secret',
  'cannot',
  'unknown',
];

export interface RecordVerdict {
  readonly record: ParsedRecord;
  readonly verdict: DrillVerdict;
  /** Null for `comes_back`. */
  readonly reason: string | null;
  /** True if it comes back without what the API does not offer, which has to be entered by hand. */
  readonly isLacking: boolean;
  /** The verdict of each member of the body, in its order, without volatile ones. */
  readonly fields: ReadonlyMap<string, DrillVerdict>;
}

export interface Verdicts {
  /** The remaining steps of the last plan, without those that concern only members that the sandbox adds. */
  readonly steps: readonly PlanStep[];
  of(record: ParsedRecord): RecordVerdict;
  ofStep(step: PlanStep): Failing;
  /** One line. */
  reasonOf(step: PlanStep): string;
}

/**
 * The verdicts of a drill.
 * @param remaining what differs between snapshot and sandbox (`remainingChanges`): a record that differs and that the plan does not
 * mention is `unknown`, never `comes_back`
 */
export function drillVerdicts(restored: Restored, remaining: ReadonlyMap<string, RecordChange>): Verdicts {
  const { input, plan } = restored;
  const matching = matchStates(input);
  const references = referencesOf(input, matching);
  const { definitions } = input;
  const keyOf = (record: RecordKey): string => familyRecordKey(definitions(record.kind), record);
  const desired = new Map(input.desired.records.map((record) => [keyOf(record), record]));
  const keyOfStep = ({ desired: about }: PlanStep): string => (about === null ? '' : keyOf(about));
  const left = plan.steps.filter((step) => {
    const body = desired.get(keyOfStep(step))?.body;
    const isOfSandbox =
      step.action === 'blocked' &&
      step.fields.length > 0 &&
      step.fields.every(({ path }) => isSandboxMember(body, path));
    return step.desired !== null && !isOfSandbox;
  });
  const steps = Map.groupBy(left, keyOfStep);
  const live = new Map(
    [...matching.kinds.values()].flatMap(({ pairs }) =>
      pairs.map((pair) => [keyOf(pair.desired), pair.live]),
    ),
  );
  const failures = failuresOf(restored);
  const byHand = new Map(
    restored.reports.flatMap(({ by_hand: own = [] }) => own.map((each) => [`${each.kind} ${each.id}`, each])),
  );

  const ofStep = (step: PlanStep, passed: ReadonlySet<string> = new Set()): Failing => {
    if (step.obstacle !== 'depends_on_blocked')
      return (step.obstacle === null ? undefined : BY_OBSTACLE[step.obstacle]) ?? 'unknown';
    const own = keyOfStep(step);
    const record = desired.get(own);
    const needed =
      record === undefined
        ? []
        : recordsNamedBy(definitions(record.kind), record).map(
            ({ kind, id }) => idKeys.get(`${kind} ${id}`) ?? '',
          );
    const causes = [own, ...needed].flatMap((key) =>
      passed.has(key)
        ? []
        : (steps.get(key) ?? [])
            .filter((each) => each !== step && each.obstacle !== null)
            .map((each) => ofStep(each, new Set([...passed, key]))),
    );
    return causes.length === 0 ? 'unknown' : worst(causes);
  };
  const idKeys = new Map([...desired].map(([key, { kind, id }]) => [`${kind} ${id}`, key]));

  const of = (record: ParsedRecord): RecordVerdict => {
    const definition = definitions(record.kind);
    const key = keyOf(record);
    const own = steps.get(key) ?? [];
    const considered = own.map((step) => ({ step, verdict: ofStep(step) }));
    const other = live.get(key);
    const { verdict, reason, isLacking = false } = recordVerdict();
    return {
      record,
      verdict,
      reason,
      isLacking,
      fields: fieldVerdicts(definition, record, other, verdict, considered, references),
    };

    function recordVerdict(): Pick<RecordVerdict, 'verdict' | 'reason'> & { readonly isLacking?: boolean } {
      const worst = considered.toSorted((a, b) => rankOf(b.verdict) - rankOf(a.verdict))[0];
      if (worst !== undefined) return { verdict: worst.verdict, reason: reasonOf(worst.step, failures) };
      if (other === undefined) {
        const why = plan.left.find(({ kind, names }) => kind === record.kind && names.length > 0);
        return { verdict: 'cannot', reason: why?.reason ?? 'the restore does not change it' };
      }
      const change = remaining.get(recordKey(record));
      const hand = byHand.get(`${other.kind} ${other.id}`);
      if (change === undefined && hand !== undefined)
        return { verdict: 'needs_person', reason: hand.reason, isLacking: true };
      if (change === undefined) return { verdict: 'comes_back', reason: null };
      const paths = change.fields.slice(0, 5).map(({ path }) => shownText(path, definitions(record.kind)));
      return { verdict: 'unknown', reason: `it came back with another value at ${paths.join(', ')}` };
    }
  };
  return { steps: left, of, ofStep: (step) => ofStep(step), reasonOf: (step) => reasonOf(step, failures) };
}

/** By record, why its last request was refused. */
function failuresOf({ reports }: Restored): ReadonlyMap<string, string> {
  return new Map(
    reports
      .flatMap(({ steps }) => steps)
      .flatMap(({ kind, name, outcome, error }) =>
        outcome === 'failed' && error !== null ? [[`${kind} ${name}`, error.message]] : [],
      ),
  );
}

function reasonOf(step: PlanStep, failures: ReadonlyMap<string, string>): string {
  if (step.obstacle !== null) {
    const unset = step.needs.find((need) => need.unset !== undefined)?.unset;
    if (unset !== undefined)
      return `the API does not return one of its secrets, which is under secrets in the configuration, but ${unset}`;
    return IN_GENERAL[step.obstacle] ?? step.reason ?? step.obstacle;
  }
  const failure = failures.get(`${step.kind} ${step.name}`);
  return failure === undefined
    ? 'the request was accepted, but the record differs from it'
    : `refused: ${failure}`;
}

function rankOf(verdict: DrillVerdict): number {
  return BEST_FIRST.indexOf(verdict);
}

function worst(verdicts: readonly Failing[]): Failing {
  return verdicts.reduce((worst, each) => (rankOf(each) > rankOf(worst) ? each : worst));
}

function fieldVerdicts(
  definition: ResourceDefinition,
  record: ParsedRecord,
  live: ParsedRecord | undefined,
  verdict: DrillVerdict,
  considered: readonly { readonly step: PlanStep; readonly verdict: Failing }[],
  references: References,
): Map<string, DrillVerdict> {
  const fields = new Map<string, DrillVerdict>();
  if (!isJsonObject(record.body)) return fields;
  const volatile = new Set(definition.fields.filter(({ isVolatile }) => isVolatile).map(({ name }) => name));
  const names = Object.keys(record.body).filter((name) => !volatile.has(name));
  if (live === undefined) return new Map(names.map((name) => [name, verdict]));
  const body = remapped(definition, record, references).body;
  const differing = new Set(
    compareBodies(definition, live.body, body, 'default').map(({ path }) => topMember(path)),
  );
  const settable = new Set(creatableFields(definition).map(({ name }) => name));
  const persons = new Set(definition.restore.byPerson.map(({ pointer }) => topMember(pointer)));
  const byStep = new Map<string, Failing>();
  for (const { step, verdict: own } of considered) {
    for (const { path } of step.fields) byStep.set(topMember(path), own);
  }
  for (const name of names) {
    if (!differing.has(name)) fields.set(name, 'comes_back');
    else if (persons.has(name)) fields.set(name, 'needs_person');
    else fields.set(name, byStep.get(name) ?? (settable.has(name) ? 'unknown' : 'cannot'));
  }
  return fields;
}

/**
 * The differences between the snapshot and the restored sandbox, with ids mapped: of requested records, in catalog order, and by key of
 * the desired record. Compares managed fields, as a restore does, or entire bodies for kinds without known writable fields. For a kind
 * of a family without such fields, only the presence of its records counts.
 */
export function remainingChanges(
  snapshot: DrillSnapshot,
  { input, states }: Restored,
): { readonly changes: readonly RecordChange[]; readonly byRecord: ReadonlyMap<string, RecordChange> } {
  const { definitions } = input;
  const counterparts = matchesOf(input);
  const from: State = { reference: snapshot.desired.reference, records: snapshot.states };
  const own = new Set(
    input.live.records.filter((record) => !isForeign(definitions(record.kind), record)).map(recordKey),
  );
  const to: State = {
    reference: input.live.reference,
    records: states.filter((record) => own.has(recordKey(record))),
  };
  const modeOf = (kind: Kind): 'managed' | 'default' =>
    writableFields(definitions(kind)).length > 0 || definitions(kind).family !== null ? 'managed' : 'default';
  const found = (['managed', 'default'] as const).flatMap((mode) => {
    const kinds = new Set(snapshot.kinds.filter((kind) => modeOf(kind) === mode));
    if (kinds.size === 0) return [];
    return [...diffSources(from, to, { mode, definitions, kinds, counterparts: counterparts.list }).changes];
  });
  const byRecord = new Map<string, RecordChange>();
  const changes: RecordChange[] = [];
  for (const { kind } of CATALOG) {
    for (const change of found.filter((each) => each.kind === kind)) {
      // Additional records in the sandbox are not a loss, such as the key's user in an organization without members.
      if (change.change === 'added') continue;
      const desired = change.change === 'removed' ? change : counterparts.desired(kind, change);
      if (desired === undefined || !snapshot.isAsked({ kind, scope: desired.scope, id: desired.id }))
        continue;
      // Not members that only the sandbox shows: a deployment may omit documented members, so the snapshot lacks them.
      const own =
        'body' in desired
          ? { ...change, fields: change.fields.filter(({ path }) => !isSandboxMember(desired.body, path)) }
          : change;
      if (own.change === 'changed' && own.fields.length === 0) continue;
      byRecord.set(recordKey({ ...desired, kind }), own);
      changes.push(own);
    }
  }
  return { changes, byRecord };
}

/** True for a place in a member that the desired body lacks. */
function isSandboxMember(desired: JsonValue | undefined, path: string): boolean {
  return isJsonObject(desired) && !Object.hasOwn(desired, topMember(path));
}

/** The pairs of the planner's matching, for all kinds of a family, because each of them is compared. */
function matchesOf(input: Restored['input']): {
  list: { kind: Kind; from: string; to: string }[];
  /** The desired record of a live one. */
  desired: (kind: Kind, live: Pick<RecordChange, 'scope' | 'id'>) => ParsedRecord | undefined;
} {
  const list: { kind: Kind; from: string; to: string }[] = [];
  const places = new Map<string, ParsedRecord>();
  for (const { definition, pairs } of matchStates(input).kinds.values()) {
    const kinds = familyKinds(definition.kind);
    for (const { desired, live } of pairs) {
      for (const kind of kinds) {
        list.push({ kind, from: desired.id, to: live.id });
        places.set(recordKey({ ...live, kind }), desired);
      }
    }
  }
  return { list, desired: (kind, { scope, id }) => places.get(recordKey({ kind, scope, id })) };
}
