/** Drift of every source as of its latest run: worst first, with the old and new value of each field, and a filter. */
import { hash } from 'node:crypto';
import { type Severity, SEVERITIES } from '../../catalog/definition.ts';
import { scopeKey } from '../../catalog/catalog.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { kindsAbove } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { OpenFinding } from '../../diff/drift.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { RecreatedIds } from '../../mirror/recreated-ids.ts';
import { CONTRADICTED, contradictionText, maskedFinding } from '../../report/drift-document.ts';
import { comparedText, type ReportChange, sectionsOf, skippedNotice } from '../../report/diff-report.ts';
import { capital, SEVERITY_SIGN, SIGN } from '../../report/document.ts';
import { formLine, FORMS_HEADING, groupedNotes, uncomparedCollections } from '../../report/notes.ts';
import { isSecretId, maskedPlace } from '../../report/mask.ts';
import type { ReportOptions } from '../../report/options.ts';
import { byText, fieldLine } from '../../report/value-text.ts';
import { kindsOutsideDrift, type SourceDrift } from '../../state/drift.ts';
import { heldOnce } from '../../state/held-names.ts';
import { type UnreadRestore, unreadRestores, unreadRestoreText } from '../../state/runs.ts';
import { parentNames } from '../../state/parent-names.ts';
import type { FoundDrifts } from '../health/status-answers.ts';
import { kindsIn, sourceIn, valuesIn } from '../http/request.ts';
import { age } from '../http/wording.ts';
import { acceptForm, actionForm } from './actions.ts';
import {
  changeArticle,
  chipsHtml,
  emptyHtml,
  faint,
  hiddenInputs,
  nameHtml,
  placeOf,
  sourceSelect,
  tableHtml,
  timeHtml,
  warningHtml,
  warningList,
  withCommands,
} from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';

const RECORDS_SHOWN = 200;
const ACCEPTED_SHOWN = 200;
const SKIPPED_SHOWN = 20;
/** Kinds to filter by that are seen at once; more are folded. */
const KINDS_SHOWN = 6;

/** What the page is narrowed to. An empty list, an empty text and no source narrow nothing. */
interface DriftFilter {
  readonly severities: readonly Severity[];
  readonly changes: readonly RecordChange['change'][];
  readonly kinds: readonly Kind[];
  /** In lower case; each has to occur in the record's name, kind, id, place, fields or values. */
  readonly words: readonly string[];
  /** The text that was typed. */
  readonly text: string;
  readonly source: string | null;
  /** The path of this page with this filter. */
  readonly path: string;
  /** How many findings the form that led here accepted; 0 without one. */
  readonly accepted: number;
}

const CHANGES = ['added', 'removed', 'changed'] as const;
const MOST_TEXT = 200;
/** Characters of a value that are searched: as many as a page shows of it at most. */
const SEARCHED_CHARACTERS = 10_000;

/** The parameter with the number of findings that a form accepted. */
const ACCEPTED = 'accepted';

/** The filter of a query. @throws TidemarkError `usage` */
export function driftFilter(query: URLSearchParams, sources: readonly string[]): DriftFilter {
  const severities = valuesIn(query, 'severity', SEVERITIES);
  const changes = valuesIn(query, 'change', CHANGES);
  const kinds = kindsIn(query, 'kind') ?? [];
  const text = (query.get('q') ?? '').trim().slice(0, MOST_TEXT);
  const source = sourceIn(query, sources);
  const same = new URLSearchParams();
  if (text !== '') same.set('q', text);
  if (source !== null) same.set('source', source);
  for (const each of severities) same.append('severity', each);
  for (const each of changes) same.append('change', each);
  for (const each of kinds) same.append('kind', each);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return {
    severities,
    changes,
    kinds,
    words,
    text,
    source,
    accepted: /^\d{1,6}$/.test(query.get(ACCEPTED) ?? '') ? Number(query.get(ACCEPTED)) : 0,
    path: same.size === 0 ? '/drift' : `/drift?${same.toString()}`,
  };
}

