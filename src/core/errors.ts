/**
 * Every failure that Tidemark reports is a `TidemarkError`: a code, one line for a person, and what to do next.
 * Programs and callers decide by the code, never by the text of the message.
 */

/** Why something failed. It determines the exit code of the command (`exitCodeFor`). */
export type ErrorCode =
  // usage and configuration
  | 'usage'
  | 'config_invalid'
  | 'config_missing'
  // the service
  | 'unauthorized' // 401: the key was refused
  | 'forbidden' // 403: the key lacks a permission
  | 'not_found' // 404 or 410
  | 'rejected' // any other 4xx
  | 'throttled' // 429 for longer than we are willing to wait
  | 'server_error' // 5xx after all attempts
  | 'unreachable' // DNS, connection refused, TLS, reset
  | 'timeout' // one of the request's limits passed
  | 'unresponsive' // no request has had an answer for so long that no more are sent
  | 'redirected' // 3xx: never followed, the key would travel
  | 'malformed' // an answer that is not what the API promises (HTML, cut JSON, no list)
  | 'walk_unproven' // a list that ended without proof that it is complete
  | 'removals_held' // a proven list no longer shows more records than may be removed without confirmation: they are held
  | 'walk_loop' // repeated pages, a `next` that does not advance, twice the expected requests
  | 'retry_budget' // the run spent its retries
  // this machine
  | 'mirror_locked'
  | 'mirror_newer'
  | 'mirror_version' // made by another version, newer or older
  | 'mirror_foreign'
  | 'mirror_corrupt'
  | 'mirror_missing'
  | 'target_unread' // the only target for backups that may have the one to verify could not be listed
  | 'backup_damaged' // a target, or the disk, does not have what was written to it
  | 'disk_full'
  | 'read_only'
  | 'file_system'
  | 'port_in_use'
  | 'reference_unknown'
  | 'never_read' // a state from before the first reading of everything that was to be compared
  | 'git' // the repository is not as it has to be, or git refused
  // the registry of a fleet
  | 'registry_unreachable'
  | 'registry_denied' // user, password or privilege
  | 'registry_missing' // the database, or its tables
  | 'registry_older'
  | 'registry_newer'
  | 'registry_version' // made by other migrations, or changed by somebody
  | 'registry_failed'
  | 'clock_skew' // this machine's clock is not PostgreSQL's
  | 'cell_held' // a worker is working on it, or a person checked it out
  | 'unsafe_plan'
  | 'interrupted'
  | 'internal';

const LOCAL_CODES: ReadonlySet<ErrorCode> = new Set([
  'mirror_locked',
  'mirror_newer',
  'mirror_version',
  'mirror_foreign',
  'mirror_corrupt',
  'mirror_missing',
  'disk_full',
  'read_only',
  'file_system',
  'interrupted',
  'internal',
]);

/** True for an error of this machine. It ends the entire run; one of the service only ends a sweep or concerns a record. */
export function isLocalError(code: ErrorCode): boolean {
  return LOCAL_CODES.has(code);
}

/** Exit codes of the command line (design.md, Commands). Documented, tested, never reused. */
export const EXIT = {
  done: 0,
  failed: 1,
  differences: 2,
  partial: 3,
  usage: 4,
  refused: 5,
  unsafe: 6,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

const USAGE_CODES: ReadonlySet<ErrorCode> = new Set([
  'usage',
  'config_invalid',
  'config_missing',
  'reference_unknown',
]);
const PARTIAL_CODES: ReadonlySet<ErrorCode> = new Set(['removals_held', 'never_read', 'target_unread']);
const REFUSED_CODES: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** The exit code of a command that ends with an error of this code. */
export function exitCodeFor(code: ErrorCode): ExitCode {
  if (USAGE_CODES.has(code)) return EXIT.usage;
  if (REFUSED_CODES.has(code)) return EXIT.refused;
  if (code === 'unsafe_plan') return EXIT.unsafe;
  if (code === 'interrupted') return EXIT.interrupted;
  if (PARTIAL_CODES.has(code)) return EXIT.partial;
  return EXIT.failed;
}

/**
 * The exit code for the same work on several sources (design.md, Commands): failed or refused only if all of them are;
 * 3 if some are, because the unread ones may hide differences.
 */
export function combinedExitCode(codes: readonly ExitCode[]): ExitCode {
  const [only = EXIT.done, ...others] = new Set(codes);
  if (others.length === 0) return only;
  if (codes.includes(EXIT.interrupted)) return EXIT.interrupted;
  return codes.some((code) => code !== EXIT.done && code !== EXIT.differences)
    ? EXIT.partial
    : EXIT.differences;
}

interface ErrorDetails {
  /** What to do about it: one sentence with the next command or setting. */
  readonly hint?: string | undefined;
  /** True if the same attempt may succeed later. */
  readonly isRetryable?: boolean;
  /** The HTTP status of the response that caused it, if any. */
  readonly status?: number | undefined;
  /** The permission that the service named as missing, e.g. `plugin:read`. */
  readonly permission?: string | undefined;
  /** From `Retry-After`, milliseconds from the response. */
  readonly retryAfterMs?: number | undefined;
  /** The field that the service complained about (`attr` of its error body). */
  readonly field?: string | undefined;
  /** True if only what people recorded differs from the audit log, while records and history may be intact. */
  readonly isOfAuditLog?: boolean;
  readonly cause?: unknown;
}

/** The only error class. `message` is a single line without secrets, safe to print. */
export class TidemarkError extends Error {
  override readonly name = 'TidemarkError';
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly isRetryable: boolean;
  readonly status: number | undefined;
  readonly permission: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly field: string | undefined;
  readonly isOfAuditLog: boolean;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.isRetryable = details.isRetryable ?? false;
    this.status = details.status;
    this.permission = details.permission;
    this.retryAfterMs = details.retryAfterMs;
    this.field = details.field;
    this.isOfAuditLog = details.isOfAuditLog ?? false;
  }
}

