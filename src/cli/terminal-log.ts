/** Log lines for a person at a terminal: the time, the level where it matters, the sentence, and the facts behind it. */
import { createColors } from 'picocolors';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { LogLevel } from '../core/logger-levels.ts';
import { LOG_LEVELS } from '../core/logger-levels.ts';
import { neutralise } from '../report/neutralise.ts';
import type { CommandContext } from './context.ts';

type Level = Exclude<LogLevel, 'silent'>;

/** Writes lines of at least `least` to the terminal. */
export function terminalLog(
  context: Pick<CommandContext, 'stderr' | 'env' | 'options'>,
  least: LogLevel,
  clock: Pick<Clock, 'now'>,
  carried: Readonly<Record<string, unknown>> = {},
): Logger {
  const isColoured = context.options.color !== false && (context.env['NO_COLOR'] ?? '') === '';
  const colors = createColors(isColoured);
  const paint = { error: colors.red, warn: colors.yellow, info: String, debug: colors.dim } as const;
  const write = (level: Level, facts: Readonly<Record<string, unknown>>, message: string): void => {
    if (LOG_LEVELS.indexOf(level) > LOG_LEVELS.indexOf(least)) return;
    const time = new Date(clock.now()).toTimeString().slice(0, 8);
    const mark = level === 'info' ? '' : `${level}: `;
    const text = Object.entries({ ...carried, ...facts })
      .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
    const line = `${colors.dim(time)} ${paint[level](neutralise(mark + message))} ${colors.dim(neutralise(text))}`;
    context.stderr.write(`${line.trimEnd()}\n`);
  };
  return {
    error: (facts, message) => write('error', facts, message),
    warn: (facts, message) => write('warn', facts, message),
    info: (facts, message) => write('info', facts, message),
    debug: (facts, message) => write('debug', facts, message),
    child: (facts) => terminalLog(context, least, clock, { ...carried, ...facts }),
  };
}
