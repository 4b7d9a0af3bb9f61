/** The options of a run and the context of its sweeps. */
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
  /** What started the run: `command of NAME` or the name of a schedule. */
  readonly trigger: string;
  /** The kinds to read, besides those needed to find their collections; null for all kinds that the source includes. */
  readonly kinds: readonly Kind[] | null;
  /** Narrows the run to what belongs to these; default: everything that the configuration of the source allows. */
  readonly only?: ParentFilter;
  /** Read feeds completely, whatever their interval. */
  readonly isFull: boolean;
  /** The key for fingerprints of secrets (`redact`): another mirror's to compare with its records; default: the own one. */
  readonly fingerprintKey?: Uint8Array;
  /** The most held removals to accept in this run; 0 for none. */
  readonly acceptRemovals: number;
}

/** What all sweeps of a run share. */
export interface SweepContext {
  /** The name of the source. */
  readonly source: string;
  readonly client: ReadClient;
  readonly run: RunWriter;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly limits: RemovalLimits;
  readonly accepted: AcceptedRemovals;
  /** Set if the source was read at another address before. */
  readonly moved: MovedAddress | null;
  /** Called if nothing at the new address shows that this is the same source. */
  readonly foundOther: () => void;
  /** True after `foundOther`: then removals below the missing organizations are held too. */
  readonly isOther: () => boolean;
  /** The definition of a kind in effect: that of the catalog with profile and configuration applied. */
  readonly definitionOf: (kind: Kind) => ResourceDefinition;
  /** Called for every record of a kind with children whose removal this run decided. */
  readonly removed: (record: RecordKey) => void;
  /** How many records the mirror has below a record of a parent kind. They would be removed with it. */
  readonly dependents: (record: RecordKey) => number;
  /** How many records the mirror has of the source. */
  readonly sourceRecords: () => number;
  readonly pageSize: number;
  readonly concurrency: number;
  readonly signal: AbortSignal;
}
