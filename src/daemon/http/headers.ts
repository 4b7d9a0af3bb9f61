/** Headers that every answer carries. */

const STRICT: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  // Nothing to other sites. With `no-referrer` our own forms would hide their origin, as those of a foreign page may.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** Of what is not a page: nothing in it may load, run or be framed. */
const NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'";

/** Sets those that the answer does not set itself. */
export function withStrictHeaders(headers: Headers): void {
  for (const [name, value] of Object.entries(STRICT)) headers.set(name, value);
  if (!headers.has('Content-Security-Policy')) headers.set('Content-Security-Policy', NO_CONTENT_POLICY);
}
