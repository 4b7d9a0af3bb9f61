/** A terminal for a command in the test's process: what somebody types, and what stands on the screen. */
import { PassThrough, Writable } from 'node:stream';

/** Keys as a terminal sends them. */
export class Keyboard extends PassThrough {
  readonly isTTY = true;
  isRaw = false;
  setRawMode(isRaw: boolean): this {
    this.isRaw = isRaw;
    return this;
  }
}

export class Screen extends Writable {
  readonly isTTY = true;
  readonly columns: number;
  text = '';
  /** Called with all that was written so far, each time something is. */
  onText: (text: string) => void = () => undefined;

  constructor(columns = 80) {
    super();
    this.columns = columns;
  }

  override _write(chunk: unknown, _encoding: string, done: () => void): void {
    this.text += String(chunk);
    this.onText(this.text);
    done();
  }
}
