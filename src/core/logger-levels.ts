/** The log levels, apart from the logger itself: the command line names them without loading it. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug', 'trace'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];
/** The level of a line. */
export type WrittenLevel = Exclude<LogLevel, 'silent'>;

/** True for the levels of those who look for a cause. */
export function isDetailed(level: LogLevel | undefined): boolean {
  return level === 'debug' || level === 'trace';
}
