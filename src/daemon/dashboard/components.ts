/** The components that pages are made of: times, badges, tables, facts, links, changes of records, forms. */
import { type Scope, type Severity, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { count, duration, plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { FieldChange } from '../../diff/compare.ts';
import { fieldsForPeople } from '../../report/diff-report.ts';
import { SEVERITY_SIGN, SIGN } from '../../report/document.ts';
import { fieldHtml } from '../../report/html-field.ts';
import { recreatedText, writtenText } from '../../report/notes.ts';
import { nameText } from '../../report/value-text.ts';
import { isMaskedId } from '../../report/mask.ts';
import { age, ahead } from '../http/wording.ts';
import { clockTime, type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';

// Text.

/** At the beginning of a line or cell. */
export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** `62 added, 1 removed`: zeros are left out; empty where nothing changed. */
export function changesText(counts: Readonly<Record<RecordChange['change'], number>>): string {
  return (['added', 'changed', 'removed'] as const)
    .flatMap((each) => (counts[each] === 0 ? [] : `${count(counts[each])} ${each}`))
    .join(', ');
}

export function faint(...parts: readonly HtmlPart[]): Html {
  return markup`<span class="faint">${parts}</span>`;
}

/** A name that may hold anything, kept from changing the direction of the text around it. A short word is not broken behind a hyphen. */
export function nameHtml(name: string): Html {
  const style = trusted(/^(?=.*-)\S{1,16}$/.test(name) ? ' class="unbroken"' : '');
  return markup`<bdi${style}>${breakable(name)}</bdi>`;
}

/** Words that do not fit on a line of a phone. */
const LONG_WORD = /\S{17,}/g;

/** Text whose long words, such as addresses, break behind a sign and not within a part. */
export function breakable(text: string): Html[] {
  const signs = text.replaceAll(LONG_WORD, (word) => word.replaceAll(/[@._/-]+(?=.)/g, '$&\n'));
  return signs.split('\n').map((part, index) => markup`${index === 0 ? NOTHING : trusted('<wbr>')}${part}`);
}

/** Text with commands between backquotes. */
export function withCommands(text: string, style = ''): Html[] {
  return text
    .split('`')
    .map((part, index) =>
      index % 2 === 1 ? markup`<code${trusted(style)}>${part}</code>` : markup`${part}`,
    );
}

/** What a person can do. */
export function hintHtml(hint: string | null): Html {
  if (hint === null || hint === '') return NOTHING;
  return markup`<p class="hint faint">${withCommands(hint)}</p>`;
}

/** What does not match the audit log or a seal: rows that another program altered, inserted or removed. */
export function mismatchHtml(lines: readonly string[]): Html {
  return markup`${lines.map((line) => markup`<div class="warning" role="note">${line}</div>`)}`;
}

/** Shown if there is nothing yet. */
export function emptyHtml(strong: string, rest: string): Html {
  return markup`<p class="plain"><strong>${strong}</strong> ${withCommands(rest, ' class="line"')}</p>`;
}

// Times.

function timeElement(at: string, text: string): Html {
  return markup`<time datetime="${at}" title="${at}">${text}</time>`;
}

/** A time as its distance from now. */
export function ageHtml(at: string | null, now: number): Html {
  return at === null ? faint('never') : timeElement(at, age(at, now));
}

/** A time at which something is due, likewise. */
export function aheadHtml(at: string, now: number): Html {
  return timeElement(at, ahead(at, now));
}

/** A time to the minute in UTC, or in the browser's zone where the script runs. */
export function timeHtml(at: string): Html {
  return clockTime(at, 16);
}

export function durationHtml(ms: number | null): string {
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

/** The state of collections: what was complete once is complete as of then, also where the last attempt failed. */
export function collectionState(
  collections: number,
  unread: number,
  completeAt: string | null,
  isSampled: boolean,
): [Tone, string] {
  if (unread === 0) return isSampled ? ['plain', 'sampled'] : ['good', 'complete'];
  const word = completeAt === null ? 'incomplete' : 'not updated';
  return ['warn', unread === collections ? word : `${count(unread)} of ${count(collections)} ${word}`];
}

export function severityTag(severity: Severity): Html {
  const sign = markup`<i aria-hidden="true">${SEVERITY_SIGN[severity]}</i>`;
  return markup`<span class="tag ${severity}">${sign} ${severity}</span>`;
}

// Sections, facts and tables.

/** `id` names the section and is the target of links. */
export function section(id: string, title: string, aside: HtmlPart, ...content: readonly HtmlPart[]): Html {
  return markup`<section aria-labelledby="${id}"><h2 id="${id}">${title}${aside}</h2>${content}</section>
`;
}

export function factsHtml(facts: readonly (readonly [string, HtmlPart])[], style = 'facts'): Html {
  const items = facts.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`);
  return markup`<dl class="${style}">${items}</dl>`;
}

interface Column {
  readonly head: HtmlPart;
  /** Of the column that the table is sorted by. */
  readonly sort?: 'ascending' | 'descending' | undefined;
  /**
   * `num` right-aligned, `wide` may wrap; on a phone `wraps` may too, `spare` is left out, and `below` is under the
   * other cells of its row. `phone` is there only on a phone.
   */
  readonly style?: string;
  /** Where rows are laid out again on a phone and no heads are seen: the words before a value that does not explain itself. */
  readonly label?: string;
}

/**
 * A table with a caption for screen readers; the first cell of each row names it. With a column `below`, rows are laid
 * out again on a phone: its parts then carry their roles, since browsers drop those with the layout.
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

/** Boxes of a filter, as [value, text]; none for a single value, which would narrow nothing, unless it is chosen or `isShown`. */
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

export type DefinitionOf = (kind: Kind) => ResourceDefinition;
type ParentName = (kind: Kind, id: string) => string | undefined;

/** The parents of a record, e.g. `organization Harbor, role Analysts`; ids only where no name is known. */
export function placeOf(scope: Scope, definitions: DefinitionOf, parentName: ParentName): string {
  return SCOPE_KEYS.flatMap((key) => {
    const id = scope[key];
    if (id === undefined) return [];
    const kind = SCOPE_KIND[key];
    return [`${definitions(kind).title.one} ${nameText(parentName(kind, id) ?? id)}`];
  }).join(', ');
}

/**
 * The path of a record's page. A record number is unique and not secret; an id may be secret or ambiguous.
 * @param id masked where it is a secret
 */
export function recordPath(kind: Kind, id: string, record: number | null = null): string {
  // Browsers resolve these two anywhere in a path.
  const shown = id === '.' || id === '..' || id === '' ? '-' : encodeURIComponent(id.toWellFormed());
  return `/records/${kind}/${shown}${record === null ? '' : `?record=${record}`}`;
}

/** The first fields, and the others folded. `fields` are masked already. */
export function fieldListHtml(fields: readonly FieldChange[], limit: number): Html {
  const rest = fields.slice(limit);
  const shown = trusted(fields.slice(0, limit).map(fieldHtml).join('\n'));
  if (rest.length === 0) return shown;
  const folded = trusted(rest.map(fieldHtml).join('\n'));
  return markup`${shown}
<details class="rest"><summary>${plural(rest.length, limit === 0 ? 'field' : 'more field')}</summary>${folded}</details>`;
}

/** Fields of a changed record that are seen at once. Those of one that was added or removed are folded: all are new, or gone. */
const CHANGED_SHOWN = 12;

interface ArticleFacts {
  readonly definition: ResourceDefinition;
  /** The record's parents as text; empty for root records. */
  readonly place: string;
  readonly severity: Severity | null;
  /** What can be done about the change. */
  readonly actions?: HtmlPart;
  /** By which the script recognizes the article in a newer page, wherever it is. */
  readonly id?: string;
}

/** One changed record with its fields. `change` is masked already. */
export function changeArticle(change: RecordChange, facts: ArticleFacts): Html {
  const { definition, place, severity, actions = null, id: anchor } = facts;
  const { created_again: again, changed_by: by } = change;
  const fields = fieldsForPeople(change, definition);
  const style = trusted(severity === null ? 'record' : `record is-${severity}`);
  const name = markup`<h3>${nameHtml(nameText(change.name))}</h3>`;
  const id = change.name === change.id ? NOTHING : markup`<span class="id">${nameText(change.id)}</span> `;
  // A record is not looked up by the mask of its id: that would read every record of the kind.
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
