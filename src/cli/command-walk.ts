/** The command table as a list, and how a call of each command is written: for the manual page and the reference. */
import type { CommandRow, OptionRow } from './command-row.ts';

export interface NamedCommand {
  /** E.g. `tidemark drift accept`. */
  readonly name: string;
  readonly row: CommandRow;
}

/** Every command that people call, each before its own commands. */
export function namedCommands(rows: readonly CommandRow[], parent = 'tidemark'): NamedCommand[] {
  return rows
    .filter(({ isHidden }) => isHidden !== true)
    .flatMap((row) => {
      const name = `${parent} ${row.name}`;
      return [{ name, row }, ...namedCommands(row.commands ?? [], name)];
    });
}

/** `tidemark drift accept [options] <kind> <id>`; a family of commands that is none itself: `tidemark config COMMAND`. */
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
