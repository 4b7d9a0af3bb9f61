/** Drift between two states of one source: what the command `drift` and the daemon's job of that name find. */
import { collectionKey, activityKinds } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isSetOnCreation } from '../catalog/volatile-names.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { Config } from '../config/config.ts';
import { isExcludedBy, mirroredKinds } from '../config/mirrored-kinds.ts';
import { definitionsFor } from '../config/source.ts';
import { type DiffDocument, type RecordChange, compareRecords, overlapsPointer } from '../diff/change.ts';
import { type ComparisonMode, type FieldChange, isComparedMember } from '../diff/compare.ts';
import {
  type AcceptedFinding,
  type Drift,
  type DriftInput,
  type EarlierIds,
  type Finding,
  assessDrift,
} from '../diff/drift.ts';
import { type FingerprintOf, fingerprints, placeFingerprint } from '../diff/fingerprint.ts';
import type { FormChange, FormFacts, ValueThen } from '../diff/form-change.ts';
import type { MatchedIds } from '../diff/match-records.ts';
import { type IgnoreRule, type IgnoreTest, ignoreTest } from '../diff/rules.ts';
import type { RecordKey } from '../catalog/order.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import { pointerTo, splitPointer, resolvePointer } from '../core/json-pointer.ts';
import { recordsOnce } from '../diff/families.ts';
import { type SeverityOf, type SeverityRule, severities } from '../diff/severity.ts';
import { type RecordState, skipTest, parseState } from '../diff/states.ts';
import type { CheckedAcceptance } from '../mirror/acceptances.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { redactedValues } from '../sync/redaction.ts';
import { compareStates } from './compare.ts';
import { possibleMode } from './compared-fields.ts';
import { type StateFilter, filterParts, selectsRecord } from './filter.ts';
import { heldBelowTest } from './held-names.ts';
import { resolvedStateOf } from './resolved-state.ts';
import { IdHistories, RecreatedReferences, shownIds, soleIds, withMappedIds } from './recreated-ids.ts';
import { BASELINE } from './reference.ts';
import { withoutSentInvites } from './sent-invites.ts';
import { type LoadedState, stateOfRecords } from './state.ts';
import { isNamedAnyway, kindsOfNeither } from './unasked.ts';

const ACTIVITY = 'activity data; use --kind to include them';
const NOT_MIRRORED = 'excluded by `kinds` in the configuration';

