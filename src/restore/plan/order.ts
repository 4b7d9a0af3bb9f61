/** The order of steps: nothing before what it needs, in levels that can go in parallel; cycles are named and blocked. */
import { CATALOG, scopeKey, fillPath } from '../../catalog/catalog.ts';
import { splitPointer } from '../../core/json-pointer.ts';
import { type JsonValue, isJsonObject, type JsonObject } from '../../core/json.ts';
import { compareScopes, compareTexts } from '../../catalog/order.ts';
import { placesOf, withMember, topMember } from '../places.ts';
import { recordOfKey, naturalKeyDigest, PlacesOfKind } from '../records.ts';
import {
  type Draft,
  isExecutable,
  type DraftRequest,
  type PlanStep,
  type PathPlan,
  type PlannedRequest,
} from './plan.ts';
import { blocked, type Planning } from './steps.ts';

interface OrderedDraft {
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
      const { kind, id } = recordOfKey(lost);
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

// If one step frees a name that another takes, the freeing step runs first: a unique name would be refused otherwise.
// Cyclic renames are blocked: a temporary name would be visible, and could remain after a crash.

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
      const body = before(draft);
      const was = nameIn(draft, body);
      const then = isJsonObject(body) ? { ...body, ...sent } : body;
      const becomes = draft.action === 'remove' ? null : nameIn(draft, then);
      if (was === becomes) continue;
      if (was !== null) freed.set(was, draft.key);
      if (becomes !== null) taken.push({ draft, name: becomes });
    }
    const holderOf = new Map(taken.map(({ draft, name }) => [draft.key, freed.get(name)]));
    for (const { draft, name } of taken) {
      const first = freed.get(name);
      if (first === undefined || first === draft.key || draft.after.includes(first)) continue;
      // The service lets it take the name: the step that frees it runs after.
      if (planning.drafts.get(first)?.after.includes(draft.key) === true) continue;
      const cycle = renameCycleFrom(draft.key, holderOf);
      if (cycle !== null) {
        const others = cycle.slice(1).map((key) => planning.drafts.get(key));
        const whose = others.map((other) => `${other?.name} (${other?.id})`).join(', ');
        const reason =
          `its name is taken by what is to be called ${whose}, which waits for a name that goes round to this one: ` +
          `rename one of the ${cycle.length} by hand to anything else, then restore again`;
        planning.put(blocked(planning.drafts.get(draft.key) ?? draft, 'cycle', reason));
        continue;
      }
      const current = planning.drafts.get(draft.key) ?? draft;
      planning.put({ ...current, after: [...current.after, first] });
    }

    function nameIn(draft: Draft, body: JsonValue): string | null {
      const digest = naturalKeyDigest(definition, body);
      return digest === null ? null : `${scopeKey(draft.scope)} ${digest}`;
    }
  }
}

/** The steps that wait for each other's names, beginning with this one; null where they come to an end. */
function renameCycleFrom(
  start: string,
  holderOf: ReadonlyMap<string, string | undefined>,
): readonly string[] | null {
  const cycle: string[] = [];
  for (let key: string | undefined = start; key !== undefined; key = holderOf.get(key)) {
    if (key === start && cycle.length > 0) return cycle;
    // A cycle that this step only leads into.
    if (cycle.includes(key)) return null;
    cycle.push(key);
  }
  return null;
}

// Drafts in their order become the numbered steps of a plan.

/** Numbers the steps from 1 and lets them name each other by number. */
export function finishedSteps(drafts: readonly OrderedDraft[]): PlanStep[] {
  const numbers = new Map(drafts.map(({ draft }, index) => [draft.key, index + 1]));
  const numberOf = (key: string): number => {
    const n = numbers.get(key);
    if (n === undefined) throw new Error(`a step waits for ${key}, which is not planned`);
    return n;
  };
  return drafts.map(({ draft, level }) => {
    const { key, after, request, precondition, ...rest } = draft;
    const numbered = [...new Set(after.filter((need) => numbers.has(need)).map(numberOf))];
    return {
      n: numberOf(key),
      level,
      after: numbered.sort((a, b) => a - b),
      ...rest,
      request: request === null ? null : finishedRequest(request, numberOf),
      precondition:
        precondition?.state === 'after'
          ? { ...precondition, step: numberOf(precondition.step) }
          : precondition,
    };
  });
}

function finishedRequest(draft: DraftRequest, numberOf: (key: string) => number): PlannedRequest {
  const numbered = ({ template, parameters }: PathPlan<string>): PathPlan => ({
    template,
    parameters: parameters.map((each) =>
      'step' in each ? { name: each.name, step: numberOf(each.step) } : each,
    ),
  });
  const { fills, alternative, body, ...rest } = draft;
  const documented = numbered(draft);
  const first = alternative === null ? null : numbered(alternative);
  let shown: JsonValue | null = body;
  for (const fill of fills) {
    if (fill.from !== 'step' || shown === null || placesOf(shown, fill.pointer).length === 0) continue;
    shown = withMember(shown, splitPointer(fill.pointer), `{id of step ${numberOf(fill.step)}}`) ?? null;
  }
  return {
    ...rest,
    ...documented,
    path: shownPath(first ?? documented),
    body: shown as JsonObject | null,
    fills: fills.map((fill) => (fill.from === 'step' ? { ...fill, step: numberOf(fill.step) } : fill)),
    alternative: first,
  };
}

/** For people: what is known filled in and encoded, the rest named by the step that gives it. */
function shownPath({ template, parameters }: PathPlan): string {
  return template.replace(/:([a-z_]+)/g, (whole, name: string) => {
    const found = parameters.find((each) => each.name === name);
    if (found === undefined) return whole;
    return 'value' in found ? fillPath(whole, { [name]: found.value }) : `{id of step ${found.step}}`;
  });
}
