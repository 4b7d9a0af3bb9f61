/** Candidates for the word at the cursor: commands, options, values, and whether file names are possible. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { CommandRow, ArgumentRow, OptionRow } from '../command-row.ts';
import { GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION } from '../global-options.ts';
import type { Candidate, LocalQuestion } from './local-values.ts';
import { type ValueType, valueTypeOf } from './value-type.ts';

interface Completion {
  readonly candidates: readonly Candidate[];
  /** Whether names of files or directories are possible, after `before` in the same word. */
  readonly paths: { readonly what: 'files' | 'directories'; readonly before: string } | null;
}

interface CompletionQuestion extends Omit<LocalQuestion, 'config' | 'sources'> {
  readonly words: readonly string[];
  /** True if the words still have their quotes. */
  readonly isQuoted: boolean;
}

/** Reports no errors, as they would be printed in the middle of a command: what cannot be read gives no candidates. */
export async function completionOf(
  question: CompletionQuestion,
  commands: readonly CommandRow[],
): Promise<Completion> {
  const words = question.isQuoted ? question.words.map(unquoted) : question.words;
  const position = positionOf(words, commands);
  const { value, before, typed } = position;
  const type =
    value === null ? undefined : valueTypeOf('flags' in value ? value.flags : value.name, value.values);
  const values =
    value?.choices === undefined
      ? await valuesOf(type, position, question)
      : value.choices.map((choice) => ({ value: choice, description: '' }));
  return {
    candidates: [
      ...position.commands.map(({ name, description }) => ({ value: name, description })),
      ...position.options.map((option) => ({ value: longFlag(option), description: option.description })),
      ...values.map((each) => ({ ...each, value: before + each.value })),
    ].filter((each) => each.value.startsWith(before + typed) && isOneLine(each)),
    paths: pathsOf(type, position),
  };
}

async function valuesOf(
  type: ValueType | undefined,
  { given }: Position,
  question: CompletionQuestion,
): Promise<Candidate[]> {
  switch (type) {
    case undefined:
    case 'free':
    case 'file':
    case 'directory':
      return [];
    case 'kind':
      return CATALOG.map(({ kind, title }) => ({ value: kind, description: title.many }));
    case 'permission':
      return [...new Set(CATALOG.flatMap(({ permission }) => [permission.read, permission.write]))].map(
        (value) => ({ value, description: '' }),
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
      return [...wordsOf(type), ...(await valuesHere(type, local))];
    }
  }
}

async function valuesHere(type: ValueType, question: LocalQuestion): Promise<Candidate[]> {
  try {
    const { localValues } = await import('./local-values.ts');
    return localValues(type, question);
  } catch {
    // No configuration or a broken one, no mirror or a busy one.
    return [];
  }
}

/** References that are the same on every machine. */
function wordsOf(type: ValueType): Candidate[] {
  const latest = { value: 'latest', description: 'as of the latest run' };
  const baseline = { value: 'baseline', description: 'the snapshot that drift is measured from' };
  const file = { value: 'file:', description: 'an export' };
  switch (type) {
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

function pathsOf(type: ValueType | undefined, { before, typed }: Position): Completion['paths'] {
  switch (type) {
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

/** The shell gets one line per candidate. */
function isOneLine({ value, description }: Candidate): boolean {
  return !/[\u0000-\u001f\u007f]/.test(value + description);
}

/**
 * The word without its quotes and backslashes; a quote that is still open ends with the word. Variables and substitutions stay as
 * they are.
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
      // In double quotes a backslash is literal, except before these.
      text += quote === '' || '"\\$`'.includes(next) ? next : `\\${next}`;
    } else text += character;
  }
  return text;
}

/** A path with `~/` replaced, as the shell would have done. */
function withHome(path: string, home: string | undefined): string {
  return home !== undefined && path.startsWith('~/') ? `${home}${path.slice(1)}` : path;
}

// What may be at the cursor, by the command table. Words are parsed as `program.ts` does.

interface Position {
  /** Commands that may be here. */
  readonly commands: readonly CommandRow[];
  /** Options that may be here: those not given yet, and repeatable ones. */
  readonly options: readonly OptionRow[];
  /** The option or argument whose value is completed. */
  readonly value: OptionRow | ArgumentRow | null;
  /** The values of the options so far, by long flag; empty for flags without value. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  /** What comes before the value in the last word: `--kind=`. */
  readonly before: string;
  /** The part of the value that was typed. */
  readonly typed: string;
}

/** The words before the last one, parsed. */
interface ParsedWords {
  command: CommandRow;
  /** True until a word named a command. */
  isRoot: boolean;
  operandCount: number;
  /** The option whose value the next word is. */
  awaiting: OptionRow | null;
  /** True after `--`: no further word is an option. */
  isPlain: boolean;
  readonly given: Map<string, string[]>;
}

/** @param words all words after the program's name, up to the cursor */
function positionOf(words: readonly string[], commands: readonly CommandRow[]): Position {
  const parsed: ParsedWords = {
    command: { name: 'tidemark', description: '', commands },
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
    if (isValueOf(awaiting, word)) {
      note(parsed, awaiting, word);
      return;
    }
  }
  if (!parsed.isPlain && word === '--') {
    parsed.isPlain = true;
  } else if (!parsed.isPlain && word.startsWith('-') && word !== '-') {
    const [flag, value] = splitFlag(word);
    const option = optionWith(flag, parsed);
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
  if (awaiting !== null && isValueOf(awaiting, word)) return { ...nothing, value: awaiting };
  if (!parsed.isPlain && word.startsWith('-')) {
    const [flag, value] = splitFlag(word);
    if (value === undefined) {
      const options = optionsOf(parsed).filter((each) => each.isHidden !== true && isOpen(parsed, each));
      return { ...nothing, options };
    }
    const option = optionWith(flag, parsed);
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

/** With `help`, which the parser adds to every group of commands. */
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

/** Its own options, then the global ones. One given to a parent command (`drift --from X accept`) counts if this command has it too. */
function optionsOf({ command, isRoot }: ParsedWords): OptionRow[] {
  if (isRoot) return [...GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION];
  return [...(command.options ?? []), ...GLOBAL_OPTIONS, HELP_OPTION];
}

function optionWith(flag: string, parsed: ParsedWords): OptionRow | undefined {
  return optionsOf(parsed).find((option) => flagsOf(option).includes(flag));
}

/** An optional value must not look like a flag. */
function isValueOf({ flags }: OptionRow, word: string): boolean {
  return flags.includes('<') || !word.startsWith('-');
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
