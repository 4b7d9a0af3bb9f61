/** Warns that a command which shows records cannot mask API keys in them, because it could not read these keys. */
import type { Config } from '../config/config.ts';
import type { KeyNeed } from '../config/checking.ts';
import { readConfig } from '../wire.ts';
import { type CommandContext, printNote } from './context.ts';

/** Like `readConfig`, for a command that shows records: prints the warning. */
export function readConfigToShow(context: CommandContext, keys: KeyNeed = 'unused'): Config {
  const config = readConfig(context, context.options, keys);
  noteUnmaskedKeys(context, config);
  return config;
}

/** Prints a line for each key file that could not be read; with several mirrors, only for the first. */
export function noteUnmaskedKeys(context: CommandContext, { unmasked }: Pick<Config, 'unmasked'>): void {
  if (context.ofSeveral?.isFirst === false) return;
  printNote(
    context,
    unmasked.map(
      (problem) =>
        `warning: the API key could not be read (${problem}): values of records that are equal to it are not masked; ` +
        'correct apiKeyFile, or run this as a user who may read that file',
    ),
  );
}
