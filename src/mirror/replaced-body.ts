/** Stores the body of a replaced revision in few bytes, and reads it again. */
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { TidemarkError } from '../core/errors.ts';

/** `revisions.encoding`. */
export const ENCODING = { delta: 1, deflated: 2, plain: 3 } as const;

/** One in this many revisions is stored in full, so that reading an old one never takes a long chain of deltas. */
const WHOLE_EVERY = 64;
/** If a delta is larger than this share of the body, the body is also deflated, and the smaller one is stored. */
const GOOD_DELTA_SHARE = 0.3;

interface ReplacedBody {
  readonly encoding: number;
  readonly bytes: Buffer;
}

/** Encodes `older`, which `newer` replaced. @param ordinal of the older revision */
export function keepAgainst(older: string, newer: string, ordinal: number): ReplacedBody {
  if (ordinal % WHOLE_EVERY === 0) return keepWhole(older);
  const bytes = Buffer.from(older, 'utf8');
  const delta = encodeDelta(Buffer.from(newer, 'utf8'), bytes);
  if (delta.length <= bytes.length * GOOD_DELTA_SHARE) return { encoding: ENCODING.delta, bytes: delta };
  const whole = keepWhole(older);
  return whole.bytes.length < delta.length ? whole : { encoding: ENCODING.delta, bytes: delta };
}

/** Encodes a body without a newer one for a delta: the last one of a removed record. */
export function keepWhole(text: string): ReplacedBody {
  const plain = Buffer.from(text, 'utf8');
  const deflated = deflateRawSync(plain, { level: constants.Z_DEFAULT_COMPRESSION });
  return deflated.length < plain.length
    ? { encoding: ENCODING.deflated, bytes: deflated }
    : { encoding: ENCODING.plain, bytes: plain };
}

/**
 * Decodes a body. @param newer the next newer body; needed for deltas only
 * @throws TidemarkError `mirror_corrupt` if the bytes cannot be read
 */
export function readReplaced(kept: ReplacedBody, newer: string | null): string {
  return replacedBytes(kept, newer === null ? null : Buffer.from(newer, 'utf8')).toString('utf8');
}

/** The same as UTF-8, for chains of deltas, in which each body is the base of the next. */
export function replacedBytes(kept: ReplacedBody, newer: Buffer | null): Buffer {
  try {
    if (kept.encoding === ENCODING.plain) return kept.bytes;
    if (kept.encoding === ENCODING.deflated) return inflateRawSync(kept.bytes);
    if (kept.encoding === ENCODING.delta && newer !== null) return applyDelta(newer, kept.bytes);
  } catch (error) {
    if (error instanceof TidemarkError) throw error;
    throw unreadable(error);
  }
  throw unreadable(undefined);
}

function unreadable(cause: unknown): TidemarkError {
  return damagedVersion('what is stored of it cannot be read', cause);
}

function damagedVersion(why: string, cause?: unknown): TidemarkError {
  return new TidemarkError('mirror_corrupt', `an earlier version of a record is damaged: ${why}`, {
    hint: 'run `tidemark verify` to see which record it is',
    cause,
  });
}

// A small copy-and-insert delta between two texts as bytes: an older body relative to the newer one that replaced it. One
// changed field of an 800-byte record takes some 40 bytes. Format: a sequence of operations, each a varint `length * 2 +
// isCopy`; a copy is followed by a varint offset into the base, an insert by its bytes. A varint is little-endian, in groups
// of seven bits.

/** Bytes that must be equal before a copy is considered; shorter copies take more bytes than they save. */
const BLOCK = 8;

/** The operations that make `target` from `base`. @internal */
export function encodeDelta(base: Buffer, target: Buffer): Buffer {
  const writer = new DeltaWriter(target);
  const shorter = Math.min(base.length, target.length);
  let prefix = 0;
  while (prefix < shorter && base[prefix] === target[prefix]) prefix += 1;
  let suffix = 0;
  while (suffix < shorter - prefix && base[base.length - 1 - suffix] === target[target.length - 1 - suffix]) {
    suffix += 1;
  }
  writer.copy(0, prefix);
  encodeMiddle(writer, base, prefix, base.length - suffix, target, prefix, target.length - suffix);
  writer.copy(base.length - suffix, suffix);
  return writer.finish();
}

