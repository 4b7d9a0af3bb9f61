/** Restores: plans that are made and, once confirmed, applied in the dashboard; past restores, and the journal of each. */
import { definitionsFor } from '../../config/source.ts';
import { EXIT, TidemarkError } from '../../core/errors.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import { isUncompared } from '../../diff/change.ts';
import { continuedIds } from '../../diff/found-again.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RestoreRow } from '../../mirror/restores.ts';
import { maskedFields } from '../../report/mask.ts';
import { maskedPlan, maskedRestore } from '../../report/plan-mask.ts';
import {
  acceptedLines,
  adoptionLines,
  leftText,
  planSummary,
  UNSELECTED,
  verbOf,
} from '../../report/plan-report.ts';
import { handLines, PLAN_UNREADABLE } from '../../report/restore-report.ts';
import { byText, nameText } from '../../report/value-text.ts';
import { unknownRestore } from '../../restore/apply/resume.ts';
import { type RestoreReport, restoreReport, toCheckText } from '../../restore/apply/report.ts';
import { type Plan, type PlanStep, isExecutable, shownPlan } from '../../restore/plan/plan.ts';
import { unreadRestores } from '../../state/runs.ts';
import type { PageRestore } from '../http/restores.ts';
import { actionForm, jobForm } from './actions.ts';
import { capital } from '../../report/document.ts';
import {
  ageHtml,
  badge,
  crumbs,
  type DefinitionOf,
  tookText,
  emptyHtml,
  factsHtml,
  faint,
  fieldListHtml,
  hintHtml,
  nameHtml,
  outcomeBadge,
  section,
  tableHtml,
  timeHtml,
  type Tone,
  mismatchHtml,
  moreHtml,
  warningHtml,
  warningList,
  withCommands,
} from './components.ts';
import { unreadRestoreHtml } from './drift-records.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';
import {
  commandPart,
  lackingHtml,
  PLAN_THESE,
  planWarnings,
  secretsHtml,
  sentArticles,
  unselectedHtml,
} from './plan-parts.ts';
import { WITH_CHILDREN } from './restore-selection.ts';

const STEPS_SHOWN = 500;
const RESTORES_SHOWN = 100;
const NAMES_SHOWN = 20;
/** How often a page is loaded again while a person waits for a plan or its result. */
const SOON_SECONDS = 1;

const CRUMBS = crumbs(['/restores', 'Restores']);

type RestoreFacts = Pick<PageFacts, 'mirror' | 'config' | 'now'>;

/**
 * The page of a plan of the dashboard, from when it is being made until it was applied.
 * @param wrong why the plan was not confirmed
 */
export function plannedRestorePage(
  restore: PageRestore,
  { mirror, config, now }: RestoreFacts,
  wrong?: TidemarkError,
): PageContent {
  const { plan, state, source, args, madeAt } = restore;
  const definitions = definitionsFor(config, source);
  const head = markup`${CRUMBS}<h1>Restore plan</h1>
<p class="faint">For ${nameHtml(source)}, by ${byText(restore)}, ${ageHtml(madeAt, now)}.</p>
${commandPart(args)}`;
  const isWorking = state === 'planning' || state === 'applying';
  const steps =
    plan === null ? NOTHING : stepsHtml(maskedPlan(plan, definitions), { mirror, config }, source);
  const body = markup`${head}${stateHtml(restore, mirror, definitions, wrong)}${steps}`;
  return { title: 'Restore plan', body, isWorking, ...(isWorking ? { everySeconds: SOON_SECONDS } : {}) };
}

function stateHtml(
  restore: PageRestore,
  mirror: Mirror,
  definitions: DefinitionOf,
  wrong?: TidemarkError,
): HtmlPart {
  const { state, plan } = restore;
  if (state === 'planning')
    return markup`<p>${badge('plain', 'Reading the service')}: the plan follows here, looked for every second.</p>`;
  if (state === 'applying')
    return markup`<p>${badge('plain', 'Applying')}: the <a href="/restores">journal</a> has every step, and the result follows here, looked for every second.</p>`;
  const notes = notesHtml(restore.message);
  if (plan === null)
    return [markup`<p>${badge('bad', 'No plan')}</p>`, notes, planForm(restore.query, 'Make the plan again')];
  if (state === 'ended') return endedHtml(restore, plan, mirror, definitions);
  const query = new URLSearchParams([...new URLSearchParams(restore.query), [WITH_CHILDREN, 'on']]);
  const whole = planForm(query.toString(), PLAN_THESE);
  return [notes, unselectedHtml(plan, definitions, whole), confirmHtml(restore, plan, definitions, wrong)];
}

