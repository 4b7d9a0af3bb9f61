/** What the operating system's error codes mean to a person: the one table, for files and for addresses. */
import type { ErrorCode } from './errors.ts';

interface SystemTrouble {
  readonly code: Extract<ErrorCode, 'disk_full' | 'read_only' | 'file_system' | 'port_in_use'>;
  /** Ends a sentence: `… could not be written: permission denied`. */
  readonly why: string;
  /** What to do about it. */
  readonly hint: string;
}

const FREE_SPACE = 'free some space and run the command again; what was published before is intact';
const OTHER_PATH = 'choose another path';

const TROUBLE: Readonly<Record<string, SystemTrouble>> = {
  ENOSPC: { code: 'disk_full', why: 'the disk is full', hint: FREE_SPACE },
  EDQUOT: { code: 'disk_full', why: 'the disk quota is used up', hint: FREE_SPACE },
  EFBIG: {
    code: 'disk_full',
    why: 'a limit on the size of files is reached',
    hint: 'raise the limit (`ulimit -f`) or write to another file system, then run the command again',
  },
  EACCES: {
    code: 'read_only',
    why: 'permission denied',
    hint: 'check the owner and mode of that path and of the directories above it, or choose another one',
  },
  EPERM: {
    code: 'read_only',
    why: 'the operation is not permitted',
    hint: 'check the owner and mode of that path and of the directories above it, or choose another one',
  },
  EROFS: { code: 'read_only', why: 'the file system is mounted read-only', hint: OTHER_PATH },
  ENOENT: {
    code: 'file_system',
    why: 'it or a directory above it does not exist',
    hint: 'check the spelling of the path',
  },
  EEXIST: {
    code: 'file_system',
    why: 'something else of that name is in the way',
    hint: `move it away, or ${OTHER_PATH}`,
  },
  ENOTDIR: {
    code: 'file_system',
    why: 'a part of the path is a file where a directory is needed',
    hint: `move that file away, or ${OTHER_PATH}`,
  },
  EISDIR: {
    code: 'file_system',
    why: 'it is a directory where a file is needed',
    hint: `move it away, or ${OTHER_PATH}`,
  },
  ENOTEMPTY: { code: 'file_system', why: 'the directory is not empty', hint: OTHER_PATH },
  ENAMETOOLONG: {
    code: 'file_system',
    why: 'the name is too long for this file system',
    hint: 'choose a shorter path',
  },
  ELOOP: {
    code: 'file_system',
    why: 'its symbolic links lead in a circle',
    hint: 'correct the links, or choose another path',
  },
  EMFILE: {
    code: 'file_system',
    why: 'this process has too many files open',
    hint: 'raise the limit (`ulimit -n 4096`) and run the command again',
  },
  ENFILE: {
    code: 'file_system',
    why: 'this machine has too many files open',
    hint: 'end programs that hold many files, then run the command again',
  },
  EBUSY: {
    code: 'file_system',
    why: 'it is in use',
    hint: 'wait for whatever uses it, or choose another path',
  },
  ETXTBSY: {
    code: 'file_system',
    why: 'it is in use',
    hint: 'wait for whatever uses it, or choose another path',
  },
  EIO: {
    code: 'file_system',
    why: 'the disk reports an error',
    hint: 'look at the system log: the disk may be failing',
  },
  EXDEV: {
    code: 'file_system',
    why: 'it would have to move to another file system',
    hint: OTHER_PATH,
  },
  EADDRINUSE: {
    code: 'port_in_use',
    why: 'the port is taken by another program',
    hint: 'choose another port with --port',
  },
  EADDRNOTAVAIL: {
    code: 'file_system',
    why: 'this machine has no such address',
    hint: 'choose an address of this machine with --host',
  },
};

/** The system's code of an error (`EACCES`), undefined for anything else. */
export function systemCodeOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' && /^E[A-Z0-9]+$/.test(thrown.code) ? thrown.code : undefined;
}

/** What a system's code means; undefined for one that the table does not hold. */
export function systemTrouble(systemCode: string): SystemTrouble | undefined {
  return Object.hasOwn(TROUBLE, systemCode) ? TROUBLE[systemCode] : undefined;
}
