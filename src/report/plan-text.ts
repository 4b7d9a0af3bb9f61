/** A plan on a terminal: what would be sent, step by step, then what would not and why. */
import type { Plan } from '../restore/plan/plan.ts';
import type { Colors } from 'picocolors/types.js';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';
import { maskedPlan } from './plan-mask.ts';
import {
  type Obstructed,
  type StepText,
  ACTION_SIGN,
  adoptionText,
  costText,
  leftText,
  numbersNote,
  obstructed,
  planSummary,
  secretLines,
  sentSteps,
  stepText,
} from './plan-mask.ts';
import { referenceText, skippedText } from './sections.ts';
import { type LineOptions, fieldLines } from './text.ts';
import { folded } from './value-text.ts';

type PlanTextOptions = ReportOptions & LineOptions;

/** The plan as lines of text, the last one ended. */
export function renderPlanText(whole: Plan, options: PlanTextOptions): string {
  const plan = maskedPlan(whole, options.definitions);
  const { colors } = options;
  const cost = costText(plan);
  const sent = sentSteps(plan);
  const lines = [
    `${referenceText(plan.from)} → ${referenceText(plan.to)}`,
    `${colors.bold(planSummary(plan))}${cost === '' ? '' : ` ${colors.dim(`(${cost})`)}`}`,
    ...(options.notes ?? []).map(escapeControlCharacters),
    ...refusedLines(plan, colors),
    ...skippedLines(plan, options),
    ...(sent.length === 0 ? [] : ['', colors.bold(`steps (${sent.length})`)]),
    ...sent.flatMap((step) => stepLines(stepText(step, options), options)),
    ...[numbersNote(plan)].flatMap((note) => (note === '' ? [] : ['', colors.dim(note)])),
    ...obstructedLines('blocked', obstructed(plan, 'blocked', options), options),
    ...secretsLines(plan, options),
    ...obstructedLines('needs manual work', obstructed(plan, 'manual', options), options),
    ...adoptedLines(plan, options),
    ...leftLines(plan, options),
  ];
  return `${lines.join('\n')}\n`;
}

function refusedLines({ refused }: Plan, colors: Colors): string[] {
  return refused.flatMap(({ reason, hint }) => [
    colors.red(`refused: ${escapeControlCharacters(reason)}`),
    `  → ${escapeControlCharacters(hint)}`,
  ]);
}

function skippedLines({ skipped = [] }: Plan, options: PlanTextOptions): string[] {
  if (skipped.length === 0) return [];
  const { yellow } = options.colors;
  return [
    yellow(`${skipped.length} not compared, so this may not be everything:`),
    ...skipped.map((each) => yellow(`  ! ${skippedText(each, options)}`)),
  ];
}

function stepLines(
  { step, operation, name, id, idLabel, place, request, fields }: StepText,
  options: PlanTextOptions,
): string[] {
  const { colors, width } = options;
  const paint = { create: colors.green, remove: colors.red }[step.action as string] ?? colors.yellow;
  const head = paint(`${ACTION_SIGN[step.action]} ${operation} ${colors.bold(name)}`);
  const body = step.action === 'update' ? ` ${JSON.stringify(step.request?.body)}` : '';
  const sent = escapeControlCharacters(`${request ?? ''}${body}`);
  return [
    `${String(step.n).padStart(4)} ${head}`,
    `      ${colors.dim(place === '' ? `${idLabel} ${id}` : `${idLabel} ${id}, ${place}`)}`,
    `      ${folded(sent, Math.max(2 * (width - 6), 120))}`,
    ...(step.reason === null ? [] : [`      ${escapeControlCharacters(step.reason)}`]),
    ...(step.action === 'remove' ? [] : fields.flatMap((field) => fieldLines(field, options))),
  ];
}

function obstructedLines(title: string, groups: readonly Obstructed[], options: PlanTextOptions): string[] {
  if (groups.length === 0) return [];
  const { colors } = options;
  const count = groups.reduce((sum, { steps }) => sum + steps.length, 0);
  return [
    '',
    colors.bold(`${title} (${count})`),
    ...groups.flatMap(({ definition, reason, steps }) => [
      `  ${colors.yellow(`${steps.length === 1 ? definition.title.one : definition.title.many}: ${reason}`)}`,
      ...steps.flatMap(({ step, name, id, place, fields }) => [
        `    ${ACTION_SIGN[step.action]} ${colors.bold(name)} ${colors.dim(place === '' ? `id ${id}` : `id ${id}, ${place}`)}`,
        ...fields.flatMap((field) => fieldLines(field, options)),
      ]),
    ]),
  ];
}

function secretsLines(plan: Plan, options: PlanTextOptions): string[] {
  const lines = secretLines(plan, options);
  if (lines.length === 0) return [];
  return [
    '',
    'to supply the missing secrets, add to the source in the configuration:',
    ...lines.map((line) => `  ${line}`),
  ];
}

function adoptedLines({ adopted }: Plan, options: PlanTextOptions): string[] {
  if (adopted.length === 0) return [];
  // One record may be in the lists of several organizations.
  const texts = new Set(adopted.map((each) => adoptionText(each, options)));
  return [
    '',
    options.colors.bold(`found again under another id (${texts.size})`),
    ...[...texts].map((text) => `  = ${text}`),
  ];
}

function leftLines({ left }: Plan, options: PlanTextOptions): string[] {
  if (left.length === 0) return [];
  return ['', options.colors.bold('left as they are'), ...left.map((each) => `  ${leftText(each, options)}`)];
}
