/** The shape of one command as data, and what several commands have in common. */
import { KINDS, nearestKind } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ValueType } from './completion/value-type.ts';
import type { CommandAction } from './context.ts';

export interface ArgumentRow {
  /** As commander writes it: `<required>`, `[optional]`, or `[several...]` for a last one that takes all the rest. */
  readonly name: string;
  /** Under which key the command finds it. */
  readonly key: string;
  readonly description: string;
  readonly choices?: readonly string[];
  readonly parse?: (text: string) => unknown;
  /** The sort of its value, for completion, if the name does not show it. */
  readonly values?: ValueType;
}

export interface OptionRow {
  readonly flags: string;
  /** True for what other programs give, and for what is only refused with a reason: not documented. */
  readonly isHidden?: boolean;
  readonly description: string;
  readonly choices?: readonly string[];
  /** The sort of its value, for completion, if the placeholder does not show it. */
  readonly values?: ValueType;
  readonly parse?: (text: string) => unknown;
  readonly isRepeatable?: boolean;
}

/** The value of an option that names a file or directory. @throws Error for `-`, which other programs take for stdout */
export function writtenFile(text: string): string {
  if (text === '-') throw new Error('it names a file or directory, and stdout is neither');
  return text;
}

/** The groups in which `--help` and docs/cli.md list the commands, in their order. */
export const COMMAND_GROUPS = ['Set up', 'Back up', 'Look', 'Restore', 'Run', 'Maintain', 'Fleet'] as const;

/** What a command does where sources have mirrors of their own, and several are asked for (`each-mirror.ts`). */
export interface MirrorLoop {
  /** Lists of its JSON document that follow one another in the one document of all; left out: one document a line. */
  readonly lists?: readonly string[];
  /** Lists of kinds: of these, what all have. */
  readonly commons?: readonly string[];
  /** Objects of counts in it, which are added up. */
  readonly sums?: readonly string[];
  /** Keys of it that are as good for all: those of the first. */
  readonly firsts?: readonly string[];
  /** Keys of it that are about the mirror: in the document of all, those of each mirror are beside its path. */
  readonly ofMirror?: readonly string[];
  /** True for documents that become those of one `tidemark.reports/1`. */
  readonly isReport?: true;
  /** True where the text names its source: no line of it is put before. */
  readonly isNamed?: true;
  /** True where one thing is looked for: a mirror without it is not an error if another one has it. */
  readonly isSearch?: true;
  /** Values of `--format` of which several may follow one another; JSON is joined. */
  readonly formats?: readonly string[];
  /** The option that names a directory, in which each source has one of its own. */
  readonly directoryOption?: 'output';
}

/** One thing that a command is about. */
export interface Located {
  /** For people: `run 7`. */
  readonly what: string;
  /** True for a mirror that has it. @throws TidemarkError `reference_unknown` for one that does not */
  readonly isIn: (mirror: Mirror, config: Config) => boolean;
  /** True where the command changes the mirror: none is chosen then while another one is away. */
  readonly isWritten?: boolean;
}

export interface CommandRow {
  readonly name: string;
  /** Of a command of the program itself; a hidden one has none. */
  readonly group?: (typeof COMMAND_GROUPS)[number];
  /** True for what other programs call, and for a second name of a command: neither listed nor suggested nor documented. */
  readonly isHidden?: boolean;
  readonly description: string;
  readonly arguments?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  /** Lines of the help before the examples: what the options do not describe. */
  readonly notes?: readonly string[];
  readonly examples?: readonly string[];
  readonly commands?: readonly CommandRow[];
  /**
   * True where the command, called with these options, does work that it finishes even if nobody reads its output.
   * Other commands end when their reader closes the pipe.
   */
  readonly outlivesOutput?: (options: Readonly<Record<string, unknown>>) => boolean;
  /** Left out: of several sources with mirrors of their own, one has to be named, unless `locate` finds it. */
  readonly mirrors?: MirrorLoop;
  /** Of a command about one thing: finds the mirror that has it, where only one of several has; undefined where the options name no such thing. */
  // oxlint-disable-next-line typescript/no-explicit-any -- each command types its own options
  readonly locate?: () => Promise<(options: any) => Located | undefined>;
  // oxlint-disable-next-line typescript/no-explicit-any -- each command types its own options
  readonly load?: () => Promise<CommandAction<any>>;
}

/** Parses a count. */
export function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error('expected a whole number');
  return Number(text);
}

/** Parses a count of what is wanted: none of it is not worth asking for. */
export function positiveNumber(text: string): number {
  const value = wholeNumber(text);
  if (value === 0) throw new Error('expected at least 1');
  return value;
}

/** Parses a port; 0 lets the system choose. */
export function portNumber(text: string): number {
  const port = wholeNumber(text);
  if (port > 65_535) throw new Error('expected a port from 0 to 65535');
  return port;
}

/** A kind, or a usage error with the nearest one. */
export function kindName(text: string): string {
  if ((KINDS as readonly string[]).includes(text)) return text;
  const near = nearestKind(text);
  throw new Error(
    near === undefined ? `there is no such kind; see \`tidemark catalog\`` : `did you mean ${near}?`,
  );
}

export const kindOption: OptionRow = {
  flags: '--kind <kind>',
  description: 'only this kind; repeatable',
  isRepeatable: true,
  parse: kindName,
};

/** For commands whose acts are recorded with who did them. */
export const asOption: OptionRow = {
  flags: '--as <name>',
  values: 'free',
  description: 'name to record as who did it (default: USER@HOST)',
};

/** What narrows a command to some records (design.md, Commands). */
export const filterOptions: readonly OptionRow[] = [
  kindOption,
  {
    flags: '--organization <id>',
    description: 'only below this organization, by id or name; repeatable',
    isRepeatable: true,
  },
  {
    flags: '--project <id>',
    description:
      'only this project, by id or name, and what is below it (not batch exports: these belong to the organization); repeatable',
    isRepeatable: true,
  },
  {
    flags: '--id <id>',
    description: 'only the record with this id, name or part of a name; repeatable',
    isRepeatable: true,
  },
];

// The rows as a list, and how a call of each command is written: for the manual page and docs/cli.md.

export interface NamedCommand {
  /** E.g. `tidemark drift accept`. */
  readonly name: string;
  readonly row: CommandRow;
}

/** Every command that people call, with the options that they give, each before its own commands. */
export function namedCommands(rows: readonly CommandRow[], parent = 'tidemark'): NamedCommand[] {
  return rows
    .filter(({ isHidden }) => isHidden !== true)
    .flatMap((row) => {
      const name = `${parent} ${row.name}`;
      const options = (row.options ?? []).filter((option) => option.isHidden !== true);
      return [{ name, row: { ...row, options } }, ...namedCommands(row.commands ?? [], name)];
    });
}

/** `tidemark drift accept [options] <kind> <id>`; a group of commands: `tidemark config COMMAND`. */
export function synopsis({ name, row }: NamedCommand): string {
  if (row.load === undefined) return `${name} COMMAND`;
  const options = (row.options ?? []).length === 0 ? [] : ['[options]'];
  return [name, ...options, ...(row.arguments ?? []).map((argument) => argument.name)].join(' ');
}

/** What an option or argument is for, with the values that it may have. */
export function described({ description, choices }: Pick<OptionRow, 'description' | 'choices'>): string {
  return choices === undefined ? description : `${description}: ${listed(choices)}`;
}

function listed(choices: readonly string[]): string {
  return `${choices.slice(0, -1).join(', ')} or ${choices.at(-1) ?? ''}`;
}
