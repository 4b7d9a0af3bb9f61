/** Any two versions of a record side by side, with the lines that differ marked. Secrets are masked. */
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { TidemarkError } from '../../core/errors.ts';
import {
  type JsonObject,
  type JsonValue,
  isJsonObject,
  parseLossless,
  setOwn,
  sortedKeys,
} from '../../core/json.ts';
import { plural } from '../../core/wording.ts';
import { type ComparisonMode, compareBodies, type FieldChange } from '../../diff/compare.ts';
import type { HistoryRevision } from '../../diff/history.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordRow } from '../../mirror/records.ts';
import { lineParts } from '../../report/html-field.ts';
import { maskedBody, maskedFields, maskedId } from '../../report/mask.ts';
import { unknownFieldsText } from '../../report/notes.ts';
import { resolveState } from '../../state/resolved-state.ts';
import { capital } from '../../report/document.ts';
import { emptyHtml, faint, fieldListHtml, moreHtml, recordPath, selectHtml, timeHtml } from './components.ts';
import { type Html, type HtmlPart, markup, NOTHING } from './html.ts';

/** Versions to choose from; `?left=run:N` leads to older ones. */
const CHOICES = 200;
const FIELDS_SHOWN = 12;
/** Equal lines that stay visible before and after a difference. */
const CONTEXT = 3;
const LINES_SHOWN = 2_000;

/** A record as of a run. */
export interface Version {
  /** E.g. `run:7`. */
  readonly ref: string;
  readonly run: number;
  readonly at: string;
  /** Undefined before the record was first seen. */
  readonly revision: HistoryRevision | undefined;
  /** Undefined where the record did not exist. */
  readonly body: JsonValue | undefined;
}

/**
 * The version of a record in a state.
 * @param reference any name of a state of the mirror
 * @throws TidemarkError `reference_unknown` for an unknown one
 */
export function versionAt(
  mirror: Mirror,
  { source }: RecordRow,
  revisions: readonly HistoryRevision[],
  { reference, now }: { readonly reference: string; readonly now: number },
): Version {
  const { run, at } = resolveState(mirror, reference, { source, now });
  const revision = revisions.find((each) => each.run <= run);
  const text = revision?.body ?? null;
  const body = text === null ? undefined : parseLossless(text);
  return { ref: `run:${run}`, run, at, revision, body };
}

interface VersionFacts {
  readonly mirror: Mirror;
  readonly row: RecordRow;
  readonly definition: ResourceDefinition;
  /** Newest first. */
  readonly revisions: readonly HistoryRevision[];
  /** By run, what the history says of it, such as `returned`; nothing of runs older than it shows. */
  readonly words: ReadonlyMap<number, string>;
  /** `left` and `right` name the states to compare; `lines=all` shows every line. */
  readonly query: URLSearchParams;
  readonly now: number;
}

/** The path that compares two states of a record. */
export function comparisonPath(
  { kind, id, record }: RecordRow,
  definition: ResourceDefinition,
  query: object,
): string {
  const more = new URLSearchParams({ ...query }).toString();
  return `${recordPath(kind, maskedId(id, definition), record)}&${more}#versions`;
}

/** A form to choose two versions, and their comparison once they are chosen. */
export function versionsHtml(facts: VersionFacts): HtmlPart {
  const { mirror, row, revisions, query, now } = facts;
  const changed = revisions.filter(({ change }) => change !== 'rewritten');
  const [left, right] = [query.get('left') ?? '', query.get('right') ?? ''];
  const isAsked = left !== '' || right !== '';
  if (changed.length < 2 && !isAsked)
    return emptyHtml(
      'One version so far.',
      'When a sync finds a change, both versions can be compared here.',
    );
  const [before, after] = [left || `run:${changed[1]?.run ?? 0}`, right || `run:${changed[0]?.run ?? 0}`];
  const form = choiceForm(facts, before, after);
  if (!isAsked) return form;
  try {
    const version = (reference: string): Version => versionAt(mirror, row, revisions, { reference, now });
    return [form, comparisonHtml(facts, version(before), version(after))];
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    return [form, emptyHtml('These versions cannot be compared:', `${error.message}. ${error.hint ?? ''}`)];
  }
}

