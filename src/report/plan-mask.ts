/** A plan without ids that are secrets, wherever they are in it: every rendering of a plan begins with it. */
import type { Plan, PlanStep, StepAction } from '../restore/plan/plan.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { formatInteger, plural } from '../core/wording.ts';
import { isRawNumber, type JsonObject, getOwn } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeSegment } from '../core/json-pointer.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { isSecretId, maskedId, MASK, withMaskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { nameText, placeText } from './sections.ts';
import { folded } from './value-text.ts';

const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi;
/** What an id is made of, so that a text is looked through once, however many ids there are. */
const WORD = /[\w-]+/g;

/**
 * The plan for people and for machines, with ids that are secrets replaced wherever they are: in steps, in what was found
 * again under another id, in names and in reasons. Such a plan is not for applying.
 */
export function maskedPlan<T extends Plan>(plan: T, definitions: ReportOptions['definitions']): T {
  const marks = marksOf(plan, definitions);
  return withMarks(plan, marks);
}

/** A value with these ids replaced by their marks in every text of it. */
export function withMarks<T>(value: T, marks: ReadonlyMap<string, string>): T {
  return marks.size === 0 ? value : (marked(value, marker(marks)) as T);
}

/** The marks of a plan's secret ids, by id. */
function marksOf(plan: Plan, definitions: ReportOptions['definitions']): Map<string, string> {
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
      const { id, precondition, desired } = step;
      const live = precondition?.state === 'present' ? precondition.id : undefined;
      for (const each of [id, live, desired?.id]) add(definition, each);
      for (const each of idsNamed(step, definition)) add(definition, each);
    }
    const addressed = step.request === null ? null : secret(step.request.kind);
    if (addressed === null) continue;
    const parameter = step.request?.parameters.find(({ name }) => name === addressed.idParameter);
    if (parameter !== undefined && 'value' in parameter) add(addressed, parameter.value);
  }
  return marks;
}

