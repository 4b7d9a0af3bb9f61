/** Numbers, counts, durations, sizes and times as short texts for people. */

/** The outcome of a run or a restore as the end of a sentence: `failed`, `is partial`. */
export function outcomeText(outcome: string): string {
  return outcome === 'failed' ? outcome : `is ${outcome}`;
}

/** `1 record`, `2 records`. */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${formatInteger(value)} ${value === 1 ? one : many}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function wordList(words: readonly string[]): string {
  const last = words.at(-1) ?? '';
  return words.length < 2 ? last : `${words.slice(0, -1).join(', ')} and ${last}`;
}

/**
 * The first `most` words: `a, b and 4 more`.
 * @param of how many there are, if `words` are only some of them
 * @param noun of one of the others: `a, b and 4 more cells`
 */
export function firstWords(
  words: readonly string[],
  most: number,
  { of = words.length, noun }: { readonly of?: number; readonly noun?: string } = {},
): string {
  const shown = words.slice(0, most);
  const more = of - shown.length;
  if (more <= 0) return shown.join(', ');
  return `${shown.join(', ')} and ${noun === undefined ? `${formatInteger(more)} more` : plural(more, `more ${noun}`)}`;
}

/** Milliseconds → `0.4 s`, `12 s`, `3 min`, `5 h`, `4 d`; `unknown` if they are not a number. */
export function duration(ms: number): string {
  return inUnits(ms, Math.round);
}

/** The same for an age, which is rounded down (2 h 50 min are `2 h`). */
export function elapsed(ms: number): string {
  return inUnits(ms, Math.floor);
}

function inUnits(ms: number, round: (value: number) => number): string {
  // The time was made invalid by another program.
  if (Number.isNaN(ms)) return 'unknown';
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  // Rounded before the unit is chosen, so that the durations 119.6 s and 120.4 s are both 2 min.
  const [minutes, hours] = [round(seconds / 60), round(seconds / 3600)];
  if (round(seconds) < 120) return `${round(seconds)} s`;
  if (minutes < 120) return `${minutes} min`;
  return hours < 48 ? `${hours} h` : `${round(seconds / 86_400)} d`;
}

/**
 * A duration beyond a limit, and the limit, in units in which they differ: `5 h` and `60 min`, `250 s` and `240 s`.
 * @param text writes durations that differ anyway
 */
export function durationBeyond(ms: number, limitMs: number, text = duration): readonly [string, string] {
  const usual = [text(ms), text(limitMs)] as const;
  if (usual[0] !== usual[1]) return usual;
  for (const [unit, unitMs] of [
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1000],
  ] as const) {
    const round = text === elapsed ? Math.floor : Math.round;
    const [whole, limit] = [round(ms / unitMs), round(limitMs / unitMs)];
    if (whole !== limit) return [`${formatInteger(whole)} ${unit}`, `${formatInteger(limit)} ${unit}`];
  }
  // Rounded apart, since they may differ by less than a second.
  return [`${formatInteger(Math.ceil(ms / 1000))} s`, `${formatInteger(Math.floor(limitMs / 1000))} s`];
}

/** Bytes → `12.4 MB`. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
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

/** A share of 1 → `97.3 %`. Rounded down, so that only 1 is 100 %. */
export function percent(share: number): string {
  // 0.287 * 1000 may be slightly less than 287.
  return `${Math.floor(share * 1000 + 1e-9) / 10} %`;
}

export function formatInteger(value: number): string {
  return String(value).replaceAll(/\B(?=(\d{3})+$)/g, ',');
}

/**
 * A time for people, in the zone of this process (TZ): `2026-03-01T08:00:00+01:00`, in UTC with `Z`. Commands accept it
 * as a reference. A text that is not a time, because another program altered it, stays as it is.
 * @param at ISO 8601
 */
export function localTime(at: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const east = -date.getTimezoneOffset();
  const local = new Date(date.getTime() + east * 60_000).toISOString().slice(0, 19);
  if (east === 0) return `${local}Z`;
  const [hours, minutes] = [Math.trunc(Math.abs(east) / 60), Math.abs(east) % 60];
  return `${local}${east < 0 ? '-' : '+'}${twoDigits(hours)}:${twoDigits(minutes)}`;
}

/** A stored text, in which times (ISO 8601 in UTC) are replaced by `localTime`, since its writer had another zone. */
export function withLocalTimes(text: string): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (at) => localTime(at));
}

/** The same to the minute, for columns: `2026-03-01 08:00`. */
export function localMinute(at: string): string {
  const text = localTime(at);
  return Number.isNaN(Date.parse(text)) ? text : text.slice(0, 16).replace('T', ' ');
}

function twoDigits(value: number): string {
  return String(value).padStart(2, '0');
}
