/** One thing that may stand where the cursor is, and what only the command line knows of the places that tell more. */

export interface Candidate {
  readonly value: string;
  /** Shown beside it by shells that do that; one line. */
  readonly description: string;
}

/** What finds out the values that this machine knows. */
export interface LocalQuestion {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** As given so far on the command line. */
  readonly config: string | undefined;
  readonly sources: readonly string[];
  /** True when there is no time left to read more. */
  readonly isLate: () => boolean;
}
