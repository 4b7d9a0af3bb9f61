/** What the registry says of a cell, as a worker needs it: its configuration, and the key that its reference leads to. */
import { readFileSync, realpathSync } from 'node:fs';
import { sep } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';
import type { CellConfig } from './cell.ts';
import type { Cell } from './registry/held-group.ts';

/** @throws TidemarkError `config_invalid` where this machine has no such key */
export type ReadSecret = (reference: string) => Secret;

/** The client of S3 finds its credentials in these. */
const OF_STORAGE = /^AWS_/;

interface SecretPlaces {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Names of variables with secrets of this worker. */
  readonly own: readonly string[];
  /** Absolute path of the only directory whose files may be keys. */
  readonly keyDirectory: string;
}

/**
 * Keys by `env:NAME` and `file:/path`, on this machine. A variable with a secret of the worker's own, and a file outside of
 * the directory for keys, is not a cell's key: who may change the registry could have it sent to any address.
 */
export function secretReader(places: SecretPlaces): ReadSecret {
  return (reference) => {
    const [form = '', ...rest] = reference.split(':');
    const place = rest.join(':');
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

/** Links are followed first: one in the directory must not lead out of it. */
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

/** The configuration of a cell, without its key. */
export function cellConfigOf({ address, profile, organizations, schedule, document }: Cell): CellConfig {
  const { source = {}, schedules = {}, retention, drift } = document;
  return {
    source: { ...source, baseUrl: address, profile, organizations: organizations ?? 'all' },
    schedules: { ...schedules, sync: { ...(schedules['sync'] as object | undefined), cron: schedule } },
    retention,
    drift,
  };
}
