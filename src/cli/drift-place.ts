/** `--field` of `drift accept` and `drift unaccept`: a pointer as reports show it, by index or by `[id=…]`, or one above. */
import type { Severity } from '../catalog/definition.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { elementSegment, isElementSegment } from '../diff/elements.ts';
import { isPointerWithin } from '../diff/change.ts';
import { pointerTo, resolvePointer, splitPointer } from '../core/json-pointer.ts';
import { compareSeverities } from '../diff/severity.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { contradictionText } from '../report/drift-document.ts';
import {
  type DriftExtent,
  type SourceDrift,
  driftBetween,
  kindsOutsideDrift,
  missingWithin,
} from '../state/drift.ts';
import type { Reference } from '../state/reference.ts';
import type { LoadedState } from '../state/state.ts';
import { type StateOpener, isOfMirror } from './state-opener.ts';

/** True for a place at or below one of the pointers, by any of the names that the place goes by. */
export function isAskedFor(names: readonly string[], pointers: readonly string[] | undefined): boolean {
  return (
    pointers === undefined || pointers.some((pointer) => names.some((name) => isPointerWithin(name, pointer)))
  );
}

/**
 * The place by the indexes at which its elements are in a body, as `drift accept` takes them; null where one of them
 * is nowhere in it.
 */
export function placeByIndex(place: string, body: JsonValue): string | null {
  const segments: string[] = [];
  for (const segment of splitPointer(place)) {
    const list = isElementSegment(segment) ? resolvePointer(body, pointerTo(segments)) : undefined;
    if (!Array.isArray(list)) {
      segments.push(segment);
      continue;
    }
    const index = list.findIndex((element) => elementSegment(element) === segment);
    if (index === -1) return null;
    segments.push(String(index));
  }
  return pointerTo(segments);
}

// Drift of one source, as `drift` and `drift accept` find it: the states that were named, opened.

interface DriftQuestion extends DriftExtent {
  readonly from: Reference;
  readonly to: Reference;
}

export interface FoundDrift extends SourceDrift {
  /** Of `missingWithin`. */
  readonly missing: readonly RecordKey[];
  /** What speaks against the question, a line each. */
  readonly warnings: readonly string[];
  /** Acceptances of the source that are not as the audit log has them, a line each. */
  readonly contradictions: readonly string[];
}

/**
 * Compares and classifies. Activity kinds are left out unless the filter names them: a new recording is not
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
    { filter, except: new Set(kindsOutsideDrift(filter)) },
  );
  const isOfOneMirror = isOfMirror(from) && isOfMirror(to);
  const mirror = opener.mirrorIfAny();
  const drift = await driftBetween(config, mirror, sides, isOfOneMirror, question);
  return {
    ...drift,
    missing: mirror === null ? [] : missingWithin(mirror, sides, question),
    warnings: pairWarnings(sides),
    contradictions: contradictionsOf(drift),
  };
}

/** A line for each acceptance that is not as the audit log has it. */
function contradictionsOf({ contradicted, source, definitions }: SourceDrift): string[] {
  const found = contradicted.flatMap(
    (acceptance) => contradictionText(acceptance, source, definitions) ?? [],
  );
  return found.length === 0
    ? []
    : [...found, '  → `tidemark verify` names everything that does not match the audit log'];
}

/** True for what matters at least as much as the threshold. */
export function isAtLeast(severity: Severity, threshold: Severity | undefined): boolean {
  return threshold === undefined || compareSeverities(severity, threshold) <= 0;
}

/** @throws TidemarkError `reference_unknown`, before anything is read, when drift would be measured from a baseline that is not set */
export function requireBaseline(mirror: Mirror, from: Reference): void {
  if (from.form !== 'baseline' || mirror.snapshots.baseline() !== undefined) return;
  throw new TidemarkError('reference_unknown', 'no baseline is set: there is nothing to measure drift from', {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`; or name one with --from',
  });
}

// What speaks against the question of a comparison rather than for its answer: states of two places.

interface Pair {
  readonly from: LoadedState;
  readonly to: LoadedState;
}

/** A line each. Ids of another deployment are other ids: matched by them, everything there has come, and everything here gone. */
export function pairWarnings({ from, to }: Pair): string[] {
  const file = [from, to].find(({ reference }) => reference.ref.startsWith('file:'));
  if (file === undefined) return [];
  const [one, other] = [organizationsOf(from), organizationsOf(to)];
  if (one.size === 0 || other.size === 0 || !one.isDisjointFrom(other)) return [];
  const beside = file === from ? to : from;
  return [
    `${file.reference.ref} and ${beside.reference.ref} have no organization in common: they seem to be of two deployments, and records were matched by id (--source A --to-source B matches them by name)`,
  ];
}

function organizationsOf(state: LoadedState): ReadonlySet<string> {
  const kinds = ['organizations'] as const;
  return new Set([
    ...[...(state.keys?.({ kinds }) ?? state.records({ kinds }))].map(({ id }) => id),
    ...state.collections().flatMap(({ scope }) => scope.organization_id ?? []),
  ]);
}
