/** Long lines on a narrow terminal. */
import { escapeControlCharacters } from '../report/escape-control.ts';
import { wrappedText } from './text-width.ts';

/**
 * A line of text, neutralised, in as many as the terminal is wide enough for.
 * @param width columns; undefined where nobody said, then it stays one line
 * @param indent columns that all but the first stand further in
 */
export function foldedLine(text: string, width: number | undefined, indent = 2): string[] {
  const lead = /^ */.exec(text)?.[0] ?? '';
  const safe = escapeControlCharacters(text.slice(lead.length));
  if (width === undefined) return [lead + safe];
  const [first = '', ...rest] = wrappedText(safe, Math.max(20, width - indent - 1));
  return [lead + first, ...rest.map((line) => ' '.repeat(indent) + line)];
}
