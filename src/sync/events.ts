/** Progress events of a run, for progress bars and logs only. */
import type { CollectionKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { SweepReport } from './outcome.ts';

/** How a sweep reads: all pages, the newest pages of a feed, or one request per parent record. */
export type SweepReading = 'full' | 'head' | 'each';

/** A sweep that has not begun. */
export interface PlannedSweep extends CollectionKey {
  readonly reading: SweepReading;
  /** How many records the mirror has; for `each`, how many parents to check; null if the collection was never read. */
  readonly known: number | null;
  /** The number of rows on the largest page of earlier runs; null if there was none. */
  readonly pageRows: number | null;
  /** The most requests that this run uses for it (`each`); null for no limit. */
  readonly budget: number | null;
}

export interface SyncEvents {
  /**
   * All sweeps that have not begun, as far as known: those of earlier levels are certain, later ones are as in earlier
   * runs. `open`: kinds whose number of sweeps is not known yet.
   */
  sweepsPlanned(plan: { sweeps: readonly PlannedSweep[]; open: readonly Kind[] }): void;
  /** `known`: as in the plan, but counted now; 0 if the mirror has none. */
  sweepStarted(sweep: { kind: Kind; scope: Scope; reading: SweepReading; known: number }): void;
  /** `pages` counts responses; `received` counts rows, including repeated ones; `count` is reported by the service. */
  sweepProgressed(sweep: {
    kind: Kind;
    scope: Scope;
    pages: number;
    received: number;
    count: number | null;
  }): void;
  sweepEnded(report: SweepReport, durationMs: number): void;
  publishing(): void;
}

const ignore = (): void => undefined;
export const silentEvents: SyncEvents = {
  sweepsPlanned: ignore,
  sweepStarted: ignore,
  sweepProgressed: ignore,
  sweepEnded: ignore,
  publishing: ignore,
};
