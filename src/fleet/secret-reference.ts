/**
 * References to the keys of cells, `env:NAME` and `file:/path`: how a worker reads the key, and a configuration file
 * refers to it.
 */
import { readFileSync, realpathSync } from 'node:fs';
import { sep } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';

/** @throws TidemarkError `config_invalid` if this machine has no such key */
export type ReadSecret = (reference: string) => Secret;

/** Variables with the credentials of the S3 client. */
const OF_STORAGE = /^AWS_/;

interface SecretPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of the variables with secrets of this worker. */
  readonly own: readonly string[];
  /** Absolute path of the only directory whose files may be keys. */
  readonly keyDirectory: string;
}

function splitReference(reference: string): readonly [form: string, place: string] {
  const [form = '', ...rest] = reference.split(':');
  return [form, rest.join(':')];
}

/** The options of a configuration file that refer to the same key. */
export function keyOptions(reference: string): { apiKey: string } | { apiKeyFile: string } {
  const [form, place] = splitReference(reference);
  return form === 'file' ? { apiKeyFile: place } : { apiKey: `\${${place}}` };
}

/**
 * Reads keys from variables and files of this machine. Refuses variables with the worker's own secrets, and files
 * outside of the directory for keys: whoever can change the registry could have them sent to any address.
 */
export function secretReader(places: SecretPlaces): ReadSecret {
  return (reference) => {
    const [form, place] = splitReference(reference);
    if (form === 'env') return variableSecret(place, places);
    if (form === 'file') return fileSecret(place, places.keyDirectory);
    throw new TidemarkError('config_invalid', `${reference} refers to no key`, {
      hint: 'write env:NAME or file:/path',
    });
  };
}

function variableSecret(name: string, { env, own }: SecretPlaces): Secret {
  if (own.includes(name) || OF_STORAGE.test(name)) {
    throw new TidemarkError('config_invalid', `env:${name} is a secret of the worker, and no cell's key`, {
      hint: 'give the key a variable of its own',
    });
  }
  const value = env[name]?.trim();
  if (value !== undefined && value !== '') return new Secret(value);
  throw new TidemarkError('config_invalid', `this worker has no variable ${name} with the key of a cell`, {
    hint: `set ${name} for this worker`,
  });
}

/** Links are followed first: a link in the directory must not point outside of it. */
function fileSecret(path: string, keyDirectory: string): Secret {
  let text: string;
  try {
    const file = realpathSync(path);
    if (!file.startsWith(`${realpathSync(keyDirectory)}${sep}`)) {
      throw new TidemarkError('config_invalid', `${path} is not in the directory for keys, ${keyDirectory}`, {
        hint: 'move the file there, or set fleet.keyDirectory on this worker',
      });
    }
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw error instanceof TidemarkError ? error : asFileError(error, path, 'read');
  }
  if (text !== '') return new Secret(text);
  throw new TidemarkError('config_invalid', `the file ${path} holds no key`);
}
