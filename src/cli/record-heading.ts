/** How a command about one record begins: what it is called, where it stands, what is known of it. */
import { createColors } from 'picocolors';
import type { Config } from '../config/config.ts';
import { definitionsFor } from '../config/source-definitions.ts';
import type { RenewedId, Sighting } from '../diff/history.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { recreatedByText } from '../report/recreated-text.ts';
import { maskedId, withMaskedId } from '../report/mask.ts';
import { nameText, placeText } from '../report/sections.ts';
import { parentNames } from '../state/parent-names.ts';
import { isColoured, type CommandContext } from './context.ts';
import type { FoundRecord, RecordQuestion } from './record-lookup.ts';

/** `run 4, 2026-03-01T07:00:00.000Z`. */
export function sightingText({ run, at }: Sighting): string {
  return `run ${run}, ${at}`;
}

/** Name first, then id and place, then the facts given, in two columns; ends with an empty line. */
export function recordHeading(
  context: CommandContext,
  mirror: Mirror,
  config: Config,
  found: FoundRecord,
  { name: ownName, showsSecrets }: { readonly name: string; readonly showsSecrets: boolean },
  facts: readonly (readonly [string, string])[],
): string {
  const { bold, dim } = createColors(isColoured(context));
  const { row, definition } = found;
  const definitions = definitionsFor(config, row.source);
  const own = { id: row.id, name: ownName };
  const { id, name } = showsSecrets ? own : withMaskedId(own, definition);
  const place = placeText(row.scope, {
    definitions,
    parentName: parentNames(mirror, row.source, definitions),
  });
  const lines: (readonly [string, string])[] = [
    ['id', nameText(id)],
    ...(place === '' ? [] : [['stands in', place] as const]),
    ...(config.sources.length > 1 ? [['source', nameText(row.source)] as const] : []),
    ...facts,
  ];
  const width = Math.max(...lines.map(([key]) => key.length)) + 2;
  return [
    `${definition.title.one} ${bold(nameText(name))}`,
    ...lines.map(([key, value]) => `  ${dim(key.padEnd(width))}${value}`),
    '',
    '',
  ].join('\n');
}

/** As it is to be shown: both ids masked where they are secrets. */
export function shownRenewal(
  renewal: RenewedId,
  { definition }: FoundRecord,
  { showSecrets }: RecordQuestion & { readonly showSecrets?: boolean },
): RenewedId {
  if (showSecrets === true) return renewal;
  return { ...renewal, id: maskedId(renewal.id, definition), was: maskedId(renewal.was, definition) };
}

/** Under which ids a record went on, newest first: a line each. */
export function renewalFacts(
  renewals: readonly RenewedId[],
  found: FoundRecord,
  options: RecordQuestion & { readonly showSecrets?: boolean },
): (readonly [string, string])[] {
  // Asked for by an id that it had, a reader looks for where it is now.
  const isLater = renewals.findIndex(({ was }) => was === found.row.id);
  return renewals.map((renewal, index) => {
    const shown = shownRenewal(renewal, found, options);
    const [what, id] = index <= isLater ? ['goes on as', shown.id] : ['id before', shown.was];
    return [what, `${nameText(id)}, ${recreatedByText(shown)}`];
  });
}

/** The remarks that there are. */
export function notesOf(...remarks: readonly (string | undefined)[]): string[] {
  return remarks.filter((remark) => remark !== undefined);
}

/** Why there is nothing to show of a record, for stderr. */
export function notThereYet({ row, definition }: FoundRecord, at: string, showsSecrets: boolean): string {
  const { id } = showsSecrets ? row : withMaskedId({ id: row.id, name: row.id }, definition);
  return `${row.kind} ${id} of ${row.source} was not there yet as of ${at}: \`tidemark log ${row.kind} ${id}\` tells since when it is`;
}
