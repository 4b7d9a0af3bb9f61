/** The first page: is the backup fresh, complete, verified, restorable; what drifted; what needs manual work. */
import { CONTRADICTING_HINT, contradictingText } from '../../backup/chain.ts';
import type { BackupManifest } from '../../backup/manifest.ts';
import { type BackupsShown, othersText } from '../../backup/known-backups.ts';
import { mirrorDiskText } from '../../backup/mirror-disk.ts';
import type { BackupConfig } from '../../config/config.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import { ownerOf } from '../../config/mirrors.ts';
import { definitionsFor } from '../../config/source.ts';
import { isoTime } from '../../core/clock.ts';
import { byteSize, formatInteger, plural } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { listedTwiceText, type SourceStatus } from '../../state/source-status.ts';
import { unaskedLines } from '../../state/unasked.ts';
import { type DayOfChanges, totalOf } from '../http/changes.ts';
import { keptText, limitHolderText } from '../health/waits.ts';
import { worst } from '../health/health.ts';
import { type DriftCounts, type FoundDrifts, driftCounts } from '../health/drift-counts.ts';
import {
  type AttentionReason,
  configuredOf,
  fiveAnswers,
  heldCount,
  isUnreadable,
  leftSourcesText,
  needsOf,
  sinceOf,
  sinceWords,
  verdictText,
} from '../health/status-answers.ts';
import type { HealthSnapshot } from '../health/health-facts.ts';
import { ahead, backupInterval, dueTimePrefix, runningRestoreText } from '../http/wording.ts';
import type { DaemonView, RunningJob } from '../view.ts';
import { jobForm } from './actions.ts';
import { changeChart } from './charts.ts';
import { capital } from '../../report/document.ts';
import {
  ageHtml,
  attemptText,
  aheadHtml,
  badge,
  collectionState,
  emptyHtml,
  factsHtml,
  faint,
  hintHtml,
  nameHtml,
  nothingCopiedHtml,
  outcomeBadge,
  section,
  tableHtml,
  withCommands,
} from './components.ts';
import { leftOutHtml, NO_BASELINE, noDriftHtml, unreadRestoreHtml, worstArticles } from './drift-records.ts';
import { heldSection } from './held.ts';
import { jobsSection } from './latest-jobs.ts';
import { clockTime, type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent } from './layout.ts';
import { latestRuns } from './runs.ts';

type JobProgress = NonNullable<RunningJob['progress']>;

const TABLE_RUNS = 6;
const FINDINGS_SHOWN = 5;
const NOTICES_SHOWN = 20;

interface OverviewFacts {
  readonly view: DaemonView;
  readonly snapshot: HealthSnapshot;
  readonly found: FoundDrifts;
  readonly days: readonly DayOfChanges[];
  /** Null without targets, and while no target has answered. */
  readonly backups: BackupsShown | null;
  /** True for a person who is logged in. */
  readonly canAct: boolean;
}

export function overviewPage(facts: OverviewFacts): PageContent {
  const { view, snapshot, canAct } = facts;
  const { mirror, now } = snapshot;
  const needs = needsOf(snapshot);
  const counts = driftCounts(snapshot, facts.found);
  const body = markup`<div>${verdictHtml(snapshot, counts, needs.length)}
<p class="faint">${summaryLine(view, snapshot)}</p>${canAct ? buttonsHtml() : NOTHING}</div>
${answersHtml(snapshot, counts)}
${activitySection(view, snapshot)}${needsHtml(needs, now)}
${mirror === null ? NOTHING : historyHtml(facts, mirror)}
<div class="two">${kindsSection(view, snapshot)}
<div>${scheduleSection(view, snapshot)}${jobsSection(snapshot, ownerOf(view.config()))}
${backupsSection(view.config().backup, facts.backups, now)}</div></div>
${noticesSection(snapshot)}`;
  const open = needs.length > 0 ? `(${needs.length}) Overview` : 'Overview';
  const isWorking = view.running().length + view.queued().length + snapshot.restoring.length > 0;
  return { title: snapshot.health.state === 'failing' ? '✕ Failing' : open, body, isWorking };
}

