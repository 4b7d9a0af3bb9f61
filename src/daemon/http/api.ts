/** `/api/v1`: the JSON documents of the command line, served by the daemon (docs/http.md). */
import type { HttpBindings } from '@hono/node-server';
import { Hono, type Context } from 'hono';
import { type Clock, realPause } from '../../core/clock.ts';
import { splitTrigger } from '../../core/actor.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { namesOf } from '../../config/mirrors.ts';
import { type JobName, JOB_NAMES } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { driftDocument } from '../../report/drift-document.ts';
import { nameText } from '../../report/value-text.ts';
import { alteredRows, sealedRun } from '../../state/intact.ts';
import { missingRun, nothingPublished } from '../../state/resolved-state.ts';
import { newestRunIfFailed, unreadRestores, withInterrupted } from '../../state/runs.ts';
import { failedRunDocument, runDocument } from '../../state/documents.ts';
import { type LivingFacts, sourceDocuments, sourceSummary } from '../../state/source-documents.ts';
import { hasOtherSources } from '../../state/source-status.ts';
import type { DaemonCells } from '../cells.ts';
import { unknownSource } from '../daemon-view.ts';
import type { DaemonView } from '../view.ts';
import type { ActingToken } from './access.ts';
import type { ChangesCache } from './changes.ts';
import { changesShown, knownSources, runShown } from './changes-document.ts';
import { type AskedJob, jobDocument, progressOf, requestDocument, statusDocument } from './documents.ts';
import type { DriftNow } from '../health/drift-now.ts';
import type { EventStreams } from './events.ts';
import { driftStatus } from '../health/drift-counts.ts';
import { withOwnMirror } from '../health/health.ts';
import { readBackups } from '../health/backup-facts.ts';
import { readHealthSnapshot } from '../health/health-facts.ts';
import {
  asRefusal,
  numberIn,
  queryOf,
  filledQueryWith,
  json,
  sourcesIn,
  Refusal,
  requestText,
  withOne,
} from './request.ts';
import { queueJobs, triggerBody, triggerSync, TriggerRate } from './run-requests.ts';

/** A mirror, and what was computed from it before. */
export interface MirrorPages {
  readonly view: DaemonView;
  readonly drift: DriftNow;
  readonly changes: ChangesCache;
}

interface ApiParts {
  readonly cells: DaemonCells;
  readonly pagesOf: (view: DaemonView) => MirrorPages;
  readonly clock: Clock;
  readonly log: Logger;
  /** Refuses a request that may not start something. */
  readonly checkMayAct: (context: Context) => ActingToken;
  readonly events: EventStreams;
}

const MOST_ROWS = 1_000;
/** The same for all of many mirrors: no more of them are opened than there are rows. */
const MOST_ROWS_OF_ALL = 100;

