/**
 * An export with fingerprints in place of secrets, as in git. Fingerprints that this mirror knows, now or from its
 * history, are replaced by the secrets; those of another mirror cannot be compared.
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { isJsonObject, parseLossless, replaceValues } from '../core/json.ts';
import type { StateReference } from '../diff/change.ts';

import type { RecordState } from '../diff/states.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isRedacted, redactionWith } from '../sync/redaction.ts';
import type { StateFilter } from './filter.ts';
import type { Coverage, LoadedState, UnknownRecord } from './state.ts';

/** A record's body with the secrets that this mirror had at any time in place of their fingerprints. */
export function secretsFrom(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): (record: RecordState) => string {
  const redaction = redactionWith(mirror.acceptances.fingerprintKey());
  return ({ kind, scope, id, body }) => {
    const wanted = new Set(body.match(/"\[redacted:[0-9a-f]{16}\]"/g));
    const known = new Map<string, string>();
    const rows = wanted.size === 0 ? [] : mirror.records.find(kind, id, { sources: [source], scope });
    for (const { body: text } of rows.flatMap((row) => mirror.records.revisions(row))) {
      if (text === null || wanted.isSubsetOf(known)) continue;
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
 * The state for a comparison with an export of another mirror: where the export has a fingerprint, the value of this
 * state counts as equal.
 * @returns how many values cannot be compared, beside the state
 */
export function besideFingerprints(
  state: LoadedState,
  other: LoadedState,
): { readonly state: LoadedState; readonly hidden: number } {
  const places = new Map<string, ReadonlyMap<string, string>>();
  for (const record of other.records({})) {
    const found = incomparableIn(record.body);
    if (found.size > 0) places.set(keyOf(record), found);
  }
  const hidden = [...places.values()].reduce((sum, { size }) => sum + size, 0);
  return { state: hidden === 0 ? state : new CoveredState(state, places), hidden };
}

/** JSON texts by place: fingerprints, and objects with a member whose name is one. */
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
    // Nothing is replaced; what is inside is not asked about.
    return isWhole ? whole : null;
  });
  return found;
}

function placeOf(path: readonly string[]): string {
  return JSON.stringify(path);
}

function keyOf({ kind, scope, id }: RecordKey): string {
  return JSON.stringify([kind, scopeKey(scope), id]);
}

class CoveredState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly resolvedState: LoadedState['resolvedState'];
  readonly #state: LoadedState;
  readonly #places: ReadonlyMap<string, ReadonlyMap<string, string>>;

  constructor(state: LoadedState, places: ReadonlyMap<string, ReadonlyMap<string, string>>) {
    this.reference = state.reference;
    this.source = state.source;
    this.resolvedState = state.resolvedState;
    this.#state = state;
    this.#places = places;
  }

  collections(): readonly CollectionKey[] {
    return this.#state.collections();
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    return this.#state.coverage(kind, scope);
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    return this.#state.unknownIn(kind, scope);
  }

  unaskedRecord(key: RecordKey): string | null {
    return this.#state.unaskedRecord?.(key) ?? null;
  }

  *records(filter: StateFilter): Generator<RecordState> {
    for (const record of this.#state.records(filter)) {
      const places = this.#places.get(keyOf(record));
      if (places === undefined) yield record;
      else {
        const body = replaceValues(record.body, (path) => places.get(placeOf(path)) ?? null);
        yield { ...record, body };
      }
    }
  }

  requireCounted(collections: Iterable<CollectionKey>): void {
    this.#state.requireCounted?.(collections);
  }

  checked(): LoadedState {
    return new CoveredState(this.#state.checked(), this.#places);
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return this.#state.projectsOf(organizations);
  }

  close(): void {
    this.#state.close();
  }
}
