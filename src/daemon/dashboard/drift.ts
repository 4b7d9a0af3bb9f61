/** Drift of every source as of its latest run: worst first, with the old and new value of each field, and a filter. */
import { scopeKey } from '../../catalog/catalog.ts';
import { SEVERITIES } from '../../catalog/definition.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { OpenFinding } from '../../diff/drift.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import { comparedText } from '../../report/diff-report.ts';
import { capital, SEVERITY_SIGN } from '../../report/document.ts';
import { CONTRADICTED, contradictionText, maskedFinding } from '../../report/drift-document.ts';
import { isSecretId, maskedPlace } from '../../report/mask.ts';
import { formLine, FORMS_HEADING } from '../../report/notes.ts';
import { byText } from '../../report/value-text.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { heldOnce } from '../../state/held-names.ts';
import { unreadRestores } from '../../state/runs.ts';
import type { FoundDrifts } from '../health/drift-counts.ts';
import { acceptForm, actionForm } from './actions.ts';
import {
  emptyHtml,
  faint,
  hiddenInputs,
  nameHtml,
  tableHtml,
  timeHtml,
  warningHtml,
  warningList,
  withCommands,
} from './components.ts';
import { type DriftFilter, filterHtml, isOfSource, type ShownSource, shownSource } from './drift-filter.ts';
import {
  articlesOf,
  type DriftRecord,
  findingsOf,
  leftOutHtml,
  neverReadHtml,
  NO_BASELINE,
  noDriftHtml,
  RECORDS_SHOWN,
  unreadRestoreHtml,
} from './drift-records.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';
import {
  keepAcceptedHtml,
  selectAllText,
  selectBox,
  selectionForm,
  selectionOf,
} from './restore-selection.ts';

const ACCEPTED_SHOWN = 200;
const SKIPPED_SHOWN = 20;

/** @param held the section about held removals */
export function driftPage(
  facts: PageFacts,
  { drifts, problems: unknown }: FoundDrifts,
  filter: DriftFilter,
  held: HtmlPart,
): PageContent {
  const { mirror } = facts;
  const baseline = mirror.snapshots.baseline();
  const open = drifts.reduce((sum, drift) => sum + drift.open.length, 0);
  const line =
    baseline === undefined
      ? 'Drift is measured from a baseline.'
      : baseline.contradiction === undefined
        ? `Measured from ${baseline.name}, run ${baseline.run}.`
        : 'Not measured: the baseline is not as the audit log has it.';
  const title = open === 0 ? 'Drift' : `Drift (${open})`;
  const heading = markup`<h1>${open === 0 ? 'Drift' : plural(open, 'drift finding')}</h1>
<p class="faint">${line}</p>`;
  if (baseline === undefined)
    return { title, body: markup`${heading}${held}${emptyHtml('No baseline yet.', NO_BASELINE)}` };
  const contradictions = drifts.flatMap(({ contradicted, source, definitions }) =>
    contradicted.flatMap((acceptance) => contradictionText(acceptance, source, definitions) ?? []),
  );
  const problems = [...contradictions, ...unknown.map((problem) => withCommands(problem.line))];
  const never = neverReadHtml(
    mirror,
    facts.sources.filter((name) => isOfSource(filter, name)),
  );
  const nothing =
    drifts.length === 0 && unknown.length === 0
      ? emptyHtml('Nothing to compare yet.', 'No source has been copied.')
      : NOTHING;
  const shown = drifts.map((drift) => shownSource(mirror, drift, filter));
  // Without findings, there is no filter on the page either.
  const isNarrowed = filter.path !== '/drift' && shown.some(({ all }) => all.length > 0);
  const sources = shown
    .filter(({ drift, records, accepted, unknown: notice }) =>
      filter.source === null
        ? !isNarrowed || records.length > 0 || accepted.length > 0 || notice !== null
        : drift.source === filter.source,
    )
    .map((each) => sourceHtml(facts, each, filter));
  return {
    title,
    body: markup`${heading}${acceptedNote(filter)}${problems.map(warningHtml)}${never}${held}${nothing}${filterHtml(shown, filter)}${sources}`,
  };
}

