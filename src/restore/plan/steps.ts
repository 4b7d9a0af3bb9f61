/** Building blocks for the steps of all actions. */
import type { PersonCondition } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import { valueDigest } from '../../diff/canonical.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { idText } from '../../diff/match-records.ts';
import { topMember } from '../places.ts';
import { isNameRedacted } from '../secrets.ts';
import type { AcceptedDrift } from './accepted.ts';
import type { Matching } from './matching.ts';
import type {
  AddUntouched,
  Obstacle,
  Draft,
  DraftRequest,
  SecretNeed,
  PlanInput,
  Parameter,
  Fill,
  PathPlan,
} from './plan.ts';
import type { References } from './references.ts';

/** The state of the planner, passed to every planning function. */
export interface Planning {
  readonly input: PlanInput;
  readonly matching: Matching;
  readonly references: References;
  readonly accepted: AcceptedDrift;
  readonly drafts: Map<string, Draft>;
  /** By kind, members that are probably settings and that no request sets (`settings.ts`). */
  readonly unsendableByKind: Map<Kind, readonly string[]>;
  /** Adds a step, or replaces the one of its key. */
  put(step: Draft): void;
  readonly addUntouched: AddUntouched;
}

/** The members of a step before anything is planned for it. */
export const NOTHING_PLANNED = {
  ...{ after: [], fields: [], request: null, reason: null, obstacle: null },
  ...{ needs: [], precondition: null, desired: null, inverse: null },
} as const;

/** A blocked step for a record, without a request. At least one of `desired` and `live` is given. */
export function draftOf(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord | null,
  live: ParsedRecord | null,
  key: string,
): Draft {
  const shown = live ?? desired;
  if (shown === null) throw new Error('a step needs a record');
  const scope = live?.scope ?? planning.matching.liveScope(shown.scope) ?? shown.scope;
  const named = desired ?? shown;
  return {
    key,
    action: 'blocked',
    kind: definition.kind,
    scope,
    id: shown.id,
    name: recordName(definition, named.body, named.id),
    ...NOTHING_PLANNED,
    desired:
      desired === null
        ? null
        : {
            kind: planning.matching.recordedKind(desired),
            scope: desired.scope,
            id: desired.id,
            digest: valueDigest(desired.body),
          },
    ...planning.accepted.marksOf(desired, live),
  };
}

/** A request of the kind, with its path parameters. */
export function requestFor(
  definition: ResourceDefinition,
  role: DraftRequest['role'],
  parameters: readonly Parameter<string>[],
  body: JsonObject | null,
  fills: readonly Fill<string>[],
  act: string | null = null,
): DraftRequest {
  const operation =
    role === 'act'
      ? definition.operations.find((each) => each.action === act && each.method === 'POST')
      : definition.operation(role);
  if (operation === undefined) throw new Error(`${definition.kind} has no operation ${act ?? role}`);
  const { method, path: template } = operation;
  return { kind: definition.kind, method, template, parameters, role, act, body, fills, alternative: null };
}

/** The path from the profile for a creation or update, with the parameters that it takes from the body; null without one. */
export function alternativePath(
  definition: ResourceDefinition,
  role: 'create' | 'update',
  parameters: readonly Parameter<string>[],
  body: JsonValue,
  fills: readonly Fill<string>[],
): PathPlan<string> | null {
  const template = definition.restore.alternativePaths[role];
  if (template === undefined) return null;
  const all = [...parameters];
  for (const [, name = ''] of template.matchAll(/:([a-z_]+)/g)) {
    if (all.some((each) => each.name === name)) continue;
    const fill = fills.find((each) => each.pointer === `/${name}` && each.from === 'step');
    const value = isJsonObject(body) ? getOwn(body, name) : undefined;
    if (fill?.from === 'step') all.push({ name, step: fill.step });
    else if (value === undefined || value === null) return null;
    else all.push({ name, value: idText(value) });
  }
  return { template, parameters: all };
}

/** Keys of the steps whose ids the parameters and fills need. */
export function requiredSteps(
  parameters: readonly Parameter<string>[],
  fills: readonly Fill<string>[],
): string[] {
  return [...new Set([...parameters, ...fills].flatMap((each) => ('step' in each ? [each.step] : [])))];
}

/** The path parameters of a live record. */
export function liveParameters({ idParameter }: ResourceDefinition, live: ParsedRecord): Parameter<string>[] {
  const scope = Object.entries(live.scope).map(([name, value]) => ({ name, value }));
  return [...scope, { name: idParameter, value: live.id }];
}

/** The missing secrets that the configuration can supply: values, not names of members. */
export function suppliable(needs: readonly SecretNeed[]): SecretNeed[] {
  return needs.filter(({ any_of: anyOf }) => !anyOf.some(isNameRedacted));
}

