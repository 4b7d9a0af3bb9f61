/** What a run is given, and what it hands back. */
import type { ReadClient } from '../api/read-client.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { SyncEvents } from './events.ts';
import type { ParentFilter } from './run-extent.ts';
import type { RunOutcome, SweepError, SweepReport } from './outcome.ts';

export interface SyncOptions {
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  readonly client: ReadClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly signal: AbortSignal;
  /** What started it: `command`, or a schedule's name. */
  readonly trigger: string;
  /** Only these kinds, and what is needed to find their collections; null for all that the source includes. */
  readonly kinds: readonly Kind[] | null;
  /** Only what belongs to these, of what the source's configuration allows. Left out: all of that. */
  readonly only?: ParentFilter;
  /** Feeds whole, whatever their cadence says. */
  readonly isFull: boolean;
  /** Under which secrets are fingerprinted (`redact`): another mirror's, where its records are compared with; else its own. */
  readonly fingerprintKey?: Uint8Array;
  /** Most held removals to accept now; 0 for none. */
  readonly acceptRemovals: number;
}

/** One run as `tidemark.sync/1` shows it. Times are ISO 8601 UTC. */
export interface RunReport {
  readonly run: number;
  readonly source: string;
  readonly outcome: RunOutcome;
  readonly started_at: string;
  readonly finished_at: string;
  readonly requests: number;
  readonly retries: number;
  readonly sweeps: readonly SweepReport[];
  /** Why it failed; left out where it did not. */
  readonly error?: SweepError;
}
