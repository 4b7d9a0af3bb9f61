/** A saved plan, read back: it is what was approved, or it is refused. */
import { TidemarkError } from '../core/errors.ts';
import { getOwn, isJsonObject, parseLossless, type JsonValue } from '../core/json.ts';
import type { Plan, PlanDocument } from './plan.ts';
import { hashOfSteps, planHash } from './plan-hash.ts';

/**
 * The plan of a `tidemark.plan/1` document. All that apply relies on is pinned by its hash, so that a plan that was edited
 * is none.
 * @throws TidemarkError `usage` when the text is no plan, `unsafe_plan` when its hash is another one
 */
export function readPlan(text: string): Plan {
  const document = parsed(text);
  const hash = isJsonObject(document) ? getOwn(document, 'plan') : undefined;
  const steps = isJsonObject(document) ? getOwn(document, 'steps') : undefined;
  if (
    !isJsonObject(document) ||
    getOwn(document, 'schema') !== 'tidemark.plan/1' ||
    typeof hash !== 'string' ||
    !Array.isArray(steps)
  ) {
    throw notAPlan();
  }
  // The hash stands for the shape of the steps too: only what the planner wrote has one that fits.
  const { plan, ...rest } = document as unknown as PlanDocument;
  if (hashOf(rest) !== plan) {
    const isOld = hashOfSteps(rest.steps) === plan;
    throw new TidemarkError(
      'unsafe_plan',
      isOld
        ? 'the plan was made by an older tidemark: its hash covers its steps only'
        : 'the plan was changed since it was made: its hash is another one',
      {
        hint: 'make it anew with `tidemark restore --out FILE`; edit the desired state (an export), never the plan',
      },
    );
  }
  const { from, to, adopted, left, refused, skipped, summary, cost } = rest;
  return {
    ...{ from, to, hash: plan, steps: rest.steps, adopted, left, refused },
    ...(skipped === undefined ? {} : { skipped }),
    ...{ summary, cost },
  };
}

/** Null for a document that lacks what a plan has. */
function hashOf(document: Omit<PlanDocument, 'schema' | 'plan'>): string | null {
  const { from, to, adopted, left, refused, summary } = document as Partial<PlanDocument>;
  const isWhole = [from, to, adopted, left, refused, summary].every((part) => part instanceof Object);
  return isWhole ? planHash(document) : null;
}

function parsed(text: string): JsonValue {
  try {
    return parseLossless(text);
  } catch (error) {
    throw notAPlan(error);
  }
}

function notAPlan(cause?: unknown): TidemarkError {
  return new TidemarkError('usage', 'the file is no plan (`tidemark.plan/1`)', {
    hint: 'save one with `tidemark restore --out FILE`',
    ...(cause === undefined ? {} : { cause }),
  });
}
