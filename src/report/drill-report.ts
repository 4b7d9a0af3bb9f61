/** A drill as a report: the score first, then kind by kind, then what is left to do. */
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { defined } from '../core/defined.ts';
import { formatInteger, percent, plural } from '../core/wording.ts';
import {
  type DrillCounts,
  type DrillDocument,
  type DrillKind,
  type DrillTask,
  type DrillVerdict,
  DRILL_VERDICTS,
  drillScore,
  drillTotals,
} from '../diff/drill-document.ts';
import {
  type Item,
  type KindFacts,
  type Part,
  type ReportDocument,
  type Stat,
  listPart,
  noticePart,
  recordsPart,
  withCommands,
} from './document.ts';
import { stackedBar } from './charts.ts';
import { maskedDocument, maskedFields, withMaskedId } from './mask.ts';
import { parentTexts, referenceText, skippedText } from './notes.ts';
import type { ReportOptions } from './options.ts';
import { nameText } from './value-text.ts';

interface DrillOptions extends ReportOptions {
  /** True if the command writes the runbook: then the report does not suggest it. */
  readonly hasRunbook?: boolean;
}

/** Verdicts in words (for one and for many records), as headings of columns, and with their signs. */
const VERDICTS: Readonly<
  Record<DrillVerdict, Pick<Stat, 'tone' | 'sign'> & { one: string; many: string; column: string }>
> = {
  comes_back: { one: 'comes back', many: 'come back', column: 'comes back', tone: 'added', sign: '✓' },
  needs_secret: { one: 'needs a secret', many: 'need a secret', column: 'secret', tone: 'high', sign: '◆' },
  needs_person: {
    one: 'needs manual work',
    many: 'need manual work',
    column: 'manual',
    tone: 'medium',
    sign: '▲',
  },
  cannot: {
    one: 'cannot come back',
    many: 'cannot come back',
    column: 'cannot',
    tone: 'removed',
    sign: '−',
  },
  unknown: { one: 'unknown', many: 'unknown', column: 'unknown', tone: 'critical', sign: '?' },
};

/** The drill for people. */
export function drillReport(document: DrillDocument, options: DrillOptions): ReportDocument {
  const { source, kinds, outcome, from, tasks, assumptions, seconds, applied, passes } = document;
  const { definitions, generatedAt, hasRunbook } = options;
  return {
    title: 'Restore drill',
    textTitle: 'line',
    summary: drillVerdictText(document),
    tone: outcome === 'equal' ? 'good' : 'warning',
    facts: [
      outcomeText(document),
      `from ${source === undefined ? '' : `${source}: `}${referenceText(from, options.timeText)}`,
      `${seconds.toFixed(1)} s, ${plural(applied, 'step')} applied in ${plural(passes, 'pass', 'passes')} (a record may take several, or none)`,
    ],
    ...defined({ generatedAt }),
    stats: statsOf(document),
    parts: [
      ...skippedNotices(document, options),
      { type: 'chart', heading: 'what a restore brings back', html: verdictBar(drillTotals(kinds)) },
      kindTable(kinds, definitions),
      {
        type: 'kinds',
        heading: 'details by kind',
        kinds: kinds.map((kind) => kindFacts(kind, definitions(kind.kind))),
      },
      ...listPart(
        'always assigned by the service',
        kinds.flatMap((kind) => newValuesText(kind, definitions(kind.kind))),
      ),
      ...taskParts(tasks, options),
      ...listPart('assumptions', assumptions),
    ],
    next:
      tasks.length === 0 || hasRunbook === true
        ? []
        : [[{ code: 'tidemark drill --runbook FILE' }, ' writes down what is left to do, with the values']],
  };
}

function skippedNotices({ skipped }: DrillDocument, options: ReportOptions): Part[] {
  if (skipped.length === 0) return [];
  const items = skipped.map((each) => skippedText(each, options));
  return [noticePart('warning', `${plural(skipped.length, 'collection')} missing from the snapshot`, items)];
}

function statsOf({ kinds, score }: DrillDocument): NonNullable<ReportDocument['stats']> {
  const totals = drillTotals(kinds);
  return [
    { label: 'Score', stats: [{ value: percent(score), sign: '∑', label: 'score', tone: '' }] },
    {
      label: 'By verdict',
      stats: DRILL_VERDICTS.filter((verdict) => totals[verdict] > 0).map((verdict) =>
        verdictStat(verdict, totals[verdict]),
      ),
    },
  ];
}

function verdictStat(verdict: DrillVerdict, records: number): Stat {
  const { tone, sign } = VERDICTS[verdict];
  return { value: formatInteger(records), sign, label: pluralVerdict(verdict, records), tone };
}

/** Records by verdict as one bar, for HTML. */
export function verdictBar(
  totals: Readonly<Record<DrillVerdict, number>>,
  how: { readonly label?: string; readonly hasKey?: boolean } = {},
): string {
  const { label = 'Records by verdict', hasKey = true } = how;
  const parts = DRILL_VERDICTS.map((verdict) => {
    const { sign, one } = VERDICTS[verdict];
    const value = totals[verdict];
    return { name: verdict, sign, label: one, text: pluralVerdict(verdict, value), value };
  });
  return stackedBar(label, parts, { hasKey });
}

const COLUMNS = DRILL_VERDICTS.map((verdict) => VERDICTS[verdict].column);