/**
 * Why secrets are missing, and where to configure them. Names places, never values.
 * @param areListed true if the report lists the places of these needs separately
 */
export function needsText(needs: readonly SecretNeed[], areListed = true): string {
  const values = suppliable(needs);
  const names = needs.filter((need) => !values.includes(need)).flatMap(({ any_of: anyOf }) => anyOf);
  const byRemedy = Map.groupBy(values, ({ unset }) => unset);
  return [
    ...(names.length === 0
      ? []
      : [`the mirror never stored the name of ${names.join(', ')} (redact: true): set it by hand`]),
    ...[...byRemedy].map(([unset, own]) =>
      unset === undefined
        ? `${lackText(own, areListed)}: add ${areListed ? 'them' : 'the value'} under secrets in the configuration`
        : `${lackText(own, false)}: it is under secrets in the configuration, but ${unset}`,
    ),
  ].join('; ');
}

/** Why the values are missing. */
function lackText(values: readonly SecretNeed[], areListed: boolean): string {
  const placesOf = (why: SecretNeed['because']): string => {
    const places = values
      .filter(({ because }) => because === why)
      .map(({ any_of: anyOf }) => anyOf.join(' or '));
    return areListed && places.length > 0 ? 'the secrets' : places.join(', ');
  };
  const [redacted, hidden] = [placesOf('redacted'), placesOf('hidden')];
  const [masked, omitted] = [placesOf('masked'), placesOf(undefined)];
  return [
    ...(redacted === '' ? [] : [`the mirror never stored ${redacted} (redact: true)`]),
    ...(hidden === '' ? [] : [`Tidemark masked ${hidden} when it recorded what was overwritten`]),
    ...(masked === '' ? [] : [`the API returns only a mask of ${masked}`]),
    ...(omitted === '' ? [] : [`the API does not return ${omitted}`]),
  ].join('; ');
}

/** The step, blocked. */
export function blocked(draft: Draft, obstacle: Obstacle, reason: string): Draft {
  return { ...draft, action: 'blocked', request: null, precondition: null, inverse: null, obstacle, reason };
}

/** The step as manual work. */
export function manual(draft: Draft, obstacle: Obstacle, reason: string): Draft {
  return { ...blocked(draft, obstacle, reason), action: 'manual' };
}

/** The reasons as one text; null if there are none. */
export function joinedReasons(reasons: readonly (string | null)[]): string | null {
  return reasons.filter((reason) => reason !== null).join('; ') || null;
}

/**
 * True if a person has to do this for the record.
 * @param live the live body; null if the record is yet to be created
 */
export function isDue(
  { pointer, value, doneWhen }: PersonCondition,
  desired: JsonValue,
  live: JsonValue | null,
): boolean {
  const recorded = resolvePointer(desired, pointer);
  if (value === undefined ? !isText(recorded) : recorded !== value) return false;
  if (live === null) return true;
  if (doneWhen !== undefined && resolvePointer(live, doneWhen.pointer) === doneWhen.value) return false;
  const now = resolvePointer(live, pointer);
  return now !== recorded && (value !== undefined || isText(now));
}

function isText(value: JsonValue | undefined): value is string {
  return typeof value === 'string' && value !== '';
}

/**
 * What a person has to do, and what to restore afterwards.
 * @param due what is to be done; empty: everything that the kind may need
 * @param live the live body; null if the record is yet to be created
 * @param name display name of the record
 * @param waiting fields that can be set only afterwards
 */
export function personReason(
  { input }: Pick<Planning, 'input'>,
  definition: ResourceDefinition,
  due: readonly PersonCondition[],
  live: JsonValue | null,
  name: string,
  waiting: readonly string[],
): string {
  const what = (due.length > 0 ? due : definition.restore.byPerson).map((condition) =>
    // Values that a sandbox assigns are of no use elsewhere.
    input.isPractice === true ? condition.reason : reasonWithRecord(definition, condition, live, name),
  );
  const then = waiting.length === 0 ? '' : `; then restore again: sets ${waiting.join(', ')}`;
  return `${what.join('; ')}${then}`;
}

/** The reason with the value that the person needs, or how to see it if it is a secret or not known yet. */
export function reasonWithRecord(
  { kind, fields }: ResourceDefinition,
  { reason, shows }: PersonCondition,
  live: JsonValue | null,
  name: string,
): string {
  if (shows === undefined) return reason;
  const member = topMember(shows);
  if (fields.some((field) => field.name === member && field.isSecret)) {
    const record = /^[\w.@-]+$/.test(name) ? name : JSON.stringify(name);
    return `${reason} (${member}: \`tidemark sync\`, then \`tidemark show ${kind} ${record} --show-secrets\`)`;
  }
  if (live === null) return `${reason} (${member} will be new: the report of the restore shows it)`;
  const value = resolvePointer(live, shows);
  return isText(value) ? `${reason} (${member}: ${value})` : reason;
}
