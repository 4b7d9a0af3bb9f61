/** The text of an answer's body. */
import { isAscii } from 'node:buffer';
import { TidemarkError } from '../core/errors.ts';

// Fatal: a record whose letters were replaced would look changed, and would be written back wrong.
const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

/** @throws TidemarkError `malformed` when it is not valid UTF-8 */
export function decodeStrictly(bytes: Buffer): string {
  // Most records, and taken apart in half the time.
  if (isAscii(bytes)) return bytes.toString('latin1');
  try {
    return strictUtf8.decode(bytes);
  } catch (error) {
    throw unreadable('the answer is not valid UTF-8', error);
  }
}

/** An answer of which nothing can be used; another attempt may bring one. */
export function unreadable(what: string, cause?: unknown): TidemarkError {
  return new TidemarkError('malformed', what, {
    hint: 'check that baseUrl of the source points at the API; run again later',
    isRetryable: true,
    ...(cause === undefined ? {} : { cause }),
  });
}
