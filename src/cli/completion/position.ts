/**
 * Where on a command line the cursor stands, and what may stand there: read off the command table in the way that the
 * program's own parser reads it (`program.ts`). Pure.
 */
import type { ArgumentRow, CommandRow, OptionRow } from '../command-row.ts';
import { GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION } from '../global-options.ts';

export interface Position {
  /** Commands that may stand here. */
  readonly commands: readonly CommandRow[];
  /** Options that may stand here: of those that take one value, the ones that were not given yet. */
  readonly options: readonly OptionRow[];
  /** The option or argument of which the value stands here. */
  readonly value: OptionRow | ArgumentRow | null;
  /** The values that options were given so far, by long flag; none for flags without one. */
  readonly given: ReadonlyMap<string, readonly string[]>;
  /** What of the last word is not part of the value: `--kind=`. */
  readonly before: string;
  /** What was typed of that which stands here. */
  readonly typed: string;
}

/** The course through the words before the last. */
interface Course {
  command: CommandRow;
  /** True until a command was called. */
  isRoot: boolean;
  operandCount: number;
  /** The option that the next word is the value of. */
  awaiting: OptionRow | null;
  /** True after `--`: what follows is no option. */
  isPlain: boolean;
  readonly given: Map<string, string[]>;
}

/** `words` is all that follows the program's name, up to the cursor; the last one is what is being typed. */
export function positionOf(words: readonly string[], commands: readonly CommandRow[]): Position {
  const root: CommandRow = { name: 'tidemark', description: '', commands };
  const course: Course = {
    command: root,
    isRoot: true,
    operandCount: 0,
    awaiting: null,
    isPlain: false,
    given: new Map(),
  };
  for (const word of words.slice(0, -1)) pass(course, word);
  return standing(course, words.at(-1) ?? '');
}

function pass(course: Course, word: string): void {
  const { awaiting } = course;
  if (awaiting !== null) {
    course.awaiting = null;
    // An optional value is no word that looks like a flag.
    if (awaiting.flags.includes('<') || !word.startsWith('-')) {
      note(course, awaiting, word);
      return;
    }
  }
  if (!course.isPlain && word === '--') {
    course.isPlain = true;
  } else if (!course.isPlain && word.startsWith('-') && word !== '-') {
    const [flag, value] = splitFlag(word);
    const option = optionsOf(course).find((each) => flagsOf(each).includes(flag));
    if (option === undefined) return;
    if (value !== undefined) note(course, option, value);
    else if (takesValue(option)) course.awaiting = option;
    else note(course, option);
  } else {
    const below = course.operandCount === 0 && !course.isPlain ? commandsOf(course.command) : [];
    const called = below.find(({ name }) => name === word);
    if (called === undefined) course.operandCount += 1;
    else {
      course.command = called;
      course.isRoot = false;
    }
  }
}

function standing(course: Course, word: string): Position {
  const nothing = { commands: [], options: [], value: null, given: course.given, before: '', typed: word };
  const { awaiting, command } = course;
  if (awaiting !== null && (awaiting.flags.includes('<') || !word.startsWith('-')))
    return { ...nothing, value: awaiting };
  if (!course.isPlain && word.startsWith('-')) {
    const [flag, value] = splitFlag(word);
    if (value === undefined)
      return { ...nothing, options: optionsOf(course).filter((each) => isOpen(course, each)) };
    const option = optionsOf(course).find((each) => flagsOf(each).includes(flag));
    if (option === undefined || !takesValue(option)) return nothing;
    return { ...nothing, value: option, before: `${flag}=`, typed: value };
  }
  const { arguments: all = [] } = command;
  const last = all.at(-1);
  const value = all[course.operandCount] ?? (last?.name.includes('...') === true ? last : null);
  const isFirst = course.operandCount === 0 && !course.isPlain;
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
function optionsOf({ command, isRoot }: Course): OptionRow[] {
  if (isRoot) return [...GLOBAL_OPTIONS, HELP_OPTION, VERSION_OPTION];
  return [...(command.options ?? []), ...GLOBAL_OPTIONS, HELP_OPTION];
}

function note({ given }: Course, option: OptionRow, value?: string): void {
  const flag = longFlag(option);
  given.set(flag, [...(given.get(flag) ?? []), ...(value === undefined ? [] : [value])]);
}

function isOpen({ given }: Course, option: OptionRow): boolean {
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
export function longFlag(option: OptionRow): string {
  return flagsOf(option).at(-1) ?? option.flags;
}
