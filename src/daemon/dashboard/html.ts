/**
 * HTML as values: a template escapes what is put into it unless that is HTML already, so that no page can forget to. Unlike hono's `html`,
 * it also escapes control characters and marks that change the direction of text.
 */
import { escapeMarkup } from '../../report/markup.ts';

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

/** Takes over HTML whose maker has escaped what it contains, such as a renderer of reports. */
export function trusted(html: string): Html {
  return new Html(html);
}

/** A time in UTC, to the minute (16 characters) or second (19); the script shows it in the browser's zone. */
export function clockTime(at: string, length: 16 | 19): Html {
  const text = `${at.slice(0, length).replace('T', ' ')} UTC`;
  return markup`<time datetime="${at}" title="${text}" data-clock="${length}">${text}</time>`;
}

function rendered(part: HtmlPart): string {
  if (part === null) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'string') return escapeMarkup(part);
  if (typeof part === 'number') return String(part);
  return part.map(rendered).join('');
}
