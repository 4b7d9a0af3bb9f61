/** What `drift`, `drift accept` and `drift unaccept` share: finding the drift of a source, and places that `--field` names. */
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

/** True if one of the names of a place is one of the pointers, or below it; also without pointers. */
export function isAskedFor(names: readonly string[], pointers: readonly string[] | undefined): boolean {
  return (
    pointers === undefined || pointers.some((pointer) => names.some((name) => isPointerWithin(name, pointer)))
  );
}

/** The place with indexes for its elements (`[id=…]`), as `drift accept` takes it; null if the body does not have one of them. */
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

interface DriftQuestion extends DriftExtent {
  readonly from: Reference;
  readonly to: Reference;
}

export interface FoundDrift extends SourceDrift {
  /** As `missingWithin`. */
  readonly missing: readonly RecordKey[];
  /** As `pairWarnings`. */
  readonly warnings: readonly string[];
  /** A line for each acceptance that contradicts the audit log. */
  readonly contradictions: readonly string[];
}

/**
 * The drift of one source. Activity kinds are left out unless the filter names them: a new recording is not configuration drift.
 * @throws TidemarkError as `driftBetween`, and if a state cannot be opened
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

function contradictionsOf({ contradicted, source, definitions }: SourceDrift): string[] {
  const found = contradicted.flatMap(
    (acceptance) => contradictionText(acceptance, source, definitions) ?? [],
  );
  return found.length === 0
    ? []
    : [...found, '  → `tidemark verify` names everything that does not match the audit log'];
}

/** True if the severity is the threshold or higher. */
export function isAtLeast(severity: Severity, threshold: Severity | undefined): boolean {
  return threshold === undefined || compareSeverities(severity, threshold) <= 0;
}

/** @throws TidemarkError `reference_unknown` if drift is to be measured from the baseline and none is set */
export function requireBaseline(mirror: Mirror, from: Reference): void {
  if (from.form !== 'baseline' || mirror.snapshots.baseline() !== undefined) return;
  throw new TidemarkError('reference_unknown', 'no baseline is set: there is nothing to measure drift from', {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`; or name one with --from',
  });
}

/**
 * Warns if the states seem to be of two deployments. These have different ids: matched by id, every record of one state would be added,
 * and every record of the other removed.
 */
export function pairWarnings({ from, to }: Record<'from' | 'to', LoadedState>): string[] {
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
