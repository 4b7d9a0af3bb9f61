/** The records of an export: read in the state asked for, counted, and held against what the mirror says it has. */
import type { Kind } from '../catalog/definition.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import type { ExportRecord } from '../report/export/record.ts';

interface Narrowing {
  readonly kind?: Kind;
  readonly source?: string;
}

export class ExportContent {
  readonly #mirror: Mirror;
  readonly #filter: RecordFilter & { readonly sources: readonly string[] };
  readonly #run: number | null;
  /** The run whose state this is, also where the latest was asked for. */
  readonly run: number;
  #records = 0;

  /** `run`: null for the latest state. */
  constructor(
    mirror: Mirror,
    filter: RecordFilter & { readonly sources: readonly string[] },
    run: number | null,
  ) {
    this.#mirror = mirror;
    this.#filter = filter;
    this.#run = run;
    this.run = run ?? this.#latest();
  }

  get sources(): readonly string[] {
    return this.#filter.sources;
  }

  /** Several sources: each record names its own. */
  get hasSource(): boolean {
    return this.sources.length > 1;
  }

  /** Records that `records` gave so far. */
  get count(): number {
    return this.#records;
  }

  /** A look at the records that does not count. */
  *look(narrowing: Narrowing = {}): Generator<ExportRecord> {
    for (const record of this.#read(this.#narrowed(narrowing)))
      yield { ...record, source: this.hasSource ? record.source : null };
  }

  /**
   * The records, counted.
   * @throws TidemarkError `mirror_corrupt` at the end, when they are fewer or more than the mirror counts
   */
  *records(narrowing: Narrowing = {}): Generator<ExportRecord> {
    const filter = this.#narrowed(narrowing);
    const expected = this.#mirror
      .recordCountsAt(this.run, filter)
      .reduce((sum, { records }) => sum + records, 0);
    let found = 0;
    for (const record of this.look(narrowing)) {
      found += 1;
      this.#records += 1;
      yield record;
    }
    // A run published meanwhile changed the latest state between the count and the reading.
    if (found === expected || (this.#run === null && this.#latest() !== this.run)) return;
    throw new TidemarkError(
      'mirror_corrupt',
      `${this.#mirror.path} is damaged: ${expected} records are counted, ${found} could be read`,
      { hint: 'run `tidemark verify`; put a copy of the file back, or move it away and run `tidemark sync`' },
    );
  }

  isEmpty(narrowing: Narrowing): boolean {
    for (const _record of this.look(narrowing)) return false;
    return true;
  }

  #read(filter: RecordFilter): Iterable<MirrorRecord> {
    return this.#run === null
      ? this.#mirror.readRecords(filter)
      : this.#mirror.readRecordsAt(this.#run, filter);
  }

  #narrowed({ kind, source }: Narrowing): RecordFilter {
    return {
      ...this.#filter,
      ...(kind === undefined ? {} : { kinds: [kind] }),
      ...(source === undefined ? {} : { sources: [source] }),
    };
  }

  #latest(): number {
    return Math.max(...this.sources.map((source) => this.#mirror.latestRun(source)?.run ?? 0));
  }
}
