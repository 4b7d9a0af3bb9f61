/** The audit log: who did what, newest first, with the filters of `tidemark audit`. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isoTime } from '../../core/clock.ts';
import { plural } from '../../core/wording.ts';
import { AUDIT_ACTIONS, type AuditAction } from '../../mirror/audit-actions.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import {
  auditActionText,
  auditCsv,
  detailText,
  type ShownEntry,
  subjectText,
} from '../../report/audit-report.ts';
import { byText } from '../../report/value-text.ts';
import { choosePeriod } from '../../state/period.ts';
import { sourceIn, valuesIn } from '../http/request.ts';
import {
  AuditWalk,
  contradictedLines,
  damageNotes,
  type AuditFilter,
  type AuditSearchCache,
  plainLines,
} from '../http/audit-entries.ts';
import {
  badge,
  breakable,
  chipsHtml,
  emptyHtml,
  hintHtml,
  mismatchHtml,
  nameHtml,
  sourceSelect,
  tableHtml,
} from './components.ts';
import { clockTime, type Html, markup, NOTHING } from './html.ts';
import type { PageContent, PageFacts } from './layout.ts';

const ENTRIES_SHOWN = 200;
/** Entries between two turns of the event loop: to look up the name of a record may take some milliseconds. */
const STEPS_SLICE = 10;
/** The same where no names are looked up. */
const READ_SLICE = 500;
/** Longer than any name that can be searched. */
const MOST_TEXT = 500;

/** The filters as they were typed; an empty one narrows nothing. */
interface AuditQuestion {
  readonly since: string;
  readonly until: string;
  readonly by: string;
  readonly actions: readonly AuditAction[];
  /** Null for all. */
  readonly source: string | null;
}

type AuditFacts = Omit<PageFacts, 'canAct'>;

/**
 * The page of the audit log.
 * @param searches what was found before in this mirror
 * @throws TidemarkError `usage` for an action or source that is unknown, as `choosePeriod` for a time or state that is, and
 * `mirror_corrupt`
 */
export async function auditPage(
  { mirror, config, sources, now }: AuditFacts,
  query: URLSearchParams,
  searches: AuditSearchCache,
): Promise<PageContent> {
  const asked = questionOf(query, sources);
  const filter = filterOf(mirror, asked, now);
  const { entries, count, of, altered, damage, foundAt } = await searches.find(
    mirror,
    config,
    { ...filter, limit: ENTRIES_SHOWN },
    { question: JSON.stringify(asked), now },
  );
  // The last line says what to do about the others.
  const contradicted = plainLines(contradictedLines(altered, mirror));
  const notes = [
    ...contradicted.slice(-1),
    ...filter.period.notes,
    ...damageNotes(damage),
    ...(count > ENTRIES_SHOWN ? [cutText(count)] : []),
  ];
  const download =
    count === 0 ? NOTHING : markup`, <a href="${pathOf('/audit.csv', asked)}" download>as CSV</a>`;
  const counted = markup`<p class="faint">${countText(count, of)}${download}. All ${plural(of, 'entry', 'entries')} checked ${clockTime(isoTime(foundAt), 19)}; again after ten minutes, or when the mirror is written.</p>`;
  const body = markup`<h1>Audit log</h1>
<p class="faint">Who accepted, pinned, restored or forgot what, newest first.</p>
${mismatchHtml(contradicted.slice(0, -1))}${chooser(asked, sources)}${of === 0 ? NOTHING : counted}${notes.map(hintHtml)}
${entries.length === 0 ? nothingHtml(of) : entriesHtml(entries, sources.length > 1)}`;
  return { title: 'Audit log', body };
}

/**
 * All entries that match the filters of the page, in the form of `tidemark audit --format csv`, without the notes. The log is read once to
 * see that it can be read, and again as it is sent: the entries are never all in memory.
 * @param openReader opens the mirror that is read for sending: that of the request may be closed before
 * @param onFailure called if reading fails later on, which ends the stream
 * @throws as `auditPage`
 */
export async function auditCsvStream(
  { mirror, config, sources, now }: AuditFacts,
  query: URLSearchParams,
  {
    openReader,
    onFailure,
  }: { readonly openReader: () => Mirror; readonly onFailure: (error: unknown) => void },
): Promise<ReadableStream<Uint8Array>> {
  const filter = filterOf(mirror, questionOf(query, sources), now);
  for (const { entry } of mirror.auditLog()) if (entry % READ_SLICE === 0) await nextTurn();
  async function* pieces(): AsyncGenerator<Uint8Array, undefined> {
    let reader: Mirror | undefined;
    try {
      reader = openReader();
      yield* csvPieces(new AuditWalk(reader, config, filter));
    } catch (error) {
      onFailure(error);
    } finally {
      reader?.close();
    }
  }
  return ReadableStream.from(pieces());
}

