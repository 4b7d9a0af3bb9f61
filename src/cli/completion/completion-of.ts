/** What may be where the cursor is: commands, options, values, and whether files may. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { CommandRow, ArgumentRow, OptionRow } from '../command-row.ts';
import { GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION } from '../global-options.ts';
import type { Candidate, LocalQuestion } from './local-values.ts';
import { type ValueType, valueTypeOf } from './value-type.ts';

interface Completion {
  readonly candidates: readonly Candidate[];
  /** Names of files or directories too, after `before` in the same word. */
  readonly paths: { readonly what: 'files' | 'directories'; readonly before: string } | null;
}

interface CompletionQuestion extends Omit<LocalQuestion, 'config' | 'sources'> {
  readonly words: readonly string[];
  /** True where the words still have their quotes. */
  readonly isQuoted: boolean;
}

/** Whatever cannot be read has nothing to say: at the keyboard an error text would be in the middle of a command. */
export async function completionOf(
  question: CompletionQuestion,
  commands: readonly CommandRow[],
): Promise<Completion> {
  const words = question.isQuoted ? question.words.map(unquoted) : question.words;
  const position = positionOf(words, commands);
  const { value, before, typed } = position;
  const sort =
    value === null ? undefined : valueTypeOf('flags' in value ? value.flags : value.name, value.values);
  const values =
    value?.choices === undefined
      ? await valuesOf(sort, position, question)
      : value.choices.map((choice) => ({ value: choice, description: '' }));
  return {
    candidates: [
      ...position.commands.map(({ name, description }) => ({ value: name, description })),
      ...position.options.map((option) => ({ value: longFlag(option), description: option.description })),
      ...values.map((each) => ({ ...each, value: before + each.value })),
    ].filter((each) => each.value.startsWith(before + typed) && isOneLine(each)),
    paths: pathsOf(sort, position),
  };
}

async function valuesOf(
  sort: ValueType | undefined,
  { given }: Position,
  question: CompletionQuestion,
): Promise<Candidate[]> {
  switch (sort) {
    case undefined:
    case 'free':
    case 'file':
    case 'directory':
      return [];
    case 'kind':
      return CATALOG.map(({ kind, title }) => ({ value: kind, description: title.many }));
    case 'permission':
      return [...new Set(CATALOG.flatMap(({ permission }) => [permission.read, permission.write]))].map(
        (value) => ({
          value,
          description: '',
        }),
      );
    case 'backup':
      return [{ value: 'latest', description: 'the newest backup' }];
    default: {
      const config = given.get('--config')?.at(-1);
      const local = {
        ...question,
        config: config === undefined ? undefined : withHome(config, question.env['HOME']),
        sources: given.get('--source') ?? [],
      };
      return [...wordsOf(sort), ...(await known(sort, local))];
    }
  }
}

async function known(sort: ValueType, question: LocalQuestion): Promise<Candidate[]> {
  try {
    const { localValues } = await import('./local-values.ts');
    return localValues(sort, question);
  } catch {
    // No configuration, a broken one, no mirror, one that is busy: there is nothing to complete from it.
    return [];
  }
}

/** References that need no look at anything. */
function wordsOf(sort: ValueType): Candidate[] {
  const latest = { value: 'latest', description: 'as of the latest run' };
  const baseline = { value: 'baseline', description: 'the snapshot that drift is measured from' };
  const file = { value: 'file:', description: 'an export' };
  switch (sort) {
    case 'reference':
      return [latest, { value: 'live', description: 'the service now' }, baseline, file];
    case 'desired':
      return [latest, baseline, file];
    case 'point':
      return [latest, baseline];
    default:
      return [];
  }
}

function pathsOf(sort: ValueType | undefined, { before, typed }: Position): Completion['paths'] {
  switch (sort) {
    case 'file':
    case 'backup':
    case 'profile':
      return { what: 'files', before };
    case 'directory':
      return { what: 'directories', before };
    case 'reference':
    case 'desired':
      return typed.startsWith('file:') ? { what: 'files', before: `${before}file:` } : null;
    default:
      return null;
  }
}

/** The answer to the shell has a line for each. */
function isOneLine({ value, description }: Candidate): boolean {
  return !/[\u0000-\u001f\u007f]/.test(value + description);
}

// A word as a shell's user typed it.

/**
 * What the word means without its quotes and backslashes; a quote that is still open ends with the word. Nothing in it is
 * carried out: variables and substitutions stay as they are.
 * @internal
 */
export function unquoted(word: string): string {
  let text = '';
  let quote = '';
  for (let at = 0; at < word.length; at += 1) {
    const character = word.charAt(at);
    if (character === quote) quote = '';
    else if (quote === '' && (character === '"' || character === "'")) quote = character;
    else if (character === '\\' && quote !== "'") {
      const next = word.charAt((at += 1));
      // Between double quotes a backslash is literal, except before these.
      text += quote === '' || '"\\$`'.includes(next) ? next : `\\${next}`;
    } else text += character;
  }
  return text;
}

/** A path with the `~/` that the shell would have replaced. */
function withHome(path: string, home: string | undefined): string {
  return home !== undefined && path.startsWith('~/') ? `${home}${path.slice(1)}` : path;
}

// Where on a command line the cursor is, and what may be there: read off the command table in the way that the
// program's own parser reads it (`program.ts`). Pure.

