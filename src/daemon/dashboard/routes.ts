/** The routes of the dashboard: each page complete, or only its content for a page that is open already. */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context } from 'hono';
import { CATALOG, definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { previousRun } from '../../state/runs.ts';
import { runNamed } from '../http/api.ts';
import { knownSources } from '../http/changes-document.ts';
import { AuditSearchCache } from '../http/audit-entries.ts';
import {
  type ChangesCache,
  changesOf,
  CONFIGURED_KINDS,
  type DayCounts,
  findChanges,
} from '../http/changes.ts';
import type { DriftNow } from '../health/drift-now.ts';
import { readBackups, readHealthSnapshot } from '../health/health-facts.ts';
import { readFreshness } from '../health/freshness.ts';
import { asRefusal, kindFrom, numberIn, queryWith, sourceIn, valuesIn, withOne } from '../http/request.ts';
import type { PageRestores } from '../http/restores.ts';
import { unreadOfSources } from '../../state/unread-in-period.ts';
import type { CellSummary } from '../cell-status.ts';
import type { DaemonView } from '../view.ts';
import { auditCsvStream, auditPage } from './audit.ts';
import { CHANGES_SHOWN, changesPage, PERIODS } from './changes.ts';
import { driftFilter, driftPage } from './drift.ts';
import { drillPage } from './drill.ts';
import { HELD, heldSection } from './held.ts';
import { answerPage, isFragment, type PageContent, type PageParts, refusalPage } from './layout.ts';
import { organizationPage, organizationsPage } from './organizations.ts';
import { overviewPage } from './overview.ts';
import {
  onePerRecord,
  type RecordPlace,
  readListPage,
  searchFormer,
  searchRecords,
  searchRemoved,
} from './record-list.ts';
import { choicePage, recordPage } from './record.ts';
import { type FoundOfKind, recordsPage, unreadLines } from './records.ts';
import { KEEP_ACCEPTED } from './drift.ts';
import {
  heldPlanPage,
  type RestoreContent,
  restorePage,
  versionPlanPage,
  WITH_CHILDREN,
} from './restore-plan.ts';
import { journalPage, plannedRestorePage, restoresPage } from './restores.ts';
import { RUN_CHANGES_SHOWN, runPage, runsPage } from './runs.ts';
import { sourcesPage } from './sources.ts';

const HELD_SHOWN = 200;

interface DashboardParts extends PageParts {
  readonly view: DaemonView;
  readonly drift: DriftNow;
  readonly log: Logger;
  readonly changes: ChangesCache;
  readonly dayCounts: DayCounts;
  /** Null where restores are not allowed in the dashboard. */
  readonly restores: () => PageRestores | null;
  /** Where each of several sources has a mirror of its own: the source of this one. */
  readonly source: () => string | null;
}

const DRIFT_PARAMETERS = ['severity', 'change', 'kind', 'source', 'q', 'accepted'];
const AUDIT_PARAMETERS = ['since', 'until', 'by', 'action', 'source'];
const RECORDS_PARAMETERS = ['kind', 'source', 'organization', 'project', 'q', 'after'];
const RECORD_PARAMETERS = ['record', 'left', 'right', 'lines', 'source'];
const SOURCES_PARAMETERS = ['q', 'group', 'only', 'by', 'sort', 'page'];
const RESTORE_PARAMETERS = ['source', 'record', 'kind', 'of', 'version', HELD, KEEP_ACCEPTED, WITH_CHILDREN];
const PAGE = 50;
/** Of each kind, where all are searched. */
const FOUND_PER_KIND = 10;
/** How long names are searched before the page asks whether to continue: in one kind, and in each of all kinds. */
const SEARCH_MS = 400;
const SEARCH_EACH_MS = 60;
const MOST_TEXT = 200;
const CHART_DAYS = 30;
const DAY_MS = 24 * 60 * 60 * 1000;

export function createDashboard(parts: DashboardParts): Hono {
  const { view, clock } = parts;
  const dashboard = new Hono();
  const refusedPage = (context: Context, error: unknown, current: string): Response => {
    const refusal = asRefusal(error, view.config().knownSecrets);
    // Defects go where all of them go.
    if (refusal.httpStatus === 500) throw error;
    return refusalPage(parts, context, refusal, current);
  };
  const page = (
    path: string,
    make: (context: Context) => Promise<PageContent> | PageContent,
    current = path,
  ): void => {
    dashboard.get(path, async (context) => {
      try {
        return answerPage(parts, context, { content: await make(context), current }, 200);
      } catch (error) {
        return refusedPage(context, error, current);
      }
    });
  };
  // With a mirror for each source, `source` says whose page it is.
  const queryOfPage = (context: Context, known: readonly string[]): URLSearchParams => {
    const query = queryWith(context, [...known, 'source']);
    if (known.includes('source') || parts.source() !== null) return query;
    if (sourceIn(query, knownSources(view, view.mirror())) === null) return query;
    throw new TidemarkError('usage', 'this page is always of all sources', { hint: 'leave out source' });
  };
  page('/', async (context) => {
    queryOfPage(context, ['source']);
    const shown = await readBackups(view);
    // Before the snapshot, which has the damage that it finds.
    const found = await parts.drift.ofView(view, clock.now());
    const snapshot = readHealthSnapshot(view, clock.now(), { finder: parts.drift });
    const { mirror } = snapshot;
    const days = mirror === null ? [] : await parts.dayCounts.read(mirror, CHART_DAYS, clock.now());
    return overviewPage({
      view,
      snapshot,
      found,
      days,
      backups: shown,
      canAct: parts.needsLogin,
    });
  });
  page('/drift', async (context) => {
    const mirror = view.mirror();
    const sources = configuredNames(view);
    const found = await parts.drift.ofAll(mirror, view.config(), sources, clock.now());
    const filter = driftFilter(queryOfPage(context, DRIFT_PARAMETERS), sources);
    const held = heldSection(mirror, view.config(), {
      sources: filter.source === null ? sources : [filter.source],
      most: HELD_SHOWN,
      canSelect: true,
    });
    return driftPage(mirror, found, { now: clock.now(), canAct: parts.needsLogin, filter, held, sources });
  });
  page(
    '/restore',
    async (context) => (await restoreOf(parts, queryWith(context, RESTORE_PARAMETERS))).content,
    '/drift',
  );
  const facts = (): Parameters<typeof journalPage>[0] => ({
    mirror: view.mirror(),
    config: view.config(),
    now: clock.now(),
  });
  page('/restores', (context) => {
    queryOfPage(context, ['source']);
    return restoresPage(facts(), parts.restores()?.all() ?? []);
  });
  page(
    '/restores/:restore',
    (context) => {
      queryOfPage(context, ['source']);
      return journalPage(facts(), context.req.param('restore') ?? '');
    },
    '/restores',
  );
  page(
    '/restores/plans/:plan',
    (context) => {
      queryOfPage(context, ['source']);
      const planned = parts.restores()?.get(context.req.param('plan') ?? '');
      if (planned !== undefined) return plannedRestorePage(planned, facts());
      throw new TidemarkError('not_found', 'Plan not found', {
        hint: 'plans are kept until the daemon ends',
      });
    },
    '/restores',
  );
  const lately = new AuditSearchCache();
  page('/audit', (context) => {
    const sources = knownSources(view, view.mirror());
    return auditPage({ ...facts(), sources }, queryOfPage(context, AUDIT_PARAMETERS), lately);
  });
  dashboard.get('/audit.csv', async (context) => {
    try {
      const asked = { ...facts(), sources: knownSources(view, view.mirror()) };
      const stream = await auditCsvStream(asked, queryOfPage(context, AUDIT_PARAMETERS), {
        openReader: () => view.openReader(),
        onFailure: (error) => {
          parts.log.error({ err: error, path: '/audit.csv' }, 'a download could not be completed');
          // Whoever downloads sees that it is cut off.
          (context.env as HttpBindings).outgoing.destroy();
        },
      });
      const headers = { 'Content-Type': 'text/csv; charset=utf-8' };
      return context.body(stream, 200, {
        ...headers,
        'Content-Disposition': 'attachment; filename="audit.csv"',
      });
    } catch (error) {
      return refusedPage(context, error, '/audit');
    }
  });
  page('/organizations', async (context) => {
    const asked = queryOfPage(context, ['page', 'source']).get('page') ?? '1';
    return organizationsPage(await treeFacts(parts), /^[1-9]\d{0,5}$/.test(asked) ? Number(asked) : 1);
  });
  page(
    '/organizations/:id',
    async (context) =>
      organizationPage(
        await treeFacts(parts),
        context.req.param('id') ?? '',
        queryWith(context, ['source']).get('source'),
      ),
    '/organizations',
  );
  page('/drill', (context) => {
    queryOfPage(context, ['source']);
    const [mirror, config] = [view.mirror(), view.config()];
    const sources = knownSources(view, mirror);
    const isDrill = ({ name }: { readonly name: string }): boolean => name === 'drill';
    const work = { running: view.running().filter(isDrill), queued: view.queued().filter(isDrill) };
    return drillPage({ mirror, config, sources, work, now: clock.now(), canAct: parts.needsLogin });
  });
  page('/changes', (context) => changes(parts, queryOfPage(context, ['days', 'kind'])));
  page('/runs', (context) => {
    const mirror = view.mirror();
    const query = queryOfPage(context, ['before']);
    const most = Number.MAX_SAFE_INTEGER;
    return runsPage(mirror, {
      before: query.has('before') ? numberIn(query, 'before', most, most) : null,
      sources: knownSources(view, mirror),
      now: clock.now(),
    });
  });
  page(
    '/runs/:run',
    async (context) => {
      queryOfPage(context, ['source']);
      const [mirror, config] = [view.mirror(), view.config()];
      const run = runNamed(mirror, context.req.param('run') ?? '');
      const previous = run.root === null ? null : (previousRun(mirror, run) ?? null);
      const found =
        previous === null
          ? null
          : await changesOf(
              mirror,
              config,
              { run, previous },
              { kinds: CONFIGURED_KINDS, limit: RUN_CHANGES_SHOWN },
            );
      return runPage({ mirror, config, run, changes: found, now: clock.now(), canAct: parts.needsLogin });
    },
    '/runs',
  );
  page('/records', (context) => records(parts, queryOfPage(context, RECORDS_PARAMETERS)));
  page('/records/:kind/:id', (context) => record(parts, context), '/records');
  return dashboard;
}

/** The page of all sources, each with a mirror of its own. */
export function allSourcesPage(
  parts: PageParts,
  context: Context,
  summaries: readonly CellSummary[],
): Response {
  try {
    const content = sourcesPage(summaries, queryWith(context, SOURCES_PARAMETERS), parts.clock.now());
    return answerPage(parts, context, { content, current: '/', isOfAll: true }, 200);
  } catch (error) {
    return refusalPage(parts, context, asRefusal(error));
  }
}

/** What `/restore` shows: a version of a record, or selected findings of drift. */
export async function restoreOf(
  parts: Pick<DashboardParts, 'view' | 'drift' | 'clock' | 'restores'>,
  query: URLSearchParams,
): Promise<RestoreContent> {
  const { view, clock, drift } = parts;
  const [mirror, config, now] = [view.mirror(), view.config(), clock.now()];
  const asked = { query, canApply: parts.restores() !== null };
  const version = query.get('version');
  const [row] =
    version === null ? [] : findRows(parts, kindFrom(query.get('kind') ?? ''), query.get('of') ?? '', '');
  if (version !== null && row !== undefined)
    return await versionPlanPage({ mirror, config, row, reference: version, asked, now });
  const source = knownSources(view, mirror).find((each) => each === query.get('source'));
  if (source !== undefined && query.has(HELD))
    return await heldPlanPage({ mirror, config, selected: query.getAll('record'), asked, now }, source);
  const found = source === undefined ? null : await drift.of(mirror, config, source, now);
  return await restorePage({ mirror, config, drift: found, selected: query.getAll('record'), asked, now });
}

/** Those whose drift counts; what else the mirror holds is only shown. */
function configuredNames(view: DaemonView): string[] {
  return view.config().sources.map(({ name }) => name);
}

async function treeFacts({
  view,
  drift,
  clock,
}: DashboardParts): Promise<Parameters<typeof organizationPage>[0]> {
  const [mirror, config, now] = [view.mirror(), view.config(), clock.now()];
  const sources = knownSources(view, mirror);
  const { drifts, problems } = await drift.ofAll(mirror, config, sources, now);
  const driftUnknown = new Set(problems.map(({ source }) => source));
  const fresh = readFreshness(view, now) ?? [];
  const allowedMs = new Map(fresh.map((each) => [each.source, each.allowedMs]));
  return { mirror, config, sources, drifts, driftUnknown, allowedMs, now };
}

async function changes(
  { view, clock, dayCounts, changes: cache }: DashboardParts,
  query: URLSearchParams,
): Promise<PageContent> {
  const [mirror, config, now] = [view.mirror(), view.config(), clock.now()];
  const [days = 7] = valuesIn(query, 'days', PERIODS.map(String)).map(Number);
  const kind = kindOf(query);
  const sources = knownSources(view, mirror);
  const byDay = await dayCounts.read(mirror, Math.max(days, 7), now, kind);
  const period = { since: { at: isoTime(now - days * DAY_MS) }, until: { at: isoTime(now) } };
  const found = await findChanges(
    mirror,
    config,
    {
      period,
      sources,
      kinds: kind === null ? CONFIGURED_KINDS : [kind],
      limit: CHANGES_SHOWN,
    },
    cache,
  );
  const unread = unreadOfSources(mirror, config, {
    sources,
    filter: kind === null ? {} : { kinds: [kind] },
    period,
    isWithin: (run) => (run.finishedAt ?? run.startedAt) >= period.since.at,
  });
  const hasOthers = sources.length > 1;
  return changesPage({ byDay, mirror, config, found, unread, days, kind, hasOthers, now });
}

async function records({ view, clock }: DashboardParts, query: URLSearchParams): Promise<PageContent> {
  const [mirror, config] = [view.mirror(), view.config()];
  const kind = kindOf(query);
  const sources = knownSources(view, mirror);
  const source = sourceIn(query, sources);
  const text = (query.get('q') ?? '').trim().slice(0, MOST_TEXT);
  const afterText = query.get('after') ?? '';
  const after = kind !== null && /^\d{1,15}$/.test(afterText) ? Number(afterText) : null;
  const [organization, project] = [query.get('organization'), query.get('project')];
  const within: Scope = {
    ...(organization === null ? {} : { organization_id: organization }),
    ...(project === null ? {} : { project_id: project }),
  };
  const place = (of: Kind): RecordPlace => ({
    mirror,
    kind: of,
    source,
    within,
    definitionOf: (name) => definitionsFor(config, name)(of),
  });
  const found: FoundOfKind[] = [];
  const kinds = kind !== null ? [kind] : text === '' ? [] : CATALOG.map((each) => each.kind);
  for (const each of kinds) {
    const limit = kind === null ? FOUND_PER_KIND : PAGE;
    const mostMs = kind === null ? SEARCH_EACH_MS : SEARCH_MS;
    const search = { text, after, clock, limit, mostMs };
    const isSearch = text !== '';
    const page = isSearch ? await searchRecords(place(each), search) : readListPage(place(each), after, PAGE);
    const others =
      isSearch && after === null
        ? [...(await searchRemoved(place(each), search)), ...(await searchFormer(place(each), search))]
        : [];
    const kept = new Set(others.length === 0 ? [] : onePerRecord(mirror, [...page.records, ...others]));
    found.push({ kind: each, page, others: others.filter((other) => kept.has(other)) });
  }
  return recordsPage({ mirror, config, sources, source, kind, within, text, found, isLater: after !== null });
}

/** A record by its number, else by its id; several of that id are offered to choose from. */
function record(parts: DashboardParts, context: Context): PageContent {
  const { view, clock } = parts;
  const [mirror, config] = [view.mirror(), view.config()];
  const query = queryWith(context, RECORD_PARAMETERS);
  const kind = kindFrom(context.req.param('kind') ?? '');
  const sources = knownSources(view, mirror);
  const source = sourceIn(query, sources);
  const rows = findRows(parts, kind, query.get('record') ?? '', context.req.param('id') ?? '', source);
  const [row] = rows;
  if (row === undefined) {
    const unread = unreadLines({ mirror, config, kind, source, sources });
    const { reading, discovery } = definitionOf(kind);
    const waits =
      reading === 'each' &&
      discovery.from !== 'root' &&
      findRows(parts, discovery.from, '', context.req.param('id') ?? '', source).some(
        (each) => !each.isRemoved,
      );
    const what = waits ? 'Record not read yet' : 'Record not found';
    throw new TidemarkError('reference_unknown', [what, ...unread].join('. '), {
      hint: 'search for its name or the beginning of its id under Records',
    });
  }
  if (rows.length > 1) return choicePage(rows, { mirror, config });
  const hasOthers = sources.length > 1;
  return recordPage({ mirror, config, row, hasOthers, query, now: clock.now(), isPoll: isFragment(context) });
}

function findRows(
  { view }: Pick<DashboardParts, 'view'>,
  kind: Kind,
  number: string,
  id: string,
  source: string | null = null,
): RecordRow[] {
  const mirror = view.mirror();
  const known = knownSources(view, mirror);
  const place = /^\d{1,15}$/.test(number) ? mirror.records.locate(kind, Number(number)) : undefined;
  const filter =
    place === undefined
      ? { sources: source === null ? known : [source] }
      : { sources: [place.source], scope: place.scope };
  return mirror.records.find(kind, place?.id ?? id, filter);
}

function kindOf(query: URLSearchParams): Kind | null {
  const text = withOne(query, 'kind').get('kind') ?? '';
  return text === '' ? null : kindFrom(text);
}
