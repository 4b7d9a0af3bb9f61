/** Shows the progress of a run on stderr: bars on a terminal (design.md, Commands), elsewhere a line each half minute. */
import { GIVES_UP_AFTER } from '../api/connection.ts';
import type { RequestStats, WindowUse } from '../api/request-stats.ts';
import { KINDS } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { duration, formatInteger } from '../core/wording.ts';
import { AnswerWatch } from '../daemon/jobs/queue.ts';
import type { SyncEvents } from '../sync/events.ts';
import { keptText } from '../daemon/health/waits.ts';
import type { CommandContext } from './context.ts';
import { drawUntilStopped, isSilent, Painter, repeatLine, untilInterrupted } from './painter.ts';
import { RunProgress, progressView, type KindView, type ProgressView } from './progress-view.ts';

/** Once the service has not answered for this long, the progress says so. */
const SILENT_MS = 30_000;

export interface Progress {
  readonly events: SyncEvents;
  /** Removes the bars before something else is written; the next frame draws them again. */
  clear(): void;
  /** Removes the bars. May be called again. */
  stop(): void;
}

interface ProgressOptions {
  readonly clock: Clock;
  readonly source: Pick<SourceConfig, 'pageSize' | 'rate'>;
  readonly stats: () => RequestStats;
  /** True if the live state is read for a comparison: then nothing is published. */
  readonly isLive?: boolean;
}

/** Without bars: writes a line to stderr each half minute, unless `isSilent`. The result is used like that of `showProgress`. */
export function logProgress(
  { stderr, options }: Pick<CommandContext, 'stderr' | 'options'>,
  {
    clock,
    source,
    isLive = false,
    stats,
  }: Pick<ProgressOptions, 'clock' | 'isLive'> &
    Partial<Pick<ProgressOptions, 'stats'>> & { readonly source: { readonly name: string } },
): Progress {
  const progress = new RunProgress();
  const over = new AbortController();
  const silence = stats === undefined ? () => null : silenceOf(clock, progress, stats);
  silence();
  const line = (): void => {
    const { sweeps } = progress;
    const done = sweeps.filter(({ phase }) => phase === 'ended').length;
    const known = `${formatInteger(sweeps.length)} ${progress.isPlanWhole ? '' : 'known '}lists`;
    const then = progress.isPublishing ? (isLive ? '; comparing' : '; publishing') : '';
    const { waitingUntil = 0, pausedUntil } = stats?.() ?? {};
    const waits = waitingUntil > clock.now() ? keptText({ silentMs: null, pausedUntil, waitingUntil }) : '';
    const silentMs = silence();
    const silent = silentMs === null ? '' : `${silenceText(silentMs)} (gives up after ${GIVES_UP_AFTER}); `;
    stderr.write(
      `tidemark: reading ${source.name}: ${silent}${formatInteger(progress.received)} records, ${formatInteger(done)} of ${known} read${waits}${then}\n`,
    );
  };
  if (!isSilent(options)) void repeatLine(clock, over.signal, line);
  return { events: progress.events, clear: () => undefined, stop: () => over.abort() };
}

/** A function, to be called regularly, that returns for how many milliseconds the service has not answered; null if not long. */
export function silenceOf(
  clock: Clock,
  progress: Pick<RunProgress, 'received' | 'isPublishing'>,
  stats: () => RequestStats,
): () => number | null {
  const answers = new AnswerWatch(clock);
  return () => {
    const silentMs = answers.check(stats(), progress.received, progress.isPublishing);
    return silentMs < SILENT_MS ? null : silentMs;
  };
}

/** Shows a run's progress as bars until `stop`. If the run is interrupted (Ctrl-C), a line that says so replaces them. */
export function showProgress(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  options: ProgressOptions,
): Progress {
  const { clock, source } = options;
  const painter = new Painter(context.stderr);
  const progress = new RunProgress();
  const pace = new PaceMeter();
  const silence = silenceOf(clock, progress, options.stats);

  const frame = (): void => {
    const stats = options.stats();
    const now = clock.now();
    const isWaiting = stats.waitingUntil !== undefined && stats.waitingUntil > now;
    pace.add({
      at: clock.monotonicMs(),
      requests: stats.requests,
      records: progress.received,
      isWaiting,
    });
    const view = progressView({
      progress,
      stats,
      now,
      requestMs: pace.requestMs(),
      recordsPerSecond: pace.recordsPerSecond(),
      pageSize: source.pageSize,
      perMinute: source.rate.perMinute,
      isLive: options.isLive === true,
    });
    const silentMs = silence();
    const { columns, rows } = painter.size;
    painter.paint(progressLines(silentMs === null ? view : { ...view, silentMs }, columns, rows));
  };

  const { stopped, stop } = untilInterrupted(
    context,
    painter,
    () => 'ending the run (Ctrl-C again to quit at once)',
  );
  void drawUntilStopped(clock, stopped, frame);
  return { events: progress.events, clear: () => painter.clear(), stop };
}

// How fast a run is at the moment, from samples of its stats.

