/** `tidemark daemon-job`: the child process that the daemon starts for each job. Not for users. */
import process from 'node:process';
import { fromErrorMessage } from '../core/child-process.ts';
import { afterRealTime } from '../core/clock.ts';
import { EXIT, TidemarkError, type ExitCode } from '../core/errors.ts';
import { performOrder } from '../daemon/jobs/child-job.ts';
import type { ToChild, ToDaemon } from '../daemon/jobs/executor.ts';
import { backupWork, jobWorks } from '../daemon/jobs/job-table.ts';
import { recentRequests } from '../wire-client.ts';
import { readConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { daemonEffects, daemonLog } from './daemon-effects.ts';

/** Time for a job to stop after its daemon has ended; then the process exits. */
const ORPHAN_MS = 5_000;

/**
 * Runs the job that it receives over the channel, sends the result, and exits once the daemon has received it.
 * @throws TidemarkError `usage` unless a daemon started it
 */
export async function daemonJob(
  context: CommandContext,
  { once = false }: { readonly once?: boolean },
): Promise<ExitCode> {
  if (!process.connected) {
    throw new TidemarkError('usage', 'daemon-job is what the daemon starts for its jobs', {
      hint: 'run `tidemark daemon`, or the job itself: `tidemark sync`, `tidemark drift`, `tidemark verify`',
    });
  }
  // A terminal sends its signals to both processes, and the daemon stops the job. (A second signal ends this process too.)
  context.onHangup?.(() => undefined);
  const stop = new AbortController();
  const giveUp = (reason: TidemarkError | null = null): void =>
    stop.abort(reason ?? new TidemarkError('interrupted', 'the daemon was stopped'));
  let isDone = false;
  const gone = new Promise<void>((resolve) => {
    process.once('disconnect', () => {
      giveUp();
      if (!isDone) afterRealTime(ORPHAN_MS, () => context.leave?.(EXIT.interrupted));
      resolve();
    });
  });
  const order = await new Promise<Extract<ToChild, { type: 'order' }> | null>((resolve) => {
    process.on('message', (message: ToChild) => {
      if (message.type === 'order') resolve(message);
      else giveUp(message.reason === null ? null : fromErrorMessage(message.reason));
    });
    void gone.then(() => resolve(null));
  });
  if (order === null) return EXIT.interrupted;
  await performOrder(order, {
    effects: (config) => daemonEffects(context, daemonLog(context, config.log.level, once)),
    loadConfig: () => readConfig(context, context.options),
    works: jobWorks(backupWork(context.env)),
    recentRequests,
    send,
    signal: stop.signal,
  });
  isDone = true;
  await gone;
  return EXIT.done;
}

function send(message: ToDaemon): void {
  // The callback ignores the error if the daemon has ended.
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}
