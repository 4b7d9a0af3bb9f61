/** The two marks by which a record is known again without being parsed. */
import { hash } from 'node:crypto';
import { type RecordShape, type ScannedRecord, scanRecord } from '../core/json-scan.ts';

/** SHA-256 of the record's text without its volatile members. */
export function stableHash(record: ScannedRecord): Buffer {
  return hash('sha256', record.stableText, 'buffer');
}

/** As much of a hash as tells records apart: 96 bits, nothing that chance or anybody's effort would hit. */
export const HASH_START_BYTES = 12;

export function hashStart(stable: Buffer): Buffer {
  return stable.subarray(0, HASH_START_BYTES);
}

/**
 * A 53-bit mark of the volatile members' text; null where there is none. Hashing twice with SHA-256 would cost a sixth
 * of a first sync, and this mark proves nothing to anybody: it only tells that text moved (a move goes unnoticed with
 * a probability of 2^-53). After cyrb53 by bryc, public domain.
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

/** A stored body scanned with the given members left out of its stable text. */
export function scanBody(text: string, volatileFields: ReadonlySet<string>): ScannedRecord {
  const shape: RecordShape = { idPath: [], volatile: volatileFields };
  return scanRecord(text, shape);
}