/** Copies blocks of the base's middle that are also in the target's; inserts the rest. */
function encodeMiddle(
  writer: DeltaWriter,
  base: Buffer,
  baseStart: number,
  baseEnd: number,
  target: Buffer,
  targetStart: number,
  targetEnd: number,
): void {
  const blocks = new Map<number, number>();
  for (let at = baseStart; at + BLOCK <= baseEnd; at += BLOCK) blocks.set(blockKey(base, at), at);
  let insertFrom = targetStart;
  let at = targetStart;
  while (blocks.size > 0 && at + BLOCK <= targetEnd) {
    const found = blocks.get(blockKey(target, at));
    if (found === undefined || !isSameBlock(base, found, target, at)) {
      at += 1;
      continue;
    }
    let back = 0;
    while (
      at - back > insertFrom &&
      found - back > baseStart &&
      base[found - back - 1] === target[at - back - 1]
    ) {
      back += 1;
    }
    let length = BLOCK;
    while (
      found + length < baseEnd &&
      at + length < targetEnd &&
      base[found + length] === target[at + length]
    ) {
      length += 1;
    }
    writer.insert(insertFrom, at - back);
    writer.copy(found - back, back + length);
    at += length;
    insertFrom = at;
  }
  writer.insert(insertFrom, targetEnd);
}

function blockKey(bytes: Buffer, at: number): number {
  return Math.imul(bytes.readInt32LE(at), 0x9e3779b1) ^ bytes.readInt32LE(at + 4);
}

function isSameBlock(base: Buffer, baseAt: number, target: Buffer, targetAt: number): boolean {
  return base.compare(target, targetAt, targetAt + BLOCK, baseAt, baseAt + BLOCK) === 0;
}

class DeltaWriter {
  readonly #target: Buffer;
  readonly #parts: Buffer[] = [];
  #pendingStart = 0;
  #pendingLength = 0;

  constructor(target: Buffer) {
    this.#target = target;
  }

  /** Adjacent copies become one. */
  copy(offset: number, length: number): void {
    if (length === 0) return;
    if (this.#pendingLength > 0 && this.#pendingStart + this.#pendingLength === offset) {
      this.#pendingLength += length;
      return;
    }
    this.#flushCopy();
    this.#pendingStart = offset;
    this.#pendingLength = length;
  }

  insert(start: number, end: number): void {
    if (start === end) return;
    this.#flushCopy();
    this.#parts.push(varint((end - start) * 2), this.#target.subarray(start, end));
  }

  finish(): Buffer {
    this.#flushCopy();
    return Buffer.concat(this.#parts);
  }

  #flushCopy(): void {
    if (this.#pendingLength === 0) return;
    this.#parts.push(varint(this.#pendingLength * 2 + 1), varint(this.#pendingStart));
    this.#pendingLength = 0;
  }
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) + 0x80);
    rest = Math.floor(rest / 0x80);
  }
  bytes.push(rest);
  return Buffer.from(bytes);
}

/**
 * Applies a delta to its base.
 * @throws TidemarkError `mirror_corrupt` if it does not fit the base
 * @internal
 */
export function applyDelta(base: Buffer, delta: Buffer): Buffer {
  let at = 0;
  // Most bodies are about as long as those that replaced them.
  let target: Buffer = Buffer.allocUnsafe(base.length + delta.length);
  let length = 0;
  const next = (): number => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = delta[at];
      if (byte === undefined || scale > 2 ** 42) throw damaged();
      at += 1;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
  };
  while (at < delta.length) {
    const head = next();
    const size = Math.floor(head / 2);
    const isCopy = head % 2 === 1;
    const from = isCopy ? base : delta;
    const start = isCopy ? next() : at;
    if (start + size > from.length) throw damaged();
    if (length + size > target.length) target = grown(target, length, length + size);
    from.copy(target, length, start, start + size);
    length += size;
    if (!isCopy) at += size;
  }
  return target.subarray(0, length);
}

/** A larger buffer, of `least` bytes or more, with the first `length` bytes of this one. */
function grown(bytes: Buffer, length: number, least: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(least, bytes.length * 2));
  bytes.copy(larger, 0, 0, length);
  return larger;
}

function damaged(): TidemarkError {
  return damagedVersion('it cannot be made from the version after it');
}
