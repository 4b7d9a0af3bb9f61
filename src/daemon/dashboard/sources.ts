/**
 * The first page of a daemon whose sources have a mirror each: how many are fresh, complete, verified, restorable and
 * drifting, and a table of all sources, from memory. A source's name leads to its own pages.
 */
import { formatInteger, plural } from '../../core/wording.ts';
import type { CellSummary } from '../cell-status.ts';
import { pageNumberIn, valuesIn } from '../http/request.ts';
import {
  ageHtml,
  aheadHtml,
  badge,
  chipsHtml,
  emptyHtml,
  faint,
  hiddenInputs,
  nameHtml,
  pageLinks,
  selectHtml,
  tableHtml,
  type Tone,
} from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import { type PageContent, withSource } from './layout.ts';

/** Rows of a page. With 500, Chromium took longer than the 300 ms that a page may take. */
const PAGE = 200;
const MOST_TEXT = 200;
/** Characters of a problem that are shown; the source's own page has all of it. */
const REASON_LENGTH = 140;

type State = NonNullable<CellSummary['state']>;
type Question = keyof NonNullable<CellSummary['answers']>;

const STATES: Readonly<Record<State | 'unknown', { readonly rank: number; readonly tone: Tone }>> = {
  failing: { rank: 0, tone: 'bad' },
  degraded: { rank: 1, tone: 'warn' },
  starting: { rank: 2, tone: 'plain' },
  unknown: { rank: 3, tone: 'plain' },
  ok: { rank: 4, tone: 'good' },
};
const TONES: Readonly<Record<Tone, number>> = { bad: 0, warn: 1, plain: 2, good: 3 };

const QUESTIONS = [
  ['fresh', 'Fresh'],
  ['complete', 'Complete'],
  ['verified', 'Verified'],
  ['restorable', 'Restorable'],
] as const satisfies readonly (readonly [Question, string])[];

type Compare = (a: CellSummary, b: CellSummary) => number;

/** The orders of the table. The usual one is `wrong`: the worst first, of the same problems the longest. */
const ORDERS: Readonly<Record<string, Compare>> = {
  wrong: (a, b) =>
    Number(isWrong(b)) - Number(isWrong(a)) ||
    stateOf(a).rank - stateOf(b).rank ||
    (b.openFindings ?? 0) - (a.openFindings ?? 0) ||
    compareTexts(a.reason?.since ?? null, b.reason?.since ?? null),
  name: () => 0,
  group: (a, b) => compareTexts(a.group, b.group),
  fresh: byAnswer('fresh'),
  complete: byAnswer('complete'),
  verified: byAnswer('verified'),
  restorable: byAnswer('restorable'),
  drift: (a, b) => (b.openFindings ?? -1) - (a.openFindings ?? -1) || byAnswer('drift')(a, b),
  last: (a, b) => compareTexts(a.lastCompleteAt ?? '', b.lastCompleteAt ?? ''),
  next: (a, b) => compareTexts(a.nextDueAt, b.nextDueAt),
  error: (a, b) => compareTexts(a.lastErrorCode, b.lastErrorCode),
};

interface SourcesQuery {
  readonly text: string;
  readonly words: readonly string[];
  /** Null for all. */
  readonly group: string | null;
  readonly isOnlyWrong: boolean;
  readonly isGrouped: boolean;
  readonly order: string;
  readonly isReversed: boolean;
  /** From 1 on. */
  readonly page: number;
}

/** The page of all sources. `summaries`: one of each source. */
export function sourcesPage(
  summaries: readonly CellSummary[],
  query: URLSearchParams,
  now: number,
): PageContent {
  const asked = queryOf(query, summaries);
  const shown = summaries.filter((summary) => fits(summary, asked)).sort(orderOf(asked));
  const rows = shown.slice((asked.page - 1) * PAGE, asked.page * PAGE);
  const pages =
    asked.page === 1 && shown.length <= PAGE
      ? NOTHING
      : pageLinks(asked.page, asked.page * PAGE >= shown.length, (page) => pathWith(asked, { page }));
  const failing = summaries.filter(({ state }) => state === 'failing').length;
  const title = failing > 0 ? `✕ ${formatInteger(failing)} failing` : 'Sources';
  const body = markup`${headHtml(summaries)}${totalsHtml(summaries)}
${filterHtml(summaries, asked, shown.length)}
${rows.length === 0 ? NOTHING : tablesHtml(rows, asked, now)}${pages}`;
  return { title, body, isWide: true };
}