/**
 * If what a block declares with `using` could not be closed after an error, that error: closing writes too, and on a full disk
 * fails for the same reason. Other values unchanged.
 */
export function firstError(thrown: unknown): unknown {
  // By its name: Node.js 22 has no such class.
  const isDouble = thrown instanceof Error && thrown.name === 'SuppressedError' && 'suppressed' in thrown;
  return isDouble ? firstError(thrown.suppressed) : thrown;
}

/** Any thrown value as a `TidemarkError`: other values become `internal` and keep their message. */
export function asTidemarkError(caught: unknown): TidemarkError {
  const thrown = firstError(caught);
  if (thrown instanceof TidemarkError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const systemCode = systemCodeOf(thrown);
  if (systemCode !== undefined) {
    const problem = systemErrorText(systemCode);
    return new TidemarkError(
      problem?.code ?? 'file_system',
      problem === undefined ? message : subjectOf(thrown) + problem.why,
      { ...(problem === undefined ? {} : { hint: problem.hint }), cause: thrown },
    );
  }
  return new TidemarkError('internal', message, {
    hint: 'this is a defect of Tidemark: run again with --log-level debug and report what it prints',
    cause: thrown,
  });
}

/** The path in a system error, as the beginning of a sentence. Callers that know the path use `asFileError`. */
function subjectOf(thrown: unknown): string {
  const path = typeof thrown === 'object' && thrown !== null && 'path' in thrown ? thrown.path : undefined;
  return typeof path === 'string' ? `${path}: ` : '';
}

// What the error codes of the operating system mean to a person, for files and addresses.

interface SystemErrorText {
  readonly code: Extract<ErrorCode, 'disk_full' | 'read_only' | 'file_system' | 'port_in_use'>;
  /** The end of a sentence: `… could not be written: permission denied`. */
  readonly why: string;
  /** What to do about it. */
  readonly hint: string;
}

const FREE_SPACE = 'free some space and run the command again; what was published before is intact';
const OTHER_PATH = 'choose another path';

const SYSTEM_ERRORS: Readonly<Record<string, SystemErrorText>> = {
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
  EROFS: {
    code: 'read_only',
    why: 'the file system is mounted read-only',
    hint: `mount it writable, or ${OTHER_PATH}`,
  },
  ENOENT: {
    code: 'file_system',
    why: 'it or a directory above it does not exist',
    hint: 'check the spelling of the path',
  },
  EEXIST: {
    code: 'file_system',
    why: 'something else has that name',
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
    why: 'its symbolic links form a loop',
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
    hint: 'check the system log: the disk may be failing',
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

/** What a system code means; undefined if it is not in the table. */
export function systemErrorText(systemCode: string): SystemErrorText | undefined {
  return Object.hasOwn(SYSTEM_ERRORS, systemCode) ? SYSTEM_ERRORS[systemCode] : undefined;
}

/** The system code of an error (`EACCES`); undefined for anything else. */
export function systemCodeOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' && /^E[A-Z0-9]+$/.test(thrown.code) ? thrown.code : undefined;
}
