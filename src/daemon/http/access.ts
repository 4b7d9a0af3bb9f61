/**
 * Who may do what. If no token is configured, every user of this machine may read, and only the local token, which the command line knows,
 * starts something. If one is, all but the paths of `OPEN_PATHS` require it: as `Authorization: Bearer`, or as a session of the login form.
 */
import { hash, timingSafeEqual, randomBytes } from 'node:crypto';
import { isLoopback } from '../../core/local-url.ts';
import type { Actor } from '../../core/actor.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';
import { addressGroup } from '../../server/client-address.ts';
import { Refusal } from './request.ts';

/** A header of our own for webhook senders that cannot set `Authorization`. */
export const TRIGGER_HEADER = 'Tidemark-Token';

/** The token of a request: that of `http.token`, that of webhooks, which only starts syncs, or that of the command line. */
export type ActingToken = 'http' | 'trigger' | 'local';

/** The parts of a request that identify its client. */
export interface Caller {
  readonly host: string | undefined;
  /** The user whom a trusted proxy names; null without one. */
  readonly user: string | null;
  /** Why the name that a trusted proxy sends is not accepted; null without a problem. */
  readonly userProblem: string | null;
  readonly authorization: string | undefined;
  /** `TRIGGER_HEADER`. */
  readonly trigger: string | undefined;
  readonly cookie: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`. */
  readonly fetchSite: string | undefined;
  readonly referer: string | undefined;
}

interface AccessOptions {
  readonly token: Secret | null;
  /** Only starts syncs; none when absent. */
  readonly triggerToken?: Secret | null;
  /** Made by the daemon for the command line on this machine. */
  readonly localToken: string;
}

export class Access {
  readonly #token: Secret | null;
  readonly #triggerToken: Secret | null;
  readonly #localToken: string;
  readonly #sessions = new Sessions();

  constructor({ token, triggerToken = null, localToken }: AccessOptions) {
    this.#token = token;
    this.#triggerToken = triggerToken;
    this.#localToken = localToken;
  }

  /** True where a token is configured. */
  get needsLogin(): boolean {
    return this.#token !== null;
  }

  /**
   * Refuses a `Host` that is not this machine: otherwise a web page whose name resolves to this machine (DNS rebinding) could read as its
   * visitor. Not needed with a token, which such a page does not have.
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

  /** True for a client that may read. @param now milliseconds since the epoch */
  mayRead(caller: Caller, now: number): boolean {
    return (
      this.#token === null ||
      caller.user !== null ||
      this.#hasBearer(caller) ||
      this.#sessions.nameOf(caller.cookie, now) !== null
    );
  }

  /** True for a request with the token of webhooks. */
  isTrigger(caller: Caller): boolean {
    const given = caller.trigger ?? bearerOf(caller);
    return this.#triggerToken !== null && given !== undefined && isSame(given, this.#triggerToken.reveal());
  }

  /**
   * Checks a request that starts something: it needs a token, which is returned, and must not come from a page of another site.
   * @throws Refusal 401, 403
   */
  checkMayAct(caller: Caller): ActingToken {
    checkSameSite(caller);
    if (this.isTrigger(caller)) return 'trigger';
    const token = this.#bearerToken(caller);
    if (token !== null) return token;
    throw unauthorized(
      this.#token === null
        ? 'jobs are started with `tidemark sync` on this machine; for calls by HTTP set http.token'
        : 'send the token of http.token as `Authorization: Bearer TOKEN`',
    );
  }

  /**
   * Who sends a form of the dashboard: the user that a trusted proxy names, the name given at the login, or `token@dashboard`.
   * @throws Refusal 401 without a session, 403 for a form of another site
   */
  actorOf(caller: Caller, now: number): Actor {
    checkSameSite(caller);
    if (caller.user !== null) {
      // The proxy accepts whatever the user's browser sends. Our own forms always come with one of these headers.
      if (caller.origin === undefined && caller.fetchSite === undefined) throw foreignPage();
      return { by: caller.user, via: 'proxy@dashboard' };
    }
    if (this.#hasBearer(caller)) return { by: 'token@http', via: 'token@http' };
    const by = this.#sessions.nameOf(caller.cookie, now);
    if (by !== null) return { by, via: TOKEN_USER };
    throw unauthorized(
      caller.userProblem ?? 'log in with the token of http.token; without one the dashboard only shows',
    );
  }

  /** The user that a trusted proxy names, or that logged in; null for nobody. */
  userOf(
    { user, cookie }: Caller,
    now: number,
  ): { readonly name: string; readonly isSession: boolean } | null {
    if (user !== null) return { name: user, isSession: false };
    const name = this.#sessions.nameOf(cookie, now);
    return name === null ? null : { name, isSession: true };
  }

  /** True for the configured token; takes the same time for any text. */
  isToken(text: string): boolean {
    return this.#token !== null && isSame(text, this.#token.reveal());
  }

  /** Begins a session; returns the value of its cookie. @throws TypeError if no token is configured */
  newSession(name: string, now: number): string {
    if (this.#token === null) throw new TypeError('there are no sessions without a token');
    return this.#sessions.begin(name, now);
  }

  /** Ends the caller's session; copies of its cookie become invalid. */
  endSession({ cookie }: Caller): void {
    this.#sessions.end(cookie);
  }

  /** True for a request with a wrong token. */
  isWrong(caller: Caller): boolean {
    const isShown = caller.trigger !== undefined || bearerOf(caller) !== undefined;
    return isShown && !this.isTrigger(caller) && !this.#hasBearer(caller);
  }

  #hasBearer(caller: Caller): boolean {
    return this.#bearerToken(caller) !== null;
  }

  #bearerToken(caller: Caller): 'http' | 'local' | null {
    const given = bearerOf(caller);
    if (given === undefined) return null;
    // Both are always compared, so that the time reveals nothing.
    const [isRemote, isLocal] = [
      this.isToken(given),
      this.#localToken !== '' && isSame(given, this.#localToken),
    ];
    return isRemote ? 'http' : isLocal ? 'local' : null;
  }
}

/**
 * Refuses requests from pages of other sites. Browsers send the origin of a form. It must be ours; a hidden one (`null`, from a sandboxed
 * frame or a page without referrer) counts as another site, unless `Sec-Fetch-Site` says that the request comes from here. Browsers that
 * send neither header may send `Referer`. Other clients send none of the three.
 * @throws Refusal 403
 */
export function checkSameSite({ origin, fetchSite, referer, host }: Caller): void {
  const isForeign = fetchSite !== undefined && fetchSite !== 'same-origin' && fetchSite !== 'none';
  const isHiddenButOurs = origin === 'null' && fetchSite !== undefined && !isForeign;
  const page = origin ?? (fetchSite === undefined ? referer : undefined);
  const isElsewhere = page !== undefined && !isHiddenButOurs && URL.parse(page)?.host !== host?.toLowerCase();
  if (isForeign || isElsewhere) throw foreignPage();
}

function foreignPage(): Refusal {
  return new Refusal(
    403,
    'forbidden',
    'pages of other sites may not ask for this',
    'call it from a program, without Origin',
  );
}

export function unauthorized(hint: string): Refusal {
  return new Refusal(401, 'unauthorized', 'this needs a token', hint, {
    'WWW-Authenticate': 'Bearer realm="tidemark"',
  });
}

function bearerOf({ authorization }: Caller): string | undefined {
  return /^Bearer +(\S+)\s*$/i.exec(authorization ?? '')?.[1];
}

/** Compares digests, since the lengths may differ. */
function isSame(one: string, other: string): boolean {
  return timingSafeEqual(hash('sha256', one, 'buffer'), hash('sha256', other, 'buffer'));
}

// Sessions. A session ends at logout, after a week, and with this process.

/** The name of a person who gave none at the login. */
export const TOKEN_USER = 'token@dashboard';

export const SESSION_COOKIE = 'tidemark_session';
/** How long a login lasts: a week. */
export const SESSION_SECONDS = 7 * 24 * 60 * 60;
/** More than a daemon has users; the oldest sessions end first. */
const MOST_SESSIONS = 1_000;

class Sessions {
  /** By the digest of the cookie, which opens nothing: the user, and the end in milliseconds since the epoch. */
  readonly #open = new Map<string, { readonly name: string; readonly endsAt: number }>();

  /** Returns the value of the cookie. */
  begin(name: string, now: number): string {
    const value = randomBytes(32).toString('hex');
    this.#open.set(hash('sha256', value), { name, endsAt: now + SESSION_SECONDS * 1000 });
    const [oldest] = this.#open.keys();
    if (this.#open.size > MOST_SESSIONS && oldest !== undefined) this.#open.delete(oldest);
    return value;
  }

  /** The user of the session in a `Cookie` header; null without a valid one. */
  nameOf(cookie: string | undefined, now: number): string | null {
    const value = sessionIn(cookie);
    const session = value === null ? undefined : this.#open.get(hash('sha256', value));
    return session !== undefined && session.endsAt > now ? session.name : null;
  }

  end(cookie: string | undefined): void {
    const value = sessionIn(cookie);
    if (value !== null) this.#open.delete(hash('sha256', value));
  }
}

function sessionIn(cookie: string | undefined): string | null {
  const part = (cookie ?? '')
    .split(';')
    .map((each) => each.trim())
    .find((each) => each.startsWith(`${SESSION_COOKIE}=`));
  return part?.slice(SESSION_COOKIE.length + 1) ?? null;
}

// Wrong tokens, counted by address. A wrong token is answered with a delay. After a few of them the address is refused for a while, so
// that guessing is noticed, and a client with an old token does not keep the daemon busy. The right token is always accepted.

/** Wrong tokens from one address within a minute: typing mistakes, or a forgotten scraper. */
const MOST = 5;
const WINDOW_MS = 60_000;
/** The delay of the answer to a wrong token. */
const DELAY_MS = 400;
/** Answers delayed at the same time, for one address and for all; each holds a connection. */
const MOST_DELAYED_PER_ADDRESS = 5;
const MOST_DELAYED = 50;
/** Addresses that are remembered; the one that was quiet for longest is forgotten first. */
const MOST_ADDRESSES = 10_000;

interface Tries {
  /** Times of the latest ones, at most `MOST`; monotonic milliseconds. */
  at: number[];
  delayed: number;
  loggedAt: number | null;
}

export class WrongTokens {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #tries = new Map<string, Tries>();
  #delayed = 0;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Counts a wrong token, and waits for the delay of its answer.
   * @returns seconds for which the address is refused; 0 for one of the first wrong tokens
   */
  async add(address: string): Promise<number> {
    const now = this.#clock.monotonicMs();
    const group = addressGroup(address);
    const tries = this.#tries.get(group) ?? { at: [], delayed: 0, loggedAt: null };
    // The end of the map is the latest address.
    this.#tries.delete(group);
    this.#tries.set(group, tries);
    const [quietest] = this.#tries.keys();
    if (this.#tries.size > MOST_ADDRESSES && quietest !== undefined) this.#tries.delete(quietest);
    tries.at = tries.at.filter((at) => now - at < WINDOW_MS);
    const [first = now] = tries.at;
    const waitSeconds = tries.at.length < MOST ? 0 : Math.ceil((first + WINDOW_MS - now) / 1000);
    if (waitSeconds === 0) tries.at.push(now);
    if (tries.loggedAt === null || now - tries.loggedAt >= WINDOW_MS) {
      tries.loggedAt = now;
      this.#log.warn({ address }, 'a wrong token was sent (logged once a minute for each address)');
    }
    if (tries.delayed < MOST_DELAYED_PER_ADDRESS && this.#delayed < MOST_DELAYED) await this.#delay(tries);
    return waitSeconds;
  }

  async #delay(tries: Tries): Promise<void> {
    tries.delayed += 1;
    this.#delayed += 1;
    try {
      await this.#clock.sleep(DELAY_MS);
    } finally {
      tries.delayed -= 1;
      this.#delayed -= 1;
    }
  }
}
