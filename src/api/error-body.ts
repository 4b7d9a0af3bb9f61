/** Turns error responses into errors with a code (wire-notes.md, Errors). */
import { TidemarkError, type ErrorCode } from '../core/errors.ts';
import { OR_EXCLUDE, permissionAdvice, permissionIn, REFUSED_HERE } from '../core/hints.ts';
import type { NeutralText } from './neutral-text.ts';
import { parseRetryAfter, retryAfterFromDetail } from './retry.ts';
import type { Answer } from './transport.ts';

interface Complaint {
  /** One neutralized line; empty if the body has no readable text. */
  readonly detail: string;
  readonly field: string | undefined;
}

/** Reads `{type, code, detail, attr}`, `{detail}`, `{error}` or a map of fields to complaints. Takes only texts from it. */
function complaintOf(text: string, neutral: NeutralText): Complaint {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // Not JSON. Plain text may be useful in a message; an HTML page is not.
    return { detail: /^\s*</.test(text) ? '' : neutral(text), field: undefined };
  }
  if (typeof body === 'string') return { detail: neutral(body), field: undefined };
  if (typeof body !== 'object' || body === null) return { detail: '', field: undefined };
  const members = new Map<string, unknown>(Object.entries(body));
  const field = members.get('attr');
  const named = typeof field === 'string' && field !== '' ? neutral(field) : undefined;
  for (const name of ['detail', 'error', 'message']) {
    const value = members.get(name);
    if (typeof value === 'string') return { detail: neutral(value), field: named };
  }
  const first = [...members].find(([, value]) => Array.isArray(value) && typeof value[0] === 'string');
  if (first === undefined) return { detail: '', field: named };
  const [name, complaints] = first as [string, readonly string[]];
  return { detail: neutral(complaints[0] ?? ''), field: named ?? neutral(name) };
}

interface Meaning {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
  readonly isRetryable: boolean;
}

function meaningOf(status: number, keyPlace: string | null): Meaning {
  const later = 'the service has problems; run again later';
  if (status === 401) {
    return {
      code: 'unauthorized',
      what: 'the key was refused',
      hint: keyPlace === null ? REFUSED_HERE : `check ${keyPlace}; a revoked or mistyped key is refused`,
      isRetryable: false,
    };
  }
  if (status === 403) {
    return {
      code: 'forbidden',
      what: 'the key may not do this',
      hint: 'give the key that permission, or exclude the kind in the configuration',
      isRetryable: false,
    };
  }
  if (status === 404 || status === 410) {
    return {
      code: 'not_found',
      what: 'there is nothing at this path',
      hint: 'not offered here? then exclude the kind in the configuration; else check baseUrl of the source',
      isRetryable: false,
    };
  }
  if (status === 429) {
    return {
      code: 'throttled',
      what: 'too many requests',
      hint: 'set rate.perMinute or rate.perHour of the source to less than the service allows',
      isRetryable: true,
    };
  }
  if (status === 408)
    return { code: 'timeout', what: 'the service gave up waiting', hint: later, isRetryable: true };
  if (status >= 500)
    return { code: 'server_error', what: 'the service failed', hint: later, isRetryable: true };
  return {
    code: 'rejected',
    what: 'the service refused the request',
    hint: 'read its message; run with --log-level debug for the request',
    isRetryable: status === 425,
  };
}

/**
 * The error for a response other than 2xx. Its message has the status and a short, neutralized excerpt of the body.
 * @param keyPlace where the key was given, for the message; null once the service has accepted the key
 */
export function answerError(
  answer: Answer,
  neutral: NeutralText,
  nowMs: number,
  keyPlace: string | null = 'apiKey or apiKeyFile of the source',
): TidemarkError {
  const { status } = answer;
  if (status >= 300 && status < 400) return redirectError(answer, neutral);
  const meaning = meaningOf(status, keyPlace);
  const { detail, field } = complaintOf(answer.text, neutral);
  const permission = status === 403 ? permissionIn(detail) : undefined;
  const retryAfterMs = parseRetryAfter(answer.retryAfter, answer.date, nowMs) ?? retryAfterFromDetail(detail);
  const said = detail === '' ? '' : `: ${detail}`;
  return new TidemarkError(meaning.code, `${meaning.what} (${status})${said}`, {
    hint: permission === undefined ? meaning.hint : `${permissionAdvice(permission)}${OR_EXCLUDE}`,
    isRetryable: meaning.isRetryable,
    status,
    ...(permission === undefined ? {} : { permission }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(field === undefined ? {} : { field }),
  });
}

/** Redirects are never followed, because the key would be sent along. */
function redirectError(answer: Answer, neutral: NeutralText): TidemarkError {
  const { status, location, origin } = answer;
  if (location === undefined) {
    return new TidemarkError('redirected', `the service answered ${status} and names no address`, {
      hint: 'check the service and what is in front of it: a cache, for example, answers 304 to any request',
      status,
    });
  }
  const url = URL.parse(location, origin);
  const target = url === null || url.origin === 'null' ? 'an invalid address' : neutral(url.origin);
  return new TidemarkError(
    'redirected',
    `the service redirects (${status}) to ${target}, and was not followed`,
    { hint: `if that is the service's own address, set baseUrl of the source to it`, status },
  );
}
