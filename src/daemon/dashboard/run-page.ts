/** One run: how it ended, what it saw of each collection, what it changed. */
import { collectionKey } from '../../catalog/collection-key.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { count, plural, duration } from '../../core/wording.ts';
import type { FirstRead, RecordChange } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow, SweepRow } from '../../mirror/run-rows.ts';
import { forgottenInto, forgottenText } from '../../state/forgotten-history.ts';
import { parentNames } from '../../state/parent-names.ts';
import { previousRun } from '../../state/published-run.ts';
import { recreatedIn } from '../../state/recreated.ts';
import { readNewlyReadCollections } from '../../state/newly-read.ts';
import { ACTIVITY_KINDS } from '../http/changes.ts';
import { tookMs } from '../http/wording.ts';
import { changeArticle } from './change-article.ts';
import { columnChart } from './column-chart.ts';
import type { PageContent } from './frame.ts';
import {
  type Html,
  markup,
  NOTHING,
  ageHtml,
  changesText,
  durationHtml,
  emptyHtml,
  nameHtml,
  outcomeTone,
  tableHtml,
  toned,
} from './pieces.ts';
import { placeOf } from './drift-page.ts';

/** Changes of one run that its page shows. */
export const RUN_CHANGES_SHOWN = 100;
/** Collections that its page shows, those that were not complete first. */
const SWEEPS_SHOWN = 150;

interface RunFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly run: RunRow;
  /** Null where nothing was published before it. */
  readonly changes: { readonly changes: readonly RecordChange[]; readonly isMore: boolean } | null;
  readonly now: number;
}

export function runPage({ mirror, config, run, changes, now }: RunFacts): PageContent {
  const definitions = definitionsFor(config, run.source);
  const names = parentNames(mirror, run.source, definitions);
  const place = (scope: SweepRow['scope']): string => placeOf(scope, definitions, names);
  const forgotten = forgottenInto(mirror, run.run);
  const firstReads = readNewlyReadCollections(mirror, [run.run], null);
  const firsts = firstReads.reduce((sum, { records }) => sum + records, 0);
  const previous = run.root === null ? undefined : previousRun(mirror, run);
  const again =
    previous === undefined
      ? 0
      : recreatedIn(mirror, { from: previous, to: run }).reduce((sum, { records }) => sum + records, 0);
  const facts = [
    ['Source', nameHtml(run.source)],
    ['Outcome', toned(outcomeTone(run.outcome), run.outcome)],
    ['Began', markup`${run.startedAt} <span class="faint">(${ageHtml(run.startedAt, now)})</span>`],
    ['Took', durationHtml(tookMs(run)) || 'has not ended'],
    ['Started by', run.trigger],
    ['Requests', `${count(run.requests)}, ${plural(run.retries, 'retry', 'retries')} among them`],
    [
      'Records',
      `${count(run.added)} added, ${count(run.changed)} changed, ${count(run.removed)} removed, ${count(run.unchanged)} unchanged${firsts === 0 ? '' : `; ${count(firsts)} of what was added was only read for the first time`}${again === 0 ? '' : `; ${count(again)} of the added and of the removed are the same records, created again by a restore`}`,
    ],
    ...(forgotten === undefined
      ? []
      : [
          [
            'Took over',
            `${forgottenText(forgotten)}. The counts are those of this run, the changes those of all.`,
          ] as const,
        ]),
    ...(run.error === null ? [] : [['Problem', run.error] as const]),
    ...(run.root === null ? [] : [['Seal', markup`<code>${run.root}</code>`] as const]),
  ] as const;
  const articles = (changes?.changes ?? []).map((change) =>
    changeArticle(change, {
      definition: definitions(change.kind),
      place: place(change.scope),
      severity: null,
    }),
  );
  const sweeps = mirror.runs.sweeps(run.run);
  const feeds = sweeps
    .filter(({ kind }) => ACTIVITY_KINDS.includes(kind))
    .reduce((sum, { added, changed, removed }) => sum + added + changed + removed, 0);
  const ofFeeds = firstReads.reduce(
    (sum, { kind, records }) => sum + (ACTIVITY_KINDS.includes(kind) ? records : 0),
    0,
  );
  const moves = Math.max(feeds - ofFeeds, 0);
  const body = markup`<p class="crumbs faint"><a href="/runs">Runs</a></p><h1>Run ${run.run}</h1>
<dl class="facts">${facts.map(([key, value]) => markup`<dt>${key}</dt><dd>${value}</dd>`)}</dl>
<section><h2>What changed</h2>${changes === null ? emptyHtml('Nothing to compare with.', run.root === null ? 'This run published nothing.' : 'It was the first of its source that is kept: all of it was new.') : articles.length === 0 ? emptyHtml('Nothing changed.', '') : articles}
${moves === 0 ? NOTHING : markup`<p class="faint">${plural(moves, 'change')} of recordings beside that: <a href="/changes?kind=session_recordings">of kinds that fill by themselves</a></p>`}${changes?.isMore === true ? markup`<p class="faint">and more: <code>tidemark runs show ${run.run}</code></p>` : NOTHING}</section>
<section><h2>Collections</h2>${sweepsHtml(sweeps, firstReads, (sweep) => [definitions(sweep.kind).title.many, place(sweep.scope)])}</section>`;
  return { title: `Run ${run.run}`, body };
}

