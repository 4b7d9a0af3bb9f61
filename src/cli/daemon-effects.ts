/** The side effects of the daemon and of its job processes, and their logging. */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { DaemonEffects } from '../daemon/effects.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import { warnOfRestored } from '../mirror/schema-check.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { plainLog, serverLog } from './source-probe.ts';

export function daemonEffects(context: CommandContext, log: Logger): DaemonEffects {
  const { pid } = context;
  return {
    clock: systemClock,
    random: Math.random,
    log,
    loadConfig: () => readLoadedConfig(context, context.options, 'required'),
    openMirror: (config, mode, command, actor) =>
      warnOfRestored(openConfiguredMirror(config, mode, command, pid, actor), log),
    // The daemon itself opens none as long as jobs have processes of their own: it need not load HTTP.
    openReadClient: async (...what) => (await import('../wire-client.ts')).openReadClient(...what),
    env: context.env,
    host: hostname(),
    pid,
  };
}

/** JSON lines, and plain ones on a terminal, and for `--once --quiet`: what that writes is mailed by cron. */
export function daemonLog(
  context: CommandContext,
  configured: Config['log']['level'],
  isOnce = false,
): Logger {
  const isQuiet = context.options.quiet === true;
  const least = context.options.logLevel ?? (isQuiet ? 'warn' : configured);
  return isPlainLog(context, isOnce) ? plainLog(context, least) : serverLog(context, least);
}

/** True where the log is plain lines although no terminal reads it. */
export function isPlainLog({ options, stderr }: CommandContext, isOnce: boolean): boolean {
  return isOnce && options.quiet === true && stderr.isTTY !== true;
}

// The error for a running daemon that cannot be asked.

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
