/** Draws what is under way on stderr, in place and until it ends; elsewhere than on a terminal writes a line now and then. */
import type { Clock } from '../core/clock.ts';
import { type CommandContext, isInteractive } from './context.ts';

/** Eight frames a second look smooth and cost nothing. */
const FRAME_MS = 125;
/** Between lines in a log: a short run has none, a run of an hour fills a page. */
const LINE_MS = 30_000;

/** True if progress is shown as bars: they need a terminal that moves its cursor. */
export function hasBars(context: CommandContext): boolean {
  return isInteractive(context) && context.env['TERM'] !== 'dumb';
}

/** True if only a terminal gets progress: cron mails everything that is printed. */
export function isSilent({ quiet, json }: CommandContext['options']): boolean {
  return quiet === true || json === true;
}

/** Calls `line` every `everyMs` until stopped. */
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

/** Ends the drawing on `stop`, or when the command is interrupted; then a line says what happens next. */
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

/** Draws frames until stopped. */
export async function drawUntilStopped(clock: Clock, stopped: AbortSignal, frame: () => void): Promise<void> {
  while (!stopped.aborted) {
    frame();
    // Ends early at the stop.
    await clock.sleep(FRAME_MS, stopped).catch((): void => undefined);
  }
}

/** The terminal, as Node represents it. */
interface Screen {
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

const ESCAPE = '\u001b[';
/** For a terminal that does not report its size. */
const DEFAULT_SIZE = { columns: 80, rows: 24 };

/** Paints a block of lines on a terminal again and again, in place. The only code that moves the cursor. */
export class Painter {
  readonly #screen: Screen;
  #painted: readonly string[] = [];

  constructor(screen: Screen) {
    this.#screen = screen;
  }

  /** The current size: it can change between two frames. */
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

  /** Erases what was painted, so that other text can follow. */
  clear(): void {
    if (this.#painted.length === 0) return;
    this.#screen.write(`${this.#home()}${ESCAPE}J`);
    this.#painted = [];
  }

  /** Moves the cursor to the first painted line. A terminal that became narrower has wrapped the lines that no longer fit. */
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
