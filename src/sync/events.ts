/** Progress events of a run, for progress bars and logs only. */
import type { CollectionKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { SweepReport } from './outcome.ts';

/** How a sweep reads: all pages, a feed's newest ones, or one request per parent record. */
export type SweepReading = 'full' | 'head' | 'each';

/** A sweep that is still to come. */
export interface PlannedSweep extends CollectionKey {
  readonly reading: SweepReading;
  /** Records that the mirror holds, for `each` the parents to ask for; null where the collection was never read. */
  readonly known: number | null;
  /** Rows of the largest page that the service gave before; null where it gave none yet. */
  readonly pageRows: number | null;
  /** Most requests that this run spends on it (`each`); null for no limit. */
  readonly budget: number | null;
}

export interface SyncEvents {
  /**
   * All sweeps that are not begun, as far as they are known now: those of earlier levels are certain, later ones are
   * as earlier runs left them. `open`: kinds of which the number of sweeps is not known yet.
   */
  sweepsPlanned(plan: { sweeps: readonly PlannedSweep[]; open: readonly Kind[] }): void;
  /** `known`: as in the plan, but counted; 0 where nothing is. */
  sweepStarted(sweep: { kind: Kind; scope: Scope; reading: SweepReading; known: number }): void;
  /** `pages` counts answers, `received` rows, repeated ones included; `count` is what the service says. */
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
