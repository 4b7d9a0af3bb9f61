/** All routes, and the checks that every request passes before. */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context, type Next } from 'hono';
import { METHOD_NAME_ALL } from 'hono/router';
import type { LoadedConfig } from '../../config/mirrors.ts';
import { actorName } from '../../core/actor.ts';
import { isoTime, type Clock } from '../../core/clock.ts';
import { TrustedProxies } from '../../server/client-address.ts';
import { createApplication } from '../../server/listener.ts';
import type { Replica } from '../../server/replica/replica.ts';
import { createDashboard, refusalPage, restoreOf } from '../dashboard/routes.ts';
import { DayCounts, ChangesCache } from './changes.ts';
import { createActions } from '../dashboard/actions.ts';
import { createLogin } from '../dashboard/login.ts';
import { INSTANCE_HEADER, instanceOf } from '../lockfile.ts';
import type { DaemonCells } from '../cells.ts';
import type { DaemonView } from '../view.ts';
import { type Caller, Access, checkSameSite, TRIGGER_HEADER, unauthorized, WrongTokens } from './access.ts';
import { createApi, type MirrorPages, viewIn } from './api.ts';
import { healthDocument, healthText } from './documents.ts';
import { DriftNow } from './drift-now.ts';
import { EventStreams } from './events.ts';
import { withStrictHeaders, asRefusal, Refusal, refusalDocument, requestText } from './request.ts';
import { PageRestores, type RunCommand } from './restores.ts';
import { lookAtBackups } from './health-snapshot.ts';
import type { Metrics } from './metrics.ts';
import type { Logger } from '../../core/logger.ts';
import type { Secret } from '../../core/secret.ts';

type Application = Hono<{ Bindings: HttpBindings }>;

