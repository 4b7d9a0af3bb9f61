/** Notes on states, collections and records, in the same words for all formats. */
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { collectionKey, definitionOf, familyKinds, scopeKey, scopeText } from '../catalog/catalog.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { defined } from '../core/defined.ts';
import { formatInteger, plural } from '../core/wording.ts';
import {
  type DiffDocument,
  type RecordChange,
  type Recreated,
  type WrittenBy,
  type Stale,
  type StateReference,
  mayHide,
} from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { acceptedText } from '../diff/drift.ts';
import type { ExplainedForm, FormChange } from '../diff/form-change.ts';
import type { OtherId } from '../diff/history.ts';
import type { ReportOptions } from './options.ts';
import { byText, nameText } from './value-text.ts';

/** E.g. `organization Harbor (0189…), project 12`; with `hasIds: false`, the id only of parents without a name. */
export function placeText(...of: Parameters<typeof parentTexts>): string {
  return parentTexts(...of).join(', ');
}

/** The parts of `placeText`: a name may contain a comma. */
export function parentTexts(
  scope: RecordChange['scope'],
  options: ReportOptions,
  { hasIds }: { readonly hasIds: boolean } = { hasIds: true },
): string[] {
  return SCOPE_KEYS.flatMap((key) => {
    const id = scope[key];
    if (id === undefined) return [];
    const kind = SCOPE_KIND[key];
    const name = options.parentName?.(kind, id);
    const title = options.definitions(kind).title.one;
    return [
      `${title} ${name === undefined ? nameText(id) : `${nameText(name)}${hasIds ? ` (${nameText(id)})` : ''}`}`,
    ];
  });
}

/** Writes places by the names of the parents in either state; by id if there is no name. */
export function namedPlaces(options: ReportOptions): PlaceOf {
  const { parentName, removedParentName } = options;
  const named: ReportOptions = {
    ...options,
    parentName: (kind, id) => parentName?.(kind, id) ?? removedParentName?.(kind, id),
  };
  return (scope) => placeText(scope, named, { hasIds: false });
}

/** An ISO 8601 time without fractions of a second. */
export function toTheSecond(at: string): string {
  return at.replace(/\.\d+Z$/, 'Z');
}

/** E.g. `production: run 41, 2026-03-01T07:00:00Z`, as far as it is known. */
export function referenceText(
  reference: StateReference,
  timeText: (at: string) => string = toTheSecond,
): string {
  const parts = [
    reference.run === undefined || reference.ref === `run:${reference.run}` ? null : `run ${reference.run}`,
    reference.at === undefined || reference.ref === reference.at ? null : timeText(reference.at),
  ].filter((part) => part !== null);
  const source = reference.source === undefined ? '' : `${reference.source}: `;
  return escapeControlCharacters(
    `${source}${reference.ref}${parts.length > 0 ? ` (${parts.join(', ')})` : ''}`,
  );
}

/** For a past state without volatile fields. @param of names the state @param fields the fields that are known by name */
export function unknownFieldsText(of: string, fields: string): string {
  return `${of}: fields that change on their own are left out (${fields}), the mirror has their latest values only`;
}

/** E.g. `batch exports, organization 0189…: the key may not read them`. */
export function skippedText(skipped: DiffDocument['skipped'][number], options: ReportOptions): string {
  const place = placeText(skipped.scope, options);
  const title = options.definitions(skipped.kind).title.many;
  return `${title}${place === '' ? '' : `, ${place}`}: ${escapeControlCharacters(skipped.reason)}`;
}

/** True if something could not be compared, or only as it was last read: exit code 3. */
export function isInDoubt(document: Pick<DiffDocument, 'skipped' | 'stale'>): boolean {
  return document.skipped.length > 0 || readingsThatMayHideChanges(document).length > 0;
}

/** The collections that could not be compared, or only as they were last read, each once. */
export function uncomparedCollections(
  document: Pick<DiffDocument, 'skipped' | 'stale'>,
): { readonly kind: Kind; readonly scope: Scope }[] {
  const collections = [...document.skipped, ...readingsThatMayHideChanges(document)];
  const byKey = new Map(
    collections.map(({ kind, scope }) => [collectionKey({ kind, scope }), { kind, scope }]),
  );
  return [...byKey.values()];
}

// Notes on collections, a line for each reason.

/** More of one kind are only counted. */
const SCOPES_SHOWN = 3;

type Noted = Pick<DiffDocument['skipped'][number], 'kind' | 'scope' | 'reason'>;

/** The parents of a collection in words; their ids if there are no names. */
export type PlaceOf = (scope: Scope) => string;

