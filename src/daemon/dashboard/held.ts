/** The records whose removals are held: the service no longer shows them, but they do not count as drift yet. */
import type { Config } from '../../config/config.ts';
import { definitionsFor } from '../../config/source.ts';
import { formatInteger } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { isSecretId, maskedId, withMaskedId } from '../../report/mask.ts';
import { nameText } from '../../report/value-text.ts';
import { firstHeld, heldAdvice, namedRemovals, sourceLookup } from '../../state/held-names.ts';
import { parentNames } from '../../state/parent-names.ts';
import { heldUntilText, isCreatable, reviewCommands } from '../../sync/removals.ts';
import { capital } from '../../report/document.ts';
import {
  faint,
  hiddenInputs,
  hintHtml,
  nameHtml,
  placeOf,
  recordPath,
  section,
  tableHtml,
  withCommands,
} from './components.ts';
import { selectAllText, selectBox, selectionForm } from './restore-selection.ts';
import { type HtmlPart, markup, NOTHING } from './html.ts';

interface HeldOptions {
  readonly sources: readonly string[];
  /** Records listed at most. */
  readonly most: number;
  /** Shown beside the heading. */
  readonly aside?: HtmlPart;
  /** True adds boxes that select records for one plan. */
  readonly canSelect?: boolean;
}

/** The parameter of a plan that says that held removals are selected, not findings. */
export const HELD = 'held';

/** The held removals, each with a link to the record's page, where its restore can be planned; nothing without any. */
export function heldSection(
  mirror: Mirror,
  config: Config,
  { sources, most, aside = NOTHING, canSelect = false }: HeldOptions,
): HtmlPart {
  const held = sources
    .map((source) => ({ source, removals: namedRemovals(mirror, source, sourceLookup(config)) }))
    .filter(({ removals }) => removals.length > 0);
  if (held.length === 0) return NOTHING;
  const hasOthers = sources.length > 1;
  const ofSource = (source: string): HtmlPart => (hasOthers ? markup` of ${nameHtml(source)}` : NOTHING);
  const all = held.reduce((sum, { removals }) => sum + countOf(removals), 0);
  const listed = held
    .flatMap(({ source }) => {
      const definitions = definitionsFor(config, source);
      const parentName = parentNames(mirror, source, definitions);
      return firstHeld(mirror, source, definitions, most).map((record) => ({
        ...{ source, record, definition: definitions(record.kind) },
        place: placeOf(record.scope, definitions, parentName),
      }));
    })
    .slice(0, most);
  const isSelectable = ({ definition }: (typeof listed)[number]): boolean =>
    canSelect && isCreatable(definition) && !isSecretId(definition);
  const rows = listed.map((each) => {
    const { source, record, definition, place } = each;
    const { name } = withMaskedId(record, definition);
    const path = recordPath(record.kind, maskedId(record.id, definition), record.record);
    return [
      markup`<a href="${path}">${nameHtml(nameText(name))}</a>`,
      capital(definition.title.one),
      faint(place),
      ...(hasOthers ? [nameHtml(source)] : []),
      markup`missing since <a href="/runs/${record.since}">run ${record.since}</a>, held`,
      ...(canSelect ? [isSelectable(each) ? selectBox(formId(source), record) : NOTHING] : []),
    ];
  });
  const columns = [
    { head: 'Record', style: 'wraps' },
    { head: 'Kind' },
    { head: 'In', style: 'spare' },
    ...(hasOthers ? [{ head: 'Source', style: 'below', label: 'Source' }] : []),
    { head: 'State', style: 'below' },
    ...(canSelect ? [{ head: 'Plan', style: 'below' }] : []),
  ];
  const forms = [...Map.groupBy(listed.filter(isSelectable), ({ source }) => source)].map(
    ([source, { length }]) =>
      selectionForm(formId(source), {
        hidden: hiddenInputs([
          ['source', source],
          [HELD, '1'],
        ]),
        selectAll: selectAllText(length, all > rows.length),
        of: ofSource(source),
      }),
  );
  const rest = held.map(({ source, removals }) => {
    const left = countOf(removals) - listed.filter((each) => each.source === source).length;
    if (left === 0) return NOTHING;
    const isMoved = removals.some(({ until }) => (until?.moved ?? null) !== null);
    const plans = isMoved ? '' : `: ${reviewCommands(removals, source).restoring('all').join('; ')}`;
    return markup`<p class="faint">and ${formatInteger(left)} more${ofSource(source)}${withCommands(plans)}</p>`;
  });
  const advice = held.map(({ source, removals }) => {
    const text = heldAdvice(removals, hasOthers ? source : null, 'them');
    return hintHtml(`${capital(`${heldUntilText(removals)}; ${text}`)}.`);
  });
  const table = tableHtml('Held removals', columns, rows);
  return section('held', ['Missing, removal held', aside], forms, table, rest, advice);
}

function countOf(removals: readonly { readonly records: number }[]): number {
  return removals.reduce((sum, { records }) => sum + records, 0);
}

function formId(source: string): string {
  return `held-${encodeURIComponent(source)}`;
}
