/** Orders the steps: each after those that it needs, in levels whose steps can run in parallel. Cycles are blocked. */
import { CATALOG, definitionOf, scopeKey, fillPath } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { planCommand } from '../../core/hints.ts';
import { splitPointer } from '../../core/json-pointer.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { type JsonValue, isJsonObject, type JsonObject } from '../../core/json.ts';
import { type ParsedRecord, recordName } from '../../diff/change.ts';
import { compareScopes, compareTexts } from '../../catalog/order.ts';
import { placesOf, withMember, topMember } from '../places.ts';
import { nameKey, recordOfKey, naturalKeyDigest, PlacesOfKind } from '../records.ts';
import {
  type Draft,
  isExecutable,
  type DraftRequest,
  type PlanStep,
  type PathPlan,
  type PlannedRequest,
} from './plan.ts';
import { closedReason, writableFields } from './settings.ts';
import { blocked, type Planning } from './steps.ts';

interface OrderedDraft {
  readonly draft: Draft;
  readonly level: number;
}

const KIND_RANK = new Map(CATALOG.map(({ kind }, rank) => [kind, rank]));

/** All drafts with their levels, in the order of execution. Those in cycles or behind blocked ones are blocked. */
export function ordered(planning: Planning): OrderedDraft[] {
  const steps = new Map(planning.drafts);
  blockBehindBlocked(planning, steps);
  for (;;) {
    const levels = levelsOf(steps);
    const left = [...steps.values()].filter(({ key }) => !levels.has(key));
    if (left.length === 0) return sorted(steps, levels);
    const cycle = cycleIn(left);
    const names = [...cycle, ...cycle.slice(0, 1)]
      .map(({ kind, name }) => `${titleOf(kind)} ${name}`)
      .join(' → ');
    for (const draft of cycle) {
      steps.set(draft.key, { ...blocked(draft, 'cycle', `each needs the other first: ${names}`), after: [] });
    }
    blockBehindBlocked(planning, steps);
  }
}

