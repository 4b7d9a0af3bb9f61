/** Escaping for HTML and XML. */
import { escapeControlCharacters } from '../core/escape-control.ts';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Characters of a word that fits on a line of a phone. */
const UNBROKEN = 30;

/**
 * A command in HTML whose lines only break at spaces: a browser would also break them after hyphens, and `--` alone at the
 * end of a line looks like an argument. The style sheet keeps `unbroken` on one line.
 * @param escaped content of an element, without tags
 */
export function unbrokenWords(escaped: string): string {
  return escaped.replaceAll(/\S*-\S*/g, (word) =>
    word.length > UNBROKEN ? word : `<span class="unbroken">${word}</span>`,
  );
}

/** The text as content or quoted attribute value of HTML or XML. Control characters, which XML 1.0 forbids, are written out. */
export function escapeMarkup(text: string): string {
  return escapeControlCharacters(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
