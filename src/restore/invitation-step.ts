/** The step for a missing record that only comes back by an invitation: a member. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import type { Creation } from '../catalog/restore-rules.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { setOwn } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { equalValues } from '../diff/compare.ts';
import { resolvePointer } from '../diff/pointer.ts';
import { naturalKeyDigest } from './digest.ts';
import type { Draft, Slot } from './draft.ts';
import { draftKey } from './draft.ts';
import { planRemoval, removalKey } from './removal-step.ts';
import { requestFor, stopped, waitsFor } from './step-parts.ts';
import type { Planning } from './step-parts.ts';
import { memberPointer } from './writable.ts';

/** The text at a place in lower case; empty where there is none. */
export function textAt(body: JsonValue, pointer: string): string {
  const value = resolvePointer(body, pointer);
  return typeof value === 'string' ? value.toLowerCase() : '';
}

/** Plans an invitation, or says why a person has to act, or that one is open already. */
export function planInvitation(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  draft: Draft,
  creation: Extract<Creation, { by: 'invitation' }>,
  slots: Readonly<Record<string, Slot>>,
): void {
  const { input, matching, drafts } = planning;
  const invitation = input.definitions(creation.kind);
  const body: JsonObject = {};
  for (const [field, pointer] of Object.entries(creation.fields)) {
    const value = resolvePointer(desired.body, pointer);
    if (value !== undefined && value !== null) setOwn(body, field, value);
  }
  const address = Object.keys(creation.fields)[0] ?? '';
  const to = body[address];
  // Whoever waits for the member waits in vain: an invitation gives no member's id.
  const key = draftKey(desired, 'invite');
  if (!input.options.inviteMissing || typeof to !== 'string' || to === '') {
    drafts.set(
      key,
      stopped({ ...draft, key }, 'manual', 'not_creatable', `${creation.reason}; --invite-missing does it`),
    );
    return;
  }
  const liveScope = matching.liveScope(desired.scope);
  const open = (matching.kinds.get(creation.kind)?.live ?? []).find(
    (other) =>
      other.scope.organization_id === liveScope?.organization_id &&
      textAt(other.body, memberPointer(address)) === to.toLowerCase(),
  );
  const isSame =
    open !== undefined &&
    Object.entries(body).every(
      ([field, value]) =>
        field === address || equalValues(resolvePointer(open.body, memberPointer(field)) ?? null, value),
    );
  if (isSame && resolvePointer(open.body, '/is_expired') !== true) {
    planning.leave(definition.kind, 'invited: comes back when the invite is accepted', draft.name);
    return;
  }
  if (liveScope !== null && !planning.references.isRead(creation.kind, liveScope)) {
    const reason = `the live ${invitation.title.many} were not read, so an open one cannot be told`;
    drafts.set(key, stopped({ ...draft, key }, 'blocked', 'collection_not_read', reason));
    return;
  }
  const isReplaced = open !== undefined && resolvePointer(open.body, '/is_expired') !== true;
  if (isReplaced && input.options.prune === null) {
    const reason = `another ${invitation.title.one} to that address is open, and would be replaced: only with --prune and --max-removals`;
    drafts.set(key, stopped({ ...draft, key }, 'blocked', 'not_replaceable', reason));
    return;
  }
  // The service lets the older one go without a word: as a step it is shown and counted.
  if (isReplaced) planRemoval(planning, invitation, open);
  for (const { field, option } of invitation.restore.requestValues)
    setOwn(body, field, input.options[option]);
  drafts.set(key, {
    ...draft,
    key,
    action: 'create',
    request: requestFor(invitation, 'create', slots, body, []),
    reason: 'invited: comes back when the invite is accepted',
    precondition: { state: 'absent', digest: naturalKeyDigest(definition, desired.body) },
    inverse: { action: 'remove' },
    after: [...draft.after, ...waitsFor(slots, []), ...(isReplaced ? [removalKey(open)] : [])],
  });
}
