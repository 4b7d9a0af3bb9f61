/**
 * The file of `deliveries.ts`: the groups of each channel and the messages of several events that were begun, so that a process that
 * is killed sends each of them again under the same id, or not at all.
 */
import { hash } from 'node:crypto';
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { systemCodeOf } from '../../core/errors.ts';
import { asFileError } from '../../core/file-errors.ts';
import type { Batch, NoticeGroup } from './groups.ts';

/** A message on its way. */
export interface Sending extends Batch {
  attempts: number;
  /** Epoch milliseconds. */
  nextAttemptAt: number;
  /** True where it was delivered, and not all mirrors know. */
  isSent: boolean;
}

/** What is kept of a channel over restarts. */
export interface KeptState {
  groups: readonly NoticeGroup[];
  /** Those of several sources that were begun. */
  sending: readonly Sending[];
}

/** With a hash, so that a damaged file is not believed. @throws where it cannot be read, or is another kind of file */
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

/** All of it or nothing, on disk when this returns. @throws TidemarkError */
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

/** Of this form of the file: another one has another digest. */
function digestOf(body: string): string {
  return hash('sha256', `tidemark notices 1\n${body}`, 'hex');
}
