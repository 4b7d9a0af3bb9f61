/** The result of a restore as a report: failures first, then differences, new ids, and next steps. */
import { groupsBy } from '../core/group.ts';
import { planCommand } from '../core/hints.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { Plan } from '../restore/plan/plan.ts';
import type { RestoreReport, StepReport } from '../restore/apply/report.ts';
import {
  type Item,
  type Part,
  type ReportDocument,
  type Text,
  listPart,
  noticePart,
  recordsPart,
  withCommands,
} from './document.ts';
import { isSecretId } from './mask.ts';
import { groupedNotes } from './notes.ts';
import type { ReportOptions } from './options.ts';
import { maskedRestore } from './plan-mask.ts';
import { byText, foldedValues, nameText } from './value-text.ts';
import { configurationPart, leftText, MANUAL, obstructedPart, verbOf } from './plan-report.ts';

interface RestoreOptions extends Pick<ReportOptions, 'definitions' | 'present' | 'parentName'> {
  /** For the verbs of the steps, and the secrets that they lack. */
  readonly plan?: (Pick<Plan, 'steps'> & Partial<Pick<Plan, 'from' | 'to' | 'command'>>) | undefined;
  /** True also lists what was applied as planned. */
  readonly isWhole?: boolean;
  /** True names every record in lines about several. */
  readonly isVerbose?: boolean;
}

/** For a restore whose plan another program made unreadable. */
export const PLAN_UNREADABLE = 'its plan is not readable, so that its steps cannot be listed';

const LINES_SHOWN = 40; // of configuration: the plan has all lines
const NAMES_SHOWN = 10;
const VALUE_LIMIT = 100; // characters of a value that the service stored in another form

/** The result for people. */
export function resultReport(whole: RestoreReport, given: RestoreOptions): ReportDocument {
  const { definitions, isWhole } = given;
  const report = maskedRestore(whole, definitions);
  const options = { ...given, parentName: namesWith(report, given.parentName) };
  const { steps, outcome, undoes, skipped = [], by_hand: byHand = [] } = report;
  const part = (heading: string, belongs: (step: StepReport) => boolean): Part[] =>
    recordsPart(heading, stepItems(steps.filter(belongs), options));
  const isApplied = (step: StepReport): boolean => step.outcome === 'applied';
  const unsent = (end: StepReport['outcome']) => steps.filter((step) => step.outcome === end);
  const parts: Part[] = [
    ...(report.is_plan_unreadable === true ? [noticePart('warning', `! ${PLAN_UNREADABLE}`, [])] : []),
    ...groupedNotes('not compared, so this may not be everything', skipped, definitions).map((line) =>
      noticePart('warning', `! ${line}`, []),
    ),
    ...(isWhole === true ? part('applied', (step) => isApplied(step) && step.verified === true) : []),
    ...part('failed', (step) => step.outcome === 'failed'),
    ...part('skipped', (step) => step.outcome === 'skipped'),
    ...part('may have been sent: no answer is known', (step) => step.outcome === 'sent'),
    ...part('applied, but not as sent', (step) => isApplied(step) && step.verified === false),
    ...listPart(
      'applied, but these fields may not be as recorded: `tidemark drift` shows what differs',
      isUndone(report) ? [] : creationNotes(steps, options).map(withCommands),
    ),
    ...part('applied, but not read back', (step) => isApplied(step) && step.verified === null),
    ...part('not reached', (step) => step.outcome === 'planned'),
    ...listPart('check these', warningLines(steps, options)),
    ...obstructedPart('blocked', unsent('blocked'), options),
    ...lackingPart(report, options),
    ...obstructedPart(MANUAL, unsent('manual'), options),
    ...listPart(
      'left as they are',
      (report.left ?? []).map((each) => withCommands(leftText(each, options))),
    ),
    ...listPart('still to do by hand', handLines(report, options).map(withCommands)),
    ...listPart('new ids', newIds(steps, options)),
  ];
  return {
    title: `restore ${report.restore} of ${report.source}${isWhole === true ? peopleText(report) : ''}${undoes === null ? '' : `, undoing restore ${undoes}`}`,
    textTitle: 'label',
    summary: restoreSummary(report),
    tone:
      outcome === 'failed'
        ? 'bad'
        : outcome === 'complete' && skipped.length + byHand.length === 0
          ? 'good'
          : 'warning',
    parts,
    next: nextLines(report, options),
  };
}

