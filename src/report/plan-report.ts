/** A plan as a report: what would be sent, step by step, then what would not be sent, and why. */
import { MASK } from '../catalog/masks.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { defined } from '../core/defined.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { groupsBy } from '../core/group.ts';
import { firstWords, formatInteger, plural, wordList } from '../core/wording.ts';
import { type JsonObject, getOwn } from '../core/json.ts';
import { escapeSegment, pointerTo, splitPointer } from '../core/json-pointer.ts';
import { isUncompared } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { continuedIds, newlyFound } from '../diff/found-again.ts';
import type { AcceptedPlace, Plan, PlannedRequest, PlanStep, StepAction } from '../restore/plan/plan.ts';
import {
  type Item,
  type Part,
  type ReportDocument,
  codePart,
  listPart,
  noticePart,
  recordsPart,
  withCommands,
} from './document.ts';
import { isSecretId, withMaskedId } from './mask.ts';
import { acceptedOnOneLine, parentTexts, skippedText } from './notes.ts';
import type { ReportOptions } from './options.ts';
import { maskedPlan } from './plan-mask.ts';
import { foldedValue, nameText, pathText } from './value-text.ts';

/** Heading of the steps that no request can do. */
export const MANUAL = 'needs manual work';

/** The plan for people, with every step. */
export function planReport(whole: Plan, options: ReportOptions): ReportDocument {
  const plan = maskedPlan(whole, options.definitions);
  const cost = costText(plan);
  const unsent = (action: StepAction) => plan.steps.filter((step) => step.action === action);
  return {
    title: options.title ?? 'Restore plan',
    states: { from: plan.from, to: plan.to },
    summary: planSummary(plan),
    ...defined({ detail: cost || undefined, notes: options.notes, generatedAt: options.generatedAt }),
    parts: [
      ...plan.refused.map(({ reason, hint }) => noticePart('bad', `refused: ${reason}`, [], hint)),
      ...skippedNotices(plan, options),
      ...lackingNotices(plan, options),
      ...(plan.warnings ?? []).map((line) => noticePart('warning', line, [])),
      ...stepParts(plan, options),
      ...obstructedPart('blocked', unsent('blocked'), options),
      ...configurationPart(plan.steps, options),
      ...obstructedPart(MANUAL, unsent('manual'), options),
      ...listPart('found again under another id', adoptionLines(plan, options)),
      ...listPart(
        'left as they are',
        plan.left.map((each) => leftText(each, options)),
      ),
    ],
  };
}

/** Introduces the lines of `secretLines`. */
export const SECRETS_INTRO = 'to supply the missing secrets, add to the source in the configuration';

/** The part of a reason with the line of configuration that would allow the step: its kind and fields. */
const ALLOWING = /to allow it(?:: |, add )definitions: \{ (\w+): \{ fields: \{ (.*) \} \} \}/;

/** The reason without that line, which is part of the YAML for all steps. */
export function withoutAllowing(reason: string | null): string | null {
  return reason?.replace(ALLOWING, 'to allow it, add its definitions to the configuration') ?? null;
}

/**
 * What the configuration lacks for the blocked steps, as one YAML to add to it.
 * @param limit the number of lines shown
 * @param command the command that shows all of them
 */
