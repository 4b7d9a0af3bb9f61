/** Restores: the plan that is applied from the page with a second confirmation, past restores, and the journal of each. */
import type { Config } from '../../config/config.ts';
import { definitionsFor, type Present, presentIn } from '../../config/source.ts';
import { EXIT, TidemarkError } from '../../core/errors.ts';
import { count, plural } from '../../core/wording.ts';
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
import { tookMs } from '../http/wording.ts';
import { actionForm } from './actions.ts';
import {
  ageHtml,
  badge,
  capital,
  type DefinitionOf,
  durationHtml,
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
  withCommands,
} from './components.ts';
import { unreadRestoreHtml } from './drift.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent } from './layout.ts';
import {
  commandPart,
  lackingHtml,
  PLAN_THESE,
  secretsHtml,
  sentArticles,
  unselectedHtml,
  WITH_CHILDREN,
} from './restore-plan.ts';

const STEPS_SHOWN = 500;
const RESTORES_SHOWN = 100;
const NAMES_SHOWN = 20;
/** Who has just asked for a plan, or for its steps, waits for the result. */
const SOON_SECONDS = 1;

const CRUMBS = markup`<p class="crumbs faint"><a href="/restores">Restores</a></p>`;

interface RestoreFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly now: number;
}

/**
 * A plan that was made in the dashboard: being made, to be confirmed, being applied, or applied.
 * @param wrong what was wrong with its confirmation
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
  const body = markup`${head}${stateHtml(restore, mirror, definitions, wrong)}${plan === null ? NOTHING : stepsHtml(maskedPlan(plan, definitions), { definitions, present: presentIn(config, source) }, sentArticles(maskedPlan(plan, definitions), mirror, source, definitions))}`;
  return { title: 'Restore plan', body, isWorking, ...(isWorking ? { everySeconds: SOON_SECONDS } : {}) };
}

function stateHtml(
  restore: PageRestore,
  mirror: Mirror,
  definitions: DefinitionOf,
  wrong?: TidemarkError,
): HtmlPart {
  const { state, plan, source, exitCode, message } = restore;
  const said = notesHtml(message);
  if (state === 'planning')
    return markup`<p>${badge('plain', 'Reading the service')}: the plan follows here, looked for every second.</p>`;
  if (state === 'applying')
    return markup`<p>${badge('plain', 'Applying')}: the <a href="/restores">journal</a> has every step, and the result follows here, looked for every second.</p>`;
  if (state === 'planned' && plan !== null) {
    const query = new URLSearchParams([...new URLSearchParams(restore.query), [WITH_CHILDREN, 'on']]);
    const again = actionForm('plan', [['query', query.toString()]], markup`<button>${PLAN_THESE}</button>`);
    return [said, unselectedHtml(plan, definitions, again), confirmHtml(restore, plan, definitions, wrong)];
  }
  const again = actionForm('plan', [['query', restore.query]], markup`<button>Make the plan again</button>`);
  if (plan === null) return [markup`<p>${badge('bad', 'No plan')}</p>`, said, again];
  const own = mirror.restores
    .list({ limit: RESTORES_SHOWN })
    .find(({ planHash, startedAt }) => planHash === plan.hash && startedAt >= (restore.appliedAt ?? ''));
  const journal =
    own === undefined
      ? markup`<p>Nothing was sent.</p>`
      : markup`<p><a href="/restores/${own.restore}">Journal of restore ${own.restore}</a></p>`;
  const report = own === undefined ? null : maskedRestore(restoreReport(mirror, own.restore), definitions);
  const left = report === null ? NOTHING : manualWorkHtml(report, definitions);
  const isHandAlone = report?.outcome === 'complete' && (report.by_hand ?? []).length > 0;
  const recorded = report === null || report.steps.length > 0 ? 0 : (report.continued ?? 0);
  const result =
    exitCode === EXIT.done
      ? badge('good', recorded > 0 ? `${plural(recorded, 'new id')} recorded` : 'Applied and verified')
      : isHandAlone
        ? badge('warn', 'Applied; the rest is to do by hand')
        : badge('warn', report === null ? `Ended with exit code ${exitCode ?? '?'}` : appliedText(report));
  const isUnread = unreadRestores(mirror, source).some((each) => each.restore === own?.restore);
  const next = !isUnread
    ? NOTHING
    : markup`<p class="faint">The daemon begins a sync: once one has read the service, the mirror and the drift page show what changed.</p>
${actionForm(
  'job',
  [
    ['job', 'sync'],
    ['to', '/'],
  ],
  markup`<button>Sync now</button>`,
)}`;
  const missing =
    exitCode === EXIT.done || isHandAlone
      ? NOTHING
      : report === null
        ? again
        : markup`${nextHtml(report)}${actionForm('plan', [['query', restore.query]], markup`<button>Plan what is missing</button>`)}`;
  return [markup`<p>${result}</p>`, journal, left, said, missing, next];
}

/** What the command had to say, as the page says such things; without what the page itself has a button for. */
function notesHtml(message: string): Html[] {
  const notes: string[][] = [];
  for (const line of message.split('\n').map((each) => each.replace(/^tidemark: /, ''))) {
    if (line.trim() === '') continue;
    if (line.startsWith(' ')) notes.at(-1)?.push(line.trim().replace(/^→ /, ''));
    else notes.push([line]);
  }
  return notes
    .filter(([first = '']) => !first.startsWith(UNSELECTED))
    .map(
      ([first = '', ...more]) =>
        markup`<div class="warning" role="note">! ${withCommands(first)}${more.map(hintHtml)}</div>`,
    );
}

