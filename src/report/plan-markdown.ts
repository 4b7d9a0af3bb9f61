/** A plan as Markdown, for a pull request, a chat or a ticket. */
import { code, fieldText, plain } from './markdown.ts';
import type { ReportOptions } from './options.ts';
import { maskedPlan } from './plan-mask.ts';
import {
  type Obstructed,
  type ShownPlan,
  type StepText,
  ACTION_SIGN,
  adoptionText,
  bodyText,
  costText,
  leftText,
  numbersNote,
  obstructed,
  planSummary,
  secretLines,
  sentSteps,
  stepText,
} from './plan-view.ts';
import { referenceText, skippedText } from './sections.ts';

/** The plan as GitHub-flavoured Markdown, every step of it. */
export function renderPlanMarkdown(whole: ShownPlan, options: ReportOptions): string {
  const plan = maskedPlan(whole, options.definitions);
  const cost = costText(plan);
  const sent = sentSteps(plan);
  const secrets = secretLines(plan, options);
  const lines = [
    `## ${plain(options.title ?? 'Restore plan')}`,
    '',
    `**${planSummary(plan)}**${cost === '' ? '' : ` · ${cost}`}`,
    '',
    `${code(referenceText(plan.from))} → ${code(referenceText(plan.to))}`,
    ...(options.notes ?? []).flatMap((note) => ['', plain(note)]),
    ...plan.refused.flatMap(({ reason, hint }) => ['', `> **refused**: ${plain(reason)}. ${plain(hint)}`]),
    ...(plan.skipped ?? []).flatMap((each) => ['', `> not compared: ${plain(skippedText(each, options))}`]),
    ...(sent.length === 0 ? [] : ['', `### Steps (${sent.length})`, '']),
    ...sent.flatMap((step) => stepLines(stepText(step, options))),
    ...[numbersNote(plan)].flatMap((note) => (note === '' ? [] : ['', note])),
    ...groupLines('Blocked', obstructed(plan, 'blocked', options)),
    ...(secrets.length === 0 ? [] : ['', 'To supply the missing secrets:', '', '```yaml', ...secrets, '```']),
    ...groupLines('Needs a person', obstructed(plan, 'manual', options)),
    ...listLines(
      'Found again under another id',
      plan.adopted.map((each) => adoptionText(each, options)),
    ),
    ...listLines(
      'Left as they are',
      plan.left.map((each) => leftText(each, options)),
    ),
  ];
  return `${lines.join('\n')}\n`;
}

/** By bullets: a numbered list counts on by itself, and the numbers of steps that are not sent are missing between. */
function stepLines({ step, deed, name, id, idLabel, place, request, fields }: StepText): string[] {
  return [
    `- **${step.n}** ${code(ACTION_SIGN[step.action])} ${plain(deed)} ${code(name)} · ${idLabel} ${code(id)}${place === '' ? '' : ` in ${code(place)}`}`,
    ...(request === null ? [] : [`  - ${code(request)}`]),
    ...(step.reason === null ? [] : [`  - ${plain(step.reason)}`]),
    ...(step.action === 'remove' ? [] : fields.map((field) => `  - ${fieldText(field)}`)),
    ...bodyLines(bodyText(step)),
  ];
}

function groupLines(title: string, groups: readonly Obstructed[]): string[] {
  if (groups.length === 0) return [];
  return [
    '',
    `### ${title}`,
    ...groups.flatMap(({ definition, reason, steps }) => [
      '',
      `**${plain(definition.title.many)}**: ${plain(reason)}`,
      '',
      ...steps.flatMap(({ name, id, fields }) => [
        `- ${code(name)} · id ${code(id)}`,
        ...fields.map((field) => `  - ${fieldText(field)}`),
      ]),
    ]),
  ];
}

function listLines(title: string, texts: readonly string[]): string[] {
  return texts.length === 0 ? [] : ['', `### ${title}`, '', ...texts.map((text) => `- ${plain(text)}`)];
}

/** The body folded away; a fence longer than any run of backticks in it (CommonMark 4.5). */
function bodyLines(body: string | null): string[] {
  if (body === null) return [];
  const runs = [...body.matchAll(/`+/g)].map(([run]) => run.length);
  const fence = '`'.repeat(Math.max(3, ...runs.map((length) => length + 1)));
  const lines = [
    '<details><summary>request body</summary>',
    '',
    `${fence}json`,
    ...body.split('\n'),
    fence,
    '',
  ];
  return ['', ...[...lines, '</details>'].map((line) => (line === '' ? '' : `  ${line}`))];
}
