/** A daemon that stands in the mirror's directory, and cannot be spoken to. */
import { TidemarkError } from '../core/errors.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';

export function daemonUnreachable(
  { pid, since }: DaemonLockfile,
  why: string,
  { cause, hint }: { readonly cause?: unknown; readonly hint?: string } = {},
): TidemarkError {
  return new TidemarkError('unreachable', `the daemon (pid ${pid}, since ${since}) cannot be asked: ${why}`, {
    cause,
    ...(hint === undefined ? {} : { hint }),
  });
}