function queryOf(query: URLSearchParams, summaries: readonly CellSummary[]): SourcesQuery {
  const text = (query.get('q') ?? '').trim().slice(0, MOST_TEXT);
  const groups = [...new Set(summaries.map(({ group }) => group))];
  const [group = null] = valuesIn(query, 'group', groups);
  const sort = query.get('sort') ?? '';
  const order = sort.replace(/^-/, '');
  return {
    text,
    words: text.toLowerCase().split(/\s+/).filter(Boolean),
    group,
    isOnlyWrong: valuesIn(query, 'only', ['problems']).length > 0,
    isGrouped: valuesIn(query, 'by', ['group']).length > 0,
    order: Object.hasOwn(ORDERS, order) ? order : 'wrong',
    isReversed: sort.startsWith('-'),
    page: pageNumberIn(query),
  };
}

/** A source whose first sync was interrupted is still starting: its error alone makes it wrong. */
function isWrong({ state, lastErrorCode }: CellSummary): boolean {
  return state === 'failing' || state === 'degraded' || lastErrorCode !== null;
}

function hasDrifted({ openFindings }: CellSummary): boolean {
  return (openFindings ?? 0) > 0;
}

function fits(summary: CellSummary, { words, group, isOnlyWrong }: SourcesQuery): boolean {
  if (group !== null && summary.group !== group) return false;
  if (isOnlyWrong && !isWrong(summary)) return false;
  if (words.length === 0) return true;
  const { name, state, reason, lastErrorCode, running, answers } = summary;
  const own = Object.values(answers ?? {}).map(({ word }) => word);
  const facts = [name, summary.group, state, reason?.message, lastErrorCode, running?.name, ...own];
  const text = facts.join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

function orderOf({ order, isReversed, isGrouped }: SourcesQuery): Compare {
  const own = ORDERS[order] ?? byName;
  const sign = isReversed ? -1 : 1;
  return (a, b) =>
    (isGrouped ? compareTexts(a.group, b.group) : 0) ||
    sign * (own(a, b) || (order === 'name' ? byName(a, b) : 0)) ||
    byName(a, b);
}

function byName(a: CellSummary, b: CellSummary): number {
  return compareTexts(a.name, b.name);
}

function byAnswer(question: Question): Compare {
  const rank = ({ answers }: CellSummary): number => TONES[answers?.[question].tone ?? 'plain'];
  return (a, b) => rank(a) - rank(b);
}

/** Null, for what is not known, comes last. */
function compareTexts(a: string | null, b: string | null): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  return a < b ? -1 : 1;
}

function stateOf({ state }: CellSummary): (typeof STATES)[State] {
  return STATES[state ?? 'unknown'];
}

function headHtml(summaries: readonly CellSummary[]): Html {
  const wrong = summaries.filter(isWrong).length;
  const isFailing = summaries.some(({ state }) => state === 'failing');
  const drifting = summaries.filter(hasDrifted).length;
  const state = isFailing ? 'failing' : wrong + drifting > 0 ? 'degraded' : 'ok';
  const all = plural(summaries.length, 'source');
  const health = wrong === 0 ? `${all}, no problems` : `${formatInteger(wrong)} of ${all} with problems`;
  const text = drifting === 0 ? health : `${health}, ${formatInteger(drifting)} drifted`;
  return markup`<h1 class="is-${state}"><span class="verdict-mark" aria-hidden="true"></span>${text}</h1>`;
}