interface Position {
  /** Commands that may be here. */
  readonly commands: readonly CommandRow[];
  /** Options that may be here: of those that take one value, the ones that were not given yet. */
  readonly options: readonly OptionRow[];
  /** The option or argument whose value is completed. */
  readonly value: OptionRow | ArgumentRow | null;
  /** The values that options were given so far, by long flag; none for flags without one. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  /** What of the last word is not part of the value: `--kind=`. */
  readonly before: string;
  /** The part of the value that was typed. */
  readonly typed: string;
}

/** What the words before the last one say. */
interface ParsedWords {
  command: CommandRow;
  /** True until a command was called. */
  isRoot: boolean;
  operandCount: number;
  /** The option that the next word is the value of. */
  awaiting: OptionRow | null;
  /** True after `--`: what follows is not an option. */
  isPlain: boolean;
  readonly given: Map<string, string[]>;
}

/** `words` is everything that follows the program's name, up to the cursor; the last one is what is being typed. */
function positionOf(words: readonly string[], commands: readonly CommandRow[]): Position {
  const root: CommandRow = { name: 'tidemark', description: '', commands };
  const parsed: ParsedWords = {
    command: root,
    isRoot: true,
    operandCount: 0,
    awaiting: null,
    isPlain: false,
    given: new Map(),
  };
  for (const word of words.slice(0, -1)) parseWord(parsed, word);
  return positionAt(parsed, words.at(-1) ?? '');
}

function parseWord(parsed: ParsedWords, word: string): void {
  const { awaiting } = parsed;
  if (awaiting !== null) {
    parsed.awaiting = null;
    // An optional value is not a word that looks like a flag.
    if (awaiting.flags.includes('<') || !word.startsWith('-')) {
      note(parsed, awaiting, word);
      return;
    }
  }
  if (!parsed.isPlain && word === '--') {
    parsed.isPlain = true;
  } else if (!parsed.isPlain && word.startsWith('-') && word !== '-') {
    const [flag, value] = splitFlag(word);
    const option = optionsOf(parsed).find((each) => flagsOf(each).includes(flag));
    if (option === undefined) return;
    if (value !== undefined) note(parsed, option, value);
    else if (takesValue(option)) parsed.awaiting = option;
    else note(parsed, option);
  } else {
    const below = parsed.operandCount === 0 && !parsed.isPlain ? commandsOf(parsed.command) : [];
    const called = below.find(({ name }) => name === word);
    if (called === undefined) parsed.operandCount += 1;
    else {
      parsed.command = called;
      parsed.isRoot = false;
    }
  }
}

function positionAt(parsed: ParsedWords, word: string): Position {
  const nothing = { commands: [], options: [], value: null, given: parsed.given, before: '', typed: word };
  const { awaiting, command } = parsed;
  if (awaiting !== null && (awaiting.flags.includes('<') || !word.startsWith('-')))
    return { ...nothing, value: awaiting };
  if (!parsed.isPlain && word.startsWith('-')) {
    const [flag, value] = splitFlag(word);
    if (value === undefined)
      return {
        ...nothing,
        options: optionsOf(parsed).filter((each) => each.isHidden !== true && isOpen(parsed, each)),
      };
    const option = optionsOf(parsed).find((each) => flagsOf(each).includes(flag));
    if (option === undefined || !takesValue(option)) return nothing;
    return { ...nothing, value: option, before: `${flag}=`, typed: value };
  }
  const { arguments: all = [] } = command;
  const last = all.at(-1);
  const value = all[parsed.operandCount] ?? (last?.name.includes('...') === true ? last : null);
  const isFirst = parsed.operandCount === 0 && !parsed.isPlain;
  return {
    ...nothing,
    value,
    commands: isFirst ? commandsOf(command).filter(({ isHidden }) => isHidden !== true) : [],
  };
}

/** With `help`, which the parser adds to every command that is only a family of others. */
function commandsOf({ name, commands, load }: CommandRow): readonly CommandRow[] {
  if (commands === undefined) return [];
  if (load !== undefined || name === 'help') return commands;
  const named = commands.map(({ name: each, description, isHidden = false }) => ({
    name: each,
    description,
    isHidden,
  }));
  return [...commands, { name: 'help', description: 'show the help of a command', commands: named }];
}

/** The command's own, then every command's. What a parent took (`drift --from X accept`) counts where the command knows it. */
function optionsOf({ command, isRoot }: ParsedWords): OptionRow[] {
  if (isRoot) return [...GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION];
  return [...(command.options ?? []), ...GLOBAL_OPTIONS, HELP_OPTION];
}

function note({ given }: ParsedWords, option: OptionRow, value?: string): void {
  const flag = longFlag(option);
  given.set(flag, [...(given.get(flag) ?? []), ...(value === undefined ? [] : [value])]);
}

function isOpen({ given }: ParsedWords, option: OptionRow): boolean {
  return option.isRepeatable === true || !given.has(longFlag(option));
}

function splitFlag(word: string): [flag: string, value?: string] {
  const at = word.startsWith('--') ? word.indexOf('=') : -1;
  return at === -1 ? [word] : [word.slice(0, at), word.slice(at + 1)];
}

function takesValue({ flags }: OptionRow): boolean {
  return /[<[]/.test(flags);
}

function flagsOf({ flags }: OptionRow): string[] {
  return flags.split(/,? /).filter((part) => part.startsWith('-'));
}

/** `--kind` of `--kind <kind>`, `--help` of `-h, --help`. */
function longFlag(option: OptionRow): string {
  return flagsOf(option).at(-1) ?? option.flags;
}