/** What needs the mirror: drift, runs and changes. */
function historyHtml(facts: OverviewFacts, mirror: Mirror): HtmlPart {
  const { view, snapshot } = facts;
  const sources = snapshot.sourceStatuses.map(({ source }) => source);
  const runs = latestRuns({ mirror, sources, now: snapshot.now }, TABLE_RUNS);
  return [
    heldSection(mirror, view.config(), {
      sources: configuredOf(snapshot).map(({ source }) => source),
      most: FINDINGS_SHOWN,
      aside: markup`<a href="/drift">all of them</a>`,
    }),
    driftSection(facts, mirror),
    section('runs', ['Runs', markup`<a href="/runs">all runs</a>`], runs),
    changesSection(facts),
  ];
}

function buttonsHtml(): Html {
  const forms = [
    jobForm('sync', '/', 'Sync now'),
    jobForm('verify', '/', 'Verify'),
    jobForm('drill', '/', 'Run a restore drill'),
  ];
  return markup`<div class="actions">${forms}</div>`;
}

function summaryLine(view: DaemonView, snapshot: HealthSnapshot): string {
  const records = configuredOf(snapshot).reduce((sum, each) => sum + each.records, 0);
  const [first, ...others] = view.config().sources.map(({ name }) => name);
  const names = others.length === 0 ? (first ?? '') : plural(others.length + 1, 'source');
  const held = isUnreadable(snapshot) ? 'the mirror cannot be read' : plural(records, 'record');
  const left = leftSourcesText(snapshot);
  return `${names}, ${held}; ${workText(view, snapshot.now)}.${left === null ? '' : ` ${capital(left)}.`}`;
}

function workText(view: DaemonView, now: number): string {
  const [job] = view.running();
  if (job !== undefined) {
    return `${job.name}${job.source === null ? '' : ` of ${job.source}`} is running`;
  }
  const [queued] = view.queued();
  if (queued !== undefined)
    return `${queued.name} is waiting for ${queued.waitsFor === undefined ? 'its turn' : limitHolderText(queued.waitsFor)}`;
  const next = view
    .schedules()
    .flatMap(({ schedule, dueAt }) => (schedule === 'sync' && dueAt !== null ? [dueAt] : []))
    .sort()[0];
  return next === undefined ? 'no sync is scheduled' : `next sync ${ahead(next, now)}`;
}

/** The running jobs, kind by kind, and the waiting ones; the script keeps the numbers current. */
function activitySection(view: DaemonView, { restoring, now }: HealthSnapshot): HtmlPart {
  const restores = restoring.map((each) => {
    const of = view.config().sources.length > 1 ? markup` (${nameHtml(each.source)})` : NOTHING;
    return markup`<p><strong>${capital(runningRestoreText(each, now))}</strong>${of}, <a href="/restores/${each.restore}">journal</a></p>`;
  });
  const running = view.running().map((job) => {
    const { name, source, startedAt, progress } = job;
    const of = source === null ? NOTHING : markup` of ${nameHtml(source)}`;
    const work = progress === null ? NOTHING : progressHtml(job, progress);
    return markup`<p><strong>${capital(name)}</strong>${of}, started ${ageHtml(startedAt, now)}${keptText(job)}</p>${work}`;
  });
  const waiting = view.queued().map(({ name, source, waitsFor }) => {
    const of = source === null ? '' : ` of ${source}`;
    const what = waitsFor === undefined ? '' : ` for ${limitHolderText(waitsFor)}`;
    return markup`<li>${name}${of} is waiting${what}</li>`;
  });
  if (running.length === 0 && waiting.length === 0 && restores.length === 0) return NOTHING;
  return section('activity', 'Running now', restores, running, markup`<ul class="faint">${waiting}</ul>`);
}

