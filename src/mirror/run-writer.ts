/** One run from its beginning to its publication, as the sync sees it. */
import type { TidemarkError } from '../core/errors.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import type { Kind, ResourceDefinition, Scope } from '../catalog/definition.ts';
import type { CollectionStage } from './collection-stage.ts';
import type { RunOutcome, StoredError, SweepResult } from './sweep-result.ts';

export interface RunOptions {
  readonly source: { readonly name: string; readonly baseUrl: string };
  /** What started it, e.g. `sync` or the schedule's name. */
  readonly trigger: string;
  /** The kinds that it is narrowed to; null, or left out, for all that the configuration includes. */
  readonly kinds?: readonly Kind[] | null;
  /** Members that the stable text leaves out, per kind: exactly those that the records are scanned with. */
  readonly volatileFields: ReadonlyMap<Kind, ReadonlySet<string>>;
  readonly definitions: readonly ResourceDefinition[];
  /** The one comparison: true when two bodies of a kind are equal by value. */
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** What is staged, hashed and stored in place of a record as received; left out: the record itself. */
  readonly redact?: (kind: Kind, record: ScannedRecord) => ScannedRecord;
}

/** Requests of a run so far. */
export interface RunFigures {
  readonly requests: number;
  readonly retries: number;
}

export interface PublishInput extends RunFigures {
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly sweeps: readonly SweepResult[];
  readonly error?: StoredError | null;
}

export interface PublishedRun {
  readonly run: number;
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Hex; null for a failed run. */
  readonly root: string | null;
  /**
   * What went wrong after the commit (a disk too full to empty the log): nothing of the run is lost, and the next opening
   * for writing tidies up. Null as a rule.
   */
  readonly untidy: TidemarkError | null;
}

export interface RunWriter {
  readonly run: number;
  readonly startedAt: string;
  /** The stage of one collection; the same object for the same kind and scope. */
  stage(kind: Kind, scope: Scope): CollectionStage;
  /** The collection went away with its parent record: its current records become tombstones. Returns how many. */
  retire(kind: Kind, scope: Scope): Promise<number>;
  /**
   * For a kind that is read one by one: its records whose parent record is not there any more, or goes in this run, go
   * as well. Call it when the parents are settled. Returns how many; 0 for other kinds.
   */
  removeOrphans(kind: Kind, scope: Scope): Promise<number>;
  /** For a kind that is read one by one: how many of its parents no run has asked for yet, this one included. */
  countUnchecked(kind: Kind, scope: Scope): Promise<number>;
  /**
   * Makes the run visible in one transaction, seals it, empties the log and deletes the stage. Asynchronous only to give
   * the event loop air. A failed run publishes its own row and its sweeps, no record.
   * @throws TidemarkError (`disk_full` and others); then nothing was published, and `abandon` is still possible
   */
  publish(input: PublishInput): Promise<PublishedRun>;
  /**
   * Ends the run as failed, deletes the stage, changes nothing else. Where even that cannot be written (a full disk),
   * the next opening for writing ends it. `figures` are the requests sent until then.
   */
  abandon(error: StoredError, figures?: RunFigures): void;
}
