/** The filter of the page with the drift: its query, the findings that match it, and its form. */
import { SEVERITIES, type Severity } from '../../catalog/definition.ts';
import { type Kind, KINDS } from '../../catalog/kinds.ts';
import { kindsAbove } from '../../catalog/lineage.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import type { RecordChange } from '../../diff/change.ts';
import { compareSeverities, worst } from '../../diff/severity.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { skippedNotice } from '../../report/diff-report.ts';
import { capital, SEVERITY_SIGN, SIGN } from '../../report/document.ts';
import { maskedFinding } from '../../report/drift-document.ts';
import { byText, fieldLine } from '../../report/value-text.ts';
import type { SourceDrift } from '../../state/drift.ts';
import { kindsIn, sourceIn, valuesIn } from '../http/request.ts';
import { chipsHtml, emptyHtml, faint, sourceSelect } from './components.ts';
import { type DriftRecord, driftRecords, findingsOf, optionsOf } from './drift-records.ts';
import { type Html, markup, NOTHING } from './html.ts';

/** Kinds to filter by that are seen at once; more are folded. */
const KINDS_SHOWN = 6;

/** What the page is narrowed to. An empty list, an empty text and no source narrow nothing. */
export interface DriftFilter {
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

export function isOfSource({ source }: DriftFilter, name: string): boolean {
  return source === null || source === name;
}

/** E.g. `3 findings in 2 records`; with one severity, `3 low findings in 2 records`. */
function findingsText(records: readonly DriftRecord[], severities: readonly Severity[] = []): string {
  const word = severities.length === 1 ? `${severities[0] ?? ''} finding` : 'finding';
  return `${plural(findingsOf(records).length, word)} in ${plural(records.length, 'record')}`;
}

export interface ShownSource {
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

export function shownSource(mirror: Mirror, drift: SourceDrift, filter: DriftFilter): ShownSource {
  const all = driftRecords(mirror, drift);
  const found = isOfSource(filter, drift.source)
    ? all.filter((record) => hasWords(record, filter.words))
    : [];
  const records = shownOf(found, filter);
  const accepted = acceptedOf(drift, filter);
  return { drift, all, found, records, accepted, unknown: unknownNotice(mirror, drift, filter) };
}

function shownOf(found: readonly DriftRecord[], boxes: Boxes): DriftRecord[] {
  return found
    .flatMap((record) => narrowed(record, boxes) ?? [])
    .sort((a, b) => compareSeverities(a.severity, b.severity));
}

/** A form that the server answers; the script sends it while it is being filled in. */
export function filterHtml(shown: readonly ShownSource[], filter: DriftFilter): Html {
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