/** The methods that any of our routes has. */
const ROUTED = ['GET', 'POST'] as const;
/** Public: liveness, the login form, and the icon that browsers request on their own. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/login', '/icon.svg', '/favicon.ico']);

export function createRoutes(
  cells: DaemonCells,
  options: HttpOptions,
  metrics: Metrics,
  drift: DriftNow,
): { readonly application: Application; close(): Promise<void> } {
  const { clock, log, userHeader = null } = options;
  const access = new Access(options);
  const proxies = new TrustedProxies(options.trustedProxies ?? []);
  const replicas =
    options.replica === undefined ? null : new Replicas(options.replica, () => cells.config(), proxies);
  const wrongTokens = new WrongTokens(clock, log);
  const events = new EventStreams(cells, clock);
  const addressOf = (context: Context): string => proxies.clientOf((context.env as HttpBindings).incoming);
  const callerOf = (context: Context): Caller => {
    const { incoming } = context.env as HttpBindings;
    const header = (name: string): string | undefined => context.req.header(name);
    return {
      host: proxies.hostOf(incoming),
      user: userHeader === null ? null : (actorName(proxies.userOf(incoming, userHeader) ?? '') ?? null),
      authorization: header('authorization'),
      trigger: header(TRIGGER_HEADER),
      cookie: header('cookie'),
      origin: header('origin'),
      fetchSite: header('sec-fetch-site'),
    };
  };
  const pages = {
    clock,
    needsLogin: access.needsLogin,
    userOf: (context: Context) => callerOf(context).user,
  };
  const mirrors = new PagesByMirror((view) => ({
    view,
    drift: cells.isPerSource() ? new DriftNow() : drift,
    changes: new ChangesCache(),
    dayCounts: new DayCounts(),
    pageRestores:
      options.runCommand === undefined
        ? null
        : new PageRestores(options.runCommand, { clock, log, mirrorPath: () => view.config().mirror }),
    application: null,
  }));
  const inHand = new Set<Promise<void>>();
  const application: Application = new Hono();

  application.use('*', async (context, next) => {
    const answered = next();
    inHand.add(answered);
    // What reads a mirror over several turns keeps it open.
    const release = cells.hold();
    await answered.finally(() => {
      release();
      inHand.delete(answered);
    });
    // The replica has already sent its own error, in the format of the API.
    if (!isReplica(context.req.path)) withStrictHeaders(context.res.headers);
  });
  const withErrors = (of: Application): Application => {
    of.onError((error, context) => {
      const refusal = asRefusal(error);
      if (refusal.httpStatus >= 500)
        log.error({ err: error, path: context.req.path }, 'a request could not be answered');
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
  application.get('/readyz', async (context) => {
    const [only] = cells.cells();
    if (!cells.isPerSource() && only !== undefined) await lookAtBackups(only);
    const now = clock.now();
    const { health } = cells.snapshot(now);
    const status = health.state === 'failing' || health.state === 'starting' ? 503 : 200;
    context.header(INSTANCE_HEADER, instanceOf(options.localToken));
    return wantsJson(context)
      ? context.json(healthDocument(health, isoTime(now), cells), status)
      : context.text(healthText(health, cells), status);
  });
  application.get('/metrics', async (context) =>
    context.body(await metrics.scrape(clock.now()), 200, { 'Content-Type': metrics.contentType }),
  );
  application.route(
    '/api/v1',
    createApi({
      cells,
      pagesOf: (view) => mirrors.of(view),
      clock,
      events,
      checkMayAct: (context) => access.checkMayAct(callerOf(context)),
    }),
  );
  const { mcp } = options;
  if (mcp !== undefined) {
    application.post('/mcp', async (context) => {
      checkSameSite(callerOf(context));
      return mcp.answer(context.req.raw, jsonOf(await requestText(context)));
    });
  }
  if (replicas !== null) {
    application.all('/replica/*', (context) =>
      replicas.at(new URL(context.req.url).pathname).fetch(context.req.raw, context.env),
    );
  }
  application.route(
    '/',
    createLogin({
      access,
      clock,
      wrongTokens,
      addressOf,
      mayRead: (context) => access.mayRead(callerOf(context), clock.now()),
      endSession: (context) => access.endSession(callerOf(context)),
      checkSameSite: (context) => checkSameSite(callerOf(context)),
    }),
  );
  const pagesOf = (view: DaemonView): Application => {
    const { drift, changes, dayCounts, pageRestores } = mirrors.of(view);
    const restores = (): PageRestores | null =>
      access.needsLogin && cells.config().http.allowRestore ? pageRestores : null;
    const own: Application = new Hono();
    own.route(
      '/',
      createActions({
        view,
        drift,
        clock,
        log,
        actorOf: (context) => access.actorOf(callerOf(context), clock.now()),
        refused: (context, refusal) => refusalPage(pages, context, refusal),
        restores,
        commandOf: async (query) => (await restoreOf({ view, drift, clock, restores }, query)).command,
      }),
    );
    own.route('/', createDashboard({ view, drift, changes, dayCounts, restores, ...pages }));
    return own;
  };
  const [only] = cells.cells();
  if (!cells.isPerSource() && only !== undefined) application.route('/', pagesOf(only));
  else {
    // The pages of one mirror, chosen by `?source=NAME`.
    application.use('*', async (context) => {
      const view = viewIn(cells, new URL(context.req.url).searchParams);
      const known = mirrors.of(view);
      const own = (known.application ??= withErrors(pagesOf(view)));
      return own.fetch(context.req.raw, context.env);
    });
  }
  return {
    application,
    close: async () => {
      mcp?.close();
      replicas?.close();
      await Promise.all([events.close(), mirrors.close()]);
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
      'the dashboard is at /, the same for programs at /api/v1/status',
    );
  }
  const allow = allowed.join(', ');
  return new Refusal(405, 'usage', `this path takes no ${method}`, `it takes ${allow}`, {
    Allow: allow,
  });
}

/** @throws Refusal 400 */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refusal(
      400,
      'usage',
      'the request is not JSON',
      'send a message of the Model Context Protocol',
    );
  }
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
      throw unauthorized('send the token of http.token as `Authorization: Bearer TOKEN`');
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
    'this is not the token, and too many wrong ones came from this address',
    'send the token of http.token as `Authorization: Bearer TOKEN`: the right one is taken at any time',
    { 'Retry-After': String(waitSeconds) },
  );
}

/** True for a person with a browser. */
function wantsPage({ req }: Context): boolean {
  return (
    (req.method === 'GET' || req.method === 'HEAD') && (req.header('accept') ?? '').includes('text/html')
  );
}

function wantsJson(context: Context): boolean {
  const accept = context.req.header('accept') ?? '';
  const [json, text] = [accept.indexOf('application/json'), accept.search(/text\/(plain|html)/)];
  return text === -1 || (json !== -1 && json < text);
}

function refused(context: Context, refusal: Refusal): Response {
  return context.json(refusalDocument(refusal), refusal.httpStatus as 400, { ...refusal.headers });
}

// What is kept for the pages of a mirror: of the latest ones that were looked at.

