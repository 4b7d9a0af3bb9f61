/** Drift of every source as of its latest run: worst first, with the old and new value of each field. */
import { SEVERITIES } from '../../catalog/definition.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { maskedFinding, severityCounts } from '../../report/drift-document.ts';
import { comparedText, sectionsOf, skippedNotice } from '../../report/diff-report.ts';
import { SEVERITY_SIGN } from '../../report/document.ts';
import { formLine, FORMS_HEADING } from '../../report/notes.ts';
import type { ReportOptions } from '../../report/options.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { age } from '../http/wording.ts';
import { changeArticle, emptyHtml, faint, nameHtml, placeOf, tableHtml, timeHtml } from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent } from './layout.ts';

const RECORDS_SHOWN = 200;
const ACCEPTED_SHOWN = 200;
const SKIPPED_SHOWN = 20;

/** One article for each record, worst first. */
export function driftArticles(mirror: Mirror, drift: SourceDrift, most = RECORDS_SHOWN): Html[] {
  const parentName = parentNames(mirror, drift.source, drift.definitions);
  return sectionsOf(drift.document, optionsOf(mirror, drift))
    .flatMap(({ definition, changes }) => changes.map((report) => ({ definition, ...report })))
    .sort((a, b) => compareSeverities(a.severity, b.severity))
    .slice(0, most)
    .map(({ change, definition, severity, id, name }) => {
      const place = placeOf(change.scope, drift.definitions, parentName);
      return changeArticle({ ...change, id, name }, { definition, place, severity });
    });
}

/** What no open finding says of a source, and as of when. */
export function noDriftHtml({ document }: SourceDrift, now: number): Html {
  const { run, at } = document.to;
  const when = at === undefined ? '' : `, ${age(at, now)}`;
  return emptyHtml('No drift', run === undefined ? 'as of the latest run.' : `as of run ${run}${when}.`);
}

export const NO_BASELINE =
  'Pin a state and measure drift from it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.';

export function driftPage(
  mirror: Mirror,
  drifts: readonly SourceDrift[],
  problem: readonly string[],
  now: number,
): PageContent {
  const baseline = mirror.snapshots.baseline();
  const open = drifts.reduce((sum, drift) => sum + drift.open.length, 0);
  const line =
    baseline === undefined
      ? 'Drift is measured from a baseline.'
      : `Measured from ${baseline.name}, run ${baseline.run}.`;
  const title = open === 0 ? 'Drift' : `Drift (${open})`;
  const heading = markup`<h1>${open === 0 ? 'Drift' : plural(open, 'drift finding')}</h1>
<p class="faint">${line}</p>`;
  if (baseline === undefined)
    return { title, body: markup`${heading}${emptyHtml('No baseline yet.', NO_BASELINE)}` };
  const problems = problem.map((text) => markup`<div class="warning" role="note">${text}</div>`);
  const nothing =
    drifts.length === 0 && problem.length === 0
      ? emptyHtml('Nothing to compare yet.', 'No source has been copied.')
      : NOTHING;
  const sources = drifts.map((drift) => sourceHtml(mirror, drift, drifts.length > 1, now));
  return { title, body: markup`${heading}${problems}${nothing}${sources}` };
}

function sourceHtml(mirror: Mirror, drift: SourceDrift, hasOthers: boolean, now: number): Html {
  const { document, ignored, source } = drift;
  const heading = hasOthers ? markup`<h2>${nameHtml(source)}</h2>` : markup`<h2 class="side">Findings</h2>`;
  const more = document.changes.length - RECORDS_SHOWN;
  const ignoredText = ignored.length === 0 ? '' : `; ${plural(ignored.length, 'finding')} ignored by rule`;
  const rest =
    more > 0
      ? markup`<p class="faint">and ${plural(more, 'more record')}: <code>tidemark drift</code> shows all</p>`
      : NOTHING;
  return markup`<section>${heading}<p class="faint">${comparedText(document)}${ignoredText}</p>
${severitiesHtml(drift)}${resultHtml(mirror, drift, now)}${driftArticles(mirror, drift)}
${rest}${formsHtml(drift)}${acceptedHtml(drift, now)}</section>`;
}

function severitiesHtml({ open }: SourceDrift): Html {
  if (open.length === 0) return NOTHING;
  const counts = severityCounts(open);
  const items = SEVERITIES.filter((each) => counts[each] > 0).map((each) => {
    const label = markup`<span><i aria-hidden="true">${SEVERITY_SIGN[each]}</i> ${each}</span>`;
    return markup`<li class="${each}"><b>${counts[each]}</b>${label}</li>`;
  });
  return markup`<div class="stats"><ul aria-label="By severity">${items}</ul></div>`;
}

/** What could not be compared, and that nothing drifted. */
function resultHtml(mirror: Mirror, drift: SourceDrift, now: number): Html {
  const notice = skippedNotice(drift.document, optionsOf(mirror, drift));
  const nothing = drift.open.length === 0;
  if (notice === null) return nothing ? noDriftHtml(drift, now) : NOTHING;
  const lines = notice.items.slice(0, SKIPPED_SHOWN).map((line) => markup`<li>${line}</li>`);
  const empty = emptyHtml('No drift in what could be compared.', 'The rest is unknown.');
  return markup`<div class="warning" role="note"><strong>! ${notice.text}</strong>:<ul>${lines}</ul></div>${nothing ? empty : NOTHING}`;
}

function formsHtml({ forms }: SourceDrift): Html {
  if (forms.length === 0) return NOTHING;
  const lines = forms.map((form) => markup`<li>${formLine(form)}</li>`);
  return markup`<h2>Changes of form</h2><p class="faint">${FORMS_HEADING}</p><ul>${lines}</ul>`;
}

function acceptedHtml(drift: SourceDrift, now: number): Html {
  if (drift.accepted.length === 0) return NOTHING;
  const rows = drift.accepted.slice(0, ACCEPTED_SHOWN).map(({ finding, acceptance }): HtmlPart[] => {
    const { kind, name, path } = maskedFinding(drift, finding);
    return [
      markup`${drift.definitions(kind).title.one} ${nameHtml(name)}`,
      markup`<code>${path === '' ? '(entire record)' : path}</code>`,
      acceptance.reason,
      untilHtml(acceptance.until, now),
    ];
  });
  const columns = [
    { head: 'Record', style: 'wide' },
    { head: 'Field', style: 'wide below' },
    { head: 'Reason', style: 'wide below' },
    { head: 'Until', style: 'below' },
  ];
  return markup`<h2>Accepted</h2>${tableHtml('Accepted drift', columns, rows)}`;
}

function untilHtml(until: string | undefined, now: number): Html {
  if (until === undefined) return faint('no end date');
  if (Date.parse(until) < now) return markup`expired`;
  return markup`<span class="phone">until </span>${timeHtml(until)}`;
}

function optionsOf(mirror: Mirror, { definitions, severityOf, source }: SourceDrift): ReportOptions {
  const parentName = parentNames(mirror, source, definitions);
  return { definitions, severityOf, isGravestFirst: true, parentName };
}
