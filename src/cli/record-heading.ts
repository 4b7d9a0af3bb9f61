/** The heading of commands about one record: its name, scope and facts. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source.ts';
import { localTime } from '../core/wording.ts';
import { otherIds, type IdChange, type RenewedId, type SeenAt } from '../diff/history.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { Fact, ReportDocument } from '../report/document.ts';
import { maskedId, withMaskedId } from '../report/mask.ts';
import { otherIdText, placeText } from '../report/notes.ts';
import { nameText } from '../report/value-text.ts';
import { parentNames, storedName } from '../state/parent-names.ts';
import type { PerhapsMissing } from '../state/record-history.ts';
import type { FoundRecord, RecordQuestion } from './record.ts';

/** `run 4, 2026-03-01T08:00:00+01:00`. */
export function seenAtText({ run, at, may_be_earlier: mayBeEarlier }: SeenAt): string {
  return `run ${run}, ${localTime(at)}${mayBeEarlier === true ? ' or earlier' : ''}`;
}

/** The beginning of a report about one record: its name, what was altered of its history, id and place, then the facts given. */
export function recordReport(
  mirror: Mirror,
  config: Config,
  found: FoundRecord,
  {
    name: ownName,
    showsSecrets,
    altered,
    run,
  }: {
    readonly name: string;
    readonly showsSecrets: boolean;
    readonly altered: readonly string[];
    /** As of which run the record is shown: its parents are named as of then. */
    readonly run?: number;
  },
  facts: readonly Fact[],
): Pick<ReportDocument, 'title' | 'textTitle' | 'facts'> {
  const { row, definition } = found;
  const definitions = definitionsFor(config, row.source);
  const own = { id: row.id, name: ownName };
  const { id, name } = showsSecrets ? own : withMaskedId(own, definition);
  const place = placeText(row.scope, {
    definitions,
    parentName: parentNames(mirror, row.source, definitions, run),
  });
  return {
    title: `${definition.title.one} ${nameText(name)}`,
    textTitle: 'label',
    facts: [
      ...altered,
      ['id', nameText(id)],
      ...(place === '' ? [] : [['is in', place] as const]),
      ...(config.sources.length > 1 ? [['source', nameText(row.source)] as const] : []),
      ...facts,
    ],
  };
}

/** As shown: both ids masked where they are secrets. */
export function shownRenewal<T extends RenewedId>(
  renewal: T,
  { definition }: FoundRecord,
  { showSecrets }: RecordQuestion & { readonly showSecrets?: boolean },
): T {
  if (showSecrets === true) return renewal;
  return { ...renewal, id: maskedId(renewal.id, definition), was: maskedId(renewal.was, definition) };
}

/** The other ids of a record, newest first, one line each: if the user gave an earlier id, which one it has now. */
export function otherIdFacts(
  changes: readonly IdChange[],
  { row, definition }: FoundRecord,
  { showSecrets }: RecordQuestion & { readonly showSecrets?: boolean },
): (readonly [string, string])[] {
  return otherIds(changes, row.id).map((other) => {
    const id = showSecrets === true ? other.id : maskedId(other.id, definition);
    return [other.isLater ? 'continues as' : 'id before', `${nameText(id)}, ${otherIdText(other)}`];
  });
}

/** One line for stderr, where a record is shown as of a time when it had another id. Secret ids are masked before. */
export function formerIdNote(id: string, was: string): string {
  return `under its former id ${nameText(was)}: the record got the id ${nameText(id)} later`;
}

/** Of a record that a run did not find. */
export function missingText({ run }: SeenAt): string {
  return `missing since run ${run}, its removal is held`;
}

/** Of a record that may have been missing. */
export function perhapsMissingText({ heldRun, removedRun }: PerhapsMissing): string {
  const since =
    removedRun === null
      ? 'the list was read again since: it is not known which'
      : `run ${removedRun} removed it`;
  return `present or missing: run ${heldRun} held removals of its list, and ${since}`;
}

export function perhapsMissingDocument({ heldRun, removedRun }: PerhapsMissing): object {
  return { held_run: heldRun, removed_run: removedRun };
}

/** The notes that there are. */
export function notesOf(...notes: readonly (string | undefined)[]): string[] {
  return notes.filter((note) => note !== undefined);
}

/** The newest name, as `recordName`: of a record that is asked for as of a time when it did not exist yet. */
export function knownName(mirror: Mirror, { row, definition }: FoundRecord): string {
  const { source, kind, scope, id } = row;
  const removed = { sources: [source], kinds: [kind], ids: [id] };
  const body =
    row.body ??
    Iterator.from(mirror.records.removedBodies(removed)).find(
      (each) => scopeKey(each.scope) === scopeKey(scope),
    )?.body;
  return body === undefined ? id : storedName(definition, body, id);
}

/** Why a record has nothing to show, for stderr. */
export function notThereYet(mirror: Mirror, found: FoundRecord, at: string, showsSecrets: boolean): string {
  const { row, definition } = found;
  const own = { id: row.id, name: knownName(mirror, found) };
  const { id, name } = showsSecrets ? own : withMaskedId(own, definition);
  return `${definition.title.one} ${nameText(name)} of ${row.source} did not exist yet as of ${at}: \`tidemark log ${row.kind} ${nameText(id)}\` shows since when it is`;
}
