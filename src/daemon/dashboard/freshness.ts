/** How fresh and whole the copy is, source by source and kind by kind. */
import { definitionsFor } from '../../config/source-definitions.ts';
import { count, plural } from '../../core/wording.ts';
import type { HealthSnapshot } from '../http/health-snapshot.ts';
import type { SourceStatus } from '../http/source-status.ts';
import type { DaemonView } from '../view.ts';
import { type Html, markup, NOTHING } from './html.ts';
import { ageHtml, capital, emptyHtml, nameHtml, outcomeTone, tableHtml, toned } from './pieces.ts';

/** Collections that are not whole and named, of each source. */
const TROUBLED_SHOWN = 8;

export function freshnessHtml(view: DaemonView, situation: HealthSnapshot): Html {
  const { standings } = situation;
  if (standings.length === 0) return NOTHING;
  return markup`<section aria-labelledby="copy"><h2 id="copy">The copy<a href="/records">browse the records</a></h2>
${standings.map((standing) => sourceHtml(view, standing, situation, standings.length > 1))}</section>`;
}

function sourceHtml(
  view: DaemonView,
  standing: SourceStatus,
  { now }: HealthSnapshot,
  hasOthers: boolean,
): Html {
  const { source, kinds, lastEnded, isConfigured, troubled, troubledCount } = standing;
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
  const names = troubled.slice(0, TROUBLED_SHOWN).map(({ kind, scope, outcome, error }) => {
    const where = Object.values(scope).join(', ');
    return markup`<li><strong>${definitions(kind).title.many}</strong>${where === '' ? NOTHING : markup` <span class="id">${where}</span>`}: ${outcome ?? 'never asked for'}${error === null ? NOTHING : markup`, ${error}`}</li>`;
  });
  const more = troubledCount - names.length;
  return markup`${heading}${table}${names.length === 0 ? NOTHING : markup`<details class="rest" id="troubled-${standing.lastRun?.run ?? 0}"><summary>${plural(troubledCount, 'collection')} not whole</summary><ul class="faint">${names}${more > 0 ? markup`<li>and ${plural(more, 'other')}</li>` : NOTHING}</ul></details>`}`;
}
