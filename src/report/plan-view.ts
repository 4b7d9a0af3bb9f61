/** A plan as the renderings take it: its own words for people, ids that are secrets masked. */
import type { Kind, ResourceDefinition, Scope } from '../catalog/definition.ts';
import { formatInteger } from '../core/grouped.ts';
import { type JsonObject, getOwn } from '../core/json.ts';
import { plural } from '../core/wording.ts';
import type { Skipped, StateReference } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeSegment } from '../diff/pointer.ts';
import { isSecretId, MASK, withMaskedId } from './mask.ts';
import { escapeControlCharacters } from './escape-control.ts';
import type { ReportOptions } from './options.ts';
import { nameText, placeText } from './sections.ts';
import { folded } from './value-text.ts';

type Action = 'create' | 'update' | 'act' | 'remove' | 'blocked' | 'manual';

/** What of a step is shown. */
export interface ShownStep {
  readonly n: number;
  readonly action: Action;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly name: string;
  readonly fields: readonly FieldChange[];
  readonly request: {
    readonly kind: Kind;
    readonly method: string;
    readonly path: string;
    readonly act: string | null;
    readonly body: JsonObject | null;
  } | null;
  readonly reason: string | null;
  readonly obstacle: string | null;
  readonly needs: ShownNeeds['needs'];
}

interface ShownNeeds {
  readonly kind: Kind;
  readonly id: string;
  readonly name: string;
  readonly needs: readonly { readonly anyOf: readonly string[] }[];
}

/** What of a plan is shown. */
export interface ShownPlan {
  readonly from: StateReference;
  readonly to: StateReference;
  readonly steps: readonly ShownStep[];
  readonly adopted: readonly {
    readonly kind: Kind;
    readonly name: string;
    readonly desired_id: string;
    readonly live_id: string;
    readonly by: 'id_map' | 'natural_key' | 'content';
  }[];
  readonly left: readonly {
    readonly kind: Kind;
    readonly count: number;
    readonly reason: string;
    readonly names: readonly string[];
  }[];
  readonly refused: readonly { readonly reason: string; readonly hint: string }[];
  readonly skipped?: readonly Skipped[];
  readonly summary: Readonly<Record<Action | 'unchanged', number>>;
  readonly cost: { readonly requests: number; readonly minutes: number; readonly removals?: number };
}

export const ACTION_SIGN: Readonly<Record<Action, string>> = {
  create: '+',
  update: '~',
  act: '~',
  remove: '-',
  blocked: '!',
  manual: '?',
};

