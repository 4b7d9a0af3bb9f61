/** Whether a target lies on the disk of the mirror, and so is lost together with it. */
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { TargetConfig } from '../config/config.ts';

/** True for a directory whose device is the mirror's; what does not exist yet counts as the directory that it will be in. */
export function isOnMirrorDisk(config: TargetConfig, mirrorPath: string): boolean {
  if (config.type !== 'directory') return false;
  try {
    return statSync(existing(config.path)).dev === statSync(existing(mirrorPath)).dev;
  } catch {
    // A directory that cannot be looked at is reported by what uses it.
    return false;
  }
}

function existing(path: string): string {
  const parent = dirname(path);
  return existsSync(path) || parent === path ? path : existing(parent);
}

/** One line about all of them. */
export function mirrorDiskText(paths: readonly string[]): string {
  return `${paths.join(' and ')} ${paths.length === 1 ? 'is' : 'are'} on the disk of the mirror: if that disk fails, backups there are lost too`;
}
