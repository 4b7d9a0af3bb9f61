/** The order of steps: nothing before what it needs, in levels that can go in parallel; cycles are named and blocked. */
import { CATALOG } from '../catalog/catalog.ts';
import { compareScopes, compareTexts } from '../diff/order.ts';
import { type Draft, blocked } from './draft.ts';
import { isExecutable } from './plan.ts';
import { partsOf } from './record-place.ts';

export interface OrderedDraft {
  readonly draft: Draft;
  readonly level: number;
}

const KIND_RANK = new Map(CATALOG.map(({ kind }, rank) => [kind, rank]));

/** All drafts, each with its level, in the order of execution. Drafts in cycles or behind blocked ones come back blocked. */
export function ordered(drafts: ReadonlyMap<string, Draft>): OrderedDraft[] {
  const steps = new Map(drafts);
  blockBehindBlocked(steps);
  for (;;) {
    const levels = levelsOf(steps);
    const left = [...steps.values()].filter(({ key }) => !levels.has(key));
    if (left.length === 0) return sorted(steps, levels);
    const cycle = cycleIn(left);
    const names = [...cycle, cycle[0]]
      .map((draft) => `${titleOf(draft?.kind ?? '')} ${draft?.name}`)
      .join(' → ');
    for (const draft of cycle) {
      steps.set(draft.key, { ...blocked(draft, 'cycle', `each needs the other first: ${names}`), after: [] });
    }
    blockBehindBlocked(steps);
  }
}

/** A step that needs one that will not be sent is not sent either; a manual step may still wait for it. */
function blockBehindBlocked(steps: Map<string, Draft>): void {
  const waiting = new Map<string, string[]>();
  for (const { key, after } of steps.values()) {
    for (const need of after) waiting.set(need, [...(waiting.get(need) ?? []), key]);
  }
  const queue = [...steps.values()].filter((draft) => !isExecutable(draft));
  // A step that depends on an unplanned one is blocked, too.
  for (const draft of steps.values()) {
    const lost = isExecutable(draft) ? draft.after.find((need) => !steps.has(need)) : undefined;
    if (lost !== undefined) {
      const { kind, id } = partsOf(lost);
      const reason = `it needs ${titleOf(kind)} ${id}, which is neither live nor created by this plan: restore that one as well, with --id ${id}`;
      const step = { ...blocked(draft, 'depends_on_blocked', reason), after: [] };
      steps.set(draft.key, step);
      queue.push(step);
    }
  }
  for (let stopped = queue.pop(); stopped !== undefined; stopped = queue.pop()) {
    for (const key of waiting.get(stopped.key) ?? []) {
      const draft = steps.get(key);
      if (draft === undefined) continue;
      if (isOfNew(draft, stopped)) {
        // A further step for a record that is not created is not reported separately.
        steps.delete(key);
        queue.push(draft);
        continue;
      }
      if (draft.action === 'blocked') continue;
      const reason = `it needs ${titleOf(stopped.kind)} ${stopped.name}, which is ${stopped.action === 'manual' ? 'done by hand' : stopped.action}`;
      const step = { ...blocked(draft, 'depends_on_blocked', reason), after: [] };
      steps.set(key, step);
      queue.push(step);
    }
  }
}

/** True for a step about the very record that the other would create. */
function isOfNew(draft: Draft, { key, kind, id, scope }: Draft): boolean {
  const isSame = draft.kind === kind && draft.id === id && compareScopes(draft.scope, scope) === 0;
  return isSame && key.endsWith('\0create');
}

function titleOf(kind: string): string {
  return CATALOG.find((each) => each.kind === kind)?.title.one ?? kind;
}

function levelsOf(steps: ReadonlyMap<string, Draft>): Map<string, number> {
  const levels = new Map<string, number>();
  const open = new Map<string, number>();
  const waiting = new Map<string, string[]>();
  const ready: string[] = [];
  for (const { key, after } of steps.values()) {
    const needs = new Set(after.filter((need) => steps.has(need)));
    open.set(key, needs.size);
    for (const need of needs) {
      const list = waiting.get(need);
      if (list === undefined) waiting.set(need, [key]);
      else list.push(key);
    }
    if (needs.size === 0) ready.push(key);
  }
  for (let key = ready.pop(); key !== undefined; key = ready.pop()) {
    const level = Math.max(-1, ...(steps.get(key)?.after ?? []).map((need) => levels.get(need) ?? -1)) + 1;
    levels.set(key, level);
    for (const next of waiting.get(key) ?? []) {
      const rest = (open.get(next) ?? 0) - 1;
      open.set(next, rest);
      if (rest === 0) ready.push(next);
    }
  }
  return levels;
}

/** One cycle among steps that all wait for another one of them. */
function cycleIn(left: readonly Draft[]): Draft[] {
  const byKey = new Map(left.map((draft) => [draft.key, draft]));
  const path: Draft[] = [];
  const at = new Map<string, number>();
  let draft = left[0];
  while (draft !== undefined) {
    const seen = at.get(draft.key);
    if (seen !== undefined) return path.slice(seen).reverse();
    at.set(draft.key, path.length);
    path.push(draft);
    const next = draft.after.find((need) => byKey.has(need));
    draft = next === undefined ? undefined : byKey.get(next);
  }
  return path;
}

function sorted(steps: ReadonlyMap<string, Draft>, levels: ReadonlyMap<string, number>): OrderedDraft[] {
  return [...steps.values()]
    .map((draft) => ({ draft, level: levels.get(draft.key) ?? 0 }))
    .sort(
      (a, b) =>
        a.level - b.level ||
        (KIND_RANK.get(a.draft.kind) ?? 0) - (KIND_RANK.get(b.draft.kind) ?? 0) ||
        compareScopes(a.draft.scope, b.draft.scope) ||
        compareTexts(a.draft.key, b.draft.key),
    );
}
