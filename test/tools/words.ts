/**
 * Checks the words of texts for people: pages, string literals and comments of the sources, alerts and dashboards.
 * `node test/tools/words.ts` lists each finding as `file:line: "word": text` and exits with 1 if there are any.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

export interface Finding {
  readonly line: number;
  readonly word: string;
  readonly text: string;
}

/** Words that are not used, each with a replacement. */
const FORBIDDEN: readonly (readonly [pattern: string, instead: string])[] = [
  ['stands|stood', 'is, exists'],
  ['tells|told', 'reports, shows'],
  ['anew|made again', 'again, recreated'],
  ['whole|wholly', 'complete, entire'],
  ['is no|are no|was no', 'is not a, there is no'],
  ['so many|so much', 'a number'],
  ['by itself|by themselves', 'automatically, separately'],
  ['for ever', 'permanently'],
  ['all the same', 'even so'],
  ['gravest', 'most severe'],
  ['owed|owes', 'pending'],
  ['otherwise than', 'different from'],
  ['that there is', 'every'],
  ['goes before|go before', 'takes precedence over'],
  ['far side', 'the service'],
  ['befell|befallen', 'happened to'],
  ['needs a person', 'needs manual work'],
  ['practi[sc]ed restore|practises', 'restore drill, rehearses'],
  ['as it is there|as they are there', 'unchanged'],
  ['nothing is to be done', 'no action needed'],
  ['is at work', 'is running'],
  ['as ever', '(leave out)'],
  ['no longer is', 'is no longer'],
  // Turns of translated prose.
  ['all that', 'everything'],
  ['what there is|all there is', 'everything'],
  ['where there (?:is|are)', 'if there is'],
  ['where none|where (?:this|it) is left out', 'if there is none, if omitted'],
  ['as it came|as they came', 'as received'],
  ['ends with (?:exit code )?\\d', 'exits with'],
  ['ended with (?:exit code )?\\d', 'exited with'],
  ['go(?:es)? on|going on|went on', 'continues'],
  ['as (?:it|they) comes?', 'as received'],
  ['called so', 'of this name'],
  ['stays? in force', 'stays active'],
  ['(?:was|were) put', 'was set'],
  ['stand-in', 'placeholder'],
  ['put(?:s|ting)? (?:(?:it|them|those) )?back', 'restore'],
  ['among it', 'including'],
  ['became of', 'the result'],
  ['hears? of', 'receives'],
  ['for better or worse', '(leave out)'],
  ['give or take', '±'],
  ['vouch(?:es)?', 'covers'],
  ['judge[sd]?|judgement', 'assess'],
  ['unasked', 'without approval'],
  // Words of our own for standard things.
  ['the interface|by interface(?!\\.md)', 'the API'],
  ['wait(?:s)? for a person', 'is held, is manual'],
  ['copies elsewhere', 'backups'],
  ['remarks?', 'notes'],
  ['gravity', 'severity'],
  ['twins?', 'matches'],
];

/** Where such a word is right. */
const ALLOWED: readonly string[] = [
  'whole number(?:s)?',
  'whole (?:second|minute|hour|day|month)s?',
  'there (?:is|are|was) no',
  'as a whole',
  'stands for',
  'stand-alone',
  'is no longer',
  'are no longer',
  'was no longer',
  'is no-op',
  'all that (?:are|is)',
];

const allowed = new RegExp(`\\b(?:${ALLOWED.join('|')})\\b`, 'gi');
const forbidden = new RegExp(`\\b(?:${FORBIDDEN.map(([pattern]) => pattern).join('|')})\\b`, 'gi');
/** In a literal, the letters of an escape such as a line break touch the word behind it. */
const escape = /\\(?:u\{[^}]*\}|u[\da-f]{4}|x[\da-f]{2}|.)/gi;

