/** What the servers of the daemon and of a fleet have in common: access, the login, refusals, headers. */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context, type Next } from 'hono';
import { METHOD_NAME_ALL } from 'hono/router';
import { nameProblem } from '../../core/actor.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import { holdsSecret, type Secret } from '../../core/secret.ts';
import { TrustedProxies } from '../../server/client-address.ts';
import { ICON, type Navigation, type PageParts, refusalPage } from '../dashboard/layout.ts';
import { createLogin, type LoginParts } from '../dashboard/login.ts';
import { type Caller, Access, checkSameSite, TRIGGER_HEADER, unauthorized, WrongTokens } from './access.ts';
import { publicPathOf } from './public-path.ts';
import { withStrictHeaders, asRefusal, json, Refusal, refusalDocument } from './request.ts';

export type Application = Hono<{ Bindings: HttpBindings }>;

/** The methods of our routes. */
const ROUTED = ['GET', 'POST'] as const;
/** Public paths: liveness, the login form, and the icons that browsers request on their own. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/login', '/icon.svg', '/favicon.ico']);

export interface ShellOptions {
  /** An address that is not loopback needs a token. */
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly token: Secret | null;
  /** Only starts syncs, by `POST /api/v1/runs`; none when absent. */
  readonly triggerToken?: Secret | null;
  /** Made by the daemon for the command line on this machine: it always opens `POST /api/v1/runs`. */
  readonly localToken: string;
  /** IP addresses and CIDR ranges of trusted proxies; none when absent. */
  readonly trustedProxies?: readonly string[];
  /** The URL by which people reach the server: links lead to its path. Null or left out: the root. */
  readonly publicUrl?: string | null;
  /** The header in which trusted proxies name the user; null or left out for none. */
  readonly userHeader?: string | null;
  readonly clock: Clock;
  readonly log: Logger;
}

interface ShellParts {
  /** Called for each request; the function that it returns is called once the request is answered. */
  readonly hold?: () => () => void;
  /** Secrets that no user name may contain. */
  readonly secrets?: () => readonly Secret[];
  /** Left out, that of the daemon. */
  readonly navigation?: Navigation;
  /** True for a failure that is logged elsewhere, once: it is not logged for each request. */
  readonly isLoggedOnce?: (refusal: Refusal) => boolean;
}

interface Shell {
  /** Answers `/healthz`, the login and the icons, and refuses clients without access. Further routes are added to it. */
  readonly application: Application;
  readonly access: Access;
  readonly proxies: TrustedProxies;
  readonly callerOf: (context: Context) => Caller;
  readonly pages: PageParts;
  /** Makes an application refuse requests as this one does. */
  readonly withErrors: (of: Application) => Application;
  /** Resolves once all requests are answered. */
  settled(): Promise<void>;
}

export function createShell(
  options: ShellOptions,
  {
    hold = () => () => undefined,
    secrets = () => [],
    navigation,
    isLoggedOnce = () => false,
  }: ShellParts = {},
): Shell {
  const { clock, log, userHeader = null } = options;
  const access = new Access(options);
  const proxies = new TrustedProxies(options.trustedProxies ?? [], publicPathOf(options.publicUrl));
  const wrongTokens = new WrongTokens(clock, log);
  const addressOf = (context: Context): string => proxies.clientOf((context.env as HttpBindings).incoming);
  const secretProblem = (name: string): string | null =>
    holdsSecret(name, secrets()) ? 'holds a key or token of the configuration' : null;
  const callerOf = (context: Context): Caller => {
    const { incoming } = context.env as HttpBindings;
    const header = (name: string): string | undefined => context.req.header(name);
    const user = userHeader === null ? null : proxies.userOf(incoming, userHeader);
    const name = user?.name ?? null;
    const problem = user?.problem ?? (name === null ? null : secretProblem(name));
    return {
      host: proxies.hostOf(incoming),
      user: problem === null ? name : null,
      userProblem: problem === null ? null : `the proxy's ${userHeader ?? ''} ${problem}`,
      authorization: header('authorization'),
      trigger: header(TRIGGER_HEADER),
      cookie: header('cookie'),
      origin: header('origin'),
      fetchSite: header('sec-fetch-site'),
      referer: header('referer'),
    };
  };
  const pages: PageParts = {
    clock,
    needsLogin: access.needsLogin,
    userOf: (context: Context) => access.userOf(callerOf(context), clock.now()),
    ...(navigation === undefined ? {} : { navigation }),
  };
  const inHand = new Set<Promise<void>>();
  const application: Application = new Hono();
  application.use('*', async (context, next) => {
    const answered = next();
    inHand.add(answered);
    // Keeps mirrors open that are read over several turns of the event loop.
    const release = hold();
    await answered.finally(() => {
      release();
      inHand.delete(answered);
    });
    // The replica sends its own answers, in the format of the API.
    if (!isReplica(context.req.path)) withStrictHeaders(context.res.headers);
  });
  const withErrors = (of: Application): Application => {
    of.onError((error, context) => {
      const refusal = asRefusal(error, secrets());
      const { path } = context.req;
      if (refusal.httpStatus === 500) log.error({ err: error, path }, 'a request could not be answered');
      else if (refusal.httpStatus > 500 && !isLoggedOnce(refusal))
        log.error({ code: refusal.code, path }, `a request could not be answered: ${refusal.message}`);
      return refused(context, refusal);
    });
    of.notFound((context) => {
      const refusal = unanswered(of, context.req);
      const isPage =
        refusal.httpStatus === 404 && wantsPage(context) && !context.req.path.startsWith('/api/');
      return isPage ? refusalPage(pages, context, refusal) : refused(context, refusal);
    });
    return of;
  };
  withErrors(application);
  application.use('*', guard({ access, clock, wrongTokens, addressOf }, callerOf));
  application.get('/healthz', (context) => context.text('ok\n'));
  application.get('/favicon.ico', (context) => context.body(null, 204));
  application.get('/icon.svg', (context) => context.body(ICON, 200, { 'Content-Type': 'image/svg+xml' }));
  application.route(
    '/',
    createLogin({
      access,
      clock,
      wrongTokens,
      addressOf,
      nameProblem: (name) => nameProblem(name) ?? secretProblem(name),
      userProblemOf: (context) => callerOf(context).userProblem,
      mayRead: (context) => access.mayRead(callerOf(context), clock.now()),
      endSession: (context) => access.endSession(callerOf(context)),
      checkSameSite: (context) => checkSameSite(callerOf(context)),
    }),
  );
  return {
    application,
    access,
    proxies,
    callerOf,
    pages,
    withErrors,
    settled: async () => {
      await Promise.allSettled(inHand);
    },
  };
}

