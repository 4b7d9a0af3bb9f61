/**
 * The file of `deliveries.ts`: the groups of each channel, and the messages of several events that were begun. After a kill, each of these
 * messages is sent again under the same id, or not at all.
 */
import { hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { systemCodeOf } from '../../core/errors.ts';
import { asFileError } from '../../core/file-errors.ts';
import type { Batch, NoticeGroup } from './groups.ts';

/** A message that is being sent. */
export interface Sending extends Batch {
  attempts: number;
  /** Epoch milliseconds. */
  nextAttemptAt: number;
  /** True if it was delivered, and not all mirrors know. */
  isSent: boolean;
}

/** The state of a channel that is kept over restarts. */
export interface KeptState {
  groups: readonly NoticeGroup[];
  /** Messages of groups that were begun. */
  sending: readonly Sending[];
}

/** The content of the file, by channel; empty without a file. @throws if it cannot be read, or its hash is wrong */
export function readKept(path: string): Readonly<Record<string, KeptState>> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return {};
    throw asFileError(error, path, 'read');
  }
  const [digest = '', body = ''] = text.split('\n');
  if (digestOf(body) !== digest) throw new Error('its hash is wrong');
  return JSON.parse(body) as Record<string, KeptState>;
}

/** Writes the file, atomically and synced to disk. @throws TidemarkError */
export function writeKept(path: string, kept: Readonly<Record<string, KeptState>>): void {
  const body = JSON.stringify(kept);
  const temporary = `${path}.new`;
  try {
    const file = openSync(temporary, 'w', 0o600);
    try {
      writeFileSync(file, `${digestOf(body)}\n${body}\n`);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    renameSync(temporary, path);
  } catch (error) {
    throw asFileError(error, path, 'written');
  }
}

/** The hash of the content. It includes the version of the format. */
function digestOf(body: string): string {
  return hash('sha256', `tidemark notices 1\n${body}`, 'hex');
}
