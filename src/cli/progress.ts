/** Progress of a run: its events in, on stderr bars on a terminal (design.md, Commands), or a line now and then elsewhere. */
import { GIVES_UP_AFTER } from '../api/connection.ts';
import type { RequestStats, WindowUse } from '../api/request-stats.ts';
import { KINDS } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { type Logger, LOG_LEVELS, type LogLevel, type WrittenLevel } from '../core/logger.ts';
import { count, duration } from '../core/wording.ts';
import { AnswerWatch } from '../daemon/jobs/queue.ts';
import type { SyncEvents } from '../sync/events.ts';
import { keptText } from '../daemon/health/waits.ts';
import type { CommandContext } from './context.ts';
import { RunProgress, progressView, type KindView, type ProgressView } from './progress-view.ts';

/** Eight frames a second: smooth to look at, nothing to compute. */
const FRAME_MS = 125;
/** Of lines in a log: a short run has none, and one of an hour a page. */
const LINE_MS = 30_000;
/** A service that has not answered for so long is named. */
const SILENT_MS = 30_000;

export interface Progress {
  readonly events: SyncEvents;
  /** Takes the bars away for the moment: something else is about to be written. The next frame brings them back. */
  clear(): void;
  /** Removes the bars. May be called again. */
  stop(): void;
}

interface ProgressOptions {
  readonly clock: Clock;
  readonly source: Pick<SourceConfig, 'pageSize' | 'rate'>;
  readonly stats: () => RequestStats;
  /** True where live is read for a comparison: then nothing is published. */
  readonly isLive?: boolean;
}

/** A line on stderr each half minute, where there are no bars, unless `isSilent`; for `events`, `clear` and `stop` as `showProgress`. */
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
    const records = sweeps.reduce((sum, { received }) => sum + received, 0);
    const done = sweeps.filter(({ phase }) => phase === 'ended').length;
    const known = `${count(sweeps.length)} ${progress.isPlanWhole ? '' : 'known '}lists`;
    const then = progress.isPublishing ? (isLive ? '; comparing' : '; publishing') : '';
    const { waitingUntil = 0, pausedUntil } = stats?.() ?? {};
    const waits = waitingUntil > clock.now() ? keptText({ silentMs: null, pausedUntil, waitingUntil }) : '';
    const silentMs = silence();
    const silent = silentMs === null ? '' : `${silenceText(silentMs)} (gives up after ${GIVES_UP_AFTER}); `;
    stderr.write(
      `tidemark: reading ${source.name}: ${silent}${count(records)} records, ${count(done)} of ${known} read${waits}${then}\n`,
    );
  };
  if (!isSilent(options)) void repeatLine(clock, over.signal, line);
  return { events: progress.events, clear: () => undefined, stop: () => over.abort() };
}

/** For how long the service has not answered, once that is long: milliseconds, else null. To be called regularly. */
export function silenceOf(
  clock: Clock,
  progress: Pick<RunProgress, 'sweeps' | 'isPublishing'>,
  stats: () => RequestStats,
): () => number | null {
  const answers = new AnswerWatch(clock);
  return () => {
    const records = progress.sweeps.reduce((sum, { received }) => sum + received, 0);
    const silentMs = answers.check(stats(), records, progress.isPublishing);
    return silentMs < SILENT_MS ? null : silentMs;
  };
}

/** True where only a terminal gets progress: cron mails whatever is printed. */
export function isSilent({ quiet, json }: CommandContext['options']): boolean {
  return quiet === true || json === true;
}

/** Writes a line each half minute until stopped. */
export async function repeatLine(
  clock: Clock,
  stopped: AbortSignal,
  line: () => void,
  everyMs = LINE_MS,
): Promise<void> {
  for (;;) {
    // Ends early at the stop.
    await clock.sleep(everyMs, stopped).catch((): void => undefined);
    if (stopped.aborted) return;
    line();
  }
}

/**
 * Shows a run's progress until `stop`. When the run is stopped (Ctrl-C), the bars make way for one line that says so.
 */
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
    const records = progress.sweeps.reduce((sum, { received }) => sum + received, 0);
    const isWaiting = stats.waitingUntil !== undefined && stats.waitingUntil > now;
    pace.add({ at: clock.monotonicMs(), requests: stats.requests, records, isWaiting });
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

