/**
 * Who may ask what. Without a token everybody on this machine may read, and only who knows the daemon's local token may
 * set something going. With one, everything but `/healthz` needs it: as `Authorization: Bearer`, or as a session that
 * the login form began.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isLoopback } from '../../config/source.ts';
import type { Secret } from '../../core/secret.ts';
import { Refusal } from './refusal.ts';
import { Sessions } from './sessions.ts';

/** The parts of a request that identify its client. */
export interface Caller {
  readonly host: string | undefined;
  readonly authorization: string | undefined;
  readonly cookie: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
}

interface AccessOptions {
  readonly token: Secret | null;
  /** Made by the daemon for the command line on this machine. */
  readonly localToken: string;
}

export class Access {
  readonly #token: Secret | null;
  readonly #localToken: string;
  readonly #sessions = new Sessions();

  constructor({ token, localToken }: AccessOptions) {
    this.#token = token;
    this.#localToken = localToken;
  }

  /** True where a login is asked for. */
  get needsLogin(): boolean {
    return this.#token !== null;
  }

  /**
   * Refuses requests that were addressed to another name: a page elsewhere whose name was made to lead here would
   * otherwise read as its visitor. Where a token is required that is enough: such a page has none.
   * @throws Refusal 421
   */
  checkHost({ host }: Caller): void {
    if (this.#token !== null || (host !== undefined && isLoopback(host.replace(/:\d+$/, '')))) return;
    throw new Refusal(
      421,
      'forbidden',
      'without a token the daemon answers only requests addressed to this machine',
      'call it as 127.0.0.1 or localhost, or set http.token',
    );
  }

  /** True for who may read. `now`: milliseconds since the epoch. */
  mayRead(caller: Caller, now: number): boolean {
    return this.#token === null || this.#hasBearer(caller) || this.#sessions.isOpen(caller.cookie, now);
  }

  /**
   * For what sets something going: a token, and no page of another site.
   * @throws Refusal 401, 403
   */
  checkMayAct(caller: Caller): void {
    checkSameSite(caller);
    if (this.#hasBearer(caller)) return;
    throw unauthorized(
      this.#token === null
        ? 'jobs are started with `tidemark sync` on this machine; for calls by HTTP set http.token'
        : 'send the token of http.token as `Authorization: Bearer TOKEN`',
    );
  }

  /** True for the configured token, in a time that says nothing of it. */
  isToken(text: string): boolean {
    return this.#token !== null && isSame(text, this.#token.reveal());
  }

  /** Begins a session; the value of its cookie. @throws TypeError where there is no token */
  newSession(now: number): string {
    if (this.#token === null) throw new TypeError('there are no sessions without a token');
    return this.#sessions.begin(now);
  }

  /** Ends the caller's session, wherever its cookie is kept. */
  endSession({ cookie }: Caller): void {
    this.#sessions.end(cookie);
  }

  /** True for a request that shows a token, and not a right one. */
  isWrong(caller: Caller): boolean {
    return bearerOf(caller) !== undefined && !this.#hasBearer(caller);
  }

  #hasBearer(caller: Caller): boolean {
    const given = bearerOf(caller);
    if (given === undefined) return false;
    // Both are compared, so that the time does not reveal which one nearly matched.
    const [isRemote, isLocal] = [
      this.isToken(given),
      this.#localToken !== '' && isSame(given, this.#localToken),
    ];
    return isRemote || isLocal;
  }
}

/**
 * Refuses what a page of another site sends. Browsers name the origin of what they post: another one is another site, and a
 * hidden one (`null`: a sandboxed frame, a page that gives no referrer away) as well, unless the browser itself says by
 * `Sec-Fetch-Site` that it comes from here. What is no browser sends neither.
 * @throws Refusal 403
 */
export function checkSameSite({ origin, fetchSite, host }: Caller): void {
  const isForeign = fetchSite !== undefined && fetchSite !== 'same-origin' && fetchSite !== 'none';
  const isHiddenButOurs = origin === 'null' && fetchSite !== undefined && !isForeign;
  const isElsewhere =
    origin !== undefined && !isHiddenButOurs && URL.parse(origin)?.host !== host?.toLowerCase();
  if (isForeign || isElsewhere) {
    throw new Refusal(
      403,
      'forbidden',
      'pages of other sites may not ask for this',
      'call it from a program, without Origin',
    );
  }
}

export function unauthorized(hint: string): Refusal {
  return new Refusal(401, 'unauthorized', 'this needs a token', hint, {
    'WWW-Authenticate': 'Bearer realm="tidemark"',
  });
}

function bearerOf({ authorization }: Caller): string | undefined {
  return /^Bearer +(\S+)\s*$/i.exec(authorization ?? '')?.[1];
}

/** By digest, so that lengths may differ. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
