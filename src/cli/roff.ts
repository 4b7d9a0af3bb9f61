/** The little of the man macros (man(7), groff_man(7)) that a manual page of commands needs. */

/** Text that roff shows as it is, whatever its encoding: no line of it is a request. */
export function roffText(text: string): string {
  return Array.from(text)
    .map((character) => {
      if (character === '\\') return '\\e';
      // Otherwise typographic quotes, hyphens and circumflexes, which nobody can paste into a shell.
      if (character === '-') return '\\-';
      if (character === "'") return '\\(aq';
      if (character === '`') return '\\(ga';
      if (character === '^') return '\\(ha';
      if (character === '~') return '\\(ti';
      const code = character.codePointAt(0) ?? 0;
      return code > 0x7e ? `\\[u${code.toString(16).toUpperCase().padStart(4, '0')}]` : character;
    })
    .join('')
    .replaceAll(/^\./gm, '\\&.');
}

export function section(title: string): string {
  return `.SH ${title}`;
}

export function subsection(title: string): string {
  return `.SS ${quoted(title)}`;
}

export function paragraph(text: string): string {
  return `.PP\n${roffText(text)}`;
}

/** A term in bold and what is to be said about it. */
export function entry(term: string, text: string): string {
  return `.TP\n.B ${quoted(term)}\n${roffText(text)}`;
}

/** Lines that keep their breaks. */
export function verbatim(lines: readonly string[]): string {
  return ['.PP', '.nf', '.RS 4', ...lines.map(roffText), '.RE', '.fi'].join('\n');
}

function quoted(text: string): string {
  return `"${roffText(text).replaceAll('"', '\\(dq')}"`;
}
