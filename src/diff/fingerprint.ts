/** What makes a finding the same finding tomorrow: its place and the value that it leads to. */
import { hash } from 'node:crypto';
import { scopeKey } from '../catalog/catalog.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { setOwn } from '../core/json.ts';
import { valueDigest } from './canonical.ts';
import type { RecordChange } from './change.ts';
import type { FieldChange } from './compare.ts';
import type { RecordKey } from './order.ts';

/**
 * SHA-256 (hex) over source, record key, path and the digest of the new value. A further change of the value makes
 * another fingerprint; the old value, names and times take no part. `path` is empty for a record that came or went.
 */
export function fingerprint(source: string, key: RecordKey, path: string, to: JsonValue | undefined): string {
  // A JSON array keeps the parts apart whatever they hold.
  const parts = [source, key.kind, scopeKey(key.scope), key.id, path, valueDigest(to)];
  return hash('sha256', JSON.stringify(parts), 'hex');
}

/** What a finding says: a field's change (`field` given), or that a record came or went (`field` null). */
export interface FindingValue {
  /** RFC 6901 pointer; empty for a whole record. */
  readonly path: string;
  readonly from: JsonValue | undefined;
  readonly to: JsonValue | undefined;
}

/** Place and values of a finding. A whole record's value is an object of its compared fields, by pointer. */
export function findingValue(change: RecordChange, field: FieldChange | null): FindingValue {
  if (field !== null) return { path: field.path, from: field.from, to: field.to };
  return { path: '', from: wholeSide(change, 'from'), to: wholeSide(change, 'to') };
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

/** The fingerprint of a finding of this source. */
export function findingFingerprint(source: string, change: RecordChange, field: FieldChange | null): string {
  const { path, to } = findingValue(change, field);
  return fingerprint(source, change, path, to);
}
