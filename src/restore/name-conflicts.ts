/** Names that one step frees and another one takes: the first goes first, or a unique name would be refused. */
import { scopeKey } from '../catalog/catalog.ts';
import type { JsonValue } from '../core/json.ts';
import { isJsonObject } from '../core/json.ts';
import { naturalKeyDigest } from './digest.ts';
import type { Draft } from './draft.ts';
import type { Planning } from './step-parts.ts';

/** Adds to every step that takes a natural key the step that frees it. */
export function orderNames(planning: Planning): void {
  for (const [kind, { definition, live }] of planning.matching.kinds) {
    const drafts = [...planning.drafts.values()].filter(
      (draft) =>
        draft.kind === kind &&
        (draft.action === 'create' || draft.action === 'update' || draft.action === 'remove'),
    );
    if (drafts.length < 2) continue;
    const bodies = new Map(live.map((record) => [`${scopeKey(record.scope)} ${record.id}`, record.body]));
    const before = (draft: Draft): JsonValue =>
      draft.action === 'create' ? {} : (bodies.get(`${scopeKey(draft.scope)} ${draft.id}`) ?? {});
    const freed = new Map<string, string>();
    const taken: { draft: Draft; name: string }[] = [];
    for (const draft of drafts) {
      const was = nameIn(draft, before(draft));
      const becomes =
        draft.action === 'remove' ? null : nameIn(draft, merged(before(draft), draft.request?.body ?? {}));
      if (was === becomes) continue;
      if (was !== null) freed.set(was, draft.key);
      if (becomes !== null) taken.push({ draft, name: becomes });
    }
    for (const { draft, name } of taken) {
      const first = freed.get(name);
      if (first === undefined || first === draft.key || draft.after.includes(first)) continue;
      const current = planning.drafts.get(draft.key) ?? draft;
      planning.drafts.set(draft.key, { ...current, after: [...current.after, first] });
    }

    function nameIn(draft: Draft, body: JsonValue): string | null {
      const digest = naturalKeyDigest(definition, body);
      return digest === null ? null : `${scopeKey(draft.scope)} ${digest}`;
    }
  }
}

function merged(before: JsonValue, sent: JsonValue): JsonValue {
  return isJsonObject(before) && isJsonObject(sent) ? { ...before, ...sent } : before;
}