/** Blocks the steps that need one that is not sent. A manual step stays manual. */
function blockBehindBlocked(planning: Planning, steps: Map<string, Draft>): void {
  const waiting = new Map<string, string[]>();
  for (const { key, after } of steps.values()) {
    for (const need of after) waiting.set(need, [...(waiting.get(need) ?? []), key]);
  }
  const queue = [...steps.values()].filter((draft) => !isExecutable(draft));
  // A step that needs one that is not planned is blocked too.
  for (const draft of steps.values()) {
    const lost = isExecutable(draft) ? draft.after.find((need) => !steps.has(need)) : undefined;
    if (lost !== undefined) {
      const { kind, id } = recordOfKey(lost);
      const reason = `it needs ${titleOf(kind)} ${id}, which is neither live nor created by this plan${needAdvice(planning, planning.input.definitions(kind), draft)}`;
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
        // The creation is reported already: a further step for its record is dropped.
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

/** How to restore the needed record together with that of the step; empty for an undo, which takes no filter. */
function needAdvice(planning: Planning, needed: ResourceDefinition, draft: Draft): string {
  const { desired, live, options } = planning.input;
  if (options.keepsAccepted === null) return '';
  if (writableFields(needed).length === 0)
    return `, and cannot be with this profile: ${closedReason(planning, needed)}`;
  const plan = planCommand({ from: desired.reference, to: live.reference });
  const kinds = [...new Set([needed.kind, draft.kind])].map((each) => ` --kind ${each}`).join('');
  const prune = options.prune === null ? '' : ` --prune --max-removals ${options.prune.maxRemovals}`;
  return `: restore both, with \`${plan}${kinds}${prune}\``;
}

/** True for a step for the same record that the other step would create. */
function isOfNew(draft: Draft, { key, kind, id, scope }: Draft): boolean {
  const isSame = draft.kind === kind && draft.id === id && compareScopes(draft.scope, scope) === 0;
  return isSame && key.endsWith('\0create');
}

function titleOf(kind: Kind): string {
  return definitionOf(kind).title.one;
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
    const start = at.get(draft.key);
    if (start !== undefined) return path.slice(start).reverse();
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

/**
 * Makes every step that takes a name wait for the step that frees it. If names must be unique, blocks the steps that the service would
 * refuse: those whose name another record keeps, and cyclic renames (a temporary name would be visible, and could remain after a crash).
 */
export function orderNames(planning: Planning): void {
  for (const [kind, { definition, live }] of planning.matching.kinds) {
    const { uniqueName } = definition.restore;
    // Sorted by key, so that the plan does not depend on the order of the records.
    const drafts = [...planning.drafts.values()]
      .filter(
        (draft) =>
          draft.kind === kind &&
          (draft.action === 'create' || draft.action === 'update' || draft.action === 'remove'),
      )
      .sort((a, b) => compareTexts(a.key, b.key));
    if (drafts.length < (uniqueName === null ? 2 : 1)) continue;
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
      const was = nameIn(draft.scope, body);
      const then = isJsonObject(body) ? { ...body, ...sent } : body;
      const becomes = draft.action === 'remove' ? null : nameIn(draft.scope, then);
      if (was === becomes) continue;
      if (was !== null) freed.set(was, draft.key);
      if (becomes !== null) taken.push({ draft, name: becomes });
    }
    const holderOf = new Map(taken.map(({ draft, name }) => [draft.key, freed.get(name)]));
    const isUnique = uniqueName !== null && taken.length > 0;
    const holders = isUnique ? Map.groupBy(live, ({ scope, body }) => nameIn(scope, body)) : null;
    const takers = Map.groupBy(taken, ({ name }) => name);
    for (const { draft, name } of taken) {
      const rival = (takers.get(name) ?? []).find((other) => other.draft.key !== draft.key);
      if (uniqueName !== null && rival !== undefined) {
        const reason =
          `the desired state gives its name to ${titleOf(kind)} ${rival.draft.name} (${rival.draft.id}) as well, and the service takes it once: ` +
          'restore one of them with --id';
        planning.put(blocked(draft, 'name_taken', reason));
        continue;
      }
      const first = freed.get(name);
      const holder = first === undefined ? holders?.get(name)?.[0] : undefined;
      if (holder !== undefined) {
        planning.put(blocked(draft, 'name_taken', keptNameReason(planning, definition, draft, holder)));
        continue;
      }
      if (first === undefined || first === draft.key || draft.after.includes(first)) continue;
      // The step that frees the name already waits for this one, because the service allows that.
      if (planning.drafts.get(first)?.after.includes(draft.key) === true) continue;
      const cycle = renameCycleFrom(draft.key, holderOf);
      // If several records may have the name, no step has to be first.
      if (cycle !== null && uniqueName === null) continue;
      if (cycle !== null) {
        const others = cycle.slice(1).map((key) => planning.drafts.get(key));
        const whose = others.map((other) => `${other?.name} (${other?.id})`).join(', ');
        const reason =
          `names are swapped: another record has its name and is to be called ${whose}, so no request can be first; ` +
          `rename one of the ${cycle.length} by hand to another name, then restore again`;
        planning.put(blocked(planning.drafts.get(draft.key) ?? draft, 'cycle', reason));
        continue;
      }
      const current = planning.drafts.get(draft.key) ?? draft;
      planning.put({ ...current, after: [...current.after, first] });
    }

    function nameIn(scope: Scope, body: JsonValue): string | null {
      return uniqueName === 'source' ? naturalKeyDigest(definition, body) : nameKey(definition, scope, body);
    }
  }
}

/** Why a step cannot take the name of a live record that no step of the plan renames or removes, and what to do. */
function keptNameReason(
  { matching, drafts }: Planning,
  definition: ResourceDefinition,
  draft: Draft,
  holder: ParsedRecord,
): string {
  const { kind } = definition;
  const name = recordName(definition, holder.body, holder.id);
  const isElsewhere = scopeKey(holder.scope) !== scopeKey(draft.scope);
  const place = isElsewhere ? `, organization ${holder.scope.organization_id ?? ''}` : '';
  const which = `${definition.title.one} ${name} (${holder.id}${place})`;
  const match = matching.kinds.get(kind);
  const step = [...drafts.values()].find(
    (other) => other.kind === kind && other.id === holder.id && !isExecutable(other),
  );
  if (step !== undefined) return `${which} has its name, and the step that would free it is ${step.action}`;
  if (match?.extra.includes(holder) === true) {
    const prune = definition.restore.isRemovable ? ', or remove it with --prune and --max-removals' : '';
    return `${which}, which the desired state does not have, has its name: rename that one by hand${prune}; then restore again`;
  }
  const wanted = match?.pairs.find(({ live }) => live === holder)?.desired;
  const isRenamed =
    wanted !== undefined &&
    naturalKeyDigest(definition, wanted.body) !== naturalKeyDigest(definition, holder.body);
  return isRenamed
    ? `${which} has its name, and this plan does not rename that one: restore both, with --id ${draft.id} --id ${holder.id}`
    : `${which} has its name and keeps it: rename one of the two by hand, then restore again`;
}

/** The cycle of steps that wait for each other's names, beginning with this one; null if it is in none. */
function renameCycleFrom(
  start: string,
  holderOf: ReadonlyMap<string, string | undefined>,
): readonly string[] | null {
  const cycle: string[] = [];
  for (let key: string | undefined = start; key !== undefined; key = holderOf.get(key)) {
    if (key === start && cycle.length > 0) return cycle;
    // A cycle, but this step is not part of it.
    if (cycle.includes(key)) return null;
    cycle.push(key);
  }
  return null;
}

/**
 * The steps of the plan, numbered from 1; they refer to each other by number. Steps that are sent come first, so that their numbers have
 * no gaps in a list without the others.
 */
export function finishedSteps(ordered: readonly OrderedDraft[]): PlanStep[] {
  const drafts = [
    ...ordered.filter(({ draft }) => isExecutable(draft)),
    ...ordered.filter(({ draft }) => !isExecutable(draft)),
  ];
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

/** The path for display: known ids filled in and encoded, the others as `{id of step N}`. */
function shownPath({ template, parameters }: PathPlan): string {
  return template.replace(/:([a-z_]+)/g, (whole, name: string) => {
    const found = parameters.find((each) => each.name === name);
    if (found === undefined) return whole;
    return 'value' in found ? fillPath(whole, { [name]: found.value }) : `{id of step ${found.step}}`;
  });
}
