/** The retention rules, as options name them and as they are applied to runs. */
import type { RetentionPolicy } from './config.ts';

/** As the configuration and the command line name them. */
export interface KeepOptions {
  readonly keepLast?: number | undefined;
  readonly keepHourly?: number | undefined;
  readonly keepDaily?: number | undefined;
  readonly keepWeekly?: number | undefined;
  readonly keepMonthly?: number | undefined;
  readonly keepYearly?: number | undefined;
  /** Milliseconds. */
  readonly keepWithin?: number | undefined;
}

/** The rules that were given, and no others; empty where there is none. */
export function retentionOf(options: KeepOptions): RetentionPolicy {
  const { keepLast, keepHourly, keepDaily, keepWeekly, keepMonthly, keepYearly, keepWithin } = options;
  return {
    ...(keepLast === undefined ? {} : { last: keepLast }),
    ...(keepHourly === undefined ? {} : { hourly: keepHourly }),
    ...(keepDaily === undefined ? {} : { daily: keepDaily }),
    ...(keepWeekly === undefined ? {} : { weekly: keepWeekly }),
    ...(keepMonthly === undefined ? {} : { monthly: keepMonthly }),
    ...(keepYearly === undefined ? {} : { yearly: keepYearly }),
    ...(keepWithin === undefined ? {} : { withinMs: keepWithin }),
  };
}