/** E.g. `4 of 5 steps applied, 1 not sent`. */
function appliedText({ steps, summary }: RestoreReport): string {
  return [`${count(summary.applied)} of ${plural(steps.length, 'step')} applied`, ...othersOf(summary)].join(
    ', ',
  );
}

/** The steps that were not applied. */
function othersOf({ failed, skipped, open, blocked, manual }: RestoreReport['summary']): string[] {
  const counts = [
    [failed, 'failed'],
    [skipped, 'skipped'],
    [open, 'not ended'],
    [blocked + manual, 'not sent'],
  ] as const;
  return counts.flatMap(([steps, what]) => (steps === 0 ? [] : [`${count(steps)} ${what}`]));
}

function confirmHtml(
  { id, source }: PageRestore,
  plan: Plan,
  definitions: DefinitionOf,
  wrong?: TidemarkError,
): HtmlPart {
  const steps = plan.steps.filter(isExecutable).length;
  if (plan.refused.length > 0) {
    const reasons = plan.refused.map(({ reason, hint }) => markup`<li>${reason}${hintHtml(hint)}</li>`);
    return markup`<div class="warning" role="note"><strong>! Refused</strong>:<ul>${reasons}</ul></div>`;
  }
  const continued = continuedIds(plan);
  if (steps === 0 && continued > 0) {
    const ids = plural(continued, 'new id');
    return section(
      'apply',
      'Apply it',
      NOTHING,
      markup`<p>Nothing is sent. ${ids} will be recorded: drift lists the records as added and removed until it is recorded that they are the same.</p>`,
      applyForm(id, `To record ${ids} for ${source}, type ${continued} or ${source}`, wrong),
    );
  }
  if (steps === 0)
    return emptyHtml('Nothing to send.', 'The service is as the state says, or what differs is blocked.');
  const warnings = (plan.warnings ?? []).map(
    (line) => markup`<p class="warning" role="note">! ${withCommands(line)}</p>`,
  );
  const others = plan.steps.length - steps;
  const rest = others === 0 ? '' : ` ${plural(others, 'other step')} cannot be sent.`;
  const label = `To send ${plural(steps, 'step')} to ${source}, type ${steps} or ${source}`;
  return section(
    'apply',
    'Apply it',
    NOTHING,
    lackingHtml(plan, definitions),
    warnings,
    riskyHtml(maskedPlan(plan, definitions)),
    markup`<p><strong>${capital(planSummary(plan))}</strong>.</p>
<p>${plural(steps, 'request')} will change the service.${rest} The service is read again first: if it has changed, nothing is sent.</p>`,
    applyForm(id, label, wrong),
  );
}