/** `parentName`, and for parents that the mirror does not have, the names from the steps of this restore. */
function namesWith(
  { steps }: RestoreReport,
  parentName: RestoreOptions['parentName'],
): NonNullable<RestoreOptions['parentName']> {
  const own = new Map(
    steps.flatMap(({ kind, id, new_id: now, name }) =>
      [id, now ?? id].map((each) => [`${kind} ${each}`, name] as const),
    ),
  );
  return (kind, id) => parentName?.(kind, id) ?? own.get(`${kind} ${id}`);
}

/** E.g. ` by ann (root@host), resumed by bea, abandoned by cid`. */
function peopleText({ by, via, resumed_by: others = [], abandoned_by: last }: RestoreReport): string {
  const resumed = others.length === 0 ? '' : `, resumed by ${others.map(byText).join(', ')}`;
  const abandoned = last === undefined ? '' : `, abandoned by ${byText(last)}`;
  return ` by ${byText({ by, via })}${resumed}${abandoned}`;
}

/** E.g. `12 applied and verified, 1 failed, 2 blocked`; for a resumed restore, what was done this time. */
function restoreSummary(report: RestoreReport): string {
  const { steps, summary, outcome, this_time: now = summary, undone_by: undo, by_hand: byHand = [] } = report;
  const { continued = 0 } = report;
  const { applied, unverified, found_done: found = 0, failed, skipped, blocked, manual, open } = now;
  const unread = Math.min(
    unverified,
    steps.filter((step) => step.outcome === 'applied' && step.verified === null).length,
  );
  const unanswered = steps.filter((step) => step.outcome === 'sent').length;
  const counts = [
    [applied - unverified, 'applied and verified'],
    [unverified - unread, 'applied, but not as sent'],
    [unread, 'applied, but not read back'],
    [failed, 'failed'],
    [skipped, 'skipped'],
    [unanswered, 'sent without an answer'],
    [open - unanswered, 'not reached'],
    [blocked, 'blocked'],
    [manual, manual === 1 ? MANUAL : 'need manual work'],
  ] as const;
  const parts = counts.flatMap(([value, what]) => (value === 0 ? [] : [`${formatInteger(value)} ${what}`]));
  const nothing = report.this_time === undefined ? 'nothing to send' : 'nothing left to send';
  const earlier = summary.applied - applied;
  return [
    ...(outcome === 'interrupted' ? ['interrupted'] : []),
    ...(report.abandoned_by === undefined ? [] : ['abandoned']),
    parts.length === 0 ? nothing : parts.join(', '),
    ...(earlier === 0 ? [] : [`${formatInteger(earlier)} applied before`]),
    // Another process, or another machine, may have sent these.
    ...(found === 0
      ? []
      : [
          `${formatInteger(found)} of the applied ones ${found === 1 ? 'was' : 'were'} found done, without an answer that says so`,
        ]),
    ...(continued === 0
      ? []
      : [
          `${plural(continued, 'new id')} recorded: drift no longer lists ${continued === 1 ? 'it' : 'them'} as added and removed`,
        ]),
    ...(byHand.length === 0 ? [] : [`${formatInteger(byHand.length)} to complete by hand`]),
    ...(undo === undefined
      ? []
      : [`undone ${report.undone_in_part === true ? 'in part ' : ''}by restore ${undo}`]),
  ].join('; ');
}

