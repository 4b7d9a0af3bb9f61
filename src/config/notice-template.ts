/** Templates of notices: text in which `{{ name }}` stands for a value. No code, no conditions, no nesting. */
import { suggest } from '../core/suggest.ts';

/** Every value that a template may name, with what it is. One that a notice does not have is empty. */
export const TEMPLATE_VALUES = {
  id: 'The same for every attempt to deliver this notice, and for no other notice.',
  event: 'As in `on`, e.g. `run_failed`.',
  at: 'When it happened, ISO 8601 in UTC.',
  source: 'Name of the source; `mirror` for what concerns the mirror as a whole.',
  severity: '`critical`, `high`, `medium` or `low`.',
  title: 'One line that says it all.',
  text: 'What there is to know beside the title, a line each.',
  hint: 'What to do about it.',
  job: '`sync`, `drift`, `verify`, `forget`, `drill` or `copy`.',
  run: 'Number of the run.',
  count: 'How many: findings, collections, removals or problems.',
  'error.code': 'Code of the error, e.g. `unreachable`.',
  'error.message': 'The error in one line.',
  critical: 'Findings of that severity; likewise the next three.',
  high: 'Findings.',
  medium: 'Findings.',
  low: 'Findings.',
} as const;

type TemplateValue = keyof typeof TEMPLATE_VALUES;
export type TemplateValues = Readonly<Record<TemplateValue, string>>;

const PLACE = /\{\{([^{}]*)\}\}/g;

/** What is wrong with a template, as a message of the configuration; undefined where nothing is. */
export function templateMistake(template: string): string | undefined {
  for (const [, inside = ''] of template.matchAll(PLACE)) {
    const name = inside.trim();
    if (Object.hasOwn(TEMPLATE_VALUES, name)) continue;
    const near = suggest(name, Object.keys(TEMPLATE_VALUES));
    const known =
      near === undefined ? `known are ${Object.keys(TEMPLATE_VALUES).join(', ')}` : `did you mean ${near}?`;
    return `there is no value {{ ${name.slice(0, 40)} }}; ${known}`;
  }
  return template.replace(PLACE, '').includes('{{')
    ? 'expected }} behind every {{, and nothing but a name between them'
    : undefined;
}

/** The same for a template that has to give JSON: its places must stand within quotes. */
export function jsonTemplateMistake(template: string): string | undefined {
  const mistake = templateMistake(template);
  if (mistake !== undefined) return mistake;
  try {
    JSON.parse(renderTemplate(template, () => 'x'));
    return undefined;
  } catch {
    return 'expected JSON with every {{ … }} within quotes (or another contentType)';
  }
}

/** The template with every place filled. What is put in is not looked at again. */
export function renderTemplate(template: string, valueOf: (name: TemplateValue) => string): string {
  return template.replace(PLACE, (_place, inside: string) => valueOf(inside.trim() as TemplateValue));
}
