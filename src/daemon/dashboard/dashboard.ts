/** The routes of the dashboard: each page whole, or only its content for a page that is open already. */
import { Hono, type Context } from 'hono';
import { CATALOG, isKind, definitionOf } from '../../catalog/catalog.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { count, plural } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { previousRun } from '../../state/published-run.ts';
import { knownSources, queryOf, runNamed } from '../http/api.ts';
import {
  type ChangesCache,
  CONFIGURED_KINDS,
  changesOf,
  findChanges,
  type FoundChanges,
  type RunChanges,
  type DayCounts,
  type DayOfChanges,
} from '../http/changes.ts';
import type { DriftNow } from '../http/drift-now.ts';
import { lookAtBackups, readHealthSnapshot } from '../http/health-snapshot.ts';
import { kindFrom, type Refusal, asRefusal } from '../http/request.ts';
import type { DaemonView } from '../view.ts';
import { changeArticle, changeChart } from './change-article.ts';
import { driftPage, placeOf } from './drift-page.ts';
import { type PageContent, ICON, mainHtml, PAGE_POLICY, pageHtml } from './frame.ts';
import { markup, type Html, NOTHING, trusted, hintHtml, ageHtml, emptyHtml, nameHtml } from './pieces.ts';
import { overviewPage } from './overview.ts';
import { type RecordPlace, readListPage, searchRecords } from './record-list.ts';
import { choicePage, recordPage } from './record-page.ts';
import { recordsPage } from './records-page.ts';
import { RUN_CHANGES_SHOWN, runPage } from './run-page.ts';
import { runsPage } from './runs-page.ts';

interface DashboardParts {
  readonly view: DaemonView;
  readonly drift: DriftNow;
  readonly changes: ChangesCache;
  readonly dayCounts: DayCounts;
  readonly clock: Clock;
  /** True where a session can be ended. */
  readonly needsLogin: boolean;
}

const PAGE = 50;
/** Of each kind, where all are searched. */
const FOUND_PER_KIND = 10;
/** How long names are searched before the page asks whether to continue: in one kind, and in each of all kinds. */
const SEARCH_MS = 400;
const SEARCH_EACH_MS = 60;
const MOST_TEXT = 200;
const CHART_DAYS = 30;
const DAY_MS = 24 * 60 * 60 * 1000;

type Answer = { readonly content: PageContent; readonly current: string };

export function createDashboard(parts: DashboardParts): Hono {
  const { view, clock } = parts;
  const dashboard = new Hono();
  const page = (
    path: string,
    make: (context: Context) => Promise<PageContent> | PageContent,
    current = path,
  ): void => {
    dashboard.get(path, async (context) => {
      try {
        return answer(parts, context, { content: await make(context), current }, 200);
      } catch (error) {
        const refusal = asRefusal(error);
        // Defects go where all of them go.
        if (refusal.httpStatus === 500) throw error;
        return refusalPage(parts, context, refusal, current);
      }
    });
  };
  dashboard.get('/icon.svg', (context) =>
    context.body(ICON.replace('currentColor', '#1a5ac8'), 200, { 'Content-Type': 'image/svg+xml' }),
  );
  page('/', async () => {
    const shown = await lookAtBackups(view);
    const snapshot = readHealthSnapshot(view, clock.now());
    const { mirror } = snapshot;
    const found = mirror === null ? { drifts: [], problem: [] } : await findDrifts(parts, mirror);
    const days = mirror === null ? [] : await parts.dayCounts.read(mirror, CHART_DAYS, clock.now());
    const { drifts, problem } = found;
    return overviewPage({ view, snapshot, drifts, driftProblem: problem, days, backups: shown });
  });
  page('/drift', async () => {
    const mirror = view.mirror();
    const { drifts, problem } = await findDrifts(parts, mirror);
    return driftPage(mirror, drifts, problem, clock.now());
  });
  page('/changes', (context) => changes(parts, queryOf(context)));
  page('/runs', (context) => {
    const mirror = view.mirror();
    const before = queryOf(context).get('before') ?? '';
    return runsPage(mirror, {
      before: /^\d{1,9}$/.test(before) ? Number(before) : null,
      sources: knownSources(view, mirror),
      now: clock.now(),
    });
  });
  page(
    '/runs/:run',
    async (context) => {
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
      return runPage({ mirror, config, run, changes: found, now: clock.now() });
    },
    '/runs',
  );
  page('/records', (context) => records(parts, queryOf(context)));
  page('/records/:kind/:id', (context) => record(parts, context), '/records');
  return dashboard;
}

