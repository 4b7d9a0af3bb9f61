/** Log lines on a terminal that shows bars: the bars make way, and come back below. */
import type { Logger } from '../core/logger.ts';
import { LOG_LEVELS, type LogLevel, type WrittenLevel } from '../core/logger-levels.ts';

/** The logger, which first calls `clear` for every line that `level` lets through. */
export function loggingAbove(log: Logger, level: LogLevel, clear: () => void): Logger {
  const through = (at: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (LOG_LEVELS.indexOf(at) <= LOG_LEVELS.indexOf(level)) clear();
    log[at](facts, message);
  };
  return {
    error: through('error'),
    warn: through('warn'),
    info: through('info'),
    debug: through('debug'),
    trace: through('trace'),
    isLevelEnabled: (at) => log.isLevelEnabled(at),
    child: (facts) => loggingAbove(log.child(facts), level, clear),
  };
}
