/** The page of one record: its fields and since when each has its value, its history, and its body. Secrets are masked. */
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { parseLossless, type JsonValue } from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import {
  type BlameField,
  type LogEntry,
  type OtherId,
  type SeenAt,
  recordBlame,
  recordLog,
  otherIds,
  withWriters,
} from '../../diff/history.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { escapeMarkup } from '../../report/markup.ts';
import {
  maskedAt,
  maskedBody,
  maskedFields,
  maskedId,
  maskedPlace,
  withMaskedId,
} from '../../report/mask.ts';
import { fieldsForPeople } from '../../report/diff-report.ts';
import { SIGN } from '../../report/document.ts';
import {
  notReadText,
  otherIdText,
  placeText,
  recreatedText,
  restoreText,
  writtenText,
} from '../../report/notes.ts';
import { foldedValue, nameText } from '../../report/value-text.ts';
import { parentNames, storedName } from '../../state/parent-names.ts';
import { recordHistory } from '../../state/record-history.ts';
import {
  ageHtml,
  breakable,
  capital,
  emptyHtml,
  factsHtml,
  faint,
  fieldListHtml,
  nameHtml,
  recordPath,
  section,
  tableHtml,
  timeHtml,
  mismatchHtml,
} from './components.ts';
import { type Html, markup, NOTHING, trusted } from './html.ts';
import type { PageContent } from './layout.ts';
import { versionPlanPath } from './restore-plan.ts';
import { comparisonPath, versionsHtml } from './versions.ts';

interface RecordFacts {
  readonly mirror: Mirror;
  readonly config: Config;
  readonly row: RecordRow;
  readonly hasOthers: boolean;
  /** `left` and `right` choose versions to compare. */
  readonly query: URLSearchParams;
  readonly now: number;
  /** True for a page that is open, and asks every few seconds. */
  readonly isPoll?: boolean;
}

/** Revisions that the page shows; the command line has all. */
const REVISIONS_SHOWN = 30;
const FIELDS_SHOWN = 8;
const VALUE_LIMIT = 160; // characters of a value in the table of fields
const BODY_LIMIT = 100_000; // characters of a body: longer ones would not open

/** @throws TidemarkError `mirror_corrupt` when a body of the record does not match its hash */
export function recordPage(asked: RecordFacts): PageContent {
  const { mirror, config, row, hasOthers, query, now, isPoll = false } = asked;
  const definitions = definitionsFor(config, row.source);
  const definition = definitions(row.kind);
  const latest = mirror.runs.latest(row.source)?.run ?? 0;
  const history = recordHistory(mirror, row, latest, definitions);
  const { revisions, sightingBefore, seenBy, firstSeen, withRestores } = history;
  // Of a record that continues under another id: what it was under this one. Its log has all of it.
  const own = revisions.slice(
    Math.max(
      0,
      revisions.findIndex(({ id }) => id === row.id),
    ),
  );
  const body = own.find(({ body: text }) => text !== null)?.body ?? row.body;
  const value = body === null ? null : parseLossless(body);
  const shownAs = shownName(row, body, definition);
  const parentName = parentNames(mirror, row.source, definitions);
  const place = placeText(row.scope, { definitions, parentName });
  const options = { mode: 'default', sightingBefore, seenBy } as const;
  const [newest] = revisions;
  const facts = factsHtml([
    ['Id', markup`<span class="id">${shownAs.id}</span>`],
    ...otherIds(history.idChanges, row.id).map((other) => otherIdFact(row, definition, other)),
    ...(place === '' ? [] : [['In', place] as const]),
    ...(hasOthers ? [['Source', nameHtml(row.source)] as const] : []),
    ...(firstSeen === null ? [] : [['First seen', seenAtHtml(firstSeen)] as const]),
    ...(row.isRemoved
      ? [['Removed', seenAtHtml(row)] as const]
      : newest === undefined
        ? []
        : [['Last changed', seenAtHtml(newest)] as const]),
  ]);
  const shown = revisions.slice(0, REVISIONS_SHOWN + 1);
  // The changes of the oldest revision shown are unknown without the one before it.
  const log = withRestores(recordLog(definition, shown, options)).filter(
    (entry) => shown.length <= REVISIONS_SHOWN || entry.run !== shown.at(-1)?.run,
  );
  const words = new Map(log.map((entry) => [entry.run, changeWord(entry)]));
  const blame = withWriters(recordBlame(definition, own, { ...options, isDeep: false }), log);
  const kinds = markup`<a href="/records?kind=${row.kind}">${capital(definition.title.many)}</a>`;
  const held = mirror.runs.heldSince(row);
  const unread = held === undefined ? history.notReadSince() : null;
  const state = row.isRemoved
    ? markup`, <strong class="removed">removed</strong>`
    : held === undefined
      ? unread === null
        ? NOTHING
        : `, ${notReadText(unread)}`
      : markup`, <strong class="removed">missing since run ${held.run}</strong>, its removal is held`;
  const asOf = `${row.isRemoved || held !== undefined ? 'as last seen' : 'current values'}, and since when`;
  const content = markup`<p class="crumbs faint"><a href="/records">Records</a> / ${kinds}</p>
<h1>${nameHtml(shownAs.name)}</h1><p class="faint">${definition.title.one}${state}</p>
${mismatchHtml(alteredLines(mirror, row, isPoll, () => history.altered()))}
${facts}
<nav class="contents" aria-label="On this page">
<a href="#fields">Fields</a><a href="#versions">Versions</a><a href="#history">History</a>
<a href="#body">Body</a></nav>
${section('fields', 'Fields', aside(asOf), fieldsHtml(blame, definition, now))}
${section('versions', 'Versions', NOTHING, versionsHtml({ mirror, row, definition, revisions, words, query, now }))}
${section(
  'history',
  'History',
  NOTHING,
  log.map((entry, index) =>
    entryHtml(
      entry,
      definition,
      now,
      versionLinks(row, definition, log, { index, isHeld: held !== undefined }),
    ),
  ),
  olderHtml(revisions.length - REVISIONS_SHOWN, row.kind, shownAs.id),
)}
${section('body', 'Body', aside('secrets masked'), bodyHtml(value, definition))}`;
  return { title: shownAs.name, body: content };
}

