/** Progress of a restore on a terminal: one bar, what is being written, and what is waited for. */
import type { RequestStats } from '../api/request-stats.ts';
import type { Clock } from '../core/clock.ts';
import { count, duration } from '../core/wording.ts';
import { escapeControlCharacters } from '../report/escape-control.ts';
import type { ApplyEvents } from '../restore/apply.ts';
import type { PlanStep } from '../restore/plan.ts';
import type { CommandContext } from './context.ts';
import { Painter } from './progress-painter.ts';

const FRAME_MS = 125;
const BAR_WIDTH = 30;

export interface RestoreProgress {
  readonly events: ApplyEvents;
  /** Takes the bar away for the moment. */
  clear(): void;
  /** Takes the bar away for good. May be called again. */
  stop(): void;
}

/** What the bar shows. */
interface RestoreView {
  readonly steps: number;
  readonly done: number;
  readonly failed: number;
  /** Names of the records being written. */
  readonly underWay: readonly string[];
  /** Milliseconds since the first step. */
  readonly elapsedMs: number;
  /** Milliseconds until requests go on; null while none waits. */
  readonly waitingMs: number | null;
  readonly requests: number;
}

/** Two lines, none wider than `columns`. */
export function restoreProgressLines(view: RestoreView, columns: number): string[] {
  const width = Math.max(1, columns - 1);
  const { steps, done, failed, underWay, elapsedMs, waitingMs, requests } = view;
  const share = steps === 0 ? 1 : done / steps;
  const filled = Math.round(share * BAR_WIDTH);
  const left = done === 0 ? null : (elapsedMs / done) * (steps - done);
  const facts = [
    `${count(done)}/${count(steps)} steps`,
    ...(failed === 0 ? [] : [`${count(failed)} failed`]),
    ...(waitingMs === null ? [] : [`waiting ${duration(waitingMs)}`]),
    ...(left === null || done === steps ? [] : [`about ${duration(left)} left`]),
  ].join(', ');
  const bar = `${'█'.repeat(filled)}${'░'.repeat(BAR_WIDTH - filled)} `;
  const first = bar.length + facts.length > width ? facts : `${bar}${facts}`;
  const now = underWay.length === 0 ? '' : ` · ${underWay.join(', ')}`;
  return [first, `${count(requests)} requests${now}`].map((line) =>
    line.length > width ? `${line.slice(0, Math.max(width - 1, 0))}…` : line,
  );
}

/** What the first Ctrl-C says: whoever presses it again is told nothing more. 0 for a restore that has no number yet. */
export function leavingText(restore: number): string {
  const then = restore === 0 ? '' : `, and go on later with \`tidemark restore --resume ${restore}\``;
  return `finishing the steps under way (Ctrl-C again to leave at once${then})`;
}

/** Shows the bar until `stop`; when the command is told to end, one line says what happens then. */
export function showRestoreProgress(
  context: Pick<CommandContext, 'stderr' | 'signal'>,
  options: { readonly clock: Clock; readonly figures: () => RequestStats },
): RestoreProgress {
  const { clock } = options;
  const painter = new Painter(context.stderr);
  const over = new AbortController();
  const underWay = new Map<number, PlanStep>();
  const state = { restore: 0, steps: 0, done: 0, failed: 0, since: clock.monotonicMs() };

  const frame = (): void => {
    const { requests, waitingUntil } = options.figures();
    const now = clock.now();
    const view: RestoreView = {
      steps: state.steps,
      done: state.done,
      failed: state.failed,
      underWay: [...underWay.values()].map(({ name }) => escapeControlCharacters(name)),
      elapsedMs: clock.monotonicMs() - state.since,
      waitingMs: waitingUntil !== undefined && waitingUntil > now ? waitingUntil - now : null,
      requests,
    };
    painter.paint(restoreProgressLines(view, painter.size.columns));
  };
  const onAbort = (): void => {
    stop();
    context.stderr.write(`tidemark: ${leavingText(state.restore)}\n`);
  };
  const stop = (): void => {
    if (over.signal.aborted) return;
    over.abort();
    context.signal.removeEventListener('abort', onAbort);
    painter.clear();
  };
  context.signal.addEventListener('abort', onAbort);
  void keepDrawing(clock, over.signal, frame);
  return {
    events: {
      started: (restore, steps) => {
        state.restore = restore;
        state.steps = steps;
        state.since = clock.monotonicMs();
      },
      stepStarted: (step) => void underWay.set(step.n, step),
      stepEnded: (step, { outcome }) => {
        underWay.delete(step.n);
        state.done += 1;
        if (outcome === 'failed') state.failed += 1;
      },
      lookingUp: () => undefined,
    },
    clear: () => painter.clear(),
    stop,
  };
}

async function keepDrawing(clock: Clock, stopped: AbortSignal, frame: () => void): Promise<void> {
  while (!stopped.aborted) {
    frame();
    await clock.sleep(FRAME_MS, stopped).catch((): void => undefined);
  }
}
