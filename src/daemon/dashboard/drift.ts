/** Drift of every source as of its latest run: worst first, with the old and new value of each field. */
import { SEVERITIES } from '../../catalog/definition.ts';
import { scopeKey } from '../../catalog/catalog.ts';
import { plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import { compareSeverities } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { maskedFinding, severityCounts } from '../../report/drift-document.ts';
import { comparedText, sectionsOf, skippedNotice } from '../../report/diff-report.ts';
import { SEVERITY_SIGN } from '../../report/document.ts';
import { formLine, FORMS_HEADING } from '../../report/notes.ts';
import { isSecretId } from '../../report/mask.ts';
import type { ReportOptions } from '../../report/options.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { parentNames } from '../../state/parent-names.ts';
import { age } from '../http/wording.ts';
import { acceptForm, actionForm } from './actions.ts';
import { changeArticle, emptyHtml, faint, nameHtml, placeOf, tableHtml, timeHtml } from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent } from './layout.ts';

const RECORDS_SHOWN = 200;
const ACCEPTED_SHOWN = 200;
const SKIPPED_SHOWN = 20;

interface ShownRecords {
  readonly most?: number;
  /** Values of `selectionOf`; all without. */
  readonly only?: readonly string[];
  readonly actionsOf?: (change: RecordChange) => HtmlPart;
}

/** Names a changed record of a source in a form. */
export function selectionOf({ kind, scope, id }: RecordChange): string {
  return [kind, scopeKey(scope), id].join(' ');
}

/** One article for each record, worst first. */
export function driftArticles(mirror: Mirror, drift: SourceDrift, shown: ShownRecords = {}): Html[] {
  const { most = RECORDS_SHOWN, only, actionsOf } = shown;
  const parentName = parentNames(mirror, drift.source, drift.definitions);
  return sectionsOf(drift.document, optionsOf(mirror, drift))
    .flatMap(({ definition, changes }) => changes.map((report) => ({ definition, ...report })))
    .filter(({ original }) => only?.includes(selectionOf(original)) !== false)
    .sort((a, b) => compareSeverities(a.severity, b.severity))
    .slice(0, most)
    .map(({ change, original, definition, severity, id, name }) => {
      const place = placeOf(change.scope, drift.definitions, parentName);
      const actions = actionsOf?.(original) ?? null;
      return changeArticle({ ...change, id, name }, { definition, place, severity, actions });
    });
}

interface SourceOptions {
  readonly hasOthers: boolean;
  readonly now: number;
  /** True for a person who is logged in. */
  readonly canAct: boolean;
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
  { now, canAct }: { readonly now: number; readonly canAct: boolean },
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
  const sources = drifts.map((drift) =>
    sourceHtml(mirror, drift, { hasOthers: drifts.length > 1, now, canAct }),
  );
  return { title, body: markup`${heading}${problems}${nothing}${sources}` };
}

function sourceHtml(mirror: Mirror, drift: SourceDrift, { hasOthers, now, canAct }: SourceOptions): Html {
  const { document, ignored, source } = drift;
  const heading = hasOthers ? markup`<h2>${nameHtml(source)}</h2>` : markup`<h2 class="side">Findings</h2>`;
  const more = document.changes.length - RECORDS_SHOWN;
  const ignoredText = ignored.length === 0 ? '' : `; ${plural(ignored.length, 'finding')} ignored by rule`;
  const rest =
    more > 0
      ? markup`<p class="faint">and ${plural(more, 'more record')}: <code>tidemark drift</code> shows all</p>`
      : NOTHING;
  return markup`<section>${heading}<p class="faint">${comparedText(document)}${ignoredText}</p>
${severitiesHtml(drift)}${resultHtml(mirror, drift, now)}${planForm(drift)}
${driftArticles(mirror, drift, { actionsOf: (change) => actionsHtml(drift, change, canAct) })}
${rest}${formsHtml(drift)}${acceptedHtml(drift, now, canAct)}</section>`;
}

/** Takes the records that are selected below; without one it says what to do. */
function planForm({ source, open }: SourceDrift): Html {
  if (open.length === 0) return NOTHING;
  return markup`<form class="search" id="${planId(source)}" method="get" action="/restore">
<input type="hidden" name="source" value="${source}"><button>Plan a restore of the selected records</button></form>`;
}

function planId(source: string): string {
  return `plan-${encodeURIComponent(source)}`;
}

function actionsHtml(drift: SourceDrift, change: RecordChange, canAct: boolean): Html {
  const definition = drift.definitions(change.kind);
  // A secret id is never written out: such a record is restored by its kind, on the command line.
  const select = isSecretId(definition)
    ? NOTHING
    : markup`<label class="pick"><input type="checkbox" name="record" form="${planId(drift.source)}"
 value="${selectionOf(change)}">Select</label>`;
  const fingerprints = drift.open.flatMap((finding) =>
    selectionOf({ ...change, ...finding }) === selectionOf(change) ? [finding.fingerprint] : [],
  );
  const accept = canAct ? acceptForm(drift.source, fingerprints) : NOTHING;
  return markup`<div class="actions">${select}${accept}</div>`;
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

function acceptedHtml(drift: SourceDrift, now: number, canAct: boolean): Html {
  if (drift.accepted.length === 0) return NOTHING;
  const rows = drift.accepted.slice(0, ACCEPTED_SHOWN).map(({ finding, acceptance }): HtmlPart[] => {
    const { kind, name, path } = maskedFinding(drift, finding);
    return [
      markup`${drift.definitions(kind).title.one} ${nameHtml(name)}`,
      markup`<code>${path === '' ? '(entire record)' : path}</code>`,
      acceptance.reason,
      acceptance.by,
      untilHtml(acceptance.until, now),
      ...(canAct ? [withdrawForm(drift.source, acceptance.fingerprint)] : []),
    ];
  });
  const columns = [
    { head: 'Record', style: 'wide' },
    { head: 'Field', style: 'wide below' },
    { head: 'Reason', style: 'wide below' },
    { head: 'By', style: 'below' },
    { head: 'Until', style: 'below' },
    ...(canAct ? [{ head: 'Action', style: 'below' }] : []),
  ];
  return markup`<h2>Accepted</h2>${tableHtml('Accepted drift', columns, rows)}`;
}

function withdrawForm(source: string, fingerprint: string): Html {
  const hidden = [
    ['source', source],
    ['fingerprint', fingerprint],
    ['to', '/drift'],
  ] as const;
  return actionForm('unaccept', hidden, markup`<button class="quiet">Withdraw</button>`);
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