function sourceHtml(facts: PageFacts, shown: ShownSource, filter: DriftFilter): Html {
  const { mirror, sources, now, canAct } = facts;
  const { drift, records } = shown;
  const { document, ignored, source } = drift;
  const heading =
    sources.length > 1 ? markup`<h2>${nameHtml(source)}</h2>` : markup`<h2 class="side">Findings</h2>`;
  const more = records.length - RECORDS_SHOWN;
  const ignoredText = ignored.length === 0 ? '' : `; ${plural(ignored.length, 'finding')} ignored by rule`;
  const rest =
    more > 0
      ? markup`<p class="faint">and ${plural(more, 'more record')}: narrow the filter, or <code>tidemark drift</code> shows all, <code>tidemark restore baseline --source ${source}</code> plans to restore all</p>`
      : NOTHING;
  const findings = Map.groupBy(drift.open, (finding) => selectionOf(finding));
  const articles = articlesOf(mirror, drift, records.slice(0, RECORDS_SHOWN), {
    more: ({ original, hiddenCount }) => {
      const all = findings.get(selectionOf(original)) ?? [];
      const paths = new Set(original.fields.map(({ path }) => path));
      // Findings that the filter hides are not accepted with the others.
      const own = all.filter(({ path }) => hiddenCount === 0 || paths.has(path));
      const [first] = all;
      const hidden =
        hiddenCount === 0
          ? NOTHING
          : markup`<p class="faint">The filter hides ${plural(hiddenCount, 'other finding')} of this record.</p>`;
      const fingerprints = own.map(({ fingerprint }) => fingerprint);
      return {
        ...(first === undefined ? {} : { id: `finding-${first.fingerprint}` }),
        actions: markup`${hidden}${contradictedHtml(drift, own)}${actionsHtml(drift, original, fingerprints, canAct ? filter.path : null)}`,
      };
    },
  });
  return markup`<section id="of-${encodeURIComponent(source)}">${heading}<p class="faint">${comparedText(document)}${ignoredText}</p>
${unreadRestoreHtml(unreadRestores(mirror, source)[0])}${severitiesHtml(records)}${resultHtml(facts, shown, filter)}${leftOutHtml(drift)}${planForm(mirror, drift, now, more > 0 ? records.slice(0, RECORDS_SHOWN) : null)}
${articles}
${rest}${formsHtml(drift)}${acceptedHtml(facts, shown, filter)}</section>`;
}

/** Says which findings are open although the mirror has acceptances of them. */
function contradictedHtml({ definitions }: SourceDrift, findings: readonly OpenFinding[]): Html[] {
  return findings
    .filter(({ reopened }) => reopened?.because === 'contradicted')
    .map(({ kind, path }) => {
      const place = path === '' ? '' : ` ${maskedPlace(path, definitions(kind))}`;
      return markup`<p class="hint">Not accepted${place}: ${CONTRADICTED}.</p>`;
    });
}

/** Plans a restore of the selected records of the source. */
function planForm(
  mirror: Mirror,
  drift: SourceDrift,
  now: number,
  /** Null where all are shown. */
  shown: readonly DriftRecord[] | null,
): Html {
  const { source, open, accepted } = drift;
  if (open.length === 0) return NOTHING;
  const keep =
    accepted.length > 0 || hasAcceptedOfRemoved(mirror, drift, now) ? keepAcceptedHtml(true) : NOTHING;
  const offered = shown?.filter(({ original }) => !isSecretId(drift.definitions(original.kind))).length ?? 0;
  const selectAll = selectAllText(offered, shown !== null);
  return selectionForm(planId(source), { hidden: [hiddenInputs([['source', source]]), keep], selectAll });
}

/** True where fields of a record that is now removed were accepted: a restore creates it again, with or without them. */
function hasAcceptedOfRemoved(mirror: Mirror, { source, open, stale }: SourceDrift, now: number): boolean {
  const ofFields = stale.filter(
    ({ path, until }) => path !== '' && (until === undefined || Date.parse(until) > now),
  );
  const removed = open.filter(({ change }) => change === 'removed');
  if (ofFields.length === 0 || removed.length === 0) return false;
  const recreated = new RecreatedIds(mirror.restores.idMap(source));
  return ofFields.some(({ kind, id }) => {
    const ids = recreated.all(kind, id);
    return removed.some((finding) => finding.kind === kind && ids.includes(finding.id));
  });
}

function planId(source: string): string {
  return `plan-${encodeURIComponent(source)}`;
}

/** @param acceptTo the page to show once the findings are accepted; null for a user who may not accept any */
function actionsHtml(
  drift: SourceDrift,
  change: RecordChange,
  fingerprints: readonly string[],
  acceptTo: string | null,
): Html {
  const definition = drift.definitions(change.kind);
  // A secret id is never shown: such a record is restored on the command line, by its kind.
  const select = isSecretId(definition)
    ? markup`<span class="hint faint">not to be selected here: its id is a secret; use <code>tidemark restore baseline${drift.accepted.length === 0 ? '' : ' --keep-accepted'} --source ${drift.source} --kind ${change.kind}${change.change === 'added' ? ' --prune --max-removals 1' : ''}</code></span>`
    : selectBox(planId(drift.source), change);
  const accept = acceptTo === null ? NOTHING : acceptForm(drift.source, fingerprints, acceptTo);
  return markup`<div class="actions">${select}${accept}</div>`;
}

