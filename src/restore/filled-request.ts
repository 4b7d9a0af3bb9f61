/** A planned request with everything filled in: what apply sends. */
import { fillPath } from '../catalog/catalog.ts';
import { type JsonValue, getOwn, isJsonObject, parseLossless } from '../core/json.ts';
import type { Secret } from '../core/secret.ts';
import { resolvePointer, splitPointer } from '../diff/pointer.ts';
import { withMember } from './places.ts';
import type { PathPlan, PlannedRequest } from './plan.ts';

/** Where the values come from that the plan does not hold. */
interface FillValues {
  /** The id that an applied step gave; undefined where it gave none. */
  readonly idOf: (step: number) => string | undefined;
  /** The configured secret for a place of the desired record. */
  readonly secret: (pointer: string) => Secret | undefined;
  /** The desired record's body; null where the step has none. */
  readonly desired: JsonValue | null;
}

/**
 * The path below the base URL, every value percent-encoded.
 * @throws Error when a step has not given its id
 */
export function filledPath(path: PathPlan, values: Pick<FillValues, 'idOf'>): string {
  const known = path.parameters.map((each): [string, string | undefined] => [
    each.name,
    'value' in each ? each.value : values.idOf(each.step),
  ]);
  return fillPath(path.template, Object.fromEntries(known));
}

/**
 * The body as JSON text, numbers digit by digit; null for a request without one. It may hold secrets: it is sent, and
 * goes nowhere else.
 * @throws Error when a value is missing: the plan was checked for it
 */
export function filledBody(request: PlannedRequest, values: FillValues): string | null {
  if (request.body === null) return null;
  let body: JsonValue = request.body;
  for (const fill of request.fills) {
    const value = fillValue(fill, values);
    if (value === undefined) throw new Error(`nothing gives the value for ${fill.pointer}`);
    body = withMember(body, splitPointer(fill.pointer), value) ?? value;
  }
  return JSON.stringify(body);
}

/** Every text and number of the secrets that the body holds: what must not be kept of an answer that repeats them. */
export function filledSecrets(request: PlannedRequest, values: FillValues): string[] {
  return request.fills.flatMap((fill) => {
    const value = fill.from === 'step' ? undefined : fillValue(fill, values);
    return value === undefined ? [] : textsIn(value);
  });
}

function textsIn(value: JsonValue): string[] {
  if (typeof value === 'string') return [value];
  if (value === null || typeof value === 'boolean') return [];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (!isJsonObject(value)) return [JSON.stringify(value)];
  return Object.keys(value).flatMap((name) => textsIn(getOwn(value, name) ?? null));
}

function fillValue(fill: PlannedRequest['fills'][number], values: FillValues): JsonValue | undefined {
  if (fill.from === 'configuration') return values.secret(fill.pointer)?.reveal();
  if (fill.from === 'desired') {
    return values.desired === null ? undefined : resolvePointer(values.desired, fill.pointer);
  }
  const id = values.idOf(fill.step);
  if (id === undefined || fill.as === 'text') return id;
  return /^-?(?:0|[1-9][0-9]*)$/.test(id) ? parseLossless(id) : id;
}
