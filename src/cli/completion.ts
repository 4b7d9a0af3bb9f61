/** `tidemark completion SHELL`: the script that makes a shell ask `tidemark __complete`, and that command. */
import { type ExitCode, EXIT } from '../core/errors.ts';
import type { Shell } from './completion/shells.ts';
import { BASH_SCRIPT, ZSH_SCRIPT, FISH_SCRIPT } from './completion/scripts.ts';
import { type CommandContext, type CommandAction, printDocument } from './context.ts';
import { systemClock } from '../core/clock.ts';
import type { CommandRow } from './command-row.ts';
import { completionOf } from './completion/completion-of.ts';

const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH_SCRIPT, zsh: ZSH_SCRIPT, fish: FISH_SCRIPT };

export async function completion(
  context: CommandContext,
  { shell }: { readonly shell: Shell },
): Promise<ExitCode> {
  await printDocument(context, SCRIPTS[shell]);
  return EXIT.done;
}

/** After it nothing more is begun: the scripts end this process after two seconds, where the system can. */
const BUDGET_MS = 1500;

/**
 * `tidemark __complete -- WORD…`: what may be in the place of the last word. A line for each, its description after a
 * tab; then `:files` or `:directories` where names of those may be too, with what comes before them in the word.
 */
export function complete(
  rows: readonly CommandRow[],
): CommandAction<{ readonly words?: readonly string[]; readonly shell?: Shell }> {
  return async (context, { words = [], shell }) => {
    const started = systemClock.monotonicMs();
    const { candidates, paths } = await completionOf(
      {
        words,
        // The other shells pass words without quotes.
        isQuoted: shell === 'bash',
        env: context.env,
        cwd: context.cwd,
        isLate: () => systemClock.monotonicMs() - started > BUDGET_MS,
      },
      rows,
    );
    const lines = candidates.map(({ value, description }) => `${value}\t${description}`);
    if (paths !== null) lines.push(`:${paths.what}\t${paths.before}`);
    if (lines.length > 0) await printDocument(context, `${lines.join('\n')}\n`);
    return EXIT.done;
  };
}
