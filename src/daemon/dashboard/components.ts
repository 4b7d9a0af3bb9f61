/** The components that pages are made of: times, badges, tables, facts, links, changes of records, forms. */
import type { Scope, Severity } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { duration, formatInteger, plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { fieldsForPeople } from '../../report/diff-report.ts';
import { capital, SEVERITY_SIGN, SIGN } from '../../report/document.ts';
import { fieldHtml } from '../../report/html-field.ts';
import { placeText, recreatedText, writtenText } from '../../report/notes.ts';
import { nameText } from '../../report/value-text.ts';
import { isMaskedId } from '../../report/mask.ts';
import type { ReportOptions } from '../../report/options.ts';
import type { ChangeCounts } from '../../mirror/change-counts.ts';
import { CHANGES } from '../http/changes.ts';
import { age, ahead, tookMs } from '../http/wording.ts';
import { clockTime, type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';

// Text.

/** `62 added, 1 removed`: zeros are left out; empty where nothing changed. */
export function changesText(counts: ChangeCounts): string {
  return CHANGES.flatMap((each) => (counts[each] === 0 ? [] : `${formatInteger(counts[each])} ${each}`)).join(
    ', ',
  );
}

/** The same with zeros. */
export function allChangesText(counts: ChangeCounts): string {
  return CHANGES.map((each) => `${formatInteger(counts[each])} ${each}`).join(', ');
}

export function faint(...parts: readonly HtmlPart[]): Html {
  return markup`<span class="faint">${parts}</span>`;
}

/** A name, isolated so that it cannot change the direction of the text around it. A short word is not broken behind a hyphen. */
export function nameHtml(name: string): Html {
  const style = trusted(/^(?=.*-)\S{1,16}$/.test(name) ? ' class="unbroken"' : '');
  return markup`<bdi${style}>${breakable(name)}</bdi>`;
}

/** Words that may not fit on a line of a phone. */
const LONG_WORD = /\S{17,}/g;

/** Text in which long words, such as addresses, may break, but only behind a sign. */
export function breakable(text: string): Html[] {
  const signs = text.replaceAll(LONG_WORD, (word) => word.replaceAll(/[@._/-]+(?=.)/g, '$&\n'));
  return signs.split('\n').map((part, index) => markup`${index === 0 ? NOTHING : trusted('<wbr>')}${part}`);
}

/** Text whose parts between backquotes are commands. */
export function withCommands(text: string, style = ''): Html[] {
  return text
    .split('`')
    .map((part, index) =>
      index % 2 === 1 ? markup`<code${trusted(style)}>${part}</code>` : markup`${part}`,
    );
}

/** What a person can do; nothing for an empty text. */
export function hintHtml(hint: string | null): Html {
  if (hint === null || hint === '') return NOTHING;
  return markup`<p class="hint faint">${withCommands(hint)}</p>`;
}

/** What the reader should not miss. */
export function warningHtml(content: HtmlPart): Html {
  return markup`<div class="warning" role="note">${content}</div>`;
}

/** A warning with a list below its heading. */
export function warningList(heading: string, items: readonly HtmlPart[]): Html {
  const lines = items.map((item) => markup`<li>${item}</li>`);
  return warningHtml(markup`<strong>! ${heading}</strong>:<ul>${lines}</ul>`);
}

/** What does not match the audit log or a seal: rows that another program altered, inserted or removed. */
export function mismatchHtml(lines: readonly string[]): Html[] {
  return lines.map(warningHtml);
}

/** Shown in place of an empty list: `strong` in bold, then `rest` with its commands. */
export function emptyHtml(strong: string, rest: string): Html {
  return markup`<p class="plain"><strong>${strong}</strong> ${withCommands(rest, ' class="line"')}</p>`;
}

/** Shown before the first sync. */
export function nothingCopiedHtml(): Html {
  return emptyHtml('Nothing copied yet.', 'The first sync fills this; `tidemark sync` starts one now.');
}

/** Says how many are not listed; nothing where all are. */
export function moreHtml(more: number, what: string): Html {
  return more > 0 ? markup`<p class="faint">and ${plural(more, `more ${what}`)}</p>` : NOTHING;
}

// Times.

function timeElement(at: string, text: string): Html {
  return markup`<time datetime="${at}" title="${at}">${text}</time>`;
}

/** How long ago a time is; `never` for null. */
export function ageHtml(at: string | null, now: number): Html {
  return at === null ? faint('never') : timeElement(at, age(at, now));
}

/** How long ahead a due time is. */
export function aheadHtml(at: string, now: number): Html {
  return timeElement(at, ahead(at, now));
}

/** A time to the minute: in UTC, or, where the script runs, in the browser's zone. */
export function timeHtml(at: string): Html {
  return clockTime(at, 16);
}

/** How long a run, job or restore took; empty while it is running. */
export function tookText(work: Parameters<typeof tookMs>[0]): string {
  const ms = tookMs(work);
  return ms === null ? '' : duration(ms);
}

// Badges.

/** How a state is shown: by colour, by the shape of its mark, and by its word. */
export type Tone = 'good' | 'warn' | 'bad' | 'plain';

export function badge(tone: Tone, text: string): Html {
  return markup`<span class="tone ${tone}">${text}</span>`;
}

export function outcomeBadge(outcome: string): Html {
  return badge(outcomeTone(outcome), outcome);
}

function outcomeTone(outcome: string): Tone {
  if (outcome === 'complete' || outcome === 'done' || outcome === 'equal') return 'good';
  if (outcome === 'running' || outcome === 'sampled') return 'plain';
  return outcome === 'failed' || outcome === 'refused' ? 'bad' : 'warn';
}

/**
 * The badge of a group of collections, `unread` of which were not complete at the last attempt.
 * @param completeAt when all of them were complete last; null if one never was
 * @param isSampled true where only some of the records have been read so far
 */
export function collectionState(
  collections: number,
  unread: number,
  completeAt: string | null,
  isSampled: boolean,
): [Tone, string] {
  if (unread === 0) return isSampled ? ['plain', 'sampled'] : ['good', 'complete'];
  const word = completeAt === null ? 'incomplete' : 'not updated';
  return [
    'warn',
    unread === collections ? word : `${formatInteger(unread)} of ${formatInteger(collections)} ${word}`,
  ];
}

/** How the last attempt to read a collection ended. */
export function attemptText(outcome: string | null, error: string | null): string {
  return `${outcome ?? 'never read'}${error === null ? '' : `, ${error}`}`;
}

export function severityTag(severity: Severity): Html {
  const sign = markup`<i aria-hidden="true">${SEVERITY_SIGN[severity]}</i>`;
  return markup`<span class="tag ${severity}">${sign} ${severity}</span>`;
}

// Sections, facts and tables.

/** A section with a heading; links lead to it by `id`. @param title perhaps with a link beside it */
export function section(id: string, title: HtmlPart, ...content: readonly HtmlPart[]): Html {
  return markup`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>${content}</section>
`;
}

export function factsHtml(facts: readonly (readonly [string, HtmlPart])[], style = 'facts'): Html {
  const items = facts.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`);
  return markup`<dl class="${style}">${items}</dl>`;
}

interface Column {
  readonly head: HtmlPart;
  /** Set for the column that the table is sorted by. */
  readonly sort?: 'ascending' | 'descending' | undefined;
  /**
   * `num`: right-aligned. `wide`: may wrap. On a phone, `wraps` may wrap too, `spare` is left out, and `below` is under the other
   * cells of its row. `phone` is shown only on a phone.
   */
  readonly style?: string;
  /** Put before the value on a phone, where stacked rows have no heads. */
  readonly label?: string;
}

/**
 * A table with a caption for screen readers; the first cell of each row names it. With a column `below`, rows are stacked on a phone.
 * Browsers then drop the roles of a table with its layout, so its elements state them.
 */
export function tableHtml(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly HtmlPart[])[],
): Html {
  const isStacked = columns.some(({ style }) => style?.split(' ').includes('below') === true);
  const role = (name: string): Html => (isStacked ? trusted(` role="${name}"`) : NOTHING);
  const style = (index: number): Html => {
    const name = columns[index]?.style;
    return name === undefined ? NOTHING : trusted(` class="${name}"`);
  };
  const labelOf = (index: number): Html => {
    const label = columns[index]?.label;
    return label === undefined ? NOTHING : markup` data-label="${label}"`;
  };
  const heads = columns.map(({ head, sort }, index) => {
    const sorted = sort === undefined ? NOTHING : trusted(` aria-sort="${sort}"`);
    return markup`<th scope="col"${role('columnheader')}${style(index)}${sorted}>${head}</th>`;
  });
  const cellOf = (cell: HtmlPart, index: number): Html =>
    index === 0
      ? markup`<th scope="row"${role('rowheader')}${style(0)}>${cell}</th>`
      : markup`<td${role('cell')}${style(index)}${labelOf(index)}>${cell}</td>`;
  const body = rows.map((cells) => markup`<tr${role('row')}>${cells.map(cellOf)}</tr>`);
  const sheet = trusted(`sheet${isStacked ? ' stacks' : ''}`);
  return markup`<div class="${sheet}" tabindex="0" role="region" aria-label="${caption}">
<table${role('table')}><caption class="side">${caption}</caption>
<thead${role('rowgroup')}><tr${role('row')}>${heads}</tr></thead>
<tbody${role('rowgroup')}>${body}</tbody></table></div>`;
}

/** Links to the pages above this one, the outermost first. */
export function crumbs(...links: readonly (readonly [path: string, text: HtmlPart])[]): Html {
  const items = links.map(
    ([path, text], index) => markup`${index === 0 ? '' : ' / '}<a href="${path}">${text}</a>`,
  );
  return markup`<p class="crumbs faint">${items}</p>`;
}

/** Links to the previous and next page of a list. @param page from 1 on */
export function pageLinks(page: number, isLast: boolean, pathOf: (page: number) => string): Html {
  const link = (to: number, text: string, rel: string): Html =>
    markup`<a rel="${rel}" href="${pathOf(to)}">${text}</a>`;
  return markup`<nav class="pages" aria-label="Pages">${page > 1 ? link(page - 1, 'Previous page', 'prev') : NOTHING}
${isLast ? NOTHING : link(page + 1, 'Next page', 'next')}</nav>`;
}

// Forms.

/** Values that a form sends without showing them. */
export function hiddenInputs(values: Iterable<readonly [name: string, value: string]>): Html[] {
  return [...values].map(([name, value]) => markup`<input type="hidden" name="${name}" value="${value}">`);
}

/** A box with options, as [value, text]. */
export function selectHtml(
  label: string,
  name: string,
  options: readonly (readonly [string, string])[],
  chosen: string,
): Html {
  const items = options.map(([value, text]) => {
    const selected = value === chosen ? trusted(' selected') : NOTHING;
    return markup`<option value="${value}"${selected}>${text}</option>`;
  });
  return markup`<label>${label}<select name="${name}">${items}</select></label>`;
}

/** A box to choose one of several sources; nothing for a single source. */
export function sourceSelect(sources: readonly string[], chosen: string | null): Html {
  if (sources.length < 2) return NOTHING;
  const options = sources.map((source) => [source, source] as const);
  return selectHtml('Source', 'source', [['', 'all sources'], ...options], chosen ?? '');
}

/** Check boxes of a filter, as [value, text]. A single value would narrow nothing: it is left out unless it is chosen or `isShown`. */
export function chipsHtml<T extends string>(
  label: string,
  name: string,
  options: readonly (readonly [T, HtmlPart])[],
  chosen: readonly T[],
  isShown = false,
): Html {
  if (options.length < 2 && chosen.length === 0 && !isShown) return NOTHING;
  const chips = options.map(([value, text]) => {
    const checked = chosen.includes(value) ? trusted(' checked') : NOTHING;
    return markup`<label class="chip"><input type="checkbox" name="${name}" value="${value}"${checked}><span>${text}</span></label>`;
  });
  return markup`<fieldset class="chips"><legend>${label}</legend>${chips}</fieldset>`;
}

// Records.

export type DefinitionOf = ReportOptions['definitions'];
type ParentName = NonNullable<ReportOptions['parentName']>;

/** The parents of a record, e.g. `organization Harbor, role Analysts`; ids only where no name is known. */
export function placeOf(scope: Scope, definitions: DefinitionOf, parentName: ParentName): string {
  return placeText(scope, { definitions, parentName }, { hasIds: false });
}

/**
 * The path of a record's page. A record number is unique and not secret; an id may be secret or ambiguous.
 * @param id masked where it is a secret
 */
export function recordPath(kind: Kind, id: string, record: number | null = null): string {
  // Browsers resolve `.` and `..` anywhere in a path.
  const shown = id === '.' || id === '..' || id === '' ? '-' : encodeURIComponent(id.toWellFormed());
  return `/records/${kind}/${shown}${record === null ? '' : `?record=${record}`}`;
}

/** The first `limit` fields, and the others folded. @param fields masked */
export function fieldListHtml(fields: readonly FieldChange[], limit: number): Html {
  const rest = fields.slice(limit);
  const shown = trusted(fields.slice(0, limit).map(fieldHtml).join('\n'));
  if (rest.length === 0) return shown;
  const folded = trusted(rest.map(fieldHtml).join('\n'));
  return markup`${shown}
<details class="rest"><summary>${plural(rest.length, limit === 0 ? 'field' : 'more field')}</summary>${folded}</details>`;
}

/** Fields of a changed record that are not folded. Those of an added or removed record all are: each is new, or gone. */
const CHANGED_SHOWN = 12;

interface ArticleFacts {
  readonly definition: ResourceDefinition;
  /** The record's parents as text; empty for root records. */
  readonly place: string;
  readonly severity?: Severity;
  /** What can be done about the change. */
  readonly actions?: HtmlPart;
  /** By it, the script recognizes the article in a newer page, wherever it is there. */
  readonly id?: string;
}

/** The changes of a run, a changed record each. @param changes masked */
export function changeArticles(
  changes: readonly RecordChange[],
  definitions: DefinitionOf,
  parentName: ParentName,
): Html[] {
  return changes.map((change) =>
    changeArticle(change, {
      definition: definitions(change.kind),
      place: placeOf(change.scope, definitions, parentName),
    }),
  );
}

/** One changed record with its fields. @param change masked */
export function changeArticle(change: RecordChange, facts: ArticleFacts): Html {
  const { definition, place, severity = null, actions = null, id: anchor } = facts;
  const { created_again: again, changed_by: by } = change;
  const fields = fieldsForPeople(change, definition);
  const style = trusted(severity === null ? 'record' : `record is-${severity}`);
  const name = markup`<h3>${nameHtml(nameText(change.name))}</h3>`;
  const id = change.name === change.id ? NOTHING : markup`<span class="id">${nameText(change.id)}</span> `;
  // No link for a masked id: to look it up, every record of the kind would have to be read.
  const link = isMaskedId(change.id)
    ? name
    : markup`<a href="${recordPath(change.kind, change.id)}">${name}</a>`;
  const tags = markup`<span class="tag ${change.change}">${SIGN[change.change]} ${change.change}</span>`;
  const own = anchor === undefined ? NOTHING : markup` id="${anchor}"`;
  return markup`<article class="${style}"${own}>
<header>${link}${tags}${severity === null ? NOTHING : severityTag(severity)}</header>
<p class="faint">${definition.title.one} ${id}${place === '' ? NOTHING : `in ${place}`}</p>
${again === undefined ? NOTHING : markup`<p>${capital(recreatedText(again, change.id))}</p>`}
${by === undefined ? NOTHING : markup`<p>${capital(writtenText(change.change, by, change.fields))}</p>`}
${fieldListHtml(fields, change.change === 'changed' ? CHANGED_SHOWN : 0)}
${actions}</article>`;
}