function progressHtml(
  { job }: RunningJob,
  { records, pages, requests, isLocal, waitingUntil, kinds }: JobProgress,
): HtmlPart {
  const counter = (of: string, value: number): Html =>
    markup`<span data-count="${job}/${of}">${formatInteger(value)}</span>`;
  const wait =
    waitingUntil === null
      ? NOTHING
      : markup`; no requests until ${clockTime(isoTime(waitingUntil), 19)} (rate limit)`;
  const sums = markup`<p class="faint">${counter('records', records)} records in ${counter('pages', pages)} pages, ${counter('requests', requests)} requests${isLocal ? '; publishing' : ''}<span data-wait="${job}">${wait}</span></p>`;
  if (kinds.length === 0) return sums;
  const rows = kinds.map(({ kind, records: read, expected, lists, failed, pending }) => {
    const title = capital(definitionOf(kind).title.many);
    const ended =
      lists + pending === failed ? 'failed' : `${formatInteger(failed)} of ${plural(lists, 'list')} failed`;
    const value = expected ?? (pending === 0 ? 1 : null);
    const range =
      value === null ? NOTHING : markup` value="${Math.min(read, value)}" max="${Math.max(value, 1)}"`;
    const isRead = pending === 0 && failed === 0;
    const more = failed === 0 ? '' : `, ${formatInteger(failed)} failed`;
    // On a phone, the column with the lists is left out.
    const warning = failed === 0 ? NOTHING : markup` <span class="phone">${badge('bad', 'failed')}</span>`;
    return [
      markup`${title}${warning}`,
      markup`<progress data-bar="${job}/${kind}" aria-label="${title}"${isRead ? markup` value="1" max="1"` : range}></progress>`,
      markup`${counter(kind, read)}${expected === null || isRead ? '' : ` of ${formatInteger(expected)}`}`,
      pending === 0
        ? badge(isRead ? 'good' : 'bad', isRead ? 'read' : ended)
        : faint(`${formatInteger(lists)} of ${plural(lists + pending, 'list')}${more}`),
    ];
  });
  const columns = [
    { head: 'Kind', style: 'wraps' },
    { head: 'Progress' },
    { head: 'Records', style: 'num' },
    { head: 'Lists', style: 'spare' },
  ];
  return [sums, tableHtml('Progress by kind', columns, rows)];
}

function driftSection({ found, snapshot }: OverviewFacts, mirror: Mirror): Html {
  const { drifts, problems: unknown } = found;
  if (mirror.snapshots.baseline() === undefined) {
    const isFirst = configuredOf(snapshot).every(({ lastPublished }) => lastPublished === null);
    const hint = isFirst ? `After the first sync: ${NO_BASELINE}` : NO_BASELINE;
    return section('drift', 'Drift', emptyHtml('No baseline yet.', hint));
  }
  const open = drifts.reduce((sum, drift) => sum + drift.open.length, 0);
  const restored = configuredOf(snapshot).map((each) => unreadRestoreHtml(each.unreadRestore));
  const problems = [
    ...restored,
    ...unknown.map(({ line }) => markup`<p class="plain">${withCommands(line)}</p>`),
  ];
  if (open === 0) {
    const [drift] = drifts;
    const none =
      drift === undefined || unknown.length > 0
        ? NOTHING
        : markup`${noDriftHtml(drift, snapshot.now, heldCount(snapshot))}${drifts.map(leftOutHtml)}`;
    return section('drift', 'Drift', problems, none);
  }
  const link = markup`<a href="/drift">${open === 1 ? 'the finding' : `all ${formatInteger(open)} findings`}</a>`;
  const articles = worstArticles(mirror, drifts, FINDINGS_SHOWN);
  return section('drift', ['Drift', link], problems, articles);
}

function changesSection({ days, snapshot }: OverviewFacts): Html {
  if (snapshot.sourceStatuses.every(({ lastPublished }) => lastPublished === null)) return NOTHING;
  const isQuiet = days.every((day) => totalOf(day) === 0);
  const content = isQuiet
    ? emptyHtml('Nothing changed', `in the last ${days.length} days, recordings aside.`)
    : changeChart(days);
  return section('changes', ['Changes', markup`<a href="/changes">what changed</a>`], content);
}

