/** Opens a mirror, to read or to write. */
import { type LockHolder, acquireWriterLock } from './lock.ts';
import { translated, withoutVerifyHint, type Connection } from './database.ts';
import { MirrorAccess, type ReaderConnection } from './access.ts';
import { Mirror, type MirrorOptions } from './mirror.ts';
import { createDirectory, openReader, openWriter } from './opening.ts';
import { hostname } from 'node:os';
import { isoTime } from '../core/clock.ts';
import { realMirrorPath } from './real-path.ts';

function openForReading(path: string, holder: LockHolder): ReaderConnection {
  try {
    return translated(path, () => openReader(path, holder));
  } catch (error) {
    throw holder.command === 'verify' ? withoutVerifyHint(error, path) : error;
  }
}

/**
 * Opens the mirror at `name`, which may be a symbolic link. For writing: makes file and directory, takes the writer lock, upgrades, and ends runs whose
 * process died. For reading: never changes anything but an older schema.
 * @throws TidemarkError `mirror_missing` (reading only), `mirror_locked`, `mirror_foreign`, `mirror_newer`, `disk_full`,
 * `read_only`, `file_system`, `mirror_corrupt`
 */
export function openMirror(name: string, options: MirrorOptions): Mirror {
  const holder: LockHolder = {
    command: options.command,
    pid: options.pid ?? process.pid,
    host: options.host ?? hostname(),
    since: isoTime(options.clock.now()),
  };
  if (options.mode === 'read') {
    const path = realMirrorPath(name);
    const reader = openForReading(path, holder);
    return new Mirror('read', new MirrorAccess(path, options, reader, null));
  }
  translated(name, () => createDirectory(name));
  // Lock and stage by the file's own name: a writer that comes by a link must meet the same ones.
  const path = realMirrorPath(name);
  const lock = acquireWriterLock(path, holder);
  let writer: Connection | undefined;
  try {
    writer = translated(path, () => openWriter(path));
    if (options.isTemporary === true) writer.pragma('synchronous = OFF');
    const reader = translated(path, () => openReader(path, holder));
    return new Mirror('write', new MirrorAccess(path, options, reader, { connection: writer, lock }));
  } catch (error) {
    writer?.close();
    lock.release();
    throw error;
  }
}