function stepItems(steps: readonly StepReport[], options: RestoreOptions): Item[] {
  return steps.map((step, index): Item => {
    const { error } = step;
    // A hint is shown once, below the last of the steps that share it.
    const hint = error?.hint === steps[index + 1]?.error?.hint ? undefined : error?.hint;
    return {
      kind: step.kind,
      change: 'unchanged',
      number: step.n,
      operation: `${operationOf(step, options)} ${options.definitions(step.kind).title.one}`,
      name: nameText(step.name),
      ...outcomeOf(step),
      lines: linesOf(step),
      ...(hint === undefined ? {} : { hint }),
    };
  });
}

function operationOf({ n, kind, action }: StepReport, { plan }: RestoreOptions): string {
  const { request = null } = plan?.steps.find((step) => step.n === n) ?? {};
  return verbOf({ action, kind, request });
}

function outcomeOf({ status, outcome, error }: StepReport): Pick<Item, 'outcome'> {
  const isKnown = status === null || outcome === 'applied' || error?.message.includes(`(${status})`) === true;
  return isKnown ? {} : { outcome: `(HTTP ${status})` };
}

function linesOf({ error, differences }: StepReport): Text[] {
  return [...(error === null ? [] : [withCommands(error.message)]), ...differences.map(keptText)];
}

/** What to check, a line for all records of a kind with the same warning. */
function warningLines(
  steps: readonly StepReport[],
  { definitions, isWhole, isVerbose }: RestoreOptions,
): string[] {
  const warned = steps.filter(({ warning }) => warning !== undefined);
  return groupsBy(warned, ({ kind, warning }) => `${kind} ${warning}`).map((same) => {
    const [{ kind, warning: reason = '' }] = same;
    const shown = isWhole === true || isVerbose === true ? same : same.slice(0, NAMES_SHOWN);
    const names = shown.map(({ name }) => name);
    return leftText({ kind, count: same.length, reason, names }, { definitions });
  });
}

/** A value that the service stored in another form. */
function keptText({ path, from, to }: FieldChange): string {
  const [kept, sent] = foldedValues(from, to, VALUE_LIMIT);
  return `${path}: sent ${sent}, the service keeps ${from === undefined ? 'nothing' : kept}`;
}

function lackingPart({ steps, undoes }: RestoreReport, { plan, ...options }: RestoreOptions): Part[] {
  if (plan === undefined || steps.every(({ outcome }) => outcome !== 'blocked')) return [];
  const { steps: planned, from, to, command } = plan;
  const asBefore =
    from === undefined || to === undefined ? {} : { command: planCommand({ from, to, command }) };
  return configurationPart(planned, options, {
    limit: LINES_SHOWN,
    then: `, then ${undoes === null ? 'restore' : `undo ${undoes}`} again`,
    ...(undoes === null ? asBefore : { command: `tidemark undo ${undoes}` }),
  });
}

/** E.g. `pipeline destination Leads (105): enter its settings …`: parts of a created record that the API cannot set. */
export function handLines(
  { by_hand: byHand = [] }: Pick<RestoreReport, 'by_hand'>,
  { definitions }: Pick<RestoreOptions, 'definitions'>,
): string[] {
  return byHand.map(({ kind, id, name, reason }) => {
    const definition = definitions(kind);
    const place = isSecretId(definition) ? '' : ` (${nameText(id)})`;
    return `${definition.title.one} ${nameText(name)}${place}: ${reason}`;
  });
}

/** The new ids of records, except for records that did not exist when they were read back. */
function newIds(steps: readonly StepReport[], { definitions }: RestoreOptions): string[] {
  return steps.flatMap(({ kind, new_kind: newKind = kind, name, id, new_id: now, verified, error }) => {
    const definition = definitions(newKind);
    const isMissing = verified === false && error?.code === 'not_found';
    if (now === null || isMissing || isSecretId(definition)) return [];
    const unread = verified === null ? ' (not read back)' : '';
    return [`${definition.title.one} ${nameText(name)}: ${nameText(id)} → ${nameText(now)}${unread}`];
  });
}

