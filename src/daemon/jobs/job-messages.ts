/**
 * What the daemon and the process of a job say to each other: plain JSON, without keys. The process reads the configuration
 * itself, and only does the job where it reads the same one.
 */
import type { RequestStats } from '../../api/request-stats.ts';
import { TidemarkError, type ErrorCode } from '../../core/errors.ts';
import type { JobResult, QueuedJob } from './work.ts';

/** To the process. */
export type ToChild =
  | {
      readonly type: 'order';
      readonly job: QueuedJob;
      /** Of the job's row. */
      readonly number: number;
      /** Of the daemon's configuration. */
      readonly configDigest: string;
    }
  /** Abort: because the daemon stops, or for the given reason. */
  | { readonly type: 'abort'; readonly reason: WireError | null };

/** To the daemon. */
export type ToDaemon =
  /** Nothing was done: the configuration that it reads is another one, or a wrong one. */
  | { readonly type: 'refused' }
  | {
      readonly type: 'progress';
      readonly stats: RequestStats;
      readonly records: number;
      /** Nothing is asked of the service: what was read is being published. */
      readonly isLocal: boolean;
    }
  | {
      readonly type: 'problem';
      readonly about: string;
      readonly error: WireError;
      readonly level: 'warn' | 'error';
    }
  | { readonly type: 'resolved'; readonly about: string; readonly message: string }
  | {
      readonly type: 'done';
      readonly result: WireResult;
      /** Starts of requests within the last hour, epoch milliseconds, where the hour is limited. */
      readonly starts: readonly number[];
    };

interface WireError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint: string | null;
  readonly isRetryable: boolean;
}

type WireResult = Omit<JobResult, 'error'> & { readonly error: WireError | null };

export function wireError({ code, message, hint, isRetryable }: TidemarkError): WireError {
  return { code, message, hint: hint ?? null, isRetryable };
}

export function errorOf({ code, message, hint, isRetryable }: WireError): TidemarkError {
  return new TidemarkError(code, message, { ...(hint === null ? {} : { hint }), isRetryable });
}

export function wireResult(result: JobResult): WireResult {
  return { ...result, error: result.error === null ? null : wireError(result.error) };
}

export function resultOf(wire: WireResult): JobResult {
  return { ...wire, error: wire.error === null ? null : errorOf(wire.error) };
}
