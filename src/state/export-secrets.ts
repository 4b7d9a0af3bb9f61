/**
 * An export with fingerprints in place of secrets, as in git. Fingerprints that this mirror knows, now or from its
 * history, are replaced by the secrets; those of another mirror cannot be compared.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { defined } from '../core/defined.ts';
import { isJsonObject, parseLossless, replaceValues } from '../core/json.ts';
import type { RecordState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isRedacted, redactionWith } from '../sync/redaction.ts';
import { type LoadedState, changedState, recordKey } from './state.ts';

/** Replaces fingerprints in a record's body by the secrets, if this mirror had them at any time. */
export function secretsFrom(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): (record: RecordState) => string {
  const redaction = redactionWith(mirror.acceptances.fingerprintKey());
  return ({ kind, scope, id, body }) => {
    const missing = new Set(body.match(/"\[redacted:[0-9a-f]{16}\]"/g));
    const known = new Map<string, string>();
    const rows = missing.size === 0 ? [] : mirror.records.find(kind, id, { sources: [source], scope });
    for (const { body: text } of rows.flatMap((row) => mirror.records.revisions(row))) {
      if (text === null || missing.isSubsetOf(known)) continue;
      redaction.text(definitions(kind), text, (fingerprint, secret) => void known.set(fingerprint, secret));
    }
    if (known.size === 0) return body;
    return replaceValues(
      body,
      (_path, text) => known.get(text()) ?? null,
      (path) => known.get(JSON.stringify(path.at(-1))) ?? null,
    );
  };
}

/**
 * The state for a comparison with an export of another mirror: where the export has a fingerprint, this state gets it too,
 * so that the values count as equal.
 * @returns the state, and how many values cannot be compared
 */
export function besideFingerprints(
  state: LoadedState,
  other: LoadedState,
): { readonly state: LoadedState; readonly hidden: number } {
  const places = new Map<string, ReadonlyMap<string, string>>();
  for (const record of other.records({})) {
    const found = incomparableIn(record.body);
    if (found.size > 0) places.set(recordKey(record), found);
  }
  const hidden = [...places.values()].reduce((sum, { size }) => sum + size, 0);
  return { state: hidden === 0 ? state : coveredState(state, places), hidden };
}

/** By place, the JSON texts that cannot be compared: fingerprints, and objects with a member whose name is one. */
function incomparableIn(body: string): Map<string, string> {
  const found = new Map<string, string>();
  if (!body.includes('[redacted:')) return found;
  replaceValues(body, (path, text) => {
    const whole = text();
    if (!whole.includes('"[redacted:')) return null;
    const value = parseLossless(whole);
    const isWhole = isJsonObject(value)
      ? Object.keys(value).some(isRedacted)
      : typeof value === 'string' && isRedacted(value);
    if (isWhole) found.set(placeOf(path), whole);
    // The same text, which replaces nothing, but keeps the scan from looking inside.
    return isWhole ? whole : null;
  });
  return found;
}

function placeOf(path: readonly string[]): string {
  return JSON.stringify(path);
}

type Places = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** The state with these texts at their places, by record. */
function coveredState(state: LoadedState, places: Places): LoadedState {
  return changedState(state, {
    ...defined({ lacksVolatile: state.lacksVolatile }),
    replacedMembers: () => state.replacedMembers?.() ?? new Map(),
    neverAsked: (kind) => state.neverAsked?.(kind) ?? null,
    firstReadsAfter: (asked) => state.firstReadsAfter?.(asked) ?? asked.map(() => null),
    lastReadAt: (key) => state.lastReadAt?.(key) ?? null,
    unaskedRecord: (key) => state.unaskedRecord?.(key) ?? null,
    records: (filter) => coveredRecords(state.records(filter), places),
    requireCounted: (collections) => state.requireCounted?.(collections),
    checked: () => coveredState(state.checked(), places),
  });
}

function* coveredRecords(records: Iterable<RecordState>, places: Places): Generator<RecordState> {
  for (const record of records) {
    const own = places.get(recordKey(record));
    if (own === undefined) yield record;
    else yield { ...record, body: replaceValues(record.body, (path) => own.get(placeOf(path)) ?? null) };
  }
}
