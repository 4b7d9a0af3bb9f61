/** Drift of every source as of now: worst first, with the old and new value of each field. */
import { type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { SEVERITIES } from '../../catalog/severities.ts';
import { plural } from '../../core/wording.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { maskedFinding, severityCounts } from '../../report/drift-document.ts';
import { FORMS_HEADING, formLine } from '../../report/form-text.ts';
import type { ReportOptions } from '../../report/options.ts';
import { comparedText, prepareReport, nameText } from '../../report/sections.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { changeArticle, SEVERITY_SIGN } from './change-article.ts';
import type { PageContent } from './frame.ts';
import { type Html, markup, NOTHING, emptyHtml, nameHtml, tableHtml, timeHtml } from './pieces.ts';

const RECORDS_SHOWN = 200;
const ACCEPTED_SHOWN = 200;

/** One article a record, worst first. */
export function driftArticles(mirror: Mirror, drift: SourceDrift): Html[] {
  const options = optionsOf(mirror, drift);
  const parentName = parentNames(mirror, drift.source, drift.definitions);
  return prepareReport(drift.document, options)
    .sections.flatMap(({ definition, changes }) => changes.map((report) => ({ definition, ...report })))
    .sort((a, b) => compareSeverities(a.severity, b.severity))
    .slice(0, RECORDS_SHOWN)
    .map(({ change, definition, severity, id, name }) => {
      const place = placeOf(change.scope, drift.definitions, parentName);
      return changeArticle({ ...change, id, name }, { definition, place, severity });
    });
}

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
  const heading = markup`<h1>${open === 0 ? 'Drift' : plural(open, 'drift finding')}</h1><p class="faint">${line}</p>`;
  if (baseline === undefined) {
    const body = markup`${heading}${emptyHtml('No baseline yet.', 'Pin the state that drift is measured from: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.')}`;
    return { title: 'Drift', body };
  }
  const nothing =
    drifts.length === 0 && problem.length === 0
      ? emptyHtml('Nothing to compare yet.', 'No source has been copied.')
      : NOTHING;
  const body = markup`${heading}${problem.map((text) => markup`<div class="warning" role="note">${text}</div>`)}${nothing}${drifts.map((drift) => sourceHtml(mirror, drift, drifts.length > 1, now))}`;
  return { title: open === 0 ? 'Drift' : `Drift (${open})`, body };
}

function sourceHtml(mirror: Mirror, drift: SourceDrift, hasOthers: boolean, now: number): Html {
  const { document, open, accepted, ignored, source } = drift;
  const report = prepareReport(document, optionsOf(mirror, drift));
  const counts = severityCounts(open);
  const stats = SEVERITIES.filter((each) => counts[each] > 0).map(
    (each) =>
      markup`<li class="${each}"><b>${counts[each]}</b><span><i aria-hidden="true">${SEVERITY_SIGN[each]}</i> ${each}</span></li>`,
  );
  const skipped =
    report.skipped.length === 0
      ? NOTHING
      : markup`<div class="warning" role="note"><strong>! ${report.skippedSummary}</strong>, so this may not be everything:<ul>${report.skipped.slice(0, 20).map((line) => markup`<li>${line}</li>`)}</ul></div>`;
  const heading = hasOthers ? markup`<h2>${nameHtml(source)}</h2>` : markup`<h2 class="side">Findings</h2>`;
  const nothing =
    open.length > 0
      ? NOTHING
      : report.skipped.length > 0
        ? emptyHtml('Nothing drifted in what could be compared.', 'What could not be may hide anything.')
        : emptyHtml('Nothing drifted.', 'The service is configured as the baseline says.');
  const more = document.changes.length - RECORDS_SHOWN;
  return markup`<section>${heading}<p class="faint">${comparedText(document)}${ignored.length === 0 ? '' : `; ${plural(ignored.length, 'finding')} ignored by rule`}</p>
${stats.length === 0 ? NOTHING : markup`<div class="stats"><ul aria-label="By severity">${stats}</ul></div>`}${skipped}${nothing}${driftArticles(mirror, drift)}
${more > 0 ? markup`<p class="faint">and ${plural(more, 'more record')}: <code>tidemark drift</code> shows all</p>` : NOTHING}
${formsHtml(drift)}${accepted.length === 0 ? NOTHING : acceptedHtml(drift, now)}</section>`;
}

function formsHtml({ forms }: SourceDrift): Html {
  if (forms.length === 0) return NOTHING;
  return markup`<h2>Changes of form</h2><p class="faint">${FORMS_HEADING}</p><ul>${forms.map((form) => markup`<li>${formLine(form)}</li>`)}</ul>`;
}

function acceptedHtml(drift: SourceDrift, now: number): Html {
  const rows = drift.accepted.slice(0, ACCEPTED_SHOWN).map(({ finding, acceptance }) => {
    const { kind, name, path } = maskedFinding(drift, finding);
    const { until } = acceptance;
    const end =
      until === undefined
        ? markup`<span class="faint">for good</span>`
        : markup`<span class="phone">until </span>${timeHtml(until)}`;
    return [
      markup`${drift.definitions(kind).title.one} ${nameHtml(name)}`,
      markup`<code>${path === '' ? '(whole record)' : path}</code>`,
      markup`${acceptance.reason}`,
      Date.parse(until ?? '') < now ? 'over' : end,
    ];
  });
  return markup`<h2>Accepted</h2>${tableHtml(
    'Accepted drift',
    [
      { head: 'Record', style: 'wide' },
      { head: 'Field', style: 'wide below' },
      { head: 'Why', style: 'wide below' },
      { head: 'Until', style: 'below' },
    ],
    rows,
  )}`;
}

function optionsOf(mirror: Mirror, { definitions, severityOf, source }: SourceDrift): ReportOptions {
  return {
    definitions,
    severityOf,
    isGravestFirst: true,
    parentName: parentNames(mirror, source, definitions),
  };
}

// The scope of a record, its parents by name.

/** E.g. `organization Harbor, role Analysts`: names where they are known, ids only where not. */
export function placeOf(
  scope: Scope,
  definitions: (kind: Kind) => ResourceDefinition,
  parentName: (kind: Kind, id: string) => string | undefined,
): string {
  return SCOPE_KEYS.flatMap((key) => {
    const id = scope[key];
    if (id === undefined) return [];
    const kind = SCOPE_KIND[key];
    return [`${definitions(kind).title.one} ${nameText(parentName(kind, id) ?? id)}`];
  }).join(', ');
}
