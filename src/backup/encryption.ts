/**
 * The one door to age (age-encryption.org/v1): files that only the holders of some keys can read, as streams. Loaded when
 * something is encrypted or decrypted: its ciphers take a quarter of the time in which a command that lists backups starts.
 */
import { readFile } from 'node:fs/promises';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';

/** A part of a pipeline. */
export type Stage = (source: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

/** How every file of age begins, unless it is armored, which backups never are. */
export const AGE_MAGIC = 'age-encryption.org/v1\n';

/**
 * Encrypts to all of these recipients.
 * @throws TidemarkError `config_invalid` for one that age does not take
 */
export async function encryption(recipients: readonly string[]): Promise<Stage> {
  const { Encrypter } = await import('age-encryption');
  const encrypter = new Encrypter();
  for (const [index, recipient] of recipients.entries()) {
    try {
      encrypter.addRecipient(recipient);
    } catch (error) {
      throw new TidemarkError(
        'config_invalid',
        `recipient ${index + 1} of backups is not a key that age knows`,
        {
          hint: 'give each as `age-keygen -y` prints it: age1…',
          cause: error,
        },
      );
    }
  }
  return async function* (source) {
    yield* await encrypter.encrypt(ReadableStream.from(source));
  };
}

/**
 * Decrypts with whichever of these identities fits. The stage throws `usage` if none does, and `mirror_corrupt` where
 * the content is not what was encrypted. `subject` names the file in both.
 * @throws TidemarkError `usage` for what is not an age identity
 */
export async function decryption(identities: readonly Secret[], subject: string): Promise<Stage> {
  const { Decrypter } = await import('age-encryption');
  const decrypter = new Decrypter();
  for (const [index, identity] of identities.entries()) {
    try {
      decrypter.addIdentity(identity.reveal());
    } catch (error) {
      // Not the library's message: it may quote the key.
      throw new TidemarkError('usage', `identity ${index + 1} is not a key that age knows`, {
        hint: 'give a file as `age-keygen` writes it, with lines that begin with AGE-SECRET-KEY-1',
        cause: error instanceof Error ? error.name : undefined,
      });
    }
  }
  return async function* (source) {
    // What the disk says while it is read is not about the key.
    let problem: Error | undefined;
    const watched = ReadableStream.from(watch(source, (error) => (problem = error)));
    let plain: AsyncIterable<Uint8Array>;
    try {
      plain = await decrypter.decrypt(watched);
    } catch (error) {
      throw (
        problem ??
        new TidemarkError('usage', `none of the identities opens ${subject}`, {
          hint: 'give the identity of one of the recipients that it was encrypted for with --identity; a damaged header reads the same',
          cause: error,
        })
      );
    }
    try {
      yield* plain;
    } catch (error) {
      throw (
        problem ??
        new TidemarkError('mirror_corrupt', `${subject} is damaged: it cannot be decrypted to its end`, {
          hint: 'fetch it again from where backups are kept, or take another one (`tidemark backup list`)',
          cause: error,
        })
      );
    }
  };
}

async function* watch(
  source: AsyncIterable<Uint8Array>,
  onProblem: (error: Error) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* source;
  } catch (error) {
    onProblem(error instanceof Error ? error : new Error('the file could not be read', { cause: error }));
    throw error;
  }
}

/**
 * The keys in a file of age: a line each, `#` begins a comment.
 * @throws TidemarkError `usage` for an empty file, or as reading it fails
 */
export async function readIdentities(path: string): Promise<Secret[]> {
  return (await readKeyLines(path, 'identity')).map((line) => new Secret(line));
}

/** @throws TidemarkError as `readIdentities` does */
export async function readRecipients(path: string): Promise<string[]> {
  return await readKeyLines(path, 'recipient');
}

async function readKeyLines(path: string, what: 'identity' | 'recipient'): Promise<string[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (lines.length > 0) return lines;
  throw new TidemarkError('usage', `${path} holds no ${what}`, { hint: 'give a file with one key a line' });
}
