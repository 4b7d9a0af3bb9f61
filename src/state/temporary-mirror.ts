/** An empty mirror in the temporary directory, for reading live: always deleted afterwards. */
import { lstatSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { makeTemporaryDirectory, temporaryPlace } from '../core/temporary-place.ts';
import { acquireWriterLock } from '../mirror/lock.ts';
import { type Mirror } from '../mirror/mirror.ts';
import { openMirror } from '../mirror/open.ts';

const PREFIX = 'tidemark-live-';
/** The process of a younger directory may not have locked its mirror yet. */
const SETTLED_MS = 60_000;

/** The process that reads: shown to processes that find the temporary mirror locked. */
export interface Reader {
  readonly command: string;
  readonly pid: number;
  readonly host: string;
  readonly clock: Clock;
}

export interface TemporaryMirror {
  readonly mirror: Mirror;
  /** Closes and deletes it. */
  discard(): void;
}

/**
 * Creates a mirror that only this user can read, and deletes those left by killed processes.
 * @throws TidemarkError `disk_full`, `read_only`, `file_system`
 */
export function openTemporaryMirror(reader: Reader): TemporaryMirror {
  removeAbandoned(reader);
  const directory = makeTemporaryDirectory(PREFIX);
  const remove = (): void => rmSync(directory, { recursive: true, force: true });
  try {
    const mirror = openMirror(join(directory, 'mirror.db'), { mode: 'write', isTemporary: true, ...reader });
    return {
      mirror,
      discard: () => {
        // Files first, if the system can remove open ones: closing would write into them for nothing.
        if (process.platform !== 'win32') remove();
        try {
          mirror.close();
        } finally {
          remove();
        }
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** Deletes the mirrors of killed processes: the system releases the lock when a process ends. */
function removeAbandoned({ clock, command, pid, host }: Reader): void {
  const place = temporaryPlace();
  for (const name of namesIn(place)) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(place, name);
    // Only a directory that this user made here, never the target of a link.
    const stats = lstatSync(directory, { throwIfNoEntry: false });
    if (stats === undefined || !stats.isDirectory() || stats.uid !== process.getuid?.()) continue;
    if (clock.now() - stats.mtimeMs < SETTLED_MS) continue;
    try {
      acquireWriterLock(join(directory, 'mirror.db'), {
        command,
        pid,
        host,
        since: isoTime(clock.now()),
      }).release();
    } catch (error) {
      if (!(error instanceof TidemarkError)) throw asTidemarkError(error);
      // It is in use, was deleted by another process meanwhile, or cannot be opened.
      continue;
    }
    rmSync(directory, { recursive: true, force: true });
  }
}

function namesIn(place: string): string[] {
  try {
    return readdirSync(place);
  } catch (error) {
    throw asFileError(error, place, 'listed');
  }
}
