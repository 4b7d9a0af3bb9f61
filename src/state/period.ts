/** A chosen period of the mirror's history: from a reference, a time or an age, up to another or now. */
import { isoTime } from '../core/clock.ts';
import { defined } from '../core/defined.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { PlanlessRestore } from '../mirror/restores.ts';
import { restoreNow } from '../mirror/unfinished-restore.ts';
import { resolvedStateOf } from './resolved-state.ts';
import { OF_MIRROR, parseReference } from './reference.ts';

/** One end of a period. */
interface Bound {
  /** ISO 8601 in UTC; empty for the beginning of the mirror. */
  readonly at: string;
  /** Given if the user named a run: runs are compared with it by number, since two can end in the same millisecond. */
  readonly run?: number;
  /** Given if the user named a time: the first instant that the text means. */
  readonly firstAt?: string;
  readonly note?: string;
}

export interface Period {
  readonly since: Bound;
  readonly until: Bound;
  /** What was assumed about the texts, for stderr. */
  readonly notes: readonly string[];
}

interface PeriodChoice {
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  /** By default all sources. */
  readonly sources?: readonly string[] | undefined;
}

/**
 * The period between two texts: references to states of the mirror, times, or ages (`7d`, `24h`). By default it is from the
 * beginning of the mirror to now.
 * @throws TidemarkError `usage` if it ends before it begins, and for `run:-1` if several sources have different ones; what
 * `resolveState` throws for any other text
 */
export function choosePeriod(mirror: Mirror, { since, until, sources }: PeriodChoice, nowMs: number): Period {
  const chosen = { sources, nowMs };
  const begin = since === undefined ? { at: '' } : bound(mirror, since, 'since', chosen);
  const to = until === undefined ? { at: isoTime(nowMs) } : bound(mirror, until, 'until', chosen);
  // The same text for both ends means that second or millisecond, not an empty period after it.
  const { firstAt = begin.at } = begin;
  const from = begin.at > to.at && firstAt <= to.at ? { ...begin, at: firstAt } : begin;
  if (from.at > to.at) {
    throw new TidemarkError('usage', `the period ends before it begins: ${from.at} to ${to.at}`, {
      hint: 'give the earlier one as the beginning and the later one as the end',
    });
  }
  return {
    since: from,
    until: to,
    notes: [from.note, to.note].filter((note) => note !== undefined),
  };
}

/** True if the time is within the period. @param run the run that ended at that time, if one did */
export function isWithin(
  { since, until }: Pick<Period, 'since' | 'until'>,
  at: string,
  run?: number,
): boolean {
  const isAfter = run === undefined || since.run === undefined ? at >= since.at : run > since.run;
  const isBefore = run === undefined || until.run === undefined ? at <= until.at : run <= until.run;
  return isAfter && isBefore;
}

/**
 * The restores and undos of these sources that began or ended within the period, oldest first. Not to be called within
 * `atOnce`.
 */
export function restoresWithin(
  mirror: Mirror,
  { period, sources }: { readonly period: Period; readonly sources: readonly string[] },
): PlanlessRestore[] {
  const { since, until } = period;
  return [...new Set(sources)]
    .flatMap((source) => mirror.restores.between(source, since.at, until.at))
    .filter(({ startedAt, finishedAt }) =>
      [startedAt, finishedAt].some((at) => at !== null && isWithin(period, at)),
    )
    .map((row) => {
      const running = row.outcome === 'running' ? mirror.restores.get(row.restore) : undefined;
      return running === undefined ? row : restoreNow(mirror, running);
    })
    .sort((one, other) => one.restore - other.restore);
}

function bound(
  mirror: Mirror,
  text: string,
  side: 'since' | 'until',
  { sources, nowMs }: { readonly sources: readonly string[] | undefined; readonly nowMs: number },
): Bound {
  const snapshots = (): string[] => mirror.snapshots.list().map(({ name }) => name);
  const reference = parseReference(text, nowMs, { ...OF_MIRROR, snapshots });
  // No run has to exist at or before a time: the period may begin before the mirror.
  if (reference.form === 'time') {
    const { at: end, beginsAt, firstAt, note } = reference;
    const at = side === 'since' ? beginsAt : end;
    // An age counts from any millisecond: it is rounded to a second, so that the period can be shown and requested again.
    const isExact = beginsAt !== firstAt;
    return { at: isExact ? at : toSecond(at, side), firstAt, ...defined({ note }) };
  }
  const choice = reference.form === 'earlier_run' ? onlySource(mirror, text, sources) : {};
  const { at, run } = resolvedStateOf(mirror, reference, choice);
  return { at, run };
}

/** The start of the second for the beginning of a period, the end of the second for its end; a full minute stays. */
function toSecond(at: string, side: 'since' | 'until'): string {
  const second = Math.floor(Date.parse(at) / 1000) * 1000;
  return isoTime(side === 'since' || isMinute(at) ? second : second + 999);
}

function isMinute(at: string): boolean {
  return Date.parse(at) % 60_000 === 0;
}

/**
 * Both ends as texts that name the same period again. A time to the minute means its start; a time with seconds or
 * milliseconds means the end of that second or millisecond. An end that is now, or a run, is shown to the second.
 * @param timeText writes a time to the second
 */
export function periodTexts(
  { since, until }: Pick<Period, 'since' | 'until'>,
  timeText: (at: string) => string,
): { readonly since: string; readonly until: string } {
  const exact = ({ at, firstAt }: Bound, endMs: number): string => {
    if (firstAt === undefined) return timeText(at);
    if (isMinute(at)) return timeText(at).replace(SECONDS, '$1');
    const end = isoTime(Date.parse(at) - endMs);
    const [, ms = ''] = /\.(\d{3})Z$/.exec(end) ?? [];
    return ms === '999' ? timeText(end) : timeText(end).replace(SECONDS, `$1$2.${ms}`);
  };
  return { since: exact(since, 1), until: exact(until, 0) };
}

/** Hours and minutes, and the seconds after them. */
const SECONDS = /(\d\d:\d\d)(:\d\d)/;

/** The source whose runs `run:-1` counts; none if the mirror has no run yet. */
function onlySource(
  mirror: Mirror,
  text: string,
  sources: readonly string[] = mirror.runs.sources(),
): { readonly source?: string } {
  const [source, ...others] = sources.filter((name) => mirror.runs.latest(name) !== undefined);
  if (source === undefined) return {};
  if (others.length === 0) return { source };
  throw new TidemarkError(
    'usage',
    `${text} is another run for each source (${[source, ...others].join(', ')})`,
    { hint: 'name one of them with --source, or give a run (run:N), a time or an age' },
  );
}
