/** The routes of the dashboard, and what each page is made from. */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context } from 'hono';
import { CATALOG } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import type { RecordRow } from '../../mirror/records.ts';
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
import { readBackups } from '../health/backup-facts.ts';
import { readHealthSnapshot } from '../health/health-facts.ts';
import { readFreshness } from '../health/freshness.ts';
import {
  asRefusal,
  kindFrom,
  numberIn,
  pageNumberIn,
  queryWith,
  sourceIn,
  valuesIn,
  withOne,
} from '../http/request.ts';
import type { PageRestores } from '../http/restores.ts';
import { unreadOfSources } from '../../state/unread-in-period.ts';
import type { CellSummary } from '../cell-status.ts';
import type { DaemonView } from '../view.ts';
import { auditCsvStream, auditPage } from './audit.ts';
import { CHANGES_SHOWN, changesPage, PERIODS } from './changes.ts';
import { driftFilter } from './drift-filter.ts';
import { driftPage } from './drift.ts';
import { KEEP_ACCEPTED, WITH_CHILDREN } from './restore-selection.ts';
import { drillPage } from './drill.ts';
import { HELD, heldSection } from './held.ts';
import {
  answerPage,
  isFragment,
  type PageContent,
  type PageFacts,
  type PageParts,
  refusalPage,
} from './layout.ts';
import { organizationPage, organizationsPage, type TreeFacts } from './organizations.ts';
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
import { type FoundOfKind, readOneByOneFrom, recordsPage, unreadLines } from './records.ts';
import { heldPlanPage, type RestoreContent, restorePage, versionPlanPage } from './restore-plan.ts';
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
  readonly source: () => string | null;
}

const DRIFT_PARAMETERS = ['severity', 'change', 'kind', 'source', 'q', 'accepted'];
const AUDIT_PARAMETERS = ['since', 'until', 'by', 'action', 'source'];
const RECORDS_PARAMETERS = ['kind', 'source', 'organization', 'project', 'q', 'after'];
const RECORD_PARAMETERS = ['record', 'left', 'right', 'lines', 'source'];
const SOURCES_PARAMETERS = ['q', 'group', 'only', 'by', 'sort', 'page'];
const RESTORE_PARAMETERS = ['source', 'record', 'kind', 'of', 'version', HELD, KEEP_ACCEPTED, WITH_CHILDREN];
const PAGE = 50;
/** Records found of each kind, where all kinds are searched. */
const FOUND_PER_KIND = 10;
/** How long names are searched before the page offers to continue: in the one kind asked for, or in each of all. */
const SEARCH_MS = 400;
const SEARCH_EACH_MS = 60;
const MOST_TEXT = 200;
const CHART_DAYS = 30;
const DAY_MS = 24 * 60 * 60 * 1000;

