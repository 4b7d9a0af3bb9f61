/** What the daemon and its job processes use from outside, and how they log; and how other processes find the daemon. */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { DaemonEffects } from '../daemon/effects.ts';
import { type DaemonLockfile, findDaemon } from '../daemon/lockfile.ts';
import { warnOfRestored } from '../mirror/schema-check.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import type { CommandContext } from './context.ts';
import { plainLog, serverLog } from './command-log.ts';

export function daemonEffects(context: CommandContext, log: Logger): DaemonEffects {
  const { pid } = context;
  return {
    clock: systemClock,
    random: Math.random,
    log,
    loadConfig: () => readLoadedConfig(context, context.options, 'required'),
    openMirror: (config, mode, command, actor) =>
      warnOfRestored(openConfiguredMirror(config, mode, command, pid, actor), log),
    // Loaded when used: the daemon itself needs no HTTP client as long as its jobs have their own processes.
    openReadClient: async (...what) => (await import('../wire-client.ts')).openReadClient(...what),
    env: context.env,
    host: hostname(),
    pid,
  };
}

/** Logs JSON lines; plain ones on a terminal, and for `--once --quiet`, whose output cron mails. */
export function daemonLog(
  context: CommandContext,
  configured: Config['log']['level'],
  isOnce = false,
): Logger {
  const isQuiet = context.options.quiet === true;
  const least = context.options.logLevel ?? (isQuiet ? 'warn' : configured);
  return isPlainLog(context, isOnce) ? plainLog(context, least) : serverLog(context, least);
}

/** True if the log is plain lines although stderr is not a terminal. */
export function isPlainLog({ options, stderr }: CommandContext, isOnce: boolean): boolean {
  return isOnce && options.quiet === true && stderr.isTTY !== true;
}

/** The daemon that runs on this mirror; null if this process finds none. */
export function daemonOf({ pid }: Pick<CommandContext, 'pid'>, mirror: string): DaemonLockfile | null {
  return findDaemon(mirror, { pid, host: hostname(), now: systemClock.now() });
}

/** The error for a running daemon that cannot be asked. */
export function daemonUnreachable(
  { pid, since }: DaemonLockfile,
  why: string,
  details: { readonly cause?: unknown; readonly hint?: string } = {},
): TidemarkError {
  const message = `the daemon (pid ${pid}, since ${since}) cannot be asked: ${why}`;
  return new TidemarkError('unreachable', message, details);
}
