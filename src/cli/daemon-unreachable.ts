/** A daemon that stands in the mirror's directory, and cannot be spoken to. */
import { TidemarkError } from '../core/errors.ts';
import type { PresenceCard } from '../daemon/presence.ts';

export function daemonUnreachable(
  { pid, since }: PresenceCard,
  why: string,
  { cause, hint }: { readonly cause?: unknown; readonly hint?: string } = {},
): TidemarkError {
  return new TidemarkError('unreachable', `the daemon (pid ${pid}, since ${since}) cannot be asked: ${why}`, {
    cause,
    ...(hint === undefined ? {} : { hint }),
  });
}
