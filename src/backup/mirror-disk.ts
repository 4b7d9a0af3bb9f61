/** Whether a target lies on the disk of the mirror, and so is lost together with it. */
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { TargetConfig } from '../config/config.ts';

/**
 * True for a directory whose device is the mirror's; what does not exist yet counts as the directory that it will be in. The
 * target may be on a network disk that hangs: the caller limits how long it waits.
 */
export async function isOnMirrorDisk(config: TargetConfig, mirrorPath: string): Promise<boolean> {
  if (config.type !== 'directory') return false;
  try {
    return (await deviceOf(config.path)) === (await deviceOf(mirrorPath));
  } catch {
    // A directory that cannot be looked at is reported by what uses it.
    return false;
  }
}

async function deviceOf(path: string): Promise<number> {
  try {
    return (await stat(path)).dev;
  } catch (error) {
    const parent = dirname(path);
    if (parent === path) throw error;
    return await deviceOf(parent);
  }
}

/** One line about all of them. */
export function mirrorDiskText(paths: readonly string[]): string {
  return `${paths.join(' and ')} ${paths.length === 1 ? 'is' : 'are'} on the disk of the mirror: if that disk fails, backups there are lost too`;
}