function planForm(query: string, label: string): Html {
  return actionForm('plan', [['query', query]], markup`<button>${label}</button>`);
}

/** What came of a plan that was applied, and what can be done next. */
function endedHtml(
  { source, exitCode, message, query, appliedAt }: PageRestore,
  plan: Plan,
  mirror: Mirror,
  definitions: DefinitionOf,
): HtmlPart {
  const own = mirror.restores
    .list({ limit: RESTORES_SHOWN })
    .find(({ planHash, startedAt }) => planHash === plan.hash && startedAt >= (appliedAt ?? ''));
  const report = own === undefined ? null : maskedRestore(restoreReport(mirror, own.restore), definitions);
  const isDone = exitCode === EXIT.done;
  const isHandAlone = report?.outcome === 'complete' && (report.by_hand ?? []).length > 0;
  const recorded = report === null || report.steps.length > 0 ? 0 : (report.continued ?? 0);
  const result = isDone
    ? badge('good', recorded > 0 ? `${plural(recorded, 'new id')} recorded` : 'Applied and verified')
    : isHandAlone
      ? badge('warn', 'Applied; the rest is to do by hand')
      : badge('warn', report === null ? `Ended with exit code ${exitCode ?? '?'}` : appliedText(report));
  const journal =
    report === null
      ? markup`<p>Nothing was sent.</p>`
      : markup`<p><a href="/restores/${report.restore}">Journal of restore ${report.restore}</a></p>`;
  const missing =
    isDone || isHandAlone
      ? NOTHING
      : report === null
        ? planForm(query, 'Make the plan again')
        : [nextHtml(report), planForm(query, 'Plan what is missing')];
  const isUnread = unreadRestores(mirror, source).some(({ restore }) => restore === report?.restore);
  const sync = isUnread
    ? [
        markup`<p class="faint">The daemon begins a sync: once one has read the service, the mirror and the drift page show what changed.</p>`,
        jobForm('sync', '/', 'Sync now'),
      ]
    : NOTHING;
  const left = report === null ? NOTHING : manualWorkHtml(report, definitions);
  return [markup`<p>${result}</p>`, journal, left, notesHtml(message), missing, sync];
}

/** The notes that the command printed, without those for which the page has a button. */
function notesHtml(message: string): Html[] {
  const notes: string[][] = [];
  for (const line of message.split('\n').map((each) => each.replace(/^tidemark: /, ''))) {
    if (line.trim() === '') continue;
    if (line.startsWith(' ')) notes.at(-1)?.push(line.trim().replace(/^→ /, ''));
    else notes.push([line]);
  }
  return notes
    .filter(([first = '']) => !first.startsWith(UNSELECTED))
    .map(([first = '', ...more]) => warningHtml(['! ', withCommands(first), more.map(hintHtml)]));
}

/** E.g. `4 of 5 steps applied, 1 not sent`. */
function appliedText({ steps, summary }: RestoreReport): string {
  return [
    `${formatInteger(summary.applied)} of ${plural(steps.length, 'step')} applied`,
    ...othersOf(summary),
  ].join(', ');
}

/** The steps that were not applied. */
function othersOf({ failed, skipped, open, blocked, manual }: RestoreReport['summary']): string[] {
  const counts = [
    [failed, 'failed'],
    [skipped, 'skipped'],
    [open, 'not ended'],
    [blocked + manual, 'not sent'],
  ] as const;
  return counts.flatMap(([steps, what]) => (steps === 0 ? [] : [`${formatInteger(steps)} ${what}`]));
}

