/** A plan as Markdown, for a pull request, a chat or a ticket. */
import { code, fieldText, plain } from './markdown.ts';
import type { ReportOptions } from './options.ts';
import { maskedPlan } from './plan-mask.ts';
import type { Obstructed, ShownPlan, StepText } from './plan-view.ts';
import { ACTION_SIGN, costText, obstructed, planSummary, secretLines, stepText } from './plan-view.ts';
import { nameText, referenceText, skippedText } from './sections.ts';

/** The plan as GitHub-flavoured Markdown, every step of it. */
export function renderPlanMarkdown(whole: ShownPlan, options: ReportOptions): string {
  const plan = maskedPlan(whole, options.definitions);
  const cost = costText(plan);
  const sent = plan.steps.filter(({ action }) => action !== 'blocked' && action !== 'manual');
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
    ...groupLines('Blocked', obstructed(plan, 'blocked', options)),
    ...(secrets.length === 0 ? [] : ['', 'To supply the missing secrets:', '', '```yaml', ...secrets, '```']),
    ...groupLines('Needs a person', obstructed(plan, 'manual', options)),
    ...leftLines(plan, options),
  ];
  return `${lines.join('\n')}\n`;
}

function stepLines({ step, deed, name, id, place, request, fields }: StepText): string[] {
  return [
    `${step.n}. ${code(ACTION_SIGN[step.action])} ${plain(deed)} ${code(name)} · id ${code(id)}${place === '' ? '' : ` in ${code(place)}`}`,
    ...(request === null ? [] : [`   - ${code(request)}`]),
    ...(step.reason === null ? [] : [`   - ${plain(step.reason)}`]),
    ...(step.action === 'remove' ? [] : fields.map((field) => `   - ${fieldText(field)}`)),
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

function leftLines({ left }: ShownPlan, { definitions }: ReportOptions): string[] {
  if (left.length === 0) return [];
  return [
    '',
    '### Left as they are',
    '',
    ...left.map(
      ({ kind, count, reason, names }) =>
        `- ${count} ${plain(definitions(kind).title.many)}: ${plain(reason)} (${names.map((name) => code(nameText(name))).join(', ')})`,
    ),
  ];
}
