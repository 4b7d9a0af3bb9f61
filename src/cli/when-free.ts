/** Opening a mirror that another process may be writing: a command waits for it for a while, and says for whom. */
import type { Config } from '../config/config.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { takeRestoredText } from '../mirror/schema-check.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printLines, printNote, toRun, type CommandContext } from './context.ts';

export interface Wait {
  /** How long the mirror is tried, in milliseconds, and how often. */
  readonly mostMs: number;
  readonly retryMs: number;
  /** What is said of the wait, after the sentence with who holds the mirror; null says nothing. */
  readonly note: string | null;
  /** How long nothing is said. */
  readonly quietMs: number;
  /** What has not happened, where the wait is ended with Ctrl-C. */
  readonly undone: string;
  /** True if there is no use in waiting. */
  readonly isLost?: () => boolean;
}

/**
 * What `open` returns, once no other process holds the mirror.
 * @throws TidemarkError as `open`: `mirror_locked` after the wait; `interrupted` where the wait was ended
 */
export async function whenFree<T>(
  context: Pick<CommandContext, 'signal' | 'stderr' | 'options'>,
  wait: Wait,
  open: () => T,
  clock: Clock = systemClock,
): Promise<T> {
  const beginMs = clock.monotonicMs();
  let isSaid = wait.note === null;
  for (;;) {
    try {
      return open();
    } catch (thrown) {
      const error = asTidemarkError(thrown);
      if (error.code !== 'mirror_locked' || wait.isLost?.() === true) throw thrown;
      const waitedMs = clock.monotonicMs() - beginMs;
      if (waitedMs >= wait.mostMs) {
        throw new TidemarkError(
          error.code,
          `${error.message}; waited ${Math.round(wait.mostMs / 1000)} s for it`,
          { hint: error.hint, isRetryable: error.isRetryable, cause: error },
        );
      }
      if (!isSaid && waitedMs >= wait.quietMs) {
        printNote(context, [`${error.message}: ${wait.note ?? ''}`]);
        isSaid = true;
      }
    }
    try {
      await clock.sleep(wait.retryMs, context.signal);
    } catch (error) {
      throw new TidemarkError('interrupted', `interrupted; ${wait.undone}`, { cause: error });
    }
  }
}

/** A change of a moment in the mirror. A job of the daemon holds it for seconds, or for minutes. */
const CHANGE: Wait = {
  mostMs: 30_000,
  retryMs: 200,
  quietMs: 1_000,
  note: 'waiting for it, for 30 s at most; Ctrl-C ends this',
  undone: 'nothing was changed',
};

/**
 * For a change of a moment, under the lock, by this user or the name given with `--as`; another process that holds the mirror
 * is waited for, for 30 seconds at most.
 * @throws TidemarkError `mirror_missing` if there is none, `mirror_locked` after the wait, and as `openMirror` does
 */
export async function openForChange(
  context: CommandContext,
  config: Config,
  command: string,
  as?: string,
): Promise<Mirror> {
  return await whenFree(context, CHANGE, () =>
    openExistingMirror(context, config, command, commandActor(as)),
  );
}

/**
 * For writing, under the lock, where making an empty mirror would be a mistake.
 * @throws TidemarkError `mirror_missing` if there is none, and as `openMirror` does
 */
export function openExistingMirror(
  context: Pick<CommandContext, 'stderr' | 'options' | 'pid'>,
  config: Config,
  command: string,
  actor: Actor,
): Mirror {
  const mirror = openConfiguredMirror(config, 'write', command, context.pid, actor, false);
  return noteRestoredViews(context, mirror);
}

/** The mirror, after a line on stderr if opening it created again what another program had altered; also with `--quiet`. */
export function noteRestoredViews(
  context: Pick<CommandContext, 'stderr' | 'options'>,
  mirror: Mirror,
): Mirror {
  const text = takeRestoredText(mirror);
  if (text !== null) printLines(context, [toRun(text, context.options)]);
  return mirror;
}
