/** The pause and the reduced rate after a 429, shared by all processes in the rate log beside the mirror; and the waits that follow from that log. */
import { existsSync } from 'node:fs';
import type { SourceConfig } from '../config/config.ts';
import { keyFingerprint } from '../config/source.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { localTime } from '../core/wording.ts';
import { limitId, rateLogPath, readLog, readStarts, SharedRateLog } from './rate-log.ts';

/** As for `SharedRateLog`. */
interface KeptThrottleOptions {
  readonly beside: string;
  readonly before: string | null;
  readonly fingerprint: string;
  readonly clock: Clock;
}

/** For a key without a limit of requests, whose starts are not logged. Implements the client's `KeptThrottle`. */
export class SharedThrottle {
  readonly #options: KeptThrottleOptions;

  constructor(options: KeptThrottleOptions) {
    this.#options = options;
  }

  /** What any process wrote last; null if nothing can be read. */
  read(): string | null {
    const { beside, before, fingerprint } = this.#options;
    const isBefore = before !== null && existsSync(rateLogPath(before));
    return readThrottle(isBefore ? before : beside, fingerprint);
  }

  /** @throws TidemarkError if the file cannot be written */
  write(text: string): void {
    const log = new SharedRateLog({ ...this.#options, keeps: 0 });
    try {
      log.atomically(() => log.writeThrottle(text));
    } finally {
      log.close();
    }
  }
}

function readThrottle(beside: string, fingerprint: string): string | null {
  return readLog(beside, (connection) => {
    const text = connection.prepare<[number], string>('SELECT text FROM pace WHERE limit_id = ?').pluck();
    return text.get(limitId(fingerprint, null)) ?? null;
  });
}

interface LogPlace {
  readonly beside: string;
  readonly clock: Clock;
}

const HOUR_MS = 3_600_000;

/**
 * Why a request with that key would wait for longer than `mostWaitMs`, by the log beside that path: the service asked to wait
 * (`isAsked`), or `rate.perHour` is used up; with the time when it may start (epoch milliseconds). Null if it would not.
 */
export function longWait(
  source: Pick<SourceConfig, 'baseUrl' | 'apiKey' | 'rate'>,
  {
    beside,
    clock,
    mostWaitMs,
    ignoresPause = false,
  }: LogPlace & { readonly mostWaitMs: number; readonly ignoresPause?: boolean | undefined },
): { readonly freeAt: number; readonly what: string; readonly isAsked: boolean } | null {
  const now = clock.now();
  const fingerprint = keyFingerprint(source);
  const pausedUntil = pauseIn(readThrottle(beside, fingerprint), now);
  if (!ignoresPause && pausedUntil - now > mostWaitMs) {
    const what = `the service asked to wait until ${localTime(isoTime(pausedUntil))} (429 or 503)`;
    return { freeAt: pausedUntil, what, isAsked: true };
  }
  const { perHour } = source.rate;
  if (perHour === 0) return null;
  const start = readStarts({ beside, fingerprint, clock }, null).at(-perHour);
  if (start === undefined || start + HOUR_MS - now <= mostWaitMs) return null;
  const freeAt = start + HOUR_MS;
  const what = `rate.perHour is used up until ${localTime(isoTime(freeAt)).slice(11)}`;
  return { freeAt, what, isAsked: false };
}

/**
 * Ends the pause that the service asked for; the rate stays reduced.
 * @throws TidemarkError if the file cannot be written
 */
export function endPause(source: Pick<SourceConfig, 'baseUrl' | 'apiKey'>, place: LogPlace): void {
  const fingerprint = keyFingerprint(source);
  const now = place.clock.now();
  const text = readThrottle(place.beside, fingerprint);
  if (text === null || pauseIn(text, now) <= now) return;
  const throttle = JSON.stringify({ ...(JSON.parse(text) as object), pausedUntil: now });
  new SharedThrottle({ ...place, before: null, fingerprint }).write(throttle);
}

/** The end of the pause, epoch milliseconds; 0 if the text has none. */
function pauseIn(text: string | null, now: number): number {
  try {
    const { pausedUntil, refusedAt } = (JSON.parse(text ?? '{}') ?? {}) as Record<string, unknown>;
    // If the clock was set back meanwhile, count the pause from now.
    const until = Number(pausedUntil) - Math.max(0, Number(refusedAt) - now);
    return Number.isFinite(until) ? until : 0;
  } catch (error) {
    // A damaged file.
    if (error instanceof SyntaxError) return 0;
    throw error;
  }
}
