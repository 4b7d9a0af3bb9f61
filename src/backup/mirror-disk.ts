/** Whether a target is on the disk of the mirror, and so would be lost together with it. */
import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { TargetConfig } from '../config/config.ts';

/**
 * True for a directory on the device of the mirror; of a path that does not exist yet, the nearest existing directory
 * above it counts. The target may be on a network disk that hangs: the caller limits the time.
 */
export async function isOnMirrorDisk(config: TargetConfig, mirrorPath: string): Promise<boolean> {
  if (config.type !== 'directory') return false;
  try {
    return (await deviceOf(config.path)) === (await deviceOf(mirrorPath));
  } catch {
    // Whatever uses the directory reports the error.
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

/** A sentence about the targets on the disk of the mirror. */
export function mirrorDiskText(paths: readonly string[]): string {
  return `${paths.join(' and ')} ${paths.length === 1 ? 'is' : 'are'} on the disk of the mirror: if that disk fails, backups there are lost too`;
}
