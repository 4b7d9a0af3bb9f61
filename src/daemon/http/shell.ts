/** What every server for people and programs has, the daemon's and a fleet's: who may come in, the login, refusals, headers. */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context, type Next } from 'hono';
import { METHOD_NAME_ALL } from 'hono/router';
import { nameProblem } from '../../core/actor.ts';
import type { Clock } from '../../core/clock.ts';
import type { Logger } from '../../core/logger.ts';
import { holdsSecret, type Secret } from '../../core/secret.ts';
import { TrustedProxies } from '../../server/client-address.ts';
import { ICON, type Navigation, type PageParts, refusalPage } from '../dashboard/layout.ts';
import { createLogin } from '../dashboard/login.ts';
import { type Caller, Access, checkSameSite, TRIGGER_HEADER, unauthorized, WrongTokens } from './access.ts';
import { publicPathOf } from './public-path.ts';
import { withStrictHeaders, asRefusal, json, Refusal, refusalDocument } from './request.ts';

export type Application = Hono<{ Bindings: HttpBindings }>;

/** The methods that any of our routes has. */
const ROUTED = ['GET', 'POST'] as const;
/** Public: liveness, the login form, and the icon that browsers request on their own. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/login', '/icon.svg', '/favicon.ico']);

export interface ShellOptions {
  /** Any other than a loopback address needs a token. */
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly token: Secret | null;
  /** Starts syncs by `POST /api/v1/runs`, and opens nothing else; none when absent. */
  readonly triggerToken?: Secret | null;
  /** Made by the daemon for the command line on this machine: it always opens `POST /api/v1/runs`. */
  readonly localToken: string;
  /** IP addresses and CIDR ranges of trusted proxies; none when absent. */
  readonly trustedProxies?: readonly string[];
  /** Under which people reach the server: pages and answers lead to its path; null or left out at the root. */
  readonly publicUrl?: string | null;
  /** Header in which these proxies name the user; null or left out where they do not. */
  readonly userHeader?: string | null;
  readonly clock: Clock;
  readonly log: Logger;
}

interface ShellParts {
  /** Called for each request; what it returns is called once that is answered. */
  readonly hold?: () => () => void;
  /** What the name of nobody may hold. */
  readonly secrets?: () => readonly Secret[];
  /** Of the pages; left out, the daemon's. */
  readonly navigation?: Navigation;
  /** True for a failure that is logged once, as it begins, and not with each request. */
  readonly isLoggedOnce?: (refusal: Refusal) => boolean;
}

interface Shell {
  /** Answers `/healthz`, the login and the icon; whoever may not come in is refused. Further routes are added to it. */
  readonly application: Application;
  readonly access: Access;
  readonly proxies: TrustedProxies;
  readonly callerOf: (context: Context) => Caller;
  readonly pages: PageParts;
  /** Lets an application refuse as this one does. */
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
    // What reads a mirror over several turns keeps it open.
    const release = hold();
    await answered.finally(() => {
      release();
      inHand.delete(answered);
    });
    // The replica has already sent its own error, in the format of the API.
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
  application.use('*', guard({ access, wrongTokens, callerOf, addressOf, now: () => clock.now() }));
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

/** A path that is not there, or not there for this method. */
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

interface GuardParts {
  readonly access: Access;
  readonly wrongTokens: WrongTokens;
  readonly callerOf: (context: Context) => Caller;
  readonly addressOf: (context: Context) => string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Lets through who may read; sends people to the login form, and programs away. */
function guard({ access, wrongTokens, callerOf, addressOf, now }: GuardParts) {
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
    // Its own tokens open the replica, and only they.
    if (isReplica(path)) return passed(next);
    if (path !== '/healthz') access.checkHost(caller);
    if (OPEN_PATHS.has(path)) return passed(next);
    const mayRead = access.mayRead(caller, now());
    // Where everybody may read, a token is still asked for by what sets something going.
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

/** True for a person with a browser. */
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