/** The notes of the plan on applied creations: fields that no request can set, and secrets that differ from the recorded ones. */
function creationNotes(steps: readonly StepReport[], { definitions }: RestoreOptions): string[] {
  const created = steps.flatMap(({ action, kind, name, outcome, error, note }) =>
    action !== 'create' || outcome !== 'applied' || error?.code === 'not_found' || note === undefined
      ? []
      : [{ kind, name, note }],
  );
  return groupsBy(created, ({ kind, note }) => `${kind} ${note}`).map((same) => {
    const [{ kind, note }] = same;
    const { one, many } = definitions(kind).title;
    const names = same.map(({ name }) => nameText(name)).join(', ');
    return `${plural(same.length, one, many)} (${names}): ${note}`;
  });
}

function isUndone({ undone_by: undo, undone_in_part: isInPart }: RestoreReport): boolean {
  return undo !== undefined && isInPart !== true;
}

/** Errors that the same plan would meet again. */
const LOST: ReadonlySet<string> = new Set(['moved', 'rejected', 'not_found', 'reference_unknown']);

function nextLines(report: RestoreReport, { plan }: RestoreOptions): Text[] {
  const { restore, steps, outcome, summary, undone_by: undo } = report;
  const { applied, failed, skipped, open } = summary;
  const resume = { code: `tidemark restore --resume ${restore}` };
  const abandon = { code: `tidemark restore --abandon ${restore}` };
  const isOver = outcome !== 'interrupted' && outcome !== 'running';
  const isUnknown = steps.some((step) => step.outcome === 'sent');
  const isLost = steps.every(({ outcome: end, error }) => end !== 'failed' || LOST.has(error?.code ?? ''));
  if (report.is_plan_unreadable === true && outcome !== 'running') return withoutPlan(report);
  const lines: Text[] = [];
  if (outcome === 'running') lines.push('it is running: wait until it has ended');
  else if (undo === undefined) {
    if (!isOver) lines.push(['continue with ', resume, ', or leave it as it is: ', abandon]);
    else if (open > 0)
      lines.push([report.abandoned_by === undefined ? 'continue with ' : 'to continue it even so: ', resume]);
    else if (failed + skipped > 0 && !isLost) lines.push(['retry what failed: ', resume]);
  }
  const isMissed = steps.some((step) => step.outcome === 'applied' && step.verified === false);
  const isUndoneWhole = isUndone(report);
  const hasActed = isUnknown || (applied > 0 && !isUndoneWhole);
  if (isOver && !isUndoneWhole && (isMissed || (isLost && failed > 0))) lines.push(...newPlan(report, plan));
  if (hasActed && outcome !== 'running') {
    const first = isUnknown ? ', which first looks up what has no answer' : '';
    lines.push(['to undo it: ', { code: `tidemark undo ${restore}` }, first]);
  }
  if (applied > 0) lines.push([{ code: 'tidemark sync' }, ' brings the mirror up to date']);
  return lines;
}

/** Without its plan, which has its requests, a restore can be neither continued nor undone. */
function withoutPlan({ summary, steps }: RestoreReport): Text[] {
  const hasActed = summary.applied > 0 || steps.some((step) => step.outcome === 'sent');
  return [
    [
      `without its plan it can be neither continued nor undone here: restore a backup of the mirror of before the alteration (`,
      { code: 'tidemark backup list' },
      ')',
    ],
    ...(hasActed
      ? [
          [
            'to set back what it changed without one: ',
            { code: 'tidemark restore run:N' },
            ' plans the state of a run before it; ',
            { code: 'tidemark runs' },
            ' lists them',
          ],
        ]
      : []),
  ];
}

/** The line with the command that makes a new plan; none if the plan of this restore is unknown. */
function newPlan({ undoes }: RestoreReport, plan: RestoreOptions['plan']): Text[] {
  if (undoes !== null) return [['to plan what is missing: ', { code: `tidemark undo ${undoes}` }]];
  const { from, to, command } = plan ?? {};
  if (from === undefined || to === undefined) return [];
  const filters = command === undefined ? ' (give the same filters again)' : '';
  return [[`to plan what is missing${filters}: `, { code: planCommand({ from, to, command }) }]];
}
