/** The width of text on a terminal, and line wrapping. The only user of fast-string-width. */
import stringWidth from 'fast-string-width';

/** The number of columns of a line. Colours take none. */
export function textWidth(text: string): number {
  return stringWidth(text);
}

const LEAST_ROOM = 10; // columns that text gets on the narrowest terminal

// Neither is in a text for a terminal, because `escapeControlCharacters` escapes both.
const SPACE_OF_CODE = '\ufffe'; // one column
const BREAK = '\u0001'; // no column; before a space of ours

/** Code spans with the characters next to them. */
const CODE = /(?:[^ `]*`[^`]*`)+[^ ]*/g;

/**
 * Wraps a text to lines of at most `width` columns, which keep their colours. Breaks lines at spaces, inside a code
 * span only if the span alone is too wide, and inside a word only after a comma or a slash: JSON values and paths are
 * broken, ids never.
 */
export function wrapText(text: string, width: number): string[] {
  if (textWidth(text) <= width) return [text];
  const kept = text.replaceAll(CODE, (code) =>
    textWidth(code) <= width ? code.replaceAll(' ', SPACE_OF_CODE) : code,
  );
  const breakable = kept.replaceAll(/[^ ]+/g, (word) =>
    textWidth(word) <= width ? word : word.replaceAll(/[,/]/g, `$&${BREAK} `),
  );
  const rows = rowsOf(breakable, width).map((row) =>
    row.replaceAll(new RegExp(`${BREAK} ?`, 'g'), '').replaceAll(SPACE_OF_CODE, ' '),
  );
  return withColours(rows);
}

/** Breaks a text at spaces. */
function rowsOf(text: string, width: number): string[] {
  const rows: string[] = [];
  let [row, columns] = ['', 0];
  for (const word of text.split(' ')) {
    const more = textWidth(word);
    if (columns > 0 && more > 0 && columns + 1 + more > width) {
      rows.push(row.trimEnd());
      [row, columns] = [word, more];
    } else {
      const space = columns > 0 ? ' ' : '';
      row += space + word;
      columns += space.length + more;
    }
  }
  return [...rows, row.trimEnd()];
}

const COLOUR = /\u001b\[(\d+)m/g;

/**
 * Starts each row with the colours that are active at its beginning, and ends them at its end. Does not use wrap-ansi,
 * which loads string-width: its regular expressions take 40 ms of processor time at each start. Nor fast-wrap-ansi,
 * which loses one of two colours at a line break (test/core/wrap.test.ts, "colours within colours").
 */
function withColours(rows: readonly string[]): string[] {
  let on: readonly { readonly start: string; readonly end: number }[] = [];
  return rows.map((row) => {
    const before = on.map(({ start }) => start).join('');
    for (const [start, code] of row.matchAll(COLOUR)) {
      const end = endOf(Number(code));
      on = end === null ? on.filter((each) => each.end !== Number(code)) : [...on, { start, end }];
    }
    const after = on.toReversed().map(({ end }) => `\u001b[${end}m`);
    return before + row + after.join('');
  });
}

/** The code that ends the style of this one, such as 39 for a colour; null for a code that ends a style. */
function endOf(code: number): number | null {
  if (code === 1 || code === 2) return 22;
  if (code > 2 && code < 10) return code + 20;
  if ((code >= 30 && code < 38) || (code >= 90 && code < 98)) return 39;
  if ((code >= 40 && code < 48) || (code >= 100 && code < 108)) return 49;
  return null;
}

const START = /^(?:\u001b\[[\d;]*m| )*/;
const SIGN = /^(?:\u001b\[[\d;]*m)*(\d+|[^\p{L}\p{N}\s"'`(/\u001b]{1,2}) /u;

/** Wraps lines of text to `width` columns. Continuations are indented to the text after the sign or number of their line. */
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
