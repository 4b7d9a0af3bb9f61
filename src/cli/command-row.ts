/** How a command is described as data, and options that several commands share. */
import { KINDS, nearestKind } from '../catalog/kinds.ts';
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ValueType } from './completion/value-type.ts';
import type { CommandAction } from './context.ts';

export interface ArgumentRow {
  /** As commander writes it: `<required>`, `[optional]`, or `[several...]` for a last one that takes all the rest. */
  readonly name: string;
  /** Its key in the options of the command. */
  readonly key: string;
  readonly description: string;
  readonly choices?: readonly string[];
  readonly parse?: (text: string) => unknown;
  /** The type of its value, for completion, if the name does not show it. */
  readonly values?: ValueType;
}

export interface OptionRow {
  readonly flags: string;
  /** True for an option that only other programs give, or that is only refused with a reason: not documented. */
  readonly isHidden?: boolean;
  readonly description: string;
  readonly choices?: readonly string[];
  /** The type of its value, for completion, if the placeholder does not show it. */
  readonly values?: ValueType;
  readonly parse?: (text: string) => unknown;
  readonly isRepeatable?: boolean;
}

/** Parses the path of a file or directory. @throws Error for `-`, which means stdout in other programs */
export function writtenFile(text: string): string {
  if (text === '-') throw new Error('it names a file or directory, and stdout is neither');
  return text;
}

/** The groups in which `--help` and docs/cli.md list the commands, in their order. */
export const COMMAND_GROUPS = ['Set up', 'Back up', 'Look', 'Restore', 'Run', 'Maintain', 'Fleet'] as const;

/** How the results of a command for several mirrors are joined (`each-mirror.ts`). */
export interface MirrorLoop {
  /** Keys of the JSON documents whose lists are joined into one document. Left out: one document a line. */
  readonly lists?: readonly string[];
  /** Keys whose lists are reduced to the elements that all of them have. */
  readonly commons?: readonly string[];
  /** Keys of objects whose counts are added up. */
  readonly sums?: readonly string[];
  /** Keys whose value is that of the first document. */
  readonly firsts?: readonly string[];
  /** Keys about the mirror: their values are listed for each mirror, beside its path. */
  readonly ofMirror?: readonly string[];
  /** True if the documents become those of one `tidemark.reports/1`. */
  readonly isReport?: true;
  /** True if the text names its source itself: it gets no heading. */
  readonly isNamed?: true;
  /** True if the command looks for something: a mirror without it is not an error if another one has it. */
  readonly isSearch?: true;
  /** Values of `--format` whose results may follow one another; JSON is joined. */
  readonly formats?: readonly string[];
  /** The option that names a directory, in which each source gets its own. */
  readonly directoryOption?: 'output';
}

/** What a command is about, if that is in one mirror only. */
export interface Located {
  /** For people: `run 7`. */
  readonly what: string;
  /** True if the mirror has it. @throws TidemarkError `reference_unknown` also if it does not */
  readonly isIn: (mirror: Mirror, config: Config) => boolean;
  /** True if the command changes the mirror: then none is chosen while another one is missing. */
  readonly isWritten?: boolean;
}

export interface CommandRow {
  readonly name: string;
  /** Of a top-level command that is not hidden. */
  readonly group?: (typeof COMMAND_GROUPS)[number];
  /** True if only other programs call it, or for a second name of a command: not listed, suggested or documented. */
  readonly isHidden?: boolean;
  readonly description: string;
  readonly arguments?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  /** Lines of the help before the examples. */
  readonly notes?: readonly string[];
  readonly examples?: readonly string[];
  readonly commands?: readonly CommandRow[];
  /**
   * True if the command finishes with these options even if nobody reads its output: it has work to do, or its exit code is an answer
   * (`tidemark drift | head -1`). Others end with 0 when the pipe is closed.
   */
  readonly outlivesOutput?: (options: Readonly<Record<string, unknown>>) => boolean;
  /** For several sources that each have a mirror. Left out: one source has to be named, unless `locate` finds it. */
  readonly mirrors?: MirrorLoop;
  /** Says what the command is about, so that the mirror that has it can be found; undefined if the options name no such thing. */
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

/** Parses a count of at least 1. */
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

/** Parses a kind; the error suggests the nearest one. */
export function kindName(text: string): string {
  if ((KINDS as readonly string[]).includes(text)) return text;
  const near = nearestKind(text);
  throw new Error(
    near === undefined ? 'there is no such kind; see `tidemark catalog`' : `did you mean ${near}?`,
  );
}

export const kindOption: OptionRow = {
  flags: '--kind <kind>',
  description: 'only this kind; repeatable',
  isRepeatable: true,
  parse: kindName,
};

/** For commands that the audit log records. */
export const asOption: OptionRow = {
  flags: '--as <name>',
  values: 'free',
  description: 'name to record as who did it (default: USER@HOST)',
};

/** The options of a command that writes a report. */
export function reportOptions(formats: readonly string[]): readonly OptionRow[] {
  return [
    {
      flags: '--format <format>',
      description: 'output format (default: that of the file which --output names, else text)',
      choices: formats,
    },
    { flags: '--output <file>', description: 'write to this file instead of stdout' },
  ];
}

/** Options that narrow a command to some records (design.md, Commands). */
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

// The commands as a list: for the manual page and docs/cli.md.

export interface NamedCommand {
  /** E.g. `tidemark drift accept`. */
  readonly name: string;
  readonly row: CommandRow;
}

/** Every command that is not hidden, with its options that are not hidden, each before its subcommands. */
export function namedCommands(rows: readonly CommandRow[], parent = 'tidemark'): NamedCommand[] {
  return rows
    .filter(({ isHidden }) => isHidden !== true)
    .flatMap((row) => {
      const name = `${parent} ${row.name}`;
      const options = (row.options ?? []).filter((option) => option.isHidden !== true);
      return [{ name, row: { ...row, options } }, ...namedCommands(row.commands ?? [], name)];
    });
}

/** How a command is called: `tidemark drift accept [options] <kind> <id>`, or `tidemark config COMMAND` for a group. */
export function synopsis({ name, row }: NamedCommand): string {
  if (row.load === undefined) return `${name} COMMAND`;
  const options = (row.options ?? []).length === 0 ? [] : ['[options]'];
  return [name, ...options, ...(row.arguments ?? []).map((argument) => argument.name)].join(' ');
}

/** The description of an option or argument, with its choices. */
export function described({ description, choices }: Pick<OptionRow, 'description' | 'choices'>): string {
  if (choices === undefined) return description;
  return `${description}: ${choices.slice(0, -1).join(', ')} or ${choices.at(-1) ?? ''}`;
}
