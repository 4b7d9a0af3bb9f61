/** This machine's half of the examination: the mirror opened for reading, where it can be. */
import { hostname } from 'node:os';
import { existsSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, type TidemarkError } from '../core/errors.ts';
import { mirrorHealth, type MirrorHealth } from '../doctor/mirror-health.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';
import type { CommandContext } from './context.ts';

/** The mirror for reading; null where there is none or it cannot be opened, with the reason. The caller closes it. */
export function openToInspect(
  context: CommandContext,
  config: Config,
  command: string,
): { readonly mirror: Mirror | null; readonly error: TidemarkError | null } {
  if (!existsSync(config.mirror)) return { mirror: null, error: null };
  try {
    return { mirror: openConfiguredMirror(config, 'read', command, context.pid), error: null };
  } catch (error) {
    return { mirror: null, error: asTidemarkError(error) };
  }
}

export function inspectMirror(
  context: CommandContext,
  config: Config,
  opened: { readonly mirror: Mirror | null; readonly error: TidemarkError | null },
): MirrorHealth {
  return mirrorHealth({
    config,
    ...opened,
    now: systemClock.now(),
    looker: { pid: context.pid, host: hostname() },
  });
}
