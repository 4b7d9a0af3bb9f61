/** The context of all steps of a restore, and the request of a step once the ids from earlier steps are known. */
import type { WriteClient } from '../../api/write-client.ts';
import { fillPath } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { withShownFields } from '../../catalog/shown-fields.ts';
import type { Clock } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import { type JsonValue, parseLossless, isJsonObject } from '../../core/json.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import { valueDigest } from '../../diff/canonical.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import type { RestoreStepRow } from '../../mirror/restores.ts';
import { withMember } from '../places.ts';
import type { PlannedRequest, PlanStep, PathPlan, SecretLookup } from '../plan/plan.ts';
import { bySendableKey, unsendableReferences } from '../plan/settings.ts';
import { naturalKeyDigest } from '../records.ts';
import type { RestoreJournal } from './journal.ts';
import type { LiveRecords } from './live-records.ts';

/** Looks up the body of a desired record. */
export type DesiredLookup = (key: {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}) => JsonValue | undefined;

/** The context for looking up steps, without anything that writes to the service. */
export interface LookUpContext {
  readonly source: string;
  readonly live: LiveRecords;
  readonly journal: RestoreJournal;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly secrets: SecretLookup;
  readonly desired: DesiredLookup;
  /** The present id of a record that an earlier restore recreated; undefined if none did. */
  readonly idMap: (kind: Kind, id: string) => string | undefined;
  /** The present id of the record that a step created: an undo of an undo may have created it again. Null if it created none. */
  readonly newIdOf: (n: number) => string | null;
  /** The live id of a record to which the desired state refers, also of one that this restore created. */
  readonly idNow: (kind: Kind, id: string) => string;
  /** The ids of records with that natural key (its digest) in a collection, in the mirror's newest run. */
  readonly namesakes: (definition: ResourceDefinition, scope: Scope, key: string) => readonly string[];
  /** Live ids that the plan matched with desired records of another id, as `kind id`. */
  readonly adopted: ReadonlySet<string>;
  /** Live ids that the plan removes after their replacement was created, as `kind id`. */
  readonly replaced: ReadonlySet<string>;
  /** Live ids that the plan removes, as `kind id`: created records may have their names. */
  readonly leaving: ReadonlySet<string>;
  /** Names (`namePlace`) that several creations of the plan send, so that they do not identify a record. */
  readonly sharedNames: ReadonlySet<string>;
  /** Names that creations of the plan send, as `kind digest`. */
  readonly plannedNames: ReadonlySet<string>;
  /** The other restore that created the record, according to its journal; undefined if there is none. */
  readonly createdBy: (kind: Kind, id: string) => number | undefined;
  /** True for an undo's look-ups: records that another restore created are ignored. */
  readonly leavesOthers: boolean;
  /** Records that steps claimed as theirs, as `kind id`, by step: two steps with one name never take the same record. */
  readonly claims: Map<string, number>;
  /** Manual steps, by the step that creates their record. */
  readonly persons: ReadonlyMap<number, readonly PlanStep[]>;
  /** Actions, by the step that creates or changes the same record before. */
  readonly actions: ReadonlyMap<number, PlanStep>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: ApplyEvents;
  /** Steps that a process which ended had journaled as `sent`: whether it sent them is unknown. */
  readonly perhapsSent: Set<number>;
  /** Templates of a profile's paths that this deployment does not know: it accepted the documented one instead. */
  readonly unknownPaths: Set<string>;
  /** True for a resumed restore, whose plan may be old. */
  readonly isResumed: boolean;
  /** True if the mirror comes from a backup that was made after the restore began: its journal may lack later entries. */
  readonly isFromBackup: boolean;
  /** When aborted, nothing more is begun. */
  readonly signal: AbortSignal;
  /** Aborted some time after `signal`: then the requests in flight are given up. */
  readonly grace: AbortSignal;
}

export interface StepContext extends LookUpContext {
  readonly client: WriteClient;
}

