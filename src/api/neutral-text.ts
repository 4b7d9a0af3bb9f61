/** Text of the far side made fit for a message: one short line, no control characters, never the key. */
import type { Secret } from '../core/secret.ts';

/** Turns any text into one line of at most 200 characters. */
export type NeutralText = (text: string) => string;

const MAX_LENGTH = 200;
/** Enough of an answer to cut 200 characters from, so that a huge body is not combed through. */
const MAX_INPUT = 4096;

/**
 * Some servers echo the Authorization header in their error pages: the key is replaced wherever it stands. This is the
 * one place beside the transport that reveals it.
 */
export function neutralText(apiKey: Secret): NeutralText {
  return (text) => {
    const key = apiKey.reveal();
    // In any case of letters: a URL parser, for one, lowers a host's.
    const everyKey = new RegExp(key.replaceAll(/[^A-Za-z0-9_]/g, String.raw`\$&`), 'gi');
    const masked = text.slice(0, MAX_INPUT + key.length);
    const line = (key === '' ? masked : masked.replaceAll(everyKey, '[secret]'))
      .slice(0, MAX_INPUT)
      // Escape sequences whole, then every control, format, surrogate and line-separating character.
      .replaceAll(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, '')
      .replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\s]+/gu, ' ')
      .trim();
    return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH - 1).trimEnd()}…`;
  };
}
