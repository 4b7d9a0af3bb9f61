/** One record: its body, when each field was last changed, and its changes over time. Secrets are masked. */
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { parseLossless, type JsonValue } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import { type BlameField, type LogEntry, type Sighting, recordBlame, recordLog } from '../../diff/history.ts';
import { recordName } from '../../diff/name.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { fieldHtml } from '../../report/html-value.ts';
import { escapeMarkup } from '../../report/markup.ts';
import { maskedAt, maskedBody, maskedFields, maskedId, withMaskedId } from '../../report/mask.ts';
import { recreatedText } from '../../report/recreated-text.ts';
import { fieldsForPeople, nameText, placeText, SIGN } from '../../report/sections.ts';
import { foldedValue } from '../../report/value-text.ts';
import { parentNames } from '../../state/parent-names.ts';
import { recordHistory } from '../../state/record-history.ts';
import type { PageContent } from './frame.ts';
import { type Html, type HtmlPart, markup, NOTHING, trusted } from './pieces.ts';
import { ageHtml, capital, emptyHtml, nameHtml, tableHtml, timeHtml } from './pieces.ts';

interface RecordFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly row: RecordRow;
  readonly hasOthers: boolean;
  readonly now: number;
}

/** Revisions that the page shows; the command line has all. */
const REVISIONS_SHOWN = 30;
const FIELDS_SHOWN = 8;
const VALUE_LIMIT = 160; // characters of a value in the table of fields
const BODY_LIMIT = 100_000; // characters of a body: longer ones would not open

export function recordPage({ mirror, config, row, hasOthers, now }: RecordFacts): PageContent {
  const definitions = definitionsFor(config, row.source);
  const definition = definitions(row.kind);
  const { revisions, sightingBefore } = recordHistory(
    mirror,
    row,
    mirror.runs.latest(row.source)?.run ?? 0,
    definitions,
  );
  const written = revisions.find(({ body }) => body !== null);
  const body = written?.body ?? row.body;
  const value = body === null ? null : parseLossless(body);
  const own = withMaskedId(
    { id: row.id, name: value === null ? row.id : recordName(definition, value, row.id) },
    definition,
  );
  const place = placeText(row.scope, {
    definitions,
    parentName: parentNames(mirror, row.source, definitions),
  });
  const options = { mode: 'default', sightingBefore } as const;
  const [newest] = revisions;
  const first = revisions.at(-1);
  const isRemoved = row.isRemoved;
  const facts: (readonly [string, HtmlPart])[] = [
    ['Id', markup`<span class="id">${nameText(own.id)}</span>`],
    ...(place === '' ? [] : [['Stands in', place] as const]),
    ...(hasOthers ? [['Source', nameHtml(row.source)] as const] : []),
    ...(first === undefined ? [] : [['First seen', sightingHtml(first)] as const]),
    ...(newest === undefined
      ? []
      : [[isRemoved ? 'Removed' : 'Last changed', sightingHtml(newest)] as const]),
  ];
  const shown = revisions.slice(0, REVISIONS_SHOWN + 1);
  // The changes of the oldest revision shown are unknown without the one before it.
  const log = recordLog(definition, shown, options).filter(
    (entry) => shown.length <= REVISIONS_SHOWN || entry.run !== shown.at(-1)?.run,
  );
  const blame = recordBlame(definition, revisions, { ...options, isDeep: false });
  const name = nameText(own.name);
  const content = markup`<p class="crumbs faint"><a href="/records">Records</a> / <a href="/records?kind=${row.kind}">${capital(definition.title.many)}</a></p>
<h1>${nameHtml(name)}</h1><p class="faint">${definition.title.one}${isRemoved ? markup`, <strong class="removed">no longer there</strong>` : NOTHING}</p>
<dl class="facts">${facts.map(([key, held]) => markup`<dt>${key}</dt><dd>${held}</dd>`)}</dl>
<nav class="contents" aria-label="On this page"><a href="#fields">Fields</a><a href="#history">History</a><a href="#body">Body</a></nav>
<section aria-labelledby="fields"><h2 id="fields">Fields<span class="aside faint">as ${isRemoved ? 'last seen' : 'they are'}, and since when</span></h2>${blameHtml(blame, definition, now)}</section>
<section aria-labelledby="history"><h2 id="history">History</h2>${log.map((entry) => entryHtml(entry, definition, now))}${revisions.length > REVISIONS_SHOWN ? markup`<p class="faint">${plural(revisions.length - REVISIONS_SHOWN, 'older revision')}: <code>tidemark log ${row.kind} ${own.id}</code></p>` : NOTHING}</section>
<section aria-labelledby="body"><h2 id="body">Body<span class="aside faint">secrets masked</span></h2>${bodyHtml(value, definition)}</section>`;
  return { title: name, body: content };
}