function severitiesHtml(records: readonly DriftRecord[]): Html {
  const counts = Map.groupBy(findingsOf(records), (each) => each);
  if (counts.size === 0) return NOTHING;
  const items = SEVERITIES.filter((each) => counts.has(each)).map((each) => {
    const label = markup`<span><i aria-hidden="true">${SEVERITY_SIGN[each]}</i> ${each}</span>`;
    return markup`<li class="${each}"><b>${formatInteger(counts.get(each)?.length ?? 0)}</b>${label}</li>`;
  });
  return markup`<div class="stats"><ul aria-label="Findings by severity">${items}</ul></div>`;
}

/** What could not be compared; and where nothing drifted, that. */
function resultHtml(
  { mirror, now }: PageFacts,
  { drift, unknown: notice }: ShownSource,
  filter: DriftFilter,
): Html {
  const nothing = drift.open.length === 0;
  const asked = filter.kinds.length === 0 ? {} : { kinds: filter.kinds };
  const held = heldOnce(mirror, drift.source, asked).reduce((sum, { records }) => sum + records, 0);
  const leftOut = (drift.document.left_out ?? []).filter(({ scope }) => scopeKey(scope) === scopeKey({}));
  const uncompared = filter.kinds.filter((kind) => leftOut.some((each) => each.kind === kind));
  if (uncompared.length > 0 && uncompared.length === filter.kinds.length) {
    const names = uncompared.map((kind) => drift.definitions(kind).title.many).join(', ');
    return emptyHtml(`${capital(names)}: not compared.`, 'Whether anything drifted there is unknown.');
  }
  if (notice === null && nothing && uncompared.length > 0)
    return emptyHtml('No drift in what could be compared.', 'Not all of these kinds were.');
  if (notice === null) return nothing ? noDriftHtml(drift, now, held) : NOTHING;
  const empty = emptyHtml(
    held > 0 ? 'No other drift in what could be compared.' : 'No drift in what could be compared.',
    'The rest is unknown.',
  );
  return markup`${warningList(notice.text, notice.items.slice(0, SKIPPED_SHOWN))}${nothing ? empty : NOTHING}`;
}

function formsHtml({ forms }: SourceDrift): Html {
  if (forms.length === 0) return NOTHING;
  const lines = forms.map((form) => markup`<li>${formLine(form)}</li>`);
  return markup`<h2>Changes of form</h2><p class="faint">${FORMS_HEADING}</p><ul>${lines}</ul>`;
}

/** Says what the form that led here accepted: the filter may hide it. */
function acceptedNote({ accepted }: DriftFilter): Html {
  if (accepted === 0) return NOTHING;
  return markup`<p role="status"><strong>${plural(accepted, 'finding')} accepted</strong>: <a href="#accepted">below</a>, where it can be withdrawn.</p>`;
}

function acceptedHtml(
  { now, canAct }: PageFacts,
  { drift, accepted }: ShownSource,
  filter: DriftFilter,
): Html {
  if (accepted.length === 0) return NOTHING;
  const rows = accepted.slice(0, ACCEPTED_SHOWN).map(({ finding, acceptance }): HtmlPart[] => {
    const { kind, name, path } = maskedFinding(drift, finding);
    return [
      markup`${drift.definitions(kind).title.one} ${nameHtml(name)}`,
      markup`<code>${path === '' ? '(entire record)' : path}</code>`,
      acceptance.reason,
      nameHtml(byText(acceptance)),
      untilHtml(acceptance.until, now),
      ...(canAct ? [withdrawForm(drift.source, acceptance.fingerprint, filter.path)] : []),
    ];
  });
  const columns = [
    { head: 'Record', style: 'wide' },
    { head: 'Field', style: 'wide below' },
    { head: 'Reason', style: 'wide below', label: 'Reason' },
    { head: 'By', style: 'below', label: 'By' },
    { head: 'Until', style: 'below' },
    ...(canAct ? [{ head: 'Action', style: 'below' }] : []),
  ];
  return markup`<h2 id="accepted">Accepted</h2>${tableHtml('Accepted drift', columns, rows)}`;
}

function withdrawForm(source: string, fingerprint: string, to: string): Html {
  const hidden = [
    ['source', source],
    ['fingerprint', fingerprint],
    ['to', to],
  ] as const;
  return actionForm('unaccept', hidden, markup`<button class="quiet">Withdraw</button>`);
}

function untilHtml(until: string | undefined, now: number): Html {
  if (until === undefined) return faint('no end date');
  if (Date.parse(until) < now) return markup`expired`;
  return markup`<span class="phone">until </span>${timeHtml(until)}`;
}
