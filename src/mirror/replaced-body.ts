/** How the body of a replaced revision is kept small, and how it is read again. */
import { constants, deflateRawSync, inflateRawSync } from 'node:zlib';
import { TidemarkError } from '../core/errors.ts';
import { applyDelta, encodeDelta } from './delta.ts';

/** `revisions.encoding`. */
export const ENCODING = { delta: 1, deflated: 2, plain: 3 } as const;

/** Every so many revisions one is kept whole, so that reading an old one never follows a long chain of deltas. */
const WHOLE_EVERY = 64;
/** A delta above this share of the body is compared with the deflated body. */
const GOOD_DELTA_SHARE = 0.3;

export interface ReplacedBody {
  readonly encoding: number;
  readonly bytes: Buffer;
}

/** Keeps `older`, replaced by `newer`. `ordinal` is the older revision's. */
export function keepAgainst(older: string, newer: string, ordinal: number): ReplacedBody {
  if (ordinal % WHOLE_EVERY === 0) return keepWhole(older);
  const bytes = Buffer.from(older, 'utf8');
  const delta = encodeDelta(Buffer.from(newer, 'utf8'), bytes);
  if (delta.length <= bytes.length * GOOD_DELTA_SHARE) return { encoding: ENCODING.delta, bytes: delta };
  const whole = keepWhole(older);
  return whole.bytes.length < delta.length ? whole : { encoding: ENCODING.delta, bytes: delta };
}

/** Keeps a body that nothing newer stands for: the last one of a removed record. */
export function keepWhole(text: string): ReplacedBody {
  const plain = Buffer.from(text, 'utf8');
  const deflated = deflateRawSync(plain, { level: constants.Z_DEFAULT_COMPRESSION });
  return deflated.length < plain.length
    ? { encoding: ENCODING.deflated, bytes: deflated }
    : { encoding: ENCODING.plain, bytes: plain };
}

/**
 * The body again. `newer` is the next newer body; needed for deltas only.
 * @throws TidemarkError `mirror_corrupt` when the bytes cannot be read
 */
export function readReplaced(kept: ReplacedBody, newer: string | null): string {
  return replacedBytes(kept, newer === null ? null : Buffer.from(newer, 'utf8')).toString('utf8');
}

/** The same in UTF-8, for chains of deltas: each is the base of the next. */
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
  return new TidemarkError('mirror_corrupt', 'a stored older body cannot be read', {
    hint: 'run `tidemark verify` to see which record it is',
    cause,
  });
}
