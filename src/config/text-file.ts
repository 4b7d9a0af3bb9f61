/** Reads a YAML file as text, refusing what cannot be one. */
import { readFileSync, statSync } from 'node:fs';
import { unreadable } from './secret-file.ts';

// An organization's list of ids fits a thousand times over.
const LARGEST_BYTES = 4 * 1024 * 1024;

type TextFile = { readonly text: string } | { readonly mistake: string; readonly isMissing: boolean };

/** The text of a UTF-8 file without its byte order mark; or why it cannot be read, as the end of a sentence. */
export function readTextFile(path: string): TextFile {
  let bytes: Buffer;
  try {
    const facts = statSync(path);
    if (facts.isDirectory()) return { mistake: 'is a directory: expected a YAML file', isMissing: false };
    if (facts.size > LARGEST_BYTES)
      return { mistake: 'is larger than 4 MB: expected a YAML file', isMissing: false };
    bytes = readFileSync(path);
  } catch (error) {
    const mistake = unreadable(error);
    return { mistake, isMissing: mistake === 'does not exist' };
  }
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(bytes) };
  } catch {
    // TypeError: the bytes are no UTF-8.
    return { mistake: 'is not UTF-8 text: save it in that encoding', isMissing: false };
  }
}
