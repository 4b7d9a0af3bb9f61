/**
 * A list that changes while it is read, with the truth beside it: what was there all the time, and when each record went.
 * Time is virtual: everything that happens, happens between two requests.
 */
import { seededRandom } from '../faults/seeded-random.ts';

export const ORDERS = [
  'created_asc',
  'created_desc',
  'created_ties',
  'updated_asc',
  'updated_desc',
  'name',
  'ties',
  'random',
] as const;
export type Order = (typeof ORDERS)[number];

export const COUNTS = ['right', 'absent', 'stale', 'lagging', 'plus', 'minus', 'capped'] as const;
export type Count = (typeof COUNTS)[number];

export const MIXES = {
  any: ['insert', 'delete', 'update', 'rename'],
  grow: ['insert'],
  shrink: ['delete'],
  turnover: ['insert', 'delete'],
  update: ['update'],
  rename: ['rename'],
  swap: ['swap'],
} as const;
export type Mix = keyof typeof MIXES;
type Event = (typeof MIXES)[Mix][number];

export interface ListSpec {
  readonly seed: number;
  readonly order: Order;
  readonly count: Count;
  readonly mix: Mix;
  /** Changes between two requests, on average. */
  readonly rate: number;
  readonly rows: number;
  readonly pageSize: number;
  /** Largest page that the server gives. */
  readonly cap: number;
  /** Whether records tell when they were created, and how their ids are made. */
  readonly isDated: boolean;
  readonly ids: 'uuid' | 'integer';
}

export interface Row {
  readonly id: string;
  /** Virtual time; rows of one batch share it under `created_ties`. */
  readonly created: number;
  updated: number;
  name: string;
  readonly group: number;
  /** Moves with every change. */
  version: number;
}

export interface ServedPage {
  readonly rows: readonly Row[];
  readonly count: number | null;
  readonly hasMore: boolean;
  readonly offset: number;
}

const CAPPED_AT = 100;
const BATCH = 25;

export class ChurningList {
  readonly spec: ListSpec;
  readonly #random: () => number;
  readonly #alive = new Map<string, Row>();
  #time = 0;
  #made = 0;
  #requests = 0;
  /** Answers of `count`, for those that come late. */
  #counts: number[] = [];
  /** What was there when the reading began and still is. */
  #throughout = new Set<string>();

  constructor(spec: ListSpec) {
    this.spec = spec;
    this.#random = seededRandom(spec.seed);
    for (let n = 0; n < spec.rows; n += 1) this.#insert();
    this.watch();
  }

  /** Records alive since `watch` was called. */
  get throughout(): ReadonlySet<string> {
    return this.#throughout;
  }

  get size(): number {
    return this.#alive.size;
  }

  isAlive(id: string): boolean {
    return this.#alive.has(id);
  }

  versionOf(id: string): number | undefined {
    return this.#alive.get(id)?.version;
  }

  /** A reading begins. */
  watch(): void {
    this.#throughout = new Set(this.#alive.keys());
  }