/** The stats at one time; counts are totals since the start. */
interface Sample {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly requests: number;
  readonly records: number;
  /** True while everything waits for the service or for a limit. */
  readonly isWaiting: boolean;
}

interface Point extends Omit<Sample, 'isWaiting'> {
  /** Milliseconds since the start in which requests flowed. */
  readonly busyMs: number;
}

/** Long enough that one slow page does not show, short enough to follow a change from small lists to large pages. */
const WINDOW_MS = 20_000;
/** Less time is too short to measure the pace. */
const LEAST_MS = 500;

/** Measures the pace over the last `WINDOW_MS`. @internal */
export class PaceMeter {
  #points: Point[] = [];

  add({ at, requests, records, isWaiting }: Sample): void {
    const last = this.#points.at(-1);
    const busyMs = last === undefined ? 0 : last.busyMs + (isWaiting ? 0 : at - last.at);
    this.#points.push({ at, busyMs, requests, records });
    // Time spent waiting does not age the pace of requests.
    while (this.#points.length > 2 && busyMs - (this.#points[1]?.busyMs ?? 0) >= WINDOW_MS)
      this.#points.shift();
    if (this.#points.length > 2_000) this.#points = this.#points.filter((_point, index) => index % 2 === 0);
  }

  /** Milliseconds per request while requests flow; null before the first answers. */
  requestMs(): number | null {
    const [first] = this.#points;
    const last = this.#points.at(-1);
    if (first === undefined || last === undefined) return null;
    const requests = last.requests - first.requests;
    const busyMs = last.busyMs - first.busyMs;
    return requests === 0 || busyMs < LEAST_MS ? null : busyMs / requests;
  }

  /** Waiting time included. */
  recordsPerSecond(): number {
    const last = this.#points.at(-1);
    const first = this.#points.find(({ at }) => last !== undefined && last.at - at <= WINDOW_MS);
    if (first === undefined || last === undefined || last.at - first.at < LEAST_MS) return 0;
    return ((last.records - first.records) / (last.at - first.at)) * 1000;
  }
}

// The bars as text, fitted to the terminal: the least important parts are dropped first, waiting and time left never. Pure.

const NAME_WIDTH = Math.max(...KINDS.map(({ length }) => length));
/** From this width on, names have a column of their own, and the other parts are aligned. */
const WIDE = 72;
const WIDEST_BAR = 40;
const NARROWEST_BAR = 5;

/**
 * At most `rows - 1` lines (the cursor needs one), none wider than `columns`: one line about what is done and to come, the
 * kinds under way, then one or two lines about the sync as a whole.
 * @internal
 */
export function progressLines(view: ProgressView, columns: number, rows: number): string[] {
  // Some terminals begin a new line after one that fills the last column.
  const width = Math.max(1, columns - 1);
  const most = Math.max(1, rows - 1);
  const whole = [totalLine(view, width), ...(most > 1 ? [statsLine(view, width)] : [])];
  const room = most - whole.length;
  const fitting = view.kinds.length <= room ? view.kinds.length : Math.max(0, room - 1);
  const summary = summaryText(view, view.kinds.length - fitting);
  // If space is short, the last kind under way takes the line of the summary, unless that counts kinds that do not fit.
  const hasSummary = summary !== '' && room > fitting;
  return [
    ...(hasSummary ? [summary] : []),
    ...view.kinds.slice(0, fitting).map((kind) => kindLine(kind, width)),
    ...whole,
  ].map((line) => cut(line, width));
}

function summaryText(view: ProgressView, hidden: number): string {
  const { kindsDone, kindsUnread, kindsToCome } = view;
  const parts = [
    ...(kindsDone === 0 ? [] : [`${kindsDone} ${kindsDone === 1 ? 'kind' : 'kinds'} done`]),
    ...(kindsUnread === 0 ? [] : [`${kindsUnread} of them incomplete`]),
    ...(hidden === 0 ? [] : [`${hidden} more under way`]),
    ...(kindsToCome === 0 ? [] : [`${kindsToCome} to come`]),
  ];
  return parts.join(', ');
}

function kindLine({ kind, received, expected, lists, listsEnded }: KindView, width: number): string {
  const name = width >= WIDE ? kind.padEnd(NAME_WIDTH) : kind;
  const counted =
    expected === null ? formatInteger(received) : `${formatInteger(received)}/${formatInteger(expected)}`;
  const share = expected === null ? null : expected === 0 ? 1 : received / expected;
  const ofLists = lists === 1 ? '' : `, ${formatInteger(listsEnded)} of ${formatInteger(lists)} lists`;
  return (
    firstFit(width, [
      () => [name, barOf(share, barWidth(width)), `${counted}${ofLists}`],
      () => [name, barOf(share, width - name.length - counted.length - 2), counted],
      () => [kind, counted],
    ]) ?? kind
  );
}

function totalLine(view: ProgressView, width: number): string {
  const name = width >= WIDE ? 'all'.padEnd(NAME_WIDTH) : 'all';
  const percent = view.share === null ? [] : [`${Math.floor(view.share * 100)} %`.padStart(5)];
  const taken = percent.length === 0 ? 0 : 6;
  const candidates = [describe(view, 'long'), describe(view, 'short')].flatMap((text) => [
    () => [name, barOf(view.share, barWidth(width)), ...percent, text],
    () => [name, barOf(view.share, width - name.length - text.length - taken - 2), ...percent, text],
    () => ['all', barOf(view.share, width - text.length - taken - 5), ...percent, text],
  ]);
  const short = describe(view, 'short');
  return firstFit(width, [...candidates, () => ['all', short], () => [short]]) ?? describe(view, 'least');
}

/** The time to wait and the time left, which are never dropped. */
function describe(
  { waiting, left, lastPhase, silentMs }: ProgressView,
  form: 'long' | 'short' | 'least',
): string {
  if (lastPhase !== null) return lastPhase;
  const isLong = form === 'long';
  if (silentMs !== undefined)
    return `${silenceText(silentMs)}${isLong ? ` (gives up after ${GIVES_UP_AFTER})` : ''}`;
  const parts: string[] = [];
  if (waiting !== null) {
    const reason = waiting.on === 'service' ? ' for the service' : ' for the rate limit';
    parts.push(`${form === 'least' ? 'wait' : 'waiting'} ${brief(waiting.ms)}${isLong ? reason : ''}`);
  }
  if (left === null || (left.isLeast && left.ms < 60_000)) {
    if (form !== 'least' || waiting === null) parts.push(isLong ? 'time left unknown yet' : 'left: unknown');
  } else if (left.isLeast) {
    parts.push(`${isLong ? 'more than ' : '>'}${brief(left.ms)} left`);
  } else {
    parts.push(`${brief(left.ms)} left`);
  }
  return parts.join(', ');
}

/** In whole seconds, so that the text does not flicker: `1 s`, `42 s`, `3 min`. */
function brief(ms: number): string {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return seconds < 120 ? `${seconds} s` : duration(ms);
}

/** To the second, so that people see it grow: `no answer for 42 s`, `no answer for 2 min 30 s`. */
export function silenceText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const long = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `no answer for ${long}`;
}

/** Records, rate, and requests against the limits; drops what does not fit, the limit of a minute last. */
function statsLine(view: ProgressView, width: number): string {
  const { records, recordsPerSecond, requests, perMinute, perHour, kindLimits } = view;
  const isLimited = perMinute.limit > 0 || perHour.limit > 0;
  const rate = `${formatInteger(Math.round(recordsPerSecond))}/s`;
  const sums = [`${formatInteger(records)} records`, rate];
  const limits = usedTexts({ perMinute, perHour });
  const asked = isLimited ? `requests: ${limits.join(', ')}` : `${formatInteger(requests)} requests`;
  const ofKinds = kindLimits.map(({ kinds, ...windows }) => `${kinds[0]} ${usedTexts(windows).join(', ')}`);
  const long = [
    ...sums,
    ...(isLimited ? [`${formatInteger(requests)} requests`, limits.join(', ')] : [asked]),
  ];
  const parts = [
    [...long, ...ofKinds],
    [...sums, asked, ...ofKinds],
    long,
    [...sums, asked],
    [rate, asked],
    [asked],
    [isLimited ? (limits[0] ?? asked) : asked],
  ];
  const texts = parts.map((part) => part.join(', '));
  const indents = width >= WIDE ? [NAME_WIDTH + 1, 4] : [4];
  const lines = texts.flatMap((text) => indents.map((indent) => ' '.repeat(indent) + text));
  return lines.find((line) => line.length <= width) ?? texts.at(-1) ?? '';
}

/** `120/480 a minute`, `4,000/4,800 an hour`: of the windows that are limited. */
function usedTexts({ perMinute, perHour }: Pick<RequestStats, 'perMinute' | 'perHour'>): string[] {
  const text = ({ used, limit }: WindowUse, unit: string): string[] =>
    limit > 0 ? [`${formatInteger(used)}/${formatInteger(limit)} ${unit}`] : [];
  return [...text(perMinute, 'a minute'), ...text(perHour, 'an hour')];
}

function barWidth(width: number): number {
  return Math.min(WIDEST_BAR, Math.floor((width - NAME_WIDTH) / 3));
}

/** A bar of at most that many columns; null if they are too few. */
function barOf(share: number | null, width: number): string | null {
  const columns = Math.min(WIDEST_BAR, width);
  if (columns < NARROWEST_BAR) return null;
  const filled = Math.floor(Math.min(1, share ?? 0) * columns);
  return '█'.repeat(filled) + '░'.repeat(columns - filled);
}

/** The first candidate without a null that fits, its parts joined. */
function firstFit(
  width: number,
  candidates: readonly (() => readonly (string | null)[])[],
): string | undefined {
  for (const candidate of candidates) {
    const parts = candidate();
    if (parts.includes(null)) continue;
    const line = parts.join(' ');
    if (line.length <= width) return line;
  }
  return undefined;
}

function cut(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`;
}
