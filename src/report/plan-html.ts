/** A plan as one self-contained page. */
import type { Plan } from '../restore/plan/plan.ts';
import { fieldHtml } from './html-value.ts';
import { stateHtml, filterTools, htmlPage, timeHtml } from './html.ts';
import { code, fieldText, plain } from './markdown.ts';
import { escapeMarkup } from './markup.ts';
import type { ReportOptions } from './options.ts';
import {
  maskedPlan,
  type StepText,
  ACTION_SIGN,
  adoptionText,
  bodyText,
  costText,
  leftText,
  planSummary,
  secretLines,
  sentSteps,
  stepText,
  type Obstructed,
  numbersNote,
  obstructed,
} from './plan-mask.ts';
import { skippedText, referenceText } from './sections.ts';

/** Which colour of a diff fits a step. */
const CHANGE: Readonly<Record<string, string>> = { create: 'added', remove: 'removed' };

/** The plan as an HTML document, every step of it. */
export function renderPlanHtml(whole: Plan, options: ReportOptions): string {
  const plan = maskedPlan(whole, options.definitions);
  const title = options.title ?? 'Restore plan';
  const cost = costText(plan);
  const sent = sentSteps(plan);
  const rest = (action: string) => plan.steps.filter((step) => step.action === action);
  const notes = (options.notes ?? []).map((note) => `<p class="faint">${escapeMarkup(note)}</p>`).join('');
  const made =
    options.generatedAt === undefined ? '' : `<p class="faint">made ${timeHtml(options.generatedAt)}</p>`;
  const secrets = secretLines(plan, options);
  const body = [
    `<header class="top"><div><h1>${escapeMarkup(title)}</h1>
<p class="verdict">${escapeMarkup(planSummary(plan))}</p>
<p class="faint">${escapeMarkup(cost)}</p></div>
<div class="states"><div><span class="faint">from</span>${stateHtml(plan.from)}</div><span class="arrow" aria-hidden="true">→</span><div><span class="faint">to</span>${stateHtml(plan.to)}</div></div>
<div class="notes">${notes}${made}</div></header>`,
    warning(
      'refused',
      plan.refused.map(({ reason, hint }) => `${reason}: ${hint}`),
    ),
    warning(
      'not compared',
      (plan.skipped ?? []).map((each) => skippedText(each, options)),
    ),
    plan.steps.length === 0 ? '' : filterTools([]),
    section('Steps', sent, options),
    section('Blocked', rest('blocked'), options),
    secrets.length === 0
      ? ''
      : `<section><h2>Missing secrets</h2><pre><code>${escapeLines(secrets)}</code></pre></section>`,
    section('Needs a person', rest('manual'), options),
    listHtml(
      'Found again under another id',
      plan.adopted.map((each) => adoptionText(each, options)),
    ),
    listHtml(
      'Left as they are',
      plan.left.map((each) => leftText(each, options)),
    ),
  ];
  return htmlPage(`${title}: ${planSummary(plan)}`, body.filter((part) => part !== '').join('\n'));
}

function escapeLines(lines: readonly string[]): string {
  return lines.map(escapeMarkup).join('\n');
}

function warning(label: string, lines: readonly string[]): string {
  if (lines.length === 0) return '';
  return `<div class="warning" role="note"><strong>! ${label}</strong><ul>${lines.map((line) => `<li>${escapeMarkup(line)}</li>`).join('')}</ul></div>`;
}

function section(title: string, steps: Plan['steps'], options: ReportOptions): string {
  if (steps.length === 0) return '';
  const records = steps.map((step) => stepHtml(stepText(step, options)));
  return `<section><h2>${title} <span class="count">${steps.length}</span></h2>
${records.join('\n')}
</section>`;
}

function stepHtml({ step, operation, name, id, idLabel, place, request, fields }: StepText): string {
  const change = CHANGE[step.action] ?? 'changed';
  const reason = step.reason === null ? '' : `\n<p>${escapeMarkup(step.reason)}</p>`;
  const body = bodyText(step);
  const folded =
    body === null
      ? ''
      : `\n<details><summary>request body</summary><pre><code>${escapeLines(body.split('\n'))}</code></pre></details>`;
  const sent = request === null ? '' : `\n<p><code>${escapeMarkup(request)}</code></p>${folded}`;
  return `<article class="record" id="step-${step.n}" data-kind="${step.kind}" data-change="${change}">
<header><h3><bdi>${escapeMarkup(name)}</bdi></h3><span class="tag ${change}">${ACTION_SIGN[step.action]} ${escapeMarkup(operation)}</span></header>
<p class="faint">${idLabel} <span class="id">${escapeMarkup(id)}</span>${place === '' ? '' : ` in ${escapeMarkup(place)}`}</p>${sent}${reason}
${fields.map(fieldHtml).join('\n')}
</article>`;
}

function listHtml(title: string, texts: readonly string[]): string {
  if (texts.length === 0) return '';
  const items = texts.map((text) => `<li>${escapeMarkup(text)}</li>`);
  return `<section><h2>${title}</h2><ul>${items.join('')}</ul></section>`;
}

// A plan as Markdown, for a pull request, a chat or a ticket.

/** The plan as GitHub-flavoured Markdown, every step of it. */
export function renderPlanMarkdown(whole: Plan, options: ReportOptions): string {
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

/** By bullets: a numbered list would count on, although steps that are not sent have numbers too. */
function stepLines({ step, operation, name, id, idLabel, place, request, fields }: StepText): string[] {
  return [
    `- **${step.n}** ${code(ACTION_SIGN[step.action])} ${plain(operation)} ${code(name)} · ${idLabel} ${code(id)}${place === '' ? '' : ` in ${code(place)}`}`,
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
