/** The first page: is the copy fresh, complete, verified, restorable; what drifted; what needs manual work. */
import { SEVERITIES } from '../../catalog/severities.ts';
import type { BackupConfig } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { count, plural, duration } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { severityCounts } from '../../report/drift-document.ts';
import type { SourceDrift } from '../../state/drift.ts';
import type { BackupsShown } from '../../backup/work.ts';
import type { BackupManifest } from '../../backup/manifest.ts';
import type { HealthReason } from '../http/health.ts';
import type { HealthSnapshot, SourceStatus } from '../http/health-snapshot.ts';
import { ahead, tookMs, byteSize } from '../http/wording.ts';
import { summaryOf } from '../jobs/summaries.ts';
import type { DaemonView } from '../view.ts';
import { type DriftCounts, answersHtml, verdictHtml } from './answers.ts';
import { changeChart } from './change-article.ts';
import type { DayOfChanges } from '../http/changes.ts';
import { driftArticles } from './drift-page.ts';
import type { PageContent } from './frame.ts';
import {
  type Html,
  markup,
  NOTHING,
  type HtmlPart,
  ageHtml,
  aheadHtml,
  durationHtml,
  emptyHtml,
  nameHtml,
  outcomeTone,
  tableHtml,
  toned,
  hintHtml,
  capital,
} from './pieces.ts';
import { runChart } from './run-page.ts';
import { runsTable } from './runs-page.ts';

const CHART_RUNS = 60;
const TABLE_RUNS = 6;
const FINDINGS_SHOWN = 5;

interface OverviewFacts {
  readonly view: DaemonView;
  readonly snapshot: HealthSnapshot;
  /** For each source with a baseline whose drift could be determined. */
  readonly drifts: readonly SourceDrift[];
  /** Why it could not be, a line each. */
  readonly driftProblem: readonly string[];
  readonly days: readonly DayOfChanges[];
  /** Null where there are none to look for, and while their directory has not answered. */
  readonly backups: BackupsShown | null;
}

export function overviewPage(facts: OverviewFacts): PageContent {
  const { view, snapshot } = facts;
  const { mirror } = snapshot;
  const needs = needsOf(snapshot);
  const counts = driftCounts(facts);
  const verdict = verdictHtml(snapshot, counts, needs.length);
  const body = markup`<div>${verdict}<p class="faint">${summaryLine(view, snapshot)}</p></div>
${answersHtml(snapshot, counts)}
${needsHtml(needs, snapshot.now)}
${mirror === null ? NOTHING : markup`${driftSection(facts, mirror)}${runsSection(mirror, snapshot)}${changesSection(facts)}`}
<div class="two">${freshnessHtml(view, snapshot)}<div>${planSection(view, snapshot)}${backupsSection(view.config().backup, facts.backups, snapshot.now)}</div></div>
${noticesSection(snapshot)}`;
  return {
    title:
      snapshot.health.state === 'failing'
        ? '✕ Failing'
        : needs.length > 0
          ? `(${needs.length}) Overview`
          : 'Overview',
    body,
  };
}

/** From what is compared now; where too much changed for that, from the latest drift job. */
function driftCounts({ snapshot, drifts, driftProblem }: OverviewFacts): DriftCounts | null {
  if (snapshot.mirror?.snapshots.baseline() === undefined) return null;
  const sums = { critical: 0, high: 0, medium: 0, low: 0 };
  const add = (own: Readonly<typeof sums>): void => {
    for (const level of SEVERITIES) sums[level] += own[level];
  };
  for (const { open } of drifts) add(severityCounts(open));
  if (driftProblem.length > 0) {
    const shown = new Set(drifts.map(({ source }) => source));
    for (const job of snapshot.lastJobs.finished('drift')) {
      const summary = summaryOf('drift', job);
      if (summary !== null && !shown.has(job.source ?? '')) add(summary.severities);
    }
  } else if (drifts.length === 0) return null;
  return { open: Object.values(sums).reduce((sum, each) => sum + each, 0), severities: sums, at: null };
}

function summaryLine(view: DaemonView, { sourceStatuses, now }: HealthSnapshot): string {
  const running = view.running();
  const next = view
    .schedules()
    .filter(({ schedule, dueAt }) => schedule === 'sync' && dueAt !== null)
    .map(({ dueAt }) => dueAt ?? '')
    .sort()[0];
  const [first] = running;
  const work =
    first === undefined
      ? next === undefined
        ? 'no sync is scheduled'
        : `next sync ${ahead(next, now)}`
      : `${first.name}${first.source === null ? '' : ` of ${first.source}`} is running${first.progress === null ? '' : `: ${count(first.progress.records)} records so far`}`;
  const records = sourceStatuses.reduce((sum, each) => sum + each.records, 0);
  const sources = view.config().sources.map(({ name }) => name);
  const names = sources.length === 1 ? (sources[0] ?? '') : plural(sources.length, 'source');
  return `${names}, ${plural(records, 'record')}; ${work}.`;
}

