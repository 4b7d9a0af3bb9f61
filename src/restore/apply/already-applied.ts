/**
 * Reads the live record before a write: whether what the step would make is there already (design.md, invariant 6).
 */
import { scopeKey } from '../../catalog/catalog.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { pointerTo, resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import { equalValues } from '../../diff/canonical.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { idText } from '../../diff/match-records.ts';
import { topMember, withMember } from '../places.ts';
import { asId } from '../plan/references.ts';
import { managedDigest } from '../records.ts';
import { hiddenFields } from '../secrets.ts';
import { differencesFrom } from './differences.ts';
import { type ReadyStep, type LookUpContext, afterAction } from './ready-step.ts';
import { createdRecords } from './lost-response.ts';
import { absentKey } from './precondition.ts';
import { leaveStoppedIfMisplaced } from './read-back.ts';

/** What the step would make true and live shows already. */
interface AlreadyApplied {
  /** A live record, not of the request's kind, that is the desired one: the member whom an invite would bring. */
  readonly adoptedId?: string;
  /** What of that one is not as desired; left out if nothing. */
  readonly unmet?: { readonly reason: string; readonly differences: readonly FieldChange[] };
  /** The id of the record that a creation recreates; null for the other actions. */
  readonly newId: string | null;
  readonly digest: string | null;
  /** True for an id that the id map does not have. */
  readonly isNew: boolean;
}

/**
 * Null if there is something to send. For a restore that is not resumed, whose plan is as recent as its check, that is always so,
 * but for a member who is to be invited: the service itself adds the key's user to an organization that was created, as
 * its owner. Nobody has changed such a member where this restore created the organization, whatever the level is.
 * What a later restore created again counts under its new id. A record to be created counts when a restore made it, or found it, since: of one that was made by hand nobody knows. Where the
 * mirror comes from a backup that was made before the restore had ended, its journal lacks what was created after that: there
 * one that is equal counts too.
 * @throws TidemarkError when that cannot be found out
 */
export async function findAlreadyApplied(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<AlreadyApplied | null> {
  const { isResumed, isFromBackup, live, signal, idMap } = context;
  const { step, request, definition, scope, sent } = ready;
  const isCreation = request.role === 'create';
  if (isCreation && request.kind !== step.kind) return await joinedAlready(context, ready);
  if (!isResumed) return null;
  const known = isCreation ? idMap(step.kind, step.desired?.id ?? step.id) : ready.id;
  let id = known ?? null;
  let body = id === null ? undefined : await live.read(definition, scope, id, true, signal);
  if (body === undefined && id !== null && request.role !== 'remove')
    body = await readFollowed(context, ready, id);
  // One that is known and gone was created by an earlier restore: this one created it again.
  if (isCreation && isFromBackup && body === undefined) {
    id = (await createdRecords(context, ready))?.equal ?? null;
    body = id === null ? undefined : await live.read(definition, scope, id, true, signal);
  }
  if (id === null) return null;
  if (request.role === 'remove')
    return body === undefined ? { newId: null, digest: null, isNew: false } : null;
  if (body === undefined) return null;
  const isAsDesired = [sent, followedReferences(context, definition, sent)]
    .flatMap((wanted) => [wanted ?? {}, afterAction(context, ready, wanted ?? {})])
    .some((wanted) => differencesFrom(definition, step, wanted, body).length === 0);
  if (!isAsDesired) return null;
  leaveStoppedIfMisplaced(context, ready, body);
  return { newId: isCreation ? id : null, digest: managedDigest(definition, body), isNew: known !== id };
}

/** The member whom the step would invite, if there is one: with every field as desired, or in a record that this restore created. */
async function joinedAlready(
  { live, signal, definitions, journal }: LookUpContext,
  { step, request, scope }: ReadyStep,
): Promise<AlreadyApplied | null> {
  const definition = definitions(step.kind);
  const key = absentKey(step);
  if (key === null) return null;
  const [id] = (await live.idsOf(definition, scope, key, false, signal)) ?? [];
  if (id === undefined) return null;
  const body = await live.read(definition, scope, id, true, signal);
  if (body === undefined) return null;
  const changes = step.fields.flatMap(({ path, to }): FieldChange[] => {
    const from = resolvePointer(body, path);
    if (to === undefined || equalValues(from ?? null, to)) return [];
    return [{ path, ...(from === undefined ? {} : { from }), to }];
  });
  const joined = { newId: null, digest: null, isNew: false, adoptedId: id };
  if (changes.length === 0) return joined;
  const parentKey = definition.scope.at(-1);
  const parent = request.parameters.find(({ name }) => name === parentKey);
  const isOwnParent =
    parent !== undefined && 'step' in parent && journal.row(parent.step).outcome === 'applied';
  if (parentKey === undefined || !isOwnParent) return null;
  const differences = hiddenFields(definition, changes);
  const within = definitions(SCOPE_KIND[parentKey]).title.one;
  const texts = differences.map(
    ({ path, from, to }) =>
      `${topMember(path)} is ${JSON.stringify(from ?? null)} instead of ${JSON.stringify(to)}`,
  );
  const reason = `the service itself added this ${definition.title.one} when the ${within} was created; ${texts.join(', ')}: a new plan sets it where it may be changed`;
  return { ...joined, unmet: { reason, differences } };
}

/** The record under the ids that it and its parents have since later restores created them again; undefined without one. */
async function readFollowed(
  context: LookUpContext,
  { definition, scope }: ReadyStep,
  id: string,
): Promise<JsonValue | undefined> {
  const { idMap, live, signal } = context;
  const now = idMap(definition.kind, id) ?? id;
  const within = Object.fromEntries(
    definition.scope.map((key) => {
      const parent = scope[key] ?? '';
      return [key, idMap(SCOPE_KIND[key], parent) ?? parent];
    }),
  );
  if (now === id && scopeKey(within) === scopeKey(scope)) return undefined;
  return await live.read(definition, within, now, true, signal);
}

/** What was sent, with the latest ids of the records that it refers to. */
function followedReferences(
  { idMap, definitions }: LookUpContext,
  { references }: ResourceDefinition,
  sent: JsonValue | null,
): JsonValue | null {
  let followed = sent;
  for (const { pointer, kind, target } of references) {
    const value = resolvePointer(followed ?? {}, pointer) ?? null;
    if (value === null || target !== pointerTo(definitions(kind).idPath)) continue;
    const now = idMap(kind, idText(value));
    if (now !== undefined)
      followed = withMember(followed ?? {}, splitPointer(pointer), asId(now, value)) ?? null;
  }
  return followed;
}
