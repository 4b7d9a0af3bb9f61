/** The side effects of the daemon and of its job processes, and their logging. */
import { hostname } from 'node:os';
import type { Config } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { LOG_LEVELS, type Logger, type LogLevel, type WrittenLevel } from '../core/logger.ts';
import type { DaemonEffects } from '../daemon/effects.ts';
import type { DaemonLockfile } from '../daemon/lockfile.ts';
import { warnOfRestored } from '../mirror/schema-check.ts';
import { openConfiguredMirror, readLoadedConfig } from '../wire.ts';
import { type CommandContext, printLines, printReason } from './context.ts';
import { commandLog } from './source-probe.ts';

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

/** JSON lines, and plain ones on a terminal, and for `--once --quiet` and `sync --quiet`: what these write is mailed by cron. */
export function daemonLog(
  context: CommandContext,
  configured: Config['log']['level'],
  isOnce = false,
): Logger {
  const isQuiet = context.options.quiet === true;
  const least = context.options.logLevel ?? (isQuiet ? 'warn' : configured);
  return isOnce && isQuiet && context.stderr.isTTY !== true
    ? mailLog(context, least)
    : commandLog(context, least);
}

/** As commands print their errors: what it is about, the sentence, and what to do. */
function mailLog(context: CommandContext, least: LogLevel, carried: Record<string, unknown> = {}): Logger {
  const isLevelEnabled = (level: WrittenLevel): boolean =>
    LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
  const write = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (!isLevelEnabled(level)) {
      // A job that is partial as before: an earlier mail has the reason.
      if (facts['outcome'] === 'partial') context.onReasonPrinted?.();
      return;
    }
    const { source, channel, kind, hint, causes } = { ...carried, ...facts };
    const about = [source, channel, kind].filter((each) => typeof each === 'string');
    const [first = '', ...rest] = message.split('\n');
    // Where a failure was mailed, a line that says so again is not needed.
    const printed = level === 'error' || level === 'warn' ? printReason : printLines;
    printed(context, [
      [...(level === 'warn' ? ['warning'] : []), ...about, first].join(': '),
      ...[...rest, ...(Array.isArray(causes) ? causes.map(String) : [])].map((line) => `  ${line}`),
      ...(typeof hint === 'string' ? [`  → ${hint}`] : []),
    ]);
  };
  return {
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    trace: write('trace'),
    isLevelEnabled,
    child: (facts) => mailLog(context, least, { ...carried, ...facts }),
  };
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
