/** What the tests read out of a page: its fenced blocks with what stands before and behind them, code spans, links, headings. */

export interface Block {
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** What stands behind the fence: `sh`, `console`, `yaml`; empty where nothing does. */
  readonly language: string;
  readonly text: string;
  /** Text of the HTML comment directly before it. */
  readonly comment: string | null;
  /** Rows of the table that follows it directly, the header first; null where none does. */
  readonly table: readonly (readonly string[])[] | null;
}

const FENCE = /^(\s*)```(\w*)\s*$/;
const COMMENT = /^<!--\s*(.*?)\s*-->$/;

/** Every fenced block of a page, in order. */
export function blocksOf(page: string): Block[] {
  const lines = page.split('\n');
  const blocks: Block[] = [];
  let comment: string | null = null;
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const open = FENCE.exec(line);
    if (open === null) {
      if (line.trim() !== '') comment = COMMENT.exec(line.trim())?.[1] ?? null;
      continue;
    }
    const begin = at;
    const indent = open[1] ?? '';
    at += 1;
    while (at < lines.length && lines[at] !== `${indent}\`\`\``) at += 1;
    if (at >= lines.length) throw new Error(`the block of line ${begin + 1} is not closed`);
    const text = lines
      .slice(begin + 1, at)
      .map((each) => each.slice(indent.length))
      .join('\n');
    blocks.push({
      line: begin + 1,
      language: open[2] ?? '',
      text,
      comment,
      table: tableAt(lines, at + 1),
    });
    comment = null;
  }
  return blocks;
}

/** A table that begins at the next line that is not empty. */
function tableAt(lines: readonly string[], from: number): string[][] | null {
  let at = from;
  while (lines[at] === '') at += 1;
  const rows: string[][] = [];
  for (; (lines[at] ?? '').startsWith('|'); at += 1) rows.push(cellsOf(lines[at] ?? ''));
  return rows.length < 2 ? null : [rows[0] ?? [], ...rows.slice(2)];
}

function cellsOf(row: string): string[] {
  return row
    .replace(/^\||\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'));
}

/** The page without its fenced blocks. */
export function proseOf(page: string): string {
  return page.replaceAll(/^([ \t]*)```\w*\n[\s\S]*?^\1```$/gm, '');
}

/** Contents of the code spans outside of fenced blocks. */
export function codeSpansOf(page: string): string[] {
  return [...proseOf(page).matchAll(/(?<!`)`([^`\n]+)`(?!`)/g)].map((match) => match[1] ?? '');
}

/** Targets of links and pictures outside of code. */
export function linksOf(page: string): string[] {
  const prose = proseOf(page).replaceAll(/`[^`\n]+`/g, '');
  return [
    ...prose.matchAll(/\]\(([^)\s]+)\)/g),
    ...prose.matchAll(/<(?:img|source)[^>]* (?:src|srcset)="([^"]+)"/g),
  ].map((match) => match[1] ?? '');
}

/** Names by which links reach the page's headings, as GitHub makes them. */
export function anchorsOf(page: string): Set<string> {
  return new Set(
    [...proseOf(page).matchAll(/^#+ (.+)$/gm)].map((match) =>
      (match[1] ?? '')
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