export function configurationPart(
  steps: readonly (LackingRecord & Pick<PlanStep, 'reason'>)[],
  options: Pick<ReportOptions, 'definitions' | 'present'>,
  { limit = Infinity, then = '', command = 'tidemark restore' } = {},
): Part[] {
  const kinds = new Map<string, Map<string, string>>();
  for (const { reason } of steps) {
    const [, kind = '', fields = ''] = ALLOWING.exec(reason ?? '') ?? [];
    const own = kinds.get(kind) ?? new Map<string, string>();
    for (const [, name = '', how = ''] of fields.matchAll(/("(?:[^"\\]|\\.)*"|[\w-]+): (\{[^}]*\})/g))
      kinds.set(kind, own.set(name, how));
  }
  const given = options.present?.given.definitions ?? [];
  const fieldLines = [...kinds].flatMap(([kind, fields]) => [
    keyLine(6, kind, given.includes(kind)),
    '        fields:',
    ...[...fields].map(([name, how]) => `          ${escapeControlCharacters(name)}: ${how}`),
  ]);
  const lines = [
    ...(fieldLines.length === 0 ? [] : [keyLine(4, 'definitions', given.length > 0), ...fieldLines]),
    ...secretLines(steps, options),
  ];
  const intro =
    fieldLines.length === 0
      ? SECRETS_INTRO
      : 'to allow what is blocked, add to the source in the configuration';
  const more = lines.length - limit;
  // Not as a comment in the YAML: if the terminal wraps a long line, the YAML is broken.
  const whole = more > 0 ? ` (\`${command}\` shows all of it)` : '';
  return codePart(`${intro}${then}${whole}`, 'yaml', [
    ...lines.slice(0, limit),
    ...(more > 0 ? [`# and ${plural(more, 'more line')}`] : []),
  ]);
}

function skippedNotices({ skipped = [] }: Plan, options: ReportOptions): Part[] {
  const unread = skipped.filter(isUncompared).map((each) => skippedText(each, options));
  const unconfirmed = skipped.filter((each) => !isUncompared(each));
  const heading = `${formatInteger(unread.length)} not compared, so this may not be everything`;
  return [
    ...(unread.length === 0 ? [] : [noticePart('warning', heading, unread)]),
    ...unconfirmed.map((each) => noticePart('note', `not looked up yet: ${skippedText(each, options)}`, [])),
  ];
}

function lackingNotices(plan: Plan, options: ReportOptions): Part[] {
  return lackingTexts(plan, options).map(({ text, reason }) => noticePart('warning', text, [reason]));
}

/** Created records that will lack something that no request can set. */
export function lackingTexts(
  { lacking = [] }: Plan,
  { definitions }: Pick<ReportOptions, 'definitions'>,
): { readonly text: string; readonly reason: string }[] {
  return lacking.map(({ kinds, reason }) => {
    const titles = kinds.map((kind) => definitions(kind).title.many).join(', ');
    return { text: `created without the settings that the API does not offer: ${titles}`, reason };
  });
}

const ACTION_SIGN: Readonly<Record<StepAction, string>> = {
  create: '+',
  update: '~',
  act: '~',
  remove: '-',
  blocked: '!',
  manual: '?',
};

/** The steps that send a request. */
export function sentItems(plan: Plan, options: ReportOptions): Item[] {
  return plan.steps.filter(isSent).map((step) => stepItem(step, options));
}

function isSent({ action }: PlanStep): boolean {
  return action !== 'blocked' && action !== 'manual';
}

const ALIKE_SHOWN = 20; // of steps that are alike

function stepParts(plan: Plan, options: ReportOptions): Part[] {
  if (options.countsAlike !== true) return recordsPart('steps', sentItems(plan, options));
  const folded = new Set<number>();
  const lines: string[] = [];
  for (const alike of groupsBy(plan.steps.filter(isSent), alikeKey)) {
    const [first] = alike;
    const rest = alike.slice(ALIKE_SHOWN);
    // One step is shown: a line that counts it would be as long.
    if (first.action === 'remove' || rest.length < 2) continue;
    for (const { n } of rest) folded.add(n);
    const { many } = options.definitions(first.kind).title;
    lines.push(`… and ${formatInteger(rest.length)} more ${many} to ${verbOf(first)} (-v lists them)`);
  }
  const shown = sentItems({ ...plan, steps: plan.steps.filter(({ n }) => !folded.has(n)) }, options);
  return recordsPart('steps', shown, { counted: { records: folded.size, lines } });
}

/** Equal for creations of one kind, and for other steps that set the same values; unique for steps on accepted drift. */
function alikeKey(step: PlanStep): string {
  const { n, action, kind, reason, accepted, ignored = [], kept, fields } = step;
  if (accepted !== undefined || kept !== undefined) return String(n);
  return JSON.stringify([kind, verbOf(step), reason, action === 'create' ? [] : fields, ignored]);
}

function stepItem(step: PlanStep, options: ReportOptions): Item {
  const { action } = step;
  const definition = options.definitions(step.kind);
  const { request, fields: changed } = step;
  const change = { create: 'added', remove: 'removed' } as const;
  const body = request?.body ?? null;
  const fields = action === 'create' && body !== null ? sentMembers(body) : changed;
  return {
    ...recordItem(step, options),
    number: step.n,
    operation: `${verbOf(step)} ${definition.title.one}`,
    change: action === 'create' || action === 'remove' ? change[action] : 'changed',
    ...(isYetToCome(step) ? { idLabel: 'recorded id' } : {}),
    ...(request === null ? {} : { request: requestText(request, step.id, definition) }),
    lines: [
      ...(step.reason === null ? [] : [withCommands(step.reason)]),
      ...(step.assigned === undefined
        ? []
        : [
            `the service assigns another ${step.assigned.join(', ')}: by hand, give it to every client that uses the recorded one`,
          ]),
      ...acceptedLines(step),
    ],
    ...(action === 'remove' ? { foldedFields: fields } : { fields }),
    ...(action === 'update' && body !== null ? { body } : {}),
  };
}

function requestText({ method, path }: PlannedRequest, id: string, definition: ResourceDefinition): string {
  return `${method} ${isSecretId(definition) ? path.replaceAll(encodeURIComponent(id), MASK) : path}`;
}

const VALUE_LIMIT = 120;

/** A line for each field that the step reverts although it was accepted or is ignored, or sets to the accepted value. */
export function acceptedLines({
  accepted = [],
  ignored = [],
  kept = [],
  fields = [],
}: Partial<PlanStep>): string[] {
  const placeText = (path: string): string => {
    const field = fields.find((each) => each.path === path);
    return path === '' ? '' : `${field === undefined ? nameText(path) : pathText(field)} `;
  };
  const hidden = ignored.map(
    ({ path, reason }) => `${placeText(path)}left out of drift, ignored by rule: ${nameText(reason)}`,
  );
  const known = [...accepted, ...kept].map((place, index) => {
    const { path, accepted_at: acceptedAt, value } = place;
    const was = value === undefined ? '' : `${foldedValue(value, VALUE_LIMIT)} `;
    const text = acceptedOnOneLine({ ...place, acceptedAt });
    const isSet = index >= accepted.length;
    const since = place.changed_since !== true ? '' : `; changed since${isSet ? '' : otherText(place)}`;
    return `${isSet ? 'kept: ' : ''}${placeText(path)}${was}${text}${since}`;
  });
  return [...known, ...hidden];
}

function otherText({ path, run }: AcceptedPlace): string {
  if (path === '') return '';
  const restores = run === undefined ? '' : `\`tidemark restore run:${run} --id ID\` sets it, `;
  return `, and this sets another value: ${restores}\`tidemark drift unaccept\` withdraws it`;
}

/** The part of an item that sent and unsent steps have in common. */
function recordItem(
  step: Pick<PlanStep, 'kind' | 'id' | 'name' | 'scope' | 'action'>,
  options: ReportOptions,
) {
  const { id, name } = withMaskedId(step, options.definitions(step.kind));
  return {
    kind: step.kind,
    sign: ACTION_SIGN[step.action],
    name: nameText(name),
    id: nameText(id),
    place: parentTexts(step.scope, options),
  };
}

/** Steps that are not sent, those of one kind and one reason together. */
export function obstructedPart(
  heading: string,
  steps: readonly ObstructedStep[],
  options: ReportOptions,
): Part[] {
  if (steps.length === 0) return [];
  const groups = groupsBy(steps, ({ kind, reason }) => `${kind} ${withoutAllowing(reason) ?? ''}`);
  return [
    {
      type: 'records',
      heading,
      layout: 'lines',
      groups: groups.map((same) => ({
        reason: groupText(same, options),
        items: same.map((step) => ({
          ...recordItem(step, options),
          change: 'unchanged',
          lines: acceptedLines(step),
          ...defined({ fields: step.fields }),
        })),
      })),
    },
  ];
}

type ObstructedStep = Pick<PlanStep, 'kind' | 'id' | 'name' | 'scope' | 'action' | 'reason'> &
  Partial<Pick<PlanStep, 'fields' | 'accepted' | 'ignored'>>;

function groupText(
  [{ kind, reason }, ...others]: readonly [ObstructedStep, ...ObstructedStep[]],
  { definitions }: ReportOptions,
): string {
  const { one, many } = definitions(kind).title;
  const why = withoutAllowing(reason);
  return `${others.length === 0 ? one : many}${why === null ? '' : `: ${why}`}`;
}

/** True if the record gets its id from the service when the plan is applied. */
function isYetToCome({ action, request }: PlanStep): boolean {
  return action === 'create' || (action === 'act' && request?.path.includes('{id of step') === true);
}

/** What a step does, in a word: `create`, `pause`, `invite`. */
export function verbOf({
  action,
  request,
  kind,
}: {
  readonly request: Pick<PlannedRequest, 'act' | 'kind'> | null;
} & Pick<PlanStep, 'action' | 'kind'>): string {
  if (action === 'act') return request?.act ?? 'act on';
  // A request of another kind creates the record: an invite for a member.
  return action === 'create' && request !== null && request.kind !== kind ? 'invite' : action;
}

function sentMembers(body: JsonObject): FieldChange[] {
  return Object.keys(body).map((name) => ({
    path: `/${escapeSegment(name)}`,
    to: getOwn(body, name) ?? null,
  }));
}

/** E.g. `12 to create, 1 to update, 2 blocked; 340 unchanged`. Without steps it says so if something could not be compared. */
export function planSummary(plan: Plan): string {
  const { summary, steps } = plan;
  const continued = continuedIds(plan);
  const count = (value: number, what: string): string | null =>
    value === 0 ? null : `${formatInteger(value)} ${what}`;
  const parts = [
    count(summary.create, 'to create'),
    count(summary.update, 'to update'),
    ...actCounts(steps),
    count(summary.remove, `to remove${finalText(steps)}`),
    count(summary.blocked, 'blocked'),
    count(summary.manual, summary.manual === 1 ? 'needs manual work' : 'need manual work'),
    count(summary.not_known ?? 0, 'not known'),
    ...(continued === 0 ? [] : [`${plural(continued, 'new id')} to record`]),
  ].filter((part) => part !== null);
  if (continued > 0 && steps.length === 0) parts.unshift('nothing to send');
  const unchanged = `${formatInteger(summary.unchanged)} unchanged`;
  if (parts.length === 0 && plan.skipped !== undefined)
    return `nothing to do in what could be compared; ${unchanged}`;
  return parts.length === 0 ? `nothing to do; ${unchanged}` : `${parts.join(', ')}; ${unchanged}`;
}

function finalText(steps: readonly PlanStep[]): string {
  const final = steps.filter((step) => step.final === true).length;
  return final === 0 ? '' : ` (${formatInteger(final)} that undo could not create again)`;
}

function actCounts(steps: readonly PlanStep[]): string[] {
  const acts = steps.filter(({ action }) => action === 'act').map(({ request }) => request?.act ?? 'act on');
  return [...Map.groupBy(acts, (act) => act)].map(([act, own]) => `${formatInteger(own.length)} to ${act}`);
}

/** E.g. `39 requests, 6 of them for removals, no wait for a rate limit`; empty if nothing would be sent. */
function costText({ cost, refused }: Pick<Plan, 'cost' | 'refused'>): string {
  if (cost.requests === 0) return '';
  const { removals = 0 } = cost;
  // How long the requests themselves take is unknown; without a limit, none has to wait.
  const time =
    cost.minutes === 0
      ? 'no wait for a rate limit'
      : `at least ${formatInteger(cost.minutes)} min at the configured rate`;
  return [
    refused.length === 0 ? '' : 'nothing yet; once allowed: ',
    plural(cost.requests, 'request'),
    removals === 0 || removals === cost.requests ? '' : `, ${formatInteger(removals)} of them for removals`,
    `, ${time}`,
  ].join('');
}

/** A record with the secrets that it lacks. */
type LackingRecord = Pick<PlanStep, 'kind' | 'id' | 'name'> & {
  /** Any one pointer of an entry is enough. */
  readonly needs: readonly Pick<PlanStep['needs'][number], 'any_of' | 'unset'>[];
};

/** A key of the suggested YAML, indented as below a source in the file that `init` writes. */
function keyLine(indent: number, key: string, isThere: boolean): string {
  return ' '.repeat(indent) + (isThere ? `# ${key}: is there already; add below it:` : `${key}:`);
}

/** Lines of YAML for the `secrets` of the source: names of variables, never values. None if no secret is missing. */
export function secretLines(
  records: readonly LackingRecord[],
  { definitions, present }: Pick<ReportOptions, 'definitions' | 'present'>,
): string[] {
  // Secrets with `unset` are configured; only their variable or file is missing.
  const lacking = records
    .map((record) => ({ ...record, needs: record.needs.filter(({ unset }) => unset === undefined) }))
    .filter(({ needs }) => needs.length > 0);
  if (lacking.length === 0) return [];
  const given = present?.given.secrets ?? [];
  const variableFor = variableNames(lacking, definitions, present?.variables ?? []);
  const byKind = Map.groupBy(lacking, ({ kind }) => kind);
  return [
    keyLine(4, 'secrets', given.length > 0),
    ...[...byKind].flatMap(([kind, own]) => {
      const records = groupsBy(own, ({ id }) => id);
      const names = records.map(([{ name }]) => name);
      return [
        keyLine(6, kind, given.includes(kind)),
        ...records.flatMap((same) => {
          const isUnique = names.filter((name) => name === same[0].name).length === 1;
          return ruleLines(same, isUnique, definitions(kind), variableFor);
        }),
      ];
    }),
  ].map(escapeControlCharacters);
}

function ruleLines(
  same: readonly [LackingRecord, ...LackingRecord[]],
  isUnique: boolean,
  definition: ResourceDefinition,
  variableFor: VariableFor,
): string[] {
  const [record] = same;
  const { name, id } = record;
  // The name stays when the record is recreated under a new id; a secret id must not be shown.
  const isById = (name === id || !isUnique) && !isSecretId(definition);
  const [pointer = '/name'] = isById ? [pointerTo(definition.idPath)] : definition.nameFrom;
  const key = pointer.lastIndexOf('/') === 0 ? pointer.slice(1) : pointer;
  const comment = isById && name !== id ? ` # ${nameText(name)}` : '';
  const needs = new Map(
    same.flatMap((each) => each.needs.map(({ any_of: anyOf }) => [anyOf.join(' '), anyOf])),
  );
  return [
    `        - match: ${JSON.stringify({ [key]: isById ? id : name })}${comment}`,
    '          values:',
    ...[...needs.values()].flatMap(([first = '', ...others]) => {
      const written = /^[\w/.-]+$/.test(first) ? first : JSON.stringify(first);
      // On lines of their own: if a narrow terminal wraps a comment after the value, the YAML is broken.
      const or = others.map((each) => `            # or ${each}`);
      return [`            ${written}: \${${variableFor(record, first)}}`, ...or];
    }),
  ];
}

type VariableFor = (record: LackingRecord, pointer: string) => string;

/**
 * Returns a variable for each value of each record. Neither another record nor the configuration has it, or the record would
 * be created with the secret of another one. It does not depend on the order of the plan.
 */
function variableNames(
  records: readonly LackingRecord[],
  definitions: ReportOptions['definitions'],
  variables: readonly string[],
): VariableFor {
  const keyOf = ({ kind, id }: LackingRecord): string => `${kind} ${id}`;
  const users = new Map<string, Set<string>>();
  for (const record of records)
    for (const {
      any_of: [pointer = ''],
    } of record.needs) {
      const wanted = variableText(record.name, pointer);
      users.set(wanted, (users.get(wanted) ?? new Set()).add(keyOf(record)));
    }
  const taken = new Set(variables);
  const isFree = (wanted: string): boolean => !taken.has(wanted) && (users.get(wanted)?.size ?? 0) < 2;
  const isPlain = ({ name, needs }: LackingRecord): boolean =>
    // Not for names with letters that `ascii` loses, nor for variables that other programs read.
    !/[^\P{L}A-Za-z]/u.test(ascii(name)) &&
    needs.every(({ any_of: [pointer = ''] }) => {
      const wanted = variableText(name, pointer);
      return isFree(wanted) && !/^(?:AWS|TIDEMARK)_/.test(wanted);
    });
  const plain = new Map<string, boolean>();
  for (const record of records)
    plain.set(keyOf(record), (plain.get(keyOf(record)) ?? true) && isPlain(record));
  return (record, pointer) => {
    const { kind, id, name } = record;
    const wanted = variableText(name, pointer);
    const part = isSecretId(definitions(kind)) ? '' : id.replaceAll(/[^A-Za-z0-9]/g, '').toUpperCase();
    const candidates = [
      ...(plain.get(keyOf(record)) === true ? [wanted] : []),
      // The end of the id: ids that are made one after the other begin alike.
      ...(part === '' ? [] : [`${wanted}_${part.slice(-8)}`, `${wanted}_${part}`]),
    ];
    let free = candidates.find((each) => !taken.has(each));
    for (let n = 2; free === undefined; n += 1)
      free = [`${wanted}_${n}`].find((each) => !taken.has(each) && !users.has(each));
    taken.add(free);
    return free;
  };
}

/** E.g. `NIGHTLY_AWS_SECRET_ACCESS_KEY`. */
function variableText(name: string, pointer: string): string {
  const words = ascii(`${name} ${splitPointer(pointer).at(-1) ?? ''}`)
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
    .toUpperCase();
  return /^[A-Z]/.test(words) ? words : `SECRET_${words}`;
}

/** Removes accents. */
function ascii(text: string): string {
  return text.normalize('NFKD').replaceAll(/\p{M}/gu, '');
}

/** A line for each record found under another id; without `isWhole`, those known from earlier restores are counted. */
export function adoptionLines(
  plan: Pick<Plan, 'adopted'>,
  options: Pick<ReportOptions, 'definitions' | 'isWhole'>,
): string[] {
  // One record may be in the lists of several organizations.
  const linesOf = (adopted: Plan['adopted']): string[] => [
    ...new Set(adopted.map((each) => adoptionText(each, options))),
  ];
  const known = linesOf(plan.adopted.filter(({ by }) => by === 'id_map'));
  const counted = `${plural(known.length, 'record')} ${ADOPTED_BY.id_map} (-v lists ${known.length === 1 ? 'it' : 'them'})`;
  const isCounted = known.length > 0 && options.isWhole !== true;
  return [...linesOf(newlyFound(plan)), ...(isCounted ? [counted] : known)];
}

/** E.g. `role Growth: 12 → 34, found by its name`. */
function adoptionText(
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

/** E.g. `3 roles (a, b, c): reason`: records without a step. */
export function leftText(
  { reason, ...own }: Plan['left'][number],
  options: Pick<ReportOptions, 'definitions'>,
): string {
  return `${countedNames(own, options)}: ${escapeControlCharacters(reason)}`;
}

/** E.g. `3 roles (a, b, c)` or `12 roles (a, b, c and 9 more)`. */
function countedNames(
  { kind, count, names }: Omit<Plan['left'][number], 'reason'>,
  { definitions }: Pick<ReportOptions, 'definitions'>,
): string {
  const { one, many } = definitions(kind).title;
  return `${plural(count, one, many)} (${firstWords(names.map(nameText), names.length, { of: count })})`;
}

/** Begins the note of a command on `Plan.unselected`. */
export const UNSELECTED = 'not selected, and lost with what is created';

/** Begins the note of a command on `Plan.referring`. */
export const REFERRING = 'not selected, and names by its old id what is created';

/** E.g. `2 batch exports (a, b)`: records outside the plan that refer to a created record by its old id. */
export function referringText(
  referring: NonNullable<Plan['referring']>,
  options: Pick<ReportOptions, 'definitions'>,
): string {
  return wordList(referring.map((own) => countedNames(own, options)));
}

/** E.g. `16 role memberships`: records outside the plan that are below created ones. */
export function unselectedText(
  unselected: NonNullable<Plan['unselected']>,
  definitions: ReportOptions['definitions'],
): string {
  return wordList(
    unselected.map(({ kind, count }) => {
      const { one, many } = definitions(kind).title;
      return plural(count, one, many);
    }),
  );
}
