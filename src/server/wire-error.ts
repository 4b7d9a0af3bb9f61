/** Refusals in the form of real deployments (wire-notes.md, Errors): `{type, code, detail, attr}`. */

interface WireErrorBody {
  readonly type: string;
  readonly code: string;
  readonly detail: string;
  /** The wrong field; nested names are joined by `__`. */
  readonly attr: string | null;
}

/** Thrown if the API refuses a request; it is answered with `status`, `body` and `headers`. */
export class WireError extends Error {
  override readonly name = 'WireError';
  readonly status: number;
  readonly body: WireErrorBody;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, body: WireErrorBody, headers: Readonly<Record<string, string>> = {}) {
    super(body.detail);
    this.status = status;
    this.body = body;
    this.headers = headers;
  }
}

function refusal(
  status: number,
  type: string,
  code: string,
  detail: string,
  headers?: Readonly<Record<string, string>>,
): WireError {
  return new WireError(status, { type, code, detail, attr: null }, headers);
}

const CHALLENGE = { 'WWW-Authenticate': 'Bearer realm="api"' };

export function keyMissing(): WireError {
  return refusal(
    401,
    'authentication_error',
    'not_authenticated',
    'Authentication credentials were not provided.',
    CHALLENGE,
  );
}

export function keyInvalid(): WireError {
  return refusal(
    401,
    'authentication_error',
    'authentication_failed',
    'Personal API key found in request Authorization header is invalid.',
    CHALLENGE,
  );
}

export function permissionMissing(permission: string): WireError {
  return permissionDenied(`API key missing required scope '${permission}'`);
}

export function permissionDenied(detail: string): WireError {
  return refusal(403, 'authentication_error', 'permission_denied', detail);
}

export function notFound(detail = 'Not found.'): WireError {
  return refusal(404, 'invalid_request', 'not_found', detail);
}

export function methodNotAllowed(method: string, allowed: readonly string[]): WireError {
  return refusal(405, 'invalid_request', 'method_not_allowed', `Method "${method}" not allowed.`, {
    Allow: allowed.join(', '),
  });
}

export function parseFailed(detail: string): WireError {
  return refusal(400, 'validation_error', 'parse_error', `JSON parse error - ${detail}`);
}

export function mediaTypeUnsupported(contentType: string): WireError {
  return refusal(
    415,
    'invalid_request',
    'unsupported_media_type',
    `Unsupported media type "${contentType}" in request.`,
  );
}

export function bodyTooLarge(limit: number): WireError {
  return refusal(413, 'invalid_request', 'request_too_large', `Request body exceeds ${limit} bytes.`);
}

/** `attr` names the field: `name`, `destination__type`, or null for the body as a whole. */
export function invalid(attr: string | null, code: string, detail: string): WireError {
  return new WireError(400, { type: 'validation_error', code, detail, attr });
}

export function throttled(waitSeconds: number): WireError {
  const unit = waitSeconds === 1 ? 'second' : 'seconds';
  return refusal(
    429,
    'throttled_error',
    'throttled',
    `Request was throttled. Expected available in ${waitSeconds} ${unit}.`,
    { 'Retry-After': String(waitSeconds) },
  );
}

/** An operation of the API that this server cannot answer. */
export function notHeld(detail: string): WireError {
  return refusal(501, 'server_error', 'not_implemented', detail);
}

/** Nothing can be read at this moment. */
export function unavailable(detail: string, retryAfterSeconds: number): WireError {
  return refusal(503, 'server_error', 'service_unavailable', detail, {
    'Retry-After': String(retryAfterSeconds),
  });
}

/** The answer to a defect, without the cause. */
export function serverError(): WireError {
  return refusal(500, 'server_error', 'error', 'A server error occurred.');
}
