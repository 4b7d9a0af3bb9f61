/** Past runs: how each ended, how long it took, what it changed. */
import { count } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { tookMs } from '../http/wording.ts';
import type { PageContent } from './frame.ts';
import { type Html, markup, NOTHING } from './pieces.ts';
import {
  ageHtml,
  changesText,
  durationHtml,
  emptyHtml,
  nameHtml,
  outcomeTone,
  tableHtml,
  toned,
} from './pieces.ts';
import { runChart } from './run-page.ts';

const PAGE = 50;

interface RunsQuestion {
  /** Runs before this one; null from the newest on. */
  readonly before: number | null;
  readonly sources: readonly string[];
  readonly now: number;
}

export function runsPage(mirror: Mirror, { before, sources, now }: RunsQuestion): PageContent {
  const found = mirror.runs.list({ limit: PAGE + 1, ...(before === null ? {} : { upTo: before - 1 }) });
  const runs = found.slice(0, PAGE);
  const last = runs.at(-1);
  const hasOthers = sources.length > 1;
  const older =
    found.length > PAGE && last !== undefined
      ? markup`<a href="/runs?before=${last.run}" rel="next">Older runs</a>`
      : NOTHING;
  const newer = before === null ? NOTHING : markup`<a href="/runs">Newest runs</a>`;
  const content =
    runs.length === 0
      ? emptyHtml('No run yet.', 'The first one starts with the schedule, or now with `tidemark sync`.')
      : markup`<h2 class="side">Durations</h2>${runChart(runs, hasOthers)}<div class="gap"></div>${runsTable(runs, now, hasOthers)}<nav class="pages" aria-label="Pages">${newer}${older}</nav>`;
  return {
    title: 'Runs',
    body: markup`<h1>Runs</h1><p class="faint">Every sync, newest first.</p><div class="gap"></div>${content}`,
  };
}

export function runsTable(runs: readonly RunRow[], now: number, hasOthers: boolean): Html {
  const columns = [
    { head: 'Run' },
    ...(hasOthers ? [{ head: 'Source', style: 'below' }] : []),
    { head: 'Outcome' },
    { head: 'When' },
    { head: 'Took', style: 'num' },
    { head: 'What changed', style: 'below phone' },
    { head: 'Added', style: 'num spare' },
    { head: 'Changed', style: 'num spare' },
    { head: 'Removed', style: 'num spare' },
    { head: 'Requests', style: 'num spare' },
    { head: 'By', style: 'spare' },
  ];
  const number = (value: number): Html =>
    value === 0 ? markup`<span class="faint">0</span>` : markup`${count(value)}`;
  return tableHtml(
    'Runs',
    columns,
    runs.map((run) => [
      markup`<a href="/runs/${run.run}">${run.run}</a>`,
      ...(hasOthers ? [nameHtml(run.source)] : []),
      toned(outcomeTone(run.outcome), run.outcome),
      ageHtml(run.finishedAt ?? run.startedAt, now),
      durationHtml(tookMs(run)),
      whatChanged(run),
      number(run.added),
      number(run.changed),
      number(run.removed),
      number(run.requests),
      markup`<span class="faint">${run.trigger}</span>`,
    ]),
  );
}

/** The counts in one cell: a phone has no room for a column each. */
function whatChanged(run: RunRow): Html {
  const text = changesText(run);
  if (text !== '') return markup`${text}`;
  if (run.outcome === 'running') return NOTHING;
  return markup`<span class="faint">${run.root === null ? 'published nothing' : 'nothing changed'}</span>`;
}