/**
 * What shows that the record's history was altered. The seals of thousands of runs take most of a second, in which the
 * daemon does nothing else: an open page keeps what was found until a run or a verification begins or ends.
 */
function alteredLines(
  mirror: Mirror,
  { record }: RecordRow,
  isPoll: boolean,
  compute: () => readonly string[],
): readonly string[] {
  const [run] = mirror.runs.list({ limit: 1 });
  const [verification] = mirror.daemon.jobs({ name: 'verify', limit: 1 });
  const state = [run?.run, run?.outcome, verification?.job, verification?.outcome].join(' ');
  let known = ALTERED.get(mirror);
  if (known?.state !== state) {
    known = { state, lines: new Map() };
    ALTERED.set(mirror, known);
  }
  const lines = (isPoll ? known.lines.get(record) : undefined) ?? compute();
  known.lines.set(record, lines);
  return lines;
}

const ALTERED = new WeakMap<
  Mirror,
  { readonly state: string; readonly lines: Map<number, readonly string[]> }
>();

/** An id under which the record continues, or one that it had, with a link to its page. */
function otherIdFact(
  { kind }: RecordRow,
  definition: ResourceDefinition,
  other: OtherId,
): readonly [string, Html] {
  const id = maskedId(other.id, definition);
  const link = markup`<a class="id" href="${recordPath(kind, id)}">${nameText(id)}</a>`;
  return [other.isLater ? 'Continues as' : 'Id before', markup`${link} ${faint(otherIdText(other))}`];
}

function aside(text: string): Html {
  return markup`<span class="aside faint">${text}</span>`;
}

function olderHtml(more: number, kind: Kind, id: string): Html {
  if (more <= 0) return NOTHING;
  const command = markup`<code>tidemark log ${kind} ${id}</code>`;
  return markup`<p class="faint">${plural(more, 'older revision')}: ${command}</p>`;
}

/** Id and name of a record, masked where they are secret. */
function shownName(
  { id }: RecordRow,
  body: string | null,
  definition: ResourceDefinition,
): { readonly id: string; readonly name: string } {
  const name = body === null ? id : storedName(definition, body, id);
  const own = withMaskedId({ id, name }, definition);
  return { id: nameText(own.id), name: nameText(own.name) };
}

/** A choice between several records with this id, each in another scope. */
export function choicePage(
  rows: readonly RecordRow[],
  { mirror, config }: { readonly mirror: Mirror; readonly config: Config },
): PageContent {
  const items = rows.map((row) => {
    const definitions = definitionsFor(config, row.source);
    const definition = definitions(row.kind);
    const own = shownName(row, row.body, definition);
    const parentName = parentNames(mirror, row.source, definitions);
    const lastName = row.isRemoved ? parentName(row.kind, row.id) : undefined;
    const masked = maskedId(row.id, definition);
    return [
      markup`<a href="${recordPath(row.kind, masked, row.record)}">${nameHtml(lastName === undefined ? own.name : nameText(lastName))}</a>`,
      placeText(row.scope, { definitions, parentName }, { hasIds: false }),
      nameHtml(row.source),
      row.isRemoved ? 'removed' : 'current',
    ];
  });
  const columns = [
    { head: 'Name', style: 'wide' },
    { head: 'In', style: 'wide below', label: 'In' },
    { head: 'Source', style: 'below source', label: 'Source' },
    { head: 'State' },
  ];
  const body = markup`<p class="crumbs faint"><a href="/records">Records</a></p>
<h1>${plural(rows.length, 'record')} with this id</h1><p class="faint">Each is in another place or of another source.</p>
<div class="gap"></div>${tableHtml('Records with this id', columns, items)}`;
  return { title: 'Which record', body };
}