/** How many sources each question is answered well for. */
function totalsHtml(summaries: readonly CellSummary[]): Html {
  const all = summaries.length;
  const items = QUESTIONS.map(([question, label]) => {
    const good = summaries.filter(({ answers }) => answers?.[question].tone === 'good').length;
    const has = (tone: Tone): boolean => summaries.some(({ answers }) => answers?.[question].tone === tone);
    const tone = good === all ? 'good' : has('bad') ? 'bad' : has('warn') ? 'warn' : 'plain';
    return markup`<li class="${tone}"><h2>${label}</h2><div><b>${formatInteger(good)}</b></div><p>of ${plural(all, 'source')}</p></li>`;
  });
  const drifting = summaries.filter(hasDrifted);
  const findings = drifting.reduce((sum, { openFindings }) => sum + (openFindings ?? 0), 0);
  // The tone is `plain` without a baseline.
  const unknown = summaries.filter(
    ({ openFindings, answers }) => openFindings === null && /warn|bad/.test(answers?.drift.tone ?? ''),
  ).length;
  const known = drifting.length === 0 ? 'no open findings' : plural(findings, 'open finding');
  const line = unknown === 0 ? known : `${known}, ${formatInteger(unknown)} not known`;
  const drift = markup`<li class="${drifting.length + unknown === 0 ? 'good' : 'warn'}"><h2>Drifting</h2><div><b>${formatInteger(drifting.length)}</b></div><p>${line}</p></li>`;
  return markup`<ul class="answers">${items}${drift}</ul>`;
}

/** The parameter `sort`; empty for the usual order. */
function sortText({ order, isReversed }: SourcesQuery): string {
  return order === 'wrong' && !isReversed ? '' : `${isReversed ? '-' : ''}${order}`;
}

/** The path of this page with some parameters changed; it leads to the first page again. */
function pathWith(asked: SourcesQuery, changed: Partial<SourcesQuery>): string {
  const next = { ...asked, page: 1, ...changed };
  const { text, group, isOnlyWrong, isGrouped, page } = next;
  const sort = sortText(next);
  const query = new URLSearchParams();
  if (text !== '') query.set('q', text);
  if (group !== null) query.set('group', group);
  if (isOnlyWrong) query.set('only', 'problems');
  if (isGrouped) query.set('by', 'group');
  if (sort !== '') query.set('sort', sort);
  if (page > 1) query.set('page', String(page));
  return query.size === 0 ? '/' : `/?${query.toString()}`;
}

function filterHtml(summaries: readonly CellSummary[], asked: SourcesQuery, found: number): Html {
  const groups = [...new Set(summaries.map(({ group }) => group))].sort();
  const { text, group, isOnlyWrong, isGrouped } = asked;
  const isNarrowed = text !== '' || group !== null || isOnlyWrong;
  const sort = sortText(asked);
  const choices = [['', 'all'] as const, ...groups.map((each) => [each, each] as const)];
  const chips = [
    chipsHtml('Show', 'only', [['problems', 'only with problems']], isOnlyWrong ? ['problems'] : [], true),
    groups.length < 2
      ? NOTHING
      : chipsHtml('Table', 'by', [['group', 'grouped by address']], isGrouped ? ['group'] : [], true),
  ];
  const status = isNarrowed
    ? markup`${formatInteger(found)} of ${plural(summaries.length, 'source')} shown. <a href="/">Show all</a>`
    : plural(summaries.length, 'source');
  return markup`<form class="search" id="filter" method="get" action="/" role="search" data-filter>${hiddenInputs(sort === '' ? [] : [['sort', sort]])}
<label class="grow">Filter<input type="search" name="q" value="${text}" autocomplete="off" spellcheck="false"
 maxlength="${MOST_TEXT}" placeholder="Name, address, state or problem" aria-keyshortcuts="/"></label>
${groups.length < 2 ? NOTHING : selectHtml('Address', 'group', choices, group ?? '')}
<button>Filter</button>${chips}</form>
<p class="faint" role="status" aria-live="polite">${status}</p>
${found === 0 ? emptyHtml('Nothing matches the filter.', '') : NOTHING}`;
}

