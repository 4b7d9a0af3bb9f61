/** What changed lately, run by run, with the fields. */
import { KINDS, type Kind } from '../../catalog/definition.ts';
import { definitionOf } from '../../catalog/catalog.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source-definitions.ts';
import { count, plural } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { parentNames } from '../../state/parent-names.ts';
import type { FoundChanges, RunChanges } from '../http/run-changes.ts';
import { changeArticle } from './change-article.ts';
import { changeChart } from './change-chart.ts';
import type { DayOfChanges } from './day-counts.ts';
import type { PageContent } from './frame.ts';
import { type Html, markup, NOTHING, trusted } from './html.ts';
import { ageHtml, emptyHtml, nameHtml } from './pieces.ts';
import { placeOf } from './place.ts';

/** Changes that the page shows. */
export const CHANGES_SHOWN = 100;
/** Periods to choose from, in days. */
export const PERIODS = [1, 7, 30, 90] as const;

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

export function changesPage(facts: ChangesFacts): PageContent {
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
