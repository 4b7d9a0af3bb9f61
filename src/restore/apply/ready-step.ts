/** What every step of a restore needs, and the request of a step once the ids from earlier steps are known. */
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

/** Looks up the body of a desired record, for the secrets that it holds in clear. */
export type DesiredLookup = (key: {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}) => JsonValue | undefined;

/** What finding out about a step needs: nothing that writes to the service. */
export interface LookUpContext {
  readonly source: string;
  readonly live: LiveRecords;
  readonly journal: RestoreJournal;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly secrets: SecretLookup;
  readonly desired: DesiredLookup;
  /** The id that a record has since an earlier restore recreated it; undefined if none did. */
  readonly idMap: (kind: Kind, id: string) => string | undefined;
  /** The id that the record of a step has now: where an undo was undone since, it was created again. Null for a step that created none. */
  readonly newIdOf: (n: number) => string | null;
  /** The live id of a record that the desired state names: also of one that this restore created. */
  readonly idNow: (kind: Kind, id: string) => string;
  /** Ids under which the mirror's newest run has records of that natural key (its digest) in a live collection. */
  readonly namesakes: (definition: ResourceDefinition, scope: Scope, key: string) => readonly string[];
  /** Live ids that the plan found to be desired records under another id, as `kind id`. */
  readonly adopted: ReadonlySet<string>;
  /** Live ids that the plan removes when what takes their place is there, as `kind id`. */
  readonly replaced: ReadonlySet<string>;
  /** Live ids that the plan removes, as `kind id`: what it creates may have their names. */
  readonly leaving: ReadonlySet<string>;
  /** Names (`namePlace`) that several creations of the plan send: they do not tell one from another. */
  readonly sharedNames: ReadonlySet<string>;
  /** Names that creations of the plan send, as `kind digest`. */
  readonly plannedNames: ReadonlySet<string>;
  /** The other restore that created the record, by its journal; undefined without one. */
  readonly createdBy: (kind: Kind, id: string) => number | undefined;
  /** What another restore created is not looked at: for an undo's look-ups. */
  readonly leavesOthers: boolean;
  /** Records that steps found to be theirs, as `kind id`, by step: two steps of one name never take the same one. */
  readonly claims: Map<string, number>;
  /** Steps for persons, by the step that creates their record. */
  readonly persons: ReadonlyMap<number, readonly PlanStep[]>;
  /** Actions on a record, by the step that creates or changes it before. */
  readonly actions: ReadonlyMap<number, PlanStep>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: ApplyEvents;
  /** Steps of which a process that ended left behind that they were about to be sent, and not whether they were. */
  readonly perhapsSent: Set<number>;
  /** Templates of a profile's paths that this deployment does not know: it took the documented one instead. */
  readonly unknownPaths: Set<string>;
  /** The restore is gone on with: what it was planned against may be long ago. */
  readonly isResumed: boolean;
  /** The mirror comes from a backup that was made after the restore began: its journal may lack what was done after that. */
  readonly isFromBackup: boolean;
  /** Aborted: nothing more is begun. */
  readonly signal: AbortSignal;
  /** Aborted some time later: what is in flight is given up. */
  readonly grace: AbortSignal;
}

export interface StepContext extends LookUpContext {
  readonly client: WriteClient;
}

/** A line of the debug log about a step; never with a message of the service's, which may repeat what was sent. */
export function logStep(
  { log }: Pick<LookUpContext, 'log'>,
  { n, kind, action }: PlanStep,
  message: string,
  facts: Readonly<Record<string, unknown>>,
): void {
  if (log.isLevelEnabled('debug')) log.debug({ step: n, kind, action, ...facts }, message);
}

/** A step's request with everything filled in. */
export interface ReadyStep {
  readonly step: PlanStep;
  readonly request: PlannedRequest;
  /** Of the request's kind. */
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** Null for creations. */
  readonly id: string | null;
  /** JSON text; it may hold secrets. */
  readonly body: string | null;
  readonly sent: JsonValue | null;
  /** The secrets in the body. */
  readonly secrets: readonly string[];
  readonly alternativePath: string | null;
}

/**
 * @throws TidemarkError when a value that the plan does not hold cannot be found: nothing was sent
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
 * The natural key that the step's record has, or will have; null where the kind has none, and for a creation in which
 * the service chooses a part of it: then only the content identifies it.
 */
export function keyOfStep({ step, definition, sent, request }: ReadyStep): string | null {
  // As it is sent: in the plan's own digest an id that an earlier step gives is not known yet.
  const ofSent = sent === null ? null : naturalKeyDigest(definition, sent);
  if (ofSent !== null || request.kind !== step.kind) return ofSent;
  const chosen = request.role === 'create' ? unsendableReferences(definition) : [];
  if (definition.naturalKey.some((pointer) => chosen.includes(pointer))) return null;
  return step.precondition?.state === 'absent' ? step.precondition.digest : null;
}

/**
 * Digest of the name of a creation without a natural key, since the service chooses a part of that: another record of
 * the name may be its own, changed since. Null for other steps, and where several creations of the plan have the name.
 */
function nameOfStep(context: LookUpContext, ready: ReadyStep): string | null {
  const { step, definition, request } = ready;
  if (request.role !== 'create' || request.kind !== step.kind || keyOfStep(ready) !== null) return null;
  const name = nameSent(definition, request);
  return name === null || context.sharedNames.has(namePlace(definition, request, name)) ? null : name;
}

