/** A plan without ids that are secrets, wherever they stand in it: every rendering of a plan begins with it. */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import { isRawNumber } from '../core/json.ts';
import { isSecretId, maskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import type { ShownPlan, ShownStep } from './plan-view.ts';

/** What pins a step to records: further places where their ids stand. */
interface Pinned {
  readonly precondition?: { readonly state: string; readonly id?: string } | null;
  readonly desired?: { readonly id: string } | null;
  readonly request: (ShownStep['request'] & Addressed) | null;
}

interface Addressed {
  readonly parameters?: readonly { readonly name: string; readonly value?: string }[];
}

type MaskablePlan = Omit<ShownPlan, 'steps'> & { readonly steps: readonly (ShownStep & Pinned)[] };

const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
/** What an id is made of, so that a text is looked through once, however many ids there are. */
const WORD = /[\w-]+/g;

/**
 * The plan for people and for machines, with ids that are secrets replaced wherever they stand: in steps, in what was found
 * again under another id, in names and in reasons. Such a plan is not for applying.
 */
export function maskedPlan<T extends MaskablePlan>(plan: T, definitions: ReportOptions['definitions']): T {
  const marks = marksOf(plan, definitions);
  return withMarks(plan, marks);
}

/** A value with these ids replaced by their marks in every text of it. */
export function withMarks<T>(value: T, marks: ReadonlyMap<string, string>): T {
  return marks.size === 0 ? value : (marked(value, marker(marks)) as T);
}

/** The marks of a plan's secret ids, by id. */
function marksOf(plan: MaskablePlan, definitions: ReportOptions['definitions']): Map<string, string> {
  const marks = new Map<string, string>();
  const known = new Map<Kind, ResourceDefinition | null>();
  const secret = (kind: Kind): ResourceDefinition | null => {
    let found = known.get(kind);
    if (found === undefined) {
      const definition = definitions(kind);
      known.set(kind, (found = isSecretId(definition) ? definition : null));
    }
    return found;
  };
  const add = (definition: ResourceDefinition, id: string | undefined): void => {
    if (id !== undefined && id !== '') marks.set(id, maskedId(id, definition));
  };
  for (const { kind, desired_id: from, live_id: to } of plan.adopted) {
    const definition = secret(kind);
    if (definition === null) continue;
    add(definition, from);
    add(definition, to);
  }
  for (const step of plan.steps) {
    const definition = secret(step.kind);
    if (definition !== null) {
      for (const id of [step.id, step.precondition?.id, step.desired?.id]) add(definition, id);
      for (const id of idsNamed(step, definition)) add(definition, id);
    }
    const addressed = step.request === null ? null : secret(step.request.kind);
    if (addressed === null) continue;
    const parameter = step.request?.parameters?.find(({ name }) => name === addressed.idParameter);
    add(addressed, parameter?.value);
  }
  return marks;
}

/** Ids in a reason: it may name records that are no step's own, such as those that a namesake cannot be told from. */
export function idsNamed(
  { reason, scope }: Pick<ShownStep, 'reason' | 'scope'>,
  { idType }: ResourceDefinition,
): string[] {
  if (reason === null || idType !== 'uuid') return [];
  const parents = Object.values<string | undefined>(scope);
  return [...reason.matchAll(UUID)].map(([id]) => id).filter((id) => !parents.includes(id));
}

/** Replaces ids in a text by their marks. */
function marker(marks: ReadonlyMap<string, string>): (text: string) => string {
  const byWord = new Map<string, string>();
  const others: [string, string][] = [];
  for (const [id, mark] of marks) {
    for (const written of new Set([id, encodeURIComponent(id)])) {
      if (/^[\w-]+$/.test(written)) byWord.set(written, mark);
      else others.push([written, mark]);
    }
  }
  return (text) => {
    let shown = text.replace(WORD, (word) => byWord.get(word) ?? word);
    for (const [written, mark] of others) shown = shown.replaceAll(written, () => mark);
    return shown;
  };
}

/** Numbers keep the text they came as. */
function marked(value: unknown, mark: (text: string) => string): unknown {
  if (typeof value === 'string') return mark(value);
  if (Array.isArray(value)) return value.map((element: unknown) => marked(element, mark));
  if (value === null || typeof value !== 'object' || isRawNumber(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, marked(member, mark)]));
}
