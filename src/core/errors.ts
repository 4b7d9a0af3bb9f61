/**
 * Every failure that Tidemark reports is a `TidemarkError`: a code to decide on, one line for a person, and what
 * to do next. Code is decided on; message text never is.
 */
import { systemCodeOf, systemTrouble } from './system-errors.ts';

/** Why something failed. The exit code of the command follows from it (`EXIT_CODE_BY_CODE`). */
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
  | 'malformed' // an answer that is not what the interface promises (HTML, cut JSON, no list)
  | 'walk_unproven' // a list that ended without proving that it is whole
  | 'removals_held' // a proven list no longer shows more records than may go unasked: they wait
  | 'walk_loop' // repeated pages, a `next` that does not advance, twice the expected requests
  | 'retry_budget' // the run spent its retries
  // this machine
  | 'mirror_locked'
  | 'mirror_newer'
  | 'mirror_foreign'
  | 'mirror_corrupt'
  | 'mirror_missing'
  | 'disk_full'
  | 'read_only'
  | 'file_system'
  | 'port_in_use'
  | 'reference_unknown'
  | 'unsafe_plan'
  | 'interrupted'
  | 'internal';

const LOCAL_CODES: ReadonlySet<ErrorCode> = new Set([
  'mirror_locked',
  'mirror_newer',
  'mirror_foreign',
  'mirror_corrupt',
  'mirror_missing',
  'disk_full',
  'read_only',
  'file_system',
  'interrupted',
  'internal',
]);

/** True for trouble of this machine: it ends the whole run, where the service's only ends one sweep or record. */
export function isLocalTrouble(code: ErrorCode): boolean {
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
const REFUSED_CODES: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden']);

/** The exit code that an error of this code ends a command with. */
export function exitCodeFor(code: ErrorCode): ExitCode {
  if (USAGE_CODES.has(code)) return EXIT.usage;
  if (REFUSED_CODES.has(code)) return EXIT.refused;
  if (code === 'unsafe_plan') return EXIT.unsafe;
  if (code === 'interrupted') return EXIT.interrupted;
  if (code === 'removals_held') return EXIT.partial;
  return EXIT.failed;
}

interface ErrorDetails {
  /** What the person can do about it: one sentence that names the next command or setting. */
  readonly hint?: string;
  /** True when the same attempt may succeed later. */
  readonly isRetryable?: boolean;
  /** HTTP status of the answer that caused it, where there was one. */
  readonly status?: number;
  /** The permission that the service named as missing, e.g. `plugin:read`. */
  readonly permission?: string;
  /** From `Retry-After`, milliseconds from the answer. */
  readonly retryAfterMs?: number;
  /** The field that the service complained about (`attr` of its error body). */
  readonly field?: string;
  readonly cause?: unknown;
}

/** The one error class. `message` is a single line without secrets, fit to print as it is. */
export class TidemarkError extends Error {
  override readonly name = 'TidemarkError';
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly isRetryable: boolean;
  readonly status: number | undefined;
  readonly permission: string | undefined;
  readonly retryAfterMs: number | undefined;
  readonly field: string | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.isRetryable = details.isRetryable ?? false;
    this.status = details.status;
    this.permission = details.permission;
    this.retryAfterMs = details.retryAfterMs;
    this.field = details.field;
  }
}

/** Any thrown value as a `TidemarkError`; what is not one becomes `internal` with its message kept. */
export function asTidemarkError(thrown: unknown): TidemarkError {
  if (thrown instanceof TidemarkError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  const systemCode = systemCodeOf(thrown);
  if (systemCode !== undefined) {
    const trouble = systemTrouble(systemCode);
    return new TidemarkError(
      trouble?.code ?? 'file_system',
      trouble === undefined ? message : subjectOf(thrown) + trouble.why,
      { ...(trouble === undefined ? {} : { hint: trouble.hint }), cause: thrown },
    );
  }
  return new TidemarkError('internal', message, {
    hint: 'this is a defect of Tidemark: run again with --log-level debug and report what it prints',
    cause: thrown,
  });
}

/** The path that the system's error names, as the beginning of a sentence. `asFileTrouble` knows more and says it better. */
function subjectOf(thrown: unknown): string {
  const path = typeof thrown === 'object' && thrown !== null && 'path' in thrown ? thrown.path : undefined;
  return typeof path === 'string' ? `${path}: ` : '';
}
