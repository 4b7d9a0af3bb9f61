/** Paints a block of lines on a terminal over and over, in place. The only code that moves the cursor. */

/** A terminal as Node shows it. */
interface Screen {
  readonly columns?: number;
  readonly rows?: number;
  write(text: string): unknown;
}

const ESCAPE = '\u001b[';
/** Where a terminal does not tell its size. */
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
