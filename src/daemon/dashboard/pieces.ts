/** Small pieces that several pages show alike: times, outcomes, hints, tables. */
import { count, duration } from '../../core/wording.ts';
import { escapeMarkup } from '../../report/markup.ts';
import { age, ahead } from '../http/wording.ts';

/** How a state is shown: by colour, by the shape of its mark, and by its word. */
export type Tone = 'good' | 'warn' | 'bad' | 'plain';

export function toned(tone: Tone, text: string): Html {
  return markup`<span class="tone ${tone}">${text}</span>`;
}

/** A time as its distance from now, the time itself as title; a dash where there is none. */
export function ageHtml(at: string | null, now: number): Html {
  if (at === null) return markup`<span class="faint">never</span>`;
  return markup`<time datetime="${at}" title="${at}">${age(at, now)}</time>`;
}

/** A time at which something is due, likewise. */
export function aheadHtml(at: string, now: number): Html {
  return markup`<time datetime="${at}" title="${at}">${ahead(at, now)}</time>`;
}

/** A time to the minute. */
export function timeHtml(at: string): Html {
  return markup`<time datetime="${at}" title="${at}">${at.slice(0, 16).replace('T', ' ')}</time>`;
}

export function durationHtml(ms: number | null): HtmlPart {
  return ms === null ? '' : duration(ms);
}

/** What a person can do, with commands between backquotes set apart. */
export function hintHtml(hint: string | null): Html {
  if (hint === null || hint === '') return NOTHING;
  const parts = hint
    .split('`')
    .map((part, index) => (index % 2 === 1 ? markup`<code>${part}</code>` : markup`${part}`));
  return markup`<p class="hint faint">${parts}</p>`;
}

export function outcomeTone(outcome: string): Tone {
  if (outcome === 'complete' || outcome === 'done' || outcome === 'equal') return 'good';
  if (outcome === 'running') return 'plain';
  return outcome === 'failed' || outcome === 'refused' ? 'bad' : 'warn';
}

interface Column {
  readonly head: string;
  /**
   * `num` right-aligned, `wide` may wrap; on a phone `wraps` may too, `spare` is left out, and `below` is under the
   * other cells of its row. `phone` is there only on a phone.
   */
  readonly style?: string;
}

/**
 * A table with a caption for who cannot see it; the first cell of each row names it. With a column `below`, rows are laid
 * out again on a phone: its parts say themselves that they are a table's, since browsers forget that with the layout.
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
  const heads = columns.map(
    ({ head }, index) => markup`<th scope="col"${role('columnheader')}${style(index)}>${head}</th>`,
  );
  const cellOf = (cell: HtmlPart, index: number): Html =>
    index === 0
      ? markup`<th scope="row"${role('rowheader')}${style(0)}>${cell}</th>`
      : markup`<td${role('cell')}${style(index)}>${cell}</td>`;
  const body = rows.map((cells) => markup`<tr${role('row')}>${cells.map(cellOf)}</tr>`);
  return markup`<div class="sheet${isStacked ? ' stacks' : ''}" tabindex="0" role="region" aria-label="${caption}"><table${role('table')}><caption class="side">${caption}</caption><thead${role('rowgroup')}><tr${role('row')}>${heads}</tr></thead><tbody${role('rowgroup')}>${body}</tbody></table></div>`;
}

/** `62 added, 1 removed`: what there is none of is left out; empty where there is nothing. */
export function changesText(counts: {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}): string {
  return (['added', 'changed', 'removed'] as const)
    .flatMap((each) => (counts[each] === 0 ? [] : `${count(counts[each])} ${each}`))
    .join(', ');
}

/** A name that may hold anything, kept from turning its surroundings round. */
export function nameHtml(name: string): Html {
  return markup`<bdi>${name}</bdi>`;
}

/** Shown where there is nothing yet. */
export function emptyHtml(strong: string, rest: string): Html {
  const parts = rest
    .split('`')
    .map((part, index) => (index % 2 === 1 ? markup`<code class="line">${part}</code>` : markup`${part}`));
  return markup`<p class="plain"><strong>${strong}</strong> ${parts}</p>`;
}

/** At the beginning of a line or cell. */
export function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

// HTML as values: a template escapes whatever is put into it unless it is HTML already, so that no page can forget to.
// Active characters (terminal sequences, marks that turn the reading direction) are written out on the way.

export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

export type HtmlPart = Html | string | number | null | readonly HtmlPart[];

export const NOTHING = new Html('');

/** The template's own text stays unchanged; everything put into it is escaped. */
export function markup(texts: TemplateStringsArray, ...parts: readonly HtmlPart[]): Html {
  let text = texts[0] ?? '';
  for (const [index, part] of parts.entries()) text += rendered(part) + (texts[index + 1] ?? '');
  return new Html(text);
}

/** What a renderer of reports made: it has escaped what it was given. */
export function trusted(markup: string): Html {
  return new Html(markup);
}

function rendered(part: HtmlPart): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'string') return escapeMarkup(part);
  if (typeof part === 'number') return String(part);
  return part.map(rendered).join('');
}