/** Digest of the part of the natural key that the request of a creation says; null where it says all of it, or nothing. */
function nameSent(definition: ResourceDefinition, { body }: PlannedRequest): string | null {
  const byName = bySendableKey(definition);
  return byName === definition || body === null ? null : naturalKeyDigest(byName, body);
}

function namePlace(definition: ResourceDefinition, { parameters }: PlannedRequest, name: string): string {
  const within = definition.scope.map((key) => parameters.find((each) => each.name === key));
  return JSON.stringify([definition.kind, within, name]);
}

/** The names that several of the steps create, for `LookUpContext`. */
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

/**
 * Whether a live record has the name of the step (`nameOfStep`) and is not one that the plan removes; null if its name does
 * not identify it.
 */
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

/** What was sent, and the same as the plan leaves it where an action follows the step. */
export function bodiesLeft(context: LookUpContext, ready: ReadyStep): readonly JsonValue[] {
  const sent = ready.sent ?? {};
  return context.actions.has(ready.step.n) ? [sent, afterAction(context, ready, sent)] : [sent];
}

/**
 * What was sent, as the plan leaves it: with the state of the action that follows the step, such as the start of an export
 * that was created stopped, and without what the service sets on that.
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
 * True for a live record that belongs to another step, another restore, or another desired record of the same name. Any other
 * record was created either by this step or by somebody else meanwhile.
 */
export function isTaken(context: LookUpContext, { step, definition }: ReadyStep, id: string): boolean {
  const claimedBy = context.claims.get(`${definition.kind} ${id}`);
  if (claimedBy !== undefined) return claimedBy !== step.n;
  if (context.replaced.has(`${definition.kind} ${id}`)) return true;
  if (context.adopted.has(`${definition.kind} ${id}`)) return true;
  // One that this plan removes may be there until then.
  if (context.leaving.has(`${definition.kind} ${id}`)) return true;
  if (context.leavesOthers && context.createdBy(definition.kind, id) !== undefined) return true;
  if (step.desired === null || step.desired.id === id) return false;
  const { kind, scope } = step.desired;
  return context.desired({ kind, scope, id }) !== undefined;
}

/** The record is this step's; false where another one had it first. */
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
  // Searched only for what the plan does not hold.
  if (desired === null || request.fills.every(({ from }) => from === 'step')) return asSent;
  const body = context.desired(desired);
  const isTheSame = (): boolean => body !== undefined && valueDigest(body) === desired.digest;
  // A secret must come from the very record that the plan was made from (an export may have been edited since).
  if (request.fills.some(({ from }) => from === 'desired') && !isTheSame()) {
    known(
      undefined,
      `the secret of ${step.kind} ${step.name}: the desired state is another one than planned`,
    );
  }
  return body === undefined ? asSent : { ...asSent, body };
}

/** @param giver the step that would have given it */
function known(value: string | undefined, what: string, giver?: number): string {
  if (value !== undefined) return value;
  const reason = giver === undefined ? `nothing gives ${what}` : `it needs step ${giver}, which gave no id`;
  throw new TidemarkError('reference_unknown', reason, {
    hint: 'make a new plan, by the command that made this one',
  });
}

// A planned request with everything filled in: what apply sends.

/** Where the values come from that the plan does not hold. */
interface FillValues {
  /** The id that an applied step gave; undefined where it gave none. */
  readonly idOf: (step: number) => string | undefined;
  /** The configured secret for a place of the desired record. */
  readonly secret: (pointer: string) => Secret | undefined;
  /** The desired record's body; null where the step has none. */
  readonly desired: JsonValue | null;
}

/**
 * The path below the base URL, every value percent-encoded.
 * @throws Error when a step has not given its id
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
 * The body as JSON text, numbers digit by digit; null for a request without one. It may hold secrets: it is sent, and
 * goes nowhere else.
 * @throws Error when a value is missing: the plan was checked for it
 * @internal
 */
export function filledBody(request: PlannedRequest, values: FillValues): string | null {
  if (request.body === null) return null;
  let body: JsonValue = request.body;
  for (const fill of request.fills) {
    const value = fillValue(fill, values);
    if (value === undefined) throw new Error(`nothing gives the value for ${fill.pointer}`);
    body = withMember(body, splitPointer(fill.pointer), value) ?? value;
  }
  return JSON.stringify(body);
}

/** Every text and number of the secrets that the body holds: what must not be kept of an answer that repeats them. */
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

/** What happens while a plan is applied: for progress bars. Called synchronously; must not throw. */
export interface ApplyEvents {
  /** Once, before the first step: how many steps will be sent, those that a resumed restore has done left out. */
  started(restore: number, steps: number): void;
  stepStarted(step: PlanStep): void;
  stepEnded(step: PlanStep, row: Pick<RestoreStepRow, 'outcome'>): void;
  /** The turn of its write has come: it is being sent. Called again for each time. */
  sending(step: PlanStep): void;
  /** The request of the step was sent, answered or not; called again for each time. */
  sent(step: PlanStep): void;
  /** A write whose answer was lost is being looked up before it is sent again. */
  lookingUp(step: PlanStep): void;
}
