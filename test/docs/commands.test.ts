/** Whatever README and docs call by its name is there: commands and flags, pages, headings, files. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import type { CommandRow } from '../../src/cli/command-row.ts';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { anchorsOf, blocksOf, codeSpansOf, linksOf } from './markdown.ts';
import { pages } from './pages.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Flags that every command takes (design.md, Commands). */
const EVERYWHERE = [
  '--config',
  '--source',
  '--json',
  '--quiet',
  '--verbose',
  '--utc',
  '--no-pager',
  '--log-level',
  '--no-color',
  '--help',
  '--version',
];

/** What is wrong with one call of `tidemark`, in words; nothing where all of it exists. */
function wrongIn(call: string): string[] {
  const words = call.trim().split(/\s+/).slice(1);
  const flags = words.flatMap((word) => /^--[a-z][a-z-]*/.exec(word) ?? []);
  const names = words.filter((word) => !word.startsWith('-'));
  const found: CommandRow[] = [];
  let rows: readonly CommandRow[] = COMMANDS;
  for (const name of names) {
    const row = rows.find((each) => each.name === name);
    if (row === undefined) break;
    found.push(row);
    rows = row.commands ?? [];
  }
  if (found.length === 0) {
    const [first] = words;
    // `tidemark …`, `tidemark COMMAND --help`, or what is no call at all.
    return first === undefined || /^[a-z]/.exec(first) === null ? [] : [`${call}: there is no ${first}`];
  }
  const options = found.flatMap(({ options: own }) => own ?? []);
  const known = [
    ...EVERYWHERE,
    ...options.flatMap(({ flags: text }) => text.split(/[ ,]+/).filter((part) => part.startsWith('--'))),
  ];
  return flags.filter((flag) => !known.includes(flag)).map((flag) => `${call}: there is no ${flag}`);
}

/** Every call of `tidemark` in a text, up to where the shell or the sentence ends it. */
function callsIn(text: string): string[] {
  const joined = text
    .replaceAll(/\\\n\s*/g, ' ')
    .replaceAll(/"[^"\n]*"|'[^'\n]*'/g, 'TEXT')
    // In a container of that name: the program by its path.
    .replaceAll(/\bexec (?:deployment\/)?tidemark (?:-- )?node \/app\/dist\/main\.js/g, 'exec; tidemark');
  return [...joined.matchAll(/(?:^|[\s;&|(`])(?:npm run -s )?tidemark(?: --)?( [^\n;&|)#>`]*)/gm)].map(
    (match) => `tidemark${match[1] ?? ''}`,
  );
}

describe('what is named in', () => {
  it.each(pages())('$path', ({ path, text }) => {
    const blocks = blocksOf(text)
      .filter(({ language }) => ['sh', 'console', 'yaml', 'crontab', ''].includes(language))
      .map((block) =>
        block.language === 'console'
          ? block.text
              .split('\n')
              .filter((line) => /^\$ |^ {2,}--/.test(line))
              .join('\n')
          : block.text,
      );
    const spans = codeSpansOf(text).filter((span) => /^(?:npx |npm run -s )?tidemark /.test(span));
    expect([...blocks.flatMap(callsIn), ...spans.flatMap(callsIn)].flatMap(wrongIn)).toEqual([]);

    const broken = linksOf(text).filter((target) => {
      if (/^[a-z]+:/.test(target)) return false;
      const [file = '', anchor] = target.split('#');
      const full = file === '' ? join(root, path) : join(root, dirname(path), file);
      if (!existsSync(full)) return true;
      return anchor !== undefined && !anchorsOf(readFileSync(full, 'utf8')).has(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('the checks: a wrong flag, command and continuation are found', () => {
    expect(callsIn('$ FOO=1 tidemark sync \\\n  --knid x && tidemark status')).toHaveLength(2);
    expect(callsIn('tidemark sync --knid x').flatMap(wrongIn)).toEqual([
      'tidemark sync --knid x: there is no --knid',
    ]);
    expect(callsIn('tidemark snyc').flatMap(wrongIn)).toHaveLength(1);
    expect(callsIn('npx tidemark drift accept members 1 --field /level').flatMap(wrongIn)).toEqual([]);
  });
});
