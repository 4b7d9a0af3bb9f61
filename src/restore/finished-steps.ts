/** Drafts in their order become the numbered steps of a plan. */
import { fillPath } from '../catalog/catalog.ts';
import type { JsonObject } from '../core/json.ts';
import { splitPointer } from '../diff/pointer.ts';
import type { DraftPath, DraftPrecondition, DraftRequest, Slot } from './draft.ts';
import type { OrderedDraft } from './order.ts';
import { placesOf, withMember } from './places.ts';
import type { Fill, Parameter, PathPlan, PlannedRequest, PlanStep, Precondition } from './plan.ts';

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
      precondition: precondition === null ? null : finishedPrecondition(precondition, numberOf),
    };
  });
}

type NumberOf = (key: string) => number;

function finishedPrecondition(precondition: DraftPrecondition, numberOf: NumberOf): Precondition {
  return precondition.state === 'after'
    ? { state: 'after', step: numberOf(precondition.step) }
    : precondition;
}

function finishedRequest(draft: DraftRequest, numberOf: NumberOf): PlannedRequest {
  const { template, parameters, fills, alternative, body, ...rest } = draft;
  const path = finishedPath({ template, parameters }, numberOf);
  return {
    ...rest,
    ...path,
    path: shownPath(path),
    body: body === null ? null : withStepTexts(body, fills, numberOf),
    fills: fills.map((fill): Fill => (fill.from === 'step' ? { ...fill, step: numberOf(fill.step) } : fill)),
    alternative: alternative === null ? null : finishedPath(alternative, numberOf),
  };
}

function finishedPath({ template, parameters }: DraftPath, numberOf: NumberOf): PathPlan {
  return {
    template,
    parameters: Object.entries(parameters).map(([name, slot]): Parameter => parameter(name, slot, numberOf)),
  };
}

function parameter(name: string, slot: Slot, numberOf: NumberOf): Parameter {
  return 'step' in slot ? { name, step: numberOf(slot.step) } : { name, value: slot.value };
}

/** For people: what is known filled in and encoded, the rest named by the step that gives it. */
function shownPath({ template, parameters }: PathPlan): string {
  return template.replace(/:([a-z_]+)/g, (whole, name: string) => {
    const found = parameters.find((each) => each.name === name);
    if (found === undefined) return whole;
    return 'value' in found ? fillPath(whole, { [name]: found.value }) : `{id of step ${found.step}}`;
  });
}

function withStepTexts(body: JsonObject, fills: DraftRequest['fills'], numberOf: NumberOf): JsonObject {
  let shown: JsonObject = body;
  for (const fill of fills) {
    if (fill.from !== 'step' || placesOf(shown, fill.pointer).length === 0) continue;
    shown = withMember(
      shown,
      splitPointer(fill.pointer),
      `{id of step ${numberOf(fill.step)}}`,
    ) as JsonObject;
  }
  return shown;
}