/** What ends a drawing, once: `stop`, or an interruption of the command, for which a line says what happens next. */
export function untilInterrupted(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  painter: Painter,
  next: () => string,
): { readonly stopped: AbortSignal; readonly stop: () => void } {
  const over = new AbortController();
  const onAbort = (): void => {
    stop();
    context.stderr.write(`tidemark: ${next()}\n`);
  };
  const stop = (): void => {
    if (over.signal.aborted) return;
    over.abort();
    context.signal.removeEventListener('abort', onAbort);
    painter.clear();
  };
  context.signal.addEventListener('abort', onAbort);
  return { stopped: over.signal, stop };
}

/** Draws until stopped; nothing can fail in it but the wait, which the stop ends. */
export async function drawUntilStopped(clock: Clock, stopped: AbortSignal, frame: () => void): Promise<void> {
  while (!stopped.aborted) {
    frame();
    // Ends early at the stop.
    await clock.sleep(FRAME_MS, stopped).catch((): void => undefined);
  }
}

// How fast a run goes just now: from samples of its stats, the oldest forgotten.

/** The stats at one instant; counts are totals since the start. */
interface Sample {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly requests: number;
  readonly records: number;
  /** True while everything waits for the service or for a limit. */
  readonly isWaiting: boolean;
}

interface Point {
  readonly at: number;
  /** Milliseconds since the start in which requests flowed. */
  readonly busyMs: number;
  readonly requests: number;
  readonly records: number;
}

/** Long enough to smooth a slow page, short enough to follow when large pages come after small lists. */
const WINDOW_MS = 20_000;
/** Less than this says nothing. */
const LEAST_MS = 500;

/** @internal */
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

  /** Milliseconds a request takes while requests flow; null before the first stats. */
  requestMs(): number | null {
    const [first] = this.#points;
    const last = this.#points.at(-1);
    if (first === undefined || last === undefined) return null;
    const requests = last.requests - first.requests;
    const busyMs = last.busyMs - first.busyMs;
    return requests === 0 || busyMs < LEAST_MS ? null : busyMs / requests;
  }

  /** Waiting included: what a person sees arrive. */
  recordsPerSecond(): number {
    const last = this.#points.at(-1);
    const first = this.#points.find(({ at }) => last !== undefined && last.at - at <= WINDOW_MS);
    if (first === undefined || last === undefined || last.at - first.at < LEAST_MS) return 0;
    return ((last.records - first.records) / (last.at - first.at)) * 1000;
  }
}

// The bars as text: fitted to the terminal, least important parts dropped first, time left and waiting never. Pure.

const NAME_WIDTH = Math.max(...KINDS.map(({ length }) => length));
/** From this width on, names have a column of their own, and the other parts are aligned. */
const WIDE = 72;
const WIDEST_BAR = 40;
const NARROWEST_BAR = 5;

/**
 * At most `rows - 1` lines (the cursor needs one), none wider than `columns`. First one line on what is done and to come,
 * then the kinds under way, then one or two lines on the sync as a whole.
 * @internal
 */
export function progressLines(view: ProgressView, columns: number, rows: number): string[] {
  // A line that fills the last column makes some terminals begin another one.
  const width = Math.max(1, columns - 1);
  const most = Math.max(1, rows - 1);
  const whole = [totalLine(view, width), ...(most > 1 ? [figuresLine(view, width)] : [])];
  const room = most - whole.length;
  const fitting = view.kinds.length <= room ? view.kinds.length : Math.max(0, room - 1);
  const summary = summaryText(view, view.kinds.length - fitting);
  // The summary is dropped for the last kind under way, unless it counts kinds that do not fit.
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
  const counted = expected === null ? count(received) : `${count(received)}/${count(expected)}`;
  const share = expected === null ? null : expected === 0 ? 1 : received / expected;
  const ofLists = lists === 1 ? '' : `, ${count(listsEnded)} of ${count(lists)} lists`;
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

/** Waiting and time left, which are never dropped. */
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

/** Whole seconds, so that the figure does not flicker: `1 s`, `42 s`, `3 min`. */
function brief(ms: number): string {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return seconds < 120 ? `${seconds} s` : duration(ms);
}

/** To the second, so that it is seen to grow: `no answer for 42 s`, `no answer for 2 min 30 s`. */
export function silenceText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const long = seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `no answer for ${long}`;
}