function choiceForm({ row, revisions, words, definition }: VersionFacts, left: string, right: string): Html {
  const known = revisions
    .filter(({ change }) => change !== 'rewritten')
    .slice(0, CHOICES)
    .map(({ run, at, change }): [string, string] => {
      const time = at.slice(0, 16).replace('T', ' ');
      return [`run:${run}`, `run ${run}, ${time} UTC: ${words.get(run) ?? change}`];
    });
  const box = (label: string, name: string, chosen: string): Html => {
    const isKnown = known.some(([value]) => value === chosen);
    return selectHtml(label, name, isKnown ? known : [[chosen, chosen], ...known], chosen);
  };
  const path = recordPath(row.kind, maskedId(row.id, definition));
  return markup`<form class="search" method="get" action="${path}#versions">
<input type="hidden" name="record" value="${row.record}">
${box('Left', 'left', left)}${box('Right', 'right', right)}<button>Compare</button></form>`;
}

function comparisonHtml(
  { mirror, row, definition, query }: VersionFacts,
  one: Version,
  other: Version,
): Html {
  // Fields whose values one of the versions does not have: the other's would look like a change.
  const unknown = new Set(
    [one, other].flatMap(({ revision, run, body }) =>
      revision === undefined || body === undefined || !isJsonObject(body)
        ? []
        : [...mirror.records.unknownIn(row, revision.run, run)].filter((name) => Object.hasOwn(body, name)),
    ),
  );
  const [left, right] = [withoutMembers(one, unknown), withoutMembers(other, unknown)];
  const note =
    unknown.size === 0
      ? NOTHING
      : markup`<p class="faint">${capital(unknownFieldsText('in versions of the past', [...unknown].sort().join(', ')))}.</p>`;
  const compared = (mode: ComparisonMode): readonly FieldChange[] =>
    left.body === undefined || right.body === undefined
      ? []
      : compareBodies(definition, left.body, right.body, mode);
  const changes = maskedFields(compared('default'), definition);
  const isBoth = left.body !== undefined && right.body !== undefined;
  // The lines below show volatile fields too, although these do not count as changed.
  const volatile = compared('all').length - changes.length;
  const beside = volatile === 0 ? '' : ` (and ${plural(volatile, 'volatile field')})`;
  const summary = !isBoth
    ? NOTHING
    : changes.length === 0
      ? emptyHtml('No difference', 'in what is compared; only volatile fields may differ.')
      : markup`<p class="faint">${plural(changes.length, 'field')} changed${beside}, secrets masked:</p>
${fieldListHtml(changes, FIELDS_SHOWN)}`;
  const rows = alignedLines(linesOf(left.body, definition), linesOf(right.body, definition));
  const isFull = query.get('lines') === 'all';
  const all = comparisonPath(row, definition, { left: left.ref, right: right.ref, lines: 'all' });
  return markup`${summary}${note}${linesTable(left, right, isFull ? rows : withoutEqual(rows), all)}`;
}

function withoutMembers(version: Version, names: ReadonlySet<string>): Version {
  const { body } = version;
  if (names.size === 0 || body === undefined || !isJsonObject(body)) return version;
  const kept: JsonObject = {};
  for (const [name, value] of Object.entries(body)) if (!names.has(name)) setOwn(kept, name, value);
  return { ...version, body: kept };
}

function linesOf(body: JsonValue | undefined, definition: ResourceDefinition): string[] {
  if (body === undefined) return [];
  return JSON.stringify(sorted(maskedBody(body, definition)), null, 2).split('\n');
}

