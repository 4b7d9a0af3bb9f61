/** The record browser: kinds, pages of a kind, and a search by id or name. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { count, plural } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { nameText } from '../../report/sections.ts';
import { parentNames } from '../../state/parent-names.ts';
import type { PageContent } from './frame.ts';
import { type Html, markup, NOTHING, trusted } from './pieces.ts';
import { capital, emptyHtml, nameHtml, tableHtml } from './pieces.ts';
import { placeOf } from './drift-page.ts';
import { type ListedRecord, type ListPage, type SearchResult } from './record-list.ts';
import { recordPath } from './record-page.ts';

interface RecordsFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly sources: readonly string[];
  readonly source: string | null;
  readonly kind: Kind | null;
  /** Empty for none. */
  readonly text: string;
  /** What was found of each kind that was looked at. */
  readonly found: readonly { readonly kind: Kind; readonly page: ListPage | SearchResult }[];
  /** True for a page that continues another one. */
  readonly isLater: boolean;
}

export function recordsPage(facts: RecordsFacts): PageContent {
  const { mirror, kind, text, source, found } = facts;
  const counts = new Map(mirror.runs.kindStatuses(source).map(({ kind: each, records }) => [each, records]));
  const title = kind === null ? 'Records' : titleOf(kind);
  const all =
    kind === null ? [...counts.values()].reduce((sum, each) => sum + each, 0) : (counts.get(kind) ?? 0);
  const content =
    kind === null && text === ''
      ? kindsHtml(facts, counts)
      : resultsHtml(
          facts,
          found.filter(({ page }) => kind !== null || page.records.length > 0),
        );
  const crumbs = kind === null ? NOTHING : markup`<p class="crumbs faint"><a href="/records">Records</a></p>`;
  const body = markup`${crumbs}<h1>${capital(title)}</h1><p class="faint">${plural(all, 'record')} in the mirror${source === null ? '' : ` of ${source}`}, as of the latest run.</p>
${searchForm(facts, counts)}${content}`;
  return { title: capital(title), body };
}

function searchForm(
  { kind, text, source, sources }: RecordsFacts,
  counts: ReadonlyMap<string, number>,
): Html {
  const selected = (is: boolean): Html => (is ? trusted(' selected') : NOTHING);
  const kinds = CATALOG.filter((each) => (counts.get(each.kind) ?? 0) > 0 || each.kind === kind);
  const kindBox = markup`<label>Kind<select name="kind"><option value="">all kinds</option>${kinds.map((each) => markup`<option value="${each.kind}"${selected(each.kind === kind)}>${each.title.many}</option>`)}</select></label>`;
  const sourceBox =
    sources.length < 2
      ? NOTHING
      : markup`<label>Source<select name="source"><option value="">all sources</option>${sources.map((each) => markup`<option value="${each}"${selected(each === source)}>${each}</option>`)}</select></label>`;
  return markup`<form class="search" method="get" action="/records" role="search"><label class="grow">Name or id<input type="search" name="q" value="${text}" autocomplete="off" spellcheck="false" maxlength="200"></label>${kindBox}${sourceBox}<button>Search</button></form>`;
}

function kindsHtml({ source }: RecordsFacts, counts: ReadonlyMap<string, number>): Html {
  if (counts.size === 0)
    return emptyHtml('Nothing copied yet.', 'The first sync fills this; `tidemark sync` starts one now.');
  const rows = CATALOG.flatMap(({ kind, title }) => {
    const records = counts.get(kind);
    if (records === undefined) return [];
    return [
      [markup`<a href="/records${queryText({ kind, source })}">${capital(title.many)}</a>`, count(records)],
    ];
  });
  return tableHtml('Kinds', [{ head: 'Kind' }, { head: 'Records', style: 'num' }], rows);
}

function resultsHtml(facts: RecordsFacts, found: RecordsFacts['found']): Html {
  const { text, kind, isLater } = facts;
  if (found.every(({ page }) => page.records.length === 0 && page.next === null)) {
    return text === ''
      ? emptyHtml('No records', 'of this kind.')
      : emptyHtml(
          'Nothing found.',
          isLater
            ? 'There are no more records that fit.'
            : 'No id begins so and no name holds it. Removed records are found by their whole id under `tidemark log`.',
        );
  }
  return markup`${found.map(({ kind: each, page }) => markup`${kind === null ? markup`<h2>${capital(titleOf(each))}</h2>` : NOTHING}${tableOf(facts, each, page.records)}${pagesHtml(facts, each, page)}`)}`;
}

function tableOf(
  { mirror, config, sources }: RecordsFacts,
  kind: Kind,
  records: readonly ListedRecord[],
): Html {
  if (records.length === 0) return NOTHING;
  const names = new Map(
    sources.map((source) => [source, parentNames(mirror, source, definitionsFor(config, source))]),
  );
  const hasPlaces = records.some(({ scope }) => Object.keys(scope).length > 0);
  const rows = records.map(({ record, id, name, scope, source, run }) => {
    const place = placeOf(
      scope,
      definitionsFor(config, source),
      names.get(source) ?? ((): undefined => undefined),
    );
    return [
      markup`<a href="${recordPath(kind, id, record)}">${nameHtml(nameText(name))}</a>`,
      markup`<span class="id">${nameText(id)}</span>`,
      ...(hasPlaces ? [markup`<span class="faint">${place}</span>`] : []),
      ...(sources.length > 1 ? [nameHtml(source)] : []),
      markup`<a href="/runs/${run}">run ${run}</a>`,
    ];
  });
  const columns = [
    { head: 'Name', style: 'wide' },
    { head: 'Id', style: 'spare' },
    ...(hasPlaces ? [{ head: 'In', style: 'wide spare' }] : []),
    ...(sources.length > 1 ? [{ head: 'Source', style: 'wraps' }] : []),
    { head: 'Last changed' },
  ];
  return tableHtml(capital(titleOf(kind)), columns, rows);
}

function pagesHtml(
  { kind, text, source, isLater }: RecordsFacts,
  each: Kind,
  page: ListPage | SearchResult,
): Html {
  const note =
    'read' in page && page.next !== null && page.read > 0
      ? markup`<p class="faint">${plural(page.read, 'name')} looked at; there are more.</p>`
      : NOTHING;
  const next =
    page.next === null
      ? NOTHING
      : markup`<a rel="next" href="/records${queryText({ kind: each, source, q: text, after: String(page.next) })}">${'read' in page ? (page.read === 0 ? 'Search names too' : 'Search further') : 'Next page'}</a>`;
  const first =
    isLater && kind !== null
      ? markup`<a href="/records${queryText({ kind: each, source, q: text })}">First page</a>`
      : NOTHING;
  return markup`${note}<nav class="pages" aria-label="Pages of ${titleOf(each)}">${first}${next}</nav>`;
}

function queryText(values: Readonly<Record<string, string | null>>): string {
  const given = Object.entries(values).filter(
    (entry): entry is [string, string] => entry[1] !== null && entry[1] !== '',
  );
  return `?${new URLSearchParams(given).toString()}`;
}

function titleOf(kind: Kind): string {
  return CATALOG.find((each) => each.kind === kind)?.title.many ?? kind;
}