export function createDashboard(parts: DashboardParts): Hono {
  const { view, clock, restores } = parts;
  const dashboard = new Hono();
  const facts = (): PageFacts => ({ ...factsOf(parts), canAct: parts.needsLogin });
  const refusedPage = (context: Context, error: unknown, current: string): Response => {
    const refusal = asRefusal(error, view.config().knownSecrets);
    // The application logs defects.
    if (refusal.httpStatus === 500) throw error;
    return refusalPage(parts, context, refusal, current);
  };
  // With a mirror for each source, `source` says whose page it is.
  const queryOf = (context: Context, known: readonly string[]): URLSearchParams => {
    const query = queryWith(context, known.includes('source') ? known : [...known, 'source']);
    if (known.includes('source') || parts.source() !== null) return query;
    if (sourceIn(query, knownSources(view, view.mirror())) === null) return query;
    throw new TidemarkError('usage', 'this page is always of all sources', { hint: 'leave out source' });
  };
  const page = (
    path: string,
    parameters: readonly string[],
    make: (query: URLSearchParams, context: Context) => Promise<PageContent> | PageContent,
    current = path,
  ): void => {
    dashboard.get(path, async (context) => {
      try {
        const content = await make(queryOf(context, parameters), context);
        return answerPage(parts, context, { content, current }, 200);
      } catch (error) {
        return refusedPage(context, error, current);
      }
    });
  };
  page('/', ['source'], async () => {
    const backups = await readBackups(view);
    // Before the snapshot, which has the damage that this finds.
    const found = await parts.drift.ofView(view, clock.now());
    const snapshot = readHealthSnapshot(view, clock.now(), { finder: parts.drift });
    const { mirror } = snapshot;
    const days = mirror === null ? [] : await parts.dayCounts.read(mirror, CHART_DAYS, clock.now());
    return overviewPage({ view, snapshot, found, days, backups, canAct: parts.needsLogin });
  });
  page('/drift', DRIFT_PARAMETERS, async (query) => {
    // Only configured sources can drift.
    const own = { ...facts(), sources: configuredNames(view.config()) };
    const { mirror, config, sources, now } = own;
    const filter = driftFilter(query, sources);
    const found = await parts.drift.ofAll(mirror, config, sources, now);
    const held = heldSection(mirror, config, {
      sources: filter.source === null ? sources : [filter.source],
      most: HELD_SHOWN,
      canSelect: true,
    });
    return driftPage(own, found, filter, held);
  });
  page('/restore', RESTORE_PARAMETERS, async (query) => (await restoreOf(parts, query)).content, '/drift');
  page('/restores', ['source'], () => restoresPage(facts(), restores()?.all() ?? []));
  page(
    '/restores/:restore',
    ['source'],
    (_query, context) => journalPage(facts(), context.req.param('restore') ?? ''),
    '/restores',
  );
  page(
    '/restores/plans/:plan',
    ['source'],
    (_query, context) => {
      const planned = restores()?.get(context.req.param('plan') ?? '');
      if (planned !== undefined) return plannedRestorePage(planned, facts());
      throw new TidemarkError('not_found', 'Plan not found', {
        hint: 'plans are kept until the daemon ends',
      });
    },
    '/restores',
  );
  const searches = new AuditSearchCache();
  page('/audit', AUDIT_PARAMETERS, (query) => auditPage(facts(), query, searches));
  dashboard.get('/audit.csv', async (context) => {
    try {
      const stream = await auditCsvStream(facts(), queryOf(context, AUDIT_PARAMETERS), {
        openReader: () => view.openReader(),
        onFailure: (error) => {
          parts.log.error({ err: error, path: '/audit.csv' }, 'a download could not be completed');
          // The client sees that the file is cut off.
          (context.env as HttpBindings).outgoing.destroy();
        },
      });
      return context.body(stream, 200, {
        'Content-Type': 'text/csv; charset=utf-8',
        'Content-Disposition': 'attachment; filename="audit.csv"',
      });
    } catch (error) {
      return refusedPage(context, error, '/audit');
    }
  });
  page('/organizations', ['page', 'source'], async (query) =>
    organizationsPage(await treeFacts(parts, facts()), pageNumberIn(query)),
  );
  page(
    '/organizations/:id',
    ['source'],
    async (query, context) =>
      organizationPage(await treeFacts(parts, facts()), context.req.param('id') ?? '', query.get('source')),
    '/organizations',
  );
  page('/drill', ['source'], () => {
    const isDrill = ({ name }: { readonly name: string }): boolean => name === 'drill';
    const work = { running: view.running().filter(isDrill), queued: view.queued().filter(isDrill) };
    return drillPage({ ...facts(), work });
  });
  page('/changes', ['days', 'kind'], (query) => changes(parts, facts(), query));
  page('/runs', ['before'], (query) => {
    const most = Number.MAX_SAFE_INTEGER;
    return runsPage(facts(), query.has('before') ? numberIn(query, 'before', most, most) : null);
  });
  page(
    '/runs/:run',
    ['source'],
    async (_query, context) => {
      const own = facts();
      const run = runNamed(own.mirror, context.req.param('run') ?? '');
      const asked = { kinds: CONFIGURED_KINDS, limit: RUN_CHANGES_SHOWN };
      return runPage({ ...own, run, changes: await changesOf(own.mirror, own.config, run, asked) });
    },
    '/runs',
  );
  page('/records', RECORDS_PARAMETERS, (query) => records(parts, facts(), query));
  page(
    '/records/:kind/:id',
    RECORD_PARAMETERS,
    (query, context) => record(facts(), query, context),
    '/records',
  );
  return dashboard;
}

