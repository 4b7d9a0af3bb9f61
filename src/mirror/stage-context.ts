/** What a run lends to the stages of its collections. */
import type { ScannedRecord } from '../core/json-scan.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import type { StageStatements } from './stage-statements.ts';

export interface StageContext {
  readonly writer: Connection;
  readonly path: string;
  readonly statements: StageStatements;
  readonly shapes: RunShapes;
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** As in `RunOptions`. */
  readonly redact: ((kind: Kind, record: ScannedRecord) => ScannedRecord) | undefined;
  /** A number that no other walk of the run has. */
  readonly nextWalk: () => number;
  /** Likewise for new records. */
  readonly nextFresh: () => number;
  /** Throws once the run is over, and when the stage broke. */
  readonly check: () => void;
  /** The stage could not be written: it has no journal, so nothing of it may be published. */
  readonly breakStage: (cause: unknown) => void;
}