/** With the members sorted by name, as their order in a response means nothing. */
function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isJsonObject(value)) return value;
  const result: JsonObject = {};
  for (const name of sortedKeys(value)) setOwn(result, name, sorted(value[name] ?? null));
  return result;
}

/** A line of both sides; null where a side has none. `gap` counts equal lines that are left out. */
interface Row {
  readonly left: string | null;
  readonly right: string | null;
  readonly isEqual: boolean;
  readonly gap?: number;
}

/** Lines of both sides by their longest common subsequence; what lies between two common lines is paired in order. @internal */
export function alignedLines(left: readonly string[], right: readonly string[]): Row[] {
  const rows: Row[] = [];
  let removed: readonly string[] = [];
  let added: readonly string[] = [];
  const pair = (): void => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1)
      rows.push({ left: removed[index] ?? null, right: added[index] ?? null, isEqual: false });
    [removed, added] = [[], []];
  };
  const parts = lineParts(left, right);
  if (parts === undefined) [removed, added] = [left, right];
  for (const part of parts ?? []) {
    if (part.removed) removed = part.value;
    else if (part.added) added = part.value;
    else {
      pair();
      for (const line of part.value) rows.push({ left: line, right: line, isEqual: true });
    }
  }
  pair();
  return rows;
}

/** With long stretches of equal lines left out. */
function withoutEqual(rows: readonly Row[]): Row[] {
  const isNear = rows.map((_unused, index) =>
    rows.slice(Math.max(0, index - CONTEXT), index + CONTEXT + 1).some(({ isEqual }) => !isEqual),
  );
  const shown: Row[] = [];
  for (const [index, row] of rows.entries()) {
    if (isNear[index] === true) {
      shown.push(row);
      continue;
    }
    const gap = shown.at(-1)?.gap;
    if (gap !== undefined) shown.pop();
    shown.push({ left: null, right: null, isEqual: true, gap: (gap ?? 0) + 1 });
  }
  return shown;
}

function linesTable(left: Version, right: Version, rows: readonly Row[], all: string): Html {
  const shown = rows.slice(0, LINES_SHOWN).map((row) => {
    if (row.gap !== undefined)
      return markup`<tr role="row" class="gap-row"><td role="cell" colspan="2">${plural(row.gap, 'equal line')}</td></tr>`;
    const style = row.isEqual ? 'equal' : 'differs';
    return markup`<tr role="row" class="${style}">${cell(row.left, 'old', row.isEqual)}${cell(row.right, 'new', row.isEqual)}</tr>`;
  });
  const rest = moreHtml(rows.length - shown.length, 'line');
  const isFolded = rows.some(({ gap }) => gap !== undefined);
  const link = isFolded ? markup`<p><a href="${all}">Show every line</a></p>` : NOTHING;
  return markup`<table class="versions" role="table"><caption class="side">Both versions, line by line</caption>
<thead role="rowgroup"><tr role="row">${headHtml(left)}${headHtml(right)}</tr></thead>
<tbody role="rowgroup">${shown}</tbody></table>${rest}${link}`;
}

function headHtml({ run, at, revision, body }: Version): Html {
  const since = revision === undefined || revision.run === run ? '' : `, as found by run ${revision.run}`;
  const state = body !== undefined ? NOTHING : faint(revision === undefined ? 'not seen yet' : 'removed');
  return markup`<th scope="col" role="columnheader"><a href="/runs/${run}">Run ${run}</a>
${faint(timeHtml(at), since)} ${state}</th>`;
}

function cell(line: string | null, side: 'old' | 'new', isEqual: boolean): Html {
  if (line === null) return markup`<td role="cell" class="none"></td>`;
  const sign = isEqual ? NOTHING : markup`<span class="side">${side === 'old' ? 'Left' : 'Right'}: </span>`;
  return markup`<td role="cell" class="${side}">${sign}<code><bdi>${line}</bdi></code></td>`;
}
