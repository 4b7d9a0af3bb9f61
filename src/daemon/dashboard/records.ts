/** The record browser: kinds, pages of a kind, and a search by id or name. */
import { CATALOG, definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { kindsAbove } from '../../catalog/lineage.ts';
import { definitionsFor } from '../../config/source.ts';
import { formatInteger, plural } from '../../core/wording.ts';
import { changesOnce } from '../../diff/families.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { nameText } from '../../report/value-text.ts';
import { parentNames } from '../../state/parent-names.ts';
import { EXCLUDED, kindsNeverRead } from '../../state/unasked.ts';
import { capital } from '../../report/document.ts';
import {
  crumbs,
  emptyHtml,
  faint,
  hiddenInputs,
  nameHtml,
  nothingCopiedHtml,
  placeOf,
  recordPath,
  selectHtml,
  sourceSelect,
  tableHtml,
  timeHtml,
} from './components.ts';
import { type Html, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';
import type { ListedRecord, ListPage, SearchResult } from './record-list.ts';

const BY_NAME = new Intl.Collator('en', { numeric: true });

/** The parent kind of a kind that is read by one request for each parent, such as the sharing of recordings; null for one with lists. */
export function readOneByOneFrom(kind: Kind): Kind | null {
  const { reading, discovery } = definitionOf(kind);
  return reading === 'each' && discovery.from !== 'root' ? discovery.from : null;
}

/** What was found of one kind. */
export interface FoundOfKind {
  readonly kind: Kind;
  readonly page: ListPage | SearchResult;
  /** Removed records that match the search, and records that match by a former name. */
  readonly others: readonly ListedRecord[];
}

interface RecordsFacts extends Pick<PageFacts, 'mirror' | 'config' | 'sources'> {
  /** Null for all. */
  readonly source: string | null;
  readonly kind: Kind | null;
  /** Limits the records to an organization or project; empty for all. */
  readonly within: Scope;
  /** Empty for none. */
  readonly text: string;
  readonly found: readonly FoundOfKind[];
  /** True for any page but the first. */
  readonly isLater: boolean;
}

export function recordsPage(facts: RecordsFacts): PageContent {
  const { mirror, kind, text, source } = facts;
  const counts = new Map(mirror.runs.kindStatuses(source).map(({ kind: each, records }) => [each, records]));
  const title = kind === null ? 'Records' : capital(definitionOf(kind).title.many);
  const all =
    kind === null ? [...counts.values()].reduce((sum, each) => sum + each, 0) : (counts.get(kind) ?? 0);
  const unread = unreadLines(facts);
  const content =
    kind === null && text === '' ? kindsHtml(facts, counts) : resultsHtml(facts, unread.length > 0);
  const above = kind === null ? NOTHING : crumbs(['/records', 'Records']);
  const of = source === null ? '' : ` of ${source}`;
  const limit = withinHtml(facts);
  const counted =
    all === 0 && unread.length > 0
      ? NOTHING
      : markup`${plural(all, 'record')} in the mirror${of}, as of the latest run.`;
  const notes = unread.map((line) => markup`<p class="faint">${line}.</p>`);
  const body = markup`${above}<h1>${title}</h1>
<p class="faint">${limit ?? counted}</p>${notes}
${searchForm(facts, counts)}${content}`;
  return { title, body };
}

/** What the mirror never read, or read in part, of the kind (null for all kinds): a line for each source and reason. */
export function unreadLines({
  mirror,
  config,
  kind,
  source,
  sources,
}: Pick<RecordsFacts, 'mirror' | 'config' | 'kind' | 'source' | 'sources'>): string[] {
  return (source === null ? sources : [source]).flatMap((name) => {
    if (mirror.runs.latest(name) === undefined) return [`Nothing of ${name} was read yet`];
    const of = sources.length > 1 ? ` of ${name}` : '';
    const never = [...kindsNeverRead(mirror, config, name)].filter(
      ([each]) => kind === null || each === kind,
    );
    const line = (kinds: readonly Kind[], text: string): string =>
      `${capital(kinds.map((each) => definitionOf(each).title.many).join(', '))}${of}: ${text}`;
    const asked = kind === null ? null : [...kindsAbove([kind]), kind];
    // For all kinds, those with records still to be read are left out: a search finds the records that these belong to.
    const doubts = kindDoubts(mirror, name).filter((doubt) =>
      asked === null ? !doubt.isSampled : asked.includes(doubt.kind),
    );
    // The answer of the service is shown for a single kind; for many, the outcome.
    const textOf = ({ text, error }: KindDoubt): string =>
      kind === null || error === null ? text : `${text}: ${error}`;
    return [
      ...[...Map.groupBy(never, ([, reason]) => reason === EXCLUDED)].map(([isExcluded, same]) =>
        line(
          same.map(([each]) => each),
          isExcluded ? 'excluded by the configuration' : 'not read yet',
        ),
      ),
      ...[...Map.groupBy(doubts, textOf)].map(([text, same]) =>
        line(
          same.map((each) => each.kind),
          text,
        ),
      ),
    ];
  });
}

/** A kind that the mirror has not completely, so that the number of its records says little. */
interface KindDoubt {
  readonly kind: Kind;
  /** `not read: denied`, `1 of 2 lists not read: failed`, `200 of 3,000 read so far` */
  readonly text: string;
  /** What the service answered; null without an answer or an error. */
  readonly error: string | null;
  /** True where records are only still to be read. */
  readonly isSampled: boolean;
}

/** Kinds with lists that no run has read completely yet, and kinds of which each run reads some records. */
function kindDoubts(mirror: Mirror, source: string): KindDoubt[] {
  const lists = mirror.runs.collections(source).filter(({ retiredRun }) => retiredRun === null);
  const byKind = Map.groupBy(lists, ({ kind }) => kind);
  const recordsOf = (kind: Kind): number =>
    (byKind.get(kind) ?? []).reduce((sum, { records }) => sum + records, 0);
  return [...byKind].flatMap(([kind, own]): KindDoubt[] => {
    const unread = own.filter(
      ({ lastCompleteRun, lastOutcome }) => lastCompleteRun === null && lastOutcome !== 'complete',
    );
    const [first] = unread;
    if (first !== undefined) {
      const many =
        unread.length === own.length
          ? ''
          : `${formatInteger(unread.length)} of ${plural(own.length, 'list')} `;
      const outcomes = [...new Set(unread.map(({ lastOutcome }) => lastOutcome ?? 'not asked for'))];
      return [
        { kind, text: `${many}not read: ${outcomes.join(', ')}`, error: first.lastError, isSampled: false },
      ];
    }
    const from = readOneByOneFrom(kind);
    if (from === null) return [];
    const [read, of] = [recordsOf(kind), recordsOf(from)];
    return read < of
      ? [
          {
            kind,
            text: `${formatInteger(read)} of ${formatInteger(of)} read so far`,
            error: null,
            isSampled: true,
          },
        ]
      : [];
  });
}

/** Names the organization or project to which the page is limited, with a link to all records; null where it is not limited. */
function withinHtml({ mirror, config, kind, within, sources, source }: RecordsFacts): Html | null {
  const of = source ?? sources[0] ?? null;
  if (Object.keys(within).length === 0 || of === null) return null;
  const definitions = definitionsFor(config, of);
  const place = placeOf(within, definitions, parentNames(mirror, of, definitions));
  return markup`Only those of ${place}. <a href="/records${queryText({ kind, source })}">Show all</a>`;
}

function withinFields(within: Scope): Readonly<Record<string, string | null>> {
  return { organization: within.organization_id ?? null, project: within.project_id ?? null };
}

function searchForm(
  { kind, text, source, sources, within }: RecordsFacts,
  counts: ReadonlyMap<string, number>,
): Html {
  const kinds = CATALOG.filter((each) => (counts.get(each.kind) ?? 0) > 0 || each.kind === kind).map(
    (each) => [each.kind, each.title.many] as const,
  );
  const hidden = Object.entries(withinFields(within)).flatMap(([name, value]) =>
    value === null ? [] : [[name, value] as const],
  );
  return markup`<form class="search" method="get" action="/records" role="search">${hiddenInputs(hidden)}
<label class="grow">Name or id
<input type="search" name="q" value="${text}" autocomplete="off" spellcheck="false" maxlength="200"></label>
${selectHtml('Kind', 'kind', [['', 'all kinds'], ...kinds], kind ?? '')}${sourceSelect(sources, source)}
<button>Search</button></form>`;
}

function kindsHtml({ mirror, source, sources }: RecordsFacts, counts: ReadonlyMap<string, number>): Html {
  if (counts.size === 0) return nothingCopiedHtml();
  const doubts = (source === null ? sources : [source]).flatMap((name) =>
    kindDoubts(mirror, name).map(({ kind, text }) => ({
      kind,
      text: sources.length > 1 && source === null ? `${name}: ${text}` : text,
    })),
  );
  const rows = CATALOG.flatMap(({ kind, title }) => {
    const records = counts.get(kind);
    if (records === undefined) return [];
    const path = `/records${queryText({ kind, source })}`;
    const own = doubts.filter((doubt) => doubt.kind === kind).map(({ text }) => text);
    const number = records === 0 && own.length > 0 ? NOTHING : formatInteger(records);
    const note = own.length === 0 ? NOTHING : markup` ${faint(own.join('; '))}`;
    return [[markup`<a href="${path}">${capital(title.many)}</a>${note}`, number]];
  });
  return tableHtml('Kinds', [{ head: 'Kind' }, { head: 'Records', style: 'num' }], rows);
}

function resultsHtml(facts: RecordsFacts, isPart: boolean): Html {
  const { text, kind, isLater } = facts;
  const found = kind === null ? withoutUnions(facts.found) : facts.found;
  const shown = found.filter(
    ({ page, others }) => kind !== null || page.records.length > 0 || others.length > 0,
  );
  const isEmpty = shown.every(
    ({ page, others }) => page.records.length === 0 && page.next === null && others.length === 0,
  );
  if (isEmpty && text === '')
    return emptyHtml('No records', isPart ? 'of this kind in what was read.' : 'of this kind.');
  if (isEmpty) {
    const why = isLater
      ? 'There are no more records that fit.'
      : 'No id begins with this, and no name that was searched, also of earlier ones, contains it. `tidemark show` searches more of them.';
    return emptyHtml(isPart ? 'Nothing found in what was read.' : 'Nothing found.', why);
  }
  return markup`${shown.map((each) => {
    const heading = kind === null ? markup`<h2>${capital(definitionOf(each.kind).title.many)}</h2>` : NOTHING;
    const records = [...inOrder(each, isLater), ...each.others];
    return markup`${heading}${recordsTable(facts, each.kind, records)}${pagesHtml(facts, each)}`;
  })}`;
}

/** By name where one page holds all records; else by id, in the order of the index, so that a page costs what it shows. */
function inOrder({ page }: FoundOfKind, isLater: boolean): readonly ListedRecord[] {
  return isLater || page.next !== null
    ? page.records
    : page.records.toSorted((a, b) => BY_NAME.compare(a.name, b.name));
}

/** A component that a search found in its family is left out of `plugins`. */
function withoutUnions(found: readonly FoundOfKind[]): readonly FoundOfKind[] {
  const all = found.flatMap(({ page, others }) => [...page.records, ...others]);
  const kept = new Set(
    [...Map.groupBy(all, ({ source }) => source).values()].flatMap((own) =>
      changesOnce(
        own.map((listed) => ({ ...listed, listed, change: listed.isRemoved ? 'removed' : 'added' })),
        undefined,
      ).map(({ listed }) => listed),
    ),
  );
  const isKept = (record: ListedRecord): boolean => kept.has(record);
  return found.map(({ page, others, ...each }) => ({
    ...each,
    page: { ...page, records: page.records.filter(isKept) },
    others: others.filter(isKept),
  }));
}

function recordsTable(facts: RecordsFacts, kind: Kind, records: readonly ListedRecord[]): Html {
  if (records.length === 0) return NOTHING;
  const { mirror, config, sources } = facts;
  const names = new Map(
    sources.map((source) => [source, parentNames(mirror, source, definitionsFor(config, source))]),
  );
  const hasPlaces = records.some(({ scope }) => Object.keys(scope).length > 0);
  const hasOthers = sources.length > 1;
  const changedHtml = (run: number): Html => {
    const at = mirror.runs.get(run)?.startedAt;
    return markup`<a href="/runs/${run}">${at === undefined ? `run ${run}` : timeHtml(at)}</a>`;
  };
  const rows = records.map((listed) => {
    const { record, isRemoved, id, name, scope, source, run, was } = listed;
    const parentName = names.get(source) ?? ((): undefined => undefined);
    const place = placeOf(scope, definitionsFor(config, source), parentName);
    const tag = isRemoved ? markup` <span class="tag removed">− removed</span>` : NOTHING;
    const former =
      was === undefined
        ? NOTHING
        : markup` ${faint('was ', nameHtml(nameText(was.name)), ' until ', changedHtml(was.until))}`;
    return [
      markup`<a href="${recordPath(kind, id, record)}">${nameHtml(nameText(name))}</a>${tag}${former}`,
      markup`<span class="id">${nameText(id)}</span>`,
      ...(hasPlaces ? [faint(place)] : []),
      ...(hasOthers ? [nameHtml(source)] : []),
      changedHtml(run),
    ];
  });
  const columns = [
    { head: 'Name', style: 'wide' },
    { head: 'Id', style: 'spare' },
    ...(hasPlaces ? [{ head: 'In', style: 'wide spare' }] : []),
    ...(hasOthers ? [{ head: 'Source', style: 'wraps source' }] : []),
    { head: 'Last changed', style: 'wraps' },
  ];
  return tableHtml(capital(definitionOf(kind).title.many), columns, rows);
}

function pagesHtml(
  { kind, text, source, within, isLater }: RecordsFacts,
  { kind: each, page }: FoundOfKind,
): Html {
  const read = 'read' in page ? page.read : null;
  const hasMore = page.next !== null;
  const note =
    read === null && (hasMore || isLater)
      ? markup`<p class="faint">Sorted by id, as the list has more than one page.</p>`
      : hasMore && read !== null && read > 0
        ? markup`<p class="faint">${plural(read, 'name')} searched; there are more.</p>`
        : NOTHING;
  const path = (after: string | null): string =>
    `/records${queryText({ kind: each, source, ...withinFields(within), q: text, after })}`;
  const further = read === null ? 'Next page' : read === 0 ? 'Search names too' : 'Search further';
  const next = hasMore ? markup`<a rel="next" href="${path(String(page.next))}">${further}</a>` : NOTHING;
  const first = isLater && kind !== null ? markup`<a href="${path(null)}">First page</a>` : NOTHING;
  const label = `Pages of ${definitionOf(each).title.many}`;
  return markup`${note}<nav class="pages" aria-label="${label}">${first}${next}</nav>`;
}

function queryText(values: Readonly<Record<string, string | null>>): string {
  const given = Object.entries(values).flatMap(([name, value]): [string, string][] =>
    value === null || value === '' ? [] : [[name, value]],
  );
  return `?${new URLSearchParams(given).toString()}`;
}
