/** What changed in a period, run by run, with the fields. */
import { definitionOf } from '../../catalog/catalog.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { definitionsFor } from '../../config/source.ts';
import { plural } from '../../core/wording.ts';
import { parentNames } from '../../state/parent-names.ts';
import { mayMissChanges, type UnreadOfSource, unreadNotes } from '../../report/unread-notes.ts';
import { alteredAuthors, deletedRunsNote } from '../../state/intact.ts';
import { type DayOfChanges, type FoundChanges, type RunChanges, totalOf } from '../http/changes.ts';
import { changeChart } from './charts.ts';
import {
  ageHtml,
  allChangesText,
  changeArticles,
  emptyHtml,
  hintHtml,
  nameHtml,
  selectHtml,
  mismatchHtml,
} from './components.ts';
import { type Html, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';

/** Changes that the page shows. */
export const CHANGES_SHOWN = 100;
/** Periods to choose from, in days. */
export const PERIODS = [1, 7, 30, 90] as const;

interface ChangesFacts extends Omit<PageFacts, 'canAct'> {
  readonly found: Omit<FoundChanges, 'countAll'>;
  readonly unread: readonly UnreadOfSource[];
  /** The period, up to now. */
  readonly days: number;
  readonly byDay: readonly DayOfChanges[];
  /** Null for all but recordings. */
  readonly kind: Kind | null;
}

export function changesPage(facts: ChangesFacts): PageContent {
  const { found, byDay, kind } = facts;
  const chart = byDay.some((day) => totalOf(day) > 0) ? changeChart(byDay) : NOTHING;
  const isCut = found.isCut
    ? hintHtml('and more: choose a kind or a shorter period, or `tidemark changes`')
    : NOTHING;
  const hidden = kind === null ? '. Recordings are hidden unless selected' : '';
  const unlike = [
    ...deletedRunsNote(facts.mirror),
    ...alteredAuthors(
      facts.mirror,
      found.runs.map(({ run }) => run.run),
    ),
  ];
  const body = markup`<h1>Changes</h1><p class="faint">Changes found by each sync, newest first${hidden}.</p>
${mismatchHtml(unlike)}${chooser(facts)}${unreadHtml(facts)}${chart}${found.runs.length === 0 ? nothingChanged(facts) : NOTHING}
${found.runs.map((run) => runHtml(facts, run))}${isCut}`;
  return { title: 'Changes', body };
}

function periodText(days: number): string {
  return days === 1 ? 'the last day' : `the last ${days} days`;
}

/** Why changes may be missing; nothing if every list was read. */
function unreadHtml({ config, unread }: ChangesFacts): Html[] {
  const definitions = definitionsFor(config, unread.length === 1 ? (unread[0]?.source ?? '') : '');
  return mismatchHtml(unread.some(mayMissChanges) ? unreadNotes(unread, definitions) : []);
}

function nothingChanged({ days, kind, unread }: ChangesFacts): Html {
  const where = unread.some(mayMissChanges) ? 'in what could be read, ' : '';
  return emptyHtml(
    'Nothing changed',
    `${where}in ${periodText(days)}${kind === null ? '' : ' of this kind'}.`,
  );
}

function chooser({ days, kind }: ChangesFacts): Html {
  const periods = PERIODS.map((each) => [String(each), periodText(each)] as const);
  const kinds = KINDS.map((each) => [each, definitionOf(each).title.many] as const);
  return markup`<form class="search" method="get" action="/changes">
${selectHtml('Period', 'days', periods, String(days))}
${selectHtml('Kind', 'kind', [['', 'all but recordings'], ...kinds], kind ?? '')}
<button>Show</button></form>`;
}

function runHtml(facts: ChangesFacts, { run, previous, changes, summary }: RunChanges): Html {
  const { mirror, config, sources, now } = facts;
  const source = sources.length > 1 ? markup` <span class="count">${nameHtml(run.source)}</span>` : NOTHING;
  const when = markup`<span class="aside faint">${ageHtml(run.finishedAt ?? run.startedAt, now)}</span>`;
  const link = markup`<span>Run <a href="/runs/${run.run}">${run.run}</a></span>`;
  const heading = markup`<h2>${link}${source}${when}</h2>`;
  if (previous === null) {
    const kept = mirror.retention.forgottenBefore(run.run) === undefined ? '' : ' that is kept';
    const text = `of ${run.source}${kept}: ${summary.added === 0 && facts.kind !== null ? 'no records of this kind were read' : `${plural(summary.added, 'record')}, all new`}.`;
    return markup`<section>${heading}${emptyHtml('The first run', text)}</section>`;
  }
  if (changes === null) {
    const text = `${allChangesText(summary)}. \`tidemark runs show ${run.run}\` lists them.`;
    return markup`<section>${heading}${emptyHtml('Too many to list here:', text)}</section>`;
  }
  const definitions = definitionsFor(config, run.source);
  const names = parentNames(mirror, run.source, definitions, run.run);
  return markup`<section>${heading}${changeArticles(changes, definitions, names)}</section>`;
}