/** A refusal as a page of the dashboard, for people. */
export function refusalPage(
  parts: Pick<DashboardParts, 'clock' | 'needsLogin'>,
  context: Context,
  refusal: Refusal,
  current = '/',
): Response {
  return answer(parts, context, { content: problemPage(refusal), current }, refusal.httpStatus as 404);
}

function answer(
  { clock, needsLogin }: Pick<DashboardParts, 'clock' | 'needsLogin'>,
  context: Context,
  { content, current }: Answer,
  status: 200 | 404,
): Response {
  const frame = { now: clock.now(), current, hasSession: needsLogin };
  const isFragment = context.req.header('x-tidemark-fragment') !== undefined;
  const text = isFragment ? mainHtml(content, frame).text : pageHtml(content, frame);
  return context.html(text, status, { 'Content-Security-Policy': PAGE_POLICY });
}

/** Every source's drift, and a line for each whose drift could not be found. */
async function findDrifts(
  { view, drift, clock }: DashboardParts,
  mirror: Mirror,
): Promise<{ readonly drifts: readonly SourceDrift[]; readonly problem: readonly string[] }> {
  const drifts: SourceDrift[] = [];
  const problem: string[] = [];
  const sources = knownSources(view, mirror);
  for (const source of sources) {
    try {
      const found = await drift.of(mirror, view.config(), source, clock.now());
      if (found !== null) drifts.push(found);
    } catch (error) {
      const { message, hint } = asTidemarkError(error);
      problem.push(
        `${sources.length > 1 ? `${source}: ` : ''}${message}${hint === undefined ? '' : `; ${hint.replaceAll('`', '')}`}`,
      );
    }
  }
  return { drifts, problem };
}

async function changes(
  { view, clock, dayCounts, changes: memory }: DashboardParts,
  query: URLSearchParams,
): Promise<PageContent> {
  const [mirror, config, now] = [view.mirror(), view.config(), clock.now()];
  const asked = Number(query.get('days') ?? '7');
  const days = PERIODS.find((each) => each === asked) ?? 7;
  const kind = kindOf(query);
  const sources = knownSources(view, mirror);
  const shown = await dayCounts.read(mirror, Math.max(days, 7), now);
  const period = { from: isoTime(now - days * DAY_MS), to: isoTime(now) };
  const found = await findChanges(
    mirror,
    config,
    {
      ...period,
      sources,
      kinds: kind === null ? CONFIGURED_KINDS : [kind],
      limit: CHANGES_SHOWN,
    },
    memory,
  );
  return changesPage({ shown, mirror, config, found, days, kind, hasOthers: sources.length > 1, now });
}

async function records({ view, clock }: DashboardParts, query: URLSearchParams): Promise<PageContent> {
  const [mirror, config] = [view.mirror(), view.config()];
  const kind = kindOf(query);
  const sources = knownSources(view, mirror);
  const source = sources.find((each) => each === query.get('source')) ?? null;
  const text = (query.get('q') ?? '').trim().slice(0, MOST_TEXT);
  const afterText = query.get('after') ?? '';
  const after = kind !== null && /^\d{1,15}$/.test(afterText) ? Number(afterText) : null;
  const place = (of: Kind): RecordPlace => ({
    mirror,
    kind: of,
    source,
    definitionOf: (name) => definitionsFor(config, name)(of),
  });
  const found: { kind: Kind; page: ReturnType<typeof readListPage> }[] = [];
  const kinds = kind !== null ? [kind] : text === '' ? [] : CATALOG.map((each) => each.kind);
  for (const each of kinds) {
    const search = {
      text,
      after,
      clock,
      limit: kind === null ? FOUND_PER_KIND : PAGE,
      mostMs: kind === null ? SEARCH_EACH_MS : SEARCH_MS,
    };
    found.push({
      kind: each,
      page: text === '' ? readListPage(place(each), after, PAGE) : await searchRecords(place(each), search),
    });
  }
  return recordsPage({ mirror, config, sources, source, kind, text, found, isLater: after !== null });
}

