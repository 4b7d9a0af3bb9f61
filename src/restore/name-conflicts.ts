/**
 * Names that one step frees and another one takes: the first goes first, or a unique name would be refused. Names that go
 * round in a circle are left to a person: a name in between would be seen, and could be what is left of a restore that died.
 */
import { scopeKey } from '../catalog/catalog.ts';
import { type JsonValue, isJsonObject } from '../core/json.ts';
import { naturalKeyDigest } from './digest.ts';
import { type Draft, blocked } from './draft.ts';
import { PlacesOfKind } from './record-place.ts';
import type { Planning } from './step-parts.ts';
import { topMember } from './writable.ts';

/** Adds to every step that takes a natural key the step that frees it. */
export function orderNames(planning: Planning): void {
  for (const [kind, { definition, live }] of planning.matching.kinds) {
    const drafts = [...planning.drafts.values()].filter(
      (draft) =>
        draft.kind === kind &&
        (draft.action === 'create' || draft.action === 'update' || draft.action === 'remove'),
    );
    if (drafts.length < 2) continue;
    const ids = new Set(drafts.map(({ id }) => id));
    const bodies = new PlacesOfKind<JsonValue>();
    for (const each of live) if (ids.has(each.id)) bodies.set(each.scope, each.id, each.body);
    const before = (draft: Draft): JsonValue =>
      draft.action === 'create' ? {} : (bodies.get(draft.scope, draft.id) ?? {});
    const freed = new Map<string, string>();
    const taken: { draft: Draft; name: string }[] = [];
    const nameMembers = new Set(definition.naturalKey.map(topMember));
    for (const draft of drafts) {
      const sent = draft.request?.body ?? {};
      if (draft.action === 'update' && !Object.keys(sent).some((name) => nameMembers.has(name))) continue;
      const was = nameIn(draft, before(draft));
      const becomes = draft.action === 'remove' ? null : nameIn(draft, merged(before(draft), sent));
      if (was === becomes) continue;
      if (was !== null) freed.set(was, draft.key);
      if (becomes !== null) taken.push({ draft, name: becomes });
    }
    const holderOf = new Map(taken.map(({ draft, name }) => [draft.key, freed.get(name)]));
    for (const { draft, name } of taken) {
      const first = freed.get(name);
      if (first === undefined || first === draft.key || draft.after.includes(first)) continue;
      // The service lets it take the name, and the one that had it goes after.
      if (planning.drafts.get(first)?.after.includes(draft.key) === true) continue;
      const circle = circleFrom(draft.key, holderOf);
      if (circle !== null) {
        const others = circle.slice(1).map((key) => planning.drafts.get(key));
        const whose = others.map((other) => `${other?.name} (${other?.id})`).join(', ');
        const reason =
          `its name is taken by what is to be called ${whose}, which waits for a name that goes round to this one: ` +
          `rename one of the ${circle.length} by hand to anything else, then restore again`;
        planning.drafts.set(draft.key, blocked(planning.drafts.get(draft.key) ?? draft, 'cycle', reason));
        continue;
      }
      const current = planning.drafts.get(draft.key) ?? draft;
      planning.drafts.set(draft.key, { ...current, after: [...current.after, first] });
    }

    function nameIn(draft: Draft, body: JsonValue): string | null {
      const digest = naturalKeyDigest(definition, body);
      return digest === null ? null : `${scopeKey(draft.scope)} ${digest}`;
    }
  }
}

/** The steps that wait for each other's names, beginning with this one; null where they come to an end. */
function circleFrom(
  start: string,
  holderOf: ReadonlyMap<string, string | undefined>,
): readonly string[] | null {
  const circle: string[] = [];
  for (let key: string | undefined = start; key !== undefined; key = holderOf.get(key)) {
    if (key === start && circle.length > 0) return circle;
    // A circle that this one only leads into.
    if (circle.includes(key)) return null;
    circle.push(key);
  }
  return null;
}

function merged(before: JsonValue, sent: JsonValue): JsonValue {
  return isJsonObject(before) && isJsonObject(sent) ? { ...before, ...sent } : before;
}
