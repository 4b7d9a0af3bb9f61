/** What a run is given, and what its sweeps work with. */
import type { ReadClient } from '../api/read-client.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RunWriter } from '../mirror/run-writer.ts';
import type { SyncEvents } from './events.ts';
import type { AcceptedRemovals, MovedAddress, RemovalLimits } from './removals.ts';
import type { ParentFilter } from './run-extent.ts';

export interface SyncOptions {
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  readonly client: ReadClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly signal: AbortSignal;
  /** What started it: `command of NAME`, or a schedule's name. */
  readonly trigger: string;
  /** Only these kinds, and what is needed to find their collections; null for every kind that the source includes. */
  readonly kinds: readonly Kind[] | null;
  /** Only what belongs to these, of what the source's configuration allows. Left out: all of that. */
  readonly only?: ParentFilter;
  /** Feeds completely, whatever their cadence is. */
  readonly isFull: boolean;
  /** Under which secrets are fingerprinted (`redact`): another mirror's, where its records are compared with; else its own. */
  readonly fingerprintKey?: Uint8Array;
  /** Most held removals to accept now; 0 for none. */
  readonly acceptRemovals: number;
}

/** What every sweep of a run works with. */
export interface SweepContext {
  /** Name of the source. */
  readonly source: string;
  readonly client: ReadClient;
  readonly run: RunWriter;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly limits: RemovalLimits;
  readonly accepted: AcceptedRemovals;
  /** Where the source was read before, if that was at another address. */
  readonly moved: MovedAddress | null;
  /** Called where nothing at the new address shows that this is the same source. */
  readonly foundOther: () => void;
  /** True from then on: what is below the organizations that are missing there is held too. */
  readonly isOther: () => boolean;
  /** The effective definition of a kind: the catalog's with profile and configuration applied. */
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  /** Called for every record of a kind with children whose removal this run decided. */
  readonly removed: (record: RecordKey) => void;
  /** Records that the mirror holds below a record of a parent kind: they would be removed with it. */
  readonly dependents: (record: RecordKey) => number;
  /** Records that the mirror holds of the source. */
  readonly sourceRecords: () => number;
  readonly pageSize: number;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}