function driftSection({ drifts, driftProblem, snapshot }: OverviewFacts, mirror: Mirror): Html {
  const heading = (aside: Html): Html => markup`<h2 id="drift">Drift now${aside}</h2>`;
  if (mirror.snapshots.baseline() === undefined) {
    const hint = snapshot.sourceStatuses.every(({ lastPublished }) => lastPublished === null)
      ? 'Once the first sync is done, pin it as the state that drift is measured from: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.'
      : 'Pin the state that drift is measured from: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.';
    return markup`<section aria-labelledby="drift">${heading(NOTHING)}${emptyHtml('No baseline yet.', hint)}</section>`;
  }
  const open = drifts.reduce((sum, drift) => sum + drift.open.length, 0);
  const problem = driftProblem.map((line) => markup`<p class="plain">${line}</p>`);
  if (open === 0) {
    const nothing =
      driftProblem.length > 0
        ? NOTHING
        : emptyHtml('Nothing drifted.', 'The service is configured as the baseline says.');
    return markup`<section aria-labelledby="drift">${heading(NOTHING)}${problem}${nothing}</section>`;
  }
  const articles = drifts.flatMap((drift) => driftArticles(mirror, drift)).slice(0, FINDINGS_SHOWN);
  return markup`<section aria-labelledby="drift">${heading(markup`<a href="/drift">${open === 1 ? 'the finding' : `all ${count(open)} findings`}</a>`)}${problem}${articles}</section>`;
}

function runsSection(mirror: Mirror, { now, sourceStatuses }: HealthSnapshot): Html {
  const runs = mirror.runs.list({ limit: CHART_RUNS });
  const heading = markup`<h2 id="runs">Runs<a href="/runs">all runs</a></h2>`;
  if (runs.length === 0)
    return markup`<section aria-labelledby="runs">${heading}${emptyHtml('No run yet.', 'The first one starts with the schedule, or now with `tidemark sync`.')}</section>`;
  const hasOthers = sourceStatuses.length > 1;
  return markup`<section aria-labelledby="runs">${heading}${runChart(runs, hasOthers)}<div class="gap"></div>${runsTable(runs.slice(0, TABLE_RUNS), now, hasOthers)}</section>`;
}

function changesSection({ days, snapshot }: OverviewFacts): Html {
  if (snapshot.sourceStatuses.every(({ lastPublished }) => lastPublished === null)) return NOTHING;
  const total = days.reduce((sum, { added, changed, removed }) => sum + added + changed + removed, 0);
  const heading = markup`<h2 id="changes">Changes<a href="/changes">what changed</a></h2>`;
  const content =
    total === 0
      ? emptyHtml('Nothing changed', `in the last ${days.length} days, recordings aside.`)
      : changeChart(days);
  return markup`<section aria-labelledby="changes">${heading}${content}</section>`;
}

function planSection(view: DaemonView, { lastJobs, now }: HealthSnapshot): Html {
  const schedules = view.schedules();
  const due = schedules.map(({ schedule, dueAt, cron, zone, skippedTicks, missedTicks }) => [
    schedule,
    dueAt === null ? markup`<span class="faint">never</span>` : aheadHtml(dueAt, now),
    markup`<span class="faint">${cron}${zone === 'UTC' ? '' : ` ${zone}`}${skippedTicks + missedTicks === 0 ? '' : ` (${skippedTicks} skipped, ${missedTicks} missed)`}</span>`,
  ]);
  const done = (['sync', 'drift', 'verify', 'forget', 'drill', 'backup'] as const).flatMap((name) =>
    lastJobs
      .of(name)
      .map((job) => [
        markup`${name}${job.source === null ? NOTHING : markup` <span class="faint">${nameHtml(job.source)}</span>`}`,
        toned(outcomeTone(job.outcome), job.outcome),
        markup`${ageHtml(job.finishedAt ?? job.startedAt, now)}`,
        durationHtml(tookMs(job)),
      ]),
  );
  const work = view
    .running()
    .map(
      ({ name, source, startedAt }) =>
        markup`<li>${name}${source === null ? '' : ` of ${source}`} since ${ageHtml(startedAt, now)}</li>`,
    );
  const next =
    due.length === 0
      ? emptyHtml('No schedule is on.', 'See `schedules` in the configuration.')
      : tableHtml('Schedules', [{ head: 'What' }, { head: 'Due' }, { head: 'By', style: 'wide' }], due);
  const last =
    done.length === 0
      ? emptyHtml('Nothing done yet.', 'The latest jobs of the daemon appear here.')
      : tableHtml(
          'Latest jobs',
          [
            { head: 'What', style: 'wraps' },
            { head: 'Outcome' },
            { head: 'When' },
            { head: 'Took', style: 'num spare' },
          ],
          done,
        );
  return markup`<section aria-labelledby="plan"><h2 id="plan">What comes next</h2>${next}${work.length === 0 ? NOTHING : markup`<ul class="faint">${work}</ul>`}</section><section aria-labelledby="done"><h2 id="done">What was done last</h2>${last}</section>`;
}

