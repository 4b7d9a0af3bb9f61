/** The drift that was accepted, for a plan that leaves it as it is. */
import type { Config } from '../config/config.ts';
import { type JsonValue, parseLossless } from '../core/json.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import type { AcceptedFinding, Finding } from '../diff/drift.ts';
import type { RecordState } from '../diff/states.ts';
import type { CheckedAcceptance } from '../mirror/acceptances.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import { type DriftExtent, driftBetween, type Sides, type SourceDrift } from './drift.ts';
import { keysOf } from './filter.ts';
import { withMappedIds } from './recreated-ids.ts';
import { type LoadedState, recordKey, stateOfRecords } from './state.ts';

/** What was accepted, for a plan. */
export interface AcceptedBetween {
  /** Includes what changed again since, unless FROM has the accepted value. */
  readonly accepted: readonly AcceptedFinding[];
  /** Acceptances of the source that contradict the audit log: they do not count. */
  readonly contradicted: readonly CheckedAcceptance[];
}

/**
 * What differs between the two states and is accepted, whether or not a rule ignores it. Of records that are gone in TO,
 * their last version in the mirror is compared. Only compares records of which something was accepted.
 * @throws TidemarkError as `driftBetween`, but not if nothing can be compared
 */
export async function acceptedBetween(
  config: Config,
  mirror: Mirror,
  sides: Sides,
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
    // If the accepted value is known, the value of the last version does not count.
    const { accepted: known = null } = each.changedSince ?? {};
    return known === null ? each : { finding: known, acceptance: each.acceptance };
  });
  const changed = [...gone.accepted, ...since].filter(({ finding }) => finding.change === 'changed');
  return {
    accepted: [...accepted, ...changed.map((each): AcceptedFinding => ({ ...each, isOfGone: true }))],
    contradicted,
  };
}

/** Findings whose value changed again after it was accepted, with the accepted value from the history or the audit log. */
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

/** The last versions of records with accepted fields that the state does not have under any of their ids. */
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
    const records = own.map((key) =>
      recreated.places(kind, key).map((place) => recordKey({ kind, ...place })),
    );
    const ids = own.flatMap(({ id }) => recreated.all(kind, id));
    const filter = { kinds: [kind], ids: [...new Set(ids)] };
    const there = new Set(Iterator.from(keysOf(state, filter)).map(recordKey));
    const gone = records.filter((places) => !places.some((place) => there.has(place)));
    if (gone.length === 0) continue;
    const held = new Map<string, RecordState>();
    for (const stored of [mirror.records.removedBodies, mirror.records.read])
      for (const record of stored({ sources: [source], ...filter })) held.set(recordKey(record), record);
    for (const places of gone) {
      const found = places.map((place) => held.get(place)).find((record) => record !== undefined);
      if (found !== undefined) last.set(recordKey(found), found);
    }
  }
  return [...last.values()];
}