interface NotesOptions {
  readonly placeOf?: PlaceOf | undefined;
  readonly most?: number;
}

/**
 * E.g. `left out: members (organization 0189…), roles: the export holds none of this kind`.
 * @param options.most kinds named for each reason; more are counted
 */
export function groupedNotes(
  label: string,
  notes: readonly Noted[],
  definitions: (kind: Kind) => ResourceDefinition,
  { placeOf = scopeText, most = Infinity }: NotesOptions = {},
): string[] {
  return [...Map.groupBy(notes, ({ reason }) => reason)].map(([reason, same]) => {
    const kinds = [...Map.groupBy(same, ({ kind }) => kind)].map(
      ([kind, own]) => `${definitions(kind).title.many}${placesText(own, placeOf)}`,
    );
    // A reason that begins with a number is about each of the collections.
    const each = same.length > 1 && /^\d/.test(reason) ? 'each ' : '';
    return `${label}: ${kindsText(kinds, most)}: ${each}${reason}`;
  });
}

function kindsText(kinds: readonly string[], most: number): string {
  const more = kinds.length - most;
  return `${kinds.slice(0, most).join(', ')}${more > 0 ? ` and ${plural(more, 'more kind')}` : ''}`;
}

/** Kinds named on one line; more are only counted. */
export const KINDS_SHOWN = 6;

/** What was left out on purpose, on one line without places: with the reason, if there is only one. */
export function leftOutLine(
  { left_out: notes = [] }: Pick<DiffDocument, 'left_out'>,
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  if (notes.length === 0) return [];
  const kinds = [...Map.groupBy(notes, ({ kind }) => kind)].map(([kind, own]) => {
    const name = definitions(kind).title.many;
    return own.length === 1 ? name : `${name} (${plural(own.length, 'list')})`;
  });
  const named = kindsText(kinds, KINDS_SHOWN);
  const reasons = [...new Set(notes.map(({ reason }) => reason))];
  const [reason = ''] = reasons;
  // A reason that begins with a number is about one list.
  return reasons.length === 1 && (notes.length === 1 || !/^\d/.test(reason))
    ? [`left out: ${named}: ${escapeControlCharacters(reason)}`]
    : [`left out, for ${plural(reasons.length, 'reason')} that \`-v\` shows: ${named}`];
}

function placesText(notes: readonly Noted[], placeOf: PlaceOf): string {
  const places = notes.map(({ scope }) => placeOf(scope)).filter((place) => place !== '');
  if (places.length === 0) return '';
  const more = places.length - SCOPES_SHOWN;
  return ` (${places.slice(0, SCOPES_SHOWN).join('; ')}${more > 0 ? `; and ${formatInteger(more)} more` : ''})`;
}

// Collections that were compared as last read (stale): if that may hide a change, a report must not say "no differences".

type Definitions = (kind: Kind) => ResourceDefinition;

/** The stale readings that may hide changes: they cause exit code 3. */
export function readingsThatMayHideChanges({ stale = [] }: Pick<DiffDocument, 'stale'>): readonly Stale[] {
  return stale.filter(mayHide);
}

/** These readings as text, a line for each reason. */
export function hidingLines(
  document: Pick<DiffDocument, 'stale'> & Partial<Pick<DiffDocument, 'from' | 'to'>>,
  definitions: Definitions,
  options: NotesOptions = {},
): string[] {
  const hiding = readingsThatMayHideChanges(document);
  const of = (isPartial: boolean, side: Stale['side']): readonly Stale[] =>
    heldOnce(hiding.filter((each) => (each.is_partial === true) === isPartial && each.side === side));
  const { from: { source: from = 'FROM' } = {}, to: { source: to = 'TO' } = {} } = document;
  return [
    ...groupedNotes('not fresh', of(false, 'to'), definitions, options),
    ...groupedNotes(`incomplete in ${nameText(from)}`, of(true, 'from'), definitions, options),
    ...groupedNotes(`incomplete in ${nameText(to)}`, of(true, 'to'), definitions, options),
  ];
}

/** Without lists of all components whose held removals are also in the lists of families. */
export function heldOnce<T extends { readonly kind: Kind; readonly scope: Scope; readonly held?: number }>(
  lists: readonly T[],
): T[] {
  return lists.filter(({ kind, scope, held }) => {
    if (definitionOf(kind).isUnionOfFamily !== true) return true;
    const families = familyKinds(kind).filter((each) => each !== kind);
    const same = lists.filter(
      (each) => families.includes(each.kind) && scopeKey(each.scope) === scopeKey(scope),
    );
    return same.reduce((sum, each) => sum + (each.held ?? 0), 0) !== held;
  });
}