function noticesSection({ pending, now }: HealthSnapshot): Html {
  if (pending.length === 0) return NOTHING;
  const rows = pending
    .slice(0, 20)
    .map(({ channel, attempts, error, about }) => [
      channel,
      about.event.replaceAll('_', ' '),
      ageHtml(about.at, now),
      count(attempts),
      error === null ? NOTHING : markup`<span class="faint">${error}</span>`,
    ]);
  return markup`<section aria-labelledby="notices"><h2 id="notices">Notices on their way</h2>${tableHtml('Notices that are not delivered yet', [{ head: 'Channel' }, { head: 'About' }, { head: 'Since' }, { head: 'Attempts', style: 'num spare' }, { head: 'Problem', style: 'wide below' }], rows)}</section>`;
}

// What asks for a person, worst first, each with what to do.

interface Need extends HealthReason {
  /** Null for what concerns the whole. */
  readonly source: string | null;
}

/** A first sync under way needs no action. */
function needsOf({ health }: HealthSnapshot): Need[] {
  return [
    ...health.reasons.map((reason): Need => ({ ...reason, source: null })),
    ...health.sources.flatMap(({ source, reasons }) =>
      reasons.map((reason): Need => ({ ...reason, source })),
    ),
  ]
    .filter(({ code, hint }) => code !== 'first_sync' || hint !== null)
    .sort((a, b) => rank(a) - rank(b));
}

function needsHtml(needs: readonly Need[], now: number): Html {
  if (needs.length === 0) return NOTHING;
  const items = needs.map(
    ({ source, state, message, since, hint }) =>
      markup`<li class="${state === 'failing' ? 'bad' : 'warn'}"><p><strong>${source === null ? NOTHING : markup`<bdi>${source}</bdi>: `}${message}</strong>${since === null ? NOTHING : markup` <span class="faint">${ageHtml(since, now)}</span>`}</p>${hintHtml(hint)}</li>`,
  );
  return markup`<section aria-labelledby="needs"><h2 id="needs">Needs you</h2><ul class="needs">${items}</ul></section>`;
}

function rank({ state }: Need): number {
  return state === 'failing' ? 0 : 1;
}

// Backups: when the latest was made, how large and how sound it is, and when the next one is due.

/** @param shown null while the directory has not answered */
function backupsSection(backup: BackupConfig | null, shown: BackupsShown | null, now: number): Html {
  return markup`<section aria-labelledby="backups"><h2 id="backups">Backups</h2>${contentOf(backup, shown, now)}</section>`;
}

function contentOf(backup: BackupConfig | null, shown: BackupsShown | null, now: number): Html {
  if (backup === null)
    return emptyHtml(
      'None.',
      'The mirror is on this machine only: set `backup.directory` to have backups made.',
    );
  if (shown === null) return emptyHtml('Not known yet.', 'Their directory has not answered so far.');
  if (shown.problem !== null)
    return markup`<p class="plain">${toned('bad', 'Not readable')}: ${shown.problem}</p>`;
  const [latest] = shown.whole;
  if (latest === undefined)
    return emptyHtml(
      'None yet.',
      `The first one is made after a complete run, then one every ${duration(backup.everyMs)}.`,
    );
  const dueAt = Date.parse(latest.madeAt) + backup.everyMs;
  const facts: readonly (readonly [string, HtmlPart])[] = [
    [
      'Latest',
      markup`${ageHtml(latest.madeAt, now)}, as of <a href="/runs/${latest.run}">run ${latest.run}</a>`,
    ],
    ['Size', `${byteSize(latest.bytes)}${latest.isEncrypted ? ', encrypted' : ''}`],
    ['Verified', verifiedHtml(latest)],
    [
      'Next',
      dueAt <= now
        ? 'after the next complete run'
        : markup`${aheadHtml(isoTime(dueAt), now)}, after a complete run`,
    ],
    ['Kept', markup`${plural(shown.whole.length, 'backup')}${damagedHtml(shown.damaged)}`],
  ];
  return markup`<dl class="facts plain">${facts.map(([name, value]) => markup`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;
}

