/** Sessions of people who logged in: each ends when it is ended, after a week, and with the process that began it. */
import { createHash, randomBytes } from 'node:crypto';

export const SESSION_COOKIE = 'tidemark_session';
/** How long a login lasts: a week. */
export const SESSION_SECONDS = 7 * 24 * 60 * 60;
/** More people than look at one daemon: the oldest sessions give way. */
const MOST_SESSIONS = 1_000;

export class Sessions {
  /** When each ends, milliseconds since the epoch, by a digest: what is kept opens nothing. */
  readonly #endsAt = new Map<string, number>();

  /** Begins one; returns the value of its cookie. */
  begin(now: number): string {
    const value = randomBytes(32).toString('hex');
    this.#endsAt.set(digest(value), now + SESSION_SECONDS * 1000);
    const [oldest] = this.#endsAt.keys();
    if (this.#endsAt.size > MOST_SESSIONS && oldest !== undefined) this.#endsAt.delete(oldest);
    return value;
  }

  /** True while the session of a `Cookie` header is valid. */
  isOpen(cookie: string | undefined, now: number): boolean {
    const value = sessionIn(cookie);
    const endsAt = value === null ? undefined : this.#endsAt.get(digest(value));
    return endsAt !== undefined && endsAt > now;
  }

  end(cookie: string | undefined): void {
    const value = sessionIn(cookie);
    if (value !== null) this.#endsAt.delete(digest(value));
  }
}

function sessionIn(cookie: string | undefined): string | null {
  const part = (cookie ?? '')
    .split(';')
    .map((each) => each.trim())
    .find((each) => each.startsWith(`${SESSION_COOKIE}=`));
  return part?.slice(SESSION_COOKIE.length + 1) ?? null;
}

function digest(value: string): string {
  return createHash('sha256').update(value).digest('hex');
}
