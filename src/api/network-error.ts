/** Turns network errors into one clear line with host and port. */
import { TidemarkError, type ErrorCode } from '../core/errors.ts';

interface Fault {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
  readonly isRetryable: boolean;
}

const HINT_HOST = 'check baseUrl of the source, DNS and the network';
const HINT_REFUSED = 'check host and port in baseUrl of the source, and that the service runs there';
const HINT_LATER = 'the service or something before it broke off; run again later';
const HINT_NO_HTTP =
  'check the port, and http:// or https://, in baseUrl of the source; else run again later';
const HINT_SLOW = 'the service is slow: a smaller pageSize makes its answers lighter';
const HINT_PROXY = 'check HTTPS_PROXY or HTTP_PROXY; NO_PROXY names the hosts that are reached without it';
const HINT_TLS =
  'check the certificate and baseUrl; for a private authority set NODE_EXTRA_CA_CERTS to its certificate file';

function fault(code: ErrorCode, what: string, hint: string, isRetryable = true): Fault {
  return { code, what, hint, isRetryable };
}

const CLOSED = fault('unreachable', 'the connection was closed before the response was complete', HINT_LATER);
const NO_TLS = fault(
  'unreachable',
  'the service does not speak https at this port',
  'write http:// in baseUrl where the service is offered without TLS, or correct the port',
  false,
);

const FAULTS: Readonly<Record<string, Fault>> = {
  ENOTFOUND: fault('unreachable', 'the host name is not known', HINT_HOST),
  EAI_AGAIN: fault('unreachable', 'the host name could not be looked up', HINT_HOST),
  ECONNREFUSED: fault('unreachable', 'the connection was refused', HINT_REFUSED),
  EHOSTUNREACH: fault('unreachable', 'there is no route to the host', HINT_HOST),
  ENETUNREACH: fault('unreachable', 'there is no route to the network', HINT_HOST),
  ETIMEDOUT: fault('timeout', 'the connection timed out', HINT_HOST),
  UND_ERR_CONNECT_TIMEOUT: fault('timeout', 'no connection within the limit', HINT_HOST),
  UND_ERR_HEADERS_TIMEOUT: fault('timeout', 'no answer within the limit', HINT_SLOW),
  UND_ERR_BODY_TIMEOUT: fault('timeout', 'the answer stopped arriving', HINT_SLOW),
  UND_ERR_SOCKET: CLOSED,
  ECONNRESET: CLOSED,
  EPIPE: CLOSED,
  UND_ERR_ABORTED: CLOSED,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: fault(
    'malformed',
    'the answer is shorter or longer than its Content-Length',
    HINT_LATER,
  ),
  // What OpenSSL says of a plain-text response to its handshake.
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  UND_ERR_PRX_CONN: fault('unreachable', 'the proxy closed the connection', HINT_PROXY),
  UND_ERR_PRX_TLS: fault(
    'unreachable',
    'the certificate of the proxy is for another name',
    HINT_PROXY,
    false,
  ),
  UND_ERR_HEADERS_OVERFLOW: fault('malformed', 'the answer has too many headers', HINT_LATER, false),
};

const TLS = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|EPROTO$|HOSTNAME_MISMATCH$)/;

function faultOf(code: string): Fault | undefined {
  const known = FAULTS[code];
  if (known !== undefined) return known;
  if (TLS.test(code)) return fault('unreachable', `the secure connection failed (${code})`, HINT_TLS, false);
  if (code.startsWith('HPE_')) return fault('malformed', 'the answer is not valid HTTP', HINT_NO_HTTP);
  return undefined;
}

/** The codes in an error, its causes and the errors that it bundles (one per address tried), outermost first. */
function codesOf(thrown: unknown, depth = 0): string[] {
  if (typeof thrown !== 'object' || thrown === null || depth > 3) return [];
  const own = 'code' in thrown && typeof thrown.code === 'string' ? [thrown.code] : [];
  // undici sets no code if the very first bytes are not HTTP.
  if (own.length === 0 && thrown instanceof Error && thrown.name === 'HTTPParserError')
    own.push('HPE_UNKNOWN');
  const bundled: unknown[] = thrown instanceof AggregateError ? thrown.errors : [];
  const cause = thrown instanceof Error ? [thrown.cause] : [];
  return [...own, ...[...bundled, ...cause].flatMap((each) => codesOf(each, depth + 1))];
}

