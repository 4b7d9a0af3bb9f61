/** The identity of a finding across reports: its place and its new value. */
import { createHmac, hash } from 'node:crypto';
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import { type JsonObject, type JsonValue, isJsonObject, setOwn } from '../core/json.ts';
import { valueDigest } from './canonical.ts';
import type { RecordChange } from './change.ts';
import { type FieldChange, placeOf } from './compare.ts';
import { elementSegment } from './elements.ts';
import type { RecordKey } from '../catalog/order.ts';

/**
 * The fingerprint of a field's change (`field` given) or of a record that came or went (`field` null). `as` and `then` give the
 * one from before a restore created records again: `as` is the key that the record had, `then` the form that the finding had.
 */
export type FingerprintOf = (
  change: RecordChange,
  field: FieldChange | null,
  as?: RecordKey,
  then?: EarlierForm,
) => string;

/** A finding with the ids that records had before a restore created them again. */
interface EarlierForm {
  /** Its place, as in acceptances. */
  readonly place: string;
  /** The earlier value at a pointer of the record. */
  readonly value: (pointer: string, value: JsonValue) => JsonValue;
  /** True for the fingerprint of earlier versions, over secrets in clear text. */
  readonly isInClear?: true;
}

interface FingerprintOptions {
  readonly source: string;
  /**
   * Random bytes that only the mirror has. Reports mask secrets but contain fingerprints: without the key, nobody can find a short
   * secret by trying values.
   */
  readonly key: Uint8Array;
  /** The value with its secrets as `redact: true` stores them, so that switching this option changes no fingerprint. */
  readonly redacted?: (kind: Kind, pointer: string, value: JsonValue) => JsonValue;
  /** An added record as the default comparison reports it, as it was under the key `as`. */
  readonly whole?: (change: RecordChange, as: RecordKey) => RecordChange;
}

/**
 * Fingerprints of one source: HMAC-SHA-256 (hex) of source, record key, place and the digest of the new value. It changes when the
 * value changes again. The old value, names, times, the index of an element that has an id, and the filters of the comparison are
 * not part of it.
 */
export function fingerprints({ source, key, whole, redacted }: FingerprintOptions): FingerprintOf {
  return (change, field, as = change, then) => {
    const found = findingValue(field === null ? (whole?.(change, as) ?? change) : change, field);
    const to = eachValue(found, (pointer, own) => {
      const value = then === undefined ? own : then.value(pointer, own);
      return then?.isInClear === true ? value : (redacted?.(change.kind, pointer, value) ?? value);
    });
    const place = then?.place ?? (field === null ? '' : placeOf(field));
    // Differences inside elements are separate findings: for a new order, only the order counts.
    const value = field?.moved === undefined || !Array.isArray(to) ? to : to.map(elementSegment);
    // A JSON array separates the parts, whatever they contain.
    const parts = [source, ...keyParts(as), place, valueDigest(value)];
    return createHmac('sha256', key).update(JSON.stringify(parts)).digest('hex');
  };
}

/** The new value as changed by `form`; for an entire record, each of its fields. */
function eachValue({ path, to }: FindingValue, form: EarlierForm['value']): JsonValue | undefined {
  if (to === undefined) return undefined;
  if (path !== '' || !isJsonObject(to)) return form(path, to);
  const whole: JsonObject = {};
  for (const [pointer, value] of Object.entries(to)) setOwn(whole, pointer, form(pointer, value));
  return whole;
}

/**
 * SHA-256 (hex) of source, record key, place and kind of change, for comparisons without a mirror. It contains no value, so none can
 * be found by trying.
 */
export function placeFingerprint(source: string, change: RecordChange, field: FieldChange | null): string {
  const place = field === null ? '' : placeOf(field);
  return hash('sha256', JSON.stringify([source, ...keyParts(change), place, change.change]), 'hex');
}

function keyParts({ kind, scope, id }: RecordKey): string[] {
  return [kind, scopeKey(scope), id];
}

type FindingValue = Omit<FieldChange, 'from_path'>;

/**
 * Place and values of a finding. For a record that came or went (`field` null), the path is empty and the value is an object of its
 * compared fields, by pointer.
 */
export function findingValue(change: RecordChange, field: FieldChange | null): FindingValue {
  if (field === null) {
    const [from, to] = [wholeSide(change, 'from'), wholeSide(change, 'to')];
    return { path: '', ...defined({ from, to }) };
  }
  const { path, place, moved, from, to } = field;
  return { path, ...defined({ place, moved, from, to }) };
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