/** Writes a debug log line about a step, without messages of the service, which may repeat what was sent. */
export function logStep(
  { log }: Pick<LookUpContext, 'log'>,
  { n, kind, action }: PlanStep,
  message: string,
  facts: Readonly<Record<string, unknown>>,
): void {
  if (log.isLevelEnabled('debug')) log.debug({ step: n, kind, action, ...facts }, message);
}

/** A step with its request filled in. */
export interface ReadyStep {
  readonly step: PlanStep;
  readonly request: PlannedRequest;
  /** Of the request's kind. */
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Null for creations. */
  readonly id: string | null;
  /** JSON text; it may contain secrets. */
  readonly body: string | null;
  readonly sent: JsonValue | null;
  /** The secrets in the body. */
  readonly secrets: readonly string[];
  readonly alternativePath: string | null;
}

/**
 * Fills the request of a step in.
 * @throws TidemarkError when a value that is not in the plan cannot be found: nothing was sent
 */
export function readyStep(context: LookUpContext, step: PlanStep, request: PlannedRequest): ReadyStep {
  const definition = context.definitions(request.kind);
  const idOf = (n: number): string | undefined => context.newIdOf(n) ?? undefined;
  const parameter = (name: string, what: string): string => {
    const found = request.parameters.find((each) => each.name === name);
    if (found === undefined || 'value' in found) return known(found?.value, what);
    return known(idOf(found.step), what, found.step);
  };
  const scope: Scope = Object.fromEntries(
    definition.scope.map((key) => [key, parameter(key, `the id for ${key}`)]),
  );
  const desired = desiredRecord(context, step, request);
  const secret = (pointer: string): Secret | undefined => context.secrets.find(desired, pointer);
  for (const fill of request.fills) {
    const what = `the value for ${fill.pointer}`;
    if (fill.from === 'step') known(idOf(fill.step), what, fill.step);
    else if (fill.from === 'configuration') known(secret(fill.pointer)?.reveal(), what);
  }
  const values = { idOf, secret, desired: withShownFields(definition, desired.body) };
  const body = filledBody(request, values);
  const isCreation = request.role === 'create';
  return {
    ...{ step, request, definition, scope },
    id: isCreation ? null : parameter(definition.idParameter, `the id of the ${definition.title.one}`),
    body,
    sent: body === null ? null : parseLossless(body),
    secrets: filledSecrets(request, values),
    alternativePath: request.alternative === null ? null : filledPath(request.alternative, { idOf }),
  };
}

/**
 * The digest of the natural key that the step's record has or will have; null if the kind has none, and for a creation if the service
 * chooses a part of it: then only the content identifies the record.
 */
export function keyOfStep({ step, definition, sent, request }: ReadyStep): string | null {
  // Of what is sent, because the plan's digest does not have the ids from earlier steps.
  const ofSent = sent === null ? null : naturalKeyDigest(definition, sent);
  if (ofSent !== null || request.kind !== step.kind) return ofSent;
  const chosen = request.role === 'create' ? unsendableReferences(definition) : [];
  if (definition.naturalKey.some((pointer) => chosen.includes(pointer))) return null;
  return step.precondition?.state === 'absent' ? step.precondition.digest : null;
}

/**
 * The digest of the name of a creation without a natural key (the service chooses a part of it): a record of that name may be the created
 * one, changed since. Null for other steps, and if several creations of the plan have the name.
 */
function nameOfStep(context: LookUpContext, ready: ReadyStep): string | null {
  const { step, definition, request } = ready;
  if (request.role !== 'create' || request.kind !== step.kind || keyOfStep(ready) !== null) return null;
  const name = nameSent(definition, request);
  return name === null || context.sharedNames.has(namePlace(definition, request, name)) ? null : name;
}

/** The digest of the part of the natural key that a creation sends; null if it sends all of it, or nothing. */
function nameSent(definition: ResourceDefinition, { body }: PlannedRequest): string | null {
  const byName = bySendableKey(definition);
  return byName === definition || body === null ? null : naturalKeyDigest(byName, body);
}

