/** An empty mirror in the temporary directory, for a state that is read live: always deleted afterwards. */
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
/** A younger directory may be one whose process has not locked its mirror yet. */
const SETTLED_MS = 60_000;

/** Who reads: shown to processes that find the temporary mirror locked. */
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
        // First its files, where open ones can be removed: what closing would write into them is of no use to anybody.
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

/** The lock shows whether a process still reads there: the system releases it when the process ends. */
function removeAbandoned({ clock, command, pid, host }: Reader): void {
  const place = temporaryPlace();
  for (const name of namesIn(place)) {
    if (!name.startsWith(PREFIX)) continue;
    const directory = join(place, name);
    // Not what a link points to: only a directory that this user made here.
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
      // In use, taken away by another one meanwhile, or not to be opened: not ours to delete.
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
