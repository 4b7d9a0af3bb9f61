/** The login form: a token in, a session cookie out. Only there where a token is configured. */
import { Hono, type Context } from 'hono';
import { actorName } from '../../core/actor.ts';
import type { Clock } from '../../core/clock.ts';
import { plural } from '../../core/wording.ts';
import {
  type Access,
  SESSION_COOKIE,
  SESSION_SECONDS,
  TOKEN_USER,
  type WrongTokens,
} from '../http/access.ts';
import { localPath, requestText } from '../http/request.ts';
import { capital } from '../../report/document.ts';
import { bareHtml, PAGE_POLICY } from './layout.ts';
import { markup, NOTHING } from './html.ts';

interface LoginParts {
  readonly access: Access;
  readonly clock: Clock;
  readonly wrongTokens: WrongTokens;
  /** The address that a request comes from. */
  readonly addressOf: (context: Context) => string;
  /** True for a request that shows a session or a token. */
  readonly mayRead: (context: Context) => boolean;
  /** Why a text cannot be a name, after `it`; null where it can. */
  readonly nameProblem: (text: string) => string | null;
  /** Why a proxy lets nobody in by the name that it sends; null without one. */
  readonly userProblemOf: (context: Context) => string | null;
  readonly endSession: (context: Context) => void;
  /** Refuses what a page of another site sends. */
  readonly checkSameSite: (context: Context) => void;
}

export function createLogin(parts: LoginParts): Hono {
  const {
    access,
    clock,
    wrongTokens,
    addressOf,
    mayRead,
    nameProblem,
    userProblemOf,
    endSession,
    checkSameSite,
  } = parts;
  const login = new Hono();
  login.get('/login', (context) => {
    const to = localPath(context.req.query('to'));
    if (!access.needsLogin || mayRead(context)) return context.redirect(to, 303);
    // A link from another site brings no strict cookie along: asked for again from here, it comes.
    const isForeign =
      context.req.header('sec-fetch-site') === 'cross-site' && context.req.query('again') === undefined;
    if (isForeign) context.header('Refresh', `0; url=/login?again=1&to=${encodeURIComponent(to)}`);
    const problem = userProblemOf(context);
    return page(context, loginHtml(to, problem === null ? null : `${capital(problem)}.`), 200);
  });
  login.post('/login', async (context) => {
    checkSameSite(context);
    const form = new URLSearchParams(await requestText(context));
    const to = localPath(form.get('to') ?? undefined);
    if (!access.needsLogin) return context.redirect(to, 303);
    // The right one first: whatever others try, its owner gets in.
    const token = form.get('token')?.trim() ?? '';
    // As anywhere else, who sends none has tried none: there is nothing to count or to log.
    const again = (problem: string): string => loginHtml(to, problem, form.get('username') ?? '');
    if (token === '') return page(context, again('Invalid token.'), 401);
    if (!access.isToken(token)) {
      const waitSeconds = await wrongTokens.add(addressOf(context));
      if (waitSeconds === 0) return page(context, again('Invalid token.'), 401);
      context.header('Retry-After', String(waitSeconds));
      const problem = `Too many invalid tokens: try again in ${plural(waitSeconds, 'second')}.`;
      return page(context, again(problem), 429);
    }
    const given = form.get('username') ?? '';
    const wrong = nameProblem(given);
    if (wrong !== null) return page(context, again(`The name ${wrong}: correct it, or leave it empty.`), 400);
    const name = actorName(given) ?? TOKEN_USER;
    context.header('Set-Cookie', cookie(context, access.newSession(name, clock.now()), SESSION_SECONDS));
    return context.redirect(to, 303);
  });
  login.post('/logout', (context) => {
    checkSameSite(context);
    // A form of another site does not send a strict cookie: it cannot end a session.
    if (mayRead(context)) {
      endSession(context);
      context.header('Set-Cookie', cookie(context, '', 0));
    }
    return context.redirect('/login', 303);
  });
  return login;
}

/** @param name as it was typed before */
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
  // Behind a proxy that speaks TLS, the cookie never travels without. This header anybody may send: it only binds the sender.
  const secure = context.req.header('x-forwarded-proto')?.split(',')[0]?.trim() === 'https' ? '; Secure' : '';
  return `${SESSION_COOKIE}=${value}; Max-Age=${seconds}; Path=/; HttpOnly; SameSite=Strict${secure}`;
}