/** A choice between several records with this id, each in another scope. */
export function choicePage(
  rows: readonly RecordRow[],
  facts: { readonly mirror: Mirror; readonly config: Config },
): PageContent {
  const [first] = rows;
  const items = rows.map((row) => {
    const definitions = definitionsFor(facts.config, row.source);
    const definition = definitions(row.kind);
    const value = row.body === null ? null : parseLossless(row.body);
    const own = withMaskedId(
      { id: row.id, name: value === null ? row.id : recordName(definition, value, row.id) },
      definition,
    );
    const place = placeText(row.scope, {
      definitions,
      parentName: parentNames(facts.mirror, row.source, definitions),
    });
    return [
      markup`<a href="${recordPath(row.kind, own.id, row.record)}">${nameHtml(nameText(own.name))}</a>`,
      place,
      nameHtml(row.source),
      row.isRemoved ? 'removed' : 'there',
    ];
  });
  const kind = first === undefined ? '' : definitionsFor(facts.config, first.source)(first.kind).title.many;
  const body = markup`<p class="crumbs faint"><a href="/records">Records</a></p><h1>${plural(rows.length, 'record')} with this id</h1><p class="faint">Each of the ${kind} is in another place.</p><div class="gap"></div>${tableHtml('Records with this id', [{ head: 'Name', style: 'wide' }, { head: 'In', style: 'wide below' }, { head: 'Source', style: 'below' }, { head: 'State' }], items)}`;
  return { title: 'Which record', body };
}

function sightingHtml({ run, at }: Sighting): Html {
  return markup`${timeHtml(at)} UTC, <a href="/runs/${run}">run ${run}</a>`;
}

function blameHtml(fields: readonly BlameField[], definition: ResourceDefinition, now: number): Html {
  if (fields.length === 0) return emptyHtml('No fields.', '');
  const rows = fields.map(({ path, value, since }) => [
    markup`<code>${nameText(path.slice(1) || path)}</code>`,
    markup`<code>${foldedValue(maskedAt(path, value, definition), VALUE_LIMIT)}</code>`,
    markup`${ageHtml(since.at, now)} <span class="faint">run ${since.run}</span>`,
  ]);
  return tableHtml(
    'Fields and since when each is as it is',
    [{ head: 'Field' }, { head: 'Value', style: 'wide below' }, { head: 'Since' }],
    rows,
  );
}

function entryHtml(entry: LogEntry, definition: ResourceDefinition, now: number): Html {
  const { run, at, change, last_seen_before: before, created_again: again } = entry;
  const fields = fieldsForPeople(
    { change, fields: maskedFields(entry.returned ?? entry.fields, definition) },
    definition,
  );
  const rest = fields.slice(FIELDS_SHOWN);
  const window =
    before === null
      ? 'not read before: it may be older'
      : `last seen otherwise in run ${before.run}, ${before.at.slice(0, 16).replace('T', ' ')} UTC`;
  // The first revision of a record is its whole body, which is shown above already.
  const isPlain = change === 'added' && entry.returned === undefined;
  return markup`<article class="revision"><h3>${timeHtml(at)} UTC <span class="tag ${change}">${SIGN[change]} ${entry.returned === undefined ? change : 'came back'}</span></h3><p class="faint">${ageHtml(at, now)}, <a href="/runs/${run}">run ${run}</a>; ${window}</p>${again === undefined ? NOTHING : markup`<p>${capital(recreatedText({ ...again, was: maskedId(again.was, definition) }, maskedId(again.id, definition)))}</p>`}
${isPlain ? NOTHING : trusted(fields.slice(0, FIELDS_SHOWN).map(fieldHtml).join('\n'))}${isPlain || rest.length === 0 ? NOTHING : markup`<details class="rest"><summary>${plural(rest.length, 'more field')}</summary>${trusted(rest.map(fieldHtml).join('\n'))}</details>`}</article>`;
}

function bodyHtml(value: JsonValue, definition: ResourceDefinition): Html {
  const text = JSON.stringify(maskedBody(value, definition), null, 2);
  const shown = text.length <= BODY_LIMIT ? text : text.slice(0, BODY_LIMIT);
  // The line breaks of the indentation are the only ones that are not written out.
  const lines = shown.split('\n').map(escapeMarkup).join('\n');
  const more = text.length - shown.length;
  return markup`<pre class="body" tabindex="0"><bdi>${trusted(lines)}</bdi></pre>${more > 0 ? markup`<p class="faint">and ${plural(more, 'more character')}</p>` : NOTHING}`;
}

// The URL of a record's page. A record number is no secret and unique; an id may be secret or ambiguous.

/** `id`: masked where it is a secret. */
export function recordPath(kind: Kind, id: string, record: number | null = null): string {
  // Browsers resolve these two anywhere in a path.
  const shown = id === '.' || id === '..' || id === '' ? '-' : encodeURIComponent(id.toWellFormed());
  return `/records/${kind}/${shown}${record === null ? '' : `?record=${record}`}`;
}
