/**
 * `tidemark __complete -- WORD…`: what may stand in the place of the last word. A line for each, its description after a
 * tab; then `:files` or `:directories` where names of those may stand too, with what comes before them in the word.
 */
import { systemClock } from '../core/clock.ts';
import { EXIT, type ExitCode } from '../core/errors.ts';
import { COMMANDS } from './command-table.ts';
import type { Shell } from './command-table.ts';
import { completionOf } from './completion/completion-of.ts';
import { print, type CommandContext } from './context.ts';

/** After it nothing more is begun: the scripts end this process after two seconds, where the system can. */
const BUDGET_MS = 1500;

export async function complete(
  context: CommandContext,
  { words = [], shell }: { readonly words?: readonly string[]; readonly shell?: Shell },
): Promise<ExitCode> {
  const started = systemClock.monotonicMs();
  const { candidates, paths } = await completionOf(
    {
      words,
      // The others hand over what the words mean.
      isQuoted: shell === 'bash',
      env: context.env,
      cwd: context.cwd,
      isLate: () => systemClock.monotonicMs() - started > BUDGET_MS,
    },
    COMMANDS,
  );
  const lines = candidates.map(({ value, description }) => `${value}\t${description}`);
  if (paths !== null) lines.push(`:${paths.what}\t${paths.before}`);
  if (lines.length > 0) await print(context, `${lines.join('\n')}\n`);
  return EXIT.done;
}
