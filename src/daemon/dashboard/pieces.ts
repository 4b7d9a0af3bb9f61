/** Small pieces that several pages show alike: times, outcomes, hints, tables. */
import { duration } from '../../core/wording.ts';
import { age, ahead } from '../http/wording.ts';
import type { Html, HtmlPart } from './html.ts';
import { markup, NOTHING, trusted } from './html.ts';

/** How a state is told apart: by colour, by the shape of its mark, and by its word. */
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

export interface Column {
  readonly head: string;
  /** `num` right-aligned, `wide` may wrap, `spare` left out on a phone. */
  readonly style?: string;
}

/** A table with a caption for who cannot see it; the first cell of each row names it. */
export function tableHtml(
  caption: string,
  columns: readonly Column[],
  rows: readonly (readonly HtmlPart[])[],
): Html {
  const style = (index: number): Html => {
    const name = columns[index]?.style;
    return name === undefined ? NOTHING : trusted(` class="${name}"`);
  };
  const heads = columns.map(({ head }, index) => markup`<th scope="col"${style(index)}>${head}</th>`);
  const cellOf = (cell: HtmlPart, index: number): Html =>
    index === 0 ? markup`<th scope="row"${style(0)}>${cell}</th>` : markup`<td${style(index)}>${cell}</td>`;
  const body = rows.map((cells) => markup`<tr>${cells.map(cellOf)}</tr>`);
  return markup`<div class="sheet" tabindex="0" role="region" aria-label="${caption}"><table><caption class="side">${caption}</caption><thead><tr>${heads}</tr></thead><tbody>${body}</tbody></table></div>`;
}

/** A name that may hold anything, kept from turning its surroundings round. */
export function nameHtml(name: string): Html {
  return markup`<bdi>${name}</bdi>`;
}

/** What stands where there is nothing yet. */
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