function seenAtHtml(sighting: SeenAt): Html {
  const { run, at } = sighting;
  return markup`${timeHtml(at)}, <a href="/runs/${run}">run ${run}</a>${earlierText(sighting)}`;
}

/** Of one that may be of a forgotten run. */
function earlierText({ may_be_earlier: mayBeEarlier }: SeenAt): string {
  return mayBeEarlier === true ? ' or earlier' : '';
}

function fieldsHtml(fields: readonly BlameField[], definition: ResourceDefinition, now: number): Html {
  if (fields.length === 0) return emptyHtml('No fields.', '');
  const rows = fields.map(({ path, value, since, changed_by: by, is_unknown_before: isUnknown }) => [
    markup`<code>${breakable(nameText(maskedPlace(path, definition).replace(/^\/(?!$)/, '')))}</code>`,
    markup`<code>${foldedValue(maskedAt(path, value, definition), VALUE_LIMIT)}</code>`,
    markup`${ageHtml(since.at, now)} ${faint(`run ${since.run}${isUnknown === true ? ' or earlier' : earlierText(since)}${by === undefined ? '' : `, ${restoreText(by)}`}`)}`,
  ]);
  const columns = [
    { head: 'Field' },
    { head: 'Value', style: 'wide below' },
    { head: 'Since', style: 'below', label: 'since' },
  ];
  return tableHtml('Fields, and since when each has its value', columns, rows);
}

/** What can be done with a version: compare it with the one before, plan its restore. */
function versionLinks(
  row: RecordRow,
  definition: ResourceDefinition,
  log: readonly LogEntry[],
  { index, isHeld }: { readonly index: number; readonly isHeld: boolean },
): Html {
  const [entry, older] = [log[index], log[index + 1]];
  if (entry === undefined) return NOTHING;
  const own = `run:${entry.run}`;
  const compare =
    older === undefined
      ? NOTHING
      : markup`<a href="${comparisonPath(row, definition, { left: `run:${older.run}`, right: own })}">Compare with run ${older.run}</a>`;
  const isRestorable = entry.change !== 'removed' && definition.restore.never === null;
  // The newest one is what the service has, unless it no longer shows the record.
  const plan =
    isRestorable && (index > 0 || isHeld)
      ? markup`<a href="${versionPlanPath(row, own)}">Plan: restore this version</a>`
      : NOTHING;
  return markup`<p class="links">${compare}${plan}</p>`;
}

function changeWord({ change, returned }: LogEntry): string {
  return returned === undefined ? change : 'returned';
}

function entryHtml(entry: LogEntry, definition: ResourceDefinition, now: number, links: Html): Html {
  const { run, at, change, last_seen_before: before, created_again: again, changed_by: by, returned } = entry;
  const window =
    before === null
      ? 'first seen here; it may be older'
      : markup`previous version last seen in run ${before.run}, ${timeHtml(before.at)}${earlierText(before)}`;
  const was = again === undefined ? null : { ...again, was: maskedId(again.was, definition) };
  const recreated =
    was === null ? NOTHING : markup`<p>${capital(recreatedText(was, maskedId(was.id, definition)))}</p>`;
  const fields = fieldsForPeople(
    { change, fields: maskedFields(returned ?? entry.fields, definition) },
    definition,
  );
  const { volatile_unknown: unknown } = entry;
  const unkept =
    unknown === undefined
      ? NOTHING
      : markup`<p class="faint">Not known, since volatile then: <code>${unknown.join(', ')}</code></p>`;
  // The first revision of a record is its complete body, which the page shows already.
  const isFirst = change === 'added' && returned === undefined;
  const tag = markup`<span class="tag ${change}">${SIGN[change]} ${changeWord(entry)}</span>`;
  return markup`<article class="revision"><h3>${timeHtml(at)} ${tag}</h3>
<p class="faint">${ageHtml(at, now)}, <a href="/runs/${run}">run ${run}</a>; ${window}</p>
${recreated}
${by === undefined ? NOTHING : markup`<p>${capital(writtenText(change, by, entry.fields))}</p>`}
${isFirst ? NOTHING : fieldListHtml(fields, change === 'removed' ? 0 : FIELDS_SHOWN)}
${unkept}${links}</article>`;
}

function bodyHtml(value: JsonValue, definition: ResourceDefinition): Html {
  const text = JSON.stringify(maskedBody(value, definition), null, 2);
  // The line breaks of the indentation are the only ones that are not escaped.
  const lines = trusted(text.slice(0, BODY_LIMIT).split('\n').map(escapeMarkup).join('\n'));
  const more = text.length - BODY_LIMIT;
  const rest = more > 0 ? markup`<p class="faint">and ${plural(more, 'more character')}</p>` : NOTHING;
  return markup`<pre class="body" tabindex="0"><bdi>${lines}</bdi></pre>${rest}`;
}