function scheduleSection(view: DaemonView, { now, withBaseline }: HealthSnapshot): Html {
  const schedules = view.schedules();
  const rows = schedules.map((each) => {
    const { schedule, dueAt, cron, zone, skippedTicks, missedTicks } = each;
    const lost = skippedTicks + missedTicks === 0 ? '' : ` (${skippedTicks} skipped, ${missedTicks} missed)`;
    return [
      schedule,
      dueAt === null
        ? faint('not configured')
        : markup`${dueTimePrefix(each, schedules, withBaseline)}${aheadHtml(dueAt, now)}`,
      faint(`${cron}${zone === 'UTC' ? '' : ` ${zone}`}${lost}`),
    ];
  });
  const columns = [{ head: 'What' }, { head: 'Due', style: 'wraps' }, { head: 'Cron', style: 'wide' }];
  const content =
    rows.length === 0
      ? emptyHtml('No schedule is on.', 'See `schedules` in the configuration.')
      : tableHtml('Schedules', columns, rows);
  return section('plan', 'Scheduled', content);
}

function noticesSection({ pending, now }: HealthSnapshot): Html {
  if (pending.length === 0) return NOTHING;
  const rows = pending
    .slice(0, NOTICES_SHOWN)
    .map(({ channel, attempts, error, about }) => [
      channel,
      about.event.replaceAll('_', ' '),
      ageHtml(about.at, now),
      formatInteger(attempts),
      error === null ? NOTHING : faint(error),
    ]);
  const columns = [
    { head: 'Channel' },
    { head: 'About' },
    { head: 'Since' },
    { head: 'Attempts', style: 'num spare' },
    { head: 'Problem', style: 'wide below' },
  ];
  const table = tableHtml('Notices that are not delivered yet', columns, rows);
  return section('notices', 'Notices on their way', table);
}

function needsHtml(needs: readonly AttentionReason[], now: number): Html {
  if (needs.length === 0) return NOTHING;
  const items = needs.map((need) => {
    const { source, state, message, hint } = need;
    const since = sinceOf(need);
    const name = source === null ? NOTHING : markup`${nameHtml(source)}: `;
    const [before, after] = message.endsWith('?') ? [' (', ')'] : [', ', ''];
    const when = since === null ? NOTHING : faint(`${before}${sinceWords(need)}`, ageHtml(since, now), after);
    return markup`<li class="${state === 'failing' ? 'bad' : 'warn'}">
<p><strong>${name}${message}</strong>${when}</p>${hintHtml(hint)}</li>`;
  });
  return section('needs', 'Needs you', markup`<ul class="needs">${items}</ul>`);
}

/** The latest backup, its size and verification, and when the next one is due. @param shown null while no target has answered */
function backupsSection(backup: BackupConfig | null, shown: BackupsShown | null, now: number): Html {
  const others = shown === null ? null : othersText(shown);
  const more =
    others === null
      ? NOTHING
      : markup`<p class="plain">${others}: <code>tidemark backup list</code> names them</p>`;
  const unlike = contradictingText(shown?.contradicting ?? []);
  const kept =
    unlike === null
      ? NOTHING
      : markup`<p class="plain">${badge('bad', 'Not in the chain')}: ${withCommands(`${unlike}; ${CONTRADICTING_HINT}`)}</p>`;
  return section('backups', 'Backups', backupsHtml(backup, shown, now), kept, more);
}