async function* csvPieces(walk: AuditWalk): AsyncGenerator<Uint8Array, undefined> {
  let text = '';
  let steps = 0;
  for (const line of auditCsv(walk.steps())) {
    text += line;
    steps += 1;
    if (steps % STEPS_SLICE !== 0) continue;
    if (text !== '') yield Buffer.from(text);
    text = '';
    await nextTurn();
  }
  if (text !== '') yield Buffer.from(text);
  return undefined;
}

function filterOf(
  mirror: Mirror,
  { since, until, by, actions, source }: AuditQuestion,
  now: number,
): AuditFilter {
  const given = (text: string): string | undefined => (text === '' ? undefined : text);
  const sources = source === null ? undefined : [source];
  return {
    period: choosePeriod(mirror, { since: given(since), until: given(until), sources }, now),
    actions: actions.length === 0 ? undefined : actions,
    by: by === '' ? undefined : [by],
    sources,
  };
}

function questionOf(query: URLSearchParams, sources: readonly string[]): AuditQuestion {
  const text = (name: string): string => (query.get(name) ?? '').trim().slice(0, MOST_TEXT);
  return {
    since: text('since'),
    until: text('until'),
    by: text('by'),
    actions: valuesIn(query, 'action', AUDIT_ACTIONS),
    source: sourceIn(query, sources),
  };
}

function chooser(asked: AuditQuestion, sources: readonly string[]): Html {
  const { since, until, by, actions, source } = asked;
  const box = (label: string, name: string, value: string): Html =>
    markup`<label class="grow">${label}<input type="search" name="${name}" value="${value}" autocomplete="off"
spellcheck="false" maxlength="${MOST_TEXT}"></label>`;
  const chips = chipsHtml(
    'Action',
    'action',
    AUDIT_ACTIONS.map((each) => [each, auditActionText(each)]),
    actions,
  );
  // With no box checked, all actions are shown anyway.
  const all =
    actions.length === 0
      ? NOTHING
      : markup`<a href="${pathOf('/audit', { ...asked, actions: [] })}">All actions</a>`;
  return markup`<form class="search" method="get" action="/audit" role="search">
${box('Since (time, age or state)', 'since', since)}${box('Until', 'until', until)}${box('By', 'by', by)}
${sourceSelect(sources, source)}<button>Show</button>
${chips}${all}</form>`;
}

/** The path with these filters. */
function pathOf(path: string, { since, until, by, actions, source }: AuditQuestion): string {
  const given = Object.entries({ since, until, by, source: source ?? '' }).filter(([, text]) => text !== '');
  const chosen = actions.map((action) => ['action', action] as [string, string]);
  const query = new URLSearchParams([...given, ...chosen]).toString();
  return query === '' ? path : `${path}?${query}`;
}

function countText(count: number, of: number): string {
  return count === of ? plural(of, 'entry', 'entries') : `${count} of ${plural(of, 'entry', 'entries')}`;
}

function cutText(count: number): string {
  return `the newest ${ENTRIES_SHOWN} of ${count}: choose a shorter period, or \`tidemark audit\``;
}

function nothingHtml(of: number): Html {
  return of === 0
    ? emptyHtml('The audit log is empty:', 'nothing was accepted, pinned, restored or forgotten yet.')
    : emptyHtml('No entry matches.', '`tidemark audit` takes the same filters.');
}

function entriesHtml(entries: readonly ShownEntry[], namesSource: boolean): Html {
  const columns = [
    { head: 'Time' },
    { head: 'Action' },
    { head: 'What', style: 'wide below' },
    { head: 'Details', style: 'wide below' },
    { head: 'By', style: 'wide below', label: 'by' },
    ...(namesSource ? [{ head: 'Source', style: 'below source', label: 'of' }] : []),
  ];
  const rows = entries.map((entry) => [
    clockTime(entry.at, 19),
    markup`<strong>${auditActionText(entry.action)}</strong>${entry.isAltered ? markup` ${badge('bad', 'altered')}` : NOTHING}`,
    subjectHtml(entry),
    markup`${breakable(detailText(entry, (at) => at.replace(/\.\d+Z$/, 'Z')))}`,
    nameHtml(byText(entry)),
    ...(namesSource ? [entry.source === null ? NOTHING : nameHtml(entry.source)] : []),
  ]);
  return tableHtml('Entries', columns, rows);
}

/** What the entry is about, with a link to the restore, or to the run whose removals were accepted. */
function subjectHtml(entry: ShownEntry): Html {
  const { subject } = entry;
  const name = nameHtml(subjectText(entry));
  if (subject.about === 'removals') return markup`<a href="/runs/${subject.run}">${name}</a>`;
  return subject.about === 'restore' ? markup`<a href="/restores/${subject.restore}">${name}</a>` : name;
}
