/** The step for a missing record that only comes back by an invitation: a member. */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Creation } from '../catalog/definition.ts';
import { type JsonObject, type JsonValue, setOwn, isJsonObject } from '../core/json.ts';
import { type ParsedRecord, compareRecords } from '../diff/change.ts';
import { equalValues } from '../diff/compare.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { naturalKeyDigest, managedDigest } from './live-records.ts';
import { type Draft, type KnownOrStepId, draftKey } from './draft.ts';
import { ownerObstacle, ownUserObstacle } from './protected-records.ts';
import { hiddenFields, withoutSecrets } from './secret-values.ts';
import { requestFor, stopped, requiredSteps, type Planning, draftOf, liveSlots } from './step-parts.ts';
import { memberPointer, writableFields } from './unmanaged-settings.ts';

const COMES_BACK = 'invited: comes back when the invite is accepted';

/** The text at a place in lower case; empty where there is none. */
export function textAt(body: JsonValue, pointer: string): string {
  const value = resolvePointer(body, pointer);
  return typeof value === 'string' ? value.toLowerCase() : '';
}

/**
 * Tells live invitations of desired records that are missing live: they are what brings those back, whether a restore sent
 * them or a person.
 */
export function awaitedInvitations({ matching }: Planning): (live: ParsedRecord) => boolean {
  const fields = new Map<Kind, string>();
  const awaited = new Set<string>();
  const keyOf = (kind: Kind, organization: string | undefined, address: string): string =>
    JSON.stringify([kind, organization, address]);
  for (const { definition, missing } of matching.kinds.values()) {
    const { creation } = definition.restore;
    if (creation.by !== 'invitation') continue;
    const [address] = Object.entries(creation.fields);
    if (address === undefined) continue;
    fields.set(creation.kind, memberPointer(address[0]));
    for (const { scope, body } of missing) {
      const invited = textAt(body, address[1]);
      const organization = matching.liveScope(scope)?.organization_id;
      if (invited !== '') awaited.add(keyOf(creation.kind, organization, invited));
    }
  }
  return ({ kind, scope, body }) => {
    const pointer = fields.get(kind);
    return pointer !== undefined && awaited.has(keyOf(kind, scope.organization_id, textAt(body, pointer)));
  };
}

/** A missing record that only comes back by an invitation, and the live one that is open for it. */
interface Invited {
  /** What an invitation for it says. */
  readonly body: JsonObject;
  /** The field that holds the address. */
  readonly address: string;
  /** Empty where the desired record has none. */
  readonly to: string;
  readonly open: ParsedRecord | undefined;
  /** The open one gives what is desired: nothing is left to do but to wait. */
  readonly isSame: boolean;
}

function invitedAs(
  { matching }: Planning,
  desired: ParsedRecord,
  { kind, fields }: Extract<Creation<Kind>, { by: 'invitation' }>,
): Invited {
  const body: JsonObject = {};
  for (const [field, pointer] of Object.entries(fields)) {
    const value = resolvePointer(desired.body, pointer);
    if (value !== undefined && value !== null) setOwn(body, field, value);
  }
  const address = Object.keys(fields)[0] ?? '';
  const to = textAt(body, memberPointer(address));
  const organization = matching.liveScope(desired.scope)?.organization_id;
  // An expired one is no reason to wait; the service removes it.
  const open = (matching.kinds.get(kind)?.live ?? []).find(
    (other) =>
      to !== '' &&
      other.scope.organization_id === organization &&
      resolvePointer(other.body, '/is_expired') !== true &&
      textAt(other.body, memberPointer(address)) === to,
  );
  const isSame =
    open !== undefined &&
    Object.entries(body).every(
      ([field, value]) =>
        field === address || equalValues(resolvePointer(open.body, memberPointer(field)) ?? null, value),
    );
  return { body, address, to, open, isSame };
}

/**
 * What a step waits for that needs a missing record which only comes back by an invitation: no step of this plan gives its
 * id. Null where it needs none. `isOpen`: the invitation is there, so that nothing is left to do but to wait.
 * @param needs keys of steps that would create what it refers to
 */