function backupsHtml(backup: BackupConfig | null, shown: BackupsShown | null, now: number): Html {
  if (backup === null)
    return emptyHtml('None.', 'The mirror is on this machine only: set `backup.targets` for backups.');
  if (shown === null) return emptyHtml('Not known yet.', 'No target has answered so far.');
  const [latest] = shown.whole;
  const unread =
    shown.problems.length === 0
      ? NOTHING
      : markup`<p class="plain">${badge('bad', 'Not readable')}: ${shown.problems.join('; ')}</p>`;
  const disk =
    shown.onMirrorDisk.length === 0
      ? NOTHING
      : markup`<p class="plain">${badge('warn', 'Same disk')}: ${mirrorDiskText(shown.onMirrorDisk)}</p>`;
  if (latest === undefined && shown.problems.length > 0) return markup`${unread}${disk}`;
  if (latest === undefined && shown.emptied.length > 0) {
    const gone = `${shown.emptied.join(', ')} has none of the backups that were stored there.`;
    return markup`${emptyHtml('None any more.', gone)}${disk}`;
  }
  if (latest === undefined) {
    const when = `The first one is made after a complete run, then one ${backupInterval(backup.everyMs)}.`;
    return markup`${emptyHtml('None yet.', when)}${disk}`;
  }
  const dueAt = Date.parse(latest.madeAt) + backup.everyMs;
  const damaged =
    shown.damaged === 0
      ? NOTHING
      : markup`, ${badge('bad', `${plural(shown.damaged, 'more is', 'more are')} incomplete`)}`;
  const run = markup`<a href="/runs/${latest.run}">run ${latest.run}</a>`;
  const facts: (readonly [string, HtmlPart])[] = [
    ['Latest', markup`${ageHtml(latest.madeAt, now)}, as of ${run}`],
    ['Size', `${byteSize(latest.bytes)}${latest.isEncrypted ? ', encrypted' : ''}`],
    ['Verified', verifiedHtml(latest)],
    [
      'Next',
      dueAt <= now
        ? 'after the next complete run'
        : markup`${aheadHtml(isoTime(dueAt), now)}, after a complete run`,
    ],
    ['Kept', markup`${plural(shown.whole.length, 'backup')}${damaged}`],
  ];
  return markup`${unread}${factsHtml(facts, 'facts plain')}${disk}`;
}

/** Backups are verified when they are made, and not regularly after that. */
function verifiedHtml({ manifest }: BackupsShown['whole'][number]): Html {
  // Manifests are parsed leniently: `checked` may be missing.
  const { checked }: Partial<BackupManifest> = manifest ?? {};
  const records =
    checked === undefined ? '' : `, ${plural(checked.records, 'record')} and every hash checked`;
  const again = markup`<code>tidemark backup verify</code> reads it again`;
  return markup`${badge('good', 'when it was made')}: opened${records}; ${again}`;
}

// How current and complete each kind is, source by source.

/** Incomplete collections that are named for each source. */
const UNREAD_SHOWN = 8;

function kindsSection(view: DaemonView, snapshot: HealthSnapshot): Html {
  const { sourceStatuses } = snapshot;
  if (sourceStatuses.length === 0) return NOTHING;
  const hasOthers = sourceStatuses.length > 1;
  const sources = sourceStatuses.map((status) => sourceHtml(view, status, snapshot.now, hasOthers));
  return section('copy', ['Contents', markup`<a href="/records">browse the records</a>`], sources);
}

function sourceHtml(view: DaemonView, status: SourceStatus, now: number, hasOthers: boolean): Html {
  const { source, kinds, lastEnded, isConfigured } = status;
  const last =
    lastEnded === null
      ? faint('no run has ended yet')
      : markup`<a href="/runs/${lastEnded.run}">run ${lastEnded.run}</a> ${outcomeBadge(lastEnded.outcome)}
${faint(ageHtml(lastEnded.finishedAt ?? lastEnded.startedAt, now))}`;
  const name = hasOthers ? markup`<h3>${nameHtml(source)}</h3>` : NOTHING;
  const isOld = isConfigured ? NOTHING : faint('no longer configured');
  const heading = markup`<div class="source-name">${name}${isOld}<span>${last}</span></div>`;
  if (kinds.length === 0) return markup`${heading}${nothingCopiedHtml()}`;
  const twice = listedTwiceText(kinds);
  const note = twice === null ? NOTHING : markup`<p class="faint">${capital(twice)}.</p>`;
  const unasked = unaskedLines(status.unasked).map((line) => markup`<p class="faint">${line}.</p>`);
  return markup`${heading}${kindsTable(view, status, now, hasOthers)}${note}${unasked}${unreadHtml(view, status)}`;
}

