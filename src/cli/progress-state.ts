/** What progress bars know of a run: filled by its events, read by whoever draws. */
import { CATALOG, definitionOf } from '../catalog/catalog.ts';
import { collectionKey } from '../catalog/collection-key.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import type { PlannedSweep, SyncEvents } from '../sync/events.ts';

/** One sweep as the bars see it. */
export interface SweepProgress extends PlannedSweep {
  readonly phase: 'planned' | 'open' | 'ended';
  /** Answers so far. */
  readonly pages: number;
  /** Rows received, at most as many as there are; once ended: distinct records. */
  readonly received: number;
  /** As the service says; null where it says nothing. */
  readonly count: number | null;
  /** Ended other than complete. */
  readonly isTroubled: boolean;
}

export class RunProgress {
  readonly #sweeps = new Map<string, SweepProgress>();
  #openKinds: readonly Kind[] = [];
  #hasPlan = false;
  #isPublishing = false;

  readonly events: SyncEvents = {
    sweepsPlanned: ({ sweeps, open }) => {
      for (const [key, { phase }] of this.#sweeps) if (phase === 'planned') this.#sweeps.delete(key);
      for (const planned of sweeps) {
        const key = collectionKey(planned);
        if (!this.#sweeps.has(key)) this.#sweeps.set(key, { ...planned, ...UNTOUCHED });
      }
      this.#openKinds = open;
      this.#hasPlan = true;
    },
    sweepStarted: ({ kind, scope, reading, known }) => {
      const planned = this.#sweeps.get(collectionKey({ kind, scope }));
      this.#sweeps.set(collectionKey({ kind, scope }), {
        kind,
        scope,
        pageRows: null,
        budget: null,
        ...planned,
        ...UNTOUCHED,
        reading,
        // For a list that was never read, nothing known is no knowledge.
        known: reading === 'each' || known > 0 ? known : (planned?.known ?? null),
        phase: 'open',
      });
    },
    sweepProgressed: ({ kind, scope, pages, received, count }) => {
      // Neighbouring pages overlap: rows seen twice are no further records.
      this.#change(kind, scope, { pages, received: Math.min(received, count ?? received), count });
    },
    sweepEnded: ({ kind, scope, records, outcome }) => {
      this.#change(kind, scope, { phase: 'ended', received: records, isTroubled: outcome !== 'complete' });
    },
    publishing: () => {
      this.#isPublishing = true;
    },
  };

  /** In catalog order. */
  get sweeps(): readonly SweepProgress[] {
    return [...this.#sweeps.values()].sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
  }

  get isPublishing(): boolean {
    return this.#isPublishing;
  }

  /** True when no further sweeps can turn up. */
  get isPlanWhole(): boolean {
    return this.#hasPlan && this.#openKinds.length === 0;
  }

  /**
   * Rows or parents that the sweep will have read in the end; null where nobody can say yet. Of a feed's newest pages
   * nothing tells how many they will be.
   */
  expected(sweep: SweepProgress): number | null {
    if (sweep.phase === 'ended') return sweep.received;
    if (sweep.reading === 'head') return null;
    if (sweep.count !== null) return Math.max(sweep.count, sweep.received);
    if (sweep.known !== null) return Math.max(sweep.known, sweep.received);
    const { from } = definitionOf(sweep.kind).discovery;
    const parent =
      sweep.reading !== 'each' || from === 'root'
        ? undefined
        : this.#sweeps.get(collectionKey({ kind: from, scope: sweep.scope }));
    const parents = parent === undefined ? null : this.expected(parent);
    return parents === null ? null : Math.min(parents, sweep.budget ?? parents);
  }

  #change(kind: Kind, scope: Scope, change: Partial<SweepProgress>): void {
    const sweep = this.#sweeps.get(collectionKey({ kind, scope }));
    if (sweep !== undefined) this.#sweeps.set(collectionKey({ kind, scope }), { ...sweep, ...change });
  }
}

const UNTOUCHED = { phase: 'planned', pages: 0, received: 0, count: null, isTroubled: false } as const;

const ORDER: readonly Kind[] = CATALOG.map(({ kind }) => kind);
