/** Escaping for HTML and XML. */
import { escapeControlCharacters } from '../core/escape-control.ts';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * The text as content or quoted attribute value of HTML or XML, active characters written out first: what remains is
 * allowed in XML 1.0 and cannot leave the place it is put in.
 */
export function escapeMarkup(text: string): string {
  return escapeControlCharacters(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