function confirmHtml(
  { id, source }: PageRestore,
  plan: Plan,
  definitions: DefinitionOf,
  wrong?: TidemarkError,
): HtmlPart {
  if (plan.refused.length > 0) {
    return warningList(
      'Refused',
      plan.refused.map(({ reason, hint }) => [reason, hintHtml(hint)]),
    );
  }
  const steps = plan.steps.filter(isExecutable).length;
  const continued = continuedIds(plan);
  if (steps === 0 && continued > 0) {
    const ids = plural(continued, 'new id');
    return section(
      'apply',
      'Apply it',
      markup`<p>Nothing is sent. ${ids} will be recorded: drift lists the records as added and removed until it is recorded that they are the same.</p>`,
      applyForm(id, `To record ${ids} for ${source}, type ${continued} or ${source}`, wrong),
    );
  }
  if (steps === 0)
    return emptyHtml('Nothing to send.', 'The service is as the state says, or what differs is blocked.');
  const others = plan.steps.length - steps;
  const rest = others === 0 ? '' : ` ${plural(others, 'other step')} cannot be sent.`;
  const label = `To send ${plural(steps, 'step')} to ${source}, type ${steps} or ${source}`;
  return section(
    'apply',
    'Apply it',
    lackingHtml(plan, definitions),
    planWarnings(plan),
    riskyHtml(maskedPlan(plan, definitions)),
    markup`<p><strong>${capital(planSummary(plan))}</strong>.</p>
<p>${plural(steps, 'request')} will change the service.${rest} The service is read again first: if it has changed, nothing is sent.</p>`,
    applyForm(id, label, wrong),
  );
}

/** The names of what the plan removes or overwrites; not of what it creates, which may be hundreds. */
function riskyHtml({ steps }: Plan): HtmlPart {
  const lines = (['remove', 'update'] as const).flatMap((action) => {
    const own = steps.filter((step) => step.action === action);
    if (own.length === 0) return [];
    const names = own
      .slice(0, NAMES_SHOWN)
      .map(({ name }, index) => markup`${index === 0 ? '' : ', '}${nameHtml(nameText(name))}`);
    const more = own.length > NAMES_SHOWN ? ` and ${formatInteger(own.length - NAMES_SHOWN)} more` : '';
    return [markup`<li>${formatInteger(own.length)} to ${action}: ${names}${more}</li>`];
  });
  return lines.length === 0 ? NOTHING : markup`<ul>${lines}</ul>`;
}

function applyForm(id: string, label: string, wrong?: TidemarkError): Html {
  const error =
    wrong === undefined
      ? NOTHING
      : markup`<div class="warning" role="alert">! ${capital(wrong.message)}${hintHtml(wrong.hint ?? '')}</div>`;
  const form = actionForm(
    'apply',
    [
      ['plan', id],
      ['to', `/restores/plans/${id}`],
    ],
    markup`<label class="grow">${label}<input name="confirm" required autocomplete="off" spellcheck="false" maxlength="200"></label>
<button>Apply</button>`,
  );
  return markup`${error}${form}`;
}

/** All steps of a plan, and what it leaves. @param plan masked */
function stepsHtml(plan: Plan, { mirror, config }: Omit<RestoreFacts, 'now'>, source: string): HtmlPart {
  const definitions = definitionsFor(config, source);
  const sent = sentArticles(plan, mirror, source, definitions);
  const shown = plan.steps
    .slice(0, STEPS_SHOWN)
    .map((step) => sent.get(step.n) ?? unsentHtml(step, definitions));
  const rest = moreHtml(plan.steps.length - shown.length, 'step');
  const skipped = (plan.skipped ?? [])
    .filter(isUncompared)
    .map(({ kind, reason }) => `${definitions(kind).title.many}: ${reason}`);
  const unread = skipped.length === 0 ? NOTHING : warningList('Not compared', skipped);
  const secrets = secretsHtml(plan, config, source);
  const again = adoptionLines(plan, { definitions, isWhole: true });
  const left = plan.left.map((each) => leftText(each, { definitions }));
  return [
    section('steps', plural(plan.steps.length, 'step'), unread, shown, rest, secrets),
    listSection('again', 'Found again under another id', again),
    listSection('left', 'Left as they are', left),
  ];
}

/** A section with a list; nothing for an empty one. */
function listSection(id: string, title: string, lines: readonly string[]): HtmlPart {
  if (lines.length === 0) return NOTHING;
  return section(id, title, markup`<ul>${lines.map((line) => markup`<li>${line}</li>`)}</ul>`);
}

function unsentHtml(step: PlanStep, definitions: DefinitionOf): Html {
  const { n, action, kind, name, id, fields, reason } = step;
  const { title } = definitions(kind);
  return markup`<article class="record"><header><h3>${nameHtml(nameText(name))}</h3>
<span class="tag ${action === 'blocked' ? 'high' : 'medium'}">${n}. ${verbOf(step)}</span></header>
<p class="faint">${title.one} <span class="id">${nameText(id)}</span></p>
${reason === null ? NOTHING : markup`<p>${reason}</p>`}${acceptedLines(step).map((line) => markup`<p>${line}</p>`)}
${fieldListHtml(maskedFields(fields, definitions(kind)), 0)}</article>`;
}

