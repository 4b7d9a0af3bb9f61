/** Short forms for people: numbers, sizes, durations, ages. */
import { grouped } from '../../core/grouped.ts';

/** 12345 → `12,345`. */
export function count(value: number): string {
  return grouped(value);
}

/** `1 record`, `2 records`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Milliseconds → `0.4 s`, `12 s`, `3 min`, `5 h`, `4 d`. */
export function duration(ms: number): string {
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  const minutes = seconds / 60;
  if (minutes < 120) return `${minutes.toFixed(0)} min`;
  const hours = minutes / 60;
  return hours < 48 ? `${hours.toFixed(0)} h` : `${(hours / 24).toFixed(0)} d`;
}

/** How long ago, or ahead, an ISO 8601 time is: `just now`, `3 min ago`, `in 5 h`. */
export function age(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at);
  if (Math.abs(ms) < 10_000) return 'just now';
  return ms < 0 ? `in ${duration(-ms)}` : `${duration(ms)} ago`;
}

/** Bytes → `812 B`, `3.4 MB`. */
export function byteSize(bytes: number): string {
  const [unit, size] = (
    [
      ['GB', 1e9],
      ['MB', 1e6],
      ['kB', 1e3],
    ] as const
  ).find(([, each]) => bytes >= each) ?? ['B', 1];
  return `${size === 1 ? bytes : (bytes / size).toFixed(1)} ${unit}`;
}

/** How long a run or job took; null while it has not ended. */
export function tookMs({
  startedAt,
  finishedAt,
}: {
  readonly startedAt: string;
  readonly finishedAt: string | null;
}): number | null {
  // A clock that stepped back makes no run end before it began.
  return finishedAt === null ? null : Math.max(Date.parse(finishedAt) - Date.parse(startedAt), 0);
}
