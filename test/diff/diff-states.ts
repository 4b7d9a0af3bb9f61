import type { DiffDocument } from '../../src/diff/change.ts';
import { runToEnd, stepsOverStates } from '../../src/diff/states.ts';

/** The comparison of two states in one step. */
export function diffStates(...given: Parameters<typeof stepsOverStates>): DiffDocument {
  return runToEnd(stepsOverStates(...given));
}