interface KeptPages extends MirrorPages {
  readonly dayCounts: DayCounts;
  /** Null without a program to run. */
  readonly pageRestores: PageRestores | null;
  application: Application | null;
}

const MOST_KEPT = 16;

class PagesByMirror {
  readonly #create: (view: DaemonView) => KeptPages;
  /** Least recently used first. */
  readonly #kept = new Map<DaemonView, KeptPages>();

  constructor(create: (view: DaemonView) => KeptPages) {
    this.#create = create;
  }

  of(view: DaemonView): KeptPages {
    const found = this.#kept.get(view) ?? this.#create(view);
    this.#kept.delete(view);
    this.#kept.set(view, found);
    for (const [other, { pageRestores }] of this.#kept) {
      if (this.#kept.size <= MOST_KEPT) break;
      // Plans and restores under way are found again.
      if (pageRestores?.isInUse() === true) continue;
      this.#kept.delete(other);
    }
    return found;
  }

  async close(): Promise<void> {
    const all = [...this.#kept.values()].flatMap(({ pageRestores }) => pageRestores ?? []);
    await Promise.all(all.map((each) => each.close()));
  }
}

// The replicas below `/replica`: one of each source, and of the only one without its name.

interface Mounted {
  readonly replica: Replica;
  readonly application: Hono<{ Bindings: HttpBindings }>;
}

class Replicas {
  readonly #create: (source: string, pathPrefix: string) => Replica | null;
  readonly #config: () => LoadedConfig;
  readonly #proxies: TrustedProxies;
  readonly #closing = new AbortController();
  readonly #mounted = new Map<string, Mounted>();
  #madeFor: LoadedConfig | null = null;

  constructor(
    create: (source: string, pathPrefix: string) => Replica | null,
    config: () => LoadedConfig,
    proxies: TrustedProxies,
  ) {
    this.#create = create;
    this.#config = config;
    this.#proxies = proxies;
  }

  /**
   * What answers a path below `/replica`.
   * @throws Refusal 404 for a source that there is not, and where the replica has no token
   */
  at(path: string): Hono<{ Bindings: HttpBindings }> {
    const config = this.#config();
    if (this.#madeFor !== config) this.#discard();
    this.#madeFor = config;
    const names = config.sources.map(({ name }) => name);
    const [, first = ''] = /^\/replica\/([^/]*)/.exec(path) ?? [];
    const [only] = names;
    const source =
      first === 'api' && names.length === 1 ? only : names.find((name) => encodeURIComponent(name) === first);
    if (source === undefined) {
      throw new Refusal(
        404,
        'reference_unknown',
        'there is no replica at this path',
        'replicas are at /replica/SOURCE/api/, with the name of a source',
      );
    }
    const prefix = first === 'api' ? '/replica' : `/replica/${first}`;
    const known = this.#mounted.get(prefix);
    if (known !== undefined) return known.application;
    const replica = this.#create(source, prefix);
    if (replica === null) throw closed(config);
    const application = createApplication(replica.answer, this.#closing.signal, this.#proxies);
    this.#mounted.set(prefix, { replica, application });
    return application;
  }

  close(): void {
    this.#closing.abort(new Error('the server is closing'));
    this.#discard();
  }

  #discard(): void {
    for (const { replica } of this.#mounted.values()) replica.close();
    this.#mounted.clear();
  }
}

function closed({ replica: { tokenFile } }: LoadedConfig): Refusal {
  const why =
    tokenFile === null
      ? 'the daemon has no replica: it returns complete records and has no separate token'
      : 'the daemon has no replica: replica.tokenFile gave no token';
  return new Refusal(404, 'not_found', why, 'set replica.token or replica.tokenFile');
}

export interface HttpOptions {
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
  /** Header in which these proxies name the user; null or left out where they do not. */
  readonly userHeader?: string | null;
  /** The tools at `/mcp`; none when absent. */
  readonly mcp?: { answer(request: Request, body: unknown): Promise<Response>; close(): void };
  readonly clock: Clock;
  readonly log: Logger;
  /**
   * Makes the replica of a source, with `pathPrefix` before its `/api/`; called at the first request, and again after a
   * new configuration. Null where there is no token of its own: nothing is read unmasked without it. Left out, there is none.
   */
  readonly replica?: (source: string, pathPrefix: string) => Replica | null;
  /** Runs this program, for restores in the dashboard; left out, there are none. */
  readonly runCommand?: RunCommand;
}