/** What of the two states is looked at. */
export interface DriftExtent {
  readonly source: string;
  readonly filter: StateFilter;
  readonly mode: ComparisonMode;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields: readonly string[];
  /** Ids of the filter as the user gave them: one that was given masked is never written out. */
  readonly typedIds?: readonly string[];
  /** As in a comparison of states. */
  readonly isUnasked?: true;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** What is said of the kinds that are left out; by default, how the command line compares them. */
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

/** Kinds that drift leaves out unless the filter names them: a new recording is not a configuration drift. */
export function kindsOutsideDrift(filter: StateFilter): Kind[] {
  return activityKinds().filter((kind) => filter.kinds?.includes(kind) !== true);
}

/**
 * Compares and classifies, by the ignore rules, severities and acceptances of the source.
 * @param mirror that has acceptances, moved ids and a key; null for none: then a fingerprint identifies the place alone
 * @param areOfMirror true where both states are points of that mirror: then the cost follows the changes
 * @throws TidemarkError as `compareStates`
 */
export async function driftBetween(
  config: Config,
  mirror: Mirror | null,
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  areOfMirror: boolean,
  asked: DriftExtent,
): Promise<SourceDrift> {
  const extent = { ...asked, mode: possibleMode(asked.mode, sides.from, sides.to) };
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
    ...(extent.typedIds === undefined ? {} : { typedIds: extent.typedIds }),
    ...(extent.isUnasked === undefined ? {} : { isUnasked: extent.isUnasked }),
    ...(extent.signal === undefined ? {} : { signal: extent.signal }),
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

/** The records of TO within the filter whose removal, or that of a record above them, is held; none where TO is not the newest state. */
export function missingWithin(
  mirror: Mirror,
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  { source, filter }: Pick<DriftExtent, 'source' | 'filter'>,
): readonly RecordKey[] {
  const records = missingIn(mirror, source, sides.to);
  if (records.length === 0) return [];
  const parts = filterParts(filter, sides.from, sides.to);
  return records.filter((record) => parts.some((part) => selectsRecord(part, record)));
}

/** Those of them that count as unchanged only since their removal is held. */
function heldCount(
  missing: readonly RecordKey[],
  sides: { readonly to: LoadedState },
  { changes, skipped, left_out: leftOut = [], summary }: DiffDocument,
  { filter }: Pick<DriftExtent, 'filter'>,
): number {
  if (missing.length === 0) return 0;
  const changed = new Set(changes.map(keyText));
  // Of a collection that is left out in part, the state knows which records are.
  const isSkipped = skipTest([...skipped, ...leftOut.filter((each) => each.records === undefined)]);
  const compared = missing.filter(
    (record) =>
      !changed.has(keyText(record)) && !isSkipped(record) && !isUnaskedRecord(sides.to, filter, record),
  );
  // A component counts once, as in the comparison.
  return Math.min(recordsOnce(compared).length, summary.unchanged);
}

/** The records whose removal is held, and those below them; none where it is not the newest state. */
function missingIn(mirror: Mirror, source: string, state: LoadedState): readonly RecordKey[] {
  if (state.resolvedState?.isLatest !== true) return [];
  const held = mirror.runs.heldRecords(source);
  if (held.length === 0) return [];
  const isBelow = heldBelowTest(mirror, source);
  const known = new Set(held.map(keyText));
  const below = mirror.runs
    .collections(source)
    .filter(({ scope }) => isBelow(scope))
    .flatMap(({ kind, scope }) => [...mirror.records.keys({ kinds: [kind], scope, sources: [source] })])
    .filter((record) => !known.has(keyText(record)));
  return [...held, ...below];
}

/** What `drift` leaves out of a source by rule, for a plan. */
export function ignoredIn(config: Config, source: string): IgnoreTest['hides'] {
  return ignoreTest(rulesFor(config, source).ignore).hides;
}

/** What was accepted, for a plan. */
export interface AcceptedBetween {
  /** Also what changed again since, unless FROM has the accepted value. */
  readonly accepted: readonly AcceptedFinding[];
  /** Acceptances of the source that are not as the audit log has them: they count for nothing. */
  readonly contradicted: readonly CheckedAcceptance[];
}

/**
 * What differs between the two states and counts as accepted, also where a rule ignores it; of records that TO has no more, what
 * their last version in the mirror differed in. Only records of which something was accepted are compared.
 * @throws TidemarkError as `driftBetween`, but not where nothing can be compared
 */
export async function acceptedBetween(
  config: Config,
  mirror: Mirror,
  sides: { readonly from: LoadedState; readonly to: LoadedState },
  { source, now }: Pick<DriftExtent, 'source' | 'now'>,
): Promise<AcceptedBetween> {
  const checked = mirror.acceptances.checked(source);
  const contradicted = checked.filter(({ contradiction }) => contradiction !== undefined);
  const byKind = Map.groupBy(
    checked.filter(({ isGone }) => isGone !== true),
    ({ kind }) => kind,
  );
  if (byKind.size === 0) return { accepted: [], contradicted };
  const idMap = mirror.restores.idMap(source);
  const ids = [...byKind].flatMap(([kind, own]) =>
    withMappedIds(
      kind,
      own.map(({ id }) => id),
      idMap,
    ),
  );
  const filter = { kinds: [...byKind.keys()], ids: [...new Set(ids)] };
  const unruled = { ...config, drift: { ...config.drift, ignore: [] } };
  const extent = { source, filter, mode: 'default', fields: [], now, isUnasked: true } as const;
  const found = await driftBetween(unruled, mirror, sides, false, extent);
  const accepted = [...found.accepted, ...changedSince(mirror, found, now)];
  const last = lastVersions(mirror, source, sides.to, idMap);
  if (last.length === 0) return { accepted, contradicted };
  const before = stateOfRecords(last, sides.to, {
    collections: () => last,
    coverage: () => ({ how: 'read' }),
    unknownIn: () => null,
  });
  const gone = await driftBetween(unruled, mirror, { from: sides.from, to: before }, false, extent);
  const since = changedSince(mirror, gone, now).map((each): AcceptedFinding => {
    // What the last version had does not count where the accepted value is known.
    const { accepted: known = null } = each.changedSince ?? {};
    return known === null ? each : { finding: known, acceptance: each.acceptance };
  });
  const changed = [...gone.accepted, ...since].filter(({ finding }) => finding.change === 'changed');
  return {
    accepted: [...accepted, ...changed.map((each): AcceptedFinding => ({ ...each, isOfGone: true }))],
    contradicted,
  };
}

/** Findings whose value was accepted and then changed again, with the accepted value: from a version in the mirror, else from the audit log. */
function changedSince(mirror: Mirror, drift: SourceDrift, now: number): AcceptedFinding[] {
  const { source, open, fingerprintOf } = drift;
  return open.flatMap(({ reopened, ...finding }): AcceptedFinding[] => {
    if (reopened?.because !== 'value' || finding.change === 'removed') return [];
    const { acceptance } = reopened;
    if (acceptance.until !== undefined && !(Date.parse(acceptance.until) > now)) return [];
    if (finding.change === 'added')
      return [{ finding, acceptance, changedSince: { accepted: null, run: null } }];
    const { kind, scope, id, name, path, from } = finding;
    const { to: _, ...place } = finding;
    const withValue = (to: JsonValue | undefined): Finding => (to === undefined ? place : { ...place, to });
    const isAccepted = (to: JsonValue | undefined): boolean =>
      fingerprintOf({ kind, scope, id, name, change: 'changed', fields: [] }, withValue(to), acceptance, {
        place: acceptance.path,
        value: (_pointer, value) => value,
      }) === acceptance.fingerprint;
    if (isAccepted(from)) return [];
    const versions = mirror.records
      .find(kind, id, { sources: [source], scope })
      .flatMap((row) => mirror.records.revisions(row))
      .flatMap(({ run, body }) => {
        if (body === null) return [];
        const value = resolvePointer(parseLossless(body), path);
        return isAccepted(value) ? [{ run, value }] : [];
      });
    const version = versions.toSorted((one, other) => other.run - one.run)[0];
    const measured = mirror.acceptances.measured({ source, ...acceptance });
    const accepted =
      version !== undefined
        ? withValue(version.value)
        : measured !== null && isAccepted(measured.to)
          ? withValue(measured.to)
          : null;
    return [{ finding, acceptance, changedSince: { accepted, run: version?.run ?? null } }];
  });
}

/** The last versions of records of which fields were accepted, and that the state has under none of their ids. */
function lastVersions(
  mirror: Mirror,
  source: string,
  state: LoadedState,
  idMap: readonly IdMapping[],
): RecordState[] {
  const recreated = new RecreatedIds(idMap);
  const last = new Map<string, RecordState>();
  const ofFields = mirror.acceptances.list(source).filter(({ path }) => path !== '');
  for (const [kind, own] of Map.groupBy(ofFields, (each) => each.kind)) {
    // The latest place first.
    const records = own.map((key) => recreated.places(kind, key).map((place) => keyText({ kind, ...place })));
    const ids = own.flatMap(({ id }) => recreated.all(kind, id));
    const filter = { kinds: [kind], ids: [...new Set(ids)] };
    const there = new Set(Iterator.from(state.keys?.(filter) ?? state.records(filter)).map(keyText));
    const gone = records.filter((places) => !places.some((place) => there.has(place)));
    if (gone.length === 0) continue;
    const held = new Map<string, RecordState>();
    for (const stored of [mirror.records.removedBodies, mirror.records.read])
      for (const record of stored({ sources: [source], ...filter })) held.set(keyText(record), record);
    for (const places of gone) {
      const found = places.map((place) => held.get(place)).find((record) => record !== undefined);
      if (found !== undefined) last.set(keyText(found), found);
    }
  }
  return [...last.values()];
}

/** Findings and acceptances by the ids that records have in the comparison, and by those that they had before the restores. */
function underOtherIds(
  idMap: readonly IdMapping[],
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
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

/**
 * The document without what a restore necessarily changes when it creates a record again: its id, and what else the
 * service assigns. Fields of more than low severity stay, because losing them matters.
 */
function withoutNewIds(
  document: DiffDocument,
  idMap: readonly IdMapping[],
  definitions: (kind: Kind) => ResourceDefinition,
  severityOf: SeverityOf,
): DiffDocument {
  const recreated = new RecreatedIds(idMap);
  if (recreated.isEmpty) return document;
  const changes = document.changes.flatMap((change): RecordChange[] => {
    const idPointer = pointerTo(definitions(change.kind).idPath);
    const isRecreated =
      change.change === 'changed' &&
      recreated.givenBy(change.kind, change.id) !== undefined &&
      change.fields.some(({ path }) => path === idPointer);
    if (!isRecreated) return [change];
    const fields = change.fields.filter((field) => !isAssigned(definitions, severityOf, change, field));
    return fields.length === 0 ? [] : [{ ...change, fields }];
  });
  const settled = document.changes.length - changes.length;
  const { changed, unchanged } = document.summary;
  const summary = { ...document.summary, changed: changed - settled, unchanged: unchanged + settled };
  return { ...document, changes, summary };
}

/** True for what the service assigns again to a record that is created again: its id, and server-owned fields of low severity. */
function isAssigned(
  definitions: (kind: Kind) => ResourceDefinition,
  severityOf: SeverityOf,
  change: RecordChange,
  field: FieldChange,
): boolean {
  const { fieldsByName, idPath } = definitions(change.kind);
  if (field.path === pointerTo(idPath)) return true;
  const name = splitPointer(field.path)[0] ?? '';
  const known = fieldsByName.get(name);
  if (known === undefined) return isSetOnCreation(name);
  return !known.isWritable && severityOf({ ...change, change: 'changed' }, field) === 'low';
}

interface WholeOptions extends DriftExtent {
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly severityOf: SeverityOf;
}

/**
 * Added records as the default comparison reports them: an acceptance holds however this comparison was narrowed. Under a key that a record
 * had before a restore created it again, with what the service had assigned to it then.
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
        if (whole !== null) known.set(keyText(record), whole);
      }
    }
  }
  return (change, as) => {
    if (change.change !== 'added') return change;
    const whole = known.get(keyText(change)) ?? change;
    if (keyText(as) === keyText(change)) return whole;
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

/** Whether the comparison would have shown drift at a place: otherwise its absence means nothing. */
function coverage(
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  definitions: (kind: Kind) => ResourceDefinition,
  { filter, mode, fields }: DriftExtent,
): (key: RecordKey, path: string) => boolean {
  const parts = filterParts(filter, from, to);
  return (key, path) => {
    if (!parts.some((part) => selectsRecord(part, key))) return false;
    if (isUnaskedRecord(to, filter, key)) return false;
    const [member] = splitPointer(path);
    // With a field filter, added and removed records without any of the fields are not reported.
    if (member === undefined) return fields.length === 0;
    if (!isComparedMember(definitions(key.kind), member, mode)) return false;
    return fields.length === 0 || overlapsPointer(path, fields);
  };
}

/** True for a record that TO's run did not ask for, so that the comparison left it out. */
function isUnaskedRecord(to: LoadedState, filter: StateFilter, key: RecordKey): boolean {
  return !isNamedAnyway(filter, { by: 'organization_id' }) && typeof to.unaskedRecord?.(key) === 'string';
}

/** What was accepted against the baseline may well not differ from another state: that says nothing against it. */
function isBaseline(mirror: Mirror, from: LoadedState, { source }: DriftExtent): boolean {
  const baseline = mirror.snapshots.baseline();
  if (baseline === undefined) return true;
  // Then the state was named, and what was accepted against the baseline is not known.
  if (baseline.contradiction !== undefined) return false;
  return from.resolvedState?.run === resolvedStateOf(mirror, BASELINE, { source }).run;
}

function keyText(key: RecordKey): string {
  return `${collectionKey(key)} ${key.id}`;
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

// What the mirror knows of changes of form between two states of a source (`diff/form-change.ts`).

interface Compared {
  readonly source: string;
  readonly filter: StateFilter;
  /** Definitions in force for the source. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
}

/** Reads records only of kinds whose form changed. */
function formFacts(
  mirror: Mirror,
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  diff: DiffDocument,
  { source, filter, definitions }: Compared,
): FormFacts {
  const counts = new Map<Kind, number>();
  const countOf = (kind: Kind): number => {
    const isSkipped = skipTest([...diff.skipped, ...(diff.left_out ?? [])]);
    const parts = filterParts({ ...filter, kinds: [kind] }, from, to);
    let count = 0;
    for (const part of parts)
      for (const key of to.keys?.(part) ?? to.records(part))
        if (!isSkipped(key) && !isUnaskedRecord(to, filter, key)) count += 1;
    return count - diff.changes.filter((each) => each.kind === kind && each.change === 'added').length;
  };
  // The mirror reads in the order of `compareKeys`; one record is held.
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
      // If only some records are named, nothing can be said of the kind.
      if (filter.ids !== undefined) return null;
      const count = counts.get(kind) ?? countOf(kind);
      counts.set(kind, count);
      return count;
    },
    isManaged: (kind, field) => {
      const [name = ''] = splitPointer(field);
      return definitions(kind).fieldsByName.get(name)?.isWritable === true;
    },
    valuesThen,
  };
}

/** What the runs after FROM up to TO found; up to the latest one where TO is live. Of an export nothing is known. */
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