// Past restores, and the journal of one.

export function restoresPage({ mirror, now }: RestoreFacts, planned: readonly PageRestore[]): PageContent {
  const rows = mirror.restores
    .list({ limit: RESTORES_SHOWN })
    .map((row) => [
      markup`<a href="/restores/${row.restore}">${row.restore}</a>`,
      markup`${outcomeBadge(row.outcome)}${mirror.restores.abandonedBy(row.restore) === null ? NOTHING : ' abandoned'}${checkHtml(mirror, row)}`,
      nameHtml(row.source),
      row.undoes === null ? row.from : `undoes ${row.undoes}`,
      byText(row),
      ageHtml(row.startedAt, now),
      tookText(row),
    ]);
  const columns = [
    { head: 'Restore' },
    { head: 'Outcome' },
    { head: 'Source', style: 'below source', label: 'Source' },
    { head: 'From', style: 'below', label: 'From' },
    { head: 'By', style: 'below', label: 'By' },
    { head: 'Started' },
    { head: 'Took', style: 'num spare' },
  ];
  const open = planned
    .filter(({ state }) => state !== 'ended')
    .map(
      ({ id, source, state, madeAt }) =>
        markup`<li><a href="/restores/plans/${id}">Plan for ${nameHtml(source)}</a>: ${state}, ${ageHtml(madeAt, now)}</li>`,
    );
  const content =
    rows.length === 0
      ? emptyHtml('No restores yet.', 'Plan one from the drift page or from the history of a record.')
      : tableHtml('Restores', columns, rows);
  const body = markup`<h1>Restores</h1><p class="faint">What was sent to the service, newest first.</p>
${mismatchHtml(mirror.restores.altered())}
<ul>${open}</ul><div class="gap"></div>${content}`;
  return { title: 'Restores', body };
}

/** Says how many steps have an uncertain result; nothing if none has. */
function checkHtml(mirror: Mirror, row: RestoreRow): HtmlPart {
  const text = toCheckText(mirror, row);
  return text === '' ? NOTHING : markup` ${badge('warn', text)}`;
}

/** The page of a restore. @throws TidemarkError `reference_unknown` for an unknown one, `mirror_corrupt` if another program deleted it */
export function journalPage({ mirror, config, now }: RestoreFacts, number: string): PageContent {
  if (!/^\d{1,15}$/.test(number)) throw new TidemarkError('reference_unknown', 'there is no such restore');
  const row = mirror.restores.get(Number(number));
  if (row === undefined) throw unknownRestore(mirror, Number(number));
  const found = restoreReport(mirror, row.restore);
  const definitions = definitionsFor(config, found.source);
  const report = maskedRestore(found, definitions);
  const unlike = [
    ...mirror.restores.contradictions(row.restore).map(({ line }) => line),
    ...(found.is_plan_unreadable === true ? [PLAN_UNREADABLE] : []),
  ];
  const planned = new Map((shownPlan(row)?.steps ?? []).map((step) => [step.n, step]));
  // The outcome beside it already says that a step is blocked, or to be done by hand.
  const verb = ({ n, action }: RestoreReport['steps'][number]): string => {
    const step = planned.get(n);
    if (action === 'blocked' || action === 'manual') return '';
    return `${step === undefined ? action : verbOf(step)} `;
  };
  const { restore, outcome, resumed_by: resumedBy = [], undoes, undone_by: undoneBy, continued = 0 } = report;
  const facts = factsHtml([
    ['Source', nameHtml(report.source)],
    ['Outcome', outcomeBadge(outcome)],
    ['Started', [timeHtml(report.started_at), ' ', faint(ageHtml(report.started_at, now))]],
    ['Ended', report.finished_at === null ? faint('not yet') : timeHtml(report.finished_at)],
    ['By', byText(report)],
    ...(resumedBy.length === 0 ? [] : [['Resumed by', resumedBy.map(byText).join(', ')] as const]),
    ...(report.abandoned_by === undefined ? [] : [['Abandoned by', byText(report.abandoned_by)] as const]),
    ...(undoes === null ? [] : [['Undoes', restoreLink(undoes)] as const]),
    ...(undoneBy === undefined
      ? []
      : [
          [
            'Undone',
            [report.undone_in_part === true ? 'in part ' : '', 'by ', restoreLink(undoneBy)],
          ] as const,
        ]),
    ['Steps', [`${formatInteger(report.summary.applied)} applied`, ...othersOf(report.summary)].join(', ')],
    ...(continued === 0 ? [] : [['Recorded', plural(continued, 'new id')] as const]),
  ]);
  const rows = report.steps
    .slice(0, STEPS_SHOWN)
    .map((step) => [
      String(step.n),
      markup`${verb(step)}${definitions(step.kind).title.one} <strong>${nameHtml(nameText(step.name))}</strong>`,
      badge(...stepTone(step)),
      step.status === null ? '' : String(step.status),
      noteHtml(step),
    ]);
  const columns = [
    { head: 'Step' },
    { head: 'What', style: 'wide below' },
    { head: 'Outcome' },
    { head: 'Status', style: 'num', label: 'Status' },
    { head: 'Note', style: 'wide below' },
  ];
  const journal = tableHtml('Steps of the restore', columns, rows);
  const rest = moreHtml(report.steps.length - rows.length, 'step');
  const unread = unreadRestores(mirror, found.source).find((each) => each.restore === found.restore);
  const next = markup`${unreadRestoreHtml(unread)}${nextHtml(report)}`;
  const body = markup`${CRUMBS}<h1>Restore ${restore}</h1>${mismatchHtml(unlike)}${facts}${next}
${manualWorkHtml(report, definitions)}${section('journal', 'Journal', journal, rest)}`;
  return { title: `Restore ${restore}`, body, isWorking: outcome === 'running' };
}

