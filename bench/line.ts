/** One figure of the bench beside its bound. */
export interface Line {
  readonly name: string;
  readonly figure: string;
  readonly bound: string;
  readonly isMet: boolean;
}
