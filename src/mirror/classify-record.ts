/** Classifies a received record against the mirror's current one, if their hashes differ or cannot be compared. */
import { hash } from 'node:crypto';
import type { Kind } from '../catalog/kinds.ts';
import { type ScannedRecord, type RecordShape, scanRecord } from '../core/json-scan.ts';
import { type JsonValue, isJsonObject, isRawNumber, parseLossless } from '../core/json.ts';
import { type SealingRule, ruleAt } from './run-seals.ts';
import type { KnownRecord, StagedAction } from './stage.ts';

export interface StagedChange {
  /**
   * `unchanged`: nothing is written; `volatile`: only volatile members changed, so the body is replaced in place, without a revision;
   * `rewritten`: equal by comparison but another text, a revision that diff and log do not show.
   */
  readonly action: StagedAction | 'unchanged';
  /** The record's number; 0 for a fresh one. */
  readonly record: number;
}

/** What happens to a record that the mirror has or had. */
export type KnownAction = Exclude<StagedChange['action'], 'fresh'>;

/** True for a record that the mirror does not have now. */
export function isAddition({ action }: { readonly action: string }): boolean {
  return action === 'fresh' || action === 'returned';
}

/** The count to which a record belongs. */
export function countOf(action: StagedChange['action']): 'added' | 'changed' | 'unchanged' {
  if (isAddition({ action })) return 'added';
  return action === 'changed' ? 'changed' : 'unchanged';
}

/** What is written for a record that the mirror has or had. */
export function classifyRecord(
  kind: Kind,
  known: KnownRecord,
  received: ScannedRecord,
  hash: Buffer,
  rules: readonly SealingRule[],
  isEqual: (kind: Kind, oldText: string, newText: string) => boolean,
): StagedChange {
  const { record, body } = known;
  if (body === null) return { action: 'returned', record };
  if (body === received.text) return { action: 'unchanged', record };
  if (hasSameStableText({ ...known, body }, received, hash, rules)) return { action: 'volatile', record };
  if (!isEqual(kind, body, received.text)) return { action: 'changed', record };
  if (differsInLayoutOnly(body, received.text)) return { action: 'unchanged', record };
  return { action: 'rewritten', record };
}

/**
 * True if the record may be replaced in place: its stable text is the same under today's rule and under the rule of its
 * revision, whose sealed hash must stay valid.
 */
function hasSameStableText(
  current: KnownRecord & { readonly body: string },
  received: ScannedRecord,
  hash: Buffer,
  rules: readonly SealingRule[],
): boolean {
  const now = rules.at(-1);
  const then = ruleAt(rules, current.run);
  if (now === undefined || then === undefined || now === then) return current.hash?.equals(hash) === true;
  const isSame = (rule: SealingRule): boolean =>
    scanBody(current.body, rule.volatileFields).stableText ===
    scanBody(received.text, rule.volatileFields).stableText;
  return isSame(now) && isSame(then);
}

/** True if two JSON texts differ only in white space, key order or string escapes; `1.0` and `1` are different. */
function differsInLayoutOnly(one: string, other: string): boolean {
  return isIdentical(parseLossless(one), parseLossless(other));
}

function isIdentical(one: JsonValue, other: JsonValue): boolean {
  if (isRawNumber(one)) return isRawNumber(other) && one.rawJSON === other.rawJSON;
  if (Array.isArray(one)) {
    return (
      Array.isArray(other) &&
      one.length === other.length &&
      one.every((value, index) => isIdentical(value, other[index] as JsonValue))
    );
  }
  if (isJsonObject(one)) {
    if (!isJsonObject(other)) return false;
    const keys = Object.keys(one);
    return (
      keys.length === Object.keys(other).length &&
      keys.every(
        (key) => Object.hasOwn(other, key) && isIdentical(one[key] as JsonValue, other[key] as JsonValue),
      )
    );
  }
  return Object.is(one, other);
}

// The hash and the mark by which an unchanged record is recognized without parsing it.

/** SHA-256 of the record's text without its volatile members. */
export function stableHash(record: ScannedRecord): Buffer {
  // From a text, since `Buffer.from` uses Node's pool: a Buffer with memory of its own takes 1.5 times as long.
  return Buffer.from(stableDigest(record), 'latin1');
}

/** The same as a text with a character for each of the 32 bytes. */
export function stableDigest(record: ScannedRecord): string {
  return hash('sha256', record.stableText, 'binary');
}

/**
 * A 53-bit mark of the volatile members' text; null if there is none. It only detects that the text changed (a change is missed with
 * a probability of 2^-53), so it need not be a SHA-256, which would take a sixth of a first sync. After cyrb53 by bryc, public domain.
 */
export function volatileMark(text: string): number | null {
  if (text === '') return null;
  let high = 0xdeadbeef;
  let low = 0x41c6ce57;
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return 4294967296 * (2097151 & low) + (high >>> 0);
}

/** Scans a stored body, leaving the given members out of its stable text. */
export function scanBody(text: string, volatileFields: ReadonlySet<string>): ScannedRecord {
  const shape: RecordShape = { idPath: [], volatile: volatileFields };
  return scanRecord(text, shape);
}
