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

/** The beginning of a report about one record: name, what another program altered in its history, id, place, then `facts`. */
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
    /** The run as of which the record and the names of its parents are shown. */
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

/** Masks both ids, if they are secret and secrets are not shown. */
export function shownRenewal<T extends RenewedId>(
  renewal: T,
  { definition }: FoundRecord,
  { showSecrets }: RecordQuestion & { readonly showSecrets?: boolean },
): T {
  if (showSecrets === true) return renewal;
  return { ...renewal, id: maskedId(renewal.id, definition), was: maskedId(renewal.was, definition) };
}

/** The other ids of a record, earlier and later ones, newest first. */
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

/** The line for stderr about a record that had another id at the time shown. Secret ids must be masked already. */
export function formerIdNote(id: string, was: string): string {
  return `under its former id ${nameText(was)}: the record got the id ${nameText(id)} later`;
}

/** For a record that a run did not find, while its removal is held. */
export function missingText({ run }: SeenAt): string {
  return `missing since run ${run}, its removal is held`;
}

/** For a record of which it is not known whether it was missing. */
export function perhapsMissingText({ heldRun, removedRun }: PerhapsMissing): string {
  const since =
    removedRun === null
      ? 'the list was read again since: it is not known which'
      : `run ${removedRun} removed it`;
  return `present or missing: run ${heldRun} held removals of its list, and ${since}`;
}

/** The same as a JSON object. */
export function perhapsMissingDocument({ heldRun, removedRun }: PerhapsMissing): object {
  return { held_run: heldRun, removed_run: removedRun };
}

/** The notes without undefined. */
export function notesOf(...notes: readonly (string | undefined)[]): string[] {
  return notes.filter((note) => note !== undefined);
}

/** The newest name, as `recordName`, of a record that did not exist yet at the time shown. */
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

/** The line for stderr that the record did not exist yet. */
export function notThereYet(mirror: Mirror, found: FoundRecord, at: string, showsSecrets: boolean): string {
  const { row, definition } = found;
  const own = { id: row.id, name: knownName(mirror, found) };
  const { id, name } = showsSecrets ? own : withMaskedId(own, definition);
  return `${definition.title.one} ${nameText(name)} of ${row.source} did not exist yet as of ${at}: \`tidemark log ${row.kind} ${nameText(id)}\` shows since when it is`;
}
