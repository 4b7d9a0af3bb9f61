/** Opening the mirror to change it where making an empty one would be a mistake. */
import type { Config } from '../config/config.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openConfiguredMirror } from '../wire.ts';

/**
 * For writing, under the lock.
 * @throws TidemarkError `mirror_missing` where there is none, and as `openMirror` does
 */
export function openExistingMirror(config: Config, command: string, pid: number): Mirror {
  openConfiguredMirror(config, 'read', command, pid).close();
  return openConfiguredMirror(config, 'write', command, pid);
}
