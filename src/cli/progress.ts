/** Progress on a terminal: a run's events in, bars on stderr out (design.md, Commands). */
import type { RequestStats } from '../api/request-stats.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { SyncEvents } from '../sync/events.ts';
import type { CommandContext } from './context.ts';
import { progressLines } from './progress-lines.ts';
import { PaceMeter } from './progress-pace.ts';
import { Painter } from './progress-painter.ts';
import { RunProgress } from './progress-state.ts';
import { progressView } from './progress-view.ts';

/** Eight frames a second: smooth to look at, nothing to compute. */
const FRAME_MS = 125;

export interface Progress {
  readonly events: SyncEvents;
  /** Takes the bars away for the moment: something else is about to be written. The next frame brings them back. */
  clear(): void;
  /** Takes the bars away for good. May be called again. */
  stop(): void;
}

interface ProgressOptions {
  readonly clock: Clock;
  readonly source: Pick<SourceConfig, 'pageSize' | 'rate'>;
  readonly figures: () => RequestStats;
}

/**
 * Shows a run's progress until `stop`. When the run is told to end (Ctrl-C), the bars make way for one line that says so.
 */
export function showProgress(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  options: ProgressOptions,
): Progress {
  const { clock, source } = options;
  const painter = new Painter(context.stderr);
  const progress = new RunProgress();
  const pace = new PaceMeter();
  const over = new AbortController();

  const frame = (): void => {
    const figures = options.figures();
    const now = clock.now();
    const records = progress.sweeps.reduce((sum, { received }) => sum + received, 0);
    const isWaiting = figures.waitingUntil !== undefined && figures.waitingUntil > now;
    pace.add({ at: clock.monotonicMs(), requests: figures.requests, records, isWaiting });
    const view = progressView({
      progress,
      figures,
      now,
      requestMs: pace.requestMs(),
      recordsPerSecond: pace.recordsPerSecond(),
      pageSize: source.pageSize,
      perMinute: source.rate.perMinute,
    });
    const { columns, rows } = painter.size;
    painter.paint(progressLines(view, columns, rows));
  };

  const onAbort = (): void => {
    stop();
    context.stderr.write('tidemark: ending the run (Ctrl-C again to leave at once)\n');
  };
  const stop = (): void => {
    if (over.signal.aborted) return;
    over.abort();
    context.signal.removeEventListener('abort', onAbort);
    painter.clear();
  };
  context.signal.addEventListener('abort', onAbort);
  void keepDrawing(clock, over.signal, frame);
  return { events: progress.events, clear: () => painter.clear(), stop };
}

/** Draws until stopped; nothing can fail in it but the wait, which the stop ends. */
async function keepDrawing(clock: Clock, stopped: AbortSignal, frame: () => void): Promise<void> {
  while (!stopped.aborted) {
    frame();
    await clock.sleep(FRAME_MS, stopped).catch((): void => undefined);
  }
}