/** The refusal of a path that does not exist, or not for this method. */
function unanswered(application: Application, { method, path }: Context['req']): Refusal {
  const allowed = ROUTED.filter((each) =>
    application.router.match(each, path)[0].some(([[, route]]) => route.method !== METHOD_NAME_ALL),
  ).flatMap((each) => (each === 'GET' ? ['GET', 'HEAD'] : [each]));
  if (allowed.length === 0 || allowed.includes(method)) {
    return new Refusal(
      404,
      'not_found',
      'there is nothing at this path',
      'the dashboard is at /, its data as JSON at /api/v1/status',
    );
  }
  const allow = allowed.join(', ');
  return new Refusal(405, 'usage', `this path takes no ${method}`, `it takes ${allow}`, {
    Allow: allow,
  });
}

/** Lets clients through that may read; sends people to the login form, and refuses programs. */
function guard(
  {
    access,
    clock,
    wrongTokens,
    addressOf,
  }: Pick<LoginParts, 'access' | 'clock' | 'wrongTokens' | 'addressOf'>,
  callerOf: (context: Context) => Caller,
) {
  return async (context: Context, next: Next): Promise<Response | undefined> => {
    const caller = callerOf(context);
    const { path, method } = context.req;
    if (access.isTrigger(caller) && !OPEN_PATHS.has(path)) {
      access.checkHost(caller);
      if (path === '/api/v1/runs' && method === 'POST') return passed(next);
      throw new Refusal(
        403,
        'forbidden',
        'this token starts a sync by POST /api/v1/runs, and opens nothing else',
        'send the token of http.token',
      );
    }
    // The replica has tokens of its own.
    if (isReplica(path)) return passed(next);
    if (path !== '/healthz') access.checkHost(caller);
    if (OPEN_PATHS.has(path)) return passed(next);
    const mayRead = access.mayRead(caller, clock.now());
    // Where everybody may read, requests that start something still need a token.
    if ((!mayRead || method !== 'GET') && access.isWrong(caller)) {
      const waitSeconds = await wrongTokens.add(addressOf(context));
      if (waitSeconds > 0) throw tooManyWrong(waitSeconds);
    }
    if (mayRead) return passed(next);
    if (!wantsPage(context))
      throw unauthorized(
        caller.userProblem ?? 'send the token of http.token as `Authorization: Bearer TOKEN`',
      );
    const { pathname, search } = new URL(context.req.url);
    return context.redirect(`/login?to=${encodeURIComponent(pathname + search)}`, 303);
  };
}

async function passed(next: Next): Promise<undefined> {
  await next();
  return undefined;
}

function isReplica(path: string): boolean {
  return path.startsWith('/replica/');
}

function tooManyWrong(waitSeconds: number): Refusal {
  return new Refusal(
    429,
    'throttled',
    'invalid token, and too many invalid ones from this address',
    'send the token of http.token as `Authorization: Bearer TOKEN`: the right one is taken at any time',
    { 'Retry-After': String(waitSeconds) },
  );
}

/** True for a browser that loads a page. */
export function wantsPage({ req }: Context): boolean {
  return (
    (req.method === 'GET' || req.method === 'HEAD') && (req.header('accept') ?? '').includes('text/html')
  );
}

/** True for a program, unless it asks for text. */
export function wantsJson(context: Context): boolean {
  const accept = context.req.header('accept') ?? '';
  const [json, text] = [accept.indexOf('application/json'), accept.search(/text\/(plain|html)/)];
  return text === -1 || (json !== -1 && json < text);
}

export function refused(context: Context, refusal: Refusal): Response {
  return json(context, refusalDocument(refusal), refusal.httpStatus, refusal.headers);
}
