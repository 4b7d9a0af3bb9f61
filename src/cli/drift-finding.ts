/** Drift of one source, as `drift` and `drift accept` find it: the states that were named, opened. */
import type { Severity } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import { compareSeverities } from '../diff/severity.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type DriftExtent, type SourceDrift, driftBetween, kindsOutsideDrift } from '../state/drift.ts';
import type { Reference } from '../state/reference.ts';
import { pairWarnings } from './pair-warnings.ts';
import { type StateOpener, isOfMirror } from './state-opener.ts';

interface DriftQuestion extends DriftExtent {
  readonly from: Reference;
  readonly to: Reference;
  /** Of an export: it holds all there is of what it speaks of. */
  readonly isFileWhole?: boolean;
}

export interface FoundDrift extends SourceDrift {
  /** What speaks against the question, a line each. */
  readonly warnings: readonly string[];
}

/**
 * Compares and judges. Kinds that fill by themselves are left out unless the filter names them: a new recording is no
 * configuration drift.
 * @throws TidemarkError as `driftBetween`, and when a state cannot be opened
 */
export async function findDrift(
  config: Config,
  opener: StateOpener,
  question: DriftQuestion,
): Promise<FoundDrift> {
  const { source, from, to, filter } = question;
  const sides = await opener.openPair(
    { reference: from, source },
    { reference: to, source },
    { filter, except: new Set(kindsOutsideDrift(filter)), isFileWhole: question.isFileWhole === true },
  );
  const isOfOneMirror = isOfMirror(from) && isOfMirror(to);
  const drift = await driftBetween(config, opener.mirrorIfAny(), sides, isOfOneMirror, question);
  return { ...drift, warnings: pairWarnings(sides) };
}

/** True for what matters at least as much as the threshold. */
export function isAtLeast(severity: Severity, threshold: Severity | undefined): boolean {
  return threshold === undefined || compareSeverities(severity, threshold) <= 0;
}

/** @throws TidemarkError `reference_unknown`, before anything is read, when drift would be measured from a baseline that is not set */
export function requireBaseline(mirror: Mirror, from: Reference): void {
  if (from.form !== 'baseline' || mirror.baseline() !== undefined) return;
  throw new TidemarkError('reference_unknown', 'no baseline is set: there is nothing to measure drift from', {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`; or name one with --from',
  });
}
