/** The report of a restore as text: failures first, then differences, new ids, and next steps. */
import type { Colors } from 'picocolors/types.js';
import type { Kind } from '../catalog/kinds.ts';
import { formatInteger } from '../core/wording.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';
import { groupedNotes } from './note-groups.ts';
import { isSecretId, maskedId } from './mask.ts';
import { idsNamed, withMarks } from './plan-mask.ts';
import { nameText } from './sections.ts';
import type { LineOptions } from './text.ts';
import type { RestoreReport, StepReport } from '../restore/apply/report.ts';
import { foldedValues } from './value-text.ts';

export interface RestoreTextOptions extends Pick<ReportOptions, 'definitions'>, LineOptions {
  /** Name of a step's action, e.g. `unpause`, if the plan is available. */
  readonly actOf?: (n: number) => string | null;
  /** True lists what went well too. */
  readonly isWhole?: boolean;
  /** Lines of configuration that would supply the secrets that blocked steps lack. */
  readonly secretLines?: readonly string[];
}

/** The report as lines of text, the last one ended. */
export function renderRestoreText(whole: RestoreReport, options: RestoreTextOptions): string {
  const { colors } = options;
  const report = maskedRestore(whole, options.definitions);
  const of = (outcome: StepReport['outcome']): StepReport[] =>
    report.steps.filter((step) => step.outcome === outcome);
  const unverified = of('applied').filter(({ verified }) => verified !== true);
  const lines = [
    `${colors.bold(`restore ${report.restore}`)} of ${report.source}${report.undoes === null ? '' : `, undoing restore ${report.undoes}`}: ${paintOf(report, colors)(restoreSummary(report))}`,
    ...groupedNotes(
      'not compared, so this may not be everything',
      report.skipped ?? [],
      options.definitions,
    ).map((line) => colors.yellow(`! ${escapeControlCharacters(line)}`)),
    ...(options.isWhole === true
      ? section(
          'applied',
          of('applied').filter((step) => !unverified.includes(step)),
          options,
        )
      : []),
    ...section('failed', of('failed'), options),
    ...section('skipped', of('skipped'), options),
    ...section('sent, and the answer never came', of('sent'), options),
    ...section('applied, but not as sent', unverified.filter(isOther), options),
    ...section(
      'applied, but not read back',
      unverified.filter((step) => !isOther(step)),
      options,
    ),
    ...section('not reached', of('planned'), options),
    ...section(
      'look at these',
      report.steps.filter(({ warning }) => warning !== undefined),
      options,
    ),
    ...obstructed('blocked', of('blocked'), options),
    ...secretsLines(of('blocked'), options),
    ...obstructed('needs manual work', of('manual'), options),
    ...newIds(report, options),
    '',
    ...nextLines(report),
  ];
  return `${lines.join('\n')}\n`;
}

/** Read back, and not what was sent. */
function isOther({ verified }: StepReport): boolean {
  return verified === false;
}

/** E.g. `12 applied and verified, 1 failed, 2 blocked`; of one that was gone on with, what was done this time. */
export function restoreSummary(report: RestoreReport): string {
  const { steps, summary, outcome, this_time: now = summary, undone_by: undo } = report;
  const { applied, unverified, failed, skipped, blocked, manual, open } = now;
  const count = (value: number, what: string): string | null =>
    value === 0 ? null : `${formatInteger(value)} ${what}`;
  const unseen = Math.min(
    unverified,
    steps.filter((step) => step.outcome === 'applied' && step.verified === null).length,
  );
  const unanswered = steps.filter((step) => step.outcome === 'sent').length;
  const parts = [
    count(applied - unverified, 'applied and verified'),
    count(unverified - unseen, 'applied, but not as sent'),
    count(unseen, 'applied, but not read back'),
    count(failed, 'failed'),
    count(skipped, 'skipped'),
    count(unanswered, 'sent without an answer'),
    count(open - unanswered, 'not reached'),
    count(blocked, 'blocked'),
    count(manual, manual === 1 ? 'needs manual work' : 'need manual work'),
  ].filter((part) => part !== null);
  const head = outcome === 'interrupted' ? 'interrupted; ' : '';
  const earlier = summary.applied - applied;
  const tail = [
    ...(earlier === 0 ? [] : [`${formatInteger(earlier)} applied before`]),
    ...(undo === undefined ? [] : [`undone by restore ${undo}`]),
  ];
  const text =
    parts.length === 0
      ? `nothing was to be sent${report.this_time === undefined ? '' : ' any more'}`
      : parts.join(', ');
  return `${head}${[text, ...tail].join('; ')}`;
}

function paintOf({ outcome, skipped }: RestoreReport, colors: Colors): (text: string) => string {
  return outcome === 'complete' && (skipped ?? []).length === 0
    ? colors.green
    : outcome === 'failed'
      ? colors.red
      : colors.yellow;
}

function section(title: string, steps: readonly StepReport[], options: RestoreTextOptions): string[] {
  if (steps.length === 0) return [];
  return [
    '',
    options.colors.bold(`${title} (${steps.length})`),
    ...steps.flatMap((step, index) => [
      ...stepLines(step, options),
      // A hint is printed once below the steps that share it.
      ...hintLines(step.error?.hint, steps[index + 1]?.error?.hint),
    ]),
  ];
}