function namePlace(definition: ResourceDefinition, { parameters }: PlannedRequest, name: string): string {
  const within = definition.scope.map((key) => parameters.find((each) => each.name === key));
  return JSON.stringify([definition.kind, within, name]);
}

/** `sharedNames` of `LookUpContext`. */
export function sharedNames(
  steps: readonly PlanStep[],
  definitions: LookUpContext['definitions'],
): ReadonlySet<string> {
  const places = steps.flatMap(({ kind, request }) => {
    if (request?.role !== 'create' || request.kind !== kind) return [];
    const definition = definitions(kind);
    const name = nameSent(definition, request);
    return name === null ? [] : [namePlace(definition, request, name)];
  });
  const byPlace = Map.groupBy(places, (place) => place);
  return new Set([...byPlace].flatMap(([place, { length }]) => (length > 1 ? [place] : [])));
}

/** A test for live records with the name of the step (`nameOfStep`) that the plan does not remove; null if the name identifies none. */
export function hasNameOf(
  context: LookUpContext,
  ready: ReadyStep,
): ((id: string, body: JsonValue) => boolean) | null {
  const name = nameOfStep(context, ready);
  const byName = bySendableKey(ready.definition);
  if (name === null) return null;
  return (id, body) =>
    !context.leaving.has(`${byName.kind} ${id}`) && naturalKeyDigest(byName, body) === name;
}

/** The bodies that the record may have after the step: as sent, and as the action that follows leaves it. */
export function bodiesLeft(context: LookUpContext, ready: ReadyStep): readonly JsonValue[] {
  const sent = ready.sent ?? {};
  return context.actions.has(ready.step.n) ? [sent, afterAction(context, ready, sent)] : [sent];
}

/**
 * The body after the action that follows the step, such as the start of an export that was created stopped: with the state that it sets,
 * and without the other fields that it sets.
 */
export function afterAction(
  { actions }: LookUpContext,
  { step, definition: { restore } }: ReadyStep,
  sent: JsonValue,
): JsonValue {
  const act = actions.get(step.n)?.request?.act;
  const action = restore.state?.actions.find((each) => each.action === act);
  if (restore.state === null || action === undefined) return sent;
  const others = action.alsoSets.reduce((body, name) => withMember(body, [name], undefined) ?? {}, sent);
  return withMember(others, [restore.state.field], action.value) ?? {};
}

/**
 * True for a live record that belongs to another step, another restore, or another desired record of the same name. Any other record was
 * created by this step, or by somebody else in the meantime.
 */
export function isTaken(context: LookUpContext, { step, definition }: ReadyStep, id: string): boolean {
  const claimedBy = context.claims.get(`${definition.kind} ${id}`);
  if (claimedBy !== undefined) return claimedBy !== step.n;
  if (context.replaced.has(`${definition.kind} ${id}`)) return true;
  if (context.adopted.has(`${definition.kind} ${id}`)) return true;
  // A record that this plan removes may still exist.
  if (context.leaving.has(`${definition.kind} ${id}`)) return true;
  if (context.leavesOthers && context.createdBy(definition.kind, id) !== undefined) return true;
  if (step.desired === null || step.desired.id === id) return false;
  const { kind, scope } = step.desired;
  return context.desired({ kind, scope, id }) !== undefined;
}

/** Claims a record for the step; false if another step has claimed it before. */
export function claim(context: LookUpContext, { step, definition }: ReadyStep, id: string): boolean {
  const key = `${definition.kind} ${id}`;
  const by = context.claims.get(key) ?? step.n;
  context.claims.set(key, by);
  return by === step.n;
}

function desiredRecord(context: LookUpContext, step: PlanStep, request: PlannedRequest): ParsedRecord {
  const { desired } = step;
  const { id, scope } = desired ?? step;
  const asSent = { kind: step.kind, scope, id, body: request.body ?? {} };
  // Looked up only for values that are not in the plan.
  if (desired === null || request.fills.every(({ from }) => from === 'step')) return asSent;
  const body = context.desired(desired);
  const isTheSame = (): boolean => body !== undefined && valueDigest(body) === desired.digest;
  // A secret must come from the record from which the plan was made: an export may have been edited since.
  if (request.fills.some(({ from }) => from === 'desired') && !isTheSame()) {
    known(undefined, `the secret of ${step.kind} ${step.name}: the desired state is not the planned one`);
  }
  return body === undefined ? asSent : { ...asSent, body };
}