/** What the plan takes away or overwrites, by name: what it creates may be hundreds. */
function riskyHtml({ steps }: Plan): HtmlPart {
  const lines = (['remove', 'update'] as const).flatMap((action) => {
    const own = steps.filter((step) => step.action === action);
    if (own.length === 0) return [];
    const names = own
      .slice(0, NAMES_SHOWN)
      .map(({ name }, index) => markup`${index === 0 ? '' : ', '}${nameHtml(nameText(name))}`);
    const more = own.length > NAMES_SHOWN ? ` and ${count(own.length - NAMES_SHOWN)} more` : '';
    return [markup`<li>${count(own.length)} to ${action}: ${names}${more}</li>`];
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

function stepsHtml(
  plan: Plan,
  { definitions, present }: { readonly definitions: DefinitionOf; readonly present: Present },
  sent: ReturnType<typeof sentArticles>,
): HtmlPart {
  const shown = plan.steps
    .slice(0, STEPS_SHOWN)
    .map((step) => sent.get(step.n) ?? unsentHtml(step, definitions));
  const more = plan.steps.length - shown.length;
  const rest = more > 0 ? markup`<p class="faint">and ${plural(more, 'more step')}</p>` : NOTHING;
  const skipped = (plan.skipped ?? [])
    .filter(isUncompared)
    .map(({ kind, reason }) => markup`<li>${definitions(kind).title.many}: ${reason}</li>`);
  const unread =
    skipped.length === 0
      ? NOTHING
      : markup`<div class="warning" role="note"><strong>! Not compared</strong>:<ul>${skipped}</ul></div>`;
  const again = adoptionLines(plan, { definitions, isWhole: true }).map((line) => markup`<li>${line}</li>`);
  const left = plan.left.map((each) => markup`<li>${leftText(each, { definitions })}</li>`);
  return [
    section(
      'steps',
      plural(plan.steps.length, 'step'),
      NOTHING,
      unread,
      shown,
      rest,
      secretsHtml(plan, definitions, present),
    ),
    again.length === 0
      ? NOTHING
      : section('again', 'Found again under another id', NOTHING, markup`<ul>${again}</ul>`),
    left.length === 0 ? NOTHING : section('left', 'Left as they are', NOTHING, markup`<ul>${left}</ul>`),
  ];
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
      durationHtml(tookMs(row)),
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

/** How many of its steps have a result that is not certain. */
function checkHtml(mirror: Mirror, row: RestoreRow): HtmlPart {
  const text = toCheckText(mirror, row);
  return text === '' ? NOTHING : markup` ${badge('warn', text)}`;
}

/** @throws TidemarkError `reference_unknown` for an unknown restore, `mirror_corrupt` for one that another program deleted */
export function journalPage({ mirror, config, now }: RestoreFacts, number: string): PageContent {
  if (!/^\d{1,15}$/.test(number)) throw new TidemarkError('reference_unknown', 'there is no such restore');
  if (mirror.restores.get(Number(number)) === undefined) throw unknownRestore(mirror, Number(number));
  const unlike = mirror.restores.contradictions(Number(number)).map(({ line }) => line);
  const found = restoreReport(mirror, Number(number));
  const definitions = definitionsFor(config, found.source);
  const report = maskedRestore(found, definitions);
  const row = mirror.restores.get(found.restore);
  const planned = new Map(
    (row === undefined ? [] : (shownPlan(row)?.steps ?? [])).map((step) => [step.n, step]),
  );
  // The outcome beside it says whether a step is blocked, or to be done by hand.
  const verb = ({ n, action }: RestoreReport['steps'][number]): string => {
    const step = planned.get(n);
    if (action === 'blocked' || action === 'manual') return '';
    return `${step === undefined ? action : verbOf(step)} `;
  };
  const {
    restore,
    outcome,
    started_at: startedAt,
    finished_at: finishedAt,
    by,
    via,
    resumed_by: resumedBy = [],
    abandoned_by: abandonedBy,
    source,
    undoes,
    undone_by: undoneBy,
    undone_in_part: isInPart = false,
    summary,
    continued = 0,
  } = report;
  const facts = factsHtml([
    ['Source', nameHtml(source)],
    ['Outcome', outcomeBadge(outcome)],
    ['Started', markup`${timeHtml(startedAt)} ${faint(ageHtml(startedAt, now))}`],
    ['Ended', finishedAt === null ? faint('not yet') : timeHtml(finishedAt)],
    ['By', byText({ by, via })],
    ...(resumedBy.length === 0 ? [] : [['Resumed by', resumedBy.map(byText).join(', ')] as const]),
    ...(abandonedBy === undefined ? [] : [['Abandoned by', byText(abandonedBy)] as const]),
    ...(undoes === null
      ? []
      : [['Undoes', markup`<a href="/restores/${undoes}">restore ${undoes}</a>`] as const]),
    ...(undoneBy === undefined
      ? []
      : [
          [
            'Undone',
            markup`${isInPart ? 'in part ' : ''}by <a href="/restores/${undoneBy}">restore ${undoneBy}</a>`,
          ] as const,
        ]),
    ['Steps', [`${count(summary.applied)} applied`, ...othersOf(summary)].join(', ')],
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
  const more = report.steps.length - rows.length;
  const unread = unreadRestores(mirror, found.source).find((each) => each.restore === found.restore);
  const next = markup`${unreadRestoreHtml(unread)}${nextHtml(report)}`;
  const body = markup`${CRUMBS}<h1>Restore ${restore}</h1>${mismatchHtml([...unlike, ...(found.is_plan_unreadable === true ? [PLAN_UNREADABLE] : [])])}${facts}${next}
${manualWorkHtml(report, definitions)}${section('journal', 'Journal', NOTHING, tableHtml('Steps of the restore', columns, rows), more > 0 ? markup`<p class="faint">and ${plural(more, 'more step')}</p>` : NOTHING)}`;
  return { title: `Restore ${restore}`, body, isWorking: outcome === 'running' };
}

function noteHtml({ new_id: id, error, warning, reason, note }: RestoreReport['steps'][number]): Html {
  const text = error?.message ?? warning ?? reason ?? note ?? '';
  if (id === null) return markup`${text}`;
  return markup`new id <span class="id">${nameText(id)}</span>${text === '' ? '' : `; ${text}`}`;
}

/** The commands for what can be done next. */
function nextHtml({
  restore,
  outcome,
  steps,
  undone_by: undo,
  undone_in_part: isUndoneInPart,
}: RestoreReport): HtmlPart {
  const isUnknown = steps.some((step) => step.outcome === 'sent');
  const hasActed = isUnknown || steps.some((step) => step.outcome === 'applied');
  const isRefused = steps.some(
    ({ outcome: end, error }) => end === 'failed' || (end === 'skipped' && error?.code !== 'as_desired'),
  );
  const isUndone = undo !== undefined && isUndoneInPart !== true && !isUnknown;
  const isOpen = outcome === 'interrupted' && undo === undefined;
  const ways = [
    ...(isOpen
      ? [
          markup`<code>tidemark restore --resume ${restore}</code> continues it`,
          markup`; <code>tidemark restore --abandon ${restore}</code> leaves it as it is`,
        ]
      : undo === undefined && outcome !== 'running' && isUnknown
        ? [
            markup`<code>tidemark restore --resume ${restore}</code> looks up what has no answer, and sends the rest; `,
          ]
        : undo === undefined && outcome !== 'running' && isRefused
          ? [
              markup`<code>tidemark restore --resume ${restore}</code> sends what failed again, once its reason is gone${hasActed ? '; ' : ''}`,
            ]
          : []),
    ...(outcome === 'running' || !hasActed || isUndone
      ? []
      : [
          markup`${isOpen ? '; ' : ''}<code>tidemark undo ${restore}</code> ${isUnknown ? 'looks up what has no answer, and ' : ''}plans how to undo it`,
        ]),
  ];
  return ways.length === 0 ? NOTHING : markup`<p class="hint faint">${ways}.</p>`;
}

/** What the restore left to a person. */
function manualWorkHtml(report: RestoreReport, definitions: DefinitionOf): HtmlPart {
  const lines = handLines(report, { definitions });
  if (lines.length === 0) return NOTHING;
  return section(
    'by-hand',
    'Still to do by hand',
    NOTHING,
    markup`<ul class="checklist">${lines.map((line) => markup`<li class="open">${line}</li>`)}</ul>`,
  );
}

function stepTone({ outcome, verified }: RestoreReport['steps'][number]): [Tone, string] {
  if (outcome === 'applied') return verified === true ? ['good', 'verified'] : ['warn', 'applied'];
  return [outcome === 'failed' ? 'bad' : outcome === 'sent' ? 'warn' : 'plain', outcome];
}
