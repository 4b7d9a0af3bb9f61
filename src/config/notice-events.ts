/** The events of notices, and the templates of messages. An event is a transition: an unchanged state is not reported again. */
import { didYouMean } from '../core/suggest.ts';

/** Each event with its description, in the order of the documentation. @internal */
export const EVENT_MEANINGS = {
  run_failed: 'A sync failed: nothing could be read, or a local problem stopped it.',
  run_partial: 'A sync could not read everything, including a kind that was read before.',
  run_recovered:
    'A sync read everything that an earlier sync could not read, or it is gone with its organization or project.',
  key_refused: 'The service refused the key.',
  sync_overdue: 'The last complete sync is older than the schedule allows.',
  sync_on_time: 'No sync is overdue any more: one was complete, or the schedule allows more.',
  removals_held: 'More records are missing than the removal limit allows; their removals are held.',
  removals_settled:
    'No removals are held any more; the notice says how many were accepted (by whom, in which run), created again by a restore, confirmed by a later run, or seen again.',
  restore_interrupted:
    'A restore was stopped, killed or cut off (the key was refused, the service no longer answered) before its end, or what it sent could not be read back: the service may be restored only in part.',
  restore_settled:
    'An interrupted restore was continued to its end or abandoned, or another restore came after it.',
  schema_changed: 'Records have fields that they never had, lost some, or hold another type of value.',
  drift_new:
    'Something drifted from the baseline, or the acceptance of a finding ended (sent after the next sync).',
  drift_changed: 'A finding changed to another value.',
  drift_resolved: 'A finding no longer differs, was accepted (sent after the next sync) or is ignored.',
  mirror_gone:
    'The mirror file disappeared while the daemon runs, and nothing is written until it is back; or the daemon began a mirror without history although a backup target has backups of another one.',
  mirror_back: 'The mirror file is back, or a baseline was pinned in the new mirror.',
  verify_failed:
    'The contents of the mirror do not match the stored hashes, or a backup in a target is not in its chain.',
  verify_recovered:
    'The contents of the mirror match the stored hashes again, or no backup contradicts its chain any more.',
  drill_fell:
    'A restore drill would recover more than 5 percentage points less than before; several small falls count together.',
  drill_recovered: 'A restore drill would again recover about as much as before `drill_fell`.',
  backup_failed:
    'A backup failed, or could not be stored in one of its targets; then the notice names those that have it.',
  backup_recovered:
    'A backup is stored in all its targets again, or the target that lacked it is no longer configured.',
  backup_overdue:
    'No backup was made for twice `backup.every` (or twice the interval of syncs, if that is longer); the notice says why. A channel that has `sync_overdue` or `backup_failed` of the same cause does not get it.',
  backup_on_time: 'No backup is overdue any more.',
  job_failed: 'Another job (drift, verify, forget, drill, git) failed.',
  job_recovered: 'That job succeeded again.',
  source_removed: 'A source with something wrong is no longer configured: what was reported of it is closed.',
  test: 'Sent by `tidemark notify test`, to every channel.',
} as const;

export type NoticeEvent = keyof typeof EVENT_MEANINGS;

const ENDS = {
  run_failed: 'run_recovered',
  run_partial: 'run_recovered',
  key_refused: 'run_recovered',
  sync_overdue: 'sync_on_time',
  removals_held: 'removals_settled',
  restore_interrupted: 'restore_settled',
  drift_new: 'drift_resolved',
  drift_changed: 'drift_resolved',
  mirror_gone: 'mirror_back',
  verify_failed: 'verify_recovered',
  drill_fell: 'drill_recovered',
  backup_failed: 'backup_recovered',
  backup_overdue: 'backup_on_time',
  job_failed: 'job_recovered',
} as const satisfies Partial<Record<NoticeEvent, NoticeEvent>>;

/** The event that ends the problem which an event reports; other events report nothing that lasts. */
export const ENDED_BY: Readonly<Record<string, NoticeEvent | undefined>> = ENDS;

/** The events that report an improvement, or that something is no longer of interest. */
export const IMPROVEMENTS: ReadonlySet<string> = new Set([...Object.values(ENDS), 'source_removed']);

export const NOTICE_EVENTS = Object.keys(EVENT_MEANINGS) as readonly NoticeEvent[];

// Templates: texts in which `{{ name }}` stands for a value. No code, no conditions, no nesting.

/** The values that a template may name, with their descriptions. Values that a notice does not have are empty. @internal */
export const TEMPLATE_VALUES = {
  id: 'Unique per notice, and the same for every delivery attempt.',
  event: 'As in `on`, e.g. `run_failed`.',
  at: 'When it happened, ISO 8601 in UTC.',
  source: 'Name of the source; `mirror` for a mirror of several sources; for a group, how many sources.',
  severity: '`critical`, `high`, `medium` or `low`.',
  title: 'One-line summary; begins with the source, or with `mirror` for a mirror of several sources.',
  text: 'Details, one per line.',
  hint: 'What to do.',
  link: 'URL of the dashboard page with details, if `http.publicUrl` is set.',
  job: '`sync`, `drift`, `verify`, `forget`, `drill`, `backup` or `git`.',
  run: 'Number of the run.',
  count: 'Number of findings, collections, removals or problems.',
  'error.code': 'Error code, e.g. `unreachable`.',
  'error.message': 'Error in one line.',
  critical: 'Number of critical findings.',
  high: 'Number of high findings.',
  medium: 'Number of medium findings.',
  low: 'Number of low findings.',
} as const;

type TemplateValue = keyof typeof TEMPLATE_VALUES;
export type TemplateValues = Readonly<Record<TemplateValue, string>>;

const PLACE = /\{\{([^{}]*)\}\}/g;

/** What is wrong with a template; undefined if nothing is. */
export function templateMistake(template: string): string | undefined {
  for (const [, inside = ''] of template.matchAll(PLACE)) {
    const name = inside.trim();
    if (Object.hasOwn(TEMPLATE_VALUES, name)) continue;
    const names = Object.keys(TEMPLATE_VALUES);
    const known = didYouMean(name, names) || `; known are ${names.join(', ')}`;
    return `there is no value {{ ${name.slice(0, 40)} }}${known}`;
  }
  return template.replace(PLACE, '').includes('{{')
    ? 'expected }} behind every {{, and nothing but a name between them'
    : undefined;
}

/** The same for a template of JSON, whose places must be within quotes. */
export function jsonTemplateMistake(template: string): string | undefined {
  const mistake = templateMistake(template);
  if (mistake !== undefined) return mistake;
  try {
    JSON.parse(renderTemplate(template, () => 'x'));
    return undefined;
  } catch {
    // SyntaxError: its position would be that in the rendered text.
    return 'expected JSON with every {{ … }} within quotes (or another contentType)';
  }
}

/** The template with every place filled. Inserted values are not expanded again. */
export function renderTemplate(template: string, valueOf: (name: TemplateValue) => string): string {
  return template.replace(PLACE, (_place, inside: string) => valueOf(inside.trim() as TemplateValue));
}
