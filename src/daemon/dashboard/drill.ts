/** The latest restore drill of each source: how much would come back, kind by kind, and what is left to do. */
import { isKind } from '../../catalog/catalog.ts';
import { definitionsFor } from '../../config/source.ts';
import { shellWord } from '../../core/hints.ts';
import { duration, formatInteger, percent, plural } from '../../core/wording.ts';
import { DRILL_VERDICTS, type DrillVerdict } from '../../diff/drill-document.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import { pluralVerdict, verdictBar } from '../../report/drill-report.ts';
import { type DrillSummary, summaryOf } from '../jobs/summaries.ts';
import type { RunningJob } from '../view.ts';
import { jobForm } from './actions.ts';
import { capital } from '../../report/document.ts';
import {
  ageHtml,
  badge,
  emptyHtml,
  faint,
  nameHtml,
  outcomeBadge,
  section,
  tableHtml,
  withCommands,
} from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING, trusted } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';

/** Earlier drills whose scores are listed. */
const DRILLS_SHOWN = 12;

interface DrillFacts extends PageFacts {
  /** Drills that are running, and drills that wait for their turn. */
  readonly work: {
    readonly running: readonly Pick<RunningJob, 'source' | 'startedAt'>[];
    readonly queued: readonly Pick<RunningJob, 'source'>[];
  };
}

type KindSummary = DrillSummary['kinds'][number];

export function drillPage(facts: DrillFacts): PageContent {
  const { sources, canAct } = facts;
  const button = canAct ? jobForm('drill', '/drill', 'Run a restore drill') : NOTHING;
  const body = markup`<h1>Restore drill</h1>
<p class="faint">A drill restores the latest state into an empty sandbox and reports what came back. It sends nothing to the service.</p>
${button}${workHtml(facts)}${sources.map((source) => sourceHtml(facts, source))}`;
  const isWorking = facts.work.running.length + facts.work.queued.length > 0;
  return { title: 'Restore drill', body, isWorking };
}

function workHtml({ work, sources, now }: DrillFacts): HtmlPart {
  const of = (source: string | null): Html =>
    source === null || sources.length < 2 ? NOTHING : markup` of ${nameHtml(source)}`;
  const lines = [
    ...work.running.map(
      ({ source, startedAt }) =>
        markup`${badge('plain', 'running')}: a drill${of(source)}, started ${ageHtml(startedAt, now)}`,
    ),
    ...work.queued.map(({ source }) => markup`${badge('plain', 'waiting')}: a drill${of(source)}`),
  ];
  return lines.length === 0
    ? NOTHING
    : markup`<div role="status">${lines.map((line) => markup`<p>${line}</p>`)}</div>`;
}

function sourceHtml(facts: DrillFacts, source: string): HtmlPart {
  const { mirror, sources, now } = facts;
  const jobs = mirror.daemon.jobs({ name: 'drill', source, limit: DRILLS_SHOWN + 1 });
  const [latest] = jobs.filter(({ outcome }) => outcome !== 'running');
  const done = jobs.find((job) => summaryOf('drill', job) !== null);
  const summary = done === undefined ? null : summaryOf('drill', done);
  const title = sources.length > 1 ? source : 'Latest drill';
  const id = `drill-${sources.indexOf(source)}`;
  if (latest === undefined) {
    const hint = `${facts.canAct ? 'Start one here, or' : 'Start one'} with \`tidemark drill --source ${shellWord(source)}\`.`;
    return section(id, title, emptyHtml('Not tried.', hint));
  }
  const failed =
    latest === done
      ? NOTHING
      : markup`<p>${outcomeBadge(latest.outcome)} ${ageHtml(latest.finishedAt ?? latest.startedAt, now)}${latest.error === null ? NOTHING : `: ${latest.error}`}</p>`;
  if (done === undefined || summary === null) return section(id, title, failed);
  const from =
    summary.from === null ? NOTHING : markup`, with <a href="/runs/${summary.from}">run ${summary.from}</a>`;
  const head = markup`<p><strong>${percent(summary.score)}</strong> of the records that a restore writes come back.
${faint('Tried ', ageHtml(done.finishedAt ?? done.startedAt, now), from, `, in ${duration(summary.seconds * 1000)}`)}</p>`;
  return section(id, title, failed, head, kindsHtml(facts, source, summary), scoresHtml(jobs, now));
}