/** A step with its texts ready: one line each, neutralised, nothing secret. */
export interface StepText {
  readonly step: ShownStep;
  /** E.g. `create batch export`, `pause batch export`, `batch export` where nothing is sent. */
  readonly deed: string;
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

export function stepText(step: ShownStep, options: ReportOptions): StepText {
  const definition = options.definitions(step.kind);
  const { request } = step;
  const { id, name } = withMaskedId(step, definition);
  const verb = request === null ? '' : `${verbOf(step)} `;
  const created = step.action === 'create' && request?.body !== null && request?.body !== undefined;
  return {
    step,
    deed: `${verb}${definition.title.one}`,
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
function isYetToCome({ action, request }: ShownStep): boolean {
  return action === 'create' || (action === 'act' && request?.path.includes('{id of step') === true);
}

function verbOf({ action, request, kind }: ShownStep): string {
  if (action === 'act') return request?.act ?? 'act on';
  // Another kind's request stands for the record: an invite for a member.
  return action === 'create' && request !== null && request.kind !== kind ? 'invite' : action;
}

function sentMembers(body: JsonObject): FieldChange[] {
  return Object.keys(body).map((name) => ({
    path: `/${escapeSegment(name)}`,
    to: getOwn(body, name) ?? null,
  }));
}

/** The request's path; where the record's id is a secret, without it. */
function shownPath({ id, request }: ShownStep, definition: ResourceDefinition): string {
  const path = request?.path ?? '';
  return isSecretId(definition) ? path.replaceAll(encodeURIComponent(id), MASK) : path;
}

/** E.g. `12 to create, 1 to update, 2 blocked; 340 unchanged`. */
export function planSummary({ summary, steps }: ShownPlan): string {
  const count = (value: number, what: string): string | null =>
    value === 0 ? null : `${formatInteger(value)} ${what}`;
  const parts = [
    count(summary.create, 'to create'),
    count(summary.update, 'to update'),
    ...actCounts(steps),
    count(summary.remove, 'to remove'),
    count(summary.blocked, 'blocked'),
    count(summary.manual, summary.manual === 1 ? 'needs a person' : 'need a person'),
  ].filter((part) => part !== null);
  const unchanged = `${formatInteger(summary.unchanged)} unchanged`;
  return parts.length === 0 ? `nothing to do; ${unchanged}` : `${parts.join(', ')}; ${unchanged}`;
}

function actCounts(steps: readonly ShownStep[]): string[] {
  const acts = steps.filter(({ action }) => action === 'act').map(({ request }) => request?.act ?? 'act on');
  return [...Map.groupBy(acts, (act) => act)].map(([act, own]) => `${formatInteger(own.length)} to ${act}`);
}

/** The steps that have a request. */
export function sentSteps({ steps }: Pick<ShownPlan, 'steps'>): readonly ShownStep[] {
  return steps.filter(({ action }) => action !== 'blocked' && action !== 'manual');
}

/** Why the numbers of the steps that are sent do not run on: nothing where they do. */
export function numbersNote(plan: Pick<ShownPlan, 'steps'>): string {
  const sent = sentSteps(plan);
  return (sent.at(-1)?.n ?? 0) === sent.length
    ? ''
    : 'numbers that are missing are those of steps that are not sent';
}

/** E.g. `39 requests, 6 of them for removals, less than a minute at the configured rate`; empty where nothing would be sent. */
export function costText({ cost, refused }: Pick<ShownPlan, 'cost' | 'refused'>): string {
  if (cost.requests === 0) return '';
  const { removals = 0 } = cost;
  const time = cost.minutes === 0 ? 'less than a minute' : `at least ${formatInteger(cost.minutes)} min`;
  return [
    refused.length === 0 ? '' : 'nothing as it stands; once allowed: ',
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
  plan: ShownPlan,
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
  { steps }: { readonly steps: readonly ShownNeeds[] },
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

/** What tells the record in a rule: its name, or its id where it has none. */
function matchText({ name, id }: ShownNeeds, { nameFrom, idPath }: ResourceDefinition): string {
  const [pointer = '/name'] = name === id ? [`/${idPath.join('/')}`] : nameFrom;
  const key = pointer.lastIndexOf('/') === 0 ? pointer.slice(1) : pointer;
  return JSON.stringify({ [key]: name });
}

function others(anyOf: readonly string[]): string {
  return anyOf.length < 2 ? '' : `   # or ${anyOf.slice(1).join(', or ')}`;
}

/** E.g. `role Growth: 12 → 34, found by its name`: a record that was found under another id. */
export function adoptionText(
  { kind, name, desired_id: from, live_id: to, by }: ShownPlan['adopted'][number],
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
  { kind, count, reason, names }: ShownPlan['left'][number],
  { definitions }: Pick<ReportOptions, 'definitions'>,
): string {
  const { one, many } = definitions(kind).title;
  const more = count - names.length;
  const rest = more > 0 ? ` and ${formatInteger(more)} more` : '';
  return `${plural(count, one, many)} (${names.map(nameText).join(', ')}${rest}): ${escapeControlCharacters(reason)}`;
}

/** From this many characters on a body is folded. */
const BODY_LIMIT = 4000;

/** The body of a request that changes a record, as JSON over several lines; null for others: their members stand as fields. */
export function bodyText({ action, request }: ShownStep): string | null {
  if (action !== 'update' || request?.body === null || request === null) return null;
  const lines = JSON.stringify(request.body, null, 2).split('\n');
  return folded(lines.map(escapeControlCharacters).join('\n'), BODY_LIMIT);
}