  /** One request, before which the list goes on changing. */
  serve(offset: number, limit: number): ServedPage {
    if (this.#requests > 0) this.change(this.spec.rate);
    this.#requests += 1;
    const ordered = this.#ordered();
    const received = Math.min(limit, this.spec.cap);
    const rows = ordered.slice(offset, offset + received).map((row) => ({ ...row }));
    return { rows, offset, hasMore: offset + received < ordered.length, count: this.#count() };
  }

  /** Lets `average` changes happen, more or less. */
  change(average: number): void {
    // Geometric around the average: bursts happen, and so does nothing at all.
    for (
      let left = this.#random() < average / (1 + average);
      left;
      left = this.#random() < average / (1 + average)
    )
      this.#happen();
  }

  #happen(): void {
    const events: readonly Event[] = MIXES[this.spec.mix];
    const drawn = events[Math.floor(this.#random() * events.length)]!;
    // A list that grows as fast as it is read has no end to reach.
    const event = drawn === 'insert' && this.#alive.size > 2 * this.spec.rows ? 'delete' : drawn;
    this.#time += 1;
    if (event === 'insert') this.#insert();
    else if (event === 'delete') this.#delete();
    else if (event === 'swap') {
      // The worst for counting: one goes, one comes, one moves, and the number stays.
      this.#delete();
      this.#insert();
      this.#rename();
    } else if (event === 'rename') this.#rename();
    else this.#update();
  }

  #insert(): void {
    this.#made += 1;
    const id =
      this.spec.ids === 'integer'
        ? String(1000 + this.#made)
        : Array.from({ length: 4 }, () => this.#hex()).join('-');
    const created =
      this.spec.order === 'created_ties' ? Math.floor(this.#made / BATCH) : this.#made + this.#time;
    const row = {
      id,
      created,
      updated: created,
      name: this.#hex(),
      group: Math.floor(this.#random() * 4),
      version: 1,
    };
    this.#time += 1;
    row.updated = this.#time + this.#made;
    this.#alive.set(id, row);
  }

  #delete(): void {
    const row = this.#any();
    if (row === undefined) return;
    this.#alive.delete(row.id);
    this.#throughout.delete(row.id);
  }

  #update(): void {
    const row = this.#any();
    if (row === undefined) return;
    row.updated = this.#time + this.#made;
    row.version += 1;
  }

  #rename(): void {
    const row = this.#any();
    if (row === undefined) return;
    row.name = this.#hex();
    row.version += 1;
  }

  #any(): Row | undefined {
    let at = Math.floor(this.#random() * this.#alive.size);
    for (const row of this.#alive.values()) {
      if (at === 0) return row;
      at -= 1;
    }
    return undefined;
  }

  #hex(): string {
    return Math.floor(this.#random() * 0x1_0000_0000)
      .toString(16)
      .padStart(8, '0');
  }

  #ordered(): Row[] {
    const rows = [...this.#alive.values()];
    const shuffled = (): Row[] => {
      for (let i = rows.length - 1; i > 0; i -= 1) {
        const j = Math.floor(this.#random() * (i + 1));
        [rows[i], rows[j]] = [rows[j]!, rows[i]!];
      }
      return rows;
    };
    switch (this.spec.order) {
      case 'created_asc':
        return rows.sort((a, b) => a.created - b.created);
      case 'created_desc':
        return rows.sort((a, b) => b.created - a.created);
      case 'created_ties':
        return shuffled().sort((a, b) => b.created - a.created);
      case 'updated_asc':
        return rows.sort((a, b) => a.updated - b.updated);
      case 'updated_desc':
        return rows.sort((a, b) => b.updated - a.updated);
      case 'name':
        return rows.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
      case 'ties':
        return shuffled().sort((a, b) => a.group - b.group);
      case 'random':
        return shuffled();
    }
  }

  #count(): number | null {
    const size = this.#alive.size;
    this.#counts.push(size);
    switch (this.spec.count) {
      case 'right':
        return size;
      case 'absent':
        return null;
      case 'stale':
        return this.#counts[Math.floor((this.#counts.length - 1) / 20) * 20]!;
      case 'lagging':
        return this.#counts.at(-2) ?? size;
      case 'plus':
        return size + 3;
      case 'minus':
        return Math.max(0, size - 3);
      case 'capped':
        return Math.min(size, CAPPED_AT);
    }
  }
}

/** A list for a number: every choice is drawn from it. */
export function specFor(seed: number, fixed: Partial<ListSpec> = {}): ListSpec {
  const random = seededRandom(seed * 7919 + 13);
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
  const pageSize = pick([10, 10, 20, 25, 50, 100, 250, 500]);
  return {
    seed,
    order: pick(ORDERS),
    // What is right or not there at all is commoner than what is wrong.
    count: pick([...COUNTS, 'right', 'right', 'absent', 'absent', 'absent']),
    mix: pick(['any', 'any', 'any', 'grow', 'shrink', 'turnover', 'update', 'rename', 'swap'] as const),
    rate: pick([0, 0.05, 0.1, 0.3, 1, 3]),
    rows: 50 + Math.floor(random() * 651),
    pageSize,
    cap: random() < 0.6 ? pageSize : Number.POSITIVE_INFINITY,
    isDated: random() < 0.7,
    ids: random() < 0.7 ? 'uuid' : 'integer',
    ...fixed,
  };
}