/** Records, rate and requests against the limits; what does not fit goes, the minute's limit last. */
function figuresLine(view: ProgressView, width: number): string {
  const { records, recordsPerSecond, requests, perMinute, perHour, kindLimits } = view;
  const isLimited = perMinute.limit > 0 || perHour.limit > 0;
  const rate = `${count(Math.round(recordsPerSecond))}/s`;
  const sums = [`${count(records)} records`, rate];
  const limits = [
    ...(perMinute.limit > 0 ? [used(perMinute, 'a minute')] : []),
    ...(perHour.limit > 0 ? [used(perHour, 'an hour')] : []),
  ];
  const asked = isLimited ? `requests: ${limits.join(', ')}` : `${count(requests)} requests`;
  const ofKinds = kindLimits.flatMap(({ kinds, ...of }) => {
    const texts = [
      ...(of.perMinute.limit > 0 ? [used(of.perMinute, 'a minute')] : []),
      ...(of.perHour.limit > 0 ? [used(of.perHour, 'an hour')] : []),
    ];
    return [`${kinds[0]} ${texts.join(', ')}`];
  });
  const parts = [
    [...sums, ...(isLimited ? [`${count(requests)} requests`, limits.join(', ')] : [asked]), ...ofKinds],
    [...sums, asked, ...ofKinds],
    [...sums, ...(isLimited ? [`${count(requests)} requests`, limits.join(', ')] : [asked])],
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

function used({ used, limit }: WindowUse, unit: string): string {
  return `${count(used)}/${count(limit)} ${unit}`;
}

function barWidth(width: number): number {
  return Math.min(WIDEST_BAR, Math.floor((width - NAME_WIDTH) / 3));
}

/** A bar of that many columns; null if that is too narrow. */
function barOf(share: number | null, width: number): string | null {
  const columns = Math.min(WIDEST_BAR, width);
  if (columns < NARROWEST_BAR) return null;
  const filled = Math.floor(Math.min(1, share ?? 0) * columns);
  return '█'.repeat(filled) + '░'.repeat(columns - filled);
}

/** The first whose parts are all there and fit, joined. */
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

// Paints a block of lines on a terminal over and over, in place. The only code that moves the cursor.

/** A terminal as Node shows it. */
interface Screen {
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

const ESCAPE = '\u001b[';
/** For a terminal that does not report its size. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };

export class Painter {
  readonly #screen: Screen;
  #painted: readonly string[] = [];

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** Its size now: it can change between two frames. */
  get size(): { columns: number; rows: number } {
    const { columns = 0, rows = 0 } = this.#screen;
    return {
      columns: columns > 0 ? columns : DEFAULT_SIZE.columns,
      rows: rows > 0 ? rows : DEFAULT_SIZE.rows,
    };
  }

  /** Replaces what was painted before. The cursor ends on the line below, where the terminal echoes `^C`. */
  paint(lines: readonly string[]): void {
    this.#screen.write(`${this.#home()}${lines.map((line) => `${line}${ESCAPE}K\n`).join('')}${ESCAPE}J`);
    this.#painted = lines;
  }

  /** Leaves nothing of it, so that other text can follow. */
  clear(): void {
    if (this.#painted.length === 0) return;
    this.#screen.write(`${this.#home()}${ESCAPE}J`);
    this.#painted = [];
  }

  /** To the first painted line. A terminal that became narrower meanwhile has broken the lines that no longer fit. */
  #home(): string {
    const { columns, rows } = this.size;
    const lines = this.#painted.reduce(
      (sum, { length }) => sum + Math.max(1, Math.ceil(length / columns)),
      0,
    );
    const up = Math.min(lines, rows - 1);
    return up > 0 ? `\r${ESCAPE}${up}A` : '\r';
  }
}

// Log lines on a terminal that shows bars: the bars make way, and come back below.

/** The logger, which first calls `clear` for every line that `level` lets through. */
export function loggingAbove(log: Logger, level: LogLevel, clear: () => void): Logger {
  const through = (at: WrittenLevel) => (facts: Record<string, unknown>, message: string) => {
    if (LOG_LEVELS.indexOf(at) <= LOG_LEVELS.indexOf(level)) clear();
    log[at](facts, message);
  };
  return {
    error: through('error'),
    warn: through('warn'),
    info: through('info'),
    debug: through('debug'),
    trace: through('trace'),
    isLevelEnabled: (at) => log.isLevelEnabled(at),
    child: (facts) => loggingAbove(log.child(facts), level, clear),
  };
}
