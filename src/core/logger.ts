/** The only user of pino: JSON lines on stderr, so that stdout has results only. */
import pino from 'pino';

/** A logger: each line has facts and one short sentence. */
export interface Logger extends Record<
  WrittenLevel,
  (facts: Record<string, unknown>, message: string) => void
> {
  /** To be called before facts are gathered for such a line only, so that lines that are not written cost nothing. */
  isLevelEnabled(level: WrittenLevel): boolean;
  /** A logger that adds these facts to every line. */
  child(facts: Record<string, unknown>): Logger;
}

/** A logger that writes JSON lines of at least `level` to the stream (stderr). */
export function createLogger(level: LogLevel, stream: { write(line: string): unknown }): Logger {
  const log = pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream);
  return loggerOf(
    (at, facts, message) => log[at](facts, message),
    (at) => log.isLevelEnabled(at),
  );
}

/**
 * A logger that hands every line to `write`, which decides whether it is written. A fact of a line replaces the added one of the
 * same name: the child loggers of pino would write both.
 */
export function loggerOf(
  write: (level: WrittenLevel, facts: Record<string, unknown>, message: string) => void,
  isLevelEnabled: (level: WrittenLevel) => boolean,
  added: Readonly<Record<string, unknown>> = {},
): Logger {
  const at = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) =>
    write(level, { ...added, ...facts }, message);
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    trace: at('trace'),
    isLevelEnabled,
    child: (facts) => loggerOf(write, isLevelEnabled, { ...added, ...facts }),
  };
}

/** A logger that writes nothing. */
export const silentLogger: Logger = loggerOf(
  () => undefined,
  () => false,
);

/** The log levels, from the fewest lines to the most. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
/** The level of a line. */
export type WrittenLevel = Exclude<LogLevel, 'silent'>;

/** True for the levels with which people look for a cause. */
export function isDetailed(level: LogLevel | undefined): boolean {
  return level === 'debug' || level === 'trace';
}
