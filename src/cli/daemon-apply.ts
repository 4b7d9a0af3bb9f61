/** `tidemark daemon-apply`: the child process in which the daemon applies a plan of the dashboard. Not for users. */
import process from 'node:process';
import type { Actor } from '../core/actor.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import type { ApplyOrder } from '../daemon/http/restores.ts';
import { applySaved } from './apply.ts';
import type { CommandContext } from './context.ts';

/**
 * As `apply --yes`, for whom the daemon names over the channel: how the dashboard knew them is recorded too, which no option sets.
 * @throws TidemarkError `usage` where no daemon has started it
 */
export async function daemonApply(
  context: CommandContext,
  { plan }: { readonly plan: string },
): Promise<ExitCode> {
  if (!process.connected) {
    throw new TidemarkError('usage', 'daemon-apply is what the daemon starts for the dashboard', {
      hint: 'apply a plan with `tidemark apply FILE`',
    });
  }
  const actor = await orderedBy();
  return actor === null ? EXIT.interrupted : await applySaved(context, { plan, yes: true }, actor);
}

/** Null where the daemon ended before it said for whom. */
async function orderedBy(): Promise<Actor | null> {
  return await new Promise((resolve) => {
    process.once('message', ({ actor }: ApplyOrder) => {
      resolve(actor);
      // An open channel would keep this process from exiting.
      process.disconnect();
    });
    process.once('disconnect', () => resolve(null));
  });
}
