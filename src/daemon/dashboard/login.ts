/** The login form, which takes the token and sets a session cookie. Without a configured token there is none. */
import { Hono, type Context } from 'hono';
import { actorName } from '../../core/actor.ts';
import type { Clock } from '../../core/clock.ts';
import { plural } from '../../core/wording.ts';
import { capital } from '../../report/document.ts';
import {
  type Access,
  SESSION_COOKIE,
  SESSION_SECONDS,
  TOKEN_USER,
  type WrongTokens,
} from '../http/access.ts';
import { localPath, requestText } from '../http/request.ts';
import { bareHtml, PAGE_POLICY } from './layout.ts';
import { markup, NOTHING } from './html.ts';

export interface LoginParts {
  readonly access: Access;
  readonly clock: Clock;
  readonly wrongTokens: WrongTokens;
  /** The address that a request comes from. */
  readonly addressOf: (context: Context) => string;
  /** True for a request with a valid session or token. */
  readonly mayRead: (context: Context) => boolean;
  /** Why a text cannot be a name, as the end of a sentence; null for a valid name. */
  readonly nameProblem: (text: string) => string | null;
  /** Why the name that a proxy sends is not accepted; null without a problem. */
  readonly userProblemOf: (context: Context) => string | null;
  readonly endSession: (context: Context) => void;
  /** Refuses what a page of another site sends. */
  readonly checkSameSite: (context: Context) => void;
}

export function createLogin(parts: LoginParts): Hono {
  const { access, clock, mayRead, checkSameSite } = parts;
  const login = new Hono();
  login.get('/login', (context) => {
    const to = localPath(context.req.query('to'));
    if (!access.needsLogin || mayRead(context)) return context.redirect(to, 303);
    // With a link from another site, browsers do not send a strict cookie; with a reload from here they do.
    const isForeign =
      context.req.header('sec-fetch-site') === 'cross-site' && context.req.query('again') === undefined;
    if (isForeign) context.header('Refresh', `0; url=/login?again=1&to=${encodeURIComponent(to)}`);
    const problem = parts.userProblemOf(context);
    return page(context, loginHtml(to, problem === null ? null : `${capital(problem)}.`), 200);
  });
  login.post('/login', async (context) => {
    checkSameSite(context);
    const form = new URLSearchParams(await requestText(context));
    const to = localPath(form.get('to') ?? undefined);
    if (!access.needsLogin) return context.redirect(to, 303);
    const token = form.get('token')?.trim() ?? '';
    const again = (problem: string): string => loginHtml(to, problem, form.get('username') ?? '');
    // No token is not a wrong token: it is neither counted nor logged.
    if (token === '') return page(context, again('Invalid token.'), 401);
    // Checked before the limit for wrong tokens: the right one is always accepted.
    if (!access.isToken(token)) {
      const waitSeconds = await parts.wrongTokens.add(parts.addressOf(context));
      if (waitSeconds === 0) return page(context, again('Invalid token.'), 401);
      context.header('Retry-After', String(waitSeconds));
      const problem = `Too many invalid tokens: try again in ${plural(waitSeconds, 'second')}.`;
      return page(context, again(problem), 429);
    }
    const given = form.get('username') ?? '';
    const wrong = parts.nameProblem(given);
    if (wrong !== null) return page(context, again(`The name ${wrong}: correct it, or leave it empty.`), 400);
    const name = actorName(given) ?? TOKEN_USER;
    context.header('Set-Cookie', cookie(context, access.newSession(name, clock.now()), SESSION_SECONDS));
    return context.redirect(to, 303);
  });
  login.post('/logout', (context) => {
    checkSameSite(context);
    // The form of another site comes without the strict cookie, and ends no session.
    if (mayRead(context)) {
      parts.endSession(context);
      context.header('Set-Cookie', cookie(context, '', 0));
    }
    return context.redirect('/login', 303);
  });
  return login;
}

/** @param name what was typed before */
function loginHtml(to: string, problem: string | null, name = ''): string {
  const described = problem === null ? NOTHING : markup` aria-invalid="true" aria-describedby="problem"`;
  const message =
    problem === null ? NOTHING : markup`<p id="problem" class="removed" role="alert">${problem}</p>`;
  return bareHtml(
    'Log in',
    markup`<p class="faint">Log in with the token of <code>http.token</code>.</p>
<form method="post" action="/login">
<input type="hidden" name="to" value="${to}">
<label>Your name (optional, recorded with what you do)
<input name="username" value="${name}" autocomplete="username" spellcheck="false"></label>
<label>Token<input type="password" name="token" required autocomplete="current-password" spellcheck="false"
 autofocus${described}></label>${message}
<button>Log in</button></form>`,
  );
}

function page(context: Context, text: string, status: 200 | 400 | 401 | 429): Response {
  return context.html(text, status, { 'Content-Security-Policy': PAGE_POLICY });
}

function cookie(context: Context, value: string, seconds: number): string {
  // Behind a proxy with TLS, the cookie is never sent without TLS. A client that forges this header restricts only itself.
  const secure = context.req.header('x-forwarded-proto')?.split(',')[0]?.trim() === 'https' ? '; Secure' : '';
  return `${SESSION_COOKIE}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
}
