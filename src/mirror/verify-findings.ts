/** What a verification finds, and what its parts report to. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';

export interface VerifyProblem {
  readonly kind:
    | 'body' // a current record is not what was sealed
    | 'revision' // history is not what was sealed
    | 'chain' // the seal of a run, a pin, an acceptance or a run's row does not hold
    | 'schema' // a table or view is not as it should be
    | 'index'; // SQLite finds the file damaged, or a count is wrong
  readonly message: string;
  readonly recordKind?: Kind;
  readonly scope?: Scope;
  readonly id?: string;
  readonly run?: number;
}

/** Something that explains what a verification finds, and is not a fault. */
export interface VerifyNote {
  readonly message: string;
  /** The latest sealed run of that time. */
  readonly run: number;
  readonly at: string;
}

/** What the parts of a verification report to. */
export interface Findings {
  readonly checked: { records: number; revisions: number; runs: number };
  add(problem: VerifyProblem): void;
  note(note: VerifyNote): void;
}
