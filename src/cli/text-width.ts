/** How much room a text takes on a terminal, and texts wrapped into it. */

/** Characters that take two columns: East Asian wide ones, and emoji that are drawn as such. */
const WIDE =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/gu;
/** Those that take none: combining marks, joiners and selectors. */
const NONE = /[\p{Mn}\p{Me}\p{Cf}]/gu;
const PLAIN = /^[\u0020-\u007e]*$/;

/** Columns of a line without control characters. */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  const characters = Array.from(text.replaceAll(NONE, '')).length;
  return characters + (text.match(WIDE)?.length ?? 0);
}

/** The widest word of a text: what it cannot be narrower than. */
export function wordWidth(text: string): number {
  return Math.max(0, ...text.split(' ').map(textWidth));
}

/** The text in lines of at most `width` columns, broken at spaces only: a longer word stands on a line of its own. */
export function wrappedText(text: string, width: number): string[] {
  if (textWidth(text) <= width) return [text];
  const lines: string[] = [];
  let line: string | undefined;
  let taken = 0;
  for (const word of text.split(' ')) {
    const own = textWidth(word);
    if (line !== undefined && taken + 1 + own <= width) {
      line += ` ${word}`;
      taken += 1 + own;
    } else {
      if (line !== undefined) lines.push(line);
      line = word;
      taken = own;
    }
  }
  return [...lines, line ?? ''];
}