function factsOf({ view, clock }: Pick<DashboardParts, 'view' | 'clock'>): Omit<PageFacts, 'canAct'> {
  const mirror = view.mirror();
  return { mirror, config: view.config(), sources: knownSources(view, mirror), now: clock.now() };
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

/** What `/restore` shows: the plan of a version of a record, of held removals, or of selected findings of drift. */
export async function restoreOf(
  parts: Pick<DashboardParts, 'view' | 'drift' | 'clock' | 'restores'>,
  query: URLSearchParams,
): Promise<RestoreContent> {
  const { mirror, config, sources, now } = factsOf(parts);
  const facts = { mirror, config, now, asked: { query, canApply: parts.restores() !== null } };
  const reference = query.get('version');
  if (reference !== null) {
    const kind = kindFrom(query.get('kind') ?? '');
    const [row] = findRows({ mirror, sources }, kind, query.get('of') ?? '', '');
    if (row !== undefined) return await versionPlanPage({ ...facts, row, reference });
  }
  const source = sources.find((each) => each === query.get('source'));
  const selected = query.getAll('record');
  if (source !== undefined && query.has(HELD)) return await heldPlanPage({ ...facts, selected }, source);
  const drift = source === undefined ? null : await parts.drift.of(mirror, config, source, now);
  return await restorePage({ ...facts, drift, selected });
}

function configuredNames({ sources }: Config): string[] {
  return sources.map(({ name }) => name);
}

async function treeFacts(
  { view, drift }: DashboardParts,
  { mirror, config, sources, now }: PageFacts,
): Promise<TreeFacts> {
  const { drifts, problems } = await drift.ofAll(mirror, config, sources, now);
  const driftUnknown = new Set(problems.map(({ source }) => source));
  const fresh = readFreshness(view, now) ?? [];
  const allowedMs = new Map(fresh.map((each) => [each.source, each.allowedMs]));
  return { mirror, config, sources, drifts, driftUnknown, allowedMs, now };
}

async function changes(
  { dayCounts, changes: cache }: DashboardParts,
  facts: PageFacts,
  query: URLSearchParams,
): Promise<PageContent> {
  const { mirror, config, sources, now } = facts;
  const [days = 7] = valuesIn(query, 'days', PERIODS.map(String)).map(Number);
  const kind = kindOf(query);
  const byDay = await dayCounts.read(mirror, Math.max(days, 7), now, kind);
  const period = { since: { at: isoTime(now - days * DAY_MS) }, until: { at: isoTime(now) } };
  const kinds = kind === null ? CONFIGURED_KINDS : [kind];
  const found = await findChanges(mirror, config, { period, sources, kinds, limit: CHANGES_SHOWN }, cache);
  const unread = unreadOfSources(mirror, config, {
    sources,
    filter: kind === null ? {} : { kinds: [kind] },
    period,
    isWithin: (run) => (run.finishedAt ?? run.startedAt) >= period.since.at,
  });
  return changesPage({ ...facts, byDay, found, unread, days, kind });
}

async function records(
  { clock }: DashboardParts,
  { mirror, config, sources }: PageFacts,
  query: URLSearchParams,
): Promise<PageContent> {
  const kind = kindOf(query);
  const source = sourceIn(query, sources);
  const text = (query.get('q') ?? '').trim().slice(0, MOST_TEXT);
  const afterText = query.get('after') ?? '';
  const after = kind !== null && /^\d{1,15}$/.test(afterText) ? Number(afterText) : null;
  const [organization, project] = [query.get('organization'), query.get('project')];
  const within: Scope = {
    ...(organization === null ? {} : { organization_id: organization }),
    ...(project === null ? {} : { project_id: project }),
  };
  const [limit, mostMs] = kind === null ? [FOUND_PER_KIND, SEARCH_EACH_MS] : [PAGE, SEARCH_MS];
  const search = { text, after, clock, limit, mostMs };
  const found: FoundOfKind[] = [];
  const kinds = kind !== null ? [kind] : text === '' ? [] : CATALOG.map((each) => each.kind);
  for (const each of kinds) {
    const place: RecordPlace = {
      ...{ mirror, kind: each, source, within },
      definitionOf: (name) => definitionsFor(config, name)(each),
    };
    const page = text === '' ? readListPage(place, after, PAGE) : await searchRecords(place, search);
    const others =
      text === '' || after !== null
        ? []
        : [...(await searchRemoved(place, search)), ...(await searchFormer(place, search))];
    const kept = new Set(others.length === 0 ? [] : onePerRecord(mirror, [...page.records, ...others]));
    found.push({ kind: each, page, others: others.filter((other) => kept.has(other)) });
  }
  return recordsPage({ mirror, config, sources, source, kind, within, text, found, isLater: after !== null });
}

/** A record by its number, else by its id; if several have that id, they are offered to choose from. */
function record(facts: PageFacts, query: URLSearchParams, context: Context): PageContent {
  const { mirror, config, sources } = facts;
  const kind = kindFrom(context.req.param('kind') ?? '');
  const id = context.req.param('id') ?? '';
  const source = sourceIn(query, sources);
  const [row, ...others] = findRows(facts, kind, query.get('record') ?? '', id, source);
  if (row === undefined) {
    const unread = unreadLines({ mirror, config, kind, source, sources });
    const from = readOneByOneFrom(kind);
    const isWaiting = from !== null && findRows(facts, from, '', id, source).some((each) => !each.isRemoved);
    const what = isWaiting ? 'Record not read yet' : 'Record not found';
    throw new TidemarkError('reference_unknown', [what, ...unread].join('. '), {
      hint: 'search for its name or the beginning of its id under Records',
    });
  }
  if (others.length > 0) return choicePage([row, ...others], facts);
  return recordPage({ ...facts, row, query, isPoll: isFragment(context) });
}

function findRows(
  { mirror, sources }: Pick<PageFacts, 'mirror' | 'sources'>,
  kind: Kind,
  number: string,
  id: string,
  source: string | null = null,
): RecordRow[] {
  const place = /^\d{1,15}$/.test(number) ? mirror.records.locate(kind, Number(number)) : undefined;
  const filter =
    place === undefined
      ? { sources: source === null ? sources : [source] }
      : { sources: [place.source], scope: place.scope };
  return mirror.records.find(kind, place?.id ?? id, filter);
}

function kindOf(query: URLSearchParams): Kind | null {
  const text = withOne(query, 'kind').get('kind') ?? '';
  return text === '' ? null : kindFrom(text);
}
