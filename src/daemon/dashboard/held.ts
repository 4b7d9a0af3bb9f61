/** Records that the service no longer shows, and whose removals are held: no drift, and no change of the mirror yet. */
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { count } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { isSecretId, maskedId, withMaskedId } from '../../report/mask.ts';
import { nameText } from '../../report/value-text.ts';
import { firstHeld, heldAdvice, namedRemovals, sourceLookup } from '../../state/held-names.ts';
import { parentNames } from '../../state/parent-names.ts';
import { heldUntilText, isCreatable, reviewCommands } from '../../sync/removals.ts';
import {
  capital,
  faint,
  hintHtml,
  nameHtml,
  placeOf,
  recordPath,
  section,
  tableHtml,
  withCommands,
} from './components.ts';
import { selectAllText, selectionOf } from './drift.ts';
import { type HtmlPart, markup, NOTHING } from './html.ts';

interface HeldOptions {
  readonly sources: readonly string[];
  /** How many are listed. */
  readonly most: number;
  /** Beside the heading. */
  readonly aside?: HtmlPart;
  /** True where several can be selected for one plan. */
  readonly canSelect?: boolean;
}

/** Name of the mark, in the query of a plan, that held records are selected and no findings. */
export const HELD = 'held';

/** Each with a link to its page, where its restore can be planned; nothing without held removals. */
export function heldSection(
  mirror: Mirror,
  config: Config,
  { sources, most, aside = NOTHING, canSelect = false }: HeldOptions,
): HtmlPart {
  const held = sources
    .map((source) => ({
      source,
      removals: namedRemovals(mirror, source, sourceLookup(config)),
    }))
    .filter(({ removals }) => removals.length > 0);
  if (held.length === 0) return NOTHING;
  const all = held.flatMap(({ removals }) => removals).reduce((sum, { records }) => sum + records, 0);
  /** By source, the records that are listed, and those of them that can be selected. */
  const listed = new Map<string, number>();
  const selectable = new Map<string, number>();
  const rows = held
    .flatMap(({ source }) => {
      const definitions = definitionsFor(config, source);
      const parentName = parentNames(mirror, source, definitions);
      return firstHeld(mirror, source, definitions, most).map((each) => ({
        ...{ source, each, definitions, parentName },
      }));
    })
    .slice(0, most)
    .map(({ source, each, definitions, parentName }) => {
      const definition = definitions(each.kind);
      listed.set(source, (listed.get(source) ?? 0) + 1);
      const { name } = withMaskedId(each, definition);
      const path = recordPath(each.kind, maskedId(each.id, definition), each.record);
      const isOffered = canSelect && isCreatable(definition) && !isSecretId(definition);
      if (isOffered) selectable.set(source, (selectable.get(source) ?? 0) + 1);
      const box = isOffered
        ? markup`<label class="pick"><input type="checkbox" name="record" form="${formId(source)}" value="${selectionOf(each)}">Select</label>`
        : NOTHING;
      return [
        markup`<a href="${path}">${nameHtml(nameText(name))}</a>`,
        capital(definition.title.one),
        faint(placeOf(each.scope, definitions, parentName)),
        ...(sources.length > 1 ? [nameHtml(source)] : []),
        markup`missing since <a href="/runs/${each.since}">run ${each.since}</a>, held`,
        ...(canSelect ? [box] : []),
      ];
    });
  const more = all - rows.length;
  const columns = [
    { head: 'Record', style: 'wraps' },
    { head: 'Kind' },
    { head: 'In', style: 'spare' },
    ...(sources.length > 1 ? [{ head: 'Source', style: 'below', label: 'Source' }] : []),
    { head: 'State', style: 'below' },
    ...(canSelect ? [{ head: 'Plan', style: 'below' }] : []),
  ];
  const forms = [...selectable].map(
    ([source, offered]) => markup`<form class="search" id="${formId(source)}" method="get" action="/restore">
<input type="hidden" name="source" value="${source}"><input type="hidden" name="${HELD}" value="1"><label class="pick" data-all hidden><input type="checkbox">${selectAllText(offered, more > 0)}</label>
<button>Plan a restore of the selected records${sources.length > 1 ? markup` of ${nameHtml(source)}` : NOTHING}</button></form>`,
  );
  const rest = held.map(({ source, removals }) => {
    const left = removals.reduce((sum, { records }) => sum + records, 0) - (listed.get(source) ?? 0);
    if (left === 0) return NOTHING;
    const isMoved = removals.some(({ until }) => (until?.moved ?? null) !== null);
    const plans = isMoved ? '' : `: ${reviewCommands(removals, source).restoring('all').join('; ')}`;
    return markup`<p class="faint">and ${count(left)} more${sources.length > 1 ? markup` of ${nameHtml(source)}` : NOTHING}${withCommands(plans)}</p>`;
  });
  const commands = held.map(({ source, removals }) => {
    return hintHtml(
      `${capital(`${heldUntilText(removals)}; ${heldAdvice(removals, sources.length > 1 ? source : null, 'them')}`)}.`,
    );
  });
  return section(
    'held',
    'Missing, removal held',
    aside,
    forms,
    tableHtml('Held removals', columns, rows),
    rest,
    commands,
  );
}

function formId(source: string): string {
  return `held-${encodeURIComponent(source)}`;
}
