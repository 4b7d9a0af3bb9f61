/** Checks before a write whether live already is as the step would make it (design.md, invariant 6). */
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

/** The live record that already is as the step would make it. */
interface AlreadyApplied {
  /** The id of the desired record, if it is not of the request's kind: the member whom an invite would bring. */
  readonly adoptedId?: string;
  /** What in that record is not as desired; left out if nothing. */
  readonly unmet?: { readonly reason: string; readonly differences: readonly FieldChange[] };
  /** The id of the record that a creation recreates; null for the other actions. */
  readonly newId: string | null;
  readonly digest: string | null;
  /** True for an id that the id map does not have. */
  readonly isNew: boolean;
}

/**
 * The live record that already is as desired; null if there is something to send. Only resumed restores look for it, since otherwise the
 * plan is recent, with one exception, a member who is to be invited: the service itself adds the key's user as owner to a new
 * organization. If this restore created the organization, such a member counts whatever the level is.
 *
 * A record that a later restore created again counts under its new id. For a creation, only a record counts that a restore created or
 * found since, not one that was created by hand; if the mirror comes from a backup made before the restore had ended, its journal lacks
 * later creations, and any equal record counts.
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
  // A known record that is gone was created by an earlier restore; this one may have created it again.
  if (isCreation && isFromBackup && body === undefined) {
    id = (await createdRecords(context, ready))?.equal ?? null;
    body = id === null ? undefined : await live.read(definition, scope, id, true, signal);
  }
  if (id === null) return null;
  if (request.role === 'remove')
    return body === undefined ? { newId: null, digest: null, isNew: false } : null;
  if (body === undefined) return null;
  const isInEffect = [sent, followedReferences(context, definition, sent)]
    .flatMap((wanted) => [wanted ?? {}, afterAction(context, ready, wanted ?? {})])
    .some((wanted) => differencesFrom(definition, step, wanted, body).length === 0);
  if (!isInEffect) return null;
  leaveStoppedIfMisplaced(context, ready, body);
  return { newId: isCreation ? id : null, digest: managedDigest(definition, body), isNew: known !== id };
}

/** The member whom the step would invite, if it exists and is as desired, or is in an organization that this restore created. */
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

/** The record under the present ids of it and its parents, if later restores created them again; undefined if not. */
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

/** What was sent, with the latest ids of the records to which it refers. */
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
