/** How wide text is on a terminal, and lines of it broken between words. The one door to string-width and wrap-ansi. */
import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';

/** Columns that a line takes; colours take none. */
export function textWidth(text: string): number {
  return stringWidth(text);
}

const LEAST_ROOM = 10; // columns that text gets on the narrowest terminal

// Neither is in a text for a terminal: `escapeControlCharacters` writes both out.
const SPACE_OF_CODE = '\ufffe'; // one column
const BREAK = '\u2060'; // no column; before a space of ours

/** Code spans with what adheres to them. */
const CODE = /(?:[^ `]*`[^`]*`)+[^ `]*/g;

/**
 * A text in lines of at most `width` columns, each with the colours that it had. Broken at spaces; inside a code span only
 * if the span alone is too wide, inside a word only behind a comma or a slash: a value in JSON or a path is broken, an id never.
 */
export function wrapText(text: string, width: number): string[] {
  if (textWidth(text) <= width) return [text];
  const kept = text.replaceAll(CODE, (code) =>
    textWidth(code) <= width ? code.replaceAll(' ', SPACE_OF_CODE) : code,
  );
  const breakable = kept.replaceAll(/[^ ]+/g, (word) =>
    textWidth(word) <= width ? word : word.replaceAll(/[,/]/g, `$&${BREAK} `),
  );
  return wrapAnsi(breakable, width)
    .replaceAll(new RegExp(`${BREAK} ?`, 'g'), '')
    .replaceAll(SPACE_OF_CODE, ' ')
    .split('\n');
}

const START = /^(?:\u001b\[[\d;]*m| )*/;
const SIGN = /^(?:\u001b\[[\d;]*m)*(\d+|[^\p{L}\p{N}\s"'`(/\u001b]{1,2}) /u;

/** Lines of text wrapped to `width` columns, all but the first of each indented below what follows its sign or number. */
export function wrapLines(text: string, width: number): string {
  return text
    .split('\n')
    .flatMap((line) => {
      if (textWidth(line) <= width) return [line];
      const start = START.exec(line)?.[0] ?? '';
      const lead = start.replaceAll(/[^ ]|\[[\d;]*m/g, '');
      const rest = start.replaceAll(' ', '') + line.slice(start.length);
      const hang = lead.length + (SIGN.exec(rest)?.[1]?.length ?? 1) + 1;
      const [first = '', ...others] = wrapText(rest, Math.max(width - hang, LEAST_ROOM));
      return [lead + first, ...others.map((other) => ' '.repeat(hang) + other)];
    })
    .join('\n');
}