/** Failures before a connection was established, so that no part of the request can have reached the service. */
const BEFORE_SENDING: ReadonlySet<string> = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_PRX_CONN',
  'UND_ERR_PRX_TLS',
  'TUNNEL_REFUSED',
]);

/** True if the request certainly never left this machine. */
export function wasNeverSent(error: TidemarkError): boolean {
  const codes = codesOf(error.cause);
  return codes.length > 0 && codes.every((code) => BEFORE_SENDING.has(code));
}

/** Timeouts that end a request before any part of the response has arrived. */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
]);

/** True if the request timed out before a status arrived. */
export function timedOutWithoutStatus(error: TidemarkError): boolean {
  return error.code === 'timeout' && codesOf(error.cause).some((code) => NO_ANSWER.has(code));
}

/** undici's message if a proxy answers CONNECT with a status other than 200. The code is that of any lost connection. */
const REFUSED_TUNNEL = /^Proxy response \((\d{3})\) !== 200/;

/** The error if the proxy itself refused the request; null otherwise. */
function tunnelError(thrown: unknown, host: string, proxy: string): TidemarkError | null {
  const status = REFUSED_TUNNEL.exec(thrown instanceof Error ? thrown.message : '')?.[1];
  if (status === undefined) return null;
  return new TidemarkError('unreachable', `${host}: the proxy ${proxy} answered ${status}`, {
    hint:
      status === '407'
        ? 'put the user and password of the proxy into HTTPS_PROXY or HTTP_PROXY: http://USER:PASSWORD@HOST:PORT'
        : `let the proxy connect to ${host}; ${HINT_PROXY}`,
    isRetryable: status.startsWith('5'),
    cause: Object.assign(new Error('the proxy refused the tunnel'), { code: 'TUNNEL_REFUSED' }),
  });
}

/** From the transport's `Timeouts`, milliseconds. */
interface Limits {
  readonly connectMs: number;
  readonly headersMs: number;
}

/** The timeout that ended a request, in words; null if it ended otherwise. */
function limitText(code: string, limits: Limits): string | null {
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return `no connection within ${seconds(limits.connectMs)}`;
  if (code === 'UND_ERR_HEADERS_TIMEOUT') return `no answer within ${seconds(limits.headersMs)}`;
  return null;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1000)} s`;
}

/**
 * Turns any failure of the dispatcher into `unreachable`, `timeout` or `malformed`.
 * @param host host and port, for the message
 * @param limits of the request, for the message
 * @param proxy the proxy used, without credentials; null for none
 */
export function networkError(
  thrown: unknown,
  host: string,
  limits: Limits,
  proxy: string | null = null,
): TidemarkError {
  const refused = proxy === null ? null : tunnelError(thrown, host, proxy);
  if (refused !== null) return refused;
  const codes = codesOf(thrown);
  for (const code of codes) {
    const found = faultOf(code);
    if (found === undefined) continue;
    // With a proxy, only the proxy is looked up and connected to.
    const isOfProxy = proxy !== null && BEFORE_SENDING.has(code);
    const what = limitText(code, limits) ?? found.what;
    return new TidemarkError(found.code, `${host}: ${isOfProxy ? `proxy ${proxy}: ` : ''}${what}`, {
      hint: isOfProxy ? HINT_PROXY : found.hint,
      isRetryable: found.isRetryable,
      cause: thrown,
    });
  }
  return new TidemarkError('unreachable', `${host}: the request failed (${codes[0] ?? 'no reason given'})`, {
    hint: HINT_LATER,
    isRetryable: true,
    cause: thrown,
  });
}

/** The error for a request that took longer in all than its limit. */
export function totalTimeout(host: string, limitMs: number): TidemarkError {
  return new TidemarkError('timeout', `${host}: no complete answer within ${seconds(limitMs)}`, {
    hint: HINT_SLOW,
    isRetryable: true,
  });
}

/** Host and port of a URL, for messages. */
export function hostAndPort(url: URL): string {
  return url.port === '' ? `${url.hostname}:${url.protocol === 'https:' ? '443' : '80'}` : url.host;
}
