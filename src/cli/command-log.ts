/** The logs of commands and of servers, on stderr. */
import { createColors } from 'picocolors';
import { systemClock } from '../core/clock.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import {
  createLogger,
  LOG_LEVELS,
  type Logger,
  loggerOf,
  type LogLevel,
  silentLogger,
  type WrittenLevel,
} from '../core/logger.ts';
import { type CommandContext, printLines, printReason } from './context.ts';

type LogContext = Pick<CommandContext, 'stderr' | 'env' | 'options' | 'onReasonPrinted' | 'ofSeveral'>;

/**
 * The log of a command other than a server: warnings for a person, also if stderr is not a terminal. With `--log-level`, the
 * same as `serverLog`.
 * @param level the level without `--log-level`
 */
export function commandLog(context: LogContext, level: LogLevel = 'warn'): Logger {
  const { options, stderr } = context;
  return options.logLevel === undefined && level !== 'silent' && stderr.isTTY !== true
    ? // Only with --quiet, a warning counts as the reason of the exit code: otherwise the report has the reason.
      plainLog(options.quiet === true ? context : { stderr, env: context.env, options }, level)
    : serverLog(context, level);
}

/** The log of a server: lines for a person on a terminal, JSON lines elsewhere. */
export function serverLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  level: LogLevel = 'warn',
): Logger {
  const least = context.options.logLevel ?? level;
  if (least === 'silent') return silentLogger;
  return context.stderr.isTTY === true ? terminalLog(context, least) : createLogger(least, context.stderr);
}

/** True if lines of `level` are written when `least` is set. */
function isAtLeast(level: WrittenLevel, least: LogLevel): boolean {
  return LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
}

/** Writes lines of at least `least` to the terminal: the time, the level unless it is info, the message, and the facts. */
function terminalLog(
  { stderr, env, options }: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  least: LogLevel,
): Logger {
  const colors = createColors(options.color !== false && (env['NO_COLOR'] ?? '') === '');
  const paint = {
    error: colors.red,
    warn: colors.yellow,
    info: String,
    debug: colors.dim,
    trace: colors.dim,
  } as const;
  const isWritten = (level: WrittenLevel): boolean => isAtLeast(level, least);
  return loggerOf((level, facts, message) => {
    if (!isWritten(level)) return;
    const time = new Date(systemClock.now()).toTimeString().slice(0, 8);
    const mark = level === 'info' ? '' : `${level}: `;
    const text = Object.entries(facts)
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
    const line = `${colors.dim(time)} ${paint[level](escapeControlCharacters(mark + message))} ${colors.dim(escapeControlCharacters(text))}`;
    stderr.write(`${line.trimEnd()}\n`);
  }, isWritten);
}

/** Writes lines in the form of a command's errors: the source, the message, and what to do. */
export function plainLog(context: LogContext, least: LogLevel): Logger {
  const isWritten = (level: WrittenLevel): boolean => isAtLeast(level, least);
  return loggerOf((level, { source, channel, kind, hint, causes, outcome }, message) => {
    if (!isWritten(level)) {
      // A job that is partial for the same reason as before: an earlier mail has the reason.
      if (outcome === 'partial') context.onReasonPrinted?.();
      return;
    }
    const about = [source, channel, kind].filter((each) => typeof each === 'string');
    const [first = '', ...rest] = message.split('\n');
    // An error or a warning counts as the reason of the exit code, which is then not printed again.
    const printTo = level === 'error' || level === 'warn' ? printReason : printLines;
    printTo(context, [
      [...(level === 'warn' ? ['warning'] : []), ...about, first].join(': '),
      ...[...rest, ...(Array.isArray(causes) ? causes.map(String) : [])].map((line) => `  ${line}`),
      ...(typeof hint === 'string' ? [`  → ${hint}`] : []),
    ]);
  }, isWritten);
}

/** A logger for a terminal that shows bars: calls `clear` before each line that is written. */
export function loggingAbove(log: Logger, clear: () => void): Logger {
  return loggerOf(
    (level, facts, message) => {
      if (log.isLevelEnabled(level)) clear();
      log[level](facts, message);
    },
    (level) => log.isLevelEnabled(level),
  );
}
