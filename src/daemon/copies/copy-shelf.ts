/**
 * Which copies there are, whoever made them, as pages show them and health judges by them. Their directory may stand on a
 * disk far away, or on one that does not answer: a page waits for it a moment and no longer, and shows what is known.
 */
import type { Clock } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import { withTimeout } from '../../core/within.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { Copy } from './copy-list.ts';

export interface CopiesShown {
  /** Whole ones of this mirror, newest first. */
  readonly whole: readonly Pick<Copy, 'madeAt' | 'run' | 'bytes' | 'isEncrypted' | 'manifest'>[];
  /** Of this mirror or unknown whose, and not what their manifests say. */
  readonly damaged: number;
  /** Why the directory could not be read; null where it was. */
  readonly trouble: string | null;
}

const FRESH_MS = 30_000;
const WAIT_MS = 250;

export class BackupCatalog {
  readonly #clock: Clock;
  #directory = '';
  #shown: CopiesShown | null = null;
  #readAtMs = -Infinity;
  #reading: Promise<void> | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Waits a moment where the directory has to be read. Null while it has not answered yet. */
  async look(directory: string, mirror: Mirror): Promise<CopiesShown | null> {
    const reading = this.#refresh(directory, mirror);
    if (reading === null) return this.#shown;
    await withTimeout(reading, WAIT_MS, this.#clock);
    return this.#shown;
  }

  /** What is known at this moment; has it read beside, where that is of some time ago. Null as `look`. */
  known(directory: string, mirror: Mirror): CopiesShown | null {
    void this.#refresh(directory, mirror);
    return this.#shown;
  }

  /** Null where what is known is fresh. */
  #refresh(directory: string, mirror: Mirror): Promise<void> | null {
    if (directory !== this.#directory) {
      this.#directory = directory;
      this.#shown = null;
      this.#readAtMs = -Infinity;
      this.#reading = null;
    }
    if (this.#clock.monotonicMs() - this.#readAtMs < FRESH_MS) return null;
    this.#reading ??= this.#read(directory, mirror);
    return this.#reading;
  }

  async #read(directory: string, mirror: Mirror): Promise<void> {
    const shown = await readShown(directory, mirror);
    if (directory !== this.#directory) return;
    this.#shown = shown;
    this.#readAtMs = this.#clock.monotonicMs();
    this.#reading = null;
  }
}

async function readShown(directory: string, mirror: Mirror): Promise<CopiesShown> {
  try {
    // Loaded where there are copies.
    const [{ readCopies }, { mirrorId }] = await Promise.all([
      import('./copy-list.ts'),
      import('./plain-copy.ts'),
    ]);
    const owner = mirrorId(mirror);
    const own = (await readCopies(directory)).filter(
      ({ manifest }) => manifest === null || manifest.mirror === owner,
    );
    const whole = own.filter(({ state }) => state === 'whole');
    return { whole, damaged: own.length - whole.length, trouble: null };
  } catch (error) {
    return { whole: [], damaged: 0, trouble: asTidemarkError(error).message };
  }
}