function tablesHtml(rows: readonly CellSummary[], asked: SourcesQuery, now: number): HtmlPart {
  if (!asked.isGrouped) return [markup`<h2 class="side">Sources</h2>`, tableOf('Sources', rows, asked, now)];
  return [...Map.groupBy(rows, ({ group }) => group)].map(([group, own]) => {
    const wrong = own.filter(isWrong).length;
    const line = `${plural(own.length, 'source')}${wrong === 0 ? '' : `, ${formatInteger(wrong)} with problems`}`;
    return markup`<section><h2>${group}<span class="aside faint">${line}</span></h2>${tableOf(`Sources of ${group}`, own, asked, now)}</section>`;
  });
}

const COLUMNS = [
  { head: 'Source', order: 'name', style: 'wide' },
  { head: 'State', order: 'wrong' },
  { head: 'Fresh', order: 'fresh', style: 'spare' },
  { head: 'Complete', order: 'complete', style: 'spare' },
  { head: 'Verified', order: 'verified', style: 'spare' },
  { head: 'Restorable', order: 'restorable', style: 'spare' },
  { head: 'Drift', order: 'drift', label: 'Drift' },
  { head: 'Last complete', order: 'last', style: 'num', label: 'Complete' },
  { head: 'Next', order: 'next', style: 'num spare' },
  { head: 'Problem', order: 'error', style: 'wide below' },
] as const;

function tableOf(caption: string, rows: readonly CellSummary[], asked: SourcesQuery, now: number): Html {
  const columns = COLUMNS.map(({ head, order, ...rest }) => {
    const isCurrent = asked.order === order;
    const path = pathWith(asked, { order, isReversed: isCurrent && !asked.isReversed });
    const direction = asked.isReversed ? ('descending' as const) : ('ascending' as const);
    const sort = isCurrent ? direction : undefined;
    return { head: markup`<a href="${path}">${head}</a>`, sort, ...rest };
  });
  return tableHtml(
    caption,
    columns,
    rows.map((summary) => rowOf(summary, now)),
  );
}

function rowOf(summary: CellSummary, now: number): HtmlPart[] {
  const { name, group, state, reason, answers, lastCompleteAt, nextDueAt, running, lastErrorCode } = summary;
  const isKnown = lastCompleteAt !== null || !summary.isUnreadable;
  const answer = (question: Question): Html => {
    const { tone, word } = answers?.[question] ?? { tone: 'plain', word: 'unknown' };
    return badge(tone, word);
  };
  const text = shortened(reason?.message ?? '');
  const code = lastErrorCode === null ? NOTHING : markup`<code>${lastErrorCode}</code> `;
  return [
    markup`<a href="${withSource('/', name)}">${nameHtml(name)}</a> ${faint(group)}`,
    [
      badge(stateOf(summary).tone, state ?? 'not read yet'),
      running === null ? NOTHING : faint(` ${running.name} runs`),
    ],
    ...QUESTIONS.map(([question]) => answer(question)),
    answer('drift'),
    isKnown ? ageHtml(lastCompleteAt, now) : faint('not known'),
    nextDueAt === null ? faint('never') : aheadHtml(nextDueAt, now),
    text === '' ? code : [code, faint(text)],
  ];
}

/** The first parts of a message, such as the targets of a backup: the worst one is first. Says how many are left out. */
function shortened(message: string): string {
  if (message.length <= REASON_LENGTH) return message;
  const [first = '', ...others] = message.split('; ');
  const start = first.length > REASON_LENGTH ? `${first.slice(0, REASON_LENGTH).toWellFormed()}…` : first;
  let shown = start;
  for (const [index, part] of others.entries()) {
    if (shown.length + part.length > REASON_LENGTH) return `${shown}; and ${others.length - index} more`;
    shown = `${shown}; ${part}`;
  }
  return shown;
}
