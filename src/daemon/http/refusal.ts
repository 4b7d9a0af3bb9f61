/** Refusals of the HTTP side as JSON: a code to decide on, one line for a person, and what to do. */
import { asTidemarkError, TidemarkError, type ErrorCode } from '../../core/errors.ts';

/** A refusal with its HTTP status. */
export class Refusal extends TidemarkError {
  readonly httpStatus: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    httpStatus: number,
    code: ErrorCode,
    message: string,
    hint: string,
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(code, message, { hint });
    this.httpStatus = httpStatus;
    this.headers = headers;
  }
}

const STATUS: Partial<Record<ErrorCode, number>> = {
  usage: 400,
  reference_unknown: 404,
  not_found: 404,
  unauthorized: 401,
  forbidden: 403,
  throttled: 429,
  interrupted: 503,
  mirror_missing: 503,
  mirror_locked: 503,
  mirror_newer: 503,
  mirror_foreign: 503,
  mirror_corrupt: 503,
  disk_full: 503,
  read_only: 503,
};

/** Any thrown value as a refusal; the details of unexpected errors are only logged. */
export function asRefusal(thrown: unknown): Refusal {
  if (thrown instanceof Refusal) return thrown;
  const error = asTidemarkError(thrown);
  const status = STATUS[error.code];
  if (status === undefined)
    return new Refusal(
      500,
      error.code,
      'the answer could not be made',
      'the log of the daemon has the reason',
    );
  return new Refusal(status, error.code, error.message, error.hint ?? '');
}

/** `{"error": {"code", "message", "hint"}}`. */
export function refusalDocument({ code, message, hint }: Refusal): object {
  return { error: { code, message, hint: hint === undefined || hint === '' ? null : hint } };
}
