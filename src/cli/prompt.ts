/** Questions on a terminal. The one door to @clack/prompts. */
import type { Readable } from 'node:stream';
import { confirm, isCancel } from '@clack/prompts';
import type { CommandContext } from './context.ts';

/**
 * Asks yes or no on stderr, where no is the default.
 * @returns false for no; null where the question was left (Ctrl-C, Escape, or the command was told to end)
 */
export async function askYesNo(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  question: string,
  answers: { readonly yes: string; readonly no: string },
  /** Where the keys come from; the process's own stdin when left out. */
  input?: Readable,
): Promise<boolean | null> {
  const answer = await confirm({
    message: question,
    active: answers.yes,
    inactive: answers.no,
    initialValue: false,
    output: context.stderr,
    signal: context.signal,
    ...(input === undefined ? {} : { input }),
  });
  return isCancel(answer) ? null : answer;
}
