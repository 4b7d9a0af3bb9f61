/** Errors of the command line: turns commander's messages into one line and a hint. */
import type { Command, CommanderError } from 'commander';
import { TidemarkError } from '../core/errors.ts';
import { didYouMean } from '../core/suggest.ts';
import { plural } from '../core/wording.ts';

/**
 * The error of a command line that commander rejected.
 * @param command the command that rejected it
 * @param written all words as they were typed
 */
export function usageError(
  error: CommanderError,
  command: Command,
  written: readonly string[],
): TidemarkError {
  const path = pathOf(command);
  const hint = `\`${path} --help\` shows how it is used`;
  const word = strayWord(error, command, written);
  if (word !== undefined) {
    const names = namesOf(command);
    if (word === 'sql' && command.parent === null)
      return new TidemarkError('usage', 'there is no command sql: the mirror is a SQLite file', {
        hint: '`sqlite3 -readonly MIRROR "SELECT name FROM batch_exports"`: each kind is a view; docs/sql.md has examples',
        cause: error,
      });
    const near = didYouMean(word, names);
    return new TidemarkError(
      'usage',
      `there is no command ${[...path.split(' ').slice(1), word].join(' ')}${near}`,
      { hint: near === '' ? `there are: ${names.join(', ')}` : hint, cause: error },
    );
  }
  if (error.code === 'commander.help') {
    return new TidemarkError('usage', `${path} needs a command: ${namesOf(command).join(', ')}`, { hint });
  }
  const { length } = command.registeredArguments;
  const message =
    error.code === 'commander.excessArguments'
      ? `${path} takes ${length === 0 ? 'no argument' : plural(length, 'argument')}, not ${command.args.join(' ')}`
      : plain(error.message, command);
  return new TidemarkError('usage', message, { hint, cause: error });
}

/** True for `tidemark` alone, or a command that only groups others: then help is printed instead of an error. */
export function isCommandMissing(
  error: CommanderError,
  command: Command,
  written: readonly string[],
): boolean {
  return error.code === 'commander.help' && strayWord(error, command, written) === undefined;
}

/** The word in the place of a command that is not the name of one. */
function strayWord(error: CommanderError, command: Command, written: readonly string[]): string | undefined {
  if (namesOf(command).length === 0) return undefined;
  switch (error.code) {
    case 'commander.unknownCommand':
    case 'commander.excessArguments':
      return command.args[0];
    case 'commander.help': {
      // For `tidemark help snyc`, commander shows the general help.
      const asked = written[written.indexOf('help') + 1];
      return written.includes('help') && asked !== undefined && !asked.startsWith('-') ? asked : undefined;
    }
    default:
      return undefined;
  }
}

/** Commander's message without its prefix, quotes and second line. */
function plain(message: string, command: Command): string {
  const line = message
    .replace(/^error: /, '')
    .replace(/\n\(Did you mean (?:one of )?(.*?)\??\)$/s, '; did you mean $1?')
    .replace(/\.$/, '');
  const argument = /^command-argument value '(.*)' is invalid for argument '(\S+)'\. (.*)$/s.exec(line);
  if (argument !== null) {
    const [, value = '', name = '', why = ''] = argument;
    const choices = command.registeredArguments.find((each) => each.name() === name)?.argChoices;
    return choices === undefined ? notValid(name, value, why) : notOneOf(value, choices);
  }
  const invalid = /^option '(\S+)[^']*' argument '(.*)' is invalid\. (.*)$/s.exec(line);
  if (invalid === null) return line;
  const [, flag = '', value = '', why = ''] = invalid;
  const choices = command.options.find(
    ({ short, long }) => flag === long || flag === `${short ?? ''},`,
  )?.argChoices;
  if (choices === undefined) return notValid(flag, value, why);
  return `${flag} ${notOneOf(value, choices)}`;
}

function notValid(what: string, value: string, why: string): string {
  return `${what} ${value} is not valid${why.startsWith('did you mean') ? '; ' : ': '}${why}`;
}

function notOneOf(value: string, choices: readonly string[]): string {
  return `${value} is not one of ${choices.join(', ')}${didYouMean(value, choices)}`;
}

function namesOf(command: Command): string[] {
  // Without hidden commands, which only programs call.
  const visible = command.createHelp().visibleCommands(command);
  return command.commands.filter((child) => visible.includes(child)).map((child) => child.name());
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}
