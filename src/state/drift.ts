/** Drift between two states of one source, for the command `drift` and the daemon's job. */
import { activityKinds } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { isExcludedBy, mirroredKinds } from '../config/mirrored-kinds.ts';
import { definitionsFor } from '../config/source.ts';
import { cached } from '../core/cached.ts';
import { defined } from '../core/defined.ts';
import { type DiffDocument, type RecordChange, compareRecords, overlapsPointer } from '../diff/change.ts';
import { type ComparisonMode, type FieldChange, isComparedMember } from '../diff/compare.ts';
import { type Drift, type DriftInput, type EarlierIds, assessDrift } from '../diff/drift.ts';
import { type FingerprintOf, fingerprints, placeFingerprint } from '../diff/fingerprint.ts';
import type { FormChange, FormFacts, ValueThen } from '../diff/form-change.ts';
import type { MatchedIds } from '../diff/match-records.ts';
import { type IgnoreRule, type IgnoreTest, ignoreTest } from '../diff/rules.ts';
import type { RecordKey } from '../catalog/order.ts';
import { splitPointer, resolvePointer } from '../core/json-pointer.ts';
import { recordsOnce } from '../diff/families.ts';
import { type SeverityOf, type SeverityRule, severities } from '../diff/severity.ts';
import { type RecordState, skipTest, parseState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { redactedValues } from '../sync/redaction.ts';
import { compareStates } from './compare.ts';
import { possibleMode } from './compared-fields.ts';
import { type StateFilter, filterParts, keysOf, selectsRecord } from './filter.ts';
import { heldBelowTest } from './held-names.ts';
import { resolvedStateOf } from './resolved-state.ts';
import { IdHistories, RecreatedReferences, shownIds, soleIds } from './recreated-ids.ts';
import { BASELINE } from './reference.ts';
import { isAssigned, withoutNewIds, withoutSentInvites } from './restore-effects.ts';
import { type LoadedState, recordKey } from './state.ts';
import { isNamedAnyway, kindsOfNeither } from './unasked.ts';

const ACTIVITY = 'activity data; use --kind to include them';
const NOT_MIRRORED = 'excluded by `kinds` in the configuration';

export type Sides = Readonly<Record<'from' | 'to', LoadedState>>;

/** What is compared, and how. */
export interface DriftExtent {
  readonly source: string;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields: readonly string[];
  /** The ids of the filter as the user typed them: an id that was typed masked is never shown. */
  readonly typedIds?: readonly string[];
  /** As in a comparison of states. */
  readonly isUnasked?: true;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The reason for kinds that are left out; by default it names the option that includes them. */
  readonly whyLeftOut?: string;
  /** Ends the comparison early. */
  readonly signal?: AbortSignal;
}

export interface SourceDrift extends Drift {
  readonly source: string;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly severityOf: SeverityOf;
  readonly fingerprintOf: FingerprintOf;
}

/** Kinds that drift leaves out unless the filter names them: a new recording is not configuration drift. */
export function kindsOutsideDrift(filter: StateFilter): Kind[] {
  return activityKinds().filter((kind) => filter.kinds?.includes(kind) !== true);
}

/**
 * Compares and classifies, by the ignore rules, severities and acceptances of the source.
 * @param mirror has the acceptances, the id map and the key; null without one: a fingerprint then identifies the place only
 * @param areOfMirror true if both states are of that mirror: then the cost is proportional to the changes
 * @throws TidemarkError as `compareStates`
 */
export async function driftBetween(
  config: Config,
  mirror: Mirror | null,
  sides: Sides,
  areOfMirror: boolean,
  given: DriftExtent,
): Promise<SourceDrift> {
  const extent = { ...given, mode: possibleMode(given.mode, sides.from, sides.to) };
  const { source, filter, mode, fields, now, whyLeftOut = ACTIVITY } = extent;
  const definitions = definitionsFor(config, source);
  const { ignore, severities: overrides } = rulesFor(config, source);
  const severityOf = severities(definitions, overrides);
  const left = kindsOutsideDrift(filter);
  const configured = config.sources.find(({ name }) => name === source);
  const mirrored = configured === undefined ? null : mirroredKinds(configured);
  const why = (kind: Kind): string => (mirrored?.has(kind) === false ? NOT_MIRRORED : whyLeftOut);
  const idMap = mirror?.restores.idMap(source) ?? [];
  const compared = await compareStates({
    ...sides,
    filter,
    mode,
    fields,
    definitions,
    leaveOut: new Map([
      ...kindsOfNeither(configured, [sides.from, sides.to], filter),
      ...(filter.kinds === undefined ? left.map((kind) => [kind, why(kind)] as const) : []),
    ]),
    isExcluded: isExcludedBy(config, source),
    ...(areOfMirror && mirror !== null ? { mirror } : {}),
    idMap,
    ...defined({ typedIds: extent.typedIds, isUnasked: extent.isUnasked, signal: extent.signal }),
  });
  const known = withoutNewIds(compared, idMap, definitions, severityOf);
  const diff =
    mirror === null
      ? known
      : withoutSentInvites(known, mirror, source, {
          ...sides,
          idMap,
          missing: () => missingIn(mirror, source, sides.to),
          now,
        });
  const fingerprintOf: FingerprintOf =
    mirror === null
      ? (change, field) => placeFingerprint(source, change, field)
      : fingerprints({
          source,
          key: mirror.acceptances.fingerprintKey(),
          redacted: redactedValues(mirror.acceptances.fingerprintKey(), definitions),
          whole: wholeChanges(mirror, diff, sides.to, { ...extent, definitions, severityOf }),
        });
  const drift = assessDrift({
    fingerprintOf,
    diff,
    rules: ignore,
    acceptances: mirror?.acceptances.checked(source) ?? [],
    ...(idMap.length === 0 ? {} : underOtherIds(idMap, sides, definitions)),
    ...(mirror === null ? {} : { forms: formFacts(mirror, sides, diff, { source, filter, definitions }) }),
    covers:
      mirror === null || isBaseline(mirror, sides.from, extent)
        ? coverage(sides, definitions, extent)
        : () => false,
    severityOf,
    now,
  });
  const missing = mirror === null ? [] : missingWithin(mirror, sides, extent);
  const held = heldCount(missing, sides, diff, extent);
  const { summary } = drift.document;
  const document =
    held === 0
      ? drift.document
      : { ...drift.document, summary: { ...summary, unchanged: summary.unchanged - held, held } };
  return { ...drift, document, source, definitions, severityOf, fingerprintOf };
}

/**
 * The records of TO within the filter whose removal, or that of a record above them, is held; none if TO is not the newest
 * state.
 */
export function missingWithin(
  mirror: Mirror,
  sides: Sides,
  { source, filter }: Pick<DriftExtent, 'source' | 'filter'>,
): readonly RecordKey[] {
  const records = missingIn(mirror, source, sides.to);
  if (records.length === 0) return [];
  const parts = filterParts(filter, sides.from, sides.to);
  return records.filter((record) => parts.some((part) => selectsRecord(part, record)));
}

/** How many of the missing records count as unchanged only because their removal is held. */
function heldCount(
  missing: readonly RecordKey[],
  sides: Sides,
  { changes, skipped, left_out: leftOut = [], summary }: DiffDocument,
  { filter }: Pick<DriftExtent, 'filter'>,
): number {
  if (missing.length === 0) return 0;
  const changed = new Set(changes.map(recordKey));
  // If only some records of a collection are left out, the state knows which.
  const isSkipped = skipTest([...skipped, ...leftOut.filter((each) => each.records === undefined)]);
  const compared = missing.filter(
    (record) =>
      !changed.has(recordKey(record)) && !isSkipped(record) && !isUnaskedRecord(sides.to, filter, record),
  );
  // A component counts once, as in the comparison.
  return Math.min(recordsOnce(compared).length, summary.unchanged);
}

/** The records whose removal is held, and those below them; none if the state is not the newest. */
function missingIn(mirror: Mirror, source: string, state: LoadedState): readonly RecordKey[] {
  if (state.resolvedState?.isLatest !== true) return [];
  const held = mirror.runs.heldRecords(source);
  if (held.length === 0) return [];
  const isBelow = heldBelowTest(mirror, source);
  const known = new Set(held.map(recordKey));
  const below = mirror.runs
    .collections(source)
    .filter(({ scope }) => isBelow(scope))
    .flatMap(({ kind, scope }) => [...mirror.records.keys({ kinds: [kind], scope, sources: [source] })])
    .filter((record) => !known.has(recordKey(record)));
  return [...held, ...below];
}

/** True for findings of a source that `drift` leaves out by rule, for a plan. */
export function ignoredIn(config: Config, source: string): IgnoreTest['hides'] {
  return ignoreTest(rulesFor(config, source).ignore).hides;
}

/** Maps findings and acceptances to the ids that records have in the comparison, and to those that they had before restores. */
function underOtherIds(
  idMap: readonly IdMapping[],
  { from, to }: Sides,
  definitions: (kind: Kind) => ResourceDefinition,
): Required<Pick<DriftInput, 'shownKey' | 'shownPlace' | 'earlierIds'>> {
  const named = (ids: MatchedIds): EarlierIds => {
    const references = new RecreatedReferences(definitions, ids);
    return {
      key: ({ kind, scope, id }) => ({ kind, scope: ids.renamedScope(scope), id: ids.renamed(kind, id) }),
      place: (kind, path) => references.renamedPlace(kind, path),
      value: (kind, pointer, value) => references.renamedValue(kind, pointer, value),
    };
  };
  const records = soleIds(new RecreatedIds(idMap), from, to);
  const shown = named(shownIds(records));
  const histories = new IdHistories(idMap, records);
  return {
    shownKey: shown.key,
    shownPlace: shown.place,
    earlierIds: (ask) => histories.before((ids) => void ask(named(ids))).map(named),
  };
}

interface WholeOptions extends DriftExtent {
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly severityOf: SeverityOf;
}

/**
 * Returns added records as the default comparison reports them: an acceptance applies however this comparison was narrowed.
 * Under the key that a record had before a restore recreated it, with the values that the service had assigned then.
 */
function wholeChanges(
  mirror: Mirror,
  { changes }: DiffDocument,
  to: LoadedState,
  { source, definitions, severityOf, mode, fields }: WholeOptions,
): (change: RecordChange, as: RecordKey) => RecordChange {
  const known = new Map<string, RecordChange>();
  const added = (record: RecordState): RecordChange | null =>
    compareRecords(definitions(record.kind), undefined, parseState(record), 'default');
  if (mode !== 'default' || fields.length > 0) {
    const byKind = Map.groupBy(
      changes.filter(({ change }) => change === 'added'),
      ({ kind }) => kind,
    );
    for (const [kind, own] of byKind) {
      const ids = new Set(own.map(({ id }) => id));
      for (const record of to.records({ kinds: [kind], ids: [...ids] })) {
        const whole = added(record);
        if (whole !== null) known.set(recordKey(record), whole);
      }
    }
  }
  return (change, as) => {
    if (change.change !== 'added') return change;
    const whole = known.get(recordKey(change)) ?? change;
    if (recordKey(as) === recordKey(change)) return whole;
    const { kind, scope, id } = as;
    const [removed] = mirror.records.removedBodies({ sources: [source], kinds: [kind], scope, ids: [id] });
    const before = removed === undefined ? null : added(removed);
    if (before === null) return whole;
    const isAnew = (field: FieldChange): boolean => isAssigned(definitions, severityOf, whole, field);
    return {
      ...whole,
      fields: [...whole.fields.filter((field) => !isAnew(field)), ...before.fields.filter(isAnew)],
    };
  };
}

/** Returns whether the comparison would have shown drift at a place: otherwise its absence means nothing. */
function coverage(
  { from, to }: Sides,
  definitions: (kind: Kind) => ResourceDefinition,
  { filter, mode, fields }: DriftExtent,
): (key: RecordKey, path: string) => boolean {
  const parts = filterParts(filter, from, to);
  return (key, path) => {
    if (!parts.some((part) => selectsRecord(part, key))) return false;
    if (isUnaskedRecord(to, filter, key)) return false;
    const [member] = splitPointer(path);
    // With a field filter, added and removed records are only reported if they have one of the fields.
    if (member === undefined) return fields.length === 0;
    if (!isComparedMember(definitions(key.kind), member, mode)) return false;
    return fields.length === 0 || overlapsPointer(path, fields);
  };
}

/** True for a record that TO's run did not ask for, so that the comparison left it out. */
function isUnaskedRecord(to: LoadedState, filter: StateFilter, key: RecordKey): boolean {
  return !isNamedAnyway(filter, { by: 'organization_id' }) && typeof to.unaskedRecord?.(key) === 'string';
}

/** True if FROM is the baseline: an acceptance may be unnecessary only if its finding is gone compared with the baseline. */
function isBaseline(mirror: Mirror, from: LoadedState, { source }: DriftExtent): boolean {
  const baseline = mirror.snapshots.baseline();
  if (baseline === undefined) return true;
  // The user named a state; what was accepted against the baseline is unknown.
  if (baseline.contradiction !== undefined) return false;
  return from.resolvedState?.run === resolvedStateOf(mirror, BASELINE, { source }).run;
}

function rulesFor(
  config: Config,
  source: string,
): { ignore: readonly IgnoreRule[]; severities: readonly SeverityRule[] } {
  const isHere = (rule: { readonly source?: string | undefined }): boolean =>
    rule.source === undefined || rule.source === source;
  return {
    ignore: config.drift.ignore
      .filter(isHere)
      .map(({ kind, id, path, reason }) => ({ ...defined({ kind, id, path }), reason })),
    severities: config.drift.severities
      .filter(isHere)
      .map(({ kind, path, severity }) => ({ ...defined({ kind, path }), severity })),
  };
}

/** Changes of form between two states (`diff/form-change.ts`). Reads records only of kinds whose form changed. */
function formFacts(
  mirror: Mirror,
  { from, to }: Sides,
  diff: DiffDocument,
  { source, filter, definitions }: Pick<DriftExtent, 'source' | 'filter'> & Pick<SourceDrift, 'definitions'>,
): FormFacts {
  const counts = new Map<Kind, number>();
  const countOf = (kind: Kind): number => {
    const isSkipped = skipTest([...diff.skipped, ...(diff.left_out ?? [])]);
    const parts = filterParts({ ...filter, kinds: [kind] }, from, to);
    let count = 0;
    for (const part of parts)
      for (const key of keysOf(to, part))
        if (!isSkipped(key) && !isUnaskedRecord(to, filter, key)) count += 1;
    return count - diff.changes.filter((each) => each.kind === kind && each.change === 'added').length;
  };
  // In the order of `compareKeys`, one record in memory at a time.
  function* valuesThen({ kind, field, runs }: FormChange): Generator<ValueThen> {
    const own = { sources: [source], kinds: [kind] };
    for (const record of mirror.records.readAt(runs.at(-1) ?? 0, own, { isChecked: true })) {
      const value = resolvePointer(parseState(record).body, field);
      if (value !== undefined) yield { kind, scope: record.scope, id: record.id, value };
    }
  }
  return {
    forms: formsBetween(mirror, source, from, to),
    bothSides: (kind) => {
      // Some records do not show what the kind has in general.
      return filter.ids === undefined ? cached(counts, kind, () => countOf(kind)) : null;
    },
    isManaged: (kind, field) => {
      const [name = ''] = splitPointer(field);
      return definitions(kind).fieldsByName.get(name)?.isWritable === true;
    },
    valuesThen,
  };
}

/** The changes of form that the runs after FROM, up to TO, found; up to the latest run if TO is live. None for an export. */
function formsBetween(mirror: Mirror, source: string, from: LoadedState, to: LoadedState): FormChange[] {
  const isLive = to.reference.ref === 'live';
  if (from.resolvedState === null || (to.resolvedState === null && !isLive)) return [];
  const until = to.resolvedState?.run ?? Infinity;
  const forms = new Map<string, FormChange>();
  for (const { run, kind, field, change, before, after } of mirror.runs
    .schemaChanges({ source, sinceRun: from.resolvedState.run + 1 })
    .toReversed()) {
    if (run > until || change === 'unwatched') continue;
    const name = JSON.stringify([kind, field, change]);
    const earlier = forms.get(name);
    forms.set(name, {
      kind,
      field,
      change,
      before: earlier?.before ?? before,
      after,
      runs: [...(earlier?.runs ?? []), run],
    });
  }
  return [...forms.values()];
}
