/** All routes of the daemon. */
import type { HttpBindings } from '@hono/node-server';
import { type Context, Hono } from 'hono';
import type { LoadedConfig } from '../../config/mirrors.ts';
import { isoTime } from '../../core/clock.ts';
import type { TrustedProxies } from '../../server/client-address.ts';
import { createApplication } from '../../server/listener.ts';
import type { Replica } from '../../server/replica/replica.ts';
import { unreadRestores } from '../../state/runs.ts';
import { createActions } from '../dashboard/actions.ts';
import { answerPage, refusalPage } from '../dashboard/layout.ts';
import { plannedRestorePage } from '../dashboard/restores.ts';
import { allSourcesPage, createDashboard, restoreOf } from '../dashboard/routes.ts';
import { INSTANCE_HEADER, instanceOf } from '../lockfile.ts';
import type { DaemonCells } from '../cells.ts';
import type { DaemonView } from '../view.ts';
import { checkSameSite } from './access.ts';
import { createApi, type MirrorPages, viewIn } from './api.ts';
import { DayCounts, ChangesCache } from './changes.ts';
import { healthDocument, healthText } from './documents.ts';
import { DriftNow } from '../health/drift-now.ts';
import { EventStreams } from './events.ts';
import { readBackups } from '../health/backup-facts.ts';
import type { Metrics } from './metrics.ts';
import { asRefusal, json, Refusal, requestText } from './request.ts';
import { PageRestores, type RunCommand } from './restores.ts';
import { type Application, createShell, refused, type ShellOptions, wantsJson, wantsPage } from './shell.ts';

export function createRoutes(
  cells: DaemonCells,
  options: HttpOptions,
  metrics: Metrics,
  drift: DriftNow,
): { readonly application: Application; close(): Promise<void> } {
  const { clock, log } = options;
  const shell = createShell(options, {
    hold: () => cells.hold(),
    secrets: () => cells.config().knownSecrets,
  });
  const { application, access, callerOf, proxies, pages, withErrors } = shell;
  const replicas =
    options.replica === undefined ? null : new Replicas(options.replica, () => cells.config(), proxies);
  const events = new EventStreams(cells, clock);
  const mirrors = new PagesByMirror((view) => ({
    view,
    drift: cells.isPerSource() ? new DriftNow() : drift,
    changes: new ChangesCache(),
    dayCounts: new DayCounts(),
    pageRestores:
      options.runCommand === undefined
        ? null
        : new PageRestores(options.runCommand, {
            clock,
            log,
            mirrorPath: () => view.config().mirror,
            onApplied: (source, actor) => {
              try {
                if (unreadRestores(view.mirror(), source).length > 0)
                  view.request('sync', [source], { actor });
              } catch (error) {
                log.warn({ source, err: error }, 'the sync after a restore could not be begun');
              }
            },
          }),
    application: null,
  }));

  application.get('/readyz', async (context) => {
    const [only] = cells.cells();
    if (!cells.isPerSource() && only !== undefined) await readBackups(only);
    await cells.refreshed();
    const now = clock.now();
    const { health } = cells.snapshot(now, drift);
    const status = health.state === 'failing' || health.state === 'starting' ? 503 : 200;
    context.header(INSTANCE_HEADER, instanceOf(options.localToken));
    return wantsJson(context)
      ? json(context, healthDocument(health, isoTime(now), cells), status)
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
      log,
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
  const pagesOf = (view: DaemonView): Application => {
    const { drift, changes, dayCounts, pageRestores } = mirrors.of(view);
    const restores = (): PageRestores | null =>
      access.needsLogin && cells.config().http.allowRestore ? pageRestores : null;
    const own: Application = new Hono();
    const source = (): string | null =>
      cells.isPerSource() && cells.cells().length > 1 ? (view.config().sources[0]?.name ?? null) : null;
    const ownPages = { ...pages, source };
    own.route(
      '/',
      createActions({
        view,
        drift,
        clock,
        log,
        actorOf: (context) => access.actorOf(callerOf(context), clock.now()),
        refused: (context, refusal) => refusalPage(ownPages, context, refusal),
        confirmAgain: (context, wrong) => {
          const facts = { mirror: view.mirror(), config: view.config(), now: clock.now() };
          const content = plannedRestorePage(wrong.restore, facts, wrong);
          return answerPage(ownPages, context, { content, current: '/restores' }, 400);
        },
        source,
        restores,
        commandOf: async (query) => (await restoreOf({ view, drift, clock, restores }, query)).command,
      }),
    );
    own.route('/', createDashboard({ view, drift, log, changes, dayCounts, restores, ...ownPages }));
    return own;
  };
  const chosenView = (query: URLSearchParams): DaemonView | Refusal => {
    try {
      return viewIn(cells, query);
    } catch (error) {
      const refusal = asRefusal(error);
      // The application logs defects.
      if (refusal.httpStatus === 500) throw error;
      return refusal;
    }
  };
  const [only] = cells.cells();
  if (!cells.isPerSource() && only !== undefined) application.route('/', pagesOf(only));
  else {
    // `?source=NAME` chooses the mirror; without it, the page of all sources is shown.
    application.use('*', async (context: Context<{ Bindings: HttpBindings }>) => {
      const { pathname, searchParams } = new URL(context.req.url);
      // `/` is always a page, whatever the request accepts.
      const isPage = pathname === '/' || wantsPage(context);
      if (!searchParams.has('source') && cells.cells().length !== 1 && isPage) {
        if (pathname === '/') return allSourcesPage(pages, context, cells.summaries());
        return context.redirect('/', 303);
      }
      const view = chosenView(searchParams);
      if (view instanceof Refusal)
        return wantsPage(context) ? refusalPage(pages, context, view) : refused(context, view);
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
      await shell.settled();
    },
  };
}

/** @throws Refusal 400 */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    const hint = 'send a message of the Model Context Protocol';
    throw new Refusal(400, 'usage', 'the request is not JSON', hint);
  }
}

// What is kept in memory for the pages of the mirrors that were used last.

interface KeptPages extends MirrorPages {
  readonly dayCounts: DayCounts;
  /** Null if the program cannot be run. */
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
      // Plans and running restores must be found again.
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

// The replicas, at `/replica/SOURCE/api/`; the only source also at `/replica/api/`.

class Replicas {
  readonly #create: NonNullable<HttpOptions['replica']>;
  readonly #config: () => LoadedConfig;
  readonly #proxies: TrustedProxies;
  readonly #closing = new AbortController();
  readonly #mounted = new Map<string, { readonly replica: Replica; readonly application: Application }>();
  #madeFor: LoadedConfig | null = null;

  constructor(
    create: NonNullable<HttpOptions['replica']>,
    config: () => LoadedConfig,
    proxies: TrustedProxies,
  ) {
    this.#create = create;
    this.#config = config;
    this.#proxies = proxies;
  }

  /**
   * The application for a path below `/replica`.
   * @throws Refusal 404 for a source that does not exist, and where the replica has no token
   */
  at(path: string): Application {
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

export interface HttpOptions extends ShellOptions {
  /** The MCP server at `/mcp`; none when absent. */
  readonly mcp?: { answer(request: Request, body: unknown): Promise<Response>; close(): void };
  /**
   * Makes the replica of a source, with `pathPrefix` before its `/api/`; called at the first request, and again with a new configuration.
   * Null without a token for it, as a replica returns unmasked records. Left out, there are no replicas.
   */
  readonly replica?: (source: string, pathPrefix: string) => Replica | null;
  /** Runs this program for restores in the dashboard; left out, there are none. */
  readonly runCommand?: RunCommand;
}
