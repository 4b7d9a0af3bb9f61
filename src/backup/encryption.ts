/**
 * The one door to age (age-encryption.org/v1), which encrypts and decrypts streams. The library is loaded only when it
 * is used: loading it takes a quarter of the time in which a command that lists backups starts.
 */
import { readFile } from 'node:fs/promises';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { REFETCH_HINT } from '../core/hints.ts';
import { Secret } from '../core/secret.ts';

/** A stage of a pipeline. */
export type Stage = (source: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;

/** The beginning of every file of age that is not armored; backups never are. */
export const AGE_MAGIC = 'age-encryption.org/v1\n';

/**
 * A stage that encrypts for all of these recipients.
 * @throws TidemarkError `config_invalid` for an invalid recipient
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
        { hint: 'give each as `age-keygen -y` prints it: age1…', cause: error },
      );
    }
  }
  return async function* (source) {
    yield* await encrypter.encrypt(ReadableStream.from(source));
  };
}

/**
 * A stage that decrypts with the identity that fits. It throws `usage` if none does, and `mirror_corrupt` if the
 * content was damaged. `subject` names the file in errors.
 * @throws TidemarkError `usage` for an invalid identity
 */
export async function decryption(identities: readonly Secret[], subject: string): Promise<Stage> {
  const { Decrypter } = await import('age-encryption');
  const decrypter = new Decrypter();
  for (const [index, identity] of identities.entries()) {
    try {
      decrypter.addIdentity(identity.reveal());
    } catch (error) {
      // Without the library's message, which may quote the key.
      throw new TidemarkError('usage', `identity ${index + 1} is not a key that age knows`, {
        hint: 'give a file as `age-keygen` writes it, with lines that begin with AGE-SECRET-KEY-1',
        cause: error instanceof Error ? error.name : undefined,
      });
    }
  }
  return async function* (source) {
    // An error of reading the file, which must not be reported as one of the key.
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
          hint: REFETCH_HINT,
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
 * The keys in a file of age: one a line, without lines that begin with `#`.
 * @throws TidemarkError `usage` for an empty file, or if it cannot be read
 */
export async function readIdentities(path: string): Promise<Secret[]> {
  return (await readKeyLines(path, 'identity')).map((line) => new Secret(line));
}

/** The recipients in a file, one a line. @throws TidemarkError as `readIdentities` */
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