export function awaitedAcceptance(
  planning: Planning,
  needs: readonly string[],
): { readonly reason: string; readonly isOpen: boolean } | null {
  if (needs.length === 0) return null;
  for (const { definition, missing } of planning.matching.kinds.values()) {
    const { creation } = definition.restore;
    if (creation.by !== 'invitation') continue;
    const needed = missing.find((record) => needs.includes(draftKey(record, 'create')));
    if (needed === undefined) continue;
    const { one } = definition.title;
    return invitedAs(planning, needed, creation).isSame
      ? { isOpen: true, reason: `its ${one} is invited: restore again when the invite is accepted` }
      : { isOpen: false, reason: `its ${one} is missing: restore again when that one is back` };
  }
  return null;
}

/** Plans an invitation, or says why a person has to act, or that one is open already. */
export function planInvitation(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  draft: Draft,
  creation: Extract<Creation<Kind>, { by: 'invitation' }>,
  slots: Readonly<Record<string, KnownOrStepId>>,
): void {
  const { input, matching, drafts } = planning;
  const invitation = input.definitions(creation.kind);
  const { body, to, open, isSame } = invitedAs(planning, desired, creation);
  // Whoever waits for the member waits in vain: an invitation gives no member's id.
  const key = draftKey(desired, 'invite');
  if (isSame) {
    // Nothing is left to send, and the member is not back: a person has to accept.
    drafts.set(key, stopped({ ...draft, key, fields: [] }, 'manual', 'needs_person', COMES_BACK));
    return;
  }
  const { inviteMissing } = input.options;
  if (inviteMissing !== true || to === '') {
    const way = inviteMissing === null ? '' : '; --invite-missing does it';
    drafts.set(key, stopped({ ...draft, key }, 'manual', 'not_creatable', `${creation.reason}${way}`));
    return;
  }
  const liveScope = matching.liveScope(desired.scope);
  if (liveScope !== null && !planning.references.isRead(creation.kind, liveScope)) {
    const reason = `the live ${invitation.title.many} were not read, so whether one is open is not known`;
    drafts.set(key, stopped({ ...draft, key }, 'blocked', 'collection_not_read', reason));
    return;
  }
  if (open !== undefined && input.options.prune === null) {
    const reason = `another ${invitation.title.one} to that address is open, and would be replaced: only with --prune and --max-removals`;
    drafts.set(key, stopped({ ...draft, key }, 'blocked', 'not_replaceable', reason));
    return;
  }
  // The service lets the older one go without a word: as a step it is shown and counted.
  const { replacesNamesake } = invitation.restore;
  if (open !== undefined) planRemoval(planning, invitation, open, replacesNamesake ? [key] : []);
  for (const { field, option } of invitation.restore.requestValues)
    setOwn(body, field, input.options[option]);
  drafts.set(key, {
    ...draft,
    key,
    action: 'create',
    request: requestFor(invitation, 'create', slots, body, []),
    reason: COMES_BACK,
    precondition: { state: 'absent', digest: naturalKeyDigest(definition, desired.body) },
    inverse: { action: 'remove' },
    after: [
      ...draft.after,
      ...requiredSteps(slots, []),
      ...(open === undefined || replacesNamesake ? [] : [removalKey(open)]),
    ],
  });
}

// The step that removes one live record.

/** The key of the step that removes a live record; live and desired scopes never share one. */
export function removalKey(live: ParsedRecord): string {
  return draftKey(live, 'remove');
}

/**
 * Plans it; blocked where the record must not be touched.
 * @param after steps that must come first: what takes its place, where that is created before it goes
 */
export function planRemoval(
  planning: Planning,
  definition: ResourceDefinition,
  live: ParsedRecord,
  after: readonly string[] = [],
): Draft {
  const mode = writableFields(definition).length > 0 ? 'managed' : 'default';
  const draft: Draft = {
    ...draftOf(planning, definition, null, live, removalKey(live)),
    fields: hiddenFields(definition, compareRecords(definition, live, undefined, mode)?.fields ?? []),
  };
  const obstacle = ownerObstacle(definition, live) ?? ownUserObstacle(planning, definition, live);
  const step: Draft =
    obstacle !== null
      ? stopped(draft, 'blocked', obstacle.obstacle, obstacle.reason)
      : {
          ...draft,
          action: 'remove',
          after: [...draft.after, ...after],
          request: requestFor(definition, 'remove', liveSlots(definition, live), null, []),
          precondition: { state: 'present', id: live.id, digest: managedDigest(definition, live.body) },
          inverse: isJsonObject(live.body)
            ? { action: 'create', ...withoutSecrets(definition, live.body) }
            : null,
        };
  planning.drafts.set(step.key, step);
  return step;
}