/** Backups are not read again regularly: what is known is of the time when they were made. */
function verifiedHtml({ manifest }: BackupsShown['whole'][number]): Html {
  // A manifest is read as far as backups need it.
  const { checked }: Partial<BackupManifest> = manifest ?? {};
  const records =
    checked === undefined ? '' : `, ${plural(checked.records, 'record')} and every seal checked`;
  return markup`${toned('good', 'when it was made')}: opened${records}; <code>tidemark backup verify</code> reads it again`;
}

function damagedHtml(damaged: number): Html {
  if (damaged === 0) return NOTHING;
  return markup`, ${toned('bad', `${plural(damaged, 'more is', 'more are')} not whole`)}`;
}

// How fresh and whole the copy is, source by source and kind by kind.

/** Collections that are not whole and named, of each source. */
const UNREAD_SHOWN = 8;

function freshnessHtml(view: DaemonView, snapshot: HealthSnapshot): Html {
  const { sourceStatuses } = snapshot;
  if (sourceStatuses.length === 0) return NOTHING;
  return markup`<section aria-labelledby="copy"><h2 id="copy">The copy<a href="/records">browse the records</a></h2>
${sourceStatuses.map((sourceStatus) => sourceHtml(view, sourceStatus, snapshot, sourceStatuses.length > 1))}</section>`;
}

function sourceHtml(
  view: DaemonView,
  sourceStatus: SourceStatus,
  { now }: HealthSnapshot,
  hasOthers: boolean,
): Html {
  const { source, kinds, lastEnded, isConfigured, unread, unreadCount } = sourceStatus;
  const definitions = definitionsFor(view.config(), source);
  const last =
    lastEnded === null
      ? markup`<span class="faint">no run has ended yet</span>`
      : markup`<a href="/runs/${lastEnded.run}">run ${lastEnded.run}</a> ${toned(outcomeTone(lastEnded.outcome), lastEnded.outcome)} <span class="faint">${ageHtml(lastEnded.finishedAt ?? lastEnded.startedAt, now)}</span>`;
  const heading = markup`<div class="source-name">${hasOthers ? markup`<h3>${nameHtml(source)}</h3>` : NOTHING}${isConfigured ? NOTHING : markup`<span class="faint">no longer configured</span>`}<span>${last}</span></div>`;
  if (kinds.length === 0)
    return markup`${heading}${emptyHtml('Nothing copied yet.', `The first sync fills this; \`tidemark sync\` starts one now.`)}`;
  const rows = kinds.map(({ kind, collections, records, whole, oldestWholeAt }) => {
    const bad = collections - whole;
    return [
      markup`<a href="/records?kind=${kind}${hasOthers ? markup`&source=${encodeURIComponent(source)}` : NOTHING}">${capital(definitions(kind).title.many)}</a>`,
      bad === 0
        ? toned('good', 'whole')
        : toned(
            'warn',
            bad === collections ? 'not whole' : `${count(bad)} of ${count(collections)} not whole`,
          ),
      count(records),
      ageHtml(oldestWholeAt, now),
    ];
  });
  const table = tableHtml(
    `Kinds of ${source}`,
    [
      { head: 'Kind', style: 'wraps' },
      { head: 'State', style: 'wraps' },
      { head: 'Records', style: 'num' },
      { head: 'Last whole', style: 'wraps' },
    ],
    rows,
  );
  const names = unread.slice(0, UNREAD_SHOWN).map(({ kind, scope, outcome, error }) => {
    const where = Object.values(scope).join(', ');
    return markup`<li><strong>${definitions(kind).title.many}</strong>${where === '' ? NOTHING : markup` <span class="id">${where}</span>`}: ${outcome ?? 'never read'}${error === null ? NOTHING : markup`, ${error}`}</li>`;
  });
  const more = unreadCount - names.length;
  return markup`${heading}${table}${names.length === 0 ? NOTHING : markup`<details class="rest" id="unread-${sourceStatus.lastRun?.run ?? 0}"><summary>${plural(unreadCount, 'collection')} not whole</summary><ul class="faint">${names}${more > 0 ? markup`<li>and ${plural(more, 'other')}</li>` : NOTHING}</ul></details>`}`;
}
