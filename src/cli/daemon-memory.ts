/** How V8 is to work where nothing heavy is done: the daemon itself answers a page now and then. */
import { setFlagsFromString } from 'node:v8';

/**
 * Keeps the process small: without the compilers, whose own code and what they make takes 12 MB, and with a young generation
 * that stays at the 1 MB that it begins with. A page takes a few milliseconds more.
 */
export function boundDaemonHeap(): void {
  for (const flag of ['--no-opt', '--no-maglev', '--no-sparkplug', '--semi-space-growth-factor=1'])
    setFlagsFromString(flag);
}