/** The other stale readings as text: in FROM they only affect the date of a change. */
export function staleFromLines(
  { stale = [] }: Pick<DiffDocument, 'stale'>,
  definitions: Definitions,
  placeOf?: PlaceOf,
): string[] {
  return groupedNotes(
    'older than the rest',
    stale
      .filter((each) => !mayHide(each))
      // A limited run lacks the lists of most kinds: the places would fill a page.
      .map((each) => (each.is_limited === true ? { ...each, scope: {} } : each)),
    definitions,
    { placeOf },
  );
}

/** `acceptedText` with names and reason escaped. */
export function acceptedOnOneLine(
  { by, via, reason, ...acceptance }: Parameters<typeof acceptedText>[0],
  timeText?: (at: string) => string,
): string {
  const who = { by: nameText(by), ...defined({ via: via && nameText(via) }) };
  return acceptedText({ ...acceptance, ...who, reason: nameText(reason) }, timeText);
}

// Changes of the form of a kind's records: they explain differences, and are not drift.

/** Heading of the lines of `formLine`. */
export const FORMS_HEADING = 'not drift: the service changed the form of its records';

/** E.g. `roles: /name is gone (string)`. */
export function formChangeText({
  kind,
  field,
  change,
  before,
  after,
}: Omit<FormChange, 'runs' | 'kind'> & { readonly kind: string }): string {
  const types = (names: readonly string[]): string => (names.length === 0 ? '' : ` (${names.join(', ')})`);
  const text = {
    gained: `is new${types(after)}`,
    lost: `is gone${types(before)}`,
    retyped: `was ${before.join(' or ')}, is ${after.join(' or ')}`,
  }[change];
  return escapeControlCharacters(`${kind}: ${field} ${text}`);
}

/** `formChangeText` with the number of records that it explains and the runs that found it. */
export function formLine(form: ExplainedForm): string {
  const { runs, records } = form;
  return `${formChangeText(form)}: ${plural(records, 'record')}, ${runs.length === 1 ? 'run' : 'runs'} ${runs.join(', ')}`;
}

/** For a record whose list was not read since, or only in part. */
export function notReadText({
  run,
  reason,
  is_part: isPart,
}: {
  readonly run: number | null;
  readonly reason: string;
  readonly is_part?: true;
}): string {
  const last = run === null ? 'present when last read' : `present when last read, in run ${run}`;
  return isPart === true ? `${last}: ${reason}` : `${last}: not read since (${reason})`;
}

// Records that continue under a new id.

/** E.g. `created again by restore 3 (ann@host; id 2 → 5)`; the ids are already masked if they are secret. */
export function recreatedText(again: Recreated, id: string): string {
  const ids = `id ${nameText(again.was)} → ${nameText(id)}`;
  return `${recreation(again)} (${byText(again)}; ${ids})`;
}

/** How a record got another id, and until when it had it: `created again by restore 3 (ann@host)`. */
export function otherIdText({ isLater, created, returned }: OtherId): string {
  const parts = [
    created && `${recreation(created)} (${byText(created)})`,
    returned &&
      (isLater ? `back in run ${returned.run}` : `until an earlier id was back in run ${returned.run}`),
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function recreation({ restore, is_recognised: isRecognised }: Recreated): string {
  return isRecognised === true
    ? `created again elsewhere, recognised by restore ${restore}`
    : `created again by restore ${restore}`;
}

/** `changed by restore 1 (ann@host)`; if it wrote only some of the fields, `changed, /name by restore 1 (ann@host)`. */
export function writtenText(
  change: string,
  by: WrittenBy,
  fields: readonly Pick<FieldChange, 'path'>[],
): string {
  const { paths } = by;
  const isPart = paths !== undefined && fields.some(({ path }) => !paths.includes(path));
  return `${change}${isPart ? `, ${paths.map((path) => nameText(path)).join(', ')}` : ''} by ${restoreText(by)}`;
}

/** `restore 1 (ann@host)`, `restore 1 (ann (token@dashboard))`. */
export function restoreText(by: Pick<WrittenBy, 'restore' | 'by' | 'via'>): string {
  return `restore ${by.restore} (${byText(by)})`;
}

/** `changed`, or how the record was recreated; both for a record that was added or removed. */
export function changeText({
  change,
  id,
  created_again: again,
  changed_by: by,
  fields,
}: Pick<RecordChange, 'id' | 'created_again' | 'changed_by' | 'fields'> & {
  readonly change: RecordChange['change'] | 'returned';
}): string {
  if (again === undefined) return by === undefined ? change : writtenText(change, by, fields);
  const text = recreatedText(again, id);
  return change === 'changed' ? text : `${change}, ${text}`;
}
