/** The identity of a finding across reports: its place, and the new value. */
import { createHmac, hash } from 'node:crypto';
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { type JsonObject, type JsonValue, isJsonObject, setOwn } from '../core/json.ts';
import { valueDigest } from './canonical.ts';
import type { RecordChange } from './change.ts';
import { type FieldChange, placeOf } from './compare.ts';
import { type MovedElement, elementSegment } from './elements.ts';
import type { RecordKey } from '../catalog/order.ts';

/**
 * The fingerprint of a field's change (`field` given) or of a record that came or went (`field` null); with `as`, the one that it
 * would have if the record still had this key, which it had before a restore created it again, and with `then`, if the records
 * that it names still had the ids of then.
 */
export type FingerprintOf = (
  change: RecordChange,
  field: FieldChange | null,
  as?: RecordKey,
  then?: EarlierForm,
) => string;

/** A finding under the ids that records had before a restore created them again. */
interface EarlierForm {
  /** Its place, as acceptances have it. */
  readonly place: string;
  /** What the value at a pointer of the record was. */
  readonly value: (pointer: string, value: JsonValue) => JsonValue;
  /** True for the fingerprint that earlier versions made, over secrets in clear. */
  readonly isInClear?: true;
}

interface FingerprintOptions {
  /** Name of the source. */
  readonly source: string;
  /**
   * Random bytes that only the mirror has. Fingerprints are in reports, in which secrets are masked: without the key,
   * nobody can find a short secret by trying values.
   */
  readonly key: Uint8Array;
  /** The value at a pointer of a record of the kind with its secrets as `redact: true` stores them: switching that changes no fingerprint. */
  readonly redacted?: (kind: Kind, pointer: string, value: JsonValue) => JsonValue;
  /** An added record as the default comparison reports it, and as it was under the key `as`. */
  readonly whole?: (change: RecordChange, as: RecordKey) => RecordChange;
}

/**
 * Fingerprints of one source: HMAC-SHA-256 (hex) of source, record key, place and the digest of the new value. If the
 * value changes again, the fingerprint changes. The old value, names, times, the index of an element that has an id,
 * and the filters of the comparison are not part of it.
 */
export function fingerprints({ source, key, whole, redacted }: FingerprintOptions): FingerprintOf {
  return (change, field, as = change, then) => {
    const found = findingValue(field === null ? (whole?.(change, as) ?? change) : change, field);
    const to = eachValue(found, (pointer, own) => {
      const value = then === undefined ? own : then.value(pointer, own);
      return then?.isInClear === true ? value : (redacted?.(change.kind, pointer, value) ?? value);
    });
    const place = then?.place ?? (field === null ? '' : placeOf(field));
    // What is inside elements has findings of its own: of a new order only the order is remembered.
    const value = field?.moved === undefined || !Array.isArray(to) ? to : to.map(elementSegment);
    // A JSON array separates the parts, whatever they contain.
    const parts = [source, ...keyParts(as), place, valueDigest(value)];
    return createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
  };
}

/** The new value as `form` has it; of an entire record, each of its fields. */
function eachValue({ path, to }: FindingValue, form: EarlierForm['value']): JsonValue | undefined {
  if (to === undefined) return undefined;
  if (path !== '' || !isJsonObject(to)) return form(path, to);
  const whole: JsonObject = {};
  for (const [pointer, value] of Object.entries(to)) setOwn(whole, pointer, form(pointer, value));
  return whole;
}

/**
 * SHA-256 (hex) over source, record key, place and kind of change, for comparisons without a mirror: no value takes part,
 * so that none can be found by trying.
 */
export function placeFingerprint(source: string, change: RecordChange, field: FieldChange | null): string {
  const place = field === null ? '' : placeOf(field);
  return hash('sha256', JSON.stringify([source, ...keyParts(change), place, change.change]), 'hex');
}

function keyParts({ kind, scope, id }: RecordKey): string[] {
  return [kind, scopeKey(scope), id];
}

/** What a finding says: a field's change (`field` given), or that a record came or went (`field` null). */
interface FindingValue {
  /** RFC 6901 pointer; empty for an entire record. */
  readonly path: string;
  /** As in `FieldChange`. */
  readonly place?: string;
  readonly moved?: readonly MovedElement[];
  readonly from: JsonValue | undefined;
  readonly to: JsonValue | undefined;
}

/** Place and values of a finding. The value of an entire record is an object of its compared fields, by pointer. */
export function findingValue(change: RecordChange, field: FieldChange | null): FindingValue {
  if (field === null) return { path: '', from: wholeSide(change, 'from'), to: wholeSide(change, 'to') };
  const { path, place, moved, from, to } = field;
  return {
    path,
    ...(place === undefined ? {} : { place }),
    ...(moved === undefined ? {} : { moved }),
    from,
    to,
  };
}

function wholeSide(change: RecordChange, side: 'from' | 'to'): JsonValue | undefined {
  if (change.change !== (side === 'to' ? 'added' : 'removed')) return undefined;
  const whole: JsonObject = {};
  for (const field of change.fields) {
    const value = field[side];
    if (value !== undefined) setOwn(whole, field.path, value);
  }
  return whole;
}