function restoreLink(restore: number): Html {
  return markup`<a href="/restores/${restore}">restore ${restore}</a>`;
}

function noteHtml({ new_id: id, error, warning, reason, note }: RestoreReport['steps'][number]): Html {
  const text = error?.message ?? warning ?? reason ?? note ?? '';
  if (id === null) return markup`${text}`;
  return markup`new id <span class="id">${nameText(id)}</span>${text === '' ? '' : `; ${text}`}`;
}

/** The commands that can follow a restore; nothing if there is none. */
function nextHtml({
  restore,
  outcome,
  steps,
  undone_by: undo,
  undone_in_part: isUndoneInPart,
}: RestoreReport): HtmlPart {
  if (outcome === 'running') return NOTHING;
  const isUnknown = steps.some((step) => step.outcome === 'sent');
  const hasActed = isUnknown || steps.some((step) => step.outcome === 'applied');
  const isRefused = steps.some(
    ({ outcome: end, error }) => end === 'failed' || (end === 'skipped' && error?.code !== 'as_desired'),
  );
  const isUndone = undo !== undefined && isUndoneInPart !== true && !isUnknown;
  const isOpen = outcome === 'interrupted';
  const resuming = isOpen
    ? 'continues it'
    : isUnknown
      ? 'looks up what has no answer, and sends the rest'
      : isRefused
        ? 'sends what failed again, once its reason is gone'
        : null;
  const undoing = `${isUnknown ? 'looks up what has no answer, and ' : ''}plans how to undo it`;
  const ways = [
    ...(undo !== undefined || resuming === null
      ? []
      : [`\`tidemark restore --resume ${restore}\` ${resuming}`]),
    ...(undo !== undefined || !isOpen
      ? []
      : [`\`tidemark restore --abandon ${restore}\` leaves it as it is`]),
    ...(!hasActed || isUndone ? [] : [`\`tidemark undo ${restore}\` ${undoing}`]),
  ];
  return ways.length === 0 ? NOTHING : hintHtml(`${ways.join('; ')}.`);
}

/** What is left to do by hand; nothing if nothing is left. */
function manualWorkHtml(report: RestoreReport, definitions: DefinitionOf): HtmlPart {
  const lines = handLines(report, { definitions });
  if (lines.length === 0) return NOTHING;
  return section(
    'by-hand',
    'Still to do by hand',
    markup`<ul class="checklist">${lines.map((line) => markup`<li class="open">${line}</li>`)}</ul>`,
  );
}

function stepTone({ outcome, verified }: RestoreReport['steps'][number]): [Tone, string] {
  if (outcome === 'applied') return verified === true ? ['good', 'verified'] : ['warn', 'applied'];
  return [outcome === 'failed' ? 'bad' : outcome === 'sent' ? 'warn' : 'plain', outcome];
}
