/** Opens a mirror that another process may be writing: waits for a while, with a note that names the process. */
import type { Config } from '../config/config.ts';
import { type Actor, commandActor } from '../core/actor.ts';
import { type Clock, systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { takeRestoredText } from '../mirror/schema-check.ts';
import { openConfiguredMirror } from '../wire.ts';
import { printLines, printNote, toRun, type CommandContext } from './context.ts';

export interface Wait {
  /** How long to wait at most, in milliseconds. */
  readonly mostMs: number;
  readonly retryMs: number;
  /** The rest of the note, after who holds the mirror; null for no note. */
  readonly note: string | null;
  /** How long to wait before the note is printed, in milliseconds. */
  readonly quietMs: number;
  /** What has not happened if the user ends the wait with Ctrl-C. */
  readonly undone: string;
  /** True if it is of no use to wait. */
  readonly isLost?: () => boolean;
}

/**
 * Calls `open` until no other process holds the mirror, and returns the result.
 * @throws TidemarkError as `open`: `mirror_locked` only after the wait; `interrupted` if the user ended the wait
 */
export async function whenFree<T>(
  context: Pick<CommandContext, 'signal' | 'stderr' | 'options'>,
  wait: Wait,
  open: () => T,
  clock: Clock = systemClock,
): Promise<T> {
  const beginMs = clock.monotonicMs();
  let isNoted = wait.note === null;
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
      if (!isNoted && waitedMs >= wait.quietMs) {
        printNote(context, [`${error.message}: ${wait.note ?? ''}`]);
        isNoted = true;
      }
    }
    try {
      await clock.sleep(wait.retryMs, context.signal);
    } catch (error) {
      throw new TidemarkError('interrupted', `interrupted; ${wait.undone}`, { cause: error });
    }
  }
}

/** For short changes. A job of the daemon holds the mirror for seconds or minutes. */
const CHANGE: Wait = {
  mostMs: 30_000,
  retryMs: 200,
  quietMs: 1_000,
  note: 'waiting for it, for 30 s at most; Ctrl-C ends this',
  undone: 'nothing was changed',
};

/**
 * Opens the mirror for a short change, with the writer lock, by this user or the name given with `--as`. Waits up to 30 seconds
 * for another process.
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
 * Opens an existing mirror for writing, with the writer lock; never creates one.
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

/** Prints a line, also with `--quiet`, if opening the mirror recreated views that another program had altered. Returns the mirror. */
export function noteRestoredViews(
  context: Pick<CommandContext, 'stderr' | 'options'>,
  mirror: Mirror,
): Mirror {
  const text = takeRestoredText(mirror);
  if (text !== null) printLines(context, [toRun(text, context.options)]);
  return mirror;
}