function kindsTable(view: DaemonView, status: SourceStatus, now: number, hasOthers: boolean): Html {
  const { source, kinds, sampledKinds } = status;
  const definitions = definitionsFor(view.config(), source);
  const rows = kinds.map(({ kind, collections, records, whole, oldestWholeAt }) => {
    const query = new URLSearchParams({ kind, ...(hasOthers ? { source } : {}) });
    const title = capital(definitions(kind).title.many);
    const sampled = sampledKinds.find((each) => each.kind === kind);
    const state = badge(
      ...collectionState(collections, collections - whole, oldestWholeAt, sampled !== undefined),
    );
    const cells: HtmlPart[] = [
      markup`<a href="/records?${query.toString()}">${title}</a>`,
      state,
      sampled === undefined
        ? formatInteger(records)
        : `${formatInteger(records)} of ${formatInteger(sampled.of)}`,
      oldestWholeAt === null ? NOTHING : ageHtml(oldestWholeAt, now),
    ];
    return { cells, isWell: whole === collections, isSampled: sampled !== undefined };
  });
  const columns = [
    { head: 'Kind', style: 'wraps' },
    { head: 'State', style: 'below' },
    { head: 'Records', style: 'num' },
    { head: 'As of', style: 'below', label: 'as of' },
  ];
  const [well, others] = [rows.filter(({ isWell }) => isWell), rows.filter(({ isWell }) => !isWell)];
  const table = (caption: string, shown: typeof rows): Html =>
    tableHtml(
      caption,
      columns,
      shown.map(({ cells }) => cells),
    );
  const first = others.length === 0 ? NOTHING : table(`Kinds of ${source} that need a look`, others);
  if (well.length === 0) return first;
  const sampled = well.filter(({ isSampled }) => isSampled).length;
  const states = [
    ...(well.length > sampled ? [`${plural(well.length - sampled, 'kind')} complete`] : []),
    ...(sampled > 0 ? [`${sampled} sampled`] : []),
  ];
  return markup`${first}<details class="rest"><summary>${states.join(', ')}</summary>
${table(`Kinds of ${source}`, well)}</details>`;
}

function unreadHtml(view: DaemonView, { source, unread, unreadCount, lastRun }: SourceStatus): Html {
  if (unread.length === 0) return NOTHING;
  const definitions = definitionsFor(view.config(), source);
  const names = unread.slice(0, UNREAD_SHOWN).map(({ kind, scope, outcome, error }) => {
    const where = Object.values(scope).join(', ');
    const place = where === '' ? NOTHING : markup` <span class="id">${where}</span>`;
    return markup`<li><strong>${definitions(kind).title.many}</strong>${place}: ${attemptText(outcome, error)}</li>`;
  });
  const more = unreadCount - names.length;
  const rest = more > 0 ? markup`<li>and ${plural(more, 'other')}</li>` : NOTHING;
  return markup`<details class="rest" id="unread-${lastRun?.run ?? 0}">
<summary>${plural(unreadCount, 'collection')} not read completely by the last attempt</summary>
<ul class="faint">${names}${rest}</ul></details>`;
}

/** The five answers at the top, each a word and a line. @param drift null without a baseline */
function answersHtml(snapshot: HealthSnapshot, drift: DriftCounts | null): Html {
  const items = fiveAnswers(snapshot, drift).map(
    ({ question, tone, word, line }) =>
      markup`<li class="${tone}"><h2><a href="${ANSWER_PAGES[question] ?? '/'}">${question}</a></h2><div><b>${word}</b></div><p>${line}</p></li>`,
  );
  return markup`<ul class="answers">${items}</ul>`;
}

/** The page behind each answer. */
const ANSWER_PAGES: Readonly<Record<string, string>> = {
  Fresh: '/runs',
  Complete: '/organizations',
  Verified: '/#done',
  Restorable: '/drill',
  Drift: '/drift',
};

/** The sentence at the top. @param needs how many things need manual work */
function verdictHtml(snapshot: HealthSnapshot, drift: DriftCounts | null, needs: number): Html {
  const isBad = fiveAnswers(snapshot, drift).some(({ tone }) => tone === 'bad');
  const shown = worst([snapshot.health, { state: needs > 0 || isBad ? 'degraded' : 'ok' }]);
  const mark = markup`<span class="verdict-mark" aria-hidden="true"></span>`;
  return markup`<h1 class="is-${shown}">${mark}${verdictText(snapshot, drift, needs)}</h1>`;
}