/** The forbidden words in a text; code spans and keys such as `is_whole` are not words. */
export function wordsIn(text: string): string[] {
  const prose = text.replaceAll(/`[^`\n]*`/g, '``').replaceAll(allowed, '');
  return [...prose.matchAll(forbidden)].map(([word]) => word.toLowerCase());
}

function findings(line: number, text: string): Finding[] {
  return wordsIn(text).map((word) => ({ line, word, text: text.trim() }));
}

/** Findings line by line; for pages, YAML and JSON. Transcripts hold the program's own words, which its sources have. */
export function checkLines(text: string): Finding[] {
  const prose = text.replaceAll(/^```console\n[^]*?^```$/gm, (block) => block.replaceAll(/[^\n]+/g, ''));
  return prose.split('\n').flatMap((line, index) => findings(index + 1, line));
}

/** Findings in the comments of a TypeScript source. */
export function checkComments(source: string): Finding[] {
  return commentFindings(parsed(source));
}

/** Findings in the string literals of a TypeScript source; a literal without a blank is a name, not a text. */
export function checkLiterals(source: string): Finding[] {
  return literalFindings(parsed(source));
}

/** Findings in the literals and the comments of a TypeScript source, which is parsed once, and only where it has such a word. */
export function checkSource(source: string): Finding[] {
  const text = `${source}\n${source.replaceAll(escape, ' ')}`;
  if (text.replaceAll(allowed, '').search(forbidden) === -1) return [];
  const file = parsed(source);
  return [...literalFindings(file), ...commentFindings(file)];
}

function parsed(source: string): ts.SourceFile {
  // Comments are read from the text: what JSDoc says in them is not asked.
  return ts.createSourceFile('source.ts', source, {
    languageVersion: ts.ScriptTarget.Latest,
    jsDocParsingMode: ts.JSDocParsingMode.ParseNone,
  });
}

function commentFindings(file: ts.SourceFile): Finding[] {
  const comments = new Map<number, string>();
  const visit = (node: ts.Node): void => {
    const ranges = [
      ...(ts.getLeadingCommentRanges(file.text, node.pos) ?? []),
      ...(ts.getTrailingCommentRanges(file.text, node.end) ?? []),
    ];
    for (const { pos, end } of ranges) comments.set(pos, file.text.slice(pos, end));
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...comments].flatMap(([at, text]) => {
    const first = file.getLineAndCharacterOfPosition(at).line + 1;
    return text.split('\n').flatMap((line, index) => findings(first + index, line));
  });
}

function literalFindings(file: ts.SourceFile): Finding[] {
  const found: Finding[] = [];
  const visit = (node: ts.Node): void => {
    const isText =
      ts.isStringLiteralLike(node) ||
      node.kind === ts.SyntaxKind.TemplateHead ||
      node.kind === ts.SyntaxKind.TemplateMiddle ||
      node.kind === ts.SyntaxKind.TemplateTail;
    if (isText) {
      const { text } = node as ts.LiteralLikeNode;
      const line = file.getLineAndCharacterOfPosition(node.getStart(file)).line + 1;
      if (/\S\s+\S|\w\s|\s\w/.test(text)) found.push(...findings(line, text));
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

const root = fileURLToPath(new URL('../../', import.meta.url));

function filesBelow(directory: string, ending: RegExp): string[] {
  return readdirSync(root + directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name))
    .map((name) => `${directory}/${name}`)
    .sort();
}

const named = (path: string, found: readonly Finding[]): string[] =>
  found.map(({ line, word, text }) => `${path}:${line}: "${word}": ${text}`);

/** One line for each finding in the repository. */
export function checkRepository(): string[] {
  const paths = [
    'README.md',
    'CHANGELOG.md',
    ...filesBelow('docs', /\.md$/),
    ...filesBelow('deploy', /\.(?:ya?ml|json)$/),
    ...filesBelow('src', /\.(?:ts|md)$/),
  ];
  return paths.flatMap((path) => {
    const text = readFileSync(root + path, 'utf8');
    if (!path.endsWith('.ts')) return named(path, checkLines(text));
    return named(path, checkSource(text));
  });
}

if (import.meta.main) {
  const lines = checkRepository();
  for (const line of lines) console.error(line);
  if (lines.length > 0) {
    console.error(`${lines.length} words to replace; test/tools/words.ts has the list`);
    process.exitCode = 1;
  }
}
