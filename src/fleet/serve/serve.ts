/** `fleet serve`: the registry for people and programs, read-only: a page of all cells, JSON, metrics. */
import { SEVERITIES } from '../../catalog/definition.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { answerPage, refusalPage } from '../../daemon/dashboard/layout.ts';
import { listen, type RunningHttpServer } from '../../daemon/http/http.ts';
import {
  asRefusal,
  filledQueryWith,
  kindsIn,
  numberIn,
  queryWith,
  Refusal,
  timeIn,
  valuesIn,
  withOne,
} from '../../daemon/http/request.ts';
import { ActiveProblems } from '../../daemon/problems.ts';
import { createShell, type ShellOptions } from '../../daemon/http/shell.ts';
import { chosenCells, requireOrganizations } from '../chosen-cells.ts';
import { CELL_HEALTHS, type CellOverview } from '../registry/overview.ts';
import type { Registry } from '../registry/registry.ts';
import {
  fleetChangesDocument,
  fleetDriftDocument,
  fleetRunsDocument,
  fleetStatusDocument,
} from './documents.ts';
import { fleetMetrics } from './metrics.ts';
import { fleetPage } from './page.ts';

/** The paths that read the registry. */
const READS_REGISTRY = /^\/($|readyz$|metrics$|api\/)/;
const NAVIGATION = [['/', 'Cells']] as const;
const MOST_ROWS = 1000;
/** The default of `since` for changes. */
const USUAL_CHANGES_MS = 24 * 3_600_000;

/**
 * Starts to listen. Every request reads the registry; if it cannot be reached, the answer is 503.
 * @throws TidemarkError `config_invalid` for an address that is not loopback without a token, `port_in_use`, `usage`
 */
export async function serveFleet(registry: Registry, options: ShellOptions): Promise<RunningHttpServer> {
  const { clock, log } = options;
  const problems = new ActiveProblems(clock, log);
  const isAway = (thrown: unknown): boolean => {
    const { code, message } = asTidemarkError(thrown);
    if (code !== 'registry_unreachable') return false;
    const text = `${message}: it is answered with 503 until then`;
    problems.begin('registry', new TidemarkError(code, text), 'warn');
    return true;
  };
  const shell = createShell(options, {
    navigation: NAVIGATION,
    isLoggedOnce: ({ code, message }) => isAway(new TidemarkError(code, message)),
  });
  const { application, pages } = shell;
  application.use('*', async (context, next) => {
    await next();
    if (context.res.status === 200 && READS_REGISTRY.test(context.req.path))
      problems.end('registry', 'the registry can be reached again');
  });

  application.get('/', async (context) => {
    try {
      const query = queryWith(context, ['q', 'status']);
      const statuses = valuesIn(query, 'status', CELL_HEALTHS);
      const [cells, workers] = await Promise.all([registry.overview(), registry.workers()]);
      const content = fleetPage({
        cells,
        workers,
        search: (query.get('q') ?? '').slice(0, 200),
        statuses,
        now: clock.now(),
      });
      return answerPage(pages, context, { content, current: '/' }, 200);
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal.httpStatus === 500) throw error;
      isAway(error);
      return refusalPage(pages, context, refusal, '/');
    }
  });
  application.get('/readyz', async (context) => {
    try {
      await registry.workers();
      return context.text('ok\n');
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      if (!isAway(error)) log.warn({ code }, `the registry does not answer: ${message}`);
      return context.text(`failing\n${message}\n`, 503);
    }
  });
  application.get('/metrics', async (context) => {
    const [cells, workers] = await Promise.all([registry.overview(), registry.workers()]);
    const { text, type } = await fleetMetrics({ cells, workers });
    return context.body(text, 200, { 'Content-Type': type });
  });
  application.get('/api/v1/status', async (context) => {
    const query = filledQueryWith(context, ['cell']);
    return context.json(fleetStatusDocument(await cellsIn(query, registry), await registry.workers()));
  });
  application.get('/api/v1/runs', async (context) => {
    const query = filledQueryWith(context, ['cell', 'limit']);
    const limit = numberIn(query, 'limit', 50, MOST_ROWS);
    const cells = namesOf(query, await cellsIn(query, registry));
    return context.json(fleetRunsDocument(await registry.runs({ cells, limit })));
  });
  application.get('/api/v1/changes', async (context) => {
    const query = filledQueryWith(context, ['cell', 'since', 'kind', 'organization', 'limit']);
    const now = clock.now();
    const organizations = query.getAll('organization');
    const narrowed = {
      since: { at: timeIn(query, 'since', isoTime(now - USUAL_CHANGES_MS), now) },
      kinds: kindsIn(query, 'kind') ?? undefined,
      organizations: organizations.length === 0 ? undefined : organizations,
      limit: numberIn(query, 'limit', 200, MOST_ROWS),
    };
    const cells = await cellsIn(query, registry);
    const filter = { ...narrowed, cells: namesOf(query, cells) };
    await orNotFound(async () => requireOrganizations(registry, filter, cells));
    return context.json(fleetChangesDocument(await registry.changes(filter), cells));
  });
  application.get('/api/v1/drift', async (context) => {
    const query = filledQueryWith(context, ['cell', 'severity', 'limit']);
    const [least = 'low'] = valuesIn(withOne(query, 'severity'), 'severity', SEVERITIES);
    const severities = SEVERITIES.slice(0, SEVERITIES.indexOf(least) + 1);
    const limit = numberIn(query, 'limit', 200, MOST_ROWS);
    const cells = (await cellsIn(query, registry)).filter(({ health }) => health !== 'retired');
    const found = await registry.findings({ cells: namesOf(query, cells), severities, limit });
    return context.json(fleetDriftDocument(found, cells));
  });
  const server = await listen(application, options);
  log.info({ url: server.url }, 'the fleet is served');
  return { url: server.url, close: async () => server.close(async () => shell.settled()) };
}

/** The cells that the query names; without names, all that are not retired. @throws Refusal 404 for a name that no cell has */
async function cellsIn(query: URLSearchParams, registry: Registry): Promise<readonly CellOverview[]> {
  return await orNotFound(async () =>
    chosenCells(registry, query.has('cell') ? query.getAll('cell') : undefined),
  );
}

/** @throws Refusal 404 if the query names an unknown cell or organization */
async function orNotFound<T>(find: () => Promise<T>): Promise<T> {
  try {
    return await find();
  } catch (thrown) {
    const { code, message, hint = '' } = asTidemarkError(thrown);
    if (code === 'never_read') throw new Refusal(404, code, message, hint);
    throw code === 'usage' || code === 'reference_unknown'
      ? new Refusal(404, 'reference_unknown', message, hint)
      : thrown;
  }
}

/** The names of the cells; undefined if the query names none: then answers include retired cells. */
function namesOf(query: URLSearchParams, cells: readonly CellOverview[]): string[] | undefined {
  return query.has('cell') ? cells.map(({ name }) => name) : undefined;
}
