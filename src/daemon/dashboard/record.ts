/** The page of one record: its fields and since when each has its value, its history, and its body. Secrets are masked. */
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
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
import { capital, SIGN } from '../../report/document.ts';
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
  crumbs,
  emptyHtml,
  factsHtml,
  faint,
  fieldListHtml,
  moreHtml,
  nameHtml,
  placeOf,
  recordPath,
  section,
  tableHtml,
  timeHtml,
  mismatchHtml,
} from './components.ts';
import { type Html, markup, NOTHING, trusted } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';
import { versionPlanPath } from './restore-plan.ts';
import { comparisonPath, versionsHtml } from './versions.ts';

interface RecordFacts extends Omit<PageFacts, 'canAct'> {
  readonly row: RecordRow;
  /** `left` and `right` choose versions to compare. */
  readonly query: URLSearchParams;
  /** True for an open page, which is loaded again every few seconds. */
  readonly isPoll: boolean;
}

/** Revisions that the page shows; `tidemark log` shows all. */
const REVISIONS_SHOWN = 30;
const FIELDS_SHOWN = 8;
const VALUE_LIMIT = 160; // characters of a value in the table of fields
const BODY_LIMIT = 100_000; // characters of a body: with more, the page would not open

/** @throws TidemarkError `mirror_corrupt` when a body of the record does not match its hash */
export function recordPage(facts: RecordFacts): PageContent {
  const { mirror, config, row, sources, query, now, isPoll } = facts;
  const definitions = definitionsFor(config, row.source);
  const definition = definitions(row.kind);
  const latest = mirror.runs.latest(row.source)?.run ?? 0;
  const history = recordHistory(mirror, row, latest, definitions);
  const { revisions, sightingBefore, seenBy, firstSeen, withRestores } = history;
  // Of a record that continues under another id, the page shows what it was under this one; its log shows all.
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
  const summary = factsHtml([
    ['Id', markup`<span class="id">${shownAs.id}</span>`],
    ...otherIds(history.idChanges, row.id).map((other) => otherIdFact(row, definition, other)),
    ...(place === '' ? [] : [['In', place] as const]),
    ...(sources.length > 1 ? [['Source', nameHtml(row.source)] as const] : []),
    ...(firstSeen === null ? [] : [['First seen', seenAtHtml(firstSeen)] as const]),
    ...(row.isRemoved
      ? [['Removed', seenAtHtml(row)] as const]
      : newest === undefined
        ? []
        : [['Last changed', seenAtHtml(newest)] as const]),
  ]);
  const shown = revisions.slice(0, REVISIONS_SHOWN + 1);
  // One more is read than is shown, to compare the oldest one with.
  const log = withRestores(recordLog(definition, shown, options)).filter(
    (entry) => shown.length <= REVISIONS_SHOWN || entry.run !== shown.at(-1)?.run,
  );
  const words = new Map(log.map((entry) => [entry.run, changeWord(entry)]));
  const blame = withWriters(recordBlame(definition, own, { ...options, isDeep: false }), log);
  const above = crumbs(
    ['/records', 'Records'],
    [`/records?kind=${row.kind}`, capital(definition.title.many)],
  );
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
  const content = markup`${above}
<h1>${nameHtml(shownAs.name)}</h1><p class="faint">${definition.title.one}${state}</p>
${mismatchHtml(alteredLines(mirror, row, isPoll, () => history.altered()))}
${summary}
<nav class="contents" aria-label="On this page">
<a href="#fields">Fields</a><a href="#versions">Versions</a><a href="#history">History</a>
<a href="#body">Body</a></nav>
${section('fields', ['Fields', aside(asOf)], fieldsHtml(blame, definition, now))}
${section('versions', 'Versions', versionsHtml({ mirror, row, definition, revisions, words, query, now }))}
${section(
  'history',
  'History',
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
${section('body', ['Body', aside('secrets masked')], bodyHtml(value, definition))}`;
  return { title: shownAs.name, body: content };
}

/**
 * What shows that the record's history was altered. To check the seals of thousands of runs takes most of a second, in which the daemon
 * does nothing else: an open page gets what was found before, until a run or a verification begins or ends.
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

/** An id that the record had before, or continues under, with a link to its page. */
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
  return markup`<p class="faint">${plural(more, 'older revision')}: <code>tidemark log ${kind} ${id}</code></p>`;
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

/** The page that offers several records with the same id, each in another scope. */
export function choicePage(
  rows: readonly RecordRow[],
  { mirror, config }: Pick<PageFacts, 'mirror' | 'config'>,
): PageContent {
  const items = rows.map((row) => {
    const definitions = definitionsFor(config, row.source);
    const definition = definitions(row.kind);
    const own = shownName(row, row.body, definition);
    const parentName = parentNames(mirror, row.source, definitions);
    const lastName = row.isRemoved ? parentName(row.kind, row.id) : undefined;
    const path = recordPath(row.kind, maskedId(row.id, definition), row.record);
    return [
      markup`<a href="${path}">${nameHtml(lastName === undefined ? own.name : nameText(lastName))}</a>`,
      placeOf(row.scope, definitions, parentName),
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
  const body = markup`${crumbs(['/records', 'Records'])}
<h1>${plural(rows.length, 'record')} with this id</h1><p class="faint">Each is in another place or of another source.</p>
<div class="gap"></div>${tableHtml('Records with this id', columns, items)}`;
  return { title: 'Which record', body };
}

function seenAtHtml(sighting: SeenAt): Html {
  const { run, at } = sighting;
  return markup`${timeHtml(at)}, <a href="/runs/${run}">run ${run}</a>${earlierText(sighting)}`;
}

/** Added where a run that retention dropped may have seen it earlier. */
function earlierText({ may_be_earlier: mayBeEarlier }: SeenAt): string {
  return mayBeEarlier === true ? ' or earlier' : '';
}

function fieldsHtml(fields: readonly BlameField[], definition: ResourceDefinition, now: number): Html {
  if (fields.length === 0) return emptyHtml('No fields.', '');
  const rows = fields.map(({ path, value, since, changed_by: by, is_unknown_before: isUnknown }) => {
    const earlier = isUnknown === true ? ' or earlier' : earlierText(since);
    const writer = by === undefined ? '' : `, ${restoreText(by)}`;
    return [
      markup`<code>${breakable(nameText(maskedPlace(path, definition).replace(/^\/(?!$)/, '')))}</code>`,
      markup`<code>${foldedValue(maskedAt(path, value, definition), VALUE_LIMIT)}</code>`,
      markup`${ageHtml(since.at, now)} ${faint(`run ${since.run}${earlier}${writer}`)}`,
    ];
  });
  const columns = [
    { head: 'Field' },
    { head: 'Value', style: 'wide below' },
    { head: 'Since', style: 'below', label: 'since' },
  ];
  return tableHtml('Fields, and since when each has its value', columns, rows);
}

/** Links to compare a version with the one before, and to plan its restore. */
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
  // The service has the newest version, unless it no longer shows the record.
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
  // The fields of the first revision are those of the body, which the page shows below.
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
  // Escaping would replace line breaks: those of the indentation are kept.
  const lines = trusted(text.slice(0, BODY_LIMIT).split('\n').map(escapeMarkup).join('\n'));
  return markup`<pre class="body" tabindex="0"><bdi>${lines}</bdi></pre>${moreHtml(text.length - BODY_LIMIT, 'character')}`;
}
