/** What the registry says of a cell, as a worker needs it: its configuration, and the key that its reference leads to. */
import { readFileSync } from 'node:fs';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';
import type { CellConfig } from './cell.ts';
import type { Cell } from './registry/registry.ts';

/** @throws TidemarkError `config_invalid` where this machine has no such key */
export type ReadSecret = (reference: string) => Secret;

/** The client of S3 finds its credentials in these. */
const OF_STORAGE = /^AWS_/;

/**
 * Keys by `env:NAME` and `file:/path`, on this machine. A variable with a secret of the worker's own is none of a cell: who may
 * change the registry could have it sent to any address.
 * @param own names of variables with secrets of this worker
 */
export function secretReader(
  env: Readonly<Record<string, string | undefined>>,
  own: readonly string[],
): ReadSecret {
  return (reference) => {
    const [form = '', ...rest] = reference.split(':');
    const place = rest.join(':');
    if (form === 'env') {
      if (own.includes(place) || OF_STORAGE.test(place)) {
        throw new TidemarkError(
          'config_invalid',
          `${reference} is a secret of the worker, and no cell's key`,
          {
            hint: 'give the key a variable of its own',
          },
        );
      }
      const value = env[place]?.trim();
      if (value !== undefined && value !== '') return new Secret(value);
      throw new TidemarkError(
        'config_invalid',
        `this worker has no variable ${place} with the key of a cell`,
        {
          hint: `set ${place} for this worker`,
        },
      );
    }
    if (form === 'file') {
      let text: string;
      try {
        text = readFileSync(place, 'utf8').trim();
      } catch (error) {
        throw asFileError(error, place, 'read');
      }
      if (text !== '') return new Secret(text);
      throw new TidemarkError('config_invalid', `the file ${place} holds no key`);
    }
    throw new TidemarkError('config_invalid', `${reference} refers to no key`, {
      hint: 'write env:NAME or file:/path',
    });
  };
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