/** A record by its number, else by its id; several of that id are offered to choose from. */
function record({ view, clock }: DashboardParts, context: Context): PageContent {
  const [mirror, config] = [view.mirror(), view.config()];
  const kind = kindFrom(context.req.param('kind') ?? '');
  const number = queryOf(context).get('record') ?? '';
  const place = /^\d{1,15}$/.test(number) ? mirror.records.locate(kind, Number(number)) : undefined;
  const filter =
    place === undefined
      ? { sources: knownSources(view, mirror) }
      : { sources: [place.source], scope: place.scope };
  const rows = mirror.records.find(kind, place?.id ?? context.req.param('id') ?? '', filter);
  const [row] = rows;
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', 'the mirror knows no such record', {
      hint: 'search for its name or the beginning of its id under Records',
    });
  }
  if (rows.length > 1) return choicePage(rows, { mirror, config });
  return recordPage({
    mirror,
    config,
    row,
    hasOthers: knownSources(view, mirror).length > 1,
    now: clock.now(),
  });
}

function kindOf(query: URLSearchParams): Kind | null {
  const text = query.get('kind') ?? '';
  return isKind(text) ? text : null;
}

function problemPage(error: TidemarkError): PageContent {
  return {
    title: 'Problem',
    body: markup`<h1>This cannot be shown</h1><p class="verdict">${error.message}</p>${hintHtml(error.hint ?? null)}`,
  };
}

// What changed lately, run by run, with the fields.

/** Changes that the page shows. */
const CHANGES_SHOWN = 100;
/** Periods to choose from, in days. */
const PERIODS = [1, 7, 30, 90] as const;

interface ChangesFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly found: FoundChanges;
  readonly days: number;
  readonly shown: readonly DayOfChanges[];
  readonly kind: Kind | null;
  readonly hasOthers: boolean;
  readonly now: number;
}

function changesPage(facts: ChangesFacts): PageContent {
  const { found, days, shown } = facts;
  const chart = shown.some(({ added, changed, removed }) => added + changed + removed > 0)
    ? changeChart(shown)
    : NOTHING;
  const nothing =
    found.runs.length === 0
      ? emptyHtml(
          'Nothing changed',
          `in the last ${days === 1 ? 'day' : `${days} days`}${facts.kind === null ? '' : ' of this kind'}.`,
        )
      : NOTHING;
  const body = markup`<h1>Changes</h1><p class="faint">What syncs found otherwise than before, newest first${facts.kind === null ? '; recordings only where they are chosen' : ''}.</p>
${chooser(facts)}${chart}${nothing}${found.runs.map((run) => runHtml(facts, run))}
${found.isCut ? markup`<p class="faint">and more: choose a kind or a shorter period, or <code>tidemark changes</code></p>` : NOTHING}`;
  return { title: 'Changes', body };
}

function chooser({ days, kind }: ChangesFacts): Html {
  const selected = (is: boolean): Html => (is ? trusted(' selected') : NOTHING);
  const periods = PERIODS.map(
    (each) =>
      markup`<option value="${each}"${selected(each === days)}>${each === 1 ? 'the last day' : `the last ${each} days`}</option>`,
  );
  const kinds = KINDS.map(
    (each) =>
      markup`<option value="${each}"${selected(each === kind)}>${definitionOf(each).title.many}</option>`,
  );
  return markup`<form class="search" method="get" action="/changes"><label>Period<select name="days">${periods}</select></label><label>Kind<select name="kind"><option value="">all but recordings</option>${kinds}</select></label><button>Show</button></form>`;
}

function runHtml(
  { mirror, config, hasOthers, now }: ChangesFacts,
  { run, previous, changes, summary }: RunChanges,
): Html {
  const definitions = definitionsFor(config, run.source);
  const parentName = parentNames(mirror, run.source, definitions);
  const heading = markup`<h2><span>Run <a href="/runs/${run.run}">${run.run}</a></span>${hasOthers ? markup` <span class="count">${nameHtml(run.source)}</span>` : NOTHING}<span class="aside faint">${ageHtml(run.finishedAt ?? run.startedAt, now)}</span></h2>`;
  if (changes === null) {
    const counts = `${count(summary.added)} added, ${count(summary.changed)} changed, ${count(summary.removed)} removed`;
    return markup`<section>${heading}${previous === null ? emptyHtml('The first look', `that is kept of ${run.source}: ${plural(summary.added, 'record')}, all new.`) : emptyHtml('Too many to list here:', `${counts}. \`tidemark runs show ${run.run}\` lists them.`)}</section>`;
  }
  const articles = changes.map((change) =>
    changeArticle(change, {
      definition: definitions(change.kind),
      place: placeOf(change.scope, definitions, parentName),
      severity: null,
    }),
  );
  return markup`<section>${heading}${articles}</section>`;
}
