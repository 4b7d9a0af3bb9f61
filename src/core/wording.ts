/** Short forms for people: numbers, how many of something, durations, sizes. */

/** 12345 → `12,345`. */
export function count(value: number): string {
  return formatInteger(value);
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

/** Bytes → `12.4 MB`. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function formatInteger(value: number): string {
  return String(value).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}