/** A changed record of a source as it is shown: all but `original` is masked. */
interface DriftRecord extends ReportChange {
  readonly definition: ResourceDefinition;
  /** The severity of each open finding: a changed record has one for each field, an added or removed one has one. */
  readonly findings: readonly Severity[];
  /** Findings of the record that the filter leaves out. */
  readonly hiddenCount: number;
}

/** Whether the words of the filter occur in the record. */
function hasWords(
  { change, definition, findings, name, id, place }: DriftRecord,
  words: readonly string[],
): boolean {
  if (words.length === 0) return true;
  const facts = [change.kind, definition.title.one, name, id, place, change.change, ...findings];
  const fields = change.fields.map((field) => fieldLine(field, SEARCHED_CHARACTERS));
  const text = [...facts, ...fields].join('\n').toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The check boxes of the filter. */
type Boxes = Pick<DriftFilter, 'severities' | 'changes' | 'kinds'>;

/** The record with those of its findings that match the check boxes; null if none does. */
function narrowed(record: DriftRecord, { severities, changes, kinds }: Boxes): DriftRecord | null {
  const { change, original, findings } = record;
  if (!isIn(changes, change.change) || !isIn(kinds, change.kind)) return null;
  const left = findings.filter((each) => isIn(severities, each));
  if (left.length === 0) return null;
  if (left.length === findings.length) return record;
  const isLeft = (_field: unknown, index: number): boolean => isIn(severities, findings[index] ?? 'low');
  return {
    ...record,
    change: { ...change, fields: change.fields.filter(isLeft) },
    original: { ...original, fields: original.fields.filter(isLeft) },
    severity: worst(left),
    findings: left,
    hiddenCount: findings.length - left.length,
  };
}

/** True where nothing is chosen, or this is. */
function isIn<T>(chosen: readonly T[], value: T): boolean {
  return chosen.length === 0 || chosen.includes(value);
}

function isOfSource({ source }: DriftFilter, name: string): boolean {
  return source === null || source === name;
}

/**
 * Names a changed record of a source in a form. It is short, so that an address that names every record of a page stays within the
 * 8 kB that common reverse proxies accept.
 */
export function selectionOf({ kind, scope, id }: Pick<RecordChange, 'kind' | 'scope' | 'id'>): string {
  return hash('sha256', JSON.stringify([kind, scopeKey(scope), id]), 'base64url').slice(0, 16);
}

/** All records with open findings, worst first. */
function driftRecords(mirror: Mirror, drift: SourceDrift): DriftRecord[] {
  return sectionsOf(drift.document, optionsOf(mirror, drift))
    .flatMap(({ definition, changes }) =>
      changes.map((report): DriftRecord => {
        const { original } = report;
        const fields = original.change === 'changed' ? original.fields : [null];
        const findings = fields.map((field) => drift.severityOf(original, field));
        return { ...report, definition, findings, hiddenCount: 0 };
      }),
    )
    .sort((a, b) => compareSeverities(a.severity, b.severity));
}

/** E.g. `3 findings in 2 records`; with one severity, `3 low findings in 2 records`. */
function findingsText(records: readonly DriftRecord[], severities: readonly Severity[] = []): string {
  const word = severities.length === 1 ? `${severities[0] ?? ''} finding` : 'finding';
  return `${plural(findingsOf(records).length, word)} in ${plural(records.length, 'record')}`;
}

function findingsOf(records: readonly DriftRecord[]): Severity[] {
  return records.flatMap(({ findings }) => findings);
}

/** An article for each selected record, worst first. @param selected values of `selectionOf` */
export function driftArticles(mirror: Mirror, drift: SourceDrift, selected: readonly string[]): Html[] {
  const records = driftRecords(mirror, drift).filter(({ original }) =>
    selected.includes(selectionOf(original)),
  );
  return articlesOf(mirror, drift, records.slice(0, RECORDS_SHOWN));
}

/** The articles of the worst records of all sources together, `most` at most; with several sources, each names its own. */
export function worstArticles(mirror: Mirror, drifts: readonly SourceDrift[], most: number): Html[] {
  return drifts
    .flatMap((drift) =>
      driftRecords(mirror, drift)
        .slice(0, most)
        .map((record) => ({ drift, record })),
    )
    .sort((a, b) => compareSeverities(a.record.severity, b.record.severity))
    .slice(0, most)
    .flatMap(({ drift, record }) => articlesOf(mirror, drift, [record], { namesSource: drifts.length > 1 }));
}

function articlesOf(
  mirror: Mirror,
  drift: SourceDrift,
  records: readonly DriftRecord[],
  {
    namesSource = false,
    more = () => ({}),
  }: {
    readonly namesSource?: boolean;
    readonly more?: (record: DriftRecord) => { readonly id?: string; readonly actions?: HtmlPart };
  } = {},
): Html[] {
  const parentName = parentNames(mirror, drift.source, drift.definitions);
  return records.map((record) => {
    const { change, definition, severity, id, name } = record;
    const parents = placeOf(change.scope, drift.definitions, parentName);
    const places = namesSource ? [parents, `source ${drift.source}`] : [parents];
    const place = places.filter((each) => each !== '').join(', ');
    return changeArticle({ ...change, id, name }, { definition, place, severity, ...more(record) });
  });
}

interface ShownSource {
  readonly drift: SourceDrift;
  readonly all: readonly DriftRecord[];
  /** The records with the words of the filter, whatever boxes are checked; none of another source. */
  readonly found: readonly DriftRecord[];
  /** The records that match the entire filter. */
  readonly records: readonly DriftRecord[];
  /** Accepted findings that match the filter. */
  readonly accepted: SourceDrift['accepted'];
  /** What could not be compared of the filter's kinds; null for nothing. */
  readonly unknown: ReturnType<typeof unknownNotice>;
}

function shownSource(mirror: Mirror, drift: SourceDrift, filter: DriftFilter): ShownSource {
  const all = driftRecords(mirror, drift);
  const found = isOfSource(filter, drift.source)
    ? all.filter((record) => hasWords(record, filter.words))
    : [];
  const records = shownOf(found, filter);
  const accepted = acceptedOf(drift, filter);
  return { drift, all, found, records, accepted, unknown: unknownNotice(mirror, drift, filter) };
}

/** Says that a source has no drift, and as of when. @param held records whose removal is held */
export function noDriftHtml({ document }: SourceDrift, now: number, held = 0): Html {
  const { run, at } = document.to;
  const when = at === undefined ? '' : `, ${age(at, now)}`;
  const uncompared = uncomparedCollections(document).length;
  if (held > 0) {
    const rest = uncompared === 0 ? '' : ` ${plural(uncompared, 'collection')} not compared or not fresh.`;
    return emptyHtml(
      `${plural(held, 'record is missing, its', 'records are missing, their')} removal is held.`,
      `No other drift${uncompared === 0 ? '' : ' in what could be compared'}.${rest}`,
    );
  }
  if (uncompared > 0)
    return emptyHtml(
      'No drift in what could be compared.',
      `${plural(uncompared, 'collection')} not compared or not fresh.`,
    );
  return emptyHtml('No drift', run === undefined ? 'as of the latest run.' : `as of run ${run}${when}.`);
}

/** What was left out of the comparison, without activity data, which always is. */
export function leftOutHtml({ document, definitions }: SourceDrift): Html[] {
  const usual = kindsOutsideDrift({});
  const notes = (document.left_out ?? []).filter(({ kind }) => !usual.includes(kind));
  return groupedNotes('Left out', notes, definitions).map((line) => markup`<p class="faint">${line}.</p>`);
}

/** Warns that the last restore is newer than what is compared; nothing for null. */
export function unreadRestoreHtml(restored: UnreadRestore | null | undefined): HtmlPart {
  if (restored === undefined || restored === null) return NOTHING;
  const text = capital(unreadRestoreText(restored));
  return warningHtml([withCommands(text), '.']);
}

/** Names the sources of which no run was published: whether they drifted is unknown. */
export function neverReadHtml(mirror: Mirror, sources: readonly string[]): Html[] {
  return sources
    .filter((source) => mirror.runs.latest(source) === undefined)
    .map((source) =>
      warningHtml(
        markup`Nothing of ${nameHtml(source)} was read yet: <code>tidemark sync --source ${source}</code> reads it.`,
      ),
    );
}

export const NO_BASELINE =
  'Pin a state and measure drift from it: `tidemark snapshots pin NAME`, `tidemark snapshots baseline NAME`.';

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

function shownOf(found: readonly DriftRecord[], boxes: Boxes): DriftRecord[] {
  return found
    .flatMap((record) => narrowed(record, boxes) ?? [])
    .sort((a, b) => compareSeverities(a.severity, b.severity));
}

/** A form that the server answers; the script sends it while it is being filled in. */
function filterHtml(shown: readonly ShownSource[], filter: DriftFilter): Html {
  const all = shown.flatMap((each) => each.all);
  if (all.length === 0) return NOTHING;
  const isNarrowed = filter.path !== '/drift';
  const found = shown.flatMap((each) => each.found);
  const records = shown.flatMap((each) => each.records);
  // Beside each box is the number of findings that it shows with the rest of the filter as it is.
  const bySeverity = Map.groupBy(findingsOf(shownOf(found, { ...filter, severities: [] })), (each) => each);
  const byChange = Map.groupBy(shownOf(found, { ...filter, changes: [] }), ({ change }) => change.change);
  const byKind = Map.groupBy(shownOf(found, { ...filter, kinds: [] }), ({ change }) => change.kind);
  const changes = CHANGES.filter(
    (each) => filter.changes.includes(each) || all.some(({ change }) => change.change === each),
  );
  const ofKind = Map.groupBy(all, ({ change }) => change.kind);
  const kinds = KINDS.filter((each) => filter.kinds.includes(each) || ofKind.has(each));
  const titleOf = (kind: Kind): string =>
    capital((ofKind.get(kind)?.[0]?.definition ?? shown[0]?.drift.definitions(kind))?.title.many ?? kind);
  const ofKinds = chipsHtml(
    'Kind',
    'kind',
    kinds.map((each) => [each, markup`${titleOf(each)} ${findingCount(byKind.get(each))}`]),
    filter.kinds,
  );
  const open = filter.kinds.length > 0 ? markup` open` : NOTHING;
  const kindChips =
    kinds.length <= KINDS_SHOWN
      ? ofKinds
      : markup`<details class="kinds"${open}><summary>${plural(kinds.length, 'kind')}</summary>${ofKinds}</details>`;
  const sign = (text: string): Html => markup`<i aria-hidden="true">${text}</i>`;
  const status = isNarrowed
    ? markup`${findingsText(records, filter.severities)}, of ${findingsText(all)}. <a href="/drift">Show all</a>`
    : findingsText(all);
  const isInDoubt = shown.some(({ drift, unknown }) => isOfSource(filter, drift.source) && unknown !== null);
  const none =
    !isNarrowed || records.length > 0
      ? NOTHING
      : isInDoubt
        ? emptyHtml('Nothing in what could be compared matches the filter.', 'The rest is unknown.')
        : emptyHtml('Nothing matches the filter.', '');
  return markup`<form class="search" id="filter" method="get" action="/drift" role="search" data-filter>
<label class="grow">Filter<input type="search" name="q" value="${filter.text}" autocomplete="off" spellcheck="false"
 maxlength="${MOST_TEXT}" placeholder="Name, kind, id, field or value" aria-keyshortcuts="/"></label>
${sourceSelect(
  shown.map(({ drift }) => drift.source),
  filter.source,
)}
<button>Filter</button>
${chipsHtml(
  'Severity',
  'severity',
  SEVERITIES.map((each) => [
    each,
    markup`${sign(SEVERITY_SIGN[each])} ${each} ${faint(formatInteger(bySeverity.get(each)?.length ?? 0))}`,
  ]),
  filter.severities,
)}
${chipsHtml(
  'Change',
  'change',
  changes.map((each) => [each, markup`${sign(SIGN[each])} ${each} ${findingCount(byChange.get(each))}`]),
  filter.changes,
)}
${kindChips}</form>
<p class="faint" role="status" aria-live="polite">${status}</p>${none}`;
}

function findingCount(records: readonly DriftRecord[] = []): Html {
  return faint(formatInteger(findingsOf(records).length));
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
  const keep = accepted.length > 0 || hasAcceptedOfRemoved(mirror, drift, now) ? keepHtml(true) : NOTHING;
  const offered = shown?.filter(({ original }) => !isSecretId(drift.definitions(original.kind))).length ?? 0;
  const selectAll = selectAllText(offered, shown !== null);
  return selectionForm(planId(source), { hidden: [hiddenInputs([['source', source]]), keep], selectAll });
}

/**
 * A form that plans a restore of the records whose `selectBox` is checked. Only the script shows the box that selects all.
 * @param of after the text of the button
 */
export function selectionForm(
  id: string,
  { hidden, selectAll, of = NOTHING }: { hidden: HtmlPart; selectAll: string; of?: HtmlPart },
): Html {
  return markup`<form class="search" id="${id}" method="get" action="/restore">
${hidden}<label class="pick" data-all hidden><input type="checkbox">${selectAll}</label>
<button>Plan a restore of the selected records${of}</button></form>`;
}

/** Selects a record for the `selectionForm` with that id. */
export function selectBox(form: string, record: Parameters<typeof selectionOf>[0]): Html {
  return markup`<label class="pick"><input type="checkbox" name="record" form="${form}" value="${selectionOf(record)}">Select</label>`;
}

/** The label of the box that selects all records on the page. */
export function selectAllText(shown: number, hasMore: boolean): string {
  return hasMore ? `Select all ${formatInteger(shown)} shown` : 'Select all';
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

/** The parameter that leaves accepted drift out of a restore. */
export const KEEP_ACCEPTED = 'keep_accepted';

export function keepHtml(isChecked: boolean): Html {
  const checked = isChecked ? markup` checked` : NOTHING;
  return markup`<label class="pick"><input type="checkbox" name="${KEEP_ACCEPTED}"${checked}>Leave what was accepted as drift</label>`;
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

/** What could not be compared of the filter's kinds, or of the kinds above them; null for nothing. */
function unknownNotice(
  mirror: Mirror,
  drift: SourceDrift,
  { kinds }: DriftFilter,
): ReturnType<typeof skippedNotice> {
  const { skipped, stale } = drift.document;
  const about = new Set([...kinds, ...kindsAbove(kinds)]);
  const isAbout = ({ kind }: { readonly kind: Kind }): boolean => kinds.length === 0 || about.has(kind);
  return skippedNotice(
    { skipped: skipped.filter(isAbout), stale: (stale ?? []).filter(isAbout) },
    optionsOf(mirror, drift),
  );
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

function acceptedOf(drift: SourceDrift, filter: DriftFilter): SourceDrift['accepted'] {
  return drift.accepted.filter(({ finding, acceptance }) => {
    const { kind, name, id, path, change, severity } = maskedFinding(drift, finding);
    const facts = [kind, drift.definitions(kind).title.one, name, id, change, severity, path];
    const text = [...facts, acceptance.reason, byText(acceptance)].join('\n').toLowerCase();
    return (
      isIn(filter.kinds, kind) &&
      isIn(filter.changes, change) &&
      isIn(filter.severities, severity) &&
      filter.words.every((word) => text.includes(word))
    );
  });
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

function optionsOf(mirror: Mirror, { definitions, severityOf, source }: SourceDrift): ReportOptions {
  const parentName = parentNames(mirror, source, definitions);
  return { definitions, severityOf, isGravestFirst: true, parentName };
}