/** The routes below `/api/v1`. */
export function createApi(parts: ApiParts): Hono {
  const { cells, clock, pagesOf } = parts;
  const api = new Hono();
  const triggers = new TriggerRate(clock);
  api.get('/status', async (context) => {
    const query = filledQueryWith(context, ['source']);
    return json(context, await statusShown(parts, query, clock.now()));
  });
  api.get('/runs', async (context) => {
    const query = filledQueryWith(context, ['limit', 'before', 'source']);
    const isOfAll = isOfAllMirrors(cells, query);
    const limit = numberIn(query, 'limit', 20, isOfAll ? MOST_ROWS_OF_ALL : MOST_ROWS);
    const before = numberIn(query, 'before', Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    // Numbers of runs are those of one mirror.
    const views = query.has('before') ? [viewIn(cells, query)] : viewsIn(cells, query);
    const { rows, errors } = await rowsOf(
      isOfAll ? withNewestRuns(cells, limit, clock.now()) : views,
      (view) => {
        const mirror = view.mirror();
        const known = knownSources(view, mirror);
        // With a mirror per source, `viewsIn` has found the mirror of each source that is named.
        const sources = cells.isPerSource() && views.length > 1 ? known : sourcesIn(query, known);
        return sources.flatMap((source) =>
          withInterrupted(mirror, mirror.runs.list({ source, limit, upTo: before - 1 })),
        );
      },
    );
    const isOne = views.length === 1;
    rows.sort((a, b) => (isOne ? b.run - a.run : newestFirst(a, b)));
    const activity = cells.activity();
    const runs = rows.slice(0, limit).map((run) => runDocument(run, progressOf(activity, run.source)));
    return json(context, { schema: 'tidemark.runs/1', runs, ...withErrors(errors) });
  });
  api.get('/runs/:run', async (context) => {
    const view = viewIn(cells, filledQueryWith(context, cells.isPerSource() ? ['source'] : []));
    const mirror = view.mirror();
    return json(context, await runShown(view, mirror, runNamed(mirror, context.req.param('run'))));
  });
  api.post('/runs', async (context) => {
    const token = parts.checkMayAct(context);
    if (token === 'trigger') {
      triggers.add();
      return json(context, triggerSync(parts, await triggerBody(context)), 202);
    }
    const type = context.req.header('content-type') ?? '';
    if (!/^application\/json\b/i.test(type)) {
      throw new Refusal(415, 'usage', 'the request must be JSON', 'send Content-Type: application/json');
    }
    return json(context, queueJobs(parts, await requestText(context), token), 202);
  });
  api.post('/look', (context) => {
    parts.checkMayAct(context);
    cells.look();
    return context.body(null, 204);
  });
  api.get('/requests/:request', (context) => {
    filledQueryWith(context, []);
    const request = context.req.param('request');
    const status = /^\d{1,15}$/.test(request) ? cells.requested(Number(request)) : null;
    if (status !== null) return json(context, requestDocument(Number(request), status));
    throw new TidemarkError('reference_unknown', `there is no request ${nameText(request)}`, {
      hint: 'requests are known until the daemon stops; GET /api/v1/jobs lists what was done',
    });
  });
  api.get('/events', (context) => {
    filledQueryWith(context, []);
    const { outgoing } = context.env as HttpBindings;
    const headers = { 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' };
    return context.req.raw.method === 'HEAD'
      ? context.body(null, 200, headers)
      : context.body(parts.events.open(outgoing), 200, headers);
  });
  api.get('/jobs', async (context) => {
    const query = filledQueryWith(context, ['limit', 'name', 'source']);
    const isOfAll = isOfAllMirrors(cells, query);
    const limit = numberIn(query, 'limit', 20, isOfAll ? MOST_ROWS_OF_ALL : MOST_ROWS);
    const name = jobNameIn(query);
    const views = isOfAll ? withNewestJobs(cells, name, limit, clock.now()) : viewsIn(cells, query);
    const { rows, errors } = await rowsOf(views, (view) => jobsAsked(view, query, name, cells.isPerSource()));
    if (views.length > 1) rows.sort(newestFirst);
    const jobs = rows.slice(0, limit).map(jobDocument);
    return json(context, { schema: 'tidemark.jobs/1', jobs, ...withErrors(errors) });
  });
  api.get('/changes', async (context) => {
    const query = filledQueryWith(context, ['from', 'to', 'kind', 'source', 'limit']);
    return json(context, await changesShown(pagesOf(viewIn(cells, query)), clock, query));
  });
  api.get('/drift', async (context) => {
    const isOfAll = isOfAllMirrors(cells, queryOf(context));
    const query = filledQueryWith(context, isOfAll ? ['source', 'limit', 'after'] : ['source']);
    if (isOfAll) return json(context, await driftOfAll(cells, pagesOf, clock, query));
    const found: FoundDocuments = { documents: [], errors: [], failures: [], hasBaseline: false };
    for (const view of viewsIn(cells, query)) await addDrift(found, pagesOf(view), clock, query);
    return json(context, driftShown(found));
  });
  return api;
}

/** The mirrors that a request is about: those of its `source`, else all. @throws TidemarkError `usage` */
function viewsIn(cells: DaemonCells, query: URLSearchParams): readonly DaemonView[] {
  const asked = query.getAll('source').filter((source) => source !== '');
  if (!cells.isPerSource() || asked.length === 0) return cells.cells();
  return asked.map((source) => {
    const view = cells.of(source);
    if (view !== null) return view;
    throw unknownSource(
      source,
      cells.config().sources.map(({ name }) => name),
    );
  });
}

/** The one mirror that a request is about. @throws TidemarkError `usage` where it names none of several */
export function viewIn(cells: DaemonCells, query: URLSearchParams): DaemonView {
  const [view, ...more] = viewsIn(cells, query);
  if (view !== undefined && more.length === 0) return view;
  throw new TidemarkError('usage', 'each source has its own mirror: name one source', {
    hint: `add ?source=NAME; there are ${namesOf(cells.config().sources.map(({ name }) => name))}`,
  });
}

/** True for a request about many mirrors that names none of them: it is answered without opening them all. */
function isOfAllMirrors(cells: DaemonCells, query: URLSearchParams): boolean {
  return (
    cells.isPerSource() && cells.cells().length > 1 && query.getAll('source').every((each) => each === '')
  );
}

function sourceNameOf(view: DaemonView): string {
  return view.config().sources[0]?.name ?? '';
}

/** The mirrors that may have the newest rows, by what is known of each: at most as many as there are rows. */
function newestOf(
  cells: DaemonCells,
  limit: number,
  newestAt: (source: string) => string | null,
): readonly DaemonView[] {
  return cells
    .cells()
    .map((view) => ({ view, startedAt: newestAt(sourceNameOf(view)) ?? '' }))
    .filter(({ startedAt }) => startedAt !== '')
    .sort(newestFirst)
    .slice(0, limit)
    .map(({ view }) => view);
}

function withNewestRuns(cells: DaemonCells, limit: number, now: number): readonly DaemonView[] {
  const statuses = new Map(cells.snapshot(now).sourceStatuses.map((status) => [status.source, status]));
  return newestOf(cells, limit, (source) => statuses.get(source)?.lastRun?.startedAt ?? null);
}

function withNewestJobs(
  cells: DaemonCells,
  name: JobName | undefined,
  limit: number,
  now: number,
): readonly DaemonView[] {
  const { lastJobs } = cells.snapshot(now);
  const newest = new Map<string, string>();
  const jobs = [
    ...(name === undefined ? JOB_NAMES : [name]).flatMap((each) => lastJobs.of(each)),
    ...cells.activity().running(),
  ];
  for (const { source, startedAt } of jobs)
    if (source !== null && startedAt > (newest.get(source) ?? '')) newest.set(source, startedAt);
  return newestOf(cells, limit, (source) => newest.get(source) ?? null);
}

/** Mirrors that are read between two turns of the event loop. */
const READ_AT_ONCE = 5;

/** Rows of several mirrors, and which of them could not be read. @throws TidemarkError if the only one could not */
async function rowsOf<Row>(
  views: readonly DaemonView[],
  read: (view: DaemonView) => readonly Row[],
): Promise<{ readonly rows: Row[]; readonly errors: readonly object[] }> {
  const rows: Row[] = [];
  const errors: object[] = [];
  for (const [index, view] of views.entries()) {
    if (index % READ_AT_ONCE === READ_AT_ONCE - 1) await realPause(0);
    try {
      rows.push(...read(view));
    } catch (thrown) {
      if (views.length === 1) throw thrown;
      const { code, message, httpStatus } = asRefusal(thrown, view.config().knownSecrets);
      // A wrong request is wrong for all of them.
      if (httpStatus < 500) throw thrown;
      // A source that was never mirrored has no rows yet.
      if (asTidemarkError(thrown).code !== 'mirror_missing')
        errors.push({ source: sourceNameOf(view), code, message });
    }
  }
  return { rows, errors };
}

function withErrors(errors: readonly object[]): object {
  return errors.length === 0 ? {} : { errors };
}

function newestFirst(a: { readonly startedAt: string }, b: { readonly startedAt: string }): number {
  return a.startedAt < b.startedAt ? 1 : a.startedAt > b.startedAt ? -1 : 0;
}

async function statusShown(
  { cells, pagesOf }: Pick<ApiParts, 'cells' | 'pagesOf'>,
  query: URLSearchParams,
  now: number,
): Promise<object> {
  const views = viewsIn(cells, query);
  const [view] = views;
  if (view !== undefined && views.length === 1) {
    await readBackups(view);
    const { drift } = pagesOf(view);
    // Before the snapshot, which has the damage that this finds.
    const found = await drift.ofView(view, now);
    const snapshot = readHealthSnapshot(view, now, { finder: drift });
    const { mirror, sourceStatuses, lastJobs } = snapshot;
    const hasOthers = hasOtherSources(view.config(), sourceStatuses);
    const asked = sourcesIn(
      query,
      sourceStatuses.map(({ source }) => source),
    );
    const sources =
      mirror === null
        ? []
        : sourceDocuments(
            mirror,
            sourceStatuses.filter(({ source }) => asked.includes(source)),
            { now, hasOthers },
            {
              progressOf: (source) => progressOf(view, source),
              driftOf: (source) => driftStatus(found, lastJobs, source),
            },
          );
    const own = {
      startedAt: view.startedAt,
      mirrorPath: mirror?.path ?? view.config().mirror,
      sources,
      configProblem: () => view.configProblem(),
      schedules: () => view.schedules(),
      stats: () => view.stats(),
      running: () => view.running(),
      queued: () => view.queued(),
    };
    const health = cells.isPerSource() ? withOwnMirror(snapshot.health) : snapshot.health;
    return statusDocument(own, { ...snapshot, health });
  }
  await cells.refreshed();
  const snapshot = cells.snapshot(now);
  const activity = cells.activity();
  const living: LivingFacts = {
    progressOf: (source) => progressOf(activity, source),
    driftOf: (source) => cells.driftOf(source),
  };
  const { rows: sources, errors } = isOfAllMirrors(cells, query)
    ? { rows: snapshot.sourceStatuses.map((status) => sourceSummary(status, true, living)), errors: [] }
    : await rowsOf(views, (each) => {
        const mirror = each.mirror();
        const names = each.config().sources.map(({ name }) => name);
        const statuses = snapshot.sourceStatuses.filter(({ source }) => names.includes(source));
        return sourceDocuments(mirror, statuses, { now, hasOthers: true }, living);
      });
  const status = statusDocument(
    {
      startedAt: cells.startedAt,
      configProblem: () => cells.configProblem(),
      mirrorPath: cells.config().mirrorPath,
      sources,
      schedules: () => views.flatMap((each) => each.schedules()),
      stats: () => views.flatMap((each) => each.stats()),
      ...activity,
    },
    snapshot,
  );
  return { ...status, ...withErrors(errors) };
}

/** The run with a number. @throws TidemarkError `reference_unknown` */
export function runNamed(mirror: Mirror, text: string): RunRow {
  if (!/^\d{1,9}$/.test(text))
    throw new TidemarkError('reference_unknown', `there is no run ${nameText(text)}`, {
      hint: '/runs lists the latest ones, /api/v1/runs does so as JSON',
    });
  const run = mirror.runs.get(Number(text));
  const [shown] = run === undefined ? [] : withInterrupted(mirror, [run]);
  if (shown === undefined) throw missingRun(mirror, Number(text));
  return shown;
}

/** @throws TidemarkError `usage` for an unknown job */
function jobNameIn(query: URLSearchParams): JobName | undefined {
  const asked = query.get('name') ?? '';
  const name = JOB_NAMES.find((each) => each === asked);
  if (asked === '' || name !== undefined) return name;
  throw new TidemarkError('usage', `there is no job ${nameText(asked)}`, {
    hint: `jobs are ${JOB_NAMES.join(', ')}`,
  });
}

/** @param isPerSource true gives jobs about the entire mirror to its one source */
function jobsAsked(
  view: DaemonView,
  query: URLSearchParams,
  name: JobName | undefined,
  isPerSource: boolean,
): AskedJob[] {
  const mirror = view.mirror();
  const source = withOne(query, 'source').get('source') ?? '';
  sourcesIn(query, knownSources(view, mirror));
  const rows = mirror.daemon.jobs({
    ...(name === undefined ? {} : { name }),
    ...(source === '' || isPerSource ? {} : { source }),
    limit: numberIn(query, 'limit', 20, MOST_ROWS),
  });
  const own = isPerSource ? sourceNameOf(view) : null;
  return rows.map((row) => ({ ...row, ...splitTrigger(row.trigger), source: row.source ?? own }));
}

interface FoundDocuments {
  readonly documents: object[];
  readonly errors: object[];
  readonly failures: TidemarkError[];
  hasBaseline: boolean;
}

/** Adds a document for each source of the mirror, as on the command line. */
async function addDrift(
  found: FoundDocuments,
  { view, drift }: MirrorPages,
  clock: Clock,
  query: URLSearchParams,
): Promise<void> {
  const mirror = view.mirror();
  found.hasBaseline ||= mirror.snapshots.baseline() !== undefined;
  let altered: readonly string[] | undefined;
  for (const source of sourcesIn(query, knownSources(view, mirror))) {
    try {
      const own = await drift.of(mirror, view.config(), source, clock.now());
      if (own === null) {
        if (found.hasBaseline && mirror.runs.latest(source) === undefined)
          throw nothingPublished(mirror, { source });
        continue;
      }
      const failed = newestRunIfFailed(mirror, source);
      const failedRun = failed === null ? null : failedRunDocument(failed);
      const restoredSince = unreadRestores(mirror, source)[0]?.restore ?? null;
      altered ??= alteredRows(mirror);
      const head = sealedRun(mirror, own.document.to.run, altered);
      found.documents.push(
        driftDocument(own, { below: 0, showsSecrets: false, failedRun, head, restoredSince }),
      );
    } catch (error) {
      const { code, message } = asTidemarkError(error);
      found.failures.push(asTidemarkError(error));
      found.errors.push({ source, code, message });
    }
  }
}

/**
 * The drift of many mirrors: from memory, how many findings are open in each, and the documents of the first `limit` that have any. `next`
 * is the value of `after` for the following ones.
 */
async function driftOfAll(
  cells: DaemonCells,
  pagesOf: ApiParts['pagesOf'],
  clock: Clock,
  query: URLSearchParams,
): Promise<object> {
  const limit = numberIn(query, 'limit', 20, MOST_ROWS_OF_ALL);
  const { openDrift, unreadable } = cells.known();
  const names = cells.cells().map(sourceNameOf);
  const after = query.get('after') ?? '';
  if (after !== '' && !names.includes(after)) throw unknownSource(after, names);
  const sources = names.map((source) => {
    const severities = openDrift.get(source) ?? null;
    const open = severities === null ? null : Object.values(severities).reduce((sum, each) => sum + each, 0);
    return { source, open, severities };
  });
  const following = sources
    .slice(after === '' ? 0 : names.indexOf(after) + 1)
    .filter(({ open }) => (open ?? 0) > 0);
  const shown = following.slice(0, limit);
  // A mirror that cannot be read may have one.
  const hasBaseline = unreadable > 0 || cells.snapshot(clock.now()).withBaseline.size > 0;
  const found: FoundDocuments = { documents: [], errors: [], failures: [], hasBaseline };
  for (const { source } of shown) {
    const view = cells.of(source);
    if (view !== null) await addDrift(found, pagesOf(view), clock, new URLSearchParams({ source }));
  }
  if (!found.hasBaseline) throw noBaseline();
  const next = following.length > limit ? (shown.at(-1)?.source ?? null) : null;
  return { schema: 'tidemark.reports/1', documents: found.documents, errors: found.errors, sources, next };
}

function driftShown({ documents, errors, failures, hasBaseline }: FoundDocuments): object {
  const [only] = documents;
  const [failure] = failures;
  if (only !== undefined && documents.length === 1 && failure === undefined) return only;
  if (documents.length === 0 && failures.length === 1 && failure !== undefined) throw failure;
  if (!hasBaseline) throw noBaseline();
  return { schema: 'tidemark.reports/1', documents, errors };
}

function noBaseline(): TidemarkError {
  const message = 'no baseline is set: there is nothing to measure drift from';
  return new TidemarkError('reference_unknown', message, {
    hint: 'pin a state and set it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`',
  });
}
