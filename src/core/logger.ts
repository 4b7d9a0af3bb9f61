/** The only user of pino: JSON lines on stderr, so that stdout has results only. */
import pino from 'pino';

/** A logger: each line has facts and one short sentence. */
export interface Logger {
  error(facts: Record<string, unknown>, message: string): void;
  warn(facts: Record<string, unknown>, message: string): void;
  info(facts: Record<string, unknown>, message: string): void;
  debug(facts: Record<string, unknown>, message: string): void;
  trace(facts: Record<string, unknown>, message: string): void;
  /** To be called before facts are gathered for such a line only, so that lines that are not written cost nothing. */
  isLevelEnabled(level: WrittenLevel): boolean;
  /** A logger that adds these facts to every line. */
  child(facts: Record<string, unknown>): Logger;
}

/** A logger that writes JSON lines of at least `level` to the stream (stderr). */
export function createLogger(level: LogLevel, stream: { write(line: string): unknown }): Logger {
  return carrying(pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime }, stream), {});
}

/** A fact of a line replaces the added one of the same name. pino's own children would write both. */
function carrying(log: pino.Logger, carried: Record<string, unknown>): Logger {
  const write = (level: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (log.isLevelEnabled(level)) log[level]({ ...carried, ...facts }, message);
  };
  return {
    error: write('error'),
    warn: write('warn'),
    info: write('info'),
    debug: write('debug'),
    trace: write('trace'),
    isLevelEnabled: (level) => log.isLevelEnabled(level),
    child: (facts) => carrying(log, { ...carried, ...facts }),
  };
}

const ignore = (): void => undefined;
/** A logger that writes nothing. */
export const silentLogger: Logger = {
  error: ignore,
  warn: ignore,
  info: ignore,
  debug: ignore,
  trace: ignore,
  isLevelEnabled: () => false,
  child: () => silentLogger,
};

/** The log levels, in a module without pino, so that the command line can list them without loading it. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
/** The level of a line. */
export type WrittenLevel = Exclude<LogLevel, 'silent'>;

/** True for the levels with which people look for a cause. */
export function isDetailed(level: LogLevel | undefined): boolean {
  return level === 'debug' || level === 'trace';
}