/** @param giver the step that should have given the id */
function known(value: string | undefined, what: string, giver?: number): string {
  if (value !== undefined) return value;
  const reason =
    giver === undefined ? `nothing supplies ${what}` : `it needs step ${giver}, which returned no id`;
  throw new TidemarkError('reference_unknown', reason, {
    hint: 'make a new plan, by the command that made this one',
  });
}

/** The sources of values that are not in the plan. */
interface FillValues {
  /** The id of the record that an applied step created; undefined if there is none. */
  readonly idOf: (step: number) => string | undefined;
  /** The configured secret for a place of the desired record. */
  readonly secret: (pointer: string) => Secret | undefined;
  /** The desired record's body; null if the step has none. */
  readonly desired: JsonValue | null;
}

/**
 * The path below the base URL, every value percent-encoded.
 * @throws Error when an id from another step is missing
 * @internal
 */
export function filledPath(path: PathPlan, values: Pick<FillValues, 'idOf'>): string {
  const known = path.parameters.map((each): [string, string | undefined] => [
    each.name,
    'value' in each ? each.value : values.idOf(each.step),
  ]);
  return fillPath(path.template, Object.fromEntries(known));
}

/**
 * The body as JSON text, numbers digit by digit; null for a request without one. It may contain secrets, so it must only be sent.
 * @throws Error when a value is missing, which the caller has checked
 * @internal
 */
export function filledBody(request: PlannedRequest, values: FillValues): string | null {
  if (request.body === null) return null;
  let body: JsonValue = request.body;
  for (const fill of request.fills) {
    const value = fillValue(fill, values);
    if (value === undefined) throw new Error(`nothing supplies the value for ${fill.pointer}`);
    body = withMember(body, splitPointer(fill.pointer), value) ?? value;
  }
  return JSON.stringify(body);
}

/** Every text and number of the secrets in the body, to be masked in responses that repeat them. */
function filledSecrets(request: PlannedRequest, values: FillValues): string[] {
  return request.fills.flatMap((fill) => {
    const value = fill.from === 'step' ? undefined : fillValue(fill, values);
    return value === undefined ? [] : textsIn(value);
  });
}

function textsIn(value: JsonValue): string[] {
  if (typeof value === 'string') return [value];
  if (value === null || typeof value === 'boolean') return [];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (!isJsonObject(value)) return [JSON.stringify(value)];
  return Object.values(value).flatMap(textsIn);
}

function fillValue(fill: PlannedRequest['fills'][number], values: FillValues): JsonValue | undefined {
  if (fill.from === 'configuration') return values.secret(fill.pointer)?.reveal();
  if (fill.from === 'desired') {
    return values.desired === null ? undefined : resolvePointer(values.desired, fill.pointer);
  }
  const id = values.idOf(fill.step);
  if (id === undefined || fill.as === 'text') return id;
  return /^-?(?:0|[1-9][0-9]*)$/.test(id) ? parseLossless(id) : id;
}

/** Progress of applying a plan. Called synchronously; must not throw. */
export interface ApplyEvents {
  /** Once, before the first step, with the number of steps to send, without those that a resumed restore has done. */
  started(restore: number, steps: number): void;
  stepStarted(step: PlanStep): void;
  stepEnded(step: PlanStep, row: Pick<RestoreStepRow, 'outcome'>): void;
  /** Before each time that the request of the step is sent. */
  sending(step: PlanStep): void;
  /** After each time that the request of the step was sent, answered or not. */
  sent(step: PlanStep): void;
  /** Before a write whose answer was lost is looked up. */
  lookingUp(step: PlanStep): void;
}