/** Ids in a reason: it may name records without a step, such as those of the same name. */
export function idsNamed(
  { reason, scope }: Pick<PlanStep, 'reason' | 'scope'>,
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

// A plan as the renderings take it: its own words for people, ids that are secrets masked.

export const ACTION_SIGN: Readonly<Record<StepAction, string>> = {
  create: '+',
  update: '~',
  act: '~',
  remove: '-',
  blocked: '!',
  manual: '?',
};

/** A step with its texts ready: one line each, neutralised, nothing secret. */
export interface StepText {
  readonly step: PlanStep;
  /** E.g. `create batch export`, `pause batch export`, `batch export` where nothing is sent. */
  readonly operation: string;
  readonly name: string;
  readonly id: string;
  /** What the id is: the record's own, or that of the record that is created again, which gets another one. */
  readonly idLabel: 'id' | 'recorded id';
  readonly place: string;
  /** E.g. `PATCH /api/…`; null where nothing is sent. */
  readonly request: string | null;
  /** What is sent, member by member, for a creation; what changes, for everything else. */
  readonly fields: readonly FieldChange[];
}

export function stepText(step: PlanStep, options: ReportOptions): StepText {
  const definition = options.definitions(step.kind);
  const { request } = step;
  const { id, name } = withMaskedId(step, definition);
  const verb = request === null ? '' : `${verbOf(step)} `;
  const created = step.action === 'create' && request?.body !== null && request?.body !== undefined;
  return {
    step,
    operation: `${verb}${definition.title.one}`,
    name: nameText(name),
    id: nameText(id),
    idLabel: isYetToCome(step) ? 'recorded id' : 'id',
    place: placeText(step.scope, options),
    request:
      request === null ? null : `${request.method} ${escapeControlCharacters(shownPath(step, definition))}`,
    fields: created ? sentMembers(request.body) : step.fields,
  };
}

/** True where the record gets its id by the plan. */
function isYetToCome({ action, request }: PlanStep): boolean {
  return action === 'create' || (action === 'act' && request?.path.includes('{id of step') === true);
}

function verbOf({ action, request, kind }: PlanStep): string {
  if (action === 'act') return request?.act ?? 'act on';
  // Another kind's request creates the record: an invite for a member.
  return action === 'create' && request !== null && request.kind !== kind ? 'invite' : action;
}

function sentMembers(body: JsonObject): FieldChange[] {
  return Object.keys(body).map((name) => ({
    path: `/${escapeSegment(name)}`,
    to: getOwn(body, name) ?? null,
  }));
}

/** The request's path; where the record's id is a secret, without it. */
function shownPath({ id, request }: PlanStep, definition: ResourceDefinition): string {
  const path = request?.path ?? '';
  return isSecretId(definition) ? path.replaceAll(encodeURIComponent(id), MASK) : path;
}

/** E.g. `12 to create, 1 to update, 2 blocked; 340 unchanged`. */
export function planSummary({ summary, steps }: Plan): string {
  const count = (value: number, what: string): string | null =>
    value === 0 ? null : `${formatInteger(value)} ${what}`;
  const parts = [
    count(summary.create, 'to create'),
    count(summary.update, 'to update'),
    ...actCounts(steps),
    count(summary.remove, 'to remove'),
    count(summary.blocked, 'blocked'),
    count(summary.manual, summary.manual === 1 ? 'needs manual work' : 'need manual work'),
  ].filter((part) => part !== null);
  const unchanged = `${formatInteger(summary.unchanged)} unchanged`;
  return parts.length === 0 ? `nothing to do; ${unchanged}` : `${parts.join(', ')}; ${unchanged}`;
}

function actCounts(steps: readonly PlanStep[]): string[] {
  const acts = steps.filter(({ action }) => action === 'act').map(({ request }) => request?.act ?? 'act on');
  return [...Map.groupBy(acts, (act) => act)].map(([act, own]) => `${formatInteger(own.length)} to ${act}`);
}

/** The steps that have a request. */
export function sentSteps({ steps }: Pick<Plan, 'steps'>): readonly PlanStep[] {
  return steps.filter(({ action }) => action !== 'blocked' && action !== 'manual');
}

/** Why the numbers of the steps that are sent do not run on: nothing where they do. */
export function numbersNote(plan: Pick<Plan, 'steps'>): string {
  const sent = sentSteps(plan);
  return (sent.at(-1)?.n ?? 0) === sent.length
    ? ''
    : 'numbers that are missing are those of steps that are not sent';
}

/** E.g. `39 requests, 6 of them for removals, less than a minute at the configured rate`; empty where nothing would be sent. */
export function costText({ cost, refused }: Pick<Plan, 'cost' | 'refused'>): string {
  if (cost.requests === 0) return '';
  const { removals = 0 } = cost;
  const time = cost.minutes === 0 ? 'less than a minute' : `at least ${formatInteger(cost.minutes)} min`;
  return [
    refused.length === 0 ? '' : 'nothing yet; once allowed: ',
    plural(cost.requests, 'request'),
    removals === 0 || removals === cost.requests ? '' : `, ${formatInteger(removals)} of them for removals`,
    `, ${time} at the configured rate`,
  ].join('');
}

export interface Obstructed {
  readonly definition: ResourceDefinition;
  readonly reason: string;
  readonly steps: readonly StepText[];
}

/** Steps that are not sent, those of one kind and one reason together. */
export function obstructed(
  plan: Plan,
  action: 'blocked' | 'manual',
  options: ReportOptions,
): readonly Obstructed[] {
  const own = plan.steps.filter((step) => step.action === action);
  return [...Map.groupBy(own, ({ kind, reason }) => `${kind} ${reason ?? ''}`).values()].map((steps) => {
    const [first] = steps;
    if (first === undefined) throw new Error('a group has at least one step');
    return {
      definition: options.definitions(first.kind),
      reason: escapeControlCharacters(first.reason ?? ''),
      steps: steps.map((step) => stepText(step, options)),
    };
  });
}

/** Lines of configuration that would supply the secrets that steps lack; none where nothing lacks one. */
export function secretLines(
  { steps }: { readonly steps: readonly Pick<PlanStep, 'kind' | 'id' | 'name' | 'needs'>[] },
  options: Pick<ReportOptions, 'definitions'>,
): string[] {
  const lacking = steps.filter(({ needs }) => needs.length > 0);
  if (lacking.length === 0) return [];
  return [
    'secrets:',
    ...[...Map.groupBy(lacking, ({ kind }) => kind)].flatMap(([kind, own]) => [
      `  ${kind}:`,
      ...[...Map.groupBy(own, ({ id }) => id).values()].flatMap((same) => [
        ...same.slice(0, 1).map((step) => `    - match: ${matchText(step, options.definitions(kind))}`),
        '      values:',
        ...new Set(
          same
            .flatMap(({ needs }) => needs)
            .map(({ anyOf }) => `        ${anyOf[0] ?? ''}: \${VARIABLE}${others(anyOf)}`),
        ),
      ]),
    ]),
  ].map(escapeControlCharacters);
}

/** How a rule identifies the record: by its name, or by its id if it has none. */
function matchText(
  { name, id }: Pick<PlanStep, 'kind' | 'id' | 'name' | 'needs'>,
  { nameFrom, idPath }: ResourceDefinition,
): string {
  const [pointer = '/name'] = name === id ? [`/${idPath.join('/')}`] : nameFrom;
  const key = pointer.lastIndexOf('/') === 0 ? pointer.slice(1) : pointer;
  return JSON.stringify({ [key]: name });
}

function others(anyOf: readonly string[]): string {
  return anyOf.length < 2 ? '' : `   # or ${anyOf.slice(1).join(', or ')}`;
}

/** E.g. `role Growth: 12 → 34, found by its name`: a record that was found under another id. */
export function adoptionText(
  { kind, name, desired_id: from, live_id: to, by }: Plan['adopted'][number],
  { definitions }: Pick<ReportOptions, 'definitions'>,
): string {
  return `${definitions(kind).title.one} ${nameText(name)}: ${nameText(from)} → ${nameText(to)}, ${ADOPTED_BY[by]}`;
}

const ADOPTED_BY = {
  id_map: 'known from an earlier restore',
  natural_key: 'found by its name',
  content: 'found by its content, for it has no name',
} as const;

/** E.g. `3 roles (a, b, c): why`: records that no step is about. */
export function leftText(
  { kind, count, reason, names }: Plan['left'][number],
  { definitions }: Pick<ReportOptions, 'definitions'>,
): string {
  const { one, many } = definitions(kind).title;
  const more = count - names.length;
  const rest = more > 0 ? ` and ${formatInteger(more)} more` : '';
  return `${plural(count, one, many)} (${names.map(nameText).join(', ')}${rest}): ${escapeControlCharacters(reason)}`;
}

/** From this many characters on a body is folded. */
const BODY_LIMIT = 4000;

/** The body of a request that changes a record, as JSON over several lines; null for others: their members are listed as fields. */
export function bodyText({ action, request }: PlanStep): string | null {
  if (action !== 'update' || request?.body === null || request === null) return null;
  const lines = JSON.stringify(request.body, null, 2).split('\n');
  return folded(lines.map(escapeControlCharacters).join('\n'), BODY_LIMIT);
}
