/** Secrets from files, as containers mount them. */
import { readFileSync, statSync } from 'node:fs';

type SecretFile = { readonly value: string; readonly isOpen: boolean } | { readonly mistake: string };

// A key has some dozens of characters: a larger file is not one.
const LARGEST_BYTES = 16_384;

/** The content of a file of any text, such as a private key, without the line end of its last line. */
export function readSecretText(path: string): SecretFile {
  return readSmallFile(path, (text) => {
    const value = text.replace(/\r?\n$/, '');
    return value === '' ? { mistake: `${path} is empty: expected the secret in it` } : { value };
  });
}

/**
 * The trimmed content of a secret file; `isOpen` tells that every user of the machine can read it. A problem is
 * returned as the end of a sentence that does not quote the content.
 */
export function readSecretFile(path: string): SecretFile {
  return readSmallFile(path, (text) => {
    const value = text.trim();
    if (value === '') return { mistake: `${path} is empty: expected the key in it` };
    return /^[\x21-\x7e]+$/.test(value)
      ? { value }
      : { mistake: `${path}: expected one key of visible ASCII characters without spaces` };
  });
}

function readSmallFile(
  path: string,
  take: (text: string) => { readonly value: string } | { readonly mistake: string },
): SecretFile {
  try {
    const facts = statSync(path);
    if (facts.isDirectory()) return { mistake: `${path} is a directory: expected a file that holds the key` };
    if (facts.size > LARGEST_BYTES) return { mistake: `${path} is too large to be a key` };
    const taken = take(readFileSync(path, 'utf8'));
    if ('mistake' in taken) return taken;
    return { ...taken, isOpen: process.platform !== 'win32' && (facts.mode & 0o004) !== 0 };
  } catch (error) {
    return { mistake: `${path} ${unreadable(error)}` };
  }
}

/** Why a file could not be read, as the end of a sentence. */
export function unreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'ENOENT' || code === 'ENOTDIR') return 'does not exist';
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be read: permission denied';
  if (code === 'EISDIR') return 'is a directory: expected a file';
  return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
}