function sweepsHtml(
  sweeps: readonly SweepRow[],
  firstReads: readonly FirstRead[],
  namesOf: (sweep: SweepRow) => [string, string],
): Html {
  if (sweeps.length === 0) return emptyHtml('None was read.', '');
  const newHere = new Map(firstReads.map((each) => [collectionKey(each), each.records]));
  const sorted = sweeps.toSorted(
    (a, b) => Number(a.outcome === 'complete') - Number(b.outcome === 'complete'),
  );
  const rows = sorted.slice(0, SWEEPS_SHOWN).map((sweep) => {
    const [kind, place] = namesOf(sweep);
    return [
      markup`${kind}${place === '' ? NOTHING : markup` <span class="faint">${place}</span>`}`,
      toned(outcomeTone(sweep.outcome), sweep.outcome),
      holdsText(sweep),
      count(sweep.records),
      count(sweep.added),
      count(sweep.changed),
      count(sweep.removed),
      noteHtml(noteText(sweep, newHere.get(collectionKey(sweep)))),
    ];
  });
  const columns = [
    { head: 'Collection', style: 'wide' },
    { head: 'Outcome' },
    { head: 'What it holds', style: 'below phone' },
    { head: 'Records', style: 'num spare' },
    { head: 'Added', style: 'num spare' },
    { head: 'Changed', style: 'num spare' },
    { head: 'Removed', style: 'num spare' },
    { head: 'Note', style: 'wide below' },
  ];
  const more = sweeps.length - rows.length;
  return markup`${tableHtml('Collections of the run', columns, rows)}${more > 0 ? markup`<p class="faint">and ${plural(more, 'other collection')}</p>` : NOTHING}`;
}

/** The counts in one cell; empty for what could not be read. */
function holdsText(sweep: SweepRow): string {
  const records = sweep.records > 0 || sweep.outcome === 'complete' ? plural(sweep.records, 'record') : '';
  return [records, changesText(sweep)].filter((text) => text !== '').join(', ');
}

function noteHtml(text: string): Html {
  return text === '' ? NOTHING : markup`<span class="faint">${text}</span>`;
}

function noteText({ error, held }: SweepRow, newHere: number | undefined): string {
  if (error !== null) return error;
  if (newHere !== undefined) return `${count(newHere)} new here, read for the first time`;
  return held > 0 ? `${plural(held, 'removal')} held` : '';
}

// The latest runs as columns: how long each took, and how it ended.

const OUTCOMES = ['complete', 'partial', 'failed'] as const;
const SIGN: Readonly<Record<string, string>> = { partial: '!', failed: '×' };
const SECONDS = 1000;
const MINUTES = 60 * SECONDS;
/** Where a scale of durations may end. */
const STEPS = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 18_000, 36_000, 86_400].map(
  (each) => each * SECONDS,
);

/** `runs`: newest first. */
export function runChart(runs: readonly RunRow[], hasOthers: boolean): Html {
  const ended = runs.filter(({ finishedAt }) => finishedAt !== null).reverse();
  if (ended.length === 0) return NOTHING;
  const columns = ended.map((run) => {
    const ms = tookMs(run) ?? 0;
    const what = hasOthers ? ` of ${run.source}` : '';
    const changes = `${count(run.added)} added, ${count(run.changed)} changed, ${count(run.removed)} removed`;
    return {
      label: labelOf(run.startedAt),
      title: `run ${run.run}${what}, ${run.startedAt.slice(0, 16).replace('T', ' ')} UTC: ${run.outcome} in ${duration(ms)}; ${changes}`,
      parts: [{ name: partOf(run.outcome), value: ms }],
      sign: SIGN[run.outcome] ?? '',
    };
  });
  const legend = OUTCOMES.filter((outcome) => ended.some((run) => run.outcome === outcome)).map(
    (outcome) => ({
      name: outcome,
      text: `${outcome}${SIGN[outcome] === undefined ? '' : ` ${SIGN[outcome]}`}`,
    }),
  );
  return columnChart(columns, {
    label: `Duration and outcome of the latest ${ended.length} runs; the table below has them in words`,
    show: (ms) => (ms === 0 ? '0' : ms < MINUTES ? `${ms / SECONDS} s` : duration(ms)),
    steps: STEPS,
    legend,
    narrow: 20,
  });
}

function partOf(outcome: string): string {
  return OUTCOMES.find((each) => each === outcome) ?? 'running';
}

function labelOf(at: string): string {
  return `${at.slice(5, 10)} ${at.slice(11, 16)}`;
}