function stepLines(step: StepReport, options: RestoreTextOptions): string[] {
  const { n, status, outcome, error, warning, verified, differences } = step;
  const said = error === null ? '' : escapeControlCharacters(error.message);
  const isStatusShown = status === null || outcome === 'applied' || said.includes(`(${status})`);
  return [
    `${String(n).padStart(4)} ${operationText(step, options)}${isStatusShown ? '' : ` (HTTP ${status})`}`,
    ...(said === '' ? [] : [`      ${said}`]),
    ...(warning === undefined ? [] : [`      ${escapeControlCharacters(warning)}`]),
    ...(outcome === 'applied' && verified === null && error === null
      ? ['      it could not be read back']
      : []),
    ...differences.map((field) => `      ${keptText(field, options)}`),
  ];
}

function hintLines(hint: string | undefined, next: string | undefined): string[] {
  return hint === undefined || hint === next ? [] : [`      → ${escapeControlCharacters(hint)}`];
}

/** What the service made of a value that was sent. */
function keptText({ path, from, to }: FieldChange, { width }: RestoreTextOptions): string {
  const [kept, sent] = foldedValues(from, to, width);
  return `${escapeControlCharacters(path)}: sent ${sent}, the service keeps ${from === undefined ? 'nothing' : kept}`;
}

function secretsLines(blocked: readonly StepReport[], { secretLines = [] }: RestoreTextOptions): string[] {
  if (blocked.length === 0 || secretLines.length === 0) return [];
  const more = secretLines.length - SECRET_LINES_SHOWN;
  return [
    '      add to the source in the configuration, then restore again:',
    ...secretLines.slice(0, SECRET_LINES_SHOWN).map((line) => `        ${line}`),
    ...(more > 0 ? [`      and ${formatInteger(more)} lines more: \`tidemark restore\` shows them all`] : []),
  ];
}

/** The plan has shown them all. */
const SECRET_LINES_SHOWN = 20;

/** Steps that are not sent, those of one kind and one reason together. */
function obstructed(title: string, steps: readonly StepReport[], options: RestoreTextOptions): string[] {
  if (steps.length === 0) return [];
  const groups = Map.groupBy(steps, ({ kind, reason }) => JSON.stringify([kind, reason]));
  return [
    '',
    options.colors.bold(`${title} (${steps.length})`),
    ...[...groups.values()].flatMap((own) => [
      ...own.map((step) => `${String(step.n).padStart(4)} ${operationText(step, options)}`),
      ...(own[0]?.reason === null || own[0] === undefined
        ? []
        : [`      ${escapeControlCharacters(own[0].reason)}`]),
    ]),
  ];
}

function operationText(
  { n, action, kind, name }: StepReport,
  { definitions, actOf }: RestoreTextOptions,
): string {
  const definition = definitions(kind);
  const verb =
    action === 'blocked' || action === 'manual'
      ? ''
      : action === 'act'
        ? `${actOf?.(n) ?? 'act on'} `
        : `${action} `;
  return `${verb}${definition.title.one} ${nameText(name)}`;
}

function newIds({ steps }: RestoreReport, options: RestoreTextOptions): string[] {
  const created = steps.filter(
    ({ new_id: id, new_kind: newKind, kind }) =>
      id !== null && !isSecretId(options.definitions(newKind ?? kind)),
  );
  if (created.length === 0) return [];
  return [
    '',
    options.colors.bold('new ids'),
    ...created.map(
      ({ kind, new_kind: newKind, name, id, new_id: now }) =>
        `  ${options.definitions(newKind ?? kind).title.one} ${nameText(name)}: ${nameText(id)} → ${nameText(now ?? '')}`,
    ),
  ];
}

/** What would fail again as long as the plan is the same. */
const LOST: ReadonlySet<string> = new Set(['moved', 'rejected', 'not_found', 'reference_unknown']);

function nextLines({
  restore,
  steps,
  outcome,
  summary,
  this_time: now = summary,
  undone_by: undo,
}: RestoreReport): string[] {
  const isStanding = summary.applied > 0 && (undo === undefined || now.applied > 0);
  const resume = `go on with \`tidemark restore --resume ${restore}\``;
  const isOver = outcome !== 'interrupted' && outcome !== 'running';
  const isLost = steps.every(({ outcome: end, error }) => end !== 'failed' || LOST.has(error?.code ?? ''));
  return [
    ...(outcome === 'running'
      ? ['it is running: wait until it has ended']
      : !isOver || summary.open > 0
        ? [resume]
        : []),
    ...(summary.failed + summary.skipped > 0 && isOver && summary.open === 0 && !isLost
      ? [`try what failed again: \`tidemark restore --resume ${restore}\``]
      : []),
    ...(isStanding ? [`to undo it: \`tidemark undo ${restore}\``] : []),
    ...(summary.applied > 0 ? ['`tidemark sync` brings the mirror up to date'] : []),
  ];
}

/** The report with ids that are secrets masked, also in what the service said. */
export function maskedRestore<T extends Pick<RestoreReport, 'steps'>>(
  report: T,
  definitions: ReportOptions['definitions'],
): T {
  const marks = new Map<string, string>();
  const add = (id: string | null, kind: Kind): void => {
    const definition = definitions(kind);
    if (id !== null && id !== '' && isSecretId(definition)) marks.set(id, maskedId(id, definition));
  };
  for (const step of report.steps) {
    const { id, kind, new_id: newId, new_kind: newKind } = step;
    for (const each of [id, ...idsNamed(step, definitions(kind))]) add(each, kind);
    add(newId, newKind ?? kind);
  }
  return withMarks(report, marks);
}
