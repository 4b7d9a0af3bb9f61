/** Drift of one source, as `drift` and `drift accept` find it. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind, ResourceDefinition, Severity } from '../catalog/definition.ts';
import type { Config } from '../config/config.ts';
import { TidemarkError } from '../core/errors.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import { compareRecords } from '../diff/change.ts';
import { isComparedMember } from '../diff/compare.ts';
import type { Drift } from '../diff/drift.ts';
import { assessDrift } from '../diff/drift.ts';
import { isOnTheWay } from '../diff/field-filter.ts';
import type { FingerprintOf } from '../diff/fingerprint.ts';
import { fingerprints } from '../diff/fingerprint.ts';
import type { IgnoreRule } from '../diff/ignore-rule.ts';
import type { RecordKey } from '../diff/order.ts';
import { splitPointer } from '../diff/pointer.ts';
import type { SeverityOf, SeverityRule } from '../diff/severity.ts';
import { severities } from '../diff/severity.ts';
import { parseState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import { compareStates } from '../state/compare.ts';
import type { StateFilter } from '../state/filter.ts';
import { filterParts, selectsRecord } from '../state/filter.ts';
import type { Reference } from '../state/reference.ts';
import type { LoadedState } from '../state/state.ts';
import { definitionsFor } from './source-definitions.ts';
import type { StateOpener } from './state-opener.ts';
import { isOfMirror } from './state-opener.ts';
import { unlistedKinds } from './unlisted-kinds.ts';

const NOT_CONFIGURED = 'they fill by themselves, which is no drift; name the kind with --kind to compare it';

export interface DriftQuestion {
  readonly source: string;
  readonly from: Reference;
  readonly to: Reference;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  readonly fields: readonly string[];
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Of an export: it holds all there is of what it speaks of. */
  readonly isFileWhole?: boolean;
  /** Ends the comparison early. */
  readonly signal?: AbortSignal;
}

export interface SourceDrift extends Drift {
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly severityOf: SeverityOf;
  readonly fingerprintOf: FingerprintOf;
}

/**
 * Compares and judges. Kinds that fill by themselves are left out unless the filter names them: a new recording is no
 * configuration drift.
 * @throws TidemarkError as `compareStates`, and when a state cannot be opened
 */
export async function findDrift(
  config: Config,
  opener: StateOpener,
  question: DriftQuestion,
): Promise<SourceDrift> {
  const { source, from, to, filter, mode, fields, now } = question;
  const definitions = definitionsFor(config, source);
  const { ignore, severities: overrides } = rulesFor(config, source);
  const severityOf = severities(definitions, overrides);
  const left = unlistedKinds().filter((kind) => filter.kinds?.includes(kind) !== true);
  const sides = await opener.openPair(
    { reference: from, source },
    { reference: to, source },
    { filter, except: new Set(left), isFileWhole: question.isFileWhole === true },
  );
  const diff = await compareStates({
    ...sides,
    filter,
    mode,
    fields,
    definitions,
    leaveOut: new Map(filter.kinds === undefined ? left.map((kind) => [kind, NOT_CONFIGURED]) : []),
    ...(isOfMirror(from) && isOfMirror(to) ? { mirror: opener.mirror() } : {}),
    idMap: opener.mirrorIfAny()?.idMap(source) ?? [],
    ...(question.signal === undefined ? {} : { signal: question.signal }),
  });
  const mirror = opener.mirror();
  const fingerprintOf = fingerprints({
    source,
    key: mirror.fingerprintKey(),
    whole: wholeChanges(diff, sides.to, definitions, question),
  });
  const drift = assessDrift({
    fingerprintOf,
    diff,
    rules: ignore,
    acceptances: mirror.acceptances(source),
    covers: coverage(sides, definitions, question),
    severityOf,
    now,
  });
  return { ...drift, source, definitions, severityOf, fingerprintOf };
}

/**
 * Added records as the default comparison tells them: what was accepted of one holds whatever the comparison at hand was
 * narrowed to.
 */
function wholeChanges(
  { changes }: DiffDocument,
  to: LoadedState,
  definitions: (kind: Kind) => ResourceDefinition,
  { mode, fields }: DriftQuestion,
): (change: RecordChange) => RecordChange {
  const known = new Map<string, RecordChange>();
  if (mode !== 'default' || fields.length > 0) {
    const added = Map.groupBy(
      changes.filter(({ change }) => change === 'added'),
      ({ kind }) => kind,
    );
    for (const [kind, own] of added) {
      const ids = new Set(own.map(({ id }) => id));
      for (const record of to.records({ kinds: [kind], ids: [...ids] })) {
        const whole = compareRecords(definitions(kind), undefined, parseState(record), 'default');
        if (whole !== null) known.set(keyText(record), whole);
      }
    }
  }
  return (change) => (change.change === 'added' ? (known.get(keyText(change)) ?? change) : change);
}

/** Whether the comparison would have shown drift at a place: else that there is none says nothing of it. */
function coverage(
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  definitions: (kind: Kind) => ResourceDefinition,
  { filter, mode, fields }: DriftQuestion,
): (key: RecordKey, path: string) => boolean {
  const organizations = filter.organizations ?? [];
  const parts = filterParts(filter, () => [
    ...new Set([...from.projectsOf(organizations), ...to.projectsOf(organizations)]),
  ]);
  return (key, path) => {
    if (!parts.some((part) => selectsRecord(part, key))) return false;
    const [member] = splitPointer(path);
    // That a record came or went is not told where only some fields are looked at, and it has none of them.
    if (member === undefined) return fields.length === 0;
    if (!isComparedMember(definitions(key.kind), member, mode)) return false;
    return fields.length === 0 || isOnTheWay(path, fields);
  };
}

function keyText({ kind, scope, id }: RecordKey): string {
  return JSON.stringify([kind, scopeKey(scope), id]);
}

function rulesFor(
  config: Config,
  source: string,
): { ignore: readonly IgnoreRule[]; severities: readonly SeverityRule[] } {
  const isHere = (rule: { readonly source?: string | undefined }): boolean =>
    rule.source === undefined || rule.source === source;
  return {
    ignore: config.drift.ignore.filter(isHere).map(({ kind, id, path, reason }) => ({
      ...(kind === undefined ? {} : { kind }),
      ...(id === undefined ? {} : { id }),
      ...(path === undefined ? {} : { path }),
      reason,
    })),
    severities: config.drift.severities.filter(isHere).map(({ kind, path, severity }) => ({
      ...(kind === undefined ? {} : { kind }),
      ...(path === undefined ? {} : { path }),
      severity,
    })),
  };
}

/** True for what matters at least as much as the threshold. */
export function isAtLeast(severity: Severity, threshold: Severity | undefined): boolean {
  const order: readonly Severity[] = ['critical', 'high', 'medium', 'low'];
  return threshold === undefined || order.indexOf(severity) <= order.indexOf(threshold);
}

/** @throws TidemarkError `reference_unknown`, before anything is read, when drift would be measured from a baseline that is not set */
export function requireBaseline(mirror: Mirror, from: Reference): void {
  if (from.form !== 'baseline' || mirror.baseline() !== undefined) return;
  throw new TidemarkError('reference_unknown', 'no baseline is set: there is nothing to measure drift from', {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`; or name one with --from',
  });
}