function countCells(counts: DrillCounts): string[] {
  return [
    formatInteger(counts.records),
    ...DRILL_VERDICTS.map((verdict) => (counts[verdict] === 0 ? '·' : formatInteger(counts[verdict]))),
  ];
}

function kindTable(kinds: readonly DrillKind[], definitions: ReportOptions['definitions']): Part {
  const totals = drillTotals(kinds);
  return {
    type: 'table',
    heading: 'by kind',
    columns: ['kind', 'records', ...COLUMNS, 'score'],
    rows: kinds.map((row) => [
      definitions(row.kind).title.many,
      ...countCells(row),
      row.restored ? percent(row.score) : '–',
    ]),
    total: [
      'everything that a restore writes',
      ...countCells(totals),
      percent(drillScore(totals.comes_back, totals.records)),
    ],
  };
}

function kindFacts(kind: DrillKind, { title }: ResourceDefinition): KindFacts {
  return {
    kind: kind.kind,
    heading: title.many,
    fact: kind.restored ? percent(kind.score) : 'never restored',
    lines: kind.reasons.map(({ verdict, reason, records }) => ({
      ...verdictStat(verdict, records),
      text: shortReason(reason),
    })),
    table:
      kind.fields.length === 0
        ? null
        : {
            heading: `Fields of ${title.many}`,
            columns: ['field', 'records', ...COLUMNS],
            rows: kind.fields.map((field) => [field.path, ...countCells(field)]),
          },
  };
}

/** A line of configuration in a reason can fill a screen: then the reason names it, and the runbook has it. */
function shortReason(reason: string): string {
  return reason.replace(
    /definitions: \{ (\w+): \{ fields: \{ .{100,} \} \} \}/,
    'definitions.$1.fields (a runbook has the lines)',
  );
}

function taskParts(tasks: readonly DrillTask[], options: ReportOptions): Part[] {
  return [...Map.groupBy(tasks, ({ kind }) => kind)].flatMap(([kind, own]) =>
    recordsPart(
      `left to do: ${options.definitions(kind).title.many}`,
      own.map((task) => taskItem(task, options)),
      { foldedIn: ['text', 'html'] },
    ),
  );
}

function taskItem(task: DrillTask, options: ReportOptions): Item {
  const { tone, sign, one } = VERDICTS[task.verdict];
  return {
    ...taskFacts(task, options),
    tag: { value: '', sign, label: one, tone },
    place: parentTexts(task.scope, options),
    lines: [withCommands(task.reason), ...task.needs.map((anyOf) => [{ code: anyOf.join(' or ') }])],
    foldedFields:
      options.showsSecrets === true ? task.fields : maskedFields(task.fields, options.definitions(task.kind)),
  };
}

/** The name and the id of a task, masked if they are secret. */
export function taskFacts(
  task: DrillTask,
  { definitions, showsSecrets }: ReportOptions,
): Pick<Item, 'kind' | 'change' | 'name' | 'id'> {
  const { id, name } = showsSecrets === true ? task : withMaskedId(task, definitions(task.kind));
  return { kind: task.kind, change: 'unchanged', name: nameText(name), id: nameText(id) };
}

/** One line: how much comes back, and what the rest needs. */
export function drillVerdictText({ kinds, score, skipped }: DrillDocument): string {
  const totals = drillTotals(kinds);
  const rest = DRILL_VERDICTS.filter((verdict) => verdict !== 'comes_back' && totals[verdict] > 0)
    .map((verdict) => `${formatInteger(totals[verdict])} ${pluralVerdict(verdict, totals[verdict])}`)
    .join(', ');
  return [
    `${formatInteger(totals.comes_back)} of ${formatInteger(totals.records)} records (${percent(score)}) come back`,
    ...(rest === '' ? [] : [rest]),
    ...(skipped.length === 0 ? [] : [`the snapshot lacks ${plural(skipped.length, 'collection')}`]),
  ].join('; ');
}

export function pluralVerdict(verdict: DrillVerdict, records: number): string {
  return records === 1 ? VERDICTS[verdict].one : VERDICTS[verdict].many;
}

export function outcomeText({ outcome }: Pick<DrillDocument, 'outcome'>): string {
  return outcome === 'equal'
    ? 'passed: everything that requests can restore was restored unchanged'
    : 'incomplete: not every record that requests can restore came back; the report says why';
}

/** E.g. `members: /id`: fields to which the service assigns new values when a record is restored. */
export function newValuesText(kind: DrillKind, { title }: ResourceDefinition): string[] {
  const paths = kind.fields
    .filter((field) => field.comes_back < field.records && field.cannot > kind.cannot)
    .map(({ path }) => path);
  return paths.length === 0 ? [] : [`${title.many}: ${paths.join(', ')}`];
}

/** `drill --json`: secrets, and secret ids, are masked unless they are to be shown. */
export function renderDrillJson(document: DrillDocument, options: ReportOptions): string {
  const shown = options.showsSecrets === true ? document : maskedDrill(document, options.definitions);
  return `${JSON.stringify(shown, null, 2)}\n`;
}

function maskedDrill(document: DrillDocument, definitions: ReportOptions['definitions']): DrillDocument {
  return {
    ...document,
    remaining: maskedDocument({ changes: document.remaining }, definitions).changes,
    tasks: document.tasks.map((task) => {
      const definition = definitions(task.kind);
      return withMaskedId({ ...task, fields: maskedFields(task.fields, definition) }, definition);
    }),
  };
}