function verdictsOf(kind: KindSummary): Record<DrillVerdict, number> {
  const { comesBack, needsSecret, needsPerson, cannot, unknown } = kind;
  return { comes_back: comesBack, needs_secret: needsSecret, needs_person: needsPerson, cannot, unknown };
}

function kindsHtml({ config, sources }: DrillFacts, source: string, { kinds }: DrillSummary): HtmlPart {
  const definitions = definitionsFor(config, source);
  // The drill of an earlier version may have a kind that is no longer in the catalog.
  const written = kinds.filter(({ kind, restored }) => restored && isKind(kind));
  if (written.length === 0) return emptyHtml('No details.', 'The next drill records them.');
  const totals = { comes_back: 0, needs_secret: 0, needs_person: 0, cannot: 0, unknown: 0 };
  for (const each of written)
    for (const verdict of DRILL_VERDICTS) totals[verdict] += verdictsOf(each)[verdict];
  const of = sources.length > 1 ? { source } : {};
  const nameOf = ({ kind }: KindSummary): Html =>
    markup`<a href="/records?${new URLSearchParams({ kind, ...of }).toString()}">${capital(definitions(kind).title.many)}</a>`;
  const rows = written.map((each) => [
    nameOf(each),
    trusted(verdictBar(verdictsOf(each), { label: definitions(each.kind).title.many, hasKey: false })),
    `${formatInteger(each.comesBack)} of ${formatInteger(each.records)}`,
    percent(each.score),
  ]);
  const columns = [
    { head: 'Kind', style: 'wraps' },
    { head: 'What comes back', style: 'bar-cell below' },
    { head: 'Records', style: 'num' },
    { head: 'Score', style: 'num' },
  ];
  return [
    trusted(verdictBar(totals)),
    markup`<h3 class="gap-above">By kind</h3>`,
    tableHtml(`Drill of ${source} by kind`, columns, rows),
    written.some(({ kind }) => definitions(kind).isUnionOfFamily === true)
      ? markup`<p class="faint">A component that is listed under plugins too counts once, in its family.</p>`
      : NOTHING,
    checklistHtml(written, source, nameOf),
  ];
}

/** What to do about the records with a verdict. */
const TO_DO: Readonly<Partial<Record<DrillVerdict, string>>> = {
  needs_secret: 'add the values under `secrets` in the configuration',
  needs_person: 'the runbook lists the steps',
  unknown:
    'no request is known for them with this `profile`, or they need a record that does not come back; the drill says which',
  cannot: 'lost, or assigned again by the service',
};

function checklistHtml(
  kinds: readonly KindSummary[],
  source: string,
  nameOf: (kind: KindSummary) => Html,
): Html {
  const open = kinds.filter(({ comesBack, records }) => comesBack < records);
  const items = open.flatMap((kind) =>
    DRILL_VERDICTS.filter((verdict) => verdict !== 'comes_back' && verdictsOf(kind)[verdict] > 0).map(
      (verdict) => {
        const records = verdictsOf(kind)[verdict];
        return markup`<li class="open">${nameOf(kind)}: ${formatInteger(records)} ${pluralVerdict(verdict, records)}: ${withCommands(TO_DO[verdict] ?? '')}</li>`;
      },
    ),
  );
  const done = kinds
    .filter((kind) => !open.includes(kind))
    .map((kind) => markup`<li class="done">${nameOf(kind)}: all ${plural(kind.records, 'record')}</li>`);
  const runbook = `tidemark drill --source ${shellWord(source)} --runbook runbook.md`;
  return markup`<h3 class="gap-above">Checklist</h3><ul class="checklist">${items}${done}</ul>
<p class="hint faint gap-above"><code>${runbook}</code> writes each step down, with the values;
<code>tidemark drill --source ${shellWord(source)}</code> names the records.</p>`;
}

function scoresHtml(jobs: readonly JobRow[], now: number): HtmlPart {
  const scores = jobs.flatMap((job) => {
    const score = summaryOf('drill', job)?.score;
    return score === undefined ? [] : [[ageHtml(job.finishedAt ?? job.startedAt, now), percent(score)]];
  });
  if (scores.length < 2) return NOTHING;
  const columns = [{ head: 'When' }, { head: 'Score', style: 'num' }];
  return markup`<details class="rest"><summary>${plural(scores.length, 'drill')}, newest first</summary>
${tableHtml('Scores of drills', columns, scores)}</details>`;
}
