import { describe, expect, it } from 'vitest';
import { Painter } from '../../src/cli/painter.ts';

/** A terminal that knows what the painter uses: line feeds, carriage return, cursor up, erase to the end. */
class FakeTerminal {
  columns: number;
  rows: number;
  lines: string[] = [''];
  row = 0;
  column = 0;
  constructor(columns: number, rows: number) {
    this.columns = columns;
    this.rows = rows;
  }
  write(text: string): void {
    for (const [part] of text.matchAll(/\u001b\[\d*[AKJ]|[^\u001b]/g)) {
      const up = /^\u001b\[(\d+)A$/.exec(part);
      if (up !== null) this.row = Math.max(0, this.row - Number(up[1]));
      else if (part === '\u001b[K') this.lines[this.row] = this.lines[this.row]!.slice(0, this.column);
      else if (part === '\u001b[J') {
        this.lines[this.row] = this.lines[this.row]!.slice(0, this.column);
        this.lines.length = this.row + 1;
      } else if (part === '\r') this.column = 0;
      else if (part === '\n') {
        this.row += 1;
        this.column = 0;
        this.lines[this.row] ??= '';
      } else {
        const line = this.lines[this.row]!.padEnd(this.column);
        this.lines[this.row] = line.slice(0, this.column) + part + line.slice(this.column + 1);
        this.column += 1;
      }
    }
  }
}

describe('the painter', () => {
  it('replaces what it painted, also by fewer and shorter lines', () => {
    const terminal = new FakeTerminal(80, 24);
    terminal.write('before\n');
    const painter = new Painter(terminal);
    painter.paint(['first line', 'second', 'third']);
    expect(terminal.lines).toEqual(['before', 'first line', 'second', 'third', '']);
    painter.paint(['1', '2']);
    expect(terminal.lines).toEqual(['before', '1', '2', '']);
  });

  it('clears itself and the ^C that the terminal echoed, once', () => {
    const terminal = new FakeTerminal(80, 24);
    const painter = new Painter(terminal);
    painter.paint(['a', 'b']);
    terminal.write('^C');
    painter.clear();
    expect(terminal.lines).toEqual(['']);
    terminal.write('ended\n');
    painter.clear();
    expect(terminal.lines).toEqual(['ended', '']);
  });

  it('finds its first line again after the terminal became narrower and broke the lines', () => {
    const terminal = new FakeTerminal(20, 24);
    terminal.write('before\n');
    const painter = new Painter(terminal);
    painter.paint(['x'.repeat(18), 'y'.repeat(5)]);
    terminal.columns = 10;
    terminal.lines = ['before', 'x'.repeat(10), 'x'.repeat(8), 'y'.repeat(5), ''];
    terminal.row = 4;
    painter.paint(['z']);
    expect(terminal.lines).toEqual(['before', 'z', '']);
  });

  it('assumes a size where the terminal tells none', () => {
    expect(new Painter({ write: () => true }).size).toEqual({ columns: 80, rows: 24 });
    expect(new Painter(new FakeTerminal(0, 0)).size).toEqual({ columns: 80, rows: 24 });
    expect(new Painter(new FakeTerminal(60, 8)).size).toEqual({ columns: 60, rows: 8 });
  });
});
