/** A drill's progress on a terminal: one line that says what is being done, with a bar where it can be counted. */
import { count } from '../core/wording.ts';
import type { DrillEvents } from '../restore/drill-passes.ts';
import type { CommandContext } from './context.ts';
import { Painter } from './progress-painter.ts';

const BAR = 24; // characters
const DOING: Readonly<Record<Parameters<DrillEvents['phase']>[0], string>> = {
  reading: 'reading the sandbox back',
  planning: 'planning',
  restoring: 'restoring',
  comparing: 'comparing with the snapshot',
};

interface DrillProgress {
  readonly events: DrillEvents;
  /** Takes the line away for good. */
  stop(): void;
}

/** Shows it until `stop`, or until the drill is told to end. */
export function showDrillProgress(context: Pick<CommandContext, 'stderr' | 'signal'>): DrillProgress {
  const painter = new Painter(context.stderr);
  let [what, done, steps, isOver] = ['preparing', 0, null as number | null, false];
  const paint = (): void => {
    if (isOver) return;
    painter.paint([lineOf(what, done, steps).slice(0, painter.size.columns - 1)]);
  };
  const onAbort = (): void => {
    stop();
    context.stderr.write('tidemark: ending the drill (Ctrl-C again to leave at once)\n');
  };
  const stop = (): void => {
    if (isOver) return;
    isOver = true;
    context.signal.removeEventListener('abort', onAbort);
    painter.clear();
  };
  context.signal.addEventListener('abort', onAbort);
  paint();
  return {
    events: {
      phase: (name, counted) => {
        [what, done, steps] = [DOING[name], 0, counted];
        paint();
      },
      stepEnded: () => {
        done += 1;
        paint();
      },
    },
    stop,
  };
}

function lineOf(what: string, done: number, steps: number | null): string {
  if (steps === null || steps === 0) return `drill: ${what}`;
  const filled = Math.round((Math.min(done, steps) / steps) * BAR);
  return `drill: ${what} ${'█'.repeat(filled)}${'░'.repeat(BAR - filled)} ${count(done)} of ${count(steps)} steps`;
}
