/** `fleet serve`: the registry for people and programs, read-only: a page of all cells, JSON, metrics. */
import { SEVERITIES } from '../../catalog/definition.ts';
import { isoTime } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { answerPage, refusalPage } from '../../daemon/dashboard/layout.ts';
import { listen, type RunningHttpServer } from '../../daemon/http/http.ts';
import { asRefusal, kindsIn, numberIn, Refusal, timeIn } from '../../daemon/http/request.ts';
import { ActiveProblems } from '../../daemon/problems.ts';
import { createShell, type ShellOptions } from '../../daemon/http/shell.ts';
import type { CellHealth } from '../registry/overview.ts';
import type { Registry } from '../registry/registry.ts';
import { fleetChangesDocument, fleetRunsDocument, fleetStatusDocument } from './documents.ts';
import { HEALTH_TEXT } from './health.ts';
import { fleetMetrics } from './metrics.ts';
import { fleetPage } from './page.ts';

/** Paths whose answers are read from the registry. */
const READS_REGISTRY = /^\/($|readyz$|metrics$|api\/)/;
const NAVIGATION = [['/', 'Cells']] as const;
const MOST_ROWS = 1000;
/** What changes are of, where `since` is left out. */
const USUAL_CHANGES_MS = 24 * 3_600_000;

/**
 * Starts to listen. Every answer is read from the registry when it is asked for; where that is away, the answer is 503.
 * @throws TidemarkError `config_invalid` for an address that is not loopback without a token, `port_in_use`, `usage`
 */
export async function serveFleet(registry: Registry, options: ShellOptions): Promise<RunningHttpServer> {
  const { clock, log } = options;
  const problems = new ActiveProblems(clock, log);
  const isAway = (thrown: unknown): boolean => {
    const { code, message } = asTidemarkError(thrown);
    if (code !== 'registry_unreachable') return false;
    const told = `${message}: it is answered with 503 until then`;
    problems.begin('registry', new TidemarkError(code, told), 'warn');
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
    const query = new URL(context.req.url).searchParams;
    try {
      const [cells, workers] = await Promise.all([registry.overview(), registry.workers()]);
      const content = fleetPage({
        cells,
        workers,
        search: (query.get('q') ?? '').slice(0, 200),
        statuses: query
          .getAll('status')
          .filter((each): each is CellHealth => Object.hasOwn(HEALTH_TEXT, each)),
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
  application.get('/api/v1/status', async (context) =>
    context.json(fleetStatusDocument(await registry.overview(), await registry.workers())),
  );
  application.get('/api/v1/runs', async (context) => {
    const query = new URL(context.req.url).searchParams;
    const cells = valuesIn(query, 'cell');
    const limit = numberIn(query, 'limit', 50, MOST_ROWS);
    return context.json(fleetRunsDocument(await registry.runs({ cells, limit })));
  });
  application.get('/api/v1/changes', async (context) => {
    const query = new URL(context.req.url).searchParams;
    const now = clock.now();
    const cells = valuesIn(query, 'cell');
    const found = await registry.changes({
      cells,
      since: { at: timeIn(query, 'since', isoTime(now - USUAL_CHANGES_MS), now) },
      kinds: kindsIn(query, 'kind') ?? undefined,
      organizations: valuesIn(query, 'organization'),
      limit: numberIn(query, 'limit', 200, MOST_ROWS),
    });
    return context.json(fleetChangesDocument(found, await registry.overview({ cells })));
  });
  application.get('/api/v1/drift', async (context) => {
    const query = new URL(context.req.url).searchParams;
    const least = query.get('severity') ?? 'low';
    const index = SEVERITIES.findIndex((each) => each === least);
    if (index < 0)
      throw new Refusal(
        400,
        'usage',
        `there is no severity ${least.slice(0, 60)}`,
        `it is one of ${SEVERITIES.join(', ')}`,
      );
    const { rows, total } = await registry.findings({
      cells: valuesIn(query, 'cell'),
      severities: SEVERITIES.slice(0, index + 1),
      limit: numberIn(query, 'limit', 200, MOST_ROWS),
    });
    const cells = await registry.overview({ cells: valuesIn(query, 'cell') });
    const unknown = cells.filter(({ findings, health }) => findings === null && health !== 'retired');
    return context.json({
      schema: 'tidemark.fleet-drift/1',
      total,
      findings: rows,
      not_compared: unknown.map(({ name }) => name),
    });
  });
  const server = await listen(application, options);
  log.info({ url: server.url }, 'the fleet is served');
  return { url: server.url, close: async () => server.close(async () => shell.settled()) };
}

/** A repeatable parameter; undefined if omitted. */
function valuesIn(query: URLSearchParams, name: string): readonly string[] | undefined {
  const values = query.getAll(name);
  return values.length === 0 ? undefined : values;
}
