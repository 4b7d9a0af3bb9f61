/** What a run tells while it goes on: progress bars and logs listen, nothing decides by it. */
import type { Kind, Scope } from '../catalog/definition.ts';
import type { SweepReport } from './outcome.ts';

export interface SyncEvents {
  sweepStarted(sweep: { kind: Kind; scope: Scope; known: number }): void;
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
  sweepStarted: ignore,
  sweepProgressed: ignore,
  sweepEnded: ignore,
  publishing: ignore,
};
