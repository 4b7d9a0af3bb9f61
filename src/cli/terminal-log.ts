/** Log lines for a person at a terminal: the time, the level where it matters, the sentence, and the facts behind it. */
import { createColors } from 'picocolors';
import { systemClock, type Clock } from '../core/clock.ts';
import { type Logger, createLogger, silentLogger } from '../core/logger.ts';
import { type LogLevel, type WrittenLevel, LOG_LEVELS } from '../core/logger-levels.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import type { CommandContext } from './context.ts';

/** The log of a command: lines for a person at a terminal, JSON lines elsewhere. `level`: where the command line says none. */
export function commandLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  level: LogLevel = 'warn',
): Logger {
  const least = context.options.logLevel ?? level;
  if (least === 'silent') return silentLogger;
  return context.stderr.isTTY === true
    ? terminalLog(context, least, systemClock)
    : createLogger(least, context.stderr);
}

/** Writes lines of at least `least` to the terminal. */
function terminalLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  least: LogLevel,
  clock: Pick<Clock, 'now'>,
  carried: Readonly<Record<string, unknown>> = {},
): Logger {
  const isColoured = context.options.color !== false && (context.env['NO_COLOR'] ?? '') === '';
  const colors = createColors(isColoured);
  const paint = {
    error: colors.red,
    warn: colors.yellow,
    info: String,
    debug: colors.dim,
    trace: colors.dim,
  } as const;
  const isEnabled = (level: WrittenLevel): boolean => LOG_LEVELS.indexOf(level) <= LOG_LEVELS.indexOf(least);
  const write = (level: WrittenLevel, facts: Readonly<Record<string, unknown>>, message: string): void => {
    if (!isEnabled(level)) return;
    const time = new Date(clock.now()).toTimeString().slice(0, 8);
    const mark = level === 'info' ? '' : `${level}: `;
    const text = Object.entries({ ...carried, ...facts })
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
    const line = `${colors.dim(time)} ${paint[level](escapeControlCharacters(mark + message))} ${colors.dim(escapeControlCharacters(text))}`;
    context.stderr.write(`${line.trimEnd()}\n`);
  };
  return {
    error: (facts, message) => write('error', facts, message),
    warn: (facts, message) => write('warn', facts, message),
    info: (facts, message) => write('info', facts, message),
    debug: (facts, message) => write('debug', facts, message),
    trace: (facts, message) => write('trace', facts, message),
    isLevelEnabled: isEnabled,
    child: (facts) => terminalLog(context, least, clock, { ...carried, ...facts }),
  };
}
